# SPDX-License-Identifier: Apache-2.0
"""Chains as exporters write them: normalization in its parts, convolutions over blocks, and what lies between
a convolution and its batch norm.
"""

from __future__ import annotations

from circlekit.ir.enums import Padding
from circlekit.ir.op import Op
from circlekit.ir.value import Value
from circlekit.ops.arithmetic import binary as ew
from circlekit.ops.arithmetic import unary
from circlekit.ops.arithmetic.division import Div
from circlekit.ops.convolution.conv import Conv2D, DepthwiseConv2D
from circlekit.ops.movement.join import Concatenation, Split
from circlekit.ops.movement.shape import Reshape
from circlekit.ops.movement.slice import Pad, Slice, StridedSlice
from circlekit.ops.movement.space import BatchToSpaceND, ResizeBilinear, ResizeNearestNeighbor, SpaceToBatchND
from circlekit.ops.reduction import reduce
from tools.random_graphs.maker import Maker, Reject
from tools.random_graphs.motifs import bias_for, image, scaled, tail
from tools.random_graphs.parts import some_act


def plain_conv(m: Maker, x: Value, outputs: int, padding: Padding = Padding.SAME) -> Value:
    """A convolution, or a depthwise one, without strides."""
    channels, act = m.shape(x)[3], some_act(m, 0.1)
    size = 1 + m.below(3), 1 + m.below(3)
    if m.chance(0.3):
        w = m.normal((1, *size, channels), "w", 0.5)
        op: Op = DepthwiseConv2D(x, w, bias_for(m, channels), padding=padding, depth_multiplier=1, act=act)
    else:
        w = m.normal((outputs, *size, channels), "w", 0.4)
        op = Conv2D(x, w, bias_for(m, outputs), padding=padding, act=act)
    return m.add(op, keep=m.chance(0.2))


def over_blocks(m: Maker) -> Value:
    """SpaceToBatchND, a convolution, BatchToSpaceND: mostly what a dilated convolution is."""
    x = image(m)
    block = [1 + m.below(3), 1 + m.below(3)] if m.chance(0.5) else [2, 2]
    if m.chance(0.3):
        x = m.add(Pad(x, m.ints([[0, 0], [m.below(2), m.below(2)], [m.below(2), m.below(2)], [0, 0]])))
    _, h, w, c = m.shape(x)
    size = 1 + m.below(3), 1 + m.below(3)
    pads, crops = [], []
    for length, step, taps in zip((h, w), block, size, strict=True):
        total = (taps - 1) * step
        before = total // 2 if m.chance(0.7) else m.below(3)
        after = total - before if m.chance(0.7) else m.below(3)
        extra = -(length + before + after) % step
        pads.append([before, after + extra])
        crops.append([0, extra] if m.chance(0.8) else [m.below(2), extra])
    parts = m.add(SpaceToBatchND(x, m.ints(block, "block"), m.ints(pads, "pads")), keep=m.chance(0.1))
    outputs = 1 + m.below(3)
    if m.chance(0.3):
        kernel = m.normal((1, *size, c), "w", 0.5)
        op: Op = DepthwiseConv2D(parts, kernel, bias_for(m, c), padding=Padding.VALID, depth_multiplier=1)
    else:
        kernel = m.normal((outputs, *size, c), "w", 0.4)
        op = Conv2D(parts, kernel, bias_for(m, outputs), padding=Padding.VALID)
    y = m.add(op, keep=m.chance(0.1))
    if m.chance(0.3):
        y = scaled(m, y, ew.Mul, 0.1)
    again = block if m.chance(0.9) else block[::-1]
    return tail(m, m.add(BatchToSpaceND(y, m.ints(again, "block"), m.ints(crops, "crops"))))


def crossed(m: Maker) -> Value:
    """A convolution, an operator that keeps the channels or not, and then factors and offsets."""
    y = plain_conv(m, image(m), 2 + m.below(3))
    n, h, w, c = m.shape(y)
    kind = m.below(8)
    if kind == 0:
        shape = [n, h * w, c] if m.chance(0.7) else [n, h, w * c] if m.chance(0.5) else [n, c, h, w]
        y = m.add(Reshape(y, m.ints(m.target(y, shape), "shape")), keep=m.chance(0.2))
    elif kind == 1:
        begin = [0, m.below(h), m.below(w), m.below(c) if m.chance(0.2) else 0]
        y = m.add(Slice(y, m.ints(begin), m.ints([-1] * 4)), keep=m.chance(0.2))
    elif kind == 2:
        y = _strided(m, y)
    elif kind in (3, 4):
        kinds: tuple[type[Op], ...] = (ResizeNearestNeighbor, ResizeBilinear)
        half = m.chance(0.4)
        size = m.ints([1 + m.below(2 * h), 1 + m.below(2 * w)], "size")
        op = kinds[kind - 3](y, size, align_corners=m.chance(0.3) and not half, half_pixel_centers=half)
        y = m.add(op, keep=m.chance(0.2))
    elif kind == 5:
        others = [plain_conv(m, image(m), c) for _ in range(1 + m.below(2))]
        y = m.add(Concatenation(y, *others, axis=m.below(4) if m.chance(0.2) else 3), keep=m.chance(0.2))
    elif kind == 6:
        y = m.add(Pad(y, m.ints(m.random.integers(0, 2, (4, 2)), "paddings")), keep=m.chance(0.2))
    else:
        if c % 2:
            raise Reject
        first = m.add(Split(m.ints(3), y, num_splits=2))
        assert first.producer is not None
        tail(m, first.producer.results[1])
        y = first
    return tail(m, y)


def _strided(m: Maker, y: Value) -> Value:
    """Every other row or column, backwards now and then, the channels too."""
    shape = m.shape(y)
    begin, end, strides = [0] * 4, list(shape), [1] * 4
    for axis in (1, 2, 3 if m.chance(0.3) else 2):
        strides[axis] = (1, 2, -1)[m.below(3)]
        if strides[axis] < 0:
            begin[axis], end[axis] = shape[axis] - 1, -(shape[axis] + 1)
    ends = m.ints(begin), m.ints(end), m.ints(strides)
    shrink = 1 << m.below(4) if m.chance(0.1) and min(strides) > 0 else 0
    return m.add(StridedSlice(y, *ends, shrink_axis_mask=shrink), keep=m.chance(0.2))


def unfused_norm(m: Maker) -> Value:
    """A batch norm in its parts, its statistics constants: (y - mean) * rsqrt(var + eps) * gamma + beta."""
    y = plain_conv(m, image(m), 2 + m.below(3))
    c = m.shape(y)[3]
    form = (c,) if m.chance(0.6) else (1,) * m.below(4) + (c,)
    y = m.add(ew.Sub(y, m.normal(form, "mean")), keep=m.chance(0.1))
    variance = m.constant(m.random.uniform(0.3, 2, form), "variance")
    total = m.add(ew.Add(variance, m.constant(0.01, "eps")), keep=False)
    gamma = m.constant(m.random.uniform(0.3, 2, form) * m.random.choice([1.0, -1.0], form), "gamma")
    kind = m.below(3)
    if kind == 0:
        factor = m.add(ew.Mul(m.add(unary.Rsqrt(total), keep=False), gamma), keep=False)
        y = m.add(ew.Mul(y, factor), keep=m.chance(0.1))
    elif kind == 1:
        y = m.add(ew.Mul(y, m.add(unary.Rsqrt(total), keep=False)), keep=m.chance(0.1))
        y = m.add(ew.Mul(gamma, y, act=some_act(m, 0.05)), keep=m.chance(0.1))
    else:
        y = m.add(Div(y, m.add(unary.Sqrt(total), keep=False)), keep=m.chance(0.1))
        y = m.add(ew.Mul(y, gamma), keep=m.chance(0.1))
    beta = m.normal(form, "beta")
    return m.add(ew.Sub(beta, y) if m.chance(0.1) else ew.Add(y, beta, act=some_act(m, 0.3)))


def instance_norm(m: Maker) -> Value:
    """A norm over the image of each channel, or over axes that are not quite those."""
    x = m.of_rank(4)
    axes = m.ints([1, 2] if m.chance(0.8) else [2, 3] if m.chance(0.5) else [1, 2, 3], "axes")
    keep = m.chance(0.95)
    mean = m.add(reduce.Mean(x, axes, keep_dims=keep), keep=m.chance(0.1))
    difference = m.add(ew.SquaredDifference(x, mean), keep=m.chance(0.1))
    variance = m.add(reduce.Mean(difference, axes, keep_dims=keep), keep=m.chance(0.1))
    root = m.add(unary.Rsqrt(m.add(ew.Add(variance, m.constant(0.1, "eps")), keep=False)), keep=False)
    c = m.shape(x)[3]
    form = (c,) if m.chance(0.5) else (1, 1, 1, c)
    gamma, beta = m.normal(form, "gamma"), m.normal(form, "beta")
    if m.chance(0.5):  # x * (gamma * root) + (beta - mean * (gamma * root))
        factor = m.add(ew.Mul(root, gamma), keep=m.chance(0.1))
        offset = m.add(ew.Sub(beta, m.add(ew.Mul(mean, factor), keep=False)), keep=False)
        return m.add(ew.Add(m.add(ew.Mul(x, factor), keep=m.chance(0.1)), offset))
    centred = m.add(ew.Sub(x, mean), keep=m.chance(0.1))
    y = m.add(ew.Mul(m.add(ew.Mul(centred, root), keep=m.chance(0.1)), gamma), keep=m.chance(0.1))
    return m.add(ew.Add(y, beta, act=some_act(m, 0.2)))
