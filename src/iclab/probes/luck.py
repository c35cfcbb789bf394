"""Probes of the neurons that T names before training: how many are lucky, and what then happens to them.

T (52), (53): neuron i is lucky for a prompt n if O_1·V_1 > 0 and O_2·V_2 > 0. O is its row of W_O at the start, V the
start's W_V Σ p_s attn_s, and 1 and 2 stand for the coordinates of inputs and of labels. W_n are the lucky neurons with
a_i > 0, U_n those with a_i < 0. Lemma B.10 needs W_n for prompts with the label +1, and U_n for those with −1.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from iclab.config import InputError
from iclab.engines import Sums, Trained
from iclab.engines import weights as weights_at
from iclab.probes.insides import Chunk, Weights, need
from iclab.probes.probe import Row
from iclab.probes.pruning import LARGE
from iclab.prompts import Prompts

LUCK = (
    *("prompts", "positive", "negative", "ever", "still", "every", "activation", "missed"),
    *("right", "right_share", "wrong", "unlucky", "irrelevant"),
)
HIDDEN = ("lucky", "neurons", "length", "moved", "along", "irrelevant")


def lucky_neurons(trained: Trained, prompts: Prompts) -> NDArray[np.bool_]:
    """Return which neurons are lucky for the mean prompt of one training task or more, with its label; (seeds, m).

    There V_1 ∝ Σ_j (share of µ_j) µ_j, V_2 ∝ ±q by the label, and a_i has the sign of the label.
    """
    start, inputs = weights_at(trained, 0), prompts.patterns.dimension
    found = []
    for i, basis in enumerate(trained.bases(prompts)):
        hidden, signs = start["hidden"][i].double().numpy(), np.sign(start["signs"][i].double().numpy())
        seen = hidden[:, :inputs] @ (_shares(trained.training.prompts) @ basis.vectors[: prompts.patterns.relevant]).T
        found.append((signs * hidden[:, inputs] > 0) & (seen > 0).any(1))  # q lies along the first axis of a label
    return np.stack(found)


def _shares(prompts: Prompts) -> NDArray[np.float64]:
    """Return the share of every relevant pattern in the prompts of each task, (tasks, M1)."""
    count, fraction = prompts.patterns.relevant, prompts.relevant_fraction
    shares = np.full((len(prompts.pairs), count), (1 - fraction) / max(1, count - 2))
    for row, pair in zip(shares, prompts.pairs, strict=True):
        row[pair] = fraction / 2
    return shares


def lucky_rows(trained: Trained, now: Weights, prompts: Prompts) -> list[Row]:
    """Return two rows per seed: how many neurons were lucky at the start, or were not, and how many of them are large.

    Lucky are those for the mean prompt of one training task or more: see `lucky_neurons`.
    """
    need(now, "lucky", "value", "hidden", "signs")
    named, rows = lucky_neurons(trained, prompts), []
    for i, seed in enumerate(trained.seeds):
        large = (now["hidden"][i] @ now["value"][i]).double().norm(dim=1).numpy() >= LARGE
        for kind in (True, False):
            mine = named[i] == kind
            rows.append({"seed": seed, "lucky": kind, "neurons": int(mine.sum()), "large": int(large[mine].sum())})
    return rows


def hidden_rows(trained: Trained, now: Weights, prompts: Prompts) -> list[Row]:
    """Return two rows per seed, lucky neurons and the others: how far rows of W_O have moved (T Lemma B.7).

    ``length`` and ``moved`` are the mean ‖O‖ and ‖O − O⁽⁰⁾‖ of a row O; ``along`` is the mean part of its movement
    along (µ_a, ±q), the sign that of a_i, and ``irrelevant`` the root mean square part along (ν_c, 0).
    """
    need(now, "hidden", "value", "hidden", "signs")
    named, patterns, rows = lucky_neurons(trained, prompts), prompts.patterns, []
    start, inputs = weights_at(trained, 0)["hidden"], patterns.dimension
    for i, (seed, basis) in enumerate(zip(trained.seeds, trained.bases(prompts), strict=True)):
        row = now["hidden"][i].double().numpy()
        moved = row - start[i].double().numpy()
        seen = moved[:, :inputs] @ basis.vectors[: patterns.relevant + patterns.irrelevant].T
        signs = np.sign(now["signs"][i].double().numpy())
        along = seen[:, : patterns.relevant].mean(1) + prompts.label_norm * signs * moved[:, inputs]
        apart = (seen[:, patterns.relevant :] ** 2).mean(1)
        length, far = np.linalg.norm(row, axis=1), np.linalg.norm(moved, axis=1)
        for kind in (True, False):
            mine = named[i] == kind
            some = bool(mine.any())
            values = {"length": length, "moved": far, "along": along, "irrelevant": apart}
            means = {name: float(value[mine].mean()) if some else None for name, value in values.items()}
            rows.append({"seed": seed, "lucky": kind, "neurons": int(mine.sum())} | means)
            rows[-1]["irrelevant"] = float(np.sqrt(means["irrelevant"])) if means["irrelevant"] is not None else None
    return rows


def luck_sums(chunk: Chunk) -> Sums:
    """Count lucky pairs of prompt and neuron and active ones, and add up the gradient of W_V through every neuron.

    T Lemma B.6: the step of W_V p is Σ_i −V_i W_O(i,·), −V_i = E[1[zF < 1] z a_i 1[i active] Σ_s attn_s p_sᵀp].
    """
    batch, answer, tokens, dictionary, weights, _, trained = chunk
    need(weights, "luck", "key", "query", "value", "hidden", "signs")
    if answer.attention is None:
        raise InputError("probe = luck: the model must return an iclab.Answer with attention")
    tokens, examples = tokens.double(), tokens[:, :, :-1].double()
    inputs, width = dictionary.shape[-1], tokens.shape[-1]
    start = {name: value.double() for name, value in weights_at(trained, 0).items()}
    now = {name: value.double() for name, value in weights.items()}
    asked = tokens[:, :, -1] @ start["query"].mT @ start["key"]  # W_Kᵀ W_Q p_query, (S, B, width)
    scores = (examples @ asked[..., None]).mT  # (S, B, 1, l)
    first = (torch.softmax(scores, -1) @ examples).squeeze(-2) @ start["value"].mT  # V⁽⁰⁾, (S, B, m_b)
    parts = (slice(None, inputs), slice(inputs, width))
    feature, label = (first[..., part] @ start["hidden"][..., part].mT > 0 for part in parts)
    lucky = feature & label  # (S, B, m)
    attention = answer.attention[:, :, 0].double()
    mixed = (attention[:, :, None] @ examples).squeeze(-2)  # Σ p_s attn_s, (S, B, width)
    before = mixed @ now["value"].mT @ now["hidden"].mT  # (S, B, m)
    target, signs = torch.from_numpy(batch.target).double(), now["signs"][:, None]
    meant = target * signs > 0
    active, named = before > 0, lucky & meant
    wrong = (target * answer.output.double() < 1).double()
    pushed = (wrong * target * signs * active).mT @ mixed  # (S, m, width)
    patterns, same = trained.training.prompts.patterns, torch.from_numpy(batch.same_pattern)
    vectors, split = dictionary.double(), patterns.relevant
    found = {
        "prompts": torch.full((len(tokens),), float(tokens.shape[1])),
        "missed": (1 - (attention * same).sum(-1)).sum(-1),
        "positive": (lucky & (signs > 0)).sum((1, 2)),
        "negative": (lucky & (signs < 0)).sum((1, 2)),
        "named": named.sum(1),
        "still": (named & active).sum(1),
        "meant": meant.sum(1),
        "fired": (meant & active).sum(1),
        "activation": (before * named).sum(1),
        "label": trained.training.prompts.label_norm * pushed[..., inputs],
        "relevant": pushed[..., :inputs] @ vectors[:, :split].mT,
        "irrelevant": pushed[..., :inputs] @ vectors[:, split : split + patterns.irrelevant].mT,
        "signs": now["signs"].sign(),
    }
    sums = {name: value.double().numpy() for name, value in found.items()}
    return sums | {"lucky": lucky_neurons(trained, trained.training.prompts).astype(float)}


def luck_rows(seeds: tuple[int, ...], sums: Sums) -> list[Row]:
    """Return one row per seed: shares of lucky neurons and of active ones, mean activation and 1 − mass, and −V_i m.

    ``positive`` and ``negative`` are |W_n|/m and |U_n|/m. ``ever``: the share of neurons that are lucky for one prompt
    or more with the label of their sign. ``still``: of lucky pairs of prompt and neuron, the share active now.
    ``every``: the same of all prompts with the label of the neuron's sign, for lucky neurons. ``right`` and ``wrong``:
    the mean −V_i m of lucky neurons for tokens (µ_j, q) with the label of their sign, and for the opposite one;
    ``right_share``: the share of them above 0; ``unlucky``: the mean size of the others'; ``irrelevant``: that of
    lucky neurons for (ν_k, 0).
    """
    rows: list[Row] = []
    for i, seed in enumerate(seeds):
        n, mine = float(sums["prompts"][i]), {name: value[i] for name, value in sums.items()}
        lucky, signs, count = mine["lucky"] > 0, np.sign(mine["signs"]), mine["signs"].size
        own = signs[:, None] * mine["label"][:, None]
        right, wrong = (count * (mine["relevant"] + s * own) / n for s in (1, -1))  # (m, M1)
        apart = count * np.abs(mine["irrelevant"]) / n

        def share(part: NDArray[np.float64], whole: NDArray[np.float64]) -> float | None:
            return float(part.sum() / whole.sum()) if whole.sum() else None

        def mean(values: NDArray[np.float64]) -> float | None:
            return float(values.mean()) if values.size else None

        row = {
            "seed": seed,
            "prompts": int(n),
            "positive": float(mine["positive"] / n / count),
            "negative": float(mine["negative"] / n / count),
            "ever": float((mine["named"] > 0).mean()),
            "still": share(mine["still"], mine["named"]),
            "every": share(mine["fired"][lucky], mine["meant"][lucky]),
            "activation": share(mine["activation"], mine["named"]),
            "missed": float(mine["missed"] / n),
            "right": mean(right[lucky]),
            "right_share": mean(right[lucky] > 0),
            "wrong": mean(wrong[lucky]),
            "unlucky": mean(np.abs(right[~lucky])),
            "irrelevant": mean(apart[lucky]),
        }
        rows.append(row)
    return rows
