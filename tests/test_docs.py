"""The site's own parts: typeset mathematics, links, the page of letters; and the code of the tutorials."""

import importlib
import re
import sys
from pathlib import Path

import pytest

import iclab
from iclab.papers.citations import CITATIONS

ROOT = Path(__file__).parent.parent
TOOLS = ROOT / "tools" / "docs"


@pytest.fixture
def tool(monkeypatch):
    """Return a function that imports a file of tools/docs."""
    monkeypatch.syspath_prepend(str(TOOLS))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def load(name):
        sys.modules.pop(name, None)
        return importlib.import_module(name)

    return load


def test_a_dead_link_an_absent_anchor_and_a_foreign_script_are_found(tool, tmp_path):
    (tmp_path / "b.html").write_text('<h2 id="there">b</h2>')
    (tmp_path / "a.html").write_text(
        '<a href="b.html#there">fine</a> <a href="https://example.org">fine</a> <a href="b.html#gone">x</a>'
        '<a href="c.html">x</a> <img src="d.png"> <script src="https://example.org/x.js"></script>'
    )
    found = tool("check_site").problems(tmp_path)
    assert found == [
        "a.html: b.html#gone has no such anchor",
        "a.html: c.html leads nowhere",
        "a.html: d.png leads nowhere",
        "a.html: loads https://example.org/x.js",
    ]


def test_mathematics_is_typeset_and_code_is_not(tool):
    pytest.importorskip("latex2mathml")
    markdown = pytest.importorskip("markdown")
    typeset = tool("typeset")

    def html(text):
        return markdown.markdown(text, extensions=["fenced_code", "tables", typeset.Typeset()])

    assert "<math" in html("$x^2$")
    assert "equation-number" in html("$$\nx = y \\tag{A}\n$$")
    assert "κ<sub>a</sub>" in html("κ_a' and outlier_fraction")
    assert "<sub>fraction</sub>" not in html("κ_a' and outlier_fraction")
    assert "<sup>−0.57</sup>" in html("V^0.49 and M1^−0.57")
    assert "κ<sub>a</sub>" in html("**κ_a' decides** and *a* u_m(h)")
    assert html("*a*, then *b*").count("<em>") == 2
    assert html("`κ_a^2`") == "<p><code>κ_a^2</code></p>"
    assert "v<sup>∗</sup></span>‖" in html("‖v*‖²")
    assert "2<sup>−(k+1)</sup>" in html("2^−(k+1) and (1 + r)^t")
    assert html("the norm ‖v*‖ of v*_s and *one* word").count("<em>") == 1
    assert "<em>T and S</em>" in html("*T and S* of M1")  # no star of S
    assert "<sup>a<sup>b</sup></sup>" in html("e^{a^b}")
    assert "(L²)<sub>jk</sub>" in re.sub("</?span[^>]*>", "", html("(L²)_jk"))
    assert "<code>|x|</code>" in html("a | b\n--|--\n`\\|x\\|` | c")
    assert "<pre>" in html(">>> 1 + 1\n2")


def test_long_code_and_cells_know_how_to_be_narrow(tool):
    pytest.importorskip("latex2mathml")
    markdown = pytest.importorskip("markdown")
    typeset = tool("typeset")
    highlighted = "<pre><span></span><code>run   # says\n    --seeds 8\n</code></pre>"
    lines = typeset.Lines(markdown.Markdown()).run(highlighted)
    assert re.findall(r"--column: (\d+)", lines) == ["8", "8"]  # below the comment; 4 more than it is indented
    assert re.sub("</?span[^>]*>", "", lines) == re.sub("</?span[^>]*>", "", highlighted)  # copied as it was
    assert typeset.Lines(markdown.Markdown()).run(lines) == lines
    table = f"| a | b |\n|---|---|\n| 0.1 | {'word ' * 20} |\n\n![figure](a.png)"
    page = markdown.markdown(table, extensions=["tables", typeset.Typeset()])
    assert '<td class="numbers">0.1</td>' in page
    assert page.count('class="long"') == 1
    assert '<a href="a.png"><img' in page


def test_the_page_of_letters_is_up_to_date(tool):
    pytest.importorskip("iclab.glossary")
    assert (ROOT / "docs" / "glossary.md").read_text("utf-8") == tool("glossary").page(), "run tools/docs/glossary.py"


def test_every_public_function_has_an_example():
    functions = [getattr(iclab, name) for name in dir(iclab) if name[0].islower() and callable(getattr(iclab, name))]
    for function in functions:
        assert ">>>" in (function.__doc__ or "") or function is iclab.score, function.__name__


def test_the_citation_file_names_the_papers_as_the_report_does():
    _, *papers = re.split("^  - type: ", (ROOT / "CITATION.cff").read_text("utf-8"), flags=re.MULTILINE)
    for text, citation in zip(papers, CITATIONS.values(), strict=True):
        names = re.findall(r"- family-names: (.*)\n +given-names: (.*)", text)
        first = ["-".join(f"{part[0]}." for part in given.split("-")) for _, given in names]
        authors = [f"{initials} {family}" for initials, (family, _) in zip(first, names, strict=True)]
        assert " and ".join([", ".join(authors[:-1]), authors[-1]]) == citation.authors
        assert f'title: "{citation.title}"' in text
        assert any(url in text for url in citation.links.values())


@pytest.mark.slow
@pytest.mark.parametrize("page", ["theorist", "author", "engineer"])
def test_the_code_of_the_tutorials_runs(page, user_module, monkeypatch, tmp_path):
    blocks = re.findall(
        r"```python\n(.*?)```", (ROOT / "docs" / "tutorials" / f"{page}.md").read_text("utf-8"), re.DOTALL
    )
    assert blocks
    if page == "author":
        user_module("mine", blocks.pop(0))
        monkeypatch.syspath_prepend(str(tmp_path))
    for block in blocks:
        exec(compile(block, f"{page}.md", "exec"), {"__name__": page})
