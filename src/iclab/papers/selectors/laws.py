"""What S's theorems share: trainings inside their conditions, over λ*, τ, α, M and m."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Self

from pydantic import Field

from iclab.papers.nonlinear.laws import Counts, Sweep, Values, lasting
from iclab.papers.nonlinear.settings import NonlinearPaper
from iclab.papers.selectors.settings import SelectorPaper
from iclab.prompts import Prompts
from iclab.study.settings import Chosen, Different

GRAPH = "ring"
"""S trains on M1 tasks that cover all patterns evenly: one step round the ring."""

REACH = 1.8
"""Trainings take this many times the expected steps."""


class SelectorTheorems(SelectorPaper):
    """The setting that every sweep over S's theorems departs from: inside their conditions, unlike S-fig1."""

    evidence = ""
    relevant: Annotated[int, Chosen("M1: with 4, M = 16 ≥ M1² is met")] = 4
    irrelevant: Annotated[int, Chosen("M2: M1 + M2 ≥ M1²")] = 12
    neurons: Annotated[int, Chosen("m: (35) needs 4 M1² log N, about 700")] = 800
    context_length: Annotated[int, Chosen("l_tr: (5) needs 2 log M / α: 7 here, 18 at α = 0.3")] = 40
    attention_size: Annotated[int, Chosen("m_a = m_b > d_X + d_Y, S §2")] = 61
    batch_size: Annotated[int, Field(ge=1), Chosen("B: M1 log M1 is 6; times hardly depend on it")] = 64
    step_size: Annotated[float, Chosen("η: T of several hundred steps, so that a law can be read from them")] = 1.0
    steps: Annotated[
        int, Field(ge=0), Chosen("the most steps of any training; each takes 1.8 times what it is expected to need")
    ] = 40_000
    watched: Annotated[int, Field(ge=2), Chosen("kept steps per training, at equal ratios", grid=True)] = 24
    test_prompts: Annotated[int, Field(ge=1), Chosen("per seed and kept step", grid=True)] = 1_000
    signals: Annotated[Values, Chosen("λ*, a factor of 4: T grows with its square", grid=True)] = (
        *(0.25, 0.35, 0.45),
        *(0.6, 0.8, 1.0),
    )
    noises: Annotated[
        tuple[Annotated[float, Field(ge=0)], ...],
        Field(min_length=2),
        Different,
        Chosen("τ M1: below 1, where (6) has its pole, and beyond", grid=True),
    ] = (0.0, 0.3, 0.6, 0.9, 2.0, 4.0)
    fractions: Annotated[
        Values,
        Chosen(
            "shares α of examples that matter to the task",
            grid=True,
        ),
    ] = (0.3, 0.4, 0.5, 0.65, 0.8, 1.0)
    totals: Annotated[Counts, Chosen("M = M1 + M2 at M1 = 4: a factor of 8", grid=True)] = (16, 24, 40, 64, 128)
    widths: Annotated[Counts, Chosen("m: a factor of 8", grid=True)] = (200, 350, 600, 1000, 1600)

    def quick(self) -> Self:
        """Return the quick edition: one group of seeds, shorter prompts, smaller batches, fewer values."""
        few: dict[str, Any] = {"batch_size": min(self.batch_size, 32), "watched": min(self.watched, 16)}
        few["context_length"] = min(self.context_length, 20)
        few["fractions"] = tuple(a for a in self.fractions if a >= 0.4) or self.fractions  # 0.3 needs longer prompts
        few["signals"] = tuple(x for x in self.signals if x >= 0.35) or self.signals
        few["noises"] = tuple(x for x in self.noises if x != 2.0) or self.noises
        return super().quick().replace(test_prompts=min(self.test_prompts, 300), **few)

    def at(self, **changes: Any) -> SelectorPaper:
        """Return the settings of one training, with its expected length and room for all patterns."""
        return lasting(self.as_kind(SelectorPaper, **changes), self.steps, REACH)

    def with_total(self, total: float, **changes: Any) -> SelectorPaper:
        """Return the settings of a training with M patterns in all, at the usual M1."""
        return self.at(irrelevant=int(total) - self.relevant, **changes)


class FixedSignal(SelectorPaper):
    """S's prompts with λ = λ* for every token, instead of uniform between λ* and 1."""

    def prompts(self, **changes: Any) -> Prompts:
        """Return prompts of S (3)."""
        return super().prompts(**{"signal": (self.signal, self.signal)} | changes)


def _field(name: str) -> Any:
    def at(settings: SelectorTheorems, graph: str, x: float) -> NonlinearPaper:
        return settings.at(**{name: x})

    return at


def _fixed(settings: SelectorTheorems, graph: str, x: float) -> NonlinearPaper:
    return lasting(settings.as_kind(FixedSignal, signal=x), settings.steps, REACH)


SIGNAL = Sweep("signal", "λ*", _fixed, "signals", -1.0, "A  signal, λ = λ*", "λ = λ* for every token", seen=True)
UNIFORM = replace(
    SIGNAL, name="uniform", at=_field("signal"), title="B  signal, λ ∈ (λ*, 1)", held="λ uniform", ours=True
)
NOISE = Sweep(
    "noise",
    "τ M1",
    lambda s, graph, x: s.at(noise=x / s.relevant),
    "noises",
    0.0,
    "C  noise",
    seen=True,
)
FRACTION = Sweep("fraction", "α", _field("relevant_fraction"), "fractions", -1.0, "D  share α", seen=True)
TOTAL = Sweep(
    "patterns", "M = M1 + M2", lambda s, graph, x: s.with_total(x), "totals", 0.5, "E  M, m = 800", "m = 800", seen=True
)
WIDTH = Sweep("neurons", "neurons m", _field("neurons"), "widths", 0.5, "F  m, M = 16", "M = 16", seen=True, ours=True)
SWEEPS = (SIGNAL, UNIFORM, NOISE, FRACTION, TOTAL, WIDTH)
"""What moves in (6), and m, which its proof has in place of M."""
