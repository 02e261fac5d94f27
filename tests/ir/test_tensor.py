# SPDX-License-Identifier: Apache-2.0
"""Shapes, quantization parameters and constant data of one tensor."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from circlekit.errors import ModelError
from circlekit.ir.dtypes import DType
from circlekit.ir.value import (
    MAX_RANK,
    Array,
    Quantization,
    Shape,
    TensorType,
    Value,
    format_shape,
    same_array,
    same_grid,
)


@pytest.mark.parametrize(
    ("shape", "text"),
    [((), "[]"), ((1, None, 3), "[1,?,3]"), (None, "[*]"), ((1,) * 32, "[" + "1," * 31 + "1]")],
)
def test_format_shape(shape: Shape | None, text: str) -> None:
    assert format_shape(shape) == text
    assert str(TensorType(DType.INT8, shape)) == "i8" + text


def test_very_long_shapes_are_shortened() -> None:
    text = format_shape((7,) * 1000)
    assert text == "[" + ",".join(["7"] * (2 * MAX_RANK)) + ",... 1000 dimensions]"


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        (None, None, True),
        (np.zeros(1), None, False),
        (np.array([np.nan]), np.array([np.nan]), True),
        (np.array([0.0]), np.array([-0.0]), False),
        (np.zeros(2), np.zeros((2, 1)), False),
        (np.zeros(2, np.float32), np.zeros(2, np.int32), False),
        (np.arange(4)[::2], np.array([0, 2]), True),
        (np.array([b"a", b""], object), np.array([b"a", b""], object), True),
        (np.array([b"a", b""], object), np.array([b"a", b"b"], object), False),
    ],
)
def test_same_array(a: Array | None, b: Array | None, same: bool) -> None:
    assert same_array(a, b) is same
    assert same_array(b, a) is same


def test_a_transposed_view_of_the_same_memory_is_another_array() -> None:
    base = np.array([[1, 2], [3, 4]])
    assert same_array(base, base[:])
    assert not same_array(base, base.T)


SCALES = Quantization(np.array([0.5, 0.25], np.float32), np.array([1, 2], np.int64), 1)


@pytest.mark.parametrize(
    ("shape", "misfit"),
    [
        (None, None),
        ((3, 2), None),
        ((3, None), None),
        ((3, 3), "its quantization has 2 scales, axis 1 has 3 elements"),
        ((2,), "it is quantized along axis 1, its shape is [2]"),
    ],
)
def test_scales_fit_a_shape(shape: Shape | None, misfit: str | None) -> None:
    assert SCALES.misfit(shape) == misfit
    assert Quantization(np.array([0.5], np.float32)).misfit(shape) is None


def test_quantizations_are_equal_by_their_bits() -> None:
    copied = replace(SCALES, scale=SCALES.scale.copy(), zero_point=SCALES.zero_point.copy())
    assert copied == SCALES
    assert hash(copied) == hash(SCALES)
    one = np.ones(1, np.float32)
    changes: dict[str, Any] = {
        "scale": np.array([0.5, 0.125], np.float32),
        "zero_point": np.array([1, 3]),
        "quantized_dimension": 0,
        "min": one,
        "max": one,
        "details": {"a": 1},
    }
    for field, value in changes.items():
        assert replace(SCALES, **{field: value}) != SCALES, field
    assert Quantization(one * np.nan) == Quantization(one * np.nan)
    assert Quantization(min=0 * one) != Quantization(min=-0.0 * one)
    assert SCALES != "scales"


def test_several_scales_are_per_channel() -> None:
    assert SCALES.is_per_channel
    assert not Quantization(np.array([0.5], np.float32)).is_per_channel


def test_a_grid_is_scales_and_zero_points() -> None:
    """Without scales, the recorded ranges must be equal, too."""
    one, zero = np.array([0.5], np.float32), np.zeros(1, np.int64)
    recorded = Quantization(min=-one, max=one)
    assert same_grid(Quantization(one, zero), Quantization(one, min=-one, max=one, quantized_dimension=1))
    assert same_grid(SCALES, replace(SCALES, max=one))
    # one zero point is that of all scales
    assert same_grid(replace(SCALES, zero_point=zero + 1), replace(SCALES, zero_point=np.array([1, 1])))
    assert same_grid(recorded, Quantization(min=-one, max=one))
    assert same_grid(None, None)
    for first, second in [
        (Quantization(one, zero), Quantization(one, zero + 1)),
        (Quantization(one), Quantization(one / 2)),
        (Quantization(one), None),
        (Quantization(one), Quantization(one, details={"a": 1})),
        (recorded, Quantization(min=-one)),
        (SCALES, Quantization(SCALES.scale, SCALES.zero_point, 0)),
    ]:
        assert not same_grid(first, second)
        assert not same_grid(second, first)


@pytest.mark.parametrize(
    ("dtype", "shape", "message"),
    [
        ("f32", (2,), "%v: expected a dtype of circlekit.ir.dtypes, such as f32, got 'f32'"),
        (np.float32, (2,), "%v: expected a dtype of circlekit.ir.dtypes, such as f32, got <class"),
        (DType.FLOAT32, 2, "%v: expected a shape, such as (1, 8), got 2"),
        (DType.FLOAT32, "2", "%v: expected a shape, such as (1, 8), got '2'"),
    ],
)
def test_types_of_another_kind(dtype: Any, shape: Any, message: str) -> None:
    with pytest.raises(ModelError, match=re.escape(message)):
        Value("v", dtype, shape)


def test_a_list_as_shape_becomes_a_tuple() -> None:
    shape: Any = [2, None]
    assert Value("v", DType.FLOAT32, shape).shape == (2, None)


def test_known_and_unknown_shapes() -> None:
    known, open_, unranked = (Value("v", DType.FLOAT32, s) for s in ((2, 3), (2, None), None))
    assert (known.static_shape, known.numel, known.is_static, known.rank) == ((2, 3), 6, True, 2)
    assert (open_.is_static, unranked.is_static, unranked.rank) == (False, False, None)
    for value in (open_, unranked):
        with pytest.raises(ModelError, match=r"%v has shape \[.*\], expected a static shape"):
            _ = value.static_shape


def test_constants() -> None:
    assert Value.constant("v", np.zeros(3, np.float32)).is_const
    variable = Value("v", DType.FLOAT32, (3,))
    assert not variable.is_const
    with pytest.raises(ModelError, match="%v is not a constant"):
        variable.array()


@pytest.mark.parametrize(
    ("dtype", "data", "extra", "plain"),
    [
        (DType.FLOAT32, np.zeros(3, np.float32), {}, True),
        (DType.FLOAT32, np.zeros(3, np.float32), {"compression_type": "NONE"}, True),
        (DType.FLOAT32, np.zeros(3, np.float32), {"compression_type": "DEFLATE"}, False),
        (DType.FLOAT32, np.zeros(3, np.float32), {"sparsity": {}}, False),
        (DType.FLOAT32, np.zeros(2, np.float32), {}, False),
        (DType.FLOAT32, np.zeros(3, np.int32), {}, False),
        (DType.INT4, np.zeros(2, np.uint8), {}, False),
        (DType.FLOAT32, None, {}, False),
    ],
)
def test_plain_data(dtype: DType, data: Array | None, extra: dict[str, object], plain: bool) -> None:
    value = Value("v", dtype, (3,), data)
    value.extra = dict(extra)
    assert value.is_plain is plain


def test_a_quantization_without_parameters_is_empty() -> None:
    empty = Quantization()
    assert (empty.scale.shape, empty.zero_point.shape, empty.quantized_dimension) == ((0,), (0,), 0)
    assert (empty.min, empty.max) == (None, None)


@pytest.mark.parametrize(("shape", "rank"), [((), 0), ((2, None), 2)])
def test_a_known_shape_may_have_unknown_dimensions(shape: Shape, rank: int) -> None:
    value = Value("x", DType.FLOAT32, shape)
    assert (value.known_shape, value.known_rank) == (shape, rank)


def test_an_unknown_rank_is_an_error_where_it_must_be_known() -> None:
    value = Value("x", DType.FLOAT32, None)
    for name in ("known_shape", "known_rank"):
        with pytest.raises(ModelError, match=re.escape("%x has shape [*], expected a known rank")):
            getattr(value, name)
