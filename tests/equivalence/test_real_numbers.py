# SPDX-License-Identifier: Apache-2.0
"""The numbers that stored elements stand for, and inputs of one model for another."""

from __future__ import annotations

import numpy as np
import pytest

import circlekit
from circlekit.equivalence.real_numbers import have_equal_types, inputs_for, real_numbers, stored_numbers
from circlekit.ir.value import Value


def value(type: str) -> Value:
    return circlekit.parse(f"graph main(%x: {type}) -> %x {{\n}}").main.inputs[0]


@pytest.mark.parametrize(
    ("type", "stored", "real"),
    [
        ("u8[3] quant(scale: 0.5, zero_point: 128)", [0, 128, 255], [-64, 0, 63.5]),
        ("i8[3] quant(scale: 0.25, zero_point: -3)", [-128, -3, 127], [-31.25, 0, 32.5]),
        ("i16[3]", [-5, 0, 5], [-5, 0, 5]),
        ("f32[3]", [-0.5, 0, 1e9], [-0.5, 0, 1e9]),
        ("bool[2]", [True, False], [1, 0]),
        ("i8[2] quant(scale: [0.5, 0.25], axis: 0)", [4, 4], [4, 4]),  # several scales are ignored
    ],
)
def test_elements_and_numbers(type: str, stored: list[float], real: list[float]) -> None:
    elements = np.array(stored, value(type).dtype.numpy)
    found = real_numbers(value(type), elements)
    assert found.dtype == np.float64
    assert found.tolist() == real
    back = stored_numbers(value(type), found)
    assert back.dtype == elements.dtype
    np.testing.assert_array_equal(back, elements)


def test_numbers_are_rounded_and_clipped() -> None:
    form = value("i8[4] quant(scale: 0.25, zero_point: -3)")  # 0.2 / 0.25 - 3 = -2.2
    assert stored_numbers(form, np.array([100.0, -100.0, 0.2, 0.05])).tolist() == [127, -128, -2, -3]


@pytest.mark.parametrize("type", ["i8[4] quant(scale: 0.5)", "i64[4] quant(scale: 0.5)", "u8[4]"])
def test_numbers_that_an_integer_dtype_lacks(type: str) -> None:
    low, high = value(type).dtype.limits
    stored = stored_numbers(value(type), np.array([1e30, -1e30, np.inf, np.nan]))
    assert stored.tolist() == [high, low, high, high]


def test_complex_numbers_and_strings_stay() -> None:
    for type, array in (
        ("c64[1]", np.array([1 + 2j], np.complex64)),
        ("str[1]", np.array([b"a"], object)),
    ):
        assert real_numbers(value(type), array) is array


def model(type: str, name: str = "x") -> circlekit.Model:
    return circlekit.parse(f"graph main(%{name}: {type}) -> %{name} {{\n}}")


def test_inputs_for_another_model() -> None:
    plain, integer = model("f32[2]"), model("i8[2] quant(scale: 0.5, zero_point: 4)")
    x = np.array([1.0, -1.0], np.float32)
    same = inputs_for(plain, model("f32[2]"), [x])
    assert same is not None
    assert same[0] is x  # type: ignore[index]
    for given in ([x], {"x": x}):
        stored = inputs_for(integer, plain, given)
        assert stored is not None
        assert [array.tolist() for array in stored] == [[6, 2]]  # type: ignore[union-attr]
    assert inputs_for(plain, integer, [np.array([6, 2], np.int8)])[0].tolist() == [1, -1]  # type: ignore[index]
    coarser = model("i8[2] quant(scale: 1.0, zero_point: 4)")
    assert inputs_for(coarser, integer, [np.array([6, 2], np.int8)])[0].tolist() == [5, 3]  # type: ignore[index]


def test_inputs_that_do_not_correspond() -> None:
    plain, x = model("f32[2]"), np.zeros(2, np.float32)
    assert inputs_for(plain, model("f32[2]", "y"), [x]) is None
    assert inputs_for(plain, model("f32[1,2]"), [x]) is None
    assert inputs_for(plain, model("f32[3]"), [x]) == [x]  # the types are equal: inputs stay as they are
    assert inputs_for(plain, model("i8[3] quant(scale: 0.5)"), [x]) is None


@pytest.mark.parametrize(
    ("first", "second", "equal"),
    [
        ("f32[2]", "f32[2] quant(scale: 0.5)", True),  # floats are not quantized
        ("i8[2]", "i8[2] quant(scale: 0.5)", False),
        ("i8[2] quant(scale: 0.5)", "i8[3] quant(scale: 0.5)", True),
        ("i8[2] quant(scale: 0.5)", "i8[2] quant(scale: 0.25)", False),
        ("i8[2] quant(scale: 0.5)", "i8[2] quant(scale: 0.5, zero_point: 1)", False),
        ("i8[2]", "u8[2]", False),
    ],
)
def test_equal_types(first: str, second: str, equal: bool) -> None:
    assert have_equal_types([value(first)], [value(second)]) is equal
