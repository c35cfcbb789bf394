"""Text as the page shows it: letters have subscripts, and are explained by the paper of their section."""

import re

import pytest

import iclab
from iclab.glossary import PAPERS, TERMS, terms_of
from iclab.report.page.choices import choices
from iclab.report.page.typeset import meanings, typeset


def terms(text, paper="M", **how):
    return re.findall(r"<abbr[^>]*>(.*?)</abbr>", typeset(text, paper, **how))


def test_letters_are_shaped_and_marked():
    assert typeset("κ_a' ≥ κ_a", "M") == "<abbr tabindex=0>{}</abbr> ≥ <abbr tabindex=0>{}</abbr>".format(
        "<i>κ</i><sub>a</sub>′", "<i>κ</i><sub>a</sub>"
    )
    assert [re.sub("<[^>]+>", "", term) for term in terms("W_BᵀW_C = δ² exp(2τL)")] == ["WB", "WC", "δ", "τ", "L"]
    assert typeset("2^k of σ_i", "T") == "2<sup>k</sup> of <i>σ</i><sub>i</sub>"
    assert typeset("κ_a", "M", plain=True) == "<i>κ</i><sub>a</sub>"


def test_only_the_first_takes_the_focus():
    seen = set()
    assert typeset("α α", "M", seen).count("tabindex") == 1
    assert typeset("α", "M", seen).count("tabindex") == 0


@pytest.mark.parametrize(
    "text",
    ["M-fig2", "T §5", "T says", "query's", "a t interval", "outlier_fraction", "`W_B`", "GPT-2", "T-fig3.R", "R2"],
)
def test_names_are_no_letters(text):
    assert terms(text) == []


def test_names_of_panels_are_no_letters():
    assert terms("B: the error. C, F: the same", panels=True) == []
    assert len(terms("B: the error")) == 1
    assert terms("the two sides of (C), (B) holds") == []


def test_text_is_escaped():
    assert typeset("<b> κ_a & 'x'", "M").startswith("&lt;b&gt; ")
    assert typeset("a^{<b>}", "M") == "a<sup>&lt;b&gt;</sup>"


def test_a_letter_means_what_its_paper_says():
    assert "outliers" in meanings("M")["α"]
    assert "outliers" not in meanings("T")["α"]
    assert meanings("S")["τ"] == "the size of the noise"
    assert terms_of("") == terms_of("M") == terms_of("yours")


def test_every_term_is_found_and_explained():
    for paper in PAPERS:
        for sign in terms_of(paper):
            (found,) = terms(f"so {sign} is", paper)
            assert re.sub("<[^>]+>", "", found) in meanings(paper), (paper, sign)


def test_a_sign_means_one_thing_in_a_paper():
    for paper in PAPERS:
        signs = [term.sign for term in TERMS if paper in term.papers]
        assert len(set(signs)) == len(signs)


def test_the_names_at_the_packages_front_are_in_the_glossary():
    lines = [line for line in iclab.__doc__.splitlines() if line.startswith("    ")]
    names = {name for line in lines for name in re.findall(r"[a-z]{2,}_[a-z]+", line)}
    assert len(names) >= 10
    assert names <= {term.name for term in TERMS}


def test_the_choices_have_the_letters_of_the_paper_that_their_heading_names():
    html = choices("# Choices\n\n## Paper M\n\n|α|`κ_a`|\n|---|---|\n|κ_a|[x](y)|\n\n## Papers T and S\n\nα *or* <b>")
    first, of_m, of_t = html.split("</div>")[:-1]
    assert first == '<div data-paper="M"><h2>Choices</h2>\n'
    assert of_m.startswith('<div data-paper="M"><h3>Paper M</h3>')
    assert "<th><abbr tabindex=0><i>α</i></abbr></th>\n<th><code>κ_a</code></th>" in of_m
    assert "<td><abbr tabindex=0><i>κ</i><sub>a</sub></abbr></td>\n<td>x</td>" in of_m
    assert of_t.startswith('<div data-paper="T"><h3>Papers T and S</h3>')
    assert "<p><abbr tabindex=0><i>α</i></abbr> <em>or</em> &lt;b&gt;</p>" in of_t
