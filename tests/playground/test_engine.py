"""The engine in the browser beside Python's: the same prompts bit for bit, the same weights, the same errors."""

import numpy as np
import pytest

from iclab.engines import Recipe, Training, train
from iclab.models import Model
from iclab.playground.building import ENGINE, source
from iclab.playground.content import models
from iclab.probes import measure
from iclab.prompts import Outliers, Patterns, Prompts, Stream

pytestmark = pytest.mark.slow

USUAL = {
    "dimension": 30, "relevant": 6, "irrelevant": 10, "outlier": 3, "norm": 3.0, "length": 20, "scale": 0.5,
    "fraction": 0.6, "strength": 2.0, "labels": "random", "placement": "random", "patterns": "training",
    "tasks": "ring:3",
}  # fmt: skip
VARIED = [
    {},
    {"labels": "flip", "placement": "closest", "tasks": "all", "fraction": 0.3},
    {"labels": "target", "placement": "farthest", "scale": 1.7, "strength": 6.67, "patterns": "paper"},
    {"relevant": 2, "tasks": "0-1", "length": 1, "fraction": 0.0},
    {"relevant": 10, "irrelevant": 12, "outlier": 8, "tasks": "ring:7", "length": 60, "fraction": 1.0},
    {"irrelevant": 1, "outlier": 1, "scale": 0.0, "strength": 0.1, "tasks": "0-1,1-2,2-0,5-3"},
    {"count": 7, "labels": "flip"},
]


def described(**changes):
    """Python's prompts for the numbers that the page has."""
    d = USUAL | changes
    share = {"count": d["count"]} if "count" in d else {"fraction": d["fraction"]}
    norms = {f"{kind}_norm": d["norm"] for kind in ("relevant", "irrelevant", "outlier")}
    sizes = {kind: d[kind] for kind in ("dimension", "relevant", "irrelevant", "outlier")}
    rest = {name: d[name] for name in ("labels", "placement", "patterns")}
    return Prompts(
        patterns=Patterns(**sizes, **norms),
        tasks=d["tasks"],
        context_length=d["length"],
        irrelevant_scale=d["scale"],
        outliers=Outliers(**share, scale=d["strength"], **rest),
    )


@pytest.fixture(scope="module")
def page(browser):
    page = browser.new_page()
    page.add_script_tag(content="\n".join(source(f"page/{name}") for name in ENGINE))
    yield page
    page.close()


DRAW = """([d, seed, stream, step, first]) => {
  const drawing = makeDrawing(d), p = makeBlock(d.length), out = [];
  for (let start = 0; start < 64; start += LANES) {
    draw(drawing, p, seed, stream, step, first + start);
    for (const name of ["relevant", "irrelevant", "outlier", "kappa", "strength", "label", "truth", "flag", "target"]) {
      out.push([...p[name]]);
    }
  }
  return out;
}"""


@pytest.mark.parametrize("changes", VARIED, ids=lambda changes: ",".join(changes) or "usual")
@pytest.mark.parametrize(
    "seed, stream, step, first", [(0, Stream.TRAIN, 0, 0), (2**32 - 1, Stream.TEST, 70_000, 2**31)], ids=["low", "high"]
)
def test_prompts_are_the_same_bit_for_bit(page, changes, seed, stream, step, first):
    batch = described(**changes).draw([seed], stream, step=step, first=first, count=64)
    drawn = page.evaluate(DRAW, [USUAL | changes, seed, int(stream), step, first])
    tokens = batch.length + 1
    for part in range(4):
        mine = slice(16 * part, 16 * part + 16)
        columns = [np.asarray(column, dtype=np.float64) for column in drawn[9 * part : 9 * part + 9]]
        relevant, irrelevant, outlier, kappa, strength, label, truth, flag = (
            c.reshape(tokens, 16).T for c in columns[:8]
        )
        np.testing.assert_array_equal(np.stack([relevant, irrelevant, outlier], -1), batch.index[0, mine])
        np.testing.assert_array_equal(np.stack([kappa, strength], -1), batch.coefficient[0, mine, :, 1:])
        np.testing.assert_array_equal(label, batch.labels[0, mine, :, 0])
        np.testing.assert_array_equal(truth[:, :-1], batch.true_labels[0, mine, :, 0])
        np.testing.assert_array_equal(flag[:, :-1], batch.outlier[0, mine])
        np.testing.assert_array_equal(columns[8], batch.target[0, mine, 0])


def test_prompts_differ_from_seed_to_seed(page):
    assert page.evaluate(DRAW, [USUAL, 0, 1, 0, 0]) != page.evaluate(DRAW, [USUAL, 1, 1, 0, 0])


TRAIN = """([model, d, recipe, seed, tests, count]) => {
  const s = new Seed(model, d, recipe, seed);
  while (s.step < recipe.steps && s.diverged < 0) s.train();
  const errors = tests.map((test) => {
    const tables = testTables(s, test), fractions = [0.1, test.fraction];
    let wrong = 0;
    for (let at = 0; at < count; at += LANES) wrong += countErrors(s, tables, test.labels, fractions, at)[1];
    return wrong;
  });
  return { key: [...s.key], query: [...s.query], gate: [...s.gate], number: s.flow.number, losses: [...s.losses],
    errors, diverged: s.diverged };
}"""
RECIPE = {"batch": 64, "steps": 200}
TEST = {"scale": 1.5, "fraction": 0.7, "strength": 6.67, "labels": "flip", "patterns": "paper", "tasks": "all"}


def both(page, key, step_size=None, tests=()):
    """Train seed 3 here and there."""
    offered = models()[key]
    rate = step_size or offered["stepSize"]
    model = offered["form"] | {"gateScale": 1, "initScale": 0.2, "stepSize": rate}
    asked = [USUAL | TEST | {"labels": rule} for rule in tests]
    theirs = page.evaluate(TRAIN, [model, USUAL, RECIPE, 3, asked, 2000])
    training = Training(
        model=Model(name=offered["name"], options=offered["options"]),
        prompts=described(),
        recipe=Recipe(step_size=rate, batch_size=RECIPE["batch"], steps=RECIPE["steps"]),
        engine="fused",
    )
    return theirs, train(training, (3,))


@pytest.mark.parametrize("key", models())
def test_weights_after_200_steps_are_the_fused_engines(page, key):
    theirs, ours = both(page, key)
    snapshot = ours.snapshots[200]
    assert theirs["diverged"] == -1
    for name, weight in snapshot.items():
        expected = weight[0].double().numpy()
        got = np.asarray(theirs[name] if name in theirs else theirs["number"]).reshape(expected.shape)
        np.testing.assert_allclose(got, expected, atol=1e-4, rtol=0, err_msg=name)
    np.testing.assert_allclose(theirs["losses"], ours.losses[:, 0], atol=1e-4)
    assert np.abs(snapshot["key"][0].numpy()).max() > 0.21  # it has moved


@pytest.mark.parametrize("key", ["mamba", "linear"])
def test_errors_are_those_of_the_probes(page, key):
    rules = ("flip", "random", "target", "worst")
    theirs, ours = both(page, key, tests=rules)
    for rule, wrong in zip(rules, theirs["errors"], strict=True):
        worst = rule == "worst"
        prompts = described(**TEST | {"labels": "flip" if worst else rule})
        rows = measure(ours, "worst" if worst else "error", prompts, count=2000)
        assert abs(wrong - 2000 * rows[0]["error"]) <= 2, rule  # a margin of 1e-7 may round to the other side


def test_a_divergence_is_said(page):
    theirs, ours = both(page, "linear", step_size=50.0)
    assert theirs["diverged"] == ours.diverged_at[0] >= 0
