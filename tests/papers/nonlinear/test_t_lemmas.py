"""T-lemB.5 to T-lemB.11: what they train and measure, numbers by hand, and the logic of claims."""

import math

import pytest

from iclab.catalog import find
from iclab.papers.nonlinear.laws import GRAPHS, theorem_neurons
from iclab.papers.nonlinear.lemb7 import rates
from iclab.papers.nonlinear.lemb11 import FewestSettings, fewest_tasks, meets
from iclab.papers.nonlinear.lemmas import LemmaSettings, active_steps, combined, over_time, ratio, summed
from iclab.papers.nonlinear.thm33_settings import Theorem33Settings
from iclab.prompts.tasks import AllPairs, Ring

SEEDS = 3
SETTINGS = LemmaSettings(seeds=SEEDS)
VALUES = SETTINGS.relevant_values
STEPS = (0, 10, 20, 40, 80, 160, 320)


def verdicts(id_, rows, settings=SETTINGS):
    return {c.id.removeprefix(f"{id_}."): c.verdict(rows)["verdict"] for c in find(id_).claims(settings)}


def followed(probe, numbers, losses=lambda step: 1.0 if step < 300 else 0.0):
    """Rows of a probe along every training; numbers(graph, M1, step) are the rows of one step."""
    rows = []
    for graph in GRAPHS:
        for n in VALUES:
            for step in STEPS:
                for seed in range(SEEDS):
                    where = {"part": "relevant", "graph": graph, "x": n, "step": step, "seed": seed, "diverged": False}
                    wobble = 1 + 0.01 * seed
                    rows += [{**where, "probe": probe, **row} for row in numbers(graph, n, step, wobble)]
                    if probe != "error":
                        rows.append({**where, "probe": "error", "hinge": losses(step)})
    return rows


class TestReading:
    rows = followed("luck", lambda g, n, step, w: [{"activation": step * w, "missed": 0.5}])

    def test_over_time_sums_and_ratios(self):
        activation, missed = (over_time(self.rows, name, "ring", 8, "luck") for name in ("activation", "missed"))
        assert activation[40] == pytest.approx({0: 40.0, 1: 40.4, 2: 40.8})
        assert ratio(activation, missed)[40][0] == 80
        assert summed(activation)[40][0] == pytest.approx(800)  # ∫ t dt from 0 to 40: exact for a line
        assert combined(lambda a, b: a * b, activation, missed)[320][0] == 160
        assert active_steps(self.rows, "ring", 8) == [10, 20, 40, 80, 160]

    def test_a_diverged_seed_has_no_number_from_then_on(self):
        lost = [r | {"diverged": True} if r["seed"] == 1 and r["step"] >= 40 else r for r in self.rows]
        sums = summed(over_time(lost, "activation", "ring", 8, "luck"))
        assert sums[20][1] is not None
        assert sums[40][1] is None
        assert sums[320][1] is None


class TestTrainings:
    @pytest.mark.parametrize("id_", ["T-lemB.5", "T-lemB.6", "T-lemB.7", "T-lemB.10"])
    def test_they_are_inside_the_theorem_and_shared(self, id_):
        settings = SETTINGS.replace(seeds=8)
        shared = {c.cell.training.hash for c in find("T-thm3.3").conditions(Theorem33Settings(seeds=8))}
        mine = find(id_).conditions(settings)
        assert any(c.cell.training.hash in shared for c in mine)
        for condition in mine:
            training, columns = condition.cell.training.training, condition.columns
            patterns, options = training.prompts.patterns, training.model.options
            assert condition.cell.prompts == training.prompts
            if columns["part"] == "relevant":
                assert (patterns.relevant, patterns.irrelevant) == (columns["x"], columns["x"])
                assert options["neurons"] == theorem_neurons(columns["x"])
                assert training.prompts.tasks == (Ring(steps=1) if columns["graph"] == "ring" else AllPairs())
                assert condition.cell.at == "every"
            elif columns["part"] in ("norm", "irrelevant"):
                assert condition.cell.training.hash in shared
                assert condition.cell.at == training.recipe.steps // 4
            elif columns["part"] == "batch":
                assert condition.cell.count == columns["x"]
            else:
                assert options["neurons"] == columns["x"]

    def test_nothing_is_trained_to_count_lucky_neurons(self):
        for condition in find("T-lemB.9").conditions(SETTINGS):
            training = condition.cell.training.training
            assert training.recipe.steps == 0
            assert training.model.options["neurons"] == 10 * theorem_neurons(condition.columns["x"])

    def test_the_quick_edition_shares_them_too(self):
        quick, other = LemmaSettings().quick(), Theorem33Settings().quick()
        shared = {c.cell.training.hash for c in find("T-thm3.3").conditions(other)}
        parts = {c.columns["part"] for c in find("T-lemB.6").conditions(quick) if c.cell.training.hash in shared}
        assert parts == {"relevant", "norm", "irrelevant", "batch"}


def growth(own=2.0, relevant=0.0, met=None, unmet=-1.0, apart=-1.0):
    """W as Lemma B.5 has it: Σ ζγ is t, so the own part is t^own / M1 and the bound t / M1, up to constants."""

    def numbers(graph, n, step, wobble):
        size = step**own * n ** (relevant - 1) * wobble
        left = (1 + step) ** met if met is not None else math.exp(-((step / n) ** 2) / 100)
        parts = [("own", 0, size), ("met", 1, -0.3 * left * size), ("unmet", 2, 0.4 * n**unmet * size)]
        parts += [("unmet", 3, -0.01 * size), ("irrelevant relevant", None, size * n**apart)]
        for matrix in ("query", "key"):
            for kind, distance, value in parts:
                rms = abs(value)
                yield {"matrix": matrix, "kind": kind, "distance": distance, "mean": value, "rms": rms}

    luck = followed("luck", lambda g, n, step, w: [{"activation": 1.0, "missed": 0.5}])
    return followed("growth", numbers) + [row for row in luck if row["probe"] == "luck"]


@pytest.mark.parametrize(
    ("changes", "claim", "verdict"),
    [
        ({}, None, "holds"),
        ({"own": 1.0}, "own", "holds"),
        ({"own": 0.5}, "own", "fails"),
        ({"relevant": -1.0}, "relevant", "fails"),
        ({"met": 0.1}, "met", "fails"),
        ({"met": -0.1}, "met", "in direction"),
        ({"unmet": 0.5}, "unmet", "fails"),
        ({"unmet": -0.3}, "unmet", "in direction"),
        ({"apart": 0.5}, "irrelevant", "fails"),
    ],
)
def test_claims_of_lemma_b5(changes, claim, verdict):
    found = verdicts("T-lemB.5", growth(**changes))
    assert found[claim] == verdict if claim else set(found.values()) == {verdict}


def value_rows(sign=1.0, relevant=0.0, norm=2.0, wrong=-0.5, batch=-0.5, apart=-1.0):
    def numbers(graph, n, step, wobble):
        yield {"right": n**relevant * wobble, "wrong": wrong * n**relevant, "right_share": sign, "missed": 0.5}

    rows = followed("luck", numbers)
    for part, values in (("norm", SETTINGS.norm_values), ("irrelevant", SETTINGS.irrelevant_values)):
        for x in values:
            for s in range(SEEDS):
                row = {"part": part, "graph": "complete", "x": x, "seed": s, "probe": "luck", "diverged": False}
                right = x ** (norm if part == "norm" else 0) * (1 + s / 99)
                rows.append({**row, "right": right, "missed": 0.5, "irrelevant": 0.5 * x**apart, "step": None})
    for x in SETTINGS.batches:
        for s in range(SEEDS):
            row = {"part": "batch", "graph": "complete", "x": x, "seed": s, "probe": "luck", "diverged": False}
            rows.append({**row, "unlucky": x**batch * (1 + s / 99), "step": None})
    return rows


@pytest.mark.parametrize(
    ("changes", "claim", "verdict"),
    [
        ({}, None, "holds"),
        ({"sign": 0.8}, "sign", "in direction"),
        ({"sign": 0.4}, "sign", "fails"),
        ({"relevant": -1.0}, "relevant", "fails"),
        ({"norm": 1.0}, "norm", "in direction"),
        ({"wrong": -0.05}, "opposite", "in direction"),
        ({"wrong": 0.2}, "opposite", "fails"),
        ({"batch": -0.2}, "unlucky", "in direction"),
        ({"apart": 0.2}, "irrelevant", "fails"),
    ],
)
def test_claims_of_lemma_b6(changes, claim, verdict):
    found = verdicts("T-lemB.6", value_rows(**changes))
    assert found[claim] == verdict if claim else set(found.values()) == {verdict}


def hidden_rows(lucky=1.0, others=1.0, rate=-0.5, length=0.5, apart=-1.0):
    def numbers(graph, n, step, wobble):
        for kind, power in ((True, lucky), (False, others)):
            along = (step * wobble) ** power
            yield {"lucky": kind, "along": along, "moved": along * n**length, "irrelevant": 0.0}

    rows = followed("hidden", numbers)
    for s in range(SEEDS):
        for m in SETTINGS.neuron_values:
            for step in STEPS:  # slow at first, then fast
                where = {"part": "neurons", "graph": "complete", "x": m, "seed": s, "probe": "hidden", "step": step}
                early, late = 0.001 * min(step, 80), 0.05 * (m / 100) ** rate * (1 + s / 99) * max(step - 80, 0)
                along = math.exp(early + late)
                rows.append({**where, "diverged": False, "lucky": True, "along": along})
        for x in SETTINGS.irrelevant_values:
            where = {"part": "irrelevant", "graph": "complete", "x": x, "seed": s, "probe": "hidden", "step": None}
            rows.append(
                {**where, "diverged": False, "lucky": True, "along": 2.0, "irrelevant": x**apart * (1 + s / 99)}
            )
    return rows


@pytest.mark.parametrize(
    ("changes", "claim", "verdict"),
    [
        ({}, "linear", "holds"),
        ({"lucky": 0.5}, "linear", "in direction"),
        ({}, "root", "holds"),
        ({}, "rate", "in direction"),
        ({"rate": -1.0}, "rate", "holds"),
        ({"rate": -1.0}, "root", "in direction"),
        ({}, "length", "holds"),
        ({"length": -0.4}, "length", "fails"),
        ({}, "irrelevant", "holds"),
        ({"apart": 0.1}, "irrelevant", "fails"),
        ({}, "unlucky", "holds"),
        ({"others": 2.0}, "unlucky", "fails"),
    ],
)
def test_claims_of_lemma_b7(changes, claim, verdict):
    assert verdicts("T-lemB.7", hidden_rows(**changes))[claim] == verdict


def test_the_rate_is_the_fastest_growth_after_the_first_tenth():
    found = rates(hidden_rows())
    assert found[100.0][0] == pytest.approx(0.05)
    steep = [r | {"along": 1e-9} if r["part"] == "neurons" and r["step"] == 10 else r for r in hidden_rows()]
    assert rates(steep)[100.0][0] == pytest.approx(0.05)  # step 10 of 320 does not count


def lucky_rows(prompt=0.0, named=0.0, share=0.125):
    rows = []
    for graph in GRAPHS:
        for n in VALUES:
            for s in range(SEEDS):
                where = {"part": "relevant", "graph": graph, "x": n, "seed": s, "diverged": False}
                size = share * (n / 4) ** prompt * (1 + s / 999)
                rows.append({**where, "probe": "luck", "positive": size, "negative": size, "ever": 0.9})
                count = round(400 * (n / 4) ** named)
                for kind, neurons in ((True, count), (False, 1000 - count)):
                    rows.append({**where, "probe": "lucky", "lucky": kind, "neurons": neurons, "large": 0})
    return rows


def test_claims_of_lemma_b9():
    assert set(verdicts("T-lemB.9", lucky_rows()).values()) == {"holds"}
    assert verdicts("T-lemB.9", lucky_rows(prompt=-0.5))["prompt"] == "fails"
    assert verdicts("T-lemB.9", lucky_rows(named=-0.5))["all"] == "fails"
    assert verdicts("T-lemB.9", lucky_rows(share=0.0625))["eighth"] == "fails"


@pytest.mark.parametrize(
    ("least", "end", "same", "every"),
    [(1, 1, "holds", "holds"), (0.8, 0.8, "in direction", "in direction"), (0.3, 0.4, "fails", "fails")],
)
def test_claims_of_lemma_b10(least, end, same, every):
    def numbers(graph, n, step, wobble):
        yield {"still": least if step == 40 else 1.0, "every": 0.5 if step == 0 else end}

    assert verdicts("T-lemB.10", followed("luck", numbers)) == {"same": same, "every": every}


class TestFewestTasks:
    settings = FewestSettings(seeds=SEEDS)

    def test_condition_3_2(self):
        ring = tuple((j, (j + 1) % 5) for j in range(5))
        assert meets(ring, 5)
        assert not meets(ring[:4], 5)
        assert not meets((*ring, (0, 2)), 5)  # 6/5 tasks per pattern and label
        assert meets(tuple((a, b) for a in range(5) for b in range(5) if a != b), 5)
        assert fewest_tasks(3) == 3

    def test_trainings_are_the_first_tasks_of_the_ring(self):
        for condition in find("T-lemB.11").conditions(self.settings):
            n, k = condition.columns["x"], condition.columns["tasks"]
            pairs = condition.cell.training.training.prompts.pairs.tolist()
            assert pairs == sorted([j, (j + 1) % n] for j in range(k))
            assert len(condition.cell.prompts.pairs) == n * (n - 1)

    def rows(self, fewest=0, enough=0.0, fewer=0.5):
        return [
            {
                "x": n,
                "tasks": k,
                "fewest": n - fewest,
                "seed": s,
                "hinge": enough if k == n else fewer,
                "diverged": False,
            }
            for n in self.settings.relevant_values
            for k in range(1, n + 1)
            for s in range(SEEDS)
        ]

    def test_claims(self):
        found = verdicts("T-lemB.11", self.rows(), self.settings)
        assert found == {"count": "holds", "enough": "holds", "fewer": "holds"}
        assert verdicts("T-lemB.11", self.rows(fewest=1), self.settings)["count"] == "fails"
        assert verdicts("T-lemB.11", self.rows(enough=0.3), self.settings)["enough"] == "fails"
        assert verdicts("T-lemB.11", self.rows(fewer=0.01), self.settings)["fewer"] == "fails"
