"""GPT-2's blocks on a CPU: their forward pass, and their backward pass derived by hand.

PyTorch multiplies matrices, and `iclab.models.gpt2_kernels` does the rest. Only the query's output is read, so the last
block takes keys and values of all positions, and everything else of one. Prompts without a gradient, such as those with
a hinge loss of 0, are left out of the backward pass: they add nothing.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd.function import once_differentiable

EPSILON = 1e-5
"""Added to the variance in a layer norm."""
CHUNK = 64
"""Prompts that are answered at a time without gradients: few enough to stay in the processor's cache."""
WEIGHTS = (
    *("ln_1.weight", "ln_1.bias", "attn.c_attn.weight", "attn.c_attn.bias", "attn.c_proj.weight", "attn.c_proj.bias"),
    *("ln_2.weight", "ln_2.bias", "mlp.c_fc.weight", "mlp.c_fc.bias", "mlp.c_proj.weight", "mlp.c_proj.bias"),
)
"""The weights of a block, in the order in which they are passed."""

FEW = 0.75
"""If fewer prompts than this share have a gradient, what was kept of them is gathered first."""

Keep = NDArray[np.uint8]
"""0 where a value is dropped; without dropout it is empty."""


def run_blocks(
    tokens: Tensor, places: Tensor, blocks: Sequence[Sequence[Tensor]], heads: int, dropout: float
) -> tuple[Tensor, Tensor]:
    """Return the query's place in the residual stream after the last block, and its attention.

    Args:
        tokens: (batch, l + 1, hidden) prompts, read in.
        places: (positions, hidden) the learnt positions.
        blocks: the weights of each block; see `WEIGHTS`.
        heads: the number of heads.
        dropout: the dropout rate; what is dropped is drawn by a key from torch's random numbers.

    Returns:
        The stream (batch, hidden), and the attention (batch, layers, l) averaged over heads, which has no gradient.
    """
    weights = [weight for block in blocks for weight in block]
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in (tokens, places, *weights)):
        return _Blocks.apply(tokens, places, heads, dropout, *weights)
    own = [_Maps.of(block) for block in blocks]
    parts = [_Passes(part, heads, dropout, own).forward(part, places) for part in tokens.split(CHUNK)]
    return torch.cat([stream for stream, _ in parts]), torch.cat([attention for _, attention in parts])


class _Blocks(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, tokens: Tensor, places: Tensor, heads: int, dropout: float, *weights: Tensor
    ) -> tuple[Tensor, Tensor]:
        size = len(WEIGHTS)
        blocks = [_Maps.of(weights[i : i + size]) for i in range(0, len(weights), size)]
        passes = _Passes(tokens, heads, dropout, blocks)
        ctx.save_for_backward(places, *weights)  # so that torch notices if somebody changes them in between
        ctx.passes = passes
        stream, attention = passes.forward(tokens, places)
        ctx.mark_non_differentiable(attention)
        return stream, attention

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_stream: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        places, *_ = ctx.saved_tensors
        d_tokens, d_places, d_weights = ctx.passes.backward(d_stream, places)
        return d_tokens, d_places, None, None, *d_weights


class _Weights(NamedTuple):
    """The weights of a block, or their gradients, in the order of `WEIGHTS`; maps are (in, out)."""

    gain_1: Tensor
    shift_1: Tensor
    reads: Tensor
    reads_bias: Tensor
    mixes: Tensor
    mixes_bias: Tensor
    gain_2: Tensor
    shift_2: Tensor
    widens: Tensor
    widens_bias: Tensor
    narrows: Tensor
    narrows_bias: Tensor


class _Maps(NamedTuple):
    """The weights of a block, and its maps behind a layer norm with that norm's weight and bias folded in."""

    weights: _Weights
    reads: Tensor
    reads_bias: Tensor
    widens: Tensor
    widens_bias: Tensor

    @classmethod
    def of(cls, weights: Sequence[Tensor]) -> _Maps:
        """Fold the weights of a block."""
        own = _Weights(*(weight.detach() for weight in weights))
        reads = _folded(own.reads, own.reads_bias, own.gain_1, own.shift_1)
        return cls(own, *reads, *_folded(own.widens, own.widens_bias, own.gain_2, own.shift_2))


class _Passes:
    """One forward pass, and the backward pass that belongs to it."""

    def __init__(self, tokens: Tensor, heads: int, dropout: float, blocks: Sequence[_Maps]) -> None:
        batch, length, hidden = tokens.shape
        self._length, self._hidden = length, hidden
        rows = [batch * length] * (len(blocks) - 1) + [batch]  # of the last block, one per prompt
        shapes: list[tuple[int, ...]] = [(batch * length, hidden)]
        for count in rows:
            shapes += [(heads, batch, count // batch, length), (count, hidden), (count, hidden)]
        self._first, *keeps = _draw(shapes, dropout)
        real = np.dtype(str(tokens.dtype).removeprefix("torch.")).type
        self._scale, self._epsilon = real(1 / (1 - dropout)), real(EPSILON)
        self._blocks = [
            _Block(mine, (batch, count // batch, length), heads, self._scale, self._epsilon, keeps[3 * i : 3 * i + 3])
            for i, (mine, count) in enumerate(zip(blocks, rows, strict=True))
        ]

    def forward(self, tokens: Tensor, places: Tensor) -> tuple[Tensor, Tensor]:
        """Return the query's place in the stream, and its attention."""
        rows = tokens.detach().reshape(-1, self._hidden)
        stream, normal, spread = torch.empty_like(rows), torch.empty_like(rows), rows.new_empty(len(rows))
        told, written = _arrays(rows, places.detach()[: self._length]), _arrays(stream, normal, spread)
        _kernels().embed(*told, self._first, self._scale, *written, self._epsilon)
        for block in self._blocks:
            stream, normal, spread = block.forward(stream, normal, spread)
        return stream, torch.stack([block.attention() for block in self._blocks], 1)

    def backward(self, d_stream: Tensor, places: Tensor) -> tuple[Tensor, Tensor, list[Tensor]]:
        """Return the gradients of tokens, places and weights."""
        d_tokens = d_stream.new_zeros(len(d_stream), self._length, self._hidden)
        d_places = torch.zeros_like(places)
        active = (d_stream != 0).any(1).nonzero()[:, 0]  # NaN counts
        if len(active) == 0:
            return d_tokens, d_places, [torch.zeros_like(weight) for block in self._blocks for weight in block.weights]
        some = self if len(active) > FEW * len(d_stream) else self._of(active)
        d_branch, gradients = some._blocks_back(d_stream if some is self else d_stream[active])
        if some is self:
            d_tokens = d_branch
        else:
            d_tokens[active] = d_branch
        torch.sum(d_branch, 0, out=d_places[: self._length])
        return d_tokens, d_places, gradients

    def _of(self, prompts: Tensor) -> _Passes:
        """Return these passes of some prompts alone."""
        some = copy.copy(self)
        some._first = _rows_of(self._first, prompts, self._length)
        some._blocks = [block.of(prompts) for block in self._blocks]
        return some

    def _blocks_back(self, d_stream: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Return the gradients of tokens and weights."""
        d_stream = d_stream.clone(memory_format=torch.contiguous_format)  # it is changed on the way
        d_branch, d_bias = torch.empty_like(d_stream), d_stream.new_empty(self._hidden)
        keeps = [self._first, *(block.keep_narrow for block in self._blocks)]  # of what was added to the stream
        _kernels().branch_back(d_stream.numpy(), keeps[-1], self._scale, *_arrays(d_branch, d_bias))
        gradients: list[Tensor] = []
        for block, keep in zip(self._blocks[::-1], keeps[-2::-1], strict=True):
            made, d_stream, d_branch, d_bias = block.backward(d_stream, d_branch, d_bias, keep)
            gradients = [*made, *gradients]
        return d_branch.view(-1, self._length, self._hidden), gradients


class _Block:
    """One block in one forward pass and one backward pass."""

    def __init__(
        self, maps: _Maps, shape: tuple[int, int, int], heads: int, scale: Any, epsilon: Any, keeps: list[Keep]
    ) -> None:
        self.weights, self._maps = maps.weights, maps
        self._heads, self._scale, self._epsilon = heads, scale, epsilon
        self._batch, self._queries, self._length = shape
        self._hidden = len(maps.weights.gain_1)
        self._last = self._queries < self._length
        self._root = type(scale)(1 / math.sqrt(self._hidden // heads))
        self._keep_share, self._keep_mixed, self.keep_narrow = keeps

    def of(self, prompts: Tensor) -> _Block:
        """Return this block with what its forward pass has kept of some prompts."""
        some, length, queries = copy.copy(self), self._length, self._queries
        some._batch = len(prompts)
        some._shares = self._shares[:, prompts]
        some._keep_share = self._keep_share.take(prompts.numpy(), 1) if self._keep_share.size else self._keep_share
        for name in ("_normal_1", "_spread_1", "_told"):
            setattr(some, name, _rows_of(getattr(self, name), prompts, length))
        for name in ("_mixed", "_normal_2", "_spread_2", "_after", "_slope", "_keep_mixed", "keep_narrow"):
            setattr(some, name, _rows_of(getattr(self, name), prompts, queries))
        some._asking = _rows_of(self._asking, prompts, queries) if self._last else some._told
        return some

    def attention(self) -> Tensor:
        """Return the query's attention, averaged over heads, (batch, l)."""
        return self._shares[:, :, -1, :-1].mean(0)

    def forward(self, stream: Tensor, normal: Tensor, spread: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Take the stream and its layer norm; return the stream behind this block, and its layer norm."""
        own, maps, kernels = self.weights, self._maps, _kernels()
        self._normal_1, self._spread_1 = normal, spread
        if self._last:
            queries = self._of_query(normal) @ maps.reads[:, : self._hidden]
            told = normal @ maps.reads[:, self._hidden :]
            kernels.add_bias(*_arrays(queries, maps.reads_bias[: self._hidden]))
            kernels.add_bias(*_arrays(told, maps.reads_bias[self._hidden :]))
            stream = self._of_query(stream).contiguous()
        else:
            queries = told = normal @ maps.reads
            kernels.add_bias(*_arrays(told, maps.reads_bias))
        self._asking, self._told = queries, told
        branch = self._attend() @ own.mixes
        self._normal_2, self._spread_2 = self._add(branch, own.mixes_bias, self._keep_mixed, stream)
        self._slope = self._normal_2 @ maps.widens
        self._after = torch.empty_like(self._slope)
        kernels.gelu(*_arrays(self._slope, maps.widens_bias, self._after))
        torch.mm(self._after, own.narrows, out=branch)
        return stream, *self._add(branch, own.narrows_bias, self.keep_narrow, stream)

    def _of_query(self, rows: Tensor) -> Tensor:
        """Return the last row of each prompt."""
        return rows.view(self._batch, self._length, -1)[:, -1]

    def _add(self, branch: Tensor, bias: Tensor, keep: Keep, stream: Tensor) -> tuple[Tensor, Tensor]:
        """Add a branch to the stream, in place; return its layer norm and what that divides by."""
        normal, spread = torch.empty_like(stream), stream.new_empty(len(stream))
        added, written = _arrays(branch, bias), _arrays(stream, normal, spread)
        _kernels().add(*added, keep, self._scale, *written, self._epsilon)
        return normal, spread

    def _parts(self, asking: Tensor, told: Tensor) -> list[tuple[Tensor, Tensor, Tensor]]:
        """Return queries, keys and values of each head, (batch, queries or l + 1, hidden / heads)."""
        size, hidden = self._hidden // self._heads, self._hidden
        queries = asking.view(self._batch, self._queries, -1)[..., :hidden].split(size, -1)
        told = told.view(self._batch, self._length, -1)[..., -2 * hidden :]
        return list(zip(queries, told[..., :hidden].split(size, -1), told[..., hidden:].split(size, -1), strict=True))

    def _attend(self) -> Tensor:
        """Return the mean values, (rows, hidden)."""
        self._shares = self._told.new_empty(self._heads, self._batch, self._queries, self._length)
        mixing = torch.empty_like(self._shares)
        self._mixed = self._told.new_empty(self._batch * self._queries, self._hidden)
        parts = self._parts(self._asking, self._told)
        for (query, key, _), scores in zip(parts, self._shares, strict=True):
            torch.bmm(query, key.transpose(1, 2), out=scores)
        _kernels().share(self._shares.numpy(), self._root, self._keep_share, self._scale, mixing.numpy())
        for (_, _, value), shares, mean in zip(parts, mixing, self._by_head(self._mixed), strict=True):
            mean.copy_(torch.bmm(shares, value))
        return self._mixed

    def _by_head(self, mixed: Tensor) -> tuple[Tensor, ...]:
        return mixed.view(self._batch, self._queries, -1).split(self._hidden // self._heads, -1)

    def backward(
        self, d_stream: Tensor, d_branch: Tensor, d_bias: Tensor, keep_before: Keep
    ) -> tuple[_Weights, Tensor, Tensor, Tensor]:
        """Go back through the block.

        Args:
            d_stream: of the stream behind it.
            d_branch: of what the MLP returns.
            d_bias: of its last bias.
            keep_before: what dropout kept of what was added to the stream just before this block.

        Returns:
            The gradients of its weights, of the stream before it, and of what was added there and its bias.
        """
        own, kernels = self.weights, _kernels()
        made = _Weights(*(torch.empty_like(weight) for weight in own))._replace(narrows_bias=d_bias)
        torch.mm(self._after.t(), d_branch, out=made.narrows)
        d_wide = d_branch @ own.narrows.t()
        kernels.gelu_back(*_arrays(d_wide, self._slope, made.widens_bias))
        torch.mm(self._normal_2.t(), d_wide, out=made.widens)
        d_normal = d_wide @ self._maps.widens.t()
        kernels.unfold(
            *_arrays(made.widens, made.widens_bias, own.widens, own.gain_2, own.shift_2, made.gain_2, made.shift_2)
        )
        told = _arrays(d_normal, self._normal_2, self._spread_2, d_stream)
        kernels.normalise_back(*told, self._keep_mixed, self._scale, *_arrays(d_branch, made.mixes_bias))
        torch.mm(self._mixed.t(), d_branch, out=made.mixes)
        d_normal = self._attend_back(d_branch @ own.mixes.t(), made)
        kernels.unfold(
            *_arrays(made.reads, made.reads_bias, own.reads, own.gain_1, own.shift_1, made.gain_1, made.shift_1)
        )
        if self._last:
            whole = torch.zeros_like(d_normal)
            self._of_query(whole).copy_(d_stream)
            d_stream, d_branch = whole, torch.empty_like(whole)
        d_bias = torch.empty_like(d_bias)
        told = _arrays(d_normal, self._normal_1, self._spread_1, d_stream)
        kernels.normalise_back(*told, keep_before, self._scale, *_arrays(d_branch, d_bias))
        return made, d_stream, d_branch, d_bias

    def _attend_back(self, d_mixed: Tensor, made: _Weights) -> Tensor:
        """Fill the gradients of the folded map that reads, and return that of the layer norm before it."""
        d_asking, mixing, d_mixing = (torch.empty_like(t) for t in (self._asking, self._shares, self._shares))
        d_told = torch.empty_like(self._told) if self._last else d_asking
        parts, d_parts = self._parts(self._asking, self._told), self._parts(d_asking, d_told)
        for (_, _, value), d_mean, d_share in zip(parts, self._by_head(d_mixed), d_mixing, strict=True):
            torch.bmm(d_mean, value.transpose(1, 2), out=d_share)
        kernels, arrays = _kernels(), _arrays(d_mixing, self._shares)
        kernels.share_back(*arrays, self._root, self._keep_share, self._scale, mixing.numpy())
        heads = zip(parts, d_parts, self._by_head(d_mixed), mixing, d_mixing, strict=True)
        for (query, key, _), (d_query, d_key, d_value), d_mean, shares, d_scores in heads:
            d_value.copy_(torch.bmm(shares.transpose(1, 2), d_mean))
            d_query.copy_(torch.bmm(d_scores, key))
            d_key.copy_(torch.bmm(d_scores.transpose(1, 2), query))
        if not self._last:
            torch.mm(self._normal_1.t(), d_told, out=made.reads)
            kernels.sum_rows(*_arrays(d_told, made.reads_bias))
            return d_told @ self._maps.reads.t()
        asks, tells = slice(None, self._hidden), slice(self._hidden, None)
        made.reads[:, asks] = self._of_query(self._normal_1).t() @ d_asking
        made.reads[:, tells] = self._normal_1.t() @ d_told
        kernels.sum_rows(*_arrays(d_asking, made.reads_bias[asks]))
        kernels.sum_rows(*_arrays(d_told, made.reads_bias[tells]))
        d_normal = d_told @ self._maps.reads[:, tells].t()
        self._of_query(d_normal).add_(d_asking @ self._maps.reads[:, asks].t())
        return d_normal


def _folded(weight: Tensor, bias: Tensor, gain: Tensor, shift: Tensor) -> tuple[Tensor, Tensor]:
    """Fold a layer norm's weight and bias into the map behind it; return the new map and its bias."""
    folded, constant = torch.empty_like(weight), torch.empty_like(bias)
    _kernels().fold(*_arrays(weight, bias, gain, shift, folded, constant))
    return folded, constant


def _rows_of(rows: Any, prompts: Tensor, each: int) -> Any:
    """Return the rows of some prompts, ``each`` of them per prompt, from a tensor or an array."""
    if not len(rows):  # without dropout
        return rows
    at = prompts if isinstance(rows, Tensor) else prompts.numpy()
    return rows.reshape(-1, each, *rows.shape[1:])[at].reshape(-1, *rows.shape[1:])


def _draw(shapes: list[tuple[int, ...]], dropout: float) -> list[Keep]:
    """Draw what dropout keeps, one array per shape; empty arrays without dropout."""
    if not dropout:
        return [np.empty((0,) * len(shape), np.uint8) for shape in shapes]
    ends = np.cumsum([math.prod(shape) for shape in shapes])
    kept = np.empty(4 * -(-ends[-1] // 4), np.uint8)
    key = torch.randint(2**32, (2,)).numpy().astype(np.uint32)
    _kernels().draw(kept, key, dropout)
    parts = np.split(kept[: ends[-1]], ends[:-1])
    return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]


def _arrays(*tensors: Tensor) -> tuple[NDArray[Any], ...]:
    return tuple(tensor.numpy() for tensor in tensors)


def _kernels() -> ModuleType:
    from iclab.models import gpt2_kernels  # imported late, because numba takes long to import

    return gpt2_kernels
