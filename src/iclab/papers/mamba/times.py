"""How long training takes: sweeps of one quantity at a time, and hitting times read from stored rows.

T_ℓ is the first step after which the expected hinge loss on fresh prompts over all tasks, drawn as in training, is
below ℓ. M-thm1 and M-thm3 measure it at ℓ = 0.5, where nearly every prompt still has a gradient, and at ℓ = 0.1.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Self

from pydantic import Field

from iclab.engines import Recipe, Training, geometric
from iclab.models import Model
from iclab.probes import Row
from iclab.prompts import Outliers, Patterns, Prompts
from iclab.prompts.tasks import AllPairs, TaskSet
from iclab.study.claims import BySeed, Point, mean_point
from iclab.study.experiment import Condition, in_groups
from iclab.study.fits import hitting_times
from iclab.study.predicting import setting_of
from iclab.study.settings import Chosen, Disclosed, Settings
from iclab.theory.laws import mean_field_steps
from iclab.theory.setting import MambaSetting

HALF, LATE = 0.5, 0.1
"""The two levels ℓ of the loss."""
EARLIEST = 12
"""The first kept step is this part of all steps."""


class TimesSettings(Settings):
    """The setting that every sweep of M-thm1 and M-thm3 departs from."""

    dimension: Annotated[int, Chosen("d, at least M1 + M2 + V at every point of a sweep")] = 60
    relevant: Annotated[int, Chosen("M1, from which a sweep can go both ways")] = 8
    irrelevant: Annotated[int, Disclosed("M2, M §4")] = 10
    outlier: Annotated[int, Disclosed("V, M §4")] = 3
    pattern_norm: Annotated[float, Disclosed("β of µ and ν, M §4")] = 3.0
    outlier_norm: Annotated[float, Chosen("‖v*‖ = β, like all other patterns")] = 3.0
    context_length: Annotated[int, Chosen("l_tr, from which a sweep can go both ways")] = 40
    train_outlier_fraction: Annotated[float, Field(ge=0, lt=1), Chosen("p_a: most examples are clean")] = 0.3
    train_outlier_scale: Annotated[float, Disclosed("κ_a, M §4")] = 2.0
    init_scale: Annotated[
        float, Chosen("δ. The untrained score is δ²β² = 0.09, so that z·F is small before training")
    ] = 0.1
    irrelevant_scale: Annotated[float, Chosen("K, the largest value the paper allows")] = 0.5
    train_tasks: Annotated[
        TaskSet, Chosen("all tasks. With fewer, time and error mix: M-kernel shows why, and condition1 here")
    ] = AllPairs()
    gate_scale: Annotated[float, Chosen("w⁽⁰⁾ as in the paper; 0 starts the gate at 1/2 for every example")] = 1.0
    step_sizes: Annotated[
        dict[str, float],
        Chosen(
            "η, small enough for T of several hundred steps. With the figures' η = 1 Mamba's T is 7, and no law can be "
            "read from numbers that small"
        ),
    ] = {"mamba": 0.02, "linear": 0.0002}
    batch_size: Annotated[
        int, Field(ge=1), Chosen("B. Hitting times at 128 and 512 differ by 0.1 %: small steps average over batches")
    ] = 128
    steps: Annotated[
        int, Field(ge=0), Chosen("the most steps of any training; each takes a multiple of (E), which is less")
    ] = 100_000
    watched: Annotated[int, Field(ge=2), Chosen("kept steps per training, at equal ratios", grid=True)] = 32
    test_prompts: Annotated[int, Field(ge=1), Chosen("per seed and kept step", grid=True)] = 1_000

    def quick(self) -> Self:
        """Return the quick edition: one group of seeds, smaller batches, η twice as large, fewer prompts."""
        few = {"batch_size": min(self.batch_size, 64), "watched": min(self.watched, 20)}
        faster = {model: 2 * step_size for model, step_size in self.step_sizes.items()}
        return super().quick().replace(step_sizes=faster, test_prompts=min(self.test_prompts, 500), **few)

    @property
    def clean(self) -> float:
        """1 − p_a."""
        return 1 - self.train_outlier_fraction

    def prompts(self, tasks: TaskSet | None = None) -> Prompts:
        """Return training prompts, Definition 1: training outliers with random labels."""
        patterns = Patterns(
            dimension=self.dimension,
            relevant=self.relevant,
            irrelevant=self.irrelevant,
            outlier=self.outlier,
            relevant_norm=self.pattern_norm,
            irrelevant_norm=self.pattern_norm,
            outlier_norm=self.outlier_norm,
        )
        outliers = Outliers(fraction=self.train_outlier_fraction, scale=self.train_outlier_scale, labels="random")
        return Prompts(
            patterns=patterns,
            tasks=tasks or self.train_tasks,
            context_length=self.context_length,
            irrelevant_scale=self.irrelevant_scale,
            outliers=outliers,
        )

    def training(self, model: str, reach: float, frozen: bool = False) -> Training:
        """Return a training of ``reach`` times as many steps as (E) predicts for ℓ = 0.5.

        ``frozen`` keeps the gate at w = 0, for which (E) is derived.
        """
        options: dict[str, Any] = {"init_scale": self.init_scale}
        if model == "mamba" and (frozen or self.gate_scale != 1):
            options["gate_scale"] = 0.0 if frozen else self.gate_scale
        steps = min(self.steps, max(1, math.ceil(reach * self.predicted(model))))
        recipe = Recipe(
            steps=steps,
            batch_size=self.batch_size,
            step_size=self.step_sizes[model],
            snapshots=geometric(steps, self.watched, max(1, steps // EARLIEST)) if steps else (),
            frozen=("gate",) if frozen else (),
        )
        return Training(
            model=Model(name=model, options=options), prompts=self.prompts(), recipe=recipe, engine=self.engine
        )

    def predicted(self, model: str) -> float:
        """Return the steps until E zF = 1/2 by iclab's mean field (E), with the gate frozen at w = 0."""
        recipe = Recipe(steps=1, batch_size=self.batch_size, step_size=self.step_sizes[model])
        start = Model(name=model, options={"init_scale": self.init_scale})
        setting = setting_of(Training(model=start, prompts=self.prompts(), recipe=recipe))
        assert isinstance(setting, MambaSetting)
        return mean_field_steps(setting, "mamba" if model == "mamba" else "linear")


@dataclass(frozen=True)
class Sweep:
    """One quantity x that moves, and what must move with it."""

    name: str
    """The name of the part in rows and claim ids."""
    symbol: str
    """x in the paper's letters."""
    at: Callable[[Any, float], TimesSettings]
    """Returns the settings with x at a value."""
    power: float | None = None
    """The exponent of x in T that the paper claims; None for iclab's own findings."""
    model: str = "mamba"
    frozen: bool = False
    """Whether the gate stays at w = 0."""
    reach: Callable[[float], float] = lambda x: 1.6
    """How many times (E) to train, by x: enough for every seed to be below ℓ = 0.1."""
    title: str = ""
    held: str = ""
    """What is held fixed, beyond the usual."""

    def columns(self, x: float) -> dict[str, Any]:
        """Return the columns that name its rows."""
        return {"part": self.name, "model": self.model, "x": x, "by": 0.0}

    def conditions(self, settings: TimesSettings, values: Sequence[float]) -> list[Condition]:
        """Return the loss after every kept step, at every value."""
        found = []
        for x in values:
            own = self.at(settings, x)
            training = own.training(self.model, self.reach(x), self.frozen)
            found += in_groups(
                settings,
                self.columns(x),
                training,
                probe="error",
                prompts=own.prompts(AllPairs()),
                count=settings.test_prompts,
                at="every",
            )
        return found

    def times(self, rows: Sequence[Row], level: float) -> dict[float, BySeed]:
        """Return T_ℓ of each seed by x; None if the seed diverged or never got below ℓ."""
        found: dict[float, dict[int, dict[int, float | None]]] = defaultdict(lambda: defaultdict(dict))
        lost: dict[float, BySeed] = defaultdict(dict)
        for row in rows:
            if row["part"] == self.name and row["model"] == self.model:
                if row["diverged"]:
                    lost[row["x"]][row["seed"]] = None
                else:
                    found[row["x"]][row["step"]][row["seed"]] = row["hinge"]
        times: dict[float, BySeed] = {}
        for x in sorted({*found, *lost}):
            steps = sorted(found[x])
            times[x] = hitting_times(steps, [found[x][step] for step in steps], level) | lost[x]
        return times

    def predicted(self, settings: TimesSettings, values: Sequence[float]) -> dict[float, float]:
        """Return T by (E) at every value: the mean-field line, without a free constant."""
        return {x: self.at(settings, x).predicted(self.model) for x in values}


def last(rows: Sequence[Row], column: str, part: str, model: str = "mamba", **where: Any) -> dict[float, BySeed]:
    """Return a column by x and seed, of a part that is measured after training alone; None if a seed diverged."""
    found: dict[float, BySeed] = defaultdict(dict)
    for row in rows:
        if row["part"] == part and row["model"] == model:
            if row["diverged"]:
                found[row["x"]][row["seed"]] = None
            elif all(row[name] == value for name, value in where.items()):
                found[row["x"]][row["seed"]] = row[column]
    return dict(sorted(found.items()))


def ratio(over: Mapping[float, BySeed], under: Mapping[float, BySeed], factor: float = 1.0) -> dict[float, BySeed]:
    """Return factor × over / under on paired seeds, at every x that both have."""
    found: dict[float, BySeed] = {}
    for x in (x for x in over if x in under):
        found[x] = {}
        for seed in (seed for seed in over[x] if seed in under[x]):
            a, b = over[x][seed], under[x][seed]
            found[x][seed] = factor * a / b if a is not None and b else None
    return found


def mean_points(seeds: int, named: Mapping[str, BySeed], fate: str = "diverged") -> list[Point] | None:
    """Make one point per name: the mean over seeds. None if there are no names, or if a seed is missing."""

    def point_of(where: str, by_seed: BySeed) -> list[Point]:
        return mean_point(seeds, lambda rows: by_seed, where, fate)([]) or []

    found = [point for where, by_seed in named.items() for point in point_of(where, by_seed)]
    return found if found and len(found) == len(named) else None
