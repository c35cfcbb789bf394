"""Probes of what a model answers: error and hinge loss, attention, gates; and a vote that asks no model."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from iclab.config import InputError
from iclab.models import Answer
from iclab.prompts import PromptBatch

Row = dict[str, Any]
Sums = dict[str, NDArray[np.float64]]


def error_sums(batch: PromptBatch, answer: Answer) -> Sums:
    """Count right, wrong, tied and NaN answers, and add up the hinge loss; shape (seeds,)."""
    return _margin_sums(batch.target.astype(np.float64) * answer.output.double().cpu().numpy())


def vote_sums(batch: PromptBatch) -> Sums:
    """The same for a plain vote of the labels shown by examples that share the query's pattern."""
    shown = batch.labels[..., :-1, :1].astype(np.float64)  # (S, B, l, 1): along q, where labels are ±q
    return _margin_sums(batch.target * (shown * batch.same_pattern[..., None]).sum(-2))


def attended_sums(batch: PromptBatch, answer: Answer) -> Sums:
    """The same for a vote in which every example has the weight of its attention, in the last layer.

    Beside the model's own error it tells what attention got wrong from what was made of it afterwards.
    """
    scores = _inside(answer.attention, "attended")[:, :, -1]  # (S, B, l)
    shown = batch.labels[..., :-1, 0].astype(np.float64)
    return _margin_sums(batch.target * (scores * shown).sum(-1, keepdims=True))


def _margin_sums(margin: NDArray[np.float64]) -> Sums:
    hinge = np.maximum(0.0, 1.0 - margin).mean(-1)  # margin is z·F, (S, B, w)
    worst = margin.min(-1)  # a prompt is right when every number of its label is; NaN stays NaN
    with np.errstate(over="ignore"):
        squares = (hinge**2).sum(1)
    return {
        "prompts": np.full(margin.shape[0], float(margin.shape[1])),
        "right": (worst > 0).sum(1).astype(float),
        "wrong": (worst < 0).sum(1).astype(float),
        "ties": (worst == 0).sum(1).astype(float),
        "nans": np.isnan(worst).sum(1).astype(float),
        "hinge": hinge.sum(1),
        "hinge_squares": squares,
    }


def error_rows(seeds: tuple[int, ...], sums: Sums) -> list[Row]:
    """One row a seed. Only a right answer is right: error = 1 − Pr(z·F > 0)."""
    rows = []
    for i, seed in enumerate(seeds):
        n = sums["prompts"][i]
        mean = sums["hinge"][i] / n
        with np.errstate(over="ignore", invalid="ignore"):  # an answer beyond all bounds has no hinge loss
            variance = sums["hinge_squares"][i] / n - mean**2
        counts = {name: int(sums[name][i]) for name in ("prompts", "right", "wrong", "ties", "nans")}
        rows.append(
            {
                "seed": seed,
                **counts,
                "error": float(1.0 - sums["right"][i] / n),
                "hinge": float(mean) if np.isfinite(mean) else None,
                "hinge_standard_error": float(np.sqrt(max(0.0, variance) / n)) if np.isfinite(variance) else None,
            }
        )
    return rows


def attention_sums(batch: PromptBatch, answer: Answer) -> Sums:
    """Add up attention on examples that share the query's pattern, and on the others; shape (seeds, layers)."""
    scores = _inside(answer.attention, "attention")  # (S, B, layers, l)
    shared = batch.same_pattern[:, :, None]
    same = (scores * shared).sum(-1)
    other = (scores * ~shared).sum(-1)
    return {
        "prompts": np.full((scores.shape[0], scores.shape[2]), float(scores.shape[1])),
        "same": same.sum(1),
        "other": other.sum(1),
        "same_squares": (same**2).sum(1),
        "other_squares": (other**2).sum(1),
    }


def attention_rows(seeds: tuple[int, ...], sums: Sums) -> list[Row]:
    """A row a seed and layer: mean attention mass on same-pattern and other examples (M Corollary 1)."""
    rows = []
    for i, seed in enumerate(seeds):
        for layer, n in enumerate(sums["prompts"][i]):
            row: Row = {"seed": seed, "layer": layer + 1, "prompts": int(n)}
            for kind in ("same", "other"):
                mean = sums[kind][i, layer] / n
                variance = max(0.0, sums[f"{kind}_squares"][i, layer] / n - mean**2)
                row[kind] = float(mean)
                row[f"{kind}_standard_error"] = float(np.sqrt(variance / n))
            rows.append(row)
    return rows


def gate_sums(batch: PromptBatch, answer: Answer) -> Sums:
    """Add up gates by distance from the query and, for clean examples, by rank among the clean; (seeds, layers, l)."""
    gates = _inside(answer.gate, "gates")[..., ::-1]  # (S, B, layers, l), nearest example first
    seeds, _, layers, length = gates.shape
    outlier = np.broadcast_to(batch.outlier[:, :, None, ::-1], gates.shape)
    clean = ~outlier
    sums = {
        "clean_count": clean.sum(1).astype(float),
        "clean": (gates * clean).sum(1),
        "outlier_count": outlier.sum(1).astype(float),
        "outlier": (gates * outlier).sum(1),
    }
    rank = np.cumsum(clean, axis=-1) - 1  # h(j) of M Corollary 2: j-th nearest clean example
    cell = np.arange(seeds)[:, None, None, None] * layers + np.arange(layers)[:, None]  # which (seed, layer)
    flat = (cell * length + rank)[clean]
    for name, values in (("rank_count", None), ("rank", gates[clean])):
        counted = np.bincount(flat, weights=values, minlength=seeds * layers * length)
        sums[name] = counted.reshape(seeds, layers, length).astype(float)
    return sums


def gate_rows(seeds: tuple[int, ...], sums: Sums) -> list[Row]:
    """Rows of mean gate by seed, layer, kind and place: ``clean``, ``outlier`` by distance, ``clean_rank`` by rank."""
    rows = []
    for kind, key in (("clean", "clean"), ("outlier", "outlier"), ("clean_rank", "rank")):
        for i, seed in enumerate(seeds):
            for layer, (totals, counts) in enumerate(zip(sums[key][i], sums[f"{key}_count"][i], strict=True)):
                for place, (total, n) in enumerate(zip(totals, counts, strict=True)):
                    where = {"seed": seed, "layer": layer + 1, "kind": kind, "place": place + 1}
                    mean = float(total / n) if n else None  # no such example was seen there
                    rows.append({**where, "examples": int(n), "gate": mean})
    return rows


def token_sums(batch: PromptBatch, answer: Answer) -> Sums:
    """Keep, prompt by prompt, what a model of one layer made of every example; shape (seeds, batch, l)."""
    scores, gates = _inside(answer.attention, "tokens")[:, :, 0], _inside(answer.gate, "tokens")[:, :, 0]
    shown = batch.labels[..., :-1, 0].astype(np.float64)
    whole = np.ones_like(shown)
    return {
        "pattern": batch.index[..., :-1, 0].astype(np.float64),
        "same": batch.same_pattern.astype(np.float64),
        "outlier": batch.outlier.astype(np.float64),
        "label": shown,
        "true_label": batch.true_labels[..., 0].astype(np.float64),
        "attention": scores,
        "gate": gates,
        "vote": gates * scores * shown,
        "target": batch.target * whole,
        "output": answer.output.double().cpu().numpy() * whole,
    }


def token_rows(seeds: tuple[int, ...], sums: Sums) -> list[Row]:
    """A row a seed, prompt and example: the first is the farthest from the query; votes add up to the output."""
    rows = []
    for i, seed in enumerate(seeds):
        for prompt, place in np.ndindex(sums["vote"].shape[1:]):
            values = {name: float(value[i, prompt, place]) for name, value in sums.items()}
            flags = {name: bool(values[name]) for name in ("same", "outlier")} | {"pattern": int(values["pattern"])}
            rows.append({"seed": seed, "prompt": prompt, "place": place + 1} | values | flags)
    return rows


def _inside(value: Any, name: str) -> NDArray[np.float64]:
    if value is None:
        raise InputError(f"probe = {name}: this model's forward pass returns none; return an iclab.Answer that has it")
    return value.double().cpu().numpy()
