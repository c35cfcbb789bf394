"""The page in a real browser: it trains, follows its controls and its address, and asks no network."""

import contextlib
import io
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

import iclab
from iclab.cli.parser import parser
from iclab.cli.training import read_request
from iclab.papers.mamba import kernel
from iclab.playground.content import ACTIVE, DIMENSION, PRESETS, SETTINGS, models
from iclab.probes import measure
from iclab.theory.laws import graph_time
from iclab.theory.mamba_conditions import MAMBA
from iclab.theory.setting import MambaSetting

pytestmark = pytest.mark.slow
SMALL = "l=6&b=16&t=25"


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
    late = "workers[0].onmessage({ data: { generation: generation - 1, key: 'mamba', seed: 99 } })"  # was on its way
    assert page.evaluate(f"{late}; results.has('mamba/99')") is False
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
        ("gates=shut&labels=worst", "must be learned"),
        ("gates=wide", "must be one of learned, shut, open"),
        ("shown=linear&models=mamba", "must be one of the models"),
        ("shown=%3Cb%3E", "must be one of mamba"),
        ("step=-1", "must be a whole number from 0 to 2000"),
        ("prompt=10000", "must be a whole number from 0 to 9999"),
        ("edits=0%3Cb%3E", "must be numbers of examples"),
        ("edits=0,1", "must name each of the 20 examples once"),
        ("l=2&edits=0,0", "must name each of the 2 examples once"),
        ("pa", "has no value"),
        ("labels=%E0%A4%A", "cannot be read"),
        ("pa=" + "1" * 5000, "too long"),
    ],
)
def test_a_wild_address_is_refused_in_words(go, words, reason):
    page = go(words, done=False)
    assert reason in page.locator("#problem").inner_text()
    assert page.locator("main img, main b, main script").count() == 0
    assert chosen(page) == page.evaluate("usualState()")


def test_a_wild_address_is_refused_when_the_page_is_loaded(opened, go, address):
    opened.goto("about:blank")
    page = go("pa=%3Cimg%20src=x%3E", done=False)
    assert page.locator("#problem").inner_text().startswith("This address cannot be used: pa = <img src=x>: must be")
    assert page.locator("img").count() == 0


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


def test_a_first_picture_comes_before_the_end_and_a_change_ends_long_work(go):
    page = go("t=2000&b=512&l=60&seeds=16", done=False)
    page.wait_for_function("document.body.dataset.first")
    assert page.evaluate(
        "document.body.dataset.done === undefined && [...results.values()].some((row) => row.step < 2000)"
    )
    assert page.locator("#chart-error polyline").count() > 1
    go(SMALL)
    assert page.evaluate("[...results.values()].every((row) => row.generation === generation && row.step === 25)")


def test_a_change_leaves_the_last_picture_until_there_is_a_new_one(go):
    page = go(SMALL)
    curves = "document.querySelectorAll('#chart-error polyline').length"
    assert page.evaluate(f"start(); drawAll(); {curves}") == 3


def test_buttons_copy_the_code_and_the_address(browser, address):
    page = browser.new_page()
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto(f"{address}#{SMALL}")
    page.locator("#copy").click()
    page.locator("#copy", has_text="Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == page.url
    page.locator("#as-code").click()
    for name in ("python", "commands"):
        page.locator(f"#copy-{name}").click()
        page.locator(f"#copy-{name}", has_text="Copied").wait_for()
        assert page.evaluate("navigator.clipboard.readText()") == page.locator(f"#{name}").text_content()
    page.evaluate("navigator.clipboard.writeText('')")
    page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })")  # as from plain HTTP
    page.evaluate("document.execCommand = (name) => name === 'copy' && (window.taken = String(getSelection()), true)")
    page.locator("#copy").click()
    page.wait_for_function("window.taken !== undefined")
    assert page.evaluate("taken") == page.url
    page.close()


@pytest.mark.parametrize(
    "words",
    [
        "pa=0.3&alpha=0.55",
        "gates=shut&alpha=0.7&w=zero",
        "gates=open&t=100&models=mamba,linear,gated-retention",
        "labels=worst&alpha=0.3",
    ],
)
def test_python_gives_the_same_error(go, words):
    page = go(f"{SMALL}&{words}")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(page.locator("#python").text_content(), {})
    shown = [row.split("\t")[1] for row in page.locator("#numbers tr").all_inner_texts()]
    for line, error in zip(printed.getvalue().splitlines(), shown, strict=True):
        assert float(line.split()[1]) == pytest.approx(float(error), abs=1.5e-3)


def test_the_kernel_is_shown_while_its_law_holds_and_fits_as_in_python(go):
    """Beside Python: the moment, the fitted τ and R², and τ predicted with nothing fitted."""
    words = "l=8&b=64&t=100&tasks=ring:1&pa=0.3&w=zero&eta=0.1&models=mamba"
    page = go(words)
    step, said = int(page.locator("#out-step").inner_text().split(",")[0]), page.locator("#fit").inner_text()
    setting = MambaSetting(
        tasks=tuple((i, (i + 1) % 6) for i in range(6)),
        train_length=8,
        train_outlier_fraction=0.3,
        step_size=0.1,
    )
    run = iclab.train(
        iclab.Model(name="mamba", options={"gate_scale": 0.0}),
        iclab.Prompts(tasks="ring:1", context_length=8, outliers=iclab.Outliers(fraction=0.3)),
        iclab.Recipe(step_size=0.1, steps=100, batch_size=64, frozen=("gate",), snapshots=(step,)),
        seeds=4,
    )
    watched = page.evaluate("document.getElementById('kernel-step').dataset.steps").split(",")
    fallen = next(int(at) for at in watched if run.losses[int(at)].mean() <= ACTIVE)
    assert step == int(watched[watched.index(str(fallen)) - 1])
    found = np.zeros((6, 6))
    for row in measure(run.trained, "kernel", run.training.prompts, 1, at=step):
        found[row["query_pattern"], row["pattern"]] += row["entry"] / 4
    fit = setting.graph.fit(found)
    assert f"τ = {fit.time:.2f} fitted, R² = {fit.r2:.3f}" in said
    assert f"as at w = 0: τ = {graph_time(setting, step):.2f}" in said
    assert fit.r2 > 0.98
    assert "the last before the loss falls to 0.5" in said


def test_no_law_is_claimed_while_the_loss_stays_high(go):
    page = go(f"{SMALL}&models=mamba&eta=0.05&delta=0.01")
    assert "the loss has not fallen to 0.5 yet" in page.locator("#fit").inner_text()


def test_the_kernel_can_be_seen_at_other_steps(go):
    page = go("l=6&b=16&t=100&models=mamba")
    slider = page.locator("#kernel-step")
    slider.fill(slider.get_attribute("max"))
    assert page.locator("#out-step").inner_text() == "100"
    assert "The law held until about" in page.locator("#fit").inner_text()
    assert "step=100" in page.url
    page.locator("#moment").click()
    assert "step=" not in page.url


def test_the_moment_of_the_law_is_the_experiments():
    assert ACTIVE == kernel.ACTIVE


@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset[0])
def test_presets_and_their_commands_are_understood(go, preset):
    page = go("", done=False)
    page.locator("#preset").select_option(preset[0])
    assert page.locator("#problem").is_hidden()
    state = chosen(page)
    if state["gates"] != "learned":
        assert page.locator("#commands").text_content().startswith("# Gates set by hand are for Python")
        return
    for command, key in zip(
        page.locator("#commands").text_content().split("\n\n"), state["models"].split(","), strict=True
    ):
        words = shlex.split(command.replace("\\\n", " "))
        request = read_request(parser().parse_args(words[1:]))
        assert request.model.name == models()[key]["name"]
        assert request.prompts.outliers.fraction == state["pa"]
        assert request.test["test"].outliers.scale == state["kat"]
        assert request.training().recipe.step_size == pytest.approx(models()[key]["stepSize"] * state["eta"])
        assert request.training().recipe.frozen == (("gate",) if state["w"] == "zero" and key == "mamba" else ())


def test_the_preset_that_is_named_is_the_one_that_is_shown(go):
    page = go(SMALL, done=False)
    preset = page.locator("#preset")
    preset.select_option("M-fig4")
    assert page.locator("figure.place h2").inner_text() == "Gates by distance"
    preset.select_option("M-fig3")  # the same settings, another figure
    assert page.locator("figure.place h2").inner_text() == "Attention during training"
    page.locator("#another").click()
    assert preset.input_value() == "M-fig3"
    page.locator("#set-pa").fill("0.1")
    assert preset.input_value() == ""
    go("labels=worst", done=False)
    assert preset.input_value() == "worst"
    page.locator("#begin").click()
    page.locator("#reset").click()
    assert (preset.input_value(), page.locator("#tour").is_hidden()) == ("M-fig2", True)
    assert page.locator("figure.place").count() == 0


def test_addresses_of_the_docs_are_understood(go):
    text = (Path(__file__).parents[2] / "docs" / "playground.md").read_text()
    found = re.findall(r"`#(\S+)`", text)
    assert len(found) == 3
    for words in found:
        page = go(words, done=False)
        assert page.locator("#problem").is_hidden()
        assert sorted(page.evaluate("writeAddress(state)").split("&")) == sorted(words.split("&"))


def test_the_tour_has_six_steps_that_set_the_page_up(go):
    page = go(SMALL)
    page.locator("#begin").click()
    for step in range(6):
        assert page.locator("#tour-title").inner_text().startswith(f"{step + 1} of 6")
        assert page.locator("#problem").is_hidden()
        assert chosen(page) == page.evaluate(f"({{ ...usualState(), ...CONTENT.tour[{step}].changes }})")
        assert page.locator("figure.place").count() == 1
        page.keyboard.press("Enter")  # the button Next has the focus
    assert page.locator("#tour").is_hidden()


@pytest.mark.parametrize("width, scheme", [(390, "dark"), (768, "light"), (1920, "light")])
def test_it_fits_every_screen(browser, address, width, scheme):
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page.goto(f"{address}#{SMALL}")
    page.wait_for_function("document.body.dataset.done")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate("document.documentElement.dataset.theme") == scheme
    assert page.evaluate("document.getElementById('settings').open") == (width > 800)
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
