"""The Python interface: train many seeds in one call, then measure the result."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import torch

from iclab.config import InputError
from iclab.engines import (
    ENGINES,
    EngineName,
    Recipe,
    Trained,
    Training,
    answers,
    stacking_obstacle,
    warn_beyond_theory,
    weights,
)
from iclab.engines import train as train_seeds
from iclab.lab.events import Kind, announced
from iclab.lab.forecast import Forecast
from iclab.lab.meter import Meter
from iclab.lab.progress import ProgressPrinter
from iclab.models import Answer, Model, combine
from iclab.probes import Proportion, Pruning, Row, measure
from iclab.probes.exact import EXACT, exact_obstacle, exact_rows
from iclab.prompts import PromptBatch, Prompts
from iclab.theory.evolution import GRID


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
    progress: bool = False,
) -> Run:
    """Train many seeds of a model.

    Args:
        model: a built-in name (``mamba``, ``linear``, ``softmax``, ``deep-mamba``, …), a `Model` with options, or your
            own ``nn.Module`` class. The class gets ``width`` and ``context_length`` if its constructor accepts them,
            and maps dense prompts (batch, length + 1, width) to outputs (batch,).
        prompts: the distribution of training prompts.
        recipe: loss, optimiser, steps, batch size.
        seeds: how many (0 … seeds − 1), or a list of them. Seeds are trained in fixed groups, mostly of eight, so
            that a seed's result does not depend on which others you ask for.
        engine: ``fused`` is about thirty times faster and runs ``mamba`` and ``linear`` under SGD; ``compact`` is
            about three times faster and runs ``softmax-mlp``; ``auto`` picks the fastest that applies.
        dtype: ``float32`` or ``float64``.
        device: ``cpu`` or ``cuda``.
        basis_seed: fixes the rotation of the patterns; by default every seed has its own.
        progress: show a progress bar on standard error.

    Example:
        >>> run = train("linear", recipe=Recipe(steps=20, step_size=0.05), seeds=2)
        >>> run.error(count=500).mean
        0.0
    """
    spec = model if isinstance(model, Model) else Model(name=model)
    training = Training(
        model=spec,
        prompts=prompts or Prompts(),
        recipe=recipe or Recipe(),
        engine=engine,
        dtype=dtype,
        device=device,
        basis_seed=basis_seed,
    )
    warn_beyond_theory(training)
    asked = tuple(range(seeds)) if isinstance(seeds, int) else tuple(seeds)
    if not asked or len(set(asked)) < len(asked):
        raise InputError(f"seeds = {seeds!r}: must be at least 1, or a list of different seeds")
    groups = _groups(training, asked)
    kind = Kind("training", training.model.label, training.engine)
    work = [training.recipe.steps * training.recipe.batch_size * len(group) for group in groups]
    forecast = Forecast([(kind, prompts, 1) for prompts in work], {})
    parts = []
    with announced(forecast, ProgressPrinter(training.model.label, forecast, quiet=not progress)) as listen:
        for group, prompts_left in zip(groups, work, strict=True):
            meter = Meter(kind, prompts_left, listen)
            parts.append(train_seeds(training, group, meter.advance, meter.notice, os.cpu_count() or 1))
            meter.finish()
    return Run(Trained.join(parts).select(asked))


def _groups(training: Training, seeds: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Return the groups of seeds to train so that every one of ``seeds`` gets the result it has in a store."""
    if ENGINES[training.engine].separate_seeds:  # train just these
        return [seeds]
    if stacking_obstacle(training):  # the same, one by one
        return [(seed,) for seed in seeds]
    size = training.model.architecture.group_size
    return [tuple(range(size * g, size * (g + 1))) for g in sorted({seed // size for seed in seeds})]


class Run:
    """Trained seeds of one model, ready to be measured."""

    def __init__(self, trained: Trained) -> None:
        self.trained = trained

    @property
    def training(self) -> Training:
        """The model, prompts and recipe of the training."""
        return self.trained.training

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds, in the order of every array's first dimension."""
        return self.trained.seeds

    @property
    def diverged(self) -> tuple[int, ...]:
        """The seeds whose loss or weights stopped being finite."""
        return tuple(seed for seed, lost in zip(self.seeds, self.trained.diverged, strict=True) if lost)

    def weights(self, at: int | None = None) -> dict[str, torch.Tensor]:
        """Return the weights by name, shape (seeds, …), after step ``at`` (0, a snapshot, or by default the last)."""
        return weights(self.trained, at)

    def error(
        self,
        prompts: Prompts | None = None,
        *,
        labels: Literal["worst"] | None = None,
        placement: Literal["worst"] | None = None,
        count: int = 10_000,
        at: int | None = None,
    ) -> Proportion:
        """Return 1 − Pr(z·F > 0) on ``count`` test prompts per seed, with intervals over seeds and over prompts.

        With ``labels="worst"``, outliers show the labels that make z·F smallest, prompt by prompt, whatever rule the
        prompts have; with ``placement="worst"`` too, they also stand at the worst positions. This is exact, for models
        of one layer (help(iclab.probes.worst) has the equations).
        """
        for name, value in (("labels", labels), ("placement", placement)):
            if value not in (None, "worst"):
                raise InputError(f"{name} = {value!r}: must be 'worst' or not given; other rules belong to the prompts")
        if placement and not labels:
            raise InputError("placement = 'worst': needs labels = 'worst' too")
        probe = "worst-placement" if placement else "worst" if labels else "error"
        rows = self.measure(probe, prompts, count=count, at=at)
        return Proportion.of([row.get("error") for row in rows], count)

    def exact_error(
        self,
        prompts: Prompts | None = None,
        *,
        at: int | None = None,
        grid: int = GRID,
        nodes: int | None = None,
        bracket: bool = False,
    ) -> list[Row]:
        """Return each seed's error rate and hinge loss without sampling, for models of one layer.

        Args:
            prompts: the test prompts, by default those of the training.
            at: the step after which to measure; by default the last.
            grid: how many values the model's state may take. More are slower and closer.
            nodes: how many values the query's κ may take; by default 3 for Mamba and 5 for the linear model.
            bracket: add rigorous bounds of the error of the grid; about three times slower.

        A row has ``error``, ``error_bound``, ``hinge`` and ``hinge_bound``. A bound is three times the change when the
        grid has half as many points and κ one value less. With ``bracket``, ``error_low`` … ``hinge_high`` are certain
        for the given values of κ. ``help(iclab.probes.exact)`` has the equations.
        """
        measured, step = prompts or self.training.prompts, self.training.recipe.steps if at is None else at
        if obstacle := exact_obstacle(self.training, 1) or self.training.prompts.fits(measured):
            raise InputError(obstacle)
        lost = {s for s, d in zip(self.seeds, self.trained.diverged_at, strict=True) if 0 <= d <= step}
        alive, rows = tuple(seed for seed in self.seeds if seed not in lost), {}
        if alive:
            trained, how = self.trained.select(alive), {"grid": grid, "nodes": nodes, "bracket": bracket}
            threads = os.cpu_count() or 1
            found = exact_rows(trained, weights(trained, at), measured, threads=threads, **how)  # type: ignore[arg-type]
            rows = {row["seed"]: row | {"diverged": False} for row in found}
        none: Row = dict.fromkeys(EXACT)
        return [rows.get(seed, {"seed": seed} | none | {"diverged": True}) for seed in self.seeds]

    def attention(self, prompts: Prompts | None = None, *, count: int = 2_000, at: int | None = None) -> list[Row]:
        """Return each seed's attention on examples with the query's pattern (``same``) and on the others.

        Each is the sum over such examples, averaged over prompts.
        """
        return self.measure("attention", prompts, count=count, at=at)

    def gates(self, prompts: Prompts | None = None, *, count: int = 2_000, at: int | None = None) -> list[Row]:
        """Return each seed's mean gate by distance from the query, for clean and outlier examples."""
        return self.measure("gates", prompts, count=count, at=at)

    def measure(
        self,
        probe: str,
        prompts: Prompts | None = None,
        *,
        count: int = 10_000,
        at: int | Literal["every"] | None = None,
        pruning: Pruning | None = None,
    ) -> list[Row]:
        """Return the rows of any probe, after pruning if asked; ``error`` also counts hinge loss, ties and NaN.

        ``at="every"`` measures after every kept step and adds the column ``step``.
        """
        prompts, threads = prompts or self.training.prompts, os.cpu_count() or 1
        return measure(self.trained, probe, prompts, count, at=at, pruning=pruning, threads=threads)

    def answer(
        self, prompts: Prompts | None = None, *, count: int = 1, at: int | None = None
    ) -> tuple[PromptBatch, Answer]:
        """Return ``count`` test prompts per seed, with each seed's output, attention and gates on them."""
        parts = list(answers(self.trained, prompts or self.training.prompts, count, at=at))
        batches, replies = zip(*parts, strict=True)
        return PromptBatch.join(batches), combine(replies, lambda chunks: torch.cat(chunks, dim=1))

    def save(self, path: str | Path) -> None:
        """Write weights, snapshots and the description to one safetensors file, for `load`.

        The fused engine saves the coordinates it works in; ``load(path).weights()`` turns them into matrices.
        """
        self.trained.save(Path(path))

    def __repr__(self) -> str:
        lost = f", {len(self.diverged)} diverged" if self.diverged else ""
        return f"Run({self.training.model.label}, {len(self.seeds)} seeds, {self.training.recipe.steps} steps{lost})"


def load(path: str | Path) -> Run:
    """Read a file that `Run.save` wrote.

    If it holds a model of your own, `load` imports that module, whose source must be unchanged. Load only files you
    trust.
    """
    return Run(Trained.load(Path(path)))
