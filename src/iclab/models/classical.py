"""Classical learners, fitted to the examples of each prompt: T Figure 4.

Code name → paper:  learner logistic, svm-rbf, svm-linear, 1-nn, 3-nn: Logistic, SVM Gau., SVM Lin., 1-NN, 3-NN.

    F(P) = the decision for x_query of the learner, fitted to (x_1, y_1), …, (x_l, y_l)

There are no weights and nothing to train: it takes 0 steps. The learners and their defaults are scikit-learn's, solved
by compiled loops (`iclab.models.classical_kernels`) more closely than scikit-learn does. ``penalty`` and ``cosine`` are
what a person would tune: a default that does not suit the data would flatter the model it is compared with.

For real labels, ``ridge`` is ridge regression with an intercept; the others see the signs of labels.
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

LEARNERS = ("logistic", "svm-rbf", "svm-linear", "1-nn", "3-nn", "ridge")


class Classical(Architecture):
    """A learner that sees one prompt at a time.

    Args:
        width: the length of a token.
        label_width: how many of its last coordinates are the label ±q; q lies along the first.
        learner: ``logistic``, ``svm-rbf``, ``svm-linear``, ``ridge``, or k nearest neighbours: ``1-nn``, ``3-nn``, ….
        penalty: scikit-learn's C, the inverse of the regularisation (ridge: 1/alpha); neighbours have none.
        cosine: normalise every input first, so that only angles count.
    """

    name = "classical"
    label = "classical"
    list_order = 90
    version = 2  # solved more closely
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
        """Name why stacking seeds would gain nothing."""
        return "it fits one prompt of one seed at a time"

    def forward(self, tokens: Tensor) -> Answer:
        """Fit a learner to each prompt (batch, l + 1, width) and return its decisions."""
        from iclab.models import classical_kernels as kernels  # imported late, because numba takes long to import

        prompts = tokens.detach().double().cpu().numpy()
        x, y = prompts[..., : self.inputs], prompts[:, :-1, self.inputs]  # (batch, l + 1, d), (batch, l)
        if self.cosine:
            x = x / np.maximum(np.linalg.norm(x, axis=-1, keepdims=True), 1e-300)
        if self.learner == "ridge":
            return Answer(torch.from_numpy(_ridge(x, y, 1.0 / self.penalty)).to(tokens))
        x, y, decisions = np.ascontiguousarray(x), np.sign(y), np.empty(len(x))
        if self.neighbours:
            kernels.neighbours(x, y, self.neighbours, decisions)
        elif self.learner == "logistic":
            kernels.logistic(x, y, self.penalty, decisions)
        else:
            kernels.support_vectors(x, y, self.penalty, self.learner == "svm-rbf", decisions)
        return Answer(torch.from_numpy(decisions).to(tokens))


def _ridge(x: NDArray[np.float64], y: NDArray[np.float64], strength: float) -> NDArray[np.float64]:
    """Return what ridge regression says of the queries: the minimum of ‖y − Xw − b‖² + strength · ‖w‖², per prompt."""
    mean, level = x[:, :-1].mean(1, keepdims=True), y.mean(1)
    examples, query = x[:, :-1] - mean, x[:, -1] - mean[:, 0]
    products = examples @ examples.swapaxes(1, 2) + strength * np.eye(y.shape[1])  # (batch, l, l)
    solved = np.linalg.solve(products, (y - level[:, None])[..., None])  # (batch, l, 1)
    answers: NDArray[np.float64] = level + ((examples @ query[..., None]) * solved)[..., 0].sum(1)
    return answers
