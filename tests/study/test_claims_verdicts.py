"""Claims with a size and a direction, what an undecided claim needs, and the verdicts that all who show them know."""

from __future__ import annotations

import re
from importlib.resources import files
from typing import get_args

import pytest

from iclab.beyond.sensitivity import CELLS, SIGNS
from iclab.cli.tables import _VERDICT_STYLE
from iclab.probes import Interval, at_confidence, over_seeds
from iclab.study.charts import VERDICTS
from iclab.study.claims import (
    COUNTED,
    DECIDED,
    NONE_LOST,
    PROMPTS,
    SEEDS,
    Claim,
    Direction,
    Judgement,
    Point,
    Verdict,
    every_above,
    every_below,
    every_within,
    judged,
    mean_point,
)
from iclab.study.rows import error_points, seed_points


def gap(low: float, high: float, diverged: int = 0) -> Claim:
    """A claim that a gap is above 0.08, in direction above 0, with this interval."""

    def points(rows):
        return [Point((low + high) / 2, Interval(low, high), "here", diverged)]

    return Claim(
        "X.gap",
        "the gap is large",
        "gap > 0.08",
        judged(points, every_above, 0.08),
        direction=Direction("gap > 0", judged(points, every_above, 0.0)),
    )


@pytest.mark.parametrize(
    ("low", "high", "diverged", "verdict"),
    [
        (0.09, 0.12, 0, "holds"),
        (0.03, 0.05, 0, "in direction"),
        (0.03, 0.09, 0, "undecided"),  # the size is open
        (-0.01, 0.05, 0, "fails"),  # the size fails, and the direction is open
        (-0.05, -0.01, 0, "fails"),
        (0.03, 0.05, 1, "fails"),  # a diverged seed forbids that the direction holds
        (0.09, 0.12, 1, "undecided"),
    ],
)
def test_size_first_then_direction(low, high, diverged, verdict):
    record = gap(low, high, diverged).verdict([])
    assert record["verdict"] == verdict
    assert (record["low"], record["high"], record["margins"]) == (
        low,
        high,
        [0.08],
    )  # the numbers are those of the size
    assert record["predicate"] == "gap > 0.08; in direction: gap > 0"


def test_without_a_direction_a_claim_fails_as_before():
    claim = Claim("X.y", "", "gap > 0.08", gap(0.03, 0.05).judge)
    assert claim.verdict([])["verdict"] == "fails"
    assert claim.tested == "gap > 0.08"


def test_a_claim_that_was_not_run_has_no_direction():
    asked = []
    direction = Direction("", lambda rows: asked.append(rows) or Judgement("holds"))
    claim = Claim("X.y", "", "", lambda rows: Judgement("not run"), direction=direction)
    assert claim.verdict([])["verdict"] == "not run"
    assert asked == []


def test_everything_that_shows_verdicts_knows_all_of_them():
    all_of_them = set(get_args(Verdict))
    assert all_of_them == set(VERDICTS) == set(COUNTED) == set(_VERDICT_STYLE) == set(CELLS)
    assert len(set(VERDICTS.values())) == len(VERDICTS)
    assert set(DECIDED) < all_of_them
    assert len(set(SIGNS.values())) == len(SIGNS) == len(all_of_them - {"holds", "not run"})
    style = (files("iclab.report") / "page/style.css").read_text(encoding="utf-8")
    for verdict in all_of_them:
        name = verdict.replace(" ", "-")
        assert len(re.findall(rf"--{name}: #\w{{6}};", style)) == 2  # light and dark
        assert f".verdict.{name}" in style
        assert f".tally .{name}" in style


# What an undecided claim needs.

BELOW = Point(0.1, Interval(0.0, 0.2), "below")
ACROSS = Point(0.45, Interval(0.3, 0.6), "across")
ONE_SEED = Point(0.45, Interval(0.3, 0.6), "one seed", needs=PROMPTS)
LOST = Point(None, Interval(0.0, 1.0), "lost", diverged=8)


@pytest.mark.parametrize(
    ("points", "needs"),
    [
        ([BELOW], ""),
        ([BELOW, ACROSS], SEEDS),
        ([BELOW, ONE_SEED], PROMPTS),
        ([ACROSS, ONE_SEED], SEEDS),
        ([BELOW, LOST], NONE_LOST),
        ([LOST], NONE_LOST),
    ],
    ids=["decided", "seeds", "prompts", "both", "diverged", "all diverged"],
)
def test_what_is_needed_to_decide(points, needs):
    assert every_below(points, 0.5).needs == needs
    assert every_within(points, -0.5, 0.5).needs == needs
    assert Claim("X.y", "", "", judged(lambda rows: points, every_below, 0.5)).verdict([])["needs"] == needs


def rows_of(errors: list[float], prompts: int = 1_000):
    return [
        {"seed": seed, "error": error, "prompts": prompts, "right": round(prompts * (1 - error)), "diverged": False}
        for seed, error in enumerate(errors)
    ]


def test_claims_about_single_seeds_need_prompts_and_means_need_seeds():
    rows = rows_of([0.009, 0.011] * 4)
    assert {point.needs for point in seed_points(rows, 8)} == {PROMPTS}
    assert {point.needs for point in error_points(rows, 8, [("", {})])} == {SEEDS}


# The confidence of intervals, wherever they are made.


def test_claims_are_judged_at_the_confidence_that_is_set():
    errors = [0.010, 0.012, 0.014, 0.009, 0.011, 0.013, 0.012, 0.010]
    points = mean_point(8, lambda rows: {row["seed"]: row["error"] for row in rows})
    makers = (points, lambda rows: error_points(rows, 8, [("", {})]), lambda rows: seed_points(rows, 8))
    for make in makers:
        claim = Claim("X.y", "", "", judged(make, every_below, 0.1))
        usual = claim.verdict(rows_of(errors))
        with at_confidence(0.999):
            wide = claim.verdict(rows_of(errors))
        assert (usual["confidence"], wide["confidence"]) == (0.95, 0.999)
        assert wide["low"] < usual["low"] < usual["measured"] < usual["high"] < wide["high"]
        assert claim.verdict(rows_of(errors)) == usual  # nothing is left behind


def test_confidence_is_restored_after_an_error_and_must_be_a_probability():
    usual = over_seeds([1.0, 2.0])
    with pytest.raises(KeyError), at_confidence(0.99):
        raise KeyError
    assert over_seeds([1.0, 2.0]) == usual
    with pytest.raises(ValueError, match="level = 1"), at_confidence(1.0):
        pass
