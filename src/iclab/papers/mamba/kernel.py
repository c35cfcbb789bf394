"""M-kernel: the learned attention is the exponential of the training-task graph's Laplacian."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from iclab.engines import Training
from iclab.papers.mamba.kernel_chart import draw
from iclab.papers.mamba.kernel_rows import (
    clean_errors,
    entries,
    fits,
    slow_times,
    where,
)
from iclab.papers.mamba.kernel_settings import KernelSettings, Which, graph_of
from iclab.probes import Row
from iclab.study.charts import Figure
from iclab.study.claims import (
    BySeed,
    Claim,
    Direction,
    Judge,
    Judgement,
    Point,
    every_above,
    every_below,
    every_within,
    judged,
    mean_point,
    together,
)
from iclab.study.experiment import Condition, Experiment, in_groups
from iclab.study.rows import error_points

FORM = 0.95
"""R² above which exp(2τL) is called the form of the kernel."""
NEAR = 0.1
"""How far the fitted τ may be from the predicted one, relative to it."""
NEGLIGIBLE = 0.1
"""Lemma 3 (25) says 0. Read as: below a tenth of the own entry."""
SMALL, SEEN, NONE = 0.01, 0.05, 0.001
"""Errors: "small" as in M-fig2, clearly seen, and none to speak of."""
FEW = 200
"""Prompts per seed for the mean gate."""
ACTIVE = 0.5
"""(A) is judged while the loss is above this: the hinge is then active for nearly all prompts."""


class Kernel(Experiment[KernelSettings]):
    """The attention that training on a set of tasks learns."""

    id = "M-kernel"
    title = "The learned attention is δ² exp(2τL), L the Laplacian of the training-task graph"
    paper = (
        "Lemma 3 (25): entries of W_B and W_C between patterns that share no training task stay 0. So M1 training "
        "tasks that meet Condition 1 suffice for all tasks (Theorem 1)."
    )
    reading = (
        "Patterns are the nodes and training tasks the edges of a graph. A: attention between patterns after training, "
        "W_BᵀW_C/δ², mean over seeds. B: exp(2τL), with one number fitted, τ. C: the same entries by distance in the "
        "graph; lines are exp(2τL). D: τ fitted during a slow training against τ predicted with nothing fitted; hollow "
        "once the loss is below 0.5. E, F: the error on prompts without any outlier, by the distance of a task's two "
        "patterns; crosses follow from exp(2τL) and one gate for all examples. Two edges apart, patterns attract each "
        "other, and Mamba errs; a complete graph has no such tasks."
    )
    caption = "mean over seeds"
    theorems = ("M-thm1", "M-lem3")
    settings = KernelSettings

    def conditions(self, settings: KernelSettings) -> list[Condition]:
        """Return the kernel after training, the clean error by distance, and the kernel along a slow training."""
        found: list[Condition] = []

        def measure(which: Which, what: str, training: Training, between: int | None = None, **cell: Any) -> None:
            columns = where(which, what, training.model.label) | {"between": between}
            cell = {"prompts": training.prompts} | cell
            found.extend(in_groups(settings, columns, training, **cell))

        for which in settings.graphs:
            distances = [int(d) for d in np.unique(graph_of(which).distances) if d != 0]
            for name in settings.models:
                training = settings.training(which, name)
                measure(which, "kernel", training, probe="kernel", count=1)
                if name == "mamba":
                    near = settings.clean_prompts(which, 1)
                    measure(which, "gate", training, probe="logits", prompts=near, count=FEW)
                for distance in distances:
                    cell = {"prompts": settings.clean_prompts(which, distance), "count": settings.test_prompts}
                    measure(which, "error", training, distance, probe="error", **cell)
            slow = settings.slow_training(which)
            measure(which, "slow kernel", slow, probe="kernel", count=1, at="every")
            measure(which, "slow loss", slow, probe="error", count=settings.test_prompts, at="every")
        return found

    def claims(self, settings: KernelSettings) -> list[Claim]:
        """Return what the paper says of the kernel, and what iclab found."""
        return [*_paper_claims(settings), *_kernel_claims(settings), *_task_claims(settings)]

    def table(self, rows: list[Row], settings: KernelSettings) -> list[dict[str, Any]]:
        """Return one line per graph and model: fit, entries and clean errors by distance."""
        lines = []
        for which in settings.graphs:
            for model in settings.models:
                found = [fit for fit in fits(rows, which, model).values() if fit is not None]
                if not found:
                    continue
                line = {"M1": str(which[0]), "tasks": which[1], "model": model}
                line["τ"] = f"{np.mean([fit.time for fit in found]):.2f}"
                line["R²"] = f"{np.mean([fit.r2 for fit in found]):.3f}"
                means = _mean_entries(entries(rows, which, model))
                line["entries by distance"] = ", ".join(f"{d}: {mean:.1f}" for d, mean in means.items()).replace(
                    "-", "−"
                )
                by_distance = clean_errors(rows, which, model)
                line["clean error by distance"] = ", ".join(f"{d}: {p.mean:.3f}" for d, p in by_distance.items())
                lines.append(line)
        return lines

    def chart(self, rows: list[Row], settings: KernelSettings) -> Figure:
        """Draw measured and predicted kernels, τ against its prediction, and clean errors by distance."""
        return draw(rows, settings, ACTIVE)


def _rings(settings: KernelSettings) -> list[Which]:
    """Return the rings of one step: M1 tasks that meet Condition 1."""
    return [which for which in settings.graphs if which[1] == "ring:1"]


def _apart(settings: KernelSettings) -> list[Which]:
    """Return the graphs that meet Condition 1 and have patterns two edges apart."""
    even = [which for which in settings.graphs if graph_of(which).regular]
    return [which for which in even if (graph_of(which).distances == 2).any()]


def _paper_claims(settings: KernelSettings) -> list[Claim]:
    rings, apart = _rings(settings), _apart(settings)
    return [
        Claim(
            "M-kernel.condition1",
            "M1 training tasks that meet Condition 1 suffice for all tasks (Theorem 1)",
            f"error on clean prompts of tasks at distance 2 < {SMALL}, {_named(rings)}",
            _errors(settings, rings, every_below, SMALL),
            models=("mamba",),
        ),
        Claim(
            "M-kernel.lemma3",
            "entries between patterns that share no training task stay 0 (Lemma 3 (25))",
            f"|entry at distance 2| < {NEGLIGIBLE} × own entry after training, {_named(apart)}",
            _entries(settings, apart, lambda by: abs(by[2]) / by[0], every_below, NEGLIGIBLE),
            models=("mamba",),
        ),
    ]


def _kernel_claims(settings: KernelSettings) -> list[Claim]:
    """Return iclab's claims about the form of the kernel and its clock."""
    rings, apart = _rings(settings), _apart(settings)
    form = f"R² of exp(2τL), τ fitted per seed, > {FORM} after training, {_named(rings)}"
    words = {
        "mamba": ("form", "W_BᵀW_C/δ² is exp(2τL) after training"),
        "linear": (
            "form-linear",
            "so it is in the linear Transformer, which hardly trains here: it starts with zF > 1",
        ),
    }
    return [
        *(
            Claim(f"M-kernel.{id_}", text, form, _form(settings, rings, model), models=(model,), ours=True)
            for model, (id_, text) in words.items()
        ),
        Claim(
            "M-kernel.rate",
            "τ = η β² (1 − p_a) g t / (2 M1), with nothing fitted",
            f"fitted / predicted τ within 1 ± {NEAR}, gate at ½, at every watched step with a loss above {ACTIVE}",
            _rate(settings),
            models=("mamba",),
            ours=True,
        ),
        Claim(
            "M-kernel.positive",
            "patterns two edges apart attract each other",
            f"mean entry at distance 2 > 0, {_named(apart)}",
            _entries(settings, apart, lambda by: by[2], every_above, 0.0),
            models=("mamba",),
            ours=True,
        ),
    ]


def _task_claims(settings: KernelSettings) -> list[Claim]:
    """Return iclab's claims about which tasks fail."""
    apart = _apart(settings)
    complete = [which for which in settings.graphs if graph_of(which).complete]
    return [
        Claim(
            "M-kernel.distance2",
            "so tasks two edges apart fail without any outlier",
            f"error on clean prompts of tasks at distance 2 > {SEEN}, {_named(apart)}",
            _errors(settings, apart, every_above, SEEN),
            models=("mamba",),
            ours=True,
            direction=Direction(f"> {SMALL}", _errors(settings, apart, every_above, SMALL)),
        ),
        Claim(
            "M-kernel.complete",
            "and with a complete graph none does",
            f"error on clean prompts of all tasks < {NONE}, {_named(complete)}",
            _errors(settings, complete, every_below, NONE, distance=1),
            models=("mamba",),
            ours=True,
        ),
    ]


def _named(graphs: list[Which]) -> str:
    return ", ".join(f"{tasks} of {relevant}" for relevant, tasks in graphs) or "no graph"


def _mean_entries(by_seed: dict[int, dict[int, float] | None]) -> dict[int, float]:
    good = [by for by in by_seed.values() if by is not None]
    return {d: float(np.mean([by[d] for by in good])) for d in (good[0] if good else {})}


Rule = Callable[..., Judgement]
ByGraph = Callable[[Which, list[Row]], BySeed]
"""Makes one number per seed of a graph from rows."""


def _judge(settings: KernelSettings, graphs: list[Which], number: ByGraph, rule: Rule, *margins: float) -> Judge:
    """Judge the means over seeds of one number per graph."""
    return judged(
        together(*(mean_point(settings.seeds, partial(number, which), _named([which])) for which in graphs)),
        rule,
        *margins,
    )


def _form(settings: KernelSettings, graphs: list[Which], model: str) -> Judge:
    def r2(which: Which, rows: list[Row]) -> BySeed:
        return {seed: fit and fit.r2 for seed, fit in fits(rows, which, model).items()}

    return _judge(settings, graphs, r2, every_above, FORM)


def _entries(
    settings: KernelSettings,
    graphs: list[Which],
    number: Callable[[dict[int, float]], float],
    rule: Rule,
    margin: float,
) -> Judge:
    def read(which: Which, rows: list[Row]) -> BySeed:
        return {s: None if by is None else number(by) for s, by in entries(rows, which, "mamba").items()}

    return _judge(settings, graphs, read, rule, margin)


def _errors(settings: KernelSettings, graphs: list[Which], rule: Rule, margin: float, distance: int = 2) -> Judge:
    def points(rows: list[Row]) -> list[Point] | None:
        cells = [(_named([g]), where(g, "error", "mamba") | {"between": distance}) for g in graphs]
        return error_points(rows, settings.seeds, cells) or None

    return judged(points, rule, margin)


def _rate(settings: KernelSettings) -> Judge:
    def points(rows: list[Row]) -> list[Point] | None:
        found: list[Point] = []
        for which in settings.graphs:
            times = slow_times(rows, which)
            for step in (step for step, (loss, _) in times.items() if loss > ACTIVE):
                predicted, by_seed = settings.predicted_time(which, step), times[step][1]
                ratio: BySeed = {seed: time and time / predicted for seed, time in by_seed.items()}
                name = f"{_named([which])}, step {step}"
                found += mean_point(settings.seeds, lambda _, ratio=ratio: ratio, name)(rows) or []  # type: ignore[misc]
            if not times:
                return None
        return found or None

    return judged(points, every_within, 1 - NEAR, 1 + NEAR)
