"""T-fig5: what is pruned, and the logic of its claims."""

import pytest

from iclab.catalog import find
from iclab.papers.nonlinear.fig5 import WAYS, PruningSettings

FIGURE = find("T-fig5")
SETTINGS = PruningSettings(seeds=3, rates=(0.0, 0.15, 0.5), test_fractions=(0.4, 0.8))


def test_every_point_prunes_what_it_says():
    found = [c for c in FIGURE.conditions(SETTINGS) if c.columns["probe"] == "error"]
    assert len(found) == (len(WAYS) - 1) * 3 + 1 + 2 * 3  # all small ones at once
    for condition in found:
        pruning = condition.cell.pruning
        assert pruning.rate == condition.columns["rate"]
        assert condition.cell.prompts.relevant_fraction == condition.columns["fraction"]
        assert pruning.balanced == (condition.columns["way"] == "largest-balanced")
        assert pruning.by == ("hidden" if condition.columns["way"] == "smallest-hidden" else "product")
        way = condition.columns["way"]
        assert pruning.order == ("random" if way in ("large", "small") else way.partition("-")[0])
        assert pruning.among == (way if way in ("large", "small") else "all")
    assert len({c.cell.training.hash for c in found}) == 1


def verdicts(changes=None, small=2):
    """A pruned Transformer as the paper has it, with some numbers changed: {(way, rate, α'): (error, hinge)}."""
    numbers = {}
    for way in WAYS:
        for rate in SETTINGS.rates:
            hurts = rate == 0.5
            loss = rate if hurts or way == "large" else 0.0
            error = 0.1 if way.startswith("smallest") else 0.2
            numbers[way, rate, 0.6] = (error if hurts else 0.001, 0.05 + loss)
    numbers["small", 1.0, 0.6] = (0.001, 0.051)
    for rate in SETTINGS.rates:
        numbers["smallest", rate, 0.4], numbers["smallest", rate, 0.8] = (0.01, 0.1), (0.0001, 0.02)
    rows = [
        {
            "probe": "error", "way": way, "rate": rate, "fraction": fraction, "step": None, "seed": seed,
            "prompts": 100_000, "error": error * (1 + 0.01 * seed), "hinge": hinge * (1 + 0.01 * seed),
            "diverged": False, "length": None,
        }
        for (way, rate, fraction), (error, hinge) in (numbers | (changes or {})).items()
        for seed in range(3)
    ]  # fmt: skip
    rows += [
        {"probe": "neurons", "step": 600, "seed": seed, "neuron": i, "diverged": False, "way": None, "rate": None,
         "fraction": None, "hidden_length": 0.1 if i < small else 1.5 + 0.01 * i}
        for seed in range(3) for i in range(13)
    ]  # fmt: skip
    return {claim.id.removeprefix("T-fig5."): claim.verdict(rows)["verdict"] for claim in FIGURE.claims(SETTINGS)}


def neurons(seeds, count):
    return [
        {"probe": "neurons", "step": 600, "seed": seed, "diverged": False, "length": i + 1.0, "hidden_length": 1.0}
        for seed in range(seeds) for i in range(count)
    ]  # fmt: skip


def test_neurons_stand_in_order_behind_the_errors():
    first, second, third = FIGURE.chart(neurons(2, 4)[::-1], SETTINGS).panels
    bars = first.spec(100)["layer"][0]["layer"][0]["data"]["values"]
    assert [(bar["x"], bar["x2"], bar["y"]) for bar in bars] == [(i / 4, (i + 1) / 4, i + 1.0) for i in range(4)]
    assert second.behind is third.behind is None
    lost = [row | {"diverged": True, "length": None} for row in neurons(2, 1)]
    assert FIGURE.chart(lost, SETTINGS).panels[0].behind is None


def test_a_figure_like_the_papers_holds():
    assert set(verdicts().values()) == {"holds"}


@pytest.mark.parametrize(
    ("claim", "changes"),
    [
        ("free.smallest", {("smallest", 0.15, 0.6): (0.01, 0.05)}),
        ("free.smallest-hidden", {("smallest-hidden", 0.15, 0.6): (0.01, 0.05)}),
        ("beyond.smallest-hidden", {("smallest-hidden", 0.5, 0.6): (0.0005, 0.9)}),
        ("largest", {("largest", 0.5, 0.6): (0.002, 0.9)}),
        ("largest-balanced", {("largest-balanced", 0.5, 0.6): (0.002, 0.9)}),
        ("loss.large", {("large", 0.15, 0.6): (0.001, 0.06)}),
        ("loss.small", {("small", 1.0, 0.6): (0.001, 0.2)}),
        ("random", {("random", 0.5, 0.6): (0.0005, 0.9)}),
        ("fraction", {("smallest", 0.15, 0.8): (0.05, 0.1)}),
    ],
)
def test_a_figure_unlike_the_papers_does_not(claim, changes):
    assert verdicts(changes)[claim] == "fails"


def test_beyond_the_small_neurons_an_error_that_rises_a_little_holds_in_direction():
    assert verdicts({("smallest", 0.5, 0.6): (0.005, 0.9)})["beyond.smallest"] == "in direction"


def test_orders_that_the_papers_figure_does_not_show_are_ours():
    ours = {claim.id for claim in FIGURE.claims(SETTINGS) if claim.ours}
    assert ours == {"T-fig5.largest", "T-fig5.largest-balanced", "T-fig5.random"}


def test_how_many_neurons_are_small():
    assert verdicts(small=0)["small-share"] == "fails"
    assert verdicts(small=4)["small-share"] == "fails"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rates": (0.5, 1.5)}, "less than or equal to 1"),
        ({"rates": (0.5, 0.5)}, "must all be different"),
        ({"test_fractions": (0.5,)}, "at least 2"),
    ],
)
def test_bad_settings_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        SETTINGS.replace(**changes)
