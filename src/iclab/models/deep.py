"""A stack of layers: what `deep-mamba`, `deep-linear`, `deep-softmax` and `deep-hybrid` share.

Code name → paper:  key W_B (W_K),  query W_C (W_Q),  value W_V,  output W_O,  init_scale δ,  stream P of a layer.

The paper reports results of three-layer models but does not define them. Here layer k reads the stream P⁽ᵏ⁾ of all
l + 1 tokens and writes a new token at every position, which the next layer reads:

    Q⁽ᵏ⁾ = norm(P⁽ᵏ⁾),     P⁽ᵏ⁺¹⁾ = mix(Q⁽ᵏ⁾)   or, with a residual stream,   P⁽ᵏ⁾ + mix(Q⁽ᵏ⁾),
    F(Ψ; P) = the label's coordinate of the query's token in P⁽ᴷ⁾.

``norm`` divides a token by its root mean square, or leaves it as it is. With ``norm="scores"`` only keys and queries
read tokens that are divided; values and gates read the tokens themselves.

With ``stream="label"`` inputs pass through all layers unchanged: a layer writes only the label's coordinate, so that
every layer reads the examples themselves, and labels that earlier layers have worked on.

Architectures differ in ``mix``. One layer, one head and no norm give the one-layer model (linear: without 1/l).

Heads cut the d coordinates of keys, queries and values into equal slices. A head's value also holds the label,

    mix(Q)_i = Σ_h W_O,h Σ_j weight_h(i, j) W_V,h q_j,

and W_V, W_O start as that cut and its inverse. Together the heads then write the label of a single head, but not its
inputs: head h weighs its slice by its own score. So with two layers or more, several heads start as another function.
Without W_V and W_O, heads of linear attention are one head: Σ_h q_jᵀ W_B,hᵀ W_C,h q_i = q_jᵀ (Σ_h W_B,hᵀ W_C,h) q_i.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from iclab.config import InputError, check_whole
from iclab.models.answer import Answer
from iclab.models.attention import diagonal
from iclab.models.base import Architecture, points

Norm = Literal["none", "rms", "scores"]
Stream = Literal["full", "label"]
Sees = Literal["all", "past", "context"]


class Mixed(NamedTuple):
    """What a layer returns: values for the last n positions, and the attention and gates of the query."""

    values: Tensor
    """(batch, heads, n, channels)"""
    attention: Tensor
    """(batch, l) of the query to each example."""
    gate: Tensor
    """(batch, l) of each example's label, as the query sees it."""


class Deep(Architecture, ABC):
    """The stack; a subclass defines how a layer mixes tokens."""

    steps: ClassVar[tuple[str, ...]] = ("stream", "attention", "heads")
    """What has a name in each layer: the stream it reads, (batch, l + 1, d + 1), the weights of the tokens each head
    sees, (batch, heads, n, tokens), and the values it then writes, (batch, heads, n, channels)."""
    several_layers = True
    readable = frozenset()
    later_options = frozenset({"stream"})

    def __init__(
        self,
        width: int,
        layers: int,
        heads: int,
        values: bool | None,
        residual: bool,
        norm: Norm,
        init_scale: float,
        stream: Stream,
    ) -> None:
        super().__init__()
        dimension = width - 1
        check_whole(layers=layers, heads=heads)
        check_switches(residual=residual, values=heads > 1 if values is None else values)
        if dimension % heads:
            raise InputError(f"heads = {heads}: must divide the dimension {dimension}")
        if norm not in ("none", "rms", "scores"):
            raise InputError(f"norm = {norm!r}: must be none, rms or scores")
        if stream not in ("full", "label"):
            raise InputError(f"stream = {stream!r}: must be full or label")
        if values is False and heads > 1:
            raise InputError(f"values = False: {heads} heads need values of their own")
        self.layers, self.heads, self.residual, self.norm = layers, heads, residual, norm
        self.stream = stream
        self.slice = dimension // heads
        start = diagonal(width, None, init_scale).detach().unflatten(0, (heads, self.slice))
        self.key = nn.Parameter(start.repeat(layers, 1, 1, 1))  # (layers, heads, d / heads, d + 1)
        self.query = nn.Parameter(start.repeat(layers, 1, 1, 1))
        self.layer = nn.ModuleList(points(*self.steps) for _ in range(layers))
        self.value: nn.Parameter | None = None
        self.output: nn.Parameter | None = None
        if heads > 1 if values is None else values:
            cut = torch.zeros(heads, self.slice + 1, width)
            cut[:, :-1] = torch.eye(dimension, width).unflatten(0, (heads, self.slice))
            cut[:, -1, -1] = 1.0  # every head carries the label, and they add up
            self.value = nn.Parameter(cut.repeat(layers, 1, 1, 1))  # (layers, heads, d / heads + 1, d + 1)
            self.output = nn.Parameter(cut.mT.repeat(layers, 1, 1, 1))

    @classmethod
    def check(cls, options: Mapping[str, Any]) -> None:
        """Build it for tokens with one coordinate per head."""
        heads = options["heads"]
        cls(width=1 + heads if isinstance(heads, int) and heads > 0 else 4, **options)

    @abstractmethod
    def mix(self, layer: int, tokens: Tensor, count: int, label_only: bool) -> Mixed:
        """Mix tokens (batch, l + 1, d + 1) for the last ``count`` positions; ``label_only`` needs just that channel."""

    def forward(self, tokens: Tensor) -> Answer:
        """Answer prompts (batch, l + 1, d + 1); attention and gates are (batch, layers, l)."""
        stream, attention, gates = tokens, [], []
        for layer in range(self.layers):
            last = layer == self.layers - 1  # only the query's label is read there
            stream = self.at(layer, "stream", stream)
            label_only = last or self.stream == "label"
            mixed = self.mix(layer, self.normed(layer, stream), 1 if last else tokens.shape[1], label_only)
            new = self._merged(layer, self.at(layer, "heads", mixed.values))  # (batch, n, d + 1 or 1)
            if label_only:
                new = new[..., -1:]
            kept = stream[:, -new.shape[1] :, -new.shape[2] :]
            new = kept + new if self.residual else new
            stream = torch.cat((tokens[..., :-1], new), -1) if label_only and not last else new
            attention.append(mixed.attention)
            gates.append(mixed.gate)
        return Answer(stream[:, -1, -1:], torch.stack(attention, 1), torch.stack(gates, 1))

    def at(self, layer: int, step: str, value: Tensor) -> Tensor:
        """Pass a value through the point that gives a step of a layer its name."""
        return self.layer[layer][step](value)  # type: ignore[index]

    def normed(self, layer: int, stream: Tensor) -> Tensor:
        """Return the stream as a layer reads it."""
        return self._normed("rms", stream)

    def _normed(self, where: Norm, tokens: Tensor) -> Tensor:
        """Divide tokens by their root mean square, if this is where the model does."""
        return F.rms_norm(tokens, tokens.shape[-1:], eps=1e-6) if self.norm == where else tokens

    def compared(self, tokens: Tensor) -> Tensor:
        """Return tokens as keys and queries read them."""
        return self._normed("scores", tokens)

    def scores(self, layer: int, readers: Tensor, seen: Tensor, scale: float = 1.0) -> Tensor:
        """Return q_jᵀ W_Bᵀ W_C q_i for readers i (batch, n, d + 1) and tokens j they see: (batch, heads, n, tokens)."""
        key, query = self.key[layer], scale * self.query[layer]  # (heads, d / heads, d + 1)
        readers, seen = self.compared(readers), self.compared(seen)
        if self.heads == 1:  # W_BᵀW_C first: one product less per token
            return (project(readers, key[0].mT @ query[0]) @ seen.mT).unsqueeze(1)
        return by_head(readers, query) @ by_head(seen, key).mT

    def carried(self, layer: int, tokens: Tensor, label_only: bool) -> Tensor:
        """Return W_V q_j per head, (batch, heads, l + 1, channels); the label is the last channel."""
        if self.value is None:
            return tokens[:, None, :, -1:] if label_only else tokens[:, None]
        return by_head(tokens, self.value[layer])

    def _merged(self, layer: int, values: Tensor) -> Tensor:
        """Return Σ_h W_O,h v_h for each head's values v_h, (batch, n, d + 1)."""
        if self.output is None:
            return values.squeeze(1)
        matrix = self.output[layer].transpose(0, 1).flatten(1)  # (d + 1, heads · channels)
        return project(values.transpose(1, 2).flatten(2), matrix)


def project(tokens: Tensor, matrix: Tensor) -> Tensor:
    """Multiply each token (batch, n, a) by a matrix (b, a), all in one product: (batch, n, b)."""
    return (tokens.flatten(0, 1) @ matrix.mT).unflatten(0, tokens.shape[:2])


def by_head(tokens: Tensor, matrices: Tensor) -> Tensor:
    """Multiply each token (batch, n, a) by each head's matrix (heads, b, a): (batch, heads, n, b)."""
    return project(tokens, matrices.flatten(0, 1)).unflatten(-1, matrices.shape[:2]).transpose(1, 2)


def check_switches(**switches: object) -> None:
    """Refuse values other than true and false."""
    for name, value in switches.items():
        if not isinstance(value, bool):
            raise InputError(f"{name} = {value!r}: must be true or false")


def check_sees(sees: str) -> None:
    """Refuse an unknown value of ``sees``."""
    if sees not in ("all", "past", "context"):
        raise InputError(f"sees = {sees!r}: must be all, past or context")


def later(count: int, length: int, device: torch.device) -> Tensor:
    """Mark the tokens j, of ``length``, that come after each of the last ``count`` positions i: (count, length)."""
    j = torch.arange(length, device=device)
    return j > j[-count:, None]
