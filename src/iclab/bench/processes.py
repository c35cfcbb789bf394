"""Work in other processes: for engines that use one thread, and for whatever may take too long."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable
from typing import Any, Self


class Workers:
    """Processes that stay for several tasks; leaving the context ends them at once, whatever they do."""

    def __init__(self, count: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._pools = [context.Pool(1, initializer=_ignore_interrupts) for _ in range(count)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for pool in self._pools:
            pool.terminate()
            pool.join()

    def run(self, function: Callable[..., Any], *arguments: tuple[Any, ...], limit: float | None = None) -> list[Any]:
        """Call a function with each tuple of arguments, each in a process of its own, side by side.

        A result that takes longer than ``limit`` seconds raises `multiprocessing.TimeoutError`.
        """
        waiting = [pool.apply_async(function, each) for pool, each in zip(self._pools, arguments, strict=True)]
        return [result.get(limit) for result in waiting]


def _ignore_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the first one ends the others


def shares(seeds: int, processes: int) -> list[tuple[int, ...]]:
    """Distribute seeds over processes."""
    return [tuple(range(i, seeds, processes)) for i in range(processes)]
