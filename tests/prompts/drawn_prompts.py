"""Prompts that the tests draw, and functions that take a batch apart."""

from dataclasses import fields

import numpy as np
from evenness import quarter

from iclab.prompts import Mixture, Outliers, Patterns, PromptBatch, Prompts, Stream

STREAMS = [Stream.TRAIN, Stream.TEST]
PATTERNS = Patterns(dimension=17, relevant=5, irrelevant=6, outlier=3)  # 14 patterns
FIRST_OUTLIER, FIRST_MIXTURE = 11, 14
SCALE = 0.7  # K
FRACTION = 0.4

RULES = {
    "random": {"labels": "random"},
    "flip": {"labels": "flip"},
    "plus": {"labels": "target", "target": 1},
    "minus": {"labels": "target", "target": -1},
}
MIXTURES = (
    Mixture(weights=(0.7, 0.6, -0.4)),
    Mixture(weights=(1.0, 0.0, 0.0), outside_norm=2.5),
    Mixture(weights=(-0.7, 0.5, 0.5), outside_norm=0.1),
    Mixture(weights=(3.0, 0.0, -1.0), outside_norm=2.5),
)


# Users' rules, as a person would write them.


def by_lot(number, uniform):
    """A placement that draws lots: the ``number`` smallest random numbers."""
    return np.argsort(np.argsort(uniform, axis=-1), axis=-1) < number[..., None]


def by_pattern(examples):
    """A label rule that looks at the outlier pattern: +1 for the first, −1 for the others."""
    return np.where(examples.outlier_pattern == 0, 1.0, -1.0)


def by_chance(examples):
    """A label rule that needs a random number: +1 three times out of ten."""
    return np.where(examples.uniform < 0.3, 1.0, -1.0)


def make(length=6, *, tasks="ring:2", balance="independent", label_noise=0.0, relevant_count=None, **outliers):
    return Prompts(
        patterns=PATTERNS,
        tasks=tasks,
        context_length=length,
        irrelevant_scale=SCALE,
        outliers=Outliers(**outliers),
        balance=balance,
        label_noise=label_noise,
        relevant_count=relevant_count,
    )


def everything(batch):
    found = {field.name: getattr(batch, field.name) for field in fields(batch)}
    return {name: array for name, array in found.items() if array is not None}  # most prompts have no noise


def assert_same(a, b):
    for name, array in everything(a).items():
        np.testing.assert_array_equal(array, getattr(b, name), err_msg=name)
        assert array.dtype == getattr(b, name).dtype


def part(batch, seeds, prompts):
    return PromptBatch(**{name: array[seeds][:, prompts] for name, array in everything(batch).items()})


def task_number(batch, prompts):
    pairs = prompts.tasks.pairs(prompts.patterns.relevant)
    lookup = np.full((prompts.patterns.relevant,) * 2, -1)
    lookup[tuple(np.transpose(pairs))] = np.arange(len(pairs))
    return lookup[batch.task[..., 0], batch.task[..., 1]]


def observed(batch, prompts):
    """Return everything random in a batch as small integers: per prompt (…), per example and per outlier (…, l)."""
    kappa = quarter(batch.coefficient[..., 1], -prompts.irrelevant_scale, prompts.irrelevant_scale)
    of_prompts = {
        "task": task_number(batch, prompts),
        "query side": (batch.target[..., 0] < 0).astype(int),
        "query irrelevant": batch.index[..., -1, 1] - prompts.patterns.relevant,
        "query kappa": kappa[..., -1],
    }
    of_examples = {
        "position": np.broadcast_to(np.arange(batch.length), batch.outlier.shape),
        "side": (batch.true_labels[..., 0] < 0).astype(int),
        "irrelevant": batch.index[..., :-1, 1] - prompts.patterns.relevant,
        "kappa": kappa[..., :-1],
        "outlier": batch.outlier.astype(int),
    }
    of_outliers = {
        "pattern": batch.index[..., :-1, 2] - prompts.outliers.rows(prompts.patterns)[0],
        "shown": (batch.labels[..., :-1, 0] < 0).astype(int),
    }
    return of_prompts, of_examples, of_outliers
