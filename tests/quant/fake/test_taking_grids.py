# SPDX-License-Identifier: Apache-2.0
"""Rounding operators become forms with exactly the same numbers; the interface of the model stays."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import circlekit
from circlekit.ir.dtypes import DType, i8, i16, u8
from circlekit.ir.value import Quantization, Value
from circlekit.ops.arithmetic.cast import FakeQuant
from circlekit.quant.fake.grids import _can_have, _may_vanish, remove_idle_bounds, take_grids
from circlekit.quant.fake.operator_grids import grid_of, stored_grid
from circlekit.quant.parameters import LARGEST_SCALE, SMALLEST_SCALE
from circlekit.quant.plan import TensorForm


@pytest.mark.parametrize("bits", [2, 3, 7, 8, 9, 15, 16])
@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize(("low", "high"), [(-1.3, 2.1), (0.0, 6.0), (-3.0, 0.0)])
def test_a_grid_has_the_numbers_of_its_operator(bits: int, narrow: bool, low: float, high: float) -> None:
    x = Value("x", DType.FLOAT32, (1,))
    op = FakeQuant(x, min=low, max=high, num_bits=bits, narrow_range=narrow)
    grid = grid_of(op)
    assert grid is not None
    form = grid.form
    assert form.dtype is (i8 if bits <= 8 else i16)
    count = 2**bits - narrow
    first = form.dtype.limits[0]
    assert grid.last == first + count - 1
    numbers = form.scale[0] * (np.arange(first, grid.last + 1) - form.zero_point[0])
    assert grid.highest == pytest.approx(numbers[-1])
    rounded = op.kernel(np.linspace(low - 1, high + 1, 5 * count, dtype=np.float32))
    np.testing.assert_allclose(np.unique(rounded), numbers, atol=0.1 * form.scale[0])


@pytest.mark.parametrize(
    ("low", "high", "bits"),
    [
        *((1.0, 1.0, 8), (2.0, 1.0, 8), (0.0, np.inf, 8), (-np.inf, 0.0, 8), (np.nan, 1.0, 8)),
        *((0.0, 1.0, 1), (0.0, 1.0, 17), (0.0, 1e-44, 8), (0.0, 1e-17, 8), (-3e38, 3e38, 8)),
    ],
)
def test_operators_that_have_no_grid(low: float, high: float, bits: int) -> None:
    x = Value("x", DType.FLOAT32, (1,))
    assert grid_of(FakeQuant(x, min=low, max=high, num_bits=bits)) is None


def quantization(scale: list[float], zero_point: list[int], axis: int = 0) -> Quantization:
    return Quantization(np.array(scale, np.float32), np.array(zero_point, np.int64), axis)


@pytest.mark.parametrize("dtype", [DType.INT4, i8, u8, i16])
@pytest.mark.parametrize("count", [1, 3])
def test_a_stored_grid_has_the_numbers_of_its_integers(dtype: DType, count: int) -> None:
    scale, zero_point = np.array([0.5, 0.25, 2.0], np.float32)[:count], np.array([3, 0, 1])[:count]
    value = Value("x", dtype, (2, 3), None, Quantization(scale, zero_point, 1))
    grid = stored_grid(value)
    assert grid is not None
    form = grid.form
    assert form.dtype is (i16 if dtype is i16 else i8)
    assert (form.axis, form.rounds, form.scale) == (1, True, tuple(scale.tolist()))
    low, high = dtype.limits
    ours = np.arange(form.dtype.limits[0], grid.last + 1)[:, None] - np.array(form.zero_point)
    assert (ours == np.arange(low, high + 1)[:, None] - zero_point).all()


@pytest.mark.parametrize("scale", [SMALLEST_SCALE, LARGEST_SCALE])
def test_a_stored_grid_may_have_the_smallest_and_the_largest_scale(scale: float) -> None:
    grid = stored_grid(Value("x", i8, (2,), None, quantization([scale], [0])))
    assert grid is not None
    assert grid.form.scale == (scale,)


@pytest.mark.parametrize(("zero_points", "expected"), [([], [0, 0, 0]), ([3], [3, 3, 3])])
def test_a_form_has_a_zero_point_for_each_scale(zero_points: list[int], expected: list[int]) -> None:
    grid = stored_grid(Value("x", i8, (3,), None, quantization([1, 1, 1], zero_points)))
    assert grid is not None
    assert list(grid.form.zero_point) == expected


@pytest.mark.parametrize(
    ("dtype", "quantization"),
    [
        (DType.INT32, quantization([1], [0])),
        (i8, None),
        (i8, quantization([], [])),
        (i8, quantization([1, 1], [0, 0, 0])),
        (i8, quantization([1, 1, 1], [0, 0, 0])),  # the axis has the size 2
        (i8, quantization([1, 1], [0, 0], axis=1)),
        *((i8, quantization([scale], [0])) for scale in (0, -1, np.nan, np.inf, 1e-40, 1e30)),
        *((dtype, quantization([1], [zero_point])) for dtype, zero_point in ((i8, 128), (u8, -1))),
        (DType.FLOAT16, None),
    ],
)
def test_integers_without_a_grid(dtype: DType, quantization: Quantization | None) -> None:
    assert stored_grid(Value("x", dtype, (2,), None, quantization)) is None


def test_the_axis_of_a_single_scale_makes_no_other_grid() -> None:
    stored = "i8[2,4] quant(scale: 0.1, zero_point: 3"
    model = circlekit.parse(f"""graph main(%x: f32[2,4]) -> %y {{
      %q = Quantize(%x) : {stored})
      %d = Dequantize(%q)
      %r = Quantize(%x) : {stored}, axis: 1)
      %e = Dequantize(%r)
      %y = Add(%d, %e)
    }}""")
    assert [list(grids) for grids in take_grids(model)] == [["x"]]
    assert [op.code for op in model.main.ops] == ["ADD"]


FAKE = "FakeQuant(%t) {min: -1.0, max: 1.0, num_bits: 8, narrow_range: false}"
SEVEN = FAKE.replace("8", "7")


@pytest.mark.parametrize(
    ("body", "outputs", "codes", "grids"),
    [  # ``grids``: the tensors with a grid; highest: the constant of the MINIMUM, such as q/highest for %q
        (f"%q = {FAKE}\n%y = Abs(%q)", "%y", "ABS", "x"),
        (f"%t = Abs(%x)\n%y = {FAKE}", "%y", "ABS", "y"),
        (f"%y = {FAKE}", "%y", "FAKE_QUANT", "x"),
        (f"%t = Abs(%x)\n%y = {FAKE}", "%t, %y", "ABS MINIMUM", "t y highest"),
        (f"%q = {SEVEN}\n%y = Abs(%q)", "%y", "MINIMUM ABS", "x q highest"),
        (f"%q = {FAKE}\n%r = {SEVEN}\n%y = Add(%q, %r)", "%y", "MINIMUM MINIMUM ADD", "x q r highest"),
        (f"%q = {FAKE}\n%y = Add(%q, %x)", "%y", "MINIMUM ADD", "x q highest"),
        (f"%q = {FAKE}\n%r = {FAKE}\n%y = Add(%q, %r)", "%y", "ADD", "x"),
        (f"%t = Tanh(%x)\n%q = {FAKE}\n%y = Abs(%q)", "%y", "TANH MINIMUM ABS", "q highest"),
        (f"%t = Reshape(%x, [4])\n%q = {FAKE}\n%y = Abs(%q)", "%y", "RESHAPE ABS", "t x"),
        (f"%t = const f32[4] gaussian(0, 1)\n%q = {FAKE}\n%y = Add(%q, %x)", "%y", "ADD", "t/rounded"),
    ],
)
def test_what_remains_of_rounding_operators(body: str, outputs: str, codes: str, grids: str) -> None:
    body = body if "%t = " in body else body.replace("%t", "%x")
    model = circlekit.parse(f"graph main(%x: f32[4]) -> {outputs} {{\n{body}\n}}")
    (found,) = take_grids(model)
    assert ", ".join(f"%{v.name}" for v in model.main.outputs) == outputs
    assert " ".join(op.code for op in model.main) == codes
    assert {name.split("/")[-1] if name.endswith("highest") else name for name in found} == set(grids.split())
    assert all(form.dtype is i8 for form in found.values())


def test_a_grid_is_followed_through_a_long_chain() -> None:
    chain = "\n".join(f"%a{n + 1} = Reshape(%a{n}, [4])" for n in range(1500))
    model = circlekit.parse(
        f"graph main(%x: f32[4]) -> %y {{\n%a0 = Neg(%x)\n{chain}\n%y = {FAKE.replace('%t', '%a1500')}\n}}"
    )
    (found,) = take_grids(model)
    assert {"a0", "a700", "y"} <= found.keys()
    assert not any(op.code == "FAKE_QUANT" for op in model.main)


@pytest.mark.parametrize("largest", [126, 127])
@pytest.mark.parametrize("outputs", ["%y", "%m, %y"])
@pytest.mark.parametrize("bound", ["i8[]", "i8[2]", "i8[2,2]"])
def test_bounds_that_clip_nothing_are_removed(largest: int, outputs: str, bound: str) -> None:
    """A MINIMUM stays if its result is an output, or if it broadcasts its operand."""
    numbers = {"i8[]": str(largest)}.get(bound, str(np.full(4 if "," in bound else 2, largest).tolist()))
    shape = "i8[2,2]" if "," in bound else "i8[2]"
    model = circlekit.parse(f"""
    graph main(%x: i8[2] quant(scale: 0.5)) -> {outputs} {{
      %k = const {bound} {numbers}
      %m = Minimum(%x, %k) : {shape} quant(scale: 0.5)
      %y = Relu(%m) : {shape} quant(scale: 0.5)
    }}""")
    remove_idle_bounds(model)
    is_gone = largest == 127 and outputs == "%y" and bound != "i8[2,2]"
    assert [op.code for op in model.main] == (["RELU"] if is_gone else ["MINIMUM", "RELU"])


@pytest.mark.parametrize(("most", "is_moved"), [(127, True), (128, False), (255, False)])
@pytest.mark.parametrize("low", [0.0, -2.55])
def test_weights_get_the_zero_point_0_if_all_their_numbers_stay(
    most: int, is_moved: bool, low: float
) -> None:
    """The grid has 255 numbers above 0, or below 0; int8 with zero point 0 has 127 above and 128 below."""
    sign = -1 if low else 1
    numbers = [0.0, sign * 0.01 * most, sign * 0.3]
    model = circlekit.parse(f"""
    graph main(%x: f32[3]) -> %y {{
      %k = const f32[3] {numbers}
      %q = FakeQuant(%k) {{min: {low}, max: {low + 2.55}, num_bits: 8, narrow_range: false}}
      %y = Add(%x, %q)
    }}""")
    (found,) = take_grids(model)
    (form,) = found.values()
    assert form.scale == pytest.approx((0.01,))
    is_moved = is_moved or (sign < 0 and most == 128)
    assert form.zero_point == (0 if is_moved else (127 if low else -128),)


FORM, OTHER = TensorForm(i8, (0.5,), (3,)), TensorForm(i8, (0.25,), (3,))
POOL = "{padding: VALID, filter_width: 2, filter_height: 2"


def result(lines: str, outputs: str = "%y") -> Value:
    """Return %y of a graph with these lines."""
    text = f"graph main(%x: f32[1,2,2,4], %k: f32[1,2,2,4]) -> {outputs} {{\n{lines}\n}}"
    return next(v for v in circlekit.parse(text).main.values() if v.name == "y")


@pytest.mark.parametrize(
    ("line", "form", "expected"),
    [
        ("Add(%x, %k)", FORM, True),
        ("FloorDiv(%x, %k)", FORM, True),  # without a rule
        ("ReduceProd(%x, [1])", FORM, False),  # it rounds inside
        ("MatrixDiag(%x)", FORM, False),  # it ignores zero points
        ("MatrixDiag(%x)", replace(FORM, zero_point=(0,)), True),
        ("Logistic(%x)", FORM, False),
        ("Logistic(%x)", TensorForm(i8, (1 / 256,), (-128,)), True),
        ("Logistic(%x)", TensorForm(i8, (1 / 256,), (-127,)), False),
        ("Logistic(%x)", TensorForm(i8, (1 / 128,), (-128,)), False),
        ("Concatenation(%x, %k) {axis: 1}", FORM, True),  # its operands follow
        (f"MaxPool2D(%x) {POOL}}}", FORM, True),
        (f"MaxPool2D(%x) {POOL}, act: RELU}}", FORM, True),
        (f"AveragePool2D(%x) {POOL}}}", FORM, False),
        (f"AveragePool2D(%x) {POOL}, act: RELU}}", FORM, False),
        ("Reshape([1.0, 2.0], [2, 1])", FORM, False),  # the operand is a constant
        ("Reshape(%x, [16])", FORM, True),
    ],
)
def test_operators_whose_results_can_have_a_form(line: str, form: TensorForm, expected: bool) -> None:
    assert _can_have(result(f"%y = {line}"), form, {}) == expected


@pytest.mark.parametrize("line", ["Reshape(%x, [16])", f"AveragePool2D(%x) {POOL}}}"])
def test_results_of_data_movement_and_of_averages_have_the_form_of_the_operand(line: str) -> None:
    value = result(f"%y = {line}")
    assert _can_have(value, FORM, {"x": FORM})
    assert not _can_have(value, FORM, {"x": OTHER})
    assert _can_have(value, FORM, {"k": OTHER}) == ("Pool" not in line)  # no form of %x is known
    assert not _can_have(result(f"%y = {line}\n%z = Neg(%x)", "%y, %z"), FORM, {})  # others read %x, too
    chain = result("%l = Logistic(%x)\n%y = Reshape(%l, [16])")
    assert not _can_have(chain, FORM, {})  # nor can its operand


@pytest.mark.parametrize(
    ("line", "grids", "expected"),
    [
        ("Relu(%x)", {"x": OTHER}, True),
        ("Relu(%x)", {"x": FORM}, False),
        ("Relu(%x)", {}, False),
        ("Relu(%x)", {"k": OTHER}, False),
        ("Add(%x, [[1.0]])", {"x": OTHER}, True),
        ("Add(%x, %k)", {"x": OTHER}, False),
        ("Gather(%x, [0, 1]) {axis: 3}", {"x": OTHER}, True),
        ("Conv2D(%x, %w)", {"x": OTHER}, False),
    ],
)
def test_operators_that_may_vanish_between_two_grids(
    line: str, grids: dict[str, TensorForm], expected: bool
) -> None:
    value = result(f"%w = const f32[2,1,1,4] gaussian(0, 1)\n%y = {line}")
    assert _may_vanish(value, FORM, grids) == expected
    (operand, *_) = (v for v in value.producer.inputs if v is not None)  # type: ignore[union-attr]
    assert not _may_vanish(operand, FORM, grids)  # an input of the graph


@pytest.mark.parametrize("dtype", ["i4", "i8"])
@pytest.mark.parametrize("rounding", ["%q = Quantize(%x) : $ %y = Dequantize(%q)", "%y = Dequantize(%x)"])
def test_an_activation_with_several_scales_keeps_its_operators(dtype: str, rounding: str) -> None:
    """No kernel computes such activations, so QUANTIZE and DEQUANTIZE stay, and no number is lost."""
    form = f"{dtype}[4] quant(scale: [1, 10, 100, 1000], zero_point: [0, 0, 0, 0], axis: 0)"
    is_rounded = "Quantize(%x)" in rounding
    body = rounding.replace("$", form)
    model = circlekit.parse(
        f"graph main(%x: {'f32[4]' if is_rounded else form}) -> %z {{ {body} %z = Abs(%y) }}"
    )
    x = np.array([5, 50, 500, 5000], np.float32) if is_rounded else np.full(4, 5, np.int8)
    circlekit.quantize(model, "int8", samples=[[x]])
    kept = ["QUANTIZE", "DEQUANTIZE"] if is_rounded else ["DEQUANTIZE"]
    assert [op.code for op in model.main][: len(kept)] == kept
    np.testing.assert_allclose(circlekit.run(model, [x])[0], [5, 50, 500, 5000], atol=0.1)


def test_a_requantized_tensor_keeps_its_operators() -> None:
    model = circlekit.parse("""
    graph main(%x: i8[2] quant(scale: 0.5)) -> %y {
      %q = Quantize(%x) : i8[2] quant(scale: 0.25)
      %d = Dequantize(%q) : f32[2]
      %y = Neg(%d)
    }""")
    (grids,) = take_grids(model)
    assert [op.code for op in model.main] == ["QUANTIZE", "DEQUANTIZE", "NEG"]
    assert {name: form.scale for name, form in grids.items()} == {"d": (0.25,)}
