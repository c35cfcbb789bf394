"""M-kernel: its graphs, and whether its judges would notice a wrong law."""

import numpy as np
import pytest

from iclab.papers.mamba.kernel import Kernel
from iclab.papers.mamba.kernel_settings import KernelSettings, graph_of, tasks_of
from iclab.prompts import Prompts
from iclab.prompts.tasks import meets_condition_1

RINGS = ((6, "ring:1"), (6, "ring:3"))
SETTINGS = KernelSettings(graphs=RINGS, models=("mamba", "linear"), seeds=8, watched_steps=3)


@pytest.mark.parametrize("which", KernelSettings().graphs)
def test_every_graph_but_the_star_meets_condition_1(which):
    pairs = Prompts(patterns={"relevant": which[0]}, tasks=tasks_of(which)).tasks.pairs(which[0])
    assert meets_condition_1(pairs, which[0]) == (which[1] != "star")
    assert graph_of(which).complete == (which in ((6, "ring:3"), (12, "all")))


def test_a_random_graph_has_three_partners_and_one_part():
    graph = graph_of((12, "random"))
    assert ((graph.weights > 0).sum(1) == 3).all()
    assert graph.connected
    assert not graph_of((12, "cycles")).connected


def kernel_rows(columns, kernel):
    """Return the rows of one kernel, the same for eight seeds."""
    places = [{"query_pattern": j, "pattern": k, "entry": kernel[j, k]} for j, k in np.ndindex(*kernel.shape)]
    return [columns | place | {"seed": seed, "between": None} for seed in range(8) for place in places]


def rows_of(kernel_at, error=0.0, time_factor=1.0):
    """Return the rows of an ideal training, in which ``kernel_at(graph, time)`` is the kernel."""
    rows = []
    for which in RINGS:
        graph, columns = graph_of(which), {"relevant": which[0], "tasks": which[1], "diverged": False}
        for model in ("mamba", "linear"):
            rows += kernel_rows(columns | {"what": "kernel", "model": model}, kernel_at(graph, 0.9))
            for distance in (int(d) for d in np.unique(graph.distances) if d):
                wrong = error if distance == 2 else 0.0
                more = {"what": "error", "model": model, "between": distance, "prompts": 10_000, "error": wrong}
                rows += [columns | more | {"seed": seed} for seed in range(8)]
        for step in SETTINGS.slow_training(which).recipe.kept[1:]:
            slow = columns | {"model": "mamba", "step": step}
            kernel = kernel_at(graph, time_factor * SETTINGS.predicted_time(which, step))
            rows += kernel_rows(slow | {"what": "slow kernel"}, kernel)
            loss = {"what": "slow loss", "between": None, "hinge": 0.9}
            rows += [slow | loss | {"seed": seed} for seed in range(8)]
    return rows


def verdicts(rows):
    return {claim.id.partition(".")[2]: claim.verdict(rows)["verdict"] for claim in Kernel().claims(SETTINGS)}


def exponential(graph, time):
    return graph.kernel(time)


def test_the_law_found_here_holds_on_ideal_rows_and_refutes_the_lemma():
    found = verdicts(rows_of(exponential, error=0.13))
    expected = dict.fromkeys(("form", "form-linear", "rate", "positive", "distance2", "complete"), "holds")
    assert found == expected | {"condition1": "fails", "lemma3": "fails"}


def test_the_lemmas_own_kernel_is_told_apart():
    """(25) as printed: entries grow between patterns that met, and stay 0 between the others."""

    def lemma(graph, time):
        return np.where(graph.distances <= 1, graph.kernel(time), 0.0)

    found = verdicts(rows_of(lemma))
    assert (found["lemma3"], found["condition1"]) == ("holds", "holds")
    assert (found["form"], found["distance2"]) == ("fails", "fails")
    assert found["positive"] != "holds"


@pytest.mark.parametrize(("factor", "verdict"), [(1.05, "holds"), (0.85, "fails"), (2.0, "fails")])
def test_a_clock_that_is_off_is_noticed(factor, verdict):
    assert verdicts(rows_of(exponential, time_factor=factor))["rate"] == verdict


def test_nothing_is_judged_without_rows():
    assert set(verdicts([]).values()) == {"not run"}
    assert set(verdicts([row for row in rows_of(exponential) if row["seed"] < 3]).values()) == {"not run"}
