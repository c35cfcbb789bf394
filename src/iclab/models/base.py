"""What an architecture declares about itself, in one place, and the list of all that do.

To add an architecture, write one file in this folder: a subclass of `Architecture` with a ``name``. It is then known
everywhere by that name, with its label and colour in figures, its step size, and the probes that can read it.

    class Mean(Architecture):
        name = "mean"
        label = "mean of labels"

        def __init__(self, width: int) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(1))

        def forward(self, tokens: Tensor) -> Tensor:
            return self.scale * tokens[:, :-1, -1].mean(1)

A class outside this folder is known by its path, ``package.module:Class``. It may be a plain ``nn.Module``, which has
the defaults below.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from iclab.models.answer import Answer
from iclab.models.attention import linear_scores
from iclab.models.gates import Flow, GateForm
from iclab.prompts.compact import PromptBatch
from iclab.prompts.patterns import Basis

MODELS: dict[str, type[Architecture]] = {}
"""The built-in architectures by name, in the order in which lists show them."""

Readable = Literal["votes", "keys", "neurons"]


class Point(nn.Identity):
    """A named step of a forward pass: it passes on what it gets, and `iclab.Run.intervene` can reach it."""


def points(*names: str) -> nn.ModuleDict:
    """Return the named steps of one layer."""
    return nn.ModuleDict({name: Point() for name in names})


class Architecture(nn.Module):
    """A model that maps dense prompts (batch, l + 1, width) to outputs (batch,) or to an `Answer`.

    Its constructor takes options as keywords and, if it names them, ``width`` (the length of a token), ``label_width``
    (how many of its last coordinates are the label) and ``context_length``.
    """

    # In lists and figures

    name: ClassVar[str] = ""
    """The word users write for it. Not inherited."""
    label: ClassVar[str] = ""
    """What figures call it; by default its name."""
    colour: ClassVar[str | None] = None
    """Its colour in figures, as ``#RRGGBB``; by default one that is free."""
    several_layers: ClassVar[bool] = False
    """Whether lists add "several layers" to the label, which it shares with a model of one layer."""
    list_order: ClassVar[int] = 1000
    """Lists show small numbers first, equal ones by name."""

    # In cells of work

    version: ClassVar[int] = 1
    """Part of the hash of this model's cells. Raise it when the same weights give other outputs, or start elsewhere."""
    later_options: ClassVar[frozenset[str]] = frozenset()
    """Options that were added when there were stored results: a description leaves them out while they have their
    default, so that the hashes of its cells stay as they were."""
    group_size: ClassVar[int] = 8
    """How many seeds train together. A seed's group never changes, so results do not depend on which seeds are run."""

    num_cpus: ClassVar[float] = 1.0
    """How many cores of a Ray cluster a cell reserves. It computes on one, so that results do not depend on this."""
    num_gpus: ClassVar[float] = 1.0
    """How much of a GPU a cell on ``device="cuda"`` reserves there, such as 0.25."""

    # In training

    step_size: ClassVar[float | None] = None
    """A step size that suits plain SGD. Paper M's experiments take it if their settings name none for this model."""
    takes_levels: ClassVar[bool] = False
    """Whether it answers prompts of several levels, with one output for each; it is built with ``label_width`` = H."""
    constant_buffers: ClassVar[bool] = False
    """Whether a forward pass leaves its buffers as they are. Seeds of a model with other buffers run one by one."""
    fused_gate: ClassVar[str | None] = None
    """How the fused engine may stand in for ``forward``: ``product`` for Mamba's gate, ``none`` for no gate, one of the
    others in `iclab.engines.fused.one_layer.gate_kernels`, or not at all.

    It then knows the weights ``key``, ``query`` and ``gate`` and the options ``state_size`` and ``init_scale``, all as
    in `iclab.models.mamba`. Not inherited: a subclass may compute something else."""
    fused_options: ClassVar[tuple[str, ...]] = ()
    """Further options that ``gate_form`` reads."""
    fused_form: ClassVar[str | None] = None
    """The form of the fused engine that may stand in for ``forward``: ``one-layer`` follows from ``fused_gate``; the
    others are in `iclab.engines.registry`. Not inherited either."""
    has_compact_form: ClassVar[bool] = False
    """Whether it defines ``answer_compact``. Set for you, and not inherited either."""

    levels: int = 1
    """How many levels an instance answers."""

    # In probes

    has_transitions: ClassVar[bool | Literal["sign"]] = False
    """Whether ``transitions`` describes its output, or at least its sign, so that the worst labels of outliers can be
    found. Follows from ``fused_gate``, and is not inherited either."""
    readable: ClassVar[frozenset[Readable] | None] = None
    """What probes can read: ``votes`` (the output is a sum of attention × gate × label over examples), ``keys`` (one
    layer of weights ``key`` and ``query``) and ``neurons`` (weights ``value``, ``hidden`` and ``signs``). By default
    probes look for weights of these names."""

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        for declaration in ("name", "fused_gate", "fused_form", "has_transitions"):
            if declaration not in vars(cls):
                setattr(cls, declaration, getattr(Architecture, declaration))
        if cls.fused_gate is not None:
            cls.fused_form, cls.has_transitions = cls.fused_form or "one-layer", True
        cls.has_compact_form = "answer_compact" in vars(cls)
        if cls.name and cls.__module__.rpartition(".")[0] == __package__:
            _register(cls)

    @classmethod
    def check(cls, options: Mapping[str, Any]) -> None:
        """Raise an error if options make no sense. Called when a model is described, before any work.

        By default a model with a name is built for tokens of 4 numbers. Others are checked when they are built.
        """
        if cls.name:
            given = {"width": 4, "label_width": 1, "context_length": 2}
            accepted = inspect.signature(cls).parameters
            cls(**{name: value for name, value in given.items() if name in accepted}, **options)

    @classmethod
    def longest_context(cls, options: Mapping[str, Any]) -> int | None:
        """Return the largest number of context examples it takes; None if there is no limit."""
        return None

    @classmethod
    def one_by_one(cls, options: Mapping[str, Any]) -> str:
        """Return the reason why its seeds must run one after another; empty if they can be stacked."""
        return ""

    @classmethod
    def gate_form(cls, options: Mapping[str, Any]) -> GateForm | None:
        """Return how the fused engine computes its gate with these options; None if it cannot."""
        return None if cls.fused_gate is None else GateForm(cls.fused_gate, vector=cls.fused_gate != "none")

    def flow(self, logits: Tensor) -> Flow:
        """Return decay and inflow of tokens from their logits wᵀp; by default Mamba's, or 1 without a gate."""
        if self.fused_gate == "none":
            return Flow(torch.zeros_like(logits), torch.ones_like(logits))
        return Flow(F.logsigmoid(-logits), torch.sigmoid(logits))

    def transitions(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Return decay_i of every token, (batch, l + 1), and vote_i of every example, (batch, l).

        They describe the output of one layer: F = decay_query h_l, h_i = decay_i h_{i−1} + y_i vote_i, where decay_i
        and vote_i depend on the query and on no other example than i.
        """
        scores = linear_scores(tokens, self.key, self.query)  # type: ignore[arg-type]
        gate = getattr(self, "gate", None)
        flow = self.flow(tokens[..., 0] * 0 if gate is None else tokens @ gate)
        return flow.decay, flow.inflow[..., :-1] * scores

    def initialise(self, basis: Basis, seed: int) -> None:
        """Draw the initial weights that depend on the patterns; called once after construction."""

    @staticmethod
    def answer_compact(weights: Mapping[str, Tensor], rows: Tensor, batch: PromptBatch) -> Answer:
        """Answer prompts of stacked seeds in dictionary coordinates: the same function as ``forward``, if defined.

        Args:
            weights: (seeds, …) by name.
            rows: (seeds, D' + 1, width) the rows that tokens are combined from; the last is a label of 1.
            batch: compact prompts of these seeds.
        """
        raise NotImplementedError


def declared(model: Any) -> type[Architecture]:
    """Return the class that holds a model's declarations: its own, or `Architecture` for any other class."""
    return model if isinstance(model, type) and issubclass(model, Architecture) else Architecture


def _register(cls: type[Architecture]) -> None:
    known = MODELS.get(cls.name)
    if known is not None and known.__module__ != cls.__module__:
        raise TypeError(f"name = {cls.name!r}: is taken by {known.__module__}.{known.__qualname__}")
    MODELS[cls.name] = cls
    for name in sorted(MODELS, key=lambda name: (MODELS[name].list_order, name)):
        MODELS[name] = MODELS.pop(name)
