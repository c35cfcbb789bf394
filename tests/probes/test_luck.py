"""Probes of lucky neurons, against T (52), (53) and Lemmas B.6, B.7 by literal loops; and the tail of the attention."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from far_weights import move

import iclab
from iclab.probes.answers import tail_rows, tail_sums
from iclab.prompts import Patterns, Prompts

PATTERNS = Patterns(dimension=8, relevant=4, irrelevant=3, outlier=0)
PROMPTS = Prompts(
    patterns=PATTERNS, tasks="ring:1", relevant_fraction=0.7, label_dimension=3, label_norm=2.0, context_length=6
)
MODEL = iclab.Model(name="softmax-mlp", options={"neurons": 12, "state_size": 11, "value_size": 12})
COUNT = 40


@pytest.fixture(scope="module")
def run():
    """Two seeds whose weights at the end are far from the start."""
    return move(iclab.train(MODEL, PROMPTS, iclab.Recipe(steps=2, step_size=1.0), seeds=2, dtype="float64"), 5)


@pytest.fixture(scope="module")
def asked(run):
    batch, answer = run.answer(count=COUNT)
    rows = torch.stack([torch.from_numpy(PROMPTS.dictionary(PATTERNS.basis(s))) for s in run.seeds])
    return batch, answer, batch.dense(rows).numpy()


def named(run, seed):
    """Which neurons are lucky for the mean prompt of a task."""
    basis, start = PATTERNS.basis(seed).vectors[:4], run.weights(0)["hidden"][seed].numpy()
    signs = np.sign(run.weights()["signs"][seed].numpy())
    views = [sum((0.35 if k in (j, (j + 1) % 4) else 0.15) * basis[k] for k in range(4)) for j in range(4)]
    return (signs * start[:, 8] > 0) & np.array([max(row[:8] @ v for v in views) > 0 for row in start])


def softmax(scores):
    return np.exp(scores) / np.exp(scores).sum()


def by_hand(run, asked, seed):
    """Return the sums of the probe luck, pair by pair of prompt and neuron."""
    batch, _, tokens = asked
    before = {name: w[seed].numpy() for name, w in run.weights(0).items()}
    now = {name: w[seed].numpy() for name, w in run.weights().items()}
    signs, lucky = np.sign(now["signs"]), named(run, seed)
    found = dict.fromkeys(("positive", "negative", "pairs", "still", "meant", "fired", "activation", "missed"), 0.0)
    pushed, ever = np.zeros((12, 11)), set()
    for n in range(COUNT):
        context, query, z = tokens[seed, n, :-1], tokens[seed, n, -1], batch.target[seed, n, 0]
        first = before["value"] @ (
            softmax([(before["key"] @ p) @ (before["query"] @ query) for p in context]) @ context
        )
        attention = softmax([(now["key"] @ p) @ (now["query"] @ query) for p in context])
        mixed = attention @ context
        inputs = now["hidden"] @ (now["value"] @ mixed)
        output = now["signs"] @ np.maximum(inputs, 0)
        found["missed"] += 1 - attention[batch.same_pattern[seed, n]].sum()
        for i in range(12):
            row = before["hidden"][i]
            is_lucky = row[:8] @ first[:8] > 0 and row[8:11] @ first[8:11] > 0
            found["positive" if signs[i] > 0 else "negative"] += is_lucky
            if z * signs[i] > 0:
                found["meant"] += lucky[i]
                found["fired"] += lucky[i] and inputs[i] > 0
                if is_lucky:
                    ever.add(i)
                    found["pairs"] += 1
                    found["still"] += inputs[i] > 0
                    found["activation"] += inputs[i]
            if z * output < 1 and inputs[i] > 0:
                pushed[i] += z * now["signs"][i] * mixed
    return found, pushed / COUNT, ever, lucky, signs


def test_luck_is_that_of_52_53_and_of_lemmas_b6_and_b10(run, asked):
    rows = {row["seed"]: row for row in run.measure("luck", count=COUNT)}
    for seed in run.seeds:
        found, pushed, ever, lucky, signs = by_hand(run, asked, seed)
        row, vectors = rows[seed], PATTERNS.basis(seed).vectors
        assert row["positive"] == pytest.approx(found["positive"] / COUNT / 12)
        assert row["negative"] == pytest.approx(found["negative"] / COUNT / 12)
        assert row["ever"] == pytest.approx(len(ever) / 12)
        assert row["still"] == pytest.approx(found["still"] / found["pairs"])
        assert row["every"] == pytest.approx(found["fired"] / found["meant"])
        assert row["activation"] == pytest.approx(found["activation"] / found["pairs"])
        assert row["missed"] == pytest.approx(found["missed"] / COUNT)
        label = np.array([2.0, 0, 0])
        right, wrong = (
            np.array([[12 * pushed[i] @ [*mu, *(s * signs[i] * label)] for mu in vectors[:4]] for i in range(12)])
            for s in (1, -1)
        )
        assert row["right"] == pytest.approx(right[lucky].mean())
        assert row["right_share"] == pytest.approx((right[lucky] > 0).mean())
        assert row["wrong"] == pytest.approx(wrong[lucky].mean())
        assert row["unlucky"] == pytest.approx(np.abs(right[~lucky]).mean())
        apart = [[12 * abs(pushed[i, :8] @ nu) for nu in vectors[4:7]] for i in np.flatnonzero(lucky)]
        assert row["irrelevant"] == pytest.approx(np.mean(apart))
        assert 0 < row["still"] < 1
        assert 0 < row["every"] < 1


def test_hidden_is_how_far_rows_of_w_o_have_moved(run):
    rows = {(row["seed"], row["lucky"]): row for row in run.measure("hidden", count=1)}
    for seed in run.seeds:
        lucky, vectors = named(run, seed), PATTERNS.basis(seed).vectors
        now, start = (run.weights(step)["hidden"][seed].numpy() for step in (2, 0))
        signs = np.sign(run.weights()["signs"][seed].numpy())
        for kind in (True, False):
            mine = np.flatnonzero(lucky == kind)
            row, moved = rows[seed, kind], now - start
            assert row["neurons"] == len(mine) > 0
            assert row["length"] == pytest.approx(np.mean([np.linalg.norm(now[i]) for i in mine]))
            assert row["moved"] == pytest.approx(np.mean([np.linalg.norm(moved[i]) for i in mine]))
            along = [moved[i, :8] @ mu + 2.0 * signs[i] * moved[i, 8] for i in mine for mu in vectors[:4]]
            assert row["along"] == pytest.approx(np.mean(along))
            apart = [(moved[i, :8] @ nu) ** 2 for i in mine for nu in vectors[4:7]]
            assert row["irrelevant"] == pytest.approx(np.sqrt(np.mean(apart)))


def test_tail_is_the_mean_and_the_99th_percentile_of_what_attention_misses():
    missed = 10 ** -np.random.default_rng(1).uniform(0, 3, size=(2, 600))  # (seeds, prompts)
    attention = torch.from_numpy(np.stack([missed, 1 - missed], -1))[:, :, None]  # one example of two is the query's
    batch = SimpleNamespace(same_pattern=np.broadcast_to([False, True], (2, 600, 2)))
    sums = dict.fromkeys(("prompts", "missed", "counts"), 0)
    for part in (slice(0, 200), slice(200, 600)):
        own = SimpleNamespace(same_pattern=batch.same_pattern[:, part])
        more = tail_sums(own, SimpleNamespace(attention=attention[:, part]))
        sums = {name: sums[name] + more[name] for name in sums}
    for row in tail_rows((4, 7), sums):
        mine = np.sort(missed[(4, 7).index(row["seed"])])
        assert (row["prompts"], row["missed"]) == (600, pytest.approx(mine.mean()))
        assert row["missed_99"] == pytest.approx(mine[593], rel=0.065)
        assert mine[593] > 1.2 * mine[570]  # the 95th percentile is another number


def test_prompts_must_have_the_training_patterns(run):
    other = PROMPTS.replace(patterns=PATTERNS.replace(relevant_norm=1.0))
    for probe in ("luck", "hidden"):
        with pytest.raises(iclab.InputError, match="must be those of the training prompts"):
            run.measure(probe, other, count=1)
