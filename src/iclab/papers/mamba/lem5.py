"""M-lem5: logits of trained gates, Lemma 5, (37) and (38), and how they fall over time, (171)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import Field

from iclab.papers.mamba.late import LateSettings, at_multiples, logit, predicted_gate
from iclab.papers.mamba.lemmas import Loss, draw_means, gate_entry, mean_of, points_of, scaled
from iclab.probes import Row
from iclab.study.charts import DASHED, Axis, Figure, Panel, Series, reference, shades
from iclab.study.claims import BySeed, Claim, every_above, every_within, judged, mean_point
from iclab.study.experiment import Condition, Experiment, in_groups
from iclab.study.fits import fit_per_seed, slope, straightness
from iclab.study.settings import Chosen

LEAST_SLOPE = 0.5
"""(37): −logit of outliers grows at least like half of log M1."""
LOWEST = -2.0
"""(38): clean logits stay above this."""
STRAIGHT = 0.98
NEAR = 0.1
"""How far a logit may be from (F)."""
MEAN_FIELD = reference("mean field (F), no free constant", dash=())
LOG = reference("−log M1", DASHED, "#D55E00")
OUTLIER = Series("outliers", "#D55E00", line=False)
CLEAN = Series("clean examples", "#0072B2", line=False)


class LogitSettings(LateSettings):
    """Trainings over M1, and two long ones: hinge loss, and linear loss with W_B and W_C held."""

    last: Annotated[int, Field(ge=1), Chosen("the longest training over M1, in units of T_M", grid=True)] = 16
    longest: Annotated[int, Field(ge=1), Chosen("the longest training at the base setting", grid=True)] = 32
    held_step_size: Annotated[
        float, Chosen("η of the training with W_B = W_C = δI, whose gate learns slowly; logits move by 0.05 per step")
    ] = 2.0
    held_steps: Annotated[int, Field(ge=1), Chosen("first step of the law that is judged", grid=True)] = 60

    def quick(self) -> LogitSettings:
        """Return the quick edition: shorter trainings over M1."""
        return super().quick().replace(last=min(self.last, 4))

    def over_time(self, loss: Loss) -> tuple[LogitSettings, float]:
        """Return the settings of a long training, and the step from which it is judged."""
        if loss == "hinge":
            return self, self.trained_after()
        return self.replace(step_size=self.held_step_size), float(min(self.held_steps, self.steps))


class SecondPhase(Experiment[LogitSettings]):
    """Logits of outliers and of clean examples from T_M on."""

    id = "M-lem5"
    title = "Logits of the trained gate"
    paper = (
        "Lemma 5: from T_M on, logits of outliers are ≲ −log M1 (37) and those of clean examples ≳ −Θ(1) (38); wᵀv* "
        "falls at least like −log t (171)."
    )
    reading = (
        "A: mean logits at T_M against M1, with the mean field; bars are 95 % intervals over seeds. B: the same later. "
        "C: −wᵀv̂ against time at the base setting, from T_M on with the hinge loss, and with the loss 1 − zF and "
        "W_B = W_C = δI, for which the proof's step (166) is exact."
    )
    caption = "mean ± half of the 95 % interval over seeds"
    theorems = ("M-lem5",)
    settings = LogitSettings

    def conditions(self, settings: LogitSettings) -> list[Condition]:
        """Return logits over M1 at multiples of T_M, and the gate over time for both losses."""
        found: list[Condition] = []
        count = min(settings.test_prompts, 200)
        for m in settings.relevants:
            own = settings.replace(relevant=m)
            where = {"sweep": "relevant", "value": m}
            found += at_multiples(settings, own, where, settings.last, probe="logits", count=count)
        for loss in ("hinge", "linear"):
            own, start = settings.over_time(loss)
            held = ("key", "query") if loss == "linear" else ()
            end = min(start * settings.longest, settings.steps)
            kept = [start * 2 ** (k / 2) for k in range(2 * round(math.log2(settings.longest)) + 1)]
            training = own.training(end, kept=kept, loss=loss, frozen=held)
            columns = {"sweep": loss, "value": None, "times": None}
            more: dict[str, Any] = {"probe": "growth", "prompts": training.prompts, "count": 1, "at": "every"}
            found += in_groups(settings, columns, training, **more)
        return found

    def claims(self, settings: LogitSettings) -> list[Claim]:
        """Claim (37), (38) and (171)."""
        n = settings.seeds
        times = _times(settings)

        def lowest(multiples: list[int]) -> Any:
            return lambda rows: points_of(
                (
                    (f"M1 = {m:g}, {multiple} T_M", found)
                    for multiple in multiples
                    for m, found in _over_relevant(rows, settings, "clean", "mean", multiple).items()
                ),
                n,
            )

        def straight(loss: Loss) -> Any:
            return mean_point(n, lambda rows: fit_per_seed(_logs(_fall(rows, settings, loss)), straightness))

        span = f"over a factor of {settings.longest} in t"
        return [
            Claim(
                "M-lem5.outliers",
                "(37): logits of outliers are ≲ −log M1",
                f"slope of −logit (90 % quantile of outliers) on log M1 above {LEAST_SLOPE:g} at every multiple of T_M",
                judged(lambda rows: points_of(_slopes(rows, settings), n), every_above, LEAST_SLOPE),
            ),
            Claim(
                "M-lem5.clean",
                "(38): logits of clean examples are ≳ −Θ(1) at T_M",
                f"mean clean logit above {LOWEST:g} at T_M for every M1",
                judged(lowest([1]), every_above, LOWEST),
            ),
            Claim(
                "M-lem5.clean-later",
                "(38): logits of clean examples stay ≳ −Θ(1) for t ≥ T_M",
                f"mean clean logit above {LOWEST:g} at {times[-1]} T_M for every M1",
                judged(lowest(times[-1:]), every_above, LOWEST),
            ),
            Claim(
                "M-lem5.logarithm",
                "(171): v*ᵀw falls like −log t after T_M",
                f"R² of −wᵀv̂ on log t above {STRAIGHT:g} {span}, hinge loss",
                judged(straight("hinge"), every_above, STRAIGHT),
            ),
            Claim(
                "M-lem5.logarithm-linear",
                "(166), (171): v*ᵀw falls like −log t while every prompt has a gradient",
                f"R² of −wᵀv̂ on log t above {STRAIGHT:g} {span}, loss 1 − zF, W_B = W_C = δI",
                judged(straight("linear"), every_above, STRAIGHT),
            ),
            Claim(
                "M-lem5.mean-field",
                "mean logits of outliers are those of the mean field (F), which has no free constant",
                f"measured / (F) within {NEAR:g} of 1 for every M1 and multiple of T_M",
                judged(lambda rows: points_of(_predicted(rows, settings), n), every_within, 1 - NEAR, 1 + NEAR),
                ours=True,
            ),
        ]

    def table(self, rows: list[Row], settings: LogitSettings) -> list[dict[str, Any]]:
        """Return one line per M1 and multiple of T_M."""
        lines = []
        for m in settings.relevants:
            for multiple in _times(settings):
                line: dict[str, Any] = {"M1": m, "T / T_M": multiple}
                for kind in ("outlier", "clean"):
                    for column, name in (("mean", "mean"), ("q10", "10 %"), ("q90", "90 %")):
                        found = _over_relevant(rows, settings, kind, column, multiple)[m]
                        line[f"{kind}, {name}"] = mean_of(found)
                lines.append(line)
        return lines

    def chart(self, rows: list[Row], settings: LogitSettings) -> Figure:
        """Draw logits against M1 at T_M and later, and −wᵀv̂ over time."""
        late = _times(settings)[-1]
        panels = [
            _relevant_panel(rows, settings, "A  at T_M", 1),
            _relevant_panel(rows, settings, f"B  at {late} T_M", late),
            _time_panel(rows, settings),
        ]
        return Figure(panels, columns=3, width=250)


def _over_relevant(rows: list[Row], settings: LogitSettings, kind: str, column: str, times: int) -> dict[float, BySeed]:
    return {m: logit(rows, kind, "logit", column, sweep="relevant", value=m, times=times) for m in settings.relevants}


def _fall(rows: list[Row], settings: LogitSettings, loss: Loss) -> dict[float, BySeed]:
    """Return −wᵀv̂ at every kept step from the start of the law on."""
    _, start = settings.over_time(loss)
    here = [row for row in rows if row["sweep"] == loss]
    steps = sorted({row["step"] for row in here if row["step"] is not None and row["step"] >= round(start)})
    return {step: scaled(gate_entry(here, "outlier", step=step), -1.0) for step in steps}


def _logs(found: Mapping[float, BySeed]) -> dict[float, BySeed]:
    return {math.log(step): by_seed for step, by_seed in found.items()}


def _relevant_panel(rows: list[Row], settings: LogitSettings, title: str, times: int) -> Panel:
    ticks = {float(m): str(m) for m in (4, 8, 16, 32)}
    panel = Panel(
        title,
        x=Axis("relevant patterns M1", domain=(3.4, 38.0), scale="log", ticks=ticks),
        y=Axis("mean logit wᵀp", domain=(-8.0, 0.5)),
    )
    ms = list(settings.relevants)
    panel.line(LOG, ms, [-math.log(m) for m in ms])
    for place in (0, 1):
        law = [predicted_gate(settings.replace(relevant=m), times, settings.last)[place] for m in ms]
        panel.line(MEAN_FIELD, ms, law)
    for kind, series in (("outlier", OUTLIER), ("clean", CLEAN)):
        draw_means(panel, series, _over_relevant(rows, settings, kind, "mean", times))
    return panel


def _time_panel(rows: list[Row], settings: LogitSettings) -> Panel:
    panel = Panel(
        "C  at the base setting",
        x=Axis("t / start", domain=(0.9, 1.1 * settings.longest), scale="log", ticks={1.0: "1", 4.0: "4", 16.0: "16"}),
        y=Axis("−wᵀv̂"),
    )
    names: tuple[tuple[Loss, str], ...] = (("hinge", "hinge loss, from T_M"), ("linear", "loss 1 − zF, W held"))
    for colour, (loss, name) in zip(shades(5)[2:], names, strict=False):
        _, start = settings.over_time(loss)
        found = {step / start: by_seed for step, by_seed in _fall(rows, settings, loss).items()}
        panel.curve(Series(name, colour), list(found), list(found.values()))
        if loss == "hinge" and found:
            curve = settings.mean_field(settings.longest, points=48)
            kept = [i for i, step in enumerate(curve.steps) if step >= start]
            panel.line(
                MEAN_FIELD, [float(curve.steps[i] / start) for i in kept], [-float(curve.numbers[i, 3]) for i in kept]
            )
    return panel


def _slopes(rows: list[Row], settings: LogitSettings) -> Iterator[tuple[str, BySeed]]:
    for multiple in _times(settings):
        found = _over_relevant(rows, settings, "outlier", "q90", multiple)
        logs = {math.log(m): scaled(by_seed, -1.0) for m, by_seed in found.items()}
        yield f"{multiple} T_M", fit_per_seed(logs, slope)


def _predicted(rows: list[Row], settings: LogitSettings) -> Iterator[tuple[str, BySeed]]:
    for multiple in _times(settings):
        for m, found in _over_relevant(rows, settings, "outlier", "mean", multiple).items():
            logit_ = predicted_gate(settings.replace(relevant=m), multiple, settings.last)[1]
            yield f"M1 = {m:g}, {multiple} T_M", scaled(found, 1 / logit_)


def _times(settings: LogitSettings) -> list[int]:
    """Return the multiples of T_M over M1."""
    return [times for times in settings.multiples if times <= settings.last]
