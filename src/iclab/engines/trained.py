"""The outcome of a training run: every seed's weights at every kept step, and which seeds diverged."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import ValidationError
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from iclab import models as models_room
from iclab import prompts as prompts_room
from iclab.config import InputError, OutsideTheoremWarning, explain
from iclab.engines.recipe import Training
from iclab.prompts import Basis, Prompts

Report = Callable[[int], None]
"""Called now and then with the number of prompts worked through since the last call."""


@dataclass(frozen=True)
class Trained:
    """Weights of several seeds of one training."""

    training: Training
    seeds: tuple[int, ...]
    snapshots: dict[int, dict[str, torch.Tensor]]
    """Weights (seeds, …) by name, by the number of steps taken; NaN where a seed had diverged."""
    diverged_at: NDArray[np.int64]
    """(seeds,) the step at which a seed's loss or weights stopped being finite, −1 where they never did."""
    losses: NDArray[np.float64]
    """(steps, seeds) the batch loss before each step, NaN from a divergence on."""

    @property
    def diverged(self) -> NDArray[np.bool_]:
        """(seeds,) which seeds diverged."""
        return self.diverged_at >= 0

    def bases(self) -> list[Basis]:
        """Return each seed's pattern basis."""
        return bases(self.training, self.seeds)

    def select(self, seeds: tuple[int, ...]) -> Trained:
        """Keep some of the seeds, in the given order."""
        rows = [self.seeds.index(seed) for seed in seeds]
        return Trained(
            self.training,
            tuple(seeds),
            {step: {name: w[rows] for name, w in weights.items()} for step, weights in self.snapshots.items()},
            self.diverged_at[rows],
            self.losses[:, rows],
        )

    @classmethod
    def join(cls, parts: list[Trained]) -> Trained:
        """Put several groups of seeds of one training together."""
        first = parts[0]
        return cls(
            first.training,
            tuple(seed for part in parts for seed in part.seeds),
            {
                step: {name: torch.cat([part.snapshots[step][name] for part in parts]) for name in weights}
                for step, weights in first.snapshots.items()
            },
            np.concatenate([part.diverged_at for part in parts]),
            np.concatenate([part.losses for part in parts], axis=1),
        )

    def save(self, path: Path) -> None:
        """Write one safetensors file; the description goes into its metadata."""
        tensors = {f"{step}/{name}": w for step, weights in self.snapshots.items() for name, w in weights.items()}
        tensors |= {
            "diverged_at": torch.from_numpy(self.diverged_at),
            "losses": torch.from_numpy(self.losses),
        }
        metadata = {
            "training": self.training.model_dump_json(),
            "seeds": json.dumps(self.seeds),
            "versions": json.dumps(_versions(self.training)),
            "form": "coordinates in the patterns' frame, see docs/fused.md; iclab.load(…).weights() makes the matrices"
            if self.training.engine == "fused"
            else "the model's own weights, seeds stacked in front",
        }
        try:
            save_file({name: t.contiguous() for name, t in tensors.items()}, path, metadata=metadata)
        except (OSError, SafetensorError) as error:
            raise InputError(f"{path}: cannot be written ({error})") from None

    @classmethod
    def load(cls, path: Path, training: Training | None = None) -> Trained:
        """Read what `save` wrote; ``training`` spares reading its description, if that is known."""
        try:
            with safe_open(path, framework="pt") as file:
                metadata = file.metadata()
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
            if training is None:
                with warnings.catch_warnings():  # said when it was described
                    warnings.simplefilter("ignore", OutsideTheoremWarning)
                    training = Training.model_validate_json(metadata["training"])
            seeds = tuple(json.loads(metadata["seeds"]))
            versions = json.loads(metadata["versions"])
            diverged_at, losses = tensors.pop("diverged_at").numpy(), tensors.pop("losses").numpy()
        except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
            reason = explain(error) if isinstance(error, ValidationError) else str(error)
            raise InputError(f"{path}: is not a file of trained weights ({reason})") from None
        if versions != _versions(training):
            raise InputError(f"{path}: was written by other code (versions {versions}, here {_versions(training)})")
        snapshots: dict[int, dict[str, torch.Tensor]] = {step: {} for step in training.recipe.kept}
        for name, tensor in tensors.items():
            step, _, weight = name.partition("/")
            snapshots[int(step)][weight] = tensor
        return cls(training, seeds, snapshots, diverged_at, losses)


def _versions(training: Training) -> dict[str, int]:
    """Return the versions of the code that gives saved numbers their meaning: patterns are drawn anew from seeds."""
    from iclab.engines.engine import version  # which knows all engines, and this file

    return {"prompts": prompts_room.VERSION, "models": models_room.VERSION, "engine": version(training)}


def bases(training: Training, seeds: tuple[int, ...]) -> list[Basis]:
    """Return each seed's pattern basis: its own rotation, unless the training fixes one."""
    fixed = training.basis_seed
    return [training.prompts.patterns.basis(seed if fixed is None else fixed) for seed in seeds]


def stacked_dictionary(training: Training, seeds: tuple[int, ...], prompts: Prompts) -> torch.Tensor:
    """Return each seed's dictionary for these prompts, (seeds, D', d), in the training's dtype and device."""
    rows = np.stack([prompts.dictionary(basis) for basis in bases(training, seeds)])
    return torch.from_numpy(rows).to(training.device, getattr(torch, training.dtype))
