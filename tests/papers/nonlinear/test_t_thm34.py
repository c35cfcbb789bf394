"""T-thm3.4 and T-prop4.5: triples, attention predicted from them, and the logic of the claims."""

import math

import numpy as np
import pytest

from iclab.catalog import find
from iclab.papers.nonlinear.alignment import graph_of
from iclab.papers.nonlinear.laws import GRAPHS
from iclab.papers.nonlinear.prop45 import ANGLES
from iclab.papers.nonlinear.thm34 import STRONG, ShiftTheoremSettings, drawn, predicted_mass
from iclab.papers.nonlinear.thm37_rows import PruningTheoremSettings

SEEDS = 3
SETTINGS = ShiftTheoremSettings(seeds=SEEDS, inside=3, anywhere=8)


def test_triples_are_orthonormal_and_inside_where_they_should_be():
    for which in range(10):
        for least in (1.0, None):
            found = np.array(drawn(8, which, least))
            np.testing.assert_allclose(found @ found.T, np.eye(3), atol=1e-12)
        assert np.array(drawn(8, which, 1.0)).sum(1).min() >= 1
    assert min(np.array(drawn(8, which, None)).sum(1).min() for which in range(10)) < 0


def test_predicted_attention_is_that_of_a_prompt_with_exact_shares():
    own, graph = SETTINGS.large("ring", 8), graph_of("ring", 8)
    triple, time = drawn(8, 2, None), 0.9
    scores = 0.09 * np.array(triple) @ graph.kernel(time) @ np.array(triple).T
    found = []
    for i, j in ((i, j) for i in range(3) for j in range(3) if i != j):
        context = [i] * 4 + [j] * 4 + [3 - i - j] * 2  # α = 0.8 of ten examples
        weights = np.exp([scores[i, pattern] for pattern in context])
        found.append(weights[:4].sum() / weights.sum())
    assert predicted_mass(graph, time, triple, own) == pytest.approx(np.mean(found))


def verdicts(loss=0.01, error=0.001, off=0.0, strong=0.0):
    rows = []
    for graph in GRAPHS:
        shape, own = graph_of(graph, 8), SETTINGS.large(graph, 8)
        kernel = shape.kernel(1.0)
        for s in range(SEEDS):
            where = {"graph": graph, "seed": s, "diverged": False}
            for j, k in np.ndindex(8, 8):
                row = {"part": "kernel", "which": 0, "probe": "kernel", "query_pattern": j, "pattern": k}
                rows.append({**where, **row, "entry": kernel[j, k]})
            for part, triples in SETTINGS.triples().items():
                for which, triple in enumerate(triples):
                    bad = part == "anywhere" or which == 1
                    numbers = {"hinge": loss if bad else 0.0, "error": error if bad else 0.0}
                    numbers["hinge"] += strong * (part == STRONG and which == 1)
                    rows.append({**where, "part": part, "which": which, "probe": "error", **numbers})
                    same = predicted_mass(shape, 1.0, triple, own) + off * (-1) ** which
                    rows.append({**where, "part": part, "which": which, "probe": "attention", "same": same})
    found = {c.id: c.verdict(rows)["verdict"] for c in find("T-thm3.4").claims(SETTINGS)}
    return {id_.removeprefix("T-thm3.4."): verdict for id_, verdict in found.items()}


def test_claims_of_theorem_3_4():
    assert set(verdicts().values()) == {"holds"}
    assert verdicts(loss=0.3)["suffices"] == "fails"  # one triple is enough
    assert verdicts(error=0.05)["error"] == "fails"
    assert verdicts(strong=0.05)["strong"] == "fails"
    found = verdicts(off=0.1)
    assert {found["curve.ring"], found["curve.complete"]} == {"fails"}


def test_strong_irrelevant_patterns_are_tested_on_the_same_triples():
    cells = {}
    for condition in find("T-thm3.4").conditions(SETTINGS.replace(seeds=1)):
        where = condition.columns
        if where["graph"] == "ring" and where["probe"] == "error" and where["part"] != "anywhere":
            cells[where["part"], where["which"]] = condition.cell.prompts
    strong = [which for part, which in cells if part == STRONG]
    assert strong == [0, 1, 2]
    for which in strong:
        assert cells[STRONG, which] == cells["inside", which].replace(irrelevant_scale=5.0)


@pytest.mark.parametrize(("power", "verdict"), [(-1.0, "holds"), (-0.3, "in direction"), (0.2, "fails")])
@pytest.mark.parametrize("name", ANGLES)
def test_claims_of_proposition_4_5(name, power, verdict):
    settings = PruningTheoremSettings(seeds=SEEDS)
    angle, values = ANGLES[name], {"irrelevant": settings.irrelevants, "relevant": settings.relevant_values}
    rows = []
    for graph in GRAPHS:
        for x in values[angle.sweep]:
            for s in range(SEEDS):
                close = math.degrees(math.acos(1 - 0.1 * x**power * (1 + 0.01 * s)))
                for length, degrees in ((2.0, close), (2.0, close), (0.3, 170.0)):  # the last is outside L
                    where = {"sweep": angle.sweep, "graph": graph, "x": x, "seed": s, "diverged": False}
                    rows.append({**where, "length": length, angle.column: degrees})
    found = {c.id: c.verdict(rows)["verdict"] for c in find("T-prop4.5").claims(settings)}
    assert found.pop(f"T-prop4.5.{name}") == verdict
    assert set(found.values()) == {"not run"}
