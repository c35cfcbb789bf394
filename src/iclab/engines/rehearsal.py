"""Every way in which a model will be used, tried before any work is done.

A model that cannot be trained or evaluated is refused here, in one line. The rehearsal also finds out whether seeds can
be stacked, in training and in evaluation. `torch.func` cannot stack every module, and of some it makes another model
without a word, such as of one with a tensor that is neither a parameter nor a buffer. So stacked seeds must answer, and
have gradients, as a seed by itself. Fresh modules of two seeds are used up, whatever seeds are trained, so that the
result depends on nothing but the model and the prompts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from iclab.config import InputError, what_was_raised
from iclab.engines.ensemble import Draws, Stacked, Weights, ask, freeze, initial_modules, materialise, restore, tensors
from iclab.engines.failures import Located, naming
from iclab.engines.trained import bases, stacked_dictionary
from iclab.engines.training import Training
from iclab.prompts import Prompts, Stream

TOLERANCE = {torch.float32: 1e-3, torch.float64: 1e-6}
"""How far stacked seeds may be from single ones, relative to the largest number."""


class Rehearsed(NamedTuple):
    """What was found out about a model."""

    obstacle: str
    """Why its seeds cannot be stacked; empty if they can."""
    lazy: bool
    """Whether its first forward pass makes parameters or buffers."""
    notes: tuple[str, ...] = ()
    """What its author may want to know."""


def rehearse_answers(training: Training, prompts: Prompts) -> Rehearsed:
    """Try evaluation on these prompts; return whether seeds can be stacked there."""
    if (known := training._rehearsals.get(prompts)) is not None:
        return known
    sizes = (2, 1, 3) if training.model.is_users else (2,)
    with naming(training.model, "in evaluation, seed 0"), torch.no_grad():
        tokens = drawn(training, prompts, max(sizes))
        (module,) = fresh_modules(training, (0,))
        lazy, names = any(map(is_lazy, module.parameters())), tensors(module).keys()
        for size in sizes:
            _answer(module.eval(), tokens[0, :size], training)
        lazy = lazy or tensors(module).keys() != names
        if lazy:  # measured with what training prompts made
            _answer(fresh_modules(training, (0,), lazy)[0], tokens[0], training)
        found = Rehearsed(_stacking_obstacle(training, tokens[:, :2], lazy, learning=False), lazy)
    training._rehearsals[prompts] = found
    return found


def rehearse_training(training: Training) -> Rehearsed:
    """Try evaluation and two training steps; return whether seeds can be stacked in training."""
    if (known := training._rehearsals.get("training")) is not None:
        return known
    answers, label = rehearse_answers(training, training.prompts), training.model.label
    obstacle, notes = answers.obstacle, []
    if training.recipe.steps:
        with naming(training.model, "in training, seed 0"):
            tokens = drawn(training, training.prompts, min(2, training.recipe.batch_size), stream=Stream.TRAIN)
            (module,) = fresh_modules(training, (0,), answers.lazy)
            if not any(p.requires_grad for p in module.parameters()):
                raise Located(f"model = {label}: has no parameters to train; use steps = 0")
            if training.model.is_users:
                notes += _try_two_steps(module, tokens[0])
                _check_complete(module, fresh_modules(training, (0,), answers.lazy)[0], tokens[0])
            obstacle = _stacking_obstacle(training, tokens, answers.lazy, learning=True)
    if training.model.is_users:  # its author may want to know
        if obstacle:
            notes.append(f"seeds run one after another, not stacked: {obstacle}")
        elif answers.obstacle:
            notes.append(f"seeds are measured one after another, not stacked: {answers.obstacle}")
        notes += _note_on_length(training)
    found = Rehearsed(obstacle, answers.lazy, tuple(f"{label}: {note}" for note in notes))
    training._rehearsals["training"] = found
    return found


def drawn(
    training: Training, prompts: Prompts, count: int, seeds: tuple[int, ...] = (0, 1), stream: Stream = Stream.TEST
) -> Tensor:
    """Return a few dense prompts per seed, (seeds, count, l + 1, width)."""
    batch = prompts.draw(seeds, stream, count=count, dtype=training.dtype)
    return batch.dense(stacked_dictionary(training, seeds, prompts))


def fresh_modules(training: Training, seeds: tuple[int, ...], lazy: bool = False) -> list[nn.Module]:
    """Build the module of each seed as training starts with it."""
    modules = initial_modules(training, seeds, bases(training, seeds))
    if lazy:
        materialise(modules, seeds, drawn(training, training.prompts, 2, seeds))
    for module in modules:
        freeze(module, training.recipe.frozen)
    return modules


def _answer(module: nn.Module, tokens: Tensor, training: Training) -> None:
    """Answer prompts; if that fails, say which shape they had."""
    try:
        with Draws() as draws:
            draws.seed(0)
            ask(module, tokens.clone())
    except InputError:
        raise
    except Exception as error:  # a user's module may raise anything
        if not training.model.is_users:
            raise  # a mistake of ours
        own = training.prompts.context_length
        other = "" if tokens.shape[1] == own + 1 else f", trained on context_length = {own}"
        raise InputError(
            f"cannot take prompts of shape {tuple(tokens.shape)} (batch, context_length + 1, width){other}: "
            f"{what_was_raised(error)}"
        ) from error


def _try_two_steps(module: nn.Module, tokens: Tensor) -> list[str]:
    """Go forward and back twice, because a graph that is kept fails only then; refuse what has no gradient."""
    trained = [p for p in module.parameters() if p.requires_grad]
    with Draws() as draws:
        draws.seed(0)
        for _ in range(2):
            output = ask(module.train(), tokens.clone()).output
            if not output.requires_grad:
                raise InputError("the output has no gradient: torch cannot trace it back to any parameter")
            if not output.isfinite().all():
                return ["answers with NaN or infinity before it is trained, so that every seed diverges"]
            output.sum().backward()
    gradients = [p.grad for p in trained if p.grad is not None]
    if not gradients:
        raise InputError("no parameter gets a gradient: the output does not depend on them")
    if not any(gradient.to_dense().any() for gradient in gradients):
        return ["in a trial step every gradient was 0, so its parameters may not move"]
    return []


def _check_complete(used: nn.Module, fresh: nn.Module, tokens: Tensor) -> None:
    """Refuse a model that would be measured without something that it has kept in training."""
    restore(fresh, tensors(used))
    with torch.no_grad(), Draws() as draws:
        answers = []
        for module in (used, fresh):
            draws.seed(0)
            answers.append({"output": ask(module.eval(), tokens.clone()).output})
    if not _close(*answers):
        raise InputError(
            "it keeps something in training that is no parameter or buffer, and would be measured without it; "
            "use register_buffer"
        )


def _note_on_length(training: Training) -> list[str]:
    """Try longer prompts; a model may be made for one length."""
    longer = training.prompts.context_length + 3
    if training.model.length_obstacle(longer):
        return []
    try:
        prompts = training.prompts.replace(context_length=longer)
        drawn(training, prompts, 1)
    except InputError:  # there are no such prompts, which says nothing about the model
        return []
    try:
        rehearse_answers(training, prompts)
    except InputError:
        return [f"takes no longer prompts than in training (tried {longer} examples)"]
    return []


# Whether seeds can be stacked.


def _stacking_obstacle(training: Training, tokens: Tensor, lazy: bool, learning: bool) -> str:
    """Return the reason why seeds cannot be stacked; empty if they can. ``tokens``: (2 seeds, batch, l + 1, width)."""
    second, first = fresh_modules(training, (1, 0), lazy)  # in this order: a stack runs the code of its first module
    if obstacle := training.model.architecture.one_by_one(training.model.options):
        return obstacle
    alone: Weights = {}
    if training.model.is_users:
        _check_shapes(first, second)
    if list(first.buffers()) and not training.model.architecture.constant_buffers:
        return "it has buffers, which may change while it runs"
    if training.model.is_users:
        before = _everything(first)
        with Draws() as draws:
            draws.seed(0)
            alone = _alone(first, tokens[0].clone(), learning)
            if draws.outside_torch:
                return "it draws random numbers outside torch"
        if changed := _difference(before, _everything(first)):
            return f"a forward pass changes {changed}"
    try:
        modules = [second.train(learning), first.train(learning)]
        together = _together(Stacked(modules, (1, 0)), tokens.flip(0).clone(), learning)
    except Exception as error:  # what torch.func cannot do, or what a user's module raises there
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0].split(". ")[0].rstrip(".")
        return "it draws random numbers" if "random operation" in reason else reason
    if alone and not _close(alone, together):
        return "stacked, it gives other answers; it may keep tensors or numbers that are no parameters or buffers"
    return ""


def _alone(module: nn.Module, tokens: Tensor, learning: bool) -> Weights:
    """Return the output of one seed and, when learning, its gradients by name."""
    output = ask(module.train(learning), tokens).output
    if not learning:
        return {"output": output}
    output.sum().backward()
    return {"output": output.detach()} | {n: p.grad for n, p in module.named_parameters() if p.grad is not None}


def _together(stacked: Stacked, tokens: Tensor, learning: bool) -> Weights:
    """Return the same of the last of stacked seeds."""
    output = stacked.forward(tokens, training=learning).output
    if learning:
        output.sum().backward()
    gradients = {name: p.grad[-1] for name, p in stacked.named_parameters().items() if p.grad is not None}
    return {"output": output.detach()[-1]} | gradients


def _close(first: Weights, second: Weights) -> bool:
    """Whether outputs agree, and gradients; each relative to the largest of its kind."""
    for names in ({"output"}, (first.keys() | second.keys()) - {"output"}):
        pairs = [(first.get(n, torch.zeros(())), second.get(n, torch.zeros(()))) for n in sorted(names)]
        largest = max((float(one.nan_to_num().abs().max()) for one, _ in pairs), default=0.0)
        for one, two in pairs:
            tolerance = TOLERANCE.get(one.dtype, 1e-3) * largest
            if not torch.allclose(one, two.to(one), rtol=0.0, atol=tolerance, equal_nan=True):
                return False
    return True


def _check_shapes(first: nn.Module, second: nn.Module) -> None:
    """Refuse a model that has other weights for another seed."""
    one, two = ({name: tuple(t.shape) for name, t in tensors(module).items()} for module in (first, second))
    for name in sorted(one.keys() | two.keys()):
        if one.get(name) != two.get(name):
            raise InputError(
                f"{name} has shape {one.get(name)} for seed 0 and {two.get(name)} for seed 1: must be the same"
            )


def _everything(module: nn.Module) -> Weights:
    """Copy every tensor of a module by name: parameters, buffers, and attributes that torch does not know."""
    found = dict(tensors(module))
    for path, part in module.named_modules():
        for name, value in vars(part).items():
            if not name.startswith("_"):
                found |= {f"{path}.{name}{key}".lstrip("."): tensor for key, tensor in _inside(value)}
    return {name: tensor.detach().clone() for name, tensor in found.items()}


def _inside(value: Any) -> Iterator[tuple[str, Tensor]]:
    """Yield a tensor, or the tensors of a list, tuple or dictionary, with their keys."""
    if isinstance(value, Tensor):
        yield "", value
    elif isinstance(value, dict):
        yield from ((f"[{key!r}]", item) for key, item in value.items() if isinstance(item, Tensor))
    elif isinstance(value, (list, tuple)):
        yield from ((f"[{key}]", item) for key, item in enumerate(value) if isinstance(item, Tensor))


def _difference(before: Weights, after: Weights) -> str:
    """Return the name of a tensor that is new or not the same; empty if there is none."""
    for name, tensor in after.items():
        if name not in before or not torch.equal(before[name], tensor):
            return name
    return ""
