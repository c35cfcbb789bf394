"""T-prop4.1 and T-cor4.3: predictions from exp(τL) by hand, and claims that tell right laws from wrong ones."""

import math

import numpy as np
import pytest

from iclab.catalog import find
from iclab.papers.nonlinear.alignment import (
    AlignmentSettings,
    entries,
    graph_of,
    predicted_deficit,
    predicted_share,
    times,
)
from iclab.papers.nonlinear.laws import GRAPHS, theorem_neurons
from iclab.papers.nonlinear.settings import NonlinearPaper

SEEDS = 3
SETTINGS = AlignmentSettings(seeds=SEEDS, relevant_values=(4, 6, 8, 12, 16))
RELEVANT = SETTINGS.relevant_values


class TestPredictions:
    @pytest.mark.parametrize("relevant", [4, 8])
    def test_share_of_a_complete_graph_by_hand(self, relevant):
        """exp(τL) is e^(τM1/(M1−1)) on differences of patterns and 1 on their sum."""
        time, grown = 1.3, math.exp(1.3 * relevant / (relevant - 1))
        own, other = grown + (1 - grown) / relevant, (1 - grown) / relevant
        by_hand = own / math.sqrt(own**2 + (relevant - 1) * other**2)
        assert predicted_share(graph_of("complete", relevant), time, 0.0) == pytest.approx(by_hand)

    def test_irrelevant_patterns_lower_the_share(self):
        kappa = np.linspace(-0.5, 0.5, 20_001)
        assert predicted_share(graph_of("ring", 6), 0.0, 0.5) == pytest.approx(
            1 / np.sqrt(1 + kappa**2).mean(), rel=1e-4
        )

    @pytest.mark.parametrize("graph", GRAPHS)
    def test_deficit_is_that_of_a_prompt_with_exact_shares(self, graph):
        own = NonlinearPaper(relevant=5, irrelevant=5, init_scale=0.2)
        shape, time = graph_of(graph, 5), 0.8
        scores = 0.36 * shape.kernel(time)
        found = []
        for j, k in ((j, k) for j in range(5) for k in range(5) if shape.weights[j, k] > 0):
            context = [j] * 12 + [k] * 12 + [other for other in range(5) if other not in (j, k)] * 2  # α = 0.8 of 30
            weights = np.exp([scores[j, pattern] for pattern in context])
            found.append(weights[12:].sum() / weights.sum())
        assert predicted_deficit(shape, time, own) == pytest.approx(np.mean(found))

    def test_a_fit_finds_the_time(self):
        shape = graph_of("ring", 6)
        tau, r2 = times(kernel_rows({}, shape, 0.7), shape)[0]
        assert (tau, r2) == (pytest.approx(0.7, abs=1e-6), pytest.approx(1.0))
        gone = [{"seed": 1, "diverged": True}]
        assert times(gone, shape) == {1: None}


def kernel_rows(columns, shape, time, factor=1.0):
    kernel = shape.kernel(time)
    kernel[0, 0] *= factor
    return [
        {**columns, "seed": s, "diverged": False, "query_pattern": j, "pattern": k, "entry": kernel[j, k]}
        for s in range(SEEDS)
        for j in range(shape.relevant)
        for k in range(shape.relevant)
    ]


def growth_rows(columns, own, others, still, start=0.1, norm=3.0):
    rows = []
    for s in range(SEEDS):
        wobble = 1 + 0.001 * s
        moved = [("own", 0, own * wobble / norm - start), ("irrelevant own", None, still / norm - start)]
        moved += [("met" if d == 1 else "unmet", d, value * wobble / norm) for d, value in others.items()]
        for kind, distance, value in moved:
            row = {"matrix": "query", "kind": kind, "distance": distance, "mean": value}
            rows.append({**columns, **row, "seed": s, "diverged": False})
            rows.append({**columns, **row, "matrix": "key", "mean": 99.0, "seed": s, "diverged": False})
    return rows


def test_entries_are_parts_of_w_mu():
    found = entries(growth_rows({}, 2.0, {1: -0.9, 2: 0.1}, 0.3), NonlinearPaper(), "query")
    assert found[0].own == pytest.approx(2.0)
    assert found[0].other == pytest.approx(0.9)
    assert found[0].by_distance == pytest.approx({1: -0.9, 2: 0.1})
    assert found[0].irrelevant == pytest.approx(0.3)
    assert entries([{"seed": 3, "diverged": True}], NonlinearPaper(), "query") == {3: None}


def verdicts(own=0.5, other=-1.0, share=0.0, late=0.0, still=0.3, scale=1.0, factor=1.0):
    """Judge rows in which the own part is (log M1)^own and the largest other one M1^other times it."""
    rows = []
    for graph in GRAPHS:
        places = [("relevant", n, None) for n in RELEVANT]
        places += [("watched", 8, step) for step in (0, 100, 200)]
        for part, n, step in places:
            shape = graph_of(graph, n)
            columns = {"part": part, "graph": graph, "x": n} | ({} if step is None else {"step": step})
            whole = math.log(n) ** own
            rows += growth_rows({**columns, "probe": "growth"}, whole, {1: -(n**other) * whole, 2: 0.001}, still)
            rows += kernel_rows({**columns, "probe": "kernel"}, shape, 1.0, factor)
            apart = late if step in (None, 200) else share
            along = predicted_share(shape, 1.0, 0.5) + apart
            for s in range(SEEDS):
                where = {**columns, "seed": s, "diverged": False}
                rows.append(
                    {**where, "probe": "alignment", "matrix": "query", "along": along + 0.001 * s, "length": 1.0}
                )
                if step is not None:
                    rows.append({**where, "probe": "error", "hinge": 0.0 if step == 200 else 1.0})
    for x in SETTINGS.scale_values:
        columns = {"part": "scale", "graph": "complete", "x": x, "probe": "growth"}
        rows += growth_rows(columns, 1.0, {1: -0.1}, x**scale, start=x)
    found = {c.id: c.verdict(rows)["verdict"] for c in find("T-prop4.1").claims(SETTINGS)}
    return {id_.removeprefix("T-prop4.1."): verdict for id_, verdict in found.items()}


BOTH = ("ring", "complete")


@pytest.mark.parametrize(
    ("changes", "failing"),
    [
        ({}, {"irrelevant"}),
        ({"own": 0.2}, {"irrelevant", *(f"own.{g}" for g in BOTH)}),
        ({"other": 0.0}, {"irrelevant", *(f"other.{g}" for g in BOTH)}),
        ({"share": 0.1}, {"irrelevant", *(f"share.{g}" for g in BOTH)}),
        ({"late": -0.1}, {"irrelevant", *(f"share-end.{g}" for g in BOTH)}),
        ({"factor": 9.0}, {"irrelevant", *(f"form.{g}" for g in BOTH)}),
        ({"still": 0.5}, {"irrelevant", "still"}),
        ({"scale": 0.5}, {"irrelevant", "scale"}),
    ],
)
def test_claims_of_proposition_4_1(changes, failing):
    found = verdicts(**changes)
    if "factor" in changes:  # the fitted τ moves too, and with it the predicted share
        assert all(found[name] in ("fails", "in direction") for name in failing)
        return
    assert {name for name, verdict in found.items() if verdict in ("fails", "in direction")} == failing
    assert all(verdict == "holds" for name, verdict in found.items() if name not in failing)


def mass_rows(power, out=None, ratio=1.0, tail=-1.5):
    rows = []
    for graph in GRAPHS:
        for n in RELEVANT:
            shape = graph_of(graph, n)
            rows += kernel_rows({"graph": graph, "x": n, "test": "kernel"}, shape, 1.0)
            size = predicted_deficit(shape, 1.0, SETTINGS.large(graph, n)) / ratio
            for test, p in (("met", power), ("unmet", power), ("out", power if out is None else out)):
                missing = 0.1 * (n / 4) ** p if power is not None else size
                where = {"graph": graph, "x": n, "test": f"{test} tail", "diverged": False}
                rows += [{**where, "seed": s, "missed_99": 0.3 * n**tail * (1 + s / 99)} for s in range(SEEDS)]
                rows += [
                    {
                        "graph": graph,
                        "x": n,
                        "test": test,
                        "seed": s,
                        "diverged": False,
                        "same": 1 - missing * (1 + s / 99),
                    }
                    for s in range(SEEDS)
                ]
    return rows


def mass_verdicts(rows):
    found = {c.id: c.verdict(rows)["verdict"] for c in find("T-cor4.3").claims(SETTINGS)}
    return {id_.removeprefix("T-cor4.3."): verdict for id_, verdict in found.items()}


def test_claims_of_corollary_4_3():
    found = mass_verdicts(mass_rows(-1.5))
    assert (found["mass"], found["tail"]) == ("holds", "holds")
    assert mass_verdicts(mass_rows(-1.5, tail=-0.5))["tail"] == "in direction"
    found = mass_verdicts(mass_rows(-0.8, out=0.3))
    assert (found["mass"], found["proof"], found["out"]) == ("in direction", "holds", "fails")
    assert mass_verdicts(mass_rows(None))["kernel"] == "holds"
    assert mass_verdicts(mass_rows(None, ratio=2.0))["kernel"] == "fails"


def test_every_training_is_that_of_the_theorem_and_both_experiments_share_it():
    cells = {}
    for id_ in ("T-prop4.1", "T-cor4.3"):
        for condition in find(id_).conditions(SETTINGS):
            training, columns = condition.cell.training.training, condition.columns
            n = training.prompts.patterns.relevant
            assert training.model.options["neurons"] == theorem_neurons(n)
            assert training.prompts.patterns.irrelevant == n
            if columns.get("part", "relevant") == "relevant":
                cells.setdefault(id_, set()).add(condition.cell.training.hash)
            if columns.get("test") == "unmet":
                trained = training.prompts.pairs.tolist()
                assert not [pair for pair in condition.cell.prompts.pairs.tolist() if pair in trained]
    assert cells["T-cor4.3"] <= cells["T-prop4.1"]
