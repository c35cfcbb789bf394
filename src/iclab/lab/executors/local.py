"""The local executor: this process and its threads for the fused engine, worker processes for the other engines."""

from __future__ import annotations

from collections.abc import Sequence

from iclab.config import InputError
from iclab.engines import ENGINES
from iclab.lab.cells import TrainingCell, unshippable
from iclab.lab.events import Listener, Notice
from iclab.lab.executors.jobs import measure_cell, train_cell
from iclab.lab.executors.processes import first_jobs, most_jobs, run_in_processes
from iclab.lab.plan import Plan, Stage
from iclab.lab.store import Store


class LocalExecutor:
    """Computes cells on this machine.

    The fused engine runs in this process on ``workers`` threads, one cell at a time. The other engines run in
    ``workers`` processes with one thread each. With one worker, everything runs in this process; so do users' models
    and rules that other processes cannot import, and work that is only one job.
    """

    def __init__(self, workers: int = 2) -> None:
        if not isinstance(workers, int) or isinstance(workers, bool) or workers < 1:
            raise InputError(f"workers = {workers!r}: must be at least 1")
        self.workers = workers

    def stages(self, plan: Plan) -> list[Stage]:
        """Divide the plan: first this process, then the worker processes."""
        stuck = self._stuck(plan)
        here, elsewhere = plan.split(
            lambda cell: self.workers == 1 or ENGINES[cell.training.engine].separate_seeds or cell.hash in stuck
        )
        if most_jobs(elsewhere) == 1:  # a worker process would take longer to start
            here, elsewhere = plan, Plan()
        return [Stage(here), Stage(elsewhere, min(self.workers, first_jobs(elsewhere)))]

    def _stuck(self, plan: Plan) -> dict[str, str]:
        """Return the hashes of trainings that worker processes could run but cannot import, and what that is."""
        found = {}
        for cell in plan if self.workers > 1 else ():
            training = cell if isinstance(cell, TrainingCell) else cell.training
            if not ENGINES[training.training.engine].separate_seeds and (code := unshippable(cell)):
                found[training.hash] = code[0].path
        return found

    def execute(self, stages: Sequence[Stage], store: Store, listen: Listener) -> None:
        """Compute every cell of the stages."""
        here, elsewhere = stages
        for path in dict.fromkeys(self._stuck(here.plan).values()):
            why = "because others cannot import it; in a module, it would run on all cores"
            listen(Notice(f"{path}: runs in this process, {why}"))
        _run_here(here.plan, store, listen, self.workers)
        if elsewhere.plan:
            run_in_processes(elsewhere.plan, store, listen, min(self.workers, len(elsewhere.plan)))


def _run_here(plan: Plan, store: Store, listen: Listener, threads: int) -> None:
    """Compute cells in this process. The engine has ``threads``; linear algebra, on small matrices, has one.

    Its own threads would wait by spinning on the cores that the engine's need.
    """
    from threadpoolctl import threadpool_limits  # imported late: few commands compute

    with threadpool_limits(1):
        _compute(plan, store, listen, threads)


def _compute(plan: Plan, store: Store, listen: Listener, threads: int) -> None:
    for hash_, cells in plan.measurements.items():
        if hash_ in plan.trainings:
            trained = train_cell(plan.trainings[hash_], store, listen, threads)
        else:
            trained = store.load_training(cells[0].training)
        for cell in cells:
            measure_cell(cell, trained, store, listen, threads)
