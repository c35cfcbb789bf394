"""The compiled sampler against the readable one: every field of a prompt, bit for bit."""

import numpy as np
from any_prompts import any_prompts
from hypothesis import given, settings
from hypothesis import strategies as st

from iclab.engines.fused import step_kernels
from iclab.prompts import Stream, prompt_kernels
from iclab.prompts.compiling import SOURCES
from iclab.prompts.prompt_kernels import LANES, drawing, make_block

WORDS = st.integers(0, 2**32 - 1)
DTYPES = st.sampled_from([np.float32, np.float64])


def by_lane(array):
    return array.reshape(-1, LANES).T  # (lanes, tokens)


def drawn(prompts, dtype, seed, stream, step, first):
    numbers = drawing(prompts, dtype)
    block = make_block(numbers)
    prompt_kernels.draw(numbers, block, seed, int(stream), step, first)
    return block


@settings(deadline=None, derandomize=True, max_examples=150)
@given(prompts=any_prompts(), seed=WORDS, stream=st.sampled_from([Stream.TRAIN, Stream.TEST]), step=WORDS, dtype=DTYPES)
def test_a_block_holds_the_prompts_that_numpy_draws(prompts, seed, stream, step, dtype):
    first = step % 1000
    expected = prompts.draw([seed], stream, step=step, first=first, count=LANES, dtype=dtype)
    p = drawn(prompts, dtype, seed, stream, step, first)
    for k, (row, coefficient) in enumerate([(p.relevant, p.signal), (p.irrelevant, p.kappa), (p.outlier, p.strength)]):
        np.testing.assert_array_equal(by_lane(row), expected.index[0, :, :, k])
        np.testing.assert_array_equal(by_lane(coefficient), expected.coefficient[0, :, :, k])
        assert coefficient.dtype == dtype
    np.testing.assert_array_equal(by_lane(p.label), expected.labels[0, :, :, 0])
    np.testing.assert_array_equal(by_lane(p.truth)[:, :-1], expected.true_labels[0, :, :, 0])
    np.testing.assert_array_equal(by_lane(p.flag)[:, :-1], expected.outlier[0])
    assert not by_lane(p.flag)[:, -1].any()
    np.testing.assert_array_equal(p.target, expected.target[0, :, 0])
    task = np.stack([by_lane(p.plus)[:, 0], by_lane(p.plus + p.apart)[:, 0]], axis=-1) - prompts.relevant_row
    np.testing.assert_array_equal(task, expected.task[0])
    own = (by_lane(p.relevant)[..., None] == prompts.relevant_row + expected.task[0][:, None, :]).any(-1)
    np.testing.assert_array_equal(by_lane(p.own), own)


def test_compiled_code_is_kept_until_any_of_its_files_changes():
    """Numba by itself would not notice a change of the sampler, which is compiled into the training step."""
    for kernel in (prompt_kernels.draw, step_kernels.train):
        assert kernel._cache._cache_file._source_stamp[1] == SOURCES
