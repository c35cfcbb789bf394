"""iclab: a laboratory for in-context learning.

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

The rooms: `prompts`, `text`, `models`, `engines`, `probes`, `theory`, `lab`, `study`, `papers`, `beyond`, `report`,
`testing`, `api` and `score`. What most people need is here.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from iclab._version import __version__

if TYPE_CHECKING:
    from iclab.api import Comparison, Run, compare, experiments, load, run, train
    from iclab.config import InputError, OutsideTheoremWarning
    from iclab.engines import Recipe, StepDone, Stop, Switch, geometric
    from iclab.models import Answer, Model
    from iclab.probes import Pruning
    from iclab.prompts import Examples, Mixture, Outliers, Patterns, Prompts, Table
    from iclab.study.predicting import Predicted, predict
    from iclab.text import Sentences

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

_ROOMS = (
    *("prompts", "text", "models", "engines", "probes", "theory", "lab", "study", "papers", "beyond", "report"),
    *("playground", "testing", "api", "score", "audit"),
)

__all__ = [
    "Answer",
    "Comparison",
    "Examples",
    "InputError",
    "Mixture",
    "Model",
    "Outliers",
    "OutsideTheoremWarning",
    "Patterns",
    "Predicted",
    "Prompts",
    "Pruning",
    "Recipe",
    "Run",
    "Sentences",
    "StepDone",
    "Stop",
    "Switch",
    "Table",
    "__version__",
    "compare",
    "experiments",
    "geometric",
    "load",
    "predict",
    "run",
    "train",
]


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(module), name)
    if name in _ROOMS:
        return importlib.import_module(f"iclab.{name}")
    raise AttributeError(f"module 'iclab' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
