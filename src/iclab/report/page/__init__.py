"""The page: a template filled with the content, with all scripts and styles inside."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, get_args

import jinja2
from markdown_it import MarkdownIt
from markupsafe import Markup

from iclab.config import InputError
from iclab.lab import Store
from iclab.lab.progress import duration
from iclab.report.content import OWN, PARTS, Content, Section, collect
from iclab.report.drawing import vega
from iclab.report.page.sparkline import spark
from iclab.report.remembered import Remembered
from iclab.report.variants import Variant
from iclab.study.charts.models import full_name_of
from iclab.study.charts.painting import Painter
from iclab.study.claims import COUNTED, Verdict, in_figures
from iclab.study.outcome import Outcome

SCRIPTS = ("script.js", "figures.js", "stepper.js")


def write(
    store: Store,
    out: Path,
    progress: Callable[[str], None] = lambda text: None,
    given: Mapping[str, Outcome] | None = None,
    folder: str | None = None,
) -> tuple[Path, Content]:
    """Write the report below ``out``: the page, and the files of every experiment in a folder beside it."""
    remembered = Remembered()
    content = collect(store, progress, given, folder, remembered)
    try:
        out.mkdir(parents=True, exist_ok=True)
        with Painter() as painter:
            for section in content.sections:
                parts: list[Section | Variant] = [section, *section.variants]
                for part in parts:
                    if part.outcome is not None and part.drawing is not None and not part.drawing.problem:
                        progress(f"files of {section.id}")
                        part.outcome.write(out, painter)
            progress("the page")
            text = render(content, playground=(out / "playground.html").exists())
            progress("the last figures")
        page, new = out / "index.html", out / "index.html.new"
        new.write_text(text, encoding="utf-8")
        new.replace(page)  # readers see the old page or the new one, never a part
    except OSError as error:
        raise InputError(f"out = {out}: cannot be written ({error.strerror})") from None
    remembered.save()
    return page, content


def render(content: Content, playground: bool = False) -> str:
    """Return the page as HTML, with a link to the playground if there is one beside it."""
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    environment.filters |= {"dashed": _dashed, "key": _key}
    template = environment.from_string(_text("page/index.html.j2"))
    drawings = {section.id: section.drawing for section in content.sections if section.drawing is not None}
    drawings |= {v.folder: v.drawing for section in content.sections for v in section.variants if v.drawing is not None}
    steppers = {section.id: section.steps for section in content.sections if section.steps is not None}
    written = {section.id for section in content.sections if not section.experiment.own}
    sources = {"paper": "claims of the papers", "iclab": "questions of iclab"}
    sources |= {OWN: "your own"} if content.of(OWN) else {}
    return template.render(
        content=content,
        playground=playground,
        papers={
            letter: words for letter, words in PARTS.items() if letter != OWN or content.of(OWN) or content.problems
        },
        own=OWN,
        names={letter: letter or "Beyond" for letter in PARTS} | {OWN: "Yours"},
        sources=sources,
        verdicts=get_args(Verdict),
        verbs=COUNTED,
        models=sorted({model for section in content.sections for model in section.models}),
        choices=Markup(_markdown(_text("choices.md"))),
        figures=_data({id_: drawing.data for id_, drawing in drawings.items() if drawing.data is not None}),
        steppers=steppers,
        stepping=_data(steppers),
        code=_data(_code(content)),
        style=Markup(_text("page/style.css")),
        script=Markup("\n".join(_text(f"page/{name}") for name in SCRIPTS)),
        vega=Markup(vega()),
        spark=spark,
        in_figures=in_figures,
        duration=duration,
        model_name=full_name_of,
        anchor=lambda id_: id_ if id_ in written else f"claim-{id_}",
    )


def _code(content: Content) -> dict[str, str]:
    """Return the code of models, each text once."""
    models = [part for section in content.sections for part in (section.models, *(v.models for v in section.variants))]
    return {_key(code): code for part in models for code in part.values()}


def _key(code: str) -> str:
    """Return the key of a model's code. It is not the model's name, because users' classes may share one."""
    return hashlib.sha256(code.encode()).hexdigest()[:16]


def _text(name: str) -> str:
    return (files("iclab.report") / name).read_text(encoding="utf-8")


def _dashed(verdict: str) -> str:
    """Return the CSS class of a verdict."""
    return verdict.replace(" ", "-")


def _data(value: Any) -> Markup:
    """Return JSON for a script element. Nothing in it can end the element."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("<", "\\u003c"))


def _markdown(text: str) -> str:
    """Return Markdown as HTML. Links to source files are removed because they would lead nowhere."""
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    parser.add_render_rule("link_open", lambda *_: "")
    parser.add_render_rule("link_close", lambda *_: "")
    return parser.render(text).replace("<h1>", "<h2>").replace("</h1>", "</h2>")
