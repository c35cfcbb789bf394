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
# # Your architecture
#
# You have an idea for a layer. Does it learn in context, and does it withstand wrong examples? We write one, check it, train it
# beside Mamba and the linear Transformer, and see what a gate adds.

# %%
import torch

import iclab
import iclab.testing

# %% [markdown]
# ## A module
#
# Any `torch.nn.Module` will do. It takes prompts (batch, length + 1, width), the query last, and returns one output per prompt, whose
# sign is the answer. The last entry of a token is its label. iclab passes `width` to a constructor that names it. All other
# arguments are options.
#
# Ours is attention without a softmax: every example votes with its label, as loudly as it resembles the query. With `gated=True`
# the vote is multiplied by a number between 0 and 1, which the example itself decides. That is one line more.


# %%
class Mine(torch.nn.Module):
    def __init__(self, width, hidden=32, gated=False):
        super().__init__()
        self.key = torch.nn.Linear(width - 1, hidden, bias=False)
        self.query = torch.nn.Linear(width - 1, hidden, bias=False)
        self.gate = torch.nn.Linear(width - 1, 1) if gated else None

    def forward(self, tokens):
        inputs, labels = tokens[..., :-1], tokens[:, :-1, -1]
        examples, query = inputs[:, :-1], inputs[:, -1:]
        votes = labels * (self.key(examples) * self.query(query)).sum(-1)
        if self.gate is not None:
            votes = votes * torch.sigmoid(self.gate(examples)).squeeze(-1)
        return votes.mean(-1)


# %% [markdown]
# ## Is it sound?
#
# These are the checks that the built-in models pass: shapes, gradients, seeds, prompts of other lengths, saving and loading. A check
# that fails says why.

# %%
print(iclab.testing.check_model(Mine, options={"gated": True}))

# %% [markdown]
# ## Train it
#
# The prompts are paper M's: 60 % of the training examples are outliers with random labels. Tests flip the label of every outlier.
# First, does it learn at all? Its error on prompts without outliers, by step:

# %%
prompts = iclab.Prompts(tasks="ring:3", outliers=iclab.Outliers(fraction=0.6, scale=2.0))
poisoned = iclab.Prompts(
    outliers=iclab.Outliers(fraction=0.6, scale=6.67, labels="flip", patterns="paper")
)
adam = iclab.Recipe(optimizer="adam", step_size=0.01, steps=200, snapshots=(10, 50, 100))

run = iclab.train(iclab.Model(name=Mine, options={"gated": True}), prompts, adam, seeds=4)
for step in (0, 10, 50, 100, 200):
    print(
        f"after {step:3} steps: {run.error(iclab.Prompts(), at=step, count=1_000).mean:.3f}"
    )

# %% [markdown]
# ## Compare
#
# Each entry is a model, or a model with a recipe of its own. All see the same prompts.

# %%
models = {
    "Mamba": ("mamba", iclab.Recipe(step_size=1.0, steps=400)),
    "linear Transformer": ("linear", iclab.Recipe(step_size=0.05, steps=400)),
    "mine": (Mine, adam),
    "mine, gated": (iclab.Model(name=Mine, options={"gated": True}), adam),
}
over = {"outliers.fraction": [0.0, 0.2, 0.4, 0.6, 0.8]}
comparison = iclab.compare(models, prompts, poisoned, over=over, seeds=4, count=1_000)
comparison.chart

# %% [markdown]
# Without its gate, our model is a linear Transformer that was started otherwise, and follows the wrong labels. With it, it is as robust as
# Mamba. As numbers, with intervals over four seeds:

# %%
for line in comparison.summary:
    if line["outliers.fraction"] == 0.6:
        print(
            f"{line['model']:20} {line['mean']:.3f} [{line['low']:.3f}, {line['high']:.3f}]"
        )

# %% [markdown]
# ## Look inside
#
# `run.module(0)` is the trained module of seed 0, and `run.tokens` gives test prompts as it takes them. So what does its gate do to
# outliers?

# %%
tokens, _ = run.tokens(poisoned, count=500, seed=0)
batch, _ = run.answer(poisoned, count=500)
with torch.no_grad():
    gates = torch.sigmoid(run.module(0).gate(tokens[:, :-1, :-1])).squeeze(-1)
outlier = torch.as_tensor(batch.outlier[0])
print(
    f"mean gate of clean examples {gates[~outlier].mean():.3f}, of outliers {gates[outlier].mean():.4f}"
)

# %% [markdown]
# ## What next
#
# Save the class as `mine.py`. Then one command puts it into the paper's own figure, and another writes a card: a fixed suite of tasks,
# lengths, placements and worst labels, with one tuning rule for all models ([the scorecard](../score.md)).
#
#     iclab run M-fig2 --set 'models=["mamba","linear","mine:Mine"]' --set recipes.Mine.optimizer=adam --set recipes.Mine.step_size=0.01
#     iclab score mine:Mine --quick --set gated=true
#
# [Extending](../extending.md#a-model-of-your-own) has the rules for modules with dropout, buffers, batch norm or LSTMs.
