"""The dictionary of patterns that tokens are made of: M §3.2, T §3.2.

M1 relevant patterns µ decide the label, M2 irrelevant patterns ν do not, V outlier patterns v* corrupt examples.
They are the rows of a basis, in this order.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from iclab.config import Config
from iclab.prompts.counters import Stream, normals

Count = Annotated[int, Field(ge=0)]
Norm = Annotated[float, Field(gt=0)]


class Patterns(Config):
    """The number of patterns of each kind, their norms, the dimension, and the angle between patterns.

    Example:
        >>> Patterns(dimension=30, relevant=6, irrelevant=10, outlier=3).basis(seed=0).vectors.shape
        (19, 30)
    """

    dimension: Annotated[int, Field(ge=1)] = 30
    """d, the length of an input vector x."""
    relevant: Annotated[int, Field(ge=2)] = 6
    """M1, the number of patterns µ."""
    irrelevant: Annotated[int, Field(ge=1)] = 10
    """M2, the number of patterns ν."""
    outlier: Count = 3
    """V, the number of training outlier patterns v*."""
    relevant_norm: Norm = 3.0
    """β, the norm of every µ."""
    irrelevant_norm: Norm = 3.0
    """β, the norm of every ν."""
    outlier_norm: Norm = 3.0
    """The norm of every v*. Paper M does not state it."""
    coherence: float = 0.0
    """The cosine between any two different patterns: 0 is the papers' orthogonal case."""

    @model_validator(mode="after")
    def _fits(self) -> Patterns:
        if self.count > self.dimension:
            raise ValueError(
                f"dimension = {self.dimension}: must be at least relevant + irrelevant + outlier = "
                f"{self.relevant} + {self.irrelevant} + {self.outlier} = {self.count}"
            )
        if not -1.0 / (self.count - 1) + 1e-6 < self.coherence <= 0.999:
            raise ValueError(
                f"coherence = {self.coherence}: must be above -1/(patterns - 1) = {-1.0 / (self.count - 1):.4f} "
                "and at most 0.999"
            )
        return self

    @property
    def count(self) -> int:
        """D = M1 + M2 + V, the number of dictionary rows."""
        return self.relevant + self.irrelevant + self.outlier

    @property
    def norms(self) -> NDArray[np.float64]:
        """The norm of each dictionary row, shape (D,)."""
        return np.repeat(
            [self.relevant_norm, self.irrelevant_norm, self.outlier_norm],
            [self.relevant, self.irrelevant, self.outlier],
        )

    @property
    def gram(self) -> NDArray[np.float64]:
        """Inner products of the patterns, shape (D, D). Rotations do not change them."""
        cosines = (1.0 - self.coherence) * np.eye(self.count) + self.coherence
        return cosines * np.outer(self.norms, self.norms)

    @property
    def mixing(self) -> NDArray[np.float64]:
        """Coordinates of the patterns in a basis's directions, shape (D, D); diagonal if patterns are orthogonal."""
        return np.asarray(np.linalg.cholesky(self.gram), dtype=np.float64)

    def basis(self, seed: int) -> Basis:
        """Rotate the patterns in R^d by a uniformly random rotation drawn from ``seed``."""
        return _basis(self, seed)


@dataclass(frozen=True)
class Basis:
    """Patterns as vectors: ``vectors = patterns.mixing @ directions``."""

    directions: NDArray[np.float64]
    """(D, d) orthonormal rows that span the patterns; if coherence is 0, the directions of the patterns themselves."""
    vectors: NDArray[np.float64]
    """(D, d) the patterns."""
    seed: int

    def outside(self, vector: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the part of ``vector`` (…, d) that is orthogonal to every pattern."""
        return vector - (vector @ self.directions.T) @ self.directions


@lru_cache(maxsize=256)
def _basis(patterns: Patterns, seed: int) -> Basis:
    gaussian = normals(seed, Stream.BASIS, (patterns.dimension, patterns.count))
    q, r = np.linalg.qr(gaussian)  # (d, D), (D, D)
    directions = (q * np.sign(np.diag(r))).T  # the sign makes the rotation uniform (Haar)
    directions.setflags(write=False)
    vectors = patterns.mixing @ directions
    vectors.setflags(write=False)
    return Basis(directions, vectors, seed)
