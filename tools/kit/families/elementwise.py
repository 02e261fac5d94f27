# SPDX-License-Identifier: Apache-2.0
"""Functions of one element, and of two that broadcasting brings together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from circlekit.ir.dtypes import DType
from circlekit.ir.enums import Activation
from circlekit.ir.op import Op
from circlekit.ir.value import Array, Quantization, Value
from tools.kit.draw import Draw
from tools.kit.families.base import family
from tools.kit.kinds import (
    ALL,
    ARITHMETIC,
    BOOL,
    C64,
    C128,
    F16,
    F32,
    F64,
    I8,
    I16,
    I32,
    I64,
    QI8,
    QI16,
    QU8,
    QUANTIZED,
    U8,
    U16,
    U32,
    U64,
    Case,
    Kind,
)

FIXED: dict[str, dict[DType, tuple[float, int]]] = {
    "LOGISTIC": {DType.INT8: (1 / 256, -128), DType.UINT8: (1 / 256, 0), DType.INT16: (1 / 32768, 0)},
    "TANH": {DType.INT8: (1 / 128, 0), DType.UINT8: (1 / 128, 128), DType.INT16: (1 / 32768, 0)},
}
"""Scale and zero point of results whose range is known."""

ROOTS = ("SQRT", "RSQRT", "LOG")
SAME_SCALE = ("NEG", "FLOOR_DIV", "FLOOR_MOD", "MAXIMUM", "MINIMUM", "SIGN")


def fixed(code: str, dtype: DType) -> Quantization | None:
    """The quantization that LiteRT wants of a result, where it wants a certain one."""
    pair = FIXED.get(code, {}).get(dtype)
    return None if pair is None else Quantization(np.array([pair[0]], np.float32), np.array([pair[1]]))


@family(
    "ABS", "NEG", "EXP", "LOG", "SQRT", "RSQRT", "SQUARE", "SIN", "COS", "FLOOR", "CEIL", "ROUND", "SIGN",
    "ZEROS_LIKE", "RELU", "RELU6", "RELU_N1_TO_1", "RELU_0_TO_1", "ELU", "GELU", "HARD_SWISH",
    "LOGISTIC", "TANH", kinds=(F32, F32, *QUANTIZED, I32, I64, F16),
)  # fmt: skip
def unary(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    shape = draw.shape(0, 6)
    quantization, low, high = None, None, None
    if kind.quantized:
        quantization = draw.quantization(kind.dtype, draw.choice((None, (-6.0, 6.0), (-1.0, 9.0))))
        if draw.code in ROOTS and draw.chance(0.8):
            low, high = int(quantization.zero_point[0]), 1 << 40
    x = draw.tensor(kind, shape, quantization, low=low, high=high)
    out = fixed(draw.code, kind.dtype) if draw.chance(0.95) else None
    if draw.code in SAME_SCALE:
        out = quantization
    return draw.case(cls, [x], kind.label, [out])


@family("LEAKY_RELU", kinds=(F32, F32, *QUANTIZED, F16))
def leaky(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    x = draw.tensor(kind, draw.shape(0, 5))
    return draw.case(cls, [x], kind.label, alpha=draw.choice((0.1, 0.01, -0.3, 1.5, 0.0)))


@family("LOGICAL_NOT", kinds=(BOOL,))
def logical_not(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    return draw.case(cls, [draw.tensor(kind, draw.shape(0, 6))], kind.label)


@family("REAL", "IMAG", "COMPLEX_ABS", kinds=(C64, C128))
def parts(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    return draw.case(cls, [draw.tensor(kind, draw.shape(0, 5))], kind.label)


# -- two operands ------------------------------------------------------------------------------


def broadcasting(draw: Draw, rank: int = 5) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Two shapes that broadcast: most often the same, or with ones, or one of lower rank."""
    shape = draw.shape(0, rank)
    sort = draw.rng.random()
    if sort < 0.35:
        return shape, shape
    other = tuple(1 if draw.chance(0.4) else d for d in shape)
    if sort < 0.7:
        other = other[draw.integer(0, len(other)) :]
    elif draw.chance(0.3):
        shape = tuple(
            d if o == d and draw.chance(0.6) else o if o != 1 else d
            for d, o in zip(shape, other, strict=True)
        )
        shape = tuple(1 if o != 1 and draw.chance(0.3) else d for d, o in zip(shape, other, strict=True))
    return (shape, other) if draw.chance(0.6) else (other, shape)


def divisors(draw: Draw, kind: Kind, shape: tuple[int, ...]) -> Callable[[], Array] | None:
    """Integers without zero, except once in a while."""
    if kind.dtype.is_float or draw.chance(0.03):
        return None

    def make() -> Array:
        x = draw.array(kind.dtype, shape)
        return np.where(x == 0, np.ones_like(x), x)

    return make


@family("ADD", "SUB", "MUL", kinds=(*ARITHMETIC, I16, U32, C64))
def arithmetic(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    left, right = broadcasting(draw, 6)
    if kind is QI16 and draw.code in ("ADD", "SUB") and draw.chance(0.25):
        return powers_of_two(draw, cls, left, right)
    x, y = draw.tensor(kind, left), draw.tensor(kind, right, const=0.3)
    given: dict[str, Any] = {"pot_scale_int16": False} if draw.code in ("ADD", "SUB") else {}
    if kind.dtype in (DType.UINT32, DType.COMPLEX64):
        given["act"] = Activation.NONE  # LiteRT has no other for these
    case = draw.case(cls, [x, y], kind.label, **given)
    if kind is QI16 and draw.code in ("ADD", "SUB"):
        enlarge(case.graphs[0].outputs[0], (x, y))
    return case


def enlarge(result: Value, operands: Sequence[Value]) -> None:
    """A scale of ``result`` with which LiteRT does not shift sums by a negative count."""
    scales = [v.quantization.scale for v in (*operands, result) if v.quantization is not None]
    least = max(float(s[0]) for s in scales[:-1]) / (1 << 14) * 1.01
    if scales[-1][0] < least:
        result.quantization = Quantization(np.array([least], np.float32), np.array([0]))


def powers_of_two(draw: Draw, cls: type[Op], left: tuple[int, ...], right: tuple[int, ...]) -> Case:
    """int16 whose scales are powers of two: the sum has the greater one."""
    exponent, less = draw.integer(-14, -2), draw.integer(0, 6)
    scales = [2.0**exponent, 2.0 ** (exponent - less)]
    if draw.chance(0.5):
        scales.reverse()
    made = [Quantization(np.array([s], np.float32), np.array([0])) for s in (*scales, 2.0**exponent)]
    x, y = draw.tensor(QI16, left, made[0]), draw.tensor(QI16, right, made[1])
    return draw.case(cls, [x, y], "i16 q", [made[2]], pot_scale_int16=True)


@family("DIV", "FLOOR_DIV", "FLOOR_MOD", kinds=(F32, F32, QU8, QI8, I32, I64))
def division(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    left, right = broadcasting(draw)
    x = draw.tensor(kind, left)
    if kind.quantized and draw.code == "DIV":
        quantization = draw.quantization(kind.dtype, (draw.real(0.1, 2), draw.real(3, 9)))
        y = draw.tensor(kind, right, quantization, low=int(quantization.zero_point[0]) + 1, high=1 << 40)
        return draw.case(cls, [x, y], kind.label)
    y = draw.tensor(kind, right, x.quantization, const=0.3, make=divisors(draw, kind, right))
    return draw.case(cls, [x, y], kind.label, [x.quantization])


@family("MAXIMUM", "MINIMUM", kinds=(*ARITHMETIC, I8, I16, U8, F16))
def extremum(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    left, right = broadcasting(draw)
    x = draw.tensor(kind, left)
    y = draw.tensor(kind, right, x.quantization, const=0.3)
    return draw.case(cls, [x, y], kind.label, [x.quantization])


@family("SQUARED_DIFFERENCE", kinds=(F32, F32, QI8, QI8, I32, I64, QU8))
def squared_difference(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    left, right = broadcasting(draw)
    return draw.case(cls, [draw.tensor(kind, left), draw.tensor(kind, right, const=0.3)], kind.label)


@family("POW", kinds=(F32, F32, I32, I64))
def power(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    left, right = broadcasting(draw)
    if kind is F32:
        return draw.case(cls, [draw.tensor(kind, left), draw.tensor(kind, right, const=0.3)], kind.label)
    x = draw.tensor(kind, left, low=-9, high=9)
    y = draw.tensor(kind, right, low=0, high=draw.choice((3, 9, 15)), const=0.3)
    return draw.case(cls, [x, y], kind.label)


@family("ATAN2", kinds=(F32, F64))
def angle(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    """Of one shape: LiteRT takes the result's from the first, and reads beyond the second."""
    shape = draw.shape(0, 5)
    return draw.case(cls, [draw.tensor(kind, shape), draw.tensor(kind, shape)], kind.label)


@family(
    "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL", "EQUAL", "NOT_EQUAL",
    kinds=(F32, F32, QI8, QU8, QI16, I8, I16, I32, I64, BOOL, U8, U32),
)  # fmt: skip
def comparison(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    """Quantized operands have scales below 1: LiteRT shifts by a negative count else.

    int16 without a scale is for NOT_EQUAL quantized in LiteRT with a scale of 0: then all are equal.
    """
    kind = QI16 if kind is I16 and draw.code == "NOT_EQUAL" else kind
    left, right = broadcasting(draw)
    scales = [draw.quantization(kind.dtype, (-9.0, 9.0)) if kind.quantized else None for _ in range(2)]
    x = draw.tensor(kind, left, scales[0])
    y = draw.tensor(kind, right, scales[draw.integer(0, 1)], const=0.3)
    return draw.case(cls, [x, y], kind.label)


@family("LOGICAL_AND", "LOGICAL_OR", kinds=(BOOL,))
def logical(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    left, right = broadcasting(draw)
    return draw.case(cls, [draw.tensor(kind, left), draw.tensor(kind, right)], kind.label)


@family("BITWISE_XOR", kinds=(I8, I16, I32, I64, U8, U16, U32, U64, BOOL))
def bitwise(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    left, right = broadcasting(draw)
    return draw.case(cls, [draw.tensor(kind, left), draw.tensor(kind, right)], kind.label)


@family("RIGHT_SHIFT", kinds=(I8, I16, I32, U8, U16, U32))
def shift(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    left, right = broadcasting(draw)
    y = draw.tensor(kind, right, low=0, high=draw.choice((7, kind.dtype.bits + 2)))
    return draw.case(cls, [draw.tensor(kind, left), y], kind.label)


@family("PRELU", kinds=(F32, F32, *QUANTIZED))
def prelu(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    shape = draw.shape(0, 4)
    alpha = tuple(1 if draw.chance(0.4) else d for d in shape)[draw.integer(0, max(len(shape) - 1, 0)) :]
    slope = QI8 if kind is QI16 else kind
    return draw.case(cls, [draw.tensor(kind, shape), draw.tensor(slope, alpha, const=0.6)], kind.label)


# -- several -----------------------------------------------------------------------------------


@family("ADD_N", kinds=(F32, I32, I64))
def sum_of_all(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    shape = draw.shape(0, 5)
    return draw.case(cls, [draw.tensor(kind, shape) for _ in range(draw.integer(1, 5))], kind.label)


@family("SELECT", "SELECT_V2", kinds=ALL)
def select(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    left, right = broadcasting(draw, 4)
    if draw.code == "SELECT" or draw.chance(0.3):
        right = left
    condition = tuple(np.broadcast_shapes(left, right))
    if draw.code == "SELECT":
        condition = draw.choice((left, left[:1], ()))
    elif draw.chance(0.5):
        condition = tuple(1 if draw.chance(0.4) else d for d in condition)[draw.integer(0, len(condition)) :]
    x = draw.tensor(kind, left)
    y = draw.tensor(kind, right, x.quantization, const=0.3)
    return draw.case(cls, [draw.tensor(BOOL, condition), x, y], kind.label, [x.quantization])


@family("WHERE", kinds=(BOOL, F32, I32, I64, I8, U8, U32))
def where(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    return draw.case(cls, [draw.tensor(kind, draw.shape(1, 5), low=-1, high=1)], kind.label)
