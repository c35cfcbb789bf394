"""GPT-2 against its equations in NumPy, in float64."""

import numpy as np
import pytest
import torch
from model_suite import WIDTH, ModelSuite, prompts_of, with_random_weights

import iclab
from iclab.models import GPT2, Model
from iclab.prompts import Patterns, Prompts

pytestmark = pytest.mark.slow


def layer_norm(x, weights, name):
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * weights[f"{name}.weight"] + weights[f"{name}.bias"]


def affine(x, weights, name):
    return x @ weights[f"{name}.weight"] + weights[f"{name}.bias"]


class TestGPT2(ModelSuite):
    model = "gpt2"
    options = {"layers": 2, "heads": 2, "hidden": 8}
    turns = False  # its weights are not the matrices that the suite knows how to turn: see below
    long = 250
    skipped = ("stacked",)  # its seeds run one after another

    def by_hand(self, weights, prompt):
        stream = prompt @ weights["readin.weight"].T + weights["readin.bias"]
        stream = stream + weights["body.wpe.weight"][: len(prompt)]
        attentions = []
        for layer in range(2):
            block = f"body.h.{layer}"
            queries, keys, values = np.split(
                affine(layer_norm(stream, weights, f"{block}.ln_1"), weights, f"{block}.attn.c_attn"), 3, axis=-1
            )
            mixed, seen = np.zeros_like(stream), np.zeros(len(prompt))
            for head in (slice(0, 4), slice(4, 8)):
                for i in range(len(prompt)):
                    scores = np.array([queries[i, head] @ keys[j, head] / 2.0 for j in range(i + 1)])  # √4
                    shares = np.exp(scores - scores.max())
                    shares /= shares.sum()
                    mixed[i, head] = shares @ values[: i + 1, head]
                seen += shares / 2  # what the last one, the query, saw
            attentions.append(seen[:-1])
            stream = stream + affine(mixed, weights, f"{block}.attn.c_proj")
            inner = affine(layer_norm(stream, weights, f"{block}.ln_2"), weights, f"{block}.mlp.c_fc")
            inner = 0.5 * inner * (1 + np.tanh(np.sqrt(2 / np.pi) * (inner + 0.044715 * inner**3)))
            stream = stream + affine(inner, weights, f"{block}.mlp.c_proj")
        last = layer_norm(stream, weights, "body.ln_f")[-1]
        output = last @ weights["readout.weight"][0] + weights["readout.bias"][0]
        return output, np.array(attentions), np.ones((2, len(prompt) - 1))


def test_turning_prompts_and_what_reads_them_changes_nothing():
    tokens, _ = prompts_of(5)
    model, turned = (with_random_weights(GPT2(width=WIDTH, hidden=8)) for _ in range(2))
    rotation, _ = torch.linalg.qr(torch.randn(WIDTH, WIDTH, dtype=torch.float64, generator=torch.Generator()))
    with torch.no_grad():
        turned.readin.weight.copy_(model.readin.weight @ rotation.T)
    torch.testing.assert_close(model(tokens).output, turned(tokens @ rotation.T).output)


def test_it_has_the_papers_shape_and_no_words():
    model = GPT2(width=60, label_width=30)
    assert len(model.body.h) == 3
    assert model.body.h[0].attn.heads == 2
    assert not any("wte" in name for name, _ in model.named_parameters())
    assert not list(model.buffers())
    readin = GPT2(width=60, init_scale=0.02).readin
    assert readin.weight.std().item() == pytest.approx(0.02, rel=0.05)
    assert not readin.bias.any()


def test_describing_it_takes_no_random_numbers():
    torch.manual_seed(0)
    expected = torch.rand(1)
    torch.manual_seed(0)
    Model(name="gpt2", options={"hidden": 8})
    torch.testing.assert_close(torch.rand(1), expected, atol=0, rtol=0)


def test_its_start_is_a_function_of_the_seed():
    prompts = Prompts(patterns=Patterns(dimension=10, relevant=3, irrelevant=3, outlier=0), context_length=3)
    model = Model(name="gpt2", options={"hidden": 8, "layers": 1})
    first, second = (iclab.train(model, prompts, iclab.Recipe(steps=0), seeds=s).weights() for s in ([0, 1], [1]))
    for name, weight in first.items():
        torch.testing.assert_close(weight[1:], second[name], atol=0, rtol=0)
    assert not torch.equal(first["readin.weight"][0], first["readin.weight"][1])


def test_it_learns_a_task_by_adamw():
    prompts = Prompts(
        patterns=Patterns(dimension=10, relevant=2, irrelevant=3, outlier=0), tasks="all", context_length=6
    )
    recipe = iclab.Recipe(steps=60, batch_size=64, step_size=0.003, optimizer="adamw")
    run = iclab.train(Model(name="gpt2", options={"hidden": 16, "layers": 2}), prompts, recipe, seeds=2)
    assert run.error(count=500, at=0).mean > 0.2
    assert run.error(count=500).mean < 0.05


def test_dropout_changes_training_alone_and_every_seed_has_its_own():
    prompts = Prompts(patterns=Patterns(dimension=10, relevant=2, irrelevant=3, outlier=0), context_length=6)
    recipe = iclab.Recipe(steps=5, batch_size=16, step_size=0.003, optimizer="adamw")

    def trained(seeds, dropout):
        options = {"hidden": 8, "layers": 1, "dropout": dropout}
        return iclab.train(Model(name="gpt2", options=options), prompts, recipe, seeds=seeds)

    both, second, without = trained([0, 1], 0.5), trained([1], 0.5), trained([0, 1], 0.0)
    for name, weight in both.weights().items():
        torch.testing.assert_close(weight[1:], second.weights()[name], atol=0, rtol=0)
    assert not torch.allclose(both.weights()["readin.weight"], without.weights()["readin.weight"], atol=1e-4)

    dropping, whole = (GPT2(width=WIDTH, hidden=8, dropout=share).eval() for share in (0.5, 0.0))
    whole.load_state_dict(dropping.state_dict())
    tokens = torch.randn(3, 6, WIDTH, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(dropping(tokens).output, whole(tokens).output, atol=0, rtol=0)
    assert not torch.equal(dropping.train()(tokens).output, whole.train()(tokens).output)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"heads": 3}, "heads = 3: must divide hidden = 64"),
        ({"layers": 0}, "layers = 0: must be a whole number of at least 1"),
        ({"hidden": 6.5}, "hidden = 6.5: must be a whole number"),
        ({"dropout": 1.0}, "dropout = 1.0: must be at least 0 and below 1"),
    ],
)
def test_bad_options_are_refused_in_one_line(options, message):
    with pytest.raises(ValueError, match=message):
        Model(name="gpt2", options=options)


def test_a_prompt_longer_than_its_positions_is_refused():
    with pytest.raises(iclab.InputError, match="positions = 4: must be at least 6 for 5 examples"):
        GPT2(width=WIDTH, hidden=8, positions=4)(torch.zeros(1, 6, WIDTH))


def test_a_test_prompt_that_is_too_long_is_refused_before_any_training(cli, tmp_path):
    words = ("--set", 'models=["gpt2"]', "--set", "lengths=[20,300]", "--store", tmp_path / "store", "--out", tmp_path)
    complaint = cli("run", "T-fig3", "--quick", *words).complaint
    assert "context_length = 300: must be at most 255 for gpt2" in complaint
    assert not (tmp_path / "store").exists()
