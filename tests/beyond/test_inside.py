"""inside: the weight of outliers, and the prompts on the page if rows are missing."""

import pytest

from iclab.catalog import find

INSIDE = find("inside")
SETTINGS = INSIDE.settings(seeds=2, watched=(0, 10), steps=10, test_prompts=2, shown=2)


def rows_of(weight, models=("mamba", "linear"), steps=(0, 10), diverged=()):
    """Make rows where an outlier has a vote of ``weight[model]`` and a clean example of 1, two of each per prompt."""
    rows = []
    for model in models:
        for step in steps:
            for seed in (0, 1):
                where = {"model": model, "step": step, "seed": seed, "diverged": model in diverged}
                if model in diverged:
                    rows.append(where | dict.fromkeys(("prompt", "place", "vote", "outlier"), None))
                    continue
                for prompt in (0, 1):
                    for place, outlier in enumerate((True, False, True, False), 1):
                        vote = -weight[model] * (1 + 0.001 * seed) if outlier else 1.0
                        facts = {"outlier": outlier, "same": True, "label": 1.0, "true_label": -1.0 if outlier else 1.0}
                        answer = {"vote": vote, "attention": vote, "gate": 1.0, "target": 1.0, "output": 1.0}
                        rows.append(where | facts | answer | {"prompt": prompt, "place": place})
    return rows


def verdicts(rows):
    found = {claim.id.removeprefix("inside."): claim.verdict(rows) for claim in INSIDE.claims(SETTINGS)}
    return {id_: (verdict["verdict"], verdict["measured"]) for id_, verdict in found.items()}


def test_the_share_of_outliers_in_all_votes_decides():
    found = verdicts(rows_of({"mamba": 0.05, "linear": 1.0}))
    assert found["mamba.silenced"] == ("holds", pytest.approx(0.05 / 1.05, abs=1e-3))
    assert found["linear.counted"] == ("holds", pytest.approx(0.5, abs=1e-3))
    other = verdicts(rows_of({"mamba": 1.0, "linear": 0.05}))
    assert [verdict for verdict, _ in other.values()] == ["fails", "fails"]


def test_nothing_is_claimed_before_training_or_of_diverged_seeds():
    assert {verdict for verdict, _ in verdicts(rows_of({"mamba": 0.0, "linear": 1.0}, steps=(0,))).values()} == {
        "not run"
    }
    lost = verdicts(rows_of({"mamba": 0.0}, diverged=("linear",)))
    assert (lost["mamba.silenced"][0], lost["linear.counted"][0]) == ("holds", "undecided")


def test_a_model_that_diverged_takes_no_other_away():
    steps = INSIDE.steps(rows_of({"mamba": 0.0}, diverged=("linear",)), SETTINGS)
    assert [model["name"] for model in steps["models"]] == ["Mamba"]
    assert len(steps["prompts"]) == 2
    assert INSIDE.steps(rows_of({}, models=("linear",), diverged=("linear",)), SETTINGS) is None


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        (rows_of({"mamba": 0.0, "linear": 0.0}, steps=(0,)), "not run"),
        (rows_of({}, diverged=("mamba", "linear")), "diverged"),
    ],
)
def test_an_empty_table_says_why(rows, reason):
    (line,) = INSIDE.table(rows, SETTINGS)
    assert line["is"] == reason
    whole = INSIDE.table(rows_of({"mamba": 0.0, "linear": 1.0}), SETTINGS)
    assert {tuple(line) for line in whole} == {tuple(line)}


def test_the_chart_shows_the_vote_of_every_example():
    figure = INSIDE.chart(rows_of({"mamba": 0.05, "linear": 1.0}), SETTINGS)
    assert [panel.title for panel in figure.panels] == ["Mamba: +1.00, right", "linear Transformer: +1.00, right"]
    layers = figure.panels[0].spec(100)["layer"]
    points = [value for layer in layers if layer["mark"]["type"] == "point" for value in layer["data"]["values"]]
    votes = {value["x"]: value["y"] for value in points if value["series"] == "Mamba"}
    assert votes == {1: -0.05, 2: 1.0, 3: -0.05, 4: 1.0}
    assert [value["x"] for value in points if value["series"] == "outlier"] == [1, 3]
