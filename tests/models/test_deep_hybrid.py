"""`deep-hybrid`: literal loops over layers of different kinds, and equal layers against the deep models."""

import re

import numpy as np
import pytest
import torch
from model_suite import WIDTH, prompts_of, with_random_weights
from scipy.special import expit as sigmoid
from test_deep import DeepSuite

from iclab.models import DeepHybrid, DeepLinear, DeepMamba, DeepSoftmax, Model
from iclab.prompts import Patterns


class HybridSuite(DeepSuite):
    """One head. Only layers of Mamba have a gate, and the gates are in the order of these layers."""

    kind = DeepHybrid
    options = {"layers": "mamba,softmax,linear"}

    def described(self):
        return Model(name="deep-hybrid", options=self.options)

    def divides(self, options, layer):
        return self.options.get("norm", "own") == "rms" or options.names[layer] != "linear"

    def share(self, weights, layer, head, tokens, i):
        names, length = self.options["layers"].split(","), len(tokens)
        scores = self.scores(weights, layer, head, tokens, i)
        if names[layer] == "linear":
            return scores / (length - 1), np.ones(length)
        if names[layer] == "softmax":
            powers = np.exp(scores) * (np.arange(length) < length - 1)
            return powers / powers.sum(), np.ones(length)
        entry = sigmoid(tokens @ weights["gate"][names[:layer].count("mamba"), head, 0])
        return scores, np.array([entry[j] * np.prod(1 - entry[j + 1 : i + 1]) * (j <= i) for j in range(length)])


class TestHybridDefault(HybridSuite):
    pass


class TestHybridGatesApart(HybridSuite):
    options = {"layers": "mamba,linear,mamba", "norm": "rms", "residual": False, "values": True}


ALIKE = {
    "mamba": (DeepMamba, {}),
    "linear": (DeepLinear, {}),
    "softmax": (DeepSoftmax, {}),
    "mamba with heads": (DeepMamba, {"heads": 2, "residual": False}),
    "linear with a norm": (DeepLinear, {"norm": "rms", "values": True}),
    "softmax without a norm": (DeepSoftmax, {"norm": "none", "heads": 3}),
}


@pytest.mark.parametrize("name", ALIKE)
def test_a_hybrid_of_equal_layers_is_the_deep_model(name):
    """To the last bit: the start, the answer and the gradients."""
    kind, options = ALIKE[name]
    tokens, _ = prompts_of(11)
    basis = Patterns(dimension=WIDTH - 1, relevant=4, irrelevant=3, outlier=2).basis(0)
    models = (
        DeepHybrid(width=WIDTH, layers=",".join([name.split()[0]] * 3), **options).double(),
        kind(width=WIDTH, layers=3, **options).double(),
    )
    answers = []
    for model in models:
        model.initialise(basis, seed=4)
        answers.append(model(tokens))
        answers[-1].output.sum().backward()
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(*answers, strict=True))
    ours, theirs = (dict(model.named_parameters()) for model in models)
    assert ours.keys() == theirs.keys()
    for name, weight in theirs.items():
        assert torch.equal(ours[name], weight), name
        assert torch.equal(ours[name].grad, weight.grad), name


def test_the_order_of_layers_matters():
    tokens, _ = prompts_of(11)
    first, second = (
        with_random_weights(DeepHybrid(width=WIDTH, layers=layers))(tokens).output
        for layers in ("mamba,softmax", "softmax,mamba")
    )
    assert not torch.allclose(first, second, rtol=1e-3)


BAD = {
    "a layer nobody knows": ({"layers": "mamba,conv"}, "'conv' is no layer; name mamba, linear or softmax"),
    "a hybrid of nothing": ({"layers": ""}, "layers = '': '' is no layer"),
    "a hybrid of a number": ({"layers": 3}, "layers = 3: 3 is no layer; name mamba"),
    "a hybrid's norm": ({"norm": "layer"}, "norm = 'layer': must be own, none or rms"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_options_are_refused_in_one_line(case):
    options, message = BAD[case]
    with pytest.raises(ValueError, match=re.escape(message)):
        Model(name="deep-hybrid", options=options)
