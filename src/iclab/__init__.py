"""A laboratory for in-context learning: train many seeds, break the prompts, look inside, compare with the theorems.

    prompts = iclab.Prompts(tasks="ring:3", outliers=iclab.Outliers(fraction=0.6, scale=2.0))
    poisoned = iclab.Prompts(outliers=iclab.Outliers(fraction=0.7, scale=6.0, labels="flip", patterns="paper"))
    run = iclab.train("mamba", prompts, iclab.Recipe(steps=400), seeds=8)
    run.error(poisoned)

Do; ``help(iclab.train)`` and so on explain each, with an example:

    train               train many seeds of a built-in model, or of your own nn.Module: a Run
    compare             models over any grid of settings: a Comparison, with its chart
    experiments, run    the experiments by id; run one of a paper, or your own
    predict             what the theorems say at a setting: Predicted, conditions with their slack and predictions
    score               put a model on one fixed suite: a card
    load                read a Run that was saved

Describe:

    Prompts             a distribution of prompts, with Patterns, Outliers and a Mixture of outliers
    Table, Sentences    prompts over vectors of your own, and over real text
    Model, Answer       a model with options; what a model of your own may return
    Recipe, Stop        how to train, and when to stop; Switch, StepDone and geometric are for its finer fields
    Examples, Pruning   what a rule of your own for labels sees; neurons to take out before a measurement

What cannot be done raises an InputError of one line; an OutsideTheoremWarning says that no theorem covers a setting.
`iclab.testing` checks a model of your own, `iclab.study` has the parts of an experiment, `iclab.theory` the theory.

Names in the code, and the papers' letters (M: Mamba with outliers, T: nonlinear Transformers, S: feature selectors):

    relevant            µ_j, of which there are M1            irrelevant          ν_k, M2 of them
    outlier             v*_s, V of them                       relevant_norm …     β, the norm of a pattern
    context_length      l                                     task                (a, b): µ_a means +1, µ_b means −1
    irrelevant_scale    K, with κ ~ U(−K, K)                  outlier_scale       κ_a in training, κ_a' in tests
    outlier_fraction    p_a in training, M's α in tests       relevant_fraction   T's and S's α
    mixture             M's λ in v' = Σ λ_i v*_i + u          temperature         τ of M E.6
    signal              S's λ                                 noise               S's τ
    key, query          W_B and W_C; W_K and W_Q              gate                w, and G_i
    state_size          M's m                                 width               T's m (an MLP's); a token's length
    init_scale          δ                                     step_size           η
    batch_size, steps   B, T                                  target              z, the query's true label
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from iclab._version import __version__ as __version__

# There is no `__all__`: with one, help(iclab) prints every class in full, thousands of lines.
if TYPE_CHECKING:
    from iclab.api import Comparison as Comparison
    from iclab.api import Run as Run
    from iclab.api import compare as compare
    from iclab.api import experiments as experiments
    from iclab.api import load as load
    from iclab.api import run as run
    from iclab.api import train as train
    from iclab.config import InputError as InputError
    from iclab.config import OutsideTheoremWarning as OutsideTheoremWarning
    from iclab.engines import Recipe as Recipe
    from iclab.engines import StepDone as StepDone
    from iclab.engines import Stop as Stop
    from iclab.engines import Switch as Switch
    from iclab.engines import geometric as geometric
    from iclab.models import Answer as Answer
    from iclab.models import Model as Model
    from iclab.probes import Pruning as Pruning
    from iclab.prompts import Examples as Examples
    from iclab.prompts import Mixture as Mixture
    from iclab.prompts import Outliers as Outliers
    from iclab.prompts import Patterns as Patterns
    from iclab.prompts import Prompts as Prompts
    from iclab.prompts import Table as Table
    from iclab.study.predicting import Predicted as Predicted
    from iclab.study.predicting import predict as predict
    from iclab.text import Sentences as Sentences

# Loaded on first use, so that `iclab --help` does not wait for torch.
_HOMES = {
    "iclab.api": ("Comparison", "Run", "compare", "experiments", "load", "run", "train"),
    "iclab.config": ("InputError", "OutsideTheoremWarning"),
    "iclab.engines": ("Recipe", "StepDone", "Stop", "Switch", "geometric"),
    "iclab.models": ("Answer", "Model"),
    "iclab.probes": ("Pruning",),
    "iclab.prompts": ("Examples", "Mixture", "Outliers", "Patterns", "Prompts", "Table"),
    "iclab.text": ("Sentences",),
    "iclab.study.predicting": ("Predicted", "predict"),
}

_PACKAGES = (
    *("prompts", "text", "models", "engines", "probes", "theory", "lab", "study", "papers", "beyond", "report"),
    *("playground", "testing", "api", "score", "audit"),
)


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(module), name)
    if name in _PACKAGES:
        return importlib.import_module(f"iclab.{name}")
    raise AttributeError(f"module 'iclab' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [
        "__version__",
        "score",
        "study",
        "testing",
        "theory",
        *(name for names in _HOMES.values() for name in names),
    ]
