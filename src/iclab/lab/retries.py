"""Cells whose worker died: they are tried again, and given up after the third death.

Every executor that runs cells in other processes keeps one `Retries` per run. An error that a cell raises itself is not
tried again, because it would be raised again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from iclab.config import InputError
from iclab.lab.cells import Cell, MeasurementCell
from iclab.lab.events import Listener, Notice
from iclab.lab.schedule import Job, Schedule

TRIES = 3
"""How often a cell is tried before it is given up."""


@dataclass(frozen=True)
class Failure:
    """A cell that was given up."""

    cell: Cell
    reason: str

    def __str__(self) -> str:
        """Return the cell's name, why it was given up, and its description."""
        return f"{named(self.cell)}: {self.reason}; its description is {self.cell.model_dump_json()}"


class CellsFailedError(InputError):
    """Some cells were given up; all others are in the store."""

    exit_code = 1

    def __init__(self, failures: Iterable[Failure], skipped: int) -> None:
        self.failures = list(failures)
        many = f"{len(self.failures)} cell" + ("s" if len(self.failures) != 1 else "")
        waiting = f", and {skipped} that need their weights," if skipped else ""
        names = ", ".join(named(failure.cell) for failure in self.failures[:3])
        more = ", …" if len(self.failures) > 3 else ""
        kept = "all others are kept, run the same command again to try these again"
        super().__init__(f"{many}{waiting} could not be computed ({names}{more}); {kept}")


class Retries:
    """Counts, per cell, the workers that died while they computed it."""

    def __init__(self) -> None:
        self._deaths: dict[str, int] = {}
        self.failures: list[Failure] = []
        self.skipped = 0
        """How many measurements were not tried because their training was given up."""

    def died(self, cell: Cell, how: str) -> bool:
        """Count a death; return whether to try the cell again. ``how`` says what killed the worker."""
        deaths = self._deaths[cell.hash] = self.deaths(cell) + 1
        if deaths < TRIES:
            return True
        self.give_up(cell, f"its worker died {deaths} times, the last time it {how}")
        return False

    def put_back(self, schedule: Schedule, job: Job, left: tuple[Cell, ...], how: str, started: bool = True) -> str:
        """Put back what is left of a job whose worker died; return the words that say so.

        The first cell of it is the one that the worker died of, if it had ``started`` to work.
        """
        suspect = left[0] if left and started else None
        gone = suspect is not None and not self.died(suspect, how)
        self.return_rest(schedule, job, left, None if gone else suspect)
        what = f" while it computed {named(suspect)}" if suspect else ""
        then = "it has had its tries" if gone else "it is tried again" if suspect else "another one is started"
        return f"{how}{what}; {then}"

    def return_rest(self, schedule: Schedule, job: Job, left: tuple[Cell, ...], suspect: Cell | None) -> None:
        """Put the cells back that are left of a job, the suspect apart; those that were given up stay away."""
        lost = {failure.cell.hash for failure in self.failures}
        able = [cell for cell in left if not (isinstance(cell, MeasurementCell) and cell.training.hash in lost)]
        self.skipped += len(left) - len(able)
        rest = tuple(cell for cell in able if cell is not suspect and cell.hash not in lost)
        if job.trains and left and not suspect and not rest:
            self.skipped += len(schedule.give_up(job))
        elif suspect or rest:
            schedule.again(job, suspect, rest)
        else:
            schedule.done(job)

    def over_time(self, schedule: Schedule, job: Job, left: tuple[Cell, ...], limit: float) -> str:
        """Give the first cell up that is left of a job, and put the rest back; return the words that say so."""
        late = f"took longer than {limit:g} s (cell_timeout)"
        if left:
            self.give_up(left[0], f"it {late}")
        self.return_rest(schedule, job, left, None)
        return f"{named(left[0])} {late}; it is given up" if left else late

    def deaths(self, cell: Cell) -> int:
        """Return how many workers died of a cell."""
        return self._deaths.get(cell.hash, 0)

    def give_up(self, cell: Cell, reason: str) -> None:
        """Report a cell at the end of the run instead of trying it again."""
        self.failures.append(Failure(cell, reason))

    def settle(self, listen: Listener) -> None:
        """Say which cells were given up, each with its description, and raise `CellsFailedError` if there are any."""
        for failure in self.failures:
            listen(Notice(f"given up: {failure}"))
        if self.failures:
            raise CellsFailedError(self.failures, self.skipped)


def named(cell: Cell) -> str:
    """Return what a cell is, in few words, and its name in the store."""
    group = cell.training if isinstance(cell, MeasurementCell) else cell
    work = f"{cell.probe} of" if isinstance(cell, MeasurementCell) else "training of"
    kind = "measurement" if isinstance(cell, MeasurementCell) else "training"
    seeds = f"seeds {group.seeds[0]} to {group.seeds[-1]}" if len(group.seeds) > 1 else f"seed {group.seeds[0]}"
    return f"{work} {group.training.model.label}, {seeds} ({kind}/{cell.hash})"
