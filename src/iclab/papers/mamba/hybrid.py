"""M-hybrid: layers of Mamba, linear and softmax attention in all orders of two and three.

§1.2 of the paper: the strengths of Mamba and Transformers "have motivated the development of hybrid architectures". It
does not say what each layer then does against outliers, nor whether attention repairs Mamba's drop at CQ.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from iclab.models.deep_hybrid import LAYERS
from iclab.papers.mamba.hybrid_settings import HybridSettings, NormName, orders
from iclab.papers.mamba.placements import Where, ahead, alike, at_least
from iclab.papers.mamba.settings import PLACEMENTS
from iclab.probes import Row
from iclab.study.charts import ERRORS, Axis, Figure, Panel, shaded
from iclab.study.claims import Claim, Judge, Point, every_above, judged
from iclab.study.experiment import Condition, Experiment, in_groups
from iclab.study.rows import errors, paired_points, proportion

LABELS = {"random": "random labels", "flip": "flipped labels"}
NORMS: dict[NormName, str] = {"own": "each kind with its own norm", "rms": "a norm before every layer"}
COLUMNS: dict[NormName, str] = {"own": "", "rms": ", all with a norm"}
CLEARLY, NO_COST, ROBUST, ALIKE = 0.02, -0.005, 0.95, 0.01
KEY = [shaded(f"error {value:g}", colour, 1.0) for value, colour in zip(ERRORS.domain, ERRORS.colours, strict=True)]
PLACES = tuple(PLACEMENTS.values())


class Hybrids(Experiment[HybridSettings]):
    """Every order of layers at every placement, with random and with flipped labels."""

    id = "M-hybrid"
    title = "Gates and attention in one model: all orders of two and three layers"
    paper = (
        "Mamba and Transformers have complementary strengths, which have motivated hybrid architectures (§1.2). "
        "Questions: does one softmax layer repair Mamba's drop at CQ? Does one gate anywhere suffice against outliers? "
        "Which should come first?"
    )
    reading = (
        "One row per order, first layer first; the orders with the fewest errors in their worst column are on top. "
        "Numbers are accuracies in %, mean over seeds, and colours are errors. Half of the examples are outliers: "
        "farthest from the query (FQ), anywhere (R), closest to it (CQ). The exact worst labels are known for one "
        "layer only; flipped labels stand for them here. No layer is larger than another, and one written rule "
        "chose every step size, on other seeds."
    )
    caption = "accuracy in %, mean and 95 % interval"
    settings = HybridSettings

    def conditions(self, settings: HybridSettings) -> list[Condition]:
        """Return every order at every placement, under both label rules."""
        found = []
        for norm in settings.norms:
            for order in orders(settings.depths):
                training = settings.training_of(order, norm)
                for labels in LABELS:
                    for place, name in PLACEMENTS.items():
                        prompts = settings.placed_with(labels, place)
                        found += in_groups(settings, cell(order, name, labels, norm), training, prompts=prompts)
        return found

    def claims(self, settings: HybridSettings) -> list[Claim]:
        """Return what one softmax layer, one gate, and the order of layers do."""
        return [*_repairs(settings), *_gates(settings), *_orders(settings), *_best(settings)]

    def table(self, rows: list[Row], settings: HybridSettings) -> list[dict[str, Any]]:
        """Return one line per norm and order."""
        return [
            {"norm": NORMS[norm], "layers": written(order)}
            | {
                f"{place}, {LABELS[labels]}": _text(rows, cell(order, place, labels, norm))
                for labels in LABELS
                for place in PLACES
            }
            for norm in settings.norms
            for order in orders(settings.depths)
        ]

    def chart(self, rows: list[Row], settings: HybridSettings) -> Figure:
        """Draw a map per depth and norm, orders sorted by their worst column."""
        panels = [_map(rows, depth, norm) for depth in sorted(settings.depths) for norm in settings.norms]
        return Figure(panels, columns=len(settings.norms), width=300, more=KEY, least=300)


def cell(order: str, placement: str, labels: str = "random", norm: NormName = "own") -> dict[str, str]:
    """Select one cell."""
    return {"column": f"{LABELS[labels]}{COLUMNS[norm]}", "model": order, "placement": placement}


def written(order: str) -> str:
    """Return an order for people to read.

    >>> written("mamba,softmax")
    'mamba → softmax'
    """
    return order.replace(",", " → ")


def one_among(depths: Iterable[int], one: str, others: str) -> list[str]:
    """Return the orders of two or more layers with one layer of a kind, the others of another.

    >>> one_among([2], "softmax", "mamba")
    ['mamba,softmax', 'softmax,mamba']
    """
    return [
        order
        for order in orders(depths)
        if "," in order and order.split(",").count(one) == 1 and set(order.split(",")) == {one, others}
    ]


def _text(rows: list[Row], where: dict[str, str]) -> str:
    p = proportion(rows, **where)
    if p is None:
        return "–"
    lost = f", {p.diverged} diverged" if p.diverged else ""
    if p.mean is None:
        return f"none{lost}"
    return f"{100 - 100 * p.mean:.2f} [{100 - 100 * p.interval.high:.1f}, {100 - 100 * p.interval.low:.1f}]{lost}"


# Claims.


def _pure(order: str, kind: str) -> str:
    return ",".join([kind] * len(order.split(",")))


def _against_mamba(n: int, listed: Sequence[str], places: Sequence[str], labels: str, margin: float) -> Judge:
    """Judge whether orders are ahead of as many layers of Mamba alone."""
    pairs: list[tuple[Where, Where]] = [
        (cell(order, place, labels), cell(_pure(order, "mamba"), place, labels)) for order in listed for place in places
    ]
    return ahead(n, margin, pairs)


def _claim(name: str, words: str, predicate: str, judge: Judge) -> Claim:
    return Claim(f"M-hybrid.{name}", words, predicate, judge, models=("deep-hybrid",), ours=True)


def _repairs(settings: HybridSettings) -> list[Claim]:
    n, softmax = settings.seeds, one_among(settings.depths, "softmax", "mamba")
    linear = [order for order in one_among(settings.depths, "linear", "mamba") if order.startswith("mamba")]
    among = "in every order with one softmax layer, the others Mamba"
    return [
        _claim(
            "cq",
            "one softmax layer repairs Mamba's drop at CQ",
            f"accuracy at CQ − that of as many layers of Mamba > {CLEARLY} {among}, on paired seeds",
            _against_mamba(n, softmax, ("CQ",), "random", CLEARLY),
        ),
        _claim(
            "cq-gone",
            "and nothing of the drop is left",
            f"accuracy at CQ − at FQ and at R > −{ALIKE} {among}, under both label rules",
            ahead(
                n,
                -ALIKE,
                [(cell(o, "CQ", rule), cell(o, p, rule)) for o in softmax for rule in LABELS for p in ("FQ", "R")],
            ),
        ),
        _claim(
            "cq-flipped",
            "one softmax layer repairs the drop under flipped labels too",
            f"accuracy at CQ − that of as many layers of Mamba > {5 * CLEARLY:g} {among}, under flipped labels",
            _against_mamba(n, softmax, ("CQ",), "flip", 5 * CLEARLY),
        ),
        _claim(
            "cost",
            "and it costs nothing elsewhere",
            f"accuracy at FQ and R − that of as many layers of Mamba > −{-NO_COST} {among}",
            _against_mamba(n, softmax, ("FQ", "R"), "random", NO_COST),
        ),
        _claim(
            "cq-linear",
            "one layer of linear attention repairs the drop too, if it stands after a layer of Mamba",
            f"accuracy at CQ − that of as many layers of Mamba > {CLEARLY} in every order that begins with Mamba and "
            "has one linear layer, the others Mamba",
            _against_mamba(n, linear, ("CQ",), "random", CLEARLY),
        ),
    ]


def _gates(settings: HybridSettings) -> list[Claim]:
    n, anywhere = settings.seeds, one_among(settings.depths, "mamba", "linear")
    first = [order for order in anywhere if order.startswith("mamba")]

    def robust(listed: Sequence[str]) -> Judge:
        return at_least(n, ROBUST, [cell(order, place, "flip") for order in listed for place in ("FQ", "R")])

    above = f"accuracy > {ROBUST} at FQ and R under flipped labels"
    return [
        _claim(
            "gate-anywhere",
            "one gate anywhere suffices against outliers: a layer of Mamba among layers of linear attention",
            f"{above} wherever it stands",
            robust(anywhere),
        ),
        _claim("gate-first", "one gate suffices if it comes first", f"{above} if it is the first layer", robust(first)),
    ]


def _orders(settings: HybridSettings) -> list[Claim]:
    """Compare a gate before attention with a gate after it: the same layers, backwards."""
    n = settings.seeds

    def backwards(kind: str) -> list[tuple[str, str]]:
        listed = [*one_among(settings.depths, kind, "mamba"), *one_among(settings.depths, "mamba", kind)]
        found = dict.fromkeys(order for order in listed if order.startswith("mamba") and order.endswith(kind))
        return [(order, ",".join(reversed(order.split(",")))) for order in found]

    linear: list[tuple[Where, Where]] = [(cell(a, "R", "flip"), cell(b, "R", "flip")) for a, b in backwards("linear")]
    softmax: list[tuple[Where, Where]] = [
        (cell(a, place, labels), cell(b, place, labels))
        for a, b in backwards("softmax")
        for labels in LABELS
        for place in PLACES
    ]
    return [
        _claim(
            "order-linear",
            "the gate must come before linear attention, not after it",
            f"accuracy with Mamba first − with the same layers backwards > {5 * CLEARLY:g} at R under flipped labels",
            ahead(n, 5 * CLEARLY, linear),
        ),
        _claim(
            "order-softmax",
            "a gate and softmax attention may come in either order",
            f"Mamba first and the same layers backwards differ by less than {ALIKE} at FQ, R, CQ and both label rules",
            alike(n, ALIKE, softmax),
        ),
    ]


def _best(settings: HybridSettings) -> list[Claim]:
    mixed = [order for order in orders(settings.depths) if order not in {_pure(order, kind) for kind in LAYERS}]
    others = [o for o in orders(settings.depths) if "," in o and set(o.split(",")) != {"mamba"}]

    def points(rows: list[Row]) -> list[Point] | None:
        found = []
        for depth in settings.depths:
            mine = [order for order in mixed if order.count(",") == depth - 1]
            pure = [",".join([kind] * depth) for kind in LAYERS]
            best = [_lowest(rows, listed) for listed in (mine, pure)]
            if None in best:
                return None
            pair = [(f"{best[0]} − {best[1]}", *(errors(rows, **cell(str(order), "CQ")) for order in reversed(best)))]
            found += paired_points(pair, settings.seeds) or []  # type: ignore[arg-type]
        return found or None

    return [
        _claim(
            "best",
            "the best hybrid is clearly better at CQ than the best model of one kind",
            f"accuracy of the best hybrid − that of the best of Mamba, linear and softmax > {CLEARLY} at CQ for each "
            "depth, on paired seeds; the best are those of these very seeds, which favours the claim",
            judged(points, every_above, CLEARLY),
        ),
        _claim(
            "norm",
            "with a norm before every layer, any layer of attention in any place repairs everything",
            f"accuracy > {ROBUST} at FQ, R and CQ under flipped labels in every order but Mamba alone",
            at_least(settings.seeds, ROBUST, [cell(o, place, "flip", "rms") for o in others for place in PLACES]),
        ),
    ]


def _lowest(rows: list[Row], listed: Sequence[str]) -> str | None:
    """Return the order with the lowest mean error at CQ under random labels; None if any was not measured."""
    means = {order: proportion(rows, **cell(order, "CQ")) for order in listed}
    known = {order: p.mean for order, p in means.items() if p is not None and p.mean is not None}
    if not known or any(p is None for p in means.values()):
        return None
    return min(known, key=lambda order: known[order])


# The chart.


def _map(rows: list[Row], depth: int, norm: NormName) -> Panel:
    names = {(labels, place): f"{place}, {word.split()[0]}" for labels, word in LABELS.items() for place in PLACES}
    found: dict[str, dict[tuple[str, str], float]] = {}
    lost: dict[str, int] = {}
    for order in orders([depth]):
        for labels, place in names:
            p = proportion(rows, **cell(order, place, labels, norm))
            if p is not None and p.mean is not None:
                found.setdefault(order, {})[labels, place] = p.mean
            if p is not None and p.diverged:
                lost[order] = p.diverged
    listed = sorted(found, key=lambda order: max(found[order].values()))
    rows_named = {order: written(order) + (f" ({lost[order]} diverged)" if order in lost else "") for order in listed}
    panel = Panel(
        f"{depth} layers, {NORMS[norm]}",
        x=Axis(names=list(names.values())),
        y=Axis(names=list(rows_named.values())),
        height=max(60, 17 * len(listed)),
        shading=ERRORS,
    )
    for order in listed:
        for key, error in found[order].items():
            panel.tile(names[key], rows_named[order], error, f"{100 - 100 * error:.1f}")
    return panel
