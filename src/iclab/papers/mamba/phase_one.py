"""Phase 1 of the gate, shared by M-velocity and M-lem4: short trainings from w = 0 over p_a, κ_a, V, M1 and β."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from iclab.papers.mamba.lemmas import Counts, Fraction, LemmaSettings, Values, gate_entry, scaled
from iclab.probes import Row
from iclab.study.charts import Series, reference
from iclab.study.claims import BySeed
from iclab.study.experiment import Condition, in_groups
from iclab.study.settings import Chosen

Sweep = Literal["fraction", "scale", "kinds", "relevant", "norm"]
FIELDS: dict[Sweep, str] = {
    "fraction": "outlier_fraction",
    "scale": "outlier_scale",
    "kinds": "outlier",
    "relevant": "relevant",
    "norm": "pattern_norm",
}
"""The setting that each sweep varies."""
SYMBOLS: dict[Sweep, str] = {"fraction": "p_a", "scale": "κ_a", "kinds": "V", "relevant": "M1", "norm": "β"}

OUTLIER = Series("along outliers, −wᵀv̂", "#D55E00", line=False)
CLEAN = Series("along relevant patterns, −wᵀe", "#0072B2", line=False)
MEAN_FIELD = reference("mean field (B), no free constant", dash=(), colour="#222222")


class PhaseOneSettings(LemmaSettings):
    """Short trainings with the gate at 1/2."""

    context_length: Annotated[
        int, Field(ge=1), Chosen("l: the gate halves with every example, so that 20 are as good as infinitely many")
    ] = 20
    step_size: Annotated[float, Chosen("η: with 16 steps logits move by less than 0.1 in every setting")] = 0.01
    batch_size: Annotated[int, Field(ge=1), Chosen("B: noise of about 2 % per seed")] = 1024
    steps: Annotated[int, Field(ge=1), Chosen("η t = 0.16; t_1 of Lemma 4 is η t = 0.24 at the base setting")] = 16
    fractions: Annotated[tuple[Fraction, ...], Field(min_length=1), Chosen("p_a: a factor of 18", grid=True)] = (
        *(0.05, 0.1, 0.2, 0.3),
        *(0.5, 0.7, 0.9),
    )
    scales: Annotated[Values, Chosen("κ_a: a factor of 16", grid=True)] = (0.5, 1.0, 2.0, 4.0, 8.0)
    kinds: Annotated[Counts, Chosen("V: a factor of 16", grid=True)] = (1, 2, 4, 8, 16)
    relevants: Annotated[Counts, Chosen("M1: a factor of 8", grid=True)] = (4, 6, 8, 16, 32)
    norms: Annotated[Values, Chosen("β at fixed δ and κ_a‖v*‖: a factor of 8", grid=True)] = (0.75, 1.5, 3.0, 4.5, 6.0)

    def sweep(self, name: Sweep) -> dict[float, PhaseOneSettings]:
        """Return the settings of one sweep by the value that it varies."""
        grids: dict[Sweep, tuple[float, ...]] = {
            "fraction": self.fractions,
            "scale": self.scales,
            "kinds": self.kinds,
            "relevant": self.relevants,
            "norm": self.norms,
        }
        return {value: self.replace(**{FIELDS[name]: value}) for value in grids[name]}


def sweep_conditions(settings: PhaseOneSettings, name: Sweep) -> list[Condition]:
    """Return one training per value, its weights read at the end."""
    found = []
    for value, own in settings.sweep(name).items():
        training = own.training(settings.steps)
        where = {"sweep": name, "value": value}
        found += in_groups(settings, where, training, probe="growth", prompts=training.prompts, count=1)
    return found


def fallen(rows: list[Row], kind: str, name: str, value: float | None, **more: Any) -> BySeed:
    """Return −wᵀv̂ (``outlier``) or −wᵀe (``relevant``), positive if the gate closes."""
    return scaled(gate_entry(rows, kind, sweep=name, value=value, **more), -1.0)
