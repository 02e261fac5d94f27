# SPDX-License-Identifier: Apache-2.0
"""Chains of operators that a pass looks for, each with the ways in which it may just not fit."""

from __future__ import annotations

import numpy as np

from circlekit.ir.enums import Padding
from circlekit.ir.op import Op
from circlekit.ir.value import Value
from circlekit.ops.arithmetic import activation as act_ops
from circlekit.ops.arithmetic import binary as ew
from circlekit.ops.arithmetic import unary
from circlekit.ops.arithmetic.division import Div
from circlekit.ops.convolution.conv import Conv2D, DepthwiseConv2D, TransposeConv
from circlekit.ops.matmul.dense import FullyConnected
from circlekit.ops.movement.join import Concatenation, Split
from circlekit.ops.movement.shape import Transpose
from circlekit.ops.movement.slice import Slice, StridedSlice
from circlekit.ops.reduction import reduce
from tools.random_graphs.maker import Maker, Reject
from tools.random_graphs.parts import NCHW, NHWC, broadcast_form, some_act, transpose


def image(m: Maker) -> Value:
    """A value of rank 4, in NHWC or after a transpose as exporters write it."""
    x = m.of_rank(4)
    if m.chance(0.3):
        x = m.add(Transpose(x, m.ints(NHWC, "perm")), keep=m.chance(0.2))
    return x


def bias_for(m: Maker, channels: int) -> Value | None:
    kind = m.below(4)
    if kind == 0:
        return None
    if kind == 1:
        found = [v for v in m.pool if m.shape(v) == (channels,)]
        if found:
            return found[0]
    return m.normal((channels,), "bias")


def back(m: Maker, y: Value) -> Value:
    """Sometimes with a transpose back to NCHW."""
    return m.add(Transpose(y, m.ints(NCHW, "perm")), keep=True) if m.chance(0.3) else y


def tail(m: Maker, y: Value) -> Value:
    """A batch norm as Mul and Add, or one of them, or a bad copy of it."""
    kind = m.below(5)
    if kind in (0, 1, 2):
        y = scaled(m, y, ew.Mul, 0.1)
    if kind in (0, 1, 3):
        y = scaled(m, y, ew.Add, 0.4)
    if m.chance(0.4):
        y = m.add((act_ops.Relu, act_ops.Relu6)[m.below(2)](y))
    return y


def scaled(m: Maker, y: Value, kind: type[Op], act: float) -> Value:
    shape = m.shape(y)
    form = broadcast_form(m, shape)
    if m.chance(0.3):  # along the channels of NCHW
        form = (shape[1], 1, 1)
    c = m.constant(m.random.uniform(0.2, 2, form) * m.random.choice([1.0, -1.0, 1.0], form), "s")
    if m.chance(0.05):
        c = m.pick(lambda v: m.shape(v) in (shape, shape[-1:]))
    operands = (y, c) if m.chance(0.6) else (c, y)
    return m.add(kind(*operands, act=some_act(m, act)), keep=m.chance(0.7))


def conv(m: Maker) -> Value:
    x = image(m)
    channels, outputs = m.shape(x)[3], 1 + m.below(4)
    groups = 2 if channels % 2 == 0 and outputs % 2 == 0 and m.chance(0.1) else 1
    w = m.normal((outputs, 1 + m.below(3), 1 + m.below(3), channels // groups), "w", 0.4)
    y = m.add(
        Conv2D(
            x, w, bias_for(m, outputs), padding=padding(m), stride_h=1 + m.below(2), stride_w=1 + m.below(2),
            dilation_h=2 if m.chance(0.1) else 1, act=some_act(m, 0.2),
        ),
        keep=m.chance(0.8),
    )  # fmt: skip
    return tail(m, back(m, y))


def padding(m: Maker) -> Padding:
    return Padding.SAME if m.chance(0.5) else Padding.VALID


def dwconv(m: Maker) -> Value:
    x = image(m)
    channels, times = m.shape(x)[3], 1 + m.below(2)
    w = m.normal((1, 1 + m.below(3), 1 + m.below(3), channels * times), "w", 0.5)
    stride = 1 + m.below(2)
    y = m.add(
        DepthwiseConv2D(
            x, w, bias_for(m, channels * times), padding=padding(m), depth_multiplier=times,
            stride_h=stride, stride_w=stride, act=some_act(m, 0.2),
        ),
        keep=m.chance(0.8),
    )  # fmt: skip
    return tail(m, back(m, y))


def tconv(m: Maker) -> Value:
    x = image(m)
    if not x.is_static:
        raise Reject
    n, h, w, channels = m.shape(x)
    outputs, kernel = 1 + m.below(4), (1 + m.below(3), 1 + m.below(3))
    strides = (1 + m.below(3), 1 + m.below(3))
    filters = m.normal((outputs, *kernel, channels), "w", 0.4)
    pad = padding(m)
    size = [
        i * s if pad is Padding.SAME else (i - 1) * s + k
        for i, s, k in zip((h, w), strides, kernel, strict=True)
    ]
    if pad is Padding.SAME and m.chance(0.2):  # any size that gives this many windows
        size = [i - m.below(s) for i, s in zip(size, strides, strict=True)]
    shape = m.ints([n, *size, outputs], "shape")
    y = m.add(
        TransposeConv(
            shape, filters, x, bias_for(m, outputs), padding=pad, stride_h=strides[0], stride_w=strides[1],
            act=some_act(m, 0.1),
        ),
        keep=m.chance(0.8),
    )  # fmt: skip
    if m.chance(0.3):
        y = cut(m, y)
    return tail(m, back(m, y))


def cut(m: Maker, y: Value) -> Value:
    """A border off, as for the padding of PyTorch's transposed convolution."""
    full = m.shape(y)
    begin = [0, m.below(min(2, full[1])), m.below(min(2, full[2])), 0 if m.chance(0.9) else m.below(full[3])]
    size = [full[0], *(max(1, d - b - m.below(2)) for d, b in zip(full[1:3], begin[1:3], strict=True))]
    size.append(full[3] - begin[3] if m.chance(0.8) else -1)
    return m.add(Slice(y, m.ints(begin, "begin"), m.ints(size, "size")))


def dense(m: Maker) -> Value:
    x = m.pick(lambda v: 2 <= len(m.shape(v)) <= 4)
    inner, outputs = m.shape(x)[-1], 1 + m.below(4)
    keep = m.chance(0.6)
    w = m.normal((outputs, inner), "w", 0.5)
    y = m.add(
        FullyConnected(x, w, bias_for(m, outputs), keep_num_dims=keep, act=some_act(m, 0.2)),
        keep=m.chance(0.8),
    )
    return tail(m, y)


def rms_norm(m: Maker) -> Value:
    x = m.pick(lambda v: 2 <= len(m.shape(v)) <= 4)
    rank, last = len(m.shape(x)), m.shape(x)[-1]
    squares: tuple[Op, ...] = (ew.Mul(x, x), unary.Square(x), ew.Pow(x, m.constant(2.0)))
    square = m.add(squares[m.below(3)], keep=m.chance(0.1))
    axis = (rank - 1, -1)[m.below(2)] if m.chance(0.8) else m.below(rank)
    axes = m.ints(axis if m.chance(0.3) else [axis], "axes")
    mean = m.add(reduce.Mean(square, axes, keep_dims=m.chance(0.9)), keep=m.chance(0.1))
    epsilon = m.constant(np.full((1,) * m.below(4), 1e-2 if m.chance(0.9) else 0.5), "eps")
    if m.chance(0.1):
        epsilon = m.constant(np.full((last,), 1e-2), "eps")
    total = m.add(ew.Add(mean, epsilon, act=some_act(m, 0.05)), keep=m.chance(0.1))
    if m.chance(0.5):
        root = m.add(unary.Rsqrt(total), keep=m.chance(0.1))
        y = m.add(ew.Mul(*((x, root) if m.chance(0.5) else (root, x)), act=some_act(m, 0.1)))
    else:
        root = m.add(unary.Sqrt(total), keep=m.chance(0.1))
        y = m.add(Div(x, root, act=some_act(m, 0.1)))
    return scaled(m, y, ew.Mul, 0.1) if m.chance(0.7) else y


def rope(m: Maker) -> Value:
    x = m.pick(lambda v: len(m.shape(v)) == 4 and m.shape(v)[3] % 2 == 0)
    shape = m.shape(x)
    half = shape[3] // 2 if m.chance(0.9) else max(1, shape[3] // 2 - 1)
    kind = m.below(3)
    if kind == 0 and half * 2 == shape[3]:
        lo = m.add(Split(m.ints(3 if m.chance(0.5) else -1), x, num_splits=2), keep=m.chance(0.2))
        assert lo.producer is not None
        hi = lo.producer.results[1]
    elif kind == 1:
        lo = m.add(Slice(x, m.ints([0] * 4), m.ints([-1, -1, -1, half])), keep=False)
        hi = m.add(Slice(x, m.ints([0, 0, 0, half]), m.ints([-1] * 4)), keep=False)
    else:
        ends = [2**31 - 1] * 3
        lo = m.add(StridedSlice(x, m.ints([0] * 4), m.ints([*ends, half]), m.ints([1] * 4)), keep=False)
        hi = m.add(
            StridedSlice(x, m.ints([0, 0, 0, half]), m.ints([*ends, ends[0]]), m.ints([1] * 4)), keep=False
        )
    if m.chance(0.05):
        lo, hi = hi, lo
    turned = m.add(unary.Neg(hi), keep=m.chance(0.1))
    joined = m.add(
        Concatenation(*((turned, lo) if m.chance(0.95) else (lo, turned)), axis=(-1, 3)[m.below(2)]),
        keep=False,
    )
    rows = 1 if m.chance(0.8) else shape[2]
    table = (1, 1, rows, shape[3])[m.below(3) if rows == 1 else 2 :]
    cos, sin = (m.constant(m.random.uniform(-1, 1, table), name) for name in ("cos", "sin"))
    a = m.add(ew.Mul(*((x, cos) if m.chance(0.5) else (cos, x))), keep=m.chance(0.1))
    b = m.add(ew.Mul(*((joined, sin) if m.chance(0.5) else (sin, joined))), keep=m.chance(0.1))
    return m.add(ew.Add(*((a, b) if m.chance(0.5) else (b, a)), act=some_act(m, 0.1)))


def hard_swish(m: Maker) -> Value:
    x = m.pick()
    three = m.constant(np.full((1,) * m.below(2), 3.0 if m.chance(0.9) else 2.9), "three")
    a = m.add(ew.Add(x, three, act=some_act(m, 0.5)), keep=m.chance(0.1))
    r = m.add(act_ops.Relu6(a), keep=m.chance(0.1)) if m.chance(0.7) else a
    six, sixth = m.constant(6.0, "six"), m.constant(1 / 6 if m.chance(0.8) else 0.166, "sixth")
    steps = m.below(3)
    if steps == 0:
        y = m.add(ew.Mul(x, r), keep=m.chance(0.1))
        return m.add(Div(y, six) if m.chance(0.5) else ew.Mul(sixth, y))
    part = x if steps == 1 else r
    s = m.add(Div(part, six) if m.chance(0.5) else ew.Mul(part, sixth), keep=m.chance(0.1))
    return m.add(ew.Mul(*((s, r) if steps == 1 else (x, s)), act=some_act(m, 0.1)))


def layer_norm(m: Maker) -> Value:
    x = m.pick(lambda v: 2 <= len(m.shape(v)) <= 4)
    rank = len(m.shape(x))
    axes = m.ints([rank - 1] if m.chance(0.5) else [-1], "axes")
    mean = m.add(reduce.Mean(x, axes, keep_dims=True), keep=False)
    difference = m.add(ew.SquaredDifference(x, mean), keep=False)
    variance = m.add(reduce.Mean(difference, axes, keep_dims=True), keep=False)
    root = m.add(unary.Rsqrt(m.add(ew.Add(variance, m.constant(0.1)), keep=False)), keep=False)
    centred = m.add(ew.Sub(x, mean), keep=False)
    return scaled(m, m.add(ew.Mul(centred, root)), ew.Mul, 0.0)


def squeeze_excite(m: Maker) -> Value:
    x = m.of_rank(4)
    axes = [1, 2] if m.chance(0.5) else [2, 3]
    channel = 3 if axes == [1, 2] else 1
    gate = m.add(reduce.Mean(x, m.ints(axes, "axes"), keep_dims=True), keep=m.chance(0.1))
    if channel == 1:
        gate = m.add(Transpose(gate, m.ints(NHWC, "perm")), keep=False)
    c = m.shape(gate)[3]
    gate = m.add(Conv2D(gate, m.normal((c, 1, 1, c), "w", 0.5), m.normal((c,), "bias")), keep=False)
    gate = m.add(act_ops.Logistic(gate), keep=False)
    if channel == 1:
        gate = m.add(Transpose(gate, m.ints(NCHW, "perm")), keep=False)
    return m.add(ew.Mul(x, gate))


def cancelling(m: Maker) -> Value:
    """A transpose, something in between, and a transpose back; both results may be read elsewhere."""
    x = m.pick(lambda v: 2 <= len(m.shape(v)) <= 5)
    y = transpose(m, x)
    assert isinstance(y.producer, Transpose)
    perm = y.producer.perm.array() % len(m.shape(x))
    for _ in range(m.below(3)):
        kind = m.below(3)
        if kind == 0:
            y = m.add(act_ops.Relu(y), keep=m.chance(0.3))
        elif kind == 1:
            y = scaled(m, y, ew.Add, 0.2)
        else:
            y = m.add(ew.Add(y, m.of_shape(m.shape(y))), keep=m.chance(0.3))
    if len(m.shape(y)) != len(perm):
        return y
    return m.add(Transpose(y, m.ints(np.argsort(perm), "perm")))
