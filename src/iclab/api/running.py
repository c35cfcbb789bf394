"""`iclab.run` and `iclab.experiments`: the papers' figures, tables and theorems, and iclab's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from iclab import catalog
from iclab.api.asking import how_to_run, opened
from iclab.config import InputError, shown
from iclab.lab import Store
from iclab.lab.events import Listener
from iclab.lab.executors import Executor
from iclab.study import records
from iclab.study.edition import Edition
from iclab.study.experiment import Experiment
from iclab.study.outcome import Outcome


def experiments(folder: str | None = None) -> dict[str, str]:
    """Return the title of every experiment by id: the built-in ones, then users' own.

    Args:
        folder: where to look for users' own experiments, besides installed packages; by default
            ``$ICLAB_EXPERIMENTS``.

    Example:
        >>> experiments()["M-fig2"]
        'Error against the fraction of outliers'
    """
    mine, _ = catalog.own(folder)
    return {found.id: found.title for found in (*catalog.experiments().values(), *mine.values())}


def run(
    experiment: str | Experiment[Any] | type[Experiment[Any]],
    *,
    quick: bool = False,
    store: Store | Path | str | None = None,
    workers: int | None = None,
    progress: bool = False,
    on_progress: Listener | None = None,
    executor: Executor | None = None,
    **settings: Any,
) -> Outcome:
    """Run an experiment, as ``iclab run`` does, and return its rows, claims, table and chart.

    Args:
        experiment: the id of an experiment; or your own, as a class, as ``package.module:Class``, or by its id if the
            store knows it or ``$ICLAB_EXPERIMENTS`` names its folder.
        quick: the quick edition: 8 seeds and fewer points.
        store: a folder that keeps finished cells, such as the command line's ``results/store``: what is there is not
            computed again. By default nothing is kept.
        workers: how many cores to use; by default all.
        progress: show a progress bar on standard error.
        on_progress: called with every event of the run: see ``help(iclab.lab.events)``.
        executor: what computes the cells, such as ``iclab.lab.RayExecutor("auto")``; by default this machine.
        settings: other values of the experiment's settings, as with ``--set``; ``iclab experiments ID`` lists them.

    Example:
        >>> small = {"steps": 5, "test_prompts": 20, "label_rules": ["flip"], "outlier_fractions": [0.0, 0.6]}
        >>> outcome = run("M-fig2", seeds=2, baselines=False, **small)
        >>> sorted({row["model"] for row in outcome.rows})
        ['linear', 'mamba']
    """
    if isinstance(experiment, type) and issubclass(experiment, Experiment):
        experiment = catalog.checked(experiment)
    if not isinstance(experiment, (str, Experiment)):
        raise InputError(f"experiment = {shown(experiment)}: must be an id, such as 'M-fig2', or an Experiment")
    with opened(store) as place:
        found = catalog.find(experiment, records=place.records()) if isinstance(experiment, str) else experiment
        base = found.settings().quick() if quick else found.settings()
        edition = Edition(found, base.changed(settings))  # changes override the quick edition
        return records.compute([edition], place, **how_to_run(workers, progress, on_progress, executor))[0]
