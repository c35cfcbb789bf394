"""Probes for real labels, M E.8: the mean squared error, and the printed gradients beside those of autograd."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.func import functional_call, grad, vmap

from iclab.engines import Sums, Training
from iclab.models import Answer, Mamba
from iclab.probes.insides import Chunk
from iclab.probes.probe import Row
from iclab.prompts import PromptBatch

SQUARES = ("prompts", "nans", "squares", "squares_standard_error", "scale", "rescaled", "inside")
GRADIENTS = ("weight", "equation", "slope", "correlation")
PRINTED = {"query": "(202)", "key": "(203)", "gate": "(204)"}
"""The equations of M E.8 by the weight that they differentiate by."""


def square_sums(batch: PromptBatch, answer: Answer) -> Sums:
    """Add up (F − z)² and its square, and what the best multiple of F would need; (seeds,)."""
    output, target = answer.output[..., 0].double().cpu().numpy(), batch.target[..., 0].astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        squares = (output - target) ** 2
        return {
            "prompts": np.full(len(squares), float(squares.shape[1])),
            "nans": np.isnan(squares).sum(1).astype(float),
            "squares": squares.sum(1),
            "fourths": (squares**2).sum(1),
            "products": (output * target).sum(1),
            "outputs": (output**2).sum(1),
            "targets": (target**2).sum(1),
            "inside": (np.abs(output) < 1).sum(1).astype(float),
        }


def square_rows(seeds: tuple[int, ...], sums: Sums) -> list[Row]:
    """Return one row per seed: the mean of (F − z)², and its least value over all multiples s·F, with that s.

    ``inside`` is the share of answers with |F| < 1.
    """
    rows = []
    for i, seed in enumerate(seeds):
        n = sums["prompts"][i]
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            mean = sums["squares"][i] / n
            error = np.sqrt(max(0.0, sums["fourths"][i] / n - mean**2) / n)
            scale = sums["products"][i] / sums["outputs"][i]
            rescaled = (sums["targets"][i] - scale * sums["products"][i]) / n
        found = {"squares": mean, "squares_standard_error": error, "scale": scale, "rescaled": rescaled}
        counts: Row = {name: int(sums[name][i]) for name in ("prompts", "nans")}
        counts["inside"] = float(sums["inside"][i] / n)
        finite = {name: float(value) if np.isfinite(value) else None for name, value in found.items()}
        rows.append({"seed": seed, **counts, **finite})
    return rows


def printed_gradients(
    weights: dict[str, Tensor], tokens: Tensor, labels: Tensor, target: Tensor, output: Tensor
) -> dict[str, Tensor]:
    """Return M (202), (203) and (204) as they are printed, for one prompt (l + 1, d + 1) with ``labels`` (l + 1,).

    The query's label is 0, so that sums up to l and up to l + 1 are the same.
    """
    inflow = torch.sigmoid(tokens @ weights["gate"])  # σ(wᵀp_i), (l + 1,)
    stay = torch.log1p(-inflow)
    gates = inflow * (stay.flip(0).cumsum(0).flip(0) - stay).exp()  # G_i
    keys, read = tokens @ weights["key"].T, weights["query"] @ tokens[-1]  # W_B p_i, W_C p_query
    voting = (gates * labels)[:, None]  # G_i y_i
    flow = inflow[:, None] * tokens  # σ_s p_s
    later = flow.flip(0).cumsum(0).flip(0) - flow  # Σ_{s > i} σ_s p_s
    bracket = later - (1.0 - inflow)[:, None] * tokens
    difference = output - target
    return {
        "query": difference * (voting * keys).sum(0)[:, None] * tokens[-1],
        "key": difference * read[:, None] * (voting * tokens).sum(0),
        "gate": difference * (voting * (keys @ read)[:, None] * bracket).sum(0),
    }


def gradient_sums(chunk: Chunk) -> Sums:
    """Add up products of printed gradients with those that autograd finds, prompt by prompt; (seeds, 3)."""
    tokens, target = chunk.tokens.double(), torch.from_numpy(chunk.batch.target).double()[..., 0]
    weights = {name: value.double() for name, value in chunk.weights.items()}
    model = Mamba(tokens.shape[-1], state_size=weights["key"].shape[-2]).double()

    def output_of(weights: dict[str, Tensor], prompt: Tensor) -> Tensor:
        answer: Answer = functional_call(model, weights, (prompt[None],))
        return answer.output[0, 0]

    def loss_of(weights: dict[str, Tensor], prompt: Tensor, z: Tensor) -> Tensor:
        return 0.5 * (output_of(weights, prompt) - z).square()

    def products(weights: dict[str, Tensor], prompt: Tensor, z: Tensor) -> Tensor:
        found = grad(loss_of)(weights, prompt, z)
        printed = printed_gradients(weights, prompt, prompt[:, -1], z, output_of(weights, prompt))
        pairs = [(printed[name], found[name]) for name in PRINTED]
        return torch.stack([torch.stack([(a * b).sum(), (a * a).sum(), (b * b).sum()]) for a, b in pairs])

    added = vmap(vmap(products, in_dims=(None, 0, 0)))(weights, tokens, target).sum(1).detach().numpy()  # (S, 3, 3)
    return {name: added[..., i] for i, name in enumerate(("together", "printed", "found"))}


def gradient_rows(seeds: tuple[int, ...], sums: Sums) -> list[Row]:
    """Return, per seed and weight, the multiple of the true gradient that is nearest to the printed one."""
    rows = []
    for i, seed in enumerate(seeds):
        for j, (weight, equation) in enumerate(PRINTED.items()):
            together, printed, found = (float(sums[name][i, j]) for name in ("together", "printed", "found"))
            both = np.sqrt(printed * found)
            row: Row = {"seed": seed, "weight": weight, "equation": equation}
            row["slope"] = together / found if found > 0 else None
            row["correlation"] = together / both if both > 0 else None
            rows.append(row)
    return rows


def gradients_obstacle(training: Training, count: int) -> str:
    """Return the reason why the printed gradients are not those of a model; empty if they are."""
    if training.model.name == "mamba":
        return ""
    return f"probe = gradients: M (202) to (204) are gradients of mamba, not of {training.model.label}"
