"""M-thm1: how many steps Mamba's training takes, and what its conditions are worth (M Theorem 1, (8) to (10))."""

from __future__ import annotations

from functools import partial
from typing import Any

from iclab.papers.mamba import thm1_conditions as parts
from iclab.papers.mamba import thm1_limits as limits
from iclab.papers.mamba.thm1_chart import condition_panels
from iclab.papers.mamba.thm1_settings import FIXED, SWEEPS, TWINS, Theorem1Settings
from iclab.papers.mamba.times import HALF, LATE, Sweep, last
from iclab.papers.mamba.times_chart import fitted, level_series, mean, other_line, sweep_line, sweep_panel
from iclab.papers.mamba.times_field import hitting_times, training_panel
from iclab.probes import Row
from iclab.study.charts import FAINT, PALETTE, Figure, Panel, Series, name_of
from iclab.study.claims import BySeed, Claim
from iclab.study.experiment import Condition, Experiment
from iclab.study.fits import PowerLaw, exponent_claim
from iclab.study.rows import proportion

LAW = "T = Θ(η⁻¹ (1 − p_a)⁻¹ β⁻² M1)"


class TrainingTime(Experiment[Theorem1Settings]):
    """Hitting times in six sweeps, and the end of training under each condition."""

    id = "M-thm1"
    title = "How many steps Mamba's training takes"
    paper = (
        "With large enough batches (i), outliers of moderate strength (ii) and prompts of moderate length (iii), "
        f"{LAW} steps of SGD bring the expected loss over all tasks below ε (9), (10)."
    )
    reading = (
        "A to F: steps until the expected hinge loss on fresh prompts is below 0.5 and 0.1, with 95 % intervals over "
        "seeds. Dashed: the slope that (9) claims. Grey: iclab's mean field (E) for a frozen gate; hollow grey points "
        "are trainings with a frozen gate, if they were run. Black: the mean field (F) with a free gate, which learns "
        "to skip outliers and saves steps. Neither has a free constant. G: one training of the sweep of η. H to J: "
        "what conditions (i), (ii) and (iii) need at the end of training. K, L: the upper bounds of (ii) and (iii)."
    )
    caption = "exponents of T: mean over seeds and 95 % interval, fitted seed by seed"
    theorems = ("M-lem3", "M-thm3")
    settings = Theorem1Settings

    def conditions(self, settings: Theorem1Settings) -> list[Condition]:
        """Return the loss after every kept step of every sweep, and the end of training under each condition."""
        sweeps = [*SWEEPS.values(), *((*FIXED.values(), *TWINS.values()) if settings.more else ())]
        found = [condition for s in sweeps for condition in s.conditions(settings, settings.values(s))]
        return found + parts.conditions(settings) + limits.conditions(settings)

    def claims(self, settings: Theorem1Settings) -> list[Claim]:
        """Return one claim per exponent and level, those about the conditions, and iclab's about δ."""
        found = []
        for level, kind in ((HALF, "steps"), (LATE, "steps-late")):
            for name in ("eta", "relevant", "clean", "norm", "length"):
                sweep = SWEEPS[name]
                assert sweep.power is not None
                held = f"; {sweep.held}" if sweep.held else ""
                found.append(
                    exponent_claim(
                        f"M-thm1.{kind}.{name}",
                        f"(9): {LAW}" + ("" if sweep.power else ": no l_tr"),
                        partial(sweep.times, level=level),
                        sweep.power,
                        seeds=settings.seeds,
                        where=f"{sweep.symbol}, T to loss {level:g}{held}",
                    )
                )
        return [*found, *_about_scale(settings), *parts.claims(settings), *limits.claims(settings)]

    def table(self, rows: list[Row], settings: Theorem1Settings) -> list[dict[str, Any]]:
        """Return one line per sweep, then what the conditions need."""
        lines = [sweep_line(rows, settings, s, settings.values(s)) for s in SWEEPS.values()]
        if settings.more:
            lines += [sweep_line(rows, settings, s, settings.values(s)) for s in FIXED.values()]
            lines += [sweep_line(rows, settings, s, settings.values(s), late=False) for s in TWINS.values()]
        for count in settings.ring_relevant:
            p = proportion(rows, part="ring", x=count)
            text = "–" if p is None else p.short()
            lines.append(other_line(f"error over all tasks after ring:1, M1 = {count}", "< ε", text))
        for batch, losses in last(rows, "hinge", "batch").items():
            loss = mean(losses)
            text = "–" if loss is None else f"{loss:.4f}"
            lines.append(other_line(f"loss at B = {batch:g}, η = {settings.batch_step:g}", "≲ B^−½", text))
        for axis, symbol in parts.AXES.items():
            claimed = "{:g} printed, {:g} proof".format(
                *(parts.READINGS[r][_place(axis)] for r in ("printed", "proof"))
            )
            law = PowerLaw(parts.needed_strength(rows, axis), fewest=3)
            field = f"{parts.READINGS['mean field'][_place(axis)]:g}".replace("-", "−")
            fit = fitted(law)["exponent"]
            lines.append(other_line(f"κ_a* against {symbol}: exponent", claimed.replace("-", "−"), fit, field))
        for most, needed in parts.needed_length(rows).items():
            lines.append(other_line(f"l* at M1 = {most:g}", "≲ log M1", _lengths(needed)))
        return lines + limits.lines(rows, settings)

    def chart(self, rows: list[Row], settings: Theorem1Settings) -> Figure:
        """Draw six sweeps, T against x, one training over time, and the conditions."""
        looks, panels = level_series(name_of("mamba")), []
        for name, sweep in SWEEPS.items():
            values = settings.values(sweep)
            fields = [hitting_times(sweep, settings, values, level) for level in looks] if rows else []
            twin = TWINS[name] if settings.more else None
            panels.append(sweep_panel(rows, settings, sweep, values, looks, twin, fields))
        return Figure([*panels, _a_training(rows, settings), *condition_panels(rows, settings)], columns=3)


def _a_training(rows: list[Row], settings: Theorem1Settings) -> Panel:
    """Draw the loss over time at the usual settings: a point of the sweep of η."""
    x = settings.step_sizes["mamba"]
    shown = {Series("Mamba: loss", PALETTE[0]): (SWEEPS["eta"], x)}
    if settings.more:
        shown[Series("Mamba, gate frozen: loss", FAINT, hollow=True)] = (TWINS["eta"], x)
    return training_panel(f"G  a training, η = {x:g}", rows, settings, shown)


def _lengths(needed: BySeed) -> str:
    good = [value for value in needed.values() if value is not None]
    return f"{sum(good) / len(good):.1f} ({min(good):.1f} to {max(good):.1f})" if good else "–"


def _place(axis: str) -> int:
    return list(parts.AXES).index(axis)


def _about_scale(settings: Theorem1Settings) -> list[Claim]:
    """Return iclab's claims about δ, which (9) does not name."""
    sweep: Sweep = SWEEPS["scale"]
    expected = sweep.predicted(settings, settings.values(sweep))

    def against_mean_field(rows: list[Row]) -> dict[float, BySeed]:
        return {expected[x]: times for x, times in sweep.times(rows, HALF).items() if x in expected}

    return [
        exponent_claim(
            "M-thm1.scale",
            "T does not depend on δ, as (9) says",
            partial(sweep.times, level=HALF),
            0.0,
            seeds=settings.seeds,
            where=f"δ, T to loss {HALF:g}",
            ours=True,
        ),
        exponent_claim(
            "M-thm1.logarithm",
            "T depends on δ as (E) says, through log(2f / ((1 − p_a) g δ² β²)): T ∝ (E) as δ varies",
            against_mean_field,
            1.0,
            seeds=settings.seeds,
            where=f"(E) as δ varies, T to loss {HALF:g}",
            ours=True,
        ),
    ]
