"""The architectures: one file each, the equation first, then the code.

Every file of this folder is imported, so that its classes register themselves in `MODELS`. Compiled code,
`*_kernels.py`, is imported on first use, because numba takes long to import.
"""

import importlib
import pkgutil

from iclab.models.answer import Answer, as_answer, combine
from iclab.models.base import MODELS, Architecture, declared
from iclab.models.classical import Classical
from iclab.models.deep_hybrid import DeepHybrid
from iclab.models.deep_linear import DeepLinear
from iclab.models.deep_mamba import DeepMamba
from iclab.models.deep_softmax import DeepSoftmax
from iclab.models.gates import Flow, GateForm
from iclab.models.gpt2 import GPT2
from iclab.models.linear import Linear
from iclab.models.mamba import Mamba
from iclab.models.model import Model, architecture
from iclab.models.softmax import Softmax
from iclab.models.softmax_mlp import SoftmaxMLP

for _file in pkgutil.iter_modules(__path__):
    if not _file.name.endswith("_kernels"):
        importlib.import_module(f"{__name__}.{_file.name}")

__all__ = [
    "GPT2",
    "MODELS",
    "Answer",
    "Architecture",
    "Classical",
    "DeepHybrid",
    "DeepLinear",
    "DeepMamba",
    "DeepSoftmax",
    "Flow",
    "GateForm",
    "Linear",
    "Mamba",
    "Model",
    "Softmax",
    "SoftmaxMLP",
    "architecture",
    "as_answer",
    "combine",
    "declared",
]
