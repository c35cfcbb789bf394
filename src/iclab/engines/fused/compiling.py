"""How the fused engine's inner loops are compiled, and when the compiled code on disk is out of date."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import llvmlite.binding
import numba

from iclab.prompts import counter_kernels

# By default the compiler gives up on vector instructions when it must check many pairs of arrays for overlap.
llvmlite.binding.set_option("iclab", "-runtime-memory-check-threshold=256")


def _hash_sources() -> str:
    names = ("*_kernels.py", "compiling.py", "exponential.py", "lanes.py", "rules.py", "shape.py")
    files = [file for name in names for file in sorted(Path(__file__).parent.rglob(name))]
    return hashlib.sha256(b"".join(file.read_bytes() for file in (*files, Path(counter_kernels.__file__)))).hexdigest()


SOURCES = _hash_sources()


def compiled(function: Callable[..., Any]) -> Any:
    """Compile a function with numba, and keep the result on disk until one of the source files changes.

    By itself numba looks only at the file of the function it keeps, but these functions call each other across files.
    Multiply and add may be contracted into one instruction; sums are never reordered.
    """
    made = numba.njit(nogil=True, cache=True, fastmath={"contract"}, error_model="numpy")(function)
    if hasattr(made, "_cache"):  # not when numba is switched off
        index = made._cache._cache_file
        index._source_stamp = (index._source_stamp, SOURCES)
    return made
