"""sensitivity: do the claims depend on settings that no paper states?

Each experiment runs again with one chosen setting changed (`Chosen.others`) and all others kept, and its claims are
judged from the new rows. This file contains nothing specific to those experiments: a setting lists which ones to run.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Annotated, Any

from pydantic import Field, model_validator

from iclab.catalog import find
from iclab.probes import Interval, Row
from iclab.study.charts import VERDICTS, Axis, Figure, Panel, shaded
from iclab.study.claims import DECIDED, Claim, Point, every_below, judged
from iclab.study.edition import Edition
from iclab.study.experiment import Condition, Experiment
from iclab.study.settings import Chosen, Different, Settings, short

SIGNS = {"fails": "×", "undecided": "·", "in direction": "↗"}
"""Signs in cells, for readers who cannot see the colours."""
CELLS = {verdict: replace(shaded(verdict, colour), shade=1.0) for verdict, colour in VERDICTS.items()}

AS_CHOSEN = "as chosen"


@dataclass(frozen=True)
class Variant:
    """An experiment with one setting changed, or with none changed (as chosen)."""

    part: str
    edition: Edition
    changed: str = AS_CHOSEN
    to: str = ""

    @property
    def columns(self) -> dict[str, str]:
        """The columns that identify its rows."""
        return {"experiment": self.part, "changed": self.changed, "to": self.to}

    @property
    def name(self) -> str:
        """The name on an axis."""
        return self.changed if self.changed == AS_CHOSEN else f"{self.changed} = {self.to}"

    @property
    def conditions(self) -> list[Condition]:
        """Every measurement of the variant."""
        return self.edition.conditions

    def models(self) -> tuple[str, ...]:
        """Return the models it trains."""
        return tuple(sorted({condition.cell.training.training.model.label for condition in self.conditions}))

    def complete(self, rows: list[Row]) -> bool:
        """Return whether the rows contain every seed of every condition."""
        wanted = {tuple(condition.columns.items()) for condition in self.conditions}
        there = set()
        for names in {tuple(name for name, _ in columns) for columns in wanted}:
            there |= {(*((name, row.get(name)) for name in names), row["seed"]) for row in rows}
        return all((*columns, seed) in there for columns in wanted for seed in range(self.edition.settings.seeds))

    def verdicts(self, rows: list[Row]) -> dict[str, str]:
        """Judge the experiment's claims from its rows; return verdicts by claim id."""
        claims = self.edition.experiment.claims(self.edition.settings)
        return {claim.id: claim.judgement(rows).verdict for claim in claims}


class SensitivitySettings(Settings):
    """Settings of sensitivity: which experiments to run again."""

    of: Annotated[
        tuple[str, ...],
        Field(min_length=1),
        Different,
        Chosen("the main experiments of each paper; a name after a colon keeps only that model", grid=True),
    ] = ("M-fig2", "M-tab1", "T-fig2", "T-fig3:softmax-mlp", "T-fig3:gpt2", "T-fig5", "T-fig7", "S-fig1")
    less: Annotated[
        dict[str, dict[str, Any]],
        Chosen(
            "changes to the quick edition: no reference measurements, no extra models; GPT-2 trains in full",
            grid=True,
        ),
    ] = {
        "M-fig2": {"baselines": False},
        "M-tab1": {"models": ("deep-mamba", "deep-linear")},
        "T-fig3:softmax-mlp": {"more_tasks": ()},
        "T-fig3:gpt2": {"gpt2_steps": 1_600},
    }
    seeds: Annotated[int, Field(ge=1), Chosen("one group is enough to compare verdicts", grid=True)] = 8
    test_prompts: Annotated[int, Field(ge=1), Chosen("per seed and condition", grid=True)] = 2_000

    def quick(self) -> SensitivitySettings:
        """Return the quick edition: one experiment each for the two larger papers, fewer prompts."""
        fewer = tuple(part for part in self.of if part in ("M-fig2", "T-fig3:softmax-mlp")) or self.of
        return self.replace(of=fewer, seeds=min(self.seeds, 8), test_prompts=min(self.test_prompts, 1_000))

    @model_validator(mode="after")
    def _known(self) -> SensitivitySettings:
        for part in self.of:
            find(part.partition(":")[0])
        if strange := set(self.less) - {*self.of, *type(self).model_fields["less"].default}:
            raise ValueError(f"less = {', '.join(sorted(strange))}: must be one of {', '.join(self.of)}")
        return self

    @cached_property
    def as_chosen(self) -> dict[str, Variant]:
        """Each experiment with the settings that iclab chose."""
        return {part: self._as_chosen(part) for part in self.of}

    @cached_property
    def variants(self) -> dict[str, list[Variant]]:
        """Each experiment as chosen, then with each setting that no paper states changed in turn."""
        return {part: [first, *_changed(first)] for part, first in self.as_chosen.items()}

    def _as_chosen(self, part: str) -> Variant:
        id_, _, model = part.partition(":")
        experiment = find(id_)
        settings = experiment.settings().quick()
        settings = settings.replace(**({"models": (model,)} if model else {}), **self.less.get(part, {}))
        settings = settings.replace(seeds=self.seeds, test_prompts=self.test_prompts, engine=self.engine)
        return Variant(part, Edition(experiment, settings))


def _changed(usual: Variant) -> Iterator[Variant]:
    """Change one setting at a time; skip changes without effect, such as settings of a model that is not run."""
    experiment, settings = usual.edition.experiment, usual.edition.settings
    for name, mark in experiment.settings.provenance().items():
        if isinstance(mark, Chosen) and name not in settings.instead:
            for other in mark.others:
                edition = Edition(experiment, settings.replace(**{name: other}))
                if edition.cells != usual.edition.cells:
                    yield Variant(usual.part, edition, name, _difference(other, getattr(settings, name)))


class Sensitivity(Experiment[SensitivitySettings]):
    """Verdicts for other values of the chosen settings."""

    id = "sensitivity"
    title = "How much the claims depend on settings that the papers do not state"
    paper = (
        "No paper asks this. Each paper leaves settings unstated (step size, batch, iterations, widths, norms, "
        "scales), so a reader cannot know whether its claims need the authors' values."
    )
    reading = (
        "Each row is a claim. Each column changes one setting to another value and keeps all others as iclab chose "
        "them; the first column changes nothing. The colour is the verdict, with a cross if the claim fails, an arrow "
        "if it holds in direction but not in size, and a dot if it is undecided. A row of one colour depends on none "
        "of these settings. Experiments run as in the quick edition, but GPT-2 trains in full. Claims that this "
        "edition cannot judge have no row, and settings without effect have no column."
    )
    caption = "number of claims by verdict; 'differs' lists verdicts that differ from those as chosen"
    settings = SensitivitySettings

    def conditions(self, settings: SensitivitySettings) -> list[Condition]:
        """Return every cell of every variant."""
        return [
            replace(condition, columns={**condition.columns, **variant.columns})
            for variants in settings.variants.values()
            for variant in variants
            for condition in variant.conditions
        ]

    def claims(self, settings: SensitivitySettings) -> list[Claim]:
        """Claim for each experiment that its verdicts stay the same."""
        return [
            Claim(
                f"sensitivity.{part}",
                f"the claims of {part} do not depend on settings that the paper does not state",
                "no other value of one such setting turns a claim from one verdict (holds, in direction, fails) to "
                "another; the number is how many claims turn, and the upper end of the interval adds claims that "
                "become undecided",
                judged(partial(_turned, settings=settings, part=part), every_below, 0.5),
                models=variant.models,  # not called yet: that builds all conditions
                ours=True,
                counts=True,
            )
            for part, variant in settings.as_chosen.items()  # variants are built only when there are rows to judge
        ]

    def table(self, rows: list[Row], settings: SensitivitySettings) -> list[dict[str, Any]]:
        """Return one line per variant."""
        lines = []
        for part, variants in settings.variants.items():
            verdicts = _verdicts(rows, variants)
            for variant, found in zip(variants, verdicts, strict=True):
                counts = Counter(found.values())
                other = [f"{claim.partition('.')[2]} {v}" for claim, v in found.items() if v != verdicts[0][claim]]
                line = {"experiment": part, "setting": variant.changed, "value": variant.to}
                lines.append(line | {v: counts[v] for v in VERDICTS} | {"differs": ", ".join(other) or "–"})
        return lines

    def chart(self, rows: list[Row], settings: SensitivitySettings) -> Figure:
        """Draw one heat map per experiment: one row per claim, one column per changed setting."""
        panels = []
        for part, variants in settings.variants.items():
            verdicts = _verdicts(rows, variants)
            claims = [claim.partition(".")[2] for claim in verdicts[0]]
            panel = Panel(
                f"{part}  {variants[0].edition.experiment.title}",
                x=Axis(names=[variant.name for variant in variants]),
                y=Axis(names=claims),
                height=17 * len(claims),
            )
            for variant, found in zip(variants, verdicts, strict=True):
                for claim, verdict in zip(claims, found.values(), strict=True):
                    panel.cell(CELLS[verdict], variant.name, claim, SIGNS.get(verdict, ""))
            panels.append(panel)
        widest = max(map(len, settings.variants.values()))
        return Figure(panels, columns=1, width=17 * widest, least=17 * widest, more=list(CELLS.values()))


def _by_variant(rows: list[Row], variants: list[Variant]) -> list[list[Row]]:
    """Return the rows of each variant."""
    found: dict[tuple[str, ...], list[Row]] = defaultdict(list)
    for row in rows:
        found[row["experiment"], row["changed"], row["to"]].append(row)
    return [found[tuple(variant.columns.values())] for variant in variants]


def _verdicts(rows: list[Row], variants: list[Variant]) -> list[dict[str, str]]:
    """Return the verdicts of each variant by claim, without claims that no variant can judge."""
    found = [variant.verdicts(mine) for variant, mine in zip(variants, _by_variant(rows, variants), strict=True)]
    asked = [claim for claim in found[0] if any(verdicts[claim] != "not run" for verdicts in found)] or list(found[0])
    return [{claim: verdicts[claim] for claim in asked} for verdicts in found]


def _turned(rows: list[Row], settings: SensitivitySettings, part: str) -> list[Point] | None:
    """Count the claims that turn from one verdict to another, one point per variant; None if rows are missing.

    A claim that becomes undecided, for example because seeds diverge, may have turned: the interval includes it.
    """
    if not rows:
        return None
    variants = settings.variants[part]
    mine = _by_variant(rows, variants)
    if not all(variant.complete(own) for variant, own in zip(variants, mine, strict=True)):
        return None
    usual, *others = _verdicts(rows, variants)
    decided = [claim for claim, verdict in usual.items() if verdict in DECIDED]
    points = []
    for variant, now in zip(variants[1:], others, strict=True):
        turned = sum(now[claim] in DECIDED and now[claim] != usual[claim] for claim in decided)
        unsure = sum(now[claim] not in DECIDED for claim in decided)
        points.append(Point(float(turned), Interval(turned, turned + unsure), variant.name))
    return points if decided else None


def _difference(value: Any, usual: Any) -> str:
    """Return a value as text; for a dictionary, only the entries that differ."""
    if isinstance(value, dict):
        return ", ".join(f"{key} {short(inner)}" for key, inner in value.items() if inner != usual.get(key))
    return short(value)
