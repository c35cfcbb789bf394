"""All probes, and how one is measured on trained seeds: one row a seed or a few.

A probe of prompts adds up sums, chunk by chunk, so that millions of prompts cost no memory. A probe of weights alone
makes its rows at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np

from iclab.config import InputError
from iclab.engines import Report, Trained, Training, answers, stacked_dictionary, tally, tally_prompts, weights
from iclab.probes.answers import (
    Row,
    Sums,
    attended_sums,
    attention_rows,
    attention_sums,
    error_rows,
    error_sums,
    gate_rows,
    gate_sums,
    token_rows,
    token_sums,
    vote_sums,
)
from iclab.probes.insides import (
    PARTS,
    Look,
    alignment_rows,
    alignment_sums,
    neuron_rows,
    norm_rows,
    part_rows,
    part_sums,
)
from iclab.probes.pruning import Pruning, pruned
from iclab.prompts import Prompts

VERSION = 2
"""Part of every measurement cell's hash: bump it when the same weights measure otherwise."""

FEW = 100
"""Prompts whose tokens can be looked at one by one."""


class Probe(NamedTuple):
    """How rows are made, and of what."""

    looks_at: Literal["answers", "prompts", "insides", "weights"]
    """What it needs: a model's answers, the prompts alone, prompts and weights together, or the weights alone."""
    rows: Callable[..., list[Row]]
    """Of all sums; of the weights, where those are all it looks at."""
    columns: tuple[str, ...]
    """What rows hold besides seed and ``diverged``: all null where a seed diverged."""
    sums: Callable[..., Sums] | None = None
    """What to add up over a chunk of prompts."""
    models: tuple[str, ...] = ()
    """The built-in models that have what it looks at; none named: all of them."""


_ERROR = ("prompts", "right", "wrong", "ties", "nans", "error", "hinge", "hinge_standard_error")
_ATTENTION = ("layer", "prompts", "same", "same_standard_error", "other", "other_standard_error")
_TOKEN = (
    *("pattern", "same", "outlier", "label", "true_label"),
    *("attention", "gate", "vote", "target", "output"),
)
_ONE_LAYER = ("mamba", "linear", "softmax", "softmax-mlp")
_MLP = ("softmax-mlp",)
_LENGTHS = ("length", "hidden_length", "feature_length", "feature_angle", "label_length", "label_angle")

PROBES: dict[str, Probe] = {
    "error": Probe("answers", error_rows, _ERROR, error_sums),
    "attention": Probe("answers", attention_rows, _ATTENTION, attention_sums),
    "gates": Probe("answers", gate_rows, ("layer", "kind", "place", "examples", "gate"), gate_sums),
    "tokens": Probe("answers", token_rows, ("prompt", "place", *_TOKEN), token_sums, ("mamba", "linear")),
    "vote": Probe("prompts", error_rows, _ERROR, vote_sums),
    "attended": Probe("answers", error_rows, _ERROR, attended_sums),
    "alignment": Probe("insides", alignment_rows, ("matrix", "length", "along"), alignment_sums, _ONE_LAYER),
    "parts": Probe("insides", part_rows, PARTS, part_sums, _MLP),
    "norms": Probe("weights", norm_rows, ("matrix", "kind", "length"), None, _ONE_LAYER),
    "neurons": Probe("weights", neuron_rows, ("neuron", "sign", *_LENGTHS), None, _MLP),
}
"""``tokens`` keeps every example of a few prompts, for models whose output is a sum of votes: attention × gate × label.
``vote`` and ``attended`` are yardsticks: the error of a plain vote of same-pattern examples on the same prompts, and
of a vote weighted by the model's attention. The last four look into weights: of models of one layer that have a key and
a query, or (``parts``, ``neurons``) of softmax-mlp; a user's class may name its weights alike."""


def unmeasurable(training: Training, probe: str, pruning: Pruning | None, count: int) -> str:
    """Say why a probe cannot be asked of a model, as far as can be known before; an empty text if it can."""
    if probe not in PROBES:
        return f"probe = {probe!r}: must be one of {', '.join(PROBES)}"
    name, models = training.model.name, PROBES[probe].models
    if isinstance(name, str) and models and name not in models:
        return f"probe = {probe}: looks at what {name} does not have; {', '.join(models)} do"
    if probe == "parts" and isinstance(name, str):
        width, size = (
            training.prompts.patterns.dimension + training.prompts.label_width,
            training.model.options["value_size"],
        )
        if size is not None and size < width:
            return f"probe = parts: needs value_size of at least {width}, the length of a token, not {size}"
    if probe == "tokens" and count > FEW:
        return f"probe = tokens: keeps examples one by one, of at most {FEW} prompts, not {count}"
    if isinstance(name, str) and pruning is not None and name not in _MLP:
        return f"pruning: takes neurons out of softmax-mlp; {name} has none"
    return ""


def measure(
    trained: Trained,
    probe: str,
    prompts: Prompts,
    count: int,
    *,
    at: int | None = None,
    draw: int = 0,
    pruning: Pruning | None = None,
    report: Report = lambda prompts: None,
    threads: int = 1,
) -> list[Row]:
    """Measure every seed on ``count`` test prompts; a seed that had diverged by then gets one row that says so.

    Args:
        trained: the seeds to measure.
        probe: one of `PROBES`.
        prompts: what to test on; the patterns must be those of the training.
        count: test prompts for each seed, every seed its own.
        at: measure the weights after this many steps; by default the last.
        draw: another number gives other test prompts.
        pruning: take neurons out first.
        report: called with the number of prompts done.
        threads: how many to use, where the engine can; the result does not depend on it.
    """
    if count < 1:
        raise InputError(f"count = {count}: must be at least 1")
    if obstacle := unmeasurable(trained.training, probe, pruning, count) or trained.training.prompts.fits(prompts):
        raise InputError(obstacle)
    kind = PROBES[probe]
    if kind.looks_at == "prompts":  # whatever became of the model
        assert kind.sums is not None
        sums = tally_prompts(trained, kind.sums, prompts, count, draw=draw, report=report)
        return [row | {"diverged": False} for row in kind.rows(trained.seeds, sums)]
    step = trained.training.recipe.steps if at is None else at
    lost = [s for s, d in zip(trained.seeds, trained.diverged_at, strict=True) if 0 <= d <= step]
    rows: list[Row] = [dict.fromkeys(kind.columns) | {"seed": seed, "diverged": True} for seed in lost]
    if len(lost) < len(trained.seeds):
        alive = trained.select(tuple(seed for seed in trained.seeds if seed not in lost))
        if pruning is not None:
            alive = pruned(alive, pruning, step)
        if kind.looks_at == "weights":
            found = kind.rows(alive, weights(alive, step), prompts)
            report(count * len(alive.seeds))
        elif kind.looks_at == "insides":
            assert kind.sums is not None
            sums = _look_inside(alive, kind.sums, prompts, count, at=step, draw=draw, report=report)
            found = kind.rows(alive.seeds, sums)
        else:
            assert kind.sums is not None
            sums = tally(alive, probe, kind.sums, prompts, count, at=step, draw=draw, report=report, threads=threads)
            found = kind.rows(alive.seeds, sums)
        rows += [row | {"diverged": False} for row in found]
    return sorted(rows, key=lambda row: trained.seeds.index(row["seed"]))


def _look_inside(
    trained: Trained,
    add_up: Callable[[Look], Sums],
    prompts: Prompts,
    count: int,
    *,
    at: int,
    draw: int,
    report: Report,
) -> Sums:
    """Add up a probe of dense prompts and weights together."""
    inside, dictionary = weights(trained, at), stacked_dictionary(trained.training, trained.seeds, prompts).cpu()
    sums: Sums = {}
    for batch, answer in answers(trained, prompts, count, at=at, step=draw, report=report):
        for name, value in add_up(Look(batch, answer, batch.dense(dictionary), dictionary, inside)).items():
            sums[name] = sums.get(name, np.zeros_like(value)) + value
    return sums
