"""M-lem4: the laws of Lemma 4 for the first phase of the gate, (33) to (36), as exponents."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Annotated, Any

from iclab.papers.mamba.lemmas import combined, draw_means, points_of, scaled
from iclab.papers.mamba.phase_one import (
    CLEAN,
    FIELDS,
    MEAN_FIELD,
    OUTLIER,
    SYMBOLS,
    PhaseOneSettings,
    Sweep,
    fallen,
    sweep_conditions,
)
from iclab.probes import Row
from iclab.study.charts import DASHED, Axis, Figure, Panel, Series, reference
from iclab.study.claims import BySeed, Claim, every_above, every_below, judged
from iclab.study.experiment import Condition, Experiment, in_groups
from iclab.study.fits import Curves, PowerLaw, exponent_claim, exponent_point
from iclab.study.rows import lost, values
from iclab.study.settings import Chosen

EXACT = 0.1
"""How far an exponent may be from (B)'s."""
SWEEPS: tuple[Sweep, ...] = ("fraction", "scale", "kinds", "relevant", "norm")
LOGIT = Series("fall of an outlier's logit", "#CC79A7", line=False)
PRINTED = reference("the lemma's power law, scaled", DASHED, "#009E73")
POWERS: dict[Sweep, dict[str, float]] = {
    "scale": {"outlier": 1.0},
    "kinds": {"outlier": -1.0},
    "relevant": {"relevant": -1.0},
    "norm": {"outlier": 2.0, "relevant": 1.0},
}
"""The powers of (33), for wᵀv*, and (34), for wᵀµ = β wᵀe; 1 − p_a is drawn apart."""


class PhaseOneLaws(PhaseOneSettings):
    """The sweeps of phase 1, and a training from the paper's own w⁽⁰⁾."""

    usual_step_size: Annotated[float, Chosen("η of the training from the paper's w⁽⁰⁾, as in M-thm1")] = 0.02

    @property
    def phase_end(self) -> float:
        """t_1 = min{V / (η β² κ_a (1 − p_a)), M1^⅔ V^⅓ / (η β^⅔ κ_a^⅓ (1 − p_a))}, up to where Lemma 4 speaks."""
        rate = self.usual_step_size * (1 - self.outlier_fraction)
        beta, scale, kinds = self.pattern_norm, self.outlier_scale, self.outlier
        first = kinds / (beta**2 * scale)
        second = self.relevant ** (2 / 3) * kinds ** (1 / 3) / (beta ** (2 / 3) * scale ** (1 / 3))
        return min(first, second) / rate


class FirstPhase(Experiment[PhaseOneLaws]):
    """Exponents of the gate's first moves."""

    id = "M-lem4"
    title = "Laws of the first phase of the gate"
    paper = (
        "Lemma 4, for t up to t_1: v*ᵀw ≲ −η t β² κ_a (1 − p_a)/V (33); µᵀw = Θ(−η t (1 − p_a) β²/M1) (34); the logit "
        "of an outlier ≲ −η t β² κ_a (1 − p_a), below that of a clean example, which is below 0 (35), (36)."
    )
    reading = (
        "How far the gate has moved from w = 0 after 16 small steps, against one setting at a time. Marks are means "
        "over seeds with 95 % intervals; solid lines are iclab's (B); dashed lines have the lemma's power and meet "
        "(B) at the base setting. A is where they differ most: without the missing factor p_a, outliers that are never "
        "seen would be learnt fastest."
    )
    caption = "exponents: mean over seeds, R² and exponents of both halves of the range"
    theorems = ("M-lem4",)
    settings = PhaseOneLaws

    def conditions(self, settings: PhaseOneLaws) -> list[Condition]:
        """Return every sweep, the base setting after every kept step, and logits from the paper's w⁽⁰⁾ at t_1."""
        found = [condition for name in SWEEPS for condition in sweep_conditions(settings, name)]
        training = settings.training(settings.steps, kept=5)
        more = {"probe": "growth", "prompts": training.prompts, "count": 1, "at": "every"}
        found += in_groups(settings, {"sweep": "time", "value": None}, training, **more)
        usual = settings.replace(step_size=settings.usual_step_size, batch_size=min(settings.batch_size, 512))
        training = usual.training(min(settings.phase_end, settings.steps), gate_scale=1.0)
        more = {"probe": "logits", "prompts": training.prompts, "count": min(settings.test_prompts, 500)}
        return found + in_groups(settings, {"sweep": "paper", "value": None}, training, **more)

    def claims(self, settings: PhaseOneLaws) -> list[Claim]:
        """Claim the lemma's powers as printed, and (B)'s where they differ."""
        return [*_fraction_claims(settings), *_power_claims(settings), *_order_claims(settings)]

    def table(self, rows: list[Row], settings: PhaseOneLaws) -> list[dict[str, Any]]:
        """Return one line per sweep: measured exponents."""
        lines = []
        for name in SWEEPS:
            line = {"varied": SYMBOLS[name]}
            for kind, title in (("outlier", "−wᵀv̂"), ("relevant", "−wᵀe"), ("logit", "fall of an outlier's logit")):
                line[title] = PowerLaw(_curve(settings, name, kind)(rows)).text()
            lines.append(line)
        return lines

    def chart(self, rows: list[Row], settings: PhaseOneLaws) -> Figure:
        """Draw one panel per sweep, and one over time."""
        titles = ("A  outliers p_a", "B  strength κ_a", "C  outlier patterns V", "D  relevant patterns M1", "E  norm β")
        panels = [_panel(rows, settings, name, title) for name, title in zip(SWEEPS, titles, strict=True)]
        return Figure([*panels, _over_time(rows, settings)], columns=3, width=240)


def _moves(rows: list[Row], own: PhaseOneSettings, name: str, value: float, kind: str) -> BySeed:
    """Return −wᵀv̂, −wᵀe or, for ``logit``, how far an outlier's mean logit has fallen."""
    if kind != "logit":
        return fallen(rows, kind, name, value)
    parts = [(own.strength, "outlier"), (own.pattern_norm, "relevant")]
    return combined([(factor, fallen(rows, part, name, value)) for factor, part in parts])


def _curve(
    settings: PhaseOneLaws,
    name: Sweep,
    kind: str,
    factor: Callable[[float], float] = lambda value: 1.0,
    against: Callable[[float], float] = lambda value: value,
) -> Curves:
    """Make curves of a move times a factor against a function of the varied value."""
    return lambda rows: {
        against(value): scaled(_moves(rows, own, name, value, kind), factor(value))
        for value, own in settings.sweep(name).items()
    }


def _fraction_claims(settings: PhaseOneLaws) -> list[Claim]:
    n = settings.seeds
    clean: dict[str, Any] = {"factor": lambda p: 1 / (1 - p)}
    return [
        exponent_claim(
            "M-lem4.fraction",
            "(33): v*ᵀw falls in proportion to 1 − p_a, with no other dependence on p_a",
            _curve(settings, "fraction", "outlier", **clean),
            0.0,
            seeds=n,
            where="−wᵀv̂/(1 − p_a) in p_a",
        ),
        exponent_claim(
            "M-lem4.fraction-restored",
            "(B): v*ᵀw falls in proportion to p_a (1 − p_a)",
            _curve(settings, "fraction", "outlier", **clean),
            1.0,
            seeds=n,
            within=EXACT,
            where="−wᵀv̂/(1 − p_a) in p_a",
            ours=True,
        ),
        exponent_claim(
            "M-lem4.fraction-clean",
            "(34): µᵀw falls in proportion to 1 − p_a",
            _curve(settings, "fraction", "relevant", against=lambda p: 1 - p),
            1.0,
            seeds=n,
            where="−wᵀe in 1 − p_a",
        ),
    ]


def _power_claims(settings: PhaseOneLaws) -> list[Claim]:
    def power(id_: str, words: str, name: Sweep, kind: str, power: float, **more: Any) -> Claim:
        factor = (lambda beta: beta) if name == "norm" and kind == "relevant" else (lambda value: 1.0)
        curve = _curve(settings, name, kind, factor)
        return exponent_claim(f"M-lem4.{id_}", words, curve, power, seeds=settings.seeds, **more)

    ours: dict[str, Any] = {"ours": True, "within": EXACT}
    logit = _curve(settings, "scale", "logit")
    return [
        power("kappa", "(33): v*ᵀw falls in proportion to κ_a", "scale", "outlier", 1.0),
        Claim(
            "M-lem4.kappa-logit",
            "(36): the outlier's logit is ≲ −κ_a η t β² (1 − p_a)",
            "exponent of its fall in κ_a above 0.85 over the upper half of the range: at least as fast as κ_a",
            judged(_upper(settings, logit), every_above, 0.85),
        ),
        power("kinds", "(33): v*ᵀw falls in proportion to 1/V", "kinds", "outlier", -1.0),
        power(
            "kinds-logit",
            "(36): the bound on an outlier's logit does not depend on V",
            "kinds",
            "logit",
            0.0,
        ),
        power("relevant", "(34): µᵀw falls in proportion to 1/M1", "relevant", "relevant", -1.0),
        power("norm", "(33): v*ᵀw falls in proportion to β² (δ, κ_a‖v*‖ fixed)", "norm", "outlier", 2.0),
        power("norm-clean", "(34): µᵀw falls in proportion to β² (δ fixed)", "norm", "relevant", 2.0),
        power("norm-restored", "(B): µᵀw falls in proportion to β⁴ (δ fixed)", "norm", "relevant", 4.0, **ours),
        exponent_claim(
            "M-lem4.time",
            "(33): v*ᵀw falls in proportion to t",
            lambda rows: {step: fallen(_of(rows, "time"), "outlier", "time", None, step=step) for step in _kept(rows)},
            1.0,
            seeds=settings.seeds,
        ),
    ]


def _upper(settings: PhaseOneLaws, curve: Curves) -> Any:
    return exponent_point(settings.seeds, lambda rows: dict(list(curve(rows).items())[-3:]), "κ_a = 2 to 8", fewest=3)


def _order_claims(settings: PhaseOneLaws) -> list[Claim]:
    n = settings.seeds

    def changes(rows: list[Row]) -> Iterator[tuple[str, BySeed]]:
        for name in SWEEPS:
            for value, own in settings.sweep(name).items():
                where, (outlier, clean) = f"{SYMBOLS[name]} = {value:g}", own.gate_moves(own.steps)
                yield f"clean, {where}", scaled(fallen(rows, "relevant", name, value), 1 / clean)
                yield f"outlier − clean, {where}", scaled(fallen(rows, "outlier", name, value), 1 / outlier)

    def upper(rows: list[Row]) -> Iterator[tuple[str, BySeed]]:
        paper = _of(rows, "paper")
        yield "clean logits", lost(paper) | values(paper, "q90", kind="clean", quantity="logit")

    return [
        Claim(
            "M-lem4.order",
            "(36): outlier logits < clean logits < 0, read as changes from the start",
            "change of the mean clean logit, and of outlier − clean, divided by the size of (B), below 0 everywhere",
            judged(lambda rows: points_of(changes(rows), n), every_below, 0.0),
        ),
        Claim(
            "M-lem4.order-printed",
            "(35): with the paper's w⁽⁰⁾, clean logits are below 0 for t up to t_1, with high probability",
            "the 90 % quantile of clean logits at t_1 is below 0",
            judged(lambda rows: points_of(upper(rows), n), every_below, 0.0),
        ),
    ]


def _of(rows: list[Row], sweep: str) -> list[Row]:
    return [row for row in rows if row["sweep"] == sweep]


def _kept(rows: list[Row]) -> list[int]:
    return sorted({row["step"] for row in _of(rows, "time") if row["step"]})


_X = {
    "fraction": ((0.0, 1.0), None),
    "scale": ((0.4, 10.0), {0.5: "0.5", 1.0: "1", 2.0: "2", 4.0: "4", 8.0: "8"}),
    "kinds": ((0.8, 20.0), {1.0: "1", 2.0: "2", 4.0: "4", 8.0: "8", 16.0: "16"}),
    "relevant": ((3.0, 40.0), {4.0: "4", 8.0: "8", 16.0: "16", 32.0: "32"}),
    "norm": ((0.6, 7.5), {0.75: "0.75", 1.5: "1.5", 3.0: "3", 6.0: "6"}),
}
_HEIGHTS = (2e-6, 0.3)


def _panel(rows: list[Row], settings: PhaseOneLaws, name: Sweep, title: str) -> Panel:
    domain, ticks = _X[name]
    logarithmic = ticks is not None
    panel = Panel(
        title,
        x=Axis(SYMBOLS[name], domain=domain, scale="log" if logarithmic else "linear", ticks=ticks),
        y=Axis("moved after 16 steps", domain=_HEIGHTS if logarithmic else (1e-5, 0.02), scale="log"),
    )
    grid = list(settings.sweep(name))
    if not logarithmic:
        grid = [0.01, 0.02, *(i / 20 for i in range(1, 20)), 0.98]
    fine = {value: settings.replace(**{FIELDS[name]: value}) for value in grid}
    moves = {value: own.gate_moves(own.steps) for value, own in fine.items()}
    for place in (0, 1):
        panel.line(MEAN_FIELD, grid, [-moves[value][place] for value in grid])
    logits = [-(own.strength * moves[v][0] + own.pattern_norm * moves[v][1]) for v, own in fine.items()]
    panel.line(MEAN_FIELD, grid, logits)
    base = getattr(settings, FIELDS[name])
    for kind, place in (("outlier", 0), ("relevant", 1)):
        middle = -settings.gate_moves(settings.steps)[place]
        if not logarithmic and kind == "outlier":
            panel.line(PRINTED, grid, [middle * (1 - value) / (1 - base) for value in grid])
        elif kind in POWERS.get(name, {}):
            panel.line(PRINTED, grid, [middle * (value / base) ** POWERS[name][kind] for value in grid])
    for kind, series in (("outlier", OUTLIER), ("relevant", CLEAN), ("logit", LOGIT)):
        found = {value: _moves(rows, own, name, value, kind) for value, own in settings.sweep(name).items()}
        draw_means(panel, series, found, positive=True)
    return panel


def _over_time(rows: list[Row], settings: PhaseOneLaws) -> Panel:
    ticks = {1.0: "1", 2.0: "2", 4.0: "4", 8.0: "8", 16.0: "16"}
    panel = Panel(
        "F  steps",
        x=Axis("step", domain=(0.8, 20.0), scale="log", ticks=ticks),
        y=Axis("moved", domain=_HEIGHTS, scale="log"),
    )
    kept = _kept(rows)
    for place, (kind, series) in enumerate((("outlier", OUTLIER), ("relevant", CLEAN))):
        if kept:
            panel.line(MEAN_FIELD, kept, [-settings.gate_moves(step)[place] for step in kept])
        found: dict[float, BySeed] = {step: fallen(_of(rows, "time"), kind, "time", None, step=step) for step in kept}
        draw_means(panel, series, found, positive=True)
    return panel
