"""docs/nonlinear.md."""

from quotes.finders import neurons, turned
from quotes.pages import Quotes
from quotes.sources import below, claim, found, least, most, rows, table

gpt2 = rows("T-fig3", model="gpt2", panel="unseen", probe="error")
mlp = rows("T-fig3", model="softmax-mlp", panel="sum", probe="error", tasks="ring:1")
one = mlp(sum=(1.0, 1.28))
DOMAIN: Quotes = {
    "16 seeds** (# at 1.28, # at 1; the worst seed #)": (mlp(sum=1.28), mlp(sum=1.0), one.highest("seed", "sum")),
    "the right examples is #": claim("T-fig3.attention.softmax-mlp"),
    "in domain the error is #": claim("T-fig3.unseen.softmax-mlp"),
    "smoothly: # at 0.75, # at 0.5, # at 0, # at −1.28": [mlp(sum=s) for s in (0.75, 0.5, 0.0, -1.28)],
    "it is # or less down to S1": below(
        mlp(tasks="ring:2", sum=(-0.5, 0.0, 0.25, 0.5, 0.75, 1.0, 1.15, 1.28)).highest("sum")
    ),
    "same error to within # at": below(claim("T-fig3.leak").highest(), -1 * claim("T-fig3.leak").lowest()),
    "this vote errs in # of prompts and the model in #": (mlp(probe="attended", sum=-1.28), mlp(sum=-1.28)),
}
along = rows("T-fig2", probe="alignment", matrix="query", domain="out").of("along")
lengths = rows("S-fig1", data="τ = 0, λ* = 1", probe="norms", matrix="query", kind="irrelevant").of("length")
parts = rows("S-fig1", data="τ = 0, λ* = 1", probe="parts", tasks="unseen", step=600)
INSIDE: Quotes = {
    "theorem.** # % of the rows of W_O W_V grow to a length of about #": (
        100 * claim("T-fig2.large"),
        found("T-fig2", neurons("large", "length")),
    ),
    "the mean pattern within #°, and at q or −q, by their sign, within #°": (
        claim("T-fig2.neurons.feature"),
        claim("T-fig2.neurons.label"),
    ),
    "way: # % of them are more than 140° from the mean pattern and # % from their label": (
        100 * found("T-fig2", turned("feature_angle")),
        100 * found("T-fig2", turned("label_angle")),
    ),
    "Their mean length is #": found("T-fig2", neurons("small", "length")),
    "(exponent # [#, #] from M2": (claim("T-fig2.small"), claim("T-fig2.small").low, claim("T-fig2.small").high),
    "grows from # to #. It is # of the norm of W_Q p in domain and # out": (
        along(step=0),
        along(step=600),
        claim("T-fig2.aligned.query.in"),
        claim("T-fig2.aligned.query.out"),
    ),
    "(# from # in S-fig1)": (lengths(step=600), lengths(step=0)),
    "where the difference is # too": claim("S-fig1.label-part.source").at("τ = 0, λ* = 1"),
    "by *source*, # comes through W_O W_V from labels and # from features": (
        parts.of("label_by_source"),
        parts.of("feature_by_source"),
    ),
    "The label part is larger in # % of": 100 * parts.of("ahead_by_source"),
    "the two parts are # and #": (parts.of("label_by_place"), parts.of("feature_by_place")),
}
pruned = rows("T-fig5", probe="error", fraction=0.6)
gone = pruned(way=("largest", "largest-balanced"), rate=(0.8, 0.9, 0.95))
PRUNING: Quotes = {
    "W_O W_V: # % of these are small": 100 * (1 - found("T-fig5", neurons("large", "share"))),
    "loss by # R to # R": (claim("T-fig5.loss.large").lowest(), claim("T-fig5.loss.large").highest()),
    "small ones raises it by #": claim("T-fig5.loss.small"),
    "can be removed (# from #)": (pruned(way="random", rate=0.9), pruned(way="smallest", rate=0.0)),
    "the error is # at a rate of 0.5": pruned(way="largest", rate=0.5),
    "with both signs alike it is #": pruned(way="largest-balanced", rate=0.5),
    "answer wrong (# to #)": (gone.lowest("way", "rate"), gone.highest("way", "rate")),
    "smallest first (# more": claim("T-fig5.beyond.smallest").at("rate 0.5"),
    "always helps (#, #, # at 0.4, 0.6, 0.8": [pruned(way="smallest", rate=0.0, fraction=f) for f in (0.4, 0.6, 0.8)],
}
exponent, length = claim("T-fig6.exponent"), claim("T-fig6.length")
LENGTHS: Quotes = {
    "α^(−2/3) has R² = #, and one in 1/α has #": (
        claim("T-fig6.iterations"),
        claim("T-fig6.iterations") - claim("T-fig6.straighter"),
    ),
    "exponent of a power law is # [#, #]": (exponent, exponent.low, exponent.high),
    "seeds R² = # [#, #]": (length, length.low, length.high),
    "tasks the error is #, #, # for": [claim(f"T-fig7.few.{m}") for m in (4, 6, 8)],
    "With M1 tasks it is # to #, and": [
        extreme(*(claim(f"T-fig7.enough.{m}").at(f"{m} tasks") for m in (4, 6, 8))) for extreme in (least, most)
    ],
}


def learner(name: str, usual: str = "", tuned: str = "") -> Quotes:
    """A line of the table of T-fig4."""
    at_20 = rows("T-fig4", domain="out", length=20)
    numbers = [at_20(learner=kind, fraction=f) for kind in (usual, tuned) if kind for f in (0.8, 0.6)]
    cells = [" # / # |" if kind else " |" for kind in (usual, tuned)]
    return {f"| {name} |{cells[0]}{cells[1]}": numbers}


nearest, third = (
    claim("T-fig4.no-win.tuned.out").at("length 20, 5-NN, cosine"),
    claim("T-fig4.win.tuned.out").at("3-NN, cosine"),
)
CLASSICAL: Quotes = {
    **learner("T's Transformer", "ICL"),
    **learner("logistic regression", "logistic", "logistic, tuned"),
    **learner("SVM, Gaussian", "SVM Gau.", "SVM Gau., tuned"),
    **learner("SVM, linear", "SVM Lin.", "SVM Lin., tuned"),
    **learner("1-NN", "1-NN", "1-NN, cosine"),
    **learner("3-NN", "3-NN", "3-NN, cosine"),
    **learner("5-NN", "", "5-NN, cosine"),
    "5-NN by cosine by # [#, #] at": (nearest, nearest.low, nearest.high),
    "3-NN by cosine by # [#, #] at": (third, third.low, third.high),
}
far = claim("T-fig3.ood-small.gpt2").at("S1 = 1.28")
varied = rows("sensitivity", experiment="T-fig3:gpt2", panel="sum", sum=1.28, probe="error")
domain = rows("T-gpt2-domain", patterns="out", scale=5.0)
cell = table("T-gpt2-domain", "K = 5", {"training": "as in T-fig3", "patterns": "mixtures of T §5, S1 = 1.28"})
patterns, scale = claim("T-gpt2-domain.patterns"), claim("T-gpt2-domain.scale")
GPT2: Quotes = {
    "seeds err in at most # of prompts, and three in #, # and #": [
        gpt2.highest("seed", rank=rank) for rank in (4, 3, 2, 1)
    ],
    "it errs in # [#, #] at S1 = 1.28 and # at 1": (
        far,
        far.low,
        far.high,
        claim("T-fig3.ood-small.gpt2").at("S1 = 1"),
    ),
    "last layer # of the attention": claim("T-fig3.attention.gpt2"),
    "out of domain are between # and #": (varied.lowest("changed", "to"), varied.highest("changed", "to")),
    "GPT-2 errs in # [#, #] of prompts: one": (patterns, patterns.low, patterns.high),
    "of prompts: one seed in #, the others in at most #": [
        domain(scale=0.5, training="as in T-fig3").highest("seed", rank=rank) for rank in (1, 2)
    ],
    "K = 5 it errs in # [#, #], and on the mixtures at K = 5 in # [#, #]": (
        scale,
        scale.low,
        scale.high,
        *(cell.number(place) for place in (1, 2, 3)),
    ),
    "logistic loss #, squared loss #, no dropout #, 20,000 steps of 16 prompts #": [
        domain(training=training) for training in ("logistic loss", "squared loss", "no dropout", "20,000 steps")
    ],
    "errs in # on unseen tasks and in # on the mixtures": [
        domain(training="trained with K = 5", patterns=patterns) for patterns in ("in", "out")
    ],
}
QUOTES = DOMAIN | INSIDE | PRUNING | LENGTHS | CLASSICAL | GPT2
SETTINGS = (
    r"(?s:## How fast.*)",  # times, not results
    r"(?:below|near) 0\.01",  # the papers' margin
    r"at 0\.4, 0\.6, 0\.8 unpruned|at 0\.75, .* at 0\.5,|at 1\.28|at −1\.28|at 0\.[68]\b|rate of 0\.5|Beyond 0\.7",
    r"with probability 0\.02",
    r"first pattern mean \+1, the error is 0\.036 .8 seeds",  # by the command that follows it
    r"dropout of 0\.1|err in 0\.010, 0\.028 and 0\.057",  # by --set gpt2_dropout=0
    r"seeds erred in 0\.0060",  # by an earlier version
    r"same three seeds erred in 0\.023,\s0\.062 and 0\.099|one seed erred in 0\.143",  # by the same version elsewhere
)
