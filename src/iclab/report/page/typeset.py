"""Plain text with formulas, such as "κ_a' ≥ κ_a/L", as HTML: subscripts, slanted letters, and terms to be explained."""

from __future__ import annotations

import re
from functools import cache

from markupsafe import Markup, escape

from iclab.glossary import terms_of

PANELS = "ABCDEFGHIJ"
"""In the text that explains a figure, these letters alone are names of its panels."""
_SUBSCRIPTED = r"[A-Za-zµα-ωΑ-Ω]_(?:[A-Za-z]+|\d)"
_RAISED = r"\^(?:\([^()]*\)|\{[^{}]*\}|[−-]?\w+)"
_BEFORE, _AFTER = r"(?<![A-Za-z_`.'’&-])", r"(?![A-Za-z0-9_`'’]|-[A-Za-z]|\.[a-z]| interval)"
_AS_NAMES = r"(?! (?:§|says|does|gives|has|and S|Figure|Theorem|Table|Algorithm|\(|[A-Z]\.))"
"""What follows a letter that stands for a paper: "T §5", "T says", "T and S"."""


def typeset(
    text: object, paper: str, seen: set[str] | None = None, panels: bool = False, plain: bool = False
) -> Markup:
    """Return text as HTML for the section of a paper.

    Terms of the glossary can be pointed at and tapped. The first of each also takes the keyboard's focus: ``seen``
    holds the signs that came before. With ``panels``, letters such as B are names of panels. ``plain`` text, that of a
    link for one, explains nothing.
    """
    known, pattern = terms_of(paper), _pattern(paper)
    parts, end = [], 0
    words = str(text)
    for found in pattern.finditer(words):
        sign = found[0]
        parts.append(escape(words[end : found.start()]))
        end = found.end()
        if sign in PANELS and (panels or words[found.start() - 1 : end + 1] == f"({sign})"):
            parts.append(escape(sign))
            continue
        if plain or sign not in known:
            parts.append(_shaped(sign))
            continue
        focus = Markup("") if seen is not None and sign in seen else Markup(" tabindex=0")
        if seen is not None:
            seen.add(sign)
        look = Markup(" class=word") if re.match("[A-Za-z]{2}", sign) else Markup("")
        parts.append(Markup("<abbr{}{}>{}</abbr>").format(look, focus, _shaped(sign)))
    return Markup("").join([*parts, escape(words[end:])])


def meanings(paper: str) -> dict[str, str]:
    """Return what the terms of a paper mean, by their text on the page, where κ_a' is κa′."""
    return {_shaped(sign).striptags(): term.words for sign, term in terms_of(paper).items()}


@cache
def _pattern(paper: str) -> re.Pattern[str]:
    """Return what finds terms and formulas in text, the longest first."""
    signs = sorted(terms_of(paper), key=len, reverse=True)
    followed = {sign: _AS_NAMES if sign in "MTS" else "" for sign in signs}
    terms = "|".join(re.escape(sign) + followed[sign] for sign in signs)
    greek = "|".join(sign for sign in signs if re.fullmatch("[α-ω]", sign))  # may stand before a capital: exp(2τL)
    return re.compile(
        rf"{_BEFORE}(?:(?:{terms}){_AFTER}|(?:{greek})(?=[A-Z])|{_SUBSCRIPTED}'?(?![A-Za-z0-9_]))|{_RAISED}"
    )


def _shaped(sign: str) -> Markup:
    """Return a letter with its subscript, or what is raised.

    >>> _shaped("κ_a'"), _shaped("M1"), _shaped("^−l")
    (Markup('<i>κ</i><sub>a</sub>′'), Markup('<i>M</i><sub>1</sub>'), Markup('<sup>−l</sup>'))
    """
    if sign.startswith("^"):
        return Markup("<sup>{}</sup>").format(sign[1:].strip("{}"))
    parts = re.fullmatch(r"([A-Za-zµα-ωΑ-Ω])(?:_?([A-Za-z]+|\d))?('?)([*²]?)", sign)
    if parts is None or (parts[2] and "_" not in sign and not parts[2].isdigit()):
        return escape(sign)
    letter, below, prime, after = parts.groups()
    lowered = Markup("<sub>{}</sub>").format(below) if below else Markup("")
    return Markup("<i>{}</i>{}{}{}").format(letter, lowered, "′" if prime else "", after)
