"""M-tab6: how well the largest principal components of sentence vectors tell positive from negative sentences."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import Field

from iclab.engines import Recipe, Training
from iclab.models import Model
from iclab.papers.mamba.text import TextExperiment, TextSettings, twice
from iclab.probes import Interval, Row, current_confidence, wilson
from iclab.prompts import Patterns, Prompts
from iclab.study.charts import PALETTE, PRINTED, Axis, Figure, Panel, Series, reference
from iclab.study.claims import (
    PROMPTS,
    BySeed,
    Claim,
    Direction,
    Judge,
    Point,
    every_above,
    every_below,
    every_within,
    judged,
    mean_point,
)
from iclab.study.experiment import Condition, in_groups
from iclab.study.rows import matching
from iclab.study.settings import Chosen
from iclab.text import Sentences

PRINTED_ACCURACY = {5: 0.7408, 7: 0.7672, 10: 0.7890, 768: 0.8005}
"""The paper's numbers by the number of components."""
CLOSE = 0.03
"""The paper: ten components are "already close to the baseline". Read as: by less than three points."""
ALONG = 0.9
"""The paper: the principal components "exactly correspond to relevant patterns". Then the direction in which the
classes differ lies in their span. Read as: its cosine with the span is above this."""
SPLITS = {"dev": Series("dev", PALETTE[1]), "test": Series("test", PALETTE[0])}
SHUFFLED = reference("shuffled labels", mark="cross")


class ComponentSettings(TextSettings):
    """Settings of M-tab6."""

    penalty: Annotated[
        float,
        Field(gt=0),
        Chosen(
            "scikit-learn's default C of logistic regression; the paper does not say what its classifier is. With "
            "SST-2's test sentences and MiniLM, 10 gives 75.2, 80.8 and 81.7 % with 10, 50 and all components, and 1 "
            "gives 75.2, 80.6 and 81.3",
            others=(0.1, 10.0),
        ),
    ] = 1.0
    seeds: Annotated[int, Field(ge=1), Chosen("orders of shuffled labels; all else has no seed", grid=True)] = 8
    test_prompts: Annotated[int, Field(ge=1), Chosen("not used: all sentences are tested", grid=True)] = 1

    def extent(self, seeds: int) -> str:
        """Return in words how much was run: only shuffled labels have seeds."""
        return f"every sentence, {seeds} orders of shuffled labels"

    def prompts(self, split: Any) -> Prompts:
        """Return prompts over a split; the probe looks at the table they are drawn from."""
        return Prompts(patterns=Patterns(table=self.sentences().table(split)), context_length=1)


class Components(TextExperiment[ComponentSettings]):
    """Accuracy on the largest principal components of sentence vectors."""

    id = "M-tab6"
    title = "Sentiment from the largest principal components"
    paper = (
        "Sentence vectors of SST-2 by DistilBERT, projected on their largest principal components: 5, 7 and 10 of 768 "
        "give 74.08, 76.72 and 78.90 %, all give 80.05 %. So few components are close to the baseline, and they "
        '"exactly correspond to relevant patterns".'
    )
    reading = (
        "Left: accuracy of logistic regression, fitted to the training sentences, on those for tests, with Wilson's "
        "interval; diamonds are the paper's numbers, the dashed line has shuffled training labels. Right: what the "
        "paper's reading needs: the cosine of the difference of the class means with the span of the components, "
        "beside the root of their share of the variance. Sentences: {text_data}; encoder: {encoder}."
    )
    caption = "accuracy in %, with Wilson's 95 % interval"
    settings = ComponentSettings

    def tables(self, settings: ComponentSettings) -> list[Sentences]:
        """Return the sentences in all principal components."""
        return [settings.sentences()]

    def conditions(self, settings: ComponentSettings) -> list[Condition]:
        """Return the readout of both splits; nothing is trained before."""
        learner = Model(name="classical", options={"learner": "logistic", "penalty": settings.penalty})
        training = Training(model=learner, prompts=settings.prompts("train"), recipe=Recipe(steps=0))
        return [
            condition
            for split in SPLITS
            for condition in in_groups(
                settings,
                {"split": split},
                training,
                probe="readout",
                prompts=settings.prompts(split),
                count=settings.test_prompts,
            )
        ]

    def claims(self, settings: ComponentSettings) -> list[Claim]:
        """Return the paper's claims, and what its reading needs."""
        gain = Direction("ten components have more than half of what all have above guessing", _half(settings))
        close = judged(_behind(settings, 10), every_below, CLOSE)
        named = settings.named
        return [
            *twice(
                settings,
                "M-tab6.close",
                "10 of 768 components are already close to the baseline: 78.90 against 80.05 %",
                f"accuracy with all − accuracy with 10 components < {CLOSE} on the test sentences, paired",
                close,
                direction=gain,
            ),
            Claim(
                "M-tab6.numbers",
                "5, 7, 10, 768 components: 74.08, 76.72, 78.90, 80.05 %",
                f"accuracy within {CLOSE} of each on the test sentences; SST-2, DistilBERT",
                judged(_printed(settings), every_within, -CLOSE, CLOSE),
            ),
            Claim(
                "M-tab6.rising",
                f"more components are better ({named})",
                "accuracy with all − accuracy with 5 components > 0 on the test sentences, paired",
                judged(_behind(settings, 5), every_above, 0.0),
                ours=True,
            ),
            Claim(
                "M-tab6.span",
                f"the ten largest components hold the direction in which the classes differ ({named}); without this, "
                "they cannot be the relevant patterns",
                f"cosine of the difference of the class means with their span > {ALONG}",
                judged(_cosine(settings), every_above, ALONG),
                ours=True,
            ),
            Claim(
                "M-tab6.shuffled",
                f"a classifier that learnt from shuffled labels guesses ({named})",
                "accuracy with all components, mean over orders, between 0.45 and 0.55",
                judged(_shuffled(settings), every_within, 0.45, 0.55),
                ours=True,
            ),
        ]

    def table(self, rows: list[Row], settings: ComponentSettings) -> list[dict[str, Any]]:
        """Return one line per number of components."""
        lines = []
        for k in _counts(rows):
            line: dict[str, Any] = {"components": f"{k} (all)" if k == max(_counts(rows)) else str(k)}
            for split in SPLITS:
                row = _row(rows, split, k)
                line[split] = "" if row is None else _text(row)
            found = _row(rows, "test", k) or _row(rows, "dev", k) or {}
            shuffled = [r["shuffled"] / r["vectors"] for r in rows if r["split"] == "test" and r["components"] == k]
            printed = PRINTED_ACCURACY.get(768 if k == max(_counts(rows)) else k)
            line |= {
                "the paper (SST-2, DistilBERT)": "–" if printed is None else f"{100 * printed:.2f}",
                "shuffled": f"{100 * sum(shuffled) / len(shuffled):.1f}" if shuffled else "",
                "cosine of the class difference": f"{found['cosine']:.3f}" if found else "",
                "share of the variance": f"{found['variance']:.3f}" if found else "",
            }
            lines.append(line)
        return lines

    def chart(self, rows: list[Row], settings: ComponentSettings) -> Figure:
        """Draw accuracy, and the cosine of the class difference, against the number of components."""
        counts = _counts(rows) or [0]  # every seed may be without numbers
        places = {k: i for i, k in enumerate(counts)}
        ticks: dict[float, str] = {i: "all" if k == counts[-1] else str(k) for k, i in places.items()}
        across = Axis("principal components", domain=(-0.4, len(counts) - 0.6), ticks=ticks)
        left = Panel(settings.named, x=across, y=Axis("accuracy, %", domain=(40, 100)))
        right = Panel("the direction of the classes", x=across, y=Axis("", domain=(0, 1)))
        for shift, (split, series) in zip((-0.06, 0.06), SPLITS.items(), strict=True):
            found = [(places[k], row) for k in counts if (row := _row(rows, split, k))]
            left.line(series, [x + shift for x, _ in found], [100 * r["right"] / r["vectors"] for _, r in found])
            for x, row in found:
                low, high = (100 * end for end in _ends(row))
                left.interval(series, x + shift, 100 * row["right"] / row["vectors"], low, high)
        for k, printed in PRINTED_ACCURACY.items():
            here = counts[-1] if k == 768 else k
            if here in places:
                left.points(PRINTED, [places[here]], [100 * printed])
        test = [(k, [r for r in rows if r["split"] == "test" and r["components"] == k]) for k in counts]
        test = [(k, found) for k, found in test if found]
        mean = [100 * sum(r["shuffled"] / r["vectors"] for r in found) / len(found) for _, found in test]
        left.line(SHUFFLED, [places[k] for k, _ in test], mean)
        xs = [places[k] for k, _ in test]
        right.line(
            Series("cosine with the class difference", PALETTE[2]), xs, [found[0]["cosine"] for _, found in test]
        )
        right.line(reference("√ share of the variance"), xs, [math.sqrt(found[0]["variance"]) for _, found in test])
        return Figure([left, right], columns=2, width=330)


# Numbers from rows. All seeds have the same numbers, but for shuffled labels.


def _counts(rows: list[Row]) -> list[int]:
    return sorted({row["components"] for row in rows if row["components"] is not None})


def _row(rows: list[Row], split: str, components: int) -> Row | None:
    found = matching(rows, split=split, components=components)
    return found[min(found)] if found else None


def _ends(row: Row) -> tuple[float, float]:
    interval = wilson(row["right"], row["vectors"])
    return interval.low, interval.high


def _text(row: Row) -> str:
    low, high = _ends(row)
    return f"{100 * row['right'] / row['vectors']:.2f} [{100 * low:.1f}, {100 * high:.1f}]"


Points = Callable[[list[Row]], list[Point] | None]


def _behind(settings: ComponentSettings, components: int) -> Points:
    """Return how much worse some components are than all, on the same sentences, with a normal interval."""

    def points(rows: list[Row]) -> list[Point] | None:
        row = _row(rows, "test", components)
        if row is None:
            return None
        n, gained, lost = row["vectors"], row["gained"], row["lost"]
        mean = (lost - gained) / n
        from scipy import special  # slow to import, and not needed to list experiments

        z = special.ndtri(0.5 + current_confidence() / 2)
        half = z * math.sqrt(max(lost + gained - (lost - gained) ** 2 / n, 0.0)) / n
        return [Point(mean, Interval(mean - half, mean + half), f"{settings.named}, test", needs=PROMPTS)]

    return points


def _half(settings: ComponentSettings) -> Judge:
    """Judge whether ten components have more than half of what all have above guessing."""

    def points(rows: list[Row]) -> list[Point] | None:
        ten, whole = _row(rows, "test", 10), _row(rows, "test", max(_counts(rows), default=0))
        if ten is None or whole is None:
            return None
        low, high = _ends(ten)
        least = (whole["right"] / whole["vectors"] - 0.5) / 2
        interval = Interval(low - 0.5 - least, high - 0.5 - least)
        return [Point(ten["right"] / ten["vectors"] - 0.5 - least, interval, settings.named, needs=PROMPTS)]

    return judged(points, every_above, 0.0)


def _printed(settings: ComponentSettings) -> Points:
    def points(rows: list[Row]) -> list[Point] | None:
        found = [(k, printed, _row(rows, "test", k)) for k, printed in PRINTED_ACCURACY.items()]
        if not settings.papers or any(row is None for _, _, row in found):
            return None
        made = []
        for k, printed, row in found:
            assert row is not None
            low, high = _ends(row)
            interval = Interval(low - printed, high - printed)
            made.append(Point(row["right"] / row["vectors"] - printed, interval, f"{k} components", needs=PROMPTS))
        return made

    return points


def _cosine(settings: ComponentSettings) -> Points:
    def points(rows: list[Row]) -> list[Point] | None:
        row = _row(rows, "test", 10)
        if row is None:
            return None
        return [Point(row["cosine"], Interval(row["cosine"], row["cosine"]), settings.named)]

    return points


def _shuffled(settings: ComponentSettings) -> Points:
    def points(rows: list[Row]) -> list[Point] | None:
        found = matching(rows, split="test", components=max(_counts(rows), default=0))
        return mean_point(settings.seeds, lambda _: _shares(found), settings.named)(rows)

    return points


def _shares(rows: dict[int, Row]) -> BySeed:
    return {seed: row["shuffled"] / row["vectors"] for seed, row in rows.items()}
