# SPDX-License-Identifier: Apache-2.0
"""The interpreter: inputs, order, freeing, places in errors, observers, custom operators."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from circlekit.errors import CirclekitError, ModelError, ShapeError, UnsupportedError
from circlekit.interp import evaluate, register_custom, run, run_graph
from circlekit.ir.dtypes import DType, f32, i32
from circlekit.ir.graph import Graph, Model
from circlekit.ir.op import Op, OpaqueOp, Run, graph_attribute, operand, variadic_operand
from circlekit.ir.value import Array, TensorType, Value


class Twice(Op):
    """2 * x, remembering what it made."""

    code = "TEST_TWICE"
    input = operand(f32)
    made: list[weakref.ref[Array]] = []

    def infer(self) -> TensorType:
        return TensorType(self.input.dtype, self.input.shape)

    def kernel(self, input: Array) -> Array:
        out: Array = input * 2
        Twice.made.append(weakref.ref(out))
        return out


class Total(Op):
    """The sum of all operands."""

    code = "TEST_TOTAL"
    inputs_ = variadic_operand(f32)

    def infer(self) -> TensorType:
        return TensorType(self.inputs_[0].dtype, self.inputs_[0].shape)

    def kernel(self, *inputs: Array) -> Array:
        return np.asarray(sum(inputs))


class Alias(Twice):
    """Its operand, as a view."""

    code = "TEST_ALIAS"

    def kernel(self, input: Array) -> Array:
        return input.reshape(input.shape)


class Apply(Op):
    """What another graph makes of x."""

    code = "TEST_APPLY"
    input = operand(f32)
    body = graph_attribute("body")

    def infer(self) -> TensorType:
        return TensorType(self.input.dtype, self.input.shape)

    def call(self, run: Run, *args: Any) -> Sequence[Array]:
        return run(self.body, args)


X = np.array([1.0, 2.0, 3.0], np.float32)


def chain(*kinds: type[Op], shape: tuple[int | None, ...] = (3,)) -> Graph:
    value = Value("x", f32, shape)
    graph = Graph("main", [value])
    for kind in kinds:
        value = graph.append(kind(value)).output
    graph.outputs = [value]
    return graph


def model(graph: Graph, source: str | None = None) -> Model:
    return Model([graph], source=source)


def test_list_and_dict() -> None:
    both = model(chain(Twice, Twice))
    np.testing.assert_array_equal(run(both, [X])[0], X * 4)
    np.testing.assert_array_equal(run(both, {"x": X})[0], X * 4)


def test_outputs_in_order_and_inputs_passed_through() -> None:
    graph = chain(Twice, Twice)
    first = graph.ops[0].output
    const = Value.constant("c", X)
    graph.outputs = [graph.outputs[0], first, graph.inputs[0], const, first]
    got = run_graph(graph, [X])
    for array, factor in zip(got, [4, 2, 1, 1, 2], strict=True):
        np.testing.assert_array_equal(array, X * factor)


def test_outputs_share_no_memory() -> None:
    graph = chain(Alias)
    graph.outputs = [graph.inputs[0], graph.outputs[0], Value.constant("c", X)]
    x = X.copy()
    for array in run_graph(graph, [x]):
        array[0] = 99
    assert x[0] == 1
    assert X[0] == 1


def test_kernels_cannot_write_into_inputs() -> None:
    class Rude(Twice):
        code = "TEST_RUDE"

        def kernel(self, input: Array) -> Array:
            input += 1
            return input

    with pytest.raises(ModelError, match="read-only"):
        run_graph(chain(Rude), [X])


@pytest.mark.parametrize(
    ("inputs", "sentence"),
    [
        ([], "graph main got 0 inputs, it has 1: %x"),
        ([X, X], "graph main got 2 inputs, it has 1: %x"),
        ([X.astype(np.float64)], "%x was given as float64, float32 is declared"),
        ([X[:2]], r"%x was given with shape \[2\], \[3\] is declared"),
        ([X[None]], r"%x was given with shape \[1,3\], \[3\] is declared"),
        ([], r"input %x \(f32\[3\]\) is missing"),
        ({}, r"input %x \(f32\[3\]\) is missing"),
        ({"y": X}, r"input %x \(f32\[3\]\) is missing; %y is no input of graph main"),
        ({"x": X, "y": X}, r"%y is no input of graph main, its inputs are %x \(f32\[3\]\)"),
    ],
)
def test_inputs_that_do_not_fit(inputs: Any, sentence: str) -> None:
    with pytest.raises(ShapeError, match=sentence):
        run(model(chain(Twice)), inputs)


def test_unknown_dimensions_are_free() -> None:
    assert run_graph(chain(Twice, shape=(None,)), [np.zeros(7, np.float32)])[0].shape == (7,)
    unranked = Graph("main", [Value("x", f32, None)])
    unranked.outputs = unranked.inputs
    assert run_graph(unranked, [np.zeros((2, 2), np.float32)])[0].shape == (2, 2)


def test_values_are_freed_after_their_last_use() -> None:
    Twice.made.clear()
    alive: list[int] = []

    def observe(op: Op, results: Sequence[Array]) -> None:
        alive.append(sum(made() is not None for made in Twice.made))

    run_graph(chain(*[Twice] * 6), [X], observe)
    assert alive == [1] * 6  # what was made, and no longer what was read


def test_a_shared_value_stays_until_all_have_read_it() -> None:
    x = Value("x", f32, (3,))
    graph = Graph("main", [x])
    a = graph.append(Twice(x)).output
    b = graph.append(Twice(a)).output
    graph.outputs = [graph.append(Total(a, b, a)).output]
    np.testing.assert_array_equal(run_graph(graph, [X])[0], X * 8)


def test_observer_sees_every_operator_those_of_called_graphs_too() -> None:
    body = chain(Twice, Twice)
    x = Value("x", f32, (3,))
    graph = Graph("main", [x])
    graph.outputs = [graph.append(Apply(x, body=body)).output]
    seen: list[str] = []
    (got,) = run(Model([graph, body]), [X], observe=lambda op, results: seen.append(op.code))
    np.testing.assert_array_equal(got, X * 4)
    assert seen == ["TEST_TWICE", "TEST_TWICE", "TEST_APPLY"]


def test_an_error_tells_its_place() -> None:
    graph = chain(Twice, Twice)
    graph.ops[1].output.shape = (4,)
    with pytest.raises(ShapeError) as caught:
        run(model(graph, "net.circle"), [X])
    assert str(caught.value).split("\n") == [
        "%Twice_1 was made with shape [3], [4] is declared",
        "  at net.circle > main > op 1 Twice",
        "     0  %Twice = Twice(%x)        : f32[3]",
        "  >  1  %Twice_1 = Twice(%Twice)  : f32[4]",
    ]


def test_a_wrong_dtype_is_told() -> None:
    graph = chain(Twice)
    graph.outputs[0].dtype = DType.INT32
    with pytest.raises(ShapeError, match="%Twice was made as float32, int32 is declared"):
        run_graph(graph, [X])


def test_there_is_no_such_graph() -> None:
    with pytest.raises(ModelError, match="there is no graph 3, the model has 1"):
        run(model(chain(Twice)), [X], graph=3)


def opaque(code: str, custom_code: str | None = None) -> Graph:
    x = Value("x", f32, (3,))
    graph = Graph("main", [x])
    graph.append(OpaqueOp(x, code=code, custom_code=custom_code, results=[Value("y", f32, (3,))]))
    graph.outputs = [graph.ops[0].output]
    return graph


def test_operators_without_a_kernel() -> None:
    with pytest.raises(UnsupportedError, match="operator SVDF has no kernel") as caught:
        run_graph(opaque("SVDF"), [X])
    assert "at main > op 0 SVDF\n" in str(caught.value)
    with pytest.raises(UnsupportedError, match="custom operator Unheard has no kernel"):
        run_graph(opaque("CUSTOM", "Unheard"), [X])


def test_custom_kernel() -> None:
    register_custom("TestHalf", lambda op, x: x / 2)
    np.testing.assert_array_equal(run_graph(opaque("CUSTOM", "TestHalf"), [X])[0], X / 2)


def test_operands_that_a_known_custom_operator_cannot_take() -> None:
    x, texts = Value("x", f32, (3,)), Value("texts", DType.STRING, (3,))
    graph = Graph("main", [x, texts])
    result = Value("y", f32, (3,))
    graph.append(OpaqueOp(x, texts, code="CUSTOM", custom_code="AddV2", results=[result]))
    graph.outputs = [result]
    with pytest.raises(ModelError, match="AddV2 takes no such operands"):
        run_graph(graph, [X, np.array([b"a", b"b", b"c"], object)])


def test_a_mistake_in_a_kernel_of_the_user_is_his_own() -> None:
    register_custom("TestBroken", lambda op, x: x + "text")
    with pytest.raises(TypeError):
        run_graph(opaque("CUSTOM", "TestBroken"), [X])


def test_variables_start_at_zero() -> None:
    x, state = Value("x", f32, (3,)), Value("state", f32, (3,))
    state.is_variable = True
    graph = Graph("main", [x])
    graph.outputs = [graph.append(Total(x, state)).output]
    np.testing.assert_array_equal(run_graph(graph, [X])[0], X)


def test_a_value_that_nothing_makes() -> None:
    graph = Graph("main", [Value("x", f32, (3,))])
    graph.outputs = [graph.append(Twice(Value("ghost", f32, (3,)))).output]
    with pytest.raises(ModelError, match="%ghost is read before anything makes it"):
        run_graph(graph, [X])


@pytest.mark.parametrize(
    ("dtype", "data", "elements"),
    [
        (DType.INT4, [0x21, 0x8F, 0x07], [1, 2, -1, -8, 7]),
        (DType.UINT4, [0x21, 0x8F, 0x07], [1, 2, 15, 8, 7]),
        (DType.INT2, [0b11100100, 0b01], [0, 1, -2, -1, 1]),
        (DType.BFLOAT16, [0x80, 0x3F, 0, 0xC0], [1.0, -2.0]),
    ],
)
def test_kernels_get_packed_constants_unpacked(dtype: DType, data: list[int], elements: list[float]) -> None:
    packed = Value("w", dtype, (len(elements),), np.array(data, np.uint8))
    graph = Graph("main", [])
    graph.outputs = [graph.append(Twice(packed)).output]
    np.testing.assert_array_equal(run_graph(graph, [])[0], np.array(elements) * 2)


@pytest.mark.parametrize(
    ("dtype", "size", "error", "sentence"),
    [
        (DType.MXFP4, 4, UnsupportedError, "%w is a packed mxfp4 constant"),
        (DType.INT4, 1, ModelError, "%w has 4 elements, its bytes hold 2"),
    ],
)
def test_packed_constants_that_cannot_be_read(
    dtype: DType, size: int, error: type[CirclekitError], sentence: str
) -> None:
    graph = Graph("main", [])
    graph.outputs = [graph.append(Twice(Value("w", dtype, (4,), np.zeros(size, np.uint8)))).output]
    with pytest.raises(error, match=sentence):
        run_graph(graph, [])


def test_one_operator_alone() -> None:
    (got,) = evaluate(Twice(Value("x", f32, (3,))), [X])
    np.testing.assert_array_equal(got, X * 2)
    with pytest.raises(CirclekitError, match="cannot be computed alone"):
        evaluate(Apply(Value("x", f32, (3,)), body=chain(Twice)), [X])


def test_infinities_make_no_warnings() -> None:
    (got,) = run_graph(chain(Twice), [np.array([3e38, -3e38, np.nan], np.float32)])
    np.testing.assert_array_equal(got, np.array([np.inf, -np.inf, np.nan], np.float32))


class Length(Op):
    """Takes its operand to be a vector."""

    code = "TEST_LENGTH"
    x = operand()

    def infer(self) -> TensorType:
        return TensorType(i32, ())

    def kernel(self, x: Array) -> Array:
        return np.array(len(x), np.int32)


@pytest.mark.parametrize(("shape", "error"), [(None, ModelError), ((), TypeError)])
def test_a_rank_that_nobody_knew_is_the_model_s_fault(
    shape: tuple[int, ...] | None, error: type[Exception]
) -> None:
    """One that was known is that of the operator, whose rule should have refused it."""
    with pytest.raises(error, match=r"len\(\) of unsized object"):
        evaluate(Length(Value("", i32, shape)), [np.array(3, np.int32)])
