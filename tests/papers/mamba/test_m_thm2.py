"""M-thm2: its random settings lie inside the theorem, and its judges notice what breaks."""

import math

import pytest

from iclab.catalog import find
from iclab.papers.mamba.thm2_settings import Thm2Settings, mixtures, unit_mixtures
from iclab.theory.outliers import mamba_outlier_bound

THM2 = find("M-thm2")
SETTINGS = Thm2Settings(seeds=4, draws=12, variations=30)


def test_every_drawn_setting_lies_inside_the_theorem():
    drawn = Thm2Settings().drawn()
    assert len(drawn) == 40
    assert drawn == Thm2Settings().drawn()
    for place in drawn:
        totals = [sum(mixture.weights) for mixture in place.mixtures]
        assert 0 < place.fraction < mamba_outlier_bound(place.train_fraction, place.train_length, place.length)
        assert place.length >= math.log(6) / (1 - place.fraction)
        assert 10 <= place.length <= 80
        assert min(totals) * place.strength >= 2.0 - 1e-4
        assert min(totals) >= 0.3 - 1e-5
        assert max(totals) <= 1 + 1e-5
        assert all(mixture.outside_norm == 0 for mixture in place.mixtures)
    assert len({place.length for place in drawn}) > 30  # a hypercube, not clumps
    assert {place.train_fraction for place in drawn} == {0.2, 0.4, 0.6, 0.8}


def test_settings_as_printed_differ_in_nothing_but_the_strength():
    places = SETTINGS.places()
    pairs = zip((p for p in places if p.sweep == "inside"), (p for p in places if p.sweep == "printed"), strict=True)
    for restored, printed in pairs:
        assert printed.strength == 2.0 < restored.strength
        assert printed.mixtures == restored.mixtures
        assert (printed.fraction, printed.length) == (restored.fraction, restored.length)


@pytest.mark.parametrize("outlier", [1, 2, 3, 5])
def test_mixtures_have_their_sum_and_length(outlier):
    for mixture in unit_mixtures(0.3, outlier, turned=0.4):
        assert sum(mixture.weights) == pytest.approx(0.3, abs=1e-5)
        if outlier > 1:
            assert sum(w * w for w in mixture.weights) == pytest.approx(1.0, abs=1e-4)
    assert len({mixture.weights for mixture in mixtures(0.3, 0.9, 3)}) == 3


def test_variations_have_their_sum_and_are_no_longer_than_one():
    drawn = [place for place in SETTINGS.places() if place.sweep == "variation"]
    assert len({place.mixtures for place in drawn}) == SETTINGS.variations
    for i, place in enumerate(drawn):
        (mixture,) = place.mixtures
        assert sum(mixture.weights) == pytest.approx(0.3)
        assert math.hypot(*mixture.weights) <= 1 + 1e-9
        assert i % 2 or min(mixture.weights) >= 0
    assert any(min(place.mixtures[0].weights) < -0.3 for place in drawn)
    assert max(math.hypot(*place.mixtures[0].weights) for place in drawn) > 0.9


def test_one_bad_variation_is_found():
    found = verdicts(made_up(lambda p, _: 0.04 if p.sweep == "variation" and p.x == 7 else 0.0))
    assert (found["variations"], found["mixtures"]) == ("in direction", "holds")


def made_up(wrong, floor=True, leak=None):
    """Make rows of four seeds: ``wrong(place, adversary)`` beyond α^l, and gates that leak as asked."""
    rows = []
    for place in SETTINGS.places():
        for adversary in place.adversaries:
            for seed in range(4):
                row = {**place.where, "adversary": adversary, "seed": seed, "diverged": False, "prompts": 10**7}
                if adversary == "gates":
                    ratio = 0.01 if leak is None else leak(place) / place.length / place.fraction
                    for kind, gate in (("clean", 0.2), ("outlier", 0.2 * ratio)):
                        rows.append(row | {"kind": kind, "place": 1, "gate": gate})
                else:
                    error = wrong(place, adversary) + (place.floor if floor else 0.0) + 1e-6 * seed
                    rows.append(row | {"error": min(1.0, error)})
    return rows


def verdicts(rows):
    return {claim.id.removeprefix("M-thm2."): claim.verdict(rows)["verdict"] for claim in THM2.claims(SETTINGS)}


def falls(strength, of):
    """Return an error that falls through 0.05 where strength × of is 1."""
    return 0.05 * (strength * of) ** -3 if strength * of > 0.4 else 0.75


def test_a_model_as_the_theorem_has_it():
    """(b) as printed: what counts is κ_a', and nothing else breaks anything."""
    found = verdicts(made_up(lambda p, _: falls(p.strength, 1.0) if p.sweep == "strength" else 0.0))
    paper = ("inside", "inside-places", "printed", "strength", "mixtures", "variations", "outside", "one")
    assert {name: found[name] for name in paper} == dict.fromkeys(paper, "holds")
    assert (found["restored"], found["sum"]) == ("fails", "fails")


def test_a_model_that_goes_by_the_sum_of_weights():
    def wrong(place, adversary):
        total = sum(place.mixtures[0].weights)
        if place.sweep == "strength":
            return falls(place.strength, total)
        if place.sweep in ("printed", "imbalance", "outside", "sum"):
            return 0.3 if place.sweep != "sum" or place.x <= 0 else 0.0
        return 0.0

    found = verdicts(made_up(wrong))
    assert (found["restored"], found["strength"]) == ("holds", "fails")
    assert [found[name] for name in ("printed", "mixtures", "outside", "sum")] == ["fails", "fails", "fails", "holds"]
    assert (found["inside"], found["floor"], found["length"]) == ("holds", "holds", "holds")


def test_an_error_between_small_and_large_is_in_direction():
    found = verdicts(made_up(lambda p, adversary: 0.04 if p.sweep == "inside" and adversary == "places" else 0.0))
    assert (found["inside"], found["inside-places"]) == ("holds", "in direction")


def test_a_model_that_loses_more_or_less_than_the_floor_is_noticed():
    assert verdicts(made_up(lambda p, _: 0.03 if p.sweep == "short" else 0.0))["floor"] == "fails"
    assert verdicts(made_up(lambda p, _: 0.0, floor=False))["floor"] == "fails"


def test_leaks_are_judged_on_both_sides_of_one():
    def leak(place):
        return 5.0 if place.sweep == "strength" and place.x < 0.5 else 0.1

    found = verdicts(made_up(lambda p, _: 0.5 if leak(p) > 1 else 0.0, leak=leak))
    assert (found["leak-little"], found["leak-much"]) == ("holds", "holds")
    found = verdicts(made_up(lambda p, _: 0.5 if leak(p) < 1 else 0.0, leak=leak))
    assert (found["leak-little"], found["leak-much"]) == ("fails", "fails")


def test_nothing_is_judged_without_rows():
    assert set(verdicts([]).values()) == {"not run"}
