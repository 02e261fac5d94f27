# SPDX-License-Identifier: Apache-2.0
"""One interpreter, many runs: inputs by order and by name, decoded constants, state, changes of the model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import circlekit
from circlekit.errors import ModelError, ShapeError
from circlekit.interp import Interpreter, execution_plan, run
from circlekit.interp.interpreter import expect_runs
from circlekit.ir.dtypes import f32
from circlekit.ir.graph import Graph
from circlekit.ir.op import Op
from circlekit.ir.resources.progress import watched
from circlekit.ir.text import parse_model
from circlekit.ir.value import Array, Value
from circlekit.ops.constant_operands import constant_elements
from tests.equivalence.work import Work
from tests.interp.operators import Adding, Twice, chain, model

TEXT = """
graph main(%x: f32[1,3], %y: f32[3]) -> %out {
  %w = const f32[2,3] [1, 2, 3, 4, 5, 6]
  %sum = Add(%x, %y)
  %out = FullyConnected(%sum, %w, none)
}

graph other(%a: f32[2]) -> %b {
  %b = Neg(%a)
}
"""
X, Y = np.array([[1, 2, 3]], np.float32), np.array([1, 0, -1], np.float32)
OUT = [[12, 30]]  # X + Y = [2, 2, 2]; (1 + 2 + 3) * 2 and (4 + 5 + 6) * 2


def test_runs_with_inputs_in_order_and_by_name() -> None:
    interpreter = circlekit.Interpreter(parse_model(TEXT))
    for _ in range(3):
        np.testing.assert_array_equal(interpreter.run([X, Y])[0], OUT)
    np.testing.assert_array_equal(interpreter.run({"y": Y, "x": X * 2})[0], [[26, 62]])
    np.testing.assert_array_equal(interpreter.run([Y[:2]], graph=1)[0], [-1, 0])


def test_constants_are_decoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[str] = []

    def noted(value: Value) -> Array:
        decoded.append(value.name)
        return constant_elements(value)

    monkeypatch.setattr(execution_plan, "constant_elements", noted)
    interpreter = Interpreter(parse_model(TEXT))
    for _ in range(3):
        interpreter.run([X, Y])
    assert decoded.count("w") == 1


def test_a_fast_kernel_is_prepared_once_and_replaces_the_plain_one(monkeypatch: pytest.MonkeyPatch) -> None:
    prepared: list[str] = []

    def prepare(op: Op) -> Any:
        prepared.append(op.code)
        return (lambda *operands: operands[0] + 40) if op.code == "ADD" else None

    monkeypatch.setattr(execution_plan, "prepare", prepare)
    interpreter = Interpreter(parse_model(TEXT))
    for _ in range(2):  # the layer reads X + 40 = 41 + [0, 1, 2]
        np.testing.assert_array_equal(interpreter.run([X, Y])[0], [[6 * 41 + 8, 15 * 41 + 17]])
    assert prepared == ["ADD", "FULLY_CONNECTED"]


def test_a_graph_that_changed_runs_as_it_is_now() -> None:
    changing = parse_model(TEXT)
    interpreter = Interpreter(changing)
    interpreter.run([X, Y])
    dense = changing.main.ops[1]
    dense.set_input(0, changing.main.inputs[0])
    changing.main.remove(changing.main.ops[0])
    np.testing.assert_array_equal(interpreter.run([X, Y])[0], [[14, 32]])


def test_reset_discards_the_state() -> None:
    interpreter = Interpreter(model(chain(Adding, shape=(1, 3))))
    np.testing.assert_array_equal(interpreter.run([X])[0], X)
    np.testing.assert_array_equal(interpreter.run([X])[0], 2 * X)
    interpreter.reset()
    np.testing.assert_array_equal(interpreter.run([X])[0], X)
    np.testing.assert_array_equal(run(interpreter.model, [X])[0], X)


def test_two_interpreters_of_one_model_have_states_of_their_own() -> None:
    adding = model(chain(Adding, shape=(1, 3)))
    one, two = Interpreter(adding), Interpreter(adding)
    one.run([X])
    np.testing.assert_array_equal(two.run([X])[0], X)
    np.testing.assert_array_equal(one.run([X])[0], 2 * X)


def test_other_shapes_in_every_run() -> None:
    interpreter = Interpreter(model(chain(Twice, shape=(None,))))
    for size in (2, 4, 4, 1):
        np.testing.assert_array_equal(interpreter.run([np.ones(size, np.float32)])[0], np.full(size, 2))


def test_inputs_of_unknown_rank() -> None:
    unranked = Graph("main", [Value("x", f32, None)])
    unranked.outputs = unranked.inputs
    assert run(model(unranked), [np.zeros((2, 2), np.float32)])[0].shape == (2, 2)


EXPECTED = r"graph main: expected inputs %x: f32\[1,3\], %y: f32\[3\]: "
NUMBER = r"graph main: expected 2 inputs \(%x: f32\[1,3\], %y: f32\[3\]\), got "


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"x": X}, EXPECTED + r"missing %y: f32\[3\]$"),
        ({}, EXPECTED + r"missing %x: f32\[1,3\], missing %y: f32\[3\]$"),
        ({"x": X, "z": Y}, EXPECTED + r"missing %y: f32\[3\], unknown %z$"),
        ({"x": X, "y": Y, "z": Y}, EXPECTED + "unknown %z$"),
        ([X], NUMBER + "1$"),
        ([], NUMBER + "0$"),
        ([X, Y, Y], NUMBER + "3$"),
        ([X, Y[:2]], r"input %y: expected shape \[3\], got \[2\]"),
        ([X[0], Y], r"input %x: expected shape \[1,3\], got \[3\]"),
        ([X.astype(np.int32), Y], "input %x: expected dtype float32, got int32"),
        ([[[1], [2, 3]], Y], "input %x: expected an array, got lists of unequal lengths"),
    ],
)
def test_inputs_that_do_not_match(inputs: Any, message: str) -> None:
    nameless = parse_model(TEXT)
    nameless.source = None  # else the message would end with the source
    with pytest.raises(ShapeError, match=message):
        Interpreter(nameless).run(inputs)


def test_a_graph_without_inputs() -> None:
    empty = Graph("main", [])
    with pytest.raises(ShapeError, match=r"graph main: expected 0 inputs \(none\), got 1"):
        run(model(empty), [X])


@pytest.mark.parametrize("inputs", [X[0, 0], np.asarray(1.0), None, 5, "abc"])
def test_inputs_of_another_type(inputs: Any) -> None:
    message = f"expected a list of arrays, or a dict by input name, got {type(inputs).__name__}"
    with pytest.raises(ModelError, match=message):
        Interpreter(parse_model(TEXT)).run(inputs)


@pytest.mark.parametrize("name", ["observe", "on_value", "on_graph", "before_op"])
def test_functions_of_another_type(name: str) -> None:
    with pytest.raises(ModelError, match=f"{name}: expected a function, got int"):
        Interpreter(parse_model(TEXT)).run([X, Y], **{name: 3})  # type: ignore[arg-type]


@pytest.mark.parametrize("number", [2, -1, "main", 0.0, None])
def test_a_graph_number_that_does_not_exist(number: Any) -> None:
    with pytest.raises(ModelError, match=f"expected a graph number from 0 to 1, got {number!r}"):
        run(parse_model(TEXT), [X, Y], graph=number)
    with pytest.raises(ModelError, match="the model has no graph"):
        run(model(), [], graph=number)


def test_the_repr_shows_kernels_and_model() -> None:
    interpreter = Interpreter(parse_model(TEXT, "net.ck"), "optimized")
    assert repr(interpreter).startswith("<Interpreter with optimized kernels of <Model net.ck (circle): ")


def test_input_errors_name_the_file() -> None:
    named = parse_model(TEXT)
    named.source = "net.circle"
    with pytest.raises(ShapeError, match=r"got 1\n  in net\.circle$"):
        Interpreter(named).run([X])


def test_runs_do_as_much_work_as_was_announced() -> None:
    two = parse_model(TEXT)
    announced = []
    cases: list[tuple[list[Array], list[Any]]]
    cases = [([X, Y], []), ([X, Y], [0]), ([np.ones(2, np.float32)], [1])]
    for inputs, graph in cases:
        with watched(Work()) as work:
            expect_runs(two, 3, *graph)
            for _ in range(3):
                run(two, inputs, *graph)
        assert work.left == 0 < work.total
        announced.append(work.total)
    assert announced[0] == announced[1] != announced[2]
