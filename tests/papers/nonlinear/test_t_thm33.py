"""T-thm3.3: sweeps hold fixed what they say, trainings are long enough, and claims tell right laws from wrong ones."""

import math

import pytest

from iclab.catalog import find
from iclab.papers.nonlinear.laws import GRAPHS, HALF, expected_steps, theorem_neurons, watched_training
from iclab.papers.nonlinear.thm33_settings import SWEEPS, Theorem33Settings
from iclab.study.fits import PowerLaw

SEEDS = 3
EXPERIMENT = find("T-thm3.3")
SETTINGS = Theorem33Settings(seeds=SEEDS)
BY_NAME = {sweep.name: sweep for sweep in SWEEPS}


def curve(columns, time, seed, slower=1.0):
    """Rows of a loss 2^(−t / T), which is 1/2 at T = time × slower."""
    return [
        {**columns, "seed": seed, "step": step, "hinge": 0.5 ** (step / time / slower), "diverged": False}
        for step in (0, time / 2, 0.9 * time, 1.5 * time, 6 * time)
    ]


def rows_of(sweep, bend=0.0):
    """Rows whose hitting time is x^(claimed power + bend) times the further factor, a little different per seed."""
    return [
        row
        for graph in sweep.graphs
        for x in sweep.values(SETTINGS)
        for seed in range(SEEDS)
        for row in curve(
            sweep.columns(graph, x), 100 * x ** (sweep.power + bend) * sweep.besides(x), seed, 1 + seed / 10
        )
    ]


def verdicts(rows):
    return {c.id.removeprefix("T-thm3.3."): c.verdict(rows)["verdict"] for c in EXPERIMENT.claims(SETTINGS)}


def test_times_are_read_off_the_made_up_curves_and_divided_by_the_further_factor():
    sweep = BY_NAME["relevant"]
    times = sweep.times(rows_of(sweep), "ring")
    assert times[8] == pytest.approx({0: 800, 1: 880, 2: 960}, rel=1e-6)
    assert PowerLaw(times).exponent[0] == pytest.approx(1.0)


@pytest.mark.parametrize("name", [sweep.name for sweep in SWEEPS])
def test_each_exponent_is_judged_by_its_own_power(name):
    sweep = BY_NAME[name]
    assert verdicts(rows_of(sweep))[name] == "holds"
    assert verdicts(rows_of(sweep, bend=0.3))[name] == ("in direction" if sweep.power else "fails")
    if sweep.power:
        assert verdicts(rows_of(sweep, bend=-2 * sweep.power))[name] == "fails"


def test_one_graph_is_enough_to_fail_and_a_seed_that_never_gets_there_forbids_holds():
    sweep = BY_NAME["eta"]
    wrong = [r for r in rows_of(sweep, bend=0.5) if r["graph"] == "ring"]
    right = [r for r in rows_of(sweep) if r["graph"] == "complete"]
    assert verdicts(right + wrong)["eta"] == "in direction"
    slow = [r | {"hinge": max(r["hinge"], 0.6)} if r["seed"] == 1 else r for r in rows_of(sweep)]
    assert verdicts(slow)["eta"] == "undecided"


def test_what_is_no_claim_of_the_paper_is_ours_and_trained_on_one_graph():
    ours = {c.id.removeprefix("T-thm3.3.") for c in EXPERIMENT.claims(SETTINGS) if c.ours}
    assert ours == {"relevant-alone", "scale", "neurons", "irrelevant", "shortest"}
    assert all(BY_NAME[name].graphs == ("complete",) for name in ours - {"shortest"})


@pytest.mark.parametrize("quick", [False, True])
def test_exponents_have_five_values_and_the_setting_is_inside_the_theorem(quick):
    settings = Theorem33Settings().quick() if quick else Theorem33Settings()
    for sweep in SWEEPS:
        values = sweep.values(settings)
        assert len(values) >= 5
        assert max(values) / min(values) >= (3 if sweep.name == "relevant" else 8 - 1e-9)
    own = settings.at("ring")
    assert own.irrelevant <= own.relevant
    assert own.attention_size > own.dimension + own.label_dimension
    assert own.context_length >= own.relevant * math.log(own.relevant)  # C.5


def test_sweeps_move_what_they_say():
    for x in SETTINGS.relevant_values:
        own = BY_NAME["relevant"].at(SETTINGS, "ring", x)
        assert (own.relevant, own.irrelevant, own.neurons) == (x, x, theorem_neurons(x))
        assert str(own.train_tasks) == "ring:1"
    assert BY_NAME["relevant-alone"].at(SETTINGS, "complete", 32).neurons == SETTINGS.neurons
    big = BY_NAME["irrelevant"].at(SETTINGS, "complete", 32)
    assert big.dimension == 40
    assert big.attention_size > 70
    for sweep in SWEEPS:
        for x in sweep.values(SETTINGS):
            own = sweep.at(SETTINGS, "ring", x)
            assert own.steps == math.ceil(1.7 * expected_steps(own)) <= SETTINGS.steps


def test_weights_are_kept_late_and_a_trial_stays_short():
    own = SETTINGS.at("ring")
    kept = watched_training(own, 20).recipe.kept
    assert kept[0] == 0
    assert kept[1] == own.steps // 4
    assert kept[-1] == own.steps
    assert SETTINGS.replace(steps=3).at("ring").steps == 3


def loss_rows(two_apart):
    return [
        {"part": f"distance {d}", "graph": "ring", "x": n, "seed": s, "hinge": loss + 0.001 * s, "diverged": False}
        for n in SETTINGS.ring_relevant
        for d, loss in ((1, 0.0), (2, two_apart), (3, 0.9))
        for s in range(SEEDS)
    ]


def test_tasks_two_edges_apart_decide_whether_m1_tasks_suffice():
    assert verdicts(loss_rows(0.02))["tasks"] == "holds"
    assert verdicts(loss_rows(0.2))["tasks"] == "fails"


def counted(error):
    return [
        {"part": "counted", "graph": g, "x": f, "seed": s, "same_examples": n, "error": e, "diverged": False}
        for g in GRAPHS
        for f in SETTINGS.test_fractions
        for s in range(SEEDS)
        for n, e in ((0, 0.6), (1, error + 0.0001 * s), (2, 0.5))
    ]


def test_one_example_with_the_querys_pattern_decides_9():
    assert verdicts(counted(0.001))["examples"] == "holds"
    assert verdicts(counted(0.05))["examples"] == "fails"
    lost = [r | {"error": None, "same_examples": None, "diverged": True} if r["seed"] == 1 else r for r in counted(0)]
    assert verdicts(lost)["examples"] == "undecided"


def test_prompts_of_9_are_as_long_as_it_says_and_distances_are_those_of_the_ring():
    for condition in EXPERIMENT.conditions(SETTINGS.replace(seeds=1)):
        part, prompts = condition.columns["part"], condition.cell.prompts
        if part == "counted":
            assert prompts.context_length == math.ceil(1 / condition.columns["x"] - 1e-9)
            assert prompts.relevant_fraction == condition.columns["x"]
        if part.startswith("distance"):
            n, steps = condition.columns["x"], int(part.rpartition(" ")[2])
            assert {min((a - b) % n, (b - a) % n) for a, b in prompts.pairs.tolist()} == {steps}
        elif part in BY_NAME:
            assert condition.cell.at == "every"
            assert HALF == 0.5


def length_rows(power=-1.0, constant=1.2):
    """Losses that are small from l_tr = constant × log M1 × α^power on."""
    return [
        {
            **{"part": f"length {n}", "graph": "complete", "x": a, "seed": s, "diverged": False},
            "hinge": 0.1 * (constant * math.log(8) * a**power * (1 + s / 99) / n) ** 4,
        }
        for a in SETTINGS.length_fractions
        for n in SETTINGS.train_lengths
        for s in range(SEEDS)
    ]


def test_l_tr_of_9_suffices_and_is_as_short_as_it_can_be():
    found = verdicts(length_rows())
    assert (found["train-length"], found["shortest"]) == ("holds", "holds")
    assert verdicts(length_rows(constant=4.0))["train-length"] == "fails"
    assert verdicts(length_rows(power=-0.5))["shortest"] == "in direction"


def test_l_tr_is_that_of_the_training_prompts_alone():
    for condition in EXPERIMENT.conditions(SETTINGS.replace(seeds=1)):
        part, _, length = condition.columns["part"].partition(" ")
        if part == "length":
            training = condition.cell.training.training
            assert training.prompts.context_length == int(length)
            assert condition.cell.prompts.context_length == SETTINGS.context_length
            assert training.prompts.relevant_fraction == condition.columns["x"]
            assert training.recipe.step_size == 1.0
