"""M-hybrid: verdicts on made-up rows, the rule for step sizes, and what a short training shows."""

import pytest

from iclab.catalog import find
from iclab.config import InputError
from iclab.engines import train
from iclab.papers.mamba import hybrid_tuning
from iclab.papers.mamba.hybrid import LABELS, NORMS, PLACES, cell, one_among
from iclab.papers.mamba.hybrid_settings import HybridSettings, orders
from iclab.probes import measure

HYBRID = find("M-hybrid")
SETTINGS = HybridSettings(seeds=4)


def found(order, place, labels, norm):
    """What was measured, about: linear attention that reads raw tokens spoils what follows; Mamba alone drops at CQ."""
    layers = order.split(",")
    if norm == "own" and layers[0] == "linear":
        return 0.6
    if set(layers) == {"mamba"}:
        return {"FQ": 1.0, "R": 0.998, "CQ": 0.95 if labels == "random" else 0.75}[place]
    return 0.996


def verdicts(accuracy=found, lost=None):
    rows = []
    for norm in NORMS:
        for order in orders(SETTINGS.depths):
            for labels in LABELS:
                for place in PLACES:
                    for seed in range(4):
                        gone = order == lost and seed == 3
                        error = None if gone else 1 - accuracy(order, place, labels, norm) + 1e-4 * (seed - 1.5)
                        rows.append(
                            cell(order, place, labels, norm)
                            | {"seed": seed, "prompts": 10**6, "error": error and max(0.0, error), "diverged": gone}
                        )
    return {c.id.removeprefix("M-hybrid."): c.verdict(rows)["verdict"] for c in HYBRID.claims(SETTINGS)}, rows


def test_what_a_table_like_the_measured_one_says():
    said, _ = verdicts()
    assert said == {
        **{"cq": "holds", "cq-gone": "holds", "cq-flipped": "holds", "cost": "holds", "cq-linear": "holds"},
        **{"gate-anywhere": "fails", "gate-first": "holds", "order-linear": "holds", "order-softmax": "holds"},
        **{"best": "fails", "norm": "holds"},
    }


@pytest.mark.parametrize(
    ("claim", "change"),
    [
        ("cq", lambda o, p, labels, n: 0.96 if o == "softmax,mamba,mamba" and p == "CQ" else None),
        ("cq-flipped", lambda o, p, labels, n: 0.8 if (o, p, labels) == ("mamba,softmax", "CQ", "flip") else None),
        ("cq-gone", lambda o, p, labels, n: 0.98 if (o, p) == ("mamba,softmax", "CQ") else None),
        ("cost", lambda o, p, labels, n: 0.98 if (o, p) == ("mamba,softmax,mamba", "R") else None),
        ("cq-linear", lambda o, p, labels, n: 0.96 if (o, p) == ("mamba,linear,mamba", "CQ") else None),
        ("gate-first", lambda o, p, labels, n: 0.9 if (o, p) == ("mamba,linear,linear", "R") else None),
        ("order-linear", lambda o, p, labels, n: 0.95 if o == "linear,mamba" else None),
        ("order-softmax", lambda o, p, labels, n: 0.97 if (o, p) == ("softmax,mamba", "FQ") else None),
        ("norm", lambda o, p, labels, n: 0.9 if (o, n) == ("linear,linear", "rms") else None),
    ],
)
def test_each_claim_can_fail(claim, change):
    def accuracy(*where):
        return found(*where) if change(*where) is None else change(*where)

    assert verdicts(accuracy)[0][claim] == "fails"


def test_a_better_hybrid_and_a_gate_that_works_anywhere_are_noticed():
    def better(order, place, labels, norm):
        return 1.0 if "mamba" in order and len(set(order.split(","))) > 1 else 0.9

    said, _ = verdicts(better)
    assert (said["best"], said["gate-anywhere"]) == ("holds", "holds")


def test_a_diverged_seed_forbids_holds_and_is_named():
    said, rows = verdicts(lost="softmax,mamba")
    assert said["cq"] == said["cost"] == "undecided"
    page = str(HYBRID.chart(rows, SETTINGS).page())
    assert "softmax → mamba (1 diverged)" in page
    assert "softmax → linear (" not in page


def test_orders_are_sorted_by_their_worst_column():
    panels = HYBRID.chart(verdicts()[1], SETTINGS).panels
    assert [len(panel.y.names) for panel in panels] == [9, 9, 27, 27]
    assert panels[0].y.names[-1].startswith("linear")
    assert panels[1].y.names[-1] == "mamba → mamba"
    assert one_among((1, 2, 3), "softmax", "mamba") == [
        *("mamba,softmax", "softmax,mamba"),
        *("mamba,mamba,softmax", "mamba,softmax,mamba", "softmax,mamba,mamba"),
    ]


def test_every_order_has_a_step_size_of_the_grid():
    for norm in SETTINGS.norms:
        for order in orders(SETTINGS.depths):
            assert SETTINGS.training_of(order, norm).recipe.step_size in hybrid_tuning.GRID[:-1]
    with pytest.raises(InputError, match=r"order_steps.own: has none for mamba,mamba,mamba,mamba; add one"):
        HYBRID.conditions(SETTINGS.replace(depths=(4,)))
    with pytest.raises(InputError, match="layers: is not used here; change depths"):
        SETTINGS.replace(layers=2)


@pytest.mark.slow
def test_the_rule_finds_what_the_settings_have():
    """Two layers of linear attention behind Mamba diverge from 0.05 on, so 0.02 is not safe and 0.01 is taken."""
    found = hybrid_tuning.losses(SETTINGS.training_of("mamba,linear,linear", "own"), (0.01, 0.02, 0.05))
    assert found[0.05] is None
    assert hybrid_tuning.choose(found) == SETTINGS.order_steps["own"]["mamba,linear,linear"] == 0.01


@pytest.mark.slow
def test_a_short_training_shows_what_attention_after_a_gate_does():
    settings = SETTINGS.replace(steps=120)
    errors = {}
    for order in ("mamba,mamba", "mamba,softmax"):
        trained = train(settings.training_of(order, "own"), (1000, 1001))
        rows = measure(trained, "error", settings.placed_with("flip", "closest"), 400)
        errors[order] = sum(row["error"] for row in rows) / 2
    assert errors["mamba,softmax"] < 0.05 < 0.15 < errors["mamba,mamba"]
