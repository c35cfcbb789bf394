"""The compiled sampler against the readable one: every field of a prompt, bit for bit."""

import numpy as np
from any_prompts import any_prompts
from drawn_prompts import everything
from hypothesis import given, settings
from hypothesis import strategies as st

from iclab.engines.fused.one_layer import step_kernels
from iclab.prompts import Outliers, Prompts, Stream, prompt_kernels, readable
from iclab.prompts.compiling import PROMPTS, hash_kernels
from iclab.prompts.prompt_kernels import LANES, draw_noise, drawing, make_block

WORDS = st.integers(0, 2**32 - 1)
STREAMS = st.sampled_from([Stream.TRAIN, Stream.TEST])
DTYPES = st.sampled_from([np.float32, np.float64])


def changed(config):
    """The names of the fields that are not as usual."""
    fields = type(config).model_fields
    return {name for name in fields if getattr(config, name) != fields[name].get_default(call_default_factory=True)}


def test_batches_have_the_bits_that_numpy_draws_whatever_field_is_changed():
    tried = set()

    @settings(deadline=None, derandomize=True, max_examples=200)
    @given(any_prompts(several=True), st.lists(WORDS, max_size=3), STREAMS, WORDS, WORDS, st.integers(0, 40), DTYPES)
    def compare(prompts, seeds, stream, step, first, count, dtype):
        tried.update(changed(prompts), changed(prompts.outliers))
        which = {"step": step, "first": min(first, 2**32 - count), "count": count, "dtype": dtype}
        assert_same_bits(prompts.draw_level(seeds, stream, **which), readable.draw(prompts, seeds, stream, **which))

    compare()
    assert tried == {*Prompts.model_fields, *Outliers.model_fields}


def assert_same_bits(found, expected):
    assert everything(found).keys() == everything(expected).keys()
    for name, array in everything(expected).items():
        mine = getattr(found, name)
        np.testing.assert_array_equal(mine, array, err_msg=name)
        assert (mine.dtype, mine.shape) == (array.dtype, array.shape)
        assert mine.tobytes() == array.tobytes(), name  # also the sign of 0


def by_lane(array):
    return array.reshape(-1, LANES, *array.shape[1:]).swapaxes(0, 1)  # (lanes, tokens)


@settings(deadline=None, derandomize=True, max_examples=50)
@given(any_prompts(several=True), WORDS, STREAMS, WORDS, st.integers(0, 1000))
def test_a_block_holds_all_that_engines_read(prompts, seed, stream, step, first):
    expected = readable.draw(prompts, [seed], stream, step=step, first=first, count=LANES, dtype=np.float64)
    numbers = drawing(prompts, np.float64)
    p = make_block(numbers)
    for other in (first + 7, first):  # nothing of the prompts before is left
        prompt_kernels.draw(numbers, p, seed, int(stream), step, other)
    np.testing.assert_array_equal(by_lane(np.stack([p.relevant, p.irrelevant, p.outlier], -1)), expected.index[0])
    np.testing.assert_array_equal(by_lane(np.stack([p.signal, p.kappa, p.strength], -1)), expected.coefficient[0])
    np.testing.assert_array_equal(by_lane(p.label), expected.labels[0, :, :, 0])
    np.testing.assert_array_equal(by_lane(p.truth)[:, :-1], expected.true_labels[0, :, :, 0])
    np.testing.assert_array_equal(by_lane(p.truth)[:, -1], prompts.label_norm * p.target)
    np.testing.assert_array_equal(p.target, expected.target[0, :, 0])
    np.testing.assert_array_equal(by_lane(p.flag)[:, :-1], expected.outlier[0])
    assert not by_lane(p.flag)[:, -1].any()
    plus, minus = by_lane(p.plus) - prompts.relevant_row, by_lane(p.plus + p.apart) - prompts.relevant_row
    np.testing.assert_array_equal(np.stack([plus, minus], -1), np.repeat(expected.task[0][:, None], plus.shape[1], 1))
    relevant = by_lane(p.relevant) - prompts.relevant_row
    np.testing.assert_array_equal(by_lane(p.own), (relevant == plus) | (relevant == minus))
    if prompts.noise:
        noise = np.empty_like(expected.noise[0])
        draw_noise(numbers, noise, np.empty(prompts.patterns.dimension), seed, int(stream), step, first)
        np.testing.assert_array_equal(noise, expected.noise[0])


def test_other_precisions_are_drawn_too():
    prompts = Prompts()
    assert prompts.draw([0], Stream.TEST, dtype=np.float16).coefficient.dtype == np.float16


def test_compiled_code_is_kept_until_a_file_changes_that_it_may_depend_on(tmp_path):
    """Numba by itself would not notice a change of the sampler, which is compiled into the training step."""
    for kernel, folder in ((prompt_kernels.draw, PROMPTS), (step_kernels.train, PROMPTS.parent)):
        assert kernel._cache._cache_file._source_stamp[1] == hash_kernels(folder)
    hashes = []
    for name in ("below/a_kernels.py", "below/plain.py", "compiling.py", "below/a_kernels.py"):
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"change {len(hashes)}")
        hashes.append(hash_kernels.__wrapped__(tmp_path))
    assert hashes[0] == hashes[1]  # which is not compiled
    assert len({*hashes}) == 3


def test_files_of_compiled_code_never_take_the_place_of_another():
    """Or a process that starts at the same time may load what was compiled from an older source."""
    index = prompt_kernels.draw._cache._cache_file
    assert index._data_name(1) != index._data_name(1)
    assert index._data_name(1).startswith("prompt_kernels.draw")
