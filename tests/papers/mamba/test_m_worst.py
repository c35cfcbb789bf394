"""M-worst: the logic of its claims on made-up rows, and its numbers at a size that takes seconds."""

import pytest
from made_up_rows import drawn

from iclab.catalog import find
from iclab.lab import Store, run
from iclab.papers.mamba.worst import ADVERSARIES, ANYWHERE, WorstSettings
from iclab.study.edition import Edition

WORST = find("M-worst")
SETTINGS = WorstSettings(seeds=4, outlier_scales=(2.0, 6.67), outlier_fractions=(0.4, 0.8))
MILD = {"flipped labels": 0.2, "worst labels": 0.203, "worst labels, closest": 0.3, "worst labels and places": 0.304}


def made_up(errors=(), lost=()):
    """Make rows of four seeds that hardly differ; ``errors[model, adversary, scale, fraction]`` replaces the usual."""
    changed = dict(errors)
    return [
        {
            **{"model": model, "adversary": adversary, "outlier_scale": scale, "outlier_fraction": fraction},
            "seed": seed,
            "prompts": 10_000,
            "error": None
            if (model, seed) in lost
            else changed.get((model, adversary, scale, fraction), usual) + 1e-4 * seed,
            "diverged": (model, seed) in lost,
        }
        for model, adversaries in (("mamba", tuple(ADVERSARIES)), ("linear", ANYWHERE))
        for adversary in adversaries
        for scale in SETTINGS.outlier_scales
        for fraction in SETTINGS.outlier_fractions
        for usual in (0.001 if scale == 6.67 and fraction == 0.4 else MILD.get(adversary, 0.1),)
        for seed in range(4)
    ]


def verdicts(rows):
    return {claim.id.removeprefix("M-worst."): claim.verdict(rows)["verdict"] for claim in WORST.claims(SETTINGS)}


GOOD = {"flip": "holds", "flip-linear": "holds", "closest": "holds", "inside": "holds"}


@pytest.mark.parametrize(
    ("changed", "claim"),
    [
        (("mamba", "worst labels", 2.0, 0.8), "flip"),
        (("linear", "worst labels", 6.67, 0.8), "flip-linear"),
        (("mamba", "worst labels and places", 2.0, 0.4), "closest"),
    ],
)
def test_a_difference_anywhere_fails_its_claim_and_no_other(changed, claim):
    assert verdicts(made_up()) == GOOD
    assert verdicts(made_up({changed: MILD[changed[1]] + 0.02})) == GOOD | {claim: "fails"}


def test_inside_the_theorem_the_error_must_be_small_itself():
    worst = ("mamba", "worst labels and places", 6.67, 0.4)
    closest = ("mamba", "worst labels, closest", 6.67, 0.4)
    assert verdicts(made_up({worst: 0.02, closest: 0.02})) == GOOD | {"inside": "fails"}
    assert verdicts(made_up({worst: 0.5}))["inside"] == "fails"
    weak = SETTINGS.replace(outlier_scales=(2.0, 6.0))  # 6 × 0.3 < κ_a = 2: the theorem speaks of none
    assert {c.id: c.verdict(made_up())["verdict"] for c in WORST.claims(weak)}["M-worst.inside"] == "not run"


def test_lost_seeds_and_missing_rows():
    assert verdicts(made_up(lost={("linear", 2)})) == GOOD | {"flip-linear": "undecided"}
    assert set(verdicts([row for row in made_up() if row["seed"] < 3]).values()) == {"not run"}


def test_worst_cases_are_measured_on_the_prompts_they_are_compared_with():
    cells = {}
    for condition in WORST.conditions(SETTINGS):
        where = {name: condition.columns[name] for name in ("model", "outlier_scale", "outlier_fraction")}
        cells.setdefault(tuple(where.values()), {})[condition.columns["adversary"]] = condition.cell
    for found in cells.values():
        assert found["worst labels"].prompts == found["flipped labels"].prompts
        assert (found["worst labels"].probe, found["flipped labels"].probe) == ("worst", "error")
    placed = cells["mamba", 2.0, 0.4]
    assert placed["worst labels and places"].prompts == placed["worst labels, closest"].prompts
    assert placed["worst labels and places"].probe == "worst-placement"
    assert placed["flipped labels, closest"].prompts.outliers.placement == "closest"
    assert {
        cell.prompts.outliers.scale for (_, scale, _), found in cells.items() for cell in found.values() if scale == 2.0
    } == {2.0}


def test_the_chart_shows_what_the_worst_labels_add():
    figure = WORST.chart(made_up(), SETTINGS)
    assert len(figure.panels) == 6
    added = drawn(figure.panels[4], "linear Transformer", type="line")
    assert [(value["x"], value["y"]) for value in added] == [(0.4, pytest.approx(0.003)), (0.8, pytest.approx(0.003))]


@pytest.mark.slow
def test_flipping_is_all_but_the_worst_for_mamba_and_not_for_linear(tmp_path):
    settings = WorstSettings(seeds=8, test_prompts=2_000, outlier_scales=(2.0, 6.0), outlier_fractions=(0.5, 0.8))
    edition = Edition(WORST, settings)
    run(edition.cells, Store(tmp_path), workers=2, quiet=True)
    found = {}
    for row in edition.rows(Store(tmp_path)):
        key = (row["model"], row["adversary"], row["outlier_scale"], row["outlier_fraction"])
        found[key] = found.get(key, 0.0) + row["error"] / 8
    assert found["mamba", "worst labels", 6.0, 0.8] == pytest.approx(0.0147, abs=0.001)
    assert found["mamba", "flipped labels", 6.0, 0.8] == pytest.approx(0.0143, abs=0.001)
    assert found["linear", "worst labels", 6.0, 0.5] == pytest.approx(0.514, abs=0.01)
    assert found["linear", "flipped labels", 6.0, 0.5] == pytest.approx(0.497, abs=0.01)
    assert found["mamba", "worst labels and places", 2.0, 0.5] > 0.25
    assert found["mamba", "worst labels", 2.0, 0.5] < 0.02
