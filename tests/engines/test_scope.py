"""Engines take what they have code for, and refuse the rest with a reason."""

import pytest

from iclab.engines import Recipe, Switch, Training, faster_obstacle
from iclab.engines.registry import COMPACT, FUSED
from iclab.prompts import Outliers, Patterns, Prompts


class NewPrompts(Prompts):
    drift: float = 0.0


class NewOutliers(Outliers):
    burst: int = 1


class NewPatterns(Patterns):
    tilt: float = 0.0


class NewRecipe(Recipe):
    wobble: int = 0


def late(prompts):
    return Recipe(switches=(Switch(step=9, prompts=prompts),))


CASES = {
    "prompts": ({"prompts": NewPrompts()}, {"prompts": NewPrompts(drift=0.5)}, "prompts.drift = 0.5: .*default, 0.0"),
    "outliers": (
        {"prompts": Prompts(outliers=NewOutliers())},
        {"prompts": Prompts(outliers=NewOutliers(burst=3))},
        "prompts.outliers.burst = 3: .*default, 1",
    ),
    "patterns": (
        {"prompts": Prompts(patterns=NewPatterns())},
        {"prompts": Prompts(patterns=NewPatterns(tilt=0.1))},
        "prompts.patterns.tilt = 0.1: .*default, 0.0",
    ),
    "recipe": ({"recipe": NewRecipe()}, {"recipe": NewRecipe(wobble=7)}, "recipe.wobble = 7: .*default, 0"),
    "switch": (
        {"recipe": late(NewPrompts())},
        {"recipe": late(NewPrompts(drift=0.5))},
        "recipe.switches.prompts.drift = 0.5: .*default, 0.0",
    ),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(("engine", "model"), [("fused", "mamba"), ("compact", "softmax-mlp")])
def test_a_field_that_an_engine_does_not_know_must_have_its_default(engine, model, case):
    default, changed, reason = CASES[case]
    assert Training(model=model, engine=engine, **default).engine == engine
    with pytest.raises(ValueError, match=f"engine = {engine}: does not apply: {reason}"):
        Training(model=model, engine=engine, **changed)
    fallen_back = Training(model=model, **changed)
    assert fallen_back.engine == "reference"
    assert faster_obstacle(fallen_back)


def test_every_field_of_today_is_known_to_the_engine_that_draws_it():
    """A field that is missing from the lists would send all of its values to the reference engine."""
    for kind in (Training, Recipe, Switch, Patterns, Outliers):
        known = set(kind.model_fields) - {"table"}  # tables of vectors run on the reference engine
        assert FUSED.fields[kind.__name__] == COMPACT.fields[kind.__name__] == known
    assert FUSED.fields["Prompts"] < COMPACT.fields["Prompts"] == set(Prompts.model_fields) - {"noise", "levels"}


@pytest.mark.parametrize("case", CASES)
def test_the_reference_engine_takes_everything(case):
    assert Training(model="mamba", engine="reference", **CASES[case][1]).engine == "reference"
