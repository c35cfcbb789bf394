"""The claims of M-classes: what E.7 says of the model of (201), and what iclab asks of heads that see whole tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from iclab.papers.mamba.classes_settings import BINARY, BLOCK, TOKEN, ClassesSettings
from iclab.probes import Interval, Row
from iclab.study.claims import BySeed, Claim, Judge, Point, every_below, every_within, judged, mean_point, together
from iclab.study.rows import difference, error_points, errors, listed, lost, matching, values

SMALL, SAME, FEW = 0.01, 0.002, 0.1
"""A small error as in M-fig2; how far equal errors may be apart; an entry that is small beside another."""


def of_blocks(settings: ClassesSettings) -> list[Claim]:
    """Return the claims about heads that see their block."""
    low, several, grid = _low(settings), [h for h in settings.levels if h > 1], listed(settings.outlier_fractions)
    return [
        Claim(
            "M-classes.binary",
            "with H = 1, (201) is (3)",
            f"seeds with another number of right answers than mamba, flipped or worst labels, at α = {grid}: none",
            judged(_not_identical(settings), every_below, 0.5),
            ours=True,
            counts=True,
        ),
        Claim(
            "M-classes.decomposes",
            "the problem decomposes into H independent binary problems",
            f"error over classes − (1 − Π(1 − e_h)) within ± {SAME:g}, outliers by block, H = {listed(several)}, "
            f"α = {grid}",
            _each(settings, several, [BLOCK], _beyond_product, every_within, -SAME, SAME),
        ),
        Claim(
            "M-classes.levels",
            "the results for two classes can be applied, level by level",
            f"mean error of a level − of mamba on two classes within ± {SAME:g}, H = {listed(several)}, α = {grid}",
            _each(settings, several, settings.outliers_by, _beyond_binary, every_within, -SAME, SAME),
        ),
        Claim(
            "M-classes.small",
            "so Mamba tolerates outliers: Theorem 2 with 2^H classes",
            f"error over classes < {SMALL:g}, worst labels, H = {listed(settings.levels)}, α = {listed(low)}",
            judged(lambda rows: _small(rows, settings, low), every_below, SMALL),
        ),
        Claim(
            "M-classes.together",
            "outliers that corrupt whole tokens do less harm to the class: levels fail together",
            f"error over classes, outliers by token − by block < 0 at α = {max(settings.outlier_fractions):g}, "
            f"H = {listed(several)}",
            _each(settings, several, [TOKEN], _beyond_apart, every_below, 0.0, last=True),
            ours=True,
        ),
    ]


def of_tokens(settings: ClassesSettings) -> list[Claim]:
    """Return the claims about heads that see whole tokens."""
    low = _low(settings)
    return [
        Claim(
            "M-classes.whole",
            "heads that see whole tokens answer as well as heads that see their block",
            f"error over classes − that of heads per block < {SMALL:g} at α = {listed(low)}, H = "
            f"{listed(settings.whole)}, flipped labels",
            _each(settings, settings.whole, settings.outliers_by, _beyond_blocks, every_below, SMALL, only=low),
            ours=True,
        ),
        Claim(
            "M-classes.cross",
            "heads that see whole tokens learn which block is theirs",
            f"|attention in other blocks, or between blocks| / in the own block < {FEW:g}, H = "
            f"{listed(settings.whole)}",
            judged(lambda rows: _crossing(rows, settings), every_below, FEW),
            ours=True,
        ),
    ]


def _low(settings: ClassesSettings) -> list[float]:
    """The α that training has met."""
    return [f for f in settings.outlier_fractions if f <= settings.train_outlier_fraction]


def where(probe: str, sees: str, levels: int, by: str, fraction: float | None = None) -> dict[str, Any]:
    """Return the columns of one measurement."""
    at = {} if fraction is None else {"outlier_fraction": fraction}
    return {"measured": probe, "sees": sees, "levels": levels, "outliers": by} | at


def _not_identical(settings: ClassesSettings) -> Callable[[list[Row]], list[Point] | None]:
    """Count the seeds with other numbers than the binary model's."""

    def found(rows: list[Row]) -> BySeed:
        different: BySeed = {}
        for probe in ("error", "worst"):
            for f in settings.outlier_fractions:
                one, two = (matching(rows, **where(probe, sees, 1, BLOCK, f)) for sees in (BLOCK, BINARY))
                for seed in one.keys() & two.keys():
                    pairs = [(one[seed][name], two[seed][name]) for name in ("right", "ties", "hinge")]
                    other = any(a != b for a, b in pairs)
                    known = different.get(seed, 0.0)
                    different[seed] = None if known is None or pairs[0][0] is None else max(known, float(other))
        return different

    def points(rows: list[Row]) -> list[Point] | None:
        by_seed = found(rows)
        if len(by_seed) < settings.seeds or 1 not in settings.levels:
            return None
        good = [value for value in by_seed.values() if value is not None]
        total = float(sum(good)) if good else None
        return [Point(total, Interval(total or 0.0, total or 0.0), "", len(by_seed) - len(good))]

    return points


def _by_level(rows: list[Row], h: int, by: str, f: float) -> list[BySeed]:
    here = where("levels", BLOCK, h, by, f)
    return [lost(rows, **here) | values(rows, "error", **here, level=level) for level in range(1, h + 1)]


def _beyond_product(rows: list[Row], h: int, by: str, f: float) -> BySeed:
    """Return the error over classes minus what independent levels would give."""
    levels, found = _by_level(rows, h, by, f), {}
    for seed, error in errors(rows, **where("error", BLOCK, h, by, f)).items():
        own = [level.get(seed) for level in levels]
        right = 1.0
        for e in own:
            right *= 1.0 - (e or 0.0)
        found[seed] = None if error is None or None in own else error - (1.0 - right)
    return found


def _beyond_binary(rows: list[Row], h: int, by: str, f: float) -> BySeed:
    """Return the mean error of the levels minus that of the binary model."""
    levels, binary = _by_level(rows, h, by, f), errors(rows, **where("error", BINARY, 1, BLOCK, f))
    found: BySeed = {}
    for seed in levels[0]:
        own = [value for level in levels if (value := level.get(seed)) is not None]
        base = binary.get(seed)
        if seed in binary:
            found[seed] = None if base is None or len(own) < h else sum(own) / h - base
    return found


def _beyond_apart(rows: list[Row], h: int, by: str, f: float) -> BySeed:
    return difference(*(errors(rows, **where("error", BLOCK, h, kind, f)) for kind in (TOKEN, BLOCK)))


def _beyond_blocks(rows: list[Row], h: int, by: str, f: float) -> BySeed:
    return difference(*(errors(rows, **where("error", sees, h, by, f)) for sees in (TOKEN, BLOCK)))


def _each(
    settings: ClassesSettings,
    levels: Sequence[int],
    kinds: Sequence[str],
    number: Callable[[list[Row], int, str, float], BySeed],
    rule: Callable[..., Any],
    *margins: float,
    only: Sequence[float] | None = None,
    last: bool = False,
) -> Judge:
    """Judge a number per seed for every H, kind of outliers and α."""
    fractions = settings.outlier_fractions[-1:] if last else only or settings.outlier_fractions

    def at(h: int, by: str, f: float) -> Callable[[list[Row]], list[Point] | None]:
        return mean_point(settings.seeds, lambda rows: number(rows, h, by, f), f"H = {h}, outliers by {by}, α = {f:g}")

    return judged(together(*(at(h, by, f) for h in levels for by in kinds for f in fractions)), rule, *margins)


def _small(rows: list[Row], settings: ClassesSettings, low: Sequence[float]) -> list[Point] | None:
    cells = [
        (f"H = {h}, outliers by {by}, α = {f:g}", where("worst", sees, h, by, f))
        for sees, h, by in settings.kinds()
        if sees == BLOCK
        for f in low
    ]
    return error_points(rows, settings.seeds, cells)


def entry_of(rows: list[Row], entry: str, h: int, by: str) -> BySeed:
    """Return the mean over levels of an entry of the probe ``blocks``."""
    here = where("blocks", TOKEN, h, by)
    levels = [values(rows, entry, **here, level=level) for level in range(1, h + 1)]
    found: BySeed = dict(lost(rows, **here))
    for seed in levels[0]:
        own = [value for level in levels if (value := level.get(seed)) is not None]
        found[seed] = sum(own) / h if len(own) == h else None
    return found


def _crossing(rows: list[Row], settings: ClassesSettings) -> list[Point] | None:
    sources = []
    for h, by in [(h, by) for sees, h, by in settings.kinds() if sees == TOKEN]:
        for entry, words in (("other", "another block"), ("cross", "between blocks")):

            def ratio(rows: list[Row], e: str = entry, h: int = h, by: str = by) -> BySeed:
                own, found = entry_of(rows, "own", h, by), {}
                for seed, value in entry_of(rows, e, h, by).items():
                    base = own.get(seed)
                    found[seed] = None if value is None or base is None or base <= 0 else abs(value) / base
                return found

            where = f"{words}, H = {h}, outliers by {by}"
            sources.append(mean_point(settings.seeds, ratio, where, "diverged or do not attend to their own block"))
    return together(*sources)(rows)
