# SPDX-License-Identifier: Apache-2.0
"""Single steps of random graphs: parts of tensors, joins, reductions, products of matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from circlekit.ir.enums import MirrorPadMode, Padding
from circlekit.ir.op import Op
from circlekit.ir.value import Value
from circlekit.ops.convolution import pool
from circlekit.ops.matmul.dense import BatchMatMul
from circlekit.ops.movement import join
from circlekit.ops.movement.shape import BroadcastTo, Tile, Transpose
from circlekit.ops.movement.slice import MirrorPad, Pad, PadV2, Slice, StridedSlice
from circlekit.ops.movement.space import DepthToSpace, SpaceToDepth
from circlekit.ops.reduction import reduce
from circlekit.ops.reduction.normalization import Softmax
from tools.random_graphs.maker import Maker, Reject
from tools.random_graphs.parts import reshape, reshape_to, some_act

# -- parts of tensors ------------------------------------------------------------------------------


def pad(m: Maker) -> Value:
    x = m.pick(lambda v: 1 <= len(m.shape(v)) <= 5)
    rank = len(m.shape(x))
    widths = np.zeros((rank, 2)) if m.chance(0.1) else m.random.integers(0, 2, (rank, 2))
    paddings = m.ints(widths, "paddings")
    kind = m.below(4)
    if kind == 0:
        return m.add(PadV2(x, paddings, m.constant(m.number(0.0, -1.0, 2.0))))
    if kind == 1 and all(d > 1 for d in m.shape(x)):
        mode = MirrorPadMode.REFLECT if m.chance(0.5) else MirrorPadMode.SYMMETRIC
        return m.add(MirrorPad(x, paddings, mode=mode))
    padded = m.add(Pad(x, paddings))
    if m.chance(0.3):  # and off again, or nearly so
        begin = widths[:, 0] + (m.random.integers(0, 2, rank) if m.chance(0.2) else 0)
        size = np.minimum(m.shape(x), np.array(m.shape(padded)) - begin)
        return m.add(Slice(padded, m.ints(begin, "begin"), m.ints(size, "size")))
    return padded


def box(m: Maker) -> Value:
    x = m.pick(lambda v: 1 <= len(m.shape(v)) <= 5)
    shape = m.shape(x)
    begin = np.array([m.below(d) if m.chance(0.4) else 0 for d in shape])
    left = np.array(shape) - begin
    size = np.array([-1 if m.chance(0.3) else 1 + m.below(n) if m.chance(0.3) else n for n in left])
    if not x.is_static:
        size[[i for i, d in enumerate(x.shape or ()) if d is None]] = -1
    return m.add(Slice(x, m.ints(begin, "begin"), m.ints(size, "size")))


def strided(m: Maker) -> Value:
    x = m.pick(lambda v: 1 <= len(m.shape(v)) <= 4)
    shape = m.shape(x)
    count = len(shape) if m.chance(0.8) else 1 + m.below(len(shape))
    begin, end, strides = [], [], []
    for d in shape[:count]:
        full = m.chance(0.5)
        begin.append(0 if full else m.below(d) - d * m.below(2))
        end.append((d, 2**31 - 1, d + 3)[m.below(3)] if full else m.below(d + 1) or d)
        strides.append(1 if m.chance(0.8) else (2, -1)[m.below(2)])
    masks = [m.below(2**count) if m.chance(0.3) else 0 for _ in range(2)]
    shrink = 1 << m.below(count) if m.chance(0.2) else 0
    strides = [1 if shrink >> i & 1 else s for i, s in enumerate(strides)]  # LiteRT wants it
    new = 1 << m.below(count) if m.chance(0.1) and len(shape) < 4 else 0
    ellipsis = 1 << m.below(count) if m.chance(0.1) else 0
    return m.add(
        StridedSlice(
            x, m.ints(begin, "b"), m.ints(end, "e"), m.ints(strides, "s"), begin_mask=masks[0],
            end_mask=masks[1], shrink_axis_mask=shrink, new_axis_mask=new, ellipsis_mask=ellipsis,
        )
    )  # fmt: skip


def split(m: Maker) -> Value:
    x = m.pick(lambda v: 1 <= len(m.shape(v)) <= 5)
    shape = m.shape(x)
    axis = m.below(len(shape))
    where = m.ints(axis - len(shape) * m.below(2), "axis")
    if m.chance(0.3) and shape[axis] > 1:
        cut = 1 + m.below(shape[axis] - 1)
        sizes = m.ints([cut, shape[axis] - cut if m.chance(0.7) else -1], "sizes")
        return m.add(join.SplitV(x, sizes, where, num_splits=2))
    if m.chance(0.15):
        return m.add(join.Split(where, x, num_splits=1))
    parts = next((n for n in (2, 3, 5) if shape[axis] % n == 0), 1)
    return m.add(join.Split(where, x, num_splits=parts))


def concat(m: Maker) -> Value:
    x = m.pick(lambda v: 1 <= len(m.shape(v)) <= 5)
    shape = m.shape(x)
    axis = m.below(len(shape))

    def fits(v: Value) -> bool:
        s = m.shape(v)
        return len(s) == len(shape) and all(
            a == b for i, (a, b) in enumerate(zip(s, shape, strict=True)) if i != axis
        )

    values = [x] if m.chance(0.05) else [x, m.pick(fits)]
    if m.chance(0.2):
        values.append(m.normal(shape))
    return m.add(join.Concatenation(*values, axis=axis - len(shape) * m.below(2), act=some_act(m, 0.1)))


def unpack_and_pack(m: Maker) -> Value:
    x = m.pick(lambda v: 2 <= len(m.shape(v)) <= 4)
    axis = m.below(len(m.shape(x)))
    n = m.shape(x)[axis]
    if n > 4:
        raise Reject
    first = m.add(join.Unpack(x, num=n, axis=axis))
    assert first.producer is not None
    return m.add(join.Pack(*first.producer.results, values_count=n, axis=m.below(len(m.shape(x)))))


# -- reductions, and what else reads whole axes ----------------------------------------------------


def mean(m: Maker) -> Value:
    x = m.pick(lambda v: 1 <= len(m.shape(v)) <= 5)
    rank = len(m.shape(x))
    axes: Any = m.random.permutation(rank)[: 1 + m.below(rank)]
    if rank == 4 and m.chance(0.5):
        axes = np.array([1, 2] if m.chance(0.5) else [2, 3])
    axes = axes - rank * m.random.integers(0, 2, len(axes)) if m.chance(0.3) else axes
    if len(axes) == 1 and m.chance(0.3):
        axes = axes[0]
    kinds: tuple[type[Op], ...] = (reduce.Mean, reduce.Mean, reduce.Sum, reduce.ReduceMax, reduce.ReduceMin)
    y = m.add(kinds[m.below(5)](x, m.ints(axes, "axes"), keep_dims=m.chance(0.5)))
    return reshape(m, y) if m.chance(0.3) else y


def pooling(m: Maker) -> Value:
    kind: type[Op] = pool.MaxPool2D if m.chance(0.5) else pool.AveragePool2D
    padding = Padding.SAME if m.chance(0.5) else Padding.VALID
    return m.add(
        kind(
            m.of_rank(4), padding=padding, act=some_act(m, 0.2), stride_w=1 + m.below(2),
            stride_h=1 + m.below(2), filter_width=1 + m.below(2), filter_height=1 + m.below(2),
        )
    )  # fmt: skip


def softmax(m: Maker) -> Value:
    return m.add(Softmax(m.pick(lambda v: 1 <= len(m.shape(v)) <= 4), beta=1.0))


def space(m: Maker) -> Value:
    x = m.of_rank(4)
    return m.add(SpaceToDepth(x, block_size=2) if m.chance(0.5) else DepthToSpace(x, block_size=2))


def repeat(m: Maker) -> Value:
    x = m.pick(lambda v: v.is_static and 1 <= len(m.shape(v)) <= 4)
    shape = m.shape(x)
    if m.chance(0.5):
        times = [1 + (m.below(2) if m.chance(0.3) else 0) for _ in shape]
        return m.add(Tile(x, m.ints(times, "times")))
    wide = [2 if d == 1 and m.chance(0.5) else d for d in shape]
    return m.add(BroadcastTo(x, m.ints(wide, "wide")))


def bmm(m: Maker) -> Value:
    """A product of matrices, its operands transposed and reshaped before, its result after."""
    x = m.pick(lambda v: 2 <= len(m.shape(v)) <= 4)
    shape = m.shape(x)
    if m.chance(0.5):
        x = batch_reshape(m, x)
        shape = m.shape(x)
    adj_x, adj_y = m.chance(0.2), m.chance(0.3)
    inner = shape[-2] if adj_x else shape[-1]
    outer = 1 + m.below(4)
    right = (outer, inner) if adj_y else (inner, outer)

    def fits(v: Value) -> bool:
        s = m.shape(v)
        return len(s) == len(shape) and s[:-2] == shape[:-2] and (s[-1] if adj_y else s[-2]) == inner

    if m.chance(0.5):
        batch = shape[:-2] if m.chance(0.3) else (1,) * m.below(len(shape) - 1)
        y = m.normal((*batch, *right), "w", 0.3)
    else:
        y = m.pick(fits)
        if m.chance(0.5):
            rank = len(shape)
            y = m.add(Transpose(y, m.ints([*range(rank - 2), rank - 1, rank - 2], "perm")), keep=False)
            adj_y = not adj_y
    z = m.add(BatchMatMul(x, y, adj_x=adj_x, adj_y=adj_y))
    return batch_reshape(m, z) if m.chance(0.5) else z


def batch_reshape(m: Maker, x: Value) -> Value:
    """Batch dimensions merged or split, the matrices kept."""
    shape = list(m.shape(x))
    batch = shape[:-2]
    if len(batch) == 2 and m.chance(0.6):
        batch = [batch[0] * batch[1]]
    elif len(batch) == 1 and batch[0] % 2 == 0 and m.chance(0.6):
        batch = [2, batch[0] // 2] if m.chance(0.5) else [batch[0] // 2, 2]
    else:
        batch = [1, *batch][: 2 if m.chance(0.9) else 3]
    return reshape_to(m, x, [*batch, *shape[-2:]])
