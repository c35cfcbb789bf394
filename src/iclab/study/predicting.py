"""What the theorems say about a training and its test: their conditions, and the numbers they predict."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from iclab.config import InputError
from iclab.engines import Recipe, Training
from iclab.models import Model
from iclab.prompts import Patterns, Prompts
from iclab.study.experiment import Condition
from iclab.theory.check import Check
from iclab.theory.conditions import conditions, missed
from iclab.theory.predictions import Prediction, predictions
from iclab.theory.setting import MambaSetting, Setting, TransformerSetting
from iclab.theory.statements import BY_ID

EPSILON = 0.01
"""ε, if none is given: the error that the papers call small."""
COVERED: dict[str, Literal["mamba", "linear", "softmax-mlp"]] = {
    "mamba": "mamba",
    "deep-mamba": "mamba",
    "linear": "linear",
    "deep-linear": "linear",
    "softmax-mlp": "softmax-mlp",
}
"""Models that theorems are about, or that have more layers than those."""


def predict(
    model: str | Model,
    prompts: Prompts | None = None,
    recipe: Recipe | None = None,
    *,
    test: Prompts | None = None,
    epsilon: float = EPSILON,
) -> Predicted:
    """Return what the theorems require and predict, without training anything.

    Args:
        model: ``mamba``, ``linear`` (paper M) or ``softmax-mlp`` (papers T and S), or a `Model` with options.
        prompts: the distribution of training prompts.
        recipe: loss, optimiser, steps, batch size.
        test: the distribution of test prompts; by default the training prompts.
        epsilon: ε, the loss or error that a theorem promises, between 0 and 1.

    Example:
        >>> predicted = predict("mamba", Prompts(tasks="ring:1"))
        >>> [check.id for check in predicted.missed("M-cond1")], predicted.value("tasks.failing")
        ([], 12.0)
    """
    spec = model if isinstance(model, Model) else Model(name=model)
    suited = (recipe or Recipe()).suited(spec.architecture.step_size)
    training = Training(model=spec, prompts=prompts or Prompts(), recipe=suited)
    return Predicted(setting_of(training, test, epsilon))


@dataclass(frozen=True)
class Predicted:
    """The conditions of the theorems at a setting, and what theory predicts there. ``print`` shows it as a table."""

    setting: Setting

    @cached_property
    def conditions(self) -> tuple[Check, ...]:
        """Every condition that concerns the setting, in the papers' order."""
        return tuple(conditions(self.setting))

    @cached_property
    def predictions(self) -> tuple[Prediction, ...]:
        """Every predicted number."""
        return tuple(predictions(self.setting))

    def missed(self, statement: str) -> list[Check]:
        """Return the conditions that a statement, such as ``M-thm2``, rests on and that are not met."""
        if statement not in BY_ID:
            raise InputError(f"statement = {statement!r}: must be one of {', '.join(BY_ID)}")
        return missed(statement, self.conditions)

    def value(self, id_: str) -> float:
        """Return a predicted number by its id."""
        found = {prediction.id: prediction.value for prediction in self.predictions}
        if id_ not in found:
            raise InputError(f"prediction = {id_!r}: must be one of {', '.join(found)}")
        return float(found[id_])

    def as_data(self) -> dict[str, Any]:
        """Return everything as plain data for JSON; an unbounded side, or a number without a value, is None."""
        graph = self.setting.graph
        return {
            "setting": asdict(self.setting),
            "graph": {"complete": graph.complete, "connected": graph.connected, "regular": graph.regular},
            "conditions": [{"where": BY_ID[c.theorem].where} | c.as_data() for c in self.conditions],
            "predictions": [prediction.as_data() for prediction in self.predictions],
        }

    def __str__(self) -> str:
        lines: list[str] = []
        group = ""
        for check in self.conditions:
            if check.theorem != group:
                group = check.theorem
                lines += ["", BY_ID[group].where]
            met = "yes" if check.holds else "NO "
            numbers = f"{figure(check.left)} {check.relation} {figure(check.right)}"
            lines.append(f"  {met} {check.name:<16} {check.formula:<68} {numbers}")
        lines += ["", "Predictions"]
        lines += [f"  {figure(p.value):>9}  {p.words}  [{p.formula}]" for p in self.predictions]
        return "\n".join(lines[1:])


def setting_of(training: Training, test: Prompts | None = None, epsilon: float = EPSILON) -> Setting:
    """Return a training and its test as the numbers that theorems speak about; refuse models that none is about."""
    label = training.model.label
    if label not in COVERED or not isinstance(training.model.name, str):  # a user's class may have any name
        raise InputError(f"model = {label}: no theorem of the papers is about it; choose one of {', '.join(COVERED)}")
    tested = test or training.prompts
    if training.prompts.patterns.table is not None or tested.patterns.table is not None:
        raise InputError("prompts.patterns.table: no theorem of the papers is about rows of a table")
    reason = training.prompts.fits(tested)
    if reason:
        raise InputError(f"test {reason}")
    kind = COVERED[label]
    return _transformer(training, tested, epsilon) if kind == "softmax-mlp" else _mamba(training, tested, epsilon, kind)


def _shared(training: Training, test: Prompts, epsilon: float) -> dict[str, Any]:
    """Return the numbers that settings of all papers have."""
    prompts, patterns, recipe = training.prompts, training.prompts.patterns, training.recipe
    return {
        "dimension": patterns.dimension,
        "relevant": patterns.relevant,
        "irrelevant": patterns.irrelevant,
        "relevant_norm": float(np.median(patterns.norms[: patterns.relevant])),
        "tasks": prompts.tasks.pairs(patterns.relevant),
        "train_length": prompts.context_length,
        "test_length": test.context_length,
        "train_irrelevant_scale": prompts.irrelevant_scale,
        "test_irrelevant_scale": test.irrelevant_scale,
        "batch_size": recipe.batch_size,
        "step_size": recipe.step_size,
        "steps": recipe.steps,
        "init_scale": training.model.options["init_scale"],
        "epsilon": epsilon,
    }


def _mamba(training: Training, test: Prompts, epsilon: float, model: Literal["mamba", "linear"]) -> MambaSetting:
    prompts, patterns = training.prompts, training.prompts.patterns
    sums = tuple(round(sum(mixture.weights), 10) for mixture in test.outliers.mixtures) or (1.0,)
    return MambaSetting(
        **_shared(training, test, epsilon),
        model=model,
        layers=training.model.options.get("layers", 1),
        outlier=patterns.outlier,
        outlier_norm=float(np.median(patterns.norms[-patterns.outlier :]))
        if patterns.outlier
        else patterns.outlier_norm,
        train_outlier_fraction=_fraction(prompts),
        test_outlier_fraction=_fraction(test),
        train_outlier_scale=prompts.outliers.scale,
        test_outlier_scale=test.outliers.scale,
        mixture_sums=sums,
        outside_norm=max((mixture.outside_norm for mixture in test.outliers.mixtures), default=0.0),
        exact_count=test.outliers.count is not None,
        departures=(*_departures(training), *_prompt_departures(prompts, test), *_outlier_departures(prompts, test)),
    )


def _fraction(prompts: Prompts) -> float:
    """Return p_a or α; a count of outliers as its share of the examples."""
    count = prompts.outliers.count
    return prompts.outliers.fraction if count is None else count / prompts.context_length


def _relevant_fraction(prompts: Prompts) -> float:
    """Return T's α; a count of examples with the task's patterns as its share."""
    count = prompts.relevant_count
    return prompts.relevant_fraction if count is None else count / prompts.context_length


def _transformer(training: Training, test: Prompts, epsilon: float) -> TransformerSetting:
    prompts, options = training.prompts, training.model.options
    width = prompts.patterns.dimension + prompts.label_width
    sizes = (options["state_size"], options["value_size"])
    more = ["outliers in prompts"] if prompts.outliers.present or test.outliers.present else []
    return TransformerSetting(
        **_shared(training, test, epsilon),
        label_dimension=prompts.label_width,
        relevant_fraction=_relevant_fraction(prompts),
        test_relevant_fraction=_relevant_fraction(test),
        mixture_sums=tuple(round(sum(weights), 10) for weights in test.relevant_mixtures),
        smallest_weight=min((weight for weights in test.relevant_mixtures for weight in weights), default=0.0),
        neurons=options["neurons"],
        attention_size=min(width if size is None else size for size in sizes),
        signal=min(prompts.signal[0], 1.0),
        noise=prompts.noise,
        departures=(*_departures(training), *_prompt_departures(prompts, test), *more),
    )


def _departures(training: Training) -> list[str]:
    """Return, in words, where a training departs from Algorithm 1 and from orthogonal patterns of one norm."""
    recipe, patterns = training.recipe, training.prompts.patterns
    found = {
        f"{recipe.optimizer} in place of plain SGD": recipe.optimizer != "sgd" or bool(recipe.optimizer_options),
        f"{getattr(recipe.loss, 'path', recipe.loss)} loss": recipe.loss != "hinge",
        "clipped gradients": recipe.clip is not None,
        "a step size that changes": recipe.decay != "none" or bool(recipe.warmup),
        "training that stops early": recipe.stop is not None or recipe.callback is not None,
        "training prompts that change": bool(recipe.switches),
        f"frozen {', '.join(recipe.frozen)}": bool(recipe.frozen),
        "patterns that are not orthogonal": not _orthogonal(patterns),
        "ν with another norm than µ": not np.allclose(patterns.norms[: -patterns.outlier or None], patterns.norms[0]),
    }
    return [words for words, here in found.items() if here]


def _orthogonal(patterns: Patterns) -> bool:
    """Whether patterns are orthogonal, up to rounding."""
    if patterns.vectors is None:
        return patterns.coherence == 0
    cosines = patterns.gram / np.outer(patterns.norms, patterns.norms)
    return np.allclose(cosines, np.eye(patterns.count))


def _prompt_departures(prompts: Prompts, test: Prompts) -> list[str]:
    """Return, in words, where prompts depart from those of all papers."""
    both = (prompts, test)
    found = {
        "clean examples with wrong labels": any(p.label_noise for p in both),
        "outliers in the query": any(p.outliers.query for p in both),
        "an exact number of examples with the task's patterns": any(
            p.relevant_count is not None and p.has_others for p in both
        ),
        "test patterns that are not those of the training": test.patterns != prompts.patterns,
        "labels that are real numbers": any(p.label_values == "real" for p in both),
    }
    return [words for words, here in found.items() if here]


def _outlier_departures(prompts: Prompts, test: Prompts) -> list[str]:
    """Return, in words, where prompts depart from M's Definitions 1 and 2."""
    outliers = prompts.outliers
    both = (prompts, test)
    found = {
        "training outliers without random labels": outliers.present and outliers.labels != "random",
        "training outliers in chosen places": outliers.present and outliers.placement != "random",
        "training outliers that are mixtures": outliers.present and bool(outliers.mixtures),
        "examples with patterns outside the task": any(p.has_others for p in both),
        "tokens with S's signal or noise": any(p.signal != (1.0, 1.0) or p.noise > 0 for p in both),
        "labels that are vectors": any(p.label_dimension is not None for p in both),
        "test patterns that are mixtures": bool(test.relevant_mixtures or test.irrelevant_mixtures),
    }
    return [words for words, here in found.items() if here]


def settings_of(listed: Iterable[Condition], epsilon: float = EPSILON) -> tuple[Setting, ...]:
    """Return every different setting among the measurements of an experiment, without those that no theorem is about.

    These are other models, and numbers that a theorem excludes from the start, such as p_a = 1.
    """
    found: dict[Setting, None] = {}
    seen: set[tuple[str, str]] = set()
    for condition in listed:
        training, test = condition.cell.training.training, condition.cell.prompts
        key = (training.digest(), test.digest())
        if key not in seen:
            seen.add(key)
            with contextlib.suppress(InputError):
                found[setting_of(training, test, epsilon)] = None
    return tuple(found)


def figure(value: float) -> str:
    """Return a number with four significant figures; ∞ for infinity, – where there is none.

    >>> figure(46051.7), figure(-0.03704), figure(3.6e-5), figure(float("inf")), figure(float("nan"))
    ('46,052', '−0.03704', '3.6e-05', '∞', '–')
    """
    if value != value:
        return "–"
    if value in (float("inf"), float("-inf")):
        return "∞" if value > 0 else "−∞"
    text = f"{value:,.0f}" if 1e4 <= abs(value) < 1e9 else f"{value:.4g}"
    return text.replace("-", "−", 1) if value < 0 else text
