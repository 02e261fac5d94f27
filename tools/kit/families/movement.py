# SPDX-License-Identifier: Apache-2.0
"""Operators that move elements: shapes, slices, borders, joins, blocks."""

from __future__ import annotations

from typing import Any

import numpy as np

from circlekit.ir.dtypes import i32, i64
from circlekit.ir.enums import Activation, MirrorPadMode
from circlekit.ir.op import Op
from circlekit.ir.value import Value
from tools.kit.draw import Draw
from tools.kit.families.base import family
from tools.kit.kinds import (
    ALL,
    BOOL,
    F16,
    F32,
    I8,
    I16,
    I32,
    I64,
    QI8,
    QI16,
    QU8,
    U8,
    U32,
    Case,
    Kind,
)

WIDE = (i32, i32, i64)
MOVED = (F32, F32, QI8, QU8, QI16, I8, I16, I32, I64, U8, U32, BOOL, F16)


@family("RESHAPE", kinds=ALL)
def reshape(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    shape = draw.shape(0, 5)
    new = refactored(draw, int(np.prod(shape)))
    written = list(new)
    if written and draw.chance(0.4):
        written[draw.integer(0, len(written) - 1)] = -1
    x = draw.tensor(kind, shape)
    if draw.chance(0.2):
        return draw.case(cls, [x], kind.label, new_shape=tuple(written))
    return draw.case(cls, [x, draw.parameter(written)], kind.label, new_shape=None)


def refactored(draw: Draw, count: int) -> tuple[int, ...]:
    """Dimensions whose product is ``count``."""
    dims: list[int] = []
    while count > 1 and len(dims) < 5:
        divisors = [d for d in range(1, count + 1) if count % d == 0]
        dims.append(draw.choice(divisors))
        count //= dims[-1]
    return (*dims, count) if count > 1 or not dims else tuple(dims)


@family("SQUEEZE", kinds=ALL)
def squeeze(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    shape = tuple(1 if draw.chance(0.5) else d for d in draw.shape(0, 5))
    ones = [a for a, d in enumerate(shape) if d == 1 and draw.chance(0.6)]
    dims = tuple(a - len(shape) if draw.chance(0.3) else a for a in ones)
    return draw.case(cls, [draw.tensor(kind, shape)], kind.label, squeeze_dims=dims or None)


@family("EXPAND_DIMS", kinds=ALL)
def expand(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    shape = draw.shape(0, 4)
    axis = draw.integer(-len(shape) - 1, len(shape))
    operand = draw.parameter(draw.choice((axis, [axis])), draw.choice(WIDE))
    return draw.case(cls, [draw.tensor(kind, shape), operand], kind.label)


@family("SHAPE", "RANK", kinds=ALL)
def about_shape(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    given: dict[str, Any] = {"out_type": draw.choice((i32, i64))} if draw.code == "SHAPE" else {}
    return draw.case(cls, [draw.tensor(kind, draw.shape(0, 6), const=0)], kind.label, **given)


@family("TRANSPOSE", kinds=MOVED)
def transpose(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    shape = draw.shape(1, 6)
    perm = [int(a) for a in draw.rng.permutation(len(shape))]
    return draw.case(cls, [draw.tensor(kind, shape), draw.parameter(perm)], kind.label)


@family("BROADCAST_TO", kinds=MOVED)
def broadcast_to(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    shape = draw.shape(0, 6, 5)
    own = tuple(1 if draw.chance(0.4) else d for d in shape)[draw.integer(0, len(shape)) :]
    return draw.case(cls, [draw.tensor(kind, own), draw.parameter(shape, draw.choice(WIDE))], kind.label)


@family("BROADCAST_ARGS", kinds=(I32, I64))
def broadcast_args(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    shape = draw.shape(0, 5)
    one = tuple(1 if draw.chance(0.4) else d for d in shape)[draw.integer(0, len(shape)) :]
    two = tuple(1 if o > 1 and draw.chance(0.4) else d for d, o in zip(shape, (*shape,), strict=True))
    operands = [draw.parameter(list(s), kind.dtype, 0.3) for s in (one, two)]
    return draw.case(cls, operands, kind.label)


@family("TILE", kinds=(F32, QI8, QU8, I8, U8, I32, I64, BOOL, I16))
def tile(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    shape = draw.shape(0, 5, 4)
    times = draw.parameter(draw.integers(0 if draw.chance(0.05) else 1, 3, len(shape)), draw.choice(WIDE))
    return draw.case(cls, [draw.tensor(kind, shape), times], kind.label)


@family("FILL", kinds=(F32, I8, I16, I32, I64, BOOL, QI8, QI16, F16))
def fill(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    dims = draw.parameter(list(draw.shape(0, 5)), draw.choice(WIDE), 0.6)
    value = draw.tensor(kind, (), const=0.3)
    return draw.case(cls, [dims, value], kind.label, [value.quantization])


@family("RANGE", kinds=(F32, I32, I64))
def arange(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    if kind is F32:
        delta = draw.choice((1.0, 0.5, 0.1, -0.3, 2.5))
        start = round(draw.rng.normal() * 5, 2)
        numbers = (start, start + delta * draw.rng.uniform(-1, 30), delta)
    else:
        step = draw.choice((1, 2, 3, -1, -4))
        first = draw.integer(-20, 20)
        numbers = (first, first + step * draw.integer(-1, 20) + draw.integer(0, 1), step)
    return draw.case(cls, [draw.parameter(n, kind.dtype, 0.4) for n in numbers], kind.label)


# -- slices and borders ------------------------------------------------------------------------


@family("SLICE", kinds=MOVED)
def slices(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    shape = draw.shape(0, 5)
    begin = [draw.integer(0, d - 1) for d in shape]
    size = [
        -1 if draw.chance(0.2) else draw.integer(0 if draw.chance(0.05) else 1, d - b)
        for d, b in zip(shape, begin, strict=True)
    ]
    dtype = draw.choice(WIDE)
    operands = [draw.tensor(kind, shape), draw.parameter(begin, dtype), draw.parameter(size, dtype)]
    return draw.case(cls, operands, kind.label)


@family("STRIDED_SLICE", kinds=MOVED)
def strided(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    shape = draw.shape(0, 5)
    count = draw.integer(min(1, len(shape)), len(shape))
    begin = [draw.integer(-d - 2, d + 2) for d in shape[:count]]
    end = [draw.integer(-d - 2, d + 2) for d in shape[:count]]
    strides = [draw.choice((1, 1, 1, 2, 3, -1, -2)) for _ in range(count)]
    masks: dict[str, Any] = {
        name: draw.integer(0, (1 << count) - 1) if draw.chance(0.5) else 0
        for name in ("begin_mask", "end_mask")
    }
    for name in ("ellipsis_mask", "new_axis_mask", "shrink_axis_mask"):
        masks[name] = 1 << draw.integer(0, count - 1) if count and draw.chance(0.2) else 0
    for bit in range(count):
        if masks["shrink_axis_mask"] >> bit & 1:
            # LiteRT takes indices beyond the axis, and means something else
            size = min(shape) if masks["ellipsis_mask"] or masks["new_axis_mask"] else shape[bit]
            begin[bit] = draw.integer(-size, size - 1)
            strides[bit] = 1
            end[bit] = begin[bit] + 1
    offset = count == len(shape) and draw.chance(0.2)
    if offset:  # ends are sizes, and LiteRT looks neither whether they fit nor whether they are there
        masks = dict.fromkeys(masks, 0)
        begin = [draw.integer(0, d - 1) for d in shape[:count]]
        end = [draw.integer(1, d - b) for d, b in zip(shape, begin, strict=False)]
        strides = [abs(stride) for stride in strides]
    operands = [draw.tensor(kind, shape), *(draw.parameter(x) for x in (begin, end, strides))]
    return draw.case(cls, operands, kind.label, offset=offset, **masks)


@family("PAD", "PADV2", kinds=(*MOVED, QI8))
def pad(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    shape = draw.shape(0, 5, 5)
    paddings = draw.parameter(draw.rng.integers(0, 4, (len(shape), 2)), draw.choice(WIDE))
    x = draw.tensor(kind, shape)
    operands: list[Value] = [x, paddings]
    if draw.code == "PADV2":
        operands.append(draw.tensor(kind, draw.choice(((), (1,))), x.quantization, const=0.6))
    return draw.case(cls, operands, kind.label, [x.quantization])


@family("MIRROR_PAD", kinds=(F32, F32, QI8, QU8, I8, U8, I16, I32, I64, BOOL))
def mirror_pad(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    shape = draw.shape(0, 5, 5)
    mode = draw.choice(list(MirrorPadMode))
    less = int(mode is MirrorPadMode.REFLECT)
    paddings = [draw.integers(0, min(d - less, 3), 2) for d in shape]
    operand = draw.parameter(np.reshape(paddings, (-1, 2)), draw.choice(WIDE))
    return draw.case(cls, [draw.tensor(kind, shape), operand], kind.label, mode=mode)


@family("DILATE", kinds=(F32, I8, I16, I32, I64, U8, U32, F16))
def dilate(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    shape = draw.shape(1, 5, 4)
    dilations = draw.parameter(draw.integers(1, 3, len(shape)))
    return draw.case(cls, [draw.tensor(kind, shape), dilations, draw.tensor(kind, (), const=0.6)], kind.label)


# -- blocks ------------------------------------------------------------------------------------


@family("DEPTH_TO_SPACE", "SPACE_TO_DEPTH", kinds=(F32, QI8, QU8, I8, U8, I32, I64, I16, F16))
def block(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    size = draw.integer(1, 3)
    n, h, w, c = draw.shape(4, 4, 4)
    shape = (n, h * size, w * size, c) if draw.code == "SPACE_TO_DEPTH" else (n, h, w, c * size * size)
    return draw.case(cls, [draw.tensor(kind, shape)], kind.label, block_size=size)


@family("SPACE_TO_BATCH_ND", "BATCH_TO_SPACE_ND", kinds=(F32, QI8, QU8, I8, U8, I32, I64, QI16))
def batch_move(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    space = draw.integer(1, 2)
    blocks = draw.integers(1, 3, space)
    borders = draw.rng.integers(0, 3, (space, 2))
    batch, depth = draw.integer(1, 3), draw.integer(1, 4)
    sizes = []
    for axis in range(space):
        total = blocks[axis] * draw.integer(1, 3)
        while total < int(borders[axis].sum()) + 1:
            total += blocks[axis]
        sizes.append(total)
    if draw.code == "SPACE_TO_BATCH_ND":
        dims = [t - int(borders[a].sum()) for a, t in enumerate(sizes)]
    else:
        dims = [t // blocks[a] for a, t in enumerate(sizes)]
        batch *= int(np.prod(blocks))
    x = draw.tensor(kind, (batch, *dims, depth))
    return draw.case(cls, [x, draw.parameter(blocks), draw.parameter(borders)], kind.label)


@family("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR", kinds=(F32, F32, QI8, QU8, QI16))
def resize(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    size = draw.parameter(draw.integers(1, 12, 2))
    align, half = draw.choice(((False, False), (True, False), (False, True)))
    x = draw.tensor(kind, draw.shape(4, 4))
    return draw.case(cls, [x, size], kind.label, align_corners=align, half_pixel_centers=half)


# -- joins -------------------------------------------------------------------------------------


@family("CONCATENATION", kinds=(*MOVED, QI8))
def concatenation(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    shape = draw.shape(1, 5, 5)
    axis = draw.integer(-len(shape), len(shape) - 1)
    values: list[Value] = []
    for _ in range(draw.integer(1, 4)):
        dims = list(shape)
        dims[axis] = draw.integer(1, 4)
        same = values[0].quantization if values and draw.chance(0.6) else None
        values.append(draw.tensor(kind, dims, same))
    out = values[0].quantization if draw.chance(0.6) else None
    given: dict[str, Any] = {} if draw.chance(0.1) else {"act": Activation.NONE}  # LiteRT has no other
    return draw.case(cls, values, kind.label, [out], axis=axis, **given)


@family("PACK", kinds=(F32, QI8, QU8, QI16, I8, I16, I32, I64, U8, U32, BOOL))
def pack(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    shape, count = draw.shape(0, 4), draw.integer(1, 4)
    first = draw.tensor(kind, shape)
    values = [first, *(draw.tensor(kind, shape, first.quantization) for _ in range(count - 1))]
    axis = draw.integer(-len(shape) - 1, len(shape))
    return draw.case(cls, values, kind.label, [first.quantization], values_count=count, axis=axis)


@family("UNPACK", kinds=(F32, QI8, QU8, I8, I16, I32, BOOL, U8, I64))
def unpack(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    shape = draw.shape(1, 5, 5)
    axis = draw.integer(-len(shape), len(shape) - 1)
    return draw.case(cls, [draw.tensor(kind, shape)], kind.label, axis=axis, num=shape[axis])


@family("SPLIT", kinds=(F32, QI8, QU8, I8, I16, I32, U8, I64, QI16))
def split(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    shape = list(draw.shape(1, 5, 4))
    axis, count = draw.integer(-len(shape), len(shape) - 1), draw.integer(1, 3)
    shape[axis] *= count
    operands = [draw.parameter(axis), draw.tensor(kind, shape)]
    return draw.case(cls, operands, kind.label, num_splits=count)


@family("SPLIT_V", kinds=(F32, QI8, QU8, I8, I16, I32, U8, I64, QI16))
def split_v(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    shape = list(draw.shape(1, 5, 4))
    axis = draw.integer(-len(shape), len(shape) - 1)
    sizes = draw.integers(0 if draw.chance(0.1) else 1, 4, draw.integer(1, 4))
    shape[axis] = max(sum(sizes), 1)
    if draw.chance(0.2):
        sizes[draw.integer(0, len(sizes) - 1)] = -1
    operands = [draw.tensor(kind, shape), draw.parameter(sizes, draw.choice(WIDE), 1), draw.parameter(axis)]
    return draw.case(cls, operands, kind.label, num_splits=len(sizes))
