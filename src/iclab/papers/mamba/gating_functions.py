"""M-gating-functions: σ in Mamba's gate swapped for other functions, and how robust they become with training.

Paper M asks for other gates among its open questions. Here only the function of the logit changes: `iclab.models.gated`
lists them. What may matter is how fast it falls towards −∞, where outliers are pushed to, and whether it has a slope
there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import Field

from iclab.engines import Training, geometric
from iclab.models import Model
from iclab.papers.mamba.settings import MambaPaper
from iclab.probes import Row
from iclab.study.charts import DASHED, DOTTED, Axis, Figure, Panel, Series, reference
from iclab.study.claims import Claim, Judge, Point, every_below, judged
from iclab.study.experiment import Condition, Experiment, in_groups
from iclab.study.rows import error_points, errors, listed, paired_points, proportion
from iclab.study.settings import Chosen, Different, Disclosed

SMALL = 0.01
"""The error that the paper calls small; functions whose errors differ by less are alike."""
Name = Literal["sigmoid", "hard-sigmoid", "tanh", "softsign", "floor", "softplus", "exp"]
NAMES: tuple[Name, ...] = get_args(Name)
Fraction = Annotated[float, Field(gt=0, lt=1)]

LOOKS = {
    "sigmoid": Series("sigmoid: Mamba", "#0072B2"),
    "hard-sigmoid": Series("hard sigmoid", "#D55E00", mark="square"),
    "tanh": Series("tanh: σ(2x)", "#CC79A7", mark="triangle-up"),
    "softsign": Series("softsign", "#E69F00", mark="diamond"),
    "floor": Series("σ with a floor", "#009E73", mark="triangle-down"),
    "softplus": Series("softplus (Euler)", "#56B4E9", dash=DASHED, mark="cross"),
    "exp": Series("Δ = exp", "#333333", dash=DOTTED, mark=""),
}
CLAIMED = reference("error 0.01", DOTTED)


class FunctionSettings(MambaPaper):
    """Settings of M-gating-functions."""

    train_outlier_fraction: Annotated[Fraction, Disclosed("p_a, M §4.1")] = 0.6
    functions: Annotated[
        tuple[Name, ...], Field(min_length=1), Different, Chosen("in place of σ in M (3)", grid=True)
    ] = NAMES
    floor: Annotated[
        float, Field(ge=0, lt=1), Chosen("f, the least gate of the function with a floor", others=(0.01, 0.2))
    ] = 0.05
    function_steps: Annotated[
        tuple[Annotated[float, Field(gt=0)], ...],
        Field(min_length=1),
        Different,
        Chosen("η: Mamba's 1, which has the least loss by the rule of M-gates for every function, and a smaller one"),
    ] = (0.3, 1.0)
    outlier_fractions: Annotated[
        tuple[Fraction, ...], Field(min_length=1), Different, Chosen("α: p_a, and more", grid=True)
    ] = (0.6, 0.8)
    watched: Annotated[int, Field(ge=2), Chosen("kept steps per training, at equal ratios", grid=True)] = 13
    test_prompts: Annotated[int, Field(ge=1), Chosen("per seed, kept step and condition", grid=True)] = 2_000

    instead = {"step_sizes": "function_steps", "recipes": "function_steps"}

    def quick(self) -> Self:
        """Return the quick edition: one group of seeds, fewer prompts."""
        return super().quick().replace(test_prompts=min(self.test_prompts, 500), watched=min(self.watched, 10))

    def training(self, function: str, step_size: float) -> Training:
        """Return the training of Mamba with a gating function."""
        options: dict[str, Any] = {"init_scale": self.init_scale, "function": function}
        if function == "floor":
            options["floor"] = self.floor
        kept = geometric(self.steps, self.watched) if self.steps else ()
        recipe = self.recipe("mamba").replace(step_size=step_size, snapshots=kept)
        prompts = self.train_prompts(self.train_outlier_fraction)
        model = Model(name="gated", options=options)
        return Training(model=model, prompts=prompts, recipe=recipe, engine=self.engine)


class GatingFunctions(Experiment[FunctionSettings]):
    """Error under the worst labels against training time, one line per gating function."""

    id = "M-gating-functions"
    title = "Mamba with other gating functions"
    paper = "A question of iclab's: which function of the logit should a gate be? In (3) it is σ, as Δ is a softplus."
    reading = (
        "Mean error over seeds under the worst labels of the outliers, exact, against training steps; bands span the "
        "lowest to the highest seed. Top: α = p_a; bottom: more outliers than in training. Left and right: two step "
        "sizes. Only the function of the gate differs."
    )
    theorems = ("M-thm2",)
    settings = FunctionSettings

    def conditions(self, settings: FunctionSettings) -> list[Condition]:
        """Return every function at both step sizes, measured at every kept step."""
        found: list[Condition] = []
        for step_size in settings.function_steps:
            for function in settings.functions:
                training = settings.training(function, step_size)
                for fraction in settings.outlier_fractions:
                    prompts = settings.test_prompts_with(labels="flip", **settings.amount(fraction))
                    columns = {"model": function, "step_size": step_size, "outlier_fraction": fraction}
                    how = {"probe": "worst", "prompts": prompts, "count": settings.test_prompts, "at": "every"}
                    found += in_groups(settings, columns, training, **how)
        return found

    def claims(self, settings: FunctionSettings) -> list[Claim]:
        """Return for each function whether it is robust up to p_a, and whether it does as well as σ."""
        found = []
        inside = [f for f in settings.outlier_fractions if f <= settings.train_outlier_fraction]
        step_size = settings.function_steps[-1]
        at = f"η = {step_size:g}, after {settings.steps} steps"
        for function in settings.functions:
            cells = [(f"α = {f:g}", _where(settings, function, step_size, f)) for f in inside]
            found.append(
                Claim(
                    f"M-gating-functions.robust.{function}",
                    f"with {LOOKS[function].name}, Mamba's gate is robust up to α = p_a",
                    f"mean error with worst labels < {SMALL:g} at α = {listed(inside)}, {at}",
                    _small(settings, cells),
                    ours=True,
                )
            )
        for function in (name for name in settings.functions if name != "sigmoid"):
            grid = listed(settings.outlier_fractions)
            found.append(
                Claim(
                    f"M-gating-functions.alike.{function}",
                    f"{LOOKS[function].name} does as well as the sigmoid",
                    f"error with worst labels − that of the sigmoid < {SMALL:g} on paired seeds at α = {grid}, {at}",
                    _alike(settings, function, step_size),
                    ours=True,
                )
            )
        return found

    def table(self, rows: list[Row], settings: FunctionSettings) -> list[dict[str, Any]]:
        """Return one line per step size and function: the error after training."""
        return [
            {"η": f"{step_size:g}", "function": LOOKS[function].name}
            | {
                f"worst labels, α = {f:g}": _text(rows, _where(settings, function, step_size, f))
                for f in settings.outlier_fractions
            }
            for step_size in settings.function_steps
            for function in settings.functions
        ]

    def chart(self, rows: list[Row], settings: FunctionSettings) -> Figure:
        """Draw the error against steps, by step size and α."""
        panels = []
        for fraction in settings.outlier_fractions:
            for step_size in settings.function_steps:
                y = Axis("error, worst labels", (0, 1), "symlog", 0.003, ticks=(0, 0.01, 0.03, 0.1, 0.3, 1))
                ticks = {1.0: "1", 10.0: "10", 100.0: "100", 1000.0: "1,000"}
                x = Axis("training steps", domain=(1, max(2, settings.steps)), scale="log", ticks=ticks)
                panel = Panel(f"α = {fraction:g}, η = {step_size:g}", x=x, y=y)
                panel.line(CLAIMED, [1, max(2, settings.steps)], [SMALL, SMALL])
                for function in settings.functions:
                    _course(panel, rows, function, step_size, fraction)
                panels.append(panel)
        return Figure(panels, columns=len(settings.function_steps), width=330)


def _course(panel: Panel, rows: list[Row], function: str, step_size: float, fraction: float) -> None:
    """Draw one function over the kept steps; the start is left out of a logarithmic axis."""
    mine = {"model": function, "step_size": step_size, "outlier_fraction": fraction}
    steps = sorted({row["step"] for row in rows if row.get("step") and row["model"] == function})
    found = [errors([row for row in rows if row.get("step") == step], **mine) for step in steps]
    panel.curve(LOOKS[function], steps, found)


def _where(settings: FunctionSettings, function: str, step_size: float, fraction: float) -> dict[str, Any]:
    """Return the columns of a function's last step."""
    return {"model": function, "step_size": step_size, "outlier_fraction": fraction, "step": settings.steps}


def _text(rows: list[Row], where: dict[str, Any]) -> str:
    found = proportion(rows, **where)
    return "–" if found is None else found.short()


def _small(settings: FunctionSettings, cells: Sequence[tuple[str, dict[str, Any]]]) -> Judge:
    return judged(
        lambda rows: error_points(rows, settings.seeds, cells) if cells else None,
        every_below,
        SMALL,
    )


def _alike(settings: FunctionSettings, function: str, step_size: float) -> Judge:
    def points(rows: list[Row]) -> list[Point] | None:
        pairs = []
        for fraction in settings.outlier_fractions:
            mine, usual = (
                errors(rows, **_where(settings, name, step_size, fraction)) for name in (function, "sigmoid")
            )
            pairs.append((f"α = {fraction:g}", mine, usual))
        return paired_points(pairs, settings.seeds)

    return judged(points, every_below, SMALL)
