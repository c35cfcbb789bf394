"""M-thm1 and M-thm3: sweeps hold fixed what they say, and claims tell right laws from wrong ones in made-up rows."""

import math

import pytest

from iclab.catalog import find
from iclab.papers.mamba import thm1_settings, thm3
from iclab.papers.mamba.thm1_conditions import READINGS, needed_strength
from iclab.papers.mamba.thm1_settings import FIXED, SWEEPS, TWINS, Theorem1Settings
from iclab.papers.mamba.thm3_settings import LINEAR, MAMBA, OTHERS, Theorem3Settings
from iclab.papers.mamba.times import HALF, last, ratio

SEEDS = 3


def curve(columns, time, seed, slower=1.0):
    """Rows of a loss 2^(−t / T), which is 1/2 at T = time × slower."""
    return [
        {**columns, "seed": seed, "step": step, "hinge": 0.5 ** (step / time / slower), "error": 0.0, "diverged": False}
        for step in (0, time / 2, 0.9 * time, 1.5 * time, 6 * time)
    ]


def rows_of(sweep, values, law):
    """Rows whose hitting time at ℓ = 0.5 is law(x), a little different for each seed."""
    return [
        row for x in values for seed in range(SEEDS) for row in curve(sweep.columns(x), law(x), seed, 1 + 0.1 * seed)
    ]


def verdicts(id_, settings, rows):
    return {claim.id: claim.verdict(rows)["verdict"] for claim in find(id_).claims(settings)}


class TestHittingTimes:
    def test_times_are_those_of_the_made_up_curves(self):
        times = SWEEPS["eta"].times(rows_of(SWEEPS["eta"], (0.01, 0.1), lambda x: 1 / x), HALF)
        assert times[0.01] == pytest.approx({0: 100, 1: 110, 2: 120})
        assert times[0.1] == pytest.approx({0: 10, 1: 11, 2: 12})

    def test_a_seed_that_never_gets_there_or_diverges_has_no_time(self):
        rows = [row | {"hinge": max(row["hinge"], 0.6)} for row in curve(SWEEPS["eta"].columns(1.0), 100, 0)]
        rows += curve(SWEEPS["eta"].columns(1.0), 100, 1)
        rows.append({**SWEEPS["eta"].columns(1.0), "seed": 2, "step": None, "hinge": None, "diverged": True})
        times = SWEEPS["eta"].times(rows, HALF)[1.0]
        assert times[0] is None
        assert times[1] == pytest.approx(100)
        assert times[2] is None

    def test_rows_of_other_parts_and_models_are_left_out(self):
        rows = rows_of(MAMBA, (10,), lambda x: 5.0) + rows_of(LINEAR, (10,), lambda x: 7.0)
        assert MAMBA.times(rows, HALF)[10][0] == pytest.approx(5.0)
        assert LINEAR.times(rows, HALF)[10][0] == pytest.approx(7.0)

    def test_last_reads_one_number_per_seed_and_none_of_a_diverged_one(self):
        columns = {"part": "batch", "model": "mamba", "x": 4, "by": 0}
        rows = [{**columns, "seed": 0, "hinge": h, "kind": k, "diverged": False} for k, h in (("a", 0.9), ("b", 0.2))]
        rows.append({**columns, "seed": 1, "hinge": None, "diverged": True})
        assert last(rows, "hinge", "batch", kind="b") == {4: {0: 0.2, 1: None}}

    def test_ratios_are_paired(self):
        assert ratio({1: {0: 6.0, 1: 8.0, 2: None}}, {1: {0: 2.0, 2: 4.0}}, factor=10) == {1: {0: 30.0, 2: None}}


class TestSweeps:
    settings = Theorem1Settings()

    @pytest.mark.parametrize("beta", [1.0, 6.0])
    def test_norm_keeps_the_first_score_and_the_strength_of_outliers(self, beta):
        own = SWEEPS["norm"].at(self.settings, beta)
        assert own.pattern_norm == beta
        assert own.init_scale * beta == pytest.approx(0.3)
        assert own.train_outlier_scale / beta == pytest.approx(2 / 3)
        assert FIXED["norm"].at(self.settings, beta).init_scale == self.settings.init_scale

    def test_clean_keeps_ten_clean_examples(self):
        for x in self.settings.clean_values:
            own = SWEEPS["clean"].at(self.settings, x)
            assert own.clean * own.context_length == pytest.approx(10)
            assert FIXED["clean"].at(self.settings, x).context_length == self.settings.context_length

    @pytest.mark.parametrize("sweep", [LINEAR, *OTHERS.values()], ids=lambda s: s.name)
    def test_linear_starts_equally_small_everywhere(self, sweep):
        settings = Theorem3Settings()
        for x in settings.values(sweep):
            own = sweep.at(settings, x)
            start = (own.init_scale * own.pattern_norm) ** 2 * own.context_length * own.clean
            assert start == pytest.approx(settings.start)

    def test_mean_field_is_e_by_hand(self):
        """(E) at M1 = 8, l = 40, p_a = 0.3, β = 3, δ = 0.1, η = 0.02, g = 1/2; and with g = l for linear."""
        expected = 7 / (0.02 * 9 * 0.7 * 0.5) * math.log(1 / (0.7 * 0.5 * 0.09))
        assert self.settings.predicted("mamba") == pytest.approx(expected, rel=1e-6)
        own = LINEAR.at(Theorem3Settings(), 40)
        by_hand = 7 / (own.step_sizes["linear"] * 9 * 0.9 * 40) * math.log(1 / 0.05)
        assert own.predicted("linear") == pytest.approx(by_hand, rel=1e-6)

    def test_training_is_a_multiple_of_the_mean_field_within_the_limit(self):
        training = self.settings.training("mamba", 2.0)
        assert training.recipe.steps == math.ceil(2 * self.settings.predicted("mamba"))
        assert training.recipe.frozen == ()
        assert self.settings.replace(steps=7).training("mamba", 2.0).recipe.steps == 7
        twin = self.settings.training("mamba", 2.0, frozen=True)
        assert twin.recipe.frozen == ("gate",)
        assert twin.model.options["gate_scale"] == 0

    @pytest.mark.parametrize("quick", [False, True])
    def test_judged_exponents_have_five_values_over_a_factor_of_eight(self, quick):
        for kind, sweeps in (
            (Theorem1Settings, SWEEPS.values()),
            (Theorem3Settings, (LINEAR, MAMBA, *OTHERS.values())),
        ):
            settings = kind().quick() if quick else kind()
            for sweep in sweeps:
                values = settings.values(sweep)
                assert len(values) >= 5
                assert max(values) / min(values) >= 8 - 1e-9

    def test_values_of_every_sweep_are_found(self):
        for sweep in (*SWEEPS.values(), *TWINS.values(), *FIXED.values()):
            assert len(self.settings.values(sweep)) >= 5


class TestClaimsOfTheorem1:
    settings = Theorem1Settings(seeds=SEEDS)

    def steps(self, bend=0.0):
        return [
            row
            for sweep in SWEEPS.values()
            for row in rows_of(sweep, self.settings.values(sweep), lambda x, p=sweep.power: 100 * x ** (p + bend))
        ]

    def test_the_law_holds_where_it_is_true(self):
        found = verdicts("M-thm1", self.settings, self.steps())
        assert {v for id_, v in found.items() if ".steps" in id_} == {"holds"}
        assert found["M-thm1.scale"] == "holds"

    def test_wrong_exponents_hold_in_direction_or_fail(self):
        found = verdicts("M-thm1", self.settings, self.steps(bend=0.3))
        for name in ("eta", "relevant", "clean", "norm"):
            assert found[f"M-thm1.steps.{name}"] == "in direction"
        assert found["M-thm1.steps.length"] == "fails"
        assert found["M-thm1.scale"] == "fails"

    def test_the_wrong_sign_fails(self):
        rows = rows_of(SWEEPS["relevant"], self.settings.relevant_values, lambda x: 100 / x)
        assert verdicts("M-thm1", self.settings, rows)["M-thm1.steps.relevant"] == "fails"

    def test_a_seed_that_never_gets_there_forbids_holds(self):
        slow = [r for r in self.steps() if r["part"] == "eta" and r["seed"] == 1]
        rows = [r | {"hinge": max(r["hinge"], 0.2)} if r in slow else r for r in self.steps()]
        found = verdicts("M-thm1", self.settings, rows)
        assert found["M-thm1.steps.eta"] == "holds"
        assert found["M-thm1.steps-late.eta"] == "undecided"

    def test_too_few_values_are_not_judged(self):
        rows = rows_of(SWEEPS["eta"], (0.01, 0.02, 0.04, 0.08), lambda x: 1 / x)
        assert verdicts("M-thm1", self.settings, rows)["M-thm1.steps.eta"] == "not run"

    def test_mean_field_law_of_delta(self):
        sweep = SWEEPS["scale"]
        expected = sweep.predicted(self.settings, self.settings.scale_values)
        found = verdicts("M-thm1", self.settings, rows_of(sweep, self.settings.scale_values, lambda x: expected[x]))
        assert found["M-thm1.logarithm"] == "holds"
        assert found["M-thm1.scale"] == "fails"

    def strength_rows(self, powers):
        """Gates whose ratio is 1 / (1 + (κ / κ*)²), so that it is 1/2 at κ*."""
        axes = {"outlier": (1, 4, 8), "norm": (1.5, 3.0, 6.0), "relevant": (4, 8, 16)}
        rows = []
        for (axis, values), power in zip(axes.items(), powers, strict=True):
            for value in values:
                needed = (value / values[1]) ** power
                for kappa in (2.0**k for k in range(-12, 13)):
                    columns = {"part": f"strength.{axis}", "model": "mamba", "x": kappa, "by": value}
                    for seed in range(SEEDS):
                        for kind, gate in (("clean", 0.4), ("outlier", 0.4 / (1 + (kappa / needed) ** 2))):
                            row = {"seed": seed, "kind": kind, "quantity": "gate", "mean": gate, "diverged": False}
                            rows.append(columns | row)
        return rows

    @pytest.mark.parametrize(
        ("truth", "holding"),
        [
            ("printed", {"strength", "strength-proof"}),
            ("proof", {"strength-proof"}),
            ("mean field", {"strength-proof", "strength-mean-field"}),
        ],
    )
    def test_readings_of_condition_ii(self, truth, holding):
        found = verdicts("M-thm1", self.settings, self.strength_rows(READINGS[truth]))
        mine = {id_.removeprefix("M-thm1."): v for id_, v in found.items() if ".strength" in id_}
        assert {id_ for id_, v in mine.items() if v == "holds"} == holding
        assert {id_ for id_, v in mine.items() if v == "fails"} == set(mine) - holding

    def test_needed_strength_is_where_the_ratio_is_one_half(self):
        found = needed_strength(self.strength_rows((0.5, 1.0, -0.5)), "norm")
        assert {x: by_seed[0] for x, by_seed in found.items()} == pytest.approx(
            {1.5: 0.5, 3.0: 1.0, 6.0: 2.0}, rel=0.05
        )

    @pytest.mark.parametrize(
        ("losses", "verdict"),
        [((1.0, 0.4, 0.1, 0.009, 0.008, 0.009), "holds"), ((1.0, 0.9, 0.8, 0.7, 0.6, 0.5), "in direction")],
    )
    def test_batches(self, losses, verdict):
        rows = [
            {
                "part": "batch",
                "model": "mamba",
                "x": b,
                "by": 0,
                "seed": s,
                "hinge": h * (1 + s / 50),
                "diverged": False,
            }
            for b, h in zip(self.settings.batch_values, losses, strict=True)
            for s in range(SEEDS)
        ]
        assert verdicts("M-thm1", self.settings, rows)["M-thm1.batch"] == verdict

    @pytest.mark.parametrize(("power", "verdict"), [(0.0, "holds"), (1.0, "fails")])
    def test_length_that_is_needed(self, power, verdict):
        """A loss of 1/(1 + 9 l / l*) is 0.1 at l* = 6 (M1/4)^power: log M1 is enough for power 0, not for 1."""
        rows = [
            {
                **{"part": "short", "model": "mamba", "x": length, "by": m, "seed": s, "diverged": False},
                "hinge": 1 / (1 + 9 * length / (6 * (m / 4) ** power)) * (1 + s / 1000),
            }
            for m in self.settings.short_relevant
            for length in self.settings.short_lengths
            for s in range(SEEDS)
        ]
        assert verdicts("M-thm1", self.settings, rows)["M-thm1.length"] == verdict


class TestClaimsOfTheorem3:
    settings = Theorem3Settings(seeds=SEEDS)

    def lengths(self, linear_power):
        values = self.settings.length_values
        ends = rows_of(LINEAR, values, lambda x: 1000 * x**linear_power)
        return rows_of(MAMBA, values, lambda x: 200.0) + ends

    def test_ratio_holds_if_linear_is_faster_by_l(self):
        found = verdicts("M-thm3", self.settings, self.lengths(-1))
        assert found["M-thm3.ratio"] == "holds"
        assert found["M-thm3.steps.length"] == "holds"
        assert found["M-thm3.steps.length-mamba"] == "holds"

    def test_ratio_fails_if_l_does_not_matter(self):
        found = verdicts("M-thm3", self.settings, self.lengths(0))
        assert found["M-thm3.ratio"] == "fails"
        assert found["M-thm3.steps.length"] == "fails"

    def test_constant_is_that_of_the_mean_field(self):
        values = self.settings.length_values
        times = {s.model: s.predicted(self.settings, values) for s in (MAMBA, LINEAR)}
        for factor, verdict in ((1.0, "holds"), (0.5, "fails")):
            rows = rows_of(MAMBA, values, lambda x, f=factor: f * times["mamba"][x])
            rows += rows_of(LINEAR, values, lambda x: times["linear"][x])
            assert verdicts("M-thm3", self.settings, rows)["M-thm3.constant"] == verdict
        expected = thm3._expected(self.settings)
        for length in values:  # 2 l times the ratio of the logarithms, up to 2^−l
            logs = math.log(1 / (0.9 * 0.5 * 0.09)) / math.log(1 / 0.05)
            assert expected[length] == pytest.approx(2 * length * logs, rel=2e-3)


def test_quick_keeps_a_users_values():
    settings = thm1_settings.Theorem1Settings(relevant_values=(5, 7)).quick()
    assert settings.relevant_values == (5, 7)
