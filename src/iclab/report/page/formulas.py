"""The formulas of the cards, as MathML: browsers typeset it without a library."""

from __future__ import annotations

from markupsafe import Markup


def _letter(name: str) -> str:
    return f"<mi>{name}</mi>"


def _sign(name: str) -> str:
    return f"<mo>{name}</mo>"


def _row(*parts: str) -> str:
    return f"<mrow>{''.join(parts)}</mrow>"


def _sub(base: str, below: str) -> str:
    return f"<msub>{base}{below}</msub>"


def _sup(base: str, above: str) -> str:
    return f"<msup>{base}{above}</msup>"


def _math(words: str, *parts: str) -> Markup:
    return Markup(f'<math display="block" aria-label="{words}">{_row(*parts)}</math>')


_TRANSPOSED = "<mo>⊤</mo>"
_W = {name: _sub(_letter("W"), _letter(name)) for name in "BC"}
_KERNEL = _row(f"<msubsup>{_letter('W')}{_letter('B')}{_TRANSPOSED}</msubsup>", _W["C"])
_I = _letter("i")
_SIGMA = _sub(_letter("σ"), _I)
_QUERY = _sub(_letter("p"), "<mtext>query</mtext>")
_BEFORE = _row(_I, _sign("−"), "<mn>1</mn>")
_ATTENTION = _row(f"<msubsup>{_letter('p')}{_I}{_TRANSPOSED}</msubsup>", _KERNEL, _QUERY)


def _named(part: str, name: str) -> str:
    """Return a part of a formula with a name below it."""
    return f"<munder>{part}<mtext>{name}</mtext></munder>"


FORMULAS = {
    "kernel": _math(
        "W_B transposed times W_C is delta squared times the exponential of 2 tau L",
        *(_KERNEL, _sign("="), _sup(_letter("δ"), "<mn>2</mn>"), "<mspace width='0.15em'/>", _letter("exp")),
        *(_sign("("), "<mn>2</mn>", _letter("τ"), _letter("L"), _sign(")")),
    ),
    "gate": _math(
        "the output F is the sum over examples of gate times label times attention",
        *(_letter("F"), _sign("="), f"<munder>{_sign('∑')}{_I}</munder>"),
        *(_named(_sub(_letter("G"), _I), "gate"), _sub(_letter("y"), _I), "<mspace width='0.2em'/>"),
        _named(_ATTENTION, "attention"),
    ),
    "worst": _math(
        "m i is the least over labels y of 1 minus sigma i times m i minus 1 plus sigma i y s i z",
        *(_sub(_letter("m"), _I), _sign("="), f"<munder><mi>min</mi>{_letter('y')}</munder>", _sign("[")),
        *(_sign("("), "<mn>1</mn>", _sign("−"), _SIGMA, _sign(")"), _sub(_letter("m"), _BEFORE), _sign("+"), _SIGMA),
        *(_letter("y"), _sub(_letter("s"), _I), _letter("z"), _sign("]")),
    ),
}
"""By the name that a finding gives."""
