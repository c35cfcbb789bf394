"""Probes: what is measured on a trained model, one row a seed or a few.

A probe adds up sums over prompts, chunk by chunk, so that millions of prompts cost no memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from iclab.description import InputError
from iclab.engines import Report, Trained, tally, tally_prompts
from iclab.models import Answer
from iclab.prompts import PromptBatch, Prompts

VERSION = 2
"""Part of every measurement cell's hash: bump it when the same weights measure otherwise."""

Row = dict[str, Any]
Sums = dict[str, NDArray[np.float64]]


def error_sums(batch: PromptBatch, answer: Answer) -> Sums:
    """Count right, wrong, tied and NaN answers, and add up the hinge loss; shape (seeds,)."""
    return _margin_sums(batch.target.astype(np.float64) * answer.output.double().cpu().numpy())


def vote_sums(batch: PromptBatch) -> Sums:
    """The same for a plain vote of the labels shown by examples that share the query's pattern."""
    shown = batch.labels[..., :-1, :1].astype(np.float64)  # (S, B, l, 1): along q, where labels are ±q
    return _margin_sums(batch.target * (shown * batch.same_pattern[..., None]).sum(-2))


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


def _inside(value: Any, name: str) -> NDArray[np.float64]:
    if value is None:
        raise InputError(f"probe = {name}: this model's forward pass returns none; return an iclab.Answer that has it")
    return value.double().cpu().numpy()


class Probe(NamedTuple):
    """What to add up over a chunk of prompts, and how rows are made of all sums."""

    sums: Callable[..., Sums]
    """Of a batch of prompts and the model's answer to it."""
    rows: Callable[[tuple[int, ...], Sums], list[Row]]
    columns: tuple[str, ...]
    """What rows hold besides seed and ``diverged``: all null where a seed diverged."""
    asks_model: bool = True
    """Whether it needs an answer, or looks at the prompts alone."""


_ERROR = ("prompts", "right", "wrong", "ties", "nans", "error", "hinge", "hinge_standard_error")
_ATTENTION = ("layer", "prompts", "same", "same_standard_error", "other", "other_standard_error")

PROBES: dict[str, Probe] = {
    "error": Probe(error_sums, error_rows, _ERROR),
    "attention": Probe(attention_sums, attention_rows, _ATTENTION),
    "gates": Probe(gate_sums, gate_rows, ("layer", "kind", "place", "examples", "gate")),
    "vote": Probe(vote_sums, error_rows, _ERROR, asks_model=False),
}
"""``vote`` is a yardstick: the error of a plain vote of same-pattern examples on the same prompts."""


def measure(
    trained: Trained,
    probe: str,
    prompts: Prompts,
    count: int,
    *,
    at: int | None = None,
    draw: int = 0,
    report: Report = lambda prompts: None,
    threads: int = 1,
) -> list[Row]:
    """Measure every seed on ``count`` test prompts; a seed that had diverged by then gets one row that says so.

    Args:
        trained: the seeds to measure.
        probe: ``error``, ``attention``, ``gates`` or ``vote``.
        prompts: what to test on; the patterns must be those of the training.
        count: test prompts for each seed, every seed its own.
        at: measure the weights after this many steps; by default the last.
        draw: another number gives other test prompts.
        report: called with the number of prompts done.
        threads: how many to use, where the engine can; the result does not depend on it.
    """
    if probe not in PROBES:
        raise InputError(f"probe = {probe!r}: must be one of {', '.join(PROBES)}")
    if count < 1:
        raise InputError(f"count = {count}: must be at least 1")
    if obstacle := trained.training.prompts.fits(prompts):
        raise InputError(obstacle)
    kind = PROBES[probe]
    if not kind.asks_model:  # whatever became of it
        sums = tally_prompts(trained, kind.sums, prompts, count, draw=draw, report=report)
        return [row | {"diverged": False} for row in kind.rows(trained.seeds, sums)]
    step = trained.training.recipe.steps if at is None else at
    lost = [s for s, d in zip(trained.seeds, trained.diverged_at, strict=True) if 0 <= d <= step]
    rows: list[Row] = [dict.fromkeys(kind.columns) | {"seed": seed, "diverged": True} for seed in lost]
    if len(lost) < len(trained.seeds):
        alive = trained.select(tuple(seed for seed in trained.seeds if seed not in lost))
        sums = tally(alive, probe, kind.sums, prompts, count, at=step, draw=draw, report=report, threads=threads)
        rows += [row | {"diverged": False} for row in kind.rows(alive.seeds, sums)]
    return sorted(rows, key=lambda row: trained.seeds.index(row["seed"]))
