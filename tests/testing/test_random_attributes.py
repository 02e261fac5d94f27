# SPDX-License-Identifier: Apache-2.0
"""What can be drawn for attributes and quantization parameters: exactly the described values."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from circlekit.ir.declaration import Attribute
from circlekit.ir.dtypes import DType, boolean, f32, i32
from circlekit.ir.enums import Activation, Padding
from circlekit.ir.op import REGISTRY
from circlekit.ir.value import Value
from circlekit.testing.model_builder import ModelBuilder
from circlekit.testing.random_attributes import derived_attributes, random_attribute, random_quantization
from tests.testing.draws import DRAWS, SHAPE, drawn


@pytest.mark.parametrize(
    ("name", "default", "values"),
    [
        ("act", Activation.NONE, {"NONE", "RELU", "RELU6", "RELU_N1_TO_1"}),
        ("flag", False, {False, True}),
        ("stride_w", 1, {1, 2, 3}),
        ("depth_multiplier", 1, {1, 2, 3}),
        ("filter_width", 1, {1, 2, 3}),
        ("block_size", 2, {1, 2, 3}),
        ("begin_mask", 0, {0, 1, 2, 4}),
        ("axis", 0, {-2, -1, 0, 1}),
        ("other", 7, {7}),
        ("alpha", 0.5, {0.5}),
        ("output_type", DType.INT32, {"i32", "i64"}),
    ],
)
def test_attributes(name: str, default: Any, values: set[Any], m: ModelBuilder) -> None:
    spec = Attribute(default, name, is_graph=False)
    spec.name = name
    found = {random_attribute(m, spec) for _ in range(DRAWS)}
    assert {getattr(x, "short", getattr(x, "name", x)) for x in found} == values


def test_attributes_that_follow_from_operands(m: ModelBuilder) -> None:
    (x,) = m.graph.inputs
    unpacked = [derived_attributes(m, REGISTRY["UNPACK"], [x]) for _ in range(50)]
    assert {item["axis"] for item in unpacked} == set(range(-4, 4))
    assert all(item["num"] == SHAPE[item["axis"]] for item in unpacked)
    assert derived_attributes(m, REGISTRY["UNPACK"], [None]) == {}
    assert derived_attributes(m, REGISTRY["UNPACK"], [m.constant(1.0)]) == {}
    assert derived_attributes(m, REGISTRY["PACK"], [x, x, x])["values_count"] == 3
    splits = drawn(lambda: derived_attributes(m, REGISTRY["SPLIT"], [x, x])["num_splits"])
    assert splits == {1, 2, 3}
    cast = [derived_attributes(m, REGISTRY["CAST"], [x]) for _ in range(50)]
    assert {item["in_data_type"] for item in cast} == {f32}
    assert {item["out_data_type"] for item in cast} == {f32, i32, boolean, DType.INT64}


def test_depth_multipliers_follow_from_the_filter(m: ModelBuilder) -> None:
    (x,) = m.graph.inputs
    for channels, multiplier in ((6, 1), (12, 2), (18, 3), (1, 1)):
        w = Value.constant("w", np.zeros((1, 3, 3, channels), np.float32))
        found = derived_attributes(m, REGISTRY["DEPTHWISE_CONV_2D"], [x, w])
        assert found["depth_multiplier"] == multiplier
    w = Value.constant("w", np.zeros((1, 3, 3, 4), np.float32))
    scalar = m.new_input(Value("scalar", f32, ()), np.zeros((), np.float32))
    assert derived_attributes(m, REGISTRY["DEPTHWISE_CONV_2D"], [scalar, w])["depth_multiplier"] == 4
    assert derived_attributes(m, REGISTRY["DEPTHWISE_CONV_2D"], [x, None])["depth_multiplier"] == 1


@pytest.mark.parametrize("padding", [Padding.SAME, Padding.VALID])
@pytest.mark.parametrize("strides", [*product((1, 2, 3), repeat=2)])
def test_windows_of_transposed_convolutions(
    padding: Padding, strides: tuple[int, int], m: ModelBuilder
) -> None:
    """LiteRT computes the stored size from the strides and the padding that are found.

    If there are no such strides and padding, the result is {}.
    """
    (x,) = m.graph.inputs  # of 3 rows and 4 columns
    w = Value.constant("w", np.zeros((5, 6, 7, 6), np.float32))
    bias = Value.constant("b", np.zeros(5, np.float32))
    # SAME: 3 * stride rows; VALID: (3 - 1) * stride + 6 taps; likewise the columns
    more_rows, more_columns = (0, 0) if padding is Padding.SAME else (6 - strides[0], 7 - strides[1])
    size = [3 * strides[0] + more_rows, 4 * strides[1] + more_columns]
    for more in ([], [bias]):
        found = derived_attributes(m, REGISTRY["TRANSPOSE_CONV"], [m.ints([2, *size, 5]), w, x, *more])
        assert found == {"padding": padding, "stride_h": strides[0], "stride_w": strides[1]}
    assert derived_attributes(m, REGISTRY["TRANSPOSE_CONV"], [m.ints([2, 40, size[1], 5]), w, x]) == {}
    assert derived_attributes(m, REGISTRY["TRANSPOSE_CONV"], [m.ints([2, *size, 5]), None, x]) == {}


def test_fake_quantization(m: ModelBuilder) -> None:
    found = [derived_attributes(m, REGISTRY["FAKE_QUANT"], m.graph.inputs) for _ in range(60)]
    assert {item["num_bits"] for item in found} == {8}
    assert ({item["min"] for item in found}, {item["max"] for item in found}) == ({-6, -1, 0}, {6, 1, 2.55})


@pytest.mark.parametrize(
    ("dtype", "low", "high"), [(DType.UINT8, 0, 199), (DType.INT8, -100, 99), (DType.INT16, 0, 0)]
)
def test_quantization(dtype: DType, low: int, high: int, m: ModelBuilder) -> None:
    found = [random_quantization(m, dtype) for _ in range(3000)]
    points = {int(item.zero_point[0]) for item in found}
    assert points == {*range(low, high + 1), 0}
    scales = {
        float(np.float32(s / (64 if dtype is DType.INT16 else 1))) for s in (0.05, 0.1, 1 / 16, 0.5, 1 / 256)
    }
    assert {float(item.scale[0]) for item in found} == scales
