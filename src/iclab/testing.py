"""Checks that every model passes: the built-in ones, and yours.

    import iclab.testing

    print(iclab.testing.check_model(Mine))

raises an `AssertionError` that names the first check that fails, or returns what passed and what was skipped. In
pytest, every check can be a test of its own:

    @pytest.mark.parametrize("name, check", iclab.testing.checks())
    def test_mine(name, check):
        check(Mine)
"""

from __future__ import annotations

import functools
import math
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal
from unittest import SkipTest

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from iclab.config import InputError, what_was_raised
from iclab.engines import Recipe, Trained, Training, answers, train, weights
from iclab.engines.ensemble import Draws, OneByOne, Stacked, ask, restore, tensors
from iclab.engines.rehearsal import drawn, fresh_modules, rehearse_answers, rehearse_training
from iclab.models import Model
from iclab.prompts import Outliers, Patterns, Prompts, Stream

DType = Literal["float32", "float64"]
PROMPTS = Prompts(
    patterns=Patterns(dimension=12, relevant=4, irrelevant=3, outlier=2),
    context_length=8,
    outliers=Outliers(fraction=0.5),
)
"""Small prompts that every model should be able to take."""
RECIPE = Recipe(steps=3, batch_size=8, step_size=0.1, clip=1.0)
"""A few steps that are short enough for any model."""
SEEDS = (0, 1, 2)
TOLERANCE = {"float32": 1e-4, "float64": 1e-9}
"""How far numbers that should agree may be apart, relative to the largest of them."""


@dataclass(frozen=True)
class Checked:
    """Which checks a model has passed, and which were skipped and why."""

    model: str
    passed: tuple[str, ...]
    skipped: Mapping[str, str]

    def __str__(self) -> str:
        lines = [f"{self.model}: {len(self.passed)} checks passed, {len(self.skipped)} skipped"]
        lines += [f"  passed   {name}: {what_passes(name)}" for name in self.passed]
        lines += [f"  skipped  {name}: {reason}" for name, reason in self.skipped.items()]
        return "\n".join(lines)

    __repr__ = __str__


def check_model(
    model: str | type[nn.Module] | Model,
    prompts: Prompts | None = None,
    options: Mapping[str, Any] | None = None,
    *,
    dtype: DType = "float32",
    noise: float = 0.0,
) -> Checked:
    """Check a model in every way in which iclab will use it.

    Args:
        model: your class, a built-in name, or a `Model`.
        prompts: what it is to answer; by default small prompts of 8 examples.
        options: keyword arguments of its constructor.
        dtype: ``float32`` or ``float64``.
        noise: the size of random numbers that are added to the parameters for checks of answers and gradients. A start
            that is the identity or 0 may hide a mistake.

    Raises:
        AssertionError: names the first check that it fails, and says why.

    Example:
        >>> check_model("linear").skipped
        {}
    """
    passed, skipped = [], {}
    for name, check in checks():
        try:
            check(model, prompts, options, dtype=dtype, noise=noise)
        except SkipTest as reason:
            skipped[name] = str(reason)
        else:
            passed.append(name)
    return Checked(_described(model, options).label, tuple(passed), skipped)


def checks() -> list[tuple[str, Callable[..., None]]]:
    """Return the checks with their names. Each takes what `check_model` takes, and raises if the model fails it.

    One that does not apply raises ``unittest.SkipTest``, which pytest counts as skipped.
    """
    return [(name, functools.partial(_run, name, function)) for name, function in _CHECKS.items()]


def what_passes(name: str) -> str:
    """Return what a check requires: its docstring."""
    return _CHECKS[name].__doc__ or name


def _run(
    name: str,
    function: Callable[[_Subject], None],
    model: str | type[nn.Module] | Model,
    prompts: Prompts | None = None,
    options: Mapping[str, Any] | None = None,
    *,
    dtype: DType = "float32",
    noise: float = 0.0,
) -> None:
    described = _described(model, options)
    try:
        function(_subject(described, prompts or PROMPTS, dtype, noise))
    except SkipTest:
        raise
    except Exception as error:  # a user's module may raise anything
        reason = str(error) if isinstance(error, (AssertionError, InputError)) else what_was_raised(error)
        raise AssertionError(f"{described.label} fails the check {name}: {reason}") from error.__cause__ or error


def _described(model: str | type[nn.Module] | Model, options: Mapping[str, Any] | None) -> Model:
    if isinstance(model, Model):
        return model.replace(options={**model.options, **options}) if options else model
    return Model(name=model, options=dict(options or {}))


class _Subject:
    """A model to be checked, and what several checks need of it."""

    def __init__(self, model: Model, prompts: Prompts, dtype: DType, noise: float) -> None:
        self.prompts, self.dtype, self.tolerance, self.noise = prompts, dtype, TOLERANCE[dtype], noise
        self._whole = Training(model=model, prompts=prompts, recipe=RECIPE, engine="reference", dtype=dtype)
        self.still = self._whole.replace(recipe=Recipe(steps=0))

    @cached_property
    def lazy(self) -> bool:
        """Whether the first forward pass makes parameters or buffers."""
        return rehearse_answers(self.still, self.prompts).lazy

    @cached_property
    def trains(self) -> bool:
        """Whether it has anything to train."""
        return any(p.requires_grad for p in self.fresh().parameters())

    @property
    def training(self) -> Training:
        """A few steps, or none if there is nothing to train."""
        return self._whole if self.trains else self.still

    @cached_property
    def trained(self) -> Trained:
        """The model after a few steps."""
        return train(self.training, SEEDS)

    def fresh(self) -> nn.Module:
        """Return the module of seed 0 as training starts with it."""
        return fresh_modules(self.still, (0,), self.lazy)[0]

    def modules(self, seeds: tuple[int, ...] = SEEDS) -> list[nn.Module]:
        """Return trained modules that a check may use up."""
        modules, found = fresh_modules(self.training, seeds, self.lazy), weights(self.trained.select(seeds))
        for row, module in enumerate(modules):
            restore(module, {name: weight[row] for name, weight in found.items()})
            with torch.no_grad():
                for p in module.parameters() if self.noise else ():
                    p.add_(self.noise * torch.randn(p.shape, generator=torch.Generator().manual_seed(seeds[row])))
        return modules

    def tokens(self, count: int, prompts: Prompts | None = None, seeds: tuple[int, ...] = SEEDS) -> Tensor:
        """Return prompts (seeds, count, l + 1, width)."""
        return drawn(self.still, prompts or self.prompts, count, seeds, Stream.TEST)

    def answer(self, module: nn.Module, tokens: Tensor) -> Tensor:
        """Answer as in evaluation, (batch, 1)."""
        with torch.no_grad(), Draws() as draws:
            draws.seed(0)
            return ask(module.eval(), tokens.clone()).output

    def need_parameters(self) -> None:
        """Skip a check of training for a model that is not trained."""
        if not self.trains:
            raise SkipTest("it has no parameters to train")

    def same(self, first: Tensor, second: Tensor, what: str) -> None:
        """Require that two tensors agree, up to rounding."""
        gap, largest = _gap(first, second), float(first.detach().nan_to_num().abs().max())
        assert gap <= self.tolerance * max(largest, 1e-30), f"{what} differ by {gap:.3g}"


_latest: dict[Any, _Subject] = {}


def _subject(model: Model, prompts: Prompts, dtype: DType, noise: float) -> _Subject:
    """Return the subject of a check; the last one is kept, because the next check is of the same model."""
    kind = model.name if isinstance(model.name, str) else model.name.load()
    key = (kind, repr(sorted(model.options.items())), prompts, dtype, noise)
    if key not in _latest:
        subject = _Subject(model, prompts, dtype, noise)
        _latest.clear()
        _latest[key] = subject
    return _latest[key]


def _gap(first: Tensor, second: Tensor | None) -> float:
    """Return the largest difference; infinite if shapes differ or only one of two numbers is NaN."""
    if second is None or first.shape != second.shape or not torch.equal(first.isnan(), second.isnan()):
        return math.inf
    if not first.numel():
        return 0.0
    return float((first.detach().double() - second.detach().double()).nan_to_num(nan=0.0, posinf=math.inf).abs().max())


def _builds(subject: _Subject) -> None:
    """A seed always builds the same weights, and every seed weights of the same shapes."""
    one, again, other = (
        {name: tensor.detach() for name, tensor in tensors(module).items() if not is_lazy(tensor)}
        for seed in (0, 0, 1)
        for module in fresh_modules(subject.still, (seed,))
    )
    for name, tensor in one.items():
        assert _gap(tensor, again.get(name)) == 0, f"{name} is not the same for the same seed"
        shape = other[name].shape if name in other else None
        assert tensor.shape == shape, f"{name} has another shape for another seed, {shape}"


def _shape(subject: _Subject) -> None:
    """One finite output per prompt, for any number of prompts, in evaluation and in training."""
    module, tokens = subject.fresh(), subject.tokens(5)[0]
    for size in (1, 2, 5):
        found = subject.answer(module, tokens[:size])  # which checks shape, dtype and device
        assert found.isfinite().all(), "an output is not finite"
    with Draws() as draws:
        draws.seed(0)
        ask(module.train(), tokens.clone())


def _gradients(subject: _Subject) -> None:
    """A training step has finite gradients, and not all are 0."""
    subject.need_parameters()
    module = subject.fresh()
    with Draws() as draws:
        draws.seed(0)
        output = ask(module.train(), subject.tokens(5)[0]).output
        assert output.requires_grad, "torch cannot trace the output back to any parameter"
        output.sum().backward()
    found = {name: p.grad for name, p in module.named_parameters() if p.requires_grad and p.grad is not None}
    assert found, "no parameter gets a gradient"
    for name, gradient in found.items():
        assert gradient.isfinite().all(), f"the gradient of {name} is not finite"
    assert any(gradient.any() for gradient in found.values()), "every gradient is 0"


def _trains(subject: _Subject) -> None:
    """Training runs, moves weights, and gives the same weights when it is run again."""
    subject.need_parameters()
    first, again = subject.trained, train(subject.training, SEEDS)
    assert not first.diverged.any(), f"after {RECIPE.steps} small steps the loss or a weight is not finite"
    before, after = weights(first, 0), weights(first)
    for name, weight in after.items():
        assert _gap(weight, weights(again)[name]) == 0, f"{name} is not the same after the same training"
    assert any(_gap(before[name], weight) > 0 for name, weight in after.items()), "training moves no weight"


def _deterministic(subject: _Subject) -> None:
    """The same weights and prompts give the same answers in evaluation, whatever was drawn before."""
    (module,) = subject.modules((0,))
    with torch.no_grad(), Draws() as draws:
        draws.seed(0)
        found = [ask(module.eval(), subject.tokens(5)[0]).output for _ in range(2)]
    assert _gap(*found) == 0, f"two calls in evaluation differ by {_gap(*found):.3g}; is a random layer still on?"


def _untouched(subject: _Subject) -> None:
    """An answer in evaluation changes no weights."""
    (module,) = subject.modules((0,))
    before = {name: tensor.detach().clone() for name, tensor in tensors(module).items()}
    subject.answer(module, subject.tokens(5)[0])
    for name, tensor in tensors(module).items():
        assert name in before, f"an answer in evaluation makes {name}"
        assert _gap(before[name], tensor.detach()) == 0, f"an answer in evaluation changes {name}"


def _batch(subject: _Subject) -> None:
    """The answer to a prompt does not depend on the other prompts of its batch."""
    (module,) = subject.modules((0,))
    tokens = subject.tokens(5)[0]
    whole = subject.answer(module, tokens)
    subject.same(whole[2:3], subject.answer(module, tokens[2:3]), "answers to a prompt alone and among others")
    subject.same(whole, subject.answer(module, tokens.flip(0)).flip(0), "answers in another order")


def _lengths(subject: _Subject) -> None:
    """It also takes shorter and longer prompts."""
    (module,) = subject.modules((0,))
    own = subject.prompts.context_length
    for length in sorted({max(1, own // 2), own + 5}):
        try:
            subject.answer(module, subject.tokens(3, subject.prompts.replace(context_length=length))[0])
        except Exception as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise SkipTest(f"it takes prompts of {own} examples, but not of {length} ({reason})") from error


def _stacked(subject: _Subject) -> None:
    """Seeds that are stacked answer as single ones do, and have the same gradients."""
    subject.need_parameters()
    if obstacle := rehearse_training(subject.training).obstacle:
        raise SkipTest(f"its seeds are not stacked: {obstacle}")
    tokens, modules = subject.tokens(5), subject.modules()
    stacked, single = Stacked([module.train() for module in modules], SEEDS), OneByOne(modules, SEEDS)
    outputs = [ensemble.forward(tokens.clone(), training=True).output for ensemble in (stacked, single)]
    subject.same(outputs[1], outputs[0], "stacked and single answers")
    for output in outputs:
        output.sum().backward()
    alone = [dict(module.named_parameters()) for module in modules]
    for name, parameter in stacked.named_parameters().items():
        if parameter.grad is not None:
            singles = torch.stack([torch.zeros_like(p[name]) if (g := p[name].grad) is None else g for p in alone])
            subject.same(singles, parameter.grad, f"stacked and single gradients of {name}")


def _seeds(subject: _Subject) -> None:
    """A seed that is trained with others has the weights that it has alone."""
    subject.need_parameters()
    together, shuffled = subject.trained, train(subject.training, SEEDS[::-1]).select(SEEDS)
    for seed in SEEDS:
        alone = weights(train(subject.training, (seed,)))
        for name, weight in weights(together.select((seed,))).items():
            subject.same(alone[name], weight, f"{name} of seed {seed}, trained alone and with others,")
            other = weights(shuffled.select((seed,)))[name]
            subject.same(alone[name], other, f"{name} of seed {seed}, trained alone and in another order,")


def _measures(subject: _Subject) -> None:
    """Trained seeds are measured, in evaluation mode, with finite answers that do not depend on how many are asked."""
    few, many = (_outputs(subject.trained, subject.prompts, count) for count in (3, 7))
    assert many.isfinite().all(), "an answer is not finite"
    subject.same(many[:, :3], few, "answers to the first 3 of 7 prompts and to 3 prompts")


def _saves(subject: _Subject) -> None:
    """Weights that are saved and loaded are the same, and answer alike."""
    with tempfile.TemporaryDirectory() as folder:
        subject.trained.save(Path(folder) / "weights.safetensors")
        loaded = Trained.load(Path(folder) / "weights.safetensors", subject.training)
    for name, weight in weights(subject.trained).items():
        assert name in weights(loaded), f"{name} is lost"
        assert _gap(weight, weights(loaded)[name]) == 0, f"{name} is changed"
    found = [_outputs(trained, subject.prompts, 3) for trained in (subject.trained, loaded)]
    assert _gap(*found) == 0, "answers before and after differ"


def _outputs(trained: Trained, prompts: Prompts, count: int) -> Tensor:
    return torch.cat([answer.output for _, answer in answers(trained, prompts, count)], dim=1)


def _double(subject: _Subject) -> None:
    """It also runs in float64."""
    if subject.dtype == "float64":
        return
    try:
        _outputs(train(subject.training.replace(dtype="float64"), (0,)), subject.prompts, 2)
    except InputError as error:
        raise SkipTest(f"it does not run in float64: {error}") from error


_CHECKS: dict[str, Callable[[_Subject], None]] = {
    "builds": _builds,
    "shape": _shape,
    "gradients": _gradients,
    "trains": _trains,
    "deterministic": _deterministic,
    "untouched": _untouched,
    "batch": _batch,
    "lengths": _lengths,
    "stacked": _stacked,
    "seeds": _seeds,
    "measures": _measures,
    "saves": _saves,
    "double": _double,
}
"""In this order, so that the first that fails says most."""
