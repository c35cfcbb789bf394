"""The page in a real browser: it trains, follows its controls and its address, and asks no network."""

import contextlib
import io
import shlex

import pytest

from iclab.cli.parser import parser
from iclab.cli.training import read_request
from iclab.playground.content import DIMENSION, PRESETS, SETTINGS, models
from iclab.theory.mamba_conditions import MAMBA
from iclab.theory.setting import MambaSetting

pytestmark = pytest.mark.slow
SMALL = "l=6&b=16&t=25"


@pytest.fixture(scope="module")
def opened(browser, address):
    """A page that is opened at many addresses, with what it said and asked for."""
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.complaints, page.asked = [], []
    page.on("console", lambda message: page.complaints.append(message.text))
    page.on("pageerror", lambda error: page.complaints.append(str(error)))
    page.on("request", lambda request: page.asked.append(request.url))
    yield page
    page.close()


@pytest.fixture
def go(opened, address):
    opened.complaints.clear()
    opened.asked.clear()

    def go(words, done=True):
        opened.goto("about:blank")
        opened.goto(f"{address}#{words}" if words else address)
        if done:
            opened.wait_for_function("document.body.dataset.done")
        return opened

    yield go
    assert opened.complaints == []
    foreign = [url for url in opened.asked if not url.startswith((address, "blob:null/", "about:"))]
    assert foreign == []


def chosen(page):
    return page.evaluate("state")


def test_it_trains_and_draws(go):
    page = go(f"{SMALL}&models=mamba,linear,retnet")
    rows = page.locator("#numbers tr").all_inner_texts()
    assert [row.split("\t")[0] for row in rows] == ["Mamba", "linear Transformer", "RetNet"]
    assert all("NaN" not in row and "–" not in row for row in rows)
    assert page.locator("#chart-error polyline").count() == 4  # three models and the floor
    assert page.locator("#kernel svg").count() == 2
    assert page.locator("#editor .example").count() == 6 + 2


def test_a_slider_starts_again_and_enters_the_address(go):
    page = go(SMALL)
    before = page.locator("#numbers").inner_text()
    page.locator("#set-ka").fill("7")
    page.locator("#set-pa").fill("0.1")
    page.wait_for_function("document.body.dataset.done")
    assert page.locator("#numbers").inner_text() != before
    assert "pa=0.1" in page.url
    assert "ka=7" in page.url
    state = chosen(page)
    assert chosen(go(page.url.partition("#")[2], done=False)) == state


def test_the_newest_change_wins(go):
    page = go(f"{SMALL}&seeds=8", done=False)
    for value in ("0.1", "0.2", "0.9"):
        page.locator("#set-pa").fill(value)
    page.wait_for_function("document.body.dataset.done")
    last = page.locator("#numbers").inner_text()
    assert page.evaluate("[...results.values()].every((row) => row.generation === generation)")
    assert go(f"{SMALL}&seeds=8&pa=0.9").locator("#numbers").inner_text() == last


@pytest.mark.parametrize(
    "words, reason",
    [
        ("pa=2", "must be a number from 0 to 0.95"),
        ("pa=1e-1", "must be a number"),
        ("b=16.5", "must be a whole number"),
        ("t=99999999999", "must be a number from 25 to 2000"),
        ("models=mamba,%3Cimg%20src=x%20onerror=alert(1)%3E", "must be some of mamba"),
        ("%3Cscript%3Ealert(1)%3C/script%3E=1", "is not a setting"),
        ("__proto__=1", "is not a setting"),
        ("constructor=1", "is not a setting"),
        ("models=toString", "must be some of"),
        ("tasks=0-9", "must name different patterns"),
        ("tasks=ring:6", "must name different patterns"),
        ("tasks=1-1", "must name different patterns"),
        ("v=5&patterns=paper", "need V = 3"),
        ("pa", "has no value"),
        ("labels=%E0%A4%A", "cannot be read"),
        ("pa=" + "1" * 5000, "too long"),
    ],
)
def test_a_wild_address_is_refused_in_words(go, words, reason):
    page = go(words, done=False)
    assert reason in page.locator("#problem").inner_text()
    assert page.locator("img").count() == 0
    assert chosen(page) == page.evaluate("usualState()")


def test_edges_of_the_graph_switch_tasks(go):
    page = go(f"{SMALL}&tasks=ring:1")
    page.locator('[data-edge="0-2"]').focus()
    page.keyboard.press("Enter")
    assert chosen(page)["tasks"] == "0-1,0-2,1-2,2-0,2-3,3-4,4-5,5-0"
    assert page.locator('[data-edge="0-2"]').get_attribute("aria-checked") == "true"
    page.locator('[data-edge="0-2"]').press("Space")
    assert chosen(page)["tasks"] == "ring:1"
    page.locator("#set-m1").fill("2")
    assert chosen(page)["tasks"] == "ring:1"
    assert page.locator("#problem").is_hidden()


def test_the_editor_changes_the_answer(go):
    page = go("l=6&b=64&t=250&models=linear")
    page.locator("#set-alpha").fill("0")
    page.wait_for_function("document.body.dataset.done")
    assert "Right." in page.locator("#answer").inner_text()
    for flip in range(6):
        page.locator("#editor .label").nth(flip).click()
    assert "Wrong." in page.locator("#answer").inner_text()
    order = page.evaluate("editor.prompt.map((token) => token.kappa)")
    page.locator('[data-at="0"]').press("ArrowRight")
    moved = page.evaluate("editor.prompt.map((token) => token.kappa)")
    assert moved == [order[1], order[0], *order[2:]]
    assert page.evaluate("document.activeElement.dataset.at") == "1"
    page.locator('[aria-label="outlier"]').first.click()
    assert page.locator(".example.outlier").count() == 1


def test_the_votes_add_up(go):
    page = go(SMALL)
    for key in ("mamba", "linear"):
        page.locator("#which").select_option(key)
        form, shown = "CONTENT.models[shownModel].form", "results.get(shownModel + '/0')"
        votes, total = page.evaluate(
            f"(({{ votes, sum }}) => [votes, sum])(answerPrompt({shown}, {form}, describe(state).test))"
        )
        assert sum(votes) == pytest.approx(total, rel=1e-5, abs=1e-6)


def test_python_gives_the_same_error(go):
    page = go(f"{SMALL}&pa=0.3&alpha=0.5&models=mamba,linear")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(page.locator("#python").text_content(), {})
    shown = page.evaluate(
        "state.models.split(',').map((key) => spread(seedsOf(key).map((row) => row.wrong[5] / row.prompts))[0])"
    )
    for line, error in zip(printed.getvalue().splitlines(), shown, strict=True):
        assert float(line.split()[1]) == pytest.approx(error, abs=1e-3)


@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset[0])
def test_presets_and_their_commands_are_understood(go, preset):
    page = go("", done=False)
    page.locator("#preset").select_option(preset[0])
    assert page.locator("#problem").is_hidden()
    state = chosen(page)
    for command, key in zip(
        page.locator("#commands").text_content().split("\n\n"), state["models"].split(","), strict=True
    ):
        words = shlex.split(command.replace("\\\n", " "))
        request = read_request(parser().parse_args(words[1:]))
        assert request.model.name == models()[key]["name"]
        assert request.prompts.outliers.fraction == state["pa"]
        assert request.test["test"].outliers.scale == state["kat"]
        assert request.training().recipe.step_size == pytest.approx(models()[key]["stepSize"])


def test_the_tour_has_six_steps_that_set_the_page_up(go):
    page = go(SMALL)
    page.locator("#begin").click()
    for step in range(6):
        assert page.locator("#tour-title").inner_text().startswith(f"{step + 1} of 6")
        assert page.locator("#problem").is_hidden()
        assert chosen(page) == page.evaluate(f"({{ ...usualState(), ...CONTENT.tour[{step}].changes }})")
        page.keyboard.press("Enter")  # the button Next has the focus
    assert page.locator("#tour").is_hidden()


@pytest.mark.parametrize("width, scheme", [(390, "dark"), (1920, "light")])
def test_it_fits_every_screen(browser, address, width, scheme):
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page.goto(f"{address}#{SMALL}")
    page.wait_for_function("document.body.dataset.done")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate("document.documentElement.dataset.theme") == scheme
    controls = "[...document.querySelectorAll('input, select, button')]"
    assert page.evaluate(f"{controls}.every((one) => one.labels?.length || one.textContent || one.ariaLabel)")
    page.close()


def test_all_sizes_fit_into_the_dimension():
    most = {setting.key: setting.most for setting in SETTINGS}
    assert most["m1"] + most["m2"] + most["v"] <= DIMENSION


@pytest.mark.parametrize(
    "words",
    [
        "",
        "pa=0&alpha=0&k=0.7",
        "tasks=0-1,1-2,2-0&alpha=0.4&ka=0&t=25&delta=0.3",
        "patterns=training&v=5&m1=9&l=60&eta=2",
    ],
    ids=["usual", "no outliers", "few tasks", "large"],
)
@pytest.mark.parametrize("model", ["mamba", "linear"])
def test_conditions_are_those_of_python(go, words, model):
    page = go(words, done=False)
    state = chosen(page)
    found = page.evaluate(
        f"checkConditions(state, '{model}').map((c) => [c.id, String(c.left), String(c.right), c.holds])"
    )
    setting = MambaSetting(
        model=model,
        relevant=state["m1"],
        relevant_norm=state["beta"],
        outlier_norm=state["beta"],
        irrelevant=state["m2"],
        outlier=state["v"],
        train_length=state["l"],
        test_length=state["l"],
        train_irrelevant_scale=state["k"],
        test_irrelevant_scale=state["kt"],
        batch_size=state["b"],
        step_size=models()[model]["stepSize"] * state["eta"],
        tasks=tuple(map(tuple, page.evaluate("taskPairs(state.tasks, state.m1)"))),
        train_outlier_fraction=state["pa"],
        test_outlier_fraction=state["alpha"],
        train_outlier_scale=state["ka"],
        test_outlier_scale=state["kat"],
        mixture_sums=(0.9, 0.5, 0.3) if state["patterns"] == "paper" else (1.0,),
        steps=state["t"],
        init_scale=state["delta"],
    )
    checks = {check.id: check for check in (rule(setting) for rule in MAMBA)}
    assert len(found) > 15
    for id_, left, right, holds in found:
        assert float(left.replace("Infinity", "inf")) == pytest.approx(checks[id_].left), id_
        assert float(right.replace("Infinity", "inf")) == pytest.approx(checks[id_].right), id_
        assert holds == checks[id_].holds, id_
