"""The loop people write in PyTorch: dense prompts, automatic differentiation, one seed. Plain, or compiled by torch."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from iclab.engines import Training
from iclab.models import MODELS
from iclab.prompts import Prompts


def torch_loop(training: Training, steps: int, threads: int = 1, compiled: bool = False, times: int = 1) -> float:
    """Train one seed with SGD; return the shortest time of several runs in seconds, after a warm-up."""
    torch.manual_seed(0)
    network = _network(training)
    optimizer = torch.optim.SGD(network.parameters(), lr=training.recipe.step_size)
    sample = sampler(training.prompts, training.recipe.batch_size)

    def loss() -> Tensor:
        tokens, z = sample()
        return torch.relu(1.0 - z * network(tokens).output.squeeze(-1)).mean()

    lossy: Any = torch.compile(loss, dynamic=False) if compiled else loss

    def run(count: int) -> float:
        started = time.perf_counter()
        for _ in range(count):
            value = lossy()
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
        return time.perf_counter() - started

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        run(3)
        return min(run(steps) for _ in range(times))
    finally:
        torch.set_num_threads(before)


def _network(training: Training) -> Any:
    prompts = training.prompts
    sizes: dict[str, Any] = {"width": prompts.patterns.dimension + prompts.label_width}
    if prompts.label_width > 1:
        sizes["label_width"] = prompts.label_width
    network: Any = MODELS[training.model.label](**sizes, **training.model.options)
    network.initialise(prompts.patterns.basis(0), 0)
    return network


def sampler(prompts: Prompts, batch: int) -> Callable[[], tuple[Tensor, Tensor]]:
    """Return a function that draws a batch of dense prompts and the labels of their queries."""
    patterns, length = prompts.patterns, prompts.context_length
    vectors = torch.tensor(patterns.basis(0).vectors, dtype=torch.float32)
    mu, nu, v = vectors.split([patterns.relevant, patterns.irrelevant, patterns.outlier])
    label = torch.zeros(prompts.label_width)
    label[0] = prompts.label_norm
    pairs = torch.from_numpy(prompts.pairs).long()

    def sample() -> tuple[Tensor, Tensor]:
        task = pairs[torch.randint(len(pairs), (batch,))]
        side = torch.randint(2, (batch, length + 1))
        kappa = (2 * torch.rand(batch, length + 1, 1) - 1) * prompts.irrelevant_scale
        pattern, y = task.gather(1, side), 1.0 - 2.0 * side
        if prompts.relevant_fraction < 1:  # T: some examples carry another pattern, with a random label
            stray = torch.rand(batch, length) >= prompts.relevant_fraction
            shuffled = torch.rand(batch, length, len(mu)).scatter(2, task[:, None].expand(-1, length, -1), -1.0)
            pattern[:, :-1] = torch.where(stray, shuffled.argmax(-1), pattern[:, :-1])
            y[:, :-1] = torch.where(stray, 1.0 - 2.0 * torch.randint(2, (batch, length)), y[:, :-1])
        x = mu[pattern] + kappa * nu[torch.randint(len(nu), (batch, length + 1))]
        if len(v):  # M: some examples are corrupted
            outlier = torch.rand(batch, length) < prompts.outliers.fraction
            shift = prompts.outliers.scale * v[torch.randint(len(v), (batch, length))]
            x[:, :-1] += outlier.unsqueeze(-1) * shift
            y[:, :-1] = torch.where(outlier, 1.0 - 2.0 * torch.randint(2, (batch, length)), y[:, :-1])
        z = y[:, -1].clone()
        y[:, -1] = 0.0
        return torch.cat([x, y.unsqueeze(-1) * label], dim=-1), z

    return sample
