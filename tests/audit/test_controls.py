"""Negative controls on claims of which it is known whether they can fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from iclab.audit import controls

A, B = ["row", 0, "error"], ["row", 1, "error"]
GAP = ["-", A, B]


@pytest.fixture
def controlled(monkeypatch):
    """Return a function that runs the controls on claims: "series > margin", by name, over rows of two models."""

    def run(claims, margin=0.0):
        models = {"a": 0.5, "b": 0.2}
        rows = [
            {"model": model, "seed": seed, "error": error + 0.01 * (seed**2 if model == "a" else seed), "other": 0.1}
            for model, error in models.items()
            for seed in range(4)
        ]
        monkeypatch.setattr(controls, "read_rows", lambda *given: rows)
        experiment = {"keys": ["model"], "selections": [{"model": model} for model in models]}
        experiment["series"] = [{"seeds": [0, 1, 2, 3], "of": of} for of in claims.values()]
        experiment["claims"] = [_above(id_, number, margin) for number, id_ in enumerate(claims)]
        return controls.controls({"experiments": [experiment]}, Path())

    return run


def _above(id_, number, margin):
    ends = {"value": "mean", "low": "over_seeds.low", "high": "over_seeds.high"}
    point = {"value": 0.3, "low": 0.3, "high": 0.3, "where": "", "lost": 0}
    point["how"] = {end: [name, ["series", number]] for end, name in ends.items()}
    size = {"rule": "every_above", "margins": [margin], "points": [point], "also": [], "withheld": ""}
    return {"id": id_, "verdict": "holds", "confidence": 0.95, "size": size, "direction": None}


def test_a_difference_falls_and_a_size_cannot(controlled):
    found = controlled({"a − b > 0": GAP, "|a − b| > 0": ["absolute", GAP]})
    assert (found.swapped, found.survived_swap) == (1, [])
    assert found.survived_shuffles == found.cannot_fail == ["|a − b| > 0"]


def test_a_difference_that_ignores_its_sides_survives_the_exchange(controlled):
    found = controlled({"a² + b²": ["-", ["**", A, 2], ["negative", ["**", B, 2]]]})
    assert (found.swapped, found.survived_swap) == (1, ["a² + b²"])


def test_a_mean_of_two_conditions_has_no_sides(controlled):
    assert controlled({"mean": ["/", ["+", A, B], 2]}, margin=0.1).swapped == 0


def test_two_columns_of_a_row_are_exchanged_too(controlled):
    found = controlled({"error − other": ["-", A, ["row", 0, "other"]]})
    assert (found.swapped, found.survived_swap) == (1, [])


def test_what_is_true_of_every_condition_survives_the_shuffles_and_falls_with_other_numbers(controlled):
    found = controlled({"a": A}, margin=0.1)
    assert (found.survived_shuffles, found.cannot_fail) == (["a"], [])


def test_pairs_matter_if_both_sides_differ_from_seed_to_seed(controlled):
    found = controlled({"a − b": GAP, "a − 0 b": ["-", A, ["*", 0, B]], "a − other": ["-", A, ["row", 1, "other"]]})
    assert (found.paired, found.unmoved) == (2, ["a − 0 b"])
