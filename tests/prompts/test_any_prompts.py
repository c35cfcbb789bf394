"""Invariants that hold for prompts of any valid settings."""

import numpy as np
from any_prompts import any_outliers
from drawn_prompts import assert_same, by_lot, by_pattern, part
from hypothesis import given, settings
from hypothesis import strategies as st

from iclab.prompts import Patterns, Prompts, Stream


@st.composite
def some_prompts(draw):
    relevant, irrelevant, outlier = draw(st.integers(2, 6)), draw(st.integers(1, 6)), draw(st.integers(0, 4))
    dimension = relevant + irrelevant + outlier + draw(st.integers(0, 4))
    patterns = Patterns(dimension=dimension, relevant=relevant, irrelevant=irrelevant, outlier=outlier)
    length = draw(st.integers(1, 9))
    steps = draw(st.integers(1, relevant - 1))
    return Prompts(
        patterns=patterns,
        tasks=draw(st.sampled_from(["all", f"ring:{steps}", "1-0", "unseen:0-1"])),
        context_length=length,
        irrelevant_scale=draw(st.floats(0, 4)),
        outliers=draw(any_outliers(patterns, length, [by_pattern], [by_lot])),
        balance=draw(st.sampled_from(["independent", "stratified"])),
        label_noise=draw(st.sampled_from([0.0, 0.0, 0.3, 1.0])),
        relevant_count=draw(st.none() | st.integers(1, length)) if relevant > 2 else None,
    )


@settings(deadline=None, derandomize=True, max_examples=150)
@given(prompts=some_prompts(), seed=st.integers(0, 2**32 - 1), step=st.integers(0, 2**32 - 1))
def test_invariants_of_any_valid_setting(prompts, seed, step):
    p, o, length = prompts.patterns, prompts.outliers, prompts.context_length
    batch = prompts.draw([seed, 1], Stream.TEST, step=step, first=3, count=7, dtype=np.float64)
    relevant, irrelevant, extra = np.moveaxis(batch.index, -1, 0)
    one, kappa, strength = np.moveaxis(batch.coefficient, -1, 0)
    assert relevant.shape == (2, 7, length + 1)

    tasks = set(prompts.tasks.pairs(p.relevant))
    assert {tuple(pair) for pair in batch.task.reshape(-1, 2).tolist()} <= tasks
    positive, negative = relevant == batch.task[..., :1], relevant == batch.task[..., 1:]
    own, truth = positive | negative, np.where(positive, 1.0, -1.0)
    assert not (positive & negative).any()
    assert (own[..., :-1].sum(-1) == (length if prompts.relevant_count is None else prompts.relevant_count)).all()
    assert own[..., -1].all()
    np.testing.assert_array_equal(truth[..., :-1][own[..., :-1]], batch.true_labels[..., 0][own[..., :-1]])
    np.testing.assert_array_equal(truth[..., -1:], batch.target)
    assert ((irrelevant >= p.relevant) & (irrelevant < p.relevant + p.irrelevant)).all()

    assert (one == 1.0).all()
    assert (abs(kappa) <= prompts.irrelevant_scale).all()
    np.testing.assert_array_equal(strength[..., :-1], np.where(batch.outlier, o.scale, 0.0))
    assert np.isin(strength[..., -1], [0.0, o.scale] if o.query else [0.0]).all()

    low = p.count if o.mixtures else p.relevant + p.irrelevant
    high = p.count + len(o.mixtures)
    corrupted_rows = extra[..., :-1][batch.outlier]
    if o.scale:
        corrupted_rows = np.append(corrupted_rows, extra[..., -1][strength[..., -1] > 0])
    assert ((corrupted_rows >= low) & (corrupted_rows < high)).all()
    assert prompts.dictionary(p.basis(seed)).shape == (high, p.dimension)
    if o.count is not None:
        assert (batch.outlier.sum(-1) == o.count).all()
    if o.placement == "farthest":
        assert (batch.outlier[..., :-1] >= batch.outlier[..., 1:]).all()
    if o.placement == "closest":
        assert (batch.outlier[..., :-1] <= batch.outlier[..., 1:]).all()

    shown = batch.labels[..., 0]
    if prompts.label_noise in (0, 1):
        sign = 1 - 2 * prompts.label_noise
        np.testing.assert_array_equal(shown[..., :-1][~batch.outlier], sign * batch.true_labels[..., 0][~batch.outlier])
    assert (abs(shown[..., :-1]) == 1).all()
    assert (shown[..., -1] == 0).all()

    alone = prompts.draw([seed], Stream.TEST, step=step, first=5, count=2, dtype=np.float64)
    assert_same(alone, part(batch, [0], slice(2, 4)))
