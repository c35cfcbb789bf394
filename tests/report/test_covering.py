"""The conditions of the theorems in the report: one line per condition, over all settings of an experiment."""

import re

import pytest

from iclab.catalog import experiments, find
from iclab.report.covering import covering_of


def covering(id_, paper):
    experiment = find(id_)
    return covering_of(experiment.conditions(experiment.settings().quick()), paper)


@pytest.fixture(scope="module")
def figure():
    return covering("M-fig2", "M")


def line(found, where, name):
    return next(one for one in found.conditions if (one.where, one.name) == (where, name))


def test_the_figure_stands_outside_several_conditions(figure):
    assert line(figure, "M Theorem 1", "(i)").verdict == "not met"
    restored = line(figure, "M Theorem 2", "(b) restored")
    assert restored.right == "6.667"
    fraction = line(figure, "M Theorem 2", "(c)")
    fractions = find("M-fig2").settings().quick().outlier_fractions
    inside = sum(f < 0.6 for f in fractions)
    assert fraction.verdict == f"met at {inside} of {len(fractions)}"
    assert fraction.left == f"0 to {max(fractions):g}"
    assert line(figure, "M Theorem 1", "(iii) lower").verdict == "met"


def test_both_models_share_their_lines(figure):
    places = [(one.where, one.name) for one in figure.conditions]
    assert len(set(places)) == len(places)
    assert {"M Theorem 1", "M Theorem 3"} <= set(figure.groups)
    steps = line(figure, "M §2, §3.2", "η")
    assert steps.settings == figure.settings
    assert not any("at the same η" in one.words for one in figure.predictions)
    assert sum(one.met < one.settings for one in figure.conditions) == int(
        figure.summary.split(" of ")[1].split()[0]
    ) - int(figure.summary.split()[0])


def test_a_paper_shows_its_own_theorems_only():
    assert {one.where[0] for one in covering("T-fig2", "T").conditions} <= {"T", "i"}  # i: iclab's
    selector = covering("S-fig1", "S")
    assert {one.statement[0] for one in selector.conditions} == {"S"}
    assert any(one.words == "steps by S Theorem 1" for one in selector.predictions)
    assert not any("T Theorem" in one.words for one in selector.predictions)


def test_models_without_a_theorem_have_none():
    assert covering_of([], "M") is None
    softmax = find("M-fig2")
    only = softmax.settings().quick().replace(models=("softmax",), baselines=False)
    assert covering_of(softmax.conditions(only), "M") is None


@pytest.mark.slow
def test_every_experiment_can_be_covered():
    for experiment in experiments().values():
        found = covering_of(experiment.conditions(experiment.settings().quick()), "")
        for one in found.conditions if found else ():
            assert 0 <= one.met <= one.settings <= found.settings, (experiment.id, one.name)
            assert "nan" not in one.left + one.right + one.slack, (experiment.id, one.name)


@pytest.mark.slow
def test_the_page_folds_it_under_every_experiment(report):
    page, content = report
    text = page.read_text()
    covered = [section for section in content.sections if section.covering]
    assert len(covered) > 15
    assert text.count('<details class="covering">') == len(covered)
    part = text.split('<article id="M-fig2"')[1].split("</article>")[0]
    assert "κa′ ≥ κa / L" in re.sub("<[^>]*>", "", part)
    assert 'class="met not-met">not met' in part
    assert 'partly">met at' in part
    assert part.count("M Theorem 4") == 1
