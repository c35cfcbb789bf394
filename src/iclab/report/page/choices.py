"""The page of choices and contradictions, Markdown, as HTML with explained letters."""

from __future__ import annotations

import re

from markdown_it import MarkdownIt
from markupsafe import Markup

from iclab.report.page.typeset import typeset


def choices(text: str) -> Markup:
    """Return the choices as HTML: a part per heading, which names the paper whose letters are used below it."""
    html = Markup("")
    for part in re.split("^(?=## )", text, flags=re.MULTILINE):
        named = re.match("## Papers? ([A-Z])", part)
        paper = named[1] if named else "M"
        html += Markup('<div data-paper="{}">{}</div>').format(paper, _html(part, paper))
    return html


def _html(text: str, paper: str) -> Markup:
    """Return Markdown as HTML, headings one level down. Links to source files would lead nowhere: they are removed."""
    seen: set[str] = set()
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    parser.add_render_rule("link_open", lambda *_: "")
    parser.add_render_rule("link_close", lambda *_: "")
    parser.add_render_rule("text", lambda _, tokens, i, *__: str(typeset(tokens[i].content, paper, seen)))
    return Markup(parser.render(text).replace("h2>", "h3>").replace("h1>", "h2>"))
