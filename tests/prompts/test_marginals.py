"""Marginals and independence of prompts, as in M Definitions 1 and 2."""

import itertools

import numpy as np
import pytest
from drawn_prompts import (
    FRACTION,
    SCALE,
    STREAMS,
    make,
    observed,
    part,
    task_number,
)
from evenness import assert_distributed, assert_even, assert_independent, assert_shares, between
from scipy import stats

from iclab.prompts import PromptBatch, Prompts, Stream

BIG = make(fraction=FRACTION)


@pytest.fixture(scope="module", params=STREAMS, ids=lambda stream: stream.name)
def big(request):
    """120 000 prompts of two seeds, 720 000 examples."""
    return BIG.draw([0, 1], request.param, step=5, count=60_000, dtype=np.float64)


@pytest.mark.parametrize("tasks, number", [("all", 20), ("ring:1", 5), ("unseen:ring:1", 15), ("3-1,0-4,1-3", 3)])
def test_every_task_is_equally_likely_and_no_other_occurs(tasks, number):
    prompts = make(length=1, tasks=tasks)
    assert len(prompts.pairs) == number
    assert_even(task_number(prompts.draw([0], Stream.TEST, count=150_000), prompts), number)


def test_prompt_marginals(big):
    of_prompts, _, _ = observed(big, BIG)
    assert_even(of_prompts["task"], 10)
    assert_even(of_prompts["query side"], 2)
    assert_even(of_prompts["query irrelevant"], 6)
    assert_distributed(big.coefficient[..., -1, 1], between(-SCALE, SCALE))


def test_example_marginals(big):
    _, of_examples, of_outliers = observed(big, BIG)
    assert_even(of_examples["side"], 2)
    assert_even(of_examples["irrelevant"], 6)
    assert_distributed(big.coefficient[..., :-1, 1], between(-SCALE, SCALE))
    assert_shares(of_examples["outlier"], [1 - FRACTION, FRACTION])
    assert_even(of_outliers["pattern"][big.outlier], 3)
    assert_even(of_outliers["shown"][big.outlier], 2)


def test_every_seed_has_the_marginals(big):
    for s in range(2):
        of_prompts, of_examples, _ = observed(part(big, [s], slice(None)), BIG)
        assert_even(of_prompts["task"], 10)
        assert_even(of_examples["irrelevant"], 6)
        assert_shares(of_examples["outlier"], [1 - FRACTION, FRACTION])


def test_steps_with_one_prompt_each_have_the_marginals():
    batches = [BIG.draw([0], Stream.TRAIN, step=step) for step in range(4000)]
    of_prompts, of_examples, _ = observed(PromptBatch.join(batches), BIG)
    assert_even(of_prompts["task"], 10)
    assert_even(of_prompts["query side"], 2)
    assert_even(of_examples["irrelevant"], 6)
    assert_shares(of_examples["outlier"], [1 - FRACTION, FRACTION])


@pytest.mark.parametrize("fraction", [0.0, 0.05, 0.5, 0.9, 1.0])
def test_the_fraction_of_outliers(fraction):
    flags = make(fraction=fraction).draw([2], Stream.TEST, count=30_000).outlier
    if fraction in (0.0, 1.0):
        assert flags.mean() == fraction
    else:
        assert_shares(flags, [1 - fraction, fraction])
        number = stats.binom(6, fraction).pmf(range(7))
        common = number * 30_000 > 25  # the rest would be too rare to count
        totals = flags.sum(-1)
        assert_shares(
            np.searchsorted(np.flatnonzero(common), totals[common[totals]]), number[common] / number[common].sum()
        )


@pytest.mark.parametrize("k", [0.0, 0.2, 3.0])
def test_kappa_stays_inside_its_interval(k):
    prompts = Prompts(irrelevant_scale=k)
    kappa = prompts.draw([0], Stream.TRAIN, count=5000, dtype=np.float64).coefficient[..., 1]
    assert (abs(kappa) < k).all() if k else (kappa == 0).all()
    if k:
        assert abs(kappa).max() > 0.999 * k
        assert_distributed(kappa, between(-k, k))


# Independence.


@pytest.mark.parametrize(
    "one, other",
    [
        ({"stream": Stream.TRAIN}, {"stream": Stream.TEST}),
        ({"seeds": [0]}, {"seeds": [1]}),
        ({"step": 0}, {"step": 1}),
        ({"first": 0}, {"first": 1}),
    ],
    ids=["streams", "seeds", "steps", "prompts"],
)
def test_neighbouring_prompts_are_independent(one, other):
    usual = {"seeds": [5], "stream": Stream.TRAIN, "count": 30_000}
    a, b = (observed(BIG.draw(**(usual | change)), BIG) for change in (one, other))
    for group in (0, 1):
        for name in a[group].keys() - {"position"}:
            assert_independent(a[group][name], b[group][name])


def test_neighbouring_examples_are_independent(big):
    _, of_examples, _ = observed(big, BIG)
    for name in of_examples.keys() - {"position"}:
        assert_independent(of_examples[name][..., :-1], of_examples[name][..., 1:])


OF_PROMPTS = ["task", "query side", "query irrelevant", "query kappa"]
OF_EXAMPLES = ["position", "side", "irrelevant", "kappa", "outlier"]


@pytest.mark.parametrize("a, b", list(itertools.combinations(OF_PROMPTS, 2)))
def test_what_makes_a_prompt_is_independent(big, a, b):
    of_prompts, _, _ = observed(big, BIG)
    assert_independent(of_prompts[a], of_prompts[b])


@pytest.mark.parametrize("b", OF_EXAMPLES[1:])
@pytest.mark.slow
def test_examples_do_not_depend_on_their_prompt_position_or_each_other(big, b):
    of_prompts, of_examples, _ = observed(big, BIG)
    for prompt_wide in of_prompts.values():
        assert_independent(prompt_wide[..., None], of_examples[b])
    for a in OF_EXAMPLES[: OF_EXAMPLES.index(b)]:
        assert_independent(of_examples[a], of_examples[b])


@pytest.mark.parametrize("b", ["pattern", "shown"])
@pytest.mark.slow
def test_the_pattern_and_random_label_of_an_outlier_depend_on_nothing(big, b):
    of_prompts, of_examples, of_outliers = observed(big, BIG)
    of_prompts = {name: np.broadcast_to(value[..., None], big.outlier.shape) for name, value in of_prompts.items()}
    causes = of_prompts | of_examples | {"pattern": of_outliers["pattern"]}
    for a in causes.keys() - {"outlier", b}:
        assert_independent(causes[a][big.outlier], of_outliers[b][big.outlier])
