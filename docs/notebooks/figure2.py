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
# # Figure 2 from scratch
#
# Paper M says that a one-layer Mamba answers correctly when most examples of a prompt are poisoned, and that linear attention
# does not. We make the figure in five steps: a prompt, two trainings, the error, the figure, and the reason.
#
# This page is a notebook. Open `docs/notebooks/figure2.py` in Jupyter (with jupytext) or in an editor that knows `# %%` cells.

# %%
import iclab
from iclab.prompts import Stream

# %% [markdown]
# ## A prompt
#
# A token is a relevant pattern plus a little of an irrelevant one, and a label. The task (a, b) says that pattern a means +1 and
# pattern b means −1. In training, 60 % of the examples also carry an *outlier* pattern and show a random label. The query
# comes last, and its label is hidden.

# %%
prompts = iclab.Prompts(tasks="ring:3", outliers=iclab.Outliers(fraction=0.6, scale=2.0))
batch = prompts.draw([0], Stream.TEST, count=1)  # a pure function of these arguments

print(f"the query's true label: {batch.target[0, 0, 0]:+.0f}")
print("example  same pattern as the query  outlier  label shown")
for i in range(8):
    same = "yes" if batch.same_pattern[0, 0, i] else ""
    outlier = "yes" if batch.outlier[0, 0, i] else ""
    print(f"{i + 1:7}  {same:25}  {outlier:7}  {batch.labels[0, 0, i, 0]:+.0f}")
print("    …    and 12 more, then the query")

# %% [markdown]
# ## Two trainings
#
# Mamba weighs each example by a gate that sees the tokens. The linear Transformer is the same model without the gate. Eight
# seeds of each train at once, each on fresh prompts in every step.

# %%
mamba = iclab.train("mamba", prompts, iclab.Recipe(steps=400, step_size=1.0), seeds=8)
linear = iclab.train("linear", prompts, iclab.Recipe(steps=400, step_size=0.05), seeds=8)
for run in (mamba, linear):
    print(run, "training loss at the end:", run.losses[-50:].mean().round(3))

# %% [markdown]
# ## The error
#
# Now the test is harder than the training: outliers are stronger, are mixtures of those of the training with a new direction, and
# show the *wrong* label each time (`flip`). Both intervals are 95 %: one over seeds, one over test prompts.

# %%
poisoned = iclab.Prompts(
    outliers=iclab.Outliers(fraction=0.6, scale=6.67, labels="flip", patterns="paper")
)
print("Mamba ", mamba.error(poisoned))
print("linear", linear.error(poisoned))

# %% [markdown]
# ## The figure
#
# `compare` trains and measures over any setting. Lines are means over seeds, and bands go over all seeds.

# %%
over = {"outliers.fraction": [0.0, 0.2, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]}
models = {
    "Mamba": ("mamba", iclab.Recipe(steps=400, step_size=1.0)),
    "linear Transformer": ("linear", iclab.Recipe(steps=400, step_size=0.05)),
}
comparison = iclab.compare(models, prompts, poisoned, over=over, seeds=8, count=2_000)
comparison.chart

# %% [markdown]
# The linear Transformer counts votes: above one half, the wrong labels win. Mamba holds on until hardly any prompt has a clean
# example left.
#
# ## The reason
#
# The gate of an example, by its distance from the query, for clean examples and for outliers:

# %%
from iclab.study import Axis, Figure, Panel, Series

panel = Panel(x=Axis("distance from the query"), y=Axis("gate"))
rows, distances = mamba.gates(poisoned), range(1, 11)
for kind, colour in (("clean", "#0072B2"), ("outlier", "#D55E00")):
    gates = [
        {
            row["seed"]: row["gate"]
            for row in rows
            if (row["kind"], row["place"]) == (kind, k)
        }
        for k in distances
    ]
    panel.curve(Series(kind, colour), distances, gates)
Figure([panel], width=420)

# %% [markdown]
# The gate lets almost nothing of an outlier in. If it is the reason, then Mamba without its gate should fail as the linear
# Transformer does. We set every gate to 1 and measure again:

# %%
print("every gate set to 1:", mamba.intervene(gates=1.0).error(poisoned))

# %% [markdown]
# ## What the paper's figure has in addition
#
# `iclab run M-fig2` does the same with 16 seeds, 10,000 test prompts per point and three rules for the wrong labels, adds the
# worst of all labels, and judges the paper's claims. `iclab.run("M-fig2", quick=True)` does it from Python.
# [Your architecture](architecture.py) puts a model of your own into such a figure.
