"""S-thm1, S-thm2, S-prop1, S-prop2, S-cor1: settings inside S's conditions, and the logic of every claim."""

import math

import numpy as np
import pytest

from iclab.catalog import find
from iclab.papers.selectors.laws import FRACTION, GRAPH, NOISE, SIGNAL, SWEEPS, TOTAL, UNIFORM, WIDTH, SelectorTheorems
from iclab.papers.selectors.prop2 import PartSettings
from iclab.papers.selectors.props import NormSettings, two_mixtures
from iclab.papers.selectors.thm2 import MixtureSettings, drawn, leaning

SEEDS = 3
SETTINGS = SelectorTheorems(seeds=SEEDS)


def verdicts(id_, settings, rows):
    return {c.id.removeprefix(f"{id_}."): c.verdict(rows)["verdict"] for c in find(id_).claims(settings)}


class TestSettings:
    def test_the_conditions_of_theorem_1_are_met(self):
        own = SETTINGS.with_total(16)
        assert own.relevant + own.irrelevant >= own.relevant**2
        assert own.neurons >= 4 * own.relevant**2 * math.log(own.batch_size * own.steps)  # (35)
        assert own.context_length >= 2 * math.log(16) / own.relevant_fraction  # (5)
        assert own.attention_size > own.dimension + own.label_dimension
        assert own.prompts().label_norm == own.pattern_norm
        assert len(own.training().prompts.pairs) == own.relevant

    def test_sweeps_move_what_they_say(self):
        fixed, uniform = (sweep.at(SETTINGS, GRAPH, 0.5).prompts().signal for sweep in (SIGNAL, UNIFORM))
        assert (fixed, uniform) == ((0.5, 0.5), (0.5, 1.0))
        assert NOISE.at(SETTINGS, GRAPH, 2.0).prompts().noise == pytest.approx(0.5)
        assert FRACTION.at(SETTINGS, GRAPH, 0.3).prompts().relevant_fraction == 0.3
        big = TOTAL.at(SETTINGS, GRAPH, 128)
        assert (big.relevant, big.irrelevant, big.neurons, big.dimension) == (4, 124, 800, 128)
        assert WIDTH.at(SETTINGS, GRAPH, 200).neurons == 200
        for condition in find("S-thm1").conditions(SETTINGS.replace(seeds=1)):  # S tests on the training tasks
            assert condition.cell.prompts.pairs.tolist() == condition.cell.training.training.prompts.pairs.tolist()

    def test_two_mixtures_are_orthogonal_and_without_negative_weights(self):
        first, second = np.array(two_mixtures(SETTINGS.with_total(16)).relevant_mixtures)
        assert first @ second == 0
        assert min(first.min(), second.min()) == 0
        np.testing.assert_allclose([first @ first, second @ second], 1.0)


def rows_of(sweep, law):
    rows = []
    for x in sweep.values(SETTINGS):
        time = law(x)
        for seed in range(SEEDS):
            for step in (0, time / 2, 0.9 * time, 1.5 * time, 6 * time):
                loss = 0.5 ** (step / time / (1 + seed / 10))
                row = {**sweep.columns(GRAPH, x), "seed": seed, "step": step, "hinge": loss, "diverged": False}
                rows.append(row | {"error": 0.0, "prompts": 10_000})
    return rows


class TestTheorem1:
    @pytest.mark.parametrize("name", ["signal", "uniform", "patterns", "neurons"])
    def test_powers(self, name):
        sweep = next(s for s in SWEEPS if s.name == name)
        assert verdicts("S-thm1", SETTINGS, rows_of(sweep, lambda x: 100 * x**sweep.power))[name] == "holds"
        assert (
            verdicts("S-thm1", SETTINGS, rows_of(sweep, lambda x: 100 * x ** (2 * sweep.power)))[name] == "in direction"
        )
        assert verdicts("S-thm1", SETTINGS, rows_of(sweep, lambda x: 100 * x**-sweep.power))[name] == "fails"

    def test_noise_has_its_pole_or_has_not(self):
        pole = rows_of(NOISE, lambda x: 100 * max(1 - x, 0.05) ** -0.5)
        assert verdicts("S-thm1", SETTINGS, pole)["noise"] == "holds"
        assert verdicts("S-thm1", SETTINGS, rows_of(NOISE, lambda x: 100.0))["noise"] == "fails"

    def test_the_law_in_alpha_is_a_line_in_its_inverse_that_falls(self):
        assert (
            verdicts("S-thm1", SETTINGS, rows_of(FRACTION, lambda x: 1 / (0.01 * (4 - 1 / x))))["fraction"] == "holds"
        )
        bent = rows_of(FRACTION, lambda x: 100 * math.exp(2 / x))
        assert verdicts("S-thm1", SETTINGS, bent)["fraction"] == "fails"
        rises = rows_of(FRACTION, lambda x: 1 / (0.01 * (1 + 1 / x)))
        assert verdicts("S-thm1", SETTINGS, rises)["fraction"] == "fails"

    @pytest.mark.parametrize(("error", "verdict"), [(0.0, "holds"), (0.01, "fails")])
    def test_error(self, error, verdict):
        rows = [
            {"part": "end", "graph": GRAPH, "x": 0.0, "seed": s, "error": error, "prompts": 50_000, "diverged": False}
            for s in range(SEEDS)
        ]
        assert verdicts("S-thm1", SETTINGS, rows)["error"] == verdict


class TestTheorem2:
    settings = MixtureSettings(seeds=SEEDS, mixtures=3)

    @pytest.mark.parametrize("number", [2, 3])
    def test_drawn_mixtures_are_what_the_theorem_allows(self, number):
        for which in range(20):
            found = np.array(drawn(4, number, which))
            assert found.shape == (number, 4)
            assert found.min() >= 0
            np.testing.assert_allclose(found @ found.T, np.eye(number), atol=1e-12)
        assert drawn(4, number, 0) != drawn(4, number, 1)

    def rows(self, bad=0.0, one=0.0, leant=0.0):
        where = {"diverged": False, "prompts": 50_000}
        rows = [
            {**where, "part": "mixtures", "x": n, "which": w, "seed": s, "error": bad if (n, w) == (3, 1) else 0.0}
            for n in (2, 3)
            for w in range(3)
            for s in range(SEEDS)
        ]
        rows += [
            {**where, "part": "leaning", "x": a, "which": 0, "seed": s, "error": leant if a > 50 else 0.0}
            for a in self.settings.angles
            for s in range(SEEDS)
        ]
        return rows + [
            {**where, "part": "counted", "x": f, "which": 0, "seed": s, "same_examples": k, "error": e}
            for f in self.settings.test_fractions
            for s in range(SEEDS)
            for k, e in ((0, 0.6), (1, one), (2, 0.5))
        ]

    def test_claims(self):
        assert verdicts("S-thm2", self.settings, self.rows()) == dict.fromkeys(
            ("mixtures", "length", "leaning"), "holds"
        )
        assert verdicts("S-thm2", self.settings, self.rows(bad=0.1))["mixtures"] == "fails"  # one set is enough
        assert verdicts("S-thm2", self.settings, self.rows(one=0.1))["length"] == "fails"
        assert verdicts("S-thm2", self.settings, self.rows(leant=0.1))["leaning"] == "fails"

    def test_irrelevant_patterns_lean_towards_relevant_ones(self):
        for condition in find("S-thm2").conditions(self.settings.replace(seeds=1)):
            if condition.columns["part"] == "leaning":
                prompts, angle = condition.cell.prompts, math.radians(condition.columns["x"])
                vectors = prompts.patterns.basis(0).vectors
                rows = prompts.dictionary(prompts.patterns.basis(0))[len(vectors) :]
                for k in (0, 3, 5):
                    expected = math.cos(angle) * vectors[4 + k] + math.sin(angle) * vectors[k % 4]
                    np.testing.assert_allclose(rows[k], expected, atol=1e-9)
        assert len(leaning(4, 12, 30.0)) == 12

    def test_prompts_are_as_long_as_the_theorem_says(self):
        for condition in find("S-thm2").conditions(self.settings.replace(seeds=1)):
            if condition.columns["part"] == "counted":
                assert condition.cell.prompts.context_length == math.ceil(2 / condition.columns["x"] - 1e-9)


class TestPropositions:
    settings = NormSettings(seeds=SEEDS)

    def rows(self, patterns=0.5, relevant=0.5, moved=0.0, rate=-1.0):
        rows = []
        for part, values, power in (
            ("patterns", self.settings.totals, patterns),
            ("relevant", (3, 4, 5, 6, 8), relevant),
        ):
            for x in values:
                for s in range(SEEDS):
                    for matrix in ("query", "key"):
                        for kind, length in (("relevant", math.log(x) ** power), ("irrelevant", 0.27 + moved)):
                            row = {
                                "part": part,
                                "x": x,
                                "matrix": matrix,
                                "kind": kind,
                                "length": length * (1 + s / 999),
                            }
                            rows.append({**row, "seed": s, "diverged": False})
        for s in range(SEEDS):
            for step in (0, 100, 200, 400, 800):
                missing = 0.6 if step <= 100 else 0.4 * (step / 200) ** (rate - 0.01 * s)
                rows.append({"part": "time", "x": 0, "seed": s, "step": step, "same": 1 - missing, "diverged": False})
        return rows

    @pytest.mark.parametrize(
        ("changes", "claim", "verdict"),
        [
            ({}, None, "holds"),
            ({"patterns": 0.0}, "patterns", "fails"),
            ({"patterns": 0.2}, "patterns", "in direction"),
            ({"relevant": 0.0}, "relevant", "fails"),
            ({"moved": 0.3}, "irrelevant", "fails"),
            ({"rate": -0.3}, "rate", "fails"),
            ({"rate": -2.0}, "rate", "holds"),  # a bound from above
        ],
    )
    def test_norms(self, changes, claim, verdict):
        found = verdicts("S-prop1", self.settings, self.rows(**changes))
        assert found[claim] == verdict if claim else set(found.values()) == {verdict}

    @pytest.mark.parametrize(("power", "verdict"), [(-1.0, "holds"), (-0.3, "in direction"), (0.3, "fails")])
    def test_attention(self, power, verdict):
        rows = [
            {"x": x, "test": t, "seed": s, "same": 1 - 0.1 * (x / 128) ** power * (1 + s / 99) / 9, "diverged": False}
            for x in self.settings.totals
            for t in ("in", "out")
            for s in range(SEEDS)
        ]
        assert verdicts("S-cor1", self.settings, rows)["mass"] == verdict

    def parts(self, source=1.0, place=1.0, power=1.0):
        settings = PartSettings(seeds=SEEDS)
        rows = []
        for s in range(SEEDS):
            for norm in settings.label_norms:
                row = {"part": "parts", "x": norm, "seed": s, "diverged": False, "feature_by_source": 1.0}
                row |= {"feature_by_place": 1.0, "label_by_source": 1 + source * (1 + s / 9)}
                rows.append(row | {"label_by_place": 1 + place * (1 + s / 9)})
            for m in settings.widths:
                for length in (0.3 * m ** (-power / 2), 0.9 * m ** (-power / 2), 3.0):  # the last is large
                    rows.append({"part": "neurons", "x": m, "seed": s, "length": length, "diverged": False})
        return verdicts("S-prop2", settings, rows)

    def test_parts(self):
        assert set(self.parts().values()) == {"holds"}
        assert self.parts(source=-1.0) == {"source": "fails", "place": "holds", "others": "holds"}
        assert self.parts(place=-1.0)["place"] == "fails"
        assert self.parts(power=0.2)["others"] == "in direction"

    def test_labels_of_another_norm(self):
        for norm in (1.0, 3.0):
            own = PartSettings().with_label(norm)
            assert own.training().prompts.label_norm == norm
            assert own.steps > 0
