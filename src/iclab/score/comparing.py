"""Cards side by side: paired differences on the same seeds. Cards of different suites are refused."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from iclab.config import Config, InputError
from iclab.probes.statistics import paired
from iclab.score.card import Card, Measure
from iclab.score.suite import Edition, Unit, suite

CLOSEST = {"softmax": ("attention", "gpt", "bert", "transformer", "softmax"), "mamba": ()}
"""The built-in card that stands beside a model whose name has one of these words; mamba beside all others."""


class Difference(Config):
    """One row of a comparison: first − second on paired seeds; None if there is no pair."""

    key: str
    section: str
    words: str
    unit: Unit
    first: str
    second: str
    mean: float | None = None
    low: float | None = None
    high: float | None = None

    @property
    def verdict(self) -> str:
        """Which of the two is lower: ``first``, ``second``, or empty if the interval holds 0 or there is none."""
        if self.low is None or self.high is None or self.low <= 0 <= self.high:
            return ""
        return "first" if self.high < 0 else "second"

    @property
    def text(self) -> str:
        """The difference for tables."""
        if self.mean is None:
            return "–"
        digits = 0 if self.unit == "steps" else 3
        return f"{self.mean:+.{digits}f} [{self.low:+.{digits}f}, {self.high:+.{digits}f}]"


def compare(first: Card, second: Card) -> list[Difference]:
    """Return the paired difference of every row that both cards have."""
    for name in ("suite_version", "edition", "suite", "seeds"):
        ours, theirs = getattr(first, name), getattr(second, name)
        if ours != theirs:
            raise InputError(
                f"{name} = {ours} of {first.model} and {theirs} of {second.model}: cards of different suites cannot be "
                "compared; score both with one iclab and one edition"
            )
    others = {measure.key: measure for measure in second.measures}
    return [difference(measure, others[measure.key]) for measure in first.measures if measure.key in others]


def difference(one: Measure, other: Measure) -> Difference:
    """Return one − other on paired seeds. Seeds that diverged, or never learnt, have no pair."""
    about: dict[str, Any] = {"key": one.key, "section": one.section, "words": one.words, "unit": one.unit}
    about |= {"first": one.text, "second": other.text}
    if not one.per_seed or len(one.per_seed) != len(other.per_seed):
        return Difference(**about)
    mean, interval, missing = paired(one.per_seed, other.per_seed)
    if len(one.per_seed) - missing < 2:
        return Difference(**about)
    return Difference(**about, mean=mean, low=interval.low, high=interval.high)


def shipped() -> dict[tuple[str, Edition], Card]:
    """Return the cards of built-in families that come with iclab, by model and edition."""
    found = {}
    for file in sorted((files("iclab.score") / "cards").iterdir(), key=lambda file: file.name):
        if file.name.endswith(".json"):
            card = Card.model_validate_json(file.read_text(encoding="utf-8"))
            found[card.model, card.edition] = card
    return found


def beside(card: Card) -> Card | None:
    """Return the shipped card that stands beside a card; None if none is of the same suite.

    It is softmax for attention and Transformers by name, and mamba for all others; for these two, linear.
    """
    name = next((name for name, words in CLOSEST.items() if any(w in card.model.lower() for w in words)), "mamba")
    known = shipped()
    for candidate in (name, "mamba", "linear", "softmax"):
        found = known.get((candidate, card.edition))
        if found is not None and found.suite == card.suite and found.model != card.model:
            return found
    return None


def current(card: Card) -> bool:
    """Whether a card is of the suite that this iclab has."""
    return card.suite == suite(card.edition).digest()
