"""Error rate and hinge loss of a trained one-layer model without sampling: probe ``exact``.

Given the query, the examples of a prompt are independent and of few types: relevant pattern, irrelevant pattern, κ,
outlier pattern, label. With s_j = p_jᵀ W_Bᵀ W_C p_query over dictionary rows and wᵀp_j, every type has a decay and an
inflow, and `iclab.theory.evolution` does the rest. The query is every pattern of every task, with every irrelevant
pattern and, if it may carry one, every outlier pattern. Its κ takes the nodes of a Gauss–Legendre rule. So does the κ
of an example if there is a gate, with `MORE` nodes; without one, κ adds a uniform number to the vote, and needs no
nodes.

The probe says how far it may be wrong: its bound is `SAFETY` times the change when the grid has half as many points,
the κ of an example one node less, and that of the query one node more, by the Gauss–Lobatto rule. It has nodes at the
ends of κ, where rare errors lie, and none at 0, where Gauss's has one and kinks may be. Changes are taken pattern by
pattern, so that those of different sign do not cancel. For the linear model the part of the series is known and is
added. The weights are those of the training, so a model trained in float32 answers prompts with rounding errors that
this does not have. Products that are no more than rounding errors of the patterns are 0, so that ties are ties.

Of a trained Mamba and 20 examples, twice the grid changes the error by less than 1e-6. For short prompts and barely
trained weights a grid is coarse: it may miss 1e-3, and the bound says so. Whoever needs more asks for an ``accuracy``:
queries for which the grid may miss more are then computed on cells, so that twice the grid changes the mean by less. If
there would be too many cells, the bound says what they may miss.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from iclab.config import InputError
from iclab.engines import Trained, Training, stacked_dictionary, weights
from iclab.models import MODELS, Architecture
from iclab.probes.probe import Row
from iclab.probes.worst import seeds_module
from iclab.prompts import Prompts
from iclab.theory.evolution import GRID, Context, Rates, TokenTypes, evolve

Array = NDArray[np.float64]
Rows = NDArray[np.int64]
Nodes = tuple[Array, Array]

NODES = {True: 3, False: 5}
"""Values of the query's κ, with a gate and without: the vote of a sum hangs on it more."""
MORE = 2
"""So many more values has the κ of an example, with a gate."""
EXACT = ("error", "error_bound", "hinge", "hinge_bound")
BRACKETS = ("error_low", "error_high", "hinge_low", "hinge_high")
SAFETY, FLOOR = 3.0, 1e-10
"""A bound is the first times the changes that are seen, plus the second, below which rare κ near the ends decide."""
NO_VOTE = 2.0**-21
"""Cosines below this are rounding errors of patterns in float32; such votes are 0, so that ties are ties."""
CHUNK = 256
"""Queries that are worked on at once."""


def mamba_flow(logit: Array) -> tuple[Array, Array]:
    """Return Mamba's decay and inflow at a logit."""
    return _sigmoid(-logit), _sigmoid(logit)


class Tables(NamedTuple):
    """One seed's weights over the rows of the test dictionary, the label last."""

    products: Array
    """(D', D' + 1) p_jᵀ W_Bᵀ W_C p_q."""
    logits: Array | None
    """(D' + 1,) wᵀ p_j; None without a gate."""
    flow: Callable[[Array], tuple[Array, Array]] = mamba_flow
    """Decay and inflow at a logit."""


@dataclass(frozen=True)
class Queries:
    """Every kind of query: arrays (queries,)."""

    row: Rows
    """The dictionary row of its relevant pattern."""
    other: Rows
    """The row of the task's other pattern."""
    target: Array
    """z."""
    irrelevant: Rows
    kappa: Array
    outlier: Rows
    strength: Array
    """The coefficient of the outlier pattern; 0 for a clean query."""
    share: Array
    """The probability of such a query."""
    side: Rows
    """Which pattern of which task."""

    def part(self, which: slice) -> Queries:
        """Return some of them."""
        return Queries(*(getattr(self, name)[which] for name in self.__dataclass_fields__))

    def over_kappa(self, values: Array) -> Array:
        """Return the means over κ, (sides of tasks, irrelevant patterns); κ = 0 goes with every pattern."""
        patterns, column = np.unique(self.irrelevant, return_inverse=True)
        found = np.zeros((int(self.side.max()) + 1, len(patterns)))
        weighted, still = values * self.share * len(found), self.kappa == 0
        np.add.at(found, (self.side[~still], column[~still]), weighted[~still] * len(patterns))
        np.add.at(found, self.side[still], weighted[still, None])
        return found


def exact_obstacle(training: Training, count: int) -> str:
    """Return the reason why the error of a training cannot be computed without sampling; empty if it can."""
    architecture = training.model.architecture
    if architecture.fused_gate is not None and architecture.gate_form(training.model.options) is not None:
        return ""
    known = ", ".join(name for name, made in MODELS.items() if made.fused_gate is not None)
    return (
        f"probe = exact: model {training.model.label} is not one layer with one decay per token or none, for which "
        f"errors can be computed without sampling; models that are: {known}"
    )


def types_obstacle(training: Training, prompts: Prompts) -> str:
    """Return the reason why prompts have too many types of token; empty if they have few."""
    for name in ("labels", "placement"):
        rule = getattr(prompts.outliers, name)
        if prompts.outliers.present and not isinstance(rule, str):
            return f"outliers.{name} = {rule.path}: the probe exact knows only the built-in rules"
    for name, default in (("signal", (1.0, 1.0)), ("noise", 0.0), ("label_dimension", None)):
        if (value := getattr(prompts, name)) != default:
            return f"prompts.{name} = {value}: the probe exact knows only {default}"
    if prompts.relevant_count is not None and prompts.has_others:
        return f"prompts.relevant_count = {prompts.relevant_count}: the probe exact knows only relevant_fraction"
    return ""


def exact_rows(
    trained: Trained,
    inside: dict[str, torch.Tensor],
    prompts: Prompts,
    *,
    grid: int = GRID,
    nodes: int | None = None,
    accuracy: float | None = None,
    bracket: bool = False,
    threads: int = 1,
) -> list[Row]:
    """Return one row per seed: 1 − Pr(zF > 0) and E max(0, 1 − zF), each with a bound on its numerical error.

    With an ``accuracy``, queries for which the grid is too coarse are computed on cells. ``bracket`` adds rigorous
    bounds for the given nodes of κ; they are wider, and cost three times as much.
    """
    if obstacle := types_obstacle(trained.training, prompts):
        raise InputError(obstacle)
    if grid < 32 or (nodes is not None and nodes < 2):
        raise InputError(f"grid = {grid}, nodes = {nodes}: needs a grid of at least 32 points and at least 2 nodes")
    rows = []
    for seed, tables in zip(trained.seeds, _tables(trained, inside, prompts), strict=True):
        many = nodes or NODES[tables.logits is not None]
        found = rates(tables, prompts, grid, many, accuracy=accuracy, bracket=bracket, threads=threads)
        rough = rates(tables, prompts, grid // 2, many, rough=True, threads=threads)
        row: Row = {"seed": seed}
        for name in ("error", "hinge"):
            fine, coarse = getattr(found, name), getattr(rough, name)
            bound = SAFETY * float(np.abs(fine - coarse).mean()) + float(found.missed.mean()) + FLOOR
            if tables.logits is None:
                bound += float((getattr(found, f"{name}_high") - getattr(found, f"{name}_low")).mean()) / 2
            row |= {name: float(fine.mean()), f"{name}_bound": bound}
        rows.append(row | {name: float(getattr(found, name).mean()) for name in BRACKETS if bracket})
    return rows


def rates(
    tables: Tables,
    prompts: Prompts,
    grid: int = GRID,
    nodes: int | None = None,
    *,
    rough: bool = False,
    accuracy: float | None = None,
    bracket: bool = False,
    threads: int = 1,
) -> Rates:
    """Return the means over κ of one seed, an array over (sides of tasks, irrelevant patterns) of the query.

    ``rough`` takes other nodes of κ, to compare with.
    """
    gated = tables.logits is not None
    many = nodes or NODES[gated]
    every, outliers = queries(prompts, many + rough, rough), prompts.outliers
    placement = "random" if not outliers.present else outliers.placement
    context = Context(prompts.context_length, outliers.fraction, outliers.count, placement)  # type: ignore[arg-type]
    parts, kappas = [], kappa_nodes(prompts.irrelevant_scale, many + MORE - rough)
    for start in range(0, len(every.row), CHUNK):
        some = every.part(slice(start, start + CHUNK))
        rare = np.sqrt(np.maximum(some.share, 1e-12))  # what queries miss has either sign, and so adds up in squares
        each = None if accuracy is None else 0.5 * accuracy / rare
        how: dict[str, Any] = {"grid": grid, "accuracy": each, "bracket": bracket, "threads": threads}
        if tables.logits is not None:
            logit = tables.logits[some.row] + some.kappa * tables.logits[some.irrelevant]
            how["scale"] = tables.flow(logit + some.strength * tables.logits[some.outlier])[0]
        elif prompts.irrelevant_scale:
            how["spread"] = prompts.irrelevant_scale * _read(tables, some)[:, _irrelevant(prompts)]
        clean = token_types(tables, prompts, some, kappas, outlier=False)
        corrupted = token_types(tables, prompts, some, kappas, outlier=True) if outliers.present else None
        parts.append(evolve(clean, context, corrupted, **how))
    joined = (np.concatenate(values) for values in zip(*parts, strict=True))
    return Rates(*(every.over_kappa(values) for values in joined))


def queries(prompts: Prompts, nodes: int, ends: bool = False) -> Queries:
    """List every query: a side of a task, an irrelevant pattern, a node of κ, an outlier pattern or none.

    κ = 0 needs no irrelevant pattern.
    """
    first = _first_relevant(prompts)
    pairs = np.concatenate([prompts.pairs, prompts.pairs[:, ::-1]]).astype(np.int64)  # (classes, 2)
    target = np.repeat([1.0, -1.0], len(prompts.pairs))
    rows, (kappa, weight) = _irrelevant(prompts), kappa_nodes(prompts.irrelevant_scale, nodes, ends)
    kinds = [(rows[0], 0.0, w) for x, w in zip(kappa, weight, strict=True) if x == 0]
    kinds += [(k, x, w / len(rows)) for x, w in zip(kappa, weight, strict=True) if x != 0 for k in rows]
    every = [(*kind[:2], *extra[:2], kind[2] * extra[2]) for kind in kinds for extra in _query_outliers(prompts)]
    k, x, o, strength, w = (np.array(values) for values in zip(*every, strict=True))
    classes, many = len(pairs), len(every)
    return Queries(
        row=first + np.repeat(pairs[:, 0], many),
        other=first + np.repeat(pairs[:, 1], many),
        target=np.repeat(target, many),
        irrelevant=np.tile(k.astype(np.int64), classes),
        kappa=np.tile(x, classes),
        outlier=np.tile(o.astype(np.int64), classes),
        strength=np.tile(strength, classes),
        share=np.tile(w, classes) / classes,
        side=np.repeat(np.arange(classes), many),
    )


def _query_outliers(prompts: Prompts) -> list[tuple[int, float, float]]:
    """Return the outlier rows of a query, their strength and probability; the first is that of a clean query."""
    chance = prompts.outliers.query
    first, many = prompts.outliers.rows(prompts.patterns)
    corrupted = [(first + i, prompts.outliers.scale, chance / many) for i in range(many if chance else 0)]
    return [(0, 0.0, 1.0 - chance), *corrupted]


def token_types(tables: Tables, prompts: Prompts, some: Queries, kappas: Nodes, *, outlier: bool) -> TokenTypes:
    """Return the types of a clean example or of an outlier, for each query; without a gate, those with κ = 0."""
    relevant, truth, p = _relevant(prompts, some)  # (Q, R), (Q, R), (R,)
    strength, at, label, q = _corruption(prompts, truth) if outlier else _clean(prompts, truth)

    def along(values: Array) -> Array:  # (Q, D' + 1) to (Q, R, O): the value of each type without κ
        own = np.take_along_axis(values, relevant, 1)[:, :, None] + strength * values[:, None, at]
        return own + label * values[:, None, -1:]

    read, sign = _read(tables, some), label * some.target[:, None, None]
    share = np.broadcast_to(p[:, None] * q, sign.shape[1:])
    if tables.logits is None:
        return TokenTypes(share.reshape(1, -1), 1.0, (sign * along(read)).reshape(len(sign), -1))
    irrelevant, (kappa, weight) = _irrelevant(prompts), kappas

    def spread(values: Array) -> Array:  # (Q, D' + 1) to (Q, R, O, M2, nodes)
        return along(values)[..., None, None] + values[:, None, None, irrelevant, None] * kappa

    vote = sign[..., None, None] * spread(read)
    logit = spread(np.broadcast_to(tables.logits, read.shape))
    share = share[..., None, None] / len(irrelevant) * np.broadcast_to(weight, vote.shape[-2:])
    flat = (len(sign), -1)
    decay, inflow = tables.flow(logit)
    return TokenTypes(share.reshape(1, -1), decay.reshape(flat), (inflow * vote).reshape(flat))


def _read(tables: Tables, some: Queries) -> Array:
    """Return p_jᵀ W_Bᵀ W_C p_query of every dictionary row and the label, (Q, D' + 1)."""
    read = tables.products[some.row] + some.kappa[:, None] * tables.products[some.irrelevant]
    return read + some.strength[:, None] * tables.products[some.outlier]


def _relevant(prompts: Prompts, some: Queries) -> tuple[Rows, Array, Array]:
    """Return the relevant row and the true label of an example, (Q, R), and their probabilities, (R,)."""
    rows, labels = [some.row, some.other], [some.target, -some.target]
    p, inside = [0.5 * prompts.relevant_fraction] * 2, prompts.relevant - 2
    if prompts.relevant_fraction < 1:
        first = _first_relevant(prompts)
        every = np.broadcast_to(np.arange(prompts.relevant), (len(some.row), prompts.relevant))
        mine = (every + first == some.row[:, None]) | (every + first == some.other[:, None])
        others = every[~mine].reshape(-1, inside) + first  # (Q, M1 − 2)
        for label in (1.0, -1.0):
            rows += list(others.T)
            labels += [np.full(len(some.row), label)] * inside
            p += [0.5 * (1 - prompts.relevant_fraction) / inside] * inside
    return np.stack(rows, 1), np.stack(labels, 1), np.array(p)


def _clean(prompts: Prompts, truth: Array) -> tuple[float, Rows, Array, Array]:
    """Return the same for a clean example: it shows its true label, or by label noise the opposite."""
    chance = prompts.label_noise
    signs, share = (np.array([1.0, -1.0]), np.array([1 - chance, chance])) if chance else (np.ones(1), np.ones(1))
    return 0.0, np.zeros(len(signs), dtype=np.int64), truth[..., None] * signs, share


def _corruption(prompts: Prompts, truth: Array) -> tuple[float, Rows, Array, float | Array]:
    """Return κ_a, the outlier rows (O,), the labels shown (Q, R, O) and the probability of each of the O."""
    outliers = prompts.outliers
    first, many = outliers.rows(prompts.patterns)
    rows = first + np.arange(many)
    if outliers.labels == "random":
        shown = np.broadcast_to(np.repeat([1.0, -1.0], many), (*truth.shape, 2 * many))
        return outliers.scale, np.tile(rows, 2), shown, 0.5 / many
    label = -truth if outliers.labels == "flip" else np.full_like(truth, outliers.target)
    return outliers.scale, rows, np.broadcast_to(label[..., None], (*truth.shape, many)), 1.0 / many


def _first_relevant(prompts: Prompts) -> int:
    return prompts.patterns.count + len(prompts.outliers.mixtures) if prompts.relevant_mixtures else 0


def _irrelevant(prompts: Prompts) -> Rows:
    """Return the dictionary rows of the irrelevant patterns."""
    if prompts.irrelevant_mixtures:
        first = prompts.patterns.count + len(prompts.outliers.mixtures) + len(prompts.relevant_mixtures)
        return first + np.arange(len(prompts.irrelevant_mixtures))
    return prompts.patterns.relevant + np.arange(prompts.patterns.irrelevant)


def kappa_nodes(scale: float, nodes: int, ends: bool = False) -> Nodes:
    """Return the Gauss–Legendre rule for κ uniform on (−scale, scale); with ``ends``, the Gauss–Lobatto rule."""
    x, w = np.polynomial.legendre.leggauss(nodes if scale else 1)
    if scale and ends:
        last = np.polynomial.Legendre.basis(nodes - 1)
        x = np.concatenate(([-1.0], last.deriv().roots(), [1.0]))
        w = 2.0 / (nodes * (nodes - 1) * last(x) ** 2)
    return scale * np.where(np.abs(x) < 1e-12, 0.0, x), w / 2


def _tables(trained: Trained, inside: dict[str, torch.Tensor], prompts: Prompts) -> list[Tables]:
    """Return the tables of every seed."""
    dictionary = stacked_dictionary(trained.training, trained.seeds, prompts).cpu().double().numpy()  # (S, D', d)
    found = []
    for i, rows in enumerate(dictionary):
        tokens = np.zeros((len(rows) + 1, rows.shape[1] + 1))  # with labels: the last is the label alone
        tokens[:-1, :-1], tokens[-1, -1] = rows, 1.0
        key, query = (inside[name][i].cpu().double().numpy() for name in ("key", "query"))
        logits = tokens @ inside["gate"][i].cpu().double().numpy() if "gate" in inside else None
        flow: Callable[[Array], tuple[Array, Array]] = mamba_flow
        if trained.training.model.architecture.fused_gate not in ("product", "none"):
            logits = np.zeros(len(tokens)) if logits is None else logits
            flow = _flow_of(seeds_module(trained.training.model, inside, i, tokens.shape[1]))
        read, seen = tokens[:-1] @ query.T, tokens @ key.T
        sizes = np.linalg.norm(read, axis=1)[:, None] * np.linalg.norm(seen, axis=1)
        products = read @ seen.T
        found.append(Tables(np.where(np.abs(products) > NO_VOTE * sizes, products, 0.0), logits, flow))
    return found


def _flow_of(module: Architecture) -> Callable[[Array], tuple[Array, Array]]:
    def flow(logit: Array) -> tuple[Array, Array]:
        with torch.no_grad():
            found = module.flow(torch.from_numpy(logit))
        return found.decay.numpy(), found.inflow.numpy()

    return flow


def tables(trained: Trained, prompts: Prompts, at: int | None = None) -> list[Tables]:
    """Return p_jᵀ W_Bᵀ W_C p_q and wᵀp_j of every seed over the dictionary of the prompts."""
    return _tables(trained, weights(trained, at), prompts)


def _sigmoid(x: Array) -> Array:
    with np.errstate(over="ignore"):
        return 1.0 / (1.0 + np.exp(-x))
