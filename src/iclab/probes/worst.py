"""The exact worst case over the labels, and the places, of outliers: M Definition 2 lets their labels be arbitrary.

One layer is a recurrence. With h_0 = 0,

    h_i = decay_i h_{i−1} + y_i vote_i,     F = decay_query h_l.

In Mamba decay_i = 1 − σ_i and vote_i = σ_i s_i, σ_i = σ(wᵀp_i), s_i = p_iᵀ W_Bᵀ W_C p_query; without a gate decay_i = 1
and vote_i = s_i; other models have ``transitions`` of their own. Decays and votes depend on the label y_i, which is a
part of p_i, but on no other example, and decay_i ≥ 0. So z·F grows with every z·h_i, and the smallest z·F of all 2^k
labellings of k outliers takes l steps (probe ``worst``):

    m_i = min over y of decay_i(y) m_{i−1} + z y vote_i(y),     y = ±1 for an outlier, the shown label otherwise.

In mLSTM F is divided by a positive number that labels change as well: the error is exact there, and the hinge is empty.

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

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from iclab.engines import Sums, Training
from iclab.models import MODELS, Architecture, Model
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
    """(2, seeds, batch, l) decay_i."""
    gain: Numbers
    """(2, seeds, batch, l) z y_i vote_i."""
    last: Numbers
    """(seeds, batch) decay_query."""
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
    """Evaluate decays and votes of every example under both labels, from the weights."""
    batch, tokens = chunk.batch, chunk.tokens.double()
    modules = [seeds_module(chunk.model, chunk.weights, s, tokens.shape[-1]) for s in range(len(tokens))]
    truth, shown = (torch.from_numpy(y[..., 0]).double() for y in (batch.true_labels, batch.labels[:, :, :-1]))
    outlier = torch.from_numpy(batch.outlier)
    z = torch.from_numpy(batch.target).double()  # (S, B, 1)
    decay, gain, last = [], [], torch.ones(0)
    for either in (truth, -truth):
        label = torch.where(outlier, either, shown)  # (S, B, l)
        prompts = tokens.clone()
        prompts[:, :, :-1, -1] = label
        with torch.no_grad():
            found = [module.transitions(own) for module, own in zip(modules, prompts, strict=True)]
        decays, votes = (torch.stack(part) for part in zip(*found, strict=True))
        gain.append((z * label * votes).numpy())
        decay.append(decays[..., :-1].numpy())
        last = decays[..., -1]
    return Recurrence(np.stack(decay), np.stack(gain), last.numpy(), batch.outlier)


def seeds_module(model: Model, weights: dict[str, torch.Tensor], row: int, width: int) -> Architecture:
    """Return the model of one seed with its weights, in float64."""
    module = model.build(width, context_length=1).double()
    module.load_state_dict({name: weight[row].double() for name, weight in weights.items()})
    assert isinstance(module, Architecture)
    return module


def worst_sums(chunk: Chunk) -> Sums:
    """Return the sums of the probe ``error`` under the worst labels of the outliers."""
    with np.errstate(over="ignore", invalid="ignore"):  # weights may be huge: NaN is counted
        return _sums(chunk, np.stack([recurrence(level).worst_labels() for level in _levels(chunk)], -1))


def _levels(chunk: Chunk) -> list[Chunk]:
    """Return every level as one layer by itself. A level's label enters no other level: each has its own worst."""
    batch, weights = chunk.batch, chunk.weights
    if weights["key"].dim() == 3:
        return [chunk]
    levels, found = weights["key"].shape[1], []
    one = Model(name="mamba")
    one = one.replace(options={name: chunk.model.options[name] for name in one.options if name in chunk.model.options})
    inputs = chunk.tokens[..., :-levels].unflatten(-1, (levels, -1))  # (S, B, l + 1, H, d)
    for h in range(levels):
        own = replace(
            batch,
            labels=batch.labels[..., h : h + 1],
            true_labels=batch.true_labels[..., h : h + 1],
            target=batch.target[..., h : h + 1],
            outlier=batch.outlier if batch.outlier.ndim == 3 else batch.outlier[..., h],
        )
        tokens = torch.cat([inputs[..., h, :], chunk.tokens[..., h - levels, None]], -1)
        weights_of = {name: weight[:, h] for name, weight in weights.items()}
        found.append(chunk._replace(batch=own, tokens=tokens, model=one, weights=weights_of))
    return found


def worst_placement_sums(chunk: Chunk) -> Sums:
    """Return the sums of the probe ``error`` under the worst labels and places of the outliers."""
    with np.errstate(over="ignore", invalid="ignore"):
        return _sums(chunk, recurrence(chunk).worst_places()[..., None])


def _sums(chunk: Chunk, margins: Numbers) -> Sums:
    sums = margin_sums(margins)
    if chunk.model.architecture.has_transitions == "sign":
        sums |= {name: np.full_like(sums[name], np.nan) for name in ("hinge", "hinge_squares")}
    return sums


def worst_obstacle(training: Training, count: int) -> str:
    """Return the reason why the worst case of a training is not known; empty if it is."""
    if training.model.options.get("sees") == "token":
        return "probe = worst: with sees = token a label enters the gates of other levels too; use sees = block"
    if training.model.architecture.has_transitions:
        return ""
    known = ", ".join(name for name, made in MODELS.items() if made.has_transitions)
    return (
        f"probe = worst: model {training.model.label} is not one layer whose examples have decays and votes of their "
        f"own, for which the worst case can be computed; models that are: {known}"
    )
