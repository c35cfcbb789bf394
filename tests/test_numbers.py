"""The numbers in README and docs are those of the stored full edition, by docs/numbers.json."""

import json
from types import SimpleNamespace

import pytest

import quotes.__main__ as program
from iclab.catalog import find
from iclab.study.edition import Edition
from quotes.counts import QUICK, Count, counted
from quotes.listed import NOT_COVERED, PAGES, asked, read, values_of
from quotes.pages import ROOT, Page, corrected, disagreeing
from quotes.sources import above, below, claim, exactly, rows, table

ASKED = asked()
by_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.path)


@by_page
def test_a_page_prints_what_was_measured(page):
    wrong = disagreeing([page], values_of(read()))
    assert not wrong, "\n".join(["see `make numbers`", *(spot.told(value) for spot, value in wrong)])


@by_page
def test_every_number_is_a_quote_or_a_setting(page):
    unquoted = page.unquoted()
    assert not unquoted, "\n".join(["add quotes or settings to tools/quotes", *unquoted])


def test_no_page_with_numbers_is_forgotten():
    pages = {"README.md", *(str(path.relative_to(ROOT)) for path in (ROOT / "docs").glob("*.md"))}
    listed = {page.path for page in PAGES} | set(NOT_COVERED)
    assert listed <= pages
    unquoted = [line for path in sorted(pages - listed) for line in Page(path, {}).unquoted()]
    assert not unquoted, "\n".join(["quote these, or add the page to NOT_COVERED in tools/quotes/listed.py", *unquoted])


def test_every_query_was_answered():
    known = read()
    missing = {id_: {query.text for query in ASKED[id_]} - known[id_]["values"].keys() for id_ in ASKED.keys() & known}
    assert not any(missing.values()), f"run `make numbers`: {missing}"


def test_every_experiment_was_read():
    never = sorted(ASKED.keys() - read().keys())
    if never:
        pytest.skip(f"the pages print numbers of an earlier full edition, not compared yet: {', '.join(never)}")


OUTCOME = SimpleNamespace(
    rows=[
        {"model": model, "fraction": fraction, "seed": seed, "error": error + seed / 100}
        for model, fraction, error in (("mamba", 0.5, 0.0), ("mamba", 0.6, 0.1), ("linear", 0.6, 0.7))
        for seed in (0, 1)
    ],
    claims=[
        {
            "id": "M-fig2.gap.flip",
            "measured": 0.6,
            "low": 0.5,
            "high": 0.7,
            "points": [
                {"value": 0.6, "low": 0.5, "high": 0.7, "where": "α = 0.6"},
                {"value": 0.9, "where": "α = 0.65"},
            ],
        }
    ],
    table=[{"tasks": "ring:1", "entries": "0: 11.5, 1: −7.5"}],
)
errors = rows("M-fig2")


@pytest.mark.parametrize(
    "query, value",
    [
        (errors(model="linear"), 0.705),
        (errors(model="mamba", fraction=0.6).highest("seed"), 0.11),
        (errors(model="mamba").highest("seed", "fraction", rank=2), 0.1),
        (errors.lowest("model", "fraction"), 0.005),
        (claim("M-fig2.gap.flip"), 0.6),
        (claim("M-fig2.gap.flip").low, 0.5),
        (claim("M-fig2.gap.flip").at("α = 0.6"), 0.6),
        (claim("M-fig2.gap.flip").highest(), 0.9),
        (claim("M-fig2.gap.flip").highest(but="0.65"), 0.6),
        (table("M-kernel", "entries", {"tasks": "ring:1"}).number(4), -7.5),
    ],
    ids=lambda query: getattr(query, "text", None),
)
def test_a_query_finds_its_number(query, value):
    assert query.answer(OUTCOME) == pytest.approx(value)


@pytest.mark.parametrize(
    "query, message",
    [
        (errors(model="mamba"), "more than one condition; they differ in .'fraction'"),
        (errors(model="softmax"), "no row has"),
        (claim("M-fig2.gap.target"), "has no claim gap.target"),
        (claim("M-fig2.gap.flip").at("α = 0.7"), "0 points"),
        (table("M-kernel", "entries", {"tasks": "all"}), "0 lines"),
    ],
)
def test_a_query_that_names_no_number_is_refused(query, message):
    with pytest.raises(LookupError, match=message):
        query.answer(OUTCOME)


def test_ids_with_a_dot_are_read():
    assert (claim("T-thm3.3.eta").experiment, claim("T-thm3.3.eta").name) == ("T-thm3.3", "eta")
    assert (claim("T-lemB.11.fewer").experiment, claim("S-fig1.unseen.error").name) == ("T-lemB.11", "unseen.error")


@pytest.fixture
def page(tmp_path):
    """A page of two lines; its path is absolute, so it need not be in the clone."""
    path = tmp_path / "page.md"
    path.write_text("The errors are 0.10\nand −1,234.5 at α = 0.6, less than 0.2 and more than 0.05.\n", "utf-8")
    tenth = exactly(0.1)
    numbers = [tenth, exactly(-1234.52), below(tenth), above(tenth)]
    return Page(str(path), {"errors are # and # at α = 0.6, less than # and more than #.": numbers})


def test_a_page_that_is_right_passes(page):
    assert disagreeing([page], {}) == []
    assert page.unquoted() == []


@pytest.mark.parametrize(
    "old, new", [("0.10", "0.11"), ("−1,234.5", "1,234.5"), ("than 0.2", "than 0.09"), ("0.05", "0.2")]
)
def test_a_wrong_number_is_found(page, old, new):
    with open(page.path, "r+", encoding="utf-8") as file:
        text = file.read().replace(old, new, 1)
        file.seek(0)
        file.write(text)
        file.truncate()
    assert len(disagreeing([page], {})) == 1


def test_a_sentence_that_was_changed_or_a_number_that_was_added_is_found(page):
    text = page.text
    with open(page.path, "a", encoding="utf-8") as file:
        file.write("Without outliers it is 0.7.\n")
    assert page.unquoted() == [f"{page.path}:3: 0.7"]
    with open(page.path, "w", encoding="utf-8") as file:
        file.write(text.replace("The errors", "Their rates"))
    with pytest.raises(ValueError, match="is there 0 times"):
        page.spots()


@pytest.fixture
def small_edition(figure_run, tmp_path, monkeypatch):
    """M-fig2's small run as if it were the full edition, and a page that quotes it wrongly."""
    settings = find("M-fig2").settings(
        seeds=2, steps=20, test_prompts=50, outlier_fractions=(0.0, 0.6), baselines=False
    )
    edition = Edition(find("M-fig2"), settings)
    monkeypatch.setattr(program, "usual", lambda experiment: edition)
    monkeypatch.setattr(program, "NUMBERS", tmp_path / "numbers.json")
    monkeypatch.setattr("quotes.listed.NUMBERS", tmp_path / "numbers.json")
    path = tmp_path / "page.md"
    path.write_text("Linear errs in 2.000 of prompts.\n")
    quoted = rows("M-fig2", model="linear", outlier_labels="flip", outlier_fraction=0.6)
    pages = (Page(str(path), {"errs in # of": quoted}),)
    monkeypatch.setattr(program, "PAGES", pages)
    monkeypatch.setattr("quotes.listed.PAGES", pages)
    (error,) = {quoted.answer(edition.outcome(program.Store(figure_run.store)))}
    return SimpleNamespace(path=path, numbers=tmp_path / "numbers.json", error=error)


@pytest.mark.slow
def test_the_program_reads_a_store_and_corrects_a_page(small_edition, figure_run, capsys):
    words = ("--store", str(figure_run.store))
    assert program.main(words) == 1
    said = capsys.readouterr().out
    assert "page.md:1: 2.000, is 0." in said
    assert said.endswith("1 of 1 quoted numbers are printed otherwise; 0 could not be compared\n")
    stored = json.loads(small_edition.numbers.read_text())["M-fig2"]
    assert (stored["seeds"], list(stored["values"].values())) == (2, [pytest.approx(small_edition.error)])
    assert program.main((*words, "--fix")) == 1
    assert small_edition.path.read_text() == f"Linear errs in {small_edition.error:.3f} of prompts.\n"
    assert program.main(words) == 0


@pytest.mark.slow
def test_the_program_keeps_what_a_store_does_not_have(small_edition, figure_run, tmp_path, capsys):
    program.main(("--store", str(figure_run.store)))
    kept = small_edition.numbers.read_text()
    (tmp_path / "empty").mkdir()
    program.main(("--store", str(tmp_path / "empty")))
    assert capsys.readouterr().err == "not all in the store, so left as they are: M-fig2\n"
    assert small_edition.numbers.read_text() == kept
    with pytest.raises(SystemExit, match="has not all of the quick edition"):
        program.main(("--store", str(tmp_path / "empty"), "--quick"))


def test_bad_words_are_refused(tmp_path, capsys):
    for words, message in (
        (("--store", str(tmp_path / "nowhere")), "is not a folder"),
        (("--store", str(tmp_path), "--only", "M-fig99"), "only = M-fig99: no page quotes it"),
    ):
        with pytest.raises(SystemExit) as stop:
            program.main(words)
        assert stop.value.code == 2
        assert message in capsys.readouterr().err


@pytest.mark.slow
def test_verdicts_are_counted(figure_run, monkeypatch):
    figure = find("M-fig2")
    settings = figure.settings(seeds=2, steps=20, test_prompts=50, outlier_fractions=(0.0, 0.6), baselines=False)
    monkeypatch.setattr("iclab.catalog.experiments", lambda: {"M-fig2": figure})
    monkeypatch.setattr("iclab.study.edition.usual", lambda experiment, quick=False: Edition(figure, settings))
    numbers = counted(program.Store(figure_run.store))
    listed = Edition(figure, settings).claims
    assert numbers[Count(QUICK).text] == sum(not claim.ours for claim in listed)
    assert sum(numbers.values()) == 2 * len(listed)


def test_bounds_are_left_to_a_person(page):
    wrong = [(spot, 0.3) for spot in page.spots() if spot.number.bound]
    assert corrected(page, wrong) == page.text
