"""The numbers that docs/theory.md derives from (A) alone, without a training."""

import numpy as np
import pytest

from iclab.prompts.tasks import Ring
from iclab.theory.graph import TaskGraph

GRID = (np.arange(2_000) + 0.5) / 2_000  # U, uniform on [0, 1]
START = 0.6**2  # (δβ)²


def ring(relevant, steps=1):
    return TaskGraph.of(Ring(steps=steps).pairs(relevant), relevant)


def rates(graph, time):
    """Return hinge loss and error by pattern pair at w = 0, p_a = 0, l → ∞: zF = ½ (s U − o (1 − U))."""
    kernel = START * graph.kernel(time)
    loss, error = np.full_like(kernel, np.nan), np.full_like(kernel, np.nan)
    for j, k in np.argwhere(graph.distances != 0):
        output = 0.5 * (kernel[j, j] * GRID - kernel[j, k] * (1 - GRID))
        loss[j, k], error[j, k] = np.maximum(0, 1 - output).mean(), (output <= 0).mean()
    return loss, error


def trained(graph, level=0.01):
    """Return the τ at which the loss on training tasks is ``level``."""
    low, high = 0.0, 4.0
    for _ in range(40):
        middle = (low + high) / 2
        above = rates(graph, middle)[0][graph.distances == 1].mean() > level
        low, high = (middle, high) if above else (low, middle)
    return high


@pytest.mark.parametrize(("relevant", "loss", "error"), [(6, 0.26, 0.074), (12, 0.30, 0.034), (50, 0.33, 0.008)])
def test_the_loss_over_all_tasks_is_not_saved_by_averaging(relevant, loss, error):
    graph = ring(relevant)
    first = slice(0, 1)  # all patterns of a ring are alike
    found = [np.nanmean(rate[first]) for rate in rates(graph, trained(ring(min(relevant, 12))))]
    assert found == [pytest.approx(loss, abs=0.006), pytest.approx(error, abs=0.0006)]


def test_the_error_at_distance_2_is_its_share_of_the_scores():
    graph, time = ring(6), 0.9
    kernel = graph.kernel(time)
    _, error = rates(graph, time)
    assert error[0, 2] == pytest.approx(kernel[0, 2] / (kernel[0, 0] + kernel[0, 2]), abs=1e-3)


@pytest.mark.parametrize(("relevant", "steps"), [(6, 1), (8, 1), (12, 1), (6, 2), (12, 2), (12, 3)])
def test_on_these_rings_the_signs_stay(relevant, steps):
    graph = ring(relevant, steps)
    for time in np.linspace(0.05, 4, 40):
        kernel = graph.kernel(time)
        assert (kernel[graph.distances == 1] < 0).all()
        assert (kernel[graph.distances == 2] > 0).all()


def test_on_others_an_entry_may_change_its_sign():
    graph = ring(9, 2)
    apart = graph.distances == 2
    assert (graph.kernel(0.5)[apart] > 0).all()
    assert (graph.kernel(4.0)[apart] < 0).any()
