"""The compact form of a batch of prompts, and its dense view.

A token is a few coefficients over a dictionary of vectors, plus a label. Models that need vectors ask for the dense
view. Engines that need no vectors never build it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from numpy.typing import DTypeLike, NDArray


@dataclass(frozen=True)
class PromptBatch:
    """Prompts of l examples and a query, for stacked seeds: leading shape (seeds, batch) everywhere.

    The last token is the query; it shows the label 0.
    """

    index: NDArray[np.int32]
    """(…, l + 1, k) dictionary rows of each token: relevant, irrelevant, outlier, level by level."""
    coefficient: NDArray[np.floating]
    """(…, l + 1, k) their coefficients; a clean token has an outlier coefficient of 0."""
    labels: NDArray[np.floating]
    """(…, l + 1, w) the labels shown, w numbers each: ±1 in paper M, one for each level; ±q in T and S."""
    target: NDArray[np.floating]
    """(…, H) the query's true label z, the correct answer: one number for each level."""
    outlier: NDArray[np.bool_]
    """(…, l) which examples are corrupted by an outlier; with several levels (…, l, H), as for the two below."""
    true_labels: NDArray[np.floating]
    """(…, l, w) the labels the task gives the examples, before corruption and label noise."""
    task: NDArray[np.int32]
    """(…, 2) the patterns that mean +1 and −1; with several levels (…, H, 2)."""
    noise: NDArray[np.floating] | None = None
    """(…, l + 1, d) noise added to the inputs; None if there is none."""

    @property
    def length(self) -> int:
        """The number of context examples, l."""
        return self.labels.shape[-2] - 1

    @property
    def same_pattern(self) -> NDArray[np.bool_]:
        """(…, l) which examples share the query's relevant pattern; with several levels (…, l, H)."""
        same: NDArray[np.bool_] = self.index[..., :-1, ::3] == self.index[..., -1:, ::3]
        return same if same.shape[-1] > 1 else same[..., 0]

    @classmethod
    def join(cls, batches: Sequence[PromptBatch]) -> PromptBatch:
        """Concatenate batches of the same seeds and length."""
        names = [field.name for field in fields(cls)]
        parts: dict[str, Any] = {}
        for name in names:
            found = [getattr(batch, name) for batch in batches]
            parts[name] = None if found[0] is None else np.concatenate(found, axis=1)
        return cls(**parts)

    def dense(self, dictionary: torch.Tensor) -> torch.Tensor:
        """Build the tokens (x; y) of M (2) from ``dictionary`` (seeds, D, d): shape (seeds, batch, l + 1, d + w)."""
        seeds, rows, dimension = dictionary.shape
        device, width = dictionary.device, self.labels.shape[-1]
        offset = torch.arange(seeds, device=device).view(-1, 1, 1, 1) * rows
        index = torch.from_numpy(self.index).to(device).long() + offset
        tokens = torch.nn.functional.embedding_bag(  # Σ_k coefficient_k · row_k, with room for the label at the end
            index.flatten(0, -2),
            torch.nn.functional.pad(dictionary, (0, width)).flatten(0, 1),
            mode="sum",
            per_sample_weights=torch.from_numpy(self.coefficient).to(device, dictionary.dtype).flatten(0, -2),
        ).view(*index.shape[:-1], dimension + width)
        if self.noise is not None:
            tokens[..., :dimension] += torch.from_numpy(self.noise).to(device, dictionary.dtype)
        tokens[..., dimension:] = torch.from_numpy(self.labels).to(device, dictionary.dtype)
        return tokens


def zero_labels(shape: tuple[int, ...], width: int, dtype: DTypeLike) -> NDArray[np.floating]:
    """Allocate labels (…, w), one component after the other in memory: components that stay 0 cost nothing."""
    return np.moveaxis(np.zeros((width, *shape), dtype=dtype), 0, -1)


def join_levels(levels: Sequence[PromptBatch], rows: int) -> PromptBatch:
    """Put the levels of the same prompts side by side; each has so many dictionary ``rows``."""

    def beside(name: str) -> NDArray[Any]:
        return np.concatenate([getattr(level, name) for level in levels], axis=-1)

    return PromptBatch(
        index=np.concatenate([level.index + np.int32(h * rows) for h, level in enumerate(levels)], axis=-1),
        coefficient=beside("coefficient"),
        labels=beside("labels"),
        target=beside("target"),
        outlier=np.stack([level.outlier for level in levels], axis=-1),
        true_labels=beside("true_labels"),
        task=np.stack([level.task for level in levels], axis=-2),
    )
