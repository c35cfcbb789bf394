"""The worst labels of a few outliers, by trying all of them: for any model, as nothing is assumed about it.

A prompt with k outliers is answered 2^k times, once for each labelling ±1 of the outliers, and the smallest z·F counts.
This is the exact worst case over the labels, with the query in view. It needs an exact number of outliers, at most
`MOST`. For models of one layer the probe ``worst`` finds the same in l steps, for any number of outliers.
"""

from __future__ import annotations

import numpy as np
import torch

from iclab.engines import Sums, Training, intervening
from iclab.engines.ensemble import ask
from iclab.probes.answers import margin_sums
from iclab.probes.insides import Chunk
from iclab.prompts import Prompts

MOST = 8
"""Outliers in a prompt: 256 labellings."""


def enumerated_sums(chunk: Chunk) -> Sums:
    """Return the sums of the probe ``error`` under the worst of all labellings of the outliers."""
    modules = intervening.modules(chunk.trained, chunk.weights)
    seeds, count = chunk.batch.outlier.shape[:2]
    z = chunk.batch.target[..., 0].astype(np.float64)  # (seeds, batch)
    places = torch.from_numpy(np.argwhere(chunk.batch.outlier)[:, 2].reshape(seeds, count, -1))  # (seeds, batch, k)
    worst = np.full((seeds, count), np.inf)
    for labelling in range(2 ** places.shape[-1]):
        signs = [1.0 if labelling >> bit & 1 else -1.0 for bit in range(places.shape[-1])]
        tokens = chunk.tokens.clone()
        shown = torch.tensor(signs, dtype=tokens.dtype).expand(places.shape)
        tokens[..., -1] = tokens[..., -1].scatter(-1, places, shown)
        with torch.no_grad():
            found = [ask(module, own).output[:, 0] for module, own in zip(modules, tokens, strict=True)]
        worst = np.minimum(worst, z * torch.stack(found).double().numpy())  # NaN stays NaN
    return margin_sums(worst[..., None])


def enumerated_obstacle(training: Training, prompts: Prompts) -> str:
    """Return the reason why labellings cannot be tried one by one; empty if they can."""
    count = prompts.outliers.count
    if count is None or not 1 <= count <= MOST:
        return f"probe = worst-of-all: tries every labelling; needs outliers.count of 1 to {MOST}, and it is {count}"
    if prompts.label_dimension is not None:
        return f"probe = worst-of-all: needs labels ±1, and label_dimension = {prompts.label_dimension}"
    return ""
