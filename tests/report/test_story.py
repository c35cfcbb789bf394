"""The story: its words and numbers follow the verdicts, and it speaks of claims that exist."""

from dataclasses import replace

import pytest

from iclab.catalog import find
from iclab.report.findings import FINDINGS
from iclab.report.story import Facts, cards, share

POISONED = next(finding for finding in FINDINGS if finding.id == "outliers")


def record(id_, verdict, points=()):
    points = [{"where": where, "value": value} for where, value in points]
    return {"id": id_, "verdict": verdict, "points": points, "measured": points[-1]["value"] if points else None}


def card_of(id_, *claims):
    (card,) = [card for card in cards(FINDINGS, {}) if card.finding.id == id_]
    return replace(card, facts=Facts(claims, {}))


@pytest.mark.slow
def test_findings_speak_of_claims_and_panels_that_exist():
    for finding in FINDINGS:
        made = {claim.id for id_ in finding.experiments for claim in find(id_).claims(find(id_).settings())}
        assert {*finding.expected, *finding.claims} <= made, finding.id


def test_six_findings_the_kernel_first():
    assert [finding.id for finding in FINDINGS] == ["kernel", "outliers", "worst", "gates", "transformers", "text"]


def test_without_results_a_card_asks_and_says_what_to_run():
    for card in cards(FINDINGS, {}):
        assert card.title.startswith("Not run yet: ")
        assert card.missing == card.finding.experiments
        assert card.drawing is None


def test_the_kernels_words_follow_its_verdicts():
    form = record("M-kernel.form", "holds", [("ring:1 of 6", 0.975), ("ring:1 of 8", 0.981)])
    rate = record("M-kernel.rate", "holds", [("ring:1 of 6, step 4", 0.983), ("star of 6, step 4", 0.92)])
    lost = record("M-kernel.lemma3", "fails", [("ring:1 of 6", 0.25)])
    theorem = record("M-kernel.condition1", "fails")
    card = card_of("kernel", form, rate, lost, theorem)
    told = " ".join(card.sentences)
    assert card.title == card.finding.title
    assert "0.97 to 0.98 after training on rings of 6 and 8 patterns" in told
    assert "within 1.7\N{NO-BREAK SPACE}% of what theory predicts" in told  # the star does not meet Condition 1
    assert "refutes Lemma 3 (25), by which attention between such patterns stays 0: it is 0.25 of" in told
    assert "It also refutes Theorem 1" in told
    told = " ".join(card_of("kernel", form, rate, lost | {"verdict": "holds"}, theorem).sentences)
    assert "refutes" not in told
    assert "Theorem 1" not in told
    other = card_of("kernel", form | {"verdict": "undecided"}, rate, lost, theorem)
    assert other.title == other.finding.otherwise
    assert other.sentences[-1].endswith("This store does not show it: M-kernel.form (undecided).")


def test_every_finding_has_other_words_for_other_verdicts():
    for finding in FINDINGS:
        claims = [record(id_, verdict, [("α = 0.6", 0.1)]) for id_, verdict in finding.expected.items()]
        assert card_of(finding.id, *claims).title == finding.title
        for place, claim in enumerate(claims):
            changed = [*claims[:place], claim | {"verdict": "undecided"}, *claims[place + 1 :]]
            card = card_of(finding.id, *changed)
            assert card.title == finding.otherwise != finding.title
            assert claim["id"] in card.sentences[-1]


@pytest.mark.slow
def test_with_rows_altered_the_card_says_something_else(report):
    section = next(section for section in report[1].sections if section.id == "M-fig2")
    (card,) = cards([POISONED], {"M-fig2": section.outcome})
    rows = section.outcome.rows

    def error(model):
        wanted = {"model": model, "outlier_labels": "flip", "outlier_fraction": 0.6}
        found = [row["error"] for row in rows if wanted.items() <= row.items()]
        return share(sum(found) / len(found))

    words = "it errs in {} of prompts, and linear attention in {}."
    assert card.title == POISONED.title
    assert words.format(error("mamba"), error("linear")) in card.sentences[0]
    swapped = {"mamba": "linear", "linear": "mamba"}
    altered = [row | {"model": swapped.get(row["model"], row["model"])} for row in rows]
    claims = [claim.verdict(altered) for claim in section.edition.claims]
    (other,) = cards([POISONED], {"M-fig2": replace(section.outcome, rows=altered, claims=claims)})
    assert other.title == POISONED.otherwise
    assert words.format(error("linear"), error("mamba")) in other.sentences[0]
    assert "M-fig2.gap.flip (fails)" in other.sentences[-1]
    assert not any(sentence.startswith("Mamba is ahead") for sentence in other.sentences)
