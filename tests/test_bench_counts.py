"""How much arithmetic a prompt needs: counted in the kernels, step by step, and in the dense models by PyTorch."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from iclab.bench.counts import deep_counts, one_layer_counts, pass_counts, transformer_counts
from iclab.engines.fused.deep import answer_kernels, backward_kernels, forward_kernels, pass_kernels
from iclab.engines.fused.deep.answer_kernels import make_plan
from iclab.engines.fused.deep.shape import ALL, CONTEXT, GATED, LINEAR, PAST, SOFTMAX, Shape
from iclab.engines.fused.one_layer import step_kernels
from iclab.models import MODELS


class Counted(float):
    """A number that counts the products it takes part in."""

    products = 0

    def __mul__(self, other):
        Counted.products += 1
        return Counted(float(self) * float(other))

    __rmul__ = __mul__

    def __add__(self, other):
        return Counted(float(self) + float(other))

    __radd__ = __add__

    def __sub__(self, other):
        return Counted(float(self) - float(other))

    def __neg__(self):
        return Counted(-float(self))

    def __rtruediv__(self, other):
        return Counted(float(other) / float(self))


def numbers(*shape):
    out = np.empty(shape, dtype=object)
    out[...] = Counted(0.5)
    return out


def count(function, *arguments):
    Counted.products = 0
    function.py_func(*arguments)
    return Counted.products


def multiply(out, left, right, turned, add):
    out[...] = (left.T if turned else left) @ right


@pytest.mark.parametrize("gated", [True, False])
def test_one_layer_takes_the_counted_products(monkeypatch, gated):
    length, rows, rank, lanes = 3, 5, 5, 1
    monkeypatch.setattr(step_kernels, "LANES", lanes)
    monkeypatch.setattr(step_kernels, "exponential", lambda x: Counted(1.0))
    monkeypatch.setattr(step_kernels, "multiply", multiply)
    monkeypatch.setattr(step_kernels, "turn", lambda out, values: np.copyto(out, values.T))
    tokens = length + 1
    p = SimpleNamespace(
        relevant=np.zeros(tokens, int),
        irrelevant=np.ones(tokens, int),
        outlier=np.full(tokens, 2),
        kappa=numbers(tokens),
        strength=numbers(tokens),
        label=numbers(tokens),
        target=numbers(lanes),
    )
    p.strength[length] = 0  # the query has no outlier
    s = SimpleNamespace(
        base=np.zeros(tokens, int),
        **{name: numbers(tokens) for name in ("score", "inflow", "decay", "before")},
        output=numbers(lanes),
        read=numbers(rows + 1),
    )
    w = SimpleNamespace(
        key=numbers(rank, rank + 1),
        query=numbers(rank, rank),
        gate=numbers(rank + 1),
        key_step=numbers(rank, rank + 1),
        query_step=numbers(rank, rank),
        gate_step=numbers(rank + 1),
    )
    t = SimpleNamespace(
        products=numbers(rows, rows + 1),
        logits=numbers(rows + 1),
        pairs=numbers(rows, rows + 1),
        along=numbers(rows + 1),
        square=numbers(rank, rank + 1),
        turned=numbers(rank + 1, rank),
    )
    gate = SimpleNamespace(kind=step_kernels.PRODUCT if gated else step_kernels.UNGATED)
    frame = numbers(rows, rank)
    expected = one_layer_counts(length, rows, rank, gated)
    assert count(step_kernels.forward, gate, p, s, length, t.products, t.logits) == expected.forward
    more = (p, s, length, 0, Counted(1.0), t.pairs, t.along, numbers(1), numbers(rows + 1))
    assert count(step_kernels.backward, gate, *more) == expected.backward
    tables = count(step_kernels.fill_tables, w, t, frame, True) + count(step_kernels.gradients, w, t, frame, True)
    assert tables == expected.batch
    assert expected.exponentials == (tokens if gated else 0)


KINDS = {"deep-mamba": (GATED, PAST), "deep-linear": (LINEAR, ALL), "deep-softmax": (SOFTMAX, CONTEXT)}


def shape(model, length, channels, layers, **more):
    kind, sees = KINDS[model]
    usual = {"heads": 1, "rows": channels - 1, "parts": 0, "gates": int(kind == GATED), "residual": True}
    usual |= {"normed": model != "deep-linear", "apart": False, "label_only": False, "factor": 1.0, "width": 1.0} | more
    by_layer = np.array([(kind, sees, usual["normed"])] * layers)
    return Shape(by_layer, kind, sees, layers=layers, tokens=length + 1, channels=channels, **usual)


@pytest.fixture
def recorded(monkeypatch):
    """Run the passes in Python, and record how many products of lanes their matrix products take."""
    found = []
    for module in (answer_kernels, forward_kernels, backward_kernels, pass_kernels):
        for name, value in list(vars(module).items()):
            if hasattr(value, "py_func"):
                monkeypatch.setattr(module, name, value.py_func)
        stubs = {
            "combine": lambda out, o, left, a, right, b, rows, columns, terms, add: found.append(
                rows * columns * terms
            ),
            "multiply": lambda out, at, m, o, columns, v, w, rows, count, add: found.append(columns * rows * count),
            **dict.fromkeys(("load", "spread", "larger", "exponential"), lambda *arguments: 1.0),
            **dict.fromkeys(("store", "clear", "copy", "stay_apart"), lambda *arguments: None),
        }
        for name, stub in stubs.items():
            if hasattr(module, name):
                monkeypatch.setattr(module, name, stub)
    return found


class Memory:
    """Arrays of any name."""

    def __getattr__(self, name):
        return np.ones(1 << 16, dtype=np.float32)


@pytest.mark.parametrize("model", KINDS)
@pytest.mark.parametrize("more", [{}, {"layers": 4}, {"parts": 5}, {"parts": 3, "heads": 2, "rows": 2}])
def test_deep_kernels_take_the_counted_products_or_a_few_more(recorded, model, more):
    made = shape(model, **{"length": 21, "channels": 12, "layers": 3} | more)
    expected, plan = deep_counts(made), make_plan(made)
    answer_kernels.answer(plan, made, Memory(), Memory())
    answer = sum(recorded)
    recorded.clear()
    pass_kernels.forward(made, Memory(), Memory())
    forward = sum(recorded)
    pass_kernels.backward(made, Memory(), Memory())
    backward = sum(recorded) - forward
    assert (model, answer > 0) in {("deep-linear", "parts" not in more), (model, False)}
    if answer:  # all that the backward pass needs comes after the answer
        forward, backward = answer, forward + backward
    assert expected.forward <= forward <= 1.1 * expected.forward
    assert expected.backward <= backward <= 1.2 * expected.backward


@pytest.mark.parametrize("model", KINDS)
def test_deep_models_take_the_products_that_torch_counts(model):
    length, dimension, layers, batch = 6, 5, 3, 4
    network = MODELS[model](width=dimension + 1, layers=layers)
    tokens = torch.randn(batch, length + 1, dimension + 1)
    with FlopCounterMode(display=False) as forward:
        output = network(tokens).output.sum()
    with FlopCounterMode(display=False) as backward:
        output.backward()
    expected = pass_counts(shape(model, length, dimension + 1, layers))
    hidden = 0  # the dense Mamba multiplies what a position does not see too, two products forward
    if model == "deep-mamba":
        hidden = (layers - 1) * (length * (length + 1) // 2) * (dimension + 1)
    assert forward.get_total_flops() / 2 == batch * (expected.forward + 2 * hidden) + expected.batch / 3
    above = hidden // (layers - 1) if hidden else 0  # layers above the first go back to the tokens too
    back = batch * (expected.backward + 2 * hidden + 2 * (layers - 2) * above)
    assert backward.get_total_flops() / 2 == back + 2 * expected.batch / 3


def test_the_transformer_takes_the_products_that_torch_counts():
    length, rows, neurons, values, batch = 6, 5, 11, 7, 3
    outer = torch.randn(rows, rows)  # coordinates of rows; constant
    key, query, value, hidden = (
        torch.randn(*size, requires_grad=True)
        for size in ((rows, rows), (rows, rows), (values, rows), (neurons, values))
    )
    mixed = torch.randn(rows, batch, requires_grad=True)
    with FlopCounterMode(display=False) as counter:
        products = (query @ outer.T).T @ (key @ outer.T)
        table = hidden @ (value @ outer.T)
        (products.sum() + torch.relu(table @ mixed).sum()).backward()
    expected = transformer_counts(length, rows, neurons, values)
    assert counter.get_total_flops() / 2 == batch * (expected.forward + expected.backward) + expected.batch
    assert expected.exponentials == length
