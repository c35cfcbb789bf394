"""What made an entry: the versions of the software, and the machine as far as results depend on it."""

from __future__ import annotations

import hashlib
import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

from iclab._version import __version__

BITS_DEPEND_ON = ("cpu", "numba", "numpy", "torch")
"""Where these are the same, a cell computed again is the same bit for bit."""


@cache
def made_by() -> dict[str, str]:
    """Return versions and machine, as every entry of a store has them."""
    return {
        "iclab": __version__,
        "torch": str(torch.__version__),
        "numba": _version("numba"),
        "numpy": _version("numpy"),
        "python": platform.python_version(),
        "machine": platform.platform(),
        "cpu": _cpu(),
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "none"


def _cpu() -> str:
    """Return the model of the processor, and a hash of its features where the system lists them."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    known = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    features = sorted((known.get("flags") or known.get("Features") or "").split())
    model = known.get("model name", platform.machine())
    return f"{model}, features {hashlib.sha256(' '.join(features).encode()).hexdigest()[:8]}"
