"""The page in a real browser: it draws, filters and steps, in silence and without the network."""

import os
import re
import shutil

import pytest

pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
from playwright.sync_api import sync_playwright

CHROMIUM = os.environ.get("ICLAB_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no browser: install chromium, or name one in ICLAB_CHROMIUM")
QUIET = ("quic", "background-networking", "component-update", "sync", "gpu")
FLAGS = ["--no-sandbox", "--no-first-run", *(f"--disable-{what}" for what in QUIET)]


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(params=[(1440, "light"), (390, "dark")], ids=["wide, light", "phone, dark"])
def page(browser, report, request):
    """The report, opened; afterwards nothing may have been complained of or asked of any network."""
    width, scheme = request.param
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    complaints, requests = [], []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda asked: requests.append(asked.url))
    page.goto(report[0].as_uri())
    yield page
    assert complaints == []
    assert requests == [report[0].as_uri()]
    context.close()


def test_every_figure_is_drawn_when_it_comes_near(page):
    for figure in page.locator(".figure").all():
        figure.scroll_into_view_if_needed()
        figure.locator(".main-svg").first.wait_for()
        assert figure.locator(".scatterlayer .trace").count() > 0
    assert page.locator(".figure").count() == 2


def test_nothing_is_wider_than_the_screen(page):
    width = page.evaluate("document.documentElement.clientWidth")
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_it_opens_fast(page):
    took = page.evaluate("performance.timing.loadEventEnd - performance.timing.navigationStart")
    assert took < 10_000  # it takes less than one second; three are allowed, but the machine may have other work


def test_filters_leave_what_was_asked_for(page):
    rows = page.locator(".board tbody tr")
    many = rows.count()
    page.select_option("[data-filter=verdict]", "fails")
    shown = page.locator(".board tbody tr:visible")
    assert 0 < shown.count() < many
    assert set(shown.locator(".verdict").all_inner_texts()) == {"fails"}
    page.select_option("[data-filter=verdict]", "")
    page.select_option("[data-filter=letter]", "S")
    assert all(text.startswith("S-") for text in shown.locator("th").all_inner_texts())
    page.select_option("[data-filter=letter]", "")
    page.select_option("[data-filter=models]", "gpt2")
    found = shown.locator("th").all_inner_texts()
    assert "sensitivity.T-fig3:gpt2" in found
    assert {text.rpartition(".")[2].removeprefix("T-fig3:") for text in found} == {"gpt2"}
    page.select_option("[data-filter=models]", "")
    page.select_option("[data-filter=whose]", "iclab")
    assert 10 < shown.count() < many / 2
    page.select_option("[data-filter=letter]", "beyond")
    assert {text.partition(".")[0] for text in shown.locator("th").all_inner_texts()} == {"inside", "sensitivity"}
    page.select_option("[data-filter=letter]", "")
    page.select_option("[data-filter=whose]", "")
    page.fill("[data-filter=words]", "no such words")
    assert shown.count() == 0
    assert page.inner_text("#shown") == f"0 of {many} claims"


def test_a_prompt_can_be_stepped_through(page):
    stepper = page.locator(".stepper")
    stepper.scroll_into_view_if_needed()
    telling = stepper.locator(".telling")
    assert "Example 20" in telling.inner_text()
    assert "After training step 1000" in telling.inner_text()
    stepper.locator(".back").click()
    assert "Example 19" in telling.inner_text()
    assert stepper.locator(".strip").first.locator(".unread").count() == 1
    stepper.locator(".when").focus()
    page.keyboard.press("Home")
    assert "After training step 0" in telling.inner_text()
    before = telling.inner_text()
    stepper.locator(".which").select_option("1")
    assert telling.inner_text() != before
    stepper.locator(".where").focus()
    page.keyboard.press("Home")
    assert "Nothing read yet" in telling.inner_text()
    stepper.locator(".play").click()
    page.wait_for_function("document.querySelector('.telling').textContent.includes('Example 2:')")
    stepper.locator(".play").click()


def test_what_a_prompt_is_told_with_is_text(page):
    view = "{attention: [1], gate: [1], vote: [1], output: 1}"
    prompt = "{tokens: [{same: true, outlier: false, label: 1, true_label: 1}], target: 1}"
    svg = page.evaluate(f"strip({{name: '<b>x</b>', colour: '\"/><i>'}}, {prompt}, {view}, 1)")
    assert svg.count("x") > 1
    assert "<b>" not in svg
    assert "<i>" not in svg


def test_themes_change_and_figures_with_them(page):
    figure = page.locator(".figure").first
    figure.scroll_into_view_if_needed()
    figure.locator(".main-svg").first.wait_for()
    seen = set()
    for _ in range(3):
        page.click("#theme")
        paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
        ink = page.evaluate("document.querySelector('.figure')._fullLayout.font.color")
        seen.add((page.evaluate("document.documentElement.dataset.theme"), paper, ink))
    assert len(seen) == 2


def test_everything_can_be_reached_by_keyboard_in_the_order_it_is_read(page):
    kinds = "a[href], button, select, input, summary, [tabindex='0']"
    page.evaluate(
        f'all = [...document.querySelectorAll("{kinds}")].filter((one) => one.checkVisibility()).slice(0, 60)'
    )
    reached = []
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("all.indexOf(document.activeElement)"))
    assert reached == list(range(60))
    page.locator(".stepper .which").focus()
    for name in ("when", "where", "back", "play", "on", "strips"):
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == name
    assert page.evaluate("document.querySelectorAll('.figure[role=group][aria-label]').length") == 2


def test_a_curve_is_switched_off_by_keyboard(page):
    figure = page.locator("#figure-M-fig2")
    figure.scroll_into_view_if_needed()
    figure.locator(".main-svg").first.wait_for()
    box = page.locator(".wide:has(#figure-M-fig2) + .toggles").get_by_label("Mamba", exact=True)
    box.focus()
    page.keyboard.press("Space")
    hidden = "(t) => t.legendgroup === 'Mamba' && t.visible === 'legendonly'"
    page.wait_for_function(f"document.querySelector('#figure-M-fig2').data.filter({hidden}).length > 3")


def test_on_paper_it_is_light(page):
    figure = page.locator(".figure").first
    figure.scroll_into_view_if_needed()
    figure.locator(".main-svg").first.wait_for()
    page.evaluate("choice = 'dark'; applyTheme()")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate("document.documentElement.dataset.theme") == "light"
    page.emulate_media(media="print")
    assert page.evaluate("document.querySelector('.figure')._fullLayout.font.color") == "#222222"
    assert page.evaluate("getComputedStyle(document.querySelector('.lead')).color") == "rgb(34, 34, 34)"
    assert page.evaluate("document.querySelectorAll('.figure[data-drawn]').length") == 2
    page.emulate_media(media="screen")
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_links_lead_where_they_say(page):
    for id_ in ("sensitivity", "choices"):
        page.evaluate(f"document.querySelector('nav a[href=\"#{id_}\"]').click()")
        page.wait_for_function(f"Math.abs(document.getElementById('{id_}').getBoundingClientRect().top) < 80")
        page.wait_for_timeout(500)  # while figures on the way are drawn
        assert abs(page.evaluate(f"document.getElementById('{id_}').getBoundingClientRect().top")) < 80


def test_a_curve_is_switched_off_in_all_panels(page):
    figure = page.locator("#figure-M-fig2")
    figure.scroll_into_view_if_needed()
    figure.locator(".legend .traces").first.wait_for()
    curves = "document.querySelector('#figure-M-fig2').data.filter((t) => t.name === 'Mamba')"
    visible = f"{curves}.filter((t) => t.visible !== 'legendonly').length"
    before = page.evaluate(visible)
    figure.locator(".legend .traces", has_text=re.compile("^Mamba$")).locator(".legendtoggle").click()
    page.wait_for_function(f"{visible} === 0")
    assert before > 1
    box = page.locator(".wide:has(#figure-M-fig2) + .toggles").get_by_label("Mamba", exact=True)
    assert not box.is_checked()
    page.evaluate("applyTheme()")  # draws it again
    assert page.evaluate(visible) == 0
    assert not box.is_checked()
