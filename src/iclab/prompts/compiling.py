"""How inner loops that call each other are compiled, and when the compiled code on disk is out of date.

The sampler is compiled into the loops of every engine. So a change of any `*_kernels.py` of the package, or of a file
named in `SHARED`, makes all of them out of date.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import llvmlite.binding
import numba

SHARED = ("compiling.py", "exponential.py")
"""Files of compiled code that are named otherwise."""

# By default the compiler gives up on vector instructions when it must check many pairs of arrays for overlap.
llvmlite.binding.set_option("iclab", "-runtime-memory-check-threshold=256")


def _hash_sources() -> str:
    package = Path(__file__).parents[1]
    files = [file for name in ("*_kernels.py", *SHARED) for file in sorted(package.rglob(name))]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


SOURCES = _hash_sources()


def compiled(function: Callable[..., Any]) -> Any:
    """Compile a function with numba, and keep the result on disk until one of the source files changes.

    By itself numba looks only at the file of the function it keeps, but these functions call each other across files.
    Multiply and add may be contracted into one instruction; sums are never reordered.
    """
    return _kept(numba.njit(nogil=True, cache=True, fastmath={"contract"}, error_model="numpy")(function))


def inlined(function: Callable[..., Any]) -> Any:
    """Compile a function into those that call it.

    A call costs seven words for each array of a record: too much for one prompt or one block of them.
    """
    make = numba.njit(nogil=True, cache=True, fastmath={"contract"}, error_model="numpy", forceinline=True)
    return _kept(make(function))


def rounded(function: Callable[..., Any]) -> Any:
    """Compile as `compiled` does, but round every product and every sum, as numpy does.

    This must be said: a function that says nothing is compiled as the one that calls it.
    """
    return _kept(numba.njit(nogil=True, cache=True, fastmath=False, error_model="numpy")(function))


def _kept(made: Any) -> Any:
    if hasattr(made, "_cache"):  # not when numba is switched off
        index = made._cache._cache_file
        index._source_stamp = (index._source_stamp, SOURCES)
    return made
