"""T-gpt2-domain: what its judges say of made-up errors, and that each variant changes one thing."""

import pytest

from iclab.config import InputError
from iclab.papers.nonlinear.gpt2_domain import LARGER, USUAL, VARIANTS, Domain, DomainSettings

SETTINGS = DomainSettings(seeds=4)


def rows_of(errors, training=USUAL, seeds=4):
    """Make rows from errors by patterns and K."""
    return [
        {"training": training, "patterns": patterns, "scale": scale, "seed": seed, "diverged": False}
        | {"error": error, "prompts": 1_000, "right": round(1_000 * (1 - error))}
        for (patterns, scale), error in errors.items()
        for seed in range(seeds)
    ]


def verdicts(rows, settings=SETTINGS):
    return {c.id.partition(".")[2]: c.verdict(rows)["verdict"] for c in Domain().claims(settings)}


def test_harm_by_scale_alone():
    found = verdicts(rows_of({("in", 0.5): 0.0, ("out", 0.5): 0.002, ("in", 5.0): 0.08, ("out", 5.0): 0.083}))
    assert (found["patterns"], found["scale"], found["alone"]) == ("holds", "holds", "holds")


def test_harm_by_patterns_alone():
    found = verdicts(rows_of({("in", 0.5): 0.0, ("out", 0.5): 0.08, ("in", 5.0): 0.001, ("out", 5.0): 0.08}))
    assert (found["patterns"], found["scale"], found["alone"]) == ("fails", "fails", "fails")


def test_a_short_training_decides_nothing():
    rows = rows_of({("in", 0.5): 0.0, ("out", 0.5): 0.002, ("in", 5.0): 0.08, ("out", 5.0): 0.083})
    assert set(verdicts(rows, SETTINGS.replace(gpt2_steps=100, variants=())).values()) == {"undecided"}


def test_variants_are_judged_seed_by_seed():
    rows = rows_of({("in", 0.5): 0.0, ("out", 5.0): 0.05}, "logistic loss", seeds=1)
    rows += rows_of({("in", 5.0): 0.0, ("out", 5.0): 0.0}, LARGER, seeds=1)
    found = verdicts(rows)
    assert (found["variant.logistic-loss"], found["variant.trained-with-K5"]) == ("fails", "holds")
    assert found["variant.no-dropout"] == "not run"


@pytest.mark.parametrize("name", VARIANTS)
def test_a_variant_changes_one_part_of_the_training(name):
    usual, changed = SETTINGS.training_of("gpt2"), SETTINGS.variant(name)
    parts = [part for part in ("model", "prompts", "recipe") if getattr(usual, part) != getattr(changed, part)]
    assert len(parts) == 1


def test_the_corners_are_those_of_t_fig3():
    assert SETTINGS.test("out", 5.0) == SETTINGS.of_model("gpt2").out_of_domain(1.2806248474865698)
    assert SETTINGS.test("in", 0.5).irrelevant_scale == SETTINGS.train_irrelevant_scale
    with pytest.raises(InputError, match=r"^variants = more layers: must be one of logistic loss"):
        DomainSettings(variants=("more layers",))
