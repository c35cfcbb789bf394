"""M-fig5: the attention of Mamba's second and third layer during training."""

from __future__ import annotations

from iclab.papers.mamba.fig3 import AttentionOverTraining


class LaterLayers(AttentionOverTraining):
    """Layers 2 and 3."""

    id = "M-fig5"
    title = "Attention of Mamba's second and third layer during training"
    paper = "As in M-fig3, in layers 2 and 3."
    reading = "As in M-fig3. The inputs of these layers are tokens that earlier layers have mixed."
    layers = (2, 3)
