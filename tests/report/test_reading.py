"""Reading the page in a real browser: the story first, the scoreboard's filters and address, and what letters mean."""

import re

import pytest

pytestmark = pytest.mark.slow

on_one_screen = pytest.mark.parametrize("screen", [(1440, "light")], ids=["wide, light"], indirect=True)
"""For what does not depend on the size of the window."""


def test_the_story_comes_first(still_page, screen):
    top = still_page.evaluate("document.querySelector('#found .card').getBoundingClientRect().top + scrollY")
    assert top < screen.size["height"]  # the first finding is on the first screen
    assert still_page.evaluate(
        "document.getElementById('prompt').offsetTop < document.getElementById('M-fig2').offsetTop"
    )
    assert not still_page.locator("#board .board").is_visible()
    assert still_page.locator("#found-outliers math").count() == 1


@on_one_screen
def test_filters_stand_in_the_address(page, report):
    page.locator(".tally .fails a").click()
    shown = page.locator(".board tbody tr:visible")
    shown.first.wait_for()
    assert page.url.endswith("#board?source=paper&verdict=fails")
    many = shown.count()
    assert 0 < many < len(report[1].board)
    page.select_option("[data-filter=paper]", "M")
    page.fill("[data-filter=words]", "linear α")
    assert "paper=M" in page.url
    found = shown.locator("th").all_inner_texts()
    address, controls = page.url, "filters.map((control) => control.value)"
    values = page.evaluate(controls)
    page.goto("about:blank")
    page.goto(address)
    shown.first.wait_for()
    assert shown.locator("th").all_inner_texts() == found
    assert page.evaluate(controls) == values


def test_a_link_to_a_claim_opens_the_scoreboard(page):
    for _ in range(2):  # the second time, the address does not change
        page.locator("#found-outliers .badges a").first.click()
        row = page.locator("[id='claim-M-fig2.gap.flip']")
        row.wait_for()
        page.wait_for_function(
            "Math.abs(document.getElementById('claim-M-fig2.gap.flip').getBoundingClientRect().top) < 200"
        )
        page.evaluate("board.open = false")


def test_letters_are_explained_to_mouse_finger_and_keyboard(page):
    tip, letter = page.locator("#tip"), page.locator("#M-fig2 abbr", has_text="α").first
    letter.hover()
    assert tip.inner_text() == "the share of outliers among the examples of a test prompt"
    page.keyboard.press("Escape")
    assert not tip.is_visible()
    letter.focus()
    assert tip.is_visible()
    assert letter.get_attribute("aria-describedby") == "tip"
    page.locator("h1").click()
    assert not tip.is_visible()
    letter.click()
    box = tip.bounding_box()
    assert 0 <= box["x"] <= box["x"] + box["width"] <= page.viewport_size["width"]
    other = page.locator("#T-fig3 abbr", has_text=re.compile("^α′$")).first
    other.focus()
    assert tip.inner_text().startswith("the share of examples with a pattern of the prompt's task")


def test_verdicts_are_on_the_screen(page):
    page.evaluate("board.open = true")
    width = page.viewport_size["width"]
    for verdict in page.locator(".board .verdict").all()[:40]:
        box = verdict.bounding_box()
        assert 0 <= box["x"] <= width - box["width"]
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@on_one_screen
def test_filters_keep_the_right_claims(page):
    page.evaluate("board.open = true")
    rows = page.locator(".board tbody tr")
    many = rows.count()
    page.select_option("[data-filter=verdict]", "fails")
    shown = page.locator(".board tbody tr:visible")
    assert 0 < shown.count() < many
    assert set(shown.locator(".verdict").all_inner_texts()) == {"fails"}
    page.select_option("[data-filter=verdict]", "")
    page.select_option("[data-filter=paper]", "S")
    assert all(text.startswith("S-") for text in shown.locator("th").all_inner_texts())
    page.select_option("[data-filter=paper]", "")
    page.select_option("[data-filter=model]", "gpt2")
    found = shown.locator("th").all_inner_texts()
    assert "sensitivity.T-fig3:gpt2" in found
    others = [text for text in found if not text.startswith("T-gpt2-domain.")]
    assert {text.rpartition(".")[2].removeprefix("T-fig3:") for text in others} == {"gpt2"}
    page.select_option("[data-filter=model]", "")
    page.select_option("[data-filter=source]", "iclab")
    assert 10 < shown.count() < many
    page.select_option("[data-filter=paper]", "beyond")
    assert {text.partition(".")[0] for text in shown.locator("th").all_inner_texts()} == {
        "inside",
        "phase-diagram",
        "readings",
        "sensitivity",
    }
    page.select_option("[data-filter=paper]", "")
    page.select_option("[data-filter=source]", "")
    page.fill("[data-filter=words]", "no such words")
    assert shown.count() == 0
    assert page.inner_text("#shown") == f"0 of {many} claims"


@on_one_screen
def test_the_search_finds_what_it_suggests(page):
    page.evaluate("board.open = true")
    suggested = page.get_attribute("[data-filter=words]", "placeholder").split(", ")
    assert "GPT-2" in suggested
    for words in suggested:
        page.fill("[data-filter=words]", words)
        assert page.locator(".board tbody tr:visible").count() > 0, words
    assert "T-fig3.unseen.gpt2" in page.locator(".board tbody tr:visible th").all_inner_texts()
