"""M-cor1 task by task: the ratio of (16) against the batch B and the share of clean examples 1 − p_a.

(16) bounds attention on the others by (1 − p_a)⁻¹ ε, and (i) of Theorem 1 links ε to B^−½. Here the ratio others / same
is read for every pair of patterns, as the entry of W_BᵀW_C between them over that of the query's pattern with itself.
All tasks are trained on and w⁽⁰⁾ = 0, so that by (A) all pairs have the same ratio, −1/(M1 − 1), but for noise.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np

from iclab.papers.mamba.cor1_settings import AttentionSettings
from iclab.papers.mamba.lemmas import draw_means, mean_of, points_of
from iclab.probes import Row
from iclab.probes.tracing import most, sqrt, variance
from iclab.study.charts import DASHED, DOTTED, Axis, Panel, Series, reference
from iclab.study.claims import BySeed, Claim, Direction, every_above, every_below, judged
from iclab.study.experiment import Condition, in_groups
from iclab.study.fits import PowerLaw, exponent_claim, exponent_point
from iclab.study.rows import listed

NEAR = 0.15
"""How far an exponent may be from the claimed one."""
Sweep = Literal["batch", "clean"]
SWEEPS: tuple[Sweep, ...] = ("batch", "clean")
SYMBOLS = {"batch": "B", "clean": "1 − p_a"}


def trainings(settings: AttentionSettings, sweep: Sweep) -> dict[float, AttentionSettings]:
    """Return the settings of a sweep by B or by 1 − p_a."""
    if sweep == "batch":
        tiny = settings.batch_size < 16  # a test at a very small size
        return {
            float(b): settings.replace(batch_size=min(b, settings.batch_size) if tiny else b) for b in settings.batches
        }
    return {1 - p: settings.replace(outlier_fraction=p) for p in settings.fractions}


def conditions(settings: AttentionSettings) -> list[Condition]:
    """Return the kernel at T_M for every B and 1 − p_a."""
    found: list[Condition] = []
    for sweep in SWEEPS:
        for value, own in trainings(settings, sweep).items():
            training = own.training(own.trained_after())
            where = {
                "tasks": sweep,
                "relevant": own.relevant,
                "pairs": "met",
                "alpha": None,
                "times": 1,
                "value": value,
            }
            found += in_groups(settings, where, training, probe="kernel", prompts=training.prompts, count=1)
    return found


Statistic = Callable[[Sequence[float]], float]


def ratios(rows: Sequence[Row], sweep: Sweep, value: float, statistic: Statistic) -> BySeed:
    """Return a statistic over all pairs of patterns of the entry between them over that of the query's pattern."""
    own: dict[int, dict[int, float]] = defaultdict(dict)
    others: dict[int, list[tuple[int, float]]] = defaultdict(list)
    answer: BySeed = {}
    for row in rows:
        if row["tasks"] != sweep or row["value"] != value:
            continue
        if row["diverged"]:
            answer[row["seed"]] = None
        elif row["distance"] == 0:
            own[row["seed"]][row["query_pattern"]] = row["entry"]
        else:
            others[row["seed"]].append((row["query_pattern"], row["entry"]))
    for seed, entries in others.items():
        answer[seed] = statistic([entry / own[seed][query] for query, entry in entries])
    return answer


def spread(values: Sequence[float]) -> float:
    """Return the standard deviation."""
    return sqrt(variance(values))


def over(rows: Sequence[Row], settings: AttentionSettings, sweep: Sweep, statistic: Statistic) -> dict[float, BySeed]:
    """Return a statistic at every value of a sweep."""
    return {value: ratios(rows, sweep, value, statistic) for value in sorted(trainings(settings, sweep))}


def bound(own: AttentionSettings) -> float:
    """Return (1 − p_a)⁻¹ B^−½: the right side of (16) with ε from (i), constant 1."""
    return 1 / ((1 - own.outlier_fraction) * math.sqrt(own.batch_size))


def _beyond(rows: Sequence[Row], settings: AttentionSettings) -> Iterator[tuple[str, BySeed]]:
    """Yield by how much the worst task's ratio is above the bound."""
    for sweep in SWEEPS:
        for value, own in trainings(settings, sweep).items():
            found = ratios(rows, sweep, value, most)
            limit = bound(own)
            excess = {seed: None if ratio is None else ratio - limit for seed, ratio in found.items()}
            yield f"{SYMBOLS[sweep]} = {value:g}", excess


def claims(settings: AttentionSettings) -> list[Claim]:
    """Return (16) task by task, and that what differs between tasks is noise."""
    n, batches = settings.seeds, listed(settings.batches)
    shares = listed(sorted(1 - p for p in settings.fractions))
    steepness = exponent_point(n, partial(over, settings=settings, sweep="clean", statistic=spread), "1 − p_a")
    return [
        Claim(
            "M-cor1.rest-batch",
            "(16) with (i): attention on the others is at most of the order (1 − p_a)⁻¹ ε, ε ∝ B^−½, for every task",
            f"others / same of the worst task below (1 − p_a)⁻¹ B^−½, constant 1, at B = {batches} and 1 − p_a = "
            f"{shares}, T_M, w⁽⁰⁾ = 0",
            judged(lambda rows: points_of(_beyond(rows, settings), n), every_below, 0.0),
        ),
        exponent_claim(
            "M-cor1.noise",
            "the spread of others / same over tasks is noise of the batches, ∝ B^−½",
            partial(over, settings=settings, sweep="batch", statistic=spread),
            -0.5,
            seeds=n,
            where="B",
            ours=True,
        ),
        Claim(
            "M-cor1.noise-clean",
            "(16): it grows at most like (1 − p_a)⁻¹",
            f"exponent of the same spread in 1 − p_a above −{1 + NEAR:g}, fitted seed by seed",
            judged(steepness, every_above, -1 - NEAR),
            direction=Direction("above −2", judged(steepness, every_above, -2.0)),
        ),
    ]


def lines(rows: Sequence[Row], settings: AttentionSettings) -> list[dict[str, Any]]:
    """Return one line of the table per B and 1 − p_a, and the exponents of the spread."""
    found = []
    for sweep in SWEEPS:
        for value in trainings(settings, sweep):
            middle, wide = (mean_of(ratios(rows, sweep, value, f)) for f in (_mean, spread))
            found.append(
                _line(f"w = 0, T_M, {SYMBOLS[sweep]} = {value:g}: mean, spread over tasks", f"{middle}, {wide}")
            )
        law = PowerLaw(over(rows, settings, sweep, spread))
        found.append(_line(f"exponent of the spread in {SYMBOLS[sweep]}", law.text()))
    return found


def _line(where: str, text: str) -> dict[str, Any]:
    return {"setting": where, "query's pattern": "", "others": "", "others / query's pattern": text}


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values))


MEAN = Series("mean over tasks, sign turned", "#009E73", line=False, hollow=True, size=45.0)
SPREAD = Series("spread over tasks", "#0072B2", line=False, size=45.0)
SHARE = reference("1/(M1 − 1), from (A)", ())
LAWS = {"batch": reference("∝ B^−½", DOTTED), "clean": reference("∝ (1 − p_a)⁻¹", DASHED)}
POWERS = {"batch": -0.5, "clean": -1.0}


def panels(rows: Sequence[Row], settings: AttentionSettings) -> list[Panel]:
    """Draw mean and spread of others / same over tasks, against B and 1 − p_a."""
    return [_panel(rows, settings, sweep, letter) for sweep, letter in zip(SWEEPS, "DE", strict=True)]


def _panel(rows: Sequence[Row], settings: AttentionSettings, sweep: Sweep, letter: str) -> Panel:
    xs = sorted(trainings(settings, sweep))
    panel = Panel(
        f"{letter}  task by task, against {SYMBOLS[sweep]}",
        x=Axis(
            {"batch": "batch B", "clean": "clean share 1 − p_a"}[sweep],
            domain=(xs[0] / 1.3, xs[-1] * 1.3),
            scale="log",
            ticks={x: f"{x:g}" for x in xs},
        ),
        y=Axis("others / query's pattern", domain=(1e-3, 1.0), scale="log"),
    )
    share = 1 / (settings.relevant - 1)
    panel.line(SHARE, [xs[0], xs[-1]], [share, share])
    found = over(rows, settings, sweep, spread)
    good = {x: [v for v in by_seed.values() if v] for x, by_seed in found.items()}
    if all(good.values()):
        power = POWERS[sweep]
        level = math.exp(
            float(np.mean([math.log(np.mean(values)) - power * math.log(x) for x, values in good.items()]))
        )
        panel.line(LAWS[sweep], [xs[0], xs[-1]], [level * x**power for x in (xs[0], xs[-1])])
    turned = over(rows, settings, sweep, lambda values: -_mean(values))
    draw_means(panel, MEAN, turned, positive=True)
    draw_means(panel, SPREAD, found, positive=True)
    return panel
