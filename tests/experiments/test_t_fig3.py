"""T-fig3: its mixtures, and the logic of its claims."""

import numpy as np
import pytest

from iclab.experiments import find
from iclab.experiments.t_fig3 import LONGEST, ShiftSettings

FIGURE = find("T-fig3")
SETTINGS = ShiftSettings(seeds=4, sums=(0.0, 1.0, 1.28), test_fractions=(0.4, 0.8), lengths=(5, 20))


@pytest.mark.parametrize("total", ShiftSettings().sums)
def test_mixtures_are_the_papers(total):
    prompts = SETTINGS.out_of_domain(total)
    first, second, third = np.array(prompts.relevant_mixtures)
    assert first.sum() == pytest.approx(total)
    np.testing.assert_allclose([np.linalg.norm(k) for k in (first, second, third)], 1.0)
    assert second.sum() == third.sum() == pytest.approx(np.sqrt(2))
    np.testing.assert_allclose(first[:4], [0.3, -0.3, 0, 0])
    assert prompts.irrelevant_scale == 5.0
    assert len(prompts.pairs) == 6  # all tasks of three patterns


def test_the_largest_sum_is_the_papers():
    a, b = SETTINGS.out_of_domain(LONGEST).relevant_mixtures[0][4:]
    assert (round(a, 2), round(b, 2)) == (0.64, 0.64)  # T §5.2: a = b = 0.64
    with pytest.raises(ValueError, match="sums"):
        ShiftSettings(sums=(1.5,))


def verdicts(sums, small, large):
    rows = [
        {"panel": "sum", "sum": total, "fraction": None, "length": None, "domain": "out", "error": error}
        for total, error in sums.items()
    ]
    rows += [
        {"panel": "length", "sum": None, "fraction": fraction, "length": length, "domain": domain, "error": error}
        for domain in ("in", "out")
        for fraction, error in ((0.4, small), (0.8, large))
        for length in (5, 20)
    ]
    rows = [
        row | {"seed": seed, "prompts": 40_000, "error": row["error"] * (1 + 0.01 * seed)}
        for row in rows
        for seed in range(4)
    ]
    return {claim.id.removeprefix("T-fig3."): claim.verdict(rows)["verdict"] for claim in FIGURE.claims(SETTINGS)}


def test_claims():
    good = verdicts({0.0: 0.1, 1.0: 0.002, 1.28: 0.001}, small=0.2, large=0.01)
    assert set(good.values()) == {"holds"}
    assert verdicts({0.0: 0.1, 1.0: 0.02, 1.28: 0.001}, 0.2, 0.01) == good | {"ood-small": "fails"}
    assert verdicts({0.0: 0.002, 1.0: 0.002, 1.28: 0.001}, 0.2, 0.01) == good | {"ood-rises": "fails"}
    assert verdicts({0.0: 0.1, 1.0: 0.002, 1.28: 0.001}, 0.01, 0.2) == good | {
        "length.in": "fails",
        "length.out": "fails",
    }
    assert verdicts({1.0: 0.002, 1.28: 0.001}, 0.2, 0.01)["ood-rises"] == "not run"
