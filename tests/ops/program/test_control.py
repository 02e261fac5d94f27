# SPDX-License-Identifier: Apache-2.0
"""Operators that run other graphs, against LiteRT."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from circlekit.errors import ModelError, ShapeError, UnsupportedError
from circlekit.ir.dtypes import boolean, f32, i32
from circlekit.ir.graph import Graph
from circlekit.ir.op import Op
from circlekit.ir.value import Array, Value
from circlekit.ops.arithmetic.binary import Add, Mul
from circlekit.ops.arithmetic.comparison import Less
from circlekit.ops.program.control import Call, CallOnce, If, StablehloComposite, While
from tests.ops.litert import const, run_litert


def graph(name: str, inputs: Sequence[Value], *ops: Op, outputs: Sequence[Value] | None = None) -> Graph:
    """Return a graph of ``ops``, and give their constants names.

    ``outputs``: by default the results of the last operator.
    """
    made = Graph(name, inputs)
    for op in ops:
        for i, value in enumerate(op.inputs):
            if value is not None and value.is_const:
                value.name = f"{name}_{op.code}_{i}"
        made.append(op)
    made.outputs = list(outputs or ops[-1].results)
    return made


def run(graph: Graph, inputs: Sequence[Array]) -> list[Array]:
    """Run the operators of ``graph`` in order; return its outputs."""
    known = dict(zip(graph.inputs, inputs, strict=True))
    for op in graph:
        arrays = [known[v] if v in known else v.array() for v in op.inputs if v is not None]
        known.update(zip(op.results, op.call(run, *arrays), strict=True))
    return [known[v] for v in graph.outputs]


def state(prefix: str, shape: tuple[int, ...] = (3,)) -> list[Value]:
    return [Value(f"{prefix}_i", i32, ()), Value(f"{prefix}_x", f32, shape)]


def doubling(limit: int) -> tuple[Graph, Graph]:
    """Return the graphs of a WHILE: the condition i < ``limit``, and the body (i + 1, 2x)."""
    tested, carried = state("cond"), state("body")
    cond = graph("cond", tested, Less(tested[0], const(limit, np.int32)))
    count = Add(carried[0], const(1, np.int32))
    double = Mul(carried[1], const(2, np.float32))
    return cond, graph("body", carried, count, double, outputs=[count.output, double.output])


@pytest.mark.parametrize("limit", [0, 1, 7])
def test_while(limit: int) -> None:
    cond, body = doubling(limit)
    values = state("main")
    main = graph("main", values, While(*values, cond=cond, body=body))
    inputs = [np.array(0, np.int32), np.array([1, -2, 0.5], np.float32)]
    for got, wanted in zip(run(main, inputs), run_litert([main, cond, body], inputs), strict=True):
        assert got.dtype == wanted.dtype
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("flag", [True, False])
def test_if(flag: bool) -> None:
    then, other = Value("t_x", f32, (2,)), Value("e_x", f32, (2,))
    branches = graph("then", [then], Add(then, then)), graph("else", [other], Mul(other, other))
    condition, x = Value("flag", boolean, ()), Value("x", f32, (2,))
    main = graph("main", [condition, x], If(condition, x, then_graph=branches[0], else_graph=branches[1]))
    inputs = [np.array(flag), np.array([3, 5], np.float32)]
    (got,), (wanted,) = run(main, inputs), run_litert([main, *branches], inputs)
    np.testing.assert_array_equal(got, wanted)


def test_shapes_that_change_are_unknown() -> None:
    cond, body = doubling(3)
    values = state("main")
    assert [v.shape for v in While(*values, cond=cond, body=body).results] == [(), (3,)]
    longer = state("main", (5,))
    assert [v.shape for v in While(*longer, cond=cond, body=body).results] == [(), (None,)]


INTEGERS = [Value("i", i32, ()), Value("x", i32, (3,))]


@pytest.mark.parametrize(
    ("graph", "sentence"),
    [
        (Graph("none"), "expected equal numbers of values, got 2 and 0"),
        (Graph("integers", INTEGERS), "expected equal dtypes, got %main_x: f32 and %x: i32"),
    ],
)
def test_the_graphs_of_a_while_take_its_operands(graph: Graph, sentence: str) -> None:
    cond, body = doubling(3)
    with pytest.raises(ShapeError, match=f"inputs of the condition: {sentence}"):
        While(*state("main"), cond=graph, body=body)
    with pytest.raises(ShapeError, match=f"inputs of the body: {sentence}"):
        While(*state("main"), cond=cond, body=graph)


def test_the_condition_of_a_while_gives_one_bool() -> None:
    _, body = doubling(3)
    for cond, found in ((body, "i32, f32"), (Graph("none", state("none")), "none")):
        with pytest.raises(ShapeError, match=f"outputs of the condition: expected one bool, got {found}"):
            While(*state("main"), cond=cond, body=body)


def test_a_condition_is_a_single_bool() -> None:
    cond, _ = doubling(3)
    with pytest.raises(ShapeError, match="condition: expected bool, got f32"):
        If(Value("c", f32, ()), then_graph=cond, else_graph=cond)
    pair = boolean, (2,)
    with pytest.raises(ShapeError, match="of a branch: expected equal numbers of values, got 0 and 2"):
        If(Value("c", *pair), then_graph=cond, else_graph=cond)
    choice = If(Value("c", *pair), *state("main"), then_graph=cond, else_graph=cond)
    with pytest.raises(ModelError, match="condition: expected one element, got 2"):
        choice.call(run, np.array([True, False]))


def test_call_once_needs_an_interpreter() -> None:
    cond, _ = doubling(3)
    op = CallOnce(init=cond)
    assert op.results == []
    assert op.called_graphs() == [cond]
    with pytest.raises(UnsupportedError, match="CALL_ONCE keeps state and cannot"):
        op.call(run)


def squares() -> tuple[Value, Graph]:
    x = Value("c_x", f32, (3,))
    return Value("x", f32, (3,)), graph("callee", [x], Mul(x, x))


def test_call() -> None:
    x, callee = squares()
    op = Call(x, subgraph=callee)
    assert [str(v.type) for v in op.results] == ["f32[3]"]
    np.testing.assert_array_equal(op.call(run, np.array([1, 2, 3], np.float32))[0], [1, 4, 9])
    with pytest.raises(ShapeError, match="inputs of callee: expected equal numbers of values, got 0 and 1"):
        Call(subgraph=callee)


ATTRIBUTES: dict[str, Any] = {
    "name": "custom.square",
    "composite_attributes": tuple(b"\x00\x01\x00\x01\x00\x00\x24\x01"),  # an empty map
}


def test_composite_runs_its_decomposition() -> None:
    x, callee = squares()
    main = graph("main", [x], StablehloComposite(x, decomposition=callee, **ATTRIBUTES))
    inputs = [np.array([3, -5, 2], np.float32)]
    (got,), (wanted,) = run(main, inputs), run_litert([main, callee], inputs)
    np.testing.assert_array_equal(got, wanted)


def test_operators_that_run_graphs_are_not_folded() -> None:
    assert not any(kind.pure for kind in (While, If, CallOnce, Call, StablehloComposite))
