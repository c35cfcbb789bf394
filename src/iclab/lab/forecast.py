"""The forecast of a run: how much of it is done, and how long the rest will take."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from iclab.lab.costs import DEFAULT, PER_CELL, PRIOR
from iclab.lab.events import Advanced, Event, Finished, Kind
from iclab.lab.schedule import Place, Schedule

SURPRISE = 5.0
"""A cell counts for at most this many times its expected cost: the first one of an engine may have to compile it."""
PRIOR_WEIGHT = 1.0
"""How much an expected cost weighs against measured ones, in cells of its kind."""
SPEED_WEIGHT = 0.1
"""How much the expected speed of the machine weighs against the measured one, as a share of the whole run."""


@dataclass
class _Tally:
    """The cells of one kind."""

    expected: float
    """Seconds per prompt before anything is measured."""
    place: Place
    """Where these cells run."""
    cells: int = 0
    cells_done: int = 0
    prompts: int = 0
    done: int = 0
    seconds: float = 0.0
    """What the prompts that are done took."""

    def rate(self, speed: float) -> float:
        """Return the seconds per prompt, where ``speed`` multiplies the expected ones."""
        weight = PRIOR_WEIGHT * self.prompts / self.cells
        return (weight * speed * self.expected + self.seconds) / (weight + self.done) if self.prompts else 0.0


class Forecast:
    """Estimates progress by the cost of cells; listens to a run and corrects the costs as it goes.

    A kind of cell costs what it cost so far in this run. A kind that has not run yet costs what it did in earlier
    runs, times how much slower this run is than they were.
    """

    def __init__(
        self, cells: Iterable[tuple[Kind, int, Place]], rates: Mapping[Kind, float], width: Callable[[Place], int]
    ) -> None:
        """Make a forecast.

        Args:
            cells: the kind, the prompts and the place of each cell.
            rates: those of earlier runs in seconds per prompt.
            width: returns how many cells of a place can run at the same time.
        """
        self.cells = self.cells_done = 0
        self._width = width
        self._share = 0.0
        self._tallies: dict[Kind, _Tally] = {}
        known = {**PRIOR, **rates}
        for kind, prompts, place in cells:
            tally = self._tallies.setdefault(kind, _Tally(known.get(kind, DEFAULT), place))
            tally.cells += 1
            tally.prompts += prompts
            self.cells += 1
        for tally in self._tallies.values():
            tally.expected += PER_CELL * tally.cells / max(tally.prompts, 1)
        self._expected = sum(tally.expected * tally.prompts for tally in self._tallies.values())

    @classmethod
    def of(cls, schedule: Schedule, rates: Mapping[Kind, float]) -> Forecast:
        """Make a forecast of a schedule."""
        return cls(
            [(Kind.of(cell), cell.work, schedule.place_of(cell)) for cell in schedule.plan], rates, schedule.width
        )

    def __call__(self, event: Event) -> None:
        """Count what is done, and learn its cost."""
        if not isinstance(event, (Advanced, Finished)):
            return
        tally = self._tallies[event.kind]
        tally.seconds += min(event.seconds, SURPRISE * tally.rate(self._speed) * event.prompts)
        tally.done += event.prompts
        tally.cells_done += isinstance(event, Finished)
        self.cells_done += isinstance(event, Finished)

    @property
    def _speed(self) -> float:
        """Return how many times longer cells take than expected."""
        seconds = sum(tally.seconds for tally in self._tallies.values())
        expected = sum(tally.expected * tally.done for tally in self._tallies.values())
        weight = SPEED_WEIGHT * self._expected
        return (seconds + weight) / (expected + weight) if expected + weight else 1.0

    def _time(self, prompts: Mapping[Kind, int]) -> float:
        """Return how long it takes to process prompts: what few lanes can run may take longer than all on all lanes."""
        speed = self._speed
        work = dict.fromkeys(Place, 0.0)
        for kind, count in prompts.items():
            work[self._tallies[kind].place] += self._tallies[kind].rate(speed) * count
        return max(sum(work[later] for later in Place if later >= place) / self._width(place) for place in Place)

    @property
    def seconds_left(self) -> float:
        """The time until the end of the run."""
        return self._time({kind: max(tally.prompts - tally.done, 0) for kind, tally in self._tallies.items()})

    @property
    def share(self) -> float:
        """The share of the run's cost that is done, from 0 to 1. It never decreases."""
        if self.cells_done == self.cells:
            self._share = 1.0
        else:
            done = self._time({kind: tally.done for kind, tally in self._tallies.items()})
            self._share = max(self._share, done / max(done + self.seconds_left, 1e-9))
        return self._share

    def rates(self) -> dict[Kind, float]:
        """Return the seconds per prompt measured in this run. Cells that are very small tell nothing about prompts."""
        beside = {kind: PER_CELL * tally.cells_done for kind, tally in self._tallies.items()}
        return {
            kind: (tally.seconds - beside[kind]) / tally.done
            for kind, tally in self._tallies.items()
            if tally.done and tally.seconds > 2 * beside[kind]
        }
