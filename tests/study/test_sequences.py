"""Looking again and again: intervals of all looks together, rounds of seeds, and wrong verdicts by chance."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import special

from iclab.config import InputError
from iclab.lab import Store
from iclab.papers.mamba.fig2 import OutlierFraction
from iclab.probes import Interval, at_confidence, over_seeds, wilson
from iclab.study.chance import wrong_by_chance
from iclab.study.claims import NONE_LOST, PROMPTS, SEEDS, Claim, Judgement, Point, every_above, every_within, judged
from iclab.study.edition import Edition
from iclab.study.sequences import MOST, confidence_after, looked, until_decided

LOOKS = tuple(range(8, MOST + 1, 8))

# The levels.


def test_all_looks_together_spend_five_percent():
    spent = [1 - confidence_after(seeds) for seeds in range(8, 80_001, 8)]
    assert sum(spent) == pytest.approx(0.05, rel=1e-3)
    assert sum(spent) < 0.05
    assert spent == sorted(spent, reverse=True)
    assert spent[:3] == pytest.approx([0.05 / 3, 0.05 / 6, 0.05 / 10])


@pytest.mark.parametrize("seeds", [0, -8, 4, 12])
def test_looks_are_at_whole_groups(seeds):
    with pytest.raises(InputError, match=f"seeds = {seeds}: must be a multiple of 8"):
        confidence_after(seeds)


DRAWS = {
    "Gaussian": lambda generator, shape: generator.normal(0.0, 1.0, shape),
    "uniform": lambda generator, shape: generator.uniform(-1.0, 1.0, shape),
    "gamma, skewness 1": lambda generator, shape: generator.gamma(4.0, 1.0, shape) - 4.0,
    "exponential, skewness 2": lambda generator, shape: generator.exponential(1.0, shape) - 1.0,
}


def ever_missed(draws: np.ndarray, confidences: list[float]) -> float:
    """Return the share of studies in which the t interval of any look misses 0, the truth; all at once."""
    missed = np.zeros(len(draws), dtype=bool)
    for seeds, confidence in zip(LOOKS, confidences, strict=True):
        x = draws[:, :seeds]
        half = special.stdtrit(seeds - 1, 0.5 + confidence / 2) * x.std(1, ddof=1) / math.sqrt(seeds)
        missed |= abs(x.mean(1)) > half
    return float(missed.mean())


@pytest.mark.parametrize("law", ["Gaussian", "uniform", "gamma, skewness 1"])
def test_intervals_of_all_looks_cover_the_truth_in_95_percent_of_studies(law):
    studies = 20_000
    draws = DRAWS[law](np.random.default_rng(11), (studies, MOST))
    tolerance = 4 * math.sqrt(0.95 * 0.05 / studies)
    assert ever_missed(draws, [confidence_after(seeds) for seeds in LOOKS]) < 0.05 + tolerance
    assert ever_missed(draws, [0.95] * len(LOOKS)) > 0.15  # which is why looking needs care


def test_very_skewed_numbers_are_missed_no_more_often_than_by_a_single_t_interval():
    draws = DRAWS["exponential, skewness 2"](np.random.default_rng(11), (20_000, MOST))
    looks = ever_missed(draws, [confidence_after(seeds) for seeds in LOOKS])
    once = ever_missed(draws, [0.95, *([1 - 1e-12] * (len(LOOKS) - 1))])  # eight seeds, one look
    assert 0.08 < looks < once + 0.01 < 0.12  # both miss in 10 % of studies


def test_the_intervals_that_claims_use_cover_the_truth():
    """The same through the functions that make the points of claims, and for proportions."""
    generator, studies, p = np.random.default_rng(5), 1_000, 0.03
    missed = {"over seeds": 0, "over prompts": 0}
    for _ in range(studies):
        numbers, errors = generator.normal(1.0, 0.3, MOST), np.cumsum(generator.binomial(100, p, MOST))
        found: dict[str, list[bool]] = {name: [] for name in missed}
        for seeds in LOOKS:
            with at_confidence(confidence_after(seeds)):
                mean, share = over_seeds(numbers[:seeds]), wilson(int(errors[seeds - 1]), 100 * seeds)
            found["over seeds"].append(mean.low <= 1.0 <= mean.high)
            found["over prompts"].append(share.low <= p <= share.high)
        for name, covered in found.items():
            missed[name] += not all(covered)
    for count in missed.values():
        assert 0.01 * studies < count < 0.05 * studies + 4 * math.sqrt(0.05 * 0.95 * studies)


def mixture(seeds: int, weight: float = 1.0, alpha: float = 0.05) -> float:
    """Return t at which the Gaussian mixture of Lai's form (Wang and Ramdas, 2023) excludes a mean.

    √(c/(n + c)) (1 − r/(n + c))^(−n/2) ≥ 1/α, with r = n t²/(t² + n − 1) and weight c.
    """
    r = (seeds + weight) * (1 - (alpha**2 * weight / (seeds + weight)) ** (1 / seeds))
    return math.sqrt(r * (seeds - 1) / (seeds - r))


def test_intervals_are_narrower_than_those_of_a_mixture_until_many_seeds():
    ratios = [
        special.stdtrit(seeds - 1, 0.5 + confidence_after(seeds) / 2) / min(mixture(seeds, c) for c in (0.5, 1, 2))
        for seeds in LOOKS
    ]
    assert all(ratio < 1 for ratio in ratios[:4])
    assert all(ratio < 1.07 for ratio in ratios)


# Rounds.


class Rounds:
    """Made-up claims of an experiment, by the number of seeds at which each is decided."""

    def __init__(self, monkeypatch, tmp_path, claims):
        self.seen: list[tuple[int, float]] = []
        self.store = Store(tmp_path / "store")
        experiment = OutlierFraction()
        small = {"steps": 1, "batch_size": 1, "test_prompts": 1, "outlier_fractions": (0.0, 0.5)}
        small |= {"label_rules": ("flip",), "models": ("linear",), "baselines": False}
        self.edition = Edition(experiment, experiment.settings(**small))

        def judge(name, enough, needs, rows):
            seeds = len({row["seed"] for row in rows})
            return Judgement("holds") if seeds >= enough else Judgement("undecided", needs=needs)

        def made_up(own, settings):
            return [
                Claim(
                    name, "", "", lambda rows, name=name, enough=enough, needs=needs: judge(name, enough, needs, rows)
                )
                for name, (enough, needs) in claims.items()
            ]

        monkeypatch.setattr(type(experiment), "claims", made_up)

    def run(self, **options):
        return [found for (found,) in until_decided([self.edition], self.store, quiet=True, workers=1, **options)]


def test_seeds_are_added_until_every_claim_is_decided(monkeypatch, tmp_path):
    rounds = Rounds(monkeypatch, tmp_path, {"a": (8, SEEDS), "b": (24, SEEDS)}).run()
    assert [found.record() for found in rounds] == [
        {"seeds": 8, "confidence": confidence_after(8), "undecided": {"b": SEEDS}},
        {"seeds": 16, "confidence": confidence_after(16), "undecided": {"b": SEEDS}},
        {"seeds": 24, "confidence": confidence_after(24), "undecided": {}},
    ]
    assert [{claim["confidence"] for claim in found.outcome.claims} for found in rounds] == [
        {confidence_after(seeds)} for seeds in (8, 16, 24)
    ]
    assert [len({row["seed"] for row in found.outcome.rows}) for found in rounds] == [8, 16, 24]


def test_the_most_seeds_end_a_run(monkeypatch, tmp_path):
    setting = Rounds(monkeypatch, tmp_path, {"a": (1_000, SEEDS)})
    assert [found.seeds for found in setting.run(most=16)] == [8, 16]
    for most in (0, 4, 12):
        with pytest.raises(InputError, match=f"most = {most}: must be a multiple of 8"):
            setting.run(most=most)


@pytest.mark.parametrize("needs", [PROMPTS, NONE_LOST, ""])
def test_no_seeds_are_added_for_claims_that_seeds_cannot_decide(monkeypatch, tmp_path, needs):
    rounds = Rounds(monkeypatch, tmp_path, {"a": (1_000, needs), "b": (16, SEEDS)}).run()
    assert [found.seeds for found in rounds] == [8, 16]
    assert rounds[-1].undecided == {"a": needs}


def test_conditions_that_do_not_depend_on_the_number_of_seeds_end_a_run_and_a_report(monkeypatch, tmp_path):
    setting = Rounds(monkeypatch, tmp_path, {"a": (1_000, SEEDS)})
    fixed = setting.edition.settings.replace(seeds=16)
    conditions = type(setting.edition.experiment).conditions
    monkeypatch.setattr(type(setting.edition.experiment), "conditions", lambda own, settings: conditions(own, fixed))
    last = setting.run()[-1]
    assert last.seeds == 16
    found = looked(setting.edition, setting.store)
    assert (found.claims, len(found.rows)) == (last.outcome.claims, 2 * 16)


def test_an_outcome_has_a_folder_of_its_own_whatever_its_seeds(monkeypatch, tmp_path):
    setting = Rounds(monkeypatch, tmp_path, {"a": (16, SEEDS)})
    first, last = (found.outcome for found in setting.run())
    assert first.folder == last.folder == f"M-fig2-{setting.edition.settings.digest()[:6]}-until-decided"
    experiment = setting.edition.experiment
    for settings, name in ((experiment.settings(), "M-fig2"), (experiment.settings().quick(), "M-fig2-quick")):
        asked = Edition(experiment, settings)
        grown = setting.edition.outcome(setting.store, confidence=0.99, asked=asked)
        assert grown.folder == f"{name}-until-decided"
    assert not setting.edition.outcome(setting.store).folder.endswith("-until-decided")


# Wrong verdicts by chance.


def record(verdict, points=1, margins=1, counts=False):
    found = tuple(Point(0.0, Interval(-1.0, 1.0), "") for _ in range(points))
    judgement = Judgement(verdict, points=found, margins=(0.0,) * margins)
    return Claim("X.y", "", "", lambda rows: judgement, counts=counts).verdict([])


def test_wrong_verdicts_are_counted_by_points_and_margins():
    claims = [record("holds"), record("fails", points=4), record("in direction", points=2, margins=2)]
    found = wrong_by_chance([*claims, record("undecided"), record("not run"), record("holds", counts=True)])
    assert (found.judged, found.decided) == (4, 3)
    assert found.holds == pytest.approx(0.025 * 4)
    assert found.fails == pytest.approx(0.025 * (1 + 4 + 4 + 1))
    assert "4 claims were judged in this way, and 3 of them decided" in found.sentences()
    assert "at most 0.1 wrong “holds”" in found.sentences()
    assert wrong_by_chance([record("fails", points=1_000)]).fails == 1.0  # no more than all of them
    assert wrong_by_chance([record("not run")]).sentences() == "No claim has been judged yet."


@pytest.mark.parametrize("rule, margins", [(every_above, (0.0,)), (every_within, (0.0, 0.02))])
def test_wrong_verdicts_stay_below_their_bounds_at_the_margin(rule, margins):
    """The worst case: every truth lies just beside a margin. Points are independent."""
    generator, studies, points = np.random.default_rng(2), 2_000, 4

    def share(truths: list[float], verdict: str) -> tuple[float, dict]:
        wrong, last = 0, {}
        for _ in range(studies):
            draws = [generator.normal(truth, 1.0, 8) for truth in truths]
            made = [Point(float(x.mean()), over_seeds(x), "") for x in draws]
            last = Claim("X.y", "", "", judged(lambda rows, made=made: made, rule, *margins)).verdict([])
            wrong += last["verdict"] == verdict
        return wrong / studies, last

    for truths, verdict in (([1e-9] * points, "fails"), ([-1e-9, 5.0, 5.0, 5.0], "holds")):
        found, last = share(truths, verdict)
        bound = wrong_by_chance([last])
        limit = bound.fails if verdict == "fails" else bound.holds
        assert found < limit + 4 * math.sqrt(limit / studies)
        if rule is every_above:
            assert found > limit / 2  # the bound is no idle one
