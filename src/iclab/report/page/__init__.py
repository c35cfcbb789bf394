"""The page itself: content poured into a template, with every script and style inside."""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Callable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, get_args

import jinja2
from markdown_it import MarkdownIt
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from iclab.config import InputError
from iclab.lab import Store
from iclab.report.content import PAPERS, Content, collect, model_name
from iclab.report.interactive import interactive
from iclab.study.claims import Verdict, in_figures, number
from iclab.study.outcome import Outcome


def write(
    store: Store,
    out: Path,
    tell: Callable[[str], None] = lambda text: None,
    given: Mapping[str, Outcome] | None = None,
) -> tuple[Path, Content]:
    """Write the report below ``out``: the page, and beside it every figure, table and number as files."""
    content = collect(store, tell, given)
    tell("the page")
    text = render(content)
    try:
        out.mkdir(parents=True, exist_ok=True)
        for section in content.sections:
            if section.outcome is not None:
                tell(f"figures of {section.id}")
                section.outcome.write(out)
        page, new = out / "index.html", out / "index.html.new"
        new.write_text(text, encoding="utf-8")
        new.replace(page)  # all of it, or what there was
    except OSError as error:
        raise InputError(f"out = {out}: cannot be written ({error.strerror})") from None
    return page, content


def render(content: Content) -> str:
    """Return the page."""
    room = files("iclab.report")
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    environment.filters["dashed"] = _dashed
    template = environment.from_string((room / "page" / "index.html.j2").read_text(encoding="utf-8"))
    told = {s.id: _told(s.outcome) for s in content.sections if s.outcome is not None}
    figures = {id_: figure for id_, figure in told.items() if figure is not None}
    pictures = {s.id: _picture(s.outcome) for s in content.sections if s.outcome and told[s.id] is None}
    found = {s.id: s.experiment.steps(s.outcome.rows, s.outcome.settings) for s in content.sections if s.outcome}
    steppers = {id_: steps for id_, steps in found.items() if steps is not None}
    written = {section.id for section in content.sections}
    return template.render(
        content=content,
        papers=PAPERS,
        verdicts=get_args(Verdict),
        verbs={"holds": "hold", "fails": "fail"} | {verdict: verdict for verdict in ("undecided", "not run")},
        models=sorted({model for section in content.sections for model in section.models}),
        pictures=pictures,
        heights={id_: figure["layout"]["height"] for id_, figure in figures.items()},
        choices=Markup(_markdown((room / "choices.md").read_text(encoding="utf-8"))),
        figures=_data(figures),
        steppers=steppers,
        stepping=_data(steppers),
        code=_data({name: code for section in content.sections for name, code in section.models.items()}),
        style=Markup((room / "page" / "style.css").read_text(encoding="utf-8")),
        script=Markup((room / "page" / "script.js").read_text(encoding="utf-8")),
        plotly=Markup(get_plotlyjs()),
        spark=spark,
        in_figures=in_figures,
        duration=duration,
        model_name=model_name,
        anchor=lambda id_: id_ if id_ in written else f"claim-{id_}",
    )


def _told(outcome: Outcome) -> dict[str, Any] | None:
    """A figure for the browser; None of one that cannot be told, which is then shown as it was drawn."""
    try:
        told = interactive(outcome.figure)
        json.dumps(told, allow_nan=False)
    except Exception:  # an experiment may draw what nobody has thought of: that must not cost the page
        return None
    return told


def _picture(outcome: Outcome) -> str:
    """A figure as it was drawn, inside the page."""
    return f"data:image/svg+xml;base64,{base64.b64encode(outcome.drawn('svg')).decode()}"


def _dashed(verdict: str) -> str:
    """A verdict as the style sheet knows it."""
    return verdict.replace(" ", "-")


def _data(value: Any) -> Markup:
    """Put data into a script element: nothing in it can end the element."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("<", "\\u003c"))


def _markdown(text: str) -> str:
    """Render a page of our own; links into the code lead nowhere from here, so only their words are kept."""
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    parser.add_render_rule("link_open", lambda *_: "")
    parser.add_render_rule("link_close", lambda *_: "")
    return parser.render(text).replace("<h1>", "<h2>").replace("</h1>", "</h2>")


def duration(seconds: float) -> str:
    """Seconds for people."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    if seconds < 6000:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


WIDE, HIGH = 140.0, 30.0


def spark(claim: dict[str, Any]) -> Markup:
    """Draw all points of a claim with their intervals, and the margins they were held against.

    An interval that has no end, such as that of one seed, goes to the edge.
    """
    points = [p for p in claim["points"] if p["value"] is not None]
    if not points:
        return Markup("")
    ends = [v for p in points for v in (p["low"], p["high"], p["value"]) if v is not None] + claim["margins"]
    low, high = min(ends), max(ends)
    room = (high - low) or 1.0

    def up(value: float) -> str:
        return f"{HIGH - 3 - (HIGH - 6) * (value - low) / room:.1f}"

    parts = []
    for margin in claim["margins"]:
        parts.append(f'<line class="margin" x1="0" x2="{WIDE:g}" y1="{up(margin)}" y2="{up(margin)}"/>')
    gap = WIDE / len(points)
    for place, point in enumerate(points):
        x = f"{gap * (place + 0.5):.1f}"
        bottom, top = (end if end is not None else edge for end, edge in ((point["low"], low), (point["high"], high)))
        told = html.escape(f"{point['where'] or claim['id']}: {number(point['value'])}")
        parts.append(f'<line class="bar" x1="{x}" x2="{x}" y1="{up(bottom)}" y2="{up(top)}"/>')
        parts.append(f'<circle cx="{x}" cy="{up(point["value"])}" r="2"><title>{told}</title></circle>')
    kind = _dashed(claim["verdict"])
    about = html.escape(f"{len(points)} points against {', '.join(map(number, claim['margins']))}")
    size = f'viewBox="0 0 {WIDE:g} {HIGH:g}"'
    return Markup(f'<svg class="spark {kind}" {size} role="img" aria-label="{about}">{"".join(parts)}</svg>')
