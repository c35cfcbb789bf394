"""M-gates and M-gating-functions: the logic of their claims on made-up rows, and the theorem at a size of seconds."""

import pytest

from iclab.catalog import find
from iclab.lab import Store, run
from iclab.models import MODELS
from iclab.papers.mamba.gates_rows import chosen, ratio, times, where
from iclab.papers.mamba.gates_settings import GATES, GateSettings
from iclab.papers.mamba.gating_functions import FunctionSettings
from iclab.study.edition import Edition

EXPERIMENT, FUNCTIONS = find("M-gates"), find("M-gating-functions")
SETTINGS = GateSettings(seeds=4, gates=("mamba", "linear", "mamba2", "gla-keys"), outlier_fractions=(0.0, 0.5, 0.6))
ERRORS = {"mamba": 0.001, "linear": 0.6, "mamba2": 0.58, "gla-keys": 0.1}
RATIOS = {"mamba": 0.01, "mamba2": 1.0, "linear": 1.0, "gla-keys": 0.4}


def made_up(errors=(), ratios=(), step_sizes=(), lost=()):
    """Make rows of four seeds that hardly differ, and of two seeds that step sizes were chosen on."""
    rows = []
    for model in SETTINGS.gates:
        error, share = (ERRORS | dict(errors))[model], (RATIOS | dict(ratios))[model]
        best = (SETTINGS.step_sizes | dict(step_sizes))[model]
        for seed in range(4):
            gone = (model, seed) in lost
            row = {"seed": seed, "diverged": gone, "prompts": 10_000}
            for fraction in SETTINGS.outlier_fractions:
                wrong = 0.001 if fraction == 0 else error + 1e-4 * seed
                rows.append(where("flip", model, fraction) | row | {"error": None if gone else wrong})
            for kind, gate in (("clean", 0.2), ("outlier", share * 0.2 * (1 + 0.001 * seed))):
                for place in range(1, 21):
                    own = {"kind": kind, "place": place, "gate": gate / 2**place}
                    rows.append(where("gates", model, 0.6) | row | (dict.fromkeys(own) if gone else own))
        for seed in (1000, 1001):
            for size in SETTINGS.step_size_grid:
                loss = 0.1 if size == best else 0.2 + 0.01 * seed % 3
                loss = None if size > best else loss  # larger ones diverge
                rows.append(
                    where("tuning", model, None, size) | {"seed": seed, "hinge": loss, "diverged": loss is None}
                )
    return rows


def verdicts(rows, experiment=EXPERIMENT, settings=SETTINGS):
    short = len(experiment.id) + 1
    return {claim.id[short:]: claim.verdict(rows)["verdict"] for claim in experiment.claims(settings)}


GOOD = {
    "learns": "holds",
    "filters.mamba": "holds",
    "filters.mamba2": "fails",
    "filters.gla-keys": "in direction",
    "extends.mamba2": "fails",
    "extends.gla-keys": "in direction",
    "blind": "holds",
    "tuned": "holds",
}


def test_verdicts_of_made_up_gates():
    assert verdicts(made_up()) == GOOD


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"ratios": {"mamba2": 0.05}}, {"filters.mamba2": "holds", "blind": "fails"}),
        ({"ratios": {"gla-keys": 0.95}}, {"filters.gla-keys": "fails"}),
        ({"errors": {"gla-keys": 0.002}}, {"extends.gla-keys": "holds"}),
        ({"errors": {"gla-keys": 0.55}}, {"extends.gla-keys": "fails"}),
        ({"step_sizes": {"mamba2": 0.1}}, {"tuned": "fails"}),
        ({"lost": {("mamba", 2)}}, {"filters.mamba": "undecided"}),
    ],
)
def test_each_claim_follows_its_own_numbers(changes, expected):
    assert verdicts(made_up(**changes)) == GOOD | expected


def test_the_rule_takes_no_step_size_with_a_diverged_seed():
    rows = made_up(step_sizes={"linear": 0.1})
    assert chosen(rows, SETTINGS, "linear") == 0.1
    assert chosen([row for row in rows if row["step_size"] != 0.3], SETTINGS, "linear") is None  # not all were tried
    worse = [row | {"hinge": None} if row["step_size"] == 0.1 and row["seed"] == 1001 else row for row in rows]
    assert chosen(worse, SETTINGS, "linear") in (0.01, 0.03)


def test_steps_to_learn_are_read_between_kept_steps():
    rows = [
        where("course", "mamba") | {"seed": seed, "step": step, "hinge": hinge, "diverged": False}
        for seed in (0, 1)
        for step, hinge in ((0, 1.0), (10, 0.75), (20, 0.25 + seed))
    ]
    found = times(rows, "mamba")
    assert 10 < found[0] < 20
    assert found[1] is None


def test_every_gate_of_the_table_can_be_described():
    settings = GateSettings(gates=tuple(GATES))
    for name, gate in GATES.items():
        training = settings.training(name)
        assert training.recipe.step_size in settings.step_size_grid
        assert (training.engine == "fused") == (
            gate.model not in ("mamba3", "mlstm", "deltanet") and name != "gla-keys"
        )
    assert {gate.model for gate in GATES.values()} <= MODELS.keys()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"gates": ("mamba", "mamba9")}, "gates = mamba9: must be one of mamba, linear, mamba2"),
        ({"temperature": 0.0}, "temperature = 0"),
        ({"outlier_fractions": (0.5, 1.0)}, "outlier_fractions"),
    ],
)
def test_bad_settings_are_refused_in_one_line(changes, message):
    with pytest.raises(ValueError, match=message) as raised:
        GateSettings(**changes)
    assert "\n" not in str(raised.value)


@pytest.mark.slow
def test_the_theorem_holds_and_mamba_filters_in_a_short_training(tmp_path):
    small = {"steps": 150, "test_prompts": 1_000, "tuning": False, "outlier_fractions": (0.0, 0.6), "watched": 4}
    settings = SETTINGS.replace(gates=("mamba", "linear", "mamba2", "retnet", "mamba2-scaled"), **small)
    edition, store = Edition(EXPERIMENT, settings), Store(tmp_path)
    run(edition.cells, store, workers=1, quiet=True)
    rows = edition.rows(store)
    for name in ("mamba2", "retnet", "linear"):
        assert all(value == pytest.approx(1.0, abs=0.03) for value in ratio(rows, name, 1).values()), name
    for name in ("mamba", "mamba2-scaled"):
        assert all(value < 0.1 for value in ratio(rows, name, 1).values()), name
    found = verdicts(rows, settings=settings)
    assert (found["filters.mamba"], found["extends.mamba2"], found["blind"]) == ("holds", "fails", "holds")


def test_gating_functions_are_judged_after_the_last_step():
    settings = FunctionSettings(seeds=4, functions=("sigmoid", "floor"), steps=10)

    def rows(floor):
        return [
            {"model": name, "step_size": size, "outlier_fraction": fraction, "step": step, "seed": seed}
            | {"error": 0.5 if step == 1 else error + 1e-4 * seed, "prompts": 10_000, "diverged": False}
            for name, error in (("sigmoid", 0.001), ("floor", floor))
            for size in settings.function_steps
            for fraction in settings.outlier_fractions
            for step in (1, 10)
            for seed in range(4)
        ]

    good = {"robust.sigmoid": "holds", "robust.floor": "holds", "alike.floor": "holds"}
    assert verdicts(rows(0.002), FUNCTIONS, settings) == good
    assert verdicts(rows(0.05), FUNCTIONS, settings) == good | {"robust.floor": "fails", "alike.floor": "fails"}
