"""Checks of how a module is built and what a pass through it does."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from unittest import SkipTest

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from iclab.engines import weights
from iclab.engines.ensemble import Draws, ask, tensors
from iclab.engines.rehearsal import fresh_modules
from iclab.engines.trained import bases
from iclab.models import Architecture
from iclab.testing.subject import Subject, gap


def builds(subject: Subject) -> None:
    """A seed always builds the same weights, and every seed weights of the same shapes."""
    one, again, other = (
        {name: tensor.detach() for name, tensor in tensors(module).items() if not is_lazy(tensor)}
        for seed in (0, 0, 1)
        for module in fresh_modules(subject.still, (seed,))
    )
    for name, tensor in one.items():
        assert gap(tensor, again.get(name)) == 0, f"{name} is not the same for the same seed"
        shape = other[name].shape if name in other else None
        assert tensor.shape == shape, f"{name} has another shape for another seed, {shape}"


def start(subject: Subject) -> None:
    """Training starts from the very weights that its constructor makes after `torch.manual_seed`."""
    still, kind = subject.still, torch.get_default_dtype()
    prompts = still.prompts
    try:
        torch.set_default_dtype(getattr(torch, still.dtype))
        with Draws() as draws:
            draws.seed(0)
            module = still.model.build(prompts.width, prompts.context_length, prompts.label_width)
    finally:
        torch.set_default_dtype(kind)
    if isinstance(module, Architecture):  # it asks for the patterns, to draw weights along them
        module.initialise(bases(still, (0,))[0], 0)
    first = weights(subject.trained.select((0,)), 0)
    for name, tensor in tensors(module).items():
        if not is_lazy(tensor):
            found = first[name][0] if name in first else None
            assert gap(tensor.detach().to(getattr(torch, still.dtype)), found) == 0, (
                f"training starts with another {name}"
            )


def shape(subject: Subject) -> None:
    """One finite output per prompt, for any number of prompts, in evaluation and in training."""
    module, tokens = subject.fresh(), subject.tokens(5)[0]
    for size in (1, 2, 5):
        found = subject.answer(module, tokens[:size])  # which checks shape, dtype and device
        assert found.isfinite().all(), "an output is not finite"
    with Draws() as draws:
        draws.seed(0)
        ask(module.train(), tokens.clone())


def gradients(subject: Subject) -> None:
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


def deterministic(subject: Subject) -> None:
    """The same weights and prompts give the same answers in evaluation, whatever was drawn before."""
    (module,) = subject.modules((0,))
    with torch.no_grad(), Draws() as draws:
        draws.seed(0)
        found = [ask(module.eval(), subject.tokens(5)[0]).output for _ in range(2)]
    assert gap(*found) == 0, f"two calls in evaluation differ by {gap(*found):.3g}; is a random layer still on?"


def modes(subject: Subject) -> None:
    """It answers in training mode as in evaluation, if it has no random layers and no running statistics."""
    (module,) = subject.modules((0,))
    tokens = subject.tokens(5)[0]
    evaluated = subject.answer(module, tokens)
    before = {name: tensor.detach().clone() for name, tensor in tensors(module).items()}
    learning = [subject.answer(module, tokens, learning=True, seed=seed) for seed in (0, 1)]
    for name, tensor in tensors(module).items():
        if gap(tensor.detach(), before.get(name)) > 0:
            raise SkipTest(f"a pass in training mode changes {name}, as in a batch norm")
    if gap(*learning) > 0:
        raise SkipTest("it draws random numbers in training mode, as dropout does")
    subject.same(evaluated, learning[0], "answers in evaluation and in training mode")


def untouched(subject: Subject) -> None:
    """An answer in evaluation changes no weights."""
    (module,) = subject.modules((0,))
    before = {name: tensor.detach().clone() for name, tensor in tensors(module).items()}
    subject.answer(module, subject.tokens(5)[0])
    for name, tensor in tensors(module).items():
        assert name in before, f"an answer in evaluation makes {name}"
        assert gap(before[name], tensor.detach()) == 0, f"an answer in evaluation changes {name}"


def batch(subject: Subject) -> None:
    """The answer to a prompt does not depend on the other prompts of its batch."""
    (module,) = subject.modules((0,))
    tokens = subject.tokens(5)[0]
    whole = subject.answer(module, tokens)
    subject.same(whole[2:3], subject.answer(module, tokens[2:3]), "answers to a prompt alone and among others")
    subject.same(whole, subject.answer(module, tokens.flip(0)).flip(0), "answers in another order")


def lengths(subject: Subject) -> None:
    """It also takes shorter and longer prompts."""
    (module,) = subject.modules((0,))
    own = subject.prompts.context_length
    for length in sorted({max(1, own // 2), own + 5}):
        try:
            subject.answer(module, subject.tokens(3, subject.prompts.replace(context_length=length))[0])
        except Exception as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise SkipTest(f"it takes prompts of {own} examples, but not of {length} ({reason})") from error


def prefix(subject: Subject) -> None:
    """The states of the first tokens do not depend on the tokens after them; for models that are causal."""
    (module,) = subject.modules((0,))
    if getattr(module, "causal", None) is False:
        raise SkipTest("it declares causal = False")
    tokens = subject.tokens(4)[0]
    cut, length = (tokens.shape[1] + 1) // 2, tokens.shape[1]
    others = torch.cat([tokens[:, :cut], tokens.roll(1, 0)[:, cut:]], 1)
    whole, changed = (_states(subject, module, shown) for shown in (tokens, others))
    try:
        shorter = _states(subject, module, tokens[:, :cut])
    except Exception as error:  # a user's module may raise anything
        raise SkipTest(f"it does not take prompts of {cut} tokens") from error
    seen = [n for n in whole if n in shorter and (whole[n].shape[1], shorter[n].shape[1]) == (length, cut)]
    if not seen:
        raise SkipTest("no part of it returns a state per token")
    name = seen[-1]
    for found, what in ((changed[name], "later tokens change"), (shorter[name], "the prompt ends there")):
        difference = gap(whole[name][:, :cut], found[:, :cut])
        if difference > subject.tolerance * float(whole[name].abs().max()):
            words = f"the states of the first {cut} tokens in {name} differ by {difference:.3g} if {what}"
            assert not getattr(module, "causal", False), words
            raise SkipTest(f"it is not causal: {words}. If it should be, declare causal = True")


def _states(subject: Subject, module: nn.Module, tokens: Tensor) -> dict[str, Tensor]:
    """Return what its parts return for every token, (batch, tokens, …), by their names, in the order of their calls."""
    found: dict[str, Tensor] = {}

    def watch(name: str) -> Any:
        def keep(_module: nn.Module, _given: Any, returned: Any) -> None:
            parts: Iterable[Any] = returned.values() if isinstance(returned, dict) else returned
            listed = [returned] if isinstance(returned, Tensor) else parts if isinstance(parts, Iterable) else ()
            state = next((part for part in listed if isinstance(part, Tensor) and part.dim() > 2), None)
            if state is not None and state.shape[:2] == tokens.shape[:2]:
                found.pop(name, None)
                found[name] = state.detach().clone()

        return keep

    hooks = [part.register_forward_hook(watch(name)) for name, part in module.named_modules() if name]
    try:
        subject.answer(module, tokens)
    finally:
        for hook in hooks:
            hook.remove()
    return found


def recurrent(subject: Subject) -> None:
    """Token by token, by its method `recurrent_step`, it gives the answers that it gives to whole prompts."""
    (module,) = subject.modules((0,))
    step = getattr(module, "recurrent_step", None)
    if step is None:
        raise SkipTest("it has no method recurrent_step")
    tokens, state, output = subject.tokens(5)[0], None, torch.empty(0)
    whole = subject.answer(module, tokens)
    with torch.no_grad():
        for place in range(tokens.shape[1]):
            output, state = step(tokens[:, place].clone(), state)
    subject.same(whole, output.reshape(whole.shape), "answers to whole prompts and token by token")
