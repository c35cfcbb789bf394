"""How numbers remember where they come from, and what becomes of those that do not."""

from __future__ import annotations

import math

import numpy as np
import pytest

from iclab.audit import program
from iclab.audit.expressions import Writer, keys_of, traceable
from iclab.probes import over_seeds
from iclab.probes.tracing import Number, exp, least, log, mean, most, plain, sqrt, total, tracing, variance
from iclab.study.rows import difference, error_points, values

ROWS = [
    {"model": model, "x": x, "seed": seed, "prompts": 50, "error": (seed + 1) * x / (30 if model == "a" else 40)}
    for model in "ab"
    for x in (1.0, 2.0)
    for seed in range(3)
]


@pytest.fixture
def traced():
    """Rows that remember, what writes them, and what computes expressions."""
    keys = keys_of(ROWS, ["model", "x"])
    writer = Writer(ROWS, keys)
    known = {"keys": keys, "series": writer.series, "selections": writer.selections}
    with tracing():
        yield traceable(ROWS, keys), writer, program.Evaluation(program.Rows(known, ROWS), 0.95)


def test_a_paired_difference_is_one_expression_for_all_seeds(traced):
    rows, writer, evaluation = traced
    found = difference(values(rows, "error", model="a", x=1.0), values(rows, "error", model="b", x=1.0))
    written = writer.expression(mean(list(found.values())))
    assert written == ["mean", ["series", 0]]
    assert writer.series == [{"seeds": [0, 1, 2], "of": ["-", ["row", 0, "error"], ["row", 1, "error"]]}]
    assert writer.selections == [{"model": "a", "x": 1.0}, {"model": "b", "x": 1.0}]
    assert evaluation.value(written) == pytest.approx(sum(map(float, found.values())) / 3)


def test_every_operation_is_computed_again(traced):
    rows, writer, evaluation = traced
    all_ = [a, b, _] = [row["error"] for row in rows[:3]]
    made = [a + b, 1 - a, a * 2, 3 / b, b**0.5, -a, abs(-b), np.float64(2) * a, np.exp(a), np.sqrt(b), sum([a, b, a])]
    made += [exp(a), log(b), sqrt(a), least([a, b]), most([a, b]), total(all_), variance([a, b]), mean([a, 1 - b])]
    made += [over_seeds(all_).low, over_seeds(all_).high, rows[0]["prompts"] - a]
    for number in made:
        assert isinstance(number, Number)
        assert evaluation.value(writer.expression(number)) == pytest.approx(plain(number), rel=program.NEAR)


def test_an_error_with_its_interval(traced):
    rows, writer, evaluation = traced
    (point,) = error_points(rows, 3, [("here", {"model": "a", "x": 2.0})])
    for number in (point.value, point.interval.low, point.interval.high):
        assert evaluation.value(writer.expression(number)) == pytest.approx(float(number), rel=1e-10)


def test_what_was_not_traced_is_recorded(traced):
    rows, writer, _ = traced
    forgotten = [math.exp(row["error"]) for row in rows[:3]]
    written = writer.expression(mean(forgotten))
    assert [part[0] for part in written[1][1:]] == ["recorded"] * 3


def test_nothing_is_remembered_outside():
    assert type(mean([0.5, 1.0])) is float
    with tracing():
        assert type(mean([0.5, 1.0])) is Number


def test_rows_are_named_by_more_columns_where_conditions_do_not_suffice():
    rows = [{"model": "a", "seed": 0, "prompts": 9, "step": step, "loss": 0.1 * step} for step in (1, 2)]
    assert keys_of(rows, ["model"]) == ["model", "step"]
