"""Probes of answers: error and hinge loss, attention, gates, tokens; and votes to compare a model with."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from iclab.config import InputError
from iclab.engines import Sums, Training
from iclab.models import Answer
from iclab.probes.probe import Row
from iclab.prompts import PromptBatch

SHRINKS = tuple(k / 20 for k in range(21))
"""The factors of the probe ``shrunk``."""
LEAST, PER_DECADE = -8, 20
"""The probe ``tail`` counts in bins from 10^LEAST to 1, so many per decade."""
FEW = 100
"""The most prompts that the probe ``tokens`` keeps."""


def error_sums(batch: PromptBatch, answer: Answer) -> Sums:
    """Count right, wrong, tied and NaN answers, and add up the hinge loss; shape (seeds,)."""
    return margin_sums(batch.target.astype(np.float64) * answer.output.double().cpu().numpy())


def vote_sums(batch: PromptBatch) -> Sums:
    """Return the same sums for a vote: the labels shown by examples that share the query's pattern, added up."""
    shown = batch.labels[..., :-1, : batch.target.shape[-1]].astype(np.float64)  # (S, B, l, H), along q
    same = batch.same_pattern
    return margin_sums(batch.target * (shown * (same if same.ndim > 3 else same[..., None])).sum(-2))


def attended_sums(batch: PromptBatch, answer: Answer) -> Sums:
    """Return the same sums for a vote in which attention, of the last layer, weighs the labels of examples.

    Next to the error of the model, this separates what attention got wrong from what later steps did with it.
    """
    scores = _inside(answer.attention, "attended")[:, :, -1]  # (S, B, l)
    shown = batch.labels[..., :-1, 0].astype(np.float64)
    return margin_sums(batch.target * (scores * shown).sum(-1, keepdims=True))


def margin_sums(margin: NDArray[np.float64]) -> Sums:
    """Return the sums of the probe ``error`` from z·F, (seeds, batch, levels)."""
    hinge = np.maximum(0.0, 1.0 - margin).sum(-1)
    worst = margin.min(-1)  # right if every level is; NaN stays NaN
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
    """Return one row per seed. A tie is an error: error = 1 − Pr(z·F > 0)."""
    rows = []
    for i, seed in enumerate(seeds):
        n = sums["prompts"][i]
        mean = sums["hinge"][i] / n
        with np.errstate(over="ignore", invalid="ignore"):  # an infinite answer has no hinge loss
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


def counted_sums(batch: PromptBatch, answer: Answer) -> Sums:
    """Add up right answers and the hinge loss by the number of examples with the query's pattern; (seeds, l + 1)."""
    margin = (batch.target.astype(np.float64) * answer.output.double().cpu().numpy()).min(-1)  # (S, B)
    same, length = batch.same_pattern.sum(-1), batch.length
    hinge = np.maximum(0.0, 1.0 - margin)
    sums = {name: np.zeros((len(margin), length + 1)) for name in ("prompts", "right", "hinge")}
    for i in range(len(margin)):
        for name, weights in (("prompts", None), ("right", (margin[i] > 0).astype(float)), ("hinge", hinge[i])):
            sums[name][i] = np.bincount(same[i], weights=weights, minlength=length + 1)
    return sums


def counted_rows(seeds: tuple[int, ...], sums: Sums) -> list[Row]:
    """Return one row per seed and number of examples with the query's pattern that occurred.

    Given this number, the rest of a prompt is drawn as ever: so these are errors at an exact share of such examples.
    """
    rows: list[Row] = []
    for i, seed in enumerate(seeds):
        for count in np.flatnonzero(sums["prompts"][i]):
            n, right = sums["prompts"][i, count], sums["right"][i, count]
            where: Row = {"seed": seed, "same_examples": int(count), "prompts": int(n), "right": int(right)}
            hinge = float(sums["hinge"][i, count] / n)
            rows.append(where | {"error": float(1 - right / n), "hinge": hinge if np.isfinite(hinge) else None})
    return rows


def shrunk_sums(batch: PromptBatch, answer: Answer) -> Sums:
    """Add up z·F, and the hinge loss of c·F for every c of `SHRINKS`; (seeds,) and (seeds, factors)."""
    margin = (batch.target.astype(np.float64) * answer.output.double().cpu().numpy()).min(-1)  # (S, B)
    losses = [np.maximum(0.0, 1.0 - factor * margin).sum(1) for factor in SHRINKS]
    return {
        "prompts": np.full(len(margin), float(margin.shape[1])),
        "margin": margin.sum(1),
        "hinge": np.stack(losses, axis=1),
    }


def shrunk_rows(seeds: tuple[int, ...], sums: Sums) -> list[Row]:
    """Return one row per seed and factor c: mean z·F, and the hinge loss if outputs were c times as large."""
    rows: list[Row] = []
    for i, seed in enumerate(seeds):
        n, margin = sums["prompts"][i], float(sums["margin"][i] / sums["prompts"][i])
        for factor, total in zip(SHRINKS, sums["hinge"][i], strict=True):
            row: Row = {"seed": seed, "prompts": int(n), "factor": factor, "hinge": float(total / n), "margin": margin}
            rows.append({k: v if np.isfinite(v) else None for k, v in row.items()})
    return rows


def level_sums(batch: PromptBatch, answer: Answer) -> Sums:
    """Return the sums of the probe ``error`` of every level by itself; (seeds, levels)."""
    margin = batch.target.astype(np.float64) * answer.output.double().cpu().numpy()
    levels = [margin_sums(margin[..., h : h + 1]) for h in range(margin.shape[-1])]
    return {name: np.stack([sums[name] for sums in levels], -1) for name in levels[0]}


def level_rows(seeds: tuple[int, ...], sums: Sums) -> list[Row]:
    """Return one row per seed and level, as `error_rows` does."""
    rows = []
    for h in range(sums["prompts"].shape[-1]):
        here = error_rows(seeds, {name: part[:, h] for name, part in sums.items()})
        rows += [{"seed": row.pop("seed"), "level": h + 1} | row for row in here]
    return rows


def attention_sums(batch: PromptBatch, answer: Answer) -> Sums:
    """Add up attention to examples that share the query's pattern, and to the others; (seeds, layers)."""
    scores = _inside(answer.attention, "attention")  # (S, B, layers, l)
    shared = _by_level(batch.same_pattern)
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
    """Return one row per seed and layer: mean attention to same-pattern and other examples (M Corollary 1)."""
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


def tail_sums(batch: PromptBatch, answer: Answer) -> Sums:
    """Count prompts by 1 − attention on the query's pattern, in the last layer, in bins of log10; (seeds, bins)."""
    scores = _inside(answer.attention, "tail")[:, :, -1]  # (S, B, l)
    missed = 1 - (scores * batch.same_pattern).sum(-1)  # (S, B)
    place = np.clip((np.log10(np.maximum(missed, 10.0**LEAST)) - LEAST) * PER_DECADE, 0, -LEAST * PER_DECADE - 1)
    counts = [np.bincount(row, minlength=-LEAST * PER_DECADE) for row in place.astype(np.int64)]
    return {
        "prompts": np.full(len(missed), float(missed.shape[1])),
        "missed": missed.sum(1),
        "counts": np.stack(counts),
    }


def tail_rows(seeds: tuple[int, ...], sums: Sums) -> list[Row]:
    """Return one row per seed: mean 1 − attention on the query's pattern, and its 99th percentile over prompts.

    The percentile is exact to half a bin, a factor of 1.06.
    """
    rows: list[Row] = []
    for i, seed in enumerate(seeds):
        n = sums["prompts"][i]
        last = int(np.searchsorted(np.cumsum(sums["counts"][i]), 0.99 * n))
        row = {"seed": seed, "prompts": int(n), "missed": float(sums["missed"][i] / n)}
        rows.append(row | {"missed_99": float(10 ** (LEAST + (last + 0.5) / PER_DECADE))})
    return rows


def gate_sums(batch: PromptBatch, answer: Answer) -> Sums:
    """Add up gates by distance from the query and, for clean examples, by rank among these; (seeds, layers, l)."""
    gates = _inside(answer.gate, "gates")[..., ::-1]  # (S, B, layers, l), nearest example first
    seeds, _, layers, length = gates.shape
    outlier = np.broadcast_to(_by_level(batch.outlier)[..., ::-1], gates.shape)
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
    """Return the mean gate per seed, layer, kind and place: a distance, or for ``clean_rank`` a rank."""
    rows = []
    for kind, key in (("clean", "clean"), ("outlier", "outlier"), ("clean_rank", "rank")):
        for i, seed in enumerate(seeds):
            for layer, (totals, counts) in enumerate(zip(sums[key][i], sums[f"{key}_count"][i], strict=True)):
                for place, (total, n) in enumerate(zip(totals, counts, strict=True)):
                    where = {"seed": seed, "layer": layer + 1, "kind": kind, "place": place + 1}
                    mean = float(total / n) if n else None  # there was no such example
                    rows.append({**where, "examples": int(n), "gate": mean})
    return rows


def token_sums(batch: PromptBatch, answer: Answer) -> Sums:
    """Keep the attention, gate and vote of every example in a one-layer model; (seeds, batch, l)."""
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
    """Return one row per seed, prompt and example, the farthest from the query first; votes add up to the output."""
    rows = []
    for i, seed in enumerate(seeds):
        for prompt, place in np.ndindex(sums["vote"].shape[1:]):
            values = {name: float(value[i, prompt, place]) for name, value in sums.items()}
            flags = {name: bool(values[name]) for name in ("same", "outlier")} | {"pattern": int(values["pattern"])}
            rows.append({"seed": seed, "prompt": prompt, "place": place + 1} | values | flags)
    return rows


def tokens_obstacle(training: Training, count: int) -> str:
    """Return the reason why examples cannot be kept one by one; empty if they can."""
    return f"count = {count}: the probe tokens keeps every example, of at most {FEW} prompts" if count > FEW else ""


def _by_level(flags: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Turn flags of examples, (S, B, l) or (S, B, l, H), into (S, B, 1, l) or (S, B, H, l)."""
    return flags[:, :, None] if flags.ndim == 3 else np.moveaxis(flags, -1, 2)


def _inside(value: Any, name: str) -> NDArray[np.float64]:
    if value is None:
        raise InputError(f"probe = {name}: the model must return an iclab.Answer with attention and gate")
    return value.double().cpu().numpy()
