"""The task graph: its Laplacian, distances and predicted kernel, by hand and by brute force."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import expm

from iclab.config import InputError
from iclab.prompts import Stream
from iclab.prompts.distribution import Prompts
from iclab.prompts.patterns import Patterns
from iclab.prompts.tasks import AllPairs, Ring
from iclab.theory.graph import TaskGraph, mean_by_distance


def ring(relevant, steps=1):
    return TaskGraph.of(Ring(steps=steps).pairs(relevant), relevant)


def test_the_laplacian_of_a_ring_by_hand():
    expected = np.eye(4) - 0.5 * np.array([[0, 1, 0, 1], [1, 0, 1, 0], [0, 1, 0, 1], [1, 0, 1, 0]])
    np.testing.assert_allclose(ring(4).laplacian, expected)


def test_a_star_weighs_its_centre_by_how_often_it_is_the_query():
    star = TaskGraph.of([(0, 1), (0, 2), (0, 3)], 4)  # half of all queries show the centre, a sixth each leaf
    np.testing.assert_allclose(np.diag(star.laplacian), [2, 2 / 3, 2 / 3, 2 / 3])
    assert not star.regular
    assert star.distances[1].tolist() == [1, 0, 2, 2]


@given(st.integers(3, 9), st.data())
def test_the_weights_are_the_shares_of_drawn_prompts(relevant, data):
    pairs = data.draw(st.lists(st.sampled_from(AllPairs().pairs(relevant)), min_size=1, max_size=8, unique=True))
    graph = TaskGraph.of(pairs, relevant)
    count = np.zeros((relevant, relevant))
    for a, b in pairs:  # each task asks for either of its patterns as often
        count[a, b] += 0.5 / len(pairs)
        count[b, a] += 0.5 / len(pairs)
    np.testing.assert_allclose(graph.weights, count)
    np.testing.assert_allclose(graph.laplacian.sum(1), 0, atol=1e-12)
    assert np.linalg.eigvalsh(graph.laplacian).min() > -1e-12


def test_the_weights_agree_with_the_sampler():
    prompts = Prompts(patterns=Patterns(relevant=5), tasks="0-1,1-2,0-2,3-4", context_length=12)
    batch = prompts.draw([0], Stream.TEST, count=4000)
    query = batch.index[0, :, -1, 0]
    other = np.where(batch.task[0, :, 0] == query, batch.task[0, :, 1], batch.task[0, :, 0])
    seen = np.zeros((5, 5))
    np.add.at(seen, (query, other), 1 / 4000)
    np.testing.assert_allclose(seen, TaskGraph.of(prompts.tasks.pairs(5), 5).weights, atol=0.03)


def test_distances_round_a_ring_and_between_parts():
    assert ring(6).distances[0].tolist() == [0, 1, 2, 3, 2, 1]
    assert ring(6, steps=2).distances[0].tolist() == [0, 1, 1, 2, 1, 1]
    two = TaskGraph.of([(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3)], 6)
    assert two.distances[0].tolist() == [0, 1, 1, -1, -1, -1]
    assert not two.connected


@pytest.mark.parametrize(("relevant", "steps", "complete"), [(6, 2, False), (6, 3, True), (7, 3, True), (8, 3, False)])
def test_a_ring_is_complete_from_half_way_round(relevant, steps, complete):
    assert ring(relevant, steps).complete == complete  # U ≥ (M1 − 1) / 2


def test_the_kernel_is_the_matrix_exponential():
    for graph in (ring(6), ring(7, 2), TaskGraph.of([(0, 1), (0, 2), (0, 3)], 4)):
        np.testing.assert_allclose(graph.kernel(0.7), expm(1.4 * graph.laplacian), rtol=1e-10)


def test_a_complete_graph_has_one_rate():
    relevant, time = 6, 0.4
    kernel = TaskGraph.of(AllPairs().pairs(relevant), relevant).kernel(time)
    growth = np.exp(2 * time * relevant / (relevant - 1))
    own = 1 / relevant + (1 - 1 / relevant) * growth
    np.testing.assert_allclose(np.diag(kernel), own)
    np.testing.assert_allclose(kernel[0, 1:], (1 - growth) / relevant)


@pytest.mark.parametrize("graph", [ring(6), ring(12), ring(6, 2), TaskGraph.of([(0, 1), (0, 2), (0, 3)], 4)])
def test_entries_two_steps_apart_are_positive_and_neighbours_negative(graph):
    for time in (0.05, 0.3, 0.9):
        kernel = graph.kernel(time)
        assert (kernel[graph.distances == 1] < 0).all()
        assert (kernel[graph.distances == 2] > 0).all()


@settings(deadline=None, max_examples=25)
@given(st.floats(0.01, 3.0), st.sampled_from([(6, 1), (6, 3), (12, 1), (9, 2)]))
def test_a_fit_finds_the_time(time, shape):
    graph = ring(*shape)
    found = graph.fit(graph.kernel(time))
    assert found.time == pytest.approx(time, rel=1e-4, abs=1e-6)
    assert found.r2 == pytest.approx(1.0)


def test_a_fit_says_when_the_form_is_wrong():
    graph = ring(6)
    wrong = 5 * np.eye(6) - 2.0 * (graph.distances == 2)  # what Lemma 3 leaves out, with the wrong sign
    assert graph.fit(wrong).r2 < 0.95
    assert graph.fit(3 * graph.kernel(0.8)).r2 < 0.99  # the scale is not free
    assert graph.fit(np.eye(6)).time == pytest.approx(0, abs=1e-6)


def test_means_by_distance():
    kernel = ring(6).distances.astype(float) ** 2
    assert mean_by_distance(ring(6), kernel) == {0: 0.0, 1: 1.0, 2: 4.0, 3: 9.0}


@pytest.mark.parametrize(
    ("pairs", "said"), [([], "the task graph is empty"), ([(0, 0)], "two different"), ([(0, 6)], "0 to 5")]
)
def test_bad_graphs_are_refused_in_one_line(pairs, said):
    with pytest.raises(InputError, match=said):
        TaskGraph.of(pairs, 6)
