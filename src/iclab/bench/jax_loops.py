"""The same trainings in JAX: jitted, scanned over steps, mapped over seeds. Prompts are dense, as in `loops`."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from iclab.engines import Training
from iclab.prompts import Prompts

Arrays = dict[str, Any]


def jax_loop(training: Training, steps: int, seeds: int) -> Callable[[], float]:
    """Compile and warm up; return a function that trains all seeds and returns the time in seconds."""
    import jax
    import jax.numpy as jnp

    prompts, batch, rate = training.prompts, training.recipe.batch_size, training.recipe.step_size
    answer = partial(answers(training.model.label), training)

    def loss(weights: Arrays, rest: Arrays, tokens: Any, z: Any) -> Any:
        return jax.nn.relu(1.0 - z * answer(weights | rest, tokens)).mean()

    def train(key: Any, vectors: Any) -> Any:
        weights, rest = start(training, key)

        def step(weights: Arrays, step_key: Any) -> Any:
            value, gradient = jax.value_and_grad(loss)(weights, rest, *sample(prompts, batch, step_key, vectors))
            return jax.tree.map(lambda w, g: w - rate * g, weights, gradient), value

        return jax.lax.scan(step, weights, jax.random.split(key, steps))

    run = jax.jit(jax.vmap(train))
    vectors = jnp.asarray(np.stack([prompts.patterns.basis(s).vectors for s in range(seeds)]), dtype=jnp.float32)
    keys = jax.random.split(jax.random.PRNGKey(0), seeds)
    jax.block_until_ready(run(keys, vectors))

    def timed() -> float:
        started = time.perf_counter()
        jax.block_until_ready(run(keys, vectors))
        return time.perf_counter() - started

    return timed


def sample(prompts: Prompts, batch: int, key: Any, vectors: Any) -> Any:
    """Draw dense prompts (batch, l + 1, width), the query's label 0, and the true labels of queries, (batch,)."""
    import jax
    import jax.numpy as jnp

    patterns, length = prompts.patterns, prompts.context_length
    pairs, keys = jnp.asarray(prompts.pairs), jax.random.split(key, 10)
    mu, nu, v = jnp.split(vectors, (patterns.relevant, patterns.relevant + patterns.irrelevant))
    task = pairs[jax.random.randint(keys[0], (batch,), 0, len(pairs))]
    side = jax.random.randint(keys[1], (batch, length + 1), 0, 2)
    pattern, y = jnp.take_along_axis(task, side, 1), 1.0 - 2.0 * side
    coins = 1.0 - 2.0 * jax.random.randint(keys[2], (batch, length), 0, 2)
    if prompts.relevant_fraction < 1:  # T: some examples carry another pattern, with a random label
        stray = jax.random.uniform(keys[3], (batch, length)) >= prompts.relevant_fraction
        low, high = task.min(1, keepdims=True), task.max(1, keepdims=True)
        other = jax.random.randint(keys[4], (batch, length), 0, patterns.relevant - 2)
        other += other >= low
        other += other >= high
        pattern = pattern.at[:, :-1].set(jnp.where(stray, other, pattern[:, :-1]))
        y = y.at[:, :-1].set(jnp.where(stray, coins, y[:, :-1]))
    kappa = jax.random.uniform(keys[5], (batch, length + 1, 1), minval=-1.0) * prompts.irrelevant_scale
    x = mu[pattern] + kappa * nu[jax.random.randint(keys[6], side.shape, 0, len(nu))]
    if len(v):  # M: some examples are corrupted
        outlier = jax.random.uniform(keys[7], (batch, length)) < prompts.outliers.fraction
        shift = prompts.outliers.scale * v[jax.random.randint(keys[8], (batch, length), 0, len(v))]
        x = x.at[:, :-1].add(outlier[..., None] * shift)
        y = y.at[:, :-1].set(jnp.where(outlier, coins, y[:, :-1]))
    shown = (prompts.label_norm * y).at[:, -1].set(0.0)[..., None]
    rest = jnp.zeros((batch, length + 1, prompts.label_width - 1))
    return jnp.concatenate([x, shown, rest], -1), y[:, -1]


def start(training: Training, key: Any) -> tuple[Arrays, Arrays]:
    """Return initial weights, those that move and those that do not."""
    import jax
    import jax.numpy as jnp

    options, d, width = training.model.options, training.prompts.patterns.dimension, training.prompts.label_width
    scale, total = options["init_scale"], d + width
    if training.model.label == "softmax-mlp":
        m, keys, inputs = options["neurons"], options["state_size"], jnp.arange(total) < d
        signs = (1.0 - 2.0 * jax.random.randint(key, (m,), 0, 2)) / (m if options["output"] == "mean" else m**0.5)
        key_weight = scale * jnp.eye(keys, total) * inputs
        hidden = jax.random.normal(key, (m, options["value_size"])) / m**0.5
        value = scale * jnp.eye(options["value_size"], total)
        return {"key": key_weight, "query": key_weight, "value": value, "hidden": hidden}, {"signs": signs}
    layers = options.get("layers", 1)
    near = scale * jnp.broadcast_to(jnp.eye(d, total), (layers, d, total))
    weights = {"key": near, "query": near}
    if "mamba" in training.model.label:
        weights["gate"] = jax.random.normal(key, (layers, total)) / total**0.5
    return weights, {}


def answers(model: str) -> Callable[[Training, Arrays, Any], Any]:
    """Return the function that answers prompts (batch, l + 1, width) with outputs (batch,)."""
    if model == "softmax-mlp":
        return _transformer
    return _deep if model.startswith("deep-") else _one_layer


def _one_layer(training: Training, weights: Arrays, tokens: Any) -> Any:
    import jax

    scores = (tokens[:, :-1] @ (tokens[:, -1] @ weights["query"][0].T @ weights["key"][0])[..., None])[..., 0]
    if "gate" in weights:
        scores = scores * jax.numpy.exp(_log_gates(tokens @ weights["gate"][0]))[:, :-1]
    return (scores * tokens[:, :-1, -1]).sum(-1)


def _log_gates(logits: Any) -> Any:
    """Return log G of every token, as the last one sees it."""
    import jax

    stay = jax.nn.log_sigmoid(-logits)
    later = jax.numpy.cumsum(stay[:, ::-1], -1)[:, ::-1] - stay
    return jax.nn.log_sigmoid(logits) + later


def _deep(training: Training, weights: Arrays, tokens: Any) -> Any:
    """Answer with one head and a residual stream; only the query is answered in the last layer."""
    import jax
    import jax.numpy as jnp

    options, length = training.model.options, tokens.shape[1] - 1
    stream = tokens
    for layer in range(options["layers"]):
        last = layer == options["layers"] - 1
        q = stream
        if options["norm"] == "rms":
            q = q * jax.lax.rsqrt((q * q).mean(-1, keepdims=True) + 1e-6)
        seen = q[:, :-1] if options.get("sees") == "context" else q
        table = weights["key"][layer].T @ weights["query"][layer]
        scores = (q[:, -1:] if last else q) @ table.T @ seen.swapaxes(1, 2)
        if "gate" in weights:
            logits = q @ weights["gate"][layer]
            gone = jnp.cumsum(jax.nn.log_sigmoid(-logits), -1)
            logs = gone[:, :, None] + (jax.nn.log_sigmoid(logits) - gone)[:, None]
            past = jnp.tril(jnp.ones((length + 1, length + 1), bool))
            scores = scores * jnp.exp(jnp.where(past, logs, -jnp.inf)[:, -scores.shape[1] :])
        elif training.model.label == "deep-linear":
            scores = scores / length
        else:
            scores = jax.nn.softmax(scores, -1)
        stream = stream[:, -1:, -1:] + scores @ seen[..., -1:] if last else stream + scores @ seen
    return stream[:, 0, 0]


def _transformer(training: Training, weights: Arrays, tokens: Any) -> Any:
    import jax

    read = tokens[:, -1] @ weights["query"].T @ weights["key"]
    attention = jax.nn.softmax((tokens[:, :-1] @ read[..., None])[..., 0], -1)
    mixed = (attention[:, None] @ tokens[:, :-1])[:, 0]
    return jax.nn.relu(mixed @ weights["value"].T @ weights["hidden"].T) @ weights["signs"]
