"""S-fig1: its data, and the logic of its claims."""

import math

import pytest

from iclab.catalog import find
from iclab.papers.selectors.fig1 import SelectorSettings
from iclab.probes import Interval
from iclab.study.claims import Point, together

FIGURE = find("S-fig1")
SETTINGS = SelectorSettings(seeds=3, noises=(1.0,), signals=(0.5,))


def test_each_kind_is_trained_and_tested_on_its_own_data():
    kinds = SETTINGS.kinds()
    assert [(kind.noise, kind.signal) for kind in kinds] == [(0.0, 1.0), (1.0, 1.0), (0.0, 0.5)]
    by_label = {kind.label: kind for kind in kinds}
    for condition in FIGURE.conditions(SETTINGS):
        columns, training = condition.columns, condition.cell.training.training
        trained, tested = (p.pairs.tolist() for p in (training.prompts, condition.cell.prompts))
        assert (tested == trained) == (columns["tasks"] == "training")
        assert tested == trained or not [pair for pair in tested if pair in trained]
        if columns["irrelevant"] is not None:
            assert training.prompts.patterns.irrelevant == columns["irrelevant"]
            continue
        kind = by_label[columns["data"]]
        for prompts in (training.prompts, condition.cell.prompts):
            assert (prompts.noise, prompts.signal) == (kind.noise, (kind.signal, 1.0))
            assert prompts.label_norm == prompts.patterns.relevant_norm == 3.0  # ‖q‖ = β
        assert training.model.options["init_scale"] < 0.1
        assert condition.cell.at == condition.columns["step"]


def verdicts(
    relevant=2.1, irrelevant=0.28, label=2.0, feature=0.1, ahead=0.9, key=None, odd=None, power=0.5, unseen=0.001
):
    rows = []
    for seed in range(3):
        for count in SETTINGS.irrelevants:
            length = math.log(6 + count) ** power * (1 + 0.01 * seed)
            row = {"probe": "norms", "matrix": "query", "kind": "relevant", "length": length, "irrelevant": count}
            rows.append({**row, "data": "", "step": 600, "seed": seed, "tasks": "training"})
        where = {"probe": "error", "data": SETTINGS.kinds()[0].label, "step": 600, "seed": seed, "tasks": "unseen"}
        rows.append({**where, "error": unseen * (1 + 0.01 * seed), "prompts": 100_000})
    for data in SETTINGS.kinds():
        for seed in range(3):
            wobble = 1 + 0.001 * seed
            for step in (0, 600):
                for matrix in ("query", "key"):
                    for kind, end in (("relevant", relevant), ("irrelevant", irrelevant)):
                        end = key if key and (matrix, kind) == ("key", "relevant") else end
                        end = odd if odd and kind == "relevant" and data.noise else end
                        row = {"probe": "norms", "matrix": matrix, "kind": kind, "length": end if step else 0.27}
                        rows.append({**row, "data": data.label, "step": step, "seed": seed, "diverged": False})
                parts = {
                    f"{name}_by_{cut}": value * wobble
                    for cut in ("source", "place")
                    for name, value in (("label", label), ("feature", feature), ("ahead", ahead if step else 0.5))
                }
                for tasks in ("training", "unseen"):
                    where = {"probe": "parts", "data": data.label, "step": step, "seed": seed, "tasks": tasks}
                    rows.append({**where, **parts})
    for row in rows:
        row.setdefault("diverged", False)
        row.setdefault("tasks", "training")
        row.setdefault("irrelevant", None)
    found = {claim.id: claim.verdict(rows)["verdict"] for claim in FIGURE.claims(SETTINGS)}
    return {id_.removeprefix("S-fig1."): verdict for id_, verdict in found.items()}


@pytest.mark.parametrize(
    ("changes", "failing"),
    [
        ({}, set()),
        ({"power": 0.0}, {"relevant"}),
        ({"power": 1.0}, set()),  # a bound from below
        ({"relevant": 0.3}, {"grows"}),
        ({"key": 0.3}, {"grows"}),  # both must grow
        ({"unseen": 0.02}, {"unseen.error"}),
        ({"irrelevant": 0.5}, {"irrelevant"}),
        ({"irrelevant": 0.1}, {"irrelevant"}),  # nor may they shrink
        ({"feature": 2.5}, {"label-part.source", "label-part.place", "unseen.label-part"}),
        ({"ahead": 0.6}, {"fraction.source", "fraction.place"}),  # half is chance
    ],
)
def test_claims(changes, failing):
    found = verdicts(**changes)
    assert {name for name, verdict in found.items() if verdict == "fails"} == failing
    assert all(verdict == "holds" for name, verdict in found.items() if name not in failing)


def test_one_kind_of_prompts_is_enough_to_fail():
    assert verdicts(relevant=2.1, odd=0.3)["grows"] == "fails"


def test_what_a_figure_varies_or_derives_is_not_set_besides():
    assert [kind.noise for kind in SETTINGS.replace(noise=0.5).kinds()] == [0.5, 1.0, 0.5]
    assert SETTINGS.replace(pattern_norm=2.0).prompts().label_norm == 2.0
    for id_, key in (("S-fig1", "label_norm"), ("T-fig6", "relevant_fraction"), ("T-fig7", "relevant")):
        with pytest.raises(ValueError, match=f"{key}: is not used here; change"):
            find(id_).settings().replace(**{key: 1})


def test_the_theorems_bounds_are_kept():
    with pytest.raises(ValueError, match=r"less than 0\.1"):
        SETTINGS.replace(init_scale=0.2)
    with pytest.raises(ValueError, match="greater than or equal to 0"):
        SETTINGS.replace(noises=(-1.0,))


def test_points_of_several_sources_are_judged_only_if_all_are_there():
    here = [Point(0.5, Interval(0.4, 0.6), "here")]
    assert together(lambda rows: here, lambda rows: here)([]) == here * 2
    assert together(lambda rows: here, lambda rows: None)([]) is None
