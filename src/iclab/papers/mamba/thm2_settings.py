"""Settings of M-thm2: random settings inside Theorem 2, and sweeps that leave one of its conditions at a time."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache
from typing import Annotated, Self

import numpy as np
from pydantic import Field

from iclab.engines import Training
from iclab.papers.mamba.settings import MambaPaper
from iclab.prompts import Prompts
from iclab.prompts.outliers import Mixture
from iclab.study.settings import Chosen, Different, Disclosed
from iclab.theory.outliers import all_outliers, mamba_outlier_bound

Fraction = Annotated[float, Field(gt=0, lt=1)]
Length = Annotated[int, Field(ge=1)]
Positive = Annotated[float, Field(gt=0)]

HYPERCUBE_SEED = 1
"""The seed of the Latin hypercube."""
VARIATIONS_SEED = 2
"""The seed of the random λ."""


@cache
def mixtures(total: float, across: float, outlier: int, turned: float = 0.0) -> tuple[Mixture, ...]:
    """Return V mixtures with Σλ = ``total``: the even one plus a vector of length ``across``, turned V times.

    >>> [round(weight, 3) for weight in mixtures(0.3, 0.5, 3)[0].weights]
    [0.508, -0.104, -0.104]
    """
    found = []
    for turn in range(outlier):
        wave = np.cos(2 * np.pi * (np.arange(outlier) + turn) / outlier + turned)
        wave -= wave.mean()
        length = float(np.linalg.norm(wave))
        wave = across * wave / length if length > 1e-9 else np.zeros(outlier)
        found.append(Mixture(weights=tuple(round(float(w), 6) for w in total / outlier + wave)))
    return tuple(found)


def unit_mixtures(total: float, outlier: int, turned: float = 0.0) -> tuple[Mixture, ...]:
    """Return mixtures with Σλ = ``total`` and ‖λ‖ = 1, about as long as the paper's three."""
    return mixtures(total, math.sqrt(max(0.0, 1 - total**2 / outlier)), outlier, turned)


@dataclass(frozen=True)
class Place:
    """A training and a test, somewhere in one of the sweeps."""

    sweep: str
    x: float
    """Where it stands in its sweep."""
    curve: str
    """The curve of the sweep that it belongs to."""
    train_fraction: float
    train_length: int
    fraction: float
    """α."""
    length: int
    """l_ts."""
    strength: float
    """κ_a'."""
    mixtures: tuple[Mixture, ...]
    adversaries: tuple[str, ...] = ("labels",)
    """``labels``: the worst labels, places at random (R); ``places``: the worst of both; ``gates``: σ, not an error."""

    @property
    def floor(self) -> float:
        """The share of prompts without a clean example, all of which the worst labels turn."""
        return all_outliers(self.fraction, self.length)

    @property
    def where(self) -> dict[str, object]:
        """The columns of its rows, but the adversary."""
        return {"sweep": self.sweep, "curve": self.curve, "x": self.x}

    @property
    def text(self) -> str:
        """Its settings in words."""
        own = {"imbalance": f"c = {self.x:g}, ", "outside": f"‖u‖/β = {self.x:g}, "}.get(self.sweep, "")
        if self.sweep == "variation":
            own = "λ = (" + ", ".join(f"{weight:.2f}" for weight in self.mixtures[0].weights) + "), "
        return own + (
            f"p_a = {self.train_fraction:g}, l_tr = {self.train_length}, α = {self.fraction:g}, l_ts = {self.length}, "
            f"κ_a' = {self.strength:.3g}, Σλ = {sum(self.mixtures[0].weights):.2g}"
        )


class Thm2Settings(MambaPaper):
    """Settings of M-thm2."""

    base_fraction: Annotated[Fraction, Disclosed("p_a of the sweeps, M §4.1")] = 0.6
    outlier_fraction: Annotated[
        Fraction, Chosen("α of the sweeps: inside (c) for prompts as long as in training", others=(0.4, 0.55))
    ] = 0.5
    smallest_sum: Annotated[Positive, Disclosed("L of the sweeps: the smallest Σλ of M §4")] = 0.3
    draws: Annotated[int, Field(ge=2), Chosen("random settings inside the theorem", grid=True)] = 40
    train_fractions: Annotated[
        tuple[Fraction, ...], Different, Chosen("p_a of the random settings; few, as each needs a training", grid=True)
    ] = (0.2, 0.4, 0.6, 0.8)
    train_lengths: Annotated[
        tuple[Length, ...], Different, Chosen("l_tr of the random settings; the longest is that of α near 1", grid=True)
    ] = (20, 80)
    sums: Annotated[tuple[Positive, ...], Different, Chosen("Σλ of the sweep of κ_a'", grid=True)] = (0.3, 0.5, 1.0)
    strengths: Annotated[
        tuple[Positive, ...], Different, Chosen("κ_a' Σλ / κ_a of that sweep; from 1 on, (b) is met", grid=True)
    ] = (0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0, 2.0, 4.0)
    imbalances: Annotated[
        tuple[Annotated[float, Field(ge=0)], ...],
        Different,
        Chosen("c of λ = (c, −c, L), with Σλ = L for every c: (11) puts no bound on ‖λ‖", grid=True),
    ] = (0.0, 1.0, 2.0, 3.0, 5.0, 10.0, 30.0)
    variations: Annotated[
        int, Field(ge=1), Chosen("random λ with Σλ = L, half of them positive, none longer than 1", grid=True)
    ] = 200
    bad_sums: Annotated[tuple[float, ...], Different, Chosen("Σλ that (a) excludes, and L", grid=True)] = (
        *(-0.3, 0.0, 0.1, 0.2, 0.3),
    )
    outside_norms: Annotated[
        tuple[Annotated[float, Field(ge=0)], ...],
        Different,
        Chosen("‖u‖/β: (11) puts no bound on ‖u‖", grid=True),
    ] = (0.0, 1.0, 2.0, 3.0, 5.0, 10.0)
    lengths: Annotated[tuple[Length, ...], Different, Chosen("l_ts of the sweep of (c), κ_a' = κ_a/L", grid=True)] = (
        10,
        20,
        40,
        80,
        160,
        320,
    )
    length_fractions: Annotated[tuple[Fraction, ...], Different, Chosen("α of that sweep", grid=True)] = (0.5, 0.8)
    near_one: Annotated[
        tuple[Fraction, ...],
        Different,
        Chosen("α near 1, at l_ts = p_a l_tr: the longest for which (c) allows any α < 1"),
    ] = (0.7, 0.8, 0.85, 0.9, 0.95)
    short_lengths: Annotated[
        tuple[Length, ...], Different, Chosen("l_ts of the sweep of (d), from one example on", grid=True)
    ] = (1, 2, 3, 5, 8, 12, 20)
    short_fractions: Annotated[tuple[Fraction, ...], Different, Chosen("α of that sweep", grid=True)] = (0.3, 0.5, 0.7)
    test_prompts: Annotated[
        int, Field(ge=1), Chosen("per seed and condition, a quarter for worst places", grid=True)
    ] = 8_000

    instead = {"test_outlier_scale": "strengths", "test_outliers": "sums", "counting": "draws"}

    def quick(self) -> Self:
        """Return the quick edition: one group of seeds, fewer prompts, fewer random λ."""
        few = {"test_prompts": min(self.test_prompts, 1_000), "variations": min(self.variations, 30)}
        return super().quick().replace(**few)

    def training(self, place: Place) -> Training:
        """Return the training of a place."""
        own = self.as_kind(MambaPaper, context_length=place.train_length)
        prompts = own.train_prompts(place.train_fraction)
        return Training(model=own.model("mamba"), prompts=prompts, recipe=own.recipe("mamba"), engine=self.engine)

    def prompts(self, place: Place, adversary: str) -> Prompts:
        """Return the test prompts of a place. Gates of the example next to the query need no longer prompt than one."""
        length, fraction = (1, 0.5) if adversary == "gates" else (place.length, place.fraction)
        own = self.as_kind(MambaPaper, context_length=length, test_outlier_scale=place.strength)
        prompts = own.test_prompts_with(labels="flip", fraction=fraction)
        return prompts.replace(outliers=prompts.outliers.replace(patterns=place.mixtures))

    @property
    def needed(self) -> float:
        """κ_a/L, the restored condition (b) of the sweeps."""
        return self.train_outlier_scale / self.smallest_sum

    def places(self) -> list[Place]:
        """Return all places, sweep by sweep."""
        inside = self.drawn()
        found = [*inside, *(self._as_printed(place) for place in inside)]
        for sweep in (self._strengths, self._imbalances, self._variations, self._sums, self._outside):
            found += sweep()
        for sweep in (self._lengths, self._one):
            found += sweep()
        return [*found, *self._short()]

    def drawn(self) -> list[Place]:
        """Draw settings inside Theorem 2 by a Latin hypercube, with (b) restored and (d) with constant 1."""
        generator, n = np.random.default_rng(HYPERCUBE_SEED), self.draws
        cube = (np.stack([generator.permutation(n) for _ in range(7)], 1) + generator.uniform(size=(n, 7))) / n
        found = []
        for i, (a, b, c, d, e, f, g) in enumerate(cube.tolist()):
            p = self.train_fractions[int(a * len(self.train_fractions))]
            long = self.train_lengths[int(b * len(self.train_lengths))]
            length, total = 10 + int(71 * c), round(0.3 + 0.7 * d, 2)
            most = min(mamba_outlier_bound(p, long, length), 1 - math.log(self.relevant) / length)
            fraction = max(math.floor(1000 * most * e) / 1000, 0.001)
            strength = math.ceil(100 * self.train_outlier_scale * (1 + f) / total) / 100
            mixed = unit_mixtures(total, self.outlier, 2 * math.pi * g)
            kinds = ("labels", "places", "gates")
            found.append(Place("inside", float(i), "", p, long, fraction, length, strength, mixed, kinds))
        return found

    def _as_printed(self, place: Place) -> Place:
        """Return the same setting at the least κ_a' that (b) allows as printed."""
        return replace(place, sweep="printed", strength=self.train_outlier_scale, adversaries=("labels",))

    def _base(self, sweep: str, x: float, curve: str, **changes: object) -> Place:
        base = Place(
            sweep,
            x,
            curve,
            self.base_fraction,
            self.context_length,
            self.outlier_fraction,
            self.context_length,
            round(self.needed, 4),
            unit_mixtures(self.smallest_sum, self.outlier),
        )
        return replace(base, **changes)  # type: ignore[arg-type]

    def _strengths(self) -> list[Place]:
        found = []
        for total in self.sums:
            mixed = unit_mixtures(total, self.outlier)
            for ratio in self.strengths:
                strength = self.train_outlier_scale * ratio / total
                more = {"strength": strength, "mixtures": mixed, "adversaries": ("labels", "places", "gates")}
                found.append(self._base("strength", ratio, f"{total:g}", **more))
        return found

    def _imbalances(self) -> list[Place]:
        rest = (0.0,) * max(self.outlier - 3, 0)
        found = []
        for c in self.imbalances:
            start = np.array([c, -c, self.smallest_sum, *rest])[: self.outlier]
            turns = tuple(Mixture(weights=tuple(np.roll(start, k).tolist())) for k in range(self.outlier))
            found.append(self._base("imbalance", c, "", mixtures=turns))
        return found

    def _variations(self) -> list[Place]:
        """Draw outliers with Σλ = L: positive λ from a simplex, others from the ball ‖λ‖ ≤ 1."""
        generator, size = np.random.default_rng(VARIATIONS_SEED), self.outlier
        most = math.sqrt(max(0.0, 1 - self.smallest_sum**2 / size))
        found = []
        for i in range(self.variations):
            if i % 2:
                away = generator.normal(size=size)
                away -= away.mean()
                length = float(np.linalg.norm(away))
                radius = most * generator.uniform() ** (1 / max(size - 1, 1))
                weights = self.smallest_sum / size + (radius * away / length if length > 1e-9 else away)
            else:
                weights = self.smallest_sum * generator.dirichlet(np.ones(size))
            mixed = (Mixture(weights=tuple(weights.tolist())),)
            found.append(self._base("variation", float(i), "", mixtures=mixed))
        return found

    def _sums(self) -> list[Place]:
        across = math.sqrt(max(0.0, 1 - self.smallest_sum**2 / self.outlier))
        return [self._base("sum", total, "", mixtures=mixtures(total, across, self.outlier)) for total in self.bad_sums]

    def _outside(self) -> list[Place]:
        plain = unit_mixtures(self.smallest_sum, self.outlier)
        found = []
        for ratio in self.outside_norms:
            away = tuple(mixture.replace(outside_norm=ratio * self.pattern_norm) for mixture in plain)
            found.append(self._base("outside", ratio, "", mixtures=away))
        return found

    def _lengths(self) -> list[Place]:
        kinds = {"adversaries": ("labels", "places", "gates")}
        return [
            self._base("length", float(length), f"{fraction:g}", length=length, fraction=fraction, **kinds)
            for fraction in self.length_fractions
            for length in self.lengths
        ]

    def _one(self) -> list[Place]:
        long = max(self.train_lengths)
        changes = {"train_length": long, "length": max(1, math.floor(self.base_fraction * long))}
        return [self._base("one", fraction, "", fraction=fraction, **changes) for fraction in self.near_one]

    def _short(self) -> list[Place]:
        return [
            self._base("short", float(length), f"{fraction:g}", length=length, fraction=fraction)
            for fraction in self.short_fractions
            for length in self.short_lengths
        ]
