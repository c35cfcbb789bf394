"""The page in a real browser: it draws, filters and steps, without messages on the console and without a network."""

import re
from dataclasses import replace
from types import SimpleNamespace

import pytest

from iclab.report.page import render

pytestmark = pytest.mark.slow

SETTLED = """(id) => {
    const place = document.getElementById(`figure-${id}`);
    const width = place.querySelector("svg").getAttribute("width");
    const still = place.lastWidth === width;
    place.lastWidth = width;
    const drawn = figures[id].view && +place.dataset.columns === columnsAt(place);
    return still && drawn && Math.abs(place.dataset.room - roomOf(place)) <= 12;
}"""


def settled(page, id_="M-fig2"):
    """Wait until a figure is drawn for the room it has and keeps its width from one frame to the next."""
    page.wait_for_function(SETTLED, arg=id_)


def drawn(page, id_="M-fig2"):
    """Scroll to a figure and wait until it is drawn and has its final width."""
    figure = page.locator(f"#figure-{id_}")
    figure.scroll_into_view_if_needed()
    figure.locator("svg").wait_for()
    settled(page, id_)
    return figure


def marks(figure, colour):
    """Count the marks of one colour."""
    return figure.locator(f"[stroke='{colour}'], [fill='{colour}']").count()


MAMBA, LINEAR = "#0072B2", "#D55E00"


def test_every_figure_is_drawn_when_it_comes_near(page):
    assert page.locator(".figure").count() == 3
    for id_ in ("story-outliers", "M-fig2", "inside"):
        assert marks(drawn(page, id_), MAMBA) > 5


def test_the_page_of_variants_draws_too(screen, report):
    (variant,) = (variant for section in report[1].sections for variant in section.variants)
    address = report[0].with_name("variants.html").as_uri()
    screen.open(address)
    screen.fresh = False
    assert marks(drawn(screen.page, variant.folder), MAMBA) > 5
    width = screen.page.evaluate("document.documentElement.clientWidth")
    assert screen.page.evaluate("document.documentElement.scrollWidth") <= width
    for verdict in screen.page.locator(".compared .verdict").all():
        assert 0 <= verdict.bounding_box()["x"] <= width - verdict.bounding_box()["width"]
    screen.check(address)


def test_nothing_is_wider_than_the_screen(still_page):
    drawn(still_page)
    drawn(still_page, "inside")
    width = still_page.evaluate("document.documentElement.clientWidth")
    assert still_page.evaluate("document.documentElement.scrollWidth") <= width


def test_panels_take_the_room_there_is(still_page):
    figure = drawn(still_page)
    room = still_page.evaluate("roomOf(document.querySelector('#figure-M-fig2'))")
    assert room - 8 < figure.locator("svg").bounding_box()["width"] <= room
    columns = 1 if room < 640 else 4
    assert figure.get_attribute("data-columns") == str(columns)
    titles = figure.locator("text", has_text=re.compile("flipped|target|random|worst")).all()
    assert len({round(title.bounding_box()["x"]) for title in titles}) == columns


def test_the_reserved_height_is_about_right(still_page):
    for id_ in ("M-fig2", "inside"):
        figure = drawn(still_page, id_)
        reserved = float(figure.evaluate("(place) => place.style.minHeight").removesuffix("px"))
        height = figure.locator("svg").bounding_box()["height"]
        assert height <= reserved < 1.1 * height + 12


def test_the_layout_follows_the_width_of_the_window(page):
    figure = drawn(page)
    for width, columns in ((1000, 2), (1100, 2), (500, 1), (1300, 4)):
        page.set_viewport_size({"width": width, "height": 900})
        settled(page)
        assert figure.get_attribute("data-columns") == str(columns)
        room = page.evaluate("roomOf(document.querySelector('#figure-M-fig2'))")
        assert room - 8 < figure.locator("svg").bounding_box()["width"] <= room


def test_it_opens_fast(still_page):
    took = still_page.evaluate("performance.timing.loadEventEnd - performance.timing.navigationStart")
    assert took < 10_000  # it takes about one second, but the machine may be busy


def test_the_header_names_the_edition(still_page):
    assert still_page.inner_text(".edition").startswith("Quick edition: 2 of ")


def test_a_prompt_can_be_stepped_through(page):
    stepper = page.locator(".stepper")
    stepper.scroll_into_view_if_needed()
    status = stepper.locator(".status")
    assert "Example 20" in status.inner_text()
    assert "after training step 1000" in status.inner_text()
    stepper.locator(".back").click()
    assert "Example 19" in status.inner_text()
    assert stepper.locator(".strip").first.locator(".unread").count() == 1
    stepper.locator(".when").focus()
    page.keyboard.press("Home")
    assert "after training step 0" in status.inner_text()
    before = status.inner_text()
    stepper.locator(".which").select_option("1")
    assert status.inner_text() != before
    stepper.locator(".where").focus()
    page.keyboard.press("Home")
    assert "No example has been read yet" in status.inner_text()
    stepper.locator(".play").click()
    page.wait_for_function("document.querySelector('.status').textContent.includes('Example 2:')")
    stepper.locator(".play").click()


def test_names_in_the_stepper_and_the_legend_are_text(still_page):
    view = "{attention: [1], gate: [1], vote: [1], output: 1}"
    prompt = "{tokens: [{same: true, outlier: false, label: 1, true_label: 1}], target: 1}"
    svg = still_page.evaluate(f"strip({{name: '<b>x</b>', colour: '\"/><i>'}}, {prompt}, {view}, 1)")
    svg += still_page.evaluate("sample({colour: '\"/><i>', dash: [], mark: 'circle', line: true, width: 1, size: 30})")
    assert svg.count("x") > 1
    assert "<b>" not in svg
    assert "<i>" not in svg


def label(page, name):
    return page.locator(".wide:has(#figure-M-fig2) + .legend").get_by_label(name, exact=True)


def test_a_series_is_hidden_in_all_panels_and_shown_again(page):
    figure = drawn(page)
    before, others = marks(figure, LINEAR), marks(figure, MAMBA)
    box = label(page, "linear Transformer")
    assert before > 12
    box.uncheck()
    page.wait_for_function(f"!document.querySelector('#figure-M-fig2 [stroke=\"{LINEAR}\"]')")
    assert (marks(figure, LINEAR), marks(figure, MAMBA)) == (0, others)
    page.set_viewport_size({"width": 800, "height": 900})  # draws the figure again or gives it another width
    settled(page)
    assert (marks(figure, LINEAR), box.is_checked()) == (0, False)
    box.check()
    page.wait_for_function(f"document.querySelector('#figure-M-fig2 [stroke=\"{LINEAR}\"]')")
    assert marks(figure, LINEAR) == before


def test_a_series_is_hidden_by_keyboard(page):
    figure = drawn(page)
    label(page, "linear Transformer").focus()
    page.keyboard.press("Space")
    page.wait_for_function(f"!document.querySelector('#figure-M-fig2 [stroke=\"{LINEAR}\"]')")
    page.keyboard.press("Space")
    page.wait_for_function(f"document.querySelector('#figure-M-fig2 [stroke=\"{LINEAR}\"]')")
    assert marks(figure, LINEAR) > 12


def test_the_legend_shows_how_series_look(still_page):
    look = "colour: '#123456', dash: [5, 3], width: 2, size: 60"
    line = still_page.evaluate(f"sample({{{look}, mark: '', line: true, hollow: false}})")
    diamond = still_page.evaluate(f"sample({{{look}, mark: 'diamond', line: false, hollow: true}})")
    assert 'stroke-dasharray="5 3"' in line
    assert "<path" not in line
    assert "<line" not in diamond
    assert 'fill="var(--paper)"' in diamond
    shapes = ("circle", "square", "diamond", "triangle-up", "triangle-down", "cross", "stroke")
    found = {still_page.evaluate(f"sample({{{look}, mark: '{shape}', line: false}})") for shape in shapes}
    assert len(found) == len(shapes)


def test_a_point_has_a_tooltip(still_page):
    figure = drawn(still_page)
    point = figure.locator(f".mark-symbol path[fill='{LINEAR}']").nth(4)
    point.scroll_into_view_if_needed()
    point.hover(force=True)
    still_page.wait_for_selector("#vg-tooltip-element.visible")
    assert "linear Transformer" in still_page.inner_text("#vg-tooltip-element")


def colours(page):
    """The theme, the background of the page, and the colour of the labels of an axis."""
    text = "document.querySelector('#figure-M-fig2 .role-axis-label text')"
    return (
        page.evaluate("document.documentElement.dataset.theme"),
        page.evaluate("getComputedStyle(document.body).backgroundColor"),
        page.evaluate(f"getComputedStyle({text}).fill"),
    )


def test_figures_follow_the_theme(page):
    drawn(page)
    seen = set()
    for _ in range(3):
        page.click("#theme")
        seen.add(colours(page))
    assert seen == {
        ("light", "rgb(255, 255, 255)", "rgb(34, 34, 34)"),
        ("dark", "rgb(22, 24, 28)", "rgb(230, 228, 223)"),
    }


def test_print_is_light_and_complete(page):
    page.evaluate("theme = 'dark'; applyTheme()")
    page.evaluate(
        "addEventListener('afterprint', () => { window.printed = document.querySelectorAll('.figure svg').length; })"
    )
    page.pdf()  # only this prints for real
    assert page.evaluate("window.printed") == 3
    page.emulate_media(media="print")
    assert colours(page)[2] == "rgb(34, 34, 34)"
    assert page.evaluate("getComputedStyle(document.querySelector('.lead')).color") == "rgb(34, 34, 34)"
    assert page.locator(".legend input:visible").count() == 0
    assert page.locator(".legend .sample:visible").count() > 5
    assert page.locator(".legend").get_by_text("linear Transformer", exact=True).first.is_visible()
    assert page.locator("summary:visible").count() == 0  # nobody can open them on paper
    page.emulate_media(media="screen")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_everything_can_be_reached_by_keyboard_in_reading_order(page):
    kinds = "a[href], button, select, input, summary, [tabindex='0']"
    page.evaluate(
        f'all = [...document.querySelectorAll("{kinds}")].filter((one) => one.checkVisibility()).slice(0, 60)'
    )
    reached = []
    while len(reached) < 60:
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement !== document.body")
        reached.append(page.evaluate("all.indexOf(document.activeElement)"))
        if reached[-1] < 0:  # a control of a figure that was drawn meanwhile
            reached.pop()
    assert reached == list(range(60))
    page.locator(".stepper .which").focus()
    for name in ("when", "where", "back", "play", "on", "strips"):
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == name
    assert page.evaluate("document.querySelectorAll('.figure[role=img][aria-label]').length") == 3


def test_links_lead_to_the_right_place(page):
    for id_ in ("sensitivity", "choices"):
        page.evaluate(f"document.querySelector('nav a[href=\"#{id_}\"]').click()")
        page.wait_for_function(f"Math.abs(document.getElementById('{id_}').getBoundingClientRect().top) < 80")
        page.wait_for_timeout(500)  # figures on the way are drawn
        assert abs(page.evaluate(f"document.getElementById('{id_}').getBoundingClientRect().top")) < 80


LATE = """
    const late = new Promise((done) => { window.come = done; }), text = Response.prototype.text;
    Response.prototype.text = function () { return late.then(() => text.call(this)); };
"""


def test_links_lead_to_the_right_place_before_figures_have_their_room(screen, report):
    page, top = screen.page.context.new_page(), "document.getElementById('choices').getBoundingClientRect().top"
    page.add_init_script(LATE)
    page.goto(f"{report[0].as_uri()}#choices")
    page.wait_for_function(f"Math.abs({top}) < 80")
    before = page.evaluate(f"{top} + scrollY")
    page.evaluate("come()")
    page.wait_for_function(f"{top} + scrollY > {before} + 500")  # figures take their room
    page.wait_for_function(f"Math.abs({top}) < 80")
    page.close()


def with_figure(content, figure, path):
    """Write the page with another figure in place of M-fig2's."""
    sections = []
    for section in content.sections:
        if section.id == "M-fig2":
            outcome = replace(section.outcome)
            outcome.__dict__["figure"] = figure
            section = replace(section, outcome=outcome)
        sections.append(section)
    path.write_text(render(replace(content, sections=tuple(sections))))
    return path.as_uri()


def test_a_chart_of_another_library_is_shown(browser, report, tmp_path):
    spec = {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "data": {"values": [{"x": 1, "y": 2}, {"x": 2, "y": 3}]},
        "mark": {"type": "point", "color": "#123456"},
        "encoding": {"x": {"field": "x", "type": "quantitative"}, "y": {"field": "y", "type": "quantitative"}},
    }
    page = browser.new_page()
    page.goto(with_figure(report[1], SimpleNamespace(to_dict=lambda: spec), tmp_path / "index.html"))
    assert marks(drawn(page), "#123456") == 2
    assert page.locator(".wide:has(#figure-M-fig2) + .legend").count() == 0
    page.close()


def test_a_chart_that_vega_refuses_says_why(browser, report, tmp_path):
    spec = {"$schema": "https://vega.github.io/schema/vega-lite/v6.json", "mark": "no such mark", "layer": [1]}
    page = browser.new_page()
    page.goto(with_figure(report[1], SimpleNamespace(to_dict=lambda: spec), tmp_path / "index.html"))
    page.locator("#figure-M-fig2").scroll_into_view_if_needed()
    page.wait_for_selector("#figure-M-fig2.problem")
    assert "The figure cannot be drawn. Error: " in page.inner_text("#figure-M-fig2")
    assert marks(drawn(page, "inside"), MAMBA) > 5
    page.close()
