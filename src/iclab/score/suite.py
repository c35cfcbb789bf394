"""The suite as data: what every model is trained and tested on.

Training and tests are descriptions, so the suite has a hash, and every card carries it. **The version rule**: raise
`VERSION` whenever the hash changes. Cards of different hashes are never compared.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import cache
from typing import Annotated, Any, Literal

from pydantic import Field

from iclab.config import Config, OutsideTheoremWarning
from iclab.engines import geometric
from iclab.prompts import Mixture, Outliers, Patterns, Prompts

VERSION = 2
"""Raised with every change of the suite."""
LEARNT = 0.1
"""A model has learnt the clean training tasks when its error is at most this."""
Edition = Literal["quick", "full"]
Unit = Literal["error", "squares", "steps"]

PATTERNS = Patterns(relevant=7)
"""Seven patterns decide labels, on a ring. An odd ring: on an even one, telling even from odd patterns would do."""


def apart(distance: int) -> list[tuple[int, int]]:
    """Return the tasks of two patterns that are this far apart on the ring, both directions of each pair.

    Neighbours are the training tasks, so the distance on the ring is the distance in the graph of training tasks. Both
    directions are trained: the same two patterns mean (+1, −1) in one prompt and (−1, +1) in the next, so that no
    answer can be known by heart, without the labels of the prompt.
    """
    there = [(a, (a + distance) % PATTERNS.relevant) for a in range(PATTERNS.relevant)]
    return there + [(b, a) for a, b in there]


class Trial(Config):
    """One row of a card: trained seeds, measured on some prompts."""

    key: str
    """Its name in cards, such as ``flip/0.4``."""
    section: str
    words: str
    prompts: Prompts
    probe: str = "error"
    unit: Unit = "error"
    share: Annotated[float, Field(gt=0, le=1)] = 1.0
    """How much of the suite's test prompts it takes: a row that asks the model often takes fewer."""


class Part(Config):
    """One training, and everything that is measured on it."""

    name: str
    words: str
    prompts: Prompts
    loss: str = "hinge"
    probe: Literal["error", "squares"] = "error"
    """What the tuning compares, on validation seeds."""
    trials: tuple[Trial, ...]


class Suite(Config):
    """Everything that decides a card, except the model."""

    version: int = VERSION
    edition: Edition
    seeds: tuple[int, ...] = tuple(range(8))
    """The judged seeds, the same for all models."""
    validation_seeds: tuple[int, ...]
    """The seeds of the tuning; none of them is judged."""
    steps: int
    batch_size: int
    test_prompts: int
    step_sizes: dict[str, tuple[float, ...]]
    """The tuning grid by optimiser."""
    parts: tuple[Part, ...]

    @property
    def snapshots(self) -> tuple[int, ...]:
        """The steps after which learning is measured."""
        return geometric(self.steps, 12)


@cache
def suite(edition: Edition = "quick") -> Suite:
    """Return an edition of the suite."""
    quick = edition == "quick"
    grids: dict[str, tuple[float, ...]] = {"sgd": (0.03, 0.3, 3.0), "adam": (0.001, 0.01, 0.1)}
    if not quick:
        grids = {"sgd": (0.01, 0.03, 0.1, 0.3, 1.0, 3.0), "adam": (0.0003, 0.001, 0.003, 0.01, 0.03, 0.1)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OutsideTheoremWarning)  # outliers that no theorem covers are on purpose
        return Suite(
            edition=edition,
            validation_seeds=(1000,) if quick else (1000, 1001, 1002, 1003),
            steps=150 if quick else 1000,
            batch_size=64 if quick else 128,
            test_prompts=250 if quick else 5_000,
            step_sizes=grids,
            parts=(_patterns(quick), _regression(), _recall(), _classes()),
        )


def _patterns(quick: bool) -> Part:
    """Tasks of two patterns, with outliers of random labels in the training: paper M's setting."""
    training = Prompts(patterns=PATTERNS, tasks=apart(1), outliers=Outliers(fraction=0.4))
    clean = training.replace(outliers=Outliers())
    words = f"steps until the clean error is at most {LEARNT:g}"
    trials = (
        _trial("clean", "tasks", "training tasks, no outliers", clean),
        _trial("unseen/2", "tasks", "tasks never seen, distance 2", clean.replace(tasks=apart(2))),
        _trial("unseen/3", "tasks", "tasks never seen, distance 3", clean.replace(tasks=apart(3))),
        *_robustness(training, quick),
        *_strange_outliers(training),
        *_lengths(clean),
        *_domains(clean),
        _trial("steps", "learning", words, clean, unit="steps"),
    )
    return Part(name="patterns", words="two patterns, 40 % outliers", prompts=training, trials=trials)


def _robustness(training: Prompts, quick: bool) -> Iterator[Trial]:
    """The error against the fraction of outliers, by what decides their labels."""
    fractions = (0.2, 0.4, 0.6, 0.8) if quick else (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
    for rule in ("flip", "random", "target"):
        for fraction in fractions:
            poisoned = training.replace(outliers=Outliers(fraction=fraction, labels=rule))
            yield _trial(f"{rule}/{fraction:g}", "robustness", f"{rule} labels, α = {fraction:g}", poisoned)
    for count in (2, 4, 6) if quick else (2, 4, 6, 8):
        few, words = training.replace(outliers=Outliers(count=count)), f"worst labels of {count} in 20 (all tried)"
        how: dict[str, Any] = {"probe": "worst-of-all", "share": 0.4 if quick else 0.05}
        yield _trial(f"worst/{count}", "robustness", words, few, **how)
    for fraction in fractions:
        poisoned = training.replace(outliers=Outliers(fraction=fraction))
        words = f"worst labels, α = {fraction:g} (one layer)"
        yield _trial(f"worst/{fraction:g}", "robustness", words, poisoned, probe="worst")


def _strange_outliers(training: Prompts) -> Iterator[Trial]:
    """Outliers at other places than in training, and outliers of other patterns."""
    flipped = Outliers(fraction=0.4, labels="flip")
    for short, placement in (("FQ", "farthest"), ("R", "random"), ("CQ", "closest")):
        placed = training.replace(outliers=flipped.replace(placement=placement))
        yield _trial(f"place/{short}", "placement", f"{short}: {placement}, flip, α = 0.4", placed)
    orthogonal = (Mixture(weights=(0.0, 0.0, 0.0), outside_norm=3.0),)
    for short, patterns in (("unseen", "paper"), ("orthogonal", orthogonal)):
        strange = training.replace(outliers=flipped.replace(patterns=patterns))
        yield _trial(f"outlier/{short}", "outliers", f"{short} outlier patterns, flip, α = 0.4", strange)


def _lengths(clean: Prompts) -> Iterator[Trial]:
    for length in (5, 10, 40, 80, 160, 320):
        longer = clean.replace(context_length=length)
        yield _trial(f"length/{length}", "length", f"{length} examples, {length / 20:g} × trained", longer)


def _domains(clean: Prompts) -> Iterator[Trial]:
    """Inputs that were not in training: paper T's mixtures of relevant and of irrelevant patterns, and new patterns."""
    half = 0.5**0.5

    def mixtures(patterns: int) -> list[list[float]]:
        """Mix the first pattern with the second, the third with the fourth, and so on."""
        return [[half * (i // 2 == m) for i in range(patterns)] for m in range(patterns // 2)]

    relevant, irrelevant = mixtures(PATTERNS.relevant - 1), mixtures(PATTERNS.irrelevant)
    mixed = clean.replace(tasks="all", relevant_mixtures=[[*weights, 0.0] for weights in relevant])
    yield _trial("domain/mixtures", "domain", "mixtures of two trained patterns", mixed)
    background = clean.replace(irrelevant_mixtures=irrelevant)
    yield _trial("domain/background", "domain", "mixtures of irrelevant patterns", background)
    fresh = clean.replace(patterns=PATTERNS.replace(draw=1))
    yield _trial("domain/directions", "domain", "patterns in new random directions", fresh)


def _regression() -> Part:
    prompts = Prompts(patterns=PATTERNS, tasks=apart(1), label_values="real")
    words = "real labels, mean squared error (answering 0: 1/3)"
    trial = _trial("regression", "other tasks", words, prompts, probe="squares", unit="squares")
    return Part(
        name="regression", words="real labels", prompts=prompts, loss="squared", probe="squares", trials=(trial,)
    )


def _recall() -> Part:
    """Sixteen keys; half of the examples show one of the query's pair, the others other keys with random values."""
    patterns = Patterns(dimension=30, relevant=16, irrelevant=1, outlier=0)
    prompts = Prompts(patterns=patterns, context_length=16, relevant_count=8, irrelevant_scale=0.0)
    trial = _trial("recall", "other tasks", "associative recall: 16 keys, 16 examples, half distract", prompts)
    return Part(name="recall", words="associative recall", prompts=prompts, trials=(trial,))


def _classes() -> Part:
    prompts = Prompts(patterns=PATTERNS, tasks=apart(1), levels=2)
    trial = _trial("classes", "other tasks", "four classes as two binary levels (guessing: 3/4)", prompts)
    return Part(name="classes", words="four classes", prompts=prompts, trials=(trial,))


def _trial(key: str, section: str, words: str, prompts: Prompts, **more: Any) -> Trial:
    return Trial(key=key, section=section, words=words, prompts=prompts, **more)
