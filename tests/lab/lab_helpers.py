"""Small cells for tests of the lab, and what is in a store."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from safetensors import safe_open

from iclab.engines import Training
from iclab.lab import MeasurementCell, Plan, Store, TrainingCell, run

PROMPTS: dict[str, Any] = {
    "patterns": {"dimension": 10, "relevant": 3, "irrelevant": 2, "outlier": 3},
    "tasks": "ring:2",
    "context_length": 5,
    "outliers": {"fraction": 0.5, "scale": 2.0},
}
DESCRIPTION: dict[str, Any] = {
    "training": {
        "training": {
            "model": {"name": "mamba"},
            "prompts": PROMPTS,
            "recipe": {"steps": 4, "batch_size": 4, "step_size": 0.5, "snapshots": (2,)},
        },
    },
    "probe": "error",
    "prompts": PROMPTS,
    "count": 20,
    "at": 4,
}
"""A measurement cell as plain data."""

TRAINING, RECIPE, TRAIN_PROMPTS = "training.training", "training.training.recipe", "training.training.prompts"
"""Where things are in it."""


def changed(data: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Return a copy with values put in at dotted paths."""
    out = _copy(data)
    for path, value in changes.items():
        *above, last = path.split(".")
        place = out
        for part in above:
            place = place.setdefault(part, {})
        place[last] = value
    return out


def _copy(data: Any) -> Any:
    """Copy dictionaries all the way down; unlike `copy.deepcopy`, two that are one and the same become two."""
    return {key: _copy(value) for key, value in data.items()} if isinstance(data, dict) else data


def measurement(changes: dict[str, Any] | None = None) -> MeasurementCell:
    """Return the small measurement cell, with changes at dotted paths."""
    return MeasurementCell.model_validate(changed(DESCRIPTION, changes or {}))


def training(**fields: Any) -> TrainingCell:
    """Return a small training cell, with other fields of its `Training`."""
    data = DESCRIPTION["training"]["training"] | fields
    return TrainingCell(training=Training.model_validate(data))


def error_cells(cell: TrainingCell, *fractions: float) -> list[MeasurementCell]:
    """Return error measurements of a training, one for each outlier fraction."""
    prompts = cell.training.prompts
    return [
        MeasurementCell(
            training=cell,
            probe="error",
            prompts=prompts.replace(outliers=prompts.outliers.replace(fraction=fraction)),
            count=20,
        )
        for fraction in fractions
    ]


def run_here(cells: list[MeasurementCell], store: Store) -> Plan:
    """Run cells in this process."""
    return run(cells, store, workers=1, quiet=True)


def entries(store: Path) -> dict[str, list[tuple[str, int, int]]]:
    """Every finished entry with name, inode and time of its files: a rewritten one looks different."""
    return {
        f"{kind}/{entry.name}": sorted((f.name, f.stat().st_ino, f.stat().st_mtime_ns) for f in entry.iterdir())
        for kind in ("training", "measurement")
        for entry in (store / kind).glob("*")
    }


def weights(store: Path) -> dict[tuple[str, str], bytes]:
    """The bits of all stored weights."""
    out = {}
    for file in store.glob("training/*/weights.safetensors"):
        with safe_open(file, framework="np") as tensors:
            for name in tensors.keys():  # noqa: SIM118 (not a dict)
                out[file.parent.name, name] = tensors.get_tensor(name).tobytes()
    return out


def wait_until(condition: Callable[[], object], seconds: float = 60.0, pause: float = 0.05) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(pause)  # by default long enough for a `condition` that lists all processes
