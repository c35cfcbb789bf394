"""Settings and sweeps of T-thm3.3: what moves, what moves with it, and the exponents of T (10)."""

from __future__ import annotations

import math
from typing import Annotated, Any, Self

from pydantic import Field

from iclab.papers.nonlinear.laws import Counts, Sweep, TheoremPaper, Values, some
from iclab.papers.nonlinear.settings import NonlinearPaper
from iclab.study.settings import Chosen, Different

ENOUGH = "five values or more, over a factor of 8"


class Theorem33Settings(TheoremPaper):
    """Settings of T-thm3.3: the values of every sweep."""

    step_values: Annotated[Values, Chosen(f"η: {ENOUGH}", grid=True)] = (0.125, 0.2, 0.35, 0.6, 1.0)
    fraction_values: Annotated[
        tuple[Annotated[float, Field(gt=0, le=1)], ...], Different, Chosen(f"α: {ENOUGH}", grid=True)
    ] = (0.125, 0.25, 0.35, 0.5, 0.7, 1.0)
    norm_values: Annotated[Values, Chosen(f"β at fixed δ: {ENOUGH}", grid=True)] = (1.0, 1.5, 2.0, 3.0, 4.5, 8.0)
    relevant_values: Annotated[
        Counts, Chosen("M1 with m = M1² log M1: a factor of 4, since T grows with its cube", grid=True)
    ] = (4, 5, 6, 8, 12, 16)
    fixed_values: Annotated[Counts, Chosen(f"M1 at m = 200: {ENOUGH}", grid=True)] = (4, 6, 8, 12, 16, 32)
    scale_values: Annotated[Values, Chosen(f"δ: {ENOUGH}", grid=True)] = (0.025, 0.05, 0.075, 0.1, 0.2)
    neuron_values: Annotated[Counts, Chosen(f"m: {ENOUGH}", grid=True)] = (50, 80, 140, 240, 400)
    irrelevant_values: Annotated[Counts, Chosen(f"M2: {ENOUGH}", grid=True)] = (4, 8, 12, 20, 32)
    ring_relevant: Annotated[
        Counts, Chosen("M1 of 'M1 tasks suffice': with four patterns or more, some are two edges apart", grid=True)
    ] = (4, 6, 8, 12)
    test_fractions: Annotated[
        tuple[Annotated[float, Field(gt=0, le=1)], ...], Field(min_length=1), Different, Chosen("α' of (9)", grid=True)
    ] = (0.1, 0.2, 0.4)
    length_fractions: Annotated[
        tuple[Annotated[float, Field(gt=0, le=1)], ...], Different, Chosen("α of l_tr in (9): a factor of 5", grid=True)
    ] = (0.2, 0.35, 0.5, 0.7, 1.0)
    train_lengths: Annotated[Counts, Chosen("l_tr of (9)", grid=True)] = (2, 4, 6, 8, 12, 16, 32)
    counted_prompts: Annotated[int, Field(ge=1), Chosen("per seed, for errors by numbers of examples", grid=True)] = (
        4_000
    )

    def trained_on(self, length: int, fraction: float) -> NonlinearPaper:
        """Return the settings of a training on prompts of l_tr examples; η = 1, since only its end counts."""
        sizes = {"relevant_fraction": fraction, "context_length": length, "step_size": 1.0}
        return self.large("complete", self.relevant, **sizes)

    def quick(self) -> Self:
        """Return the quick edition: five values per exponent, fewer patterns."""
        return (
            super()
            .quick()
            .replace(
                fraction_values=some(self.fraction_values, (0.125, 0.25, 0.35, 0.5, 1.0)),
                norm_values=some(self.norm_values, (1.0, 2.0, 3.0, 4.5, 8.0)),
                relevant_values=some(self.relevant_values, (4, 5, 6, 8, 12)),
                fixed_values=some(self.fixed_values, (4, 6, 8, 16, 32)),
                ring_relevant=some(self.ring_relevant, (6, 8)),
                test_fractions=some(self.test_fractions, (0.2,)),
                train_lengths=some(self.train_lengths, (2, 4, 8, 16, 32)),
                counted_prompts=min(self.counted_prompts, 1_000),
            )
        )


def _field(name: str) -> Any:
    def at(settings: TheoremPaper, graph: str, x: float) -> NonlinearPaper:
        return settings.at(graph, **{name: x})

    return at


def _root_log(x: float) -> float:
    return math.sqrt(math.log(x))


SWEEPS = (
    Sweep("eta", "step size η", _field("step_size"), "step_values", -1.0, "A  step size"),
    Sweep(
        "relevant_fraction",
        "share α of examples that matter",
        _field("relevant_fraction"),
        "fraction_values",
        -2 / 3,
        "B  share α",
    ),
    Sweep("norm", "norm β", _field("pattern_norm"), "norm_values", -2 / 3, "C  norm β", "δ fixed"),
    Sweep(
        "relevant",
        "patterns M1",
        lambda s, graph, x: s.large(graph, int(x)),
        "relevant_values",
        1.0,
        "D  M1, m = M1² log M1",
        "M2 = M1, m = M1² log M1; T / √log M1",
        _root_log,
    ),
    Sweep(
        "relevant-alone",
        "patterns M1",
        lambda s, graph, x: s.at(graph, relevant=int(x), irrelevant=int(x)),
        "fixed_values",
        1.0,
        "E  M1, m = 200",
        "M2 = M1, m = 200; T / √log M1",
        _root_log,
        ours=True,
    ),
    Sweep("scale", "initial scale δ", _field("init_scale"), "scale_values", -2 / 3, "F  δ, not in (10)", ours=True),
    Sweep("neurons", "neurons m", _field("neurons"), "neuron_values", 2 / 3, "G  m, not in (10)", ours=True),
    Sweep(
        "irrelevant",
        "irrelevant patterns M2",
        _field("irrelevant"),
        "irrelevant_values",
        0.0,
        "H  M2, not in (10)",
        ours=True,
    ),
)
"""The powers of (10), then those of the proof that (10) leaves out: δ of (83), m of (82), and M2."""
