"""How the time of a prompt, both passes, grows with each size on the fused engine."""

from __future__ import annotations

import math
import tracemalloc
from collections.abc import Callable
from typing import Any, NamedTuple

from iclab.bench.families import Family
from iclab.bench.timing import best_of, timed_training
from iclab.engines import Training

Tell = Callable[[str], None]


class Axis(NamedTuple):
    """A size to vary."""

    name: str
    values: tuple[int, ...]
    steps: int


SHALLOW = (
    Axis("context_length", (10, 40, 160, 640), 100),
    Axis("dimension", (30, 300, 3000), 1000),
    Axis("batch_size", (64, 256, 1024), 200),
    Axis("steps", (250, 1000, 4000), 0),
    Axis("seeds", (4, 16, 64), 300),
)
LENGTH, DIMENSION = Axis("context_length", (10, 20, 40, 80), 20), Axis("dimension", (30, 100, 300), 200)
DEEP = (
    LENGTH,
    DIMENSION,
    Axis("layers", (1, 2, 4, 8), 40),
    Axis("heads", (1, 2, 3, 6), 20),
    Axis("batch_size", (32, 128, 512), 40),
    Axis("seeds", (4, 16), 40),
)
AXES: dict[str, tuple[Axis, ...]] = {
    "mamba": SHALLOW,
    "linear": SHALLOW[:2],
    "deep-mamba": DEEP,
    "deep-linear": DEEP[:2],
    "deep-softmax": DEEP[:2],
    "softmax-mlp": (
        Axis("context_length", (10, 40, 160), 100),
        Axis("dimension", (30, 100, 300), 400),
        Axis("neurons", (100, 200, 400, 800), 100),
        Axis("batch_size", (32, 128, 512), 200),
    ),
}
"""Runs are short, but those of ``dimension``: there, what a training does before and after its steps must not count."""


STILL = 1e-6
"""A step size that moves nothing. With it and the linear loss every prompt takes both passes, whatever its size."""


def changed(training: Training, axis: str, value: int) -> Training:
    """Return a training with another size."""
    prompts, recipe, model = training.prompts, training.recipe, training.model
    if axis == "context_length":
        return training.replace(prompts=prompts.replace(context_length=value))
    if axis == "dimension":
        return training.replace(prompts=prompts.replace(patterns=prompts.patterns.replace(dimension=value)))
    if axis in ("batch_size", "steps"):
        return training.replace(recipe=recipe.replace(**{axis: value}))
    return training if axis == "seeds" else training.replace(model=model.replace(options=model.options | {axis: value}))


def growth(family: Family, axes: tuple[Axis, ...], seeds: int, threads: int, times: int, tell: Tell) -> dict[str, Any]:
    """Measure nanoseconds per prompt, and their exponent in each size: 1 is linear, 0 is constant."""
    found: dict[str, Any] = {}
    for axis in axes:
        steps = {"steps": axis.steps} if axis.steps else {}
        usual = family.on("fused", loss="linear", step_size=STILL, **steps)
        took = []
        for value in axis.values:
            training = changed(usual, axis.name, value)
            many = value if axis.name == "seeds" else seeds
            recipe = training.recipe
            seconds = best_of(times, lambda t=training, n=many: timed_training(t, n, threads))  # type: ignore[misc]
            took.append(1e9 * seconds / (recipe.steps * recipe.batch_size * many))
        ratio, (low, *_, high) = took[-1] / took[0], axis.values
        exponent = math.log(ratio) / math.log(high / low)
        tell(f"{family.name}, {axis.name} {low} to {high}: time per prompt × {ratio:.2f}, exponent {exponent:.2f}")
        found[axis.name] = {
            "values": list(axis.values),
            "nanoseconds_per_prompt": took,
            "ratio": ratio,
            "exponent": exponent,
        }
    return found


def memory(family: Family, steps: tuple[int, int] = (250, 4000)) -> dict[str, Any]:
    """Measure the peak of allocated memory in a short and a long training."""
    peaks = []
    for count in steps:
        tracemalloc.start()
        timed_training(family.on("fused", steps=count), 2, 1)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    return {"steps": list(steps), "peak_bytes": peaks}
