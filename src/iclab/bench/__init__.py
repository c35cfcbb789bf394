"""``iclab bench``: speed of the engines and of ordinary training loops, in one run on this machine (docs/speed.md)."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NamedTuple

from iclab.bench import browser
from iclab.bench.families import Family, families
from iclab.bench.growth import AXES, Axis, growth, memory
from iclab.bench.limits import rates
from iclab.bench.processes import Workers
from iclab.bench.rows import Bench, Row
from iclab.bench.stages import stages
from iclab.config import InputError

Tell = Callable[[str], None]
SUFFIX = {"mamba": "", "linear": "_linear"}
"""Ratios of one layer are called fused_vs_OTHER, with this behind."""


class Sizes(NamedTuple):
    """How much is measured."""

    seeds: int = 8
    times: int = 3
    """Of these runs the shortest counts."""
    test_prompts: int = 1024
    """Per seed, on the engine without fused kernels; the fused engine gets 32 times as many."""
    wait: float = 60.0
    """Seconds that torch.compile may take."""
    axes: dict[str, tuple[Axis, ...]] = AXES
    changes: int = 21
    """Of a setting of the playground, each timed until its first picture."""


def chosen(only: str | None) -> tuple[Family, ...]:
    """Return the families to measure: all, or one."""
    every = families()
    if only is None:
        return every
    if only not in (names := [family.name for family in every]):
        raise InputError(f"only = {only}: must be one of {', '.join(names)}")
    return tuple(family for family in every if family.name == only)


def bench(
    threads: int | None = None,
    tell: Tell = lambda text: None,
    only: str | None = None,
    measured: tuple[Family, ...] | None = None,
    sizes: Sizes | None = None,
) -> dict[str, Any]:
    """Measure everything and return plain data."""
    threads, sizes = threads or os.cpu_count() or 1, sizes or Sizes()
    measured = chosen(only) if measured is None else measured
    shallow = [family for family in measured if family.name in SUFFIX]
    found: dict[str, Any] = {"rows": [], "limits": {}, "growth": {}}
    ratios = no_ratios()
    machine = rates(measured[0].training.prompts)
    with Workers(threads) as workers:
        for family in measured:
            timer = Bench(family, threads, sizes, workers, tell)
            rows = timer.rows()
            found["rows"] += rows
            ratios |= family_ratios(family, rows, threads)
            found["limits"] |= timer.limits(rows, machine)
            if axes := () if family.obstacle() else sizes.axes.get(family.name, ()):
                found["growth"][family.name] = growth(family, axes, sizes.seeds, threads, 2, tell)
    return {
        "rows": [row._asdict() for row in found["rows"]],
        "ratios": ratios,
        "limits": found["limits"],
        "rates": machine._asdict(),
        "growth": found["growth"],
        "memory": memory(shallow[0]) if shallow else None,
        "first_pictures": _first_pictures(sizes.changes, tell) if shallow else None,
        "nanoseconds_per_prompt": {family.name: stages(family.on("fused")) for family in shallow},
        "settings": {family.name: family.training.model_dump(mode="json") for family in measured},
        "machine": {"threads": threads, "cores": os.cpu_count(), "dtype": "float32"},
    }


def _first_pictures(changes: int, tell: Tell) -> list[float] | None:
    """Return the milliseconds from a change in the playground to its first picture; None without a browser."""
    if browser.obstacle():
        return None
    found = sorted(browser.first_pictures(changes))
    tell(f"playground: the first picture came {found[len(found) // 2]:.0f} ms after a change, {found[-1]:.0f} at most")
    return found


OTHERS = ("loop", "compiled", "jax", "reference")


def no_ratios() -> dict[str, float | None]:
    """Return every ratio as not measured."""
    found: dict[str, float | None] = {}
    for family in families():
        for name in ratio_names(family).values():
            found[name] = None
    return found


def ratio_names(family: Family) -> dict[tuple[str, str, bool], str]:
    """Return the names of ratios by the work, the other one, and whether the fused engine has one thread."""
    name, found = family.name, {}
    for other in OTHERS:
        if name in SUFFIX:
            found["train", other, False] = f"fused_vs_{other}{SUFFIX[name]}"
            found["train", other, True] = f"fused_one_thread_vs_{other}{SUFFIX[name]}"
        elif other == "reference":  # the ratio with the plain name
            found["train", other, False] = f"{name}-train" if family.tests else name
        else:
            found["train", other, False] = f"{name}_vs_{other}"
    found["train", "fused", False] = f"threads{SUFFIX[name]}" if name in SUFFIX else f"{name}_threads"
    if family.tests:
        found["error", "reference", False] = f"{name}-error"
        found["measure", "reference", False] = f"{name}-measure"
    return found


def family_ratios(family: Family, rows: list[Row], threads: int) -> dict[str, float | None]:
    """Divide the rates of the fused engine by the best of each other one, and by its own on one thread."""

    def best(work: str, name: str, used: int | None = None) -> float | None:
        matching = [row for row in rows if (row.work, row.name) == (work, name) and used in (None, row.threads)]
        return max((row.prompts_per_second for row in matching if row.prompts_per_second), default=None)

    found: dict[str, float | None] = {}
    for (work, other, alone), name in ratio_names(family).items():
        ours = best(work, "fused", 1 if alone else threads)
        theirs = best(work, other, 1 if other == "fused" else None)
        found[name] = ours / theirs if ours and theirs else None
    return found
