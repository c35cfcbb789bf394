"""Upper bounds of Theorem 1, the batches of Remark 4, other layers of Remark 6, and (F) under the trainings."""

import math

import numpy as np
import pytest

from iclab.catalog import find
from iclab.papers.mamba import thm1_limits, thm3_batch
from iclab.papers.mamba.remark6 import EXACT, FLIP, Remark6Settings
from iclab.papers.mamba.thm1_settings import SWEEPS, Theorem1Settings
from iclab.papers.mamba.thm3_settings import LINEAR, MAMBA, Theorem3Settings
from iclab.papers.mamba.times import HALF
from iclab.papers.mamba.times_field import field, hitting_times, losses, training_panel
from iclab.study.charts import Series
from iclab.theory.meanfield import predicted_curve
from iclab.theory.setting import MambaSetting, ring

SEEDS = 4


def verdicts(id_, settings, rows):
    claims = find(id_).claims(settings)
    return {claim.id.removeprefix(f"{id_}."): claim.verdict(rows)["verdict"] for claim in claims}


def ends(part, x, by, loss, model="mamba", lost=()):
    """One row per seed after training; seeds in ``lost`` diverged."""
    where = {"part": part, "model": model, "x": x, "by": by}
    return [
        where | {"seed": s, "diverged": s in lost, "hinge": None if s in lost else loss * (1 + 1e-3 * s)}
        for s in range(SEEDS)
    ]


class TestUpperBounds:
    settings = Theorem1Settings(seeds=SEEDS)

    def found(self, loss, rise=0.0, lost=()):
        rows = [
            row
            for part, strengths in thm1_limits.strong_values(self.settings).items()
            for x in strengths
            for row in ends(part, x, 0, loss(part, x), lost=lost if x == max(strengths) else ())
        ]
        for product in self.settings.weak_products:
            for length in self.settings.long_lengths:
                rows += ends("long", length, product, 0.01 + rise * math.log(length / 40))
        return verdicts("M-thm1", self.settings, rows)

    def test_a_training_that_no_strength_harms(self):
        found = self.found(lambda part, x: 0.01)
        assert {found[f"strong{end}"] for end in ("", "-scaled", "-start")} == {"holds"}
        assert found["long"] == "holds"

    def test_a_bound_of_another_size_is_in_direction(self):
        assert self.found(lambda part, x: 0.01 if x <= 10 else 0.7)["strong"] == "in direction"
        assert self.found(lambda part, x: 0.01 if x <= 2 else 0.7)["strong"] == "fails"

    def test_each_part_is_judged_alone(self):
        found = self.found(lambda part, x: 0.5 if part == thm1_limits.SCALED else 0.01)
        assert (found["strong"], found["strong-scaled"], found["strong-start"]) == ("holds", "fails", "holds")

    def test_a_diverged_seed_is_no_success(self):
        assert self.found(lambda part, x: 0.01, lost=(1,))["strong"] == "undecided"
        rows = ends(thm1_limits.FIXED, 200.0, 0, 0.01, lost=(1,))
        lines = {line["T against"]: line["exponent"] for line in thm1_limits.lines(rows, self.settings)}
        assert lines["loss at κ_a = 200, η = 0.16"] == "0.0100, 1 diverged"

    def test_a_loss_that_rises_with_length_is_noticed(self):
        assert self.found(lambda part, x: 0.01, rise=0.02)["long"] == "fails"

    def test_steps_along_outliers_stay_small(self):
        for x in (2.0, 50.0, 200.0):
            small = thm1_limits.step_size(self.settings, thm1_limits.SCALED, x)
            assert small * x**2 <= thm1_limits.STEEP * (1 + 1e-9)
            assert thm1_limits.step_size(self.settings, thm1_limits.FIXED, x) == self.settings.end_step

    def test_the_strongest_outliers_are_inside_condition_ii(self):
        """V β (1 − p_a) / (p_a ε) = 3 · 3 · 0.7 / (0.3 · 0.1) = 210."""
        assert thm1_limits.largest_strength(self.settings) == pytest.approx(210)
        assert max(self.settings.strong) < 210


class TestBatches:
    settings = Theorem3Settings(seeds=SEEDS)

    def rows(self, needed, lost=()):
        """Losses that are 0.1 at B = needed(model, κ_a)."""
        return [
            row
            for model in thm3_batch.MODELS
            for strength in self.settings.batch_strengths
            for batch in self.settings.batch_values
            for row in ends(
                "batch", batch, strength, 0.1 * needed(model, strength) / batch, model, lost if batch == 1 else ()
            )
        ]

    def test_the_least_batch_is_that_of_the_made_up_losses(self):
        rows = self.rows(lambda model, strength: 6.0)
        assert thm3_batch.needed(rows, "mamba", 1.0)[0] == pytest.approx(6.0, rel=0.05)
        assert thm3_batch.for_most(rows, "mamba", 1.0) == 8
        assert thm3_batch.for_most([], "mamba", 1.0) is None

    def test_one_seed_in_four_is_not_most(self):
        rows = [r | {"hinge": 0.9} if r["seed"] == 2 and r["x"] < 64 else r for r in self.rows(lambda m, s: 6.0)]
        assert thm3_batch.for_most(rows, "linear", 2.0) == 64

    def test_a_diverged_training_has_not_learnt(self):
        rows = self.rows(lambda model, strength: 1.5, lost=(0,))
        assert 1 < thm3_batch.needed(rows, "mamba", 1.0)[0] < 2

    @pytest.mark.parametrize(
        ("mamba", "linear", "expected"),
        [
            (lambda k: 16 / k, 4.0, ("holds", "holds")),
            (lambda k: 8.0, 8.0, ("holds", "undecided")),
            (lambda k: 4 * k, 16.0, ("fails", "fails")),
        ],
    )
    def test_remark_4(self, mamba, linear, expected):
        found = verdicts("M-thm3", self.settings, self.rows(lambda m, k: mamba(k) if m == "mamba" else linear))
        assert (found["batch"], found["batch-strength"]) == expected

    @pytest.mark.parametrize(
        ("mamba", "linear", "verdict"), [(20, 100, "holds"), (100, 20, "fails"), (20, 20, "undecided")]
    )
    def test_strong_outliers(self, mamba, linear, verdict):
        """Losses of 0.1 (κ_a / κ*)²: the largest κ_a is κ*, interpolated."""
        rows = [
            row
            for model, most in (("mamba", mamba), ("linear", linear))
            for x in self.settings.strong
            for row in ends("strong", x, 0, 0.1 * (x / most) ** 2 * 0.999, model)
        ]
        assert thm3_batch.largest(rows, "mamba")[0] == pytest.approx(mamba, rel=0.01)
        assert verdicts("M-thm3", self.settings, rows)["strong"] == verdict

    def test_a_seed_that_diverges_with_strong_outliers_has_its_largest_below(self):
        rows = [r for x in self.settings.strong for r in ends("strong", x, 0, 0.01, lost=(0,) if x == 200 else ())]
        found = thm3_batch.largest(rows, "mamba")
        assert 100 < found[0] < 200
        assert found[1] == pytest.approx(200)

    def test_both_models_start_alike_and_take_as_many_steps(self):
        both = [thm3_batch.trained(self.settings, model, 8, 1.0) for model in thm3_batch.MODELS]
        assert both[0].recipe.steps == both[1].recipe.steps
        shares = [t.model.options["init_scale"] ** 2 / t.recipe.step_size for t in both]
        assert shares[0] == pytest.approx(shares[1])
        assert {t.recipe.batch_size for t in both} == {8}


class TestMeanField:
    settings = Theorem1Settings()

    def test_it_is_the_mean_field_of_the_training_itself(self):
        own = SWEEPS["norm"].at(self.settings, 1.5)
        straight = predicted_curve(
            MambaSetting(
                relevant=8,
                tasks=ring(8, 7),
                train_length=40,
                train_outlier_fraction=0.3,
                relevant_norm=1.5,
                train_outlier_scale=own.train_outlier_scale,
                init_scale=own.init_scale,
                step_size=0.02,
            ),
            1500,
        )
        curve = field(own, "mamba", 1500)
        assert curve.hitting_time(HALF) == pytest.approx(straight.hitting_time(HALF), rel=5e-3)
        gate = np.interp(800, curve.steps, curve.numbers[:, 2]) / 1.5
        assert gate == pytest.approx(np.interp(800, straight.steps, straight.numbers[:, 2]), rel=1e-2)

    def test_linear_times_are_those_of_e(self):
        settings = Theorem3Settings()
        times = hitting_times(LINEAR, settings, (20.0,), HALF)
        assert times[20.0] == pytest.approx(LINEAR.at(settings, 20).predicted("linear"), rel=0.02)

    def test_a_frozen_gate_is_slower(self):
        free, frozen = (field(self.settings, "mamba", 600, frozen).hitting_time(HALF) for frozen in (False, True))
        assert frozen > 1.1 * free

    def test_the_panel_draws_losses_and_the_field_as_far_as_the_training_goes(self):
        unit = self.settings.predicted("mamba")
        rows = [
            {**MAMBA.columns(40.0), "seed": s, "step": t, "hinge": 1 / (1 + t / unit), "diverged": s == 3}
            for s in range(4)
            for t in (0, 100, 301)
        ]
        assert losses(rows, MAMBA, 40.0)[100] == dict.fromkeys(range(3), 1 / (1 + 100 / unit))
        panel = training_panel("", rows, self.settings, {Series("loss", "#000000"): (MAMBA, 40.0)})
        values = [v for layer in panel.spec(100)["layer"] for v in layer["data"]["values"] if v.get("series")]
        reached = {s: max(v["x"] for v in values if v["series"] == s) for s in {v["series"] for v in values}}
        assert len(reached) == 2
        assert max(reached.values()) == pytest.approx(301 / unit)


class TestOtherLayers:
    settings = Remark6Settings(seeds=SEEDS)

    def found(self, **errors):
        rows = []
        for layer in self.settings.layers():
            for labels in layer.labels:
                for f in self.settings.outlier_fractions:
                    error = errors.get(
                        layer.name.split(",")[0] if "heads" not in layer.name else "heads", lambda f: 0.0
                    )(f)
                    where = {"layer": layer.name, "labels": labels, "outlier_fraction": f, "prompts": 10**6}
                    rows += [
                        where | {"seed": s, "diverged": False, "error": min(1.0, error + 1e-5 * s)}
                        for s in range(SEEDS)
                    ]
        return verdicts("M-remark6", self.settings, rows)

    def test_as_the_paper_has_it(self):
        found = self.found(linear=lambda f: f, heads=lambda f: f, softmax=lambda f: 0.02 * f)
        assert set(found.values()) == {"holds"}

    def test_heads_that_help_and_a_softmax_that_does_not(self):
        found = self.found(linear=lambda f: f, heads=lambda f: 0.4 * f, softmax=lambda f: f + 0.01)
        assert set(found.values()) == {"fails"}
        assert self.found(linear=lambda f: f, softmax=lambda f: 0.1 * f)["softmax-mamba"] == "in direction"

    def test_only_models_of_one_linear_recurrence_have_an_exact_worst_case(self):
        labels = {layer.name: layer.labels for layer in self.settings.layers()}
        assert {name for name, which in labels.items() if EXACT in which} == {"mamba", "linear"}
        assert all(FLIP in which for which in labels.values())
