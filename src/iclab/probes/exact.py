"""Error rate and hinge loss of a trained one-layer model without sampling: probe ``exact``.

Given the query, the examples of a prompt are independent and of few types: relevant pattern, irrelevant pattern, κ,
outlier pattern, label. With s_j = p_jᵀ W_Bᵀ W_C p_query over dictionary rows and wᵀp_j, every type has a decay and an
inflow, and `iclab.theory.evolution` does the rest. κ, of the query and of the examples, takes the nodes of a
Gauss–Legendre rule. The query is every pattern of every task, with every irrelevant pattern.

The probe says how far it may be wrong: its bound is the change when the grid has half as many points, plus the change
when κ has one node less. Both are larger than what a finer grid and more nodes would change. The weights are those of
the training, so a model trained in float32 answers prompts with rounding errors that this does not have.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from iclab.config import InputError
from iclab.engines import Trained, Training, stacked_dictionary, weights
from iclab.models import MODELS
from iclab.probes.probe import Row
from iclab.prompts import Prompts
from iclab.theory.evolution import Context, Rates, TokenTypes, evolve

Array = NDArray[np.float64]
Rows = NDArray[np.int64]

GRID = 256
NODES = 3
EXACT = ("error", "error_bound", "hinge", "hinge_bound")
BRACKETS = ("error_low", "error_high", "hinge_low", "hinge_high")
CHUNK = 256
"""Queries that are worked on at once."""


class Tables(NamedTuple):
    """One seed's weights over the rows of the test dictionary, the label last."""

    products: Array
    """(D', D' + 1) p_jᵀ W_Bᵀ W_C p_q."""
    logits: Array | None
    """(D' + 1,) wᵀ p_j; None without a gate."""


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
    share: Array
    """The probability of such a query."""

    def part(self, which: slice) -> Queries:
        """Return some of them."""
        return Queries(*(getattr(self, name)[which] for name in self.__dataclass_fields__))


def exact_obstacle(training: Training, count: int) -> str:
    """Return the reason why the error of a training cannot be computed without sampling; empty if it can."""
    if training.model.architecture.fused_gate is not None:
        return ""
    known = ", ".join(name for name, made in MODELS.items() if made.fused_gate is not None)
    return (
        f"probe = exact: model {training.model.label} is not one layer with Mamba's gate or none, for which errors can "
        f"be computed without sampling; models that are: {known}"
    )


def prompts_obstacle(prompts: Prompts) -> str:
    """Return the reason why prompts have too many types of token; empty if they have few."""
    for name in ("labels", "placement"):
        rule = getattr(prompts.outliers, name)
        if prompts.outliers.present and not isinstance(rule, str):
            return f"outliers.{name} = {rule.path}: the probe exact knows only the built-in rules"
    for name, default in (("signal", (1.0, 1.0)), ("noise", 0.0), ("label_dimension", None)):
        if (value := getattr(prompts, name)) != default:
            return f"prompts.{name} = {value}: the probe exact knows only {default}"
    return ""


def exact_rows(
    trained: Trained,
    inside: dict[str, torch.Tensor],
    prompts: Prompts,
    *,
    grid: int = GRID,
    nodes: int = NODES,
    bracket: bool = False,
    threads: int = 1,
) -> list[Row]:
    """Return one row per seed: 1 − Pr(zF > 0) and E max(0, 1 − zF), each with a bound on its numerical error.

    ``bracket`` adds rigorous bounds for the given nodes of κ; they are wider, and cost three times as much.
    """
    if obstacle := prompts_obstacle(prompts):
        raise InputError(obstacle)
    if nodes < 1 or grid < 32:
        raise InputError(f"grid = {grid}, nodes = {nodes}: needs a grid of at least 32 points and at least 1 node")
    rows = []
    for seed, tables in zip(trained.seeds, _tables(trained, inside, prompts), strict=True):
        found = rates(tables, prompts, grid, nodes, bracket=bracket, threads=threads)
        coarse = rates(tables, prompts, grid // 2, nodes, threads=threads)
        fewer = coarse
        if nodes > 1 and prompts.irrelevant_scale:
            fewer = rates(tables, prompts, grid // 2, nodes - 1, threads=threads)
        row: Row = {"seed": seed}
        for name in ("error", "hinge"):
            here, half, less = (float(getattr(part, name)) for part in (found, coarse, fewer))
            row |= {name: here, f"{name}_bound": abs(here - half) + abs(half - less)}
        rows.append(row | {name: float(getattr(found, name)) for name in BRACKETS if bracket})
    return rows


def rates(
    tables: Tables, prompts: Prompts, grid: int = GRID, nodes: int = NODES, *, bracket: bool = False, threads: int = 1
) -> Rates:
    """Return the means over all queries of one seed."""
    every, outliers = queries(prompts, nodes), prompts.outliers
    placement = "random" if not outliers.present else outliers.placement
    context = Context(prompts.context_length, outliers.fraction, outliers.count, placement)  # type: ignore[arg-type]
    parts = []
    for start in range(0, len(every.row), CHUNK):
        some = every.part(slice(start, start + CHUNK))
        scale = np.ones(len(some.row))
        if tables.logits is not None:
            scale = _sigmoid(-(tables.logits[some.row] + some.kappa * tables.logits[some.irrelevant]))
        clean = token_types(tables, prompts, some, nodes, outlier=False)
        corrupted = token_types(tables, prompts, some, nodes, outlier=True) if outliers.present else None
        parts.append(evolve(clean, context, corrupted, scale=scale, grid=grid, bracket=bracket, threads=threads))
    joined = Rates(*(np.concatenate(values) for values in zip(*parts, strict=True)))
    return joined.mean(every.share)


def queries(prompts: Prompts, nodes: int) -> Queries:
    """List every query: a side of a task, an irrelevant pattern, a node of κ; κ = 0 needs no irrelevant pattern."""
    first = _first_relevant(prompts)
    pairs = np.concatenate([prompts.pairs, prompts.pairs[:, ::-1]]).astype(np.int64)  # (classes, 2)
    target = np.repeat([1.0, -1.0], len(prompts.pairs))
    rows, (kappa, weight) = _irrelevant(prompts), _nodes(prompts.irrelevant_scale, nodes)
    kinds = [(rows[0], 0.0, w) for x, w in zip(kappa, weight, strict=True) if x == 0]
    kinds += [(k, x, w / len(rows)) for x, w in zip(kappa, weight, strict=True) if x != 0 for k in rows]
    k, x, w = (np.array(values) for values in zip(*kinds, strict=True))
    classes, many = len(pairs), len(kinds)
    return Queries(
        row=first + np.repeat(pairs[:, 0], many),
        other=first + np.repeat(pairs[:, 1], many),
        target=np.repeat(target, many),
        irrelevant=np.tile(k.astype(np.int64), classes),
        kappa=np.tile(x, classes),
        share=np.tile(w, classes) / classes,
    )


def token_types(tables: Tables, prompts: Prompts, some: Queries, nodes: int, *, outlier: bool) -> TokenTypes:
    """Return the types of a clean example or of an outlier, for each query."""
    relevant, truth, p = _relevant(prompts, some)  # (Q, R), (Q, R), (R,)
    irrelevant, (kappa, weight) = _irrelevant(prompts), _nodes(prompts.irrelevant_scale, nodes)
    strength, at, label, q = _corruption(prompts, truth) if outlier else (0.0, np.zeros(1, int), truth[..., None], 1.0)
    read = tables.products[some.row] + some.kappa[:, None] * tables.products[some.irrelevant]  # (Q, D' + 1)

    def along(values: Array) -> Array:  # (Q, D' + 1) to (Q, R, O, M2, nodes): the value of each type
        own = np.take_along_axis(values, relevant, 1)[:, :, None] + strength * values[:, None, at]  # (Q, R, O)
        own = own + label * values[:, None, -1:]
        return own[..., None, None] + values[:, None, None, irrelevant, None] * kappa

    vote = label[..., None, None] * some.target[:, None, None, None, None] * along(read)
    shape = np.broadcast_shapes(vote.shape)
    share = np.broadcast_to((p[:, None] * q)[..., None, None] / len(irrelevant) * weight, shape[1:]).reshape(1, -1)
    flat = (shape[0], -1)
    if tables.logits is None:
        return TokenTypes(share, np.ones((1, 1)), vote.reshape(flat))
    logit = along(np.broadcast_to(tables.logits, (shape[0], len(tables.logits))))
    return TokenTypes(share, _sigmoid(-logit).reshape(flat), (_sigmoid(logit) * vote).reshape(flat))


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


def _corruption(prompts: Prompts, truth: Array) -> tuple[float, Rows, Array, float]:
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


def _nodes(scale: float, nodes: int) -> tuple[Array, Array]:
    """Return nodes and weights of the Gauss–Legendre rule for κ uniform on (−scale, scale)."""
    x, w = np.polynomial.legendre.leggauss(nodes if scale else 1)
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
        found.append(Tables((tokens[:-1] @ query.T) @ (key @ tokens.T), logits))
    return found


def tables(trained: Trained, prompts: Prompts, at: int | None = None) -> list[Tables]:
    """Return p_jᵀ W_Bᵀ W_C p_q and wᵀp_j of every seed over the dictionary of the prompts."""
    return _tables(trained, weights(trained, at), prompts)


def _sigmoid(x: Array) -> Array:
    with np.errstate(over="ignore"):
        return 1.0 / (1.0 + np.exp(-x))
