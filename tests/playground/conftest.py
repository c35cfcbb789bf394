"""A browser for the tests of the playground, the page on disk, and the page opened."""

import pytest

pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
from playwright.sync_api import sync_playwright

from iclab.bench.browser import FLAGS, chromium, obstacle
from iclab.playground import write


@pytest.fixture(scope="module")
def browser():
    """Open a browser for one file of tests: others open their own, and a process can have one at a time."""
    if reason := obstacle():
        pytest.skip(reason)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def address(tmp_path_factory):
    return write(tmp_path_factory.mktemp("playground")).as_uri()


@pytest.fixture(scope="module")
def opened(browser, address):
    """A page that is opened at many addresses, with what it said and asked for."""
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.complaints, page.asked = [], []  # requests of all tests: those before a test belong to one that passed
    page.on("console", lambda message: page.complaints.append(message.text))
    page.on("pageerror", lambda error: page.complaints.append(str(error)))
    page.on("request", lambda request: page.asked.append(request.url))
    yield page
    page.close()


GO = """(words) => {
  history.replaceState(null, "", words ? `#${words}` : location.pathname);
  open();
}"""


@pytest.fixture
def go(opened, address):
    """Open the page at an address; it is loaded once, and told of others as by hand."""
    opened.complaints.clear()

    def go(words, done=True):
        if not opened.url.startswith(address):
            opened.goto(f"{address}#{words}")
        else:
            opened.evaluate(GO, words)
        if done:
            opened.wait_for_function("document.body.dataset.done")
        return opened

    yield go
    assert opened.complaints == []
    assert [url for url in opened.asked if not url.startswith((address, "blob:null/"))] == []
