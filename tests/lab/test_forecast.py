"""The forecast of a simulated run with known costs: one estimate over everything, and near the truth."""

from __future__ import annotations

import heapq
import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from lab_helpers import error_cells, run_here, training

from iclab.lab import Store, costs
from iclab.lab.costs import PRIOR
from iclab.lab.events import Advanced, Ended, Event, Finished, Kind, Notice, Started, announced
from iclab.lab.forecast import Forecast
from iclab.lab.progress import ProgressPrinter, duration
from iclab.lab.schedule import Place

FUSED, MLP, MINE = ("mamba", "fused"), ("softmax-mlp", "compact"), ("Mine", "reference")

# Cells of each kind: how many, prompts per cell, and what a prompt takes as a multiple of what is expected.
THREADS = {Kind("training", *FUSED): (20, 1_000_000, 1.4), Kind("error", *FUSED): (400, 80_000, 0.8)}
PROCESSES = {
    Kind("training", *MLP): (30, 600_000, 1.3),
    Kind("error", *MLP): (300, 8_000, 0.8),
    Kind("norms", *MLP): (20, 8, 2.0),
    Kind("training", *MINE): (6, 400_000, 1.0),
}


@pytest.fixture(autouse=True)
def nothing_beside_prompts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cells take what their prompts take."""
    monkeypatch.setattr("iclab.lab.forecast.PER_CELL", 0.0)


class Clock:
    """A clock that is set, not read from."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


WIDTHS = {Place.SMALL: 2, Place.THREAD: 2, Place.PROCESS: 2, Place.HERE: 1}


def cells_of(kinds: dict[Kind, tuple[int, int, float]], place: Place) -> Iterator[tuple[Kind, int, Place]]:
    for kind, (count, prompts, _) in kinds.items():
        yield from [(kind, prompts, place)] * count


def events_of(kind: Kind, prompts: int, seconds: float, pieces: int) -> Iterator[tuple[float, Event]]:
    """What one cell emits: the time that passes before each event, and the event."""
    left = prompts
    for _ in range(pieces - 1):
        yield seconds / pieces, Advanced(kind, prompts // pieces, seconds / pieces)
        left -= prompts // pieces
    yield seconds / pieces, Finished(kind, left, seconds / pieces)


def simulate(
    kinds: dict[Kind, tuple[int, int, float]], lanes: int, clock: Clock, slower: float, first: float = 0.0
) -> Iterator[Event]:
    """Run cells on some lanes, in turn; ``first`` is what the first one takes longer than it should."""
    chance = random.Random(0)
    waiting = []
    for kind, (count, prompts, factor) in kinds.items():
        mean = slower * factor * PRIOR.get(kind, costs.DEFAULT) * prompts
        for _ in range(count):
            seconds = mean * chance.uniform(0.6, 1.4) + first
            waiting.append(events_of(kind, prompts, seconds, 1 + int(seconds / 0.5)))
            first = 0.0
    running = [(clock.now, lane, iter(())) for lane in range(lanes)]
    while running:
        now, lane, cell = heapq.heappop(running)
        clock.now = max(clock.now, now)
        for wait, event in cell:
            clock.now = now + wait
            yield event
            heapq.heappush(running, (now + wait, lane, cell))
            break
        else:
            if waiting:
                heapq.heappush(running, (now, lane, waiting.pop(0)))


def whole_run(clock: Clock, slower: float = 1.0) -> Iterator[Event]:
    yield from simulate(THREADS | PROCESSES, 2, clock, slower, first=15.0)  # the engine compiles


def forecast(rates: dict[Kind, float] | None = None) -> Forecast:
    cells = [*cells_of(THREADS, Place.THREAD), *cells_of(PROCESSES, Place.PROCESS)]
    return Forecast(cells, rates or {}, WIDTHS.__getitem__)


def history(slower: float = 1.0, rates: dict[Kind, float] | None = None) -> list[tuple[float, float, float]]:
    """The true time, the share done and the time left after every event of a run."""
    clock, guess = Clock(), forecast(rates)
    points = []
    for event in whole_run(clock, slower):
        guess(event)
        points.append((clock.now, guess.share, guess.seconds_left))
    return points


@pytest.mark.parametrize("slower", [0.7, 1.0, 3.0])
@pytest.mark.parametrize("part", [0.2, 0.35, 0.5])
def test_the_time_left_is_right_within_30_percent_after_a_fifth_of_the_work(part: float, slower: float):
    points = history(slower)
    end = points[-1][0]
    now, _, left = next(point for point in points if point[0] > part * end)
    assert left == pytest.approx(end - now, rel=0.3)


def test_the_share_never_decreases_and_follows_the_clock():
    points = history()
    shares, end = [share for _, share, _ in points], points[-1][0]
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    for now, share, _ in points:
        assert abs(share - now / end) < 0.25


def test_a_second_run_estimates_well_from_the_start():
    first = forecast()
    for event in whole_run(Clock(), 3.0):
        first(event)
    again = history(3.0, first.rates())
    end = again[-1][0]
    assert again[0][2] == pytest.approx(end, rel=0.15)


@pytest.mark.parametrize(
    "here, process, thread, seconds",
    [(0, 0, 8, 2.0), (0, 8, 0, 4.0), (8, 0, 0, 8.0), (1, 1, 6, 2.0), (3, 1, 8, 3.0), (1, 7, 0, 4.0)],
)
def test_the_time_left_is_that_of_the_narrowest_place(here: int, process: int, thread: int, seconds: float):
    widths = {Place.SMALL: 4, Place.THREAD: 4, Place.PROCESS: 2, Place.HERE: 1}
    kinds = {place: Kind("training", place.name, "reference") for place in Place}
    works = {Place.HERE: here, Place.PROCESS: process, Place.THREAD: thread}
    cells = [(kinds[place], work, place) for place, work in works.items()]
    guess = Forecast(cells, dict.fromkeys(kinds.values(), 1.0), widths.__getitem__)
    assert guess.seconds_left == pytest.approx(seconds)


@pytest.mark.parametrize("prompts, kept", [(8, False), (1_000_000, True)], ids=["small", "large"])
def test_the_rate_of_a_kind_is_learned_from_cells_that_are_mostly_prompts(
    prompts: int, kept: bool, monkeypatch: pytest.MonkeyPatch
):
    beside, rate, kind = 0.005, 1e-6, Kind("training", *FUSED)
    monkeypatch.setattr("iclab.lab.forecast.PER_CELL", beside)
    guess = Forecast([(kind, prompts, Place.THREAD)] * 50, {kind: rate}, WIDTHS.__getitem__)
    assert guess.seconds_left == pytest.approx(50 * (beside + rate * prompts) / 2)
    for _ in range(50):
        guess(Finished(kind, prompts, 1.2 * beside + rate * prompts))
    assert guess.rates() == ({kind: pytest.approx(rate, rel=0.01)} if kept else {})


def test_cells_without_prompts_count_as_cells():
    kind = Kind("training", "classical", "reference")
    guess = Forecast([(kind, 0, Place.PROCESS)], {}, WIDTHS.__getitem__)
    assert (guess.share, guess.seconds_left) == (0.0, 0.0)
    guess(Finished(kind, 0, 0.1))
    assert (guess.share, guess.cells_done, guess.rates()) == (1.0, 1, {})


# What is printed.


def test_one_start_one_end_and_one_estimate_in_between(capsys: pytest.CaptureFixture[str]):
    clock, guess, seen = Clock(), forecast(), []
    with announced(guess, ProgressPrinter("iclab", guess, clock=clock), seen.append) as listen:
        for event in whole_run(clock):
            listen(event)
    assert [type(event) for event in seen].count(Started) == [type(event) for event in seen].count(Ended) == 1
    *lines, last = capsys.readouterr().err.splitlines()
    assert last == f"iclab: 776 of 776 cells in {clock.now:.1f} s"
    assert 0.8 * clock.now / 10 < len(lines) <= clock.now / 10
    for line in lines:
        assert line.startswith("iclab: ")
        assert " of 776 cells, about " in line
        assert line.endswith(" left")
    percents = [int(line.split()[1]) for line in lines]
    assert percents == sorted(percents)


def test_a_notice_is_given_once(capsys: pytest.CaptureFixture[str]):
    guess = forecast()
    with announced(ProgressPrinter("iclab", guess, quiet=True)) as listen:
        for text in ("one by one", "one by one", "compiling"):
            listen(Notice(text))
    assert capsys.readouterr().err.splitlines() == ["one by one", "compiling"]


@pytest.mark.parametrize(
    "error, how", [(KeyboardInterrupt, "interrupted"), (ValueError, "failed")], ids=["interrupted", "failed"]
)
def test_the_end_says_how(error: type[BaseException], how: str):
    seen: list[Event] = []

    def stop() -> None:
        with announced(seen.append):
            raise error

    with pytest.raises(error):
        stop()
    assert seen == [Started(), Ended(how)]


@pytest.mark.parametrize("seconds, text", [(0, "1 s"), (42.4, "42 s"), (240, "4 min"), (9_000, "2.5 h")])
def test_durations_for_people(seconds: float, text: str):
    assert duration(seconds) == text


# What a store keeps.


def test_a_run_keeps_its_costs_in_the_store(tmp_path: Path):
    store = Store(tmp_path)
    run_here(error_cells(training(), 0.0), store)
    rates = costs.load(store.path)
    assert rates.keys() == {Kind("training", *FUSED), Kind("error", *FUSED)}
    assert all(rate > 0 for rate in rates.values())
    costs.save(store.path, {Kind("error", *MLP): 1e-5})
    assert costs.load(store.path) == rates | {Kind("error", *MLP): 1e-5}


@pytest.mark.parametrize("text", ["", "{", "[1]", "{}", '[{"work": "error"}]', "null"])
def test_broken_costs_are_ignored(text: str, tmp_path: Path):
    (tmp_path / "costs.json").write_text(text)
    assert costs.load(tmp_path) == {}


def test_costs_that_make_no_sense_are_ignored(tmp_path: Path):
    good = {"work": "error", "model": "mamba", "engine": "fused", "seconds_per_prompt": 1e-6}
    bad = [good | {"model": str(rate), "seconds_per_prompt": rate} for rate in (0.0, -1.0, float("nan"), float("inf"))]
    (tmp_path / "costs.json").write_text(json.dumps([good, *bad]))
    assert costs.load(tmp_path) == {Kind("error", "mamba", "fused"): 1e-6}


def test_costs_that_cannot_be_written_stop_nobody(tmp_path: Path):
    costs.save(tmp_path / "nowhere", {Kind("error", *MLP): 1e-5})
    assert list(tmp_path.iterdir()) == []
