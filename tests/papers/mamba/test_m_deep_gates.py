"""M-deep-gates: what its judges say of made-up gates and accuracies, design by design."""

import pytest

from iclab.config import InputError
from iclab.papers.mamba.deep_gates import DESIGNS, DeepGates, DesignSettings

SETTINGS = DesignSettings(seeds=4, designs=("norm", "label only"))


def rows_of(design, accuracies, ratios):
    """Make rows of one design: accuracy at FQ, R and CQ, and the ratio of gates in each layer, by seed."""
    rows = []
    for seed in range(4):
        where = {"model": design, "stage": "trained", "seed": seed, "diverged": False}
        for place, accuracy in zip(("FQ", "R", "CQ"), accuracies, strict=True):
            rows.append({**where, "placement": place, "error": 1 - accuracy - 1e-4 * seed, "prompts": 2_000})
        for layer, ratio in enumerate(ratios(seed), 1):
            for kind, factor in (("clean", 1.0), ("outlier", ratio)):
                for place in range(1, 21):
                    gate = factor * 0.25 * 0.5**place
                    rows.append(
                        {**where, "placement": "gates", "layer": layer, "kind": kind, "place": place, "gate": gate}
                    )
    return rows


def verdicts(rows):
    return {c.id.partition(".")[2]: c.verdict(rows)["verdict"] for c in DeepGates().claims(SETTINGS)}


def test_each_design_is_judged_by_its_own_rows():
    rows = rows_of("norm", (0.999, 0.997, 0.9), lambda seed: (0.9, 0.8, 0.7))
    rows += rows_of("label only", (0.999, 0.97, 0.96), lambda seed: (0.02, 0.8, 0.9))
    found = verdicts(rows)
    assert (found["shut.norm"], found["shut.label-only"]) == ("fails", "holds")
    assert (found["accurate.norm"], found["accurate.label-only"]) == ("holds", "fails")
    assert (found["drop.norm"], found["drop.label-only"]) == ("holds", "in direction")
    assert (found["some-layer.norm"], found["some-layer.label-only"]) == ("fails", "holds")


def test_the_layer_that_shuts_may_differ_by_seed():
    def one_of_three(seed):
        return [0.02 if layer == seed % 3 else 0.9 for layer in range(3)]

    found = verdicts(rows_of("label only", (0.999, 0.999, 0.9), one_of_three))
    assert (found["shut.label-only"], found["some-layer.label-only"]) == ("undecided", "holds")
    assert found["shut.norm"] == found["accurate.norm"] == "not run"


def test_all_designs_are_trained_alike_but_for_their_options():
    usual = DesignSettings()
    trainings = {design: usual.training_of(design) for design in DESIGNS}
    assert len({training.recipe.digest() for training in trainings.values()}) == 1
    assert len({training.model.digest() for training in trainings.values()}) == len(DESIGNS)
    assert all(training.engine == "fused" and training.recipe.clip == 1.0 for training in trainings.values())


def test_an_unknown_design_is_refused_in_one_line():
    with pytest.raises(InputError, match=r"^designs = attention: must be one of norm; label only"):
        DesignSettings(designs=("attention",))
