"""The dictionary of patterns that tokens are made of: M §3.2, T §3.2.

M1 relevant patterns µ decide the label, M2 irrelevant patterns ν do not, V outlier patterns v* corrupt examples.
They are the rows of a basis, in this order. In the papers they are orthogonal. Here they may have a common angle, or be
any vectors of yours: oblique, linearly dependent, more of them than dimensions.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Annotated, Any

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field, model_validator

from iclab.config import Config, OutsideTheoremWarning, shown
from iclab.prompts.counters import Stream, normals
from iclab.prompts.tables import CLASSES, Table

Count = Annotated[int, Field(ge=0)]
Norm = Annotated[float, Field(ge=1e-12, le=1e12)]
"""So that squares of norms are numbers in single precision too."""

KINDS = ("relevant", "irrelevant", "outlier")
GENERATED = ("relevant_norm", "irrelevant_norm", "outlier_norm", "coherence", "draw")
"""Fields that vectors of one's own leave no room for."""
DEPENDENT = 1e-6
"""Vectors of length 1 are called linearly dependent if a combination with weights of length 1 is shorter than this."""
MOST_RELEVANT = 5_000
"""M1: its pairs are listed."""
MOST_NUMBERS = 10**10
"""Of a dictionary: 80 GB."""


Rows = tuple[tuple[float, ...], ...]


def _as_rows(value: Any) -> Any:
    """Turn a table of numbers, such as a numpy array or a torch tensor, into tuples; refuse what is none."""
    if value is None:
        return None
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu()
        value = (value.double() if value.is_floating_point() else value).numpy()
    try:
        numbers = np.asarray(value)
    except ValueError:
        raise ValueError("vectors = rows of different lengths: needs one row per pattern, all of one length") from None
    if numbers.dtype.kind not in "iuf" or numbers.ndim != 2 or not numbers.size:
        raise ValueError(
            f"vectors = {numbers.dtype} of shape {numbers.shape}: needs real numbers of shape (patterns, dimension)"
        )
    table = numbers.astype(np.float64)
    for row, largest in enumerate(np.abs(table).max(1)):
        if not 1e-100 < largest < 1e100:  # nor NaN
            raise ValueError(f"vectors = {largest} as the largest entry of row {row}: must be finite and not 0")
    return tuple(map(tuple, table.tolist()))


class Patterns(Config):
    """The number of patterns of each kind, their norms, the dimension, and the angle between patterns; or vectors.

    Example:
        >>> Patterns(dimension=30, relevant=6, irrelevant=10, outlier=3).basis(seed=0).vectors.shape
        (19, 30)
        >>> Patterns(vectors=[[2, 0, 0], [0, 2, 0], [1, 1, 1]], relevant=2, irrelevant=1, outlier=0).dimension
        3
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
    draw: Annotated[int, Field(ge=0, lt=2**16, exclude_if=lambda number: not number)] = 0
    """Another number gives other patterns of the same kind, in new random directions: for tests."""
    vectors: Annotated[
        Rows | None,
        BeforeValidator(_as_rows),
        Field(exclude_if=lambda rows: rows is None),
    ] = None
    """(D, d) the patterns themselves: relevant, then irrelevant, then outlier ones. They are used as they are, the same
    for every seed. An array, a tensor or a list of rows; ``dimension`` need not be given then."""
    table: Annotated[Table | None, Field(exclude_if=lambda table: table is None)] = None
    """A table of vectors with labels, such as sentences: tokens are its rows, the two classes take the place of µ, and
    triggers that of v*. Nothing else need be given then."""

    @model_validator(mode="before")
    @classmethod
    def _fill_dimension(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        if (table := data.get("table")) is not None:
            table = Table.model_validate(table)
            counts = {"relevant": CLASSES, "irrelevant": 1, "outlier": min(table.triggers, 1)}
            return {"dimension": table.dimension} | counts | data
        if data.get("vectors") is None:
            return data
        if not set(KINDS) & set(data):
            raise ValueError("vectors = given alone: say how many are relevant, irrelevant and outlier, in this order")
        rows = _as_rows(data["vectors"])
        return {"dimension": len(rows[0])} | data | {"vectors": rows}

    @model_validator(mode="after")
    def _fits(self) -> Patterns:
        if self.relevant > MOST_RELEVANT:
            raise ValueError(
                f"relevant = {self.relevant}: has too many pairs, which are tasks; at most {MOST_RELEVANT}"
            )
        if self.count * self.dimension > MOST_NUMBERS:
            size = f"{self.count} patterns of length {self.dimension} are {self.count * self.dimension:.3g} numbers"
            raise ValueError(f"dimension = {self.dimension}: {size}; at most {MOST_NUMBERS:.0e} can be served")
        total = f"relevant + irrelevant + outlier = {self.relevant} + {self.irrelevant} + {self.outlier} = {self.count}"
        if self.vectors is not None:
            self._check_vectors(self.vectors, total)
        if self.table is not None:
            self._check_table(self.table)
        if self.vectors is not None or self.table is not None:
            return self
        if self.count > self.dimension:
            raise ValueError(
                f"dimension = {self.dimension}: must be at least {total}; only vectors of your own may be more"
            )
        if not -1.0 / (self.count - 1) + 1e-6 < self.coherence <= 0.999:
            raise ValueError(
                f"coherence = {self.coherence}: must be above -1/(patterns - 1) = {-1.0 / (self.count - 1):.4f} "
                "and at most 0.999"
            )
        return self

    def _check_vectors(self, vectors: Rows, total: str) -> None:
        rows = np.asarray(vectors)
        if rows.shape[0] != self.count:
            raise ValueError(f"vectors = {rows.shape[0]} rows: must be {total}")
        if rows.shape[1] != self.dimension:
            raise ValueError(f"vectors = rows of {rows.shape[1]} numbers: must be dimension = {self.dimension}")
        for name in GENERATED:
            if (value := getattr(self, name)) != type(self).model_fields[name].default:
                raise ValueError(f"{name} = {value}: vectors are used as they are; leave it out")
        if _dependent(vectors):
            warnings.warn(
                f"vectors: the {len(rows)} patterns are linearly dependent; no theorem covers them, all need "
                "independent ones",
                OutsideTheoremWarning,
                stacklevel=2,
            )

    def _check_table(self, table: Table) -> None:
        own = {"dimension": table.dimension, "relevant": CLASSES, "irrelevant": 1, "outlier": min(table.triggers, 1)}
        usual = {name: type(self).model_fields[name].default for name in (*GENERATED, "vectors")}
        for name, value in (own | usual).items():
            if (given := getattr(self, name)) != value:
                raise ValueError(f"{name} = {shown(given)}: {table.name} is used as it is; leave it out")

    def fits(self, other: Patterns) -> str:
        """Return why a model trained on these patterns cannot be tested on others; empty if it can."""
        if other.dimension != self.dimension:
            return f"dimension = {other.dimension}: must be that of the training prompts, {self.dimension}"
        given = (self.vectors, other.vectors, self.table, other.table)
        if any(one is not None for one in given) or other.draw != self.draw:
            return ""
        for kind in KINDS:
            if (count := getattr(other, kind)) != getattr(self, kind):
                return (
                    f"{kind} = {count}: must be that of the training prompts, {getattr(self, kind)}, unless draw is "
                    "another or vectors are given"
                )
        return ""

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        for name, value in super().__repr_args__():
            yield name, f"{len(value)} rows" if name == "vectors" and value else value

    @property
    def count(self) -> int:
        """D = M1 + M2 + V, the number of dictionary rows."""
        return self.relevant + self.irrelevant + self.outlier

    @property
    def rank(self) -> int:
        """r, the dimension of the patterns' span: D, or less if vectors are linearly dependent."""
        if self.table is not None:
            return self.dimension
        return self.count if self.vectors is None else len(_span(self.vectors)[0])

    @property
    def norms(self) -> NDArray[np.float64]:
        """The norm of each dictionary row, shape (D,)."""
        if self.vectors is not None:
            return np.linalg.norm(self.vectors, axis=1)
        return np.repeat(
            [self.relevant_norm, self.irrelevant_norm, self.outlier_norm],
            [self.relevant, self.irrelevant, self.outlier],
        )

    @property
    def gram(self) -> NDArray[np.float64]:
        """Inner products of the patterns, shape (D, D). Rotations do not change them."""
        if self.vectors is not None:
            return np.asarray(self.vectors) @ np.asarray(self.vectors).T
        cosines = (1.0 - self.coherence) * np.eye(self.count) + self.coherence
        return cosines * np.outer(self.norms, self.norms)

    @property
    def mixing(self) -> NDArray[np.float64]:
        """Coordinates of the patterns in a basis's directions, shape (D, r); diagonal if patterns are orthogonal."""
        if self.vectors is not None:
            return _span(self.vectors)[1]
        return np.asarray(np.linalg.cholesky(self.gram), dtype=np.float64)

    def basis(self, seed: int) -> Basis:
        """Rotate the patterns in R^d by a uniformly random rotation drawn from ``seed``; vectors stay as they are."""
        return _basis(self, seed)


@dataclass(frozen=True)
class Basis:
    """Patterns as vectors: ``vectors = patterns.mixing @ directions``."""

    directions: NDArray[np.float64]
    """(r, d) orthonormal rows that span the patterns; if these are orthogonal, their own directions."""
    vectors: NDArray[np.float64]
    """(D, d) the patterns."""
    seed: int
    further: tuple[Basis, ...] = ()
    """The bases of further levels, if prompts have several."""

    @property
    def levels(self) -> tuple[Basis, ...]:
        """The bases of all levels, one for each."""
        return (replace(self, further=()), *self.further)

    def outside(self, vector: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the part of ``vector`` (…, d) that is orthogonal to every pattern."""
        return vector - (vector @ self.directions.T) @ self.directions


@lru_cache(maxsize=256)
def _basis(patterns: Patterns, seed: int) -> Basis:
    if patterns.table is not None:
        return Basis(np.eye(patterns.dimension), patterns.table.load().dictionary, seed)
    if patterns.vectors is not None:
        vectors, directions = np.asarray(patterns.vectors), _span(patterns.vectors)[0]
    else:
        gaussian = normals(seed, Stream.BASIS, (patterns.dimension, patterns.count), slot=patterns.draw)
        q, r = np.linalg.qr(gaussian)  # (d, D), (D, D)
        directions = (q * np.sign(np.diag(r))).T  # the sign makes the rotation uniform (Haar)
        vectors = patterns.mixing @ directions
    for array in (directions, vectors):
        array.setflags(write=False)
    return Basis(directions, vectors, seed)


@lru_cache(maxsize=256)
def _dependent(vectors: Rows) -> bool:
    rows = np.asarray(vectors)
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return bool(np.linalg.matrix_rank(unit, tol=DEPENDENT) < len(rows))


@lru_cache(maxsize=256)
def _span(vectors: Rows) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return directions (r, d) and coordinates (D, r) of vectors, by Gram and Schmidt: pattern after pattern."""
    rows = np.asarray(vectors)
    directions = np.zeros((0, rows.shape[1]))
    for vector in rows:
        rest = vector
        for _ in range(2):  # the second time removes what rounding left
            rest = rest - (rest @ directions.T) @ directions
        if np.linalg.norm(rest) > 1e-12 * np.linalg.norm(vector):
            directions = np.concatenate([directions, rest[None] / np.linalg.norm(rest)])
    coordinates = rows @ directions.T
    coordinates[np.abs(coordinates) < 1e-15 * np.linalg.norm(rows, axis=1, keepdims=True)] = 0.0  # rounding
    for array in (directions, coordinates):
        array.setflags(write=False)
    return directions, coordinates
