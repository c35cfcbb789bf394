"""Remark 4 on batches and strong outliers: the least B and the largest κ_a with which either model learns.

Both models take as many steps, 3.3 times (E), at step sizes that (E) makes alike: η g and δ² g are the same for both,
g = E Σ G_i. So B is all that differs in their samples N = B T.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from iclab.engines import Training
from iclab.papers.mamba.thm3_settings import Theorem3Settings
from iclab.papers.mamba.times import LATE, last, mean_points
from iclab.papers.mamba.times_chart import log_axis, mean, measured, other_line
from iclab.probes import Row
from iclab.probes.tracing import exp, least, log
from iclab.prompts.tasks import AllPairs
from iclab.study.charts import DOTTED, Axis, Panel, colour_of, name_of, series_of
from iclab.study.claims import BySeed, Claim, Point, every_above, judged
from iclab.study.experiment import Condition, in_groups
from iclab.study.fits import crossing
from iclab.study.rows import listed
from iclab.theory.predictions import gate_sum

PART, STRONG = "batch", "strong"
LONG = 3.3
"""Steps as a multiple of (E)."""
MOST = 0.9
"""The share of seeds that is to get there."""
ALIKE = 0.5
"""Batches whose base-2 logarithms differ by less are alike: half of a doubling."""
NEVER = 1.0
"""The loss that a diverged training counts as: it has learnt nothing."""
MODELS = ("mamba", "linear")


def trained(
    settings: Theorem3Settings, model: str, batch: int, strength: float, step_size: float | None = None
) -> Training:
    """Return a training of either model: the same number of steps, from the same E zF; η is Mamba's."""
    own = settings.replace(train_outlier_fraction=settings.batch_fraction, train_outlier_scale=strength, watched=2)
    less = 1.0
    if model == "linear":
        less = gate_sum("mamba", own.context_length) / gate_sum("linear", own.context_length)
    step_sizes = {model: less * (step_size or settings.batch_step)}
    small = min(batch, settings.batch_size) if settings.batch_size < 16 else batch  # a test at a very small size
    own = own.replace(init_scale=less**0.5 * own.init_scale, step_sizes=step_sizes, batch_size=small)
    return own.training(model, LONG)


def conditions(settings: Theorem3Settings) -> list[Condition]:
    """Return the loss after training at every B and κ_a, for both models."""
    found: list[Condition] = []

    def add(part: str, training: Training, x: float, by: float) -> None:
        columns = {"part": part, "model": training.model.name, "x": x, "by": by}
        how = {"probe": "error", "prompts": training.prompts.replace(tasks=AllPairs())}
        found.extend(in_groups(settings, columns, training, count=settings.test_prompts, **how))

    for model in MODELS:
        for strength in settings.batch_strengths:
            for batch in settings.batch_values:
                add(PART, trained(settings, model, batch, strength), batch, strength)
        for strength in settings.strong:
            add(STRONG, trained(settings, model, settings.batch_size, strength, settings.strong_step), strength, 0)
    return found


def needed(rows: Sequence[Row], model: str, strength: float) -> BySeed:
    """Return B* of each seed, the least B from which on its loss is below 0.1; None if it never is."""
    losses = last([row for row in rows if row["by"] == strength], "hinge", PART, model)
    places = [math.log(batch) for batch in losses]
    answer: BySeed = {}
    for seed in set.intersection(*(set(by_seed) for by_seed in losses.values())) if losses else ():
        values = [by_seed[seed] for by_seed in losses.values()]
        place = crossing(places, [NEVER if v is None else least([v, NEVER]) for v in values], LATE)
        answer[seed] = None if place is None else exp(place)
    return answer


def largest(rows: Sequence[Row], model: str) -> BySeed:
    """Return the largest κ_a of each seed up to which its loss is below 0.1; None if it never is."""
    losses = last(rows, "hinge", STRONG, model)
    places = [-math.log(strength) for strength in reversed(losses)]
    answer: BySeed = {}
    for seed in set.intersection(*(set(by_seed) for by_seed in losses.values())) if losses else ():
        values = [by_seed[seed] for by_seed in reversed(losses.values())]
        place = crossing(places, [NEVER if v is None else least([v, NEVER]) for v in values], LATE)
        answer[seed] = None if place is None else exp(-place)
    return answer


def for_most(rows: Sequence[Row], model: str, strength: float) -> float | None:
    """Return the least B from which on at least nine seeds in ten end below a loss of 0.1; None if there is none."""
    losses = last([row for row in rows if row["by"] == strength], "hinge", PART, model)
    found = None
    for batch, by_seed in reversed(losses.items()):
        if sum(loss is not None and loss < LATE for loss in by_seed.values()) < MOST * len(by_seed):
            break
        found = batch
    return found


def doublings(over: BySeed, under: BySeed) -> BySeed:
    """Return log₂(over/under) on paired seeds; None where either has none.

    >>> doublings({0: 8.0, 1: None}, {0: 2.0, 1: 2.0})
    {0: 2.0, 1: None}
    """
    found: BySeed = {}
    for seed in (seed for seed in over if seed in under):
        a, b = over[seed], under[seed]
        found[seed] = None if a is None or b is None else log(a / b) / math.log(2)
    return found


def claims(settings: Theorem3Settings) -> list[Claim]:
    """Return Remark 4 on batches, and iclab's claim that the second term of B_M shows."""
    strengths, learnt = settings.batch_strengths, f"B* is the least B with loss < {LATE:g} from there on"
    return [
        Claim(
            "M-thm3.batch",
            "linear Transformers need a smaller batch size, B_T ≤ B_M (Remark 4)",
            f"log₂(B*_Mamba/B*_linear) above −{ALIKE:g} at κ_a = {listed(strengths)}, mean over paired seeds; "
            f"{learnt}, after {LONG:g} × (E) steps of either model, η = {settings.batch_step:g} for Mamba",
            judged(partial(_against_linear, settings=settings), every_above, -ALIKE),
            models=MODELS,
        ),
        Claim(
            "M-thm3.batch-strength",
            "B_M falls with κ_a, as its second term β⁻⁴ V² κ_a⁻² (1 − p_a)⁻² does",
            f"log₂ of Mamba's B* at κ_a = {min(strengths):g} over that at {max(strengths):g} above 0, paired seeds",
            judged(partial(_against_strong, settings=settings), every_above, 0.0),
            models=("mamba",),
            ours=True,
        ),
        Claim(
            "M-thm3.strong",
            "the upper bound on κ_a is larger for linear Transformers than for Mamba (Remark 4)",
            "log₂ of the largest κ_a of linear over that of Mamba above 0, paired seeds, κ_a = "
            f"{listed(settings.strong)}; up to it the loss is < {LATE:g} after {LONG:g} × (E) steps, "
            f"η = {settings.strong_step:g} for Mamba",
            judged(partial(_upper, settings=settings), every_above, 0.0),
            models=MODELS,
        ),
    ]


def _against_linear(rows: list[Row], settings: Theorem3Settings) -> list[Point] | None:
    found = {
        f"κ_a = {strength:g}": doublings(*(needed(rows, model, strength) for model in MODELS))
        for strength in settings.batch_strengths
    }
    return mean_points(settings.seeds, found, "have no B*")


def _upper(rows: list[Row], settings: Theorem3Settings) -> list[Point] | None:
    mamba, linear = (largest(rows, model) for model in MODELS)
    return mean_points(settings.seeds, {"": doublings(linear, mamba)}, "have none")


def _against_strong(rows: list[Row], settings: Theorem3Settings) -> list[Point] | None:
    ends = (min(settings.batch_strengths), max(settings.batch_strengths))
    weak, strong = (needed(rows, "mamba", strength) for strength in ends)
    return mean_points(settings.seeds, {"": doublings(weak, strong)}, "have no B*")


def lines(rows: Sequence[Row], settings: Theorem3Settings) -> list[dict[str, Any]]:
    """Return one line of the table per κ_a: B* of both models, the mean over seeds and for nine seeds in ten."""
    found = []
    for strength in settings.batch_strengths:
        texts = []
        for model in MODELS:
            middle, most = mean(needed(rows, model, strength)), for_most(rows, model, strength)
            texts.append("–" if middle is None else f"{middle:.1f} ({'never' if most is None else f'{most:g}'})")
        name = f"κ_a = {strength:g}: B* of Mamba; of linear (of 9 seeds in 10)"
        found.append(other_line(name, "B_T ≤ B_M", "; ".join(texts)))
    ends = [mean(largest(rows, model)) for model in MODELS]
    text = "; ".join("–" if end is None else f"{end:.3g}" for end in ends)
    return [*found, other_line("largest κ_a of Mamba; of linear", "linear's is larger", text)]


def strong_panel(rows: Sequence[Row], settings: Theorem3Settings) -> Panel:
    """Draw the loss of both models against κ_a."""
    shown = Panel(
        f"H  strong outliers, p_a = {settings.batch_fraction:g}",
        x=log_axis("κ_a", settings.strong),
        y=Axis("loss after training", domain=(1e-3, 10), scale="log"),
        height=200,
    )
    shown.rule(y=LATE, dash=DOTTED)
    for model in MODELS:
        losses = last(rows, "hinge", STRONG, model)
        drawn = [{s: None if v is None else min(max(v, 1e-3), 10.0) for s, v in by.items()} for by in losses.values()]
        shown.curve(series_of(model, name=f"{name_of(model)}: loss"), list(losses), drawn)
    return shown


def panel(rows: Sequence[Row], settings: Theorem3Settings) -> Panel:
    """Draw B* against κ_a for both models."""
    shown = Panel(
        f"G  batch needed, p_a = {settings.batch_fraction:g}",
        x=log_axis("κ_a", settings.batch_strengths),
        y=log_axis("least B with loss < 0.1", settings.batch_values),
        height=200,
    )
    for model, mark in zip(MODELS, ("circle", "diamond"), strict=True):
        by_strength: Mapping[float, BySeed] = {x: needed(rows, model, x) for x in settings.batch_strengths}
        look = series_of(model, name=f"{name_of(model)}: B*", colour=colour_of(model), mark=mark, line=False)
        measured(shown, look, by_strength)
    return shown
