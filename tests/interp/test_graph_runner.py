# SPDX-License-Identifier: Apache-2.0
"""Execution of graphs: order, lifetimes, observers, called graphs, state, places in errors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from circlekit.errors import ModelError, ShapeError
from circlekit.interp import Interpreter, run
from circlekit.interp.graph_runner import GraphRunner
from circlekit.ir.dtypes import f32
from circlekit.ir.graph import Graph
from circlekit.ir.op import Op
from circlekit.ir.text import parse_model
from circlekit.ir.value import Array, Value
from circlekit.ops.program.state import State
from tests.interp.operators import Alias, Apply, Total, Twice, X, chain, model


def test_outputs_in_order_with_inputs_constants_and_repetitions() -> None:
    graph = chain(Twice, Twice)
    first = graph.ops[0].output
    constant = Value.constant("c", X)
    graph.outputs = [graph.outputs[0], first, graph.inputs[0], constant, first]
    for array, factor in zip(run(model(graph), [X]), [4, 2, 1, 1, 2], strict=True):
        np.testing.assert_array_equal(array, X * factor)


def test_outputs_share_no_memory() -> None:
    graph = chain(Alias)
    result = graph.append(Twice(graph.inputs[0])).output
    graph.outputs = [graph.inputs[0], graph.outputs[0], Value.constant("c", X), result, result]
    x = X.copy()
    interpreter = Interpreter(model(graph))
    for _ in range(2):
        for array, factor in zip(interpreter.run([x]), [1, 1, 1, 2, 2], strict=True):
            np.testing.assert_array_equal(array, X * factor)
            array[0] = 99
    assert x[0] == X[0] == 1


def test_outputs_are_contiguous() -> None:
    turned = parse_model("graph main(%x: f32[2,3]) -> %y { %y = Transpose(%x, [1, 0]) }")
    assert run(turned, [np.ones((2, 3), np.float32)])[0].flags.c_contiguous


class Kept(Twice):
    """An operator that copies its operand to an array, keeps the array and returns a view of it."""

    code = "TEST_KEPT"
    kept = np.zeros(3, np.float32)

    def kernel(self, input: Array) -> Array:
        self.kept[:] = input
        view: Array = self.kept[:]
        return view


class ByColumns(Twice):
    """An operator that returns a copy of its operand in column-major order; the copy owns its memory."""

    code = "TEST_BY_COLUMNS"

    def kernel(self, input: Array) -> Array:
        return np.asarray(input.copy(order="F"))


def test_views_and_arrays_in_column_major_order_are_copied_to_outputs() -> None:
    (kept,) = run(model(chain(Kept)), [X])
    assert not np.shares_memory(kept, Kept.kept)
    np.testing.assert_array_equal(kept, X)
    columns = np.arange(6, dtype=np.float32).reshape(2, 3)
    (by_columns,) = run(model(chain(ByColumns, shape=(2, 3))), [columns])
    assert by_columns.flags.c_contiguous
    np.testing.assert_array_equal(by_columns, columns)


def test_kernels_cannot_write_into_their_operands() -> None:
    class Writing(Twice):
        code = "TEST_WRITING"

        def kernel(self, input: Array) -> Array:
            input += 1
            return input

    for graph in (chain(Writing), chain(Twice, Writing)):
        with pytest.raises(ModelError, match="read-only"):
            run(model(graph), [X])
    graph = Graph("main", [])
    graph.outputs = [graph.append(Writing(Value.constant("c", X))).output]
    with pytest.raises(ModelError, match="read-only"):
        run(model(graph), [])


def test_values_are_freed_after_their_last_use() -> None:
    Twice.made.clear()
    alive: list[int] = []

    def observe(op: Op, results: Sequence[Array]) -> None:
        alive.append(sum(made() is not None for made in Twice.made))

    run(model(chain(*[Twice] * 6)), [X], observe=observe)
    assert alive == [1] * 6  # the new result alone


def test_a_shared_value_lives_until_its_last_use() -> None:
    x = Value("x", f32, (3,))
    graph = Graph("main", [x])
    a = graph.append(Twice(x)).output
    b = graph.append(Twice(a)).output
    graph.outputs = [graph.append(Total(a, b, a)).output]
    np.testing.assert_array_equal(run(model(graph), [X])[0], X * 8)


def test_a_result_without_use_is_freed_after_its_operator() -> None:
    graph = chain(Twice)
    graph.append(Twice(graph.inputs[0]))
    Twice.made.clear()
    alive: list[bool] = []
    graph.append(Alias(graph.outputs[0]))
    run(model(graph), [X], observe=lambda op, results: alive.append(Twice.made[-1]() is not None))
    assert alive == [True, True, False]


# -- observers ---------------------------------------------------------------------------------


def test_observe_is_called_for_every_operator_and_those_of_called_graphs() -> None:
    body = chain(Twice, Twice)
    x = Value("x", f32, (3,))
    graph = Graph("main", [x])
    graph.outputs = [graph.append(Apply(x, body=body)).output]
    seen: list[tuple[str, float]] = []
    (got,) = run(model(graph, body), [X], observe=lambda op, results: seen.append((op.code, results[0][0])))
    np.testing.assert_array_equal(got, X * 4)
    assert seen == [("TEST_TWICE", 2), ("TEST_TWICE", 4), ("TEST_APPLY", 4)]


def test_on_value_is_called_for_inputs_and_results() -> None:
    text = """
    graph main(%x: f32[1,3], %y: f32[3]) -> %out {
      %sum = Add(%x, %y)
      %out = Neg(%sum)
    }"""
    seen: dict[str, Array] = {}
    interpreter = Interpreter(parse_model(text))
    outputs = interpreter.run([X[None], X], on_value=seen.__setitem__)
    assert list(seen) == ["x", "y", "sum", "out"]
    np.testing.assert_array_equal(seen["sum"], 2 * X[None])
    np.testing.assert_array_equal(seen["out"], outputs[0])
    seen.clear()
    interpreter.run([X[None], X])
    assert not seen, "an observer is called in its own run only"


def test_an_observer_cannot_run_the_same_interpreter() -> None:
    """The inner run would end the observation of the outer run."""
    interpreter = Interpreter(model(chain(Twice)))

    def run_again(name: str, array: Array) -> None:
        interpreter.run([X])

    with pytest.raises(ModelError, match="this interpreter is running a graph"):
        interpreter.run([X], on_value=run_again)
    np.testing.assert_array_equal(interpreter.run([X])[0], 2 * X)


# -- other graphs ------------------------------------------------------------------------------

BRANCHES = """
graph main(%x: f32[2,3], %c: bool[]) -> %out {
  %early = Exp(%x)
  %late = Abs(%early)
  %chosen = If(%c, %late, %early) {then_graph: @twice, else_graph: @both}
  %out = Add(%chosen, %x)
}

graph twice(%a: f32[2,3], %b: f32[2,3]) -> %r {
  %r = Add(%a, %a)
}

graph both(%a: f32[2,3], %b: f32[2,3]) -> %r {
  %r = Mul(%a, %b)
}
"""

LOOP = """
graph main(%x: f32[3], %n: i32[]) -> %y, %z {
  %zero = const i32[] [0]
  %i, %y, %z, %m = While(%zero, %x, %x, %n) {cond: @more, body: @step}
}

graph more(%i: i32[], %a: f32[3], %b: f32[3], %n: i32[]) -> %go {
  %go = Less(%i, %n)
}

graph step(%i: i32[], %a: f32[3], %b: f32[3], %n: i32[]) -> %j, %b, %c, %n {
  %one = const i32[] [1]
  %j = Add(%i, %one)
  %c = Add(%a, %b)
}
"""


def test_branches() -> None:
    interpreter = Interpreter(parse_model(BRANCHES))
    x = np.arange(6, dtype=np.float32).reshape(2, 3) / 4
    for condition in (True, False, True):
        (out,) = interpreter.run([x, np.array(condition)])
        right = 2 * np.exp(x) + x if condition else np.exp(x) * np.exp(x) + x
        np.testing.assert_allclose(out, right, rtol=1e-6)


@pytest.mark.parametrize("turns", [0, 1, 2, 7])
def test_loops(turns: int) -> None:
    y, z = run(parse_model(LOOP), [X, np.array(turns, np.int32)])
    fibonacci = [1, 1, 2, 3, 5, 8, 13, 21, 34]
    np.testing.assert_array_equal(y, X * fibonacci[turns])
    np.testing.assert_array_equal(z, X * fibonacci[turns + 1])


def test_inputs_of_called_graphs_are_checked() -> None:
    body = chain(Twice, shape=(4,))
    x = Value("x", f32, (3,))
    graph = Graph("main", [x])
    graph.append(Apply(x, body=body, results=[Value("y", f32, (3,))]))
    graph.outputs = graph.ops[0].results
    with pytest.raises(ShapeError, match=r"input %x: expected shape \[4\], got \[3\]\n.*op 0 Apply"):
        run(model(graph, body), [X])


def test_inputs_of_called_graphs_may_have_an_unknown_rank() -> None:
    """Older files write [] for it, as for scalars."""
    text = LOOP.replace("%a: f32[3]", "%a: f32[]").replace("%b: f32[3]", "%b: f32[]")
    assert text != LOOP
    inputs = [X, np.array(3, np.int32)]
    for found, wanted in zip(run(parse_model(text), inputs), run(parse_model(LOOP), inputs), strict=True):
        np.testing.assert_array_equal(found, wanted)


# -- state and constants -----------------------------------------------------------------------


def test_variables_start_with_zeros() -> None:
    x, state = Value("x", f32, (3,)), Value("state", f32, (3,))
    state.is_variable = True
    graph = Graph("main", [x])
    graph.outputs = [graph.append(Total(x, state)).output]
    np.testing.assert_array_equal(run(model(graph), [X])[0], X)


def test_the_state_of_a_runner_is_that_of_its_caller() -> None:
    variable = Value("state", f32, (3,))
    variable.is_variable = True
    state = State()
    state.tensors[variable] = X
    graph = Graph("main", [])
    graph.outputs = [graph.append(Twice(variable)).output, variable]
    for array, factor in zip(GraphRunner(state).run(graph, []), (2, 1), strict=True):
        np.testing.assert_array_equal(array, X * factor)
        assert not np.shares_memory(array, state.tensors[variable])


def test_a_graph_input_takes_precedence_over_constant_data() -> None:
    value = Value.constant("x", X)
    graph = Graph("main", [value])
    graph.outputs = [graph.append(Twice(value)).output]
    np.testing.assert_array_equal(run(model(graph), [X + 1])[0], 2 * (X + 1))


# -- errors ------------------------------------------------------------------------------------


def test_an_error_names_its_place() -> None:
    graph = chain(Twice, Twice)
    graph.ops[1].output.shape = (4,)
    with pytest.raises(ShapeError) as caught:
        run(model(graph, source="net.circle"), [X])
    assert str(caught.value).split("\n") == [
        "result %Twice_1: expected shape [4], got [3]",
        "  at net.circle > main > op 1 Twice",
        "     0  %Twice = Twice(%x)        : f32[3]",
        "  >  1  %Twice_1 = Twice(%Twice)  : f32[4]",
    ]


def test_a_value_without_producer() -> None:
    graph = Graph("main", [Value("x", f32, (3,))])
    graph.outputs = [graph.append(Twice(Value("ghost", f32, (3,)))).output]
    with pytest.raises(ModelError, match=r"%ghost is read before an operator computes it\n.*op 0 Twice"):
        run(model(graph), [X])


def test_an_operator_without_its_weights_is_named() -> None:
    text = "graph main(%x: f32[1,3], %w: f32[2,3]) -> %y { %y = FullyConnected(%x, %w, none) }"
    broken = parse_model(text)
    broken.main.ops[0].set_input(1, None)
    with pytest.raises(ModelError, match=r"no operand weights, which is required\n.*op 0 FullyConnected"):
        run(broken, [X[None], np.ones((2, 3), np.float32)])


@pytest.mark.parametrize(
    ("index", "error", "message"),
    [
        (0, ModelError, "ADD has no result"),
        (1, ShapeError, "FULLY_CONNECTED: expected 0 results, got 1"),
    ],
)
def test_an_operator_without_its_result_is_named(index: int, error: type[Exception], message: str) -> None:
    text = """
    graph main(%x: f32[1,3], %y: f32[3]) -> %out {
      %w = const f32[2,3] [1, 2, 3, 4, 5, 6]
      %sum = Add(%x, %y)
      %out = FullyConnected(%sum, %w, none)
    }"""
    broken = parse_model(text)
    broken.main.ops[index].results.clear()
    with pytest.raises(error, match=rf"{message}\n.*op {index}"):
        run(broken, [X[None], X])
