"""The prompt editor in a real browser: by mouse, finger and keys, and in the address."""

import pytest

pytestmark = pytest.mark.slow
SMALL = "l=6&b=16&t=25"
ORDER = "editor.rows.map(({ from }) => from)"


def test_the_editor_changes_the_answer(go):
    page = go("l=6&b=64&t=250&models=linear&alpha=0")
    assert "Right." in page.locator("#answer").inner_text()
    for flip in range(6):
        page.locator("#editor .label").nth(flip).click()
    assert "Wrong." in page.locator("#answer").inner_text()
    assert page.locator("#said").text_content() == page.locator("#answer").text_content()
    page.locator('[data-at="0"]').press("ArrowRight")
    assert page.evaluate(ORDER) == [1, 0, 2, 3, 4, 5]
    assert page.evaluate("document.activeElement.dataset.at") == "1"
    page.keyboard.press("End")
    assert page.evaluate(ORDER) == [1, 2, 3, 4, 5, 0]
    page.locator('[aria-label="outlier"]').first.click()
    assert page.locator(".example.outlier").count() == 1
    answer, state = page.locator("#answer").inner_text(), page.evaluate("state")
    go(SMALL)
    go(page.evaluate("(state) => writeAddress(state)", state))  # what a colleague sees
    assert page.locator("#answer").inner_text() == answer
    page.locator("#undo").click()
    assert page.evaluate(ORDER) == [0, 1, 2, 3, 4, 5]
    assert "edits" not in page.url


def places(page):
    """The middles of the examples' names on the screen."""
    page.locator("#editor").scroll_into_view_if_needed()
    boxes = [page.locator(f'[data-at="{i}"]').bounding_box() for i in range(6)]
    return [(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2) for box in boxes]


def test_a_mouse_drags_an_example(go):
    page = go(f"{SMALL}&models=linear")
    first, *_, last = places(page)
    page.mouse.move(*last)
    page.mouse.down()
    page.mouse.move(*first, steps=8)
    assert page.locator(".example.dragged").count() == 1
    page.mouse.up()
    assert page.evaluate(ORDER) == [5, 0, 1, 2, 3, 4]
    page.mouse.move(*last)
    assert page.evaluate(ORDER) == [5, 0, 1, 2, 3, 4]
    assert "edits=5,0,1,2,3,4" in page.url


def test_a_finger_drags_an_example(browser, address):
    page = browser.new_page(viewport={"width": 390, "height": 844}, has_touch=True)
    page.goto(f"{address}#{SMALL}&models=linear")
    page.wait_for_function("document.body.dataset.done")
    spots = places(page)
    hand = page.context.new_cdp_session(page)
    for kind, spot in [("touchStart", 0), *[("touchMove", i) for i in (1, 2, 3)]]:
        point = {"x": spots[spot][0], "y": spots[spot][1]}
        hand.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [point]})
    hand.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    assert page.evaluate(ORDER) == [1, 2, 3, 0, 4, 5]
    page.close()


def answer_of(page):
    form, shown = "CONTENT.models[shownModel()].form", "results.get(shownModel() + '/0')"
    return page.evaluate(f"answerPrompt({shown}, {form}, describe(state).test)")


@pytest.mark.parametrize("key", ["mamba", "linear"])
def test_a_gate_shut_by_hand_takes_one_vote_away(go, key):
    page = go(f"{SMALL}&shown={key}")
    before = answer_of(page)
    page.locator(".hand").nth(2).click()
    after = answer_of(page)
    assert after["gate"][2] == 0
    assert after["gate"][:2] + after["gate"][3:] == before["gate"][:2] + before["gate"][3:]
    assert after["sum"] == pytest.approx(before["sum"] - before["vote"][2], rel=1e-5, abs=1e-6)
    assert "2s" in page.url


def test_training_leaves_the_focus_where_it_is(go):
    page = go("l=6&t=2000", done=False)
    page.wait_for_function("document.body.dataset.first")
    page.locator("#editor .label").nth(3).focus()
    page.wait_for_function("[...results.values()].every((row) => row.step > 400)")
    assert page.evaluate("document.activeElement === document.querySelectorAll('#editor .label')[3]")


def test_the_votes_add_up(go):
    for key in ("mamba", "linear"):
        answer = answer_of(go(f"{SMALL}&shown={key}"))
        assert sum(answer["vote"]) == pytest.approx(answer["sum"], rel=1e-5, abs=1e-6)
