"""`iclab.Run`: trained seeds, to be measured, looked into and changed."""

from __future__ import annotations

import html
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from iclab.api.asking import prompts_of
from iclab.api.changing import changed_weights, on_reference
from iclab.config import InputError, check_whole, shown, unknown_key
from iclab.engines import Trained, Training, answers, intervening, kept_step, weights
from iclab.engines.intervening import Change, Interventions
from iclab.models import Answer, combine
from iclab.probes import Proportion, Pruning, Row, measure
from iclab.probes.exact import EXACT, exact_obstacle, exact_rows
from iclab.probes.probes import intervention_obstacle
from iclab.prompts import PromptBatch, Prompts, Stream
from iclab.study.frames import as_frame, as_table
from iclab.theory.evolution import GRID

if TYPE_CHECKING:
    import pyarrow as pa


class Run:
    """Trained seeds of one model, ready to be measured, looked into and changed.

    A run never changes: `with_weights` and `intervene` return others.
    """

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

    @property
    def stopped_at(self) -> dict[int, int]:
        """How many steps each seed took that stopped early, by seed; empty if none did."""
        pairs = zip(self.seeds, self.trained.stopped_at.tolist(), strict=True)
        return {seed: steps for seed, steps in pairs if steps >= 0}

    @property
    def losses(self) -> NDArray[np.float64]:
        """(steps, seeds) the loss of each seed on its batch before each step; NaN after a divergence or an early stop.

        `diverged` and `stopped_at` tell these apart.
        """
        return self.trained.losses.copy()

    def weights(self, at: int | None = None) -> dict[str, torch.Tensor]:
        """Return a copy of the weights by name, (seeds, …), after step ``at`` (0, a snapshot, or by default the last).

        To measure a model with other weights, give them to `with_weights`.
        """
        return {name: value.clone() for name, value in weights(self.trained, at).items()}

    def module(self, seed: int, *, at: int | None = None) -> torch.nn.Module:
        """Return one trained seed as a ``torch.nn.Module`` that answers as this run does; `tokens` makes its prompts.

        Example:
            >>> import iclab
            >>> run = iclab.train("mamba", recipe=iclab.Recipe(steps=5), seeds=1)
            >>> tokens, targets = run.tokens(count=3, seed=0)
            >>> run.module(0)(tokens).output.shape
            torch.Size([3, 1])
        """
        if self.trained.interventions:
            raise InputError(f"module: has no interventions ({self.trained.interventions}); ask the run without them")
        one = self.trained.select((self._seed(seed),))
        return intervening.modules(one, weights(one, at))[0]

    def tokens(
        self, prompts: Prompts | None = None, *, count: int = 1, seed: int | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return test prompts of a seed as a module takes them, (count, l + 1, width), and their targets, (count,).

        They are the prompts that `error` and `answer` use. Every seed has its own; by default those of the first. With
        several levels, targets are (count, H).
        """
        one = self.trained.select((self.seeds[0] if seed is None else self._seed(seed),))
        tested = self._tested(prompts, count)
        batch = tested.draw(one.seeds, Stream.TEST, count=count, dtype=self.training.dtype)
        targets = torch.from_numpy(batch.target[0])
        return intervening.dense(one, batch, tested)[0], targets if tested.levels > 1 else targets[:, 0]

    def _seed(self, seed: int) -> int:
        if seed not in self.seeds:
            raise InputError(f"seed = {shown(seed)}: must be one of {', '.join(map(str, self.seeds))}")
        return seed

    def _tested(self, prompts: Prompts | None, count: int) -> Prompts:
        """Return the prompts to test on, by default those of the training."""
        check_whole(count=count)
        found = prompts_of(prompts, default=self.training.prompts)
        if obstacle := self.training.prompts.fits(found):
            raise InputError(obstacle)
        return found

    # Changed runs.

    def with_weights(self, changes: Mapping[str, Any], *, at: int | None = None) -> Run:
        """Return a run with other weights after step ``at``, by default the last; all probes work on it.

        Args:
            changes: by name, a tensor (seeds, …) or one for all seeds, a number for every entry, or a function of the
                weights (seeds, …).
            at: the step.

        Example:
            >>> import iclab
            >>> run = iclab.train("mamba", recipe=iclab.Recipe(steps=5), seeds=2)
            >>> run.with_weights({"gate": 0.0, "key": lambda key: 2 * key}).error(count=100).diverged
            0
        """
        step, own = kept_step(self.trained, at), on_reference(self.trained)
        new = changed_weights(own, own.snapshots[step], changes)
        names = tuple(dict.fromkeys((*own.changed, *changes)))
        return Run(replace(own, snapshots={**own.snapshots, step: new}, changed=names))

    @property
    def places(self) -> list[str]:
        """The names of the places in the forward pass that `intervene` and `activations` know."""
        return intervening.places(self.trained)

    def intervene(self, changes: Mapping[str, Change] | None = None, /, **more: Change) -> Run:
        """Return a run whose forward pass is changed, for `error`, `answer`, `attention`, `gates` and `activations`.

        A place is a submodule by name; `places` lists them. Built-in models name their steps: ``attention`` and
        ``gates`` in one layer, ``layer.0.stream``, ``layer.0.attention``, ``layer.0.heads`` and ``layer.0.gates`` in
        several. A change is one of

        - a number, which replaces every value: ``run.intervene(gates=1.0)``;
        - values (seeds, prompts, …) of other prompts, from `activations`: ``run.intervene(attention=recorded)``;
        - a function of the values of a batch, (batch, …), for one seed at a time. It returns new values, or changes
          them in place. If it takes two arguments, the second is an `iclab.engines.intervening.Visit`, with the seed,
          the prompts, and ``of(recorded)`` for their part of recorded values.

        Interventions add up, and are exact: the rest of the model computes with the new values.

        Example:
            >>> def zero_second_head(values):  # (batch, heads, n, channels)
            ...     values[:, 1] = 0.0
            >>> import iclab
            >>> model = iclab.Model(name="deep-softmax", options={"layers": 2, "heads": 2})
            >>> run = iclab.train(model, recipe=iclab.Recipe(steps=2, step_size=0.1), seeds=1)
            >>> run.intervene({"layer.0.heads": zero_second_head})
            Run(deep-softmax, 1 seed, 2 steps; layer.0.heads = zero_second_head)
        """
        asked = {**(changes or {}), **more}
        if not asked:
            raise InputError("intervene: say where, such as gates=1.0; places are " + ", ".join(self.places))
        intervening.check(self.trained, asked)
        earlier = self.trained.interventions.changes if self.trained.interventions else ()
        interventions = Interventions((*earlier, *asked.items()), self.seeds)
        return Run(replace(on_reference(self.trained, compact=False), interventions=interventions))

    def activations(
        self, prompts: Prompts | None, place: str, *, count: int = 100, at: int | None = None
    ) -> torch.Tensor:
        """Return the values that pass a place of the forward pass on test prompts, (seeds, count, …).

        Test prompts are drawn by number: prompt i of two distributions has the same task, query and patterns if these
        are the same. So values of ``poisoned`` prompts can be replaced by those of the same prompts without outliers:
        ``run.intervene({place: run.activations(clean, place, count=500)}).error(poisoned, count=500)``.
        """
        trained = on_reference(self.trained, compact=False)
        if place not in (known := self.places):
            raise InputError(unknown_key(str(place), known))
        parts: list[list[torch.Tensor]] = [[] for _ in self.seeds]
        passing = intervening.answers(
            trained,
            weights(trained, at),
            self._tested(prompts, count),
            count,
            at=place,
            record=lambda _, row, values: parts[row].append(values),
        )
        for _ in passing:
            pass
        return torch.stack([torch.cat(chunks) for chunks in parts])

    # Measurements.

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
        accuracy: float | None = None,
        bracket: bool = False,
    ) -> list[Row]:
        """Return each seed's error rate and hinge loss without sampling, for models of one layer.

        Args:
            prompts: the test prompts, by default those of the training.
            at: the step after which to measure; by default the last.
            grid: how many values the model's state may take. More are slower and closer.
            nodes: how many values the query's κ may take; by default 3 for Mamba and 5 for the linear model.
            accuracy: by how much twice the grid may change a seed's error and hinge loss, such as 1e-6. By default,
                what the grid gives, at about a second per seed and 15 tasks. With trained weights and 20 examples, 1e-6
                costs half as much again; with short prompts or barely trained weights, where the grid may miss 1e-3, up
                to a minute.
            bracket: add rigorous bounds of the error of the grid; about three times slower.

        A row has ``error``, ``error_bound``, ``hinge`` and ``hinge_bound``. A bound is three times the change when the
        grid has half as many points and κ other values, its ends among them, whatever the accuracy. With ``bracket``,
        ``error_low`` … ``hinge_high`` are certain for the given values of κ. ``help(iclab.probes.exact)`` has the
        equations.
        """
        measured, step = self._tested(prompts, 1), kept_step(self.trained, at)
        if obstacle := exact_obstacle(self.training, 1) or intervention_obstacle(self.trained, "exact"):
            raise InputError(obstacle)
        lost = {s for s, d in zip(self.seeds, self.trained.diverged_at, strict=True) if 0 <= d <= step}
        alive, rows = tuple(seed for seed in self.seeds if seed not in lost), {}
        if alive:
            trained, how = self.trained.select(alive), {"grid": grid, "nodes": nodes, "accuracy": accuracy}
            threads = os.cpu_count() or 1
            found = exact_rows(
                trained,
                weights(trained, at),
                measured,
                bracket=bracket,
                threads=threads,
                **how,  # type: ignore[arg-type]
            )
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
        tested, threads = self._tested(prompts, count), os.cpu_count() or 1
        return measure(self.trained, probe, tested, count, at=at, pruning=pruning, threads=threads)

    def table(self, probe: str = "error", prompts: Prompts | None = None, **how: Any) -> pa.Table:
        """Return the rows of a probe as an Arrow table; arguments as for `measure`."""
        return as_table(self.measure(probe, prompts, **how))

    def frame(self, probe: str = "error", prompts: Prompts | None = None, **how: Any) -> Any:
        """Return the rows of a probe as a pandas data frame, if pandas is installed; arguments as for `measure`."""
        return as_frame(self.measure(probe, prompts, **how))

    def answer(
        self, prompts: Prompts | None = None, *, count: int = 1, at: int | None = None
    ) -> tuple[PromptBatch, Answer]:
        """Return ``count`` test prompts per seed, with each seed's output, attention and gates on them."""
        parts = list(answers(self.trained, self._tested(prompts, count), count, at=at))
        batches, replies = zip(*parts, strict=True)
        return PromptBatch.join(batches), combine(replies, lambda chunks: torch.cat(chunks, dim=1))

    def save(self, path: str | Path) -> None:
        """Write weights, snapshots and the description to one safetensors file, for `load`.

        The fused engine saves the coordinates it works in; ``load(path).weights()`` turns them into matrices.
        """
        self.trained.save(Path(path))

    def __repr__(self) -> str:
        count, steps = len(self.seeds), self.training.recipe.steps
        seeds = "1 seed" if count == 1 else f"{count} seeds"
        lost = f", {len(self.diverged)} diverged" if self.diverged else ""
        lost += f", {len(self.stopped_at)} stopped early" if self.stopped_at else ""
        changed = [f"changed weights {', '.join(self.trained.changed)}"] if self.trained.changed else []
        changed += [str(self.trained.interventions)] if self.trained.interventions else []
        return f"Run({'; '.join([f'{self.training.model.label}, {seeds}, {steps} steps{lost}', *changed])})"

    def _repr_html_(self) -> str:
        """Show the run in a notebook."""
        recipe = self.training.recipe
        lines = {
            "engine": self.training.engine,
            "recipe": f"{recipe.steps} steps, {recipe.batch_size} prompts each, {recipe.optimizer}",
            "step size": f"{recipe.step_size:g}",
            "tasks": str(self.training.prompts.tasks),
            "diverged": ", ".join(map(str, self.diverged)) or "none",
        }
        if self.stopped_at:
            lines["stopped early"] = ", ".join(f"{seed} after step {steps}" for seed, steps in self.stopped_at.items())
        if loss := self.trained.first_and_last_loss:
            lines["loss"] = f"{loss[0]:.3g} at first, {loss[1]:.3g} at last"
        cells = "".join(f"<tr><th>{name}</th><td>{html.escape(text)}</td></tr>" for name, text in lines.items())
        return f"<b>{html.escape(repr(self))}</b><table>{cells}</table>"


def load(path: str | Path) -> Run:
    """Read a file that `Run.save` wrote.

    If it holds a model of your own, `load` imports that module, whose source must be unchanged. Load only files you
    trust.

    Example:
        >>> import iclab, tempfile
        >>> run = iclab.train("linear", recipe=iclab.Recipe(steps=5), seeds=2)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     run.save(f"{folder}/linear.safetensors")
        ...     load(f"{folder}/linear.safetensors")
        Run(linear, 2 seeds, 5 steps)
    """
    return Run(Trained.load(Path(path)))
