"""A store with two experiments in their quick edition, and the report of it."""

import pytest

from iclab.catalog import find
from iclab.lab import Store, run
from iclab.report import write


@pytest.fixture(scope="session")
def quick_store(tmp_path_factory):
    store = Store(tmp_path_factory.mktemp("report") / "store")
    for id_ in ("M-fig2", "inside"):
        experiment = find(id_)
        conditions = experiment.conditions(experiment.settings().quick())
        run([condition.cell for condition in conditions], store, workers=2, quiet=True)
    return store


@pytest.fixture(scope="session")
def report(quick_store, tmp_path_factory):
    """The page and its content. Tests must not write beside it."""
    return write(quick_store, tmp_path_factory.mktemp("page") / "out")
