"""readings: the space is valid, seeds of verdicts are fresh, and what its counts say of made-up verdicts."""

import pytest

from iclab.beyond import readings
from iclab.beyond.readings import FINAL, FRESH, SEARCH, VERDICT, Readings, ReadingsSettings, View
from iclab.beyond.readings_space import PARTS, TESTED, changes_of, drawn_readings, in_words, neighbours
from iclab.catalog import find
from iclab.config import InputError

DEEP = "M, three layers"
BEST = {"stream": "label", "κ_a'": "6"}
SMALL = ReadingsSettings(
    parts=("M, one layer",), trainings={"M, one layer": 2}, favourable={"M, one layer": {"counting": "exact"}}
).quick()
FINALS = SMALL.replace(finalists={"M, one layer": ({"K'": "3"}, {"batch": "32"})})


@pytest.mark.parametrize("part", PARTS)
def test_every_value_of_the_space_changes_something_in_every_experiment_of_its_part(part):
    for id_ in PARTS[part].experiments:
        usual = find(id_).settings().replace(**PARTS[part].less.get(id_, {}))
        for dimension, (own, *others) in ((d, list(values)) for d, values in PARTS[part].space.items()):
            assert not PARTS[part].space[dimension][own]
            for value in others:
                assert usual.changed(changes_of(part, {dimension: value})) != usual


@pytest.mark.parametrize("part", PARTS)
def test_own_values_are_those_of_the_settings(part):
    """The first value of a dimension is named after what the settings have."""
    settings = find(PARTS[part].experiments[0]).settings()
    for values in PARTS[part].space.values():
        own, *others = values
        for value in others:
            for key in (key for key in values[value] if "." not in key):
                now = getattr(settings, key)
                assert str(now) == own or f"{now:g}" == own


def test_at_least_two_hundred_readings_of_the_deep_models_are_tried():
    tried = ReadingsSettings().tried(DEEP)
    assert tried[0] == {}
    assert len({in_words(reading) for reading in tried}) == len(tried) >= 200
    assert drawn_readings(DEEP, 50, 4) == drawn_readings(DEEP, 50, 4)


def test_readings_of_one_training_differ_in_tests_alone():
    found = drawn_readings(DEEP, 3, 4)
    for first in range(0, 12, 4):
        trained = [{d: v for d, v in reading.items() if d not in TESTED} for reading in found[first : first + 4]]
        assert all(reading == trained[0] for reading in trained)


def test_neighbours_are_one_step_away():
    found = neighbours(DEEP, BEST)
    assert BEST not in found
    for reading in found:
        assert sum(reading.get(d) != BEST.get(d) for d in PARTS[DEEP].space) == 1
    assert len(found) == sum(len(values) - 1 for values in PARTS[DEEP].space.values())


def test_no_seed_of_the_search_gives_a_verdict():
    seeds = {SEARCH: set(), FINAL: set(), VERDICT: set()}
    for condition in Readings().conditions(FINALS):
        seeds[condition.columns["stage_of"]].update(condition.cell.training.seeds)
    assert seeds[SEARCH] == set(range(SMALL.search_seeds))
    assert seeds[FINAL] == set(range(8))
    assert seeds[VERDICT] == set(range(FRESH, FRESH + 8))
    below = {condition.below for condition in Readings().conditions(FINALS)}
    assert below == {None, FRESH + 8}


def test_only_what_papers_claim_is_measured():
    view = View(ReadingsSettings(), DEEP, SEARCH, {})
    columns = [condition.columns for condition in view.conditions()]
    assert {c.get("stage", "trained") for c in columns} == {"trained"}
    assert {c["experiment"] for c in columns} == set(PARTS[DEEP].experiments)
    assert {c["step"] for c in columns if "step" in c} == {0, 500}


def judge(monkeypatch, final, own, best):
    """Judge made-up verdicts: how many of three claims hold under each finalist, and with fresh seeds."""

    def holding(count):
        return {f"c{i}": "holds" if i < count else "fails" for i in range(3)}

    part = SMALL.parts[0]
    named = [in_words(reading) for reading in FINALS.tried(part)]
    found = {(part, SEARCH, name): holding(1) for name in named}
    last = [in_words(reading) for reading in FINALS.last(part)]
    found |= {(part, FINAL, name): holding(n) for name, n in zip(last, final, strict=True)}
    found |= {(part, VERDICT, name): holding(n) for name, n in ((named[0], own), (named[1], best))}
    monkeypatch.setattr(readings, "all_verdicts", lambda rows, settings, part: found)
    records = [claim.verdict([{"part": part}]) for claim in Readings().claims(FINALS)]
    return {r["id"].rpartition(".")[2]: (r["verdict"], r["measured"]) for r in records}


def test_counts(monkeypatch):
    found = judge(monkeypatch, final=(2, 1, 1, 2), own=1, best=2)
    assert found == {"found": ("holds", 0), "better": ("holds", 1), "all": ("fails", 1), "none": ("fails", 1)}


def test_without_finalists_none_is_claimed_to_be_the_best():
    assert not any(claim.id.endswith(".found") for claim in Readings().claims(SMALL))
    assert FINALS.last("M, one layer")[:2] == [{"counting": "exact"}, {}]


def test_a_better_reading_than_the_recorded_one_is_noticed(monkeypatch):
    assert judge(monkeypatch, final=(1, 1, 3, 1), own=1, best=1)["found"] == ("fails", 2)


def test_all_claims_at_once(monkeypatch):
    found = judge(monkeypatch, final=(3, 3, 3, 3), own=3, best=3)
    assert (found["all"], found["none"]) == (("holds", 0), ("holds", 0))
    assert found["better"] == ("fails", 0)


@pytest.mark.parametrize(
    ("favourable", "message"),
    [
        ({"M, two layers": {}}, "favourable = M, two layers: must be one of M, three layers"),
        ({DEEP: {"stream": "half"}}, "favourable.M, three layers = stream: half: must be one of full, label"),
        ({DEEP: {"colour": "red"}}, "favourable.M, three layers = colour: red: must be one of stream, norm"),
    ],
)
def test_a_reading_that_is_not_in_the_space_is_refused_in_one_line(favourable, message):
    with pytest.raises(InputError) as caught:
        ReadingsSettings(favourable=favourable)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
