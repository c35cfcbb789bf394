"""Timing one family, one way after the other; each is a row of the table."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from iclab.bench import browser
from iclab.bench.compiled import compiled_loop
from iclab.bench.families import Family
from iclab.bench.jax_loops import jax_loop
from iclab.bench.limits import Rates, active_share, limit
from iclab.bench.loops import torch_loop
from iclab.bench.processes import Workers, shares
from iclab.bench.timing import best_of, timed_measuring, timed_training
from iclab.engines.registry import fused_form
from iclab.playground.content import models
from iclab.prompts import Prompts

if TYPE_CHECKING:
    from iclab.bench import Sizes


class Row(NamedTuple):
    """One way of training or measuring a family; drawing is always included."""

    name: str
    """loop, compiled, jax, reference, fused, or browser: the playground's engine, where threads are workers."""
    model: str
    work: str
    """train; error, the probe of that name; or measure, all probes that the fused engine sums, one after the other."""
    engine: str | None
    seeds: int
    processes: int
    threads: int
    """Of each process."""
    steps: int | None
    """Of a training: all of the recipe's for the fused engine."""
    prompts_per_second: float | None
    reason: str = ""
    """Why there is no number."""


class Bench:
    """Times one family."""

    def __init__(
        self, family: Family, threads: int, sizes: Sizes, workers: Workers, tell: Callable[[str], None]
    ) -> None:
        self.family, self.threads, self.sizes, self.workers, self.tell = family, threads, sizes, workers, tell

    def rows(self) -> list[Row]:
        """Time every way."""
        loops = self._loops()
        better = max(loops, key=lambda row: row.prompts_per_second or 0.0).threads
        rows = [*loops, self._compiled(better), self._jax(), self._reference(), *self._fused(), *self._browser()]
        if self.family.tests:
            every = tuple(fused_form(self.family.training).sums)
            rows += [*self._measuring(self.family.tests, "error", ("error",))]
            rows += [*self._measuring(self.family.tests, "measure", every)]
        return rows

    def limits(self, rows: list[Row], machine: Rates) -> dict[str, Any]:
        """Return the limits of training and, if it is timed, of measuring, beside what one thread of ours takes."""
        family, found = self.family, dict[str, Any]()
        fused = not family.obstacle()
        counts = family.counts(family.on("fused") if fused else family.training)
        active = active_share(family.on("fused")) if fused else 1.0
        for work in dict.fromkeys(row.work for row in rows if row.work != "measure"):
            ours = [row.prompts_per_second for row in rows if (row.name, row.work, row.threads) == ("fused", work, 1)]
            one = limit(family.training, counts, machine, None if work == "error" else active)
            rate, name = ours[0] if ours else None, f"{family.name}-{work}" if family.tests else family.name
            near = one["prompts_per_second"] / rate if rate else None
            found[name] = one | {"measured": rate, "near": near}
            if near:
                self.tell(f"{name}: one thread takes {near:.1f} times as long as the limit")
        return found

    def _add(self, name: str, took: float | None, steps: int | None, **more: Any) -> Row:
        """Make a row of a time in seconds, or of a reason; ``prompts`` are per seed, by default those of the steps."""
        prompts = more.pop("prompts", self.family.training.recipe.batch_size * (steps or 0))
        usual = {"work": "train", "engine": None, "seeds": 1, "processes": 1, "threads": 1, "reason": ""}
        about: dict[str, Any] = usual | more
        rate = prompts * about["seeds"] / took if took else None
        row = Row(name=name, model=self.family.name, steps=steps, prompts_per_second=rate, **about)
        what = f"{rate:,.0f} prompts/s" if rate else f"left out: {row.reason}"
        how = f"{row.seeds} seeds, {row.processes} processes, {row.threads} threads"
        self.tell(f"{row.model}, {row.work}, {name}, {how}: {what}")
        return row

    def _loops(self) -> list[Row]:
        steps, times = self.family.steps.loop, self.sizes.times
        run = partial(torch_loop, self.family.training, steps, times=times)
        return [self._add("loop", run(threads=n), steps, threads=n) for n in sorted({1, self.threads})]

    def _compiled(self, threads: int) -> Row:
        steps = self.family.steps.loop
        took, reason = compiled_loop(self.family.training, steps, threads, self.sizes.times, self.sizes.wait)
        return self._add("compiled", took, steps, threads=threads, reason=reason)

    def _jax(self) -> Row:
        steps, seeds = self.family.steps.jax, self.sizes.seeds
        if not importlib.util.find_spec("jax"):
            return self._add("jax", None, steps, seeds=seeds, threads=self.threads, reason="JAX is not installed")
        took = best_of(self.sizes.times, jax_loop(self.family.training, steps, seeds))
        return self._add("jax", took, steps, seeds=seeds, threads=self.threads)

    def _reference(self) -> Row:
        """Stack seeds, in as many processes as the fused engine has threads."""
        steps, engine = self.family.steps.reference, self.family.training.engine
        parts = shares(self.sizes.seeds, self.threads)
        self.workers.run(timed_training, *((self.family.on(engine, steps=2), part) for part in parts))
        task = self.family.on(engine, steps=steps)
        took = best_of(
            self.sizes.times, lambda: max(self.workers.run(timed_training, *((task, part) for part in parts)))
        )
        return self._add("reference", took, steps, engine=engine, seeds=self.sizes.seeds, processes=self.threads)

    def _fused(self) -> list[Row]:
        family, seeds = self.family, self.sizes.seeds
        more: dict[str, Any] = {"engine": "fused", "seeds": seeds}
        steps = family.training.recipe.steps
        if reason := family.obstacle():
            return [self._add("fused", None, steps, reason=reason, threads=self.threads, **more)]
        timed_training(family.on("fused", steps=2), 1)  # compile, or load from the cache
        rows = []
        for used in sorted({1, self.threads}):
            took = best_of(self.sizes.times, partial(timed_training, family.on("fused"), seeds, used))
            rows.append(self._add("fused", took, steps, threads=used, **more))
        return rows

    def _browser(self) -> list[Row]:
        """Train in the playground's page, if it has the model: one seed per worker, and all steps of the recipe."""
        training, steps = self.family.training, self.family.training.recipe.steps
        if training.model.name not in models():
            return []
        if reason := browser.obstacle():
            return [self._add("browser", None, steps, reason=reason)]
        rows = []
        for used in sorted({1, self.threads}):
            runs = browser.page_times(training, used, self.sizes.times)
            took = min(max(worker["seconds"] for worker in run) for run in runs)
            rows.append(self._add("browser", took, steps, seeds=used, threads=used))
        return rows

    def _measuring(self, tests: Prompts, work: str, probes: tuple[str, ...]) -> list[Row]:
        """Take probes with both engines; one step of training comes before and is not timed."""
        family, seeds, count, times = self.family, self.sizes.seeds, self.sizes.test_prompts, self.sizes.times
        engine, more = family.training.engine, dict[str, Any](work=work, seeds=seeds)
        tasks = [(family.training, part, probes, tests, count, 1, times) for part in shares(seeds, self.threads)]
        took = max(self.workers.run(timed_measuring, *tasks))
        rows = [self._add("reference", took, None, engine=engine, processes=self.threads, prompts=count, **more)]
        if reason := family.obstacle():
            return [*rows, self._add("fused", None, None, engine="fused", threads=self.threads, reason=reason, **more)]
        for used in sorted({1, self.threads}):
            took = timed_measuring(family.on("fused"), seeds, probes, tests, 32 * count, used, times)
            rows.append(self._add("fused", took, None, engine="fused", threads=used, prompts=32 * count, **more))
        return rows
