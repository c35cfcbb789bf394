"""`iclab.train`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import torch

from iclab import lab
from iclab.api.asking import how_to_run, opened, seeds_of, training_of
from iclab.api.runs import Run
from iclab.engines import EngineName, Recipe, Trained, warn_beyond_theory
from iclab.lab import Store, TrainingCell
from iclab.lab.events import Listener
from iclab.lab.executors import Executor
from iclab.models import Model
from iclab.prompts import Prompts


def train(
    model: str | type[torch.nn.Module] | Model,
    prompts: Prompts | None = None,
    recipe: Recipe | None = None,
    *,
    seeds: int | Iterable[int] = 8,
    engine: EngineName = "auto",
    dtype: Literal["float32", "float64"] = "float32",
    device: Literal["cpu", "cuda"] = "cpu",
    basis_seed: int | None = None,
    store: Store | Path | str | None = None,
    workers: int | None = None,
    progress: bool = False,
    on_progress: Listener | None = None,
    executor: Executor | None = None,
) -> Run:
    """Train many seeds of a model, on all cores.

    Args:
        model: a built-in name (``mamba``, ``linear``, ``softmax``, ``deep-mamba``, …), a `Model` with options, or your
            own ``nn.Module`` class. The class gets ``width`` and ``context_length`` if its constructor accepts them,
            and maps dense prompts (batch, length + 1, width) to outputs (batch,).
        prompts: the distribution of training prompts.
        recipe: loss, optimiser, steps, batch size. If it names no step size, SGD takes the one that the model declares
            (1 if it declares none), and other optimisers take torch's default.
        seeds: how many (0 … seeds − 1), or a list of them. A seed's result is always the same, to the bit. So seeds of
            most models are stacked in fixed groups, mostly of eight, and train together even if you ask for one: a
            smaller stack rounds differently. The fused engine and models that cannot be stacked train just your seeds.
        engine: ``fused`` is about thirty times faster and runs ``mamba``, ``linear`` and ``softmax-mlp`` under SGD;
            ``compact`` is about three times faster and runs ``softmax-mlp``; ``auto`` picks the fastest that applies.
        dtype: ``float32`` or ``float64``.
        device: ``cpu`` or ``cuda``.
        basis_seed: fixes the rotation of the patterns; by default every seed has its own.
        store: a folder that keeps finished groups of seeds, also after Ctrl-C, and from which the next call takes them,
            such as the command line's ``results/store``. By default nothing is kept.
        workers: how many cores to use; by default all. A model or rule from a notebook or script runs
            in this process, because others cannot import it.
        progress: show a progress bar on standard error.
        on_progress: called with every event of the run: see ``help(iclab.lab.events)``.
        executor: what computes the cells, such as ``iclab.lab.RayExecutor("auto")``; by default this machine.

    Example:
        >>> run = train("linear", recipe=Recipe(steps=20, step_size=0.05), seeds=2)
        >>> run.error(count=500).mean
        0.0
    """
    training = training_of(model, prompts, recipe, engine=engine, dtype=dtype, device=device, basis_seed=basis_seed)
    asked = seeds_of(seeds)
    warn_beyond_theory(training)
    with opened(store) as place:
        cells = TrainingCell.covering(training, asked, place.has)
        lab.run(cells, place, title=training.model.label, **how_to_run(workers, progress, on_progress, executor))
        parts = [place.load_training(cell) for cell in cells]
    return Run(Trained.join(parts).select(asked))
