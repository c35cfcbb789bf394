"""What all fused forms share in measurements: test prompts are added up in pieces, in threads, in a fixed order."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from iclab.engines.trained import Advance

T = TypeVar("T")
R = TypeVar("R")
Add = Callable[[int, int, NDArray[np.float64]], None]
"""Adds ``count`` prompts from ``first`` on to sums (names, …); called in threads."""


class Measuring(NamedTuple):
    """A probe on test prompts, ready to run."""

    shape: tuple[int, ...]
    """The shape of each sum of a seed, such as (layers,)."""
    seed: Callable[[int], Add]
    """Prepares a seed, by its row, and returns what adds its prompts up."""
    piece: int = 4096
    """Prompts that are added up in one piece. Pieces are added in their order, whichever thread did them."""


@contextmanager
def mapping(threads: int) -> Iterator[Callable[[Callable[[T], R], Iterable[T]], Iterator[R]]]:
    """Give what `map` is, in threads; a single one is this thread, because to start another takes its time."""
    if threads == 1:
        yield map
        return
    pool = ThreadPoolExecutor(threads)
    try:
        yield pool.map
    finally:
        pool.shutdown(cancel_futures=True)  # after Ctrl-C or a time limit, only what has begun is waited for


def sum_pieces(
    seeds: Sequence[int], names: Sequence[str], measuring: Measuring, count: int, advance: Advance, threads: int
) -> dict[str, NDArray[np.float64]]:
    """Return the sums over ``count`` prompts per seed by name, (seeds, …)."""

    def run(add: Add, first: int) -> NDArray[np.float64]:
        total = np.zeros((len(names), *measuring.shape))
        add(first, min(measuring.piece, count - first), total)
        return total

    totals = np.zeros((len(seeds), len(names), *measuring.shape))
    starts = range(0, count, measuring.piece)
    with mapping(threads) as each:
        for row in range(len(seeds)):
            for first, total in zip(starts, each(functools.partial(run, measuring.seed(row)), starts), strict=True):
                totals[row] += total
                advance(min(measuring.piece, count - first))
    return {name: totals[:, j] for j, name in enumerate(names)}
