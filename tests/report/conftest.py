"""A store with two quick editions and a variant, and the report of it: made once, for all test processes; a browser."""

import os
import pickle
import shutil

import pytest
from filelock import FileLock

from iclab.catalog import find
from iclab.lab import Store, run
from iclab.report import content, write
from iclab.report.remembered import Remembered
from iclab.study.edition import Edition
from iclab.study.records import records_of


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


@pytest.fixture(scope="session")
def facts(report):
    """What editions contain, as the report has found it out and kept it."""
    return Remembered()


@pytest.fixture(autouse=True)
def remembered(monkeypatch, facts):
    """What editions contain is found out once, not once per report."""
    monkeypatch.setattr(content, "Remembered", lambda folder: facts)


CHROMIUM = os.environ.get("ICLAB_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
QUIET = ("quic", "background-networking", "component-update", "sync", "gpu")
FLAGS = ["--no-sandbox", "--no-first-run", *(f"--disable-{what}" for what in QUIET)]


@pytest.fixture(scope="module")
def browser():
    """Chromium, for tests that need one."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("no browser: install chromium, or name one in ICLAB_CHROMIUM")
    with playwright.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


class Screen:
    """A page of one size and colour scheme, and what it said and asked for since it was opened."""

    def __init__(self, context):
        self.page = context.new_page()
        self.complaints, self.requests, self.fresh = [], [], False
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda asked: self.requests.append(asked.url))

    def open(self, address):
        self.complaints.clear()
        self.requests.clear()
        self.page.goto(address)
        self.fresh = True

    def check(self, address):
        assert self.complaints == []
        assert set(self.requests) == {address}


@pytest.fixture(scope="module", params=[(1440, "light"), (390, "dark")], ids=["wide, light", "phone, dark"])
def screen(browser, request):
    width, scheme = request.param
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    screen = Screen(context)
    screen.size = screen.page.viewport_size
    yield screen
    context.close()


@pytest.fixture
def page(screen, report):
    """The report, newly opened. After the test, the console must be empty and the network unused."""
    address = report[0].as_uri()
    screen.page.set_viewport_size(screen.size)
    screen.open(address)
    screen.fresh = False
    yield screen.page
    screen.check(address)


@pytest.fixture
def still_page(screen, report):
    """The report for tests that only look at it or scroll: they may see the same page one after the other."""
    address = report[0].as_uri()
    if not screen.fresh:
        screen.page.set_viewport_size(screen.size)
        screen.open(address)
    yield screen.page
    screen.check(address)
