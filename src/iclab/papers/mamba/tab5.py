"""M-tab5: three layers of linear attention against the fraction of outliers."""

from __future__ import annotations

from iclab.papers.mamba.placements import Numbers, ahead, near_print
from iclab.papers.mamba.tab4 import DROP, NEAR, FractionSettings, FractionTable, by_column
from iclab.study.claims import Claim

LINEAR: dict[float, Numbers] = {
    0.4: (96.54, 96.48, 96.30),
    0.5: (93.68, 94.12, 93.96),
    0.6: (89.68, 90.66, 90.08),
    0.7: (81.18, 81.00, 80.82),
    0.8: (69.10, 67.78, 68.70),
}


class LinearFractions(FractionTable):
    """Linear attention."""

    id = "M-tab5"
    title = "Accuracy of three layers of linear attention against the fraction of outliers"
    paper = "Linear attention drops sharply when α > 1/2: at R 96.48, 94.12, 90.66, 81.00, 67.78 % for α = 0.4 … 0.8."
    reading = (
        "One panel per placement; marks as in M-tab1. The paper's heading is 'Softmax Attention', and "
        "the column headings are one column too far right. The caption and the agreement with M-tab1 at 0.5 show that "
        "the model is linear."
    )
    model = "deep-linear"
    printed = LINEAR
    numbers = by_column(model, LINEAR)

    def claims(self, settings: FractionSettings) -> list[Claim]:
        """Claim a sharp drop, compare the numbers, and ask whether a plain vote gives the same numbers."""
        return [
            Claim(
                "M-tab5.sharp-drop",
                "a sharp drop in accuracy when α > 1/2",
                f"accuracy at the largest α more than {DROP} below that at α ≤ 1/2, on paired seeds",
                ahead(settings.seeds, DROP, self.ends(settings)),
            ),
            Claim(
                "M-tab5.numbers",
                "all numbers of Table 5",
                f"within {NEAR} of each of the paper's numbers",
                near_print(settings.seeds, NEAR, self.printed_cells(settings)),
            ),
            Claim(
                "M-tab5.vote",
                "the printed numbers are those of a plain vote",
                f"a plain vote within {NEAR} of each of the paper's numbers",
                near_print(settings.seeds, NEAR, self.printed_cells(settings, "vote")),
                ours=True,
            ),
        ]
