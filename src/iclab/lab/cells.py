"""The two kinds of cell. A cell is a unit of work: fully described, computed once, stored under its hash.

Training and measuring are separate cells, so that new tests retrain nothing and figures share trained models.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from iclab import engines, probes
from iclab.config import Code, Config
from iclab.engines import Training
from iclab.models import Architecture
from iclab.probes import Pruning, measuring_obstacle, prompts_obstacle
from iclab.probes.pruning import VERSION as PRUNING_VERSION
from iclab.prompts import Prompts


class TrainingCell(Config):
    """The training of one group of seeds."""

    training: Training
    group: Annotated[int, Field(ge=0, lt=2**32 // Architecture.group_size)] = 0
    """Seeds are trained in fixed groups, such as 8g … 8g + 7, so that no result depends on which seeds you ask for."""
    only: Annotated[tuple[int, ...], Field(exclude_if=lambda seeds: not seeds)] = ()
    """Some seeds of the group, where seeds do not depend on each other (`TrainingCell.covering`); by default all."""

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds of this cell."""
        size = self.training.model.architecture.group_size
        return self.only or tuple(range(self.group * size, (self.group + 1) * size))

    @classmethod
    def groups(cls, training: Training, seeds: int) -> list[TrainingCell]:
        """Return the cells that train seeds 0 … seeds − 1."""
        size = training.model.architecture.group_size
        return [cls(training=training, group=group) for group in range(-(-seeds // size))]

    @classmethod
    def covering(cls, training: Training, seeds: Iterable[int], known: Callable[[TrainingCell], bool]) -> list[Self]:
        """Return the cells that train the given seeds, and no others unless these have to train together.

        Seeds that are stacked train in whole groups: another stack rounds differently. A whole group that is
        ``known``, because a store has it, is also taken whole.
        """
        wanted: dict[int, list[int]] = {}
        for seed in sorted(seeds):
            wanted.setdefault(seed // training.model.architecture.group_size, []).append(seed)
        apart = engines.trains_apart(training)
        cells = []
        for group, mine in wanted.items():
            whole = cls(training=training, group=group)
            take_whole = not apart or len(mine) == len(whole.seeds) or known(whole)
            cells.append(whole if take_whole else cls(training=training, group=group, only=tuple(mine)))
        return cells

    @property
    def versions(self) -> dict[str, int]:
        """What enters the hash besides the description: the versions of the code, and the number of seeds."""
        return {"seeds": len(self.seeds), **engines.versions(self.training)}

    @property
    def hash(self) -> str:
        """The name of this cell in a store."""
        return self.digest(**self.versions)

    @property
    def work(self) -> int:
        """The number of prompts to process."""
        return self.training.recipe.steps * self.training.recipe.batch_size * len(self.seeds)


class MeasurementCell(Config):
    """A probe of one group of seeds, after some step, on test prompts."""

    training: TrainingCell
    probe: str
    prompts: Prompts
    count: Annotated[int, Field(ge=1)] = 10_000
    """Test prompts per seed."""
    at: Annotated[int, Field(ge=0)] | Literal["every"] | None = None
    """The step whose weights are measured; by default the last. ``every`` measures after every kept step."""
    draw: Annotated[int, Field(ge=0, lt=2**32)] = 0
    """Changes the test prompts."""
    pruning: Pruning | None = None
    """Neurons to remove before measuring."""

    @model_validator(mode="after")
    def _known(self) -> MeasurementCell:
        if self.at is None:  # filled in here, so that the hash includes the step
            object.__setattr__(self, "at", self.training.training.recipe.steps)
        if obstacle := measuring_obstacle(self.training.training, self.probe, self.pruning, self.count):
            raise ValueError(obstacle)
        kept = self.training.training.recipe.kept
        if self.at != "every" and self.at not in kept:
            raise ValueError(f"at = {self.at}: weights are kept after steps {', '.join(map(str, kept))}")
        if obstacle := prompts_obstacle(self.training.training, self.probe, self.prompts):
            raise ValueError(obstacle)
        if obstacle := self.training.training.model.length_obstacle(self.prompts.context_length):
            raise ValueError(obstacle)
        return self

    @property
    def versions(self) -> dict[str, int]:
        """What enters the hash besides the description: the versions of the code, and the number of seeds."""
        training, pruning = self.training.training, {"pruning": PRUNING_VERSION} if self.pruning else {}
        versions = engines.versions(training) | probes.versions(training, self.probe, self.prompts) | pruning
        return {"seeds": len(self.training.seeds), **versions}

    @property
    def hash(self) -> str:
        """The name of this cell in a store."""
        return self.digest(**self.versions)

    @property
    def work(self) -> int:
        """The number of prompts to process."""
        times = len(self.training.training.recipe.kept) if self.at == "every" else 1
        return self.count * len(self.training.seeds) * times


Cell = TrainingCell | MeasurementCell
Described = tuple[bool, str]
"""A cell as it travels to another process: whether it is a training, and its description in JSON."""


def describe(cell: Cell) -> Described:
    """Return a cell as it travels."""
    return isinstance(cell, TrainingCell), cell.model_dump_json()


def read_cell(described: Described) -> Cell:
    """Return the cell that has travelled."""
    trains, text = described
    return TrainingCell.model_validate_json(text) if trains else MeasurementCell.model_validate_json(text)


def users_code(value: object) -> list[Code]:
    """Return the user's functions and classes in a description."""
    if isinstance(value, Code):
        return [value]
    if isinstance(value, Config):
        return [code for name in type(value).model_fields for code in users_code(getattr(value, name))]
    if isinstance(value, (tuple, dict)):
        items = value.values() if isinstance(value, dict) else value
        return [code for item in items for code in users_code(item)]
    return []


def unshippable(value: object) -> list[Code]:
    """Return those of `users_code` that another process could not import."""
    return [code for code in users_code(value) if not code.importable]
