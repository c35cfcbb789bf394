# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # A theorem of your own
#
# You believe something about a model and want to know whether it is so. Here is a guess about Mamba, from statement to verdict.
#
# > **Guess.** A trained gate shuts outliers out. So Mamba errs only on prompts without a clean example. If every example is an
# > outlier with probability $\alpha$, then its error on prompts with $l$ examples is at most $\alpha^l$.
#
# iclab wants three things *before* the run: what is trained and measured, the number that decides, and the margin.

# %%
from itertools import product

from iclab import Model, Outliers, Prompts, Recipe, run, study
from iclab.engines import Training

COLOURS = ("#0072B2", "#009E73", "#D55E00")

# %% [markdown]
# ## The settings
#
# Everything that someone might want to change is a field. `seeds`, `test_prompts` and others are there already.


# %%
class GuessSettings(study.Settings):
    """What the guess is tested at."""

    lengths: tuple[int, ...] = (2, 4, 8, 16)
    fractions: tuple[float, ...] = (0.5, 0.7, 0.9)  # α
    strength: float = 6.67  # κ_a', of outliers in tests; training has κ_a = 2
    steps: int = 400

    @property
    def points(self):
        return list(product(self.fractions, self.lengths))


# %% [markdown]
# ## The experiment
#
# `conditions` says what to train and measure. `claims` turns the guess into predicates: a number per point, and a margin.
# We ask twice: is $\alpha^l$ a bound, and is it the error itself?


# %%
class Guess(study.Experiment[GuessSettings]):
    """Mamba errs only where no example is clean."""

    id = "guess"
    paper = "The error of a trained Mamba is at most α^l."
    settings = GuessSettings

    def conditions(self, settings):
        outliers = Outliers(fraction=0.6, scale=2.0)
        training = Training(
            model=Model(name="mamba"),
            prompts=Prompts(tasks="ring:3", outliers=outliers),
            recipe=Recipe(steps=settings.steps, step_size=1.0),
        )
        hard = outliers.replace(scale=settings.strength, labels="flip", patterns="paper")
        found = []
        for alpha, length in settings.points:
            test = Prompts(context_length=length, outliers=hard.replace(fraction=alpha))
            columns = {"alpha": alpha, "length": length}
            found += study.in_groups(settings, columns, training, prompts=test)
        return found

    def claims(self, settings):
        def excess(rows):  # error − α^l at every point, seed by seed
            pairs = []
            for alpha, length in settings.points:
                measured = study.errors(rows, alpha=alpha, length=length)
                guessed = dict.fromkeys(measured, alpha**length)
                pairs.append((f"α = {alpha}, l = {length}", measured, guessed))
            return study.paired_points(pairs, settings.seeds)

        bound = study.judged(excess, study.every_below, 0.01)
        equal = study.judged(excess, study.every_within, -0.01, 0.01)
        return [
            study.Claim(
                "guess.bound", "the error is at most α^l", "error − α^l < 0.01", bound
            ),
            study.Claim("guess.equal", "the error is α^l", "|error − α^l| < 0.01", equal),
        ]

    def chart(self, rows, settings):
        ticks = {length: str(length) for length in settings.lengths}
        x = study.Axis("examples l", domain=(2, 16), scale="log", ticks=ticks)
        panel = study.Panel(x=x, y=study.Axis("error", domain=(0, 1)))
        for alpha, colour in zip(settings.fractions, COLOURS, strict=False):
            found = [study.errors(rows, alpha=alpha, length=n) for n in settings.lengths]
            panel.curve(study.Series(f"α = {alpha}", colour), settings.lengths, found)
            guess = study.Series(f"α^l, α = {alpha}", colour, dash=(4, 3), mark="")
            panel.line(guess, settings.lengths, [alpha**n for n in settings.lengths])
        return study.Figure([panel], width=420)


# %% [markdown]
# ## The verdict

# %%
outcome = run(Guess, seeds=8, test_prompts=4_000)
outcome.chart


# %%
def show(outcome):
    for claim in outcome.claims:
        print(f"{claim['verdict']:10} {claim['paper']}")
        print(
            f"{'':10} {claim['measured']:+.3f} [{claim['low']:+.3f}, {claim['high']:+.3f}] at {claim['where']}"
        )


show(outcome)

# %% [markdown]
# A verdict looks at the whole 95 % interval: *holds* if all of it is on the right side of the margin, *fails* if all of it is on the
# wrong side, else *undecided*. The number shown is that of the worst point.
#
# The bound holds, and equality fails: with few examples, Mamba errs less often than $\alpha^l$. The stronger guess was wrong, and
# the picture says where.
#
# ## Is the hypothesis needed?
#
# Test outliers were stronger than those of the training. Paper M's Theorem 2 needs that too (with its condition (b) put right, κ_a' L
# ≥ κ_a). What if they are as weak as in training? One setting changes, and nothing else:

# %%
weak = run(Guess, seeds=8, test_prompts=4_000, strength=2.0)
show(weak)

# %% [markdown]
# The bound fails. So the strength of test outliers belongs in the statement, and "a trained gate shuts outliers out" was too short.
#
# ## Keep it
#
# Save the two classes as `guess.py`. Then the command line runs, remembers and reports them beside the papers' claims, and adds seeds until
# every claim is decided:
#
#     iclab run guess:Guess --quick
#     iclab run guess:Guess --until-decided
#     iclab report
#
# [Extending](../extending.md#an-experiment) says what else an experiment may have: exponents, directions, settings with their reasons.
