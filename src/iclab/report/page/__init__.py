"""The pages: templates filled with the content, with all scripts and styles inside."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, get_args

import jinja2
from markupsafe import Markup

from iclab.config import InputError
from iclab.glossary import terms_of
from iclab.lab import Store
from iclab.lab.progress import duration
from iclab.papers.citations import CITATIONS
from iclab.report.content import OWN, PARTS, Content, Section, collect
from iclab.report.drawing import Drawing, vega
from iclab.report.page.choices import choices
from iclab.report.page.formulas import FORMULAS
from iclab.report.page.sparkline import spark
from iclab.report.page.typeset import meanings, typeset
from iclab.report.remembered import Remembered
from iclab.report.variants import Variant
from iclab.study.charts.models import full_name_of
from iclab.study.charts.painting import Painter
from iclab.study.claims import COUNTED, Verdict, in_figures
from iclab.study.outcome import Outcome

SCRIPTS = ("script.js", "figures.js", "board.js", "terms.js", "stepper.js")


def write(
    store: Store,
    out: Path,
    progress: Callable[[str], None] = lambda text: None,
    given: Mapping[str, Outcome] | None = None,
    folder: str | None = None,
) -> tuple[Path, Content]:
    """Write the report below ``out``: its pages, and the files of every experiment in a folder beside them."""
    remembered = Remembered()
    content = collect(store, progress, given, folder, remembered)
    page, variants = out / "index.html", out / "variants.html"
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
            texts = {page: render(content, playground=(out / "playground.html").exists())}
            if content.elsewhere:
                texts[variants] = render_variants(content)
            progress("the last figures")
        for path, text in texts.items():
            new = path.with_name(f"{path.name}.new")
            new.write_text(text, encoding="utf-8")
            new.replace(path)  # readers see the old page or the new one, never a part
        if variants not in texts:
            variants.unlink(missing_ok=True)  # of an earlier store
    except OSError as error:
        raise InputError(f"out = {out}: cannot be written ({error.strerror})") from None
    remembered.save()
    return page, content


def render(content: Content, playground: bool = False) -> str:
    """Return the first page as HTML, with a link to the playground if there is one beside it."""
    usual = [section for section in content.sections if section.paper != OWN]
    drawings = {section.id: section.drawing for section in usual}
    drawings |= {card.figure: card.drawing for card in content.story}
    sources = {"paper": "claims of the papers", "iclab": "questions of iclab"}
    return _filled(
        "index.html.j2",
        content,
        drawings,
        usual,
        playground=playground,
        sources=sources | ({OWN: "your own"} if content.of(OWN) else {}),
        verdicts=get_args(Verdict),
        verbs=COUNTED,
        models=sorted({model for section in content.sections for model in section.models}),
        choices=choices(_text("choices.md")),
        citations=CITATIONS,
        formulas=FORMULAS,
        glossary=terms_of,
        on_board=defaultdict[str, set[str]](set),
        spark=spark,
    )


def render_variants(content: Content) -> str:
    """Return the page of variants and of the user's own experiments as HTML."""
    drawings = {section.id: section.drawing for section in content.of(OWN)}
    drawings |= {v.folder: v.drawing for section in content.sections for v in section.variants}
    varied = [section for section in content.sections if section.variants]
    return _filled("variants.html.j2", content, drawings, [*content.of(OWN), *varied], varied=varied)


def _filled(
    name: str, content: Content, drawings: Mapping[str, Drawing | None], sections: Sequence[Section], **more: Any
) -> str:
    """Return a page made from a template: its own words, the data of its scripts, and what both pages use."""
    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        loader=jinja2.FunctionLoader(lambda part: _text(f"page/{part}")),
    )
    environment.filters |= {"dashed": _dashed, "key": _key, "typeset": typeset}
    steppers = {section.id: section.steps for section in sections if section.steps is not None}
    written = {section.id for section in content.sections if not section.experiment.own}
    figures = {id_: drawing.data for id_, drawing in drawings.items() if drawing and drawing.data is not None}
    return environment.get_template(name).render(
        content=content,
        elsewhere=content.elsewhere,
        papers={
            letter: words for letter, words in PARTS.items() if letter != OWN or content.of(OWN) or content.problems
        },
        own=OWN,
        figures=_packed(figures),
        steppers=steppers,
        stepping=_data(steppers),
        code=_data(_code(sections)),
        terms=_data({letter: meanings(letter) for letter in CITATIONS}),
        style=Markup(_text("page/style.css")),
        script=Markup("\n".join(_text(f"page/{script}") for script in SCRIPTS)),
        vega=Markup(vega()),
        in_figures=in_figures,
        duration=duration,
        model_name=full_name_of,
        nothing_seen=set[str],
        other_models=lambda section, variant: {n: c for n, c in variant.models.items() if n not in section.models},
        anchor=lambda id_: id_ if id_ in written else f"claim-{id_}",
        **more,
    )


def _code(sections: Iterable[Section]) -> dict[str, str]:
    """Return the code of models, each text once."""
    models = [part for section in sections for part in (section.models, *(v.models for v in section.variants))]
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


def _packed(value: Any) -> str:
    """Return JSON, compressed: figures are most of a page, and say the same things many times."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()
