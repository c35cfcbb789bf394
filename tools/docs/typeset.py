r"""A Markdown extension that typesets mathematics when the site is built, so that no page fetches a script.

``$…$`` and a pair of lines ``$$`` hold LaTeX, as on GitHub, and become MathML. ``\tag{A}`` numbers an equation. In
plain text, the papers' letters get their indices and exponents: ``κ_a'`` and ``M1^−0.5`` are written as on paper.
Examples in docstrings are shown as code.
"""

from __future__ import annotations

import html
import re
from typing import Any
from xml.etree import ElementTree

from latex2mathml.converter import convert
from markdown import Markdown
from markdown.extensions import Extension
from markdown.inlinepatterns import InlineProcessor
from markdown.postprocessors import Postprocessor
from markdown.preprocessors import Preprocessor
from markdown.treeprocessors import Treeprocessor

TAG = re.compile(r"\\tag\{(.*?)\}")


def displayed(latex: str) -> str:
    """Return a displayed equation as HTML, with its number at the right."""
    tag = TAG.search(latex)
    number = f'<span class="equation-number">({tag[1]})</span>' if tag else ""
    return f'<div class="equation">{convert(TAG.sub("", latex), display="block")}{number}</div>'


class DisplayedEquations(Preprocessor):
    """Equations between two lines that are ``$$``."""

    def run(self, lines: list[str]) -> list[str]:
        """Replace each by a placeholder of its HTML."""
        text = "\n".join(lines)
        keep = self.md.htmlStash.store
        return re.sub(
            r"(?m)^\$\$\n(.*?)\n\$\$$", lambda m: "\n" + keep(displayed(m[1])) + "\n", text, flags=re.S
        ).split("\n")


class Sessions(Preprocessor):
    """Paragraphs that begin with ``>>>``, as docstrings have them: code, and not quotations of quotations."""

    def run(self, lines: list[str]) -> list[str]:
        """Put each into a fence."""
        text = "\n".join(lines)
        return re.sub(r"(?ms)^(>>> .*?)(?=\n\s*\n|\Z)", r"```pycon\n\1\n```", text).split("\n")


class InlineEquations(InlineProcessor):
    """LaTeX between two ``$``."""

    def handleMatch(self, m: re.Match[str], data: str) -> tuple[Any, int, int]:  # noqa: N802 (Markdown's name)
        """Return the equation as MathML."""
        return self.md.htmlStash.store(convert(m[1])), m.start(0), m.end(0)


class Raised(InlineProcessor):
    """What stands after ``^``: a number, a letter, or anything in braces or parentheses."""

    def handleMatch(self, m: re.Match[str], data: str) -> tuple[Any, int, int]:  # noqa: N802
        """Return it as an exponent."""
        raised = ElementTree.Element("sup")
        whole = m[1][1:-1] if m[1].startswith("{") else m[1]
        raised.text, *tower = whole.split("^", 1)
        if tower:
            ElementTree.SubElement(raised, "sup").text = tower[0]
        return raised, m.start(0), m.end(0)


class Letters(InlineProcessor):
    """A single letter with an index after ``_``, a star or both, and the numbers of patterns, M1 and M2."""

    def handleMatch(self, m: re.Match[str], data: str) -> tuple[Any, int, int]:  # noqa: N802
        """Return the letter with its index, unless its star ends words in italics."""
        if m[0].endswith("*") and len(STAR.findall(data, 0, m.start())) % 2:
            return None, None, None
        whole = ElementTree.Element("span", {"class": "letter"})
        whole.text = m["letter"] or "M"
        if "*" in m[0]:
            ElementTree.SubElement(whole, "sup").text = "∗"
        index = m["number"] or (m["index"] or "").strip("{}")
        if index:
            ElementTree.SubElement(whole, "sub").text = index
        if m["prime"]:
            prime = ElementTree.SubElement(whole, "span")
            prime.text = "′"
        return whole, m.start(0), m.end(0)


LETTERS = r"""(?x)
(?<![A-Za-z_\\])(?P<letter>attn|logit|score|[A-Za-zΑ-Ωα-ωℓµ]\u0302?|(?<=²)\)(?=_))
(?: \*?_(?P<index>\{[^{}]+\}|[A-Za-z0-9α-ω]+(?![A-Za-z_])) (?P<prime>'(?!\w))? | (?<!\*.)\*(?=[\s\x02‖,.;)/]|\Z) )
| (?<![A-Za-z0-9_])M(?P<number>[12])(?![A-Za-z0-9_])
"""
STAR = re.compile(r"(?<!\*)\*(?!\*)")  # begins or ends words in italics: the stars of letters are gone by then
PARENTHESES = r"\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)"


class CodeInTables(Postprocessor):
    """GitHub takes the backslash before a bar in a table's code away; Markdown leaves it."""

    def run(self, text: str) -> str:
        """Take it away."""
        return re.sub(r"<code>[^<]*</code>", lambda code: code[0].replace("\\|", "|"), text)


class Lines(Postprocessor):
    """Lines of code that know where to go on if the page is too narrow: below their comment or last column."""

    def run(self, text: str) -> str:
        """Make each line a block with its column."""
        return re.sub(r"(<pre><span></span><code>)(.*?)\n?(?=</code></pre>)", self.blocks, text, flags=re.S)

    def blocks(self, code: re.Match[str]) -> str:
        """Return the lines of one piece of code; a docstring's have been blocks before its page was."""
        if 'class="line"' in code[2]:
            return code[0]
        return code[1] + "".join(map(self.block, code[2].split("\n")))

    def block(self, line: str) -> str:
        """Return one line."""
        plain = html.unescape(re.sub(r"<[^>]+>", "", line))
        column = re.match(r".*\S(?: +# | {3,}(?=\S))", plain)
        place = column.end() if column and column.end() < 50 else len(plain) - len(plain.lstrip()) + 4
        return f'<span class="line" style="--column: {place}">{line}</span>\n'


class Cells(Treeprocessor):
    """Cells of sentences, which need more room, cells of numbers, which stay on one line, and figures in full size."""

    def run(self, root: ElementTree.Element) -> None:
        """Mark the cells, and make every picture a link to itself."""
        for cell in root.iter("td"):
            text = "".join(cell.itertext())
            if len(text) > 60:
                cell.set("class", "long")
            elif re.fullmatch(r"[\d\s.,/%]+", text):
                cell.set("class", "numbers")
        for parent in list(root.iter()):
            for place, picture in enumerate(parent):
                if picture.tag == "img" and parent.tag != "a":
                    link = ElementTree.Element("a", {"href": picture.get("src", "")})
                    link.tail, picture.tail = picture.tail, None
                    link.append(picture)
                    parent[place] = link


class Typeset(Extension):
    """Mathematics for pages that are read on GitHub too."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802
        """Register the parts: equations after fenced code, and letters before emphasis."""
        md.preprocessors.register(Sessions(md), "sessions", 40)
        md.postprocessors.register(CodeInTables(md), "code-in-tables", 0)
        md.preprocessors.register(DisplayedEquations(md), "displayed-equations", 24)
        md.postprocessors.register(Lines(md), "lines", 0)
        md.treeprocessors.register(Cells(md), "cells", 15)
        md.inlinePatterns.register(
            InlineEquations(r"(?<![\\$\w])\$(?=\S)([^$\n]+?)(?<=\S)\$(?!\w)", md), "inline-equations", 185
        )
        md.inlinePatterns.register(
            Raised(rf"(?<=[\w)'*])\^(\{{[^{{}}]+\}}|[−-]?{PARENTHESES}|[−-]?\w+(?:\.\d+)?)", md), "raised", 75
        )
        md.inlinePatterns.register(Letters(LETTERS, md), "letters", 72)


def makeExtension(**kwargs: Any) -> Typeset:  # noqa: N802 (Markdown looks for this name)
    """Return the extension."""
    return Typeset(**kwargs)
