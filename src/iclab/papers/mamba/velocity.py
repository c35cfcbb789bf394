"""M-velocity: how fast the gate of Mamba learns at first, against iclab's closed form (B) and condition (C)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, get_args

from pydantic import Field

from iclab.papers.mamba.lemmas import draw_means, mean_of, points_of, quotient, scaled
from iclab.papers.mamba.phase_one import (
    CLEAN,
    MEAN_FIELD,
    OUTLIER,
    SYMBOLS,
    PhaseOneSettings,
    Sweep,
    fallen,
    sweep_conditions,
)
from iclab.probes import Row
from iclab.study.charts import DASH_DOT, DASHED, DOTTED, PALETTE, Axis, Figure, Panel, Series, reference
from iclab.study.claims import BySeed, Claim, every_within, judged
from iclab.study.experiment import Condition, Experiment, in_groups
from iclab.study.settings import Chosen

NEAR = 0.1
"""How far a measured speed may be from (B)."""
SMALL_LOGIT = 0.2
"""(B) is exact at w = 0; it is judged while the predicted logit of an outlier is above −0.2."""
SWEEPS: tuple[Sweep, ...] = get_args(Sweep)
PRINTED = reference("(33) as printed: ∝ (1 − p_a), scaled to p_a = 0.3", DASHED, "#009E73")
FULL_FIELD = reference("mean field (F), no free constant", DASH_DOT)
EQUAL = reference("condition (C): left = right", DOTTED)


class VelocitySettings(PhaseOneSettings):
    """The sweeps of phase 1, and one longer training."""

    course: Annotated[int, Field(ge=1), Chosen("the longer training, as a multiple of the short ones", grid=True)] = 40
    course_batch: Annotated[int, Field(ge=1), Chosen("B of the longer training, which averages over its steps")] = 256

    @property
    def long(self) -> PhaseOneSettings:
        """The settings of the longer training."""
        batch = min(self.batch_size, self.course_batch)
        return self.as_kind(PhaseOneSettings, steps=self.steps * self.course, batch_size=batch)


class Velocity(Experiment[VelocitySettings]):
    """Speeds of the gate over p_a, κ_a, V, M1 and β."""

    id = "M-velocity"
    title = "How fast the gate learns at first"
    paper = (
        "Lemma 4: in the first phase wᵀv* falls at the speed η β² κ_a (1 − p_a)/V, and wᵀµ at η (1 − p_a) β²/M1. "
        "iclab's (B) has a factor p_a more for outliers and no free constant."
    )
    reading = (
        "Change of the gate from w = 0, divided by η times the number of steps; marks are means over seeds with 95 % "
        "intervals, solid lines are (B). C: how much more an outlier's logit falls than a clean one, against the two "
        "sides of (C), p_a κ_a² ‖v*‖² M1 / (V β²), in all sweeps. D: a longer training; (B) holds until w moves away "
        "from 0, and (F) beyond."
    )
    caption = "mean ± half of the 95 % interval over seeds"
    theorems = ("M-velocity", "M-lem4")
    settings = VelocitySettings

    def conditions(self, settings: VelocitySettings) -> list[Condition]:
        """Return every sweep, and one longer training read at geometric steps."""
        found = [condition for name in SWEEPS for condition in sweep_conditions(settings, name)]
        training = settings.long.training(settings.long.steps, kept=12)
        where = {"sweep": "course", "value": None}
        more = {"probe": "growth", "prompts": training.prompts, "count": 1, "at": "every"}
        return found + in_groups(settings, where, training, **more)

    def claims(self, settings: VelocitySettings) -> list[Claim]:
        """Claim that (B) and (C) are right, in size."""
        n = settings.seeds
        names = ", ".join(SYMBOLS[name] for name in SWEEPS)
        within = (every_within, 1 - NEAR, 1 + NEAR)

        def speeds(kind: str) -> Any:
            place = 0 if kind == "outlier" else 1
            return lambda rows: points_of(
                (
                    (where, scaled(fallen(rows, kind, name, value), -1 / own.gate_moves(own.steps)[place]))
                    for name, value, where, own in _settings(settings)
                ),
                n,
            )

        return [
            Claim(
                "M-velocity.outliers",
                "d(wᵀv̂)/dt = −(η/4) p_a (1 − p_a) (κ_a‖v*‖/V) S̄",
                f"measured / (B) within {NEAR:g} of 1 at every value of {names}",
                judged(speeds("outlier"), *within),
                ours=True,
            ),
            Claim(
                "M-velocity.clean",
                "d(wᵀe)/dt = −(η/4) (1 − p_a) (β/M1) S̄",
                f"measured / (B) within {NEAR:g} of 1 at every value of {names}",
                judged(speeds("relevant"), *within),
                ours=True,
            ),
            Claim(
                "M-velocity.condition",
                "outlier and clean logits part in proportion to p_a κ_a² ‖v*‖² M1 / (V β²)",
                f"(outlier − clean)/clean change of logits, divided by it, within {NEAR:g} of 1 in all sweeps",
                judged(lambda rows: points_of(_parting(rows, settings), n), *within),
                ours=True,
            ),
            Claim(
                "M-velocity.course",
                "(B) with the growing kernel of (A) describes the first part of training",
                f"wᵀv̂ / (B) within {NEAR:g} of 1 at every kept step with η t ≥ 0.5 while the predicted outlier logit "
                f"is above −{SMALL_LOGIT:g}",
                judged(lambda rows: points_of(_course(rows, settings), n), *within),
                ours=True,
            ),
        ]

    def table(self, rows: list[Row], settings: VelocitySettings) -> list[dict[str, Any]]:
        """Return one line per setting: both changes, and (B)."""
        lines = []
        for name, value, where, own in _settings(settings):
            predicted = own.gate_moves(own.steps)
            lines.append(
                {
                    "setting": where,
                    "−wᵀv̂ × 1000": mean_of(scaled(fallen(rows, "outlier", name, value), 1e3)),
                    "(B)": f"{-1e3 * predicted[0]:.3g}",
                    "−wᵀe × 1000": mean_of(scaled(fallen(rows, "relevant", name, value), 1e3)),
                    "(B) ": f"{-1e3 * predicted[1]:.3g}",
                    "(C), left / right": f"{_condition(own):.3g}",
                }
            )
        return lines

    def chart(self, rows: list[Row], settings: VelocitySettings) -> Figure:
        """Draw speeds against p_a, all sweeps against (C), and the longer training."""
        panels = [
            _speeds(rows, settings, "outlier", "A  speed along outliers"),
            _speeds(rows, settings, "relevant", "B  speed along relevant patterns"),
            _collapse(rows, settings),
            _over_time(rows, settings),
        ]
        return Figure(panels, columns=2, width=320)


def _settings(settings: VelocitySettings) -> Iterator[tuple[Sweep, float, str, PhaseOneSettings]]:
    for name in SWEEPS:
        for value, own in settings.sweep(name).items():
            yield name, value, f"{SYMBOLS[name]} = {value:g}", own


def _condition(own: PhaseOneSettings) -> float:
    """Return p_a κ_a² ‖v*‖² M1 / (V β²), the left side of (C) over its right side."""
    return own.outlier_fraction * own.strength**2 * own.relevant / (own.outlier * own.pattern_norm**2)


def _gap(rows: list[Row], name: str, value: float, own: PhaseOneSettings) -> BySeed:
    """Return (outlier − clean)/clean of the changes of logits: κ_a‖v*‖ wᵀv̂ / (β wᵀe)."""
    outlier, clean = (fallen(rows, kind, name, value) for kind in ("outlier", "relevant"))
    return scaled(quotient(outlier, clean), own.strength / own.pattern_norm)


def _parting(rows: list[Row], settings: VelocitySettings) -> Iterator[tuple[str, BySeed]]:
    for name, value, where, own in _settings(settings):
        yield where, scaled(_gap(rows, name, value, own), 1 / _condition(own))


def _kept(rows: list[Row]) -> list[int]:
    """Return the kept steps of the longer training after the start."""
    return sorted({row["step"] for row in rows if row["sweep"] == "course" and row.get("step")})


def _at(rows: list[Row], kind: str, step: int) -> BySeed:
    own = [row for row in rows if row["sweep"] == "course"]
    return fallen(own, kind, "course", None, step=step)


def _course(rows: list[Row], settings: VelocitySettings) -> Iterator[tuple[str, BySeed]]:
    own = settings.long
    for step in _kept(rows):
        predicted = own.gate_moves(step)[0]
        if step * own.step_size >= 0.5 and -own.strength * predicted < SMALL_LOGIT:
            yield f"step {step}", scaled(_at(rows, "outlier", step), -1 / predicted)


def _speeds(rows: list[Row], settings: VelocitySettings, kind: str, title: str) -> Panel:
    place, series = (0, OUTLIER) if kind == "outlier" else (1, CLEAN)
    rate = 1 / (settings.step_size * settings.steps)
    panel = Panel(title, x=Axis("outliers in training, p_a", domain=(0, 1)), y=Axis("speed ÷ η"))
    grid = [i / 50 for i in range(50)]
    moves = [settings.replace(outlier_fraction=p).gate_moves(settings.steps)[place] for p in grid]
    panel.line(MEAN_FIELD, grid, [-rate * move for move in moves])
    if kind == "outlier":
        scale = -rate * settings.replace(outlier_fraction=0.3).gate_moves(settings.steps)[0] / 0.7
        panel.line(PRINTED, grid, [scale * (1 - p) for p in grid])
    draw_means(panel, series, {p: scaled(fallen(rows, kind, "fraction", p), rate) for p in settings.fractions})
    return panel


def _collapse(rows: list[Row], settings: VelocitySettings) -> Panel:
    ends = [0.1, 200.0]
    panel = Panel(
        "C  how logits part",
        x=Axis("p_a κ_a² ‖v*‖² M1 / (V β²)", domain=(ends[0], ends[1]), scale="log", ticks=_TICKS),
        y=Axis("fall of logits, (outlier − clean) / clean", domain=(ends[0], ends[1]), scale="log", ticks=_TICKS),
    )
    panel.line(MEAN_FIELD, ends, ends)
    panel.line(EQUAL, [1.0, 1.0], ends)
    for colour, name in zip(PALETTE, SWEEPS, strict=True):
        series = Series(f"{SYMBOLS[name]} varied", colour, line=False, hollow=True)
        found = {_condition(own): _gap(rows, name, value, own) for value, own in settings.sweep(name).items()}
        draw_means(panel, series, found, positive=True)
    return panel


_TICKS = {0.1: "0.1", 1.0: "1", 10.0: "10", 100.0: "100"}


def _over_time(rows: list[Row], settings: VelocitySettings) -> Panel:
    own, kept = settings.long, _kept(rows)
    panel = Panel(
        "D  a longer training",
        x=Axis("η × steps", domain=(0.01, 10.0), scale="log", ticks={0.01: "0.01", 0.1: "0.1", 1.0: "1", 10.0: "10"}),
        y=Axis("−wᵀv̂ and −wᵀe", domain=(1e-5, 1.0), scale="log"),
    )
    curve = own.field(kept[-1] if kept else 1)
    for place, (kind, series) in enumerate((("outlier", OUTLIER), ("relevant", CLEAN))):
        if kept:
            panel.line(MEAN_FIELD, [own.step_size * s for s in kept], [-own.gate_moves(s)[place] for s in kept])
            later = [i for i, step in enumerate(curve.steps) if step >= kept[0]]
            numbers = -curve.numbers[:, 3 - place]
            times = [own.step_size * float(curve.steps[i]) for i in later]
            panel.line(FULL_FIELD, times, [float(numbers[i]) for i in later])
        draw_means(panel, series, {own.step_size * s: _at(rows, kind, s) for s in kept}, positive=True)
    return panel
