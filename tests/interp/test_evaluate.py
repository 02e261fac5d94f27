# SPDX-License-Identifier: Apache-2.0
"""One operator on given arrays: absent operands, custom kernels, checks of results, errors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from circlekit.errors import CirclekitError, LimitError, ModelError, ShapeError, UnsupportedError
from circlekit.interp import evaluate, register_custom, run, unregister_custom
from circlekit.ir.dtypes import DType, f32, i32
from circlekit.ir.graph import Graph
from circlekit.ir.op import Op, operand, optional_operand
from circlekit.ir.text import parse_model
from circlekit.ir.value import Array, TensorType, Value
from tests.interp.operators import Apply, Twice, X, chain, model, opaque


def x_value(shape: tuple[int | None, ...] | None = (3,)) -> Value:
    return Value("x", f32, shape)


def test_results_are_those_of_the_kernel() -> None:
    (got,) = evaluate(Twice(x_value()), [X])
    np.testing.assert_array_equal(got, X * 2)


def test_omitted_operands_are_none() -> None:
    class Absent(Twice):
        code = "TEST_ABSENT"
        second = optional_operand(f32)
        third = optional_operand(f32)

        def kernel(self, input: Array, second: Array | None, third: Array | None) -> Array:  # type: ignore[override]
            assert (second, third) == (None, None)
            return -input

    op = Absent(x_value())
    np.testing.assert_array_equal(evaluate(op, [X])[0], -X)
    graph = Graph("main", [op.input])
    graph.outputs = [graph.append(op).output]
    np.testing.assert_array_equal(run(model(graph), [X])[0], -X)


def test_overflow_raises_no_warning() -> None:
    big = np.array([3e38, -3e38, np.nan], np.float32)
    for got in (evaluate(Twice(x_value()), [big])[0], run(model(chain(Twice)), [big])[0]):
        np.testing.assert_array_equal(got, np.array([np.inf, -np.inf, np.nan], np.float32))


def test_an_operator_that_calls_a_graph_needs_an_interpreter() -> None:
    with pytest.raises(UnsupportedError, match="cannot be computed outside an interpreter"):
        evaluate(Apply(x_value(), body=chain(Twice)), [X])


# -- results as declared -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        (Value("y", DType.INT32, (3,)), "result %y: expected dtype int32, got float32"),
        (Value("y", f32, (4,)), r"result %y: expected shape \[4\], got \[3\]"),
        (Value("y", f32, (1, 3)), r"result %y: expected shape \[1,3\], got \[3\]"),
        (Value("y", f32, (None, 3)), r"result %y: expected shape \[\?,3\], got \[3\]"),
    ],
)
def test_results_that_are_not_as_declared(declared: Value, message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        evaluate(Twice(x_value(), results=[declared]), [X])


@pytest.mark.parametrize("shape", [None, (None,), ()])
def test_unknown_dimensions_of_results_are_free(shape: tuple[int | None, ...] | None) -> None:
    """A file has [] both for a scalar and for a result of unknown rank."""
    assert evaluate(Twice(x_value(None), results=[Value("y", f32, shape)]), [X])[0].shape == (3,)


def test_number_of_results() -> None:
    declared = [Value("y", f32, (3,)), Value("z", f32, (3,))]
    with pytest.raises(ShapeError, match="TEST_TWICE: expected 2 results, got 1"):
        evaluate(Twice(x_value(), results=declared), [X])


# -- errors of kernels -------------------------------------------------------------------------


class Failing(Twice):
    """Raises the error that it is given."""

    code = "TEST_FAILING"
    error: Exception = ValueError("wrong value")

    def kernel(self, input: Array) -> Array:
        raise self.error


@pytest.mark.parametrize(
    ("error", "raised", "message"),
    [
        (ValueError("of value"), ModelError, r"TEST_FAILING failed on operands float32\[3\]: of value"),
        (IndexError("of index"), ModelError, "failed on operands .*: of index"),
        (TypeError("of type"), ModelError, "failed on operands .*: of type"),
        (ZeroDivisionError("of arithmetic"), ModelError, "failed on operands .*: of arithmetic"),
        (MemoryError("9 GiB"), LimitError, "TEST_FAILING needs more memory than is available: 9 GiB"),
        (UnsupportedError("of its own"), UnsupportedError, "^of its own"),
        (KeyError("a fault of the kernel"), KeyError, "a fault of the kernel"),
    ],
    ids=lambda x: type(x).__name__,
)
def test_errors_of_kernels(
    error: Exception, raised: type[Exception], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Failing, "error", error)
    with pytest.raises(raised, match=message):
        evaluate(Failing(x_value()), [X])


class Length(Op):
    """The length of a vector."""

    code = "TEST_LENGTH"
    x = operand()

    def infer(self) -> TensorType:
        return TensorType(i32, ())

    def kernel(self, x: Array) -> Array:
        return np.array(len(x), np.int32)


def test_a_type_error_of_a_kernel_is_an_error_of_the_model() -> None:
    with pytest.raises(ModelError, match=r"len\(\) of unsized object"):
        evaluate(Length(Value("", i32, None)), [np.array(3, np.int32)])


# -- operators without a declaration -----------------------------------------------------------


@pytest.fixture
def _restored() -> Iterator[None]:
    """Unregister the custom kernels of a test."""
    yield
    for name in ("TestHalf", "TestBroken", "AddV2"):
        unregister_custom(name)


def test_operators_without_a_kernel() -> None:
    with pytest.raises(UnsupportedError, match="operator SVDF has no kernel") as caught:
        run(opaque("SVDF"), [X])
    assert "at main > op 0 SVDF\n" in str(caught.value)
    with pytest.raises(
        UnsupportedError,
        match="operator DELEGATE has no kernel: it represents a part of a model",
    ):
        run(opaque("DELEGATE"), [X])
    with pytest.raises(UnsupportedError, match=r"custom operator Unheard has no kernel; circlekit\.register"):
        run(opaque("CUSTOM", "Unheard"), [X])


@pytest.mark.usefixtures("_restored")
@pytest.mark.parametrize("result", [X / 2, [X / 2], (X / 2,)], ids=["array", "list", "tuple"])
def test_custom_kernel(result: Any) -> None:
    register_custom("TestHalf", lambda op, x: result)
    np.testing.assert_array_equal(run(opaque("CUSTOM", "TestHalf"), [X])[0], X / 2)


@pytest.mark.usefixtures("_restored")
def test_a_custom_kernel_without_a_result() -> None:
    register_custom("TestHalf", lambda op, x: None)
    with pytest.raises(ModelError, match="result %y: expected an array from the kernel, got None"):
        run(opaque("CUSTOM", "TestHalf"), [X])


@pytest.mark.usefixtures("_restored")
def test_a_custom_kernel_that_returns_lists_of_unequal_lengths() -> None:
    register_custom("TestHalf", lambda op, x: ([[1.0], [1.0, 2.0]],))
    with pytest.raises(ModelError, match=r"CUSTOM failed on operands float32\[.*inhomogeneous shape"):
        run(opaque("CUSTOM", "TestHalf"), [X])


@pytest.mark.parametrize(
    ("name", "kernel", "message"),
    [
        ("TestHalf", 3, "custom operator TestHalf: expected a function as kernel, got 3"),
        (3, abs, "expected the name of a custom operator, got int"),
        ("", abs, "expected the name of a custom operator, got ''"),
    ],
)
def test_wrong_names_and_kernels_are_not_registered(name: Any, kernel: Any, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        register_custom(name, kernel)


@pytest.mark.usefixtures("_restored")
def test_a_custom_kernel_is_unregistered() -> None:
    register_custom("TestHalf", lambda op, x: x / 2)
    unregister_custom("TestHalf")
    with pytest.raises(UnsupportedError, match="TestHalf has no kernel"):
        run(opaque("CUSTOM", "TestHalf"), [X])
    unregister_custom("TestHalf")


@pytest.mark.usefixtures("_restored")
def test_a_built_in_custom_kernel_is_replaced_and_restored() -> None:
    add = parse_model(
        "graph main(%x: f32[2], %y: f32[2]) -> %z {"
        ' %z = Opaque(%x, %y) {code: "CUSTOM", custom_code: "AddV2"} : f32[2] }'
    )
    inputs = [X[:2], X[1:]]
    assert run(add, inputs)[0].tolist() == [3, 5]
    register_custom("AddV2", lambda op, x, y: x - y)
    assert run(add, inputs)[0].tolist() == [-1, -1]
    unregister_custom("AddV2")
    assert run(add, inputs)[0].tolist() == [3, 5]


@pytest.mark.usefixtures("_restored")
def test_operands_of_custom_operators() -> None:
    text = """graph main(%x: f32[3], %t: str[3]) -> %y {{
      %y = Opaque({}) {{code: "CUSTOM", custom_code: "{}"}} : f32[3]
    }}"""
    texts = np.array([b"a", b"b", b"c"], object)
    register_custom("TestHalf", lambda op, x, y: x / 2 if y is None else x)
    for operands, name, message in (
        ("%x, %t", "AddV2", "AddV2 does not support operands of these types"),
        ("%x", "AddV2", "AddV2: its kernel does not take 1 operand: missing a required argument"),
        ("%x, none", "AddV2", "AddV2: expected all operands to be present"),
        ("%x, %x, %x", "TestHalf", "TestHalf: its kernel does not take 3 operands"),
    ):
        with pytest.raises(ModelError, match=message):
            run(parse_model(text.format(operands, name)), [X, texts])
    (half,) = run(parse_model(text.format("%x, none", "TestHalf")), [X, texts])
    np.testing.assert_array_equal(half, X / 2)


@pytest.mark.usefixtures("_restored")
def test_a_type_error_of_a_registered_kernel_is_not_converted() -> None:
    register_custom("TestBroken", lambda op, x: x + "text")
    with pytest.raises(TypeError):
        run(opaque("CUSTOM", "TestBroken"), [X])


# -- constants ---------------------------------------------------------------------------------


def doubled(constant: Value) -> Array:
    graph = Graph("main", [])
    graph.outputs = [graph.append(Twice(constant)).output]
    return run(model(graph), [])[0]


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
    np.testing.assert_array_equal(doubled(packed), np.array(elements) * 2)


@pytest.mark.parametrize(
    ("dtype", "size", "error", "sentence"),
    [
        (DType.MXFP4, 4, UnsupportedError, "%w is a packed mxfp4 constant"),
        (DType.INT4, 1, ModelError, "expected 4 elements in %w, got 2"),
    ],
)
def test_packed_constants_that_cannot_be_read(
    dtype: DType, size: int, error: type[CirclekitError], sentence: str
) -> None:
    with pytest.raises(error, match=sentence):
        doubled(Value("w", dtype, (4,), np.zeros(size, np.uint8)))
