"""Statements: ids, hypotheses that exist, and none forgotten."""

import re

from iclab.catalog import experiments
from iclab.theory.conditions import conditions
from iclab.theory.setting import MambaSetting, TransformerSetting
from iclab.theory.statements import BY_ID, STATEMENTS, required

CHECKED = {
    check.id
    for setting in (MambaSetting(), MambaSetting(model="linear"), TransformerSetting())
    for check in conditions(setting)
}


def test_each_stands_once_and_says_where_and_what():
    assert len(BY_ID) == len(STATEMENTS)
    for statement in STATEMENTS:
        assert statement.where, statement.id
        assert 10 < len(statement.words) < 200, statement.id
        assert statement.paper in "MTS"


def test_theorems_have_hypotheses_and_a_law():
    for statement in STATEMENTS:
        if statement.kind in ("theorem", "corollary", "lemma", "proposition"):
            assert statement.hypotheses, statement.id
            assert statement.law, statement.id
            assert re.search(r"\(\d+\)", statement.equations), statement.id


def test_every_hypothesis_is_checked_and_every_check_is_a_hypothesis():
    named = {hypothesis for statement in STATEMENTS for hypothesis in required(statement.id)}
    assert named == CHECKED


def test_conditions_belong_to_statements():
    for id_ in CHECKED:
        assert any(id_.startswith(f"{known} ") for known in BY_ID), id_


def test_all_statements_of_paper_m_are_here():
    wanted = {"M-cond1", *(f"M-thm{n}" for n in (1, 2, 3, 4)), "M-cor1", "M-cor2", *(f"M-lem{n}" for n in (3, 4, 5, 6))}
    assert wanted <= BY_ID.keys()
    assert not BY_ID["M-cond1"].to_test
    assert BY_ID["M-lem6"].to_test


def test_what_rests_on_a_theorem_rests_on_its_conditions():
    assert set(required("M-thm1")) < set(required("M-cor1"))
    assert "M-cond1 Condition 1" in required("M-thm4")
    assert "M-thm1 (ii) lower" not in required("M-thm4")


def test_experiments_bear_on_statements_that_exist():
    for experiment in experiments().values():
        assert set(experiment.theorems) <= BY_ID.keys(), experiment.id
