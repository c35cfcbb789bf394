"""The noise that engines draw side by side is the noise of `Prompts.draw`."""

import numba
import numpy as np
import pytest

from iclab.prompts import Patterns, Prompts, Stream
from iclab.prompts.noise_kernels import circle, draw_side_by_side, log_share, make_noise
from iclab.prompts.prompt_kernels import LANES, drawing, make_block


@pytest.mark.parametrize("dimension", [3, 4, 5, 30, 31])
def test_drawn_noise_is_the_samplers(dimension):
    patterns = Patterns(dimension=dimension, relevant=2, irrelevant=1, outlier=0)
    prompts = Prompts(patterns=patterns, noise=0.7, context_length=5)
    numbers = drawing(prompts, np.float64)
    block, noise = make_block(numbers), make_noise(dimension, 6 * LANES, dimension + 2, np.float64)
    draw_side_by_side(numbers, block, noise, 7, int(Stream.TEST), 3, 32)
    expected = prompts.draw([7], Stream.TEST, step=3, first=32, count=LANES, dtype=np.float64).noise[0]
    found = noise.vectors.reshape(-1, 6, LANES).transpose(2, 1, 0)
    np.testing.assert_allclose(found[..., :dimension], expected, atol=1e-14)
    assert not found[..., dimension:].any()


@numba.njit
def _of_all(words, logarithm, cosine, sine):
    for i in range(words.size):
        logarithm[i] = log_share(words[i])
        cosine[i], sine[i] = circle(words[i])


def test_logarithm_sine_and_cosine_have_all_digits():
    corners = [n * 2**29 + offset for n in range(9) for offset in (-1, 0, 1)]
    random = np.random.default_rng(0).integers(0, 2**32, 2000)
    words = np.array([word for word in (*corners, *random) if 0 <= word < 2**32], dtype=np.uint32)
    found = np.zeros((3, len(words)))
    _of_all(words, *found)
    share = (words + 0.5) * 2.0**-32
    np.testing.assert_allclose(found[0], np.log(share), rtol=5e-16)
    np.testing.assert_allclose(found[1], np.cos(2 * np.pi * share), atol=2e-15)
    np.testing.assert_allclose(found[2], np.sin(2 * np.pi * share), atol=2e-15)
