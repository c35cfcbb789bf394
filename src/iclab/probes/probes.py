"""All probes, and how to measure one on trained seeds.

A probe of prompts adds up sums chunk by chunk, so that millions of prompts need no memory. A probe of weights makes its
rows at once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import numpy as np

from iclab.config import InputError
from iclab.engines import (
    Advance,
    Sums,
    Trained,
    Training,
    answer_versions,
    answers,
    stacked_dictionary,
    sum_answers,
    sum_prompts,
    sums_itself,
    weights,
)
from iclab.models import MODELS
from iclab.probes.answers import (
    attended_sums,
    attention_rows,
    attention_sums,
    counted_rows,
    counted_sums,
    error_rows,
    error_sums,
    gate_rows,
    gate_sums,
    level_rows,
    level_sums,
    shrunk_rows,
    shrunk_sums,
    tail_rows,
    tail_sums,
    token_rows,
    token_sums,
    tokens_obstacle,
    vote_sums,
)
from iclab.probes.blocks import BLOCKS, block_rows, blocks_obstacle
from iclab.probes.enumerated import enumerated_obstacle, enumerated_sums
from iclab.probes.exact import EXACT, exact_obstacle, exact_rows, types_obstacle
from iclab.probes.growth import GROWTH, KERNEL, growth_obstacle, growth_rows, kernel_rows, own_patterns
from iclab.probes.insides import (
    PARTS,
    Chunk,
    alignment_obstacle,
    alignment_rows,
    alignment_sums,
    neuron_rows,
    norm_rows,
    part_rows,
    part_sums,
    parts_obstacle,
)
from iclab.probes.logits import LOGITS, logit_rows, logit_sums, logits_obstacle
from iclab.probes.luck import HIDDEN, LUCK, hidden_rows, luck_rows, luck_sums, lucky_rows
from iclab.probes.probe import Probe, Row
from iclab.probes.pruning import Pruning, pruned
from iclab.probes.regression import (
    GRADIENTS,
    SQUARES,
    gradient_rows,
    gradient_sums,
    gradients_obstacle,
    square_rows,
    square_sums,
)
from iclab.probes.tables import (
    READOUT,
    SENTENCES,
    TRIGGER,
    readout_rows,
    sentence_rows,
    sentence_sums,
    table_obstacle,
    trigger_obstacle,
    trigger_rows,
)
from iclab.probes.worst import worst_obstacle, worst_placement_sums, worst_sums
from iclab.prompts import Prompts

_ERROR = ("prompts", "right", "wrong", "ties", "nans", "error", "hinge", "hinge_standard_error")
_COUNTED = ("same_examples", "prompts", "right", "error", "hinge")
_ATTENTION = ("layer", "prompts", "same", "same_standard_error", "other", "other_standard_error")
_TOKEN = (
    *("prompt", "place", "pattern", "same", "outlier", "label", "true_label"),
    *("attention", "gate", "vote", "target", "output"),
)
_NEURON = (
    *("neuron", "sign", "length", "hidden_length"),
    *("feature_length", "feature_angle", "label_length", "label_angle"),
)

LEVELS = ("error", "levels", "worst", "attention", "gates", "vote", "blocks")
"""The probes that measure prompts of several levels."""
SIGNS = ("error", "levels", "worst", "worst-placement", "worst-of-all", "vote", "attended", "exact")
"""The probes that need labels of ±1."""

PROBES: dict[str, Probe] = {
    "error": Probe(1, "answers", error_rows, _ERROR, error_sums),
    "worst": Probe(1, "insides", error_rows, _ERROR, worst_sums, None, worst_obstacle),
    "worst-placement": Probe(1, "insides", error_rows, _ERROR, worst_placement_sums, None, worst_obstacle),
    "worst-of-all": Probe(1, "insides", error_rows, _ERROR, enumerated_sums, prompts_obstacle=enumerated_obstacle),
    "attention": Probe(1, "answers", attention_rows, _ATTENTION, attention_sums),
    "tail": Probe(1, "answers", tail_rows, ("prompts", "missed", "missed_99"), tail_sums),
    "gates": Probe(1, "answers", gate_rows, ("layer", "kind", "place", "examples", "gate"), gate_sums),
    "tokens": Probe(1, "answers", token_rows, _TOKEN, token_sums, "votes", tokens_obstacle),
    "vote": Probe(1, "prompts", error_rows, _ERROR, vote_sums),
    "attended": Probe(1, "answers", error_rows, _ERROR, attended_sums),
    "alignment": Probe(
        1, "insides", alignment_rows, ("matrix", "length", "along"), alignment_sums, "keys", alignment_obstacle
    ),
    "parts": Probe(1, "insides", part_rows, PARTS, part_sums, "neurons", parts_obstacle),
    "counted": Probe(1, "answers", counted_rows, _COUNTED, counted_sums),
    "shrunk": Probe(1, "answers", shrunk_rows, ("prompts", "factor", "hinge", "margin"), shrunk_sums),
    "norms": Probe(1, "weights", norm_rows, ("matrix", "kind", "length"), None, "keys"),
    "neurons": Probe(1, "weights", neuron_rows, _NEURON, None, "neurons"),
    "lucky": Probe(1, "weights", lucky_rows, ("lucky", "neurons", "large"), None, "neurons"),
    "luck": Probe(
        1, "insides", luck_rows, LUCK, luck_sums, "neurons", partial(parts_obstacle, probe="luck"), own_patterns
    ),
    "hidden": Probe(
        1, "weights", hidden_rows, HIDDEN, None, "neurons", partial(parts_obstacle, probe="hidden"), own_patterns
    ),
    "kernel": Probe(1, "weights", kernel_rows, KERNEL, None, "keys", growth_obstacle, own_patterns),
    "growth": Probe(1, "weights", growth_rows, GROWTH, None, "keys", growth_obstacle, own_patterns),
    "logits": Probe(1, "insides", logit_rows, LOGITS, logit_sums, "keys", logits_obstacle),
    "levels": Probe(1, "answers", level_rows, ("level", *_ERROR), level_sums),
    "blocks": Probe(1, "weights", block_rows, BLOCKS, None, None, blocks_obstacle),
    "squares": Probe(1, "answers", square_rows, SQUARES, square_sums),
    "gradients": Probe(1, "insides", gradient_rows, GRADIENTS, gradient_sums, "votes", gradients_obstacle),
    "exact": Probe(4, "weights", exact_rows, EXACT, None, None, exact_obstacle, types_obstacle),
    "readout": Probe(1, "weights", readout_rows, READOUT, prompts_obstacle=table_obstacle, of_patterns=False),
    "trigger": Probe(1, "weights", trigger_rows, TRIGGER, prompts_obstacle=trigger_obstacle, of_patterns=False),
    "sentences": Probe(
        2, "answers", sentence_rows, SENTENCES, sentence_sums, None, tokens_obstacle, table_obstacle, sees_prompts=True
    ),
}
"""``worst`` is the error under the worst labels of outliers, ``worst-placement`` under their worst labels and places.
``worst-of-all`` tries every labelling of a few outliers, for any model.
``counted`` is the error by the number of examples with the query's pattern.
``shrunk`` is the hinge loss if outputs were smaller. ``tail`` is 1 − attention on the query's pattern: mean and 99th
percentile over prompts. ``lucky`` counts neurons that T names before training, ``luck`` and ``hidden`` follow them.
``levels`` is the error of every level by itself, ``blocks`` what the head of a level has learnt of the others,
``squares`` the mean squared error, for real labels too; ``gradients`` compares M (202) to (204) with autograd.
``exact`` is the error without sampling, whatever the number of prompts.
``tokens`` keeps every example of a few prompts. ``vote`` and ``attended`` are baselines: the error, on the same
prompts, of a vote of same-pattern examples, and of a vote weighted by the model's attention. ``kernel``, ``growth`` and
``logits`` read what the lemmas of paper M speak of: attention between patterns, entries of weights, gates. Three are
about tables of vectors: ``readout`` tells classes apart without context, ``trigger`` is what a trigger does to vectors,
``sentences`` keeps every example of a few prompts with its text."""


def measuring_obstacle(training: Training, probe: str, pruning: Pruning | None, count: int) -> str:
    """Return the reason why a probe cannot measure a training, as far as can be known in advance; empty if it can."""
    if probe not in PROBES:
        return f"probe = {probe!r}: must be one of {', '.join(PROBES)}"
    kind, readable, label = PROBES[probe], training.model.architecture.readable, training.model.label
    if readable is not None:  # else weights are found by their names, or not, when they are measured
        if kind.reads is not None and kind.reads not in readable:
            known = ", ".join(name for name, model in MODELS.items() if kind.reads in (model.readable or ()))
            return f"probe = {probe}: reads {kind.reads}, which {label} does not have; models that do: {known}"
        if pruning is not None and "neurons" not in readable:
            return f"pruning: removes neurons, and {label} has none"
    return kind.obstacle(training, count)


def intervention_obstacle(trained: Trained, probe: str) -> str:
    """Return the reason why a probe would not see interventions; empty if it does, or if there are none."""
    if trained.interventions is None or PROBES[probe].looks_at in ("answers", "prompts"):
        return ""
    seeing = ", ".join(name for name, kind in PROBES.items() if kind.looks_at == "answers")
    return f"probe = {probe}: reads weights, which interventions do not change; those that see them: {seeing}"


def prompts_obstacle(training: Training, probe: str, prompts: Prompts) -> str:
    """Return the reason why a training cannot be measured on these prompts; empty if it can."""
    if obstacle := training.prompts.fits(prompts):
        return obstacle
    if prompts.levels > 1 and probe not in LEVELS:
        known = ", ".join(LEVELS)
        return f"probe = {probe}: measures prompts of one level, these have {prompts.levels}; for several: {known}"
    if prompts.label_values == "real" and probe in SIGNS:
        return f"probe = {probe}: counts answers of the right sign, and labels are real numbers; use squares"
    kind = PROBES[probe]
    if prompts.patterns.table is not None and kind.looks_at == "weights" and kind.of_patterns:
        return (
            f"probe = {probe}: goes through patterns one by one, and tokens are rows of {prompts.patterns.table.name}"
        )
    return kind.prompts_obstacle(training, prompts)


def versions(training: Training, probe: str, prompts: Prompts) -> dict[str, int]:
    """Return the versions of the code that turns trained weights into rows: part of the hash of a measurement."""
    kind = PROBES[probe]
    needs_answers = kind.looks_at in ("answers", "insides")
    return {"probe": kind.version} | (answer_versions(training, probe, prompts) if needs_answers else {})


def measure(
    trained: Trained,
    probe: str,
    prompts: Prompts,
    count: int,
    *,
    at: int | Literal["every"] | None = None,
    draw: int = 0,
    pruning: Pruning | None = None,
    advance: Advance = lambda prompts: None,
    threads: int = 1,
) -> list[Row]:
    """Measure every seed on ``count`` test prompts. A seed that had diverged gets one row that says so.

    Args:
        trained: the seeds to measure.
        probe: one of `PROBES`.
        prompts: the test prompts; their patterns may be others than in training, of the same dimension.
        count: the number of test prompts per seed; each seed draws its own.
        at: the step after which to measure; by default the last. ``every`` measures after every kept step, and adds
            the column ``step``.
        draw: another number draws other test prompts.
        pruning: neurons to remove first.
        advance: called with the number of prompts done.
        threads: how many threads to use, if the engine has threads; the result does not depend on it.
    """
    if count < 1:
        raise InputError(f"count = {count}: must be at least 1")
    obstacle = measuring_obstacle(trained.training, probe, pruning, count)
    obstacle = obstacle or prompts_obstacle(trained.training, probe, prompts) or intervention_obstacle(trained, probe)
    if obstacle:
        raise InputError(obstacle)
    how: dict[str, Any] = {"draw": draw, "pruning": pruning, "advance": advance, "threads": threads}
    if at == "every":
        kept = trained.training.recipe.kept
        return [row | {"step": step} for step in kept for row in _measure(trained, probe, prompts, count, step, **how)]
    return _measure(trained, probe, prompts, count, trained.training.recipe.steps if at is None else at, **how)


def _measure(
    trained: Trained,
    probe: str,
    prompts: Prompts,
    count: int,
    step: int,
    *,
    draw: int,
    pruning: Pruning | None,
    advance: Advance,
    threads: int,
) -> list[Row]:
    """Measure every seed after one step."""
    kind = PROBES[probe]
    if kind.looks_at == "prompts":  # even if the model diverged
        assert kind.sums is not None
        sums = sum_prompts(trained, kind.sums, prompts, count, draw=draw, advance=advance)
        return [row | {"diverged": False} for row in kind.rows(trained.seeds, sums)]
    lost = [s for s, d in zip(trained.seeds, trained.diverged_at, strict=True) if 0 <= d <= step]
    rows: list[Row] = [dict.fromkeys(kind.columns) | {"seed": seed, "diverged": True} for seed in lost]
    if len(lost) < len(trained.seeds):
        alive = trained.select(tuple(seed for seed in trained.seeds if seed not in lost))
        if pruning is not None:
            alive = pruned(alive, pruning, step)
        if kind.looks_at == "weights":
            found = kind.rows(alive, weights(alive, step), prompts)
            advance(count * len(alive.seeds))
        elif kind.looks_at == "insides" and not sums_itself(alive.training, probe, prompts):
            assert kind.sums is not None
            sums = _sum_chunks(alive, kind.sums, prompts, count, at=step, draw=draw, advance=advance)
            found = kind.rows(alive.seeds, sums)
        else:
            assert kind.sums is not None
            sums = sum_answers(
                alive, probe, kind.sums, prompts, count, at=step, draw=draw, advance=advance, threads=threads
            )
            found = kind.rows(alive.seeds, sums, prompts) if kind.sees_prompts else kind.rows(alive.seeds, sums)
        rows += [row | {"diverged": False} for row in found]
    return sorted(rows, key=lambda row: trained.seeds.index(row["seed"]))


def _sum_chunks(
    trained: Trained,
    add: Callable[[Chunk], Sums],
    prompts: Prompts,
    count: int,
    *,
    at: int,
    draw: int,
    advance: Advance,
) -> Sums:
    """Sum a probe of dense prompts and weights together."""
    inside, dictionary = weights(trained, at), stacked_dictionary(trained.training, trained.seeds, prompts).cpu()
    sums: Sums = {}
    model = trained.training.model
    for batch, answer in answers(trained, prompts, count, at=at, step=draw, advance=advance):
        for name, value in add(
            Chunk(batch, answer, batch.dense(dictionary), dictionary, inside, model, trained)
        ).items():
            sums[name] = sums.get(name, np.zeros_like(value)) + value
    return sums
