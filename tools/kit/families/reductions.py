# SPDX-License-Identifier: Apache-2.0
"""Operators that reduce, order or accumulate along axes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from circlekit.ir.dtypes import DType, i32, i64
from circlekit.ir.op import Op
from circlekit.ir.value import Value
from tools.kit.draw import Draw
from tools.kit.families.base import family
from tools.kit.kinds import BOOL, F32, I8, I16, I32, I64, QI8, QI16, QU8, QUANTIZED, U8, Case, Kind


def axes(draw: Draw, rank: int) -> list[int]:
    """Some axes, in any order and counted from either end; at times none, or one twice."""
    count = draw.integer(0 if draw.chance(0.1) else 1, rank) if rank else 0
    chosen = [int(a) for a in draw.rng.permutation(rank)[:count]]
    if chosen and draw.chance(0.05):
        chosen.append(chosen[0])
    return [a - rank if draw.chance(0.3) else a for a in chosen]


@family(
    "MEAN", "SUM", "REDUCE_PROD", "REDUCE_MAX", "REDUCE_MIN", kinds=(F32, F32, F32, *QUANTIZED, QI8, I32, I64)
)
def reduction(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    shape = draw.shape(0, 5)
    sums = draw.code in ("MEAN", "SUM", "REDUCE_PROD") and kind is F32
    # one by one, LiteRT copies elements of a constant and leaves out that the product has another scale
    const = 0 if draw.code == "REDUCE_PROD" and kind.quantized else 0.03
    x = draw.tensor(kind, shape, const=const, make=(lambda: draw.summands(shape)) if sums else None)
    same = draw.code in ("REDUCE_MAX", "REDUCE_MIN") or draw.chance(0.2)
    axis = axis_operand(draw, len(shape))
    made = draw.case(cls, [x, axis], kind.label, [x.quantization if same else None])
    # where terms cancel, their rounding errors stay
    terms = np.abs(np.nan_to_num(draw.samples[x], posinf=0, neginf=0)) if sums else np.zeros(1)
    magnitude = 0.0 if draw.code == "REDUCE_PROD" else float(terms.mean())
    if draw.code == "SUM":
        reduced = {int(a) % len(shape) for a in np.ravel(draw.samples[axis])}
        magnitude *= int(np.prod([shape[a] for a in reduced]))
    # the reference takes signed integers for uint8
    return replace(made, magnitude=magnitude, optimized=draw.code == "SUM" and kind in (QI8, QI16))


def axis_operand(draw: Draw, rank: int) -> Value:
    chosen = axes(draw, rank)
    return draw.parameter(chosen[0] if len(chosen) == 1 and draw.chance(0.3) else chosen)


@family("REDUCE_ANY", "REDUCE_ALL", kinds=(BOOL,))
def truth(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    shape = draw.shape(0, 5, 4)
    return draw.case(cls, [draw.tensor(BOOL, shape), axis_operand(draw, len(shape))], "bool")


@family("ARG_MAX", "ARG_MIN", kinds=(F32, F32, QI8, QU8, I8, I16, U8, I32, I64, BOOL))
def extreme_place(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    shape = draw.shape(1, 5)
    axis = draw.integer(-len(shape), len(shape) - 1)
    operand = draw.parameter(draw.choice((axis, [axis])), draw.choice((i32, i32, i64)))
    # in rows that are one piece LiteRT's vector instructions lose what stands in a block with NaN
    last = axis % len(shape)
    blocks = kind is F32 and int(np.prod(shape[last + 1 :])) == 1 and shape[last] > 3
    numbers = (lambda: np.where(np.isnan(n := draw.floats(shape)), n.dtype.type(0), n)) if blocks else None
    x = draw.tensor(kind, shape, const=0.03, make=numbers)
    return draw.case(cls, [x, operand], kind.label, output_type=draw.choice((i32, i64)))


@family("CUMSUM", kinds=(F32, F32, I32, I64))
def running_sum(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    shape = draw.shape(1, 5)
    axis = draw.parameter(draw.integer(-len(shape), len(shape) - 1))
    return draw.case(cls, [draw.tensor(kind, shape), axis], kind.label)


@family("TOPK_V2", kinds=(F32, F32, QI8, QU8, I8, I16, U8, I32, I64))
def top(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    shape = draw.shape(1, 4, draw.choice((7, 30)))
    x = draw.tensor(kind, shape, const=0.03)
    count = draw.parameter(draw.integer(0, shape[-1]), draw.choice((i32, i32, DType.INT16)))
    return draw.case(cls, [x, count], kind.label, [x.quantization, None])


@family("UNIQUE", kinds=(F32, I32, I64, I8, U8, I16))
def unique(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    """Without NaN: LiteRT's map takes it for any key."""
    shape = draw.shape(1, 1, 30)
    numbers = (lambda: np.nan_to_num(draw.floats(shape), posinf=1, neginf=-1)) if kind is F32 else None
    x = draw.tensor(kind, shape, const=0, low=-5, high=5, make=numbers)
    return draw.case(cls, [x], kind.label, idx_out_type=draw.choice((i32, i64)))


@family("SEGMENT_SUM", kinds=(F32, I32))
def segment_sum(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    shape = draw.shape(1, 4)
    ids = sorted(draw.integers(0, 3, shape[0]))
    return draw.case(cls, [draw.tensor(kind, shape), draw.parameter(ids)], kind.label)


@family(
    "UNSORTED_SEGMENT_SUM", "UNSORTED_SEGMENT_PROD", "UNSORTED_SEGMENT_MAX", "UNSORTED_SEGMENT_MIN",
    kinds=(F32, I32),
)  # fmt: skip
def unsorted_segment(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    shape = draw.shape(0, 4)
    count = draw.integer(1, 5)
    reach = draw.integer(min(1, len(shape)), len(shape))
    ids = draw.rng.integers(-1 if draw.chance(0.2) else 0, count, shape[:reach])
    return draw.case(cls, [draw.tensor(kind, shape), draw.parameter(ids), draw.parameter(count)], kind.label)


@family("BUCKETIZE", kinds=(F32, I32, I64))
def bucketize(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    edges = sorted(draw.rng.normal(size=draw.integer(1, 6)) * 3)
    return draw.case(
        cls, [draw.tensor(kind, draw.shape(0, 4))], kind.label, boundaries=tuple(float(e) for e in edges)
    )
