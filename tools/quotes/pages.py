"""Find quoted numbers in the pages, compare them with numbers.json, and say which numbers nobody quotes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from quotes.sources import DIGITS, Number, Values, parsed

ROOT = Path(__file__).parent.parent.parent
Quotes = dict[str, Number | Sequence[Number]]
"""Fragments of a page with # for each number, and where the numbers come from."""
NUMBER = rf"(?<![\d.])([-−]?{DIGITS})(?!\.?\d)"
ROUNDING = Decimal("0.501")
"""How far a printed number may be from the value, in units of its last digit."""


@dataclass(frozen=True)
class Page:
    """A page, the numbers that it quotes, and those that are no results."""

    path: str
    quotes: Quotes
    settings: tuple[str, ...] = ()
    """Regular expressions of text with numbers that are no results."""

    @property
    def text(self) -> str:
        """The page as it stands."""
        return (ROOT / self.path).read_text("utf-8")

    def spots(self) -> list[Spot]:
        """Return every quoted number; a ValueError that names the fragments which are not there once."""
        text, found, lost = self.text, [], []
        for fragment, numbers in self.quotes.items():
            listed = [numbers] if isinstance(numbers, Number) else list(numbers)
            places = list(_pattern(fragment).finditer(text))
            if fragment.count("#") != len(listed):
                lost.append(f"{fragment!r} has {fragment.count('#')} numbers, and {len(listed)} sources")
            elif len(places) != 1:
                lost.append(f"{fragment!r} is there {len(places)} times; must be there once")
            else:
                starts = [(places[0].start(k), places[0].group(k)) for k in range(1, len(listed) + 1)]
                found += [Spot(self, *start, number) for start, number in zip(starts, listed, strict=True)]
        if lost:
            raise ValueError("\n".join(f"{self.path}: {line}" for line in lost))
        return found

    def unquoted(self) -> list[str]:
        """Return the decimal numbers that are neither quoted nor settings, with their lines."""
        text = self.text
        taken = {place for spot in self.spots() for place in range(spot.start, spot.start + len(spot.printed))}
        for setting in (*SETTINGS, *self.settings):
            for place in re.finditer(setting.replace(" ", r"\s+"), text):
                taken.update(range(place.start(), place.end()))
        decimals = re.finditer(r"\d+(?:,\d{3})*\.\d+", text)
        return [
            f"{self.path}:{_line(text, d.start())}: {d.group()}"
            for d in decimals
            if not taken & {d.start(), d.end() - 1}
        ]


@dataclass(frozen=True)
class Spot:
    """A number in a page, and where it comes from."""

    page: Page
    start: int
    printed: str
    number: Number

    def known(self, values: Values) -> bool:
        """Return whether the experiments that it comes from have been read."""
        return all(query.experiment in values for query in self.number.queries())

    def agrees(self, value: float) -> bool:
        """Return whether the page prints this value, rounded, or a bound of it."""
        printed = parsed(self.printed)
        if self.number.bound:
            return value <= printed if self.number.bound == "below" else value >= printed
        return abs(Decimal(repr(value)) - Decimal(repr(printed))) <= ROUNDING * self._unit

    def rounded(self, value: float) -> str:
        """Return the value with as many decimals as are printed."""
        text = f"{Decimal(repr(value)).quantize(self._unit):,f}"
        text = text.removeprefix("-") if parsed(text) == 0 else text
        return text.replace("-", "−" if "−" in self.page.text else "-")

    def told(self, value: float) -> str:
        """Say where the number is, what is printed and what it should be."""
        where = "; ".join(dict.fromkeys(f"{query.experiment} {query.text}" for query in self.number.queries()))
        bound = f" as a bound {self.number.bound}" if self.number.bound else ""
        return f"{self.page.path}:{_line(self.page.text, self.start)}: {self.printed}{bound}, is {value:.6g} ({where})"

    @property
    def _unit(self) -> Decimal:
        return Decimal(1).scaleb(-len(self.printed.partition(".")[2]))


def disagreeing(pages: Iterable[Page], values: Values) -> list[tuple[Spot, float]]:
    """Return the quoted numbers that are not as the store has them, with what it has."""
    found = []
    for page in pages:
        for spot in page.spots():
            if spot.known(values):
                value = spot.number.value(values)
                if not spot.agrees(value):
                    found.append((spot, value))
    return found


def corrected(page: Page, wrong: Iterable[tuple[Spot, float]]) -> str:
    """Return the page's text with these numbers put right; bounds are left to a person."""
    text = page.text
    for spot, value in sorted(wrong, key=lambda pair: -pair[0].start):
        if not spot.number.bound:
            text = text[: spot.start] + spot.rounded(value) + text[spot.start + len(spot.printed) :]
    return text


def _pattern(fragment: str) -> re.Pattern[str]:
    """Make an expression of a fragment: # is a number, and a space is any white space."""
    words = [NUMBER if part == "#" else re.escape(part) for part in re.split("(#)", fragment)]
    return re.compile("".join(words).replace(r"\ ", r"\s+"))


def _line(text: str, place: int) -> int:
    return text.count("\n", 0, place) + 1


LETTER = r"(?:α'?|κ_a'?|p_a|δ|η|K'?|S1|L|β|τM1|‖q‖|λ\*|γ|σ|δβ|ε|C)"
RESULT_FOLLOWS = r"(?![\d.]*(?: at| under| for| in| \[| %))"
SETTINGS = (
    # α = 0.4, 0.45 and 0.47; but in "at α = 0.4, 0.12 at 0.5", 0.12 is a result
    rf"{LETTER} (?:=|≤|≥|>|<|≈) [-−]?{DIGITS}(?:(?:,| and| or| to| /|, and) {DIGITS}{RESULT_FOLLOWS})*",
    r"[Pp]ython.*\b3\.1\d\b|\d+\.\d+\.\d+",  # versions
    r"arXiv \d+\.\d+|arxiv\.org/abs/\d+\.\d+",
    r"\(?[Tt]he paper:? [\d., and/%]+",  # the paper's own numbers
    r"(?:Theorem|Lemma|Corollary|Proposition|Prop\.|Cor\.|Thm|Table|Section|section|§|E|D|B|C|A|T|S|M)[ .]?\d+\.\d+",
    r"[TSM]-\w+\.\d+|T-lemB\.\d+|B\.\d+",  # ids of experiments
    r"(?s:```.*?```)",  # code
    r"--set .*",
)
"""Text with decimal numbers that are no results, on every page."""
