"""M-tab7's claims: Mamba against linear attention, CQ, the printed numbers, and gates of triggered sentences."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from iclab.papers.mamba.placements import Numbers, Where, ahead, near_print
from iclab.papers.mamba.settings import PLACEMENTS
from iclab.papers.mamba.tab7_rows import column_name, gate_ratios
from iclab.papers.mamba.tab7_settings import TriggerSettings
from iclab.papers.mamba.text import twice
from iclab.study.claims import Claim, Direction, Judge, Judgement, every_below, judged, mean_point

DEEP_MAMBA, DEEP_LINEAR = "deep-mamba", "deep-linear"
BETTER = 0.01
"""The paper: Mamba is better overall, by 3.9, 3.9 and 2.6 points. Read as: by more than one."""
PRINT = 0.03
HALF = 0.5
"""M Corollary 2: outliers have small gates. Read, for one word in a sentence, as: less than half of clean ones."""


def claims_of(settings: TriggerSettings, printed: Mapping[str, Numbers]) -> list[Claim]:
    """Return all claims; those of label rules and models that are not run have no rows."""
    n, components = settings.seeds, settings.components[0]

    def cell(model: str, place: str, rule: str = "target") -> Where:
        return {"column": column_name(components, rule), "model": model, "placement": place}

    def better(margin: float, rule: str, mamba: str, linear: str, places: tuple[str, ...]) -> Judge:
        return ahead(n, margin, [(cell(mamba, place, rule), cell(linear, place, rule)) for place in places])

    everywhere, far = tuple(PLACEMENTS.values()), ("FQ", "R")
    lowest = ahead(n, 0.0, [(cell(DEEP_MAMBA, place), cell(DEEP_MAMBA, "CQ")) for place in far])
    numbers = [
        (cell(model, place), value / 100)
        for model, values in printed.items()
        for place, value in zip(everywhere, values, strict=True)
        if value is not None
    ]
    never: Judge = lambda rows: Judgement("not run")  # noqa: E731
    models = (DEEP_MAMBA, DEEP_LINEAR)
    return [
        *twice(
            settings,
            "M-tab7.mamba-better",
            "Mamba is better than linear attention at FQ, R and CQ: 74.10, 73.86, 72.45 against 70.18, 69.98, 69.82 %",
            f"Mamba − linear > {BETTER} at FQ, R and CQ, three layers, target labels, on paired seeds",
            better(BETTER, "target", *models, everywhere),
            models=models,
            direction=Direction("above 0 at FQ and R", better(0.0, "target", *models, far)),
        ),
        *twice(
            settings,
            "M-tab7.cq-lowest",
            "Mamba is lowest at CQ",
            "FQ − CQ > 0 and R − CQ > 0 for three layers of Mamba, target labels, on paired seeds",
            lowest,
            models=(DEEP_MAMBA,),
        ),
        Claim(
            "M-tab7.numbers",
            "Mamba 74.10, 73.86, 72.45 %; linear 70.18, 69.98, 69.82 %",
            f"accuracy within {PRINT} of each; SST-2, DistilBERT",
            near_print(n, PRINT, numbers) if settings.papers else never,
            models=models,
        ),
        *_own(settings, better),
        *(_gates(settings, model, id_, words) for model, id_, words in GATES),
    ]


def _own(settings: TriggerSettings, better: Callable[..., Judge]) -> list[Claim]:
    """Return iclab's questions about one layer, and about flipped labels."""
    named, far, models = settings.named, ("FQ", "R"), (DEEP_MAMBA, DEEP_LINEAR)
    return [
        Claim(
            "M-tab7.mamba-better.one-layer",
            f"one layer of Mamba is better than one of linear attention at FQ and R ({named})",
            f"Mamba − linear > {BETTER} at FQ and R, target labels, on paired seeds",
            better(BETTER, "target", "mamba", "linear", far),
            models=("mamba", "linear"),
            ours=True,
        ),
        Claim(
            "M-tab7.mamba-better.flip",
            f"the same with flipped labels, three layers ({named})",
            f"Mamba − linear > {BETTER} at FQ and R, flipped labels, on paired seeds",
            better(BETTER, "flip", *models, far),
            models=models,
            ours=True,
        ),
    ]


GATES = (
    (DEEP_MAMBA, "M-tab7.gates", "the first of three layers"),
    ("mamba", "M-tab7.gates.one-layer", "one layer"),
)


def _gates(settings: TriggerSettings, model: str, id_: str, words: str) -> Claim:
    ratios = partial(gate_ratios, components=settings.components[0], model=model, layer=1)
    return Claim(
        id_,
        f"Mamba's gate shuts out sentences with the trigger, as it does outliers of patterns ({settings.named})",
        f"gates of triggered examples / gates of clean ones < {HALF}, {words}, mean over distances and seeds",
        judged(mean_point(settings.seeds, ratios, settings.named), every_below, HALF),
        models=(model,),
        ours=True,
    )
