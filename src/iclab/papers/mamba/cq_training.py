"""M-cq-training: the second half of the training uses prompts with the outliers closest to the query."""

from __future__ import annotations

from typing import Any

from iclab.papers.mamba.placements import Column, PlacementTable, ahead, at_least
from iclab.papers.mamba.settings import DeepMambaPaper
from iclab.study.claims import Claim

PLAIN, AFTER = "random places", "then closest"


class ClosestTraining(PlacementTable[DeepMambaPaper]):
    """Mamba trained with and without a second half on CQ prompts."""

    id = "M-cq-training"
    title = "Mamba trained on outliers at random positions, then closest to the query"
    paper = (
        "Training first on outliers at random positions and in the second half on CQ data mitigates the low accuracy "
        "at CQ: 98.00 (FQ), 98.25 (R), 95.45 % (CQ)."
    )
    reading = "Left: Mamba as in M-tab1. Right: a training of the same length, with only CQ prompts in its second half."
    settings = DeepMambaPaper
    numbers = {(PLAIN, "deep-mamba"): (99.73, 99.67, 82.73), (AFTER, "deep-mamba"): (98.00, 98.25, 95.45)}

    def columns(self, settings: DeepMambaPaper) -> list[Column]:
        """Return the two ways to train."""
        return [
            Column(PLAIN, settings.replace(cq_training=False)),
            Column(AFTER, settings.replace(cq_training=True), baselines=False),
        ]

    def models(self, settings: DeepMambaPaper) -> tuple[str, ...]:
        """Return Mamba only."""
        return ("deep-mamba",)

    def claims(self, settings: DeepMambaPaper) -> list[Claim]:
        """Claim that training on CQ raises accuracy at CQ and costs little at FQ and R."""

        def cell(column: str, placement: str) -> dict[str, Any]:
            return {"column": column, "model": "deep-mamba", "stage": "trained", "placement": placement}

        return [
            Claim(
                "M-cq-training.lift",
                "the low accuracy at CQ is mitigated: 95.45 % instead of 82.73 %",
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
