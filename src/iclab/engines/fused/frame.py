"""The coordinates that the fused engine works in."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from iclab.engines.training import Training
from iclab.prompts import Basis, Prompts


@dataclass(frozen=True)
class Frame:
    """Orthonormal coordinates for the span of all dictionary rows that a training uses.

    If no row leaves the span of the patterns, the frame is the patterns' own directions and costs the same in any
    dimension.
    """

    rank: int
    extra: NDArray[np.float64] | None
    """Directions outside the span of the patterns, if training mixtures have any."""

    @classmethod
    def of(cls, training: Training, basis: Basis) -> Frame:
        """Find the frame of a training."""
        patterns = training.prompts.patterns
        phases = [phase for phase in training.phases if leaves_span(phase)]
        rest = [basis.outside(phase.outliers.mixture_vectors(patterns, basis)) for phase in phases]
        if not rest:
            return cls(patterns.rank, None)
        _, sizes, right = np.linalg.svd(np.concatenate(rest), full_matrices=False)
        extra = right[sizes > 1e-9 * sizes.max()]
        return cls(patterns.rank + len(extra), extra)

    def coordinates(self, prompts: Prompts, basis: Basis) -> NDArray[np.float64]:
        """Return the coordinates of the rows of a dictionary of the training's patterns, (D', r).

        Their parts outside the frame are left out.
        """
        patterns = prompts.patterns
        own = patterns.mixing
        mixed = [
            np.asarray(m.weights) @ own[patterns.relevant + patterns.irrelevant :] for m in prompts.outliers.mixtures
        ]
        inside = np.concatenate([own, np.reshape(mixed, (len(mixed), patterns.rank))])
        if self.extra is None:
            return inside
        beyond = np.zeros((len(inside), len(self.extra)))
        if leaves_span(prompts):
            beyond[patterns.count :] = prompts.outliers.mixture_vectors(patterns, basis) @ self.extra.T
        return np.concatenate([inside, beyond], axis=1)

    def directions(self, basis: Basis) -> NDArray[np.float64]:
        """Return the directions of the coordinates, (r, d)."""
        return basis.directions if self.extra is None else np.concatenate([basis.directions, self.extra])


def leaves_span(prompts: Prompts) -> bool:
    """Whether outliers have a part outside the span of the patterns."""
    return any(mixture.outside_norm for mixture in prompts.outliers.mixtures)
