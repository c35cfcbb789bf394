"""The scorecard: sound and broken modules, the tuning rule, comparison, page and shipped cards."""

import tempfile

import pytest
import torch

import iclab
from iclab import lab
from iclab.config import InputError
from iclab.models import Model
from iclab.score.card import Card
from iclab.score.comparing import compare, current, shipped
from iclab.score.measuring import measure_part
from iclab.score.page import badge, render, write
from iclab.score.suite import suite

QUICK = suite("quick")
KEYS = ("clean", "flip/0.4", "worst/2", "length/5", "steps")
PART = QUICK.parts[0].replace(trials=tuple(trial for trial in QUICK.parts[0].trials if trial.key in KEYS))
SMALL = QUICK.replace(parts=(PART,), steps=12, test_prompts=20, step_sizes={"sgd": (0.03,), "adam": (0.01,)})


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
    assert "http" not in page.read_text().replace("http://www.w3.org/2000/svg", "")
    assert "<svg" in picture.read_text()


@pytest.mark.slow
@pytest.mark.parametrize("broken, words", [(Raises, "no way"), (WrongShape, "shape")])
def test_a_module_that_cannot_run_has_a_card_that_says_so(broken, words):
    card = iclab.score(broken, of=SMALL, workers=1)
    assert card.failed
    assert card["clean"].mean is None
    assert words in card["clean"].note
    assert "checks failed" in badge(card)
    assert words in render(card)


@pytest.mark.slow
def test_nan_is_a_divergence():
    card = iclab.score(NotANumber, of=SMALL, workers=1)
    assert card.failed
    assert card["clean"].mean is None
    assert card["clean"].diverged == 8
    assert "diverged" in card["clean"].text


@pytest.mark.slow
def test_only_cards_of_one_suite_are_compared(card):
    same = compare(card, card)
    assert [row.mean for row in same if row.key == "clean"] == [0.0]
    with pytest.raises(InputError, match="cannot be compared"):
        compare(card, card.replace(suite="another"))


def test_shipped_cards_are_of_this_suite():
    known = shipped()
    assert known
    for found in known.values():
        assert current(found), f"{found.model}: the suite has changed; raise its version and compute the cards again"
        assert not found.failed


@pytest.mark.slow
def test_a_shipped_card_is_what_the_code_gives():
    """Computes the regression part of the linear model again."""

    (part,) = (part for part in QUICK.parts if part.name == "regression")
    with tempfile.TemporaryDirectory() as folder:
        store = lab.Store(folder)
        run = lambda cells, title: lab.run(cells, store, quiet=True, workers=1)  # noqa: E731
        tuned, (found,) = measure_part(Model(name="linear"), QUICK, part, store, run)
    kept = shipped()["linear", "quick"]
    assert tuned == next(one for one in kept.tuned if one.part == part.name)
    assert found.per_seed == pytest.approx(kept["regression"].per_seed, rel=1e-3)


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


def test_the_command_line_refuses_in_one_line(cli, tmp_path):
    (tmp_path / "bad.json").write_text("{}")
    for words in (
        ["score"],
        ["score", "linear", "--compare", "a", "b"],
        ["score", "--compare", *[tmp_path / "bad.json"] * 2],
    ):
        said = cli(*words)
        assert (said.code, said.err.count("\n")) == (2, 1)
