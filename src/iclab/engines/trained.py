"""The result of a training: the weights of every seed at every kept step, and which seeds diverged."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import ValidationError
from safetensors import SafetensorError, safe_open
from safetensors.torch import save, save_file

from iclab.config import InputError, OutsideTheoremWarning, explain
from iclab.engines.registry import stores, versions
from iclab.engines.training import Training
from iclab.prompts import Basis, Prompts
from iclab.prompts.counters import LEVEL

if TYPE_CHECKING:
    from iclab.engines.intervening import Interventions

Advance = Callable[[int], None]
"""Called now and then with the number of prompts done since the last call."""
Notify = Callable[[str], None]
"""Called with a line of text that a person should see."""


SMALL = 1_000_000
"""Bytes of weights that are written in one go, which takes a copy of them but less time."""


@dataclass(frozen=True)
class Trained:
    """The weights of several seeds of one training."""

    training: Training
    seeds: tuple[int, ...]
    snapshots: dict[int, dict[str, torch.Tensor]]
    """Weights (seeds, …) by step and name; NaN where a seed had diverged."""
    diverged_at: NDArray[np.int64]
    """(seeds,) the step at which the loss or the weights of a seed stopped being finite; −1 if they never did."""
    losses: NDArray[np.float64]
    """(steps, seeds) the loss on the batch before each step; NaN after a divergence or an early stop."""
    interventions: Interventions | None = None
    """What to change in the forward pass when it answers."""
    changed: tuple[str, ...] = ()
    """The names of weights that somebody replaced after the training."""

    @property
    def diverged(self) -> NDArray[np.bool_]:
        """(seeds,) whether a seed diverged."""
        return self.diverged_at >= 0

    @property
    def stopped_at(self) -> NDArray[np.int64]:
        """(seeds,) how many steps a seed took before it stopped early; −1 if it took all, or diverged."""
        missing = np.isnan(self.losses)
        return np.where(missing.any(0) & ~self.diverged, missing.argmax(0) if len(missing) else 0, -1)

    @property
    def first_and_last_loss(self) -> tuple[float, float] | None:
        """The mean loss over seeds in their first and last step; None if all diverged or there was no step."""
        losses = self.losses[:, ~self.diverged]
        if not losses.size:
            return None
        last = [own[np.isfinite(own)][-1] for own in losses.T]  # before it stopped, if it did
        return float(losses[0].mean()), float(np.mean(last))

    def bases(self, prompts: Prompts | None = None) -> list[Basis]:
        """Return the basis of patterns of each seed: of the training, or of other prompts."""
        return bases(self.training, self.seeds, prompts)

    def select(self, seeds: tuple[int, ...]) -> Trained:
        """Return some of the seeds, in the given order."""
        if seeds == self.seeds:
            return self
        rows = [self.seeds.index(seed) for seed in seeds]
        return replace(
            self,
            seeds=tuple(seeds),
            snapshots={s: {name: w[rows] for name, w in weights.items()} for s, weights in self.snapshots.items()},
            diverged_at=self.diverged_at[rows],
            losses=self.losses[:, rows],
        )

    @classmethod
    def join(cls, parts: list[Trained]) -> Trained:
        """Join several groups of seeds of one training."""
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
        """Write a safetensors file; the description goes into its metadata."""
        if self.interventions:
            raise InputError(f"save: interventions ({self.interventions}) are not saved; save the run without them")
        tensors = {f"{step}/{name}": w for step, weights in self.snapshots.items() for name, w in weights.items()}
        tensors |= {
            "diverged_at": torch.from_numpy(self.diverged_at),
            "losses": torch.from_numpy(self.losses),
        }
        metadata = {
            "training": self.training.model_dump_json(),
            "seeds": json.dumps(self.seeds),
            "versions": json.dumps(versions(self.training)),
            "form": stores(self.training),
            "changed": json.dumps(self.changed),
        }
        try:
            tensors = {name: tensor.contiguous() for name, tensor in tensors.items()}
            if sum(tensor.nbytes for tensor in tensors.values()) < SMALL:
                path.write_bytes(save(tensors, metadata))
            else:
                save_file(tensors, path, metadata)
        except (OSError, SafetensorError) as error:
            raise InputError(f"{path}: cannot be written ({error})") from None

    @classmethod
    def load(cls, path: Path, training: Training | None = None) -> Trained:
        """Read what `save` wrote; a known ``training`` is not read again."""
        try:
            with safe_open(path, framework="pt") as file:
                metadata = file.metadata()
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
            if training is None:
                with warnings.catch_warnings():  # the user saw this when describing the training
                    warnings.simplefilter("ignore", OutsideTheoremWarning)
                    training = Training.model_validate_json(metadata["training"])
            seeds = tuple(json.loads(metadata["seeds"]))
            found, changed = json.loads(metadata["versions"]), tuple(json.loads(metadata.get("changed", "[]")))
            diverged_at, losses = tensors.pop("diverged_at").numpy(), tensors.pop("losses").numpy()
        except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
            reason = explain(error) if isinstance(error, ValidationError) else str(error)
            raise InputError(f"{path}: is not a file of trained weights ({reason})") from None
        if found != versions(training):
            raise InputError(f"{path}: was written by other code (versions {found}, here {versions(training)})")
        snapshots: dict[int, dict[str, torch.Tensor]] = {step: {} for step in training.recipe.kept}
        for name, tensor in tensors.items():
            step, _, weight = name.partition("/")
            snapshots[int(step)][weight] = tensor
        return cls(training, seeds, snapshots, diverged_at, losses, changed=changed)


def bases(training: Training, seeds: tuple[int, ...], prompts: Prompts | None = None) -> list[Basis]:
    """Return the basis of patterns of each seed, with its own rotation unless the training fixes one.

    The patterns are those of the training, or of other prompts.
    """
    prompts, fixed = prompts or training.prompts, training.basis_seed
    if prompts.levels == 1:
        return [prompts.patterns.basis(seed if fixed is None else fixed) for seed in seeds]
    found = []
    for seed in seeds:  # that of a level stands for itself
        levels = range(prompts.levels) if seed < LEVEL else [seed // LEVEL]
        first = seed % LEVEL if fixed is None else fixed
        basis, *further = (prompts.patterns.basis(first + h * LEVEL) for h in levels)
        found.append(replace(basis, further=tuple(further)))
    return found


def stacked_dictionary(training: Training, seeds: tuple[int, ...], prompts: Prompts) -> torch.Tensor:
    """Return the dictionary of each seed, (seeds, D', d), in the dtype of the training and on its device."""
    rows = np.stack([prompts.dictionary(basis) for basis in bases(training, seeds, prompts)])
    return torch.from_numpy(rows).to(training.device, getattr(torch, training.dtype))
