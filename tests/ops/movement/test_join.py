# SPDX-License-Identifier: Apache-2.0
"""Tensors put together and taken apart, against LiteRT."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from circlekit.errors import ShapeError, UnsupportedError
from circlekit.ir.dtypes import DType, f32, i8, i16, i32, u8
from circlekit.ir.enums import Activation
from circlekit.ir.value import Array, Quantization, Value
from circlekit.ops.movement.join import Concatenation, Pack, Split, SplitV, Unpack
from tests.ops.litert import check, ints, kernel_results, var
from tests.ops.quantized import draw, draw_scale, draw_zero, generator, quantized


def data(dtype: str, *shape: int) -> Array:
    return np.random.default_rng(sum(shape)).integers(0, 100, shape).astype(dtype)


@pytest.mark.parametrize("dtype", ["f4", "i4", "i8", "i2", "i1", "u1", "?", "u4", "f2"])
@pytest.mark.parametrize("axis", [0, 2, -1, -2])
def test_concatenation(dtype: str, axis: int) -> None:
    shapes = [[2, 3, 4] for _ in range(3)]
    for i, shape in enumerate(shapes):
        shape[axis] = i + 1
    parts = [data(dtype, *s) for s in shapes]
    check(Concatenation(*[var(p) for p in parts], axis=axis), *parts)


def test_concatenation_of_one_value_twice() -> None:
    x = data("f4", 2, 3)
    value = var(x)
    check(Concatenation(value, value, axis=1), x)


def test_fused_activation() -> None:
    x = np.array([-2.0, 9.0], np.float32)
    op = Concatenation(var(x), var(x), axis=0, act=Activation.RELU6)
    assert kernel_results(op, [x, x])[0].tolist() == [0, 6, 0, 6]


def test_fused_activation_of_integers_limits_what_they_stand_for() -> None:
    x = np.array([0, 130, 255], np.uint8)
    value = var(x)
    value.quantization = Quantization.per_tensor(0.5, 128)
    op = Concatenation(value, value, axis=0, act=Activation.RELU_N1_TO_1)
    op.output.quantization = value.quantization
    assert kernel_results(op, [x, x])[0].tolist() == [126, 130, 130] * 2  # -1 and 1 are 126 and 130


def test_fused_activation_of_integers_with_a_recorded_range_but_no_scale() -> None:
    x = np.array([-3, 4, 9], np.int32)
    op = Concatenation(var(x), act=Activation.RELU6)
    op.output.quantization = Quantization(min=np.array([-3.0], np.float32), max=np.array([9.0], np.float32))
    assert kernel_results(op, [x])[0].tolist() == [0, 4, 6]


@pytest.mark.parametrize("dtype", ["f4", "i4", "i8", "i2", "i1", "u1", "u4"])
@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_pack(dtype: str, axis: int) -> None:
    x, y = data(dtype, 2, 3), data(dtype, 2, 3) + np.ones(1, dtype)
    check(Pack(var(x), var(y), values_count=2, axis=axis), x, y)


def test_scalars_as_a_vector() -> None:
    """Exporters write a shape that they compute as a PACK of scalars."""
    x, y = np.array(2, np.int32), np.array(-1, np.int32)
    check(Pack(var(x), var(y), values_count=2, axis=0), x, y)


@pytest.mark.parametrize("dtype", ["f4", "i4", "i2", "i1", "u1", "?"])
@pytest.mark.parametrize("axis", [0, 1, -1, -3])
def test_unpack(dtype: str, axis: int) -> None:
    x = data(dtype, 2, 3, 4)
    check(Unpack(var(x), num=x.shape[axis], axis=axis), x)


@pytest.mark.parametrize("dtype", ["f4", "i4", "i2", "i1", "u1"])
@pytest.mark.parametrize(("axis", "count"), [(0, 2), (1, 3), (-1, 2), (-1, 4), (1, 1)])
def test_split(dtype: str, axis: int, count: int) -> None:
    x = data(dtype, 2, 3, 4)
    check(Split(ints(axis), var(x), num_splits=count), x)


@pytest.mark.parametrize("dtype", ["f4", "i4", "i8", "i2", "i1", "u1"])
@pytest.mark.parametrize(("axis", "sizes"), [(0, [1, 1]), (2, [1, -1, 2]), (-1, [0, 5]), (1, [3])])
def test_split_v(dtype: str, axis: int, sizes: list[int]) -> None:
    x = data(dtype, 2, 3, 5)
    check(SplitV(var(x), ints(sizes), ints(axis), num_splits=len(sizes)), x)


def test_an_activation_leaves_bools_as_they_are() -> None:
    x = np.array([True, False])
    for act in Activation:
        (out,) = kernel_results(Concatenation(var(x), var(x), act=act), [x, x])
        assert out.dtype == np.bool_
        assert out.tolist() == [True, False, True, False]


def test_one_operand_of_unknown_rank() -> None:
    x = Value("x", f32, None)
    for op in (Pack(x, values_count=1), Concatenation(x)):
        assert (op.output.dtype, op.output.shape) == (f32, None)


def test_unknown_dimensions() -> None:
    x, y = Value("x", f32, (None, 3)), Value("y", f32, (2, 3))
    assert Concatenation(x, y, axis=1).output.shape == (2, 6)
    assert Concatenation(x, y, axis=0).output.shape == (None, 3)
    assert Concatenation(x, Value("z", f32, None), axis=-1).output.shape == (None, None)
    assert Pack(x, y, values_count=2, axis=-1).output.shape == (2, 3, 2)
    assert [v.shape for v in Split(ints(0), x, num_splits=2).results] == [(None, 3)] * 2
    free = Split(Value("axis", i32, ()), x, num_splits=2)
    assert [v.shape for v in free.results] == [(None, None)] * 2
    assert [v.shape for v in SplitV(x, ints([1, -1]), ints(0), num_splits=2).results] == [(1, 3), (None, 3)]
    assert [v.shape for v in Unpack(Value("x", f32, None), num=2).results] == [None, None]


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda x: Concatenation(), "CONCATENATION: expected at least one operand, got none"),
        (lambda x: Concatenation(x, x, axis=2), "axis 2 is out of range for rank 2"),
        (
            lambda x: Concatenation(x, var(data("f4", 3, 3)), axis=1),
            "equal dimension along axis 0, got 2 and 3",
        ),
        (
            lambda x: Concatenation(x, var(data("f4", 3)), axis=0),
            "expected operands of equal rank, got 2 and 1",
        ),
        (
            lambda x: Concatenation(x, var(data("i4", 2, 3))),
            "expected operand 0 and operand 1 of one dtype, got f32 and i32",
        ),
        (lambda x: Pack(x, x), "values_count: expected 2, got 0"),
        (lambda x: Unpack(x, num=2, axis=1), r"num: expected 3, dimension 1 of \[2,3\], got 2"),
        (lambda x: Split(ints(1), x, num_splits=2), "a dimension of 3 cannot be split into 2 equal parts"),
        (lambda x: Split(ints(1), x), "num_splits: expected at least 1, got 0"),
        (
            lambda x: SplitV(x, ints([1, 1]), ints(1), num_splits=2),
            r"size_splits: expected a sum of 3, got \[1, 1\]",
        ),
        (lambda x: SplitV(x, ints([-1, -1]), ints(1), num_splits=2), "at most one -1"),
        (lambda x: SplitV(x, ints([3]), ints(1), num_splits=2), "size_splits: expected 2 elements, got 1"),
    ],
)
def test_operands_that_do_not_fit_are_shape_errors(make: Any, sentence: str) -> None:
    with pytest.raises(ShapeError, match=sentence):
        make(var(np.zeros((2, 3), np.float32)))


# -- quantized ---------------------------------------------------------------------------------


def test_int8_of_one_quantization() -> None:
    x, y = data("i1", 2, 3), data("i1", 2, 3)
    operands = [quantized(i8, (2, 3), 0.5, 5) for _ in range(2)]
    op = Concatenation(*operands, axis=1)
    assert op.output.quantization == operands[0].quantization
    check(op, x, y)


@pytest.mark.parametrize("index", range(5))
def test_concatenation_rescales_uint8(index: int) -> None:
    rng = generator("concatenation", index)
    parts = [draw(rng, u8, (4, n, 60)) for n in (1, 3, 2)]
    values = [quantized(u8, p.shape, draw_scale(rng, 0.01, 1), draw_zero(rng, u8)) for p in parts]
    quantization = values[index % 3].quantization if index < 3 else None
    result = quantized(u8, (4, 6, 60), draw_scale(rng, 0.01, 1), draw_zero(rng, u8))
    result.quantization = quantization or result.quantization
    check(Concatenation(*values, results=[result], axis=1), *parts)


def test_concatenation_takes_int16_as_it_is() -> None:
    parts = [draw(generator("c", i), i16, (2, 3)) for i in range(2)]
    values = [quantized(i16, (2, 3), scale) for scale in (0.1, 0.3)]
    check(Concatenation(*values, results=[quantized(i16, (4, 3), 0.2)], axis=0), *parts)


@pytest.mark.parametrize("dtype", [i8, u8, i16])
def test_quantized_pack(dtype: DType) -> None:
    parts = [draw(generator("p", i), dtype, (2, 3)) for i in range(2)]
    values = [quantized(dtype, (2, 3), 0.1) for _ in range(2)]
    result = quantized(dtype, (2, 2, 3), 0.1)
    check(Pack(*values, results=[result], axis=1, values_count=2), *parts)


def test_joins_of_different_scales_are_refused() -> None:
    x = np.zeros((2, 3), np.int8)
    values = [quantized(i8, (2, 3), scale) for scale in (0.1, 0.3)]
    with pytest.raises(UnsupportedError, match="CONCATENATION on quantized i8"):
        kernel_results(Concatenation(*values, results=[quantized(i8, (4, 3), 0.2)], axis=0), [x, x])
    with pytest.raises(UnsupportedError, match="PACK on quantized i8"):
        kernel_results(Pack(*values, values_count=2), [x, x])
