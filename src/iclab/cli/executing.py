"""Where cells are computed: on this machine's cores, or on a Ray cluster."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from iclab.lab.executors import Executor


@contextmanager
def executor(options: argparse.Namespace) -> Iterator[Executor]:
    """Make the executor that the options ask for; leave its cluster at the end."""
    from iclab.lab.executors import LocalExecutor, RayExecutor

    if options.ray is None:
        yield LocalExecutor(options.workers, options.cell_timeout)
        return
    with RayExecutor(options.ray, options.workers, options.cell_timeout) as cluster:
        yield cluster
