"""The deep models: the inherited suite against literal loops, one layer against the one-layer models, and limits."""

import re

import numpy as np
import pytest
import torch
from model_suite import WIDTH, ModelSuite, prompts_of, with_random_weights
from scipy.special import expit as sigmoid

from iclab.config import InputError
from iclab.models import DeepLinear, DeepMamba, DeepSoftmax, Linear, Mamba, Model, Softmax, as_answer
from iclab.models.deep_mamba import gate_matrix
from iclab.prompts import Patterns


def divided(tokens):
    return np.array([token / np.sqrt(np.mean(token**2) + 1e-6) for token in tokens])


class DeepSuite(ModelSuite):
    """Every sum of `iclab.models.deep` as a loop over positions i, heads h and tokens j."""

    kind = None
    long = 800  # a matrix for each layer and head

    def described(self):
        return Model(name=self.kind.name, options={"layers": 3, **self.options})

    def share(self, weights, layer, head, tokens, i):
        """What position i takes of every token, (l + 1,) or (l + 1, channels): attention and gate apart."""
        raise NotImplementedError

    def scores(self, weights, layer, head, tokens, i):
        if self.make().norm == "scores":
            tokens = divided(tokens)
        key, query = weights["key"][layer, head], weights["query"][layer, head]
        return np.array([token @ key.T @ query @ tokens[i] for token in tokens])

    def by_hand(self, weights, prompt):
        stream, attention, gates = prompt, [], []
        options = self.make()
        for layer in range(options.layers):
            tokens = stream.copy()
            if self.divides(options, layer):
                tokens = divided(stream)
            new = np.zeros_like(stream)
            for i in range(len(stream)):
                here = []
                for head in range(options.heads):
                    score, gate = self.share(weights, layer, head, tokens, i)
                    total = 0.0
                    for j, token in enumerate(tokens):
                        value = weights["value"][layer, head] @ token if "value" in weights else token
                        total = total + score[j] * gate[j] * value
                    new[i] += weights["output"][layer, head] @ total if "output" in weights else total
                    label = gate[:, -1] if np.ndim(gate) > 1 else gate
                    here.append((score[:-1], label[:-1]))
            attention.append(self.together([score for score, _ in here]))
            gates.append(np.mean([gate for _, gate in here], axis=0))
            new = stream + new if options.residual else new
            stream = new if options.stream == "full" else np.concatenate([prompt[:, :-1], new[:, -1:]], axis=1)
        return stream[-1, -1], np.array(attention), np.array(gates)

    def divides(self, options, layer):
        """Whether a norm stands before a layer."""
        return options.norm == "rms"

    def together(self, scores):
        return np.sum(scores, axis=0)


class MambaSuite(DeepSuite):
    kind = DeepMamba

    def share(self, weights, layer, head, tokens, i):
        gate = weights["gate"][layer, head]  # (channels, d + 1)
        gates = np.zeros((len(tokens), len(gate)))
        for j in range(i + 1):
            gates[j] = sigmoid(gate @ tokens[j])
            for k in range(j + 1, i + 1):
                gates[j] *= 1.0 - sigmoid(gate @ tokens[k])
        return self.scores(weights, layer, head, tokens, i), gates

    def test_recurrence_is_the_parallel_form_with_its_gradients(self):
        for length in (1, 7, 20):
            tokens, _ = prompts_of(length)
            models = [self.kind(width=WIDTH, **self.options, form=form) for form in ("parallel", "recurrence")]
            answers = [with_random_weights(model)(tokens) for model in models]
            for first, second in zip(*answers, strict=True):
                torch.testing.assert_close(first, second, atol=1e-10, rtol=1e-10)
            for answer in answers:
                answer.output.sum().backward()
            for first, second in zip(*(model.parameters() for model in models), strict=True):
                torch.testing.assert_close(first.grad, second.grad, atol=1e-9, rtol=1e-9)

    @pytest.mark.parametrize("strength", [0.02, 0.3, 3.0])
    @pytest.mark.slow
    def test_recurrence_is_the_parallel_form_for_long_prompts(self, strength):
        """Gates that hardly decay, and gates that are shut or open: outputs and gradients, in float64."""
        tokens, _ = prompts_of(self.long, batch=1)
        models = [self.kind(width=WIDTH, layers=2, **self.options, form=form) for form in ("parallel", "recurrence")]
        outputs = []
        for model in models:
            with_random_weights(model, scale=0.03)
            with torch.no_grad():
                model.gate.mul_(strength / 0.03)
            outputs.append(model(tokens).output)
            outputs[-1].sum().backward()
        torch.testing.assert_close(outputs[0], outputs[1], atol=1e-12, rtol=1e-9)
        for first, second in zip(*(model.parameters() for model in models), strict=True):
            torch.testing.assert_close(first.grad, second.grad, atol=1e-10, rtol=1e-8)


class TestMambaPlain(MambaSuite):
    options = {"residual": False, "norm": "none"}


class TestMambaDefault(MambaSuite):
    options = {}


class TestMambaLabelOnly(MambaSuite):
    options = {"stream": "label", "norm": "none"}


class TestMambaNormOfScores(MambaSuite):
    options = {"norm": "scores", "heads": 2}


class TestMambaHeads(MambaSuite):
    options = {"heads": 3, "residual": True}


class TestMambaChannels(MambaSuite):
    options = {"gating": "channel", "residual": True, "norm": "rms"}
    turns = False
    long = 300  # and for each channel


class TestMambaChannelsAndHeads(MambaSuite):
    options = {"gating": "channel", "heads": 2, "residual": False, "norm": "rms"}
    turns = True  # the channels are those of W_V's output, which does not turn
    long = 300


class LinearSuite(DeepSuite):
    kind = DeepLinear

    def share(self, weights, layer, head, tokens, i):
        length = len(tokens)
        sees, divide = self.make().sees, self.make().divide
        allowed = {"all": range(length), "past": range(i + 1), "context": range(length - 1)}[sees]
        scores = self.scores(weights, layer, head, tokens, i) / (length - 1 if divide else 1)
        return np.array([s if j in allowed else 0.0 for j, s in enumerate(scores)]), np.ones(length)


class TestLinearDefault(LinearSuite):
    options = {}


class TestLinearLabelOnly(LinearSuite):
    options = {"stream": "label", "residual": False}


class TestLinearUndivided(LinearSuite):
    options = {"divide": False, "residual": False}


class TestLinearPastWithNorm(LinearSuite):
    options = {"sees": "past", "norm": "rms"}


class TestLinearHeads(LinearSuite):
    options = {"heads": 4, "sees": "context"}


class SoftmaxSuite(DeepSuite):
    kind = DeepSoftmax

    def share(self, weights, layer, head, tokens, i):
        length = len(tokens)
        allowed = {"all": range(length), "past": range(i + 1), "context": range(length - 1)}[self.make().sees]
        powers = np.exp(self.scores(weights, layer, head, tokens, i))
        powers = np.array([p if j in allowed else 0.0 for j, p in enumerate(powers)])
        return powers / powers.sum(), np.ones(length)

    def together(self, scores):
        return np.mean(scores, axis=0)


class TestSoftmaxDefault(SoftmaxSuite):
    options = {}


class TestSoftmaxLabelOnly(SoftmaxSuite):
    options = {"stream": "label", "heads": 2}


class TestSoftmaxNormOfScores(SoftmaxSuite):
    options = {"norm": "scores"}


class TestSoftmaxPast(SoftmaxSuite):
    options = {"sees": "past", "norm": "none"}


class TestSoftmaxHeads(SoftmaxSuite):
    options = {"heads": 2, "sees": "all", "residual": False}


PAIRS = {
    "mamba": (Mamba, DeepMamba, {}),
    "mamba by channel": (Mamba, DeepMamba, {"gating": "channel"}),
    "linear": (Linear, DeepLinear, {"divide": False}),
    "softmax": (Softmax, DeepSoftmax, {}),
}


@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("values", [False, True])
@pytest.mark.parametrize("name", PAIRS)
def test_one_deep_layer_is_the_one_layer_model(name, values, residual):
    one, deep, options = PAIRS[name]
    tokens, _ = prompts_of(11)
    basis = Patterns(dimension=WIDTH - 1, relevant=4, irrelevant=3, outlier=2).basis(0)
    models = (
        one(width=WIDTH).double(),
        deep(width=WIDTH, layers=1, norm="none", residual=residual, values=values, **options).double(),
    )
    for model in models:
        model.initialise(basis, seed=4)
    answers = [as_answer(model(tokens), 3, 11) for model in models]
    for first, second in zip(*answers, strict=True):
        torch.testing.assert_close(first, second, atol=1e-12, rtol=1e-12)
    assert answers[0].output.abs().min() > 0
    for answer in answers:
        answer.output.sum().backward()
    torch.testing.assert_close(models[0].key.grad, models[1].key.grad[0, 0], atol=1e-12, rtol=1e-12)
    if name.startswith("mamba"):
        torch.testing.assert_close(models[0].gate.grad, models[1].gate.grad[0, 0, -1], atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("heads", [1, 2, 3, 4])
@pytest.mark.parametrize("kind", [DeepLinear, DeepMamba])
def test_heads_of_one_layer_start_as_one(kind, heads):
    """W_V and W_O start as a cut and its inverse, and the heads' keys as slices of one key (with gates alike)."""
    tokens, _ = prompts_of(7)
    whole, cut = (kind(width=WIDTH, layers=1, norm="none", heads=h, values=h > 1).double() for h in (1, heads))
    for part, other in zip(whole(tokens), cut(tokens), strict=True):
        torch.testing.assert_close(part, other, atol=1e-12, rtol=1e-12)


def test_heads_of_several_layers_do_not_start_as_one():
    """Each head weighs its own slice of the inputs: what `iclab.models.deep` says of the start."""
    tokens, _ = prompts_of(7)
    whole, cut = (DeepLinear(width=WIDTH, layers=2, heads=h, values=True).double() for h in (1, 3))
    assert not torch.allclose(whole(tokens).output, cut(tokens).output, rtol=1e-3)


def test_heads_of_linear_attention_without_values_are_one():
    """The algebra in `iclab.models.deep`: a sum of heads is a head whose W_BᵀW_C is the sum."""
    model = with_random_weights(DeepLinear(width=WIDTH, layers=1, heads=3))
    tokens, _ = prompts_of(7)
    heads = model.scores(0, tokens, tokens).sum(1)
    joint = sum(model.query[0, h].T @ model.key[0, h] for h in range(3))
    torch.testing.assert_close(heads, tokens @ joint @ tokens.mT, atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize("kind", [DeepMamba, DeepLinear, DeepSoftmax])
def test_layers_see_only_what_earlier_layers_wrote(kind):
    """Shortening the stack gives the same attention and gates in the layers that are left."""
    tokens, _ = prompts_of(7)
    deep, shallow = (with_random_weights(kind(width=WIDTH, layers=layers)) for layers in (3, 2))
    with torch.no_grad():
        for long, short in zip(deep.parameters(), shallow.parameters(), strict=True):
            short.copy_(long[:2])
    for long, short in zip(deep(tokens)[1:], shallow(tokens)[1:], strict=True):
        torch.testing.assert_close(long[:, :2], short)


@pytest.mark.parametrize("kind", [DeepMamba, DeepLinear, DeepSoftmax])
def test_a_label_only_stream_keeps_the_inputs(kind):
    """Every layer reads the prompt's own inputs, and scores are those of a first layer but for the label's entries."""
    tokens, _ = prompts_of(7)
    model = with_random_weights(kind(width=WIDTH, stream="label"))
    read = []
    for layer in model.layer:
        layer["stream"].register_forward_hook(lambda module, given, result: read.append(result))
    model(tokens)
    assert len(read) == 3
    for stream in read:
        torch.testing.assert_close(stream[..., :-1], tokens[..., :-1], atol=0, rtol=0)
    assert not torch.allclose(read[1][..., -1], read[0][..., -1])


def test_gates_are_what_the_recurrence_leaves():
    """Gates and what remains of the start add up to 1 at every position, however long the prompt."""
    for strength in (0.01, 1.0, 30.0):
        logits = strength * torch.randn(2, 500, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        gates = gate_matrix(logits)
        assert (gates.triu(1) == 0).all()
        left = torch.sigmoid(-logits).log().cumsum(-1).exp()
        torch.testing.assert_close(gates.sum(-1) + left, torch.ones_like(left), atol=1e-12, rtol=0)


def test_causal_models_do_not_see_what_comes_later():
    tokens, _ = prompts_of(9)
    changed = tokens.clone()
    changed[:, 6:] += 1.0
    for model in (DeepMamba(width=WIDTH), DeepLinear(width=WIDTH, sees="past")):
        with_random_weights(model)
        kept, other = (model.mix(0, t, 10, False).values[:, :, :6] for t in (tokens, changed))
        torch.testing.assert_close(kept, other, atol=0, rtol=0)


@pytest.mark.parametrize("sees", ["all", "context"])
@pytest.mark.parametrize("kind", [DeepLinear, DeepSoftmax])
def test_order_does_not_matter_to_attention_that_sees_everything(kind, sees):
    tokens, _ = prompts_of(9)
    order = torch.randperm(9, generator=torch.Generator().manual_seed(0)).tolist()
    model = with_random_weights(kind(width=WIDTH, sees=sees))
    before, after = model(tokens), model(tokens[:, [*order, 9]])
    torch.testing.assert_close(before.output, after.output, atol=1e-10, rtol=1e-10)
    torch.testing.assert_close(before.attention[..., order], after.attention, atol=1e-10, rtol=1e-10)


def test_softmax_attention_sums_to_one():
    tokens, _ = prompts_of(9)
    attention = with_random_weights(DeepSoftmax(width=WIDTH, heads=2))(tokens).attention
    torch.testing.assert_close(attention.sum(-1), torch.ones(3, 3, dtype=torch.float64))


def test_a_norm_makes_the_size_of_tokens_unknowable():
    """With a norm before every layer and no residual stream, tokens k times as long say the same."""
    tokens, _ = prompts_of(9)
    model = with_random_weights(DeepMamba(width=WIDTH, norm="rms", residual=False))
    torch.testing.assert_close(model(tokens).output, model(1e3 * tokens).output, atol=1e-5, rtol=1e-5)


BAD = {
    "no layers": ("deep-mamba", {"layers": 0}, "layers = 0: must be a whole number of at least 1"),
    "half a layer": ("deep-linear", {"layers": 1.5}, "layers = 1.5: must be a whole number of at least 1"),
    "no heads": ("deep-softmax", {"heads": 0}, "heads = 0: must be a whole number of at least 1"),
    "a stream nobody knows": ("deep-mamba", {"stream": "query"}, "stream = 'query': must be full or label"),
    "a norm nobody knows": ("deep-linear", {"norm": "layer"}, "norm = 'layer': must be none, rms or scores"),
    "a gate nobody knows": ("deep-mamba", {"gating": "matrix"}, "gating = 'matrix': must be scalar or channel"),
    "a form nobody knows": ("deep-mamba", {"form": "closed"}, "form = 'closed': must be parallel or recurrence"),
    "looking elsewhere": ("deep-softmax", {"sees": "future"}, "sees = 'future': must be all, past or context"),
    "heads without values": ("deep-linear", {"heads": 2, "values": False}, "2 heads need values of their own"),
    "half a residual stream": ("deep-mamba", {"residual": 3}, "residual = 3: must be true or false"),
    "dividing by a word": ("deep-linear", {"divide": "l"}, "divide = 'l': must be true or false"),
    "a gate where none is": ("deep-linear", {"gating": "scalar"}, "unknown option"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_options_are_refused_in_one_line(case):
    name, options, message = BAD[case]
    with pytest.raises(ValueError, match=re.escape(message)):
        Model(name=name, options=options)


def test_heads_must_divide_the_dimension():
    with pytest.raises(InputError, match=r"^model = deep-linear: heads = 4: must divide the dimension 30$"):
        Model(name="deep-linear", options={"heads": 4}).build(width=31, context_length=20)
