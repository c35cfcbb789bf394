"""What a training step costs: plain PyTorch, one seed, one thread, whatever engine trained it."""

from __future__ import annotations

import time

import torch

from iclab.engines.ensemble import Draws, ask
from iclab.engines.rehearsal import drawn, fresh_modules, rehearse_answers
from iclab.models import Model
from iclab.score.card import Cost
from iclab.score.suite import Suite
from iclab.score.tuning import training_of
from iclab.threads import one_thread

REPEATS = 5


def cost_of(model: Model, suite: Suite) -> Cost:
    """Measure the median CPU time of a step, and the bytes that torch keeps for the way back."""
    part = suite.parts[0]
    training = training_of(model, suite, part, "sgd", 0.1).replace(engine="reference")
    lazy = rehearse_answers(training, part.prompts).lazy
    (module,) = fresh_modules(training, (0,), lazy)
    tokens = drawn(training, part.prompts, suite.batch_size, (0,))[0]
    kept: dict[int, int] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    own = {p.untyped_storage().data_ptr() for p in module.parameters()}
    seconds = []
    with one_thread(), Draws() as draws:
        draws.seed(0)
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            output = ask(module.train(), tokens.clone()).output
        held = sum(size for place, size in kept.items() if place not in own)
        output.sum().backward() if output.requires_grad else None
        for _ in range(REPEATS):
            before = time.process_time()
            output = ask(module, tokens.clone()).output
            output.sum().backward() if output.requires_grad else None
            seconds.append(time.process_time() - before)
    middle = max(sorted(seconds)[REPEATS // 2], 1e-9)
    return Cost(
        parameters=sum(p.numel() for p in module.parameters()),
        prompts_per_cpu_second=suite.batch_size / middle,
        bytes_per_prompt=held / suite.batch_size,
    )
