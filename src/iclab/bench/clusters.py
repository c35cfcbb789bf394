"""How long a run takes on a larger cluster, from what cells cost (docs/cluster.md).

The simulation runs the real schedule, longest first, with measurements that wait for their training. Cells take what
they are expected to; the driver, which sends, receives and stores, takes ``per_cell`` seconds for each, one by one.

    python -m iclab.bench.clusters [STORE]     # the full edition, with the costs that a store has measured
"""

from __future__ import annotations

import heapq
import sys
from pathlib import Path

from iclab.bench.page import Table, markdown
from iclab.lab import Plan, Store, costs
from iclab.lab.schedule import Job, Place, Schedule

NODES = (1, 2, 4, 8, 16, 32, 64)
CORES = 32
"""Per node."""


def simulated(schedule: Schedule, per_cell: float) -> float:
    """Return the seconds of a run on as many cores as the schedule has lanes."""
    now = busy = 0.0  # `busy`: when the driver has time for the next cell
    running: list[tuple[float, int, Job]] = []
    made = 0
    while not schedule.finished:
        while len(running) < schedule.lanes and (job := schedule.take(Place.PROCESS)):
            heapq.heappush(running, (now + job.cost, made, job))
            made += 1
        now, _, job = heapq.heappop(running)
        busy = max(busy, now) + per_cell * len(job.cells)
        now = max(now, busy)
        schedule.done(job)
    return now


def full_edition(store: Path, per_cell: float) -> Table:
    """Return the table of a full reproduction on 1 to 64 nodes."""
    from iclab import catalog
    from iclab.study.edition import Edition

    editions = [Edition(found, found.settings()) for found in catalog.experiments().values()]
    plan = Plan.of([cell for edition in editions for cell in edition.cells], Store(store / "nothing-here"))
    cost = costs.expected(costs.load(store))
    total = sum(map(cost, plan))
    lines = []
    for nodes in NODES:
        schedule = Schedule(plan, cost, lambda cell: Place.PROCESS, nodes * CORES)
        schedule.processes = schedule.lanes - 1
        seconds = simulated(schedule, per_cell)
        share = total / (seconds * schedule.lanes)
        hours = nodes * seconds / 3600
        lines.append((f"{nodes}", f"{schedule.lanes:,}", f"{seconds / 60:.1f}", f"{100 * share:.0f} %", f"{hours:.2f}"))
    longest = max(cost(cell) for cell in plan)
    note = f"{len(plan):,} cells, {total / 3600:.1f} hours on one core; the longest cell takes {longest:.0f} s."
    return Table("A full reproduction", ("nodes", "cores", "minutes", "cores at work", "node hours"), lines, (note,))


if __name__ == "__main__":
    print(markdown([full_edition(Path(sys.argv[1] if len(sys.argv) > 1 else "results/store"), 0.004)]))
