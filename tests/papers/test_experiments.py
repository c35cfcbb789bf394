"""Every experiment there is: it runs, draws and judges, whole, in part, and with nothing but diverged seeds."""

import re

import pytest

from iclab.catalog import experiments, find
from iclab.lab import Store, run
from iclab.report.interactive import interactive
from iclab.study.edition import Edition

TINY = {"steps": 20, "batch_size": 4, "test_prompts": 20, "seeds": 2}
TINY_GPT2 = {"gpt2_steps": 2, "gpt2_hidden": 8}
TINY_FIG2 = {"batch_size": 4, "outlier_fractions": (0.0, 0.55, 0.8), "label_rules": ("flip",)}


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return Store(tmp_path_factory.mktemp("store"))


def tiny(id_):
    quick = find(id_).settings().quick()
    if id_ == "sensitivity":
        return quick.replace(seeds=2, test_prompts=20, of=("M-fig2",), less={"M-fig2": TINY_FIG2})
    return quick.replace(**TINY | (TINY_GPT2 if id_ == "T-fig3" else {}))


@pytest.mark.parametrize("id_", experiments())
def test_every_experiment_runs_draws_and_judges(id_, store, tmp_path):
    experiment, settings = find(id_), tiny(id_)
    run([condition.cell for condition in experiment.conditions(settings)], store, workers=1, quiet=True)
    outcome = Edition(experiment, settings).outcome(store)
    assert outcome.complete
    assert outcome.write(tmp_path).stat().st_size > 10_000
    figure = outcome.figure
    legends = [legend for legend in (*figure.legends, *(axes.get_legend() for axes in figure.axes)) if legend]
    explained = {text.get_text() for legend in legends for text in legend.get_texts()}
    shown = {trace["name"] for trace in interactive(figure)["data"] if trace["showlegend"]}
    assert explained <= {re.sub("^[A-Z]: ", "", name) for name in shown}  # some say of which panel they are
    lines = experiment.table(outcome.rows, settings)
    assert len({tuple(line) for line in lines}) == 1  # the same keys in each
    ids = [claim["id"] for claim in outcome.claims]
    assert ids
    assert len(set(ids)) == len(ids)
    assert all(id_.startswith(f"{experiment.id}.") for id_ in ids)


@pytest.mark.parametrize("id_", experiments())
def test_every_experiment_draws_what_there_is(id_, store):
    """As after an interruption, or when every seed diverged: no figure, table or claim may break."""
    experiment, settings = find(id_), tiny(id_)
    conditions = experiment.conditions(settings)
    run([condition.cell for condition in conditions], store, workers=1, quiet=True)
    parts = [
        [{**c.columns, **row} for row in store.load_rows(c.cell) if row["seed"] < settings.seeds] for c in conditions
    ]
    half = [row for part in parts[: len(parts) // 2] for row in part]
    keys = {"seed", *conditions[0].columns}
    lost = [{k: v if k in keys else None for k, v in row.items()} for part in parts for row in part]
    for rows in (half, parts[0], parts[-1], [row | {"diverged": True} for row in lost]):
        experiment.draw(rows, settings)
        experiment.table(rows, settings)
        verdicts = {claim.id: claim.verdict(rows)["verdict"] for claim in experiment.claims(settings)}
    assert "holds" not in verdicts.values()  # of nothing but diverged seeds
