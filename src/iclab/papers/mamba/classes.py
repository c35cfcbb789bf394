"""M-classes: 2^H classes as H binary levels (M E.7, (200) and (201)).

A token has H independent blocks (x_h, y_h), each as in (6), with its own patterns, task and label. The model of (201)
has a head per block. So its levels are H binary models; what they share is the examples that are outliers, if outliers
corrupt whole tokens. Beside it: heads that see whole tokens, and must find their block themselves.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from iclab.papers.mamba.classes_claims import entry_of, of_blocks, of_tokens, where
from iclab.papers.mamba.classes_settings import BINARY, BLOCK, TOKEN, ClassesSettings
from iclab.probes import Row
from iclab.study.charts import DASHED, Axis, Figure, Panel, Series, colour_of, reference
from iclab.study.claims import Claim, mean_point
from iclab.study.experiment import Condition, Experiment, in_groups
from iclab.study.rows import errors, proportion
from iclab.theory.outliers import all_outliers


class Classes(Experiment[ClassesSettings]):
    """Error over 2^H classes against α."""

    id = "M-classes"
    title = "2^H classes as H binary levels"
    paper = (
        "E.7: a problem of 2^H classes is a hierarchy of H binary ones. With a head per block, (201), it decomposes "
        "into H independent binary problems, and the results for two classes can be applied."
    )
    reading = (
        "A, B: the share of queries with a wrong level, flipped labels; means over seeds, bands span the lowest to the "
        "highest seed. Dashed: the share of prompts with a level at which every example is an outlier: 1 − (1 − α^l)^H "
        "if blocks draw their outliers apart, α^l if whole tokens are corrupted. C: attention between equal patterns "
        "of a head's own block, between equal patterns of another block, and between blocks, for heads that see whole "
        "tokens, with intervals over seeds."
    )
    settings = ClassesSettings

    def conditions(self, settings: ClassesSettings) -> list[Condition]:
        """Return errors over classes and by level, under flipped and worst labels; and what heads know of blocks."""
        found: list[Condition] = []
        for sees, h, by in settings.kinds():
            training = settings.training(sees, h, by)
            count = min(settings.test_prompts, settings.whole_prompts) if sees == TOKEN else settings.test_prompts
            probes = {BINARY: ("error", "worst"), BLOCK: ("error", "worst", "levels"), TOKEN: ("error",)}[sees]
            for probe in probes:
                for fraction in settings.outlier_fractions:
                    cell = {"probe": probe, "prompts": settings.tested(fraction, h, by), "count": count}
                    found += in_groups(settings, where(probe, sees, h, by, fraction), training, **cell)
            if sees == TOKEN:
                cell = {"probe": "blocks", "prompts": training.prompts, "count": 1}
                found += in_groups(settings, where("blocks", sees, h, by), training, **cell)
        return found

    def claims(self, settings: ClassesSettings) -> list[Claim]:
        """Return what E.7 says of the model of (201), and what iclab asks of the other."""
        return [*of_blocks(settings), *of_tokens(settings)]

    def table(self, rows: list[Row], settings: ClassesSettings) -> list[dict[str, Any]]:
        """Return one line per model and probe; the error by chance is 1 − 2^−H."""
        lines = []
        for sees, h, by in settings.kinds():
            for probe, labels in (("error", "flipped"), ("worst", "worst")):
                if sees == TOKEN and probe == "worst":
                    continue
                line = {"heads see": sees, "H": str(h), "outliers by": by, "labels": labels}
                line["by chance"] = f"{1 - 0.5**h:g}"
                for f in settings.outlier_fractions:
                    p = proportion(rows, **where(probe, sees, h, by, f))
                    line[f"α = {f:g}"] = "–" if p is None else p.short()
                lines.append(line)
        return lines

    def chart(self, rows: list[Row], settings: ClassesSettings) -> Figure:
        """Draw one panel per kind of outliers, and what heads know of blocks."""
        titles = {BLOCK: "outliers by block", TOKEN: "outliers by token"}
        panels = [_panel(rows, settings, by, f"{'AB'[i]}  {titles[by]}") for i, by in enumerate(settings.outliers_by)]
        return Figure([*panels, _blocks(rows, settings, "ABC"[len(panels)])], columns=3, width=270)


COLOURS = ("#88CCEE", "#0072B2", "#332288", "#AA4499", "#882255", "#661100", "#999933", "#117733")
HOPELESS = reference("some level has outliers only", DASHED)
ENTRIES = {
    "own": Series("own block, equal patterns", colour_of("mamba"), line=False, size=60.0),
    "other": Series("another block, equal patterns", "#D55E00", line=False, mark="square", hollow=True, size=60.0),
    "cross": Series("between blocks", "#E69F00", line=False, mark="diamond", hollow=True, size=60.0),
}


def _panel(rows: list[Row], settings: ClassesSettings, by: str, title: str) -> Panel:
    fractions = list(settings.outlier_fractions)
    panel = Panel(
        title,
        x=Axis("fraction of outliers α", domain=(-0.02, max(fractions) + 0.02)),
        y=Axis("error over classes", scale="symlog", linear_to=0.002, domain=(0, 1), ticks=(0, 0.001, 0.01, 0.1, 1)),
    )
    for h in settings.levels:
        exact = settings.counting == "exact"
        share = [all_outliers(f, settings.context_length, exact) for f in fractions]
        panel.line(HOPELESS, fractions, [s if by == TOKEN else 1 - (1 - s) ** h for s in share], marks=False)
    for sees, h, outliers in settings.kinds():
        if sees == BINARY or (outliers != by and h > 1):
            continue
        name = f"{2**h} classes" + (", heads see whole tokens" if sees == TOKEN else "")
        whole = sees == TOKEN
        found = [errors(rows, **where("error", sees, h, outliers, f)) for f in fractions]
        panel.curve(Series(name, COLOURS[h - 1], mark="square" if whole else "circle", hollow=whole), fractions, found)
    return panel


def _blocks(rows: list[Row], settings: ClassesSettings, letter: str) -> Panel:
    kinds = [(h, by) for sees, h, by in settings.kinds() if sees == TOKEN]
    ticks = {float(i): f"{h}, {by}" for i, (h, by) in enumerate(kinds)}
    panel = Panel(
        f"{letter}  heads that see whole tokens",
        x=Axis("H, and what outliers corrupt", ticks=ticks, domain=(-0.6, len(kinds) - 0.4)),
        y=Axis("attention between patterns"),
    )
    for i, (h, by) in enumerate(kinds):
        for j, (entry, series) in enumerate(ENTRIES.items()):
            point = mean_point(1, partial(entry_of, entry=entry, h=h, by=by))(rows)
            if point and point[0].value is not None:
                low, high = (max(-100.0, min(100.0, end)) for end in (point[0].interval.low, point[0].interval.high))
                panel.interval(series, i + 0.18 * (j - 1), point[0].value, low, high)
    return panel
