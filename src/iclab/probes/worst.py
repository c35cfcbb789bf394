"""The exact worst case over the labels, and the places, of outliers: M Definition 2 lets their labels be arbitrary.

One layer is a recurrence. With h_0 = 0,

    h_i = (1 − σ_i) h_{i−1} + σ_i y_i s_i,     F = (1 − σ_query) h_l,     σ_i = σ(wᵀp_i),  s_i = p_iᵀ W_Bᵀ W_C p_query,

and without a gate h_i = h_{i−1} + y_i s_i, F = h_l. σ_i and s_i depend on the label y_i, which is a part of p_i, but on
no other example, and 1 − σ_i ≥ 0. So z·F grows with every z·h_i, and the smallest z·F of all 2^k labellings of k
outliers takes l steps (probe ``worst``):

    m_i = min over y of (1 − σ_i(y)) m_{i−1} + z σ_i(y) y s_i(y),     y = ±1 for an outlier, the shown label otherwise.

Places (probe ``worst-placement``): the k outliers may stand at any k of the l positions. Clean examples keep their
contents and their order, outliers keep theirs, and m[c][o] is the smallest z·h after c clean examples and o outliers:

    m[c][o] = min of: clean example c after m[c − 1][o],  outlier o after m[c][o − 1].

Someone who may also reorder the outliers among themselves can do more harm; that is not measured. (If labels are given,
swapping two neighbours lowers z·F if the one nearer to the query has the larger z y s. So the worst order has them by
falling z y s. If a label changes σ too, labels and order cannot be chosen one after the other.)

Both are exact, not bounds, for labels that may be chosen with the query in view. (M's Definition 2 makes a label a
function of its own example. That can do no more harm, and no less where flipping is the worst.) The rule for the labels
of outliers that the prompts come with does not matter, and for ``worst-placement`` neither does the rule for their
places, except that it decides which examples were drawn.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from iclab.engines import Sums, Training
from iclab.models import MODELS
from iclab.probes.answers import margin_sums
from iclab.probes.insides import Chunk

Numbers = NDArray[np.float64]


class Step(NamedTuple):
    """What an example does to z·h under either label: z·h becomes decay · z·h + gain. Arrays are (2, seeds, batch)."""

    decay: Numbers
    gain: Numbers

    def after(self, before: Numbers) -> Numbers:
        """Return the smallest z·h after the example, from the smallest before it; NaN if either label gives NaN."""
        found: Numbers = (self.decay * before + self.gain).min(0)
        return found


class Recurrence(NamedTuple):
    """One layer on a chunk of prompts, with both labels for every outlier."""

    decay: Numbers
    """(2, seeds, batch, l) 1 − σ_i; 1 without a gate."""
    gain: Numbers
    """(2, seeds, batch, l) z σ_i y_i s_i; z y_i s_i without a gate."""
    last: Numbers
    """(seeds, batch) 1 − σ_query; 1 without a gate."""
    outlier: NDArray[np.bool_]
    """(seeds, batch, l)."""

    def step(self, i: int | NDArray[np.int64]) -> Step:
        """Return example i of every prompt; i is one number for all prompts, or (seeds, batch)."""
        place = np.broadcast_to(i, self.last.shape)[None, ..., None]
        return Step(*(np.take_along_axis(values, place, -1)[..., 0] for values in (self.decay, self.gain)))

    def worst_labels(self) -> Numbers:
        """Return the smallest z·F over all labels of the outliers, (seeds, batch)."""
        best = np.zeros(self.last.shape)
        for i in range(self.outlier.shape[-1]):
            best = self.step(i).after(best)
        return self.last * best

    def worst_places(self) -> Numbers:
        """Return the smallest z·F over all labels and places of the outliers, (seeds, batch)."""
        length = self.outlier.shape[-1]
        order = np.argsort(self.outlier, axis=-1, kind="stable")  # clean examples in their order, then outliers
        clean = length - self.outlier.sum(-1)  # (seeds, batch)

        def nth(n: int | NDArray[np.int64]) -> Step:
            place = np.broadcast_to(np.minimum(n, length - 1), clean.shape)[..., None]
            return self.step(np.take_along_axis(order, place, -1)[..., 0])

        outliers = [nth(clean + o) for o in range(length)]
        best = [np.zeros(clean.shape)]  # by the number of outliers; prompts that have fewer are not read there
        for outlier in outliers:
            best.append(outlier.after(best[-1]))
        found = np.where(clean == 0, best[length], np.nan)
        for c in range(1, length + 1):
            next_clean = nth(c - 1)
            best = [next_clean.after(m) for m in best[: length - c + 1]]
            for o in range(1, len(best)):
                best[o] = np.minimum(best[o], outliers[o - 1].after(best[o - 1]))
            found = np.where(clean == c, best[length - c], found)
        return self.last * found


def recurrence(chunk: Chunk) -> Recurrence:
    """Evaluate σ_i and s_i of every example under both labels, from the weights."""
    batch, tokens, weights = chunk.batch, chunk.tokens.double(), {n: w.double() for n, w in chunk.weights.items()}
    read = tokens[:, :, -1] @ weights["query"].mT @ weights["key"]  # (S, B, d + 1) W_Bᵀ W_C p_query
    truth, shown = (torch.from_numpy(y[..., 0]).double() for y in (batch.true_labels, batch.labels[:, :, :-1]))
    outlier = torch.from_numpy(batch.outlier)
    z = torch.from_numpy(batch.target).double()  # (S, B, 1)
    decay, gain = [], []
    for either in (truth, -truth):
        label = torch.where(outlier, either, shown)  # (S, B, l)
        examples = torch.cat([tokens[:, :, :-1, :-1], label[..., None]], -1)  # (S, B, l, d + 1)
        vote = z * label * (examples @ read[..., None])[..., 0]
        logit = (examples @ weights["gate"][:, None, :, None])[..., 0] if "gate" in weights else None
        gain.append((vote if logit is None else torch.sigmoid(logit) * vote).numpy())
        decay.append((torch.ones_like(vote) if logit is None else torch.sigmoid(-logit)).numpy())
    last = torch.ones_like(z)[..., 0]
    if "gate" in weights:
        last = torch.sigmoid(-(tokens[:, :, -1] @ weights["gate"][..., None])[..., 0])
    return Recurrence(np.stack(decay), np.stack(gain), last.numpy(), batch.outlier)


def worst_sums(chunk: Chunk) -> Sums:
    """Return the sums of the probe ``error`` under the worst labels of the outliers."""
    with np.errstate(over="ignore", invalid="ignore"):  # weights may be huge: NaN is counted
        return margin_sums(recurrence(chunk).worst_labels()[..., None])


def worst_placement_sums(chunk: Chunk) -> Sums:
    """Return the sums of the probe ``error`` under the worst labels and places of the outliers."""
    with np.errstate(over="ignore", invalid="ignore"):
        return margin_sums(recurrence(chunk).worst_places()[..., None])


def worst_obstacle(training: Training, count: int) -> str:
    """Return the reason why the worst case of a training is not known; empty if it is."""
    if training.model.architecture.fused_gate is not None:
        return ""
    known = ", ".join(name for name, made in MODELS.items() if made.fused_gate is not None)
    return (
        f"probe = worst: model {training.model.label} is not one layer with Mamba's gate or none, for which the worst "
        f"case can be computed; models that are: {known}"
    )
