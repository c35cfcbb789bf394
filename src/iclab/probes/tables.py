"""Probes of tables of vectors, such as sentences: how far classes are apart, what a trigger does, and the texts."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from iclab.config import InputError
from iclab.engines import Sums, Trained, Training
from iclab.models import Answer
from iclab.probes.answers import token_sums
from iclab.probes.probe import Row
from iclab.prompts import PromptBatch, Prompts, Stream
from iclab.prompts.counters import words
from iclab.prompts.tables import CLASSES, Content

READOUT = ("components", "vectors", "right", "gained", "lost", "cosine", "variance", "shuffled")
KEPT = (1, 2, 3, 5, 7, 10, 20, 50)
"""How many coordinates the probe ``readout`` reads, besides all."""
TRIGGER = ("component", "shift", "spread", "separability", "chance", "size", "direction", "towards_class", "detected")
SENTENCES = (
    *("prompt", "place", "sentence", "text", "same", "outlier", "label", "true_label"),
    *("layer", "attention", "gate", "vote", "target", "output", "query"),
)
PENALTY = 1.0
"""scikit-learn's C of the readout, unless the model has a ``penalty`` of its own."""


def table_obstacle(training: Training, prompts: Prompts) -> str:
    """Return the reason why prompts are not over tables; empty if they are."""
    if training.prompts.patterns.table is None or prompts.patterns.table is None:
        return "prompts.patterns.table: must be given, in training and in tests: this probe is about tables of vectors"
    return ""


def trigger_obstacle(training: Training, prompts: Prompts) -> str:
    """Return the reason why there is no trigger to look at; empty if there is one."""
    table = prompts.patterns.table
    if table is not None and not table.triggers:
        return f"prompts.patterns.table = {table.name}: has no triggered vectors"
    return table_obstacle(training, prompts)


def _contents(trained: Trained, prompts: Prompts) -> tuple[Content, Content]:
    """Return the tables of the training and of the test."""
    train, test = trained.training.prompts.patterns.table, prompts.patterns.table
    assert train is not None
    assert test is not None
    return train.load(), test.load()


def readout_rows(trained: Trained, weights: Any, prompts: Prompts) -> list[Row]:
    """Return how well logistic regression on single vectors tells the classes apart, without any context.

    It reads the first coordinates of every vector, as many as each of `KEPT` and then all: in a table of principal
    components, the largest ones. It is fitted to the training table and tested on that of the prompts. ``gained`` and
    ``lost`` count the vectors that it gets right, and wrong, unlike with all coordinates. ``shuffled`` is the same
    with the training labels in random order, another one for each seed. ``cosine`` is that of the difference of the
    class means in training with the span of these coordinates, and ``variance`` their share of the variance.
    """
    train, test = _contents(trained, prompts)
    penalty = float(trained.training.model.options.get("penalty", PENALTY))
    x, test_x = train.vectors.astype(np.float64), test.vectors.astype(np.float64)
    orders = words(trained.seeds, Stream.TASKS, positions=len(train.labels), slot=1)[:, 0, :, 0].argsort(-1)
    apart, variance = np.square(train.dictionary[0] - train.dictionary[1]), x.var(0)
    whole = fitted(x, train.labels, penalty).predict(test_x) == test.labels
    rows: list[Row] = []
    for k in [*(k for k in KEPT if k < x.shape[1]), x.shape[1]]:
        here = fitted(x[:, :k], train.labels, penalty).predict(test_x[:, :k]) == test.labels
        counts = {"right": here.sum(), "gained": (here & ~whole).sum(), "lost": (whole & ~here).sum()}
        shared: Row = {"components": k, "vectors": len(here)} | {name: int(count) for name, count in counts.items()}
        shared["cosine"] = float(np.sqrt(apart[:k].sum() / apart.sum()))
        shared["variance"] = float(variance[:k].sum() / variance.sum())
        for seed, order in zip(trained.seeds, orders, strict=True):
            model = fitted(x[:, :k], train.labels[order], penalty)
            rows.append(
                {"seed": seed} | shared | {"shuffled": int((model.predict(test_x[:, :k]) == test.labels).sum())}
            )
    return rows


def fitted(x: NDArray[np.float64], y: NDArray[Any], penalty: float) -> Any:
    """Fit logistic regression."""
    try:
        from sklearn.linear_model import LogisticRegression
    except ImportError:
        raise InputError("logistic regression needs scikit-learn; pip install 'iclab[text]'") from None
    return LogisticRegression(C=penalty, solver="newton-cholesky").fit(x, y)  # fast if there are few coordinates


def trigger_rows(trained: Trained, weights: Any, prompts: Prompts) -> list[Row]:
    """Return what a trigger does to the vectors of the tests: one row for each component, and one for all (0).

    By component: ``shift`` is the mean change, ``spread`` the standard deviation of clean vectors, ``separability``
    their ratio with the pooled spread below it, ``chance`` the probability that a triggered vector has more of the
    component than a clean one. For all: ``size`` is the mean length of the change over the mean length of clean
    vectors, ``direction`` the length of the mean change over the mean length (1 if all changes are one),
    ``towards_class`` the cosine of the mean change and the difference of the class means, and ``detected`` the accuracy
    of logistic regression, fitted in training, that tells triggered from clean.
    """
    from scipy.stats import rankdata  # slow to import

    train, test = _contents(trained, prompts)
    clean, out = test.vectors.astype(np.float64), test.triggered[:, 0].astype(np.float64)
    change = out - clean
    mean, spread = change.mean(0), clean.std(0)
    pooled = np.sqrt((clean.var(0) + out.var(0)) / 2)
    ranks = rankdata(np.concatenate([out, clean]), axis=0)[: len(out)].mean(0)
    chance = (ranks - (len(out) + 1) / 2) / len(clean)
    length = np.linalg.norm(change, axis=1).mean()
    apart = train.dictionary[0] - train.dictionary[1]
    both = [np.concatenate([part.vectors, part.triggered[:, 0]]).astype(np.float64) for part in (train, test)]
    which = [np.repeat([-1, 1], len(part.vectors)) for part in (train, test)]
    found = fitted(both[0], which[0], PENALTY).predict(both[1]) == which[1]
    whole = {
        "component": 0,
        "size": float(length / np.linalg.norm(clean, axis=1).mean()),
        "direction": _ratio(np.linalg.norm(mean), length),
        "towards_class": _ratio(mean @ apart, np.linalg.norm(mean) * np.linalg.norm(apart)),
        "detected": float(found.mean()),
    }
    rows: list[Row] = []
    for seed in trained.seeds:
        empty = dict.fromkeys(TRIGGER)
        rows.append({"seed": seed} | empty | whole)
        for k in range(clean.shape[1]):
            numbers = {"shift": mean[k], "spread": spread[k], "chance": chance[k]}
            numbers["separability"] = _ratio(mean[k], pooled[k])
            rows.append({"seed": seed} | empty | {"component": k + 1} | {n: float(v) for n, v in numbers.items()})
    return rows


def _ratio(part: Any, whole: Any) -> float:
    """Return a ratio; 0 if there is nothing, as of a trigger that the encoder does not see."""
    return float(part / whole) if whole else 0.0


def sentence_sums(batch: PromptBatch, answer: Answer) -> Sums:
    """Keep what `token_sums` keeps, and the sentences; attention and gates of all layers, (seeds, batch, layers, l)."""
    rows = batch.index[..., 1] - CLASSES
    shifts = np.where(batch.coefficient[..., 2] != 0, batch.index[..., 2] - CLASSES, -1)
    kept = token_sums(batch, answer)
    whole = np.ones_like(kept["vote"])
    numbers = {"sentence": rows[..., :-1], "shift": shifts[..., :-1], "query": rows[..., -1:] * whole}
    inside = {"attention": answer.attention, "gate": answer.gate}
    kept |= {name: part.double().cpu().numpy() for name, part in inside.items() if part is not None}
    return kept | {name: part.astype(np.float64) for name, part in numbers.items()}


def sentence_rows(seeds: tuple[int, ...], sums: Sums, prompts: Prompts) -> list[Row]:
    """Return one row per seed, prompt, example and layer, the farthest from the query first, with texts."""
    table = prompts.patterns.table
    assert table is not None
    content, rows = table.load(), []
    by_layer = {name: sums[name] for name in ("attention", "gate")}
    by_example = {name: part for name, part in sums.items() if name not in by_layer}
    layers = sums["gate"].shape[2]
    for i, seed in enumerate(seeds):
        for prompt, place in np.ndindex(sums["vote"].shape[1:]):
            value: Row = {name: float(part[i, prompt, place]) for name, part in by_example.items()}
            sentence, shift = int(value["sentence"]), int(value.pop("shift"))
            trigger = None if shift < 0 else shift - len(content.vectors) - table.triggers * sentence
            texts = {"text": content.text(sentence, trigger), "query": content.text(int(value["query"]), None)}
            flags = {"same": bool(value["same"]), "outlier": bool(value["outlier"]), "sentence": sentence}
            if layers > 1:
                value["vote"] = None  # the output is no sum of votes then
            del value["pattern"]
            for layer in range(layers):
                inside = {name: float(part[i, prompt, layer, place]) for name, part in by_layer.items()}
                where = {"seed": seed, "prompt": prompt, "place": place + 1, "layer": layer + 1}
                rows.append(where | value | inside | flags | texts)
    return rows
