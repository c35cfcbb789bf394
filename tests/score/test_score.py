"""The scorecard: sound and broken modules, the tuning rule, comparison, page and shipped cards."""

import tempfile
from functools import partial

import pytest
import torch

import iclab
from iclab import lab
from iclab.config import InputError
from iclab.models import Model
from iclab.score.card import Card, Measure, unmeasured
from iclab.score.comparing import compare, current, shipped
from iclab.score.measuring import measure
from iclab.score.page import badge, render, write
from iclab.score.scoring import compute
from iclab.score.suite import apart, suite
from iclab.theory.graph import TaskGraph

QUICK = suite("quick")
KEYS = ("clean", "flip/0.4", "worst/2", "length/5", "steps")
PART = QUICK.parts[0].replace(trials=tuple(trial for trial in QUICK.parts[0].trials if trial.key in KEYS))
SMALL = QUICK.replace(parts=(PART,), steps=12, test_prompts=20, step_sizes={"sgd": (0.03,), "adam": (0.01,)})
SHIPPED = {"mamba", "linear", "softmax", "deep-mamba", "deep-linear", "deep-softmax"}


class Raises(torch.nn.Linear):
    def __init__(self, width):
        super().__init__(width, 1)

    def forward(self, tokens):
        raise KeyError("no way")


class WrongShape(torch.nn.Linear):
    def __init__(self, width):
        super().__init__(width, 3)

    def forward(self, tokens):
        return super().forward(tokens)


class NotANumber(torch.nn.Linear):
    def __init__(self, width):
        super().__init__(width, 1)

    def forward(self, tokens):
        return super().forward(tokens[:, -1]) * float("nan")


@pytest.fixture(scope="module")
def card():
    return iclab.score("linear", of=SMALL, workers=1)


@pytest.mark.slow
def test_a_card_of_a_built_in_model(card, tmp_path):
    assert not card.failed
    assert card["clean"].mean < 0.1
    assert len(card["flip/0.4"].per_seed) == 8
    assert not set(card.seeds) & set(card.validation_seeds)
    assert card["worst/2"].mean >= 0
    assert card.cost.parameters == 1860
    (tuned,) = card.tuned
    assert tuned.prompts == 2 * 1 * 12 * 64
    assert len(tuned.candidates) == 2
    page, data, picture = write(card, tmp_path)
    assert Card.read(data) == card
    text = page.read_text()
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")
    assert text.count('class="curve"') == 1  # flip, the only rule of this small suite that has a fraction
    assert "<svg" in picture.read_text()


@pytest.mark.slow
@pytest.mark.parametrize("broken, words", [(Raises, "no way"), (WrongShape, "shape")])
def test_a_module_that_cannot_run_has_a_card_that_says_so(broken, words):
    card = iclab.score(broken, of=SMALL, workers=1)
    assert card.failed
    assert card["clean"].mean is None
    assert words in card["clean"].note
    assert card["clean"].text == "not measured"
    assert "checks failed" in badge(card)
    page = render(card)
    assert words in page
    assert page.count("Not measured</h2>") == 1
    assert page.count("<tr>") <= 4  # checks that fail for one reason are one row, and there is no table of nothing
    assert "<details open>" in page


@pytest.mark.slow
def test_nan_is_a_divergence():
    card = iclab.score(NotANumber, of=SMALL, workers=1)
    assert card.failed
    assert card["clean"].mean is None
    assert card["clean"].diverged == 8
    assert "diverged" in card["clean"].text


def test_one_part_that_fails_does_not_spoil_the_others():
    done = []

    def run(cells, title):
        if "bad" in cells:
            raise InputError("it went wrong")
        done.extend(cells)

    assert compute(run, {"one": ["good"], "two": ["bad"], "three": ["fine"]}, "") == {"two": "it went wrong"}
    assert done == ["good", "fine"]


def test_what_is_said_of_a_row_without_a_number():
    about = {"key": "steps", "section": "learning", "words": "steps", "unit": "steps"}
    never, absent = Measure(**about, per_seed=(None, None)), Measure(**about, note="no way")
    lost = Measure(**about, per_seed=(None, None), diverged=2)
    assert [row.text for row in (never, absent, lost)] == ["not reached", "not measured", "diverged"]
    assert unmeasured([never, absent, lost]) == {"no way": [absent]}


@pytest.mark.slow
def test_only_cards_of_one_suite_are_compared(card):
    same = compare(card, card)
    assert [row.mean for row in same if row.key == "clean"] == [0.0]
    with pytest.raises(InputError, match="cannot be compared"):
        compare(card, card.replace(suite="another"))


def test_the_context_is_needed_and_unseen_pairs_never_met():
    """Both directions of a pair are trained: without the labels of the prompt, nothing is better than a guess."""
    seen = set(apart(1))
    assert seen == {(b, a) for a, b in seen}
    distances = TaskGraph.of(apart(1), QUICK.parts[0].prompts.relevant).distances
    for distance in (1, 2, 3):
        assert {distances[a, b] for a, b in apart(distance)} == {distance}
    for part in QUICK.parts:
        pairs = set(map(tuple, part.prompts.pairs))
        assert pairs == {(b, a) for a, b in pairs}, part.name


def test_the_suite_is_this_version():
    """If this fails: raise VERSION, compute the shipped cards again (`make cards`), and write the new hashes here."""
    assert (QUICK.version, QUICK.digest(), suite("full").digest()) == (
        2,
        "32f12018672af3c7911d",
        "c43946b29b7c7543fe32",
    )


def test_shipped_cards_are_of_this_suite():
    known = shipped()
    assert {name for name, edition in known if edition == "quick"} == SHIPPED
    for found in known.values():
        assert current(found), f"{found.model}: the suite has changed; raise its version and compute the cards again"
        assert not found.failed


def recomputed(name, asked):
    """Tune and measure a built-in family again; return its tuning and its rows by key."""
    with tempfile.TemporaryDirectory() as folder:
        store = lab.Store(folder)
        run = partial(compute, lambda cells, title: lab.run(cells, store, quiet=True, workers=1))
        tuned, rows = measure(Model(name=name), asked, store, run)
    return tuned, {row.key: row for row in rows}


@pytest.mark.slow
def test_a_shipped_card_is_what_the_code_gives():
    """Computes the regression part of the linear model again."""
    (part,) = (part for part in QUICK.parts if part.name == "regression")
    (tuned,), rows = recomputed("linear", QUICK.replace(parts=(part,)))
    kept = shipped()["linear", "quick"]
    assert tuned == next(one for one in kept.tuned if one.part == part.name)
    assert rows["regression"].per_seed == pytest.approx(kept["regression"].per_seed, rel=1e-3)


@pytest.mark.nightly
@pytest.mark.parametrize("name", [name for name, edition in shipped() if edition == "quick"])
def test_every_shipped_card_is_what_the_code_gives(name):
    """Rounding differs between machines, and with it a prompt or two of 250."""
    kept = shipped()[name, "quick"]
    tuned, rows = recomputed(name, QUICK)
    assert [(one.part, one.optimizer, one.step_size) for one in tuned] == [
        (one.part, one.optimizer, one.step_size) for one in kept.tuned
    ]
    for measure_ in kept.measures:
        found = rows[measure_.key]
        assert (found.mean is None) == (measure_.mean is None), measure_.key
        if measure_.mean is not None and measure_.unit != "steps":
            assert found.per_seed == pytest.approx(measure_.per_seed, abs=0.02), measure_.key


@pytest.mark.slow
def test_the_command_line_writes_a_card_and_compares_it(cli, tmp_path, monkeypatch):
    monkeypatch.setattr("iclab.score.scoring.suite", lambda edition: SMALL)
    places = ("--store", tmp_path / "store", "--out", tmp_path / "cards")
    said = cli("score", "linear", "--quick", *places, "--workers", 1)
    assert said.code == 0, said.err
    written = {path.suffix for path in (tmp_path / "cards").iterdir()}
    assert {".html", ".json", ".svg"} <= written
    (found,) = (tmp_path / "cards").glob("*.json")
    compared = cli("score", "--compare", found, found)
    assert (compared.code, compared.err) == (0, "")
    assert "of 5 paired differences: linear is lower in 0, linear is lower in 0" in compared.out


def test_a_card_is_compared_with_one_that_comes_with_iclab(cli, tmp_path):
    mine = shipped()["linear", "quick"].write(tmp_path / "mine.json")
    said = cli("score", "--compare", mine, "mamba", "--json")
    assert (said.json["first"], said.json["second"]) == ("linear", "mamba")
    assert "compare = 'gla': must be the file of a card" in cli("score", "--compare", mine, "gla").complaint
    (tmp_path / "bad.json").write_text('{"a": 1}')
    complaint = cli("score", "--compare", tmp_path / "bad.json", "mamba").complaint
    assert complaint == f"{tmp_path / 'bad.json'}: is not a card of iclab score"


def test_the_command_line_refuses_in_one_line(cli, tmp_path):
    (tmp_path / "bad.json").write_text("{}")
    for words in (
        ["score"],
        ["score", "linear", "--compare", "a", "b"],
        ["score", "--compare", *[tmp_path / "bad.json"] * 2],
    ):
        said = cli(*words)
        assert (said.code, said.err.count("\n")) == (2, 1)
