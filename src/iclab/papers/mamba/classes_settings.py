"""Settings of M-classes: those of M-fig2, with several levels."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field

from iclab.engines import Training
from iclab.models import Model
from iclab.papers.mamba.settings import MambaPaper
from iclab.prompts import Prompts
from iclab.study.settings import Chosen, Different, Disclosed

Fraction = Annotated[float, Field(ge=0, lt=1)]
Level = Annotated[int, Field(ge=1, le=8)]
Outlying = Literal["block", "token"]
BLOCK: Outlying = "block"
TOKEN: Outlying = "token"
BINARY = "binary"


class ClassesSettings(MambaPaper):
    """Settings of M-classes."""

    train_outlier_fraction: Annotated[Fraction, Disclosed("p_a, M §4.1")] = 0.6
    levels: Annotated[
        tuple[Level, ...],
        Field(min_length=1),
        Different,
        Disclosed("H of M E.7, 2^H classes; it names no number", grid=True),
    ] = (1, 2, 3)
    whole: Annotated[
        tuple[Annotated[int, Field(ge=2, le=8)], ...],
        Different,
        Chosen("H of the model whose heads see whole tokens, which PyTorch trains", grid=True),
    ] = (2, 3)
    outliers_by: Annotated[
        tuple[Outlying, ...],
        Field(min_length=1),
        Different,
        Chosen(
            "E.7 does not say whether blocks of an example draw outliers apart, or are corrupted together", grid=True
        ),
    ] = (BLOCK, TOKEN)
    outlier_fractions: Annotated[
        tuple[Fraction, ...], Field(min_length=1), Different, Chosen("α of the curves", grid=True)
    ] = (0.0, 0.2, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
    whole_steps: Annotated[
        int, Field(ge=1), Chosen("T of the model whose heads see whole tokens, which PyTorch trains", grid=True)
    ] = 1000
    test_prompts: Annotated[int, Field(ge=1), Chosen("per seed and condition", grid=True)] = 10_000
    whole_prompts: Annotated[
        int, Field(ge=1), Chosen("at most so many of them for that model, which PyTorch answers", grid=True)
    ] = 1_000

    def quick(self) -> Self:
        """Return the quick edition: one group of seeds, fewer fractions, whole tokens with two levels only."""
        coarse = (
            tuple(f for f in self.outlier_fractions if f in (0.0, 0.2, 0.4, 0.6, 0.7, 0.8)) or self.outlier_fractions
        )
        less = {"whole": self.whole[:1], "whole_steps": min(self.whole_steps, 300)}
        return super().quick().replace(outlier_fractions=coarse, **less)

    def training(self, sees: str, levels: int, by: str) -> Training:
        """Return the training of the binary model, or of one whose heads see a block or a whole token."""
        prompts = self.with_levels(self.train_prompts(self.train_outlier_fraction), levels, by)
        recipe = self.recipe("mamba")
        if sees == BINARY:
            return Training(model=self.model("mamba"), prompts=prompts, recipe=recipe, engine=self.engine)
        model = Model(name="mamba-levels", options={"init_scale": self.init_scale, "sees": sees})
        if sees == TOKEN:
            recipe = recipe.replace(steps=min(self.steps, self.whole_steps))
        return Training(model=model, prompts=prompts, recipe=recipe, engine=self.engine)

    def with_levels(self, prompts: Prompts, levels: int, by: str) -> Prompts:
        """Return prompts of several levels, with outliers by block or by token."""
        together = prompts.outliers.replace(together=levels > 1 and by == TOKEN)
        return prompts.replace(levels=levels, outliers=together)

    def tested(self, fraction: float, levels: int, by: str) -> Prompts:
        """Return test prompts with flipped labels."""
        return self.with_levels(self.test_prompts_with(labels="flip", **self.amount(fraction)), levels, by)

    def kinds(self) -> list[tuple[str, int, str]]:
        """Return what is trained: what heads see, H, and how outliers are drawn, which one level need not say."""
        found = [(BINARY, 1, BLOCK)]
        for by in self.outliers_by:
            found += [(BLOCK, h, by) for h in self.levels if h > 1 or by == self.outliers_by[0]]
            found += [(TOKEN, h, by) for h in self.whole]
        return [(sees, h, BLOCK if h == 1 else by) for sees, h, by in found]
