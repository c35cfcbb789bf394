"""Users' modules of all kinds: what trains is also measured."""

import random

import numpy as np
import pytest
import torch
from small_modules import PROMPTS, RECIPE, BatchNorm, Plain, training
from torch import nn

import iclab
from iclab.engines import answers, stacking_obstacle, train, weights
from iclab.engines.ensemble import ask
from iclab.engines.rehearsal import drawn, rehearse_answers, rehearse_training
from iclab.prompts import Stream


class HuggingFaceMamba(nn.Module):
    def __init__(self, width):
        super().__init__()
        from transformers import MambaConfig, MambaModel

        self.readin, self.readout = nn.Linear(width, 8), nn.Linear(8, 1)
        self.body = MambaModel(MambaConfig(vocab_size=1, hidden_size=8, state_size=2, num_hidden_layers=2))

    def forward(self, tokens):
        return self.readout(self.body(inputs_embeds=self.readin(tokens)).last_hidden_state[:, -1])


class BareMamba(nn.Module):
    def __init__(self, width):
        super().__init__()
        from transformers import MambaConfig, MambaModel

        self.body = MambaModel(MambaConfig(hidden_size=width, state_size=2, num_hidden_layers=1, vocab_size=1))

    def forward(self, tokens):
        return self.body(inputs_embeds=tokens).last_hidden_state[:, -1, -1]


class LSTM(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body, self.out = nn.LSTM(width, 5, batch_first=True), nn.Linear(5, 1)

    def forward(self, tokens):
        return self.out(self.body(tokens)[0][:, -1])


class Dropout(Plain):
    def forward(self, tokens):
        return self.out(nn.functional.dropout(tokens[:, -1], 0.5, self.training))


class ConstantBuffer(Plain):
    def __init__(self, width):
        super().__init__(width)
        self.register_buffer("scale", torch.randn(width), persistent=False)

    def forward(self, tokens):
        return self.out(tokens[:, -1] * self.scale)


class ChangingBuffer(Plain):
    """Keeps a running mean that torch does not save."""

    def __init__(self, width):
        super().__init__(width)
        self.register_buffer("mean", torch.zeros(width), persistent=False)

    def forward(self, tokens):
        if self.training:
            self.mean = 0.5 * self.mean + 0.5 * tokens.detach().mean((0, 1))
        return self.out(tokens[:, -1] - self.mean)


class InfiniteMask(Plain):
    def __init__(self, width):
        super().__init__(width)
        self.register_buffer("mask", torch.tensor([0.0, -torch.inf]))

    def forward(self, tokens):
        return self.out(tokens[:, -1]) * torch.softmax(self.mask, -1)[0]


class TiedWeights(Plain):
    def __init__(self, width):
        super().__init__(width)
        self.one, self.two = (nn.Linear(width, width, bias=False) for _ in range(2))
        self.two.weight = self.one.weight

    def forward(self, tokens):
        return self.out(self.two(torch.tanh(self.one(tokens[:, -1]))))


class LazyBuffer(Plain):
    def forward(self, tokens):
        length = tokens.shape[1]
        if not hasattr(self, "mask") or self.mask.shape[0] < length:
            if hasattr(self, "mask"):
                del self.mask
            self.register_buffer("mask", torch.tril(tokens.new_ones(length, length)))
        return self.out((self.mask[:length, :length] @ tokens)[:, -1])


class LazyParameter(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.LazyLinear(1)

    def forward(self, tokens):
        return self.out(tokens[:, -1])


class InPlace(Plain):
    def forward(self, tokens):
        query = tokens[:, -1]
        query *= 2  # changes the prompts themselves
        state = torch.zeros(query.shape)
        for i in range(tokens.shape[1]):
            state[:, :] = 0.5 * state + tokens[:, i]
        return self.out(query + state)


class Unregistered(Plain):
    """Draws a tensor that torch knows nothing of."""

    def __init__(self, width):
        super().__init__(width)
        self.scale = torch.randn(width)

    def forward(self, tokens):
        return self.out(tokens[:, -1] * self.scale)


class DrawsElsewhere(Plain):
    """Draws from NumPy and from Python, at the start and in training."""

    def __init__(self, width):
        super().__init__(width)
        self.scale = float(np.random.rand()) + random.random()  # noqa: NPY002

    def forward(self, tokens):
        noise = float(np.random.rand()) * random.random() if self.training else 0.5  # noqa: NPY002
        return self.out(tokens[:, -1]) * (self.scale + noise)


class Squeezed(Plain):
    def forward(self, tokens):
        return super().forward(tokens).squeeze()


class Unused(Plain):
    def __init__(self, width):
        super().__init__(width)
        self.never = nn.Linear(2, 2)


class PartlyFrozen(Plain):
    def __init__(self, width):
        super().__init__(width)
        self.fixed = nn.Linear(width, width).requires_grad_(False)

    def forward(self, tokens):
        return self.out(torch.tanh(self.fixed(tokens[:, -1])))


ONE_BY_ONE = {  # with a word of the reason
    LSTM: "lstm",
    BatchNorm: "buffers",
    Dropout: "random",
    ConstantBuffer: "buffers",
    ChangingBuffer: "buffers",
    InfiniteMask: "buffers",
    LazyBuffer: "buffers",
    InPlace: "inplace",
    Unregistered: "other answers",
    DrawsElsewhere: "random numbers outside torch",
}
STACKED = (TiedWeights, LazyParameter, Squeezed, Unused, PartlyFrozen)
SLOW = [pytest.param(model, marks=pytest.mark.slow) for model in (HuggingFaceMamba, BareMamba)]
WORKING = [*ONE_BY_ONE, *STACKED, *SLOW]


@pytest.mark.parametrize("model", WORKING)
def test_it_trains_and_is_measured(model, tmp_path):
    """On other numbers of prompts and on longer ones; alone as with others; loaded as before; as the module itself."""
    described = training(model)
    trained = train(described, (0, 1, 2))
    assert not trained.diverged.any()
    run = iclab.Run(trained)
    assert run.error(count=257).mean is not None  # 256 and 1 at a time
    assert run.error(PROMPTS.replace(context_length=7), count=5).mean is not None

    alone = train(described, (1,))
    for name, weight in weights(trained.select((1,))).items():
        torch.testing.assert_close(weights(alone)[name], weight, atol=1e-5, rtol=1e-4)
    run.save(tmp_path / "weights.safetensors")
    loaded = type(trained).load(tmp_path / "weights.safetensors", described)
    outputs = [next(answers(t, PROMPTS, 3))[1].output for t in (trained, loaded)]
    assert torch.equal(*outputs)

    with torch.no_grad():
        own = ask(run.module(1), drawn(described, PROMPTS, 3, (1,), Stream.TEST)[0]).output
    torch.testing.assert_close(own, outputs[0][1], atol=1e-5, rtol=1e-4)
    place = next(name for name in ("out", "readout", "body") if name in run.places)
    same = run.intervene({place: lambda value: value}).answer(count=3)[1].output
    torch.testing.assert_close(same, outputs[0], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("model, reason", [*ONE_BY_ONE.items(), *((model, "") for model in STACKED)])
def test_why_seeds_are_not_stacked_is_said_once(model, reason):
    told = []
    described = training(model)
    train(described, (0, 1), notify=told.append)
    assert bool(stacking_obstacle(described)) is bool(reason)
    assert [line for line in told if "one after another" in line] == [
        f"{model.__name__}: seeds run one after another, not stacked: {stacking_obstacle(described)}"
    ] * bool(reason)
    assert reason in stacking_obstacle(described)


@pytest.mark.slow
@pytest.mark.parametrize("model", [HuggingFaceMamba, BareMamba])
def test_hugging_faces_mamba_is_stacked_in_training_but_not_in_evaluation(model):
    described = training(model)
    found = rehearse_training(described)
    assert not found.obstacle
    assert "vmap" in rehearse_answers(described, PROMPTS).obstacle
    assert any("measured one after another" in note for note in found.notes)


@pytest.mark.parametrize("model", [Dropout, DrawsElsewhere, Unregistered])
def test_what_is_drawn_is_a_function_of_the_seed_alone(model):
    state = torch.get_rng_state(), random.getstate()
    together = train(training(model), (0, 1, 2))
    assert torch.equal(state[0], torch.get_rng_state())
    assert state[1] == random.getstate()  # ours are not used up
    random.seed(5)
    np.random.seed(5)  # noqa: NPY002
    torch.manual_seed(5)
    for seeds in ((2, 0), (1,)):
        again = train(training(model), seeds)
        assert torch.equal(weights(again)["out.weight"], weights(together.select(seeds))["out.weight"])


class Noisy(Plain):
    """Draws in evaluation too, changes the prompts themselves, and refuses what is not finite."""

    def __init__(self, width):
        super().__init__(width)
        self.start = nn.Identity()

    def forward(self, tokens):
        tokens *= 2
        found = self.out(self.start(tokens[:, -1])) + torch.randn(()) + random.random()
        if not found.isfinite().all():
            raise ValueError("not finite")
        return found


def test_an_intervened_forward_pass_is_the_plain_one_but_for_the_change():
    run, seen = iclab.Run(train(training(Noisy), (0, 1))), []

    def look(value, visit):
        seen.append(visit.tokens.clone())

    looked = run.intervene(start=look)
    assert torch.equal(looked.answer(count=300)[1].output, run.answer(count=300)[1].output)  # 256 and 44 at a time
    assert torch.equal(seen[1], run.tokens(count=256, seed=1)[0])
    next(answers(looked.trained, PROMPTS, 300))
    assert torch.is_grad_enabled()  # between chunks, torch is as it was
    with pytest.raises(iclab.InputError, match="model = Noisy, in evaluation, seed 1: raised ValueError: not finite"):
        run.intervene(start=lambda value, visit: value / (1 - visit.seed)).error(count=3)


def test_parameters_that_need_no_gradient_stay():
    found = train(training(PartlyFrozen), (0, 1))
    assert torch.equal(weights(found)["fixed.weight"], weights(found, 0)["fixed.weight"])
    assert not torch.equal(weights(found)["out.weight"], weights(found, 0)["out.weight"])


def test_a_mask_that_is_infinite_from_the_start_is_no_divergence_but_a_later_one_is():
    class Explodes(InfiniteMask):
        def forward(self, tokens):
            if self.training:
                self.mask = self.mask + torch.tensor([0.0, 0.0]) / (self.out.weight.detach().abs().max() < 1e3)
            return super().forward(tokens)

    assert not train(training(InfiniteMask), (0,)).diverged.any()
    assert train(training(Explodes, RECIPE.replace(step_size=1e5)), (0,)).diverged.all()


class FixedLength(nn.Module):
    def __init__(self, width, context_length):
        super().__init__()
        self.out = nn.Linear(width * (context_length + 1), 1)

    def forward(self, tokens):
        return self.out(tokens.flatten(1))


def test_a_model_for_one_length_says_so_and_refuses_others():
    told = []
    trained = train(training(FixedLength), (0, 1), notify=told.append)
    assert told == ["FixedLength: takes no longer prompts than in training (tried 7 examples)"]
    assert iclab.Run(trained).error(count=5).mean is not None
    with pytest.raises(iclab.InputError, match=r"\(2, 8, 10\).*trained on context_length = 4: raised RuntimeError"):
        iclab.Run(trained).error(PROMPTS.replace(context_length=7), count=5)


def made_for_four(examples):
    assert examples.labels.shape[-1] == 4
    return examples.labels


@pytest.mark.parametrize(
    "prompts",
    [
        PROMPTS.replace(patterns=PROMPTS.patterns.replace(relevant=2), relevant_count=4),  # a fifth needs a third
        PROMPTS.replace(outliers=PROMPTS.outliers.replace(labels=made_for_four)),
    ],
)
def test_nothing_is_said_of_longer_prompts_that_cannot_be(prompts):
    assert rehearse_training(training(Plain, prompts=prompts)).notes == ()


class Flat(Plain):
    def forward(self, tokens):
        return super().forward(tokens) * 0.0


class Broken(Plain):
    def forward(self, tokens):
        return super().forward(tokens) * float("nan")


def test_answers_that_are_nan_from_the_start_are_pointed_out():
    told = []
    assert train(training(Broken), (0,), notify=told.append).diverged_at.tolist() == [0]
    assert told == ["Broken: answers with NaN or infinity before it is trained, so that every seed diverges"]


def test_gradients_that_are_all_0_are_pointed_out():
    told = []
    train(training(Flat), (0,), notify=told.append)
    assert told == ["Flat: in a trial step every gradient was 0, so its parameters may not move"]
