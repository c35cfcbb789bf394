"""What cells cost on one core: some seconds per prompt of each kind of cell, and a little per cell.

Only the order of work and the estimate of the time left depend on these numbers; no result does. Every run measures
them again and keeps them in its store, in ``costs.json``, for the next run.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from iclab.lab.cells import Cell
from iclab.lab.events import Kind

DEFAULT = 50e-6
"""Seconds per prompt of a kind that nobody has measured."""
PER_CELL = 0.005
"""Seconds of any cell beside its prompts: to prepare them, and to store what was found."""

# Microseconds per prompt and seed on one core of a server: what a first run starts from.
_MEASURED: dict[tuple[str, str], dict[str, float]] = {
    ("mamba", "fused"): {"training": 0.45, "error": 1.0, "attention": 1.7, "gates": 3.0, "vote": 1.7, "tokens": 480},
    ("linear", "fused"): {"training": 0.35, "error": 0.9, "attention": 1.5, "vote": 1.7, "tokens": 390},
    ("softmax-mlp", "fused"): {
        **{"training": 2, "error": 0.7, "attention": 0.5, "attended": 0.5, "alignment": 0.9, "parts": 2},
        **{"norms": 1_800, "neurons": 3_300},
    },
    ("softmax-mlp", "compact"): {
        **{"training": 12, "error": 33, "attention": 41, "attended": 25},
        **{"alignment": 250, "parts": 150, "norms": 18_000, "neurons": 33_000},  # the last two look at weights alone
    },
    ("softmax-mlp", "reference"): {"training": 50, "error": 100, "attention": 80, "parts": 80, "norms": 1_800},
    ("deep-mamba", "reference"): {"training": 75, "error": 55, "attention": 80, "gates": 50, "vote": 2.3},
    ("deep-linear", "reference"): {"training": 105, "error": 32, "vote": 1.8},
    ("deep-softmax", "reference"): {"training": 90, "error": 25, "vote": 1.9},
    ("softmax", "reference"): {"training": 5, "error": 5},
    ("deep-mamba", "fused"): {"training": 4.5, "error": 2.5, "attention": 2.6, "gates": 2.6, "vote": 0.5},
    ("deep-linear", "fused"): {"training": 4.2, "error": 2.4, "vote": 0.5},
    ("deep-softmax", "fused"): {"training": 4.3, "error": 2.6, "vote": 0.5},
    ("deep-hybrid", "fused"): {"training": 4.3, "error": 2.5, "gates": 2.6},
    ("gpt2", "reference"): {"training": 180, "error": 115, "attention": 120},
    ("classical", "reference"): {"error": 32},
}
PRIOR = {
    Kind(work, model, engine): microseconds * 1e-6
    for (model, engine), kinds in _MEASURED.items()
    for work, microseconds in kinds.items()
}


def expected(rates: Mapping[Kind, float]) -> Callable[[Cell], float]:
    """Return what tells the expected seconds of a cell on one core, by measured rates as far as there are any."""
    known = {**PRIOR, **rates}
    return lambda cell: PER_CELL + known.get(Kind.of(cell), DEFAULT) * cell.work


def load(store: Path) -> dict[Kind, float]:
    """Return the seconds per prompt that earlier runs measured; an unreadable file counts as none."""
    try:
        listed = json.loads((store / "costs.json").read_text("utf-8"))
        rates = {
            Kind(str(item["work"]), str(item["model"]), str(item["engine"])): float(item["seconds_per_prompt"])
            for item in listed
        }
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return {kind: rate for kind, rate in rates.items() if rate > 0 and math.isfinite(rate)}


def save(store: Path, rates: Mapping[Kind, float]) -> None:
    """Keep measured rates beside those of other kinds. A store that cannot be written is left as it is."""
    listed = [
        kind._asdict() | {"seconds_per_prompt": float(f"{rate:.3g}")}
        for kind, rate in sorted((load(store) | dict(rates)).items())
    ]
    temporary = store / f".costs-{os.getpid()}.json"
    try:
        temporary.write_text(json.dumps(listed, indent=1) + "\n", "utf-8")
        temporary.replace(store / "costs.json")
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
