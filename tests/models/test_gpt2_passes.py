"""GPT-2's passes derived by hand, against Hugging Face's GPT-2 and against plain PyTorch."""

import math

import numpy as np
import pytest
import torch
from model_suite import with_random_weights
from torch import nn

import iclab
from iclab.models import GPT2, Model, gpt2_passes
from iclab.prompts import Patterns, Prompts

pytestmark = pytest.mark.slow

WIDTH = 7


def hugging_face(layers=3, heads=2, hidden=8, positions=256):
    from transformers import GPT2Config, GPT2Model

    shape = {"n_layer": layers, "n_head": heads, "n_embd": hidden, "n_positions": positions}
    drops = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0)
    words = {"vocab_size": 1, "bos_token_id": 0, "eos_token_id": 0}
    return GPT2Model(GPT2Config(**shape, **drops, **words, attn_implementation="eager"))


def gradients(model, output):
    """Gradients by name of a loss to which every prompt adds something of its own."""
    model.zero_grad()
    (output * torch.arange(1.0, len(output) + 1, dtype=output.dtype)[:, None]).sum().backward()
    return {name: p.grad.clone() for name, p in model.named_parameters()}


def assert_same(first, second, tolerance):
    assert first.keys() == second.keys()
    for name, one in first.items():
        gap = (one - second[name]).abs().max().item()
        assert gap <= tolerance * max(one.abs().max().item(), 1e-12), (name, gap)


def plain(model, tokens):
    """The same model, step by step: a hook makes it take the modules' way."""
    handle = model.body.h[0].register_forward_hook(lambda *_: None)
    try:
        return model(tokens)
    finally:
        handle.remove()


SHAPES = [
    {"layers": 1, "heads": 1, "hidden": 4},
    {"layers": 2, "heads": 3, "hidden": 6},
    {"layers": 3, "heads": 2, "hidden": 64},
]


@pytest.mark.parametrize("batch, length", [(1, 1), (3, 2), (5, 21)])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_outputs_attention_and_every_gradient_are_those_of_hugging_face(shape, batch, length):
    for seed in (0, 1):
        model = with_random_weights(GPT2(WIDTH, **shape), seed)
        theirs = hugging_face(**shape).double()
        del theirs.wte
        theirs.load_state_dict(model.body.state_dict())
        tokens = torch.randn(batch, length, WIDTH, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
        answer = model(tokens)
        found = gradients(model, answer.output)
        reference = nn.ModuleDict({"readin": model.readin, "body": theirs, "readout": model.readout})
        said = theirs(inputs_embeds=model.readin(tokens), use_cache=False, output_attentions=True)
        expected = model.readout(said.last_hidden_state[:, -1])
        attention = torch.stack([layer[:, :, -1, :-1].mean(1) for layer in said.attentions], 1)
        assert_same(gradients(reference, expected), found, 1e-9)
        torch.testing.assert_close(answer.output, expected, atol=1e-9, rtol=1e-9)
        torch.testing.assert_close(answer.attention, attention, atol=1e-9, rtol=1e-9)
        with torch.no_grad():
            torch.testing.assert_close(model.eval()(tokens).output, expected, atol=1e-9, rtol=1e-9)


def test_a_seed_starts_where_hugging_face_would():
    torch.manual_seed(3)
    ours = GPT2(WIDTH, layers=2, hidden=8, positions=16)
    torch.manual_seed(3)
    nn.Linear(WIDTH, 8)  # what reads tokens in is drawn first
    theirs = hugging_face(layers=2, hidden=8, positions=16).state_dict()
    theirs.pop("wte.weight")
    assert theirs.keys() == ours.body.state_dict().keys()
    for name, weight in ours.body.state_dict().items():
        torch.testing.assert_close(weight, theirs[name], atol=0, rtol=0)


def test_dropout_drops_what_it_says_and_has_the_gradients_of_plain_pytorch(monkeypatch):
    """Both ways get the same masks: the modules take theirs from what the passes drew."""
    batch, length, layers = 3, 6, 2
    model = with_random_weights(GPT2(WIDTH, layers=layers, heads=2, hidden=4, dropout=0.3))
    drawn = []
    original = gpt2_passes._draw
    monkeypatch.setattr(gpt2_passes, "_draw", lambda *a: drawn.append(original(*a)) or drawn[-1])
    torch.manual_seed(0)
    tokens = torch.randn(batch, length, WIDTH, dtype=torch.float64)
    answer = model.train()(tokens)
    found = gradients(model, answer.output)

    class Masked(nn.Module):
        def __init__(self, keep):
            super().__init__()
            self.keep = torch.from_numpy(keep.astype(float)) / 0.7

        def forward(self, x):
            whole = torch.ones_like(x)  # of the last block only the query is drawn
            if self.keep.dim() == 4:
                whole[:, :, -self.keep.shape[2] :] = self.keep.transpose(0, 1)
            else:
                keep = self.keep.view(batch, -1, 4)
                whole[:, -keep.shape[1] :] = keep
            return x * whole

    (first, *others), body = drawn[0], model.body
    body.drop = Masked(first)
    for i, block in enumerate(body.h):
        block.attn.attn_dropout, block.attn.resid_dropout, block.mlp.dropout = map(Masked, others[3 * i : 3 * i + 3])
    reference = plain(model, tokens)
    torch.testing.assert_close(answer.output, reference.output, atol=1e-9, rtol=1e-9)
    assert_same(gradients(model, reference.output), found, 1e-9)
    assert any((keep == 0).any() for keep in drawn[0])


def test_the_share_of_dropped_values_is_the_rate_and_each_call_draws_anew():
    torch.manual_seed(0)
    first, again = (gpt2_passes._draw([(1001, 101), (3, 5)], 0.1) for _ in range(2))
    share = 1 - first[0].mean()
    assert abs(share - 0.1) < 4 * math.sqrt(0.09 / first[0].size)
    assert abs((first[0] == again[0]).mean() - 0.82) < 0.01  # 0.9² + 0.1²
    assert abs(np.corrcoef(first[0][:-1].ravel(), first[0][1:].ravel())[0, 1]) < 0.02
    torch.manual_seed(0)
    np.testing.assert_array_equal(first[0], gpt2_passes._draw([(1001, 101), (3, 5)], 0.1)[0])


def test_prompts_answered_without_gradients_are_cut_into_chunks_that_change_nothing(monkeypatch):
    model = with_random_weights(GPT2(WIDTH, layers=2, hidden=8))
    tokens = torch.randn(9, 5, WIDTH, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    whole = model(tokens)
    monkeypatch.setattr(gpt2_passes, "CHUNK", 4)
    with torch.no_grad():
        for one, two in zip(whole, model(tokens), strict=True):
            torch.testing.assert_close(one, two, atol=1e-12, rtol=0)


def test_somebody_who_looks_inside_sees_every_position_of_every_block():
    prompts = Prompts(patterns=Patterns(dimension=10, relevant=2, irrelevant=3, outlier=0), context_length=6)
    run = iclab.train(Model(name="gpt2", options={"hidden": 8}), prompts, iclab.Recipe(steps=0), seeds=2)
    seen = run.activations(prompts, "body.h.2.mlp", count=5)
    assert seen.shape == (2, 5, 7, 8)
    _, before = run.answer(count=5)
    _, same = run.intervene({"body.h.2.mlp.act": lambda value: value}).answer(count=5)
    torch.testing.assert_close(before.output, same.output, atol=1e-6, rtol=1e-5)
    _, other = run.intervene({"body.h.2.mlp.act": 0.0}).answer(count=5)
    assert not torch.allclose(before.output, other.output, atol=1e-4)


@pytest.mark.parametrize("active", [0, 1, 4, 6])
def test_prompts_without_a_gradient_are_left_out_and_change_nothing(active, monkeypatch):
    model = with_random_weights(GPT2(WIDTH, layers=2, hidden=8, dropout=0.3))
    tokens = torch.randn(6, 5, WIDTH, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    share = torch.zeros(6, 1, dtype=torch.float64)
    share[-active or 6 :] = 1.0
    found = []
    for few in (0.75, 0.0):  # gathered, and all of them
        monkeypatch.setattr(gpt2_passes, "FEW", few)
        torch.manual_seed(0)
        read = tokens.clone().requires_grad_()
        found.append(gradients(model, model(read).output * share) | {"tokens": read.grad})
    assert_same(*found, 1e-12)
    assert (found[0]["body.wpe.weight"] != 0).any() == (active > 0)


def test_a_second_backward_pass_gives_the_same_again():
    model = with_random_weights(GPT2(WIDTH, hidden=8, dropout=0.2))
    output = model(torch.randn(2, 3, WIDTH, dtype=torch.float64)).output.sum()
    first, again = (torch.autograd.grad(output, list(model.parameters()), retain_graph=True) for _ in range(2))
    for one, two in zip(first, again, strict=True):
        torch.testing.assert_close(one, two, atol=0, rtol=0)


@pytest.mark.parametrize("weight", ["attn.c_attn.weight", "mlp.c_fc.weight", "ln_1.weight"])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_nan_and_infinite_weights_give_nan(weight, value):
    model = GPT2(WIDTH, hidden=8, layers=2)
    with torch.no_grad():
        dict(model.body.h[0].named_parameters())[weight].flatten()[5] = value
        assert model(torch.randn(2, 4, WIDTH)).output.isnan().all()


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_scores_that_are_no_numbers_have_the_softmax_of_pytorch(bad):
    from iclab.models import gpt2_kernels

    scores = torch.randn(2, 3, 4, 4, generator=torch.Generator().manual_seed(0))
    scores[:, 1, :, 1] = bad
    later = torch.ones(4, 4, dtype=torch.bool).triu(1)
    expected = torch.softmax((scores * 0.5).masked_fill(later, -torch.inf), -1)
    nothing, mixing = np.empty((0, 0, 0, 0), np.uint8), torch.empty_like(scores)
    gpt2_kernels.share(scores.numpy(), np.float32(0.5), nothing, np.float32(1), mixing.numpy())
    expected = torch.where(later, 0.0, expected)  # a later position has no share, whatever the others have
    for found in (scores, mixing):
        torch.testing.assert_close(found, expected, equal_nan=True)
