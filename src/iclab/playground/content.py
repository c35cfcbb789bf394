"""What the playground offers, as data: settings with their bounds, models with their gates, presets."""

from __future__ import annotations

from typing import Any, NamedTuple

from iclab.models import MODELS
from iclab.theory.mamba_conditions import MAMBA, OF_MODEL

DIMENSION = 30
"""d; patterns of all kinds must fit into it."""


class Setting(NamedTuple):
    """A number that a slider moves."""

    key: str
    symbol: str
    words: str
    least: float
    most: float
    step: float
    usual: float
    group: str


SETTINGS = (
    Setting("pa", "p_a", "outliers in training prompts", 0, 0.95, 0.05, 0.6, "training"),
    Setting("ka", "κ_a", "strength of training outliers", 0, 10, 0.1, 2.0, "training"),
    Setting("k", "K", "strength of irrelevant patterns in training", 0, 3, 0.05, 0.5, "training"),
    Setting("alpha", "α", "outliers in test prompts, for what is inside", 0, 0.95, 0.05, 0.7, "test"),
    Setting("kat", "κ_a′", "strength of test outliers", 0, 20, 0.01, 6.67, "test"),
    Setting("kt", "K′", "strength of irrelevant patterns in tests", 0, 5, 0.05, 1.5, "test"),
    Setting("l", "l", "examples in a prompt", 2, 60, 1, 20, "prompts"),
    Setting("m1", "M1", "relevant patterns", 2, 10, 1, 6, "prompts"),
    Setting("m2", "M2", "irrelevant patterns", 1, 12, 1, 10, "prompts"),
    Setting("v", "V", "outlier patterns", 1, 8, 1, 3, "prompts"),
    Setting("beta", "β", "norm of all patterns", 0.5, 6, 0.1, 3.0, "prompts"),
    Setting("delta", "δ", "initial scale of keys and queries", 0.01, 1, 0.01, 0.2, "recipe"),
    Setting("eta", "η", "step size, as a multiple of each model's own", 0.05, 4, 0.05, 1.0, "recipe"),
    Setting("b", "B", "prompts per step", 16, 512, 16, 128, "recipe"),
    Setting("t", "T", "steps", 25, 2000, 25, 1000, "recipe"),
    Setting("seeds", "seeds", "training seeds", 4, 16, 1, 4, "recipe"),
)
"""All sliders in their order. Their sizes keep M1 + M2 + V within `DIMENSION`."""


class Choice(NamedTuple):
    """A word out of a few; the first is the usual one."""

    key: str
    words: str
    options: tuple[str, ...]
    group: str


CHOICES = (
    Choice("labels", "labels of outliers", ("flip", "random", "target", "worst"), "test"),
    Choice("placement", "places of outliers", ("random", "farthest", "closest"), "test"),
    Choice("patterns", "patterns of outliers", ("paper", "training"), "test"),
    Choice("gates", "gates of outliers", ("learned", "shut", "open"), "test"),
    Choice("w", "gate vector w", ("trained", "zero"), "recipe"),
)
"""What test outliers show, where they are, which patterns they carry and what a hand does to their gates; and whether
the gate is trained, or w = 0 for ever: every gate as for a logit of 0, ½ in Mamba."""

ACTIVE = 0.5
"""M-kernel judges the law of the kernel while the loss is above this; the page shows the kernel just before."""
MOST_PROMPTS = 10_000
"""Prompts that the editor can show, by number."""

_OFFERED: dict[str, tuple[str, dict[str, Any], str]] = {
    "mamba": ("mamba", {}, ""),
    "linear": ("linear", {}, ""),
    "mamba2": ("mamba2", {}, ""),
    "mamba2-scaled": ("mamba2", {"scaled_input": True}, "#7A6FF0"),
    "retnet": ("retnet", {}, ""),
    "gated-retention": ("gated-retention", {}, ""),
    "gla-rows": ("gla", {"reading": "rows"}, ""),
    "hard-sigmoid": ("gated", {"function": "hard-sigmoid"}, "#B07AA1"),
    "tanh": ("gated", {"function": "tanh"}, "#9C755F"),
    "softsign": ("gated", {"function": "softsign"}, "#59A14F"),
    "floor": ("gated", {"function": "floor"}, "#7F7F7F"),
    "softplus": ("gated", {"function": "softplus"}, "#BAB000"),
    "exp": ("gated", {"function": "exp"}, "#17BECF"),
}
_LABELS = {"mamba2-scaled": "Mamba-2, inflow Δ", "gla-rows": "GLA, rows"}


def models() -> dict[str, dict[str, Any]]:
    """Return the models by key: names, options, colours, step sizes and the numbers of their gates."""
    found = {}
    for key, (name, options, colour) in _OFFERED.items():
        architecture = MODELS[name]
        usual = {"scaled_input": False, "gamma": 0.9, "trained": True, "temperature": 16.0, "floor": 0.05}
        form = architecture.gate_form(usual | options)
        assert form is not None
        label = _LABELS.get(key) or (f"Mamba with {key}" if name == "gated" else architecture.label)
        found[key] = {
            "name": name,
            "options": options,
            "label": label,
            "colour": colour or architecture.colour,
            "stepSize": architecture.step_size,
            "form": form._asdict(),
        }
    return found


_DEEP: dict[str, Any] = {"models": "mamba", "pa": 0.4, "alpha": 0.3, "labels": "random"}
"""Paper M's settings for attention and gates, in its models of three layers."""

PRESETS: tuple[tuple[str, str, str, dict[str, Any]], ...] = (
    ("M-fig2", "M Figure 2: error against α, flipped labels", "chart-error", {}),
    ("M-fig2-target", "M Figure 2: error against α, one label for all outliers", "chart-error", {"labels": "target"}),
    ("M-fig2-random", "M Figure 2: error against α, random labels", "chart-error", {"labels": "random"}),
    ("M-fig3", "M Figures 3 and 5, with one layer: attention during training", "chart-attention", _DEEP),
    ("M-fig4", "M Figures 4 and 6, with one layer: gates by distance", "chart-gates", _DEEP),
    ("worst", "The worst labels, exactly", "chart-error", {"labels": "worst"}),
    ("closest", "Outliers next to the query", "chart-error", {"placement": "closest"}),
    ("ring:1", "ring:1 fails: patterns two edges apart attract", "kernel", {"tasks": "ring:1", "alpha": 0}),
    (
        "M-kernel",
        "The law of the kernel: small steps, gates of one half",
        "kernel",
        {"models": "mamba", "tasks": "ring:1", "pa": 0.3, "w": "zero", "eta": 0.05, "b": 512, "t": 200},
    ),
    (
        "gate-shut",
        "Gates of outliers shut by hand: linear attention succeeds",
        "chart-error",
        {"gates": "shut", "shown": "linear"},
    ),
    ("gate-open", "Gates of outliers opened by hand: Mamba fails", "chart-error", {"gates": "open", "shown": "mamba"}),
    ("gate-zero", "A gate that never learns: w = 0", "chart-error", {"w": "zero"}),
    ("seen", "Outliers as in training", "chart-error", {"patterns": "training", "kat": 2}),
    ("no-outliers", "Training without outliers: neither model withstands them", "chart-error", {"pa": 0}),
    (
        "E.6",
        "E.6: gates that cannot shut an outlier out",
        "chart-gates",
        {"models": "mamba,mamba2,retnet,gated-retention,gla-rows"},
    ),
    (
        "gates",
        "Other functions in Mamba's gate",
        "chart-error",
        {"models": "mamba,hard-sigmoid,tanh,softsign,floor,softplus,exp"},
    ),
)
"""Key, title, what to look at, and what differs from the usual settings."""


TOUR: tuple[tuple[str, str, str, dict[str, Any]], ...] = (
    (
        "Learning in context",
        "A prompt shows examples of a task, two patterns with opposite labels, and asks for the label of a last "
        "one. Without outliers, both models learn to answer for all tasks: see the error at α = 0.",
        "chart-error",
        {"pa": 0, "t": 500, "alpha": 0},
    ),
    (
        "Outliers break both",
        "Now test prompts have outliers with flipped labels, and training had none. Follow the curves to the right:"
        " neither model has learnt to ignore them.",
        "chart-error",
        {"pa": 0, "t": 500, "alpha": 0.3, "patterns": "training"},
    ),
    (
        "Train with outliers",
        "Now 60 % of the training examples are outliers with random labels. Mamba learns to ignore them, even "
        "mixtures it has not seen. The linear Transformer gives each example the same weight, and errs more often "
        "than not as soon as outliers are the majority.",
        "chart-error",
        {},
    ),
    (
        "The gate does it",
        "The gate of outliers is shut (dashed), and that of clean examples falls with the distance from the query. "
        "In the prompt below, put v* on an example and see its gate close. Then choose “open” for the gates of "
        "outliers, under Test prompts: with its gates opened by hand, Mamba fails.",
        "chart-gates",
        {"models": "mamba", "alpha": 0.3},
    ),
    (
        "What the gate costs",
        "Gates fall with the distance, so that the nearest examples decide. A few outliers next to the query that"
        " are too weak to shut the gate hurt Mamba more than the linear Transformer: see α = 0.2. Make κ_a′ larger "
        "and see the error fall.",
        "chart-error",
        {"placement": "closest", "kat": 1.5, "alpha": 0.2},
    ),
    (
        "Tasks that were never seen",
        "Training on a ring of tasks tells only neighbours apart. The kernel is about δ² exp(2τL): patterns two "
        "edges apart attract each other (blue), so that their tasks fail without any outlier. Click edges of the "
        "graph to repair it.",
        "kernel",
        {"models": "mamba", "tasks": "ring:1", "alpha": 0, "eta": 0.2},
    ),
)
"""The six steps of the tour: title, words, what to look at, and what differs from the usual settings."""


def conditions() -> list[dict[str, Any]]:
    """Return the conditions of paper M's theorems, and which of the two models they are about.

    The page always follows Definitions 1 and 2, so that it leaves out the condition that says so.
    """
    found = []
    for rule in MAMBA:
        about = [model for model, theorems in OF_MODEL.items() if rule.theorem in theorems] or list(OF_MODEL)
        if rule.name != "Definitions 1, 2":
            id_ = f"{rule.theorem} {rule.name}"
            found.append({"id": id_, "formula": rule.formula, "relation": rule.relation, "models": about})
    return found


def content() -> dict[str, Any]:
    """Return all of it as plain data for the page."""
    return {
        "dimension": DIMENSION,
        "settings": [setting._asdict() for setting in SETTINGS],
        "choices": [choice._asdict() for choice in CHOICES],
        "models": models(),
        "presets": [dict(zip(("key", "title", "place", "changes"), preset, strict=True)) for preset in PRESETS],
        "conditions": conditions(),
        "tour": [dict(zip(("title", "words", "place", "changes"), step, strict=True)) for step in TOUR],
        "tasks": "ring:3",
        "usualModels": "mamba,linear",
        "active": ACTIVE,
        "mostPrompts": MOST_PROMPTS,
    }
