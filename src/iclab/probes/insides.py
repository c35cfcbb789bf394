"""Probes of weights: how keys and queries align with patterns, and what the neurons of T's and S's MLP respond to.

A row of W_O W_V has d_X numbers that multiply an input and then d_Y that multiply a label, as in T Proposition 4.5.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from iclab.config import InputError
from iclab.engines import Sums, Trained, Training
from iclab.models import Answer, Model
from iclab.probes.probe import Row
from iclab.prompts import PromptBatch, Prompts

Weights = dict[str, torch.Tensor]

MATRICES = ("query", "key")


class Chunk(NamedTuple):
    """Some prompts, the model's answers to them, and its weights."""

    batch: PromptBatch
    answer: Answer
    tokens: torch.Tensor
    """(seeds, batch, l + 1, width) the dense prompts."""
    dictionary: torch.Tensor
    """(seeds, D', d) the rows they are combined from."""
    weights: Weights
    model: Model
    trained: Trained


def alignment_sums(chunk: Chunk) -> Sums:
    """Add up ‖W p‖ and its part along the relevant pattern of p, for W_Q p_query and every W_K p_i; (seeds, 2)."""
    batch, _, tokens, dictionary, weights, *_ = chunk
    need(weights, "alignment", *MATRICES)
    inputs = dictionary.shape[-1]
    if weights["query"].shape[1] < inputs:
        raise InputError(_too_small("alignment", "state_size", weights["query"].shape[1], inputs))
    rows = torch.from_numpy(batch.index[..., 0]).long()  # (S, B, l + 1)
    own = torch.nn.functional.normalize(dictionary.double(), dim=-1)
    own = torch.stack([own[i, rows[i]] for i in range(len(own))])  # (S, B, l + 1, d) the pattern of each token
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
    """Return one row per seed and matrix: mean ‖W p‖, mean part along the relevant pattern of p (T Proposition 4.1)."""
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


def part_sums(chunk: Chunk) -> Sums:
    """Split the input of a neuron's ReLU into a feature part and a label part, in two ways; (seeds,).

    By source: the part that comes from the inputs in tokens through W_O W_V, and the part that comes from the labels.
    By place, as in S (10): the part in the first d_X coordinates of the attended value, and the part in the next d_Y.
    W_V may move one into the other. Only neurons with the sign of the true label count: those that should fire.
    """
    batch, answer, tokens, _, weights, *_ = chunk
    need(weights, "parts", "value", "hidden", "signs")
    if answer.attention is None:
        raise InputError("probe = parts: the model must return an iclab.Answer with attention")
    width, inputs = tokens.shape[-1], tokens.shape[-1] - batch.labels.shape[-1]
    value, hidden = weights["value"].double(), weights["hidden"].double()
    if value.shape[1] < width:
        raise InputError(_too_small("parts", "value_size", value.shape[1], width))
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
    """Return one row per seed: the mean parts, and the share of (neuron, prompt) pairs with a larger label part."""
    return [
        {"seed": seed, **{name: float(sums[name][i] / sums["pairs"][i]) for name in PARTS}}
        for i, seed in enumerate(seeds)
    ]


def norm_rows(trained: Trained, weights: Weights, prompts: Prompts) -> list[Row]:
    """Return one row per seed, matrix and kind of pattern: mean ‖W µ_j‖ or ‖W ν_k‖ over patterns (S Proposition 1).

    The patterns are those of the prompts.
    """
    need(weights, "norms", *MATRICES)
    patterns, rows = prompts.patterns, []
    kinds = {
        "relevant": slice(0, patterns.relevant),
        "irrelevant": slice(patterns.relevant, patterns.relevant + patterns.irrelevant),
    }
    for i, (seed, basis) in enumerate(zip(trained.seeds, trained.bases(prompts), strict=True)):
        for matrix in MATRICES:
            seen = basis.vectors @ weights[matrix][i, :, : patterns.dimension].double().numpy().T  # (D, m_a)
            for kind, which in kinds.items():
                lengths = np.linalg.norm(seen[which], axis=-1)
                rows.append({"seed": seed, "matrix": matrix, "kind": kind, "length": float(lengths.mean())})
    return rows


def neuron_rows(trained: Trained, weights: Weights, prompts: Prompts) -> list[Row]:
    """Return one row per seed and neuron: sign, lengths of its rows, their angles to the mean pattern and to ±q."""
    need(weights, "neurons", "value", "hidden", "signs")
    inputs, rows = prompts.patterns.dimension, []
    for i, (seed, basis) in enumerate(zip(trained.seeds, trained.bases(prompts), strict=True)):
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
            "label_angle": _angle(signs * label[:, 0], label, 1.0),  # q lies along the first axis of a label
        }
        for neuron in range(len(signs)):
            values = {name: float(column[neuron]) for name, column in columns.items()}
            rows.append({"seed": seed, "neuron": neuron, **values})
    return rows


def _angle(product: NDArray[np.float64], vectors: NDArray[np.float64], other: float) -> NDArray[np.float64]:
    """Return angles in degrees, from inner products; 90 for a zero vector."""
    lengths = np.linalg.norm(vectors, axis=1) * other
    cosine = np.divide(product, lengths, out=np.zeros_like(product), where=lengths > 0)
    return np.degrees(np.arccos(np.clip(cosine, -1.0, 1.0)))


def need(weights: Weights, probe: str, *names: str) -> None:
    """Refuse a model that lacks weights of these names."""
    if missing := [name for name in names if name not in weights]:
        raise InputError(f"probe = {probe}: reads weights that the model does not have ({', '.join(missing)})")


def alignment_obstacle(training: Training, count: int) -> str:
    """Return the reason why keys and queries cannot be compared with patterns; empty if they can."""
    return _option_obstacle(training, "alignment", "state_size", training.prompts.patterns.dimension)


def parts_obstacle(training: Training, count: int, probe: str = "parts") -> str:
    """Return the reason why values cannot be split into a feature and a label part; empty if they can."""
    width = training.prompts.patterns.dimension + training.prompts.label_width
    return _option_obstacle(training, probe, "value_size", width)


def _option_obstacle(training: Training, probe: str, option: str, least: int) -> str:
    """Check a size before training; the options of a model that declares nothing may mean anything."""
    size = training.model.options.get(option)
    if training.model.architecture.readable is None or size is None or size >= least:
        return ""
    return _too_small(probe, option, size, least)


def _too_small(probe: str, option: str, size: int, least: int) -> str:
    return f"{option} = {size}: must be at least {least} for the probe {probe}"
