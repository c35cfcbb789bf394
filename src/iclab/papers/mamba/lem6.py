"""M-lem6: the weighted sum of gates Σ G_i (l − i + 1) of Lemma 6, (39), against the length of prompts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import Field

from iclab.papers.mamba.late import LateSettings, logit
from iclab.papers.mamba.lem4 import PhaseOneLaws
from iclab.papers.mamba.lemmas import Counts, draw_means, mean_of, points_of
from iclab.probes import Row
from iclab.probes.tracing import exp
from iclab.study.charts import DASHED, Axis, Figure, Panel, Series, reference, shades
from iclab.study.claims import BySeed, Claim, every_below, every_within, judged
from iclab.study.experiment import Condition, Experiment, in_groups
from iclab.study.fits import PowerLaw, exponent_point
from iclab.study.settings import Chosen

FLAT = 0.1
"""How large the exponent in l may be."""
LARGEST = 4.0
"""Θ(1) at t_1, read as: 1/c of (186) with c = 1/4."""
NEAR = 0.15
"""How far the mean may be from (1 − σ_query)/σ̄."""
RENEWAL = reference("independent gates of the measured size", dash=())
LONG = 40
"""After training gates reach some ten examples back: shorter prompts cut the sum off."""
START, PHASE_ONE = "start", "t_1"


class ReachSettings(LateSettings):
    """Trainings and tests over the length of prompts."""

    lengths: Annotated[Counts, Chosen("l: a factor of 64", grid=True)] = (10, 20, 40, 80, 160, 320, 640)
    after: Annotated[
        tuple[Annotated[int, Field(ge=1)], ...], Chosen("kept steps in units of T_M, besides 0 and t_1", grid=True)
    ] = (1, 4, 16)

    def quick(self) -> ReachSettings:
        """Return the quick edition: shorter prompts, shorter trainings."""
        short = tuple(length for length in self.lengths if length <= 160)
        return super().quick().replace(lengths=short or self.lengths, after=self.after[:1])

    @property
    def phase_end(self) -> float:
        """t_1 of Lemma 4 at this step size."""
        kept = {name: getattr(self, name) for name in ("relevant", "outlier", "outlier_scale", "pattern_norm")}
        fraction = {"outlier_fraction": self.outlier_fraction, "usual_step_size": self.step_size}
        return PhaseOneLaws(**kept, **fraction).phase_end

    @property
    def times(self) -> dict[str, float]:
        """The steps at which gates are read, by name."""
        late = {_name(times): self.trained_after(times) for times in self.after}
        return {START: 0.0, PHASE_ONE: self.phase_end, **late}


def _name(times: int) -> str:
    return "T_M" if times == 1 else f"{times} T_M"


class Reach(Experiment[ReachSettings]):
    """Σ G_i (l − i + 1) over l and over training."""

    id = "M-lem6"
    title = "The weighted sum of gates against the length of prompts"
    paper = "Lemma 6: Σ G_i (l − i + 1) ≤ Θ(1) for t up to t_1 (39), whatever the length of prompts."
    reading = (
        "The 99 % quantile over prompts (left) and the mean (right), for models trained and tested at each length; "
        "marks are means over seeds with 95 % intervals. Solid lines: independent gates of the measured size, (1 − "
        "σ_query)/σ̄ for long prompts, σ̄ = (1 − p_a) σ_clean + p_a σ_outlier. It is larger after training because "
        "gates are smaller; it then needs longer prompts to level off."
    )
    caption = "mean ± half of the 95 % interval over seeds"
    theorems = ("M-lem6",)
    settings = ReachSettings

    def conditions(self, settings: ReachSettings) -> list[Condition]:
        """Return one training per length, its gates read at 0, t_1, T_M and later."""
        found: list[Condition] = []
        for length in settings.lengths:
            own = settings.replace(context_length=length)
            training = own.training(max(own.times.values()), kept=[t for t in own.times.values() if t], gate_scale=1.0)
            count = max(20, min(settings.test_prompts, 8_000 // length))
            for name, time in own.times.items():
                at = min((step for step in training.recipe.kept), key=lambda step: abs(step - time))
                where = {"length": length, "time": name}
                more: dict[str, Any] = {"probe": "logits", "prompts": training.prompts, "count": count, "at": at}
                found += in_groups(settings, where, training, **more)
        return found

    def claims(self, settings: ReachSettings) -> list[Claim]:
        """Claim that the sum is bounded, and flat in l."""
        n = settings.seeds

        def flat(time: str, least: int = 0) -> Any:
            def long(rows: list[Row]) -> dict[float, BySeed]:
                return {x: found for x, found in _over_length(rows, settings, time, "q99").items() if x >= least}

            return judged(
                exponent_point(n, long, f"at {time}", fewest=3),
                every_within,
                -FLAT,
                FLAT,
            )

        def sizes(rows: list[Row]) -> Iterator[tuple[str, BySeed]]:
            for time in (START, PHASE_ONE):
                for length, found in _over_length(rows, settings, time, "q99").items():
                    yield f"l = {length:g}, {time}", found

        def renewal(rows: list[Row]) -> Iterator[tuple[str, BySeed]]:
            for time in settings.times:
                for length in settings.lengths:
                    yield f"l = {length:g}, {time}", _against_renewal(rows, settings, length, time)

        last = list(settings.times)[-1]
        return [
            Claim(
                "M-lem6.flat",
                "(39): the sum is ≤ Θ(1) for t up to t_1, whatever l",
                f"exponent in l of the 99 % quantile over prompts within {FLAT:g} of 0 at t_1",
                flat(PHASE_ONE),
            ),
            Claim(
                "M-lem6.bound",
                "(39), (186): the sum is at most 1/c, with c the smallest σ",
                f"99 % quantile over prompts below {LARGEST:g} at 0 and t_1 for every l",
                judged(lambda rows: points_of(sizes(rows), n), every_below, LARGEST),
            ),
            Claim(
                "M-lem6.trained",
                "the sum levels off in l after training too, where the lemma does not speak",
                f"exponent in l of the 99 % quantile over prompts within {FLAT:g} of 0 at {last} for l ≥ {LONG}",
                flat(last, LONG),
                ours=True,
            ),
            Claim(
                "M-lem6.renewal",
                "the mean is (1 − σ_query) Σ_{m ≤ l} m σ̄ (1 − σ̄)^{m−1}, which tends to (1 − σ_query)/σ̄",
                f"measured / that within {NEAR:g} of 1 at every l and time, with σ of the mean logits",
                judged(lambda rows: points_of(renewal(rows), n), every_within, 1 - NEAR, 1 + NEAR),
                ours=True,
            ),
        ]

    def table(self, rows: list[Row], settings: ReachSettings) -> list[dict[str, Any]]:
        """Return one line per time and length, and the exponent in l."""
        lines = []
        for time in settings.times:
            high = _over_length(rows, settings, time, "q99")
            for length, found in high.items():
                mean = logit(rows, "prompt", "reach", "mean", length=length, time=time)
                lines.append({"t": time, "l": f"{length:g}", "mean": mean_of(mean), "99 % quantile": mean_of(found)})
            lines.append({"t": time, "l": "exponent", "mean": "", "99 % quantile": PowerLaw(high).text()})
        return lines

    def chart(self, rows: list[Row], settings: ReachSettings) -> Figure:
        """Draw the 99 % quantile and the mean against l."""
        return Figure([_panel(rows, settings, "q99"), _panel(rows, settings, "mean")], columns=2, width=320)


def _over_length(rows: list[Row], settings: ReachSettings, time: str, column: str) -> dict[float, BySeed]:
    return {length: logit(rows, "prompt", "reach", column, length=length, time=time) for length in settings.lengths}


def _renewal(rows: list[Row], settings: ReachSettings, length: int, time: str) -> BySeed:
    """Return (1 − σ_query) Σ_{m ≤ l} m σ̄ (1 − σ̄)^{m−1} of each seed; clean logits stand for the query's."""
    clean, outlier = (logit(rows, kind, "logit", "mean", length=length, time=time) for kind in ("clean", "outlier"))
    p = settings.outlier_fraction
    answer: BySeed = {}
    for seed in clean.keys() & outlier.keys():
        a, b = clean[seed], outlier[seed]
        if a is None or b is None:
            answer[seed] = None
            continue
        shares = [1 / (1 + exp(-x)) for x in (a, b)]
        mean = (1 - p) * shares[0] + p * shares[1]
        answer[seed] = (1 - shares[0]) * (1 / mean - (1 - mean) ** length * (length + 1 / mean))
    return answer


def _against_renewal(rows: list[Row], settings: ReachSettings, length: int, time: str) -> BySeed:
    found = logit(rows, "prompt", "reach", "mean", length=length, time=time)
    law = _renewal(rows, settings, length, time)
    return {s: None if (m := found[s]) is None or (r := law[s]) is None else m / r for s in found.keys() & law.keys()}


def _panel(rows: list[Row], settings: ReachSettings, column: str) -> Panel:
    ticks = {float(length): str(length) for length in (10, 20, 40, 80, 160, 320, 640)}
    ends = (0.8 * min(settings.lengths), 1.25 * max(settings.lengths))
    panel = Panel(
        "A  99 % quantile over prompts" if column == "q99" else "B  mean over prompts",
        x=Axis("length of prompts l", domain=ends, scale="log", ticks=ticks),
        y=Axis("Σ G_i (l − i + 1)"),
    )
    if column == "q99":
        panel.line(BOUND, list(ends), [LARGEST, LARGEST])
    for colour, time in zip(shades(len(settings.times), ordered=True), settings.times, strict=True):
        if column == "mean":
            law = {length: _renewal(rows, settings, length, time) for length in settings.lengths}
            means = {
                length: sum(good) / len(good)
                for length, found in law.items()
                if (good := [value for value in found.values() if value is not None])
            }
            panel.line(RENEWAL, list(means), list(means.values()))
        early = {START: 110.0, PHASE_ONE: 30.0}  # one inside the other: they hardly differ
        look: dict[str, Any] = {"hollow": True, "size": early[time]} if time in early else {}
        series = Series(f"at {time}", colour, line=False, **look)
        draw_means(panel, series, _over_length(rows, settings, time, column))
    return panel


BOUND = reference(f"{LARGEST:g}, the bound judged up to t_1", DASHED)
