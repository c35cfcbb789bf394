"""The program of the audit beside iclab's own code: two ways to the same numbers and verdicts."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import special

from iclab.audit import program
from iclab.probes import Interval, over_seeds, wilson
from iclab.study.claims import Point, every_above, every_below, every_within
from iclab.study.fits import crossing, hitting_time, slope, straightness

CHANCE = random.Random(3)


@pytest.mark.parametrize("freedom", [1, 2, 3, 7, 15, 64])
def test_quantiles_of_student(freedom):
    for p in (0.9, 0.975, 0.9995):
        assert program.t_quantile(freedom, p) == pytest.approx(special.stdtrit(freedom, p), rel=1e-10)


def test_intervals():
    for n in (2, 3, 8, 16):
        values = [CHANCE.gauss(0.3, 0.1) for _ in range(n)]
        own = over_seeds(values)
        assert program.t_interval(values, 0.95) == pytest.approx((own.low, own.high), rel=1e-10)
    assert program.t_interval([0.5], 0.95) == (-np.inf, np.inf)
    for successes, total in ((0, 50), (50, 50), (3, 50), (1, 2), (0, 0)):
        own = wilson(successes, total)
        assert program.wilson_interval(successes, total, 0.95) == pytest.approx((own.low, own.high), rel=1e-10)


def test_fits():
    for n in (3, 5, 9):
        xs, ys = sorted(CHANCE.uniform(0, 9) for _ in range(n)), [CHANCE.uniform(0, 1) for _ in range(n)]
        assert program.line(xs, ys) == pytest.approx((slope(xs, ys), straightness(xs, ys)), rel=1e-8)
    assert program.line([1, 2, 3], [4, 4, 4]) == (0, 0)


def test_crossings_and_hitting_times():
    for _ in range(300):
        places = [float(x) for x in range(CHANCE.choice([2, 3, 6]))]
        values = [CHANCE.choice([None, 0.0, 0.005, 0.01, 0.02, 0.3]) for _ in places]
        assert program.crossing(places, values, 0.01) == pytest.approx(crossing(places, values, 0.01))
        assert program.hitting_time(places, values, 0.01) == pytest.approx(hitting_time(places, values, 0.01))


def test_rules_give_the_same_verdict_and_point():
    rules = {"every_below": (every_below, 1), "every_above": (every_above, 1), "every_within": (every_within, 2)}
    seen = set()
    for _ in range(2000):
        ends = [sorted(CHANCE.uniform(0, 1) for _ in range(3)) for _ in range(CHANCE.randrange(4))]
        lost = CHANCE.random() < 0.2
        gone = [CHANCE.random() < 0.1 for _ in ends]
        points = [
            Point(None if g else middle, Interval(low, high), str(i), int(lost))
            for i, ((low, middle, high), g) in enumerate(zip(ends, gone, strict=True))
        ]
        plain = [{"value": p.value, "low": p.interval.low, "high": p.interval.high, "lost": p.diverged} for p in points]
        for name, (rule, count) in rules.items():
            margins = sorted(CHANCE.uniform(-0.2, 1.2) for _ in range(count))
            own, (verdict, worst) = rule(points, *margins), program.RULES[name](plain, *margins)
            assert (verdict, worst and worst["value"]) == (own.verdict, own.measured)
            seen.add(verdict)
    assert seen == {"holds", "fails", "undecided", "not run"}


def test_it_imports_nothing_of_iclab():
    script = (
        f"import runpy, sys; sys.argv = ['program.py']\n"
        f"try: runpy.run_path({str(Path(program.__file__))!r}, run_name='__main__')\n"
        "except SystemExit as stop: assert stop.code == 2\n"
        "foreign = {name.partition('.')[0] for name in sys.modules} & {'iclab', 'numpy', 'scipy', 'torch', 'pandas'}\n"
        "print(sorted(foreign))"
    )
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "iclab" not in told.stdout.replace("program.py", "")
    assert "claims.json results/store" in told.stderr
