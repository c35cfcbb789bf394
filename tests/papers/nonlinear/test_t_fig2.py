"""T-fig2: the logic of its claims, and how neurons fall into two groups."""

import pytest

from iclab.catalog import find
from iclab.papers.nonlinear.fig2 import MechanismSettings
from iclab.papers.nonlinear.neurons import by_seed, groups_of

FIGURE = find("T-fig2")
SETTINGS = MechanismSettings(seeds=3, irrelevant=24)
NO_COLUMNS = dict.fromkeys(("along", "length", "same", "matrix", "neuron", "sign", "feature_angle", "label_angle"))


def neuron(seed, number, length, feature, label):
    return {
        "probe": "neurons", "domain": "out", "step": 600, "seed": seed, "diverged": False, "neuron": number,
        "sign": 1.0, "length": length, "feature_angle": feature, "label_angle": label,
    }  # fmt: skip


def verdicts(start=0.3, along=1.0, length=1.05, mass=0.9, large=1.5, small=0.1, angles=(3.0, 2.0), power=-0.5, lost=()):
    rows = []
    for seed in range(3):
        wobble = 1 + 0.001 * seed
        for domain in ("in", "out"):
            for step, part in ((0, start), (600, along)):
                for matrix in ("query", "key"):
                    where = {"probe": "alignment", "domain": domain, "step": step, "matrix": matrix}
                    rows.append({**where, "along": part * wobble, "length": length * wobble})
        rows.append({"probe": "attention", "domain": "out", "step": 600, "same": mass * wobble})
        rows += [neuron(seed, i, large * wobble, *angles) for i in range(7)]
        rows += [neuron(seed, i, small * wobble, 170.0, 170.0) for i in range(7, 10)]
        for count in SETTINGS.irrelevants:  # two neurons outside L, one in it, which does not count
            lengths = (0.2 * count**power, 0.6 * count**power, 1.5)
            sizes = {"probe": "neurons by M2", "domain": "in", "step": 600, "irrelevant": count}
            rows += [{**sizes, "neuron": i, "length": length * wobble} for i, length in enumerate(lengths)]
        for row in rows:
            row.setdefault("seed", seed)
            row.setdefault("diverged", False)
    kept = [row for row in rows if row["seed"] not in lost]
    blank = NO_COLUMNS | {"irrelevant": None}
    gone = [
        {**blank, "probe": probe, "domain": domain, "step": 600, "seed": seed, "diverged": True}
        for seed in lost
        for probe, domain in (("alignment", "in"), ("alignment", "out"), ("attention", "out"), ("neurons", "out"))
    ]
    gone += [
        {**blank, "probe": "neurons by M2", "step": 600, "seed": seed, "irrelevant": count, "diverged": True}
        for seed in lost
        for count in SETTINGS.irrelevants
    ]
    first = [row for row in rows if row["seed"] in lost and row["step"] == 0]
    kept = [{**blank, **row} for row in kept + gone + first]
    return {claim.id.removeprefix("T-fig2."): claim.verdict(kept)["verdict"] for claim in FIGURE.claims(SETTINGS)}


def test_claims():
    good = verdicts()
    assert set(good.values()) == {"holds"}
    for changes, claims in (
        ({"start": 1.2}, {"grows.query", "grows.key"}),
        ({"length": 1.5}, {f"aligned.{matrix}.{domain}" for matrix in ("query", "key") for domain in ("in", "out")}),
        ({"mass": 0.6}, {"attention"}),
        ({"angles": (40.0, 2.0)}, {"neurons.feature"}),
        ({"angles": (3.0, 25.0)}, {"neurons.label"}),
        ({"power": 0.1}, {"small"}),
        ({"small": 1.4}, {"large"}),  # all alike: there are no two groups
        ({"large": 0.5}, {"large"}),  # none grew
    ):
        changed = verdicts(**changes)
        assert {name for name in good if changed[name] == "fails"} >= claims, changes
        assert {name for name in good if changed[name] == "holds"} >= set(good) - claims - {"small", "large",
            "neurons.feature", "neurons.label"}  # fmt: skip


def test_the_order_in_m2_is_a_bound_from_above():
    assert verdicts(power=-1.0)["small"] == "holds"
    assert verdicts(power=-0.2)["small"] == "in direction"


def test_a_diverged_seed_forbids_holds():
    assert set(verdicts(lost=(1,)).values()) == {"undecided"}


def test_neurons_are_divided_at_the_gap():
    rows = [neuron(0, i, length, 0, 0) for i, length in enumerate((0.1, 0.3, 0.8, 1.7, 1.8, 1.9, 2.0))]
    large, small = groups_of(by_seed(rows, 600)[0])
    assert [row["length"] for row in small] == [0.1, 0.3, 0.8]
    assert [row["length"] for row in large] == [1.7, 1.8, 1.9, 2.0]
    assert groups_of([]) == ([], [])
    assert by_seed([{**rows[0], "diverged": True, "length": None}], 600) == {0: []}


def test_a_step_without_large_neurons_has_no_angle_and_can_be_printed():
    rows = [{**neuron(0, 0, 0.0, 90.0, 90.0), "step": 0}]
    lines = FIGURE.table(rows, SETTINGS)
    assert lines[0]["angle to ±q, large neurons"] == "–"
    assert len(lines) == 13


@pytest.mark.parametrize("watched", [1, 7, 12])
def test_weights_are_kept_from_the_start_to_the_end(watched):
    steps = SETTINGS.replace(watched=watched).kept_steps()
    assert (steps[0], steps[-1], len(steps)) == (0, 600, watched + 1)
    assert SETTINGS.replace(watched=watched).training().recipe.kept == steps


def test_neurons_are_dots_and_the_first_of_seed_0_have_paths():
    ends = [{**neuron(seed, i, 1.0, 10.0 * i, 5.0), "feature_length": 1.0, "label_length": 0.5}
            for seed in range(2) for i in range(3)]  # fmt: skip
    starts = [{**row, "step": 0, "feature_angle": 90.0} for row in ends]
    panel = FIGURE.chart(starts + ends, SETTINGS.replace(shown=2)).panels[2]
    found = {}
    for layer in panel.spec(100)["layer"]:
        kind = (layer["mark"]["type"], layer["mark"].get("opacity"))
        found[kind] = [(v["x"], v["y"]) for v in layer["data"]["values"]]
    assert found["line", None] == [(90.0, 1.0), (0.0, 1.0), (90.0, 1.0), (10.0, 1.0)]
    assert len(found["point", 0.3]) == 6
    assert found["point", 1] == [(0.0, 1.0), (10.0, 1.0)]
