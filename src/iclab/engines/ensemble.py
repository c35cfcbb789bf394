"""Many seeds of one architecture, run together.

`Stacked` holds the weights of all seeds in one leading dimension and runs them in one `torch.func.vmap`. Modules that
cannot be stacked (buffers that change, random layers, in-place operations) run one after another in `OneByOne`. Both
have the same methods; `assemble` chooses between them.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from iclab.config import InputError
from iclab.models import Answer, Architecture, Model, as_answer, combine
from iclab.prompts import Basis, PromptBatch, Prompts

Weights = dict[str, Tensor]
"""The weights of every seed by name, (seeds, …)."""


class Stacked:
    """Seeds in one leading dimension."""

    def __init__(self, modules: Sequence[nn.Module]) -> None:
        parameters, buffers = stack_module_state(list(modules))
        self._parameters: Weights = {name: nn.Parameter(value.detach().clone()) for name, value in parameters.items()}
        self._buffers = buffers
        self._skeleton = modules[0]  # only its code is used

    def parameters(self) -> list[Tensor]:
        """Return the tensors to optimise."""
        return list(self._parameters.values())

    def freeze(self, names: Sequence[str]) -> None:
        """Let the parameters of these names stay as they are."""
        _check_names(names, self._parameters)
        for name in names:
            self._buffers[name] = self._parameters.pop(name).detach()

    def norms(self) -> Tensor:
        """Return the gradient norm of each seed, (seeds,)."""
        squares = [p.grad.flatten(1).square().sum(1) for p in self.parameters() if p.grad is not None]
        return torch.stack(squares).sum(0).sqrt()

    def scale_gradients(self, factor: Tensor) -> None:
        """Multiply the gradient of each seed by its factor, (seeds,)."""
        for p in self.parameters():
            if p.grad is not None:
                p.grad.mul_(factor.view(-1, *[1] * (p.dim() - 1)))

    def forward(self, tokens: Tensor, training: bool) -> Answer:
        """Answer prompts (seeds, batch, l + 1, width)."""
        self._skeleton.train(training)

        def one(parameters: Weights, buffers: Weights, prompts: Tensor) -> dict[str, Tensor]:
            returned = functional_call(self._skeleton, (parameters, buffers), (prompts,))
            answer = as_answer(returned, prompts.shape[0], prompts.shape[1] - 1)
            return {name: part for name, part in answer._asdict().items() if part is not None}  # vmap takes no None

        return Answer(**vmap(one)(self._parameters, self._buffers, tokens))

    def answer_compact(self, batch: PromptBatch, rows: Tensor) -> Answer:
        """Answer compact prompts over dictionary ``rows`` (seeds, D' + 1, width) with the model's own function."""
        assert isinstance(self._skeleton, Architecture)
        return self._skeleton.answer_compact(self._parameters | self._buffers, rows, batch)

    def weights(self) -> Weights:
        """Return a copy of all weights, on the CPU."""
        return {name: value.detach().cpu().clone() for name, value in (self._parameters | self._buffers).items()}

    def keep(self, seeds: Sequence[int], optimizer: torch.optim.Optimizer) -> None:
        """Keep these rows of seeds, and drop all others from the ensemble and from the optimiser's state."""

        def rows(value: Tensor) -> Tensor:
            return value[torch.as_tensor(seeds, dtype=torch.long, device=value.device)].clone()

        for name, old in self._parameters.items():
            new = nn.Parameter(rows(old.detach()))
            memory = optimizer.state.pop(old, {})
            optimizer.state[new] = {
                key: rows(value) if isinstance(value, Tensor) and value.shape == old.shape else value
                for key, value in memory.items()
            }
            self._parameters[name] = new
        self._buffers = {name: rows(value) for name, value in self._buffers.items()}
        optimizer.param_groups[0]["params"] = self.parameters()


class OneByOne:
    """Seeds that run one after another, one module each.

    What a random layer draws is a function of the seed and of the number of calls, so that seeds do not depend on each
    other.
    """

    def __init__(self, modules: Sequence[nn.Module], seeds: Sequence[int]) -> None:
        self._modules, self._seeds, self._calls = list(modules), list(seeds), 0

    def parameters(self) -> list[Tensor]:
        return [p for module in self._modules for p in module.parameters() if p.requires_grad]

    def freeze(self, names: Sequence[str]) -> None:
        for module in self._modules:
            own = dict(module.named_parameters())
            _check_names(names, own)
            for name in names:
                own[name].requires_grad_(False)

    def norms(self) -> Tensor:
        def norm(module: nn.Module) -> Tensor:
            return torch.stack([p.grad.square().sum() for p in module.parameters() if p.grad is not None]).sum().sqrt()

        return torch.stack([norm(module) for module in self._modules])

    def scale_gradients(self, factor: Tensor) -> None:
        for module, f in zip(self._modules, factor, strict=True):
            for p in module.parameters():
                if p.grad is not None:
                    p.grad.mul_(f)

    def forward(self, tokens: Tensor, training: bool) -> Answer:
        answers = []
        self._calls += 1
        with torch.random.fork_rng(devices=[]):
            for module, seed, prompts in zip(self._modules, self._seeds, tokens, strict=True):
                torch.manual_seed(int(np.random.SeedSequence((seed, self._calls)).generate_state(1)[0]))
                answers.append(as_answer(module.train(training)(prompts), prompts.shape[0], prompts.shape[1] - 1))
        return combine(answers, torch.stack)

    def weights(self) -> Weights:
        states = [module.state_dict() for module in self._modules]
        return {name: torch.stack([state[name].detach().cpu().clone() for state in states]) for name in states[0]}

    def keep(self, seeds: Sequence[int], optimizer: torch.optim.Optimizer) -> None:
        self._modules = [self._modules[i] for i in seeds]
        self._seeds = [self._seeds[i] for i in seeds]
        alive = {id(p) for p in self.parameters()}
        for group in optimizer.param_groups:
            group["params"] = [p for p in group["params"] if id(p) in alive]


def _check_names(names: Sequence[str], known: Iterable[str]) -> None:
    if unknown := sorted(set(names) - set(known)):
        raise InputError(f"recipe.frozen = {unknown[0]}: is no parameter of this model; it has {', '.join(known)}")


def initial_modules(
    model: Model,
    width: int,
    prompts: Prompts,
    seeds: Sequence[int],
    bases: Sequence[Basis],
    dtype: torch.dtype,
) -> list[nn.Module]:
    """Build the module of each seed: a pure function of the seed and, if it uses `initialise`, of the basis."""
    modules = []
    for seed, basis in zip(seeds, bases, strict=True):
        with torch.random.fork_rng(devices=[]), _default_dtype(dtype):
            torch.manual_seed(seed)
            module = model.build(width, prompts.context_length, prompts.label_width).to(dtype)
        if isinstance(module, Architecture):
            module.initialise(basis, seed)
        modules.append(module)
    return modules


@contextmanager
def _default_dtype(dtype: torch.dtype) -> Iterator[None]:
    """Let a module draw its weights in the dtype it trains in, instead of rounding them from another."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def assemble(
    model: Model, modules: Sequence[nn.Module], seeds: Sequence[int], example: Tensor
) -> tuple[Stacked | OneByOne, str]:
    """Stack the modules if `torch.func` can, else run them one by one; return the reason why they are not stacked."""
    _check_shape(modules[0], example[0])
    obstacle = model.architecture.one_by_one(model.options)
    if not obstacle and list(modules[0].buffers()) and not model.architecture.constant_buffers:
        obstacle = "it has buffers, which may change while it runs"
    if obstacle:
        return OneByOne(modules, seeds), obstacle
    stacked = Stacked(modules)
    try:
        stacked.forward(example, training=True)
    except RuntimeError as error:
        return OneByOne(modules, seeds), str(error).strip().splitlines()[0].rstrip(".")
    return stacked, ""


def _check_shape(module: nn.Module, prompts: Tensor) -> None:
    """Try one batch, to refuse a model of the wrong shape before any work is done."""
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            returned = copy.deepcopy(module)(prompts)
    except Exception as error:  # a user's module may raise anything
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        raise InputError(
            f"model = {type(module).__name__}: cannot take prompts of shape {tuple(prompts.shape)} "
            f"(batch, context_length + 1, width): {reason}"
        ) from error
    as_answer(returned, prompts.shape[0], prompts.shape[1] - 1)
