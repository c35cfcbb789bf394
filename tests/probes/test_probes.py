"""Probes on hand-made models whose answers are known."""

import numpy as np
import pytest
import torch
from torch import nn

import iclab
from iclab.config import InputError
from iclab.engines import Recipe, Training, answers, train
from iclab.models import Answer
from iclab.probes import measure
from iclab.prompts import Outliers, Patterns, Prompts, Stream

PROMPTS = Prompts(
    patterns=Patterns(dimension=12, relevant=4, irrelevant=3, outlier=2),
    context_length=6,
    outliers=Outliers(fraction=0.4, labels="flip"),
)


def run_of(forward, **recipe):
    class Fixed(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.unused = nn.Parameter(torch.zeros(width))

        def forward(self, tokens):
            return forward(tokens)

    return iclab.train(Fixed, PROMPTS, iclab.Recipe(steps=0, **recipe), seeds=2, dtype="float64")


def test_a_dead_network_is_always_wrong_and_all_ties():
    rows = run_of(lambda tokens: tokens[:, -1, -1]).measure("error", count=300)  # the query's label: 0
    for row in rows:
        assert (row["error"], row["ties"], row["right"], row["wrong"]) == (1.0, 300, 0, 0)
        assert row["hinge"] == 1.0


def test_nan_answers_are_wrong_and_counted_apart():
    rows = run_of(lambda tokens: tokens[:, -1, 0] * torch.nan).measure("error", count=300)
    for row in rows:
        assert (row["error"], row["nans"], row["ties"], row["wrong"]) == (1.0, 300, 0, 0)
        assert row["hinge"] is None


def test_error_and_hinge_are_those_of_the_margins():
    run = run_of(lambda tokens: tokens[:, -1, 0])
    batch, answer = run.answer(count=700)
    margin = (batch.target * answer.output.numpy())[..., 0]
    for i, row in enumerate(run.measure("error", count=700)):
        assert row["error"] == pytest.approx(np.mean(margin[i] <= 0))
        assert row["hinge"] == pytest.approx(np.maximum(0, 1 - margin[i]).mean())
        assert row["hinge_standard_error"] == pytest.approx(np.maximum(0, 1 - margin[i]).std() / np.sqrt(700))
        assert row["right"] + row["wrong"] + row["ties"] + row["nans"] == row["prompts"] == 700


def test_errors_are_counted_by_examples_with_the_querys_pattern():
    run = run_of(lambda tokens: tokens[:, -1, 0])
    batch, answer = run.answer(count=700)
    margin, same = (batch.target * answer.output.numpy())[..., 0], batch.same_pattern.sum(-1)
    rows = run.measure("counted", count=700)
    assert sum(row["prompts"] for row in rows if row["seed"] == 0) == 700
    for row in rows:
        mine = margin[row["seed"]][same[row["seed"]] == row["same_examples"]]
        assert row["prompts"] == len(mine) > 0
        assert row["error"] == pytest.approx(np.mean(mine <= 0))
        assert row["hinge"] == pytest.approx(np.maximum(0, 1 - mine).mean())
    lost = run_of(lambda tokens: tokens[:, -1, 0] * torch.nan).measure("counted", count=50)
    assert {(row["error"], row["hinge"]) for row in lost} == {(1.0, None)}


def test_losses_of_smaller_outputs():
    run = run_of(lambda tokens: 2 * tokens[:, -1, 0])
    batch, answer = run.answer(count=400)
    margin = (batch.target * answer.output.numpy())[..., 0]
    rows = run.measure("shrunk", count=400)
    assert len(rows) == 2 * 21
    for row in rows:
        mine = margin[row["seed"]]
        assert row["margin"] == pytest.approx(mine.mean())
        assert row["hinge"] == pytest.approx(np.maximum(0, 1 - row["factor"] * mine).mean())


def test_a_vote_by_attention_weighs_the_labels_shown():
    def forward(tokens):
        scores = torch.arange(1.0, 7.0, dtype=tokens.dtype).expand(tokens.shape[0], -1)
        return Answer(tokens[:, -1, :1], torch.stack([torch.zeros_like(scores), scores], 1))  # the last layer counts

    run = run_of(forward)
    batch, _ = run.answer(count=300)
    margin = batch.target[..., 0] * (batch.labels[..., :-1, 0] * np.arange(1.0, 7.0)).sum(-1)
    for row, expected in zip(run.measure("attended", count=300), margin, strict=True):
        assert row["error"] == pytest.approx(np.mean(expected <= 0))
        assert row["ties"] == np.sum(expected == 0)


def test_attention_mass_is_split_by_pattern():
    def forward(tokens):
        scores = torch.arange(1.0, 7.0, dtype=tokens.dtype).expand(tokens.shape[0], -1)
        return Answer(tokens[:, -1, :1], scores, torch.ones_like(scores))

    run = run_of(forward)
    batch, _ = run.answer(count=500)
    for i, row in enumerate(run.attention(count=500)):
        same = (batch.same_pattern[i] * np.arange(1, 7)).sum(-1)
        assert row["same"] == pytest.approx(same.mean())
        assert row["other"] == pytest.approx(21 - same.mean())
        assert row["same_standard_error"] == pytest.approx(same.std() / np.sqrt(500))


def test_gates_are_sorted_by_distance_and_by_rank_among_the_clean():
    def forward(tokens):
        places = torch.arange(6.0, 0.0, -1.0, dtype=tokens.dtype).expand(tokens.shape[0], -1)  # nearest shows 1
        return Answer(tokens[:, -1, :1], torch.ones_like(places), places)

    run = run_of(forward)
    batch, _ = run.answer(count=400)
    rows = run.gates(count=400)
    for i, seed in enumerate(run.seeds):
        for kind, mask in (("clean", ~batch.outlier[i]), ("outlier", batch.outlier[i])):
            mine = [row for row in rows if row["seed"] == seed and row["kind"] == kind]
            assert [row["place"] for row in mine] == [1, 2, 3, 4, 5, 6]
            assert [row["examples"] for row in mine] == mask.sum(0)[::-1].tolist()
            assert [row["gate"] for row in mine] == pytest.approx([1, 2, 3, 4, 5, 6])
        ranked: dict[int, list[int]] = {}
        for flags in batch.outlier[i]:
            clean = [6 - position for position in range(5, -1, -1) if not flags[position]]
            for j, distance in enumerate(clean):
                ranked.setdefault(j + 1, []).append(distance)
        for row in (row for row in rows if row["seed"] == seed and row["kind"] == "clean_rank"):
            seen = ranked.get(row["place"], [])
            assert row["examples"] == len(seen)
            assert row["gate"] == (pytest.approx(np.mean(seen)) if seen else None)


def test_a_model_without_gates_is_refused_by_the_gate_probe():
    with pytest.raises(iclab.InputError, match="gates"):
        run_of(lambda tokens: tokens[:, -1, 0]).gates(count=10)


def test_other_patterns_than_the_trainings_are_refused():
    other = PROMPTS.replace(patterns=Patterns(dimension=13, relevant=4, irrelevant=3, outlier=2))
    with pytest.raises(iclab.InputError, match="patterns"):
        run_of(lambda tokens: tokens[:, -1, 0]).error(other)


def test_untrained_weights_can_be_measured_beside_trained_ones():
    run = iclab.train("mamba", PROMPTS, iclab.Recipe(steps=30, batch_size=32, step_size=0.5), seeds=2)
    before, after = (np.mean([row["same"] for row in run.attention(count=200, at=at)]) for at in (0, None))
    assert after > before
    with pytest.raises(iclab.InputError, match="kept: 0, 30"):
        run.error(count=10, at=7)


def test_the_vote_counts_labels_shown_by_examples_of_the_querys_pattern():
    run = run_of(lambda tokens: tokens[:, -1, -1])
    batch, _ = run.answer(count=600)
    for i, row in enumerate(run.measure("vote", count=600)):
        right = ties = 0
        for b in range(600):
            patterns, shown = batch.index[i, b, :, 0], batch.labels[i, b, :, 0]
            votes = sum(shown[j] for j in range(6) if patterns[j] == patterns[-1])
            right += votes * batch.target[i, b, 0] > 0
            ties += votes == 0
        assert (row["right"], row["ties"]) == (right, ties)
        assert row["error"] == pytest.approx(1 - right / 600)


def test_the_vote_does_not_ask_the_model():
    def fail(tokens):
        return tokens[:, -1, 0] * torch.nan

    run = run_of(fail)
    assert {row["nans"] for row in run.measure("vote", count=100)} == {0}
    clean = PROMPTS.replace(outliers=Outliers())
    for row in run.measure("vote", clean, count=500):  # without outliers it only fails where nobody can vote
        assert row["wrong"] == 0


def test_layers_are_told_apart():
    def forward(tokens):
        first = torch.ones(tokens.shape[0], 6, dtype=tokens.dtype)
        both = torch.stack([first, 3 * first], 1)
        return Answer(tokens[:, -1, :1], both, 0.1 * both)

    run = run_of(forward)
    _, answer = run.answer(count=5)
    assert answer.attention.shape == (2, 5, 2, 6)
    rows = run.attention(count=100)
    assert [(row["seed"], row["layer"]) for row in rows] == [(0, 1), (0, 2), (1, 1), (1, 2)]
    for one, two in (rows[:2], rows[2:]):
        assert two["same"] == pytest.approx(3 * one["same"])
        assert one["same"] + one["other"] == pytest.approx(6)
    gates = [row for row in run.gates(count=100) if row["kind"] == "clean_rank" and row["gate"] is not None]
    assert {(row["layer"], round(row["gate"], 9)) for row in gates} == {(1, 0.1), (2, 0.3)}


def test_one_layers_axis_may_be_left_out():
    run = run_of(lambda tokens: Answer(tokens[:, -1, :1], tokens[:, :-1, 0], tokens[:, :-1, 1]))
    assert run.answer(count=5)[1].gate.shape == (2, 5, 1, 6)
    assert {row["layer"] for row in run.attention(count=10)} == {1}


def test_attention_of_a_strange_shape_is_refused():
    with pytest.raises(
        iclab.InputError, match=r"attention = shape \(2,\): must be a tensor \(2, 6\) or \(2, layers, 6\)"
    ):
        run_of(lambda tokens: Answer(tokens[:, -1, :1], tokens[:, -1, 0]))
    with pytest.raises(iclab.InputError, match=r"gate = shape \(2, 7\)"):
        run_of(lambda tokens: Answer(tokens[:, -1, :1], None, tokens[:, :, 0]))
    with pytest.raises(iclab.InputError, match="gate = list"):
        run_of(lambda tokens: Answer(tokens[:, -1, :1], None, [1.0]))


def test_answers_beyond_all_bounds_are_right_or_wrong_without_a_hinge_loss():
    rows = run_of(lambda tokens: torch.where(tokens[:, -1, 0] > 0, torch.inf, -torch.inf)).measure("error", count=300)
    for row in rows:
        assert row["right"] + row["wrong"] == 300
        assert (row["hinge"], row["hinge_standard_error"]) == (None, None)
    huge = run_of(lambda tokens: tokens[:, -1, 0] * 1e200).measure("error", count=300)
    assert all(row["hinge"] > 1e190 and row["hinge_standard_error"] is None for row in huge)


@pytest.mark.parametrize("model", ["mamba", "linear"])
@pytest.mark.parametrize("engine", ["fused", "reference"])
def test_votes_of_tokens_add_up_to_the_answer(model, engine):
    prompts = Prompts(outliers={"fraction": 0.4, "labels": "flip"})
    training = Training(model=model, prompts=prompts, recipe=Recipe(steps=5, step_size=0.1), engine=engine)
    trained = train(training, (0, 1))
    rows = measure(trained, "tokens", prompts, 3)
    assert len(rows) == 2 * 3 * 20
    batch = prompts.draw((0, 1), Stream.TEST, count=3)
    ((_, answer),) = answers(trained, prompts, 3)
    for i, seed in enumerate((0, 1)):
        for prompt in range(3):
            mine = [row for row in rows if (row["seed"], row["prompt"]) == (seed, prompt)]
            assert [row["place"] for row in mine] == list(range(1, 21))
            assert sum(row["vote"] for row in mine) == pytest.approx(answer.output[i, prompt].item(), abs=1e-4)
            np.testing.assert_array_equal([row["outlier"] for row in mine], batch.outlier[i, prompt])
            np.testing.assert_array_equal([row["same"] for row in mine], batch.same_pattern[i, prompt])
            np.testing.assert_array_equal([row["label"] for row in mine], batch.labels[i, prompt, :-1, 0])
            flipped = [row["label"] == -row["true_label"] for row in mine]
            assert flipped == [row["outlier"] for row in mine]


def test_tokens_of_many_prompts_are_refused():
    trained = train(Training(model="linear", recipe=Recipe(steps=0)), (0,))
    with pytest.raises(InputError, match=r"count = 101: .*of at most 100 prompts"):
        measure(trained, "tokens", Prompts(), 101)
