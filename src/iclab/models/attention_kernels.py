"""Softmax attention over compact prompts (in dictionary coordinates), and an MLP's output, compiled with gradients.

A token is Σ_k c_k row_k over a dictionary. Its scores need only the products of rows, (W_K row_j)ᵀ W_Q row_q, which all
prompts of a batch share. What attention returns is again a combination of rows.

    read = Σ_k c_qk products[row_qk],     score_i = Σ_k c_ik read[row_ik],     attn = softmax(score),
    mixed[row] = Σ_i attn_i Σ_k c_ik [row_ik = row]
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from iclab.prompts.compact import PromptBatch

# The compiler may reorder sums to use vector instructions; the order is then always the same.
compiled = numba.njit(nogil=True, cache=True, fastmath={"contract", "reassoc"}, error_model="numpy")


def attend(products: Tensor, batch: PromptBatch) -> tuple[Tensor, Tensor]:
    """Attend from each query to its examples.

    Args:
        products: (seeds, D' + 1, D' + 1) products of rows, the query's row first; the label is the last row and column.
        batch: compact prompts of these seeds; only the first number of a label is used.

    Returns:
        The attention (seeds, batch, l), and the coordinates (seeds, batch, D' + 1) of Σ_i attn_i p_i.
    """
    labels = np.ascontiguousarray(batch.labels[..., 0])
    return _Attend.apply(products, batch.index, batch.coefficient, labels)


def read_out(before: Tensor, signs: Tensor) -> Tensor:
    """Return aᵀ ReLU(before), (seeds, batch, 1), for ``before`` (seeds, batch, m) and a fixed a (seeds, m)."""
    return _ReadOut.apply(before, signs)


class _Attend(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, products: Tensor, index: Any, coefficient: Any, labels: Any) -> tuple[Tensor, Tensor]:
        seeds, batch, tokens = labels.shape
        attention = torch.empty(seeds, batch, tokens - 1, dtype=products.dtype)
        mixed = torch.empty(seeds, batch, products.shape[-1], dtype=products.dtype)
        _forward(products.detach().numpy(), index, coefficient, labels, attention.numpy(), mixed.numpy())
        ctx.save_for_backward(attention)
        ctx.prompts, ctx.rows = (index, coefficient, labels), products.shape[-1]
        return attention, mixed

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_attention: Tensor, d_mixed: Tensor) -> tuple[Tensor, None, None, None]:
        (attention,) = ctx.saved_tensors
        d_products = torch.zeros(len(attention), ctx.rows, ctx.rows, dtype=attention.dtype)
        d_attention, d_mixed = d_attention.contiguous(), d_mixed.contiguous()
        index, coefficient, labels = ctx.prompts
        arrays = attention.numpy(), d_attention.numpy(), d_mixed.numpy(), d_products.numpy()
        _backward(index, coefficient, labels, *arrays)
        return d_products, None, None, None


class _ReadOut(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, before: Tensor, signs: Tensor) -> Tensor:
        output = torch.empty(*before.shape[:-1], 1, dtype=before.dtype)
        _sum_active(before.detach().numpy(), signs.numpy(), output.numpy())
        ctx.save_for_backward(before, signs)
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_output: Tensor) -> tuple[Tensor, None]:
        before, signs = ctx.saved_tensors
        d_before = torch.empty_like(before)
        _to_active(d_output.contiguous().numpy(), signs.numpy(), before.numpy(), d_before.numpy())
        return d_before, None


@compiled
def _forward(products, index, coefficient, labels, attention, mixed):  # type: ignore[no-untyped-def]
    seeds, batch, tokens = labels.shape
    query, parts, label = tokens - 1, index.shape[3], products.shape[2] - 1
    read = np.empty(label + 1, products.dtype)
    for s in range(seeds):
        for b in range(batch):
            read[:] = 0
            for k in range(parts):
                if coefficient[s, b, query, k] != 0:
                    read += coefficient[s, b, query, k] * products[s, index[s, b, query, k]]
            weights, out = attention[s, b], mixed[s, b]
            largest = -np.inf
            for i in range(query):
                score = labels[s, b, i] * read[label]
                for k in range(parts):
                    score += coefficient[s, b, i, k] * read[index[s, b, i, k]]
                weights[i] = score
                largest = max(largest, score)
            total = products.dtype.type(0)
            for i in range(query):
                weights[i] = np.exp(weights[i] - products.dtype.type(largest))
                total += weights[i]
            out[:] = 0
            for i in range(query):
                weights[i] /= total
                out[label] += weights[i] * labels[s, b, i]
                for k in range(parts):
                    out[index[s, b, i, k]] += weights[i] * coefficient[s, b, i, k]


@compiled
def _backward(index, coefficient, labels, attention, d_attention, d_mixed, d_products):  # type: ignore[no-untyped-def]
    seeds, batch, tokens = labels.shape
    query, parts, label = tokens - 1, index.shape[3], d_mixed.shape[2] - 1
    d_weight = np.empty(query, attention.dtype)
    d_read = np.empty(label + 1, attention.dtype)
    for s in range(seeds):
        for b in range(batch):
            weights, back = attention[s, b], d_mixed[s, b]
            mean = attention.dtype.type(0)
            for i in range(query):
                d_weight[i] = d_attention[s, b, i] + labels[s, b, i] * back[label]
                for k in range(parts):
                    d_weight[i] += coefficient[s, b, i, k] * back[index[s, b, i, k]]
                mean += weights[i] * d_weight[i]
            d_read[:] = 0
            for i in range(query):
                d_score = weights[i] * (d_weight[i] - mean)  # through the softmax
                d_read[label] += d_score * labels[s, b, i]
                for k in range(parts):
                    d_read[index[s, b, i, k]] += d_score * coefficient[s, b, i, k]
            for k in range(parts):
                if coefficient[s, b, query, k] != 0:
                    d_products[s, index[s, b, query, k]] += coefficient[s, b, query, k] * d_read


@compiled
def _sum_active(before, signs, output):  # type: ignore[no-untyped-def]
    for s in range(before.shape[0]):
        for b in range(before.shape[1]):
            total = before.dtype.type(0)
            for n in range(before.shape[2]):
                active = before[s, b, n]
                total += signs[s, n] * (before.dtype.type(0) if active <= 0 else active)  # NaN stays NaN
            output[s, b, 0] = total


@compiled
def _to_active(d_output, signs, before, d_before):  # type: ignore[no-untyped-def]
    for s in range(before.shape[0]):
        for b in range(before.shape[1]):
            for n in range(before.shape[2]):
                d_before[s, b, n] = d_output[s, b, 0] * signs[s, n] * before.dtype.type(before[s, b, n] > 0)
