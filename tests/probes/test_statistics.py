"""Intervals against scipy, and verdicts against what the words mean."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from iclab.probes import Interval, Proportion, over_seeds, paired, wilson
from iclab.study.claims import Claim, Judgement, Point, every_above, every_below, judged

# Wilson's interval.


@pytest.mark.parametrize("confidence", [0.9, 0.95, 0.99])
@pytest.mark.parametrize(
    "successes, total", [(0, 1), (1, 1), (0, 10_000), (10_000, 10_000), (1, 7), (30, 100), (99, 100)]
)
def test_wilson_is_scipys(successes: int, total: int, confidence: float):
    expected = stats.binomtest(successes, total).proportion_ci(confidence, method="wilson")
    found = wilson(successes, total, confidence)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_wilson_uses_95_percent_unless_told():
    assert wilson(3, 50) == wilson(3, 50, 0.95) != wilson(3, 50, 0.9)


def test_wilson_ends_are_exact_at_the_borders():
    assert wilson(0, 1000).low == 0.0
    assert wilson(1000, 1000).high == 1.0
    assert 0 < wilson(0, 1000).high < 0.005  # no error seen is not no error


def test_wilson_of_nothing_knows_nothing():
    assert wilson(0, 0) == Interval(0.0, 1.0)


@pytest.mark.parametrize("p", [0.002, 0.05, 0.5, 0.9])
def test_wilson_covers_the_truth_as_often_as_it_says(p: float):
    total, trials = 400, 20_000
    counts = np.random.default_rng(0).binomial(total, p, trials)
    intervals = {count: wilson(int(count), total) for count in set(counts.tolist())}
    covered = np.mean([intervals[count].low <= p <= intervals[count].high for count in counts.tolist()])
    # Coverage of a discrete count swings about the nominal value; exact values come from the binomial law.
    exact = sum(
        stats.binom.pmf(k, total, p) for k in range(total + 1) if wilson(k, total).low <= p <= wilson(k, total).high
    )
    assert covered == pytest.approx(exact, abs=4 * math.sqrt(0.25 / trials))
    assert 0.92 < covered < 0.99


# The t interval.


@pytest.mark.parametrize("confidence", [0.9, 0.95])
@pytest.mark.parametrize("n", [2, 3, 8, 16])
def test_interval_over_seeds_is_scipys(n: int, confidence: float):
    values = np.random.default_rng(n).normal(0.3, 0.1, n)
    low, high = stats.t.interval(confidence, n - 1, loc=values.mean(), scale=stats.sem(values))
    found = over_seeds(values.tolist(), confidence)
    assert (found.low, found.high) == pytest.approx((low, high))


@pytest.mark.parametrize("values", [[], [0.3]])
def test_fewer_than_two_seeds_bound_nothing(values: list[float]):
    assert over_seeds(values) == Interval(-math.inf, math.inf)


def test_interval_over_seeds_covers_the_truth_as_often_as_it_says():
    samples = np.random.default_rng(1).normal(0.5, 0.1, (4000, 8))
    intervals = [over_seeds(sample) for sample in samples]
    covered = np.mean([i.low <= 0.5 <= i.high for i in intervals])
    assert covered == pytest.approx(0.95, abs=4 * math.sqrt(0.95 * 0.05 / 4000))


# A proportion over seeds and prompts.


def test_proportion_keeps_the_two_uncertainties_apart():
    errors = [0.1, 0.2, 0.3, 0.2]
    p = Proportion.of(errors, prompts=100)
    assert p.mean == pytest.approx(0.2)
    assert p.spread == pytest.approx(np.std(errors, ddof=1))
    assert p.seed_interval == over_seeds(errors)
    assert (p.prompt_interval.low, p.prompt_interval.high) == pytest.approx((wilson(80, 400).low, wilson(80, 400).high))
    assert p.interval.low == min(p.seed_interval.low, p.prompt_interval.low)
    assert p.interval.high == max(p.seed_interval.high, p.prompt_interval.high)


@pytest.mark.parametrize("prompts, wider", [(50, "prompt_interval"), (10_000, "seed_interval")])
def test_a_claim_is_judged_on_the_wider_interval(prompts: int, wider: str):
    p = Proportion.of([0.18, 0.2, 0.22, 0.2], prompts)
    assert p.interval == getattr(p, wider)


def test_diverged_seeds_are_counted_and_not_averaged():
    p, without = Proportion.of([0.1, None, 0.3, None], 100), Proportion.of([0.1, 0.3], 100)
    assert p.diverged == 2
    assert p.per_seed == (0.1, None, 0.3, None)
    assert (p.mean, p.spread, p.seed_interval, p.prompt_interval) == (
        without.mean,
        without.spread,
        without.seed_interval,
        without.prompt_interval,
    )
    assert "2 diverged" in p.short()
    assert "diverged" not in without.short()


@pytest.mark.parametrize("errors", [[None, None], []])
def test_a_proportion_of_nothing_is_no_zero(errors: list[None]):
    p = Proportion.of(errors, 100)
    assert (p.mean, p.spread, p.diverged) == (None, None, len(errors))
    assert p.interval == Interval(0.0, 1.0)
    assert p.short().startswith("none")


def test_one_seed_has_no_spread_and_an_interval_of_everything():
    p = Proportion.of([0.2], 100)
    assert (p.mean, p.spread, p.interval) == (0.2, None, Interval(0.0, 1.0))


def test_no_error_seen_still_has_an_interval():
    p = Proportion.of([0.0, 0.0], 5000)
    assert p.seed_interval == Interval(0.0, 0.0)
    assert p.interval == wilson(0, 10_000)


# Differences on paired seeds.


def test_paired_is_the_interval_of_the_differences():
    first, second = [0.5, 0.6, 0.9, 0.7], [0.1, 0.3, 0.4, 0.5]
    mean, interval, lost = paired(first, second)
    assert (mean, lost) == (pytest.approx(0.35), 0)
    expected = stats.ttest_rel(first, second).confidence_interval(0.95)
    assert (interval.low, interval.high) == pytest.approx((expected.low, expected.high))


def test_pairing_removes_what_seeds_share():
    hard = [0.0, 0.3, 0.6, 0.9]
    _, interval, _ = paired([h + 0.05 for h in hard], hard)
    assert interval.low > 0.04
    assert over_seeds([h + 0.05 for h in hard]).low < over_seeds(hard).high


def test_a_pair_is_lost_when_either_diverged():
    mean, interval, lost = paired([0.5, None, 0.7, 0.9], [0.1, 0.2, None, 0.3])
    assert lost == 2
    assert (mean, interval) == (pytest.approx(0.5), over_seeds([0.4, 0.9 - 0.3]))


def test_no_pair_left_knows_nothing():
    mean, interval, lost = paired([None, 0.5], [0.1, None])
    assert math.isnan(mean)
    assert (interval, lost) == (Interval(-math.inf, math.inf), 2)


def test_pairs_must_match():
    with pytest.raises(ValueError, match="argument 2"):
        paired([0.1, 0.2], [0.1])


# Verdicts. A margin of 0.5, and points on either side of it.

LOW = Point(0.1, Interval(0.0, 0.2), "low")
LOWER = Point(0.05, Interval(0.01, 0.1), "lower")
ACROSS = Point(0.45, Interval(0.3, 0.6), "across")
HIGH = Point(0.8, Interval(0.7, 0.9), "high")
HIGHER = Point(0.95, Interval(0.9, 1.0), "higher")
LOST = Point(None, Interval(0.0, 1.0), "lost", diverged=8)
UNKNOWN = Point(None, Interval(0.0, 1.0), "unknown")


def wounded(point: Point) -> Point:
    return Point(point.value, point.interval, point.where, diverged=1)


VERDICTS_BELOW = {
    "all below": ([LOWER, LOW], "holds", "low"),
    "one across": ([LOW, ACROSS], "undecided", "across"),
    "one above": ([LOW, HIGH], "fails", "high"),
    "above beats across": ([ACROSS, HIGH], "fails", "high"),
    "two above": ([HIGH, HIGHER], "fails", "higher"),
    "one seed diverged": ([LOWER, wounded(LOW)], "undecided", "low; 1 diverged"),
    "one seed diverged elsewhere": ([wounded(LOWER), LOW], "undecided", "low; 1 diverged"),
    "one condition diverged": ([LOW, LOST], "undecided", "low; 8 diverged"),
    "one condition without a value": ([LOW, UNKNOWN], "undecided", "low"),
    "diverged and above": ([wounded(HIGH), LOW], "fails", "high; 1 diverged"),
    "everything diverged": ([LOST], "undecided", "every seed diverged"),
    "nothing": ([], "not run", ""),
}
MIRROR = {"low": HIGH, "lower": HIGHER, "across": ACROSS, "high": LOW, "higher": LOWER}


@pytest.mark.parametrize("points, verdict, where", VERDICTS_BELOW.values(), ids=VERDICTS_BELOW)
def test_every_below(points: list[Point], verdict: str, where: str):
    judged = every_below(points, 0.5)
    assert (judged.verdict, judged.where) == (verdict, where)
    check_numbers(judged, points)


@pytest.mark.parametrize("points, verdict, where", VERDICTS_BELOW.values(), ids=VERDICTS_BELOW)
def test_every_above_is_its_mirror_image(points: list[Point], verdict: str, where: str):
    mirrored = [p if p.value is None else Point(*_parts(MIRROR[p.where]), diverged=p.diverged) for p in points]
    judged = every_above(mirrored, 0.5)
    name, *note = where.split("; ")
    expected = "; ".join([MIRROR[name].where if name in MIRROR else name, *note])
    assert (judged.verdict, judged.where) == (verdict, expected)
    check_numbers(judged, mirrored)


def _parts(point: Point) -> tuple[float | None, Interval, str]:
    return point.value, point.interval, point.where


def check_numbers(judged: Judgement, points: list[Point]) -> None:
    """The number that decides is the one of the point that is named."""
    named = [p for p in points if p.value is not None and p.where == judged.where.split("; ")[0]]
    expected = (named[0].value, named[0].interval) if named else (None, None)
    assert (judged.measured, judged.interval) == expected


@pytest.mark.parametrize("judge", [every_below, every_above])
@pytest.mark.parametrize("interval", [Interval(0.5, 0.5), Interval(0.2, 0.5), Interval(0.5, 0.8)])
def test_an_interval_that_touches_the_margin_is_undecided(judge, interval: Interval):
    assert judge([Point(0.5, interval, "")], 0.5).verdict == "undecided"


def test_a_claim_makes_one_record():
    rows = [{"error": 0.1}]
    seen = []

    def judge(given: list[dict[str, float]]) -> Judgement:
        seen.append(given)
        return Judgement("holds", 0.1, Interval(0.0, 0.2), "α = 0.5")

    assert Claim("X.y", "the paper's words", "error < 0.3", judge).verdict(rows) == {
        "id": "X.y",
        "verdict": "holds",
        "measured": 0.1,
        "low": 0.0,
        "high": 0.2,
        "where": "α = 0.5",
        "paper": "the paper's words",
        "predicate": "error < 0.3",
        "needs": "",
        "confidence": 0.95,
        "models": [],
        "ours": False,
        "counts": False,
        "points": [],
        "margins": [],
    }
    assert seen == [rows]


def test_a_record_has_no_number_that_is_none():
    points = (Point(math.nan, Interval(-math.inf, math.inf), "one seed"),)
    claim = Claim("X.y", "words", "error < 0.3", lambda rows: Judgement("undecided", math.nan, points=points))
    record = claim.verdict([])
    assert record["measured"] is None
    assert record["points"] == [{"value": None, "low": None, "high": None, "where": "one seed"}]


def test_a_record_keeps_all_that_was_judged_and_the_margins():
    points = [Point(0.1, Interval(0.0, 0.2), "here"), Point(None, Interval(-math.inf, math.inf), "there")]
    record = Claim("X.y", "", "", judged(lambda rows: points, every_below, 0.3)).verdict([])
    assert record["points"] == [
        {"value": 0.1, "low": 0.0, "high": 0.2, "where": "here"},
        {"value": None, "low": None, "high": None, "where": "there"},
    ]
    assert record["margins"] == [0.3]
    assert Claim("X.y", "", "", judged(lambda rows: None, every_below, 0.3)).verdict([])["points"] == []


def test_a_claim_that_was_not_run_has_no_numbers():
    record = Claim("X.y", "", "", lambda rows: Judgement("not run")).verdict([])
    assert (record["verdict"], record["measured"], record["low"], record["high"]) == ("not run", None, None, None)
