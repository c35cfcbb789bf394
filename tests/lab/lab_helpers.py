"""Small cells for tests of the lab."""

from __future__ import annotations

from typing import Any

from iclab.engines import Training
from iclab.lab import MeasurementCell, TrainingCell

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
