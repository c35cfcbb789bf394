"""Every experiment there is: it runs, draws and judges, whole, in part, and with nothing but diverged seeds."""

import contextlib
import json
from pathlib import Path

import pytest

from iclab.catalog import experiments, find
from iclab.config import InputError
from iclab.lab import Store, run
from iclab.study.charts.painting import Painter
from iclab.study.edition import Edition

TINY = {"steps": 4, "batch_size": 4, "test_prompts": 6, "seeds": 2}
SMALLER = {"neurons": 8, "deep_steps": 4, "gpt2_steps": 2, "gpt2_hidden": 8}
TINY_FIG2 = {"steps": 4, "batch_size": 4, "outlier_fractions": (0.0, 0.55, 0.8), "label_rules": ("flip",)}


TEXT = Path(__file__).parent.parent / "text"


def tiny(id_, folder=None):
    quick = find(id_).settings().quick()
    if hasattr(quick, "text_data"):  # sentences and an encoder that need not be installed
        import made_up

        here = {"text_data": str(made_up.folder(folder)), "encoder": made_up.ENCODER, "seeds": 2}
        whole = {"train_sentences": None, "test_sentences": None}
        return quick.replace(**here | whole | (TINY | {"components": (4,)} if id_ == "M-tab7" else {}))
    if id_ == "sensitivity":
        return quick.replace(seeds=2, test_prompts=6, of=("M-fig2",), less={"M-fig2": TINY_FIG2})
    if id_ == "readings":
        few = {"parts": ("M, one layer",), "less": {"M-fig2": TINY_FIG2}, "favourable": {}}
        return quick.replace(seeds=2, test_prompts=6, search_prompts=6, **few)
    quick = with_few_points(quick)
    kept = {"watched": 2 if isinstance(quick.watched, int) else quick.watched[:2]} if hasattr(quick, "watched") else {}
    smaller = {name: v for name, v in SMALLER.items() if hasattr(quick, name) and name not in quick.instead}
    return quick.replace(**TINY, **kept, **smaller)


def with_few_points(settings):
    """Keep the first, a middle and the last of the values in each list that only says how much is run."""
    for name, field in type(settings).model_fields.items():
        values = getattr(settings, name)
        if isinstance(values, tuple) and len(values) > 3 and any(getattr(mark, "grid", 0) for mark in field.metadata):
            with contextlib.suppress(InputError):  # other settings need them all
                settings = settings.replace(**{name: (values[0], values[len(values) // 2], values[-1])})
    return settings


@pytest.fixture(scope="module")
def painter():
    """One process that draws for all experiments: to start it takes longer than a figure."""
    with Painter() as painter:
        yield painter


@pytest.mark.slow
@pytest.mark.parametrize("id_", experiments())
def test_every_experiment_runs_draws_and_judges(id_, tmp_path, monkeypatch, painter):
    monkeypatch.syspath_prepend(TEXT)
    monkeypatch.setenv("ICLAB_CACHE", str(tmp_path / "cache"))
    edition, store = Edition(find(id_), tiny(id_, tmp_path / "made-up")), Store(tmp_path / "store")
    edition.experiment.prepare(edition.settings)
    run(edition.cells, store, workers=1, quiet=True)
    check_whole(edition, store, tmp_path / "out", painter)
    check_parts(edition, store)


def check_whole(edition, store, out, painter):
    outcome = edition.outcome(store)
    assert outcome.complete
    picture = outcome.write(out, painter)
    painter.wait()
    assert picture.stat().st_size > 10_000
    figure = outcome.figure
    looks = {}
    for series in (series for panel in figure.panels for series in panel.series):
        assert looks.setdefault(series.name, series) == series  # one name, one look in all panels
    assert {series.name for series in figure.legend} == {entry["name"] for entry in figure.page()["legend"]}
    lines = edition.experiment.table(outcome.rows, edition.settings)
    assert len({tuple(line) for line in lines}) == 1  # the same keys in each
    ids = [claim["id"] for claim in outcome.claims]
    assert ids
    assert len(set(ids)) == len(ids)
    assert all(id_.startswith(f"{edition.experiment.id}.") for id_ in ids)


def check_parts(edition, store):
    """As after an interruption, or when every seed diverged: no figure, table or claim may break."""
    experiment, settings = edition.experiment, edition.settings
    parts = [
        [{**c.columns, **row} for row in store.load_rows(c.cell) if row["seed"] < settings.seeds]
        for c in edition.conditions
    ]
    half = [row for part in parts[: len(parts) // 2] for row in part]
    keys = {"seed", *edition.conditions[0].columns}
    lost = [{k: v if k in keys else None for k, v in row.items()} for part in parts for row in part]
    for rows in (half, parts[0], parts[-1], [row | {"diverged": True} for row in lost]):
        json.dumps(experiment.chart(rows, settings).page(), allow_nan=False)
        experiment.table(rows, settings)
        verdicts = {claim.id: claim.verdict(rows)["verdict"] for claim in experiment.claims(settings)}
    assert "holds" not in verdicts.values()  # of nothing but diverged seeds
