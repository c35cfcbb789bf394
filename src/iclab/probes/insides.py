"""Probes of weights: how keys and queries align with patterns, and what the neurons of T's and S's MLP look at.

Rows of W_O W_V are read as T Proposition 4.5 does: first d_X numbers that meet an input, then d_Y that meet a label.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from iclab.config import InputError
from iclab.engines import Trained
from iclab.models import Answer
from iclab.prompts import PromptBatch, Prompts

Row = dict[str, Any]
Sums = dict[str, NDArray[np.float64]]
Weights = dict[str, torch.Tensor]

MATRICES = ("query", "key")


class Look(NamedTuple):
    """A chunk of prompts, and all there is to know of what the model made of it."""

    batch: PromptBatch
    answer: Answer
    tokens: torch.Tensor
    """(seeds, batch, l + 1, width) the dense prompts."""
    dictionary: torch.Tensor
    """(seeds, D', d) the rows they are made of."""
    weights: Weights


def alignment_sums(look: Look) -> Sums:
    """Add up ‖W p‖ and its part along p's own relevant pattern, for W_Q p_query and every W_K p_i; (seeds, 2)."""
    batch, _, tokens, dictionary, weights = look
    _need(weights, "alignment", *MATRICES)
    inputs = dictionary.shape[-1]
    if weights["query"].shape[1] < inputs:
        raise InputError(f"probe = alignment: needs state_size of at least {inputs}, the length of a pattern")
    rows = torch.from_numpy(batch.index[..., 0]).long()  # (S, B, l + 1)
    own = torch.nn.functional.normalize(dictionary.double(), dim=-1)
    own = torch.stack([own[i, rows[i]] for i in range(len(own))])  # (S, B, l + 1, d) each token's pattern
    lengths, along = [], []
    for name, which in (("query", slice(-1, None)), ("key", slice(0, -1))):
        seen = tokens[:, :, which].double() @ weights[name].double().mT[:, None]  # (S, B, …, m_a): W p
        lengths.append(seen.norm(dim=-1).mean(-1).sum(1))
        along.append((seen[..., :inputs] * own[:, :, which]).sum(-1).mean(-1).sum(1))
    return {
        "prompts": np.full((len(tokens), 2), float(tokens.shape[1])),
        "length": torch.stack(lengths, 1).numpy(),
        "along": torch.stack(along, 1).numpy(),
    }


def alignment_rows(seeds: tuple[int, ...], sums: Sums) -> list[Row]:
    """A row a seed and matrix: mean ‖W p‖ and mean part along p's own relevant pattern (T Proposition 4.1)."""
    return [
        {
            "seed": seed,
            "matrix": name,
            "length": float(sums["length"][i, j] / sums["prompts"][i, j]),
            "along": float(sums["along"][i, j] / sums["prompts"][i, j]),
        }
        for i, seed in enumerate(seeds)
        for j, name in enumerate(MATRICES)
    ]


def part_sums(look: Look) -> Sums:
    """Split what reaches a neuron before its ReLU into a feature and a label part, in two ways; (seeds,).

    By source: what of it comes from the inputs' coordinates of tokens, and what from the labels', through W_O W_V. By
    place, as S (10) writes it: what stands in the first d_X coordinates of the attended value, and in the d_Y behind.
    W_V may move the one into the other. Only neurons with the sign of the prompt's true label count: those that should
    fire.
    """
    batch, answer, tokens, _, weights = look
    _need(weights, "parts", "value", "hidden", "signs")
    if answer.attention is None:
        raise InputError("probe = parts: this model's forward pass returns no attention; return an iclab.Answer")
    width, inputs = tokens.shape[-1], tokens.shape[-1] - batch.labels.shape[-1]
    value, hidden = weights["value"].double(), weights["hidden"].double()
    if value.shape[1] < width:
        raise InputError(f"probe = parts: needs value_size of at least {width}, the length of a token")
    mixed = (answer.attention[:, :, 0, None] @ tokens[:, :, :-1]).squeeze(-2).double()  # (S, B, width): Σ p_i attn_i
    target = torch.from_numpy(batch.target).double()  # (S, B, 1)
    right = (target * weights["signs"][:, None].double() > 0).double()  # (S, B, m)
    sums = {"pairs": right.sum((1, 2)).numpy()}
    for name, vectors, rows in (("source", mixed, hidden @ value), ("place", mixed @ value.mT, hidden)):
        feature = vectors[..., :inputs] @ rows[..., :inputs].mT  # (S, B, m)
        label = vectors[..., inputs:width] @ rows[..., inputs:width].mT
        for part, values in (("feature", feature), ("label", label), ("ahead", label > feature)):
            sums[f"{part}_by_{name}"] = (values * right).sum((1, 2)).numpy()
    return sums


PARTS = tuple(f"{part}_by_{name}" for name in ("source", "place") for part in ("feature", "label", "ahead"))


def part_rows(seeds: tuple[int, ...], sums: Sums) -> list[Row]:
    """A row a seed: the means of the parts, and the share of (neuron, prompt) pairs in which the label's is larger."""
    return [
        {"seed": seed, **{name: float(sums[name][i] / sums["pairs"][i]) for name in PARTS}}
        for i, seed in enumerate(seeds)
    ]


def norm_rows(trained: Trained, weights: Weights, prompts: Prompts) -> list[Row]:
    """A row a seed, matrix and kind of pattern: mean ‖W µ_j‖ or ‖W ν_k‖ over patterns (S Proposition 1)."""
    _need(weights, "norms", *MATRICES)
    patterns, rows = prompts.patterns, []
    kinds = {
        "relevant": slice(0, patterns.relevant),
        "irrelevant": slice(patterns.relevant, patterns.relevant + patterns.irrelevant),
    }
    for i, (seed, basis) in enumerate(zip(trained.seeds, trained.bases(), strict=True)):
        for matrix in MATRICES:
            seen = basis.vectors @ weights[matrix][i, :, : patterns.dimension].double().numpy().T  # (D, m_a)
            for kind, which in kinds.items():
                lengths = np.linalg.norm(seen[which], axis=-1)
                rows.append({"seed": seed, "matrix": matrix, "kind": kind, "length": float(lengths.mean())})
    return rows


def neuron_rows(trained: Trained, weights: Weights, prompts: Prompts) -> list[Row]:
    """A row a seed and neuron: its sign, the lengths of its rows, and the angles to the mean pattern and to ±q."""
    _need(weights, "neurons", "value", "hidden", "signs")
    inputs, rows = prompts.patterns.dimension, []
    for i, (seed, basis) in enumerate(zip(trained.seeds, trained.bases(), strict=True)):
        hidden = weights["hidden"][i].double().numpy()  # (m, m_b)
        product = hidden @ weights["value"][i].double().numpy()  # (m, d_X + d_Y): rows r_i
        signs = np.sign(weights["signs"][i].double().numpy())
        mean = basis.vectors[: prompts.patterns.relevant].mean(0)
        feature, label = product[:, :inputs], product[:, inputs:]
        columns = {
            "sign": signs,
            "length": np.linalg.norm(product, axis=1),
            "hidden_length": np.linalg.norm(hidden, axis=1),
            "feature_length": np.linalg.norm(feature, axis=1),
            "feature_angle": _angle(feature @ mean, feature, float(np.linalg.norm(mean))),
            "label_length": np.linalg.norm(label, axis=1),
            "label_angle": _angle(signs * label[:, 0], label, 1.0),  # q is along the label's first axis
        }
        for neuron in range(len(signs)):
            values = {name: float(column[neuron]) for name, column in columns.items()}
            rows.append({"seed": seed, "neuron": neuron, **values})
    return rows


def _angle(product: NDArray[np.float64], vectors: NDArray[np.float64], other: float) -> NDArray[np.float64]:
    """Angles in degrees, from inner products; 90 where a vector is zero."""
    lengths = np.linalg.norm(vectors, axis=1) * other
    cosine = np.divide(product, lengths, out=np.zeros_like(product), where=lengths > 0)
    return np.degrees(np.arccos(np.clip(cosine, -1.0, 1.0)))


def _need(weights: Weights, probe: str, *names: str) -> None:
    if missing := [name for name in names if name not in weights]:
        raise InputError(f"probe = {probe}: looks at weights that this model does not have ({', '.join(missing)})")
