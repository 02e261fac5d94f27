# SPDX-License-Identifier: Apache-2.0
"""Modes of ONE's quantizer without recorded ranges: weights alone, given parameters, fake quantization."""

from __future__ import annotations

import math

import numpy as np
import pytest

from circlekit.api.models import parse, run
from circlekit.errors import CirclekitError
from circlekit.ir.clone import clone
from circlekit.ir.dtypes import DType, f32, i8, i16, u64
from circlekit.ops.constant_operands import constant_elements
from circlekit.quant.one.fake_quantized import fake_quantize
from circlekit.quant.one.given_parameters import copy_parameters, force_parameters
from circlekit.quant.one.weights_only import quantize_dequantize_weights, quantize_weights
from circlekit.quant.one.with_minmax import quantize_with_minmax
from tests.quant.one.one_models import FC, UINT8, on_floats, quantized, value_of


@pytest.mark.parametrize(("dtype", "last"), [(DType.INT4, 7), (i8, 127), (i16, 32767)])
def test_quantize_weights(dtype: DType, last: int) -> None:
    model = parse(FC.format(w=0.25, b=0.5, r=4.0))
    quantize_weights(model, dtype)
    weights = value_of(model, "w")
    assert weights.dtype is dtype
    assert constant_elements(weights).tolist() == [[last, last], [last, -last]]
    assert weights.quantization.scale.tolist() == pytest.approx([0.25 / last, 1 / last])  # type: ignore[union-attr]
    assert value_of(model, "x").dtype is f32


def test_rounded_weights_give_the_integers_that_they_stand_for() -> None:
    """Rounding weights before quantization, as one-quantize does, gives the integers of the float weights."""
    text = FC.format(w=0.123456, b=0.5, r=4.0)
    rounded = parse(text)
    ranges = {v.name: v.quantization for v in rounded.main.values() if not v.is_const}
    quantize_dequantize_weights(rounded, UINT8)
    for value in rounded.main.values():
        value.quantization = ranges.get(value.name, value.quantization)
    quantize_with_minmax(rounded, UINT8)
    assert np.array_equal(value_of(rounded, "w").array(), value_of(quantized(text), "w").array())


def test_parameters_are_forced_and_copied_by_name() -> None:
    model = quantized(FC.format(w=0.25, b=0.5, r=4.0))
    force_parameters(model, [("x", 2.3, 33), ("y", 0.5, 255), ("y", 0.5, 0)])
    copy_parameters(model, [("x", "y")])
    for name in "xy":
        assert value_of(model, name).quantization.scale.tolist() == [np.float32(2.3)]  # type: ignore[union-attr]
        assert value_of(model, name).quantization.zero_point.tolist() == [33]  # type: ignore[union-attr]
    for given, message in (
        (("z", 1.0, 0), "no tensor is named 'z'"),
        *((("x", scale, 0), "positive float32 number as scale") for scale in (0.0, 1e-50, 1e50, math.nan)),
        (("x", 1.0, 256), "expected a zero point from 0 to 255 for u8, got 256"),
    ):
        with pytest.raises(CirclekitError, match=message):
            force_parameters(model, [given])
    with pytest.raises(CirclekitError, match="x cannot have the parameters of w"):
        copy_parameters(model, [("w", "x")])
    value_of(model, "x").dtype = u64
    with pytest.raises(CirclekitError, match="from 0 to 9223372036854775807 for u64"):
        force_parameters(model, [("x", 1.0, 2**63)])
    force_parameters(model, [("x", 1.0, 2**63 - 1)])
    value_of(model, "y").dtype = i8
    force_parameters(model, [("x", 0.5, 200)])
    with pytest.raises(CirclekitError, match="y: expected a zero point from -128 to 127 for i8, got 200"):
        copy_parameters(model, [("x", "y")])


def test_fake_quantized_and_quantized_models_have_near_results() -> None:
    model = quantized(FC.format(w=0.25, b=0.5, r=4.0))
    fake = clone(model)
    fake_quantize(fake)
    assert {v.dtype for v in (*fake.main.inputs, *fake.main.outputs)} == {f32}
    x = np.array([[1.0, 0.5]], np.float32)
    assert run(fake, [x])[0] == pytest.approx(on_floats(model, x)[0], abs=0.04)
