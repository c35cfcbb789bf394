"""Predicates of the other tables and figures of deep models, on made-up rows."""

from made_up_rows import attention, cells, gates, judged

from iclab.catalog import find
from iclab.papers.mamba.tab2 import PRINTED
from iclab.papers.mamba.tab4 import SOFTMAX
from iclab.papers.mamba.tab5 import LINEAR


def test_printed_numbers_agree_where_the_paper_prints_them_twice():
    """M-tab1's linear model is M-tab2's H = 1 and M-tab5's α = 0.5; softmax at CQ is printed twice, differently."""
    linear = find("M-tab1").numbers["as chosen", "deep-linear"]
    assert linear == find("M-tab2").numbers["H = 1", "deep-linear"] == find("M-tab5").numbers["α = 0.5", "deep-linear"]
    assert linear == find("M-tab3").numbers["as chosen", "deep-linear"]
    first, second = (
        find("M-tab3").numbers["as chosen", "deep-softmax"],
        find("M-tab4").numbers["α = 0.5", "deep-softmax"],
    )
    assert first[:2] == second[:2]
    assert (first[2], second[2]) == (99.28, 99.38)
    assert find("M-tab4").numbers["α = 0.8", "deep-softmax"][2] is None  # a misprint, left out


def test_what_softmax_attention_is_said_to_do():
    printed = {"deep-mamba": (0.9973, 0.9967, 0.8273), "deep-linear": (0.937, 0.941, 0.940)}
    others = [row for model, values in printed.items() for row in cells({"as chosen": values}, model)]

    def found(*values, **more):
        return judged("M-tab3", others + cells({"as chosen": values}, "deep-softmax", **more))

    good = found(0.994, 0.9926, 0.9928)
    assert set(good.values()) == {"holds"}
    assert found(0.994, 0.9926, 0.97) == good | {"softmax-high": "fails", "softmax-flat": "fails"}
    assert found(0.95, 0.95, 0.95) == {
        "softmax-high": "fails",
        "softmax-flat": "holds",
        "softmax-better": "in direction",
        "softmax-near-mamba": "fails",
        "mamba-cq-drop": "holds",
    }
    assert found(0.994, 0.9926, 0.9928, lost={("as chosen", 2)})["softmax-high"] == "undecided"
    assert judged("M-tab3", others)["softmax-high"] == "not run"


def test_what_training_on_cq_is_said_to_do():
    def found(*after):
        return judged(
            "M-cq-training", cells({"random places": (0.997, 0.997, 0.827), "then closest": after}, "deep-mamba")
        )

    assert found(0.985, 0.985, 0.9545) == {"lift": "holds", "cost": "holds"}
    assert found(0.985, 0.97, 0.9545) == {"lift": "holds", "cost": "fails"}
    assert found(0.985, 0.985, 0.80) == {"lift": "fails", "cost": "holds"}


def test_what_heads_are_said_to_do():
    printed = {f"H = {h}": tuple(x / 100 for x in numbers) for h, numbers in PRINTED.items()}

    def found(**changes):
        rows = cells({"H = 1 with W_V, W_O": printed["H = 1"], **printed, **changes}, "deep-linear")
        return judged("M-tab2", rows)

    assert set(found().values()) == {"holds"}
    swapped = found(**{"H = 2": printed["H = 4"], "H = 4": printed["H = 2"]})
    assert (swapped["two-better"], swapped["4-worse"], swapped["3-worse"]) == ("fails", "fails", "holds")
    assert (swapped["numbers.2"], swapped["numbers.1"]) == ("fails", "holds")
    assert judged("M-tab2", [], heads=(1, 6)).keys() == {"numbers.1"}  # of six heads the paper says nothing


def test_what_more_outliers_are_said_to_do():
    softmax = {f"α = {f:g}": tuple((x or 95.0) / 100 for x in numbers) for f, numbers in SOFTMAX.items()}
    linear = {f"α = {f:g}": tuple(x / 100 for x in numbers) for f, numbers in LINEAR.items()}
    assert set(judged("M-tab4", cells(softmax, "deep-softmax")).values()) == {"holds"}
    dropped = judged("M-tab4", cells(softmax | {"α = 0.8": (0.7, 0.7, 0.7)}, "deep-softmax"))
    assert dropped == {"no-sharp-drop": "fails", "high": "holds", "numbers": "fails"}
    votes = cells(linear, "vote", stage="vote")
    assert set(judged("M-tab5", cells(linear, "deep-linear") + votes).values()) == {"holds"}
    assert judged("M-tab5", cells(softmax, "deep-linear") + votes)["sharp-drop"] == "fails"
    alone = judged("M-tab4", cells({"α = 0.9": (0.5, 0.5, 0.5)}, "deep-softmax"), outlier_fractions=(0.9,))
    assert set(alone.values()) == {"not run"}  # nothing to compare it with


def test_where_attention_is_said_to_go():
    good = attention({0: 5.0, 500: 9.0}, {0: 0.0, 500: -2.0})
    assert judged("M-fig3", good) == {"same-larger.layer1": "holds", "gap-grows.layer1": "holds"}
    assert set(judged("M-fig5", good).values()) == {"holds"}
    negative = attention({0: 5.0, 500: -1.0}, {0: 0.0, 500: -0.6})  # less than the others, though above twice them
    assert judged("M-fig3", negative) == {"same-larger.layer1": "fails", "gap-grows.layer1": "fails"}
    shrinking = attention({0: 9.0, 500: 5.0}, {0: 0.0, 500: 1.0})
    assert judged("M-fig3", shrinking) == {"same-larger.layer1": "holds", "gap-grows.layer1": "fails"}
    late = attention({0: 5.0, 500: 9.0}, {0: 0.0, 500: -2.0}, steps=(500,))
    assert judged("M-fig3", late) == {"same-larger.layer1": "holds", "gap-grows.layer1": "not run"}
    lost = attention({0: 5.0, 500: 9.0}, {0: 0.0, 500: -2.0}, lost={(500, 1)})
    assert judged("M-fig3", lost) == {"same-larger.layer1": "undecided", "gap-grows.layer1": "undecided"}
    shallow = attention({0: 5.0, 500: 9.0}, {0: 0.0, 500: -2.0}, layers=(1, 2))
    assert judged("M-fig5", shallow)["same-larger.layer3"] == "not run"


def test_what_gates_are_said_to_do():
    paper = {"untrained": 1.0, "trained": 0.02, "closest": 0.02, "one layer": 0.02, "one layer, norm": 0.02}
    assert set(judged("M-fig4", gates(paper)).values()) == {"holds"}
    found = judged("M-fig4", gates(paper | {"trained": 1.1, "one layer": 0.3}))
    assert {name for name, verdict in found.items() if verdict == "fails"} == {
        "outlier-small.layer1",
        "training-shuts.layer1",
        "outlier-small.one-layer",
    }
    assert judged("M-fig4", gates(paper, fade=0.4))["half-life.layer1"] == "fails"
    assert judged("M-fig4", gates(paper, fade=1.1))["decay.layer1"] == "fails"
    few = {stage: share for stage, share in paper.items() if not stage.startswith("one")}
    missing = judged("M-fig4", gates(few))
    assert {name for name, verdict in missing.items() if verdict == "not run"} == {
        "outlier-small.one-layer",
        "outlier-small.one-layer.norm",
    }
    nobody = [row | {"gate": None if row["kind"] == "outlier" else row["gate"]} for row in gates(paper)]
    assert judged("M-fig4", nobody)["outlier-small.layer1"] == "not run"  # there was no outlier
