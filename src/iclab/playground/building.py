"""The page as one file: a template with all scripts, styles and data inside."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path

import jinja2
from markupsafe import Markup

from iclab.config import InputError
from iclab.playground.content import content

ENGINE = ("counters.js", "prompts.js", "gates.js", "engine.js", "measure.js")
"""What workers run, and what the page itself uses for the prompt editor."""
PAGE = (
    *("state.js", "code.js", "charts.js", "graph.js", "kernel.js", "editor.js", "conditions.js"),
    *("results.js", "page.js", "tour.js"),
)


def write(out: Path) -> Path:
    """Write ``playground.html`` below ``out`` and return its path."""
    page, new = out / "playground.html", out / "playground.html.new"
    try:
        out.mkdir(parents=True, exist_ok=True)
        new.write_text(render(), encoding="utf-8")
        new.replace(page)  # readers see the old page or the new one, never a part
    except OSError as error:
        raise InputError(f"out = {out}: cannot be written ({error.strerror})") from None
    return page


def render() -> str:
    """Return the page as HTML."""
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    template = environment.from_string(source("page/playground.html.j2"))
    data = json.dumps(content(), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    report = files("iclab.report") / "page/style.css"  # one look with the report
    return template.render(
        style=Markup(report.read_text(encoding="utf-8") + source("page/playground.css")),
        data=Markup(data.replace("<", "\\u003c")),
        engine=Markup("\n".join(source(f"page/{name}") for name in ENGINE)),
        worker=Markup(source("page/worker.js")),
        script=Markup("\n".join(source(f"page/{name}") for name in PAGE)),
    )


def source(name: str) -> str:
    """Return the text of a file of the playground."""
    return (files("iclab.playground") / name).read_text(encoding="utf-8")
