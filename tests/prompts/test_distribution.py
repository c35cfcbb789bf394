"""Queries, clean tokens, balanced batches and the dense view."""

import numpy as np
import pytest
import torch
from drawn_prompts import (
    MIXTURES,
    PATTERNS,
    by_lot,
    make,
    task_number,
)
from evenness import assert_even, assert_independent

from iclab.prompts import Patterns, Prompts, Stream


@pytest.mark.parametrize("placement", ["random", "farthest", "closest", by_lot])
@pytest.mark.parametrize("patterns", ["training", MIXTURES], ids=["training", "mixtures"])
def test_queries_are_never_outliers_and_show_the_label_0(placement, patterns):
    batch = make(fraction=1.0, placement=placement, patterns=patterns).draw([0], Stream.TEST, count=200)
    assert batch.outlier.all()
    assert (batch.coefficient[..., -1, 2] == 0).all()
    assert (batch.labels[..., -1, 0] == 0).all()
    np.testing.assert_array_equal(batch.target[..., 0] > 0, batch.index[..., -1, 0] == batch.task[..., 0])


def test_prompts_without_outlier_patterns_can_be_drawn():
    prompts = Prompts(patterns=Patterns(outlier=0), context_length=4)
    batch = prompts.draw([0], Stream.TEST, count=100)
    assert not batch.outlier.any()
    assert not batch.coefficient[..., 2].any()
    assert prompts.dictionary(prompts.patterns.basis(0)).shape == (16, 30)


def test_which_examples_share_the_querys_pattern():
    batch = make().draw([0, 1], Stream.TEST, count=50)
    for s, b, i in np.ndindex(2, 50, 6):
        assert batch.same_pattern[s, b, i] == (batch.true_labels[s, b, i, 0] == batch.target[s, b, 0])
    assert batch.length == 6


def combinations_of(batch, prompts):
    return 2 * task_number(batch, prompts) + (batch.target[..., 0] < 0)


@pytest.mark.parametrize("tasks, number", [("all", 40), ("ring:1", 10), ("0-3", 2)])
def test_stratified_batches_hold_every_task_and_query_side_equally_often(tasks, number):
    prompts = make(tasks=tasks, balance="stratified")
    for first, times, extra in [(0, 1, 0), (0, 3, 1), (17, 2, number - 1)]:
        batch = prompts.draw([0, 1, 2], Stream.TRAIN, step=9, first=first, count=times * number + extra)
        for row in combinations_of(batch, prompts):
            counts = np.bincount(row, minlength=number)
            assert len(counts) == number
            assert sorted(counts) == [times] * (number - extra) + [times + 1] * extra


def test_stratified_batches_start_anywhere():
    prompts = make(balance="stratified", tasks="ring:1", length=1)
    starts = [
        combinations_of(prompts.draw(range(20), Stream.TRAIN, step=step), prompts)[:, 0].astype(int)
        for step in range(300)
    ]
    assert_even(starts, 10)
    assert_independent(starts[:-1], starts[1:])
    assert_independent(np.array(starts)[:, :-1], np.array(starts)[:, 1:])


def test_stratified_batches_differ_from_independent_ones_only_in_task_and_query_side():
    dealt, drawn = (
        make(fraction=0.5, balance=balance).draw([0], Stream.TRAIN, count=100)
        for balance in ("stratified", "independent")
    )
    for name in ("coefficient", "labels", "outlier", "true_labels"):
        np.testing.assert_array_equal(getattr(dealt, name), getattr(drawn, name))
    np.testing.assert_array_equal(dealt.index[..., 1:], drawn.index[..., 1:])
    assert (dealt.task != drawn.task).any()


def literal_tokens(batch, dictionaries):
    """The tokens (x; y), one sum at a time."""
    seeds, prompts, tokens, parts = batch.index.shape
    width = dictionaries.shape[-1]
    out = np.zeros((seeds, prompts, tokens, width + 1))
    for s, b, t in np.ndindex(seeds, prompts, tokens):
        for k in range(parts):
            out[s, b, t, :width] += batch.coefficient[s, b, t, k] * dictionaries[s, batch.index[s, b, t, k]]
        out[s, b, t, width] = batch.labels[s, b, t, 0]
    return out


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("patterns", ["training", MIXTURES], ids=["training", "mixtures"])
def test_the_dense_view_is_the_literal_sum(dtype, patterns):
    prompts, seeds = make(fraction=0.5, patterns=patterns), [0, 4, 9]
    dictionaries = np.stack([prompts.dictionary(PATTERNS.basis(seed)) for seed in seeds])
    batch = prompts.draw(seeds, Stream.TEST, count=5, dtype=np.float64)
    dense = batch.dense(torch.tensor(dictionaries, dtype=dtype))
    assert dense.dtype == dtype
    assert dense.shape == (3, 5, 7, 18)
    tolerance = {torch.float64: 1e-13, torch.float32: 1e-5}[dtype]
    np.testing.assert_allclose(dense.double().numpy(), literal_tokens(batch, dictionaries), atol=tolerance)
