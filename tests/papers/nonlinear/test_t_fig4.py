"""T-fig4: learners see what the Transformer sees; the logic of its claims."""

import pytest

from iclab.catalog import find
from iclab.papers.nonlinear.fig4 import ICL, LearnerSettings

FIGURE = find("T-fig4")
SETTINGS = LearnerSettings(
    seeds=4,
    learners={"a": {"learner": "1-nn"}, "b": {"learner": "3-nn"}},
    tuned={"c": {"learner": "3-nn", "cosine": True}},
    lengths=(10, 20),
    domains=("out",),
)


def test_all_learners_are_asked_the_same():
    found = {}
    for condition in FIGURE.conditions(LearnerSettings(seeds=1)):
        place = tuple(condition.columns[name] for name in ("domain", "fraction", "length"))
        cell = condition.cell
        found.setdefault(place, set()).add((cell.prompts, cell.count, cell.draw, cell.training.training.basis_seed))
        if condition.columns["learner"] != ICL:
            assert cell.training.training.recipe.steps == 0
    assert len(found) == 2 * 2 * 4
    assert all(len(asked) == 1 for asked in found.values())


def verdicts(icl=0.001, easy=0.05, hard=0.08, tuned=0.02, tuned_hard=None, at_10=0.0, lost=()):
    rows = []
    for fraction, worst in ((0.8, easy), (0.6, hard)):
        other = tuned if fraction == 0.8 or tuned_hard is None else tuned_hard
        for name, error in ((ICL, icl), ("a", worst), ("b", worst + 0.1), ("c", other)):
            for length in (10, 20):
                value = error + (at_10 if length == 10 and name != ICL else 0.0)
                for seed in range(4):
                    gone = name == ICL and seed in lost
                    rows.append(
                        {
                            "learner": name, "domain": "out", "fraction": fraction, "length": length, "seed": seed,
                            "prompts": 10_000, "error": None if gone else value * (1 + 0.01 * seed), "diverged": gone,
                        }
                    )  # fmt: skip
    found = {claim.id: claim.verdict(rows)["verdict"] for claim in FIGURE.claims(SETTINGS)}
    return {id_.removeprefix("T-fig4.").removesuffix(".out"): verdict for id_, verdict in found.items()}


def test_claims():
    assert verdicts() == {
        "no-win.default": "fails",
        "win.default": "holds",
        "no-win.tuned": "fails",
        "win.tuned": "holds",
        "ahead": "holds",
    }
    assert verdicts(easy=0.005, tuned=0.004)["no-win.default"] == "holds"
    assert verdicts(easy=0.005, tuned=0.004, at_10=0.05)["no-win.default"] == "fails"  # one length is enough
    assert verdicts(hard=0.0005)["win.default"] == "fails"
    assert verdicts(tuned=0.0005)["win.tuned"] == "fails"
    assert verdicts(tuned_hard=0.0005)["ahead"] == "fails"
    assert verdicts(tuned=0.0005, tuned_hard=0.02)["ahead"] == "holds"  # it is judged at α' = 0.6
    assert verdicts(lost=(2,))["ahead"] == "undecided"


def test_bad_learners_are_refused():
    with pytest.raises(ValueError, match="learner = 'forest'"):
        SETTINGS.replace(tuned={"x": {"learner": "forest"}}).training_of("x")
