"""`iclab run --until-decided`: rounds, what is said about them, and where results go."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from iclab.study.sequences import confidence_after

Cli = Callable[..., Any]
SMALL = ("steps=20", "test_prompts=50", "outlier_fractions=[0.0,0.6,0.8]", "baselines=false", 'label_rules=["flip"]')
WORDS = ("run", "M-fig2", *(word for setting in SMALL for word in ("--set", setting)), "--workers", 1)
RUN = (*WORDS, "--until-decided")


def test_rounds_are_told_and_the_second_run_is_free(cli: Cli, tmp_path: Path, contents: Callable[[Path], Any]):
    places = ("--store", tmp_path / "store", "--out", tmp_path / "out")
    first = cli(*RUN, "--most", 16, "--json", *places)
    assert first.code == 0, first.err
    found = first.json
    assert [round_["seeds"] for round_ in found["rounds"]] == [8, 16][: len(found["rounds"])]
    last = found["rounds"][-1]
    undecided = [claim["id"] for claim in found["claims"] if claim["verdict"] == "undecided"]
    assert list(last["undecided"]) == undecided
    assert {claim["confidence"] for claim in found["claims"]} == {confidence_after(last["seeds"])}
    assert {row["seed"] for row in found["rows"]} == set(range(last["seeds"]))
    told = [line for line in first.err.splitlines() if line.startswith("iclab: M-fig2, ")]
    assert len(told) == len(found["rounds"])
    assert told[0].startswith("iclab: M-fig2, 8 seeds, 98.33 % intervals: undecided: ")

    before = contents(tmp_path / "store")
    again = cli(*RUN, "--most", 16, *places)
    assert contents(tmp_path / "store") == before
    assert "cells in" not in again.err
    decided = sum(claim["verdict"] not in ("undecided", "not run") for claim in found["claims"])
    end = [line for line in again.out.splitlines() if " claims decided with " in line]
    assert end == [f"M-fig2: {decided} of {decided + len(undecided)} claims decided with {last['seeds']} seeds"]
    for id_ in undecided:
        assert f"  {id_} is undecided: it needs " in again.out
    assert f"{100 * confidence_after(last['seeds']):.4g} % interval" in again.out

    usual = cli(*WORDS, "--seeds", last["seeds"], "--json", *places).json
    assert {claim["confidence"] for claim in usual["claims"]} == {0.95}
    assert Path(usual["figure"]).parent != Path(found["figure"]).parent  # neither overwrites the other
    kept = json.loads((Path(found["figure"]).parent / "claims.json").read_text(encoding="utf-8"))
    assert kept["claims"] == found["claims"]


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        ((*WORDS, "--most", 16), ("most = 16", "--until-decided")),
        ((*RUN, "--most", 20), ("most = 20", "multiple of 8")),
        ((*RUN, "--most", 0), ("most = 0", "at least 8")),
        ((*RUN, "--seeds", 24), ("seeds = 24", "--most")),
        ((*RUN, "--set", "seeds=24"), ("seeds = 24", "--most")),
    ],
    ids=["most alone", "most in between", "no seeds", "seeds", "seeds as a setting"],
)
def test_what_does_not_go_together_is_refused(cli: Cli, tmp_path: Path, words: tuple[Any, ...], parts: tuple[str, ...]):
    complaint = cli(*words, "--store", tmp_path / "store", "--out", tmp_path / "out").complaint
    assert all(part in complaint for part in parts)
    assert not (tmp_path / "store").exists()
