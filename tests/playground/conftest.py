"""A browser for the tests of the playground, and the page on disk."""

import os
import shutil

import pytest

pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
from playwright.sync_api import sync_playwright

from iclab.playground import write

CHROMIUM = os.environ.get("ICLAB_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
QUIET = ("quic", "background-networking", "component-update", "sync", "gpu")
FLAGS = ["--no-sandbox", "--no-first-run", *(f"--disable-{what}" for what in QUIET)]


@pytest.fixture(scope="module")
def browser():
    """Open a browser for one file of tests: others open their own, and a process can have one at a time."""
    if CHROMIUM is None:
        pytest.skip("no browser: install chromium, or name one in ICLAB_CHROMIUM")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def address(tmp_path_factory):
    return write(tmp_path_factory.mktemp("playground")).as_uri()
