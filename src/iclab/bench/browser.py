"""The playground's engine in a real browser, timed in workers as the page has them."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from iclab.engines import Training
from iclab.playground.building import ENGINE, render, source
from iclab.playground.content import models

QUIET = ("quic", "background-networking", "component-update", "sync", "gpu")
FLAGS = ["--no-sandbox", "--no-first-run", *(f"--disable-{what}" for what in QUIET)]
WARM_UP = 50
"""Steps before the clock starts, in which the browser compiles."""
WORKER = """
onmessage = ({ data: { model, prompts, recipe, seed } }) => {
  const one = new Seed(model, prompts, recipe, seed), started = performance.now();
  while (one.step < recipe.steps && one.diverged < 0) one.train();
  postMessage({ seconds: (performance.now() - started) / 1000, steps: one.step, loss: one.losses[one.step - 1] });
};
"""
RUN = """async ([code, task, workers, warmUp, times]) => {
  const address = URL.createObjectURL(new Blob([code], { type: "text/javascript" }));
  const all = Array.from({ length: workers }, () => new Worker(address));
  const run = (recipe) => Promise.all(all.map((worker, seed) => new Promise((resolve, reject) => {
    worker.onmessage = ({ data }) => resolve(data);
    worker.onerror = ({ message }) => reject(new Error(message));
    worker.postMessage({ ...task, recipe, seed });
  })));
  await run({ ...task.recipe, steps: Math.min(warmUp, task.recipe.steps) });
  const found = [];
  for (let i = 0; i < times; i++) found.push(await run(task.recipe));
  for (const worker of all) worker.terminate();
  return found;
}"""

CHANGE = """([value]) => new Promise((resolve) => {
  const slider = document.getElementById("set-pa"), started = performance.now();
  const shown = () => requestAnimationFrame(() => resolve(performance.now() - started));
  const wait = () => (document.body.dataset.first ? shown() : requestAnimationFrame(wait));
  slider.value = value;
  slider.dispatchEvent(new Event("input"));
  wait();
})"""
"""Moves a slider; resolves to the milliseconds until the frame that shows the first picture has been painted."""
PAUSE = 400
"""Milliseconds of training between two changes, so that each change comes while the workers are busy."""


def obstacle() -> str:
    """Say what a browser lacks here; '' if nothing."""
    if not importlib.util.find_spec("playwright"):
        return "playwright is not installed"
    return "" if chromium() else "no browser: install chromium, or name one in ICLAB_CHROMIUM"


def chromium() -> str | None:
    """Return the path of a browser."""
    return os.environ.get("ICLAB_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")


def task_of(training: Training) -> dict[str, Any]:
    """Describe a training of the playground as its engine takes it."""
    prompts, recipe, options = training.prompts, training.recipe, training.model.options
    patterns, outliers = prompts.patterns, prompts.outliers.model_dump(mode="json")
    counts = {name: getattr(patterns, name) for name in ("dimension", "relevant", "irrelevant", "outlier")}
    form = models()[str(training.model.name)]["form"]
    return {
        "model": form | {"gateScale": 1, "initScale": options["init_scale"], "stepSize": recipe.step_size},
        "prompts": counts
        | {name: outliers[name] for name in ("fraction", "labels", "placement", "patterns")}
        | {"strength": outliers["scale"], "norm": patterns.relevant_norm, "length": prompts.context_length}
        | {"scale": prompts.irrelevant_scale, "tasks": str(prompts.tasks)},
        "recipe": {"batch": recipe.batch_size, "steps": recipe.steps},
    }


def page_times(training: Training, workers: int, times: int) -> list[list[dict[str, float]]]:
    """Train one seed per worker, side by side, several times; return seconds, steps and last loss of each."""
    code = "\n".join([*(source(f"page/{name}") for name in ENGINE), WORKER])
    with _new_page() as page:
        found: list[list[dict[str, float]]] = page.evaluate(RUN, [code, task_of(training), workers, WARM_UP, times])
    return found


def first_pictures(changes: int) -> list[float]:
    """Open the playground, move a slider again and again, and return the milliseconds until each first picture."""
    with _new_page() as page:
        page.set_content(render())
        page.wait_for_function("document.body.dataset.first")
        found = []
        for change in range(changes):
            page.wait_for_timeout(PAUSE)
            found.append(float(page.evaluate(CHANGE, [round(0.1 + 0.05 * (change % 10), 2)])))
    return found


@contextmanager
def _new_page() -> Iterator[Any]:
    """Open a page in a browser of its own."""
    from playwright.sync_api import sync_playwright  # an extra

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
        try:
            yield browser.new_page()
        finally:
            browser.close()
