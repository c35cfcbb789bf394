"""M-regression and M-classes: what their judges say of made-up rows."""

import math

import pytest

from iclab.papers.mamba.classes import Classes
from iclab.papers.mamba.classes_claims import where as at
from iclab.papers.mamba.classes_settings import BINARY, BLOCK, TOKEN, ClassesSettings
from iclab.papers.mamba.regression import Regression
from iclab.papers.mamba.regression_claims import floor, where
from iclab.papers.mamba.regression_settings import RegressionSettings
from iclab.theory.regression import best_inflow

SEEDS = 4


def verdicts(experiment, settings, rows):
    return {claim.id.partition(".")[2]: claim.verdict(rows)["verdict"] for claim in experiment.claims(settings)}


class TestRegression:
    settings = RegressionSettings(seeds=SEEDS, outlier_fractions=(0.0, 0.3, 0.6), label_rules=("random",))

    def rows(self, mamba=1.05, linear=0.3, softmax=0.001, ridge=0.2, sign=-1.0, shut=0.01, memory=0.5, inflow=1.0):
        found = []
        best = inflow * best_inflow(0.6, 20)
        for s in range(SEEDS):
            own, jitter = {"seed": s, "diverged": False}, 1 + 1e-4 * s
            for f in self.settings.outlier_fractions:
                errors = {
                    "mamba": mamba * floor(self.settings, f),
                    "linear": linear,
                    "softmax": softmax,
                    "ridge": ridge,
                }
                for name, error in errors.items():
                    found.append(where(name, "random", f) | own | {"squares": error * jitter})
            for loss, clean in (("squared", memory), ("hinge", 1.0)):
                for kind, gate in (("clean", clean), ("outlier", shut * clean)):
                    gates = {"measured": "gates", "loss": loss, "kind": kind, "place": 1}
                    found.append(gates | own | {"gate": 0.2 * gate * jitter})
            logit = {"measured": "logits", "kind": "clean", "quantity": "logit"}
            found.append(logit | own | {"mean": -math.log(1 / best - 1) * jitter})
            for step in self.settings.training("mamba").recipe.kept:
                late = step >= 30
                answers = {"measured": "answers", "step": step, "squares": 0.05 if late else 0.3}
                found.append(answers | own | {"inside": (0.8 if late else 0.95) * jitter})
            for stage in ("start", "end"):
                for weight, slope in (("query", 1.0), ("key", 1.0), ("gate", sign)):
                    found.append({"measured": "gradients", "stage": stage, "weight": weight, "slope": slope} | own)
        return found

    def found(self, **changes):
        return verdicts(Regression(), self.settings, self.rows(**changes))

    def test_as_measured(self):
        found = self.found()
        assert found.pop("sign") == "fails"
        assert set(found.values()) == {"holds"}

    def test_otherwise(self):
        assert (self.found(sign=1.0)["sign"], self.found(sign=1.0)["sign-turned"]) == ("holds", "fails")
        found = self.found(mamba=10.0, linear=0.01, softmax=1.0, ridge=0.01, shut=0.5, memory=1.5, inflow=2.0)
        wrong = {"gates", "robust", "floor", "floor-clean", "inflow", "memory", "softmax", "ridge"}
        assert {name for name, verdict in found.items() if verdict == "fails"} == wrong | {"sign"}

    def test_answers_are_judged_only_before_convergence(self):
        rows = self.rows()
        assert verdicts(Regression(), self.settings, rows)["between"] == "holds"
        early = [row | ({"inside": 0.8} if row.get("step") == 10 else {}) for row in rows]
        assert verdicts(Regression(), self.settings, early)["between"] == "fails"


class TestClasses:
    settings = ClassesSettings(seeds=SEEDS, outlier_fractions=(0.0, 0.6, 0.8), whole=(2,))

    def rows(self, joint=None, whole=0.0, other=0.05, identical=True):
        found = []
        for sees, h, by in self.settings.kinds():
            for s in range(SEEDS):
                own = {"seed": s, "diverged": False, "prompts": 10**6, "ties": 0}
                for f in self.settings.outlier_fractions:
                    level = 0.01 if f > 0.6 else 0.0
                    error = level if by == TOKEN else 1 - (1 - level) ** h
                    if h > 1 and by == BLOCK and joint is not None:
                        error = joint
                    error += (whole if sees == TOKEN else 0.0) + 1e-6 * s
                    right = round(10**6 * (1 - error)) + (not identical and sees == BINARY and s == 0)
                    numbers = {"error": error, "hinge": error, "right": right}
                    found += [at(probe, sees, h, by, f) | own | numbers for probe in ("error", "worst")]
                    levels = [{"level": i, "error": level} for i in range(1, h + 1)] if sees == BLOCK else []
                    found += [at("levels", sees, h, by, f) | own | row for row in levels]
                heads = range(1, h + 1) if sees == TOKEN else ()
                entries = {"own": 5.0 + 0.01 * s, "other": 5 * other, "cross": 0.1}
                found += [at("blocks", sees, h, by) | own | entries | {"level": i} for i in heads]
        return found

    def found(self, **changes):
        return verdicts(Classes(), self.settings, self.rows(**changes))

    def test_as_theory_has_it(self):
        assert set(self.found().values()) == {"holds"}

    @pytest.mark.parametrize(
        ("changes", "failing"),
        [
            ({"identical": False}, {"binary"}),
            ({"joint": 0.05}, {"decomposes", "small"}),
            ({"whole": 0.1}, {"whole"}),
            ({"other": 0.5}, {"cross"}),
        ],
    )
    def test_otherwise(self, changes, failing):
        found = self.found(**changes)
        assert {name for name, verdict in found.items() if verdict == "fails"} == failing
