"""M-fig6: the gates of Mamba's second and third layer by distance from the query."""

from __future__ import annotations

from iclab.papers.mamba.fig4 import GatesByDistance


class LaterGates(GatesByDistance):
    """Layers 2 and 3."""

    id = "M-fig6"
    title = "Gates of Mamba's second and third layer by distance from the query"
    paper = "As in M-fig4, in layers 2 and 3."
    reading = "As in M-fig4. In the inputs of these layers, earlier layers have mixed outliers with clean examples."
    layers = (2, 3)
