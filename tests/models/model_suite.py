"""One suite of tests that every architecture inherits, in float64 unless said otherwise.

It runs the checks that users' models can pass too (`iclab.testing`), and adds those that need the equation.
"""

import numpy as np
import pytest
import torch
from torch.func import functional_call

from iclab.models import Model, as_answer
from iclab.prompts import Outliers, Patterns, Prompts, Stream
from iclab.testing import check_model

WIDTH = 13
LENGTHS = [1, 2, 7, 20]
OUTLIERS = {"none": Outliers(), "one": Outliers(count=1), "all": Outliers(fraction=1.0), "some": Outliers(fraction=0.5)}


def prompts_of(length, outliers="some", batch=3, seed=0):
    """Dense prompts (batch, length + 1, 13), and what they were made of."""
    patterns = Patterns(dimension=WIDTH - 1, relevant=4, irrelevant=3, outlier=2)
    prompts = Prompts(patterns=patterns, context_length=length, outliers=OUTLIERS[outliers])
    drawn = prompts.draw([seed], Stream.TEST, count=batch, dtype=np.float64)
    return drawn.dense(torch.from_numpy(prompts.dictionary(patterns.basis(seed)))[None])[0], drawn


def with_random_weights(model, seed=0, scale=0.15):
    generator = torch.Generator().manual_seed(seed)
    model.double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(scale * torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    return model


def weights_of(model):
    return {name: w.detach().numpy() for name, w in model.named_parameters()}


class ModelSuite:
    """Subclass it, name the ``model`` and its ``options``, and say how to answer one prompt ``by_hand``."""

    model = ""
    options: dict = {}

    turns = True
    """Whether turning inputs and all that reads them changes nothing (a gate for each channel knows the axes)."""
    still = ()
    """Weights that read no tokens, and do not turn with them."""
    long = 2000
    """How long a long prompt is."""
    skipped: tuple[str, ...] = ()
    """Checks of `iclab.testing` that do not apply to it."""

    def described(self):
        return Model(name=self.model, options=self.options)

    def make(self):
        return self.described().build(WIDTH, context_length=8)

    def by_hand(self, weights, prompt):
        """Output, attention (layers, l) and gates (layers, l) of one prompt, by literal loops."""
        raise NotImplementedError

    @pytest.mark.parametrize("outliers", OUTLIERS)
    @pytest.mark.parametrize("length", LENGTHS)
    @pytest.mark.slow
    def test_forward_is_the_equation(self, length, outliers):
        tokens, _ = prompts_of(length, outliers)
        model = with_random_weights(self.make())
        answer = as_answer(model(tokens), len(tokens), length)
        for i, prompt in enumerate(tokens.numpy()):
            expected = self.by_hand(weights_of(model), prompt)
            for part, value in zip(answer, expected, strict=True):
                found, value = part[i].detach().numpy().squeeze(), np.squeeze(value)
                # relative to the largest: sums over examples cancel, and stacks without a norm grow large
                np.testing.assert_allclose(found, value, atol=1e-10 * max(1.0, np.abs(value).max()), rtol=1e-8)

    def test_gradients_by_finite_differences(self):
        tokens, _ = prompts_of(4, batch=2)
        model = with_random_weights(self.make())
        names = [name for name, _ in model.named_parameters()]

        def output(*values):
            return functional_call(model, dict(zip(names, values, strict=True)), (tokens,)).output

        assert torch.autograd.gradcheck(output, tuple(model.parameters()), fast_mode=True)

    def test_it_passes_the_checks_of_users_models(self):
        checked = check_model(self.described(), dtype="float64", noise=0.15)
        assert tuple(name for name in checked.skipped if name not in ("prefix", "recurrent")) == self.skipped

    def test_turning_prompts_and_weights_together_changes_nothing(self):
        if not self.turns:
            pytest.skip("its weights do not turn with the axes, or not in this way")
        tokens, _ = prompts_of(9)
        model, turned = with_random_weights(self.make()), with_random_weights(self.make())
        generator = torch.Generator().manual_seed(1)
        rotation, _ = torch.linalg.qr(torch.randn(WIDTH - 1, WIDTH - 1, dtype=torch.float64, generator=generator))
        whole = torch.block_diag(rotation, torch.ones(1, 1, dtype=torch.float64))
        with torch.no_grad():
            for name, weight in turned.named_parameters():
                old = getattr(model, name)
                if name not in self.still:
                    weight.copy_(whole @ old if name == "output" else old @ whole.T)  # all others read tokens
        for before, after in zip(model(tokens), turned(tokens @ whole.T), strict=True):
            torch.testing.assert_close(before, after, atol=1e-9, rtol=1e-9)

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    @pytest.mark.slow
    def test_long_prompts_stay_finite(self, dtype):
        tokens, _ = prompts_of(self.long, batch=1)
        model = with_random_weights(self.make(), scale=0.02).to(dtype)
        answer = model(tokens.to(dtype))
        assert all(part.isfinite().all() for part in answer)
        answer.output.sum().backward()
        assert all(parameter.grad.isfinite().all() for parameter in model.parameters())
