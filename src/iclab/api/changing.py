"""Trained seeds with other weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from iclab.config import InputError, shown, unknown_key
from iclab.engines import Trained, weights


def on_reference(trained: Trained, *, compact: bool = True) -> Trained:
    """Return the same seeds on an engine that keeps the model's own weights: reference, or ``compact`` if allowed."""
    training = trained.training
    if training.engine == "reference" or (compact and training.engine == "compact"):
        return trained
    snapshots = {step: weights(trained, step) for step in trained.snapshots}
    return replace(trained, training=training.replace(engine="reference"), snapshots=snapshots)


def changed_weights(
    trained: Trained, current: Mapping[str, torch.Tensor], changes: Mapping[str, Any]
) -> dict[str, torch.Tensor]:
    """Return the weights with some of them changed, after checking names, shapes and that all numbers are finite."""
    if not isinstance(changes, Mapping) or not changes:
        raise InputError(f"weights = {shown(changes)}: must be weights by name; known are {', '.join(current)}")
    new = dict(current)
    for name, change in changes.items():
        if name not in current:
            raise InputError(unknown_key(str(name), current))
        new[name] = _changed(name, current[name], change)
        alive = torch.from_numpy(np.asarray(trained.diverged_at) < 0)
        if not new[name][alive].isfinite().all():
            raise InputError(f"weights.{name}: must be finite")
    return new


def _changed(name: str, old: torch.Tensor, change: Any) -> torch.Tensor:
    given = change(old.clone()) if callable(change) and not isinstance(change, torch.Tensor) else change
    try:
        value = torch.as_tensor(given, dtype=old.dtype).detach().cpu()
    except (TypeError, ValueError, RuntimeError):
        raise InputError(f"weights.{name} = {shown(given)}: must be a tensor, a number or a function") from None
    if value.shape not in (old.shape, old.shape[1:], torch.Size([])):
        allowed = f"{tuple(old.shape)}, or {tuple(old.shape[1:])} for all seeds"
        raise InputError(f"weights.{name} = {shown(given)}: must have shape {allowed}")
    return value.expand(old.shape).clone()
