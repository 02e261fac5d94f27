# SPDX-License-Identifier: Apache-2.0
"""Single steps of random graphs: one operator, with the forms of its operands that passes care about."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from circlekit.ir.dtypes import boolean, f32, i32, i64
from circlekit.ir.enums import Activation
from circlekit.ir.op import Op
from circlekit.ir.value import Value
from circlekit.ops.arithmetic import activation as act_ops
from circlekit.ops.arithmetic import binary as ew
from circlekit.ops.arithmetic import unary
from circlekit.ops.arithmetic.cast import Cast
from circlekit.ops.arithmetic.division import Div
from circlekit.ops.movement import join
from circlekit.ops.movement.shape import ExpandDims, Reshape, Shape, Squeeze, Transpose
from circlekit.ops.movement.slice import StridedSlice
from tools.random_graphs.maker import Maker, Reject

Part = Callable[[Maker], object]

NONE = Activation.NONE
ACTS = (Activation.RELU, Activation.RELU6, Activation.RELU_N1_TO_1)

NHWC, NCHW = (0, 2, 3, 1), (0, 3, 1, 2)


def some_act(m: Maker, probability: float = 0.3) -> Activation:
    return ACTS[m.below(3)] if m.chance(probability) else NONE


def broadcast_form(m: Maker, shape: Sequence[int]) -> tuple[int, ...]:
    """A shape that broadcasts with ``shape``: mostly per channel, rarely one that makes the result larger."""
    rank, last = len(shape), shape[-1:]
    kind = m.below(12)
    if kind < 4:
        return tuple(last)
    if kind < 6:
        return (1,) * (rank - 1) + tuple(last)
    if kind == 6:
        return ()
    if kind == 7:
        return (1,) * m.below(rank + 1)
    if kind == 8:
        return tuple(shape[m.below(rank + 1) :])
    if kind == 9:  # along any one axis
        axis = m.below(rank) if rank else 0
        return tuple(d if i == axis else 1 for i, d in enumerate(shape))[axis if m.chance(0.5) else 0 :]
    if kind == 10:  # along any axes
        return tuple(d if m.chance(0.5) else 1 for d in shape)
    up = [2 if d == 1 and m.chance(0.5) else 1 for d in shape]
    return (1,) * m.below(2) + tuple(up) if m.chance(0.7) else (2, *shape)


def unary_op(m: Maker) -> Value:
    kinds: tuple[type[Op], ...] = (
        act_ops.Relu, act_ops.Relu, act_ops.Relu6, act_ops.ReluN1To1, act_ops.Relu0To1, unary.Neg, unary.Abs,
        act_ops.Tanh, act_ops.Logistic, act_ops.HardSwish, unary.Square, unary.Sin, unary.Cos, act_ops.Elu,
    )  # fmt: skip
    return m.add(kinds[m.below(len(kinds))](m.pick()))


def activation(m: Maker) -> Value:
    return m.add((act_ops.Relu, act_ops.Relu6, act_ops.ReluN1To1, act_ops.Relu0To1)[m.below(4)](m.pick()))


def with_constant(m: Maker, kinds: Sequence[type[Op]] = (ew.Add, ew.Mul, ew.Add, ew.Mul, ew.Sub)) -> Value:
    """A binary operator with a constant of any broadcast form on either side, neutral ones included."""
    x = m.pick()
    shape = broadcast_form(m, m.shape(x))
    kind = kinds[m.below(len(kinds))]
    if m.chance(0.2):
        c = m.constant(np.full(shape, m.number(0.0, 1.0, -0.0, 1.0000001)))
    elif m.chance(0.1):
        c = m.constant(np.full(shape, m.number(0.5, 3.0, 6.0, 2.0)))
    else:
        c = m.normal(shape)
    operands = (x, c) if m.chance(0.6) else (c, x)
    return m.add(kind(*operands, act=some_act(m)))


def other_with_constant(m: Maker) -> Value:
    kinds: tuple[type[Op], ...] = (ew.Maximum, ew.Minimum, ew.SquaredDifference)
    x = m.pick()
    if m.chance(0.3):
        divisor = m.constant(np.full(broadcast_form(m, m.shape(x)), m.number(1.0, 2.0, -1.0, 0.5)))
        return m.add(Div(x, divisor, act=some_act(m)))
    operands = [x, m.normal(broadcast_form(m, m.shape(x)))]
    if m.chance(0.5):
        operands.reverse()
    return m.add(kinds[m.below(3)](*operands))


def with_value(m: Maker) -> Value:
    x = m.pick()
    shape = m.shape(x)

    def fits(v: Value) -> bool:
        try:
            return np.broadcast_shapes(m.shape(v), shape) == shape
        except ValueError:
            return False

    operands = [x, m.pick(fits)]
    if m.chance(0.5):
        operands.reverse()
    kind: type[Op] = (ew.Add, ew.Mul, ew.Sub, ew.Maximum)[m.below(4)]
    if kind is ew.Maximum:
        return m.add(kind(*operands))
    return m.add(kind(*operands, act=some_act(m, 0.2)))


# -- order and shape -----------------------------------------------------------------------------


def perm_for(m: Maker, x: Value) -> list[int]:
    rank = len(m.shape(x))
    maker = x.producer
    if isinstance(maker, Transpose) and maker.perm.data is not None and m.chance(0.3):
        return [int(a) for a in np.argsort(maker.perm.data % rank)]
    if rank == 4 and m.chance(0.7):
        return list(NHWC if m.chance(0.5) else NCHW)
    if m.chance(0.1):
        return list(range(rank))
    if m.chance(0.2):
        return [*range(rank - 2), rank - 1, rank - 2]
    return [int(a) for a in m.random.permutation(rank)]


def transpose(m: Maker, x: Value | None = None) -> Value:
    x = x or m.pick(lambda v: 2 <= len(m.shape(v)) <= 5)
    perm = perm_for(m, x)
    if m.chance(0.1):
        perm = [a - len(perm) if m.chance(0.5) else a for a in perm]
    return m.add(Transpose(x, m.ints(perm, "perm")))


def reshape(m: Maker, x: Value | None = None) -> Value:
    """Merged, split, or padded dimensions, or the same shape."""
    x = x or m.pick()
    shape = list(m.shape(x))
    for _ in range(1 + m.below(3)):
        kind, at = m.below(5), m.below(len(shape)) if shape else 0
        if kind == 0 and len(shape) >= 2:
            at = m.below(len(shape) - 1)
            shape[at : at + 2] = [shape[at] * shape[at + 1]]
        elif kind == 1 and shape:
            divisors = [d for d in range(2, shape[at]) if shape[at] % d == 0]
            if divisors:
                d = divisors[m.below(len(divisors))]
                shape[at : at + 1] = [d, shape[at] // d]
        elif kind == 2 and len(shape) < 5:
            shape.insert(at, 1)
        elif kind == 3:
            shape = [d for d in shape if d != 1]
        elif len(shape) <= 4 and m.chance(0.3):
            shape = [int(d) for d in m.random.permutation(shape)]
    if len(shape) > 5:
        raise Reject
    return reshape_to(m, x, shape)


def reshape_to(m: Maker, x: Value, shape: Sequence[int]) -> Value:
    wanted = m.target(x, shape)
    if -1 not in wanted and wanted and m.chance(0.2):
        wanted[m.below(len(wanted))] = -1
    if m.chance(0.2) and wanted:
        return m.add(Reshape(x, new_shape=wanted))
    return m.add(Reshape(x, m.ints(wanted, "shape"), new_shape=wanted if m.chance(0.5) else None))


def squeeze_or_expand(m: Maker) -> Value:
    x = m.pick()
    shape = m.shape(x)
    ones = [i for i, d in enumerate(shape) if d == 1]
    if m.chance(0.5) and len(shape) < 5:
        return m.add(ExpandDims(x, m.ints(m.below(2 * len(shape) + 2) - len(shape) - 1)))
    if m.chance(0.2):
        return m.add(Squeeze(x))
    if not ones:
        raise Reject
    dims = [i - len(shape) * m.below(2) for i in ones if m.chance(0.7)]
    return m.add(Squeeze(x, squeeze_dims=dims))


def dynamic_reshape(m: Maker) -> Value:
    """A Reshape to a shape that is computed from that of another value."""
    x = m.pick(lambda v: bool(m.shape(v)))
    shape = m.add(Shape(x, out_type=i32), keep=False)
    first = m.add(StridedSlice(shape, m.ints([0]), m.ints([1]), m.ints([1]), shrink_axis_mask=1), keep=False)
    rest = m.constant(np.int32(-1), "rest", np.int32)
    packed = m.add(join.Pack(first, rest, values_count=2, axis=0), keep=False)
    return m.add(Reshape(x, packed))


# -- dtypes, constants, doubles --------------------------------------------------------------------


def cast(m: Maker) -> Value:
    """To whole numbers or truth and back; from integers to floats."""
    ints = [v for v in m.pool if v.dtype in (i32, i64)]
    if ints and m.chance(0.7):
        x = ints[m.below(len(ints))]
        to = (f32, i64, i32)[m.below(3)]
        y = m.add(Cast(x, in_data_type=x.dtype, out_data_type=to))
        if m.chance(0.5):
            back = (x.dtype, f32)[m.below(2)]
            return m.add(Cast(y, in_data_type=to, out_data_type=back))
        return y
    x = m.pick()
    to = (boolean, f32)[m.below(2)]
    y = m.add(Cast(x, in_data_type=f32, out_data_type=to), keep=to is f32)
    return m.add(Cast(y, in_data_type=to, out_data_type=f32))


def integer_arithmetic(m: Maker) -> Value:
    x = m.pick(dtype=i32)
    c = m.constant(m.number(0, 1, 2), "k", np.int32)
    kind: type[Op] = (ew.Add, ew.Mul, ew.Sub)[m.below(3)]
    return m.add(kind(x, c))


def constant_chain(m: Maker) -> Value:
    """Something that can be computed before the run, read by something that cannot."""
    x = m.pick()
    c = m.normal(broadcast_form(m, m.shape(x)))
    y = m.add((unary.Neg, act_ops.Tanh)[m.below(2)](c), keep=m.chance(0.2))
    return m.add(ew.Add(x, y) if m.chance(0.5) else ew.Mul(y, x))


def duplicate(m: Maker) -> Value:
    """An operator that is there already once more, on equal constants."""
    ops = [op for op in m.graph.ops if op.pure and len(op.results) == 1]
    if not ops:
        raise Reject
    op = ops[-1 - m.below(min(len(ops), 6))]
    operands = list(op.inputs)
    if op.commutative and m.chance(0.3):
        operands.reverse()
    if m.chance(0.5):
        operands = [
            Value.constant(m.graph.unique_name("same"), v.array().copy())
            if v is not None and v.is_const
            else v
            for v in operands
        ]
    return m.add(type(op)(*operands, **op.attribute_values))
