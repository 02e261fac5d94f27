# SPDX-License-Identifier: Apache-2.0
"""Forms of weights and biases, and the bytes that they save in the file."""

from __future__ import annotations

import numpy as np
import pytest

import circlekit
from circlekit.errors import ModelError, UnsupportedError
from circlekit.ir.dtypes import DType, i8, i32, i64
from circlekit.ir.value import Array, Value
from circlekit.quant.plan import TensorForm
from circlekit.quant.scheme import SCHEMES
from circlekit.quant.weights import (
    BYTES_OF_DEQUANTIZE,
    LARGEST_BIAS,
    ZERO_WEIGHT_BIAS,
    bfloat16_at_least,
    bias_form,
    block_form,
    fit_bias,
    indices_of,
    saved_bytes,
    stored_constants,
    weight_form,
)


def savings(scheme: str, units: int) -> tuple[int, int]:
    """Return by how many bytes the weights, and the file, shrink in ``scheme``."""
    weights = f"%w = const f32[{units},128] gaussian(0, 1)"
    model = circlekit.parse(
        f"graph main(%x: f32[1,128]) -> %y {{ {weights}\n  %y = FullyConnected(%x, %w) }}"
    )
    value, form = model.main.ops[0].inputs[1], SCHEMES[scheme]
    assert value is not None
    plan = block_form(value, form) if form.block else weight_form(value, form, 0)
    expected = saved_bytes(value, plan, form)
    report = circlekit.quantize(model, scheme)
    before, after = report.before.file_size, report.after.file_size
    assert before is not None
    assert after is not None
    return expected, before - after


@pytest.mark.parametrize("shape", ["32", "2,48", "2,32,32"])
def test_blocks_divide_the_rows_of_a_matrix(shape: str) -> None:
    model = circlekit.parse(f"graph main() -> %w {{ %w = const f32[{shape}] gaussian(0, 1) }}")
    with pytest.raises(UnsupportedError, match="expected rank 2 with rows of a multiple of 32 elements, got"):
        block_form(model.main.outputs[0], SCHEMES["weight_int4_block32"])


@pytest.mark.parametrize("scheme", ["dynamic_int8", "weight_int4", "weight_int4_block32"])
def test_the_bytes_that_a_form_saves_are_those_of_the_file(scheme: str) -> None:
    """The bytes for each unit are exact; those that a quantized operator adds to the file are estimated."""
    (less, in_small_file), (more, in_large_file) = savings(scheme, 32), savings(scheme, 64)
    assert more - less == in_large_file - in_small_file
    assert abs(less - in_small_file) < 200


@pytest.mark.parametrize("more", [-2, -1, 0, 1, 2])
def test_float16_stores_the_constants_of_other_operators_that_save_bytes(more: int) -> None:
    count = BYTES_OF_DEQUANTIZE // 2 + more
    constant = f"%c = const f32[{count}] gaussian(0, 1)"
    (op,) = circlekit.parse(f"graph main(%x: f32[{count}]) -> %y {{ {constant}\n %y = Add(%x, %c) }}").main
    value, scheme = op.inputs[1], SCHEMES["float16"]
    assert value is not None
    saves = saved_bytes(value, weight_form(value, scheme, None), scheme) > 0
    assert saves == (more > 0)
    assert stored_constants(op, scheme) == ({1: None} if saves else {})
    assert stored_constants(op, SCHEMES["weight_int8"]) == {}


DATA_SCALE = 0.5


def of_channels(*scales: float) -> TensorForm:
    return TensorForm(i8, tuple(float(np.float32(s)) for s in scales), (0,) * len(scales), reason="given")


def bias(*numbers: float) -> Value:
    return Value.constant("b", np.array(numbers, np.float32))


@pytest.mark.parametrize("dtype", [i32, i64])
def test_scales_grow_just_so_that_the_bias_fits(dtype: DType) -> None:
    """The first biases are half, 4 and 8 times the largest that fits; the last channels have weights of 0."""
    # the scale of the bias is that of the weights, 0.25, times that of the data, 0.5
    limit = LARGEST_BIAS[dtype] * 0.25 * 0.5
    numbers = np.array([limit / 2, limit * 4, -limit * 8, 3.0, 0.0])
    weights: Array = np.ones((5, 2), np.float32)
    weights[3:] = 0
    form = of_channels(*[0.25] * 5)
    fitted = fit_bias(form, bias(*numbers), DATA_SCALE, dtype, weights)
    np.testing.assert_allclose(fitted.scales[[0, 1, 2, 4]], [0.25, 1, 2, 0.25], rtol=1e-6)
    assert 3.0 / (fitted.scales[3] * 0.5) == pytest.approx(ZERO_WEIGHT_BIAS)
    assert fitted.reason == f"given; larger in channel 1, 2, so that the bias fits into {dtype.short}"
    assert fit_bias(form, bias(*[limit / 2] * 5), DATA_SCALE, dtype, np.ones((5, 2), np.float32)) is form


def test_scales_have_a_floor_where_there_is_a_bias() -> None:
    weights: Array = np.ones((2, 1), np.float32)
    form = fit_bias(of_channels(0.25, 0.25), bias(1.0, 0.0), DATA_SCALE, i32, weights, smallest=0.75)
    assert form.scale == (0.75, 0.25)


@pytest.mark.parametrize("count", [4, 5])
def test_at_most_four_channels_with_larger_scales_are_named(count: int) -> None:
    weights: Array = np.ones((6, 1), np.float32)
    form = fit_bias(
        of_channels(*[1e-9] * 6), bias(*[1.0] * count, *[0.0] * (6 - count)), DATA_SCALE, i32, weights
    )
    assert ("channel 0, 1, 2, 3, ..., so" if count > 4 else "channel 0, 1, 2, 3, so") in form.reason


def test_biases_of_one_scale_and_of_one_element() -> None:
    """The largest element counts for one scale; a single element counts for every scale."""
    limit = LARGEST_BIAS[i32] * 0.25 * 0.5
    weights: Array = np.ones((2, 1), np.float32)
    one = fit_bias(of_channels(0.25), bias(limit / 2, -limit * 2, 1.0), DATA_SCALE, i32, weights)
    assert one.scale == pytest.approx((0.5,))
    assert one.reason == "given; larger, so that the bias fits into i32"
    several = fit_bias(of_channels(0.25, 0.75), bias(limit * 2), DATA_SCALE, i32, weights)
    assert several.scale == pytest.approx((0.5, 0.75))
    with pytest.raises(ModelError, match="%b: expected 1 element, or 2, one for each channel, got 3"):
        fit_bias(of_channels(0.25, 0.25), bias(1.0, 2.0, 3.0), DATA_SCALE, i32, weights)


@pytest.mark.parametrize(("shape", "axis"), [((), 0), ((3,), 0), ((1, 3), 1), ((1, 1, 3), 2)])
def test_scales_of_a_bias_are_products_along_its_last_axis(shape: tuple[int, ...], axis: int) -> None:
    value = Value.constant("b", np.ones(shape, np.float32))
    form = bias_form(value, DATA_SCALE, of_channels(0.1, 0.2, 0.3), i32)
    np.testing.assert_array_equal(form.scales, np.float32(0.5) * np.array([0.1, 0.2, 0.3], np.float32))
    assert (form.dtype, form.zero_point, form.axis) == (i32, (0, 0, 0), axis)


def test_bfloat16_scales_are_the_next_ones_that_are_not_smaller() -> None:
    """The results are from 2**-14 to 65280, the largest number that float16 and bfloat16 both hold."""
    scales = np.float32(10.0) ** np.linspace(-3, 4.8, 200, dtype=np.float32)
    found = bfloat16_at_least(scales)
    bits = found.view(np.uint32)
    assert not (bits & 0xFFFF).any()
    assert (found >= scales).all()
    assert ((bits - 0x10000).view(np.float32) < scales).all()
    np.testing.assert_array_equal(bfloat16_at_least(found), found)
    assert bfloat16_at_least(np.array([0, 2.0**-15], np.float32)).tolist() == [2.0**-14] * 2
    largest = np.array([65280, 65504, 1e9], np.float32)  # an infinite float16 would make every weight NaN
    assert bfloat16_at_least(largest).astype(np.float16).tolist() == [65280] * 3


def test_operands_by_name() -> None:
    """In an operator with a list of operands, each of these operands has the name of the list."""
    model = circlekit.parse(
        """graph main(%x: f32[1], %i: i32[1], %m: f32[1,1]) -> %y {
          %c = Concatenation(%x, %x, %x) {axis: 0}
          %o = Opaque(%x) {code: "CUSTOM", custom_code: "Mine"} : f32[1]
          %f = FullyConnected(%m, %m, none)
          %y = Gather(%c, %i) {axis: 0}
        }"""
    )
    found = [list(indices_of(op, ["values", "indices", "bias", "input"])) for op in model.main]
    assert found == [[0, 1, 2], [], [0], [1]]


@pytest.mark.parametrize("numbers", [[-1.0, 0.5, 2.0], [0.0, 1.0, 2.0], [-3.0, -2.0, -1.0], [0.0, 0.0, 0.0]])
def test_uint8_weights_are_at_most_half_a_step_off(numbers: list[float]) -> None:
    """The integer 0 is not used, so the integers from 1 to 255 cover the weights."""
    weights = Value.constant("w", np.array([numbers], np.float32))
    form = weight_form(weights, SCHEMES["uint8"], None)
    stored = np.clip(np.rint(np.array(numbers) / form.scale[0] + form.zero_point[0]), 1, 255)
    error = np.abs((stored - form.zero_point[0]) * form.scale[0] - numbers)
    assert error.max() <= 0.5001 * form.scale[0] * any(numbers)
