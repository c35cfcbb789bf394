"""M-cq-training: the second half of the training on prompts whose outliers stand closest to the query."""

from __future__ import annotations

from typing import Any

from iclab.papers.mamba.placements import Column, PlacementTable, ahead, at_least
from iclab.papers.mamba.settings import DeepMambaPaper
from iclab.study.claims import Claim

PLAIN, AFTER = "random places", "then closest"


class ClosestTraining(PlacementTable[DeepMambaPaper]):
    """A schedule of prompt distributions."""

    id = "M-cq-training"
    title = "Mamba trained on outliers at random places, and then closest to the query"
    paper = (
        "Training first on outliers at random positions and in the second half on CQ data mitigates the low accuracy "
        "at CQ: 98.00 (FQ), 98.25 (R), 95.45 % (CQ)."
    )
    reading = "Left, Mamba as in M-tab1; right, after a training of the same length whose second half is all CQ."
    settings = DeepMambaPaper
    numbers = {(PLAIN, "deep-mamba"): (99.73, 99.67, 82.73), (AFTER, "deep-mamba"): (98.00, 98.25, 95.45)}

    def columns(self, settings: DeepMambaPaper) -> list[Column]:
        """Return the two schedules."""
        return [
            Column(PLAIN, settings.replace(cq_training=False)),
            Column(AFTER, settings.replace(cq_training=True), yardsticks=False),
        ]

    def models(self, settings: DeepMambaPaper) -> tuple[str, ...]:
        """Mamba alone."""
        return ("deep-mamba",)

    def claims(self, settings: DeepMambaPaper) -> list[Claim]:
        """What CQ data are said to bring, and to cost."""

        def cell(column: str, placement: str) -> dict[str, Any]:
            return {"column": column, "model": "deep-mamba", "stage": "trained", "placement": placement}

        return [
            Claim(
                "M-cq-training.lift",
                "the low accuracy of CQ is mitigated: 95.45 % after 82.73 %",
                "accuracy at CQ more than 0.05 higher than without CQ data, on paired seeds",
                ahead(settings.seeds, 0.05, [(cell(AFTER, "CQ"), cell(PLAIN, "CQ"))]),
            ),
            Claim(
                "M-cq-training.cost",
                "FQ 98.00 %, R 98.25 %",
                "accuracy > 0.98 at FQ and R",
                at_least(settings.seeds, 0.98, [cell(AFTER, place) for place in ("FQ", "R")]),
            ),
        ]
