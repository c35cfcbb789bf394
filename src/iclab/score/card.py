"""The card: what a score found, as data. It is written as JSON, and page, badge and comparison are made from it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from iclab._version import __version__
from iclab.config import Config, InputError, explain
from iclab.score.suite import Edition, Unit


class Check(Config):
    """One check of integrity."""

    name: str
    words: str
    outcome: Literal["passed", "skipped", "failed"]
    reason: str = ""


class Candidate(Config):
    """One point of the tuning grid, and its mean over validation seeds; None if a seed diverged."""

    optimizer: str
    step_size: float
    value: float | None


class Tuned(Config):
    """How one part was tuned, and the budget that took."""

    part: str
    optimizer: str
    step_size: float
    candidates: tuple[Candidate, ...]
    prompts: int
    """Training prompts of all candidates together: the same for every model."""


class Measure(Config):
    """One row: a number per judged seed, its mean and its interval; or why there is none."""

    key: str
    section: str
    words: str
    unit: Unit
    per_seed: tuple[float | None, ...] = ()
    mean: float | None = None
    low: float | None = None
    high: float | None = None
    diverged: int = 0
    vote: Annotated[float | None, Field(exclude_if=lambda value: value is None)] = None
    """The error of a vote of the examples with the query's pattern, on the same prompts."""
    note: str = ""
    """Why it was not measured, or what is special."""

    @property
    def measured(self) -> bool:
        """Whether it was tried; it may still have no mean, because seeds diverged or never learnt."""
        return bool(self.per_seed)

    @property
    def text(self) -> str:
        """The number with its interval, for tables."""
        if self.mean is None:
            missing = "not reached" if self.measured else "not measured"
            return "diverged" if self.diverged else missing
        digits = 0 if self.unit == "steps" else 3
        span = "" if self.low is None or self.high is None else f" [{self.low:.{digits}f}, {self.high:.{digits}f}]"
        return f"{self.mean:.{digits}f}{span}" + (f", {self.diverged} diverged" if self.diverged else "")


def unmeasured(measures: Iterable[Measure]) -> dict[str, list[Measure]]:
    """Return the rows that were not measured by the reason: many have the same."""
    found: dict[str, list[Measure]] = {}
    for measure in measures:
        if not measure.measured:
            found.setdefault(measure.note, []).append(measure)
    return found


def in_short(measures: Sequence[Measure]) -> str:
    """Name rows: all of a few, of many the first and the last."""
    words = [measure.words for measure in measures]
    return "; ".join(words) if len(words) < 6 else f"{len(words)} rows, from {words[0]} to {words[-1]}"


class Cost(Config):
    """What a training step costs in plain PyTorch, on one thread."""

    parameters: int
    prompts_per_cpu_second: float
    """Forward and back, by CPU time; differs from machine to machine."""
    bytes_per_prompt: float
    """What torch keeps for the way back."""


class Card(Config):
    """The score of one model on one edition of the suite."""

    format: Literal[1] = 1
    """Of the JSON file."""
    iclab: str = __version__
    model: str
    name: str
    """What was given: a built-in name, or ``package.module:Class``."""
    options: dict[str, bool | int | float | str | None]
    source: str = ""
    """A hash of a user's code."""
    suite_version: int
    suite: str
    """The hash of the suite."""
    edition: Edition
    seeds: tuple[int, ...]
    validation_seeds: tuple[int, ...]
    steps: int
    batch_size: int
    checks: tuple[Check, ...]
    tuned: tuple[Tuned, ...]
    measures: tuple[Measure, ...]
    cost: Cost | None

    def __getitem__(self, key: str) -> Measure:
        """Return a row by its key: ``card["clean"].mean``."""
        for measure in self.measures:
            if measure.key == key:
                return measure
        raise InputError(f"key = {key!r}: must be one of {', '.join(measure.key for measure in self.measures)}")

    @property
    def failed(self) -> tuple[Check, ...]:
        """The checks of integrity that failed."""
        return tuple(check for check in self.checks if check.outcome == "failed")

    @property
    def outcomes(self) -> dict[tuple[str, str], list[str]]:
        """The names of checks by outcome and words: failures first, and those with the same reason together."""
        found: dict[tuple[str, str], list[str]] = {}
        for outcome in ("failed", "skipped", "passed"):
            for check in self.checks:
                if check.outcome == outcome:
                    found.setdefault((outcome, check.reason or check.words), []).append(check.name)
        return found

    def write(self, path: Path) -> Path:
        """Write it as JSON."""
        path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(self.model_dump(mode="json"), ensure_ascii=False, indent=1, allow_nan=False)
        path.write_text(text + "\n", encoding="utf-8")
        return path

    @classmethod
    def read(cls, path: Path | str) -> Card:
        """Read a JSON file; refuse what is none of ours."""
        try:
            return cls.model_validate_json(Path(path).read_text("utf-8"))
        except ValidationError as error:
            if any(item["type"] == "missing" for item in error.errors()):
                raise InputError(f"{path}: is not a card of iclab score") from None
            raise InputError(f"{path}: is not a card of this iclab ({explain(error, cls)})") from None
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{path}: cannot be read ({error})") from None
