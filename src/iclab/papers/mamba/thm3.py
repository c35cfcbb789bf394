"""M-thm3: how many steps the linear Transformer's training takes, against Mamba's (M Theorem 3, (14), Remark 4)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from iclab.papers.mamba import thm3_batch
from iclab.papers.mamba.thm3_settings import FIXED, LINEAR, MAMBA, OTHERS, Theorem3Settings
from iclab.papers.mamba.times import HALF, TimesSettings, last, mean_points, ratio
from iclab.papers.mamba.times_chart import (
    MEAN_FIELD,
    claimed_line,
    fitted,
    level_series,
    log_axis,
    mean,
    measured,
    other_line,
    sweep_line,
    sweep_panel,
)
from iclab.papers.mamba.times_field import training_panel
from iclab.probes import Row
from iclab.prompts.tasks import AllPairs
from iclab.study.charts import Axis, Figure, Panel, Series, colour_of, name_of, series_of
from iclab.study.claims import BySeed, Claim, Judge, Point, every_above, every_below, every_within, judged
from iclab.study.experiment import Condition, Experiment, in_groups
from iclab.study.fits import PowerLaw, exponent_claim
from iclab.study.rows import listed

LAW = "T_T = Θ(η⁻¹ (1 − p_a)⁻¹ β⁻² l_tr⁻¹ M1)"
SIZE = 0.25
"""How far the constant of the ratio may be from the mean field's."""
OPEN = 0.5
"""A gate has learnt nothing about outliers if it lets through more than this share of what it does of clean ones."""
WEAK = 0.1
"""κ_a at which Mamba's gate is read as weak: κ_a ‖v*‖ = 0.3."""
LONG = 3.3
"""Steps as a multiple of (E) before losses and gates are compared."""


class LinearTime(Experiment[Theorem3Settings]):
    """Hitting times of both models against l_tr, and of the linear model against M1, β and 1 − p_a."""

    id = "M-thm3"
    title = "How many steps the linear Transformer's training takes, against Mamba's"
    paper = (
        f"{LAW} steps bring the linear Transformer's expected loss below ε (14). Mamba needs T_M = Θ(l_tr) T_T steps. "
        "There is no lower bound on κ_a for the linear Transformer, and it needs smaller batches (Remark 4)."
    )
    reading = (
        "A: η T to an expected hinge loss of 0.5 on fresh prompts against the length of prompts. The models need "
        "different η; T is proportional to 1/η (M-thm1.steps.eta), so η T is compared. B: the ratio of both, seed by "
        "seed. C to E: the linear model alone. Dashed: the claimed slope. Grey: iclab's mean field (E), without a free "
        "constant. F: loss of the linear model after training, and the gates of Mamba's outliers as a share of those "
        "of clean examples, against the strength of outliers. G: the least batch with which a loss of 0.1 is reached. "
        "H: the loss with strong outliers. I: the loss over time, and the mean field (F), without a free constant."
    )
    caption = "exponents of T: mean over seeds and 95 % interval, fitted seed by seed"
    theorems = ("M-thm1",)
    settings = Theorem3Settings

    def conditions(self, settings: Theorem3Settings) -> list[Condition]:
        """Return the loss after every kept step of every sweep, and the ends of trainings by κ_a."""
        sweeps = (MAMBA, LINEAR, *OTHERS.values(), FIXED)
        found = [condition for s in sweeps for condition in s.conditions(settings, settings.values(s))]
        for strength in settings.strengths:
            own = settings.replace(train_outlier_scale=strength, watched=2)
            linear = own.replace(step_sizes=_faster(own)).for_linear().training("linear", LONG)
            mamba = own.replace(gate_scale=0.0, step_sizes=_faster(own)).training("mamba", LONG)
            for part, training, probe, count in (
                ("loss", linear, "error", 4 * settings.test_prompts),
                ("gate", mamba, "logits", min(settings.test_prompts, 200)),
            ):
                columns = {"part": part, "model": training.model.label, "x": strength, "by": 0.0}
                test = own.prompts(AllPairs())
                found += in_groups(settings, columns, training, probe=probe, prompts=test, count=count)
        return found + thm3_batch.conditions(settings)

    def claims(self, settings: Theorem3Settings) -> list[Claim]:
        """Return the exponents of (14), those of the ratio and its constant, and what Remark 4 says of κ_a."""
        claims = [
            exponent_claim(
                f"M-thm3.steps.{sweep.name if sweep.model == 'linear' else 'length-mamba'}",
                f"(14): {LAW}" if sweep.model == "linear" else "(9) has no l_tr",
                partial(sweep.times, level=HALF),
                sweep.power or 0.0,
                seeds=settings.seeds,
                where=f"{sweep.symbol}, T to loss {HALF:g}; {sweep.held}",
                models=(sweep.model,),
            )
            for sweep in (LINEAR, MAMBA, *OTHERS.values())
        ]
        both = ("mamba", "linear")
        claims.append(
            exponent_claim(
                "M-thm3.ratio",
                "T_M = Θ(l_tr) T_T (Remark 4)",
                partial(_ratio, settings=settings),
                1.0,
                seeds=settings.seeds,
                where=f"η_M T_M / (η_T T_T) against l_tr, T to loss {HALF:g}",
                models=both,
            )
        )
        claims.append(
            Claim(
                "M-thm3.constant",
                "the constant of the ratio is the mean field's: T_M / T_T = (E) / (E), about 2 l_tr",
                f"η_M T_M / (η_T T_T), over the ratio of both (E), between {1 - SIZE:g} and {1 + SIZE:g} at every l",
                judged(partial(_constants, settings=settings), every_within, 1 - SIZE, 1 + SIZE),
                models=both,
                ours=True,
            )
        )
        return [*claims, *_strength_claims(settings), *thm3_batch.claims(settings)]

    def table(self, rows: list[Row], settings: Theorem3Settings) -> list[dict[str, Any]]:
        """Return one line per sweep, the ratio, and the ends of training by κ_a."""
        sweeps = (LINEAR, MAMBA, *OTHERS.values(), FIXED)
        lines = [sweep_line(rows, settings, s, settings.values(s), late=False) for s in sweeps]
        found, expected = _ratio(rows, settings), _expected(settings)
        field = mean(PowerLaw(_single(expected), fewest=3).exponent)
        text = "–" if field is None else f"{field:.2f}"
        line = other_line("η_M T_M / (η_T T_T) against l_tr", "1", "–", text)
        lines.append(line | fitted(PowerLaw(found)))
        for x, by_seed in found.items():
            value = mean(by_seed)
            text = "–" if value is None else f"{value:.3g}"
            lines.append(other_line(f"the ratio itself at l_tr = {x:g}", "∝ l_tr", text, f"{expected[x]:.3g}"))
        losses, gates = last(rows, "hinge", "loss", "linear"), _gates(rows)
        for x in sorted({*losses, *gates}):
            texts = ["–" if v is None else f"{v:.3f}" for v in (mean(losses.get(x, {})), mean(gates.get(x, {})))]
            lines.append(other_line(f"κ_a = {x:g}: linear's loss; Mamba's gate ratio", "–", "; ".join(texts)))
        return lines + thm3_batch.lines(rows, settings)

    def chart(self, rows: list[Row], settings: Theorem3Settings) -> Figure:
        """Draw both models against l, their ratio, linear's other sweeps, strengths, batches, and losses over time."""
        look = {HALF: level_series(name_of("linear"), colour_of("linear"))[HALF]}
        others = [sweep_panel(rows, settings, s, settings.values(s), look) for s in OTHERS.values()]
        panels = [_lengths(rows, settings), _ratios(rows, settings), *others, _strengths(rows)]
        batches = [thm3_batch.panel(rows, settings), thm3_batch.strong_panel(rows, settings)]
        return Figure([*panels, *batches, _trainings(rows, settings)], columns=3)


def _faster(settings: TimesSettings) -> dict[str, float]:
    """Return step sizes four times as large: gates at the end of training are compared, not times."""
    return {name: 4 * step_size for name, step_size in settings.step_sizes.items()}


def _ratio(rows: Sequence[Row], settings: Theorem3Settings) -> dict[float, BySeed]:
    """Return η_M T_M / (η_T T_T) of each seed by l."""
    return ratio(MAMBA.times(rows, HALF), LINEAR.times(rows, HALF), settings.step_ratio)


def _expected(settings: Theorem3Settings) -> dict[float, float]:
    """Return the same by (E): about 2 l."""
    values = settings.values(MAMBA)
    over, under = MAMBA.predicted(settings, values), LINEAR.predicted(settings, values)
    return {x: settings.step_ratio * over[x] / under[x] for x in values}


def _single(found: dict[float, float]) -> dict[float, BySeed]:
    return {x: {0: value} for x, value in found.items()}


def _constants(rows: list[Row], settings: Theorem3Settings) -> list[Point] | None:
    found, expected = _ratio(rows, settings), _expected(settings)
    named = {
        f"l_tr = {x:g}": {seed: None if value is None else value / constant for seed, value in found.get(x, {}).items()}
        for x, constant in expected.items()
    }
    return mean_points(settings.seeds, named, "never get there")


def _gates(rows: Sequence[Row]) -> dict[float, BySeed]:
    """Return Mamba's gates of outliers over those of clean examples, by κ_a and seed."""
    both = [last(rows, "mean", "gate", kind=kind, quantity="gate") for kind in ("outlier", "clean")]
    return ratio(both[0], both[1])


def _strength_claims(settings: Theorem3Settings) -> list[Claim]:
    weak = [x for x in settings.strengths if x <= WEAK]
    return [
        Claim(
            "M-thm3.strength",
            "the conditions of the linear Transformer do not include a lower bound on κ_a (Remark 4)",
            f"loss after {LONG:g} × (E) steps < {HALF:g} at κ_a = {listed(settings.strengths)}",
            _every_strength(settings, partial(last, column="hinge", part="loss", model="linear"), settings.strengths),
            models=("linear",),
        ),
        Claim(
            "M-thm3.strength-mamba",
            "Mamba's conditions include a lower bound on κ_a (ii): below it, its gate does not learn to skip outliers",
            f"outliers' gates > {OPEN:g} of clean ones' at κ_a = {listed(weak)}, where the linear model trains",
            _every_strength(settings, _gates, weak, above=True),
            models=("mamba",),
        ),
    ]


def _every_strength(
    settings: Theorem3Settings,
    values: Callable[[list[Row]], dict[float, BySeed]],
    strengths: Sequence[float],
    above: bool = False,
) -> Judge:
    def points(rows: list[Row]) -> list[Point] | None:
        found = values(rows)
        return mean_points(settings.seeds, {f"κ_a = {x:g}": found.get(x, {}) for x in strengths})

    return judged(points, every_above, OPEN) if above else judged(points, every_below, HALF)


def _lengths(rows: Sequence[Row], settings: Theorem3Settings) -> Panel:
    """Draw η T against l for both models."""
    values, drawn = settings.values(MAMBA), []
    for sweep in (MAMBA, LINEAR):
        step_size = settings.step_sizes[sweep.model]
        times = {
            x: {seed: None if t is None else step_size * t for seed, t in by_seed.items()}
            for x, by_seed in sweep.times(rows, HALF).items()
        }
        line = {x: step_size * t for x, t in sweep.predicted(settings, values).items()}
        drawn.append((sweep, times, line))
    heights = [height for _, _, line in drawn for height in line.values()]
    panel = Panel(
        "A  l_tr, both models",
        x=log_axis("length l_tr", values),
        y=log_axis("η T", heights, decades=True),
        height=200,
    )
    for sweep, times, line in drawn:
        panel.line(MEAN_FIELD, list(line), list(line.values()))
        claimed_line(panel, times, sweep.power or 0.0)
        measured(panel, level_series(name_of(sweep.model), colour_of(sweep.model))[HALF], times)
    return panel


def _trainings(rows: Sequence[Row], settings: Theorem3Settings) -> Panel:
    """Draw the loss over time of both models at the usual l."""
    x = float(settings.context_length)
    shown = {series_of(sweep.model, name=f"{name_of(sweep.model)}: loss"): (sweep, x) for sweep in (MAMBA, LINEAR)}
    return training_panel(f"I  a training, l_tr = {x:g}", rows, settings, shown)


def _ratios(rows: Sequence[Row], settings: Theorem3Settings) -> Panel:
    found, expected = _ratio(rows, settings), _expected(settings)
    panel = Panel(
        "B  Mamba over linear",
        x=log_axis("length l_tr", expected),
        y=log_axis("η_M T_M / (η_T T_T)", expected.values(), decades=True),
        height=200,
    )
    panel.line(MEAN_FIELD, list(expected), list(expected.values()))
    claimed_line(panel, found, 1.0)
    measured(panel, Series("ratio, seed by seed", "#222222", line=False, mark="diamond", size=45.0), found)
    return panel


def _strengths(rows: Sequence[Row]) -> Panel:
    losses, gates = last(rows, "hinge", "loss", "linear"), _gates(rows)
    panel = Panel(
        "F  strength of outliers",
        x=Axis("κ_a", scale="symlog", linear_to=0.1, ticks=[0, 0.1, 0.3, 1, 2, 5, 20], domain=(0, 22)),
        y=Axis("loss, or ratio of gates", domain=(0, 1.1)),
        height=200,
    )
    panel.curve(series_of("linear", name="linear: loss after training"), list(losses), list(losses.values()))
    panel.curve(series_of("mamba", name="Mamba: gate of outliers / clean"), list(gates), list(gates.values()))
    return panel
