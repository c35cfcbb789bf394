"""docs/theory.md, section 9: papers T and S."""

from quotes.finders import short_rows
from quotes.pages import Quotes
from quotes.sources import above, below, claim, found, least, most, rows, table

ALL, RING = "all tasks", "ring:1"
share, curve = claim("T-prop4.1.share.complete"), claim("T-prop4.1.share.ring")
end, ring_end = claim("T-prop4.1.share-end.complete"), claim("T-prop4.1.share-end.ring")
mass, tail, kernel = claim("T-cor4.3.mass"), claim("T-cor4.3.tail"), claim("T-cor4.3.kernel")
grown = rows("T-prop4.1", part="relevant", graph="ring", probe="growth", matrix="query").of("mean")
DELTA = 0.1  # what W_Q starts with
apart = [grown(x=m, kind="unmet", distance=2) / (grown(x=m, kind="own") + DELTA) for m in (6, 8, 12, 16, 20)]
KERNEL: Quotes = {
    "entry at distance 2 stays at # to # of the own one": (least(*apart), most(*apart)),
    "that of exp(τL) within # at every": below(
        *(extreme for found in (share, end) for extreme in (found.highest(), -1 * found.lowest()))
    ),
    "R² of exp(2τL) is above #": above(claim("T-prop4.1.form.complete").lowest()),
    "query's pattern is predicted within # %": below(100 * (1 - kernel.lowest()), 100 * (kernel.highest() - 1)),
    "(R² # over 200 random triples; # on the ring": (
        claim("T-thm3.4.curve.complete"),
        claim("T-thm3.4.curve.ring"),
    ),
    "hinge is active (within #)": below(curve.highest(), -1 * curve.lowest()),
    "the share ends # above that of exp(τL) (# at M1 = 4)": (
        ring_end.highest(but="M1 = 4"),
        ring_end.at("M1 = 4"),
    ),
    "the partner's part is # of the own one on the ring": -1
    * table("T-prop4.1", "other / own", {"M1": 8, "tasks": "ring:1"}),
    "every M1, and ∝ M1^# with all tasks": claim("T-prop4.1.other.complete"),
}
fraction, relevant = claim("T-thm3.3.relevant_fraction"), claim("T-thm3.3.relevant")
suffices, errors, linear = claim("T-thm3.4.suffices"), claim("T-thm3.4.error"), claim("T-thm3.7.linear")
lucky, unlucky, shrink = claim("T-thm3.7.lucky"), claim("T-thm3.7.unlucky"), claim("T-thm3.7.shrink")
T: Quotes = {
    "T at loss 0.5: η #, α # (all tasks) and # [#, #] (ring), β #": (
        claim("T-thm3.3.eta").at(ALL),
        fraction.at(ALL),
        *fraction.at(RING).interval,
        claim("T-thm3.3.norm").at(ALL),
    ),
    "T/√log M1 ∝ M1^# with m = M1² log M1, as the theorem asks; M1^# at fixed m": (
        relevant.at(ALL),
        claim("T-thm3.3.relevant-alone"),
    ),
    "δ^# and m^#, where": (claim("T-thm3.3.scale"), claim("T-thm3.3.neurons")),
    "apart on the ring at most # (M1 = 4)": claim("T-thm3.3.tasks").highest(),
    "long prompts is at most #; the shortest l_tr that will do is ∝ α^# [#, #]": (
        claim("T-thm3.3.train-length").highest(),
        *claim("T-thm3.3.shortest").interval,
    ),
    "(log M1)^# [#, #] (all tasks), # (ring)": (
        *claim("T-prop4.1.own.complete").interval,
        claim("T-prop4.1.own.ring"),
    ),
    "other part / own ∝ M1^# (all), M1^# (ring)": (claim("T-prop4.1.other.complete"), claim("T-prop4.1.other.ring")),
    "ν's part / own ∝ M1^#; ∝ δ^#": (claim("T-prop4.1.irrelevant"), claim("T-prop4.1.scale")),
    "1 − mass ∝ M1^# (all), M1^# (ring, unseen tasks), its 99th percentile over prompts ∝ M1^#, out of domain M1^# (": (
        mass.at("trained on all tasks, training tasks"),
        mass.at("trained on ring:1, unseen tasks"),
        tail.at("trained on ring:1, unseen tasks"),
        claim("T-cor4.3.out").at("trained on ring:1"),
    ),
    "every S_j ≥ 1: hinge loss up to # (all), up to # (ring; five above 0.1); errors up to #, one": (
        suffices.highest(ALL),
        suffices.highest(RING),
        errors.highest(),
    ),
    "adds at most # to the loss | holds | | S_j": claim("T-thm3.4.strong").highest(),
    "short rows # at every M2 from 4 to 32 (exponent #); no": (
        found("T-thm3.7", short_rows("lengths")),
        claim("T-thm3.7.norms"),
    ),
    "all short rows adds at most # to the loss": claim("T-thm3.7.small").highest(),
    "loss over R grows from # of its mean at R = 0.05 to # at 0.5 (all tasks; on the ring from # to #)": [
        linear.at(f"{graph}, {rate}") for graph in ("all tasks", "ring:1") for rate in (0.05, 0.5)
    ],
    "l_ts = 20: ∝ M1^#; it is the prompts": claim("T-thm3.7.examples"),
    "times 1 − R m/\\|L\\|, within #": below(shrink.highest(), -1 * shrink.lowest()),
    "| # to # % of those named at the start grow, and so do # to # % of the others": [
        100 * number for number in (lucky.lowest(), lucky.highest(), unlucky.lowest(), unlucky.highest())
    ],
    "does not depend on M2 (exponent # [#, #]); to ±q it is ∝ M1^#": (
        *claim("T-prop4.5.feature").interval,
        claim("T-prop4.5.label"),
    ),
}
S: Quotes = {
    "λ*^# with λ = λ*, # with λ uniform": (claim("S-thm1.signal"), claim("S-thm1.uniform")),
    "it falls, R² # [#, #] where": claim("S-thm1.fraction").interval,
    "M^# at m = 800, m^# at M = 16": (claim("S-thm1.patterns"), claim("S-thm1.neurons")),
    "| S Thm 1, error | # on": claim("S-thm1.error"),
    "by 60 an error of #, by 75 of #": [claim("S-thm2.leaning").at(f"{angle} degrees") for angle in (60, 75)],
    "(exponent in log M #) and M1 from 3 to 8 (#)": (claim("S-prop1.patterns"), claim("S-prop1.relevant")),
    "‖W_Q µ‖ = # at every M": rows("S-prop1", part="patterns", x=16, matrix="query", kind="relevant").of("length"),
    "‖W_Q ν‖ moves by # |": claim("S-prop1.irrelevant").highest(),
    "1 − mass falls as t^#, then": claim("S-prop1.rate"),
    "1 − mass ∝ M^# |": claim("S-cor1.mass"),
    "have a length of # at every ξ": found("S-prop2", short_rows("neurons")),
    "(where it comes from): # at ‖q‖ = 1, # at ‖q‖ = β; by place (where it stands in the value): # [#, #] at": (
        claim("S-prop2.source").at("‖q‖ = 1"),
        claim("S-prop2.source").at("‖q‖ = 3"),
        *claim("S-prop2.place").at("‖q‖ = 1").interval,
    ),
}
LUCKY = {"share": "lucky for the mean prompt of a task"}
own, sign, opposite = claim("T-lemB.5.own"), claim("T-lemB.6.sign"), claim("T-lemB.6.opposite")
LEMMAS: Quotes = {
    "ratio to the bound ∝ t^# [#, #] while": own.interval,
    "seeds have no exponent), ∝ M1^# after training": claim("T-lemB.5.relevant"),
    "own part (all tasks), # (ring), as": table(
        "T-lemB.5", "same task / own", {"matrix": "W_Q", "trained on": "ring:1"}
    ),
    "largest part / own part ∝ M1^# [#, #] (ring)": claim("T-lemB.5.unmet").interval,
    "along irrelevant patterns | ∝ M1^# | holds": claim("T-lemB.5.irrelevant"),
    "| # to # % of neurons and patterns": (100 * sign.lowest(), 100 * sign.highest()),
    "∝ β^# [#, #] in nine": claim("T-lemB.6.norm").interval,
    "the largest of a training ∝ M1^# [#, #]": claim("T-lemB.6.relevant").interval,
    "between # and # times that for the own label": (opposite.lowest(), opposite.highest()),
    "∝ B^# [#, #] up to B": claim("T-lemB.6.unlucky").interval,
    "for ν_k | ∝ M2^# [#, #]": claim("T-lemB.6.irrelevant").interval,
    "then faster; t^# over all": claim("T-lemB.7.linear"),
    "of the logarithm ∝ m^# [#, #]": claim("T-lemB.7.rate").interval,
    "length / part ∝ M1^# [#, #]": claim("T-lemB.7.length").interval,
    "irrelevant patterns | ∝ M2^# [#, #] | fails": claim("T-lemB.7.irrelevant").interval,
    "∝ t^# [#, #]: they grow": claim("T-lemB.7.unlucky").interval,
    "in U_n; # to # for the mean prompt": (
        table("T-lemB.9", "by M1", LUCKY | {"training tasks": RING}),
        table("T-lemB.9", "by M1", LUCKY | {"training tasks": ALL}).number(5),
    ),
    "| # % of pairs of a neuron": 100 * claim("T-lemB.10.same").lowest(),
    "between # and # % after training": [
        100 * number for number in (claim("T-lemB.10.every").lowest(), claim("T-lemB.10.every").highest())
    ],
    "loss over all tasks is # to # instead of #": (
        claim("T-lemB.11.fewer").lowest(),
        claim("T-lemB.11.fewer").highest(),
        claim("T-lemB.11.enough").highest(),
    ),
}
QUOTES: Quotes = KERNEL | T | S | LEMMAS
SETTINGS = (
    r"exp\(τL\) says 0\.15",  # (A)
    r"0\.06 if it is 0\.6, 0\.2 to 0\.9 if it is",  # read from the figure of T-thm3.4, which has single triples
    r"K' = 0\.5|at R = 0\.05|at 0\.5 \(all tasks; on|one triple above 0\.01|five above 0\.1|where 0\.95 is asked",
    r"τM1 = 0, 0\.9 and 4|ξ from 0\.025 to 0\.2|undecided at −0\.35|± 0\.1 is undecided|R = 0\.05, l_ts",
    r"Condition 3\.2|loss above 0\.5|loss is above 0\.5|relevant-fraction 0\.8",
)
