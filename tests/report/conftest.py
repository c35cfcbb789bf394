"""A store with two quick editions and a variant, and the report of it: made once, for all test processes."""

import pickle

import pytest
from filelock import FileLock

from iclab.catalog import find
from iclab.lab import Store, run
from iclab.report import content, write
from iclab.report.remembered import Remembered
from iclab.study.edition import Edition
from iclab.study.records import records_of

_REMEMBERED = Remembered()


@pytest.fixture(autouse=True)
def remembered(monkeypatch):
    """What editions contain is found out once per process, not once per report."""
    monkeypatch.setattr(content, "Remembered", lambda folder: _REMEMBERED)


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory, request):
    """A folder that pytest-xdist's processes have in common, locked while one of them fills it."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if hasattr(request.config, "workerinput") else base) / "report"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def quick_store(shared_folder):
    """Tests must not write into it."""
    store = Store(shared_folder / "store")
    with FileLock(shared_folder / "store.lock"):
        for id_ in ("M-fig2", "inside"):  # the process that comes second finds everything there
            experiment = find(id_)
            conditions = experiment.conditions(experiment.settings().quick())
            run([condition.cell for condition in conditions], store, workers=1, quiet=True)
        figure = find("M-fig2")
        store.keep(records_of([Edition(figure, figure.settings().quick().replace(seeds=3))]))  # needs no other cells
    return store


@pytest.fixture(scope="session")
def report(quick_store, shared_folder):
    """The page and its content. Tests must not write beside it."""
    kept = shared_folder / "content.pickle"
    with FileLock(shared_folder / "report.lock"):
        if not kept.exists():
            kept.write_bytes(pickle.dumps(write(quick_store, shared_folder / "out")))
    return pickle.loads(kept.read_bytes())
