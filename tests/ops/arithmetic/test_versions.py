# SPDX-License-Identifier: Apache-2.0
"""Operator versions of elementwise operators, as TFLite's op_version.cc assigns them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from circlekit.ir.dtypes import DType, bf16, f16, f32, f64, i8, i16, i32, i64, u8, u16, u32
from circlekit.ir.op import Op
from circlekit.ir.value import Quantization, Value
from circlekit.ops.arithmetic.activation import Gelu, HardSwish, LeakyRelu, Logistic, Relu, Relu6, Tanh
from circlekit.ops.arithmetic.binary import Add, Maximum, Minimum, Mul, SquaredDifference, Sub
from circlekit.ops.arithmetic.cast import Cast, Dequantize, FakeQuant, Quantize
from circlekit.ops.arithmetic.comparison import (
    Equal,
    Greater,
    GreaterEqual,
    Less,
    LessEqual,
    NotEqual,
    Select,
    SelectV2,
    Where,
)
from circlekit.ops.arithmetic.division import Div, FloorDiv, FloorMod
from circlekit.ops.arithmetic.unary import Abs, Exp, Log, Rsqrt, Sign, Sqrt

INT4, INT2, UINT4 = DType.INT4, DType.INT2, DType.UINT4


def value(dtype: DType, shape: tuple[int, ...] = (2,), *scales: float) -> Value:
    quantization = (
        Quantization(np.array(scales, np.float32), np.zeros(len(scales), np.int64)) if scales else None
    )
    return Value("", dtype, shape, None, quantization)


def pair(kind: type[Op], *args: Any, **attributes: Any) -> Op:
    """Return ``kind`` on two operands and with a result, all of the dtype, shape and scales ``args``."""
    return kind(value(*args), value(*args), results=[value(*args)], **attributes)


def beyond_4d(kind: type[Op], dtype: DType) -> Op:
    """Return ``kind`` on two operands of rank 5 that broadcast."""
    shapes = (1, 1, 1, 1, 2), (1, 1, 1, 3, 1)
    return kind(*(value(dtype, s) for s in shapes), results=[value(dtype, (1, 1, 1, 3, 2))])


def cast(source: DType, target: DType) -> Op:
    return Cast(value(source), results=[value(target)])


Q = (2,), 0.5
"""The shape and the scale of a quantized operand: arguments of ``value`` and ``pair``."""

OPERATORS: list[tuple[Op, int]] = [
    *((pair(Add, t), v) for t, v in ((f32, 1), (i32, 1), (i64, 4), (f16, 6), (i16, 5))),
    (pair(Add, i8, *Q), 2),
    (pair(Add, i16, *Q), 1),
    (pair(Add, i16, *Q, pot_scale_int16=False), 3),
    *((pair(Sub, t), v) for t, v in ((f32, 1), (i64, 4), (i8, 2))),
    (pair(Sub, i16, *Q), 1),
    (pair(Sub, i16, *Q, pot_scale_int16=False), 5),
    (beyond_4d(Sub, f32), 3),
    *((pair(Mul, t), v) for t, v in ((f32, 1), (u32, 7), (DType.COMPLEX64, 6), (i64, 5), (i16, 7), (i8, 2))),
    (pair(Mul, i16, *Q), 4),
    (pair(Mul, i8, *Q), 2),
    (Mul(value(i8, (2,), 2), value(i8, (2,), 1), results=[value(i8, (2,), 2)]), 3),
    *((pair(Maximum, t), v) for t, v in ((f32, 1), (i8, 2), (i16, 4))),
    *((pair(Minimum, t), v) for t, v in ((f32, 1), (i8, 2), (i16, 4))),
    (beyond_4d(Maximum, f32), 3),
    (beyond_4d(Maximum, i16), 4),
    *((pair(SquaredDifference, t), v) for t, v in ((f32, 1), (i8, 2))),
    (pair(Div, f32), 1),
    (beyond_4d(Div, f32), 2),
    (pair(Div, f32, (1, 1, 1, 1, 2)), 1),
    (Div(value(f32, (1, 1, 1, 2)), value(f32, (1, 1, 3, 1)), results=[value(f32, (1, 1, 3, 2))]), 1),
    *((pair(FloorDiv, t), v) for t, v in ((i32, 1), (f32, 2), (i8, 3), (i16, 3))),
    *((pair(FloorMod, t), v) for t, v in ((i32, 1), (i8, 2), (i16, 2))),
    *((pair(Less, t), v) for t, v in ((f32, 1), (i8, 2), (i16, 3))),
    *((pair(kind, t), v) for kind in (Greater, LessEqual) for t, v in ((f32, 1), (i8, 2))),
    *((pair(GreaterEqual, t), v) for t, v in ((f32, 1), (i8, 2), (i16, 3))),
    *((pair(Equal, t), v) for t, v in ((f32, 1), (i8, 2), (DType.STRING, 3), (i16, 5))),
    *((pair(NotEqual, t), v) for t, v in ((f32, 1), (i8, 2), (DType.STRING, 3), (i16, 4))),
    *((Abs(value(t)), v) for t, v in ((f32, 1), (i32, 5), (i16, 4), (i8, 2), (u8, 2))),
    *((kind(value(t)), v) for kind in (Log, Sqrt) for t, v in ((f32, 1), (i8, 2), (i16, 2))),
    (Abs(value(i16, *Q)), 3),
    *((Relu(value(t)), v) for t, v in ((f32, 1), (i8, 2), (u8, 2), (i16, 3))),
    *((Relu6(value(t)), v) for t, v in ((f32, 1), (i8, 2), (i16, 3))),
    *((LeakyRelu(value(t)), v) for t, v in ((i8, 1), (i16, 2))),
    *((Logistic(value(t)), v) for t, v in ((u8, 1), (i8, 2), (i16, 3))),
    *((Tanh(value(t)), v) for t, v in ((u8, 1), (i8, 2), (i16, 3))),
    *((Rsqrt(value(t)), v) for t, v in ((f32, 1), (i8, 2), (i16, 3))),
    *((Exp(value(t)), v) for t, v in ((f32, 1), (i8, 2), (i16, 2))),
    *((Sign(value(t)), v) for t, v in ((f32, 1), (i32, 2))),
    (HardSwish(value(i8, *Q)), 1),
    *((Gelu(value(t)), v) for t, v in ((f32, 1), (f16, 3), (i8, 2), (u8, 2))),
    *(
        (cast(f32, t), v)
        for t, v in ((i32, 1), (u32, 2), (i8, 3), (u16, 4), (f16, 5), (f64, 5), (bf16, 7), (UINT4, 8))
    ),
    *((cast(t, f32), v) for t, v in ((INT4, 6), (INT2, 8), (i8, 3))),
    (cast(INT4, i32), 1),
    *((Quantize(value(f32), results=[value(t, *Q)]), v) for t, v in ((u8, 1), (i8, 1), (i16, 2), (INT4, 4))),
    (Quantize(value(INT4, *Q), results=[value(i8, *Q)]), 4),
    (Quantize(value(f32), results=[value(i8, (2,), 0.5, 0.25)]), 3),
    *(
        (Dequantize(value(t, *Q)), v)
        for t, v in ((u8, 1), (i8, 2), (i16, 3), (f16, 3), (INT4, 6), (INT2, 7), (UINT4, 8))
    ),
    (Dequantize(value(i8, (2,), 0.5, 0.25)), 5),
    (Dequantize(value(u8, (2,), 0.5, 0.25)), 1),
    (Quantize(value(f32), results=[value(i16, (2,), 0.5, 0.25)]), 3),
    (FakeQuant(value(f32)), 1),
    (FakeQuant(value(f32), narrow_range=True), 2),
    (Select(value(DType.BOOL), value(f32), value(f32)), 1),
    (Select(value(DType.BOOL, (1,)), value(f32, (1, 1, 1, 1, 2)), value(f32, (1, 1, 1, 1, 2))), 3),
    *((SelectV2(value(DType.BOOL), value(t), value(t)), v) for t, v in ((f32, 1), (u32, 2))),
    *((Where(value(t)), v) for t, v in ((DType.BOOL, 1), (i8, 2))),
]


@pytest.mark.parametrize(("op", "version"), OPERATORS, ids=lambda x: getattr(x, "code", None))
def test_required_version(op: Op, version: int) -> None:
    assert op.required_version() == version
