"""Ordinary training loops in PyTorch and JAX, to compare iclab with.

Both draw prompts as dense vectors and train by automatic differentiation.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from iclab.models import MODELS
from iclab.prompts import Prompts


def torch_loop(
    model: str,
    prompts: Prompts,
    batch: int,
    steps: int,
    rate: float,
    draw: bool = True,
    options: Mapping[str, Any] | None = None,
) -> float:
    """Train one seed in an ordinary eager PyTorch loop; return the time in seconds.

    Without ``draw``, one batch is drawn in advance and used in every step.
    """
    torch.manual_seed(0)
    patterns, length = prompts.patterns, prompts.context_length
    vectors = torch.tensor(patterns.basis(0).vectors, dtype=torch.float32)
    mu, nu, v = vectors.split([patterns.relevant, patterns.irrelevant, patterns.outlier])
    label = torch.zeros(prompts.label_width)
    label[0] = prompts.label_norm
    pairs = torch.from_numpy(prompts.pairs).long()

    def sample() -> tuple[torch.Tensor, torch.Tensor]:
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

    sizes: dict[str, Any] = {"width": patterns.dimension + prompts.label_width}
    if prompts.label_width > 1:
        sizes["label_width"] = prompts.label_width
    network: Any = MODELS[model](**sizes, **options or {})
    network.initialise(patterns.basis(0), 0)
    optimizer = torch.optim.SGD(network.parameters(), lr=rate)
    fixed = sample()
    for warm in (True, False):
        started = time.perf_counter()
        for _ in range(3 if warm else steps):
            tokens, z = sample() if draw else fixed
            loss = torch.relu(1.0 - z * network(tokens).output.squeeze(-1)).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return time.perf_counter() - started


def jax_loop(model: str, prompts: Prompts, batch: int, steps: int, rate: float, seeds: int) -> Callable[[], float]:
    """Compile the same training in JAX, scanned over steps and mapped over seeds; return a function that times it."""
    import jax
    import jax.numpy as jnp

    patterns, length = prompts.patterns, prompts.context_length
    vectors = jnp.asarray(np.stack([patterns.basis(s).vectors for s in range(seeds)]), dtype=jnp.float32)
    pairs = jnp.asarray(prompts.pairs)
    cuts = (patterns.relevant, patterns.relevant + patterns.irrelevant)

    def sample(key: Any, rows: Any) -> Any:
        mu, nu, v = rows[: cuts[0]], rows[cuts[0] : cuts[1]], rows[cuts[1] :]
        k = jax.random.split(key, 7)
        task = pairs[jax.random.randint(k[0], (batch,), 0, len(pairs))]
        side = jax.random.randint(k[1], (batch, length + 1), 0, 2)
        kappa = jax.random.uniform(k[2], (batch, length + 1, 1), minval=-1.0) * prompts.irrelevant_scale
        x = mu[jnp.take_along_axis(task, side, 1)] + kappa * nu[jax.random.randint(k[3], side.shape, 0, len(nu))]
        y = 1.0 - 2.0 * side
        outlier = jax.random.uniform(k[4], (batch, length)) < prompts.outliers.fraction
        shift = prompts.outliers.scale * v[jax.random.randint(k[5], (batch, length), 0, len(v))]
        x = x.at[:, :-1].add(outlier[..., None] * shift)
        coin = 1.0 - 2.0 * jax.random.randint(k[6], (batch, length), 0, 2)
        shown = jnp.where(outlier, coin, y[:, :-1])
        return x, shown, y[:, -1]

    def loss(weights: Any, x: Any, shown: Any, z: Any) -> Any:
        key, query, gate = weights
        # W_B also reads the label: tokens are (x; y), and the query's y is 0.
        tokens = jnp.concatenate([x, jnp.append(shown, jnp.zeros((batch, 1)), 1)[..., None]], -1)
        read = (tokens[:, -1] @ query.T) @ key
        scores = (tokens[:, :-1] @ read[..., None])[..., 0]
        if model == "mamba":
            logits = tokens @ gate
            stay = jax.nn.log_sigmoid(-logits)
            later = jnp.cumsum(stay[:, ::-1], -1)[:, ::-1] - stay
            scores = scores * jnp.exp(jax.nn.log_sigmoid(logits) + later)[:, :-1]
        return jax.nn.relu(1.0 - z * (scores * shown).sum(-1)).mean()

    def train(key: Any, rows: Any) -> Any:
        d = patterns.dimension
        start = 0.2 * jnp.eye(d, d + 1)
        gate = jax.random.normal(key, (d + 1,)) / jnp.sqrt(d + 1.0)

        def step(weights: Any, step_key: Any) -> Any:
            value, gradient = jax.value_and_grad(loss)(weights, *sample(step_key, rows))
            return jax.tree.map(lambda w, g: w - rate * g, weights, gradient), value

        return jax.lax.scan(step, (start, start, gate), jax.random.split(key, steps))

    run = jax.jit(jax.vmap(train))
    keys = jax.random.split(jax.random.PRNGKey(0), seeds)
    jax.block_until_ready(run(keys, vectors))  # compile and warm up

    def timed() -> float:
        started = time.perf_counter()
        jax.block_until_ready(run(keys, vectors))
        return time.perf_counter() - started

    return timed
