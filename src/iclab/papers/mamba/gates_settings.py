"""Settings of M-gates: the gates of M E.6 and some of today's, and one rule for the step sizes of all."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import AfterValidator, Field

from iclab.engines import Training, geometric
from iclab.models import Model, architecture
from iclab.papers.mamba.settings import MambaPaper
from iclab.study.settings import Chosen, Different, Disclosed

Fraction = Annotated[float, Field(ge=0, lt=1)]


class Gate(NamedTuple):
    """One of the compared models."""

    model: str
    options: dict[str, Any]
    label: str
    sees: Literal["itself", "later", "nothing"]
    """Whose token decides about an example: its own, only later ones, or none."""
    look: tuple[str, str]
    """Colour and mark."""
    in_paper: bool = False
    """Whether E.6 says that the analysis extends to it."""


GATES: dict[str, Gate] = {
    "mamba": Gate("mamba", {}, "Mamba, (3)", "itself", ("#0072B2", "circle")),
    "linear": Gate("linear", {}, "linear, no gate", "nothing", ("#D55E00", "circle")),
    "mamba2": Gate("mamba2", {}, "Mamba-2, (189)", "later", ("#56B4E9", "square"), True),
    "retnet": Gate("retnet", {}, "RetNet, (192)", "nothing", ("#E69F00", "diamond"), True),
    "retnet-fixed": Gate(
        "retnet", {"trained": False}, "RetNet, γ = 0.9 fixed", "nothing", ("#B8860B", "triangle-down"), True
    ),
    "gated-retention": Gate("gated-retention", {}, "gated retention, (195)", "later", ("#CC79A7", "triangle-up"), True),
    "gla-rows": Gate("gla", {"reading": "rows"}, "GLA, (196)", "later", ("#7B3294", "cross"), True),
    "gla-keys": Gate("gla", {"reading": "keys"}, "GLA, (198)", "itself", ("#009E73", "diamond"), True),
    "mamba2-scaled": Gate("mamba2", {"scaled_input": True}, "Mamba-2, input × Δ", "itself", ("#56B4E9", "triangle-up")),
    "mamba3": Gate("mamba3", {}, "Mamba-3", "itself", ("#E69F00", "square")),
    "mlstm": Gate("mlstm", {}, "mLSTM", "itself", ("#8C564B", "triangle-down")),
    "deltanet": Gate("deltanet", {}, "gated DeltaNet", "itself", ("#7F7F7F", "diamond")),
    "delta-rule": Gate("deltanet", {"forgets": False}, "delta rule", "itself", ("#333333", "cross")),
}


def _known(names: tuple[str, ...]) -> tuple[str, ...]:
    if unknown := [name for name in names if name not in GATES]:
        raise ValueError(f"gates = {unknown[0]}: must be one of {', '.join(GATES)}")
    return names


TUNING_GROUP = 125
"""Step sizes are chosen on seeds 1000 to 1007, which no verdict uses."""


class GateSettings(MambaPaper):
    """Settings of M-gates."""

    train_outlier_fraction: Annotated[Fraction, Disclosed("p_a, M §4.1")] = 0.6
    gates: Annotated[
        tuple[str, ...],
        Field(min_length=1),
        Different,
        AfterValidator(_known),
        Disclosed("M E.6: Mamba-2, RetNet, gated retention, GLA; the others are iclab's", grid=True),
    ] = tuple(name for name in GATES if name != "delta-rule")
    temperature: Annotated[
        float,
        Field(gt=0),
        Chosen(
            "τ of gated retention and GLA. E.6 says τ ∈ R, the papers it cites take 16. By the rule for step sizes, "
            "1 has the least loss: GLA (198) 0.0001, and above 0.04 at 16; gated retention 0.078, and 0.079 at 16",
            others=(4.0, 16.0),
        ),
    ] = 1.0
    step_size_grid: Annotated[
        tuple[Annotated[float, Field(gt=0)], ...],
        Field(min_length=1),
        Different,
        Chosen(
            "the step sizes that the rule chooses from: at most 1, as in the paper, at ratios of about 3", grid=True
        ),
    ] = (0.01, 0.03, 0.1, 0.3, 1.0)
    step_sizes: Annotated[
        dict[str, float],
        Chosen(
            "the paper says only η ≤ 1. One rule for all gates: of the grid, the one with the least hinge loss on "
            "2,000 fresh prompts like those of the training, after T steps, mean of seeds 1000 to 1007, which no "
            "verdict uses; none with a diverged seed. The full edition repeats the choice: M-gates.tuned"
        ),
    ] = {
        **{"mamba": 1.0, "linear": 0.03, "mamba2": 0.03, "retnet": 0.03, "retnet-fixed": 0.03},
        **{"gated-retention": 0.03, "gla-rows": 0.03, "gla-keys": 0.3, "mamba2-scaled": 1.0, "mamba3": 1.0},
        **{"mlstm": 0.3, "deltanet": 1.0, "delta-rule": 1.0},
    }
    tuning: Annotated[bool, Chosen("whether to repeat the choice of step sizes", grid=True)] = True
    other_steps: Annotated[
        int, Field(ge=1), Chosen("T of gates that PyTorch trains: GLA (198), mLSTM, delta rules, Mamba-3", grid=True)
    ] = 1000
    outlier_fractions: Annotated[
        tuple[Fraction, ...], Field(min_length=1), Different, Chosen("α, around 1/2 and p_a", grid=True)
    ] = (0.0, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
    places: Annotated[
        int, Field(ge=1), Chosen("distances from the query at which gates are compared: 1 to this", grid=True)
    ] = 5
    watched: Annotated[int, Field(ge=2), Chosen("kept steps per training, at equal ratios", grid=True)] = 16
    test_prompts: Annotated[int, Field(ge=1), Chosen("per seed and condition", grid=True)] = 4_000

    instead = {"recipes": "step_sizes"}

    def quick(self) -> Self:
        """Return the quick edition: fewer fractions and prompts, shorter trainings in PyTorch, no tuning."""
        less = {"other_steps": min(self.other_steps, 300), "test_prompts": min(self.test_prompts, 1_000)}
        coarse = tuple(f for f in self.outlier_fractions if f in (0.0, 0.4, 0.5, 0.6, 0.8)) or self.outlier_fractions
        return super().quick().replace(outlier_fractions=coarse, watched=min(self.watched, 12), tuning=False, **less)

    def gate_model(self, name: str) -> Model:
        """Return the model of a gate; all start at δI."""
        gate = GATES[name]
        options = gate.options | {"init_scale": self.init_scale}
        if gate.model in ("gated-retention", "gla"):
            options |= {"temperature": self.temperature}
        return Model(name=gate.model, options=options)

    def training(self, name: str, step_size: float | None = None, kept: bool = True) -> Training:
        """Return the training of a gate, with a step size of its own or another, and with ``kept`` steps to watch."""
        model, prompts = self.gate_model(name), self.train_prompts(self.train_outlier_fraction)
        fused = architecture(GATES[name].model).gate_form(model.options) is not None
        steps = self.steps if fused else min(self.steps, self.other_steps)
        recipe = self.recipe("mamba").replace(
            steps=steps,
            step_size=self.step_sizes[name] if step_size is None else step_size,
            snapshots=geometric(steps, self.watched) if kept and steps else (),
        )
        return Training(model=model, prompts=prompts, recipe=recipe, engine=self.engine)
