"""T-fig7: which tasks are trained on, and the logic of its claims."""

import pytest

from iclab.catalog import find
from iclab.papers.nonlinear.fig7 import TaskSettings, tasks
from iclab.prompts import meets_condition_1

FIGURE = find("T-fig7")


@pytest.mark.parametrize("sample", [0, 3])
@pytest.mark.parametrize("relevant", [3, 4, 6, 8])
def test_condition_3_2_is_met_from_m1_tasks_on_and_not_below(relevant, sample):
    assert meets_condition_1(tasks(relevant, relevant, sample), relevant)
    for count in range(1, relevant):
        few = tasks(relevant, count, sample)
        assert set(few) < set(tasks(relevant, relevant))  # a sample of the ring
        assert len(set(few)) == count
        assert not meets_condition_1(few, relevant)
        assert {a for a, _ in few} != set(range(relevant))  # some pattern never means +1
    for count in range(relevant, relevant * (relevant - 1)):
        many = tasks(relevant, count, sample)
        assert len(set(many)) == count
        assert set(many) > set(tasks(relevant, relevant)) or count == relevant
        assert {a for a, _ in many} == {b for _, b in many} == set(range(relevant))


def test_samples_differ_and_are_not_a_part_of_the_ring_in_order():
    few = [tasks(8, 4, sample) for sample in range(4)]
    assert len(set(few)) > 1
    assert ((0, 1), (1, 2), (2, 3), (3, 4)) not in few
    assert len({tasks(8, 12, sample) for sample in range(4)}) > 1


def test_tests_never_show_a_training_task():
    for condition in FIGURE.conditions(TaskSettings(seeds=1)):
        trained, tested = condition.cell.training.training.prompts.pairs.tolist(), condition.cell.prompts.pairs.tolist()
        assert len(trained) == condition.columns["tasks"]
        assert not [pair for pair in tested if pair in trained]
        assert len(trained) + len(tested) == condition.columns["relevant"] * (condition.columns["relevant"] - 1)
        patterns = condition.cell.prompts.patterns
        assert (patterns.relevant, patterns.relevant + patterns.irrelevant <= 30) == (
            condition.columns["relevant"],
            True,
        )


def verdicts(below, at, seeds=4, samples=2):
    settings = TaskSettings(seeds=seeds, relevants=(6,), beyond=(-1, 0, 2), samples=2)
    rows = [
        {
            "relevant": 6,
            "tasks": count,
            "sample": sample,
            "seed": seed,
            "prompts": 50_000,
            "error": error * (1 + 0.01 * seed) * (0.1 if sample else 1.9),
            "hinge": 0.0,
        }
        for count, error in ((5, below), (6, at), (8, at))
        for seed in range(4)
        for sample in range(samples)
    ]
    return {claim.id: claim.verdict(rows)["verdict"] for claim in FIGURE.claims(settings)}


def test_claims():
    assert verdicts(0.2, 0.001) == {"T-fig7.few.6": "holds", "T-fig7.enough.6": "holds"}
    assert verdicts(0.005, 0.001) == {"T-fig7.few.6": "fails", "T-fig7.enough.6": "holds"}
    assert verdicts(0.2, 0.02) == {"T-fig7.few.6": "holds", "T-fig7.enough.6": "fails"}
    assert verdicts(0.012, 0.008) == {"T-fig7.few.6": "holds", "T-fig7.enough.6": "holds"}  # means over samples
    assert set(verdicts(0.2, 0.001, seeds=5).values()) == {"not run"}
    assert set(verdicts(0.2, 0.001, samples=1).values()) == {"not run"}
