"""The page: complete, self-contained, and correct for every kind of store."""

import re
import shutil
from dataclasses import replace
from html.parser import HTMLParser
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest

from iclab.catalog import experiments, find
from iclab.cli.values import read_pairs
from iclab.lab import Store, run
from iclab.lab.progress import duration
from iclab.papers.citations import CITATIONS
from iclab.report import write
from iclab.report.content import collect, with_settings
from iclab.report.drawing import page_data
from iclab.report.page import render
from iclab.report.page.sparkline import spark
from iclab.study.claims import COUNTED, in_figures, number
from iclab.study.edition import Edition, best
from iclab.study.files import latex
from iclab.theory.statements import STATEMENTS, Statement

pytestmark = pytest.mark.slow


class Links(HTMLParser):
    """Collects ids, and where links and sources lead."""

    def __init__(self):
        super().__init__()
        self.ids, self.leads = [], []

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.ids += [found["id"]] if "id" in found else []
        self.leads += [value for name, value in found.items() if name in ("href", "src") and value]


def links(text):
    found = Links()
    found.feed(text)
    return found


def untested():
    return {statement.id for statement in STATEMENTS if statement.to_test} - experiments().keys()


def test_a_report_of_nothing_says_so(tmp_path):
    text = render(collect(Store(tmp_path / "none")))
    assert "The store has no results of the full or the quick edition." in text
    assert "No experiment has been run yet." in text
    assert text.count("The store has no results. Run") == len(experiments())
    board = text.split('<table class="board">')[1].split("</table>")[0]
    assert set(re.findall(r'data-verdict="([^"]+)"', board)) == {"not run"}
    for id_ in untested():
        assert f'id="claim-{id_}"' in board


def test_every_claim_stands_on_the_board_once(report):
    _, content = report
    ids = [claim["id"] for claim in content.board]
    assert len(set(ids)) == len(ids)
    full = {claim.id for experiment in experiments().values() for claim in experiment.claims(experiment.settings())}
    assert set(ids) == full | untested()
    assert content.verdicts["holds"] > 0
    ours = {claim["id"] for claim in content.board if claim["ours"]}
    assert {"M-fig2.mamba-excess.flip", "T-fig3.leak", "inside.mamba.silenced", "sensitivity.M-fig2"} <= ours
    assert not {"M-fig2.mamba-small.flip", "T-fig3.unseen.gpt2", *untested()} & ours
    assert content.verdicts.total() == len(ids) - len(ours)
    assert all(claim["paper"].startswith("(iclab's) ") is claim["ours"] for claim in content.board)
    assert [claim["letter"] for claim in content.board] == sorted(
        (claim["letter"] for claim in content.board), key=["M", "T", "S", ""].index
    )


def test_the_page_says_how_many_verdicts_may_be_wrong_by_chance(report, tmp_path):
    page, content = report
    bound = content.wrong_by_chance
    assert 0 < bound.holds < bound.fails < bound.judged
    assert bound.decided == sum(content.counted(source)[v] for source in ("paper", "iclab") for v in ("holds", "fails"))
    text = page.read_text(encoding="utf-8")
    assert f"at most {bound.holds:.1f} wrong “holds” are expected" in text
    assert "No claim has been judged yet." in render(collect(Store(tmp_path / "none")))


def test_every_verdict_can_be_filtered_and_has_a_number(report):
    page, _ = report
    text = page.read_text(encoding="utf-8")
    for verdict, counted in COUNTED.items():
        assert f"<option>{verdict}</option>" in text
        link = f'<a href="#board?source=paper&amp;verdict={verdict.replace(" ", "%20")}">'
        assert re.search(rf'class="{verdict.replace(" ", "-")}">{re.escape(link)}<b>\d+</b> {counted}<', text)


def test_a_statement_is_listed_until_an_experiment_has_its_name(monkeypatch, tmp_path):
    later = Statement("M-later", "M Table 9", "a table that nobody has tested")
    monkeypatch.setattr("iclab.report.content.STATEMENTS", (*STATEMENTS, later))
    board = collect(Store(tmp_path / "none")).board
    assert [claim["id"] for claim in board if claim["where"] == "M Table 9"] == ["M-later"]
    assert all(claim["where"] != "M Table 6" for claim in board)


def test_it_needs_nothing_from_elsewhere_and_its_links_lead_somewhere(report):
    pages = {path.name: links(path.read_text()) for path in (report[0], report[0].with_name("variants.html"))}
    cited = {address for paper in CITATIONS.values() for address in paper.links.values()}
    assert cited <= set(pages["index.html"].leads)
    for name, found in pages.items():
        path = report[0].with_name(name)
        for lead in set(found.leads) - cited - {"data:,"}:
            file, _, place = lead.partition("#")
            assert (path.parent / file).is_file() if file else place, lead
            assert not place or place.partition("?")[0] in pages[file or name].ids, lead
        assert path.stat().st_size < 8e6
        text = path.read_text().split("<script>")[0]
        assert "@import" not in text
        assert "url(" not in text
        assert len(set(found.ids)) == len(found.ids)


def test_figures_tables_and_numbers_lie_beside_it(report):
    page, content = report
    folder = page.parent / "M-fig2-quick"
    for name in ("M-fig2.svg", "M-fig2.pdf", "M-fig2.png", "table.csv", "table.tex", "rows.parquet"):
        assert (folder / name).stat().st_size > 500, name
    section = next(s for s in content.sections if s.id == "M-fig2")
    rows = pq.read_table(folder / "rows.parquet").to_pylist()
    assert rows == [dict.fromkeys(rows[0]) | row for row in section.outcome.rows]


def test_a_section_says_how_it_was_made(report):
    page, content = report
    text = page.read_text()
    section = next(s for s in content.sections if s.id == "M-fig2")
    assert section.command == "iclab run M-fig2 --quick"
    assert section.seconds > 0
    assert "quick edition: 8 seeds, 10,000 test prompts each" in text
    assert "The paper says only κa′ ≥ κa = 2" in re.sub("<[^>]+>", "", text)
    assert "class Mamba(" in section.models["mamba"]
    assert content.seconds >= section.seconds
    assert "torch" in content.machines[0]


def test_the_fullest_complete_edition_is_shown(quick_store):
    outcome = best(find("M-fig2"), quick_store)
    assert outcome.complete
    assert outcome.settings.edition_name == "quick"
    assert best(find("T-fig2"), quick_store) is None


def test_a_store_with_a_part_of_everything_gives_a_good_page(tmp_path):
    store = Store(tmp_path / "store")
    for id_ in ("M-fig2", "inside"):
        experiment = find(id_)
        conditions = experiment.conditions(experiment.settings())
        run([conditions[0].cell, conditions[-1].cell], store, workers=1, quiet=True)
    content = collect(store)
    found = {section.id: section for section in content.sections}
    assert [found[id_].summary.partition(":")[0] for id_ in ("M-fig2", "inside", "T-fig2")] == [
        *2 * ["full edition, unfinished"],
        "not run yet",
    ]
    assert found["M-fig2"].command == "iclab run M-fig2"
    assert "full edition, unfinished: 16 seeds" in render(content)


def test_an_edition_that_lacks_a_cell_is_shown_if_more_of_it_can_be_judged(quick_store, tmp_path):
    store = Store(shutil.copytree(quick_store.path, tmp_path / "store"))
    experiment = find("M-fig2")
    shutil.rmtree(store.entry(experiment.conditions(experiment.settings().quick())[-1].cell))
    outcome = best(experiment, store)
    assert (outcome.complete, outcome.settings.edition_name) == (False, "quick")
    verdicts = [claim["verdict"] for claim in outcome.claims]
    assert 0 < verdicts.count("not run") < len(verdicts) / 2


def test_what_was_just_run_is_what_is_shown(quick_store):
    experiment = find("M-fig2")
    few = Edition(experiment, experiment.settings().quick().replace(seeds=3)).outcome(quick_store)
    content = collect(quick_store, given={"M-fig2": few})
    section = next(section for section in content.sections if section.id == "M-fig2")
    assert section.outcome is few
    assert section.summary.startswith("own settings: 3 seeds")
    assert section.command == "iclab run M-fig2 --quick --seeds 3"


def test_settings_can_be_said_again():
    usual = find("M-fig2").settings()
    assert usual.arguments() == []
    assert usual.quick().arguments() == ["--quick"]
    other = usual.replace(counting="exact", steps=20, models=("mamba",))
    assert set(other.arguments()) == {"--set", "counting=exact", "steps=20", 'models=["mamba"]'}
    again = usual.replace(**read_pairs([word for word in other.arguments() if word != "--set"]))
    assert again == other


def test_what_an_edition_leaves_out_says_so(quick_store, monkeypatch):
    figure = find("M-fig2")
    quick, claims = figure.settings().quick(), type(figure).claims
    monkeypatch.setattr(type(figure), "claims", lambda self, s: claims(self, s)[1:] if s == quick else claims(self, s))
    section = next(section for section in collect(quick_store).sections if section.id == "M-fig2")
    left = [claim for claim in section.claims if claim["verdict"] == "not run"]
    assert [(claim["id"], claim["where"]) for claim in left] == [
        ("M-fig2.mamba-small.flip", "not part of the quick edition")
    ]


@pytest.mark.parametrize(
    ("id_", "models"),
    [
        ("M-tab1.mamba-fq", {"deep-mamba"}),
        ("M-tab1.mamba-better", {"deep-linear", "deep-mamba"}),
        ("M-fig4.outlier-small.layer1", {"deep-mamba"}),
        ("M-fig4.outlier-small.one-layer", {"mamba"}),
        ("T-fig3.unseen.gpt2", {"gpt2"}),
        ("T-fig3.leak", {"softmax-mlp"}),
        ("T-fig4.ahead.in", {"classical", "softmax-mlp"}),
        ("sensitivity.T-fig3:gpt2", {"gpt2"}),
    ],
)
def test_a_claim_is_about_its_models(report, id_, models):
    (claim,) = [claim for claim in report[1].board if claim["id"] == id_]
    assert set(claim["models"]) == models


def test_claims_speak_of_models_that_their_experiment_has(report):
    content = report[1]
    for section in content.sections:
        for claim in section.claims:
            assert set(claim["models"]) <= section.models.keys(), claim["id"]


def test_every_section_with_results_has_a_figure(report):
    page, content = report
    shown = sum(section.outcome is not None for section in content.sections)
    told = sum(card.drawing is not None for card in content.story)
    variants = page.with_name("variants.html").read_text()
    assert told == 1  # the other findings need other experiments
    assert page.read_text().count("data-figure=") == shown + told
    assert variants.count("data-figure=") == content.variants
    assert 'class="problem"' not in page.read_text() + variants


def test_a_figure_that_fails_does_not_stop_the_report(quick_store, tmp_path, monkeypatch):
    def broken(*_):
        raise ValueError("no <such> column")

    monkeypatch.setattr(type(find("M-fig2")), "chart", broken)
    with pytest.warns(UserWarning, match="M-fig2: its figure cannot be drawn .ValueError: no <such> column"):
        page, _ = write(quick_store, tmp_path)
    text, variants = page.read_text(), page.with_name("variants.html").read_text()
    for one in (text, variants):
        assert one.count("The figure cannot be drawn. ValueError: no &lt;such&gt; column</p>") == 1
    assert text.count("data-figure=") == 1  # the other experiment has its figure
    for lead in links(text).leads + links(variants).leads:
        assert lead.startswith(("#", "data:", "https:")) or (tmp_path / lead.partition("#")[0]).is_file(), lead
    assert {path.name for path in tmp_path.iterdir() if path.is_file()} == {"index.html", "variants.html"}


def test_a_figure_with_nan_is_refused():
    chart = SimpleNamespace(to_dict=lambda: {"mark": "point", "data": {"values": [{"x": float("nan")}]}})
    with pytest.raises(ValueError, match="JSON"):
        page_data(chart)


def test_any_chart_with_a_dictionary_is_used_as_it_is():
    spec = {"$schema": "https://vega.github.io/schema/vega-lite/v6.json", "mark": "point"}
    assert page_data(SimpleNamespace(to_dict=lambda: spec)) == {"spec": spec, "legend": [], "columns": 0, "least": 0}


def test_the_reading_has_the_values_of_the_settings(tmp_path):
    experiment = find("M-tab3")
    for settings, dimension in ((experiment.settings(), 72), (experiment.settings().quick(), 30)):
        assert f"d = {dimension}." in with_settings(experiment.reading, settings)
    for one in experiments().values():
        assert "{" not in with_settings(one.reading, one.settings()), one.id
    section = next(section for section in collect(Store(tmp_path / "none")).sections if section.id == "M-tab3")
    assert "at d = 72." in section.reading


def test_the_header_names_the_edition(report, quick_store):
    page, content = report
    many = len(content.sections)
    assert content.edition == f"Quick edition: 2 of {many} experiments; {many - 2} not run."
    assert f'<p class="edition">{content.edition}</p>' in page.read_text()
    ran = [section for section in content.sections if section.outcome is not None]
    assert replace(content, sections=tuple(ran)).edition == "Quick edition: all 2 experiments."
    experiment = find("M-fig2")
    own = Edition(experiment, experiment.settings().quick().replace(seeds=3)).outcome(quick_store)
    mixed = collect(quick_store, given={"M-fig2": replace(own, complete=False)})
    assert mixed.edition == (
        f"Mixed editions of 2 experiments: 1 quick, 1 with own settings; 1 unfinished; {many - 2} not run."
    )


def test_claims_are_found_by_the_names_of_models(report):
    found = {claim["id"]: claim["search"] for claim in report[1].board}
    assert "gpt-2" in found["T-fig3.unseen.gpt2"]
    assert "linear transformer" in found["M-fig2.linear-large.flip"]
    assert "gpt-2" not in found["M-fig2.linear-large.flip"]


def test_text_is_escaped(report):
    _, content = report
    nasty = '</script><b onnasty="x">&'
    first = content.sections[0]
    settings = (replace(first.settings[0], value=nasty), *first.settings[1:])
    code = {**first.models, "no-model": f"# {nasty}"}
    claim = {**first.claims[0], "where": nasty, "points": [{"value": 1.0, "low": 0.0, "high": 2.0, "where": nasty}]}
    changed = replace(first, settings=settings, models=code, claims=(claim,))
    board = (content.board[0] | claim | {"margins": [1.0], "verdict": "holds"}, *content.board[1:])
    text = render(replace(content, sections=(changed, *content.sections[1:]), board=board))
    assert nasty not in text
    assert text.count("<b onnasty") == 0
    assert text.count("onnasty") >= 5  # as text: of a setting, of a claim twice, of a point, of code
    assert text.count("\\u003c/script>") == 1  # in the data
    assert "&lt;/script&gt;" in text


def test_a_sparkline_shows_points_intervals_and_margins():
    point = {"value": 0.5, "low": 0.4, "high": None, "where": "here"}
    claim = {"id": "x", "verdict": "not run", "points": [point, {**point, "value": None}], "margins": [0.1]}
    svg = spark(claim)
    assert svg.count("<circle") == 1
    assert svg.count('class="margin"') == 1
    assert "here: 0.5000" in svg
    assert spark({**claim, "points": []}) == ""
    flat = spark({**claim, "points": [{**point, "low": 0.5}], "margins": []})
    assert "nan" not in flat
    ends = [
        tuple(map(float, re.search(r'bar.* y1="(.+?)" y2="(.+?)"', spark(one)).groups()))
        for one in (
            {**claim, "points": [{**point, "low": None}]},
            {**claim, "points": [{**point, "low": 0.45, "high": 0.55}]},
        )
    ]
    assert abs(ends[0][0] - ends[0][1]) > 3 * abs(ends[1][0] - ends[1][1])  # no end: to the edge


def test_a_table_for_a_paper():
    text = latex([{"α": "0.5", "error_rate": "1 %"}, {"α": "±1", "error_rate": "a & b"}], "M-fig2: 50 %")
    assert r"$\alpha$ & error\_rate \\" in text
    assert r"$\pm$1 & a \& b \\" in text
    assert r"\caption{M-fig2: 50 \%}" in text
    assert text.count(r"\\" + "\n") == 3


@pytest.mark.parametrize(("seconds", "told"), [(3.2, "3 s"), (600, "10 min"), (9000, "2.5 h")])
def test_durations(seconds, told):
    assert duration(seconds) == told


def test_numbers():
    assert (number(0.01234), number(123.456)) == ("0.0123", "123.5")
    assert number(-0.00001) == "0.0000"
    assert number(-0.25) == "−0.2500"
    share = {"measured": 1.0, "low": 1.0, "high": 1.0, "counts": False}
    assert in_figures(share) == ("1.0000", "[1.0000, 1.0000]")
    assert in_figures({**share, "counts": True}) == ("1", "")
    assert in_figures({**share, "high": 3.0, "counts": True}) == ("1", "[1, 3]")
    assert in_figures({**share, "low": None}) == ("1.0000", "no interval")  # of one seed
    assert in_figures({**share, "measured": None}) == ("", "")


def test_the_command(cli, quick_store, tmp_path):
    said = cli("report", "--store", quick_store.path, "--out", tmp_path / "out")
    assert said.code == 0
    assert f"open {tmp_path / 'out' / 'index.html'}" in said.out
    again = cli("report", "--store", quick_store.path, "--out", tmp_path / "out", "--json").json
    assert again["claims"]["holds"] > 0


def test_a_place_that_cannot_be_written_is_refused_in_one_line(cli, tmp_path):
    (tmp_path / "file").write_text("")
    assert "cannot be written" in cli("report", "--store", tmp_path / "none", "--out", tmp_path / "file").complaint


def test_a_playground_beside_the_report_is_linked(report):
    _, content = report
    assert 'href="playground.html"' in render(content, playground=True)
    assert 'href="playground.html"' not in render(content)
