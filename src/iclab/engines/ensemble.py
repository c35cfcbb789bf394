"""Many seeds of one architecture, run together.

`Stacked` holds the weights of all seeds in one leading dimension and runs them in one `torch.func.vmap`. Modules that
cannot be stacked (buffers that change, random layers, in-place operations) run one after another in `OneByOne`. Both
have the same methods; `iclab.engines.rehearsal` finds out which of them a model needs.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from iclab.config import InputError
from iclab.engines.failures import Located, naming
from iclab.engines.training import Training
from iclab.models import Answer, Architecture, as_answer, combine
from iclab.prompts import Basis, PromptBatch

Weights = dict[str, Tensor]
"""The weights of every seed by name, (seeds, …)."""
Around = Callable[[int, nn.Module, Tensor], AbstractContextManager[None]]
"""Returns a context for the row of a seed, its module and its prompts."""
Then = Callable[[slice, Answer], None]
"""Called with rows of seeds and their answer, as soon as that is there: gradients need not wait for other seeds."""

# An operation that torch cannot stack runs seed by seed; torch says so at length and asks to be told.
warnings.filterwarnings("ignore", message="There is a performance drop because we have not yet implemented")


class Stacked:
    """Seeds in one leading dimension."""

    def __init__(self, modules: Sequence[nn.Module], seeds: Sequence[int]) -> None:
        parameters, buffers = stack_module_state(list(modules))
        trained = {name for name, parameter in modules[0].named_parameters() if parameter.requires_grad}
        self._parameters: Weights = {n: nn.Parameter(p.detach().clone()) for n, p in parameters.items() if n in trained}
        self._buffers = buffers | {n: p.detach() for n, p in parameters.items() if n not in trained}
        self._skeleton = modules[0]  # only its code is used
        self.running = tuple(seeds)
        """The seeds at work; if a model raises an exception, these are named."""

    def named_parameters(self) -> Weights:
        """Return the tensors to optimise by name."""
        return self._parameters

    def parameters(self) -> list[Tensor]:
        """Return the tensors to optimise."""
        return list(self._parameters.values())

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
            answer = checked(returned, prompts, _levels(self._skeleton))
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
        self.running = tuple(self.running[row] for row in seeds)
        optimizer.param_groups[0]["params"] = self.parameters()


class OneByOne:
    """Seeds that run one after another, one module each.

    What a random layer draws is a function of the seed and of the number of calls, so that seeds do not depend on each
    other.
    """

    def __init__(self, modules: Sequence[nn.Module], seeds: Sequence[int]) -> None:
        self._modules, self.seeds, self._calls = list(modules), tuple(seeds), 0
        self.running = self.seeds

    def parameters(self) -> list[Tensor]:
        return [p for module in self._modules for p in module.parameters() if p.requires_grad]

    def norms(self) -> Tensor:
        def norm(module: nn.Module) -> Tensor:
            return torch.stack([p.grad.square().sum() for p in module.parameters() if p.grad is not None]).sum().sqrt()

        return torch.stack([norm(module) for module in self._modules])

    def scale_gradients(self, factor: Tensor) -> None:
        for module, f in zip(self._modules, factor, strict=True):
            for p in module.parameters():
                if p.grad is not None:
                    p.grad.mul_(f)

    def forward(
        self,
        tokens: Tensor,
        training: bool,
        around: Around = lambda *_: nullcontext(),
        then: Then | None = None,
    ) -> Answer:
        """Answer prompts (seeds, batch, l + 1, width), each seed inside a context of ``around``.

        With ``then`` the answers have no gradients any more, so that nothing is kept for them.
        """
        answers = []
        self._calls += 1
        with Draws() as draws:
            for row, (module, seed, prompts) in enumerate(zip(self._modules, self.seeds, tokens, strict=True)):
                draws.seed(int(np.random.SeedSequence((seed, self._calls)).generate_state(1)[0]))
                self.running = (seed,)
                with around(row, module, prompts):
                    answer = ask(module.train(training), prompts.clone())  # it may change them in place
                    if then is not None:
                        then(slice(row, row + 1), combine([answer], torch.stack))
                        answer = combine([answer], lambda parts: parts[0].detach())
                    answers.append(answer)
        self.running = self.seeds
        return combine(answers, torch.stack)

    def weights(self) -> Weights:
        states = [tensors(module) for module in self._modules]
        return {name: torch.stack([state[name].detach().cpu().clone() for state in states]) for name in states[0]}

    def keep(self, seeds: Sequence[int], optimizer: torch.optim.Optimizer) -> None:
        self._modules = [self._modules[i] for i in seeds]
        self.running = self.seeds = tuple(self.seeds[i] for i in seeds)
        alive = {id(p) for p in self.parameters()}
        for group in optimizer.param_groups:
            group["params"] = [p for p in group["params"] if id(p) in alive]


class Draws:
    """A context in which torch, NumPy and Python draw from seeds; outside it, their random numbers go on as before."""

    def __enter__(self) -> Self:
        self._before: tuple[Any, Any] = (random.getstate(), np.random.get_state())  # noqa: NPY002 (users draw from it)
        self._torch = torch.random.fork_rng(devices=[])
        self._torch.__enter__()
        return self

    def __exit__(self, *raised: Any) -> None:
        self._torch.__exit__(*raised)
        self._restore(*self._before)

    def seed(self, number: int) -> None:
        """Let all of them start here."""
        torch.default_generator.manual_seed(number)  # torch.manual_seed formats a traceback for each absent device
        if torch.cuda.is_initialized():
            torch.cuda.manual_seed_all(number)
        np.random.seed(number % 2**32)  # noqa: NPY002
        random.seed(number)
        self._number = number

    @property
    def outside_torch(self) -> bool:
        """Whether NumPy or Python have drawn anything since they were seeded."""
        python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002
        random.seed(self._number)
        np.random.seed(self._number % 2**32)  # noqa: NPY002
        used = python != random.getstate() or repr(numpy) != repr(np.random.get_state())  # noqa: NPY002
        self._restore(python, numpy)
        return used

    def _restore(self, python: Any, numpy: Any) -> None:
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002


def initial_modules(training: Training, seeds: Sequence[int], bases: Sequence[Basis]) -> list[nn.Module]:
    """Build the module of each seed: a pure function of the seed and, if it uses `initialise`, of the basis."""
    model, prompts, dtype = training.model, training.prompts, getattr(torch, training.dtype)
    modules = []
    for seed, basis in zip(seeds, bases, strict=True):
        with Draws() as draws, _default_dtype(dtype):
            draws.seed(seed)
            try:
                module = model.build(prompts.width, prompts.context_length, prompts.label_width)
            except InputError as error:
                seeded = f"model = {model.label}, seed {seed}:" if error.__cause__ else f"model = {model.label}:"
                text = str(error).replace(f"model = {model.label}:", seeded, 1)
                raise Located(text) from error.__cause__ or error
        with naming(model, f"at the start, seed {seed}"):
            _check_dtypes(module, training.dtype)
            module.to(training.device, dtype)
            if isinstance(module, Architecture):
                module.initialise(basis, seed)
        modules.append(module)
    return modules


def _check_dtypes(module: nn.Module, dtype: str) -> None:
    """Refuse parameters of a kind that would be turned into another without a word."""
    for name, parameter in module.named_parameters():
        if parameter.is_complex() or (parameter.is_floating_point() and parameter.dtype.itemsize < 4):
            kind = str(parameter.dtype).removeprefix("torch.")
            raise InputError(f"{name} is of {kind}: parameters must be float32 or float64; this training is {dtype}")


@contextmanager
def _default_dtype(dtype: torch.dtype) -> Iterator[None]:
    """Let a module draw its weights in the dtype it trains in, instead of rounding them from another."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def materialise(modules: Sequence[nn.Module], seeds: Sequence[int], tokens: Tensor) -> None:
    """Let modules make what they make in their first forward pass; what they draw is a function of the seed."""
    for module, seed, prompts in zip(modules, seeds, tokens, strict=True):
        with torch.no_grad(), Draws() as draws:
            draws.seed(seed)
            module.eval()(prompts.clone())


def freeze(module: nn.Module, names: Sequence[str]) -> None:
    """Let the parameters of these names stay as they are."""
    own = dict(module.named_parameters())
    if unknown := sorted(set(names) - set(own)):
        raise Located(f"recipe.frozen = {unknown[0]}: is no parameter of this model; it has {', '.join(own)}")
    for name in names:
        own[name].requires_grad_(False)


def tensors(module: nn.Module) -> Weights:
    """Return parameters and buffers by name, those that torch would not save too; each tensor once."""
    return dict(module.named_parameters()) | dict(module.named_buffers())


def restore(module: nn.Module, weights: Weights) -> None:
    """Give a module the tensors that `tensors` returned of a module like it."""
    own = dict(module.named_parameters(remove_duplicate=False)) | dict(module.named_buffers(remove_duplicate=False))
    for name, value in weights.items():
        if name not in own:
            raise InputError(f"weights.{name}: is no weight of this model; it has {', '.join(own)}")
        if own[name].shape == value.shape:
            with torch.no_grad():
                own[name].copy_(value)
        elif isinstance(own[name], nn.Parameter):
            raise InputError(f"weights.{name} of shape {tuple(value.shape)}: must be {tuple(own[name].shape)}")
        else:  # a buffer that has grown
            owner, _, last = name.rpartition(".")
            setattr(module.get_submodule(owner), last, value.to(own[name]))


def ask(module: nn.Module, prompts: Tensor) -> Answer:
    """Answer prompts (batch, l + 1, width) of one seed, and check what the module returns."""
    return checked(module(prompts), prompts, _levels(module))


def _levels(module: nn.Module) -> int:
    """Return how many numbers a module answers: its ``levels``, if its class takes several."""
    return int(module.levels) if getattr(module, "takes_levels", False) else 1  # type: ignore[arg-type]


def checked(returned: Answer | Tensor, prompts: Tensor, levels: int) -> Answer:
    """Turn what a module returned into an `Answer`, and refuse one of a wrong shape, dtype or device."""
    answer = as_answer(returned, prompts.shape[0], prompts.shape[1] - 1, levels)
    if answer.output.device != prompts.device:
        raise InputError(f"output device = {answer.output.device}: must be {prompts.device}, where the prompts are")
    return answer
