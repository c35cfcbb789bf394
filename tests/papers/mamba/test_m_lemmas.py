"""M-velocity, M-lem3 … M-lem6, M-cor1, M-cor2: their laws against other code, and their predicates on made-up rows."""

import math

import numpy as np
import pytest
import torch

from iclab.catalog import find
from iclab.models import Mamba
from iclab.papers.mamba.cor1_noise import trainings
from iclab.papers.mamba.growth_settings import NOISE, GrowthSettings, printed_bound
from iclab.papers.mamba.late import LateSettings
from iclab.papers.mamba.lem4 import PhaseOneLaws
from iclab.papers.mamba.lemmas import LemmaSettings, combined, quotient, scaled
from iclab.papers.mamba.phase_one import PhaseOneSettings
from iclab.prompts import Stream

SEEDS = 4


def judged(id_, make_rows, **changes):
    experiment = find(id_)
    settings = experiment.settings().quick().replace(seeds=SEEDS, **changes)
    rows = make_rows(settings)
    return {claim.id.removeprefix(f"{id_}."): claim.verdict(rows)["verdict"] for claim in experiment.claims(settings)}


def seeds(numbers, /, **columns):
    """Make one row per seed that hardly differs from the others."""
    return [
        columns | {"seed": s, "diverged": False} | {name: x * (1 + 1e-4 * (s - 1.5)) for name, x in numbers.items()}
        for s in range(SEEDS)
    ]


# The laws.


def test_the_first_speeds_by_hand():
    """(B) with η/4 = 0.005, κ_a‖v*‖/V = 3, β/M1 = 3/5 and S̄ = ½ δ²β² = 0.045."""
    own = LemmaSettings(context_length=40, outlier_fraction=0.45, relevant=5, outlier=2)
    outlier, clean = own.gate_moves(1e-6)
    assert outlier / 1e-6 == pytest.approx(-0.005 * 0.45 * 0.55 * 3 * 0.045, rel=1e-3)
    assert clean / 1e-6 == pytest.approx(-0.005 * 0.55 * 0.6 * 0.045, rel=1e-3)


@pytest.mark.parametrize("length", [2, 5])
def test_the_first_speeds_are_those_of_the_gradient(length):
    """The gradient of E zF at w = 0 over many prompts, by autograd on the reference model, also for short prompts."""
    own = PhaseOneSettings(
        context_length=length, relevant=3, irrelevant=1, outlier=1, dimension=5, irrelevant_scale=0.0
    )
    basis = own.prompts().patterns.basis(0)
    model = Mamba(6, init_scale=own.init_scale, gate_scale=0.0)
    model.initialise(basis, 0)
    batch = own.prompts().draw([0], Stream.TEST, count=40_000)
    tokens = batch.dense(torch.from_numpy(basis.vectors.copy()).float()[None])[0].float()
    target = torch.from_numpy(batch.target[0].astype(np.float32))
    (target * model(tokens).output).mean().backward()
    moved = own.step_size * model.gate.grad[:-1].double().numpy() @ basis.vectors.T / 3.0
    outlier, clean = own.gate_moves(1, held=True)
    assert moved[-1] == pytest.approx(outlier, rel=0.06)
    assert moved[:3].mean() == pytest.approx(clean, rel=0.06)


def test_growth_is_the_exponential_of_the_laplacian():
    ring = GrowthSettings(tasks="ring:1", relevant=6)
    small = 1e-3
    assert ring.weight(small, 0) == pytest.approx(ring.graph_time(small), rel=1e-3)
    assert ring.weight(small, 1) == pytest.approx(-ring.graph_time(small) / 2, rel=1e-3)
    assert ring.weight(100, 2) > 0  # second order, where (25) has 0
    assert ring.output(ring.half_time) == pytest.approx(0.5, rel=1e-6)
    assert GrowthSettings(relevant=6).weight(50, 1) == pytest.approx(-GrowthSettings(relevant=6).weight(50, 0) / 5)


def test_printed_bounds_by_hand():
    own = LemmaSettings(batch_size=100)
    root = math.sqrt(math.log(100) / 100)
    assert printed_bound(own, "(27)", 10) == pytest.approx(0.02 * 3 * 10 / (8 * 10) * root / 9)
    assert printed_bound(own, "(24)", 1) == pytest.approx(0.02 * 3 * 0.3 * 2 / (8 * 3) * root / 9)


def test_the_end_of_phase_one_by_hand():
    own = PhaseOneLaws(usual_step_size=0.02)
    assert own.phase_end == pytest.approx(3 / (0.02 * 9 * 2 * 0.7))  # the smaller of the two
    assert own.replace(outlier=10_000).phase_end == pytest.approx(
        8 ** (2 / 3) * 10_000 ** (1 / 3) / (0.02 * 3 ** (2 / 3) * 2 ** (1 / 3) * 0.7)
    )


def test_kept_steps_are_multiples_of_the_trained_time():
    own = LateSettings()
    training = own.usual(4)
    assert {own.step(times, 4) for times in (1, 2, 4)} <= set(training.recipe.kept)
    assert own.trained_after(2) == 2 * own.trained_after()
    assert own.replace(step_size=0.05).trained_after() == pytest.approx(2 * own.trained_after())


def test_numbers_of_lost_seeds_stay_lost():
    assert scaled({0: 2.0, 1: None}, 3.0) == {0: 6.0, 1: None}
    assert quotient({0: 2.0, 1: 1.0, 2: 1.0}, {0: 4.0, 1: None}) == {0: 0.5, 1: None}
    assert combined([(2.0, {0: 1.0, 1: 1.0}), (1.0, {0: 3.0, 1: None})]) == {0: 5.0, 1: None}


# The predicates.


def gate_rows(settings, outlier, clean=None, **columns):
    rows = []
    for kind, value in (("outlier", outlier), ("relevant", clean)):
        if value is not None:
            rows += seeds({"mean": value}, matrix="gate", kind=kind, **columns)
    return rows


def phase_one(settings, law):
    rows = []
    for name in ("fraction", "scale", "kinds", "relevant", "norm"):
        for value, own in settings.sweep(name).items():
            rows += gate_rows(own, *law(own, own.steps), sweep=name, value=value, step=None)
    for step in (1, 2, 4, 8, 16):
        rows += gate_rows(settings, *law(settings, step), sweep="time", value=None, step=step)
    for step in (30, 60, 120):
        long = getattr(settings, "long", settings)
        rows += gate_rows(long, *law(long, step), sweep="course", value=None, step=step)
    rows += seeds({"q90": 0.5}, sweep="paper", value=None, kind="clean", quantity="logit", step=None)
    return rows


def mean_field(own, step):
    return own.gate_moves(step)


def printed(own, step):
    """(33) and (34), with a constant that agrees with (B) at the base setting."""
    reach = own.step_size * step * own.pattern_norm**2 * (1 - own.outlier_fraction) * 1e-3
    return -0.6 * reach * own.outlier_scale / own.outlier, -reach / own.relevant / own.pattern_norm


def test_velocity_tells_the_missing_factor():
    def found(law):
        return judged("M-velocity", lambda settings: phase_one(settings, law))

    assert set(found(mean_field).values()) == {"holds"}
    assert found(printed)["outliers"] == found(printed)["condition"] == "fails"
    lopsided = found(lambda own, step: (1.2 * own.gate_moves(step)[0], own.gate_moves(step)[1]))
    assert lopsided == {"outliers": "fails", "clean": "holds", "condition": "fails", "course": "fails"}


def test_lemma_4_as_printed_and_as_restored():
    def found(law):
        return judged("M-lem4", lambda settings: phase_one(settings, law))

    ours, theirs = found(mean_field), found(printed)
    assert {name for name in ours if ours[name] == "fails"} == {"fraction", "kinds-logit", "order-printed"}
    assert ours["norm-clean"] == "in direction"  # β⁴ where (34) prints β²
    assert theirs["fraction"] == theirs["norm-clean"] == theirs["kinds"] == "holds"
    assert (theirs["fraction-restored"], theirs["norm-restored"]) == ("fails", "in direction")
    upwards = found(lambda own, step: tuple(-x for x in own.gate_moves(step)))
    assert upwards["order"] == "fails"


def growth(settings, unmet=1.0, time_power=0.5, batch_power=-0.5, irrelevant_powers=(-0.5, -1.0)):
    rows = []

    def entries(own, moved, noise, **columns):
        graph = own.theory.graph
        for matrix in ("key", "query"):
            for kind, distance in (("own", 0), ("met", 1), ("unmet", 2)):
                if kind != "unmet" or not graph.complete:
                    value = own.init_scale * own.weight(moved, distance) * (unmet if kind == "unmet" else 1.0)
                    extra = {"matrix": matrix, "kind": kind, "distance": distance}
                    rows.extend(seeds({"mean": value, "rms": abs(value)}, **extra, **columns))
            for kind in NOISE.values():
                extra = {"matrix": matrix, "kind": kind, "distance": None}
                rows.extend(seeds({"mean": 0.0, "rms": noise(kind)}, **extra, **columns))

    for graph in settings.graphs:
        own = settings.replace(tasks=graph)
        for step in (1, 2, 4, 8, 16, 32, 64, round(own.half_time)):
            entries(own, step, lambda kind, t=step: 1e-6 * t**time_power, sweep="graph", value=str(graph), step=step)
    for name in ("batch", "relevant", "irrelevant", "clean", "norm"):
        for value, own in settings.sweep(name).items():

            def noise(kind, name=name, value=value):
                power = {"batch": batch_power}.get(name, 0.0)
                if name == "irrelevant":
                    power = irrelevant_powers[kind == "irrelevant other"]
                return 1e-6 * value**power

            entries(own, settings.short, noise, sweep=name, value=value, step=None)
    return rows


def test_lemma_3():
    def found(**law):
        return judged("M-lem3", lambda settings: growth(settings, **law))

    ours = found()
    bad = {"met-size", "unmet", *(f"noise-irrelevant.{n}" for n in (27, 28, 29, 30))}
    assert {name for name, verdict in ours.items() if verdict != "holds"} == bad
    zero = found(unmet=0.0)
    assert zero["unmet"] == "holds"
    assert zero["unmet-kernel"] == "fails"
    assert found(time_power=1.4)["noise-time"] == "fails"
    assert found(batch_power=0.0)["noise-batch"] == "fails"
    assert found(irrelevant_powers=(-1.0, -2.0)) == ours | {f"noise-irrelevant.{n}": "holds" for n in (27, 28, 29, 30)}


def reach_rows(settings, power):
    rows = []
    for length in settings.lengths:
        for time in settings.times:
            where = {"length": length, "time": time}
            for kind in ("clean", "outlier"):
                rows += seeds({"mean": 0.0, "q99": 0.0}, kind=kind, quantity="logit", **where)
            value = {"mean": 1.0 * (length / 40) ** power, "q99": 2.0 * (length / 40) ** power}
            rows += seeds(value, kind="prompt", quantity="reach", **where)
    return rows


def test_lemma_6():
    assert set(judged("M-lem6", lambda settings: reach_rows(settings, 0.0)).values()) == {"holds"}
    grows = judged("M-lem6", lambda settings: reach_rows(settings, 1.0))
    assert set(grows.values()) == {"fails"}


def kernel_rows(settings, sweep, value, mean, spread):
    """Rows of a kernel whose entries over the own one are mean ± spread, half of them each."""
    found = []
    for j, k in np.ndindex(settings.relevant, settings.relevant):
        ratio = 1.0 if j == k else mean + spread * (1 if (k - j) % settings.relevant % 2 else -1)
        where = {"tasks": sweep, "value": value, "query_pattern": j, "pattern": k, "distance": int(j != k)}
        found += seeds({"entry": 9.0 * ratio}, **where)
    return found


def attention_rows(settings, unmet, power=0.0, mean=-0.14, batch_power=-0.5, clean_power=-0.5):
    rows = [
        row
        for sweep, noise in (("batch", batch_power), ("clean", clean_power))
        for value in trainings(settings, sweep)
        for row in kernel_rows(
            settings, sweep, value, mean, 0.1 * (value / 8) ** noise if sweep == "batch" else 0.01 * value**noise
        )
    ]

    def add(ratio, same=20.0, **where):
        rows.extend(seeds({"same": same, "other": same * ratio}, **where))

    for m in settings.relevants:
        for tasks in ("all", "all tasks, w = 0"):
            for alpha in settings.test_fractions:
                add(-1 / (m - 1), 20.0 * m**power, tasks=tasks, relevant=m, pairs="met", alpha=alpha, times=1)
    for pairs, ratio in (("met", -0.7), ("never met", unmet)):
        for alpha in settings.test_fractions:
            for times in settings.multiples:
                add(ratio, tasks="ring:1", relevant=settings.relevant, pairs=pairs, alpha=alpha, times=times)
    return rows


def test_corollary_1():
    def found(**law):
        return judged("M-cor1", lambda settings: attention_rows(settings, **law))

    assert set(found(unmet=0.0).values()) == {"holds"}
    assert found(unmet=0.4) == found(unmet=0.0) | {"rest-unmet": "fails"}
    assert found(unmet=0.0, power=-0.5)["same-relevant"] == "fails"


def test_corollary_1_task_by_task():
    def found(**law):
        return judged("M-cor1", lambda settings: attention_rows(settings, 0.0, **law))

    assert found(batch_power=-1.0)["noise"] == "in direction"
    assert found(batch_power=0.2)["noise"] == "fails"
    assert found(clean_power=-1.5)["noise-clean"] == "in direction"
    assert found(clean_power=-2.5)["noise-clean"] == "fails"
    assert found(mean=0.3)["rest-batch"] == "fails"  # above B^−½ at B = 128 and more
    assert found(mean=-5.0)["rest-batch"] == "holds"  # (16) is a bound from above


def gates_by_rank(settings, outlier_power, fade, length_power):
    rows = []
    for scale in settings.scales:
        for m in settings.relevants:
            where = {"sweep": "outliers", "value": m, "scale": scale, "times": 1}
            value = 0.1 * m ** (outlier_power * scale)
            rows += seeds({"q99": value}, kind="outlier", quantity="gate", **where)
    for sweep, grid in (("ranks", settings.test_fractions), ("lengths", settings.lengths)):
        for value in grid:
            for times in settings.multiples if sweep == "ranks" else (1,):
                where = {"sweep": sweep, "value": value, "scale": None, "times": times}
                start = 0.2 * value**length_power if sweep == "lengths" else 0.2
                for place in range(1, 9):
                    gate = start * fade ** (place - 1)
                    rows += seeds({"gate": gate}, kind="clean_rank", place=place, **where)
    return rows


def test_corollary_2():
    def found(outlier_power=-0.6, fade=0.7, length_power=0.0):
        return judged("M-cor2", lambda settings: gates_by_rank(settings, outlier_power, fade, length_power))

    assert set(found().values()) == {"holds"}
    assert found(outlier_power=-0.1)["outliers"] == "fails"
    assert found(fade=0.4)["halving"] == "fails"
    assert found(length_power=-0.5)["nearest"] == "fails"


def logit_rows(settings, slope, fall):
    rows = []
    for m in settings.relevants:
        for times in settings.multiples:
            where = {"sweep": "relevant", "value": m, "times": times, "quantity": "logit", "step": None}
            rows += seeds(dict.fromkeys(("mean", "q90"), -slope * math.log(m)), kind="outlier", **where)
            rows += seeds({"mean": -1.2, "q90": -1.0}, kind="clean", **where)
    for loss in ("hinge", "linear"):
        start = settings.over_time(loss)[1]
        for k in range(6):
            step = round(start * 2**k)
            where = {"sweep": loss, "value": None, "times": None, "step": step, "matrix": "gate"}
            rows += seeds({"mean": -fall(step / start)}, kind="outlier", **where)
    return rows


def test_lemma_5():
    def found(slope, fall):
        return judged("M-lem5", lambda settings: logit_rows(settings, slope, fall), relevants=(4, 6, 8, 16))

    good = found(2.0, lambda t: 0.5 + 0.1 * math.log(t))
    assert {name for name, verdict in good.items() if verdict != "holds"} <= {"mean-field"}
    assert found(0.2, lambda t: 0.5 + 0.1 * math.log(t))["outliers"] == "fails"
    stopped = found(2.0, lambda t: 0.5 + 0.1 * (1 - 1 / t))
    assert stopped["logarithm"] == stopped["logarithm-linear"] == "fails"
