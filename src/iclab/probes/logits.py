"""The gate's logits wᵀp_i and the gates G_i themselves: means and quantiles, for clean examples and for outliers.

Corollary 2 and Lemmas 5 and 6 of paper M speak of single examples "with high probability", so means are not enough.
Values are counted in narrow bins, so that prompts need not be kept.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from iclab.config import InputError
from iclab.engines import Sums, Training
from iclab.probes.insides import Chunk
from iclab.probes.probe import Row

QUANTILES = {"q01": 0.01, "q10": 0.1, "q50": 0.5, "q90": 0.9, "q99": 0.99}
LOGITS = ("kind", "quantity", "examples", "mean", *QUANTILES)

KINDS = ("clean", "outlier")
# Bins of wᵀp, of log G and of log Σ G_i (l − i + 1): the quantiles are exact to half a width.
RANGES = {"logit": (-80.0, 80.0), "gate": (-80.0, 0.0), "reach": (-10.0, 10.0)}
BINS = 8_000


def logit_sums(chunk: Chunk) -> Sums:
    """Count wᵀp_i and log G_i of examples in bins, by kind; and log Σ G_i (l − i + 1) of prompts, M (39)."""
    batch, answer, tokens, _, weights, *_ = chunk
    if "gate" not in weights or answer.gate is None:
        raise InputError("probe = logits: reads a gate, which the model does not have")
    logits = (tokens[:, :, :-1].double() @ weights["gate"].double()[:, None, :, None]).squeeze(-1).numpy()  # (S, B, l)
    gates = answer.gate[:, :, -1].double().numpy()  # (S, B, l)
    back = np.arange(batch.length, 0, -1)  # l − i + 1
    reach = (gates * back).sum(-1)  # (S, B)
    sums: Sums = {}
    for kind, which in (("clean", ~batch.outlier), ("outlier", batch.outlier)):
        for name, values, plain in (("logit", logits, logits), ("gate", _log(gates), gates)):
            sums |= _counted(f"{kind} {name}", values, plain, which)
    return sums | _counted("prompt reach", _log(reach), reach, np.ones_like(reach, dtype=bool))


def _log(values: NDArray[np.float64]) -> NDArray[np.float64]:
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(values))


def _counted(name: str, values: NDArray[np.float64], plain: NDArray[np.float64], which: NDArray[np.bool_]) -> Sums:
    """Count values in bins for each seed, and add up ``plain``, which is on the usual scale."""
    low, high = RANGES[name.split()[1]]
    seeds = len(values)
    place = np.clip((values - low) / (high - low) * BINS, 0, BINS - 1).astype(np.int64)
    bins = np.stack([np.bincount(place[s][which[s]].ravel(), minlength=BINS) for s in range(seeds)]).astype(float)
    total = np.array([plain[s][which[s]].sum() for s in range(seeds)])
    return {f"{name} bins": bins, f"{name} sum": total}


def logit_rows(seeds: tuple[int, ...], sums: Sums) -> list[Row]:
    """Return one row per seed, kind and quantity: mean and quantiles; a kind without examples has no rows."""
    rows = []
    for name in (name.removesuffix(" bins") for name in sums if name.endswith(" bins")):
        kind, quantity = name.split()
        low, high = RANGES[quantity]
        for i, seed in enumerate(seeds):
            bins = sums[f"{name} bins"][i]
            count = bins.sum()
            if not count:
                continue
            row: Row = {"seed": seed, "kind": kind, "quantity": quantity, "examples": int(count)}
            row["mean"] = float(sums[f"{name} sum"][i] / count)
            for column, share in QUANTILES.items():
                place = int(np.searchsorted(np.cumsum(bins), share * count))
                value = low + (min(place, BINS - 1) + 0.5) * (high - low) / BINS
                row[column] = float(value if quantity == "logit" else np.exp(value))
            rows.append(row)
    return rows


def logits_obstacle(training: Training, count: int) -> str:
    """Return the reason why a model has no logits to read; empty if it has."""
    architecture = training.model.architecture
    form = architecture.gate_form(training.model.options) if architecture.fused_gate else None
    if architecture.readable is None or (form is not None and form.vector):
        return ""
    return f"probe = logits: reads the gate of one layer, which {training.model.label} does not have"
