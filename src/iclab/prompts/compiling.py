"""How inner loops that call each other are compiled, and when the compiled code on disk is out of date.

By itself numba looks only at the file of the function it keeps, but these functions call each other across files. The
sampler calls nothing outside its folder; it is compiled into the loops of engines, which may call any kernel.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import llvmlite.binding
import numba

PROMPTS = Path(__file__).parent
FILES = ("*_kernels.py", "compiling.py", "exponential.py", "lanes.py", "rules.py", "shape.py")
"""The files with compiled code."""

# By default the compiler gives up on vector instructions when it must check many pairs of arrays for overlap.
llvmlite.binding.set_option("iclab", "-runtime-memory-check-threshold=256")


@cache
def hash_kernels(folder: Path) -> str:
    """Return a hash of all files with compiled code in a folder and below."""
    files = [file for name in FILES for file in sorted(folder.rglob(name))]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def compiled(function: Callable[..., Any]) -> Any:
    """Compile a function with numba, and keep the result on disk until a file changes that it may depend on.

    Multiply and add may be contracted into one instruction; sums are never reordered.
    """
    return _kept(function, {"contract"}, inline=False)


def compiled_once(function: Callable[..., Any]) -> Any:
    """Compile a function as `compiled` does, but not once more for every constant that it is called with."""
    made = compiled(function)
    if hasattr(made, "get_call_template"):
        made.get_call_template = partial(_without_constants, made.get_call_template)
    return made


def reordered(function: Callable[..., Any]) -> Any:
    """Compile a function as `compiled` does, with sums in the order that suits vector instructions; always the same."""
    return _kept(function, {"contract", "reassoc"}, inline=False)


def inner(function: Callable[..., Any]) -> Any:
    """Compile a function that only compiled code calls. Called from Python, it would crash.

    The way in from Python takes longest to compile, if arguments are records of many arrays.
    """
    return _kept(function, {"contract"}, inline=False, no_cpython_wrapper=True, no_cfunc_wrapper=True)


def inlined(function: Callable[..., Any]) -> Any:
    """Compile a function into those that call it.

    A call costs seven words for each array of a record: too much for one prompt or one block of them.
    """
    return _kept(function, {"contract"}, inline=True)


def rounded(function: Callable[..., Any]) -> Any:
    """Compile a function as `compiled` does, but round every product and every sum, as numpy does."""
    return _kept(function, False, inline=False)


def _kept(function: Callable[..., Any], fast: bool | set[str], inline: bool, **more: bool) -> Any:
    """Compile; every option is given, because a function takes those that are not from the first one that calls it."""
    options: dict[str, Any] = {
        "nogil": True,
        "cache": True,
        "error_model": "numpy",
        "fastmath": fast,
        "forceinline": inline,
    }
    made: Any = numba.jit(nopython=True, **options, **more)(function)  # type: ignore[call-overload]
    if hasattr(made, "_cache"):  # not when numba is switched off
        inside = Path(function.__code__.co_filename).parent == PROMPTS
        index = made._cache._cache_file
        index._source_stamp = (index._source_stamp, hash_kernels(PROMPTS if inside else PROMPTS.parent))
        index._load_index = partial(_load_or_start, index._load_index)
        index._data_name = partial(_new_name, index._index_name.removesuffix(".nbi"))
    return made


def _without_constants(find: Callable[..., Any], arguments: Any, named: Any) -> Any:
    """Find what a call compiles to, with constants as plain numbers."""
    plain = {name: numba.types.unliteral(value) for name, value in named.items()}
    return find(tuple(numba.types.unliteral(value) for value in arguments), plain)


def _load_or_start(load: Callable[[], Any]) -> Any:
    """Read the index of compiled code; start a new one if it names types that are no longer there."""
    try:
        return load()
    except (ImportError, AttributeError):
        return {}


def _new_name(stem: str, number: int) -> str:
    """Name a file of compiled code as no other was named.

    Numba numbers these files, and writes the index before the file. Another process that starts at the same time would
    find a file of that number which was compiled from an older source, or for other types.
    """
    return f"{stem}.{uuid.uuid4().hex[:16]}.nbc"
