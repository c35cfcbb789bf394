"""docs/deep.md."""

from quotes.finders import claims_held, claims_of, shut_layers
from quotes.layers import (
    GATES,
    LINEAR,
    MAMBA,
    ONE_LAYER,
    ONE_LAYER_NORM,
    PLACES,
    SOFTMAX,
    VOTE,
    accuracies,
    accuracy,
    hybrid,
)
from quotes.pages import Quotes
from quotes.sources import Number, above, below, claim, found, least, most, rows, table

FLIPPED = "labels flipped"
CLOSEST = [
    claim("M-fig4.outlier-small.layer1.cq-training"),
    claim("M-fig6.outlier-small.layer2.cq-training"),
    claim("M-fig6.outlier-small.layer3.cq-training"),
]
FALLEN = [
    claim("M-fig4.training-shuts.layer1"),
    claim("M-fig6.training-shuts.layer2"),
    claim("M-fig6.training-shuts.layer3"),
]


def design(name: str, design: str) -> Quotes:
    """A line of the table of M-deep-gates."""
    right = [rows("M-deep-gates", model=design, placement=place).accuracy for place in PLACES]
    gates = [table("M-deep-gates", f"gates, layer {layer}", {"design": design}) for layer in (1, 2, 3)]
    return {name: [*right, *gates, claim(f"M-deep-gates.some-layer.{design.replace(', ', '-').replace(' ', '-')}")]}


TABLES: Quotes = {
    "| Mamba | # | # | # | 99.73": accuracies(MAMBA, table="M-tab3"),
    "| linear attention | # | # | # | 93.68": accuracies(LINEAR, table="M-tab3"),
    "| linear attention at κ_a' = 6 (M-tab1) | # | # | # |": accuracies(LINEAR, "κ_a' = 6"),
    "| softmax attention | # | # | # | 99.40": accuracies(SOFTMAX, table="M-tab3"),
    "(M-cq-training, d = 30) | # | # | # | 98.00": accuracies(MAMBA, "then closest", table="M-cq-training"),
    "| a plain vote of same-pattern examples | # | # | # |": accuracies(VOTE, table="M-tab3"),
    "| untrained Mamba | # | # | # |": accuracies(MAMBA, stage="untrained", table="M-tab3"),
    "| one layer, no norm | # |": ONE_LAYER,
    "| one layer, norm, nothing else changed | # |": ONE_LAYER_NORM,
    "| three layers, untrained | # | # | # |": [gate + fallen for gate, fallen in zip(GATES, FALLEN, strict=True)],
    "| three layers, trained | # | # | # |": GATES,
    "| three layers, second half of the training on CQ | # | # | # |": CLOSEST,
    **design("| norm before each layer, as in M-tab1 | # | # | # | # | # | # | # |", "norm"),
    **design("| `stream=label`, no norm | # | # | # | # | # | # | **#** |", "label only"),
    **design("| `stream=label`, norm for keys and queries | # | # | # | # | # | # | # |", "label only, QK"),
    **design("| norm for keys and queries | # | # | # | # | # | # | # |", "QK"),
    **design("| no norm | # | # | # | # | # | # | # |", "no norm"),
    **design("| one gate per channel (90), norm | # | # | # | # | # | # | # |", "channels"),
    **design("| one gate per channel (90), no norm | # | # | # | # | # | # | # |", "channels, no norm"),
    **{
        f"| {order.replace(',', ' → ')} | # / # / # | # / # / # |": [
            hybrid(order, column, place) for column in ("random labels", "flipped labels") for place in PLACES
        ]
        for order in (
            "mamba,mamba",
            "mamba,softmax",
            "softmax,mamba",
            "mamba,linear",
            "linear,mamba",
            "mamba,linear,linear",
        )
    },
}
normed, without = accuracies(LINEAR, "norm exchanged"), accuracies(MAMBA, "norm exchanged")
seen = accuracy(LINEAR, "R", "seen outliers")
FIRST: Quotes = {
    "linear attention is right in # to # % of prompts at every": (least(*normed), most(*normed)),
    "the others reach #, # and # %": without,
    'accuracy at CQ is # % ("step size': accuracy(MAMBA, "CQ", "step size × 5"),
    "outliers themselves, accuracy is # %": accuracy(MAMBA, "CQ", "seen outliers"),
    "(a ratio below #)": below(found("M-deep-gates", shut_layers)),
    "drop at CQ is # points, less": 100 * claim("M-deep-gates.drop.label-only"),
    "(R² = #)": least(claim("M-fig4.decay.layer1"), claim("M-fig6.decay.layer2"), claim("M-fig6.decay.layer3")),
    "layer keeps # of the gate. The other layers keep # and #": (
        claim("M-fig4.half-life.layer1"),
        claim("M-fig6.half-life.layer2"),
        claim("M-fig6.half-life.layer3"),
    ),
    "query's pattern is right in # % of prompts at α = 0.5": accuracy(VOTE, "FQ"),
    "Mamba is right in #, # and # % of prompts, linear attention in # %, softmax in # %": (
        *accuracies(MAMBA, "U = 1"),
        accuracy(LINEAR, "R", "U = 1"),
        accuracy(SOFTMAX, "R", "U = 1"),
    ),
    "it reaches # %, and Mamba #, # and #": (accuracy(LINEAR, "R", "κ_a' = 2"), *accuracies(MAMBA, "κ_a' = 2")),
    "instead of their mixtures, it reaches # %": seen,
    "Mamba stays at # and # % (FQ, R; # at d = 72), and linear attention at # %": (
        accuracy(MAMBA, "FQ", FLIPPED),
        accuracy(MAMBA, "R", FLIPPED),
        accuracy(MAMBA, "R", FLIPPED, table="M-tab3"),
        accuracy(LINEAR, "R", FLIPPED),
    ),
    "Softmax stays at # %": accuracy(SOFTMAX, "FQ", FLIPPED),
    "three and four heads reach #, #, # and # % at R": [
        accuracy(LINEAR, "R", column, table="M-tab2") for column in ("H = 1 with W_V, W_O", "H = 2", "H = 3", "H = 4")
    ],
    "without them reaches #": accuracy(LINEAR, "R", "H = 1", table="M-tab2"),
    "at α = 0.7 and 0.8 (# and # %": [accuracy(SOFTMAX, "R", f"α = {a}", table="M-tab4") for a in (0.7, 0.8)],
    "from 0.4 to 0.8 (#, #, #, # and # % at R": [
        accuracy(LINEAR, "R", f"α = {a}", table="M-tab5") for a in (0.4, 0.5, 0.6, 0.7, 0.8)
    ],
}
all_normed = "all with a norm"
HYBRID: Quotes = {
    "It gains # to # points at CQ (under flipped labels # to #)": (
        100 * claim("M-hybrid.cq").lowest(),
        100 * claim("M-hybrid.cq").highest(),
        100 * claim("M-hybrid.cq-flipped").lowest(),
        100 * claim("M-hybrid.cq-flipped").highest(),
    ),
    "Mamba alone drops by # to # points, not": [
        hybrid(order, "random labels", "FQ") - hybrid(order, "random labels", "CQ")
        for order in ("mamba,mamba", "mamba,mamba,mamba")
    ],
    "every order but Mamba alone is above # %": above(100 * claim("M-hybrid.norm").lowest()),
    "linear attention alone are at # %": rows(
        "M-hybrid", model=("linear,linear", "linear,linear,linear"), column=(f"random labels, {all_normed}",)
    )
    .highest("model", "placement")
    .accuracy,
}


def varied(model: str, place: str, changed: str = "as chosen", to: str = "") -> Number:
    """The share of right answers in % of M-tab1 in the study of sensitivity."""
    where = {"experiment": "M-tab1", "model": model, "placement": place, "changed": changed, "to": to}
    return rows("sensitivity", stage="trained", column="as chosen", **where).accuracy


SENSITIVITY: Quotes = {
    "Mamba is right in # / # / # % (FQ / R / CQ) with these seeds, and linear attention in # / # / # %": [
        varied(model, place) for model in (MAMBA, LINEAR) for place in PLACES
    ],
    "steps round the ring (# / # and # / #)": [
        varied(MAMBA, place, "train_tasks", ring) for ring in ("ring:1", "ring:2") for place in ("FQ", "R")
    ],
    "K' = 3 or 5 (# / #, # / #)": [
        varied(MAMBA, place, "test_irrelevant_scale", scale) for scale in ("3", "5") for place in ("FQ", "R")
    ],
    "κ_a' = 2 (R: #), outliers a third as long (R: #)": (
        varied(MAMBA, "R", "test_outlier_scale", "2"),
        varied(MAMBA, "R", "outlier_norm", "1"),
    ),
    "no residual stream (R: #)": varied(
        MAMBA, "R", "architectures", "deep-mamba residual: False; norm: rms; gating: scalar"
    ),
    "accuracy is # % after half of the steps, # with steps half as large, # after twice as many steps, and # with": (
        varied(MAMBA, "CQ", "steps", "250"),
        varied(MAMBA, "CQ", "step_sizes", "deep-mamba 0.01, deep-linear 0.05"),
        varied(MAMBA, "CQ", "steps", "1000"),
        varied(MAMBA, "CQ", "step_sizes", "deep-mamba 0.1, deep-linear 0.2"),
    ),
    "flipped labels (R: #)": varied(MAMBA, "R", "outlier_labels", "flip"),
    "ranges from # points at κ_a' = 2, and # under flipped labels, to # at κ_a' = 20": [
        varied(MAMBA, "FQ", changed, to) - varied(MAMBA, "CQ", changed, to)
        for changed, to in (("test_outlier_scale", "2"), ("outlier_labels", "flip"), ("test_outlier_scale", "20"))
    ],
    "(# against # %), and everywhere": [varied(model, "R", "test_outlier_scale", "2") for model in (MAMBA, LINEAR)],
    "ahead by # points at R": varied(MAMBA, "R", "test_outlier_scale", "4")
    - varied(LINEAR, "R", "test_outlier_scale", "4"),
    "from # (2) through # (6), # (6.67) and # (8) to # % (20)": (
        varied(LINEAR, "R", "test_outlier_scale", "2"),
        varied(LINEAR, "R", "test_outlier_scale", "6"),
        varied(LINEAR, "R"),
        varied(LINEAR, "R", "test_outlier_scale", "8"),
        varied(LINEAR, "R", "test_outlier_scale", "20"),
    ),
    "It reaches # when exactly half": varied(LINEAR, "R", "counting", "exact"),
}
three = "M, three layers"
READINGS: Quotes = {
    "own: # and # of # claims": (
        found("readings", claims_held(three, "most favourable")),
        found("readings", claims_held(three, "iclab's own")),
        found("readings", claims_of(three)),
    ),
}
QUOTES = TABLES | FIRST | HYBRID | SENSITIVITY | READINGS
SETTINGS = (
    # the paper's
    r"99\.73 / 99\.67 / 82\.73|93\.68 / 94\.12 / 93\.96|99\.40 / 99\.26 / 99\.28|98\.00 / 98\.25 / 95\.45",
    r"finds the reverse: 94\.1, 95\.1, 93\.1, 90\.9",
    r"SGD at 0\.05",
    r"every α from 0\.4 to 0\.8|from α = 0\.6 to 0\.8",
    r"at 6\.67|At 6\.67|\(6\.67\)",
)
