"""T-thm3.7: which neurons are pruned, what is predicted without a fit, and the logic of its claims."""

import math

import pytest

from iclab.catalog import find
from iclab.papers.nonlinear.laws import GRAPHS
from iclab.papers.nonlinear.thm37_rows import PruningTheoremSettings, predicted_loss

SEEDS = 3
EXPERIMENT = find("T-thm3.7")
SETTINGS = PruningTheoremSettings(seeds=SEEDS)


def made_up(
    power=-0.5, spread=False, small=0.01, slope=1.0, bend=0.0, off=0.0, few=0.2, lucky=1.0, unlucky=0.0, extra=-1.0
):
    """Rows of a model as the paper has it: outputs of 1, six of ten neurons in L."""
    rows = []

    def add(part, graph, x, seed, **values):
        rows.append({"part": part, "graph": graph, "x": x, "seed": seed, "diverged": False} | values)

    for graph in GRAPHS:
        for seed in range(SEEDS):
            wobble = 1 + 0.001 * seed
            for x in SETTINGS.irrelevants:
                lengths = [0.4 * x**power] * 2 + [2.0 * wobble] * 3
                lengths += [0.4 * x**power * (5 * x**-power) ** (k / 9) for k in range(10)] if spread else []
                for neuron, length in enumerate(lengths):
                    add("lengths", graph, x, seed, neuron=neuron, length=length)
            for n in SETTINGS.relevant_values:
                add("whole", graph, n, seed, hinge=0.001)
                add("pruned", graph, n, seed, hinge=0.001 + small * wobble)
                add("fraction 1", graph, n, seed, hinge=0.05)
                add("fraction 0.2", graph, n, seed, hinge=0.05 + n**extra * wobble)
                for kind, share, count in ((True, lucky, 450), (False, unlucky, 550)):
                    large = int(count * share) - seed * (share > 0)
                    add("lucky", graph, n, seed, lucky=kind, neurons=count, large=large)
            for neuron in range(10):
                add("neurons", graph, 0.0, seed, neuron=neuron, length=0.1 if neuron < 4 else 2.0)
            for k in range(21):
                add("shrunk", graph, 0.0, seed, factor=k / 20, hinge=1 - k / 20, margin=1.0)
            for rate in (0.0, *SETTINGS.rates):
                gone = round(10 * rate) / 6
                loss = gone * slope * wobble + (off if rate else 0.0) if not bend else rate ** (1 + bend)
                add("rates", graph, rate, seed, hinge=loss)
            for m in SETTINGS.widths:
                add("widths", graph, m, seed, error=few * wobble if m == 10 else 0.001)
                add("unpruned", graph, m, seed, error=0.001)
    return rows


CLAIMS = {claim.id.removeprefix("T-thm3.7."): claim for claim in EXPERIMENT.claims(SETTINGS)}


@pytest.mark.parametrize(
    ("changes", "claim", "verdict"),
    [
        ({}, "norms", "holds"),
        ({"power": -0.1}, "norms", "in direction"),
        ({"power": 0.1}, "norms", "fails"),
        ({}, "gap", "holds"),
        ({"spread": True}, "gap", "fails"),
        ({}, "small", "holds"),
        ({"small": 0.2}, "small", "fails"),
        ({"bend": 0.01}, "linear", "holds"),
        ({"bend": 1.0}, "linear", "in direction"),
        ({"slope": 0.0, "off": -0.1}, "linear", "fails"),
        ({}, "examples", "holds"),
        ({"extra": -0.5}, "examples", "in direction"),
        ({"extra": 0.1}, "examples", "fails"),
        ({}, "shrink", "holds"),
        ({"off": 0.2}, "shrink", "fails"),
        ({"slope": 0.5}, "shrink", "fails"),
        ({}, "errors", "holds"),
        ({"few": 0.002}, "errors", "fails"),
        ({}, "lucky", "holds"),
        ({"lucky": 0.8}, "lucky", "fails"),
        ({}, "unlucky", "holds"),
        ({"unlucky": 0.6}, "unlucky", "fails"),
    ],
)
def test_claims(changes, claim, verdict):
    assert CLAIMS[claim].verdict(made_up(**changes))["verdict"] == verdict


def test_a_diverged_seed_forbids_holds():
    rows = [row | {"diverged": True} if row["seed"] == 1 else row for row in made_up()]
    found = {c.id: c.verdict(rows)["verdict"] for c in EXPERIMENT.claims(SETTINGS)}
    assert "holds" not in found.values()


def test_the_predicted_loss_is_that_of_outputs_times_the_share_of_l_that_is_left():
    rows = made_up()
    assert predicted_loss(rows, "ring", 0.0)[0] == pytest.approx(0.0)
    assert predicted_loss(rows, "ring", 0.3)[0] == pytest.approx(0.5)  # 3 of 6 in L, outputs of 1
    assert predicted_loss(rows, "ring", 0.2)[0] == pytest.approx(1 / 3)  # between two factors
    assert predicted_loss(rows, "ring", 0.9)[0] == pytest.approx(1.0)  # all of L


def test_prunings_are_those_of_the_theorem():
    for condition in EXPERIMENT.conditions(SETTINGS.replace(seeds=1)):
        part, pruning = condition.columns["part"], condition.cell.pruning
        if part == "rates":
            assert (pruning.among, pruning.order, pruning.rate) == ("large", "random", condition.columns["x"])
        elif part.startswith("fraction"):
            prompts = condition.cell.prompts
            assert (pruning.among, pruning.rate, prompts.context_length) == ("large", 0.05, 20)
            assert prompts.relevant_fraction == float(part.removeprefix("fraction "))
        elif part == "pruned":
            assert (pruning.among, pruning.rate) == ("small", 1.0)
        elif part == "widths":
            assert (pruning.among, pruning.rate) == ("all", 0.5)
            assert condition.cell.training.training.model.options["neurons"] == condition.columns["x"]
        else:
            assert pruning is None
        if part == "lengths":
            assert condition.cell.training.training.prompts.patterns.irrelevant == condition.columns["x"]
            assert math.isclose(condition.cell.training.training.recipe.step_size, 1.0)
