"""Sets of tasks: which ordered pairs of patterns they hold, how they are written, and Condition 1."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from iclab.config import InputError
from iclab.prompts import AllPairs, Listed, Prompts, Ring, TaskSet, Unseen, meets_condition_1

parse = TypeAdapter(TaskSet).validate_python
gently = settings(deadline=None, derandomize=True, max_examples=100)


@st.composite
def rings(draw):
    relevant = draw(st.integers(2, 12))
    return Ring(steps=draw(st.integers(1, relevant - 1))), relevant


@st.composite
def proper_subsets(draw):
    """A set of tasks that is neither empty nor everything, and M1."""
    relevant = draw(st.integers(2, 6))
    everything = AllPairs().pairs(relevant)
    return draw(st.sets(st.sampled_from(everything), min_size=1, max_size=len(everything) - 1)), relevant


def shares(pairs, relevant):
    """How often each pattern means +1, and −1."""
    return [[sum(pair[side] == j for pair in pairs) for j in range(relevant)] for side in (0, 1)]


def refusal(text):
    with pytest.raises(InputError) as caught:
        Prompts(tasks=text)
    return str(caught.value)


def test_all_pairs_of_three_patterns():
    assert AllPairs().pairs(3) == ((0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1))


def test_the_ring_of_one_step_is_the_papers_construction():
    assert Ring().pairs(4) == ((0, 1), (1, 2), (2, 3), (3, 0))


def test_the_ring_of_two_steps():
    assert Ring(steps=2).pairs(4) == ((0, 1), (0, 2), (1, 2), (1, 3), (2, 0), (2, 3), (3, 0), (3, 1))


def test_unseen_tasks_are_the_rest():
    assert Unseen(seen=Ring()).pairs(3) == ((0, 2), (1, 0), (2, 1))


def test_listed_tasks_are_sorted_and_counted_once():
    assert Listed(listed=((2, 0), (0, 1), (2, 0))).pairs(3) == ((0, 1), (2, 0))


@gently
@given(rings())
def test_rings_meet_condition_1(ring_and_relevant):
    ring, relevant = ring_and_relevant
    pairs = ring.pairs(relevant)
    assert len(set(pairs)) == len(pairs) == ring.steps * relevant
    assert set(pairs) <= set(AllPairs().pairs(relevant))
    assert list(pairs) == sorted(pairs)
    assert meets_condition_1(pairs, relevant)
    assert shares(pairs, relevant) == [[ring.steps] * relevant] * 2


@pytest.mark.parametrize("relevant", range(2, 9))
def test_all_tasks_together_meet_condition_1(relevant):
    assert meets_condition_1(AllPairs().pairs(relevant), relevant)


@gently
@given(rings(), st.data())
def test_a_spoiled_ring_does_not_meet_condition_1(ring_and_relevant, data):
    ring, relevant = ring_and_relevant
    pairs = ring.pairs(relevant)
    gone = data.draw(st.integers(0, len(pairs) - 1))
    without = pairs[:gone] + pairs[gone + 1 :]
    assert not meets_condition_1(without, relevant)
    others = sorted(set(AllPairs().pairs(relevant)) - set(pairs))
    if others:
        other = data.draw(st.sampled_from(others))
        assert not meets_condition_1((*pairs, other), relevant)
        assert not meets_condition_1((*without, other), relevant)  # the right number of tasks, unevenly spread


@pytest.mark.parametrize(
    "pairs",
    [
        (),
        ((0, 1), (0, 2), (0, 1)),  # three tasks, but pattern 0 is always +1
        ((0, 1), (1, 0), (2, 1)),  # +1 is even, −1 is not
        ((1, 0), (0, 1), (1, 2)),  # −1 is even, +1 is not
    ],
)
def test_uneven_sets_do_not_meet_condition_1(pairs):
    assert not meets_condition_1(pairs, 3)


@gently
@given(proper_subsets())
def test_condition_1_is_what_it_says(subset):
    pairs, relevant = subset
    even = all(count == len(pairs) / relevant for side in shares(pairs, relevant) for count in side)
    assert meets_condition_1(tuple(pairs), relevant) == even


@gently
@given(proper_subsets())
def test_seen_and_unseen_tasks_partition_all(subset):
    pairs, relevant = subset
    seen = Listed(listed=tuple(pairs))
    unseen = Unseen(seen=seen)
    assert tuple(sorted(seen.pairs(relevant) + unseen.pairs(relevant))) == AllPairs().pairs(relevant)
    assert not set(seen.pairs(relevant)) & set(unseen.pairs(relevant))


@pytest.mark.parametrize(
    "text, meaning",
    [
        ("all", AllPairs()),
        ("ring", Ring(steps=1)),
        ("ring:3", Ring(steps=3)),
        ("unseen:ring:3", Unseen(seen=Ring(steps=3))),
        ("unseen:0-1,1-2,2-0", Unseen(seen=Listed(listed=((0, 1), (1, 2), (2, 0))))),
        ("0-1,1-2,2-0", Listed(listed=((0, 1), (1, 2), (2, 0)))),
        ("10-11", Listed(listed=((10, 11),))),
    ],
)
def test_tasks_as_text(text, meaning):
    assert parse(text) == meaning


@pytest.mark.parametrize("tasks", ["all", "ring:2", "unseen:ring:2", "0-1,1-2,2-0"])
def test_tasks_survive_being_written_down(tasks):
    description = parse(tasks)
    assert description.model_dump(mode="json") == str(description) == tasks
    assert parse(description.model_dump(mode="json")) == description


@pytest.mark.parametrize(
    "text, named",
    [
        ("0-6", ["tasks = 0-6", "0 to 5"]),
        ("0-1,3-3", ["tasks = 3-3", "two different relevant patterns"]),
        ("unseen:0-9", ["tasks = 0-9", "0 to 5"]),
        ("ring:6", ["steps = 6", "below relevant = 6"]),
        ("ring:0", ["steps = 0", "greater than or equal to 1"]),
        ("ring:-1", ["tasks = 'ring:-1'", "'ring:U'"]),
        ("unseen:all", ["tasks = unseen", "no task is left"]),
        ("unseen:ring:5", ["tasks = unseen", "no task is left"]),
        ("unseen:", ["tasks = 'unseen:'", "'unseen:…'"]),
        ("everything", ["tasks = 'everything'", "'all', 'ring:U', 'unseen:…'", "0-1,1-2,2-0"]),
        ("", ["tasks = ''", "'all'"]),
        ("0-1-2", ["tasks = '0-1-2'", "pairs such as"]),
        ({"kind": "ring", "step": 2}, ["step: unknown key"]),
        ({"kind": "listed", "listed": []}, ["listed", "at least 1"]),
        ({"kind": "listed", "listed": [(-1, 0)]}, ["tasks = -1-0", "0 to 5"]),
    ],
)
def test_impossible_tasks_are_refused_with_value_and_what_is_allowed(text, named):
    message = refusal(text)
    for part in named:
        assert part in message
