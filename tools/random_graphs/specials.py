# SPDX-License-Identifier: Apache-2.0
"""Single steps that exporters rarely write: computed shapes, walls, numbers at the edge, what is dead."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from circlekit.interp.evaluate import register_custom
from circlekit.ir.dtypes import boolean, f32, i32, i64
from circlekit.ir.op import Op, OpaqueOp
from circlekit.ir.value import Array, Value
from circlekit.ops.arithmetic import activation as act_ops
from circlekit.ops.arithmetic import binary as ew
from circlekit.ops.arithmetic import comparison as compare
from circlekit.ops.arithmetic import unary
from circlekit.ops.arithmetic.cast import Cast
from circlekit.ops.movement import gather, join
from circlekit.ops.movement.shape import BroadcastTo, Fill, Range, Reshape, Shape, Tile
from circlekit.ops.movement.slice import Slice, StridedSlice
from circlekit.ops.reduction import reduce
from tools.random_graphs.maker import Maker, Reject
from tools.random_graphs.parts import broadcast_form, some_act

WALL = "circlekit.random_graphs.Wall"
"""A custom operator that no pass knows: x + 1."""


def _wall(op: Op, x: Array) -> Array:
    return np.asarray(x + np.asarray(1, x.dtype))


register_custom(WALL, _wall)


def wall(m: Maker) -> Value:
    x = m.pick() if m.chance(0.8) else m.pick(dtype=i32)
    made = Value("", x.dtype, x.shape)
    return m.add(OpaqueOp(x, code="CUSTOM", custom_code=WALL, results=[made]))


# -- shapes that are computed --------------------------------------------------------------------


def dimensions(m: Maker, x: Value) -> list[Value]:
    """Each dimension of ``x`` as an operator gives it: scalars of i32."""
    shape = m.add(Shape(x, out_type=i32), keep=m.chance(0.2))
    found = []
    for axis in range(len(m.shape(x))):
        kind = m.below(3)
        if kind == 0:
            found.append(m.add(gather.Gather(shape, m.ints(axis), axis=0), keep=m.chance(0.1)))
        elif kind == 1:
            ends = m.ints([axis]), m.ints([axis + 1]), m.ints([1])
            found.append(m.add(StridedSlice(shape, *ends, shrink_axis_mask=1), keep=m.chance(0.1)))
        else:
            part = m.add(Slice(shape, m.ints([axis]), m.ints([1])), keep=False)
            found.append(m.add(Reshape(part, m.ints(np.zeros(0)), new_shape=[]), keep=False))
    return found


def computed_shape(m: Maker) -> Value:
    """A Reshape, BroadcastTo, Fill or Tile whose shape comes from that of a value."""
    x = m.pick(lambda v: 1 <= len(m.shape(v)) <= 4)
    dims = dimensions(m, x)
    kind = m.below(5)
    if kind == 0 and len(dims) > 1:  # the last two dimensions become one
        dims[-2:] = [m.add(ew.Mul(dims[-2], dims[-1]), keep=m.chance(0.1))]
    elif kind == 1:
        dims.insert(m.below(len(dims) + 1), m.ints(1, "one"))
    elif kind == 2:
        dims[m.below(len(dims))] = m.ints(-1, "rest")
    packed = m.add(join.Pack(*dims, values_count=len(dims), axis=0), keep=m.chance(0.1))
    if kind == 3:
        filled = m.add(Fill(packed, m.constant(m.number(0.0, 1.0, 0.5))), keep=m.chance(0.5))
        return m.add((ew.Add, ew.Mul)[m.below(2)](x, filled, act=some_act(m, 0.2)))
    if kind == 4:
        one = m.add(Reshape(m.normal(m.shape(x)[-1:]), m.ints([*[1] * (len(dims) - 1), -1])), keep=False)
        return m.add(ew.Add(x, m.add(BroadcastTo(one, packed), keep=m.chance(0.2))))
    return m.add(Reshape(x, packed))


def positions(m: Maker) -> Value:
    """What a transformer adds for positions: a Range of a dimension, made float, and in a sum."""
    x = m.pick(lambda v: 2 <= len(m.shape(v)) <= 4)
    count = dimensions(m, x)[-1]
    numbers = m.add(Range(m.ints(0), count, m.ints(1)), keep=m.chance(0.3))
    floats = m.add(Cast(numbers, in_data_type=i32, out_data_type=f32), keep=m.chance(0.2))
    return m.add(ew.Add(x, m.add(ew.Mul(floats, m.constant(0.1)), keep=False)))


def selected(m: Maker) -> Value:
    """A choice by a comparison with a constant that no rounding reaches."""
    x = m.pick(lambda v: bool(m.shape(v)))
    kinds: tuple[type[Op], ...] = (compare.Greater, compare.Less, compare.GreaterEqual, compare.LessEqual)
    bound = m.number(0.1234567, -0.7654321, 7.7777)
    if np.abs(m.array(x) - bound).min() < 1e-3:
        raise Reject
    test = m.add(kinds[m.below(4)](x, m.constant(bound)), keep=m.chance(0.2))
    if m.chance(0.3):
        return m.add(ew.Mul(x, m.add(Cast(test, in_data_type=boolean, out_data_type=f32), keep=False)))
    other = m.normal(broadcast_form(m, m.shape(x)))
    return m.add(compare.SelectV2(test, x, other))


def truths(m: Maker) -> Value:
    """Booleans: their negation, and reductions."""
    x = m.pick(dtype=boolean)
    if m.chance(0.5) and m.shape(x):
        kind: type[Op] = (reduce.ReduceAny, reduce.ReduceAll)[m.below(2)]
        return m.add(kind(x, m.ints([0]), keep_dims=m.chance(0.5)))
    return m.add(compare.LogicalNot(x))


def long_numbers(m: Maker) -> Value:
    x = m.pick(dtype=i64) if any(v.dtype is i64 for v in m.pool) else m.pick(dtype=i32)
    if x.dtype is i32:
        return m.add(Cast(x, in_data_type=i32, out_data_type=i64))
    k = m.constant(m.random.integers(0, 3, m.shape(x)[-1:]), "k", np.int64)
    return m.add((ew.Add, ew.Mul, ew.Sub)[m.below(3)](x, k))


def looked_up(m: Maker) -> Value:
    x = m.pick(lambda v: 1 <= len(m.shape(v)) <= 4)
    axis = m.below(len(m.shape(x)))
    size = m.shape(x)[axis]
    index = m.random.integers(0, size, () if m.chance(0.3) else (1 + m.below(3),))
    return m.add(gather.Gather(x, m.ints(index), axis=axis - len(m.shape(x)) * m.below(2)))


# -- numbers at the edge, operators for nobody ---------------------------------------------------

EDGES: Sequence[float] = (0.0, -0.0, 1.0, -1.0, 1e-42, -1e-42, 1e-30, 3e38, 65504.0, 1e7)
WILD: Sequence[float] = (float("nan"), float("inf"), float("-inf"))


def edge_constant(m: Maker) -> Value:
    """A binary operator with numbers at the edge of what floats can be."""
    x = m.pick()
    shape = broadcast_form(m, m.shape(x))
    edges = np.array([*EDGES, *(WILD if m.wild else ())])
    plain = m.random.normal(0, 1, shape)
    numbers = np.where(m.random.random(shape) < 0.5, m.random.choice(edges, shape), plain)
    kinds: tuple[type[Op], ...] = (ew.Add, ew.Mul, ew.Sub, ew.Maximum, ew.Minimum)
    c = m.constant(numbers, "edge")
    return m.add(kinds[m.below(5)](*((x, c) if m.chance(0.6) else (c, x))))


def dead(m: Maker) -> Value:
    """What nothing reads."""
    x = m.pick()
    y = m.add(act_ops.Relu(x), keep=False)
    return m.add(unary.Neg(y), keep=False) if m.chance(0.5) else y


def repeated(m: Maker) -> Value:
    x = m.pick(lambda v: v.is_static and 1 <= len(m.shape(v)) <= 3)
    shape = m.add(Shape(x, out_type=i32), keep=False)
    ones = m.add(Fill(m.add(Shape(shape, out_type=i32), keep=False), m.ints(1)), keep=False)
    return m.add(Tile(x, ones))
