"""Real labels, M E.8: two numbers for the patterns of a task, and what outliers show in their place."""

import numpy as np
import pytest

from iclab.prompts import Outliers, Patterns, Prompts, Stream

PATTERNS = Patterns(dimension=12, relevant=4, irrelevant=3, outlier=2)


def drawn(count=20_000, **fields):
    prompts = Prompts(patterns=PATTERNS, context_length=5, label_values="real", **fields)
    return prompts.draw([3], Stream.TEST, count=count, dtype=np.float64)


def assert_uniform(values):
    """Check the first four moments of numbers that are uniform on (−1, 1)."""
    assert abs(values).max() < 1
    for power in (1, 2, 3, 4):
        expected = 0.0 if power % 2 else 1 / (power + 1)
        np.testing.assert_allclose((values**power).mean(), expected, atol=4 / values.size**0.5)


def test_clean_examples_show_the_number_of_their_pattern():
    batch = drawn()
    shown, same, target = batch.labels[0, :, :-1, 0], batch.same_pattern[0], batch.target[0]
    np.testing.assert_array_equal(np.where(same, shown, target), np.broadcast_to(target, shown.shape))
    first = np.argmin(same, axis=1)  # an example of the task's other pattern, if there is one
    has_other = ~same.all(1)
    other = shown[np.arange(len(shown)), first][has_other]
    np.testing.assert_array_equal(
        np.where(same[has_other], other[:, None], shown[has_other]), np.broadcast_to(other[:, None], (other.size, 5))
    )
    for numbers in (target[:, 0], other):
        assert_uniform(numbers)
    assert abs(np.corrcoef(other, target[has_other, 0])[0, 1]) < 0.03
    assert (batch.labels[..., -1, :] == 0).all()


@pytest.mark.parametrize("rule", ["random", "flip", "target"])
def test_outliers_show_what_their_rule_says(rule):
    batch = drawn(outliers=Outliers(fraction=0.5, labels=rule, target=-1))
    shown, truth, outlier = batch.labels[..., :-1, 0], batch.true_labels[..., 0], batch.outlier
    np.testing.assert_array_equal(shown[~outlier], truth[~outlier])
    if rule == "random":
        assert_uniform(shown[outlier])
        assert abs(np.corrcoef(shown[outlier], truth[outlier])[0, 1]) < 0.02
        assert len(np.unique(shown[outlier])) > 0.99 * outlier.sum()  # each has its own
    else:
        np.testing.assert_array_equal(shown[outlier], -truth[outlier] if rule == "flip" else -1.0)


def test_patterns_outside_the_task_draw_their_own_numbers_and_noise_turns_labels():
    batch = drawn(relevant_fraction=0.5, label_noise=0.25)
    shown, truth = batch.labels[..., :-1, 0], batch.true_labels[..., 0]
    other = (batch.index[..., :-1, :1] != batch.task[..., None, :]).all(-1)
    assert_uniform(truth[other])
    assert len(np.unique(truth[other])) > 0.99 * other.sum()
    assert (shown == -truth).mean() == pytest.approx(0.25, abs=0.01)
    np.testing.assert_array_equal(abs(shown), abs(truth))


def test_all_but_labels_is_drawn_as_with_signs():
    prompts = Prompts(patterns=PATTERNS, context_length=5, outliers=Outliers(fraction=0.5))
    one, two = (p.draw([3], Stream.TEST, count=50) for p in (prompts, prompts.replace(label_values="real")))
    for name in ("index", "coefficient", "outlier", "task"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
    assert {"label_values", "levels"}.isdisjoint(prompts.model_dump())
    assert "together" not in prompts.outliers.model_dump()
