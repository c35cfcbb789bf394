"""Classical learners, fitted to the examples of each prompt: T Figure 4.

Code name → paper:  learner logistic, svm-rbf, svm-linear, 1-nn, 3-nn: Logistic, SVM Gau., SVM Lin., 1-NN, 3-NN.

    F(P) = the decision for x_query of scikit-learn's learner, fitted to (x_1, y_1), …, (x_l, y_l)

There are no weights and nothing to train: it takes 0 steps. The defaults are scikit-learn's. ``penalty`` and ``cosine``
are what a person would tune: a default that does not suit the data would flatter the model it is compared with.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from iclab.config import InputError
from iclab.models.answer import Answer
from iclab.models.base import Architecture

LEARNERS = ("logistic", "svm-rbf", "svm-linear", "1-nn", "3-nn")


class Classical(Architecture):
    """A learner that sees one prompt at a time.

    Args:
        width: the length of a token.
        label_width: how many of its last coordinates are the label ±q; q lies along the first.
        learner: ``logistic``, ``svm-rbf``, ``svm-linear``, or k nearest neighbours: ``1-nn``, ``3-nn``, ….
        penalty: scikit-learn's C, the inverse of the regularisation; neighbours have none.
        cosine: normalise every input first, so that only angles count.
    """

    name = "classical"
    label = "classical"
    list_order = 90
    group_size = 4
    readable = frozenset()

    def __init__(
        self,
        width: int,
        label_width: int = 1,
        learner: str = "logistic",
        penalty: float = 1.0,
        cosine: bool = False,
    ) -> None:
        super().__init__()
        neighbours = re.fullmatch(r"([1-9]\d*)-nn", str(learner))
        if learner not in LEARNERS and not neighbours:
            raise InputError(f"learner = {learner!r}: must be one of {', '.join(LEARNERS)}, or another k-nn")
        if not isinstance(cosine, bool):
            raise InputError(f"cosine = {cosine!r}: must be true or false")
        if not penalty > 0:
            raise InputError(f"penalty = {penalty!r}: must be above 0")
        self.inputs = width - label_width
        self.learner, self.penalty, self.cosine = learner, float(penalty), cosine
        self.neighbours = int(neighbours[1]) if neighbours else 0

    @classmethod
    def one_by_one(cls, options: Mapping[str, Any]) -> str:
        """Scikit-learn cannot stack seeds."""
        return "it fits one prompt of one seed at a time"

    def forward(self, tokens: Tensor) -> Answer:
        """Fit a learner to each prompt (batch, l + 1, width) and return its decisions."""
        from sklearn import config_context  # takes a second, so only when needed
        from threadpoolctl import threadpool_limits

        prompts = tokens.detach().double().cpu().numpy()
        x, y = prompts[..., : self.inputs], prompts[:, :-1, self.inputs]  # (batch, l + 1, d), (batch, l)
        if self.cosine:
            x = x / np.maximum(np.linalg.norm(x, axis=-1, keepdims=True), 1e-300)
        with threadpool_limits(1), config_context(assume_finite=True, skip_parameter_validation=True):
            decisions = [self._decide(inputs, np.sign(labels)) for inputs, labels in zip(x, y, strict=True)]
        return Answer(torch.tensor(decisions, dtype=tokens.dtype, device=tokens.device))

    def _decide(self, x: NDArray[np.float64], y: NDArray[np.float64]) -> float:
        """Fit to all rows of ``x`` but the last and decide for the last, the query."""
        if (y == y[0]).all():  # nothing to tell apart
            return float(y[0])
        fitted = self._fresh(len(y)).fit(x[:-1], y)
        if self.neighbours:
            return float(fitted.predict_proba(x[-1:])[0] @ fitted.classes_)  # the neighbours' mean label
        return float(fitted.decision_function(x[-1:])[0])

    def _fresh(self, examples: int) -> Any:
        from sklearn.linear_model import LogisticRegression
        from sklearn.neighbors import KNeighborsClassifier
        from sklearn.svm import SVC

        if self.neighbours:
            return KNeighborsClassifier(min(self.neighbours, examples), algorithm="brute")
        if self.learner == "logistic":
            return LogisticRegression(C=self.penalty, max_iter=10_000)
        return SVC(C=self.penalty, kernel=self.learner.removeprefix("svm-"))
