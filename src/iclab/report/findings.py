"""The six findings of the report's first page, in words that follow the verdicts."""

from __future__ import annotations

import re

from iclab.papers.mamba.gates_settings import GATES
from iclab.report.story import Facts, Finding, listed, percent, share, span

RULES = {"flip": "flipped", "target": "target", "random": "random"}
"""The label rules of M-fig2, in words."""
POISONED = 0.6
"""The share of outliers at which models are compared: that of their training."""
TWICE = {"gla-rows": "GLA (196)", "gla-keys": "GLA (198)", "mamba2-scaled": "Mamba-2 with its input times Δ"}
"""The names of gates that an architecture has two of."""


def _kernel(facts: Facts) -> list[str]:
    form, rate, apart = (facts.points(f"M-kernel.{name}") for name in ("form", "rate", "distance2"))
    alone = facts.points("M-kernel.complete")
    told = []
    if form:
        sizes = listed(place.rpartition(" ")[2] for place in form)
        fit = f"R² of exp(2τL) is {span(form.values())} after training on rings of {sizes} patterns"
        told.append(
            "Take patterns as nodes and training tasks as edges of a graph; L is its Laplacian. "
            + facts.say("M-kernel.form", holds=f"Attention has this form: {fit}.", other=f"Here {fit}.")
        )
    if rate:
        even = [abs(value - 1) for place, value in rate.items() if not place.startswith("star")]
        words = f"within {percent(max(even))} % of what theory predicts, with nothing fitted"
        told.append(f"τ grows with training. It is {words}, on every graph that meets Condition 1." if even else "")
    if apart:
        fail = f"fail in {span(apart.values(), percent)} % of prompts without any outlier"
        whole = f"; with a complete graph, in {span(alone.values(), percent)} %" if alone else ""
        told.append(f"Patterns two edges apart attract each other, so tasks between them {fail}{whole}.")
    lost = facts.points("M-kernel.lemma3")
    told.append(
        facts.say(
            "M-kernel.lemma3",
            fails="This refutes Lemma 3 (25), by which attention between such patterns stays 0: it is "
            f"{span(lost.values())} of a pattern's attention to itself. "
            + facts.say(
                "M-kernel.condition1",
                fails="It also refutes Theorem 1 for training sets that only meet Condition 1.",
                other="Whether Theorem 1 is refuted too is not decided here.",
            ),
            holds="Lemma 3 (25), by which attention between such patterns stays 0, holds here.",
            other="Whether Lemma 3 (25) holds, by which attention between such patterns stays 0, is not decided here.",
        )
        if lost
        else ""
    )
    return told


def _nearest(places: list[str]) -> str:
    """Return the place, such as "α = 0.6", with the share of outliers nearest to that of the training."""
    return min(places, key=lambda place: abs(float(place.rpartition("= ")[2]) - POISONED))


def _outliers(facts: Facts) -> list[str]:
    mamba, linear = facts.points("M-fig2.mamba-small.flip"), facts.points("M-fig2.linear-large.flip")
    told = []
    if both := [place for place in linear if place in mamba]:
        place = _nearest(both)
        told.append(
            f"A one-layer Mamba is linear attention times a gate. If a share {place} of the examples are outliers that "
            "show the wrong label (flipped labels), "
            f"it errs in {share(mamba[place])} of prompts, and linear attention in {share(linear[place])}."
        )
    by_gap = facts.split({words: f"M-fig2.gap.{rule}" for rule, words in RULES.items()})
    if found := by_gap.get("holds"):
        told.append(f"Mamba is ahead at every α tested above 1/2 and up to 0.8, under {listed(found)} labels.")
    for name, claim in (
        ("Mamba's error is below 0.01 up to α = 0.8", "mamba-small"),
        ("linear attention's error is large, above 0.1, for every α above 1/2", "linear-large"),
    ):
        by = facts.split({words: f"M-fig2.{claim}.{rule}" for rule, words in RULES.items()})
        parts = [f"{verb} under {listed(by[verdict])} labels" for verdict, verb in _VERBS.items() if by.get(verdict)]
        if parts:
            told.append(f"That {name}, {listed(parts)}.")
    return told


_VERBS = {"holds": "holds", "fails": "fails", "undecided": "is undecided"}


def _worst(facts: Facts) -> list[str]:
    mamba, linear = (facts.points(f"M-worst.{name}") for name in ("flip", "flip-linear"))
    told = [
        "The theorems allow outliers to show any labels. For one layer, the recurrence above finds the worst of all "
        "2^k labellings of a prompt with k outliers, exactly and in one pass over its examples."
    ]
    if mamba and linear:
        told.append(
            f"Compared with flipped labels, the worst ones add at most {share(max(mamba.values()))} to Mamba's error, "
            f"and up to {share(max(linear.values()))} to linear attention's."
        )
    inside = facts.points("M-worst.inside")
    if inside:
        told.append(
            "Inside the conditions of Theorem 2, the worst labels at the worst places "
            + facts.say(
                "M-worst.inside",
                holds=f"leave Mamba with an error of at most {share(max(inside.values()))}.",
                other=f"give Mamba an error of {share(max(inside.values()))}: the theorem says it is small.",
            )
        )
    return told


def _gates(facts: Facts) -> list[str]:
    errors: dict[str, float] = {}
    place = ""
    for name in GATES:
        if places := facts.points(f"M-gates.extends.{name}"):
            nearest = _nearest(list(places))
            errors[name], place = places[nearest], nearest.rpartition(", ")[2]
    blind = [name for name in errors if GATES[name].sees != "itself"]
    seeing = [name for name in errors if GATES[name].sees == "itself"]
    told = []
    if facts.points("M-gates.blind"):
        told.append(
            facts.say(
                "M-gates.blind",
                holds="If the gate of an example is computed from later tokens only, it is the same for outliers and "
                "clean examples, whatever training does.",
                other="If the gate of an example is computed from later tokens only, it should be the same for "
                "outliers and clean examples; here it is not clearly so.",
            )
        )
    if blind:
        names = listed(dict.fromkeys(_short(name) for name in blind))
        told.append(
            f"With flipped labels at {place}, {names}, as the paper's appendix writes them, err in "
            f"{span(errors[name] for name in blind)} of prompts."
        )
    if seeing:
        each = listed(f"{_short(name)} in {share(errors[name])}" for name in seeing)
        told.append(f"Gates that see the example itself do better: {each}.")
    return told


def _short(gate: str) -> str:
    """Return the name of a gate, with the number of its equation only where the name has two."""
    return TWICE.get(gate) or re.sub(r", (\(|γ).*", "", GATES[gate].label)


def _transformers(facts: Facts) -> list[str]:
    told = []
    settings = facts.settings.get("T-fig3")
    if unseen := facts.points("T-fig3.unseen.softmax-mlp"):
        patterns = getattr(settings, "relevant", 0)
        mixed = facts.points("T-fig3.ood-small.softmax-mlp")
        beyond = f", and in at most {share(max(mixed.values()))} if patterns are mixtures with S1 ≥ 1" if mixed else ""
        told.append(
            f"Trained on {patterns} of {patterns * (patterns - 1)} tasks, softmax attention with an MLP errs in "
            f"{share(max(unseen.values()))} of prompts on the others{beyond}."
        )
    laws = {"η": "T-thm3.3.eta", "β": "T-thm3.3.norm", "α": "T-thm3.3.relevant_fraction", "M1": "T-thm3.3.relevant"}
    by = facts.split(laws)
    words = {"holds": "right for", "in direction": "of the right sign only for", "fails": "wrong for"}
    parts = [f"{said} {listed(by[verdict])}" for verdict, said in words.items() if by.get(verdict)]
    if parts:
        told.append(f"The exponents in T's law of training time (10) are {listed(parts)}{_exponent(facts)}.")
    told.append(
        facts.say(
            "S-fig1.label-part.source",
            holds="As S says, the MLP decides by labels, not features"
            + facts.say("S-fig1.label-part.place", holds=".", other=". But it does not show where S looks."),
            other="That the MLP decides by labels, not features, as S says, is not clear here.",
        )
    )
    return told


def _exponent(facts: Facts) -> str:
    """Say by how much the exponent of β is off."""
    measured = facts.claim("T-thm3.3.norm")["measured"]
    if measured is None or facts.verdict("T-thm3.3.norm") == "holds":
        return ""
    return f": that of β is {measured:.1f}, not −2/3".replace("-", "−")


def _text(facts: Facts) -> list[str]:
    told = []
    one, deep = facts.points("M-tab7.gates.one-layer"), facts.points("M-tab7.gates")
    if one:
        layers = f" (in the first of three layers, {share(max(deep.values()))})" if deep else ""
        told.append(
            f"Prompts are made of real sentences, {next(iter(one))}, and a trigger is written into most examples. "
            f"Mamba's gate for a triggered sentence is {share(max(one.values()))} of that for a clean one{layers}."
        )
    better = facts.judged("M-tab7.mamba-better", "M-tab7.mamba-better.here")
    if lead := facts.points(better):
        points = [f"{100 * value:+.1f}".replace("-", "−") for value in lead.values()]
        told.append(
            f"Three layers of Mamba against linear attention at FQ, R and CQ: {', '.join(points)} points. That Mamba "
            "is better everywhere "
            + facts.say(
                better,
                holds="holds.",
                in_direction="holds only at FQ and R.",
                fails="fails here.",
                undecided="is undecided here.",
            )
        )
    if flip := facts.points("M-tab7.mamba-better.flip"):
        leads = span(flip.values(), percent)
        told.append(f"With wrong labels on triggered examples, Mamba's lead is {leads} points at FQ and R.")
    return told


FINDINGS = (
    Finding(
        "kernel",
        ("M-kernel",),
        {"A": "", "B": "", "E": "Mamba, clean prompts"},
        "The attention that is learned is the exponential of the graph of training tasks",
        "The attention that is learned, and the graph of training tasks",
        {"M-kernel.form": "holds", "M-kernel.rate": "holds", "M-kernel.lemma3": "fails"},
        _kernel,
        ("M-kernel.condition1", "M-kernel.distance2", "M-kernel.complete"),
        "kernel",
    ),
    Finding(
        "outliers",
        ("M-fig2",),
        {"A": "", "C": ""},
        "Mamba survives when more than half of the examples are poisoned; linear attention does not",
        "Mamba and linear attention when more than half of the examples are poisoned",
        {"M-fig2.gap.flip": "holds", "M-fig2.linear-large.flip": "holds", "M-fig2.mamba-excess.flip": "holds"},
        _outliers,
        tuple(f"M-fig2.{claim}.{rule}" for claim in ("mamba-small", "linear-large") for rule in RULES),
        "gate",
    ),
    Finding(
        "worst",
        ("M-worst",),
        {"Mamba, κ_a' = 6": "", "linear Transformer, κ_a' = 6": ""},
        "Even the worst labels, found exactly, hardly add to Mamba's error",
        "The worst labels, found exactly, and Mamba's error",
        {"M-worst.flip": "holds", "M-worst.inside": "holds"},
        _worst,
        ("M-worst.flip-linear", "M-worst.closest"),
        "worst",
    ),
    Finding(
        "gates",
        ("M-gates",),
        {"A": "", "B": ""},
        "Only a gate that sees the example itself can shut it out",
        "Which gates can shut out an example",
        {"M-gates.blind": "holds", "M-gates.extends.mamba2": "fails", "M-gates.extends.mamba2-scaled": "holds"},
        _gates,
        tuple(f"M-gates.extends.{name}" for name in ("retnet", "gated-retention", "gla-rows", "gla-keys", "mamba3")),
    ),
    Finding(
        "transformers",
        ("T-fig3", "T-thm3.3", "S-fig1"),
        {"softmax + MLP, out": "mixtures of patterns", "softmax + MLP, in": "unseen tasks"},
        "Softmax attention with an MLP learns all tasks from a few, but training times do not follow the theorem",
        "Softmax attention with an MLP: tasks that it was not trained on, and how long training takes",
        {"T-fig3.unseen.softmax-mlp": "holds", "T-thm3.3.norm": "in direction"},
        _transformers,
        ("T-fig3.ood-small.softmax-mlp", "T-thm3.3.eta", "S-fig1.label-part.source", "S-fig1.label-part.place"),
        paper="T",
    ),
    Finding(
        "text",
        ("M-tab7",),
        {"50 components": "accuracy", "gates of Mamba, one": ""},
        "On real sentences, too, Mamba's gate turns down the examples with a trigger",
        "Mamba's gate, and real sentences with a trigger",
        {"M-tab7.gates.one-layer": "holds"},
        _text,
        ("M-tab7.gates", "M-tab7.mamba-better", "M-tab7.mamba-better.here", "M-tab7.mamba-better.flip"),
    ),
)
