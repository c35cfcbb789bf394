"""docs/findings.md."""

from quotes.counts import OWN, count, judged
from quotes.finders import claims_held, claims_of, clock_off, variants, variants_with
from quotes.layers import GATES, LINEAR, MAMBA, ONE_LAYER, ONE_LAYER_NORM, SOFTMAX, VOTE, accuracies, accuracy
from quotes.pages import Quotes
from quotes.sources import above, below, claim, exactly, found, most, rows

fig2 = rows("M-fig2")
flipped = fig2(outlier_labels="flip")
worst = rows("M-worst")
closest, anywhere = worst(adversary="worst labels, closest"), worst(adversary="worst labels")
gates = rows("M-gates", part="flip", outlier_fraction=0.6)
review = rows("M-review", model="mamba")
ring1 = rows("M-readings", tasks="ring:1", outlier_scale=6.67, counting="bernoulli")
regression = rows("M-regression", measured="error", outlier_labels="random", outlier_fraction=0.6).of("squares")
unseen = rows("S-fig1", data="τ = 0, λ* = 1", probe="parts", tasks="unseen", step=600)
FILTERING = ("mamba2-scaled", "mamba3", "mlstm", "deltanet")
BLIND = ("mamba2", "retnet", "gated-retention")

COUNTS: Quotes = {
    "The papers make # claims": count(),
    "judges # of them: # hold, # fail, # hold in direction but not in size, and # are undecided. The other # need": (
        judged(),
        count("holds"),
        count("fails"),
        count("in direction"),
        count("undecided"),
        count("not run"),
    ),
    "iclab also asks # questions": count(whose=OWN),
}
UNSTATED: Quotes = {
    "in all # variants": found("sensitivity", variants),
    "up to α = 0.8 in # of them": found("sensitivity", variants_with),
    "GPT-2's error is between # and #": (
        rows("sensitivity", experiment="T-fig3:gpt2", panel="sum", sum=1.28, probe="error").lowest("changed", "to"),
        rows("sensitivity", experiment="T-fig3:gpt2", panel="sum", sum=1.28, probe="error").highest("changed", "to"),
    ),
    "own reading # of # claims hold, under the best one #": (
        found("readings", claims_held("M, three layers", "iclab's own")),
        found("readings", claims_of("M, three layers")),
        found("readings", claims_held("M, three layers", "most favourable")),
    ),
    "still fails: # of # claims hold instead of #": (
        found("readings", claims_held("M, one layer", "most favourable")),
        found("readings", claims_of("M, one layer")),
        found("readings", claims_held("M, one layer", "iclab's own")),
    ),
    "it errs in # of prompts there (one seed": rows(
        "T-gpt2-domain", training="trained with K = 5", patterns="out", scale=5.0
    ),
}
THEOREMS: Quotes = {
    "The clock τ is predicted within # %": below(*clock_off("star")),
    "(within # % on a star": below(100 * abs(claim("M-kernel.rate").highest("star") - 1)),
    "fail in # to # % of prompts": [
        100 * claim("M-kernel.distance2").at(graph) for graph in ("ring:3 of 12", "ring:2 of 6")
    ],
    "Mamba's exponent is #": claim("M-thm1.steps.clean"),
}
ONE: Quotes = {
    "labels at α = 0.6 the errors are # and #": [flipped(outlier_fraction=0.6, model=m) for m in ("mamba", "linear")],
    "It adds less than # to Mamba's error at every α": below(claim("M-worst.flip").highest()),
    "and up to # to the linear model's (κ_a' = 6.67, α = 0.5: # flipped, # worst)": (
        claim("M-worst.flip-linear"),
        worst(model="linear", adversary="flipped labels", outlier_scale=6.67, outlier_fraction=0.5),
        worst(model="linear", adversary="worst labels", outlier_scale=6.67, outlier_fraction=0.5),
    ),
    "(worst labels at α = 0.5: # anywhere, # closest)": [
        adversary(model="mamba", outlier_scale=2.0, outlier_fraction=0.5) for adversary in (anywhere, closest)
    ],
    "with flipped labels at α = 0.6 are # to #, as without": (gates(model="gated-retention"), gates(model="retnet")),
    "GLA with gated keys errs in #": gates(model="gla-keys"),
    "gated DeltaNet err in at most #": most(*(gates(model=model) for model in FILTERING)),
    "target and random labels (# each at α = 0.8)": fig2(model="mamba", outlier_labels="target", outlier_fraction=0.8),
    "flipped ones at α = 0.75 (#), but not at α = 0.8 (# [#, #])": (
        flipped(model="mamba", outlier_fraction=0.75),
        claim("M-fig2.mamba-small.flip"),
        claim("M-fig2.mamba-small.flip").low,
        claim("M-fig2.mamba-small.flip").high,
    ),
    "(a share of # at α = 0.8)": exactly(0.8**20),
    "examples corrupted, its error is #": claim("M-readings.mamba-close-exact").at("labels: flip"),
    "cost it less than #.": below(*(review(check="coherence", x=0.6, curve=c) for c in ("α = 0.3", "α = 0.6"))),
    "pass the gate (# at α = 0.6)": claim("M-review.orthogonal").at("cosine 0, α = 0.6"),
    "linear model errs in # of flipped prompts, but in # under a target label and # under random": [
        fig2(model="linear", outlier_fraction=0.55, outlier_labels=labels) for labels in ("flip", "target", "random")
    ],
    "the ring it errs in #, # and #, but then Mamba errs in # % of clean": (
        *(ring1(model="linear", outlier_fraction=0.55, outlier_labels=r) for r in ("flip", "target", "random")),
        100 * ring1(model="mamba", outlier_fraction=0.0, outlier_labels="flip"),
    ),
    "With κ_a' = 2, Mamba's error at α = 0.8 is #": worst(
        model="mamba", adversary="flipped labels", outlier_scale=2.0, outlier_fraction=0.8
    ),
    "Mamba answers # % of clean prompts": 100 * ring1(model="mamba", outlier_fraction=0.0, outlier_labels="flip"),
    "# at α = 0.6 with 8 classes": rows(
        "M-classes", measured="error", sees="token", levels=3, outliers="block", outlier_fraction=0.6
    ),
    "mean squared error is # times": claim("M-regression.floor"),
    "can reach (# at α = 0.6; linear #, ridge regression #)": [
        regression(model=model) for model in ("mamba", "linear", "ridge")
    ],
    "has no such floor (#)": regression(model="softmax"),
}
THREE: Quotes = {
    "Mamba is right in #, # and # % of prompts": accuracies(MAMBA, table="M-tab3"),
    "and softmax attention in #, # and # (": accuracies(SOFTMAX, table="M-tab3"),
    "improves Mamba there by # points": 100 * claim("M-cq-training.lift"),
    "right in #, # and # % of prompts (the paper: 93.68": accuracies(LINEAR, table="M-tab3"),
    "it is right in #, # and # %, which is Table 1": accuracies(LINEAR, "κ_a' = 6"),
    "at κ_a' = 2 in # %": accuracy(LINEAR, "R", "κ_a' = 2"),
    "linear attention is right in # % of prompts, wherever": accuracy(LINEAR, "FQ", "norm exchanged"),
    "outlier is # of a clean example's gate": ONE_LAYER,
    "nothing else changed it is #, and in three layers #, # and #": (ONE_LAYER_NORM, *GATES),
    "accuracy is above # % at FQ, R and CQ": above(
        *(
            rows("M-hybrid", model=order, column=column).highest("placement").accuracy
            for order in ("mamba,softmax", "softmax,mamba")
            for column in ("random labels", "flipped labels")
        )
    ),
    "Mamba alone is above # %": above(100 * claim("M-hybrid.norm").lowest()),
    "better than linear attention (# %)": accuracy(VOTE, "FQ"),
}

unseen_seeds = rows("T-fig3", model="gpt2", panel="unseen", probe="error")
MLP: Quotes = {
    "S1 ≥ 1 they are below # for every seed": below(
        *(
            rows("T-fig3", model="softmax-mlp", tasks="ring:1", panel="sum", probe="error", sum=s).highest("seed")
            for s in (1.0, 1.28)
        )
    ),
    "Errors are # on unseen tasks": claim("T-fig3.unseen.softmax-mlp"),
    "labels, not features** (# against # of what": (unseen.of("label_by_source"), unseen.of("feature_by_source")),
    "seeds (at most #; the other three err in #, # and #)": [
        unseen_seeds.highest("seed", rank=rank) for rank in (4, 3, 2, 1)
    ],
    "out of domain it errs in # % of prompts": 100 * claim("T-fig3.ood-small.gpt2").at("S1 = 1.28"),
    "in β the exponent is #, not": claim("T-thm3.3.norm").at("all tasks"),
    "than M1 the loss is # instead of #": (
        claim("T-lemB.11.fewer").at("M1 = 5"),
        claim("T-lemB.11.enough").at("M1 = 5"),
    ),
}
QUOTES = COUNTS | UNSTATED | THEOREMS | ONE | THREE | MLP
SETTINGS = (
    r"(?s:## Real sentences.*?\n## )",  # runs with sentences from outside, which no edition holds
    r"(?:[Bb]elow|above|more than) 0\.01",  # the papers' margin
    r"every α tested from 0\.55 to 0\.8|From α = 0\.55 to 0\.8",
    r"attention is below 0\.8",  # T's margin
    r"a loss of 0\.5",
    r"common cosine of 0\.6",
    r"\(99\.40, 99\.26, 99\.28\)",  # the paper's
    r"Between 6 and 6\.67",
)
