# SPDX-License-Identifier: Apache-2.0
"""One interpreter, many runs: what is kept between them, what is told, what is forgotten."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import circlekit
from circlekit.errors import CirclekitError, ShapeError
from circlekit.interp import Interpreter, plan, run
from circlekit.ir.graph import Graph, Model
from circlekit.ir.op import Op, operand
from circlekit.ir.text import parse_model
from circlekit.ir.value import Array, TensorType, Value
from circlekit.ops import once
from circlekit.ops.constant_storage import constant_elements
from circlekit.ops.once import Kept, keeping

TEXT = """
graph main(%x: f32[1,3], %y: f32[3]) -> %out {
  %w = const f32[2,3] [1, 2, 3, 4, 5, 6]
  %sum = Add(%x, %y)
  %out = FullyConnected(%sum, %w, none)
}
"""
X, Y = np.array([[1, 2, 3]], np.float32), np.array([1, 0, -1], np.float32)
WANTED = [[12, 30]]


def test_it_runs_again_and_again() -> None:
    interpreter = circlekit.Interpreter(parse_model(TEXT))
    for _ in range(3):
        np.testing.assert_array_equal(interpreter.run([X, Y])[0], WANTED)
    np.testing.assert_array_equal(interpreter.run({"y": Y, "x": X * 2})[0], [[26, 62]])


def test_constants_are_decoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[str] = []

    def noted(value: Value) -> Array:
        decoded.append(value.name)
        return constant_elements(value)

    monkeypatch.setattr(plan, "constant_elements", noted)
    interpreter = Interpreter(parse_model(TEXT))
    for _ in range(3):
        interpreter.run([X, Y])
    assert decoded == ["w"]


def test_outputs_belong_to_the_caller() -> None:
    graph = Graph("main", [Value("x", *_type(X))])
    constant = Value.constant("c", Y)
    graph.outputs = [graph.inputs[0], constant]
    interpreter = Interpreter(Model([graph]))
    x = X.copy()
    for array in interpreter.run([x]):
        array += 7
    np.testing.assert_array_equal(x, X)
    np.testing.assert_array_equal(interpreter.run([x])[1], Y)


def _type(array: Array) -> tuple[Any, tuple[int, ...]]:
    return Value.constant("", array).dtype, array.shape


def test_a_graph_that_changed_is_run_as_it_is_now() -> None:
    model = parse_model(TEXT)
    interpreter = Interpreter(model)
    interpreter.run([X, Y])
    dense = model.main.ops[1]
    dense.set_input(0, model.main.inputs[0])
    model.main.remove(model.main.ops[0])
    np.testing.assert_array_equal(interpreter.run([X, Y])[0], [[14, 32]])


def test_every_value_is_told() -> None:
    told: dict[str, Array] = {}
    outputs = Interpreter(parse_model(TEXT)).run([X, Y], on_value=told.__setitem__)
    assert list(told) == ["x", "y", "sum", "out"]
    np.testing.assert_array_equal(told["sum"], X + Y)
    np.testing.assert_array_equal(told["out"], outputs[0])


def test_reset_forgets_the_state() -> None:
    graph = Graph("main", [Value("x", *_type(X))])
    graph.append(Adding(graph.inputs[0]))
    graph.outputs = graph.ops[0].results
    interpreter = Interpreter(Model([graph]))
    np.testing.assert_array_equal(interpreter.run([X])[0], X)
    np.testing.assert_array_equal(interpreter.run([X])[0], 2 * X)
    interpreter.reset()
    np.testing.assert_array_equal(interpreter.run([X])[0], X)
    np.testing.assert_array_equal(run(interpreter.model, [X])[0], X)


class Adding(Op):
    """The sum of all operands that it ever had."""

    code = "TEST_ADDING"
    input = operand()

    def infer(self) -> TensorType:
        return self.input.type

    def call(self, run: Any, *args: Array) -> list[Array]:
        total = run.state.streams.get(self, 0) + args[0]
        run.state.streams[self] = total
        return [total]


@pytest.mark.parametrize(
    ("inputs", "sentence"),
    [
        ({"x": X}, r"input %y \(f32\[3\]\) is missing"),
        ([X], r"input %y \(f32\[3\]\) is missing: graph main got 1 inputs, it has 2"),
        ({"x": X, "y": Y, "z": Y}, r"%z is no input of graph main, its inputs are %x \(f32\[1,3\]\), %y"),
        ([X, Y, Y], r"got 3 inputs, it has 2: %x \(f32\[1,3\]\), %y \(f32\[3\]\)"),
        ([X, Y[:2]], r"%y was given with shape \[2\], \[3\] is declared"),
        ([X.astype(np.int32), Y], "%x was given as int32, float32 is declared"),
    ],
)
def test_wrong_inputs(inputs: Any, sentence: str) -> None:
    with pytest.raises(ShapeError, match=sentence):
        Interpreter(parse_model(TEXT)).run(inputs)


# -- what is kept ------------------------------------------------------------------------------


def counted(results: list[Array]) -> Callable[[], Array]:
    def make() -> Array:
        results.append(np.zeros(100))
        return results[-1]

    return make


def test_kept_within_an_interpreter_for_constants_alone() -> None:
    op = parse_model(TEXT).main.ops[1]
    data, weights = op.inputs[:2]
    made: list[Array] = []
    kept = Kept(10_000)
    for _ in range(2):
        once.once(op, "a", counted(made), weights)
    assert len(made) == 2, "outside of an interpreter nothing is kept"
    with keeping(kept):
        for _ in range(2):
            once.once(op, "a", counted(made), weights, None)
            once.once(op, "b", counted(made), weights, data)
    assert len(made) == 2 + 1 + 2


def test_what_is_kept_is_limited() -> None:
    op = parse_model(TEXT).main.ops[0]
    made: list[Array] = []
    kept = Kept(1000)
    with keeping(kept):
        for name in "ababab":
            once.once(op, name, counted(made))
    assert len(made) == 1 + 3, "the second does not fit"
    assert kept.limit == 200


def test_model_errors_name_the_file() -> None:
    model = parse_model(TEXT)
    model.source = "net.circle"
    with pytest.raises(CirclekitError) as caught:
        Interpreter(model).run([X])
    assert "in net.circle" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "why"), [("Add", "ADD has no result"), ("FullyConnected", "made 1 results, 0 are declared")]
)
def test_an_operator_without_results_is_refused_where_it_is(name: str, why: str) -> None:
    model = parse_model(TEXT)
    next(op for op in model.main.ops if type(op).__name__ == name).results.clear()
    with pytest.raises(CirclekitError, match=rf"{why}\n.*op \d {name}"):
        run(model, [X, Y])
