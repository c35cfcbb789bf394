"""docs/theory.md, sections 1 to 8: paper M."""

from quotes.finders import clock_off, more_context, review_gate
from quotes.pages import Quotes
from quotes.sources import Number, Rows, above, below, claim, exactly, found, most, rows, table

RULES = ("flip", "target", "random")
readings = rows("M-readings", outlier_scale=6.67, counting="bernoulli", outlier_labels="flip")
ring1, ring3 = readings(tasks="ring:1"), readings(tasks="ring:3")
INTRO: Quotes = {
    "Its clock τ is predicted within # %": below(*clock_off("star")),
    "are answered wrongly in # to # % of prompts": [
        100 * claim("M-kernel.distance2").at(graph) for graph in ("ring:3 of 12", "ring:2 of 6")
    ],
    "(`ring:1`: # under random labels": ring1(model="linear", outlier_fraction=0.55, outlier_labels="random"),
    "errs in # % of clean prompts and in # % at α = 0.75": [
        100 * ring1(model="mamba", outlier_fraction=fraction) for fraction in (0.0, 0.75)
    ],
    "(`ring:3`: # at α = 0.75), the linear model's is # under random labels": (
        ring3(model="mamba", outlier_fraction=0.75),
        ring3(model="linear", outlier_fraction=0.55, outlier_labels="random"),
    ),
    "Mamba's error is # at α = 0.75, # at α = 0.8, which": [
        ring3(model="mamba", outlier_fraction=fraction) for fraction in (0.75, 0.8)
    ],
    "clean example (#), and # with exactly": (
        exactly(0.8**20),
        claim("M-readings.mamba-close-exact").at("labels: flip"),
    ),
}


def graph(name: str, relevant: int, tasks: str, entries: int, errors: int, apart: bool = False) -> Quotes:
    """A line of the table of M-kernel; every second number of its cells is a distance."""
    line = {"M1": str(relevant), "tasks": tasks, "model": "mamba"}
    first = 4 if apart else 2  # the pairs that no path joins come first
    found = [
        table("M-kernel", "R²", line),
        *(table("M-kernel", "entries by distance", line).number(first + 2 * k) for k in range(entries)),
        *(table("M-kernel", "clean error by distance", line).number(first + 2 * k) for k in range(errors)),
    ]
    if apart:
        found.append(table("M-kernel", "clean error by distance", line).number(2))
    cells = ", ".join(["#", "#", "+#", "#"][:entries])
    ends = "; between the rings # |" if apart else " |"
    return {f"| {name} | # | {cells} | {', '.join('#' * errors)}{ends}": found}


KERNEL: Quotes = {
    **graph("ring:1, M1 = 6", 6, "ring:1", 4, 3),
    **graph("ring:1, M1 = 8", 8, "ring:1", 4, 3),
    **graph("ring:1, M1 = 12", 12, "ring:1", 4, 3),
    **graph("ring:2, M1 = 6", 6, "ring:2", 3, 2),
    **graph("ring:3, M1 = 12", 12, "ring:3", 3, 2),
    **graph("two rings of 6", 12, "cycles", 4, 3, apart=True),
    **graph("random, 3 partners, M1 = 12", 12, "random", 4, 3),
    **graph("complete: ring:3, M1 = 6", 6, "ring:3", 2, 1),
    **graph("complete: all, M1 = 12", 12, "all", 2, 1),
    "τ fitted to the kernel is within # % of": below(*clock_off("star")),
    "(on a star, which does not, within # %)": below(100 * (claim("M-kernel.rate").highest("star") - 1)),
}
steps = {name: claim(f"M-thm1.steps.{name}") for name in ("eta", "relevant", "length", "norm", "clean")}
mean_field, strong, long_ = claim("M-thm1.strength-mean-field"), claim("M-thm1.strong"), claim("M-thm1.long")
FIRST: Quotes = {
    "T at loss 0.5: η #, M1 #, l_tr #, β # [#, #], 1 − p_a # [#, #]": (
        steps["eta"],
        steps["relevant"],
        steps["length"],
        *steps["norm"].interval,
        *steps["clean"].interval,
    ),
    "exponent of δ #; exponent of T in (E) as δ varies # [#, #]": (
        claim("M-thm1.scale"),
        *claim("M-thm1.logarithm").interval,
    ),
    "error over all tasks #, #, # at M1": [claim("M-thm1.condition1").at(f"M1 = {m}") for m in (6, 8, 12)],
    "at κ_a = 0.25 over that at 2: # [#, #]": claim("M-thm3.batch-strength").interval,
    "outliers out: V^# β^# M1^#; (C)": (
        0.5 + mean_field.at("exponent of V"),
        1 + mean_field.at("exponent of β"),
        -0.5 + mean_field.at("exponent of M1"),
    ),
    "loss at η = 0.16: # at κ_a = 10, # at 20, # at 200, no": [strong.at(f"κ_a = {k}") for k in (10, 20, 200)],
    "η κ_a² ≤ 10: # at 50; and from w⁽⁰⁾ = 0 as well: at most # up": (
        claim("M-thm1.strong-scaled").at("κ_a = 50"),
        claim("M-thm1.strong-start").highest(),
    ),
    "the loss moves by at most # | no |": most(long_.highest(), -1 * long_.lowest()),
    "κ_a' = κ_a: up to # above": claim("M-thm2.printed"),
    "κ_a' L ≥ κ_a: at most # [#, #] above α^l; # where": (
        *claim("M-thm2.inside").interval,
        claim("M-thm2.known"),
    ),
    "range of the log threshold #, against # in": (claim("M-thm2.restored"), claim("M-thm2.strength")),
    "u: # at ‖u‖ = β, # at 10β": [claim("M-thm2.outside").at(f"‖u‖/β = {u},") for u in (1, 10)],
    "places at random: error #; worst places: #": [
        claim(f"M-thm2.{name}").at("l_ts = 320") for name in ("length", "length-places")
    ],
    "the linear model: l #, M1 #, β #, 1 − p_a # |": [
        claim(f"M-thm3.steps.{name}") for name in ("length", "relevant", "norm", "clean")
    ],
    "exponent of the ratio # [#, #]; it is # l": (
        *claim("M-thm3.ratio").interval,
        table("M-thm3", "exponent", {"T against": "the ratio itself at l_tr = 160"}) / 160,
    ),
    "linear's is 2^# times Mamba's [2^#, 2^#]": claim("M-thm3.strong").interval,
    "error of 0.01: #, #, #, # at α": [table("M-thm4", "l*, ε = 0.01", {"α": f"{a}"}) for a in (0.3, 0.4, 0.45, 0.47)],
    "in (½ − α)⁻¹ # | holds |": claim("M-thm4.length").at("ε = 0.01"),
    "the linear model needs #, #, # times": [found("M-thm4", more_context(a)) for a in (0.3, 0.4, 0.45)],
    "κ_a' ∝ B^# [#, #]": claim("M-thm4.strength").interval,
    "flipped labels (# at l_ts = 640); at most # under": (
        claim("M-thm4.beyond.flip").at("α = 0.55, l_ts = 640"),
        most(claim("M-thm4.beyond.target").highest(), claim("M-thm4.beyond.random").highest()),
    ),
    "two sums of (16): below # for pairs that met; +# for": (
        below(claim("M-cor1.rest").highest()),
        claim("M-cor1.rest-unmet"),
    ),
    "spread over tasks ∝ B^# [#, #], (1 − p_a)^# [#, #]": (
        *claim("M-cor1.noise").interval,
        *claim("M-cor1.noise-clean").interval,
    ),
    "outliers' gates ∝ M1^#; this": claim("M-cor2.outliers"),
    "is at least # times the next nearer one; G_h(1) ∝ l_tr^# |": (claim("M-cor2.halving"), claim("M-cor2.nearest")),
}
flipped, whole = rows("M-classes", measured="error", sees="block"), rows("M-classes", measured="error", sees="token")
heads = {
    fraction: rows("M-remark6", labels="flipped labels", outlier_fraction=fraction) for fraction in (0.4, 0.6, 0.8)
}
regression = rows("M-regression", measured="error", outlier_labels="random", outlier_fraction=0.6).of("squares")
rate, field = claim("M-lem3.rate"), claim("M-lem5.mean-field")
levels = claim("M-classes.levels")
LEMMAS: Quotes = {
    "growth is (A)'s within # % until": below(100 * (rate.highest() - 1), 100 * (1 - rate.lowest())),
    "entry at distance 2 is # of the own entry in phase 1; after training # (ring:3 of 12) to # (ring:2 of 6), and #": (
        claim("M-lem3.unmet"),
        *(claim("M-kernel.lemma3").at(graph) for graph in ("ring:3 of 12", "ring:2 of 6", "ring:1 of 6")),
    ),
    "noise ∝ B^#, t^#; in M2 #, #, #, # where": (
        claim("M-lem3.noise-batch").mean(),
        claim("M-lem3.noise-time").mean(),
        *(claim(f"M-lem3.noise-irrelevant.{number}") for number in (27, 28, 29, 30)),
    ),
    "∝ p_a^#; measured/(B) # over": (claim("M-lem4.fraction"), claim("M-velocity.outliers").mean()),
    "logit gap ∝ κ_a^#, V^#": (claim("M-lem4.kappa-logit"), claim("M-lem4.kinds-logit")),
    "on log M1 #; mean clean logit ≥ # up to 16 T_M; (F) within # %": (
        claim("M-lem5.outliers").at("1 T_M"),
        above(claim("M-lem5.clean-later").lowest()),
        100 * most(field.highest() - 1, 1 - field.lowest()),
    ),
    "flat in l (exponent #); largest 99 % quantile #;": (claim("M-lem6.flat"), claim("M-lem6.bound").highest()),
    "flat from l = 40 on (#)": claim("M-lem6.trained"),
    "worst − flip ≤ # for Mamba; # for the linear model": (
        below(claim("M-worst.flip").highest()),
        claim("M-worst.flip-linear"),
    ),
    "Mamba #, #, #; softmax #, #, #; linear #, #, #; with": [
        heads[fraction](layer=layer) for layer in ("mamba", "softmax", "linear") for fraction in heads
    ],
    "a residual stream) #, #, # | softmax": [heads[fraction](layer="linear, 5 heads") for fraction in heads],
    "tokens of 31: # without outliers, # at α = 0.75;": [
        claim("M-readings.state").at(f"α = {fraction}") for fraction in ("0", "0.75")
    ],
    "11 rows, at most # more than": below(claim("M-readings.state-short").highest()),
    "Worst labels, 8 classes: # at α = 0.6; flipped ones at 0.8: #, #, # for 2, 4, 8 classes if each": (
        claim("M-classes.small").at("H = 3, outliers by block, α = 0.6"),
        rows("M-classes", measured="error", sees="binary", outlier_fraction=0.8),
        *(flipped(levels=level, outliers="block", outlier_fraction=0.8) for level in (2, 3)),
    ),
    "draws its own outliers, # for all if whole tokens": flipped(levels=2, outliers="token", outlier_fraction=0.8),
    "(1 − Π(1 − e_h)) ≤ #, e_h": below(claim("M-classes.decomposes").highest()),
    "the binary model undecided at α = 0.9 (# ± #)": (levels, 0.5 * (levels.high - levels.low)),
    "other blocks is below # of that to their own, but at α = 0.6 they err in # (4 classes) and # (8 classes)": (
        below(claim("M-classes.cross").highest()),
        *(whole(levels=level, outliers="block", outlier_fraction=0.6) for level in (2, 3)),
    ),
    "draws its own outliers; # if not": most(
        *(whole(levels=level, outliers="token", outlier_fraction=0.6) for level in (2, 3))
    ),
    "α = p_a = 0.6: Mamba #, linear #, softmax #, ridge regression on the prompt #; outlier/clean gate #": (
        *(regression(model=model) for model in ("mamba", "linear", "softmax", "ridge")),
        claim("M-regression.gates"),
    ),
    "Mamba/floor # at α = p_a, σ of clean examples # of the best σ; # at α = 0": (
        claim("M-regression.floor"),
        claim("M-regression.inflow"),
        claim("M-regression.floor-clean"),
    ),
    "κ_a' L = κ_a (exponent #)": claim("phase-diagram.restored"),
    "as printed it is # times the gradient": claim("M-regression.sign"),
}
overlap, depth = claim("M-review.coherence-closed"), rows("M-review", check="depth", model="deep-mamba")
wide, narrow = claim("M-review.dimension-wide"), claim("M-review.dimension")
signs = rows("M-review", check="signature", x=1.0)
REVIEW: Quotes = {
    "all patterns adds less than # to Mamba's error, one of 0.8 adds #;": (
        below(overlap.highest("cosine 0.6")),
        overlap.highest("cosine 0.8"),
    ),
    "four sets is # for 19 patterns in 12 dimensions, # in 16 and in 30, and # in 60": (
        narrow.at("d = 12, α = 0.6"),
        narrow.at("d = 16, α = 0.6"),
        wide.at("d = 60, α = 0.6"),
    ),
    "one to four layers err in #, #, # and # of prompts; if": [
        depth(curve="full, flip, CQ", x=float(layers)) for layers in (1, 2, 3, 4)
    ],
    "without a norm, in #, #, # and #.": [
        depth(curve="label-only, flip, CQ", x=float(layers)) for layers in (1, 2, 3, 4)
    ],
    "clean example's, is # in one layer and # in four; with the label alone # and #": [
        found("M-review", review_gate(stream, layers)) for stream in ("full", "label-only") for layers in (1, 4)
    ],
    "(5 of 1,000: #), κ_a = 0.01 or 1,000 (#, #) and, in three layers, outliers next to the query (#)": [
        signs(curve=curve) for curve in ("iterations", "weak", "strong", "adjacent-deep")
    ],
    "next to the query, are not (#)": most(signs(curve="fraction"), signs(curve="adjacent")),
    "become too weak at # [#, #] times": claim("M-review.magnitude").interval,
    "(errors of # and # at α = 0.3 and 0.6)": [
        claim("M-review.orthogonal").at(f"cosine 0, α = {fraction}") for fraction in (0.3, 0.6)
    ],
}


def gate(name: str, model: str, ratio: int = 1, worst: int = 1) -> Quotes:
    """A line of the table of M-gates."""
    flip = rows("M-gates", part="flip", model=model)
    found: list[Number] = [claim(f"M-gates.filters.{model}").at(f"{model}, distance 1")] * ratio
    found += [flip(outlier_fraction=fraction) for fraction in (0.5, 0.6, 0.8)]
    found += [rows("M-gates", part="worst", model=model, outlier_fraction=0.6)] * worst
    first, last = "#" if ratio else "1", "#" if worst else "not known"
    return {f"| {name} | {first} | # / # / # | {last} |": found}


GATES: Quotes = {
    **gate("Mamba (3)", "mamba"),
    **gate("Mamba-2 (189)", "mamba2"),
    **gate("RetNet (192), γ trained", "retnet"),
    **gate("RetNet (192), γ = 0.9", "retnet-fixed"),
    **gate("gated retention (195), GLA (196)", "gated-retention"),
    **gate("GLA (198)", "gla-keys"),
    **gate("no gate", "linear", ratio=0),
    **gate("Mamba-2, input × Δ", "mamba2-scaled"),
    **gate("Mamba-3", "mamba3", worst=0),
    **gate("mLSTM", "mlstm"),
    **gate("gated DeltaNet", "deltanet", worst=0),
    "except for Mamba-3 (# from 2 on": claim("M-gates.filters.mamba3").at("mamba3, distance 2"),
}


def shape(model: str, fraction: float, step_size: float = 1.0) -> Rows:
    """The error under the worst labels after training with another function of the logit."""
    where = {"model": model, "outlier_fraction": fraction, "step_size": step_size}
    return rows("M-gating-functions", step=1000, **where)


FUNCTIONS: Quotes = {
    "(16 seeds): σ # and #; softplus": [shape("sigmoid", fraction) for fraction in (0.6, 0.8)],
    "no worse (# at most, and #)": [
        most(*(shape(model, fraction) for model in ("softplus", "exp", "tanh"))) for fraction in (0.6, 0.8)
    ],
    "like 1/|x|, # and #; σ with a floor of 0.05, # and #": [
        shape(model, fraction) for model in ("softsign", "floor") for fraction in (0.6, 0.8)
    ],
    "16 seeds (# on average) at η = 1, and in none at η = 0.3 (#)": (
        shape("hard-sigmoid", 0.6),
        shape("hard-sigmoid", 0.6, 0.3),
    ),
}
QUOTES: Quotes = INTRO | KERNEL | FIRST | LEMMAS | REVIEW | GATES | FUNCTIONS
SETTINGS = (
    r"(?s:the loss on the ring's training tasks is 0\.01.*?computes these\))",  # tests/theory/test_page_numbers.py
    r'"Close to 0\.8"|κ_a = 0\.01 or',
    r"it within 0\.015, and the steps to losses of 0\.5 and 0\.1 are right",  # tests/theory/test_meanfield.py
    r"[Bb]elow 0\.01|loss (?:is )?< 0\.1|loss falls to 0\.5|loss is 0\.5|until E zF = 0\.1|loss 0\.5|error of 0\.01",
    r"κ_a‖v\*‖ = 0\.5|Σλ = 0\.3, 0\.5, 1|\(c, −c, 0\.3\)|not at 0\.05|flipped ones at 0\.8|12\.8 million",
    r"σ, 0\.128 at|is 0\.11 here and 0\.22 there",  # theory/regression.py
    r"share of 0\.95|fails at 0\.94|it is now 0\.9",  # an earlier margin
    r"cosine of up to 0\.6|one of 0\.8|at 0\.9 some|cosine of 0\.3|a cosine of 0\.5|α = 0\.3 and 0\.6|floor of 0\.05",
    r"a ratio below 0\.1; in direction below 0\.9",
    r"α = 0\.6 and 0\.8",
)
