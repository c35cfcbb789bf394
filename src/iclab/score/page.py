"""The card as a page and as a badge: files that need nothing else."""

from __future__ import annotations

from importlib.resources import files
from itertools import groupby
from pathlib import Path

import jinja2
from markupsafe import Markup, escape

from iclab.score.card import Card, Measure, in_short, unmeasured
from iclab.score.comparing import beside, difference
from iclab.score.curves import curves

SECTIONS = {
    "tasks": "Tasks, without outliers",
    "robustness": "Robustness against outliers",
    "placement": "Where outliers stand (FQ, R, CQ)",
    "outliers": "Outliers it was not trained on",
    "length": "Other lengths (trained on 20 examples)",
    "domain": "Out of domain",
    "learning": "Speed of learning",
    "other tasks": "Other tasks, each with a training of its own",
}
"""Titles by section."""


def write(card: Card, folder: Path) -> list[Path]:
    """Write the card as JSON, page and badge into a folder; return the files."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = "".join(c if c.isalnum() or c in "-_" else "-" for c in card.model)
    page, badge_file = folder / f"{stem}.html", folder / f"{stem}.svg"
    page.write_text(render(card), encoding="utf-8")
    badge_file.write_text(badge(card), encoding="utf-8")
    return [page, card.write(folder / f"{stem}.json"), badge_file]


def render(card: Card, other: Card | None = None) -> str:
    """Return the page as HTML; ``other`` stands beside it, by default the built-in family."""
    other = other or beside(card)
    rivals = {m.key: m for m in other.measures} if other else {}
    differences = {m.key: difference(m, rivals[m.key]) for m in card.measures if m.key in rivals}
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    measured = sorted((m for m in card.measures if m.measured), key=lambda m: _order(m.section))
    groups = {name: list(rows) for name, rows in groupby(measured, key=lambda m: m.section)}
    return environment.from_string(_text("card.html.j2")).render(
        card=card,
        other=other,
        rivals=rivals,
        groups=groups,
        titles=SECTIONS,
        differences=differences,
        bar=bar,
        unmeasured=unmeasured(card.measures),
        in_short=in_short,
        curves=curves(card, other),
        badge=Markup(badge(card)),
        headline=[(words, card[key]) for key, words in _HEADLINE if any(m.key == key for m in card.measures)],
        style=Markup((files("iclab.report") / "page/style.css").read_text(encoding="utf-8")),
        own_style=Markup(_text("card.css")),
    )


_HEADLINE = (("clean", "clean error"), ("flip/0.4", "40 % flipped"), ("unseen/2", "tasks never seen"))


def _order(section: str) -> int:
    names = list(SECTIONS)
    return names.index(section) if section in names else len(names)


def _text(name: str) -> str:
    return (files("iclab.score") / name).read_text(encoding="utf-8")


def bar(measure: Measure, other: Measure | None) -> Markup:
    """Draw an error as a bar from 0 to 1 with its interval; a mark stands where the other model is."""
    if measure.mean is None or measure.unit != "error":
        return Markup("")
    low, high = measure.low or 0.0, 1.0 if measure.high is None else measure.high
    parts = [
        '<rect class="track" x="0" y="5" width="100" height="4"/>',
        f'<rect class="mean" x="0" y="5" width="{100 * measure.mean:.1f}" height="4"/>',
        f'<rect class="span" x="{100 * low:.1f}" y="6.5" width="{max(0.6, 100 * (high - low)):.1f}" height="1"/>',
    ]
    if other is not None and other.mean is not None:
        parts.append(f'<rect class="other" x="{min(99.0, 100 * other.mean):.1f}" y="2" width="1" height="10"/>')
    body = "".join(parts)
    return Markup(f'<svg class="bar" viewBox="0 0 100 14" preserveAspectRatio="none" aria-hidden="true">{body}</svg>')


def badge(card: Card) -> str:
    """Return the badge as SVG: integrity, and the clean and the poisoned error."""
    left = f"iclab score v{card.suite_version}"
    if card.failed:
        right, colour = f"{len(card.failed)} checks failed", "#b23a00"
    else:
        known = {m.key: m for m in card.measures}
        numbers = [
            f"{words} {known[key].mean:.3f}"
            for key, words in (("clean", "clean"), ("flip/0.4", "40 % flipped"))
            if key in known and known[key].mean is not None
        ]
        right, colour = (" · ".join(numbers), "#00704f") if numbers else ("diverged", "#b23a00")
    right = f"{right} ({card.edition})"
    widths = [7 * len(text) + 14 for text in (left, right)]
    whole = sum(widths)
    text = 'font-family="DejaVu Sans,Verdana,sans-serif" font-size="11" fill="#fff" text-anchor="middle"'
    label = escape(f"{left}: {right}")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{whole}" height="20" viewBox="0 0 {whole} 20" role="img" '
        f'aria-label="{label}"><title>{label}</title>'
        f'<rect width="{whole}" height="20" rx="3" fill="{colour}"/>'
        f'<path d="M3 0h{widths[0] - 3}v20h-{widths[0] - 3}a3 3 0 0 1-3-3v-14a3 3 0 0 1 3-3z" fill="#444"/>'
        f'<text x="{widths[0] / 2}" y="14" {text}>{escape(left)}</text>'
        f'<text x="{widths[0] + widths[1] / 2}" y="14" {text}>{escape(right)}</text></svg>\n'
    )
