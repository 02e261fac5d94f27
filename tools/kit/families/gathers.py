# SPDX-License-Identifier: Apache-2.0
"""Operators that pick or place elements by index, and conversions of element types."""

from __future__ import annotations

from typing import Any

import numpy as np

from circlekit.ir.dtypes import DType, i32, i64
from circlekit.ir.op import Op
from circlekit.ir.value import Quantization
from circlekit.ops.quantization import dtype_limits
from tools.kit.draw import Draw
from tools.kit.families.base import family
from tools.kit.kinds import (
    BOOL,
    C64,
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
    U8,
    U16,
    U32,
    Case,
    Kind,
)

WIDE = (i32, i32, i64)
MOVED = (F32, F32, QI8, QU8, QI16, I8, I16, I32, I64, U8, BOOL, F16)


@family("GATHER", kinds=MOVED)
def gather(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    shape = draw.shape(1, 4, 5)
    axis = draw.integer(0, len(shape) - 1)
    batch = draw.integer(0, axis) if draw.chance(0.4) else 0
    indices = draw.rng.integers(0, shape[axis], (*shape[:batch], *draw.shape(0, 2, 4)))
    operands = [
        draw.tensor(kind, shape),
        draw.parameter(indices, draw.choice((i32, i32, i64, DType.INT16)), 0.4),
    ]
    back = axis - len(shape) if draw.chance(0.3) else axis
    return draw.case(cls, operands, kind.label, axis=back, batch_dims=batch)


@family("GATHER_ND", kinds=MOVED)
def gather_nd(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    shape = draw.shape(1, 4, 5)
    depth = draw.integer(1, len(shape))
    places = draw.shape(0, 2, 4)
    indices = np.stack([draw.rng.integers(0, d, places) for d in shape[:depth]], -1)
    operand = draw.parameter(indices, draw.choice((i32, i32, i64, DType.INT16)), 0.4)
    return draw.case(cls, [draw.tensor(kind, shape), operand], kind.label)


@family("SCATTER_ND", kinds=(F32, I8, U8, I32, I64, BOOL, QI8))
def scatter_nd(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    shape = draw.shape(1, 4, 5)
    depth = draw.integer(1, len(shape))
    places = draw.shape(1, 2, 4)
    indices = np.stack([draw.rng.integers(0, d, places) for d in shape[:depth]], -1)
    dtype = draw.choice(WIDE)
    updates = draw.tensor(kind, (*places, *shape[depth:]))
    operands = [draw.parameter(indices, dtype, 0.5), updates, draw.parameter(list(shape), dtype)]
    return draw.case(cls, operands, kind.label, [updates.quantization])


@family("DYNAMIC_UPDATE_SLICE", kinds=(F32, QI8, I8, I32, I64, BOOL, I16, F16, U8))
def update_slice(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    shape = draw.shape(0, 5, 5)
    part = tuple(draw.integer(1, d) for d in shape)
    start = [draw.integer(-2, d) for d in shape]
    x = draw.tensor(kind, shape)
    operands = [x, draw.tensor(kind, part, x.quantization), draw.parameter(start, draw.choice(WIDE), 0.5)]
    return draw.case(cls, operands, kind.label, [x.quantization])


@family("ONE_HOT", kinds=(F32, I32, I64, I8, U8, BOOL, I16))
def one_hot(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    places = draw.shape(0, 3, 4)
    depth = draw.integer(1, 5)
    indices = draw.rng.integers(-1, depth + 1, places)
    axis = draw.integer(-1, len(places))
    operands = [draw.parameter(indices, draw.choice(WIDE), 0.3), draw.parameter(depth)]
    operands += [draw.tensor(kind, (), const=0.6), draw.tensor(kind, (), const=0.6)]
    return draw.case(cls, operands, kind.label, axis=axis)


HYBRID = Kind(DType.FLOAT64)


@family("EMBEDDING_LOOKUP", kinds=(F32, I8, QI8, HYBRID, U8, I32))
def embedding(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    shape = draw.shape(2, 3, 6)
    lookup = draw.parameter(draw.rng.integers(0, shape[0], draw.integer(1, 6)), i32, 0.3)
    if kind is not HYBRID:
        table = draw.tensor(kind, shape, const=0.8)
        return draw.case(cls, [lookup, table], kind.label, [table.quantization])
    each = draw.choice((1, shape[0]))
    scales = np.exp(draw.rng.uniform(-5, 0, each)).astype(np.float32)
    quantization = Quantization(scales, np.zeros(each, np.int64))
    rows = draw.constant(draw.array(DType.INT8, shape), quantization=quantization)
    return draw.case(cls, [lookup, rows], "i8 to f32", results=[DType.FLOAT32])


@family("REVERSE_V2", kinds=(F32, I8, I16, I32, I64, U8, BOOL, QI8))
def reverse(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    shape = draw.shape(1, 5, 5)
    first = draw.integer(0, len(shape) - 1)
    axes = list(range(first, draw.integer(first, len(shape) - 1) + 1))
    return draw.case(cls, [draw.tensor(kind, shape), draw.parameter(axes)], kind.label)


@family("REVERSE_SEQUENCE", kinds=(F32, I8, I16, I32, I64, U8, QI8))
def reverse_sequence(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    shape = draw.shape(2, 4, 5)
    batch, sequence = (int(a) for a in draw.rng.permutation(len(shape))[:2])
    lengths = draw.integers(1, shape[sequence], shape[batch])
    operands = [draw.tensor(kind, shape), draw.parameter(lengths, draw.choice(WIDE), 0.5)]
    return draw.case(cls, operands, kind.label, seq_dim=sequence, batch_dim=batch)


@family("SPARSE_TO_DENSE", kinds=(F32, I32, I64, I8, U8))
def sparse_to_dense(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    shape = draw.shape(0, 4, 5)
    count = draw.integer(1, 6)
    places = sorted({tuple(draw.integer(0, d - 1) for d in shape) for _ in range(count)})
    indices = np.array(places)
    single = len(places) == 1 and len(shape) < 2 and draw.chance(0.5)
    if len(shape) == 1 and draw.chance(0.5):
        indices = indices.reshape(-1)
    values = draw.tensor(kind, () if single or draw.chance(0.2) else (len(places),))
    operands = [draw.parameter(indices, i32, 0.6), draw.parameter(list(shape)), values, draw.tensor(kind, ())]
    return draw.case(cls, operands, kind.label, validate_indices=False)


@family("MATRIX_DIAG", "MATRIX_SET_DIAG", kinds=(F32, I8, I16, I32, I64, U8))
def diagonal(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    shape = draw.shape(2, 4, 5)
    if draw.code == "MATRIX_DIAG":
        return draw.case(cls, [draw.tensor(kind, shape[1:])], kind.label)
    diagonal = draw.tensor(kind, (*shape[:-2], min(shape[-2:])))
    return draw.case(cls, [draw.tensor(kind, shape), diagonal], kind.label)


# -- conversions -------------------------------------------------------------------------------

CASTS = (F32, F64, F16, I8, I16, I32, I64, U8, U16, U32, BOOL, C64)


@family("CAST", kinds=CASTS)
def cast(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    to = draw.choice(CASTS).dtype
    shape = draw.shape(0, 4)

    def within() -> np.ndarray[tuple[int, ...], np.dtype[np.generic]]:
        x = draw.array(kind.dtype, shape)
        if kind.dtype.is_float and to.numpy is not None and to.numpy.kind in "iu":
            least, most = dtype_limits(to)
            low, high = max(float(least), -1e9), min(float(most), 1e9)
            x = np.clip(np.nan_to_num(x.astype(np.float64), posinf=0, neginf=0) * 9, low, high).astype(
                kind.dtype.numpy
            )
        return x

    x = draw.tensor(kind, shape, const=0, make=within)
    given: dict[str, Any] = {"in_data_type": kind.dtype, "out_data_type": to}
    return draw.case(cls, [x], kind.label, results=[to], **given)


@family("BITCAST", kinds=(F32, I8, I16, I32, I64, U8, U16, U32, F64))
def bitcast(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    to = draw.choice((F32, I8, I16, I32, I64, U8, U16, U32, F64)).dtype
    shape = draw.shape(0, 3)
    if to.bits > kind.dtype.bits:
        shape = (*shape, to.bits // kind.dtype.bits)
    x = draw.tensor(kind, shape, const=0, low=None)
    return draw.case(cls, [x], kind.label, results=[to])


@family("QUANTIZE", kinds=(F32, F32, QI8, QU8, QI16))
def quantize(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    to = draw.choice((QI8, QI8, QU8, QI16)).dtype
    shape = draw.shape(0, 4)
    x = draw.tensor(kind, shape, const=0)
    out = draw.quantization(to)
    if kind is F32 and len(shape) and draw.chance(0.15):
        axis = draw.integer(0, len(shape) - 1)
        scales = np.exp(draw.rng.uniform(-5, 0, shape[axis])).astype(np.float32)
        out = Quantization(scales, np.zeros(shape[axis], np.int64), axis)
    return draw.case(cls, [x], f"{kind.label} to {to.short}", [out], results=[to])


@family("DEQUANTIZE", kinds=(QI8, QU8, QI16, F16))
def dequantize(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    shape = draw.shape(0, 4)
    quantization = None
    if kind.quantized and shape and draw.chance(0.25):
        axis = draw.integer(0, len(shape) - 1)
        scales = np.exp(draw.rng.uniform(-5, 0, shape[axis])).astype(np.float32)
        quantization = Quantization(scales, np.zeros(shape[axis], np.int64), axis)
    x = draw.tensor(kind, shape, quantization, const=0.4)
    return draw.case(cls, [x], kind.label.replace(" q", ""), results=[DType.FLOAT32])
