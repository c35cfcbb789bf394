"""M-tab2: linear attention with one to four heads."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import Field

from iclab.papers.mamba.placements import Column, PlacementTable, ahead, near_print
from iclab.papers.mamba.settings import PLACEMENTS, DeepMambaPaper
from iclab.study.claims import Claim
from iclab.study.settings import Chosen, Different, Disclosed

PRINTED = {
    1: (93.68, 94.12, 93.96),
    2: (93.90, 95.08, 94.18),
    3: (92.86, 93.10, 92.74),
    4: (91.54, 90.90, 90.86),
}


class HeadSettings(DeepMambaPaper):
    """Settings of M-tab2."""

    dimension: Annotated[int, Disclosed("d, M B.1")] = 72
    heads: Annotated[
        tuple[Annotated[int, Field(ge=1)], ...],
        Field(min_length=1),
        Different,
        Disclosed("H, M Table 2; must divide d", grid=True),
    ] = (1, 2, 3, 4)
    single_with_values: Annotated[
        bool,
        Chosen(
            "several heads need W_V and W_O, which the paper does not mention; one head with them is the fair "
            "comparison. It is shown next to the model of M-tab1, which has neither"
        ),
    ] = True

    def quick(self) -> Self:
        """Return the quick edition: a smaller dimension and fewer numbers of heads."""
        small = min(self.dimension, 30)
        return super().quick().replace(dimension=small, heads=tuple(h for h in self.heads if small % h == 0 and h < 3))


def name_of(heads: int, values: bool) -> str:
    """Return the name of a column."""
    return f"H = {heads}" + (" with W_V, W_O" if heads == 1 and values else "")


class Heads(PlacementTable[HeadSettings]):
    """Linear attention by number of heads."""

    id = "M-tab2"
    title = "Accuracy of three layers of linear attention by the number of heads"
    paper = (
        "Increasing the number of heads to 2 slightly improves the performance of the linear Transformer, but 3 and 4 "
        "degrade it: at R 94.12, 95.08, 93.10, 90.90 %."
    )
    reading = (
        "One panel per number of heads. Each head has its own values (W_V, W_O): at the start W_V cuts the token into "
        "slices and W_O is the inverse. One head is shown without them, as in M-tab1, and with them. Several heads "
        "start as a different function with far smaller outputs, because each head weighs only its own slice (see the "
        "untrained models)."
    )
    settings = HeadSettings
    numbers = {(name_of(h, False), "deep-linear"): printed for h, printed in PRINTED.items()}

    def columns(self, settings: HeadSettings) -> list[Column]:
        """Return one column per number of heads."""
        settings.model("deep-linear")  # raises an error if there is none
        wanted = [(h, h > 1) for h in settings.heads]
        if 1 in settings.heads and settings.single_with_values:
            wanted.insert(1, (1, True))
        columns = []
        for heads, values in wanted:
            options = {**settings.architectures["deep-linear"], "heads": heads, "values": values}
            if not values:
                options = settings.architectures["deep-linear"]  # the model of M-tab1
            changed = settings.replace(architectures={**settings.architectures, "deep-linear": options})
            columns.append(Column(name_of(heads, values), changed))
        return columns

    def models(self, settings: HeadSettings) -> tuple[str, ...]:
        """Return linear attention only."""
        return ("deep-linear",)

    def claims(self, settings: HeadSettings) -> list[Claim]:
        """Claim that two heads are better than one and that three and four are worse, and compare the numbers."""

        def cell(column: str, placement: str) -> dict[str, Any]:
            return {"column": column, "model": "deep-linear", "stage": "trained", "placement": placement}

        def versus(first: str, second: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
            return [(cell(first, place), cell(second, place)) for place in PLACEMENTS.values()]

        single = name_of(1, settings.single_with_values)
        claims = []
        if 2 in settings.heads:
            claims.append(
                Claim(
                    "M-tab2.two-better",
                    "H = 2 slightly improves the performance",
                    f"H = 2 better than {single} at FQ, R and CQ, on paired seeds",
                    ahead(settings.seeds, 0.0, versus("H = 2", single)),
                )
            )
        for heads in (h for h in settings.heads if h in (3, 4)):
            claims.append(
                Claim(
                    f"M-tab2.{heads}-worse",
                    f"H = {heads} degrades the performance",
                    f"{single} better than H = {heads} at FQ, R and CQ, on paired seeds",
                    ahead(settings.seeds, 0.0, versus(single, f"H = {heads}")),
                )
            )
        for heads in (h for h in settings.heads if h in PRINTED):
            printed = [
                (cell(f"H = {heads}", place), number / 100)
                for place, number in zip(PLACEMENTS.values(), PRINTED[heads], strict=True)
            ]
            claims.append(
                Claim(
                    f"M-tab2.numbers.{heads}",
                    ", ".join(f"{number:.2f}" for number in PRINTED[heads]) + " %",
                    "within 0.02 of each of the paper's numbers",
                    near_print(settings.seeds, 0.02, printed),
                )
            )
        return claims
