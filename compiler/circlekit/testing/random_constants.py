# SPDX-License-Identifier: Apache-2.0
"""Random elements of constant operands: axes, sizes, indices, weights, and data that broadcast.

``m``: the builder of the model, which draws random numbers.  ``kind``: the class of an operator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from circlekit.ir.declaration import Operand
from circlekit.ir.dtypes import DType, boolean, i32
from circlekit.ir.op import Op
from circlekit.ir.value import Value
from circlekit.ops.convolution.conv import DepthwiseConv2D
from circlekit.testing.model_builder import ModelBuilder

NHWC, NCHW = (0, 2, 3, 1), (0, 3, 1, 2)
"""The permutations of TRANSPOSE from NCHW to NHWC, and back."""

Shape = tuple[int, ...]


def is_parameter(spec: Operand) -> bool:
    """Return whether the operand ``spec`` holds axes, sizes, indices or weights, not data."""
    if spec.name in PARAMETERS or spec.name in ("filter", "weights", "weight", "bias", "gamma", "beta"):
        return True
    return bool(spec.dtypes) and all(d in (i32, DType.INT64) for d in spec.dtypes)


def proposal(
    m: ModelBuilder,
    kind: type[Op],
    name: str,
    data: Value | None,
    chosen: Mapping[str, Value | None],
    dtype: DType,
) -> Any:
    """Return plausible elements for the constant operand ``name`` of ``kind``: array, sequence or number.

    ``data``: the first operand that is data (see ``is_parameter``), None if there is none yet.
    ``chosen``: the operands that were chosen so far, by name.
    ``dtype``: the dtype of the constant; the caller converts the elements to it.
    """
    shape = m.shape(data) if data is not None else (2, 3, 4, 4)[m.below(3) :]
    if name == "output_shape" and len(shape) == 4:
        return _transposed_conv_shape(m, shape, chosen)
    if name == "size" and len(shape) == 4 and kind.code.startswith("RESIZE"):
        return [1 + m.below(8), 1 + m.below(8)]
    channels = shape[-1] if shape else 1
    blocks = chosen.get("block_shape")
    if name in ("crops", "paddings") and blocks is not None:
        return m.random.integers(0, 3, (*m.shape(blocks), 2))
    if name in PARAMETERS and not dtype.is_float:
        return PARAMETERS[name](m, shape)
    if name == "filter":
        height, width = 1 + m.below(3), 1 + m.below(3)
        is_depthwise = issubclass(kind, DepthwiseConv2D)
        # rarely a grouped convolution: each filter then reads half of the channels
        groups = 2 if kind.code == "CONV_2D" and channels % 2 == 0 and m.chance(0.1) else 1
        outer, inner = groups * (1 + m.below(4)), channels // groups
        if is_depthwise:
            outer, inner = 1, channels * (1 + m.below(2))
        return _numbers(m, dtype, (outer, height, width, inner), 0.5)
    if name in ("weights", "weight"):
        return _numbers(m, dtype, (1 + m.below(4), channels), 0.5)
    if name in ("bias", "gamma", "beta"):
        weights = [v for v in chosen.values() if v is not None and v.is_const and v.rank in (2, 4)]
        axis = 3 if issubclass(kind, DepthwiseConv2D) else 0  # the axis of the weights with the outputs
        count = m.shape(weights[-1])[axis] if weights and name == "bias" else channels
        return _numbers(m, dtype, (count,), 1.0)
    broadcast = broadcast_shape(m, shape)
    if not dtype.is_float:
        return m.random.integers(0 if dtype in (boolean, DType.UINT8) else -3, 4, broadcast)
    if m.chance(0.15):
        return np.full(broadcast, m.number(0.0, 1.0, -0.0, -1.0, 0.5, 3.0, 6.0, 1.0000001))
    if m.allow_extremes and m.chance(0.3):
        extremes = np.array([np.nan, np.inf, -np.inf, 1e-42, 3e38, 65504.0])
        return np.where(m.random.random(broadcast) < 0.3, m.random.choice(extremes, broadcast), 1.0)
    return m.random.uniform(0.2, 2, broadcast) * m.random.choice([1.0, -1.0, 1.0], broadcast)


def _numbers(m: ModelBuilder, dtype: DType, shape: Shape, spread: float) -> Any:
    """Return random integers from -100 to 100, or Gaussian floats with the standard deviation ``spread``."""
    return m.random.normal(0, spread, shape) if dtype.is_float else m.random.integers(-100, 101, shape)


def broadcast_shape(m: ModelBuilder, shape: Sequence[int]) -> Shape:
    """Return a random shape that broadcasts with ``shape``: most often [channels], one element per channel.

    Rarely, broadcasting the two gives a shape larger than ``shape``.
    """
    rank, last = len(shape), tuple(shape[-1:])
    case = m.below(10)
    if case < 4:
        return last
    if case < 6:
        return (1,) * (rank - 1) + last
    if case == 6:
        return (1,) * m.below(rank + 1)
    if case == 7:
        return tuple(shape[m.below(rank + 1) :])
    if case == 8:
        return tuple(d if m.chance(0.5) else 1 for d in shape)
    return (2, *shape) if m.chance(0.3) else tuple(2 if d == 1 and m.chance(0.5) else 1 for d in shape)


def _transposed_conv_shape(m: ModelBuilder, shape: Shape, chosen: Mapping[str, Value | None]) -> Any:
    """Return an output shape of a transposed convolution, for random strides 1 to 3 and a random padding.

    ``shape``: that of the data.  ``chosen``: has the filter, see ``proposal``.
    """
    filters = [v.static_shape for v in chosen.values() if v is not None and v.is_const and v.rank == 4]
    outputs, height, width, _ = filters[-1] if filters else (1, 1, 1, 1)
    stride_h, stride_w = 1 + m.below(3), 1 + m.below(3)
    if m.chance(0.5):  # padding SAME
        return shape[0], shape[1] * stride_h, shape[2] * stride_w, outputs
    return shape[0], (shape[1] - 1) * stride_h + height, (shape[2] - 1) * stride_w + width, outputs


def _permutation(m: ModelBuilder, shape: Shape) -> Any:
    """Return a permutation of axes, for rank 4 mostly NHWC or NCHW."""
    if len(shape) == 4 and m.chance(0.7):
        return NHWC if m.chance(0.5) else NCHW
    return m.random.permutation(len(shape))


def _new_shape(m: ModelBuilder, shape: Shape) -> Any:
    """Return a shape with as many elements as ``shape``, in which one dimension may be -1.

    Dimensions may be merged, split, inserted, dropped or reordered.
    """
    dims = [int(d) for d in shape]
    case = m.below(6)
    if case == 0:
        return m.random.permutation(dims)
    if case == 1 and len(dims) > 1:
        at = m.below(len(dims) - 1)
        dims[at : at + 2] = [dims[at] * dims[at + 1]]
    elif case == 2:
        dims.insert(m.below(len(dims) + 1), 1)
    elif case == 3:
        return [d for d in dims if d != 1]
    elif case == 4 and dims:
        at = m.below(len(dims))
        divisors = [d for d in range(2, dims[at]) if dims[at] % d == 0]
        if divisors:
            divisor = divisors[m.below(len(divisors))]
            dims[at : at + 1] = [divisor, dims[at] // divisor]
    if dims and m.chance(0.3):
        dims[m.below(len(dims))] = -1
    return dims


def _axes(m: ModelBuilder, shape: Shape) -> Any:
    """Return one axis or a list of axes; axes may be negative."""
    rank = max(len(shape), 1)
    case = m.below(4)
    if case == 0:
        return _axis(m, shape)
    if case == 1 and rank == 4:
        return [1, 2] if m.chance(0.5) else [2, 3]
    if case == 2:
        return [rank - 1 - rank * m.below(2)]  # the last axis, as rank - 1 or as -1
    return np.sort(m.random.permutation(rank)[: 1 + m.below(rank)])


def _axis(m: ModelBuilder, shape: Shape) -> Any:
    """Return one axis, as a number or rarely as a list; the axis may be negative."""
    rank = max(len(shape), 1)
    axis = m.below(rank) - rank * m.below(2)
    return [axis] if m.chance(0.2) else axis


def _blocks(m: ModelBuilder, shape: Shape) -> Any:
    """Return a block size for each axis between the first and the last, sometimes for fewer or more axes."""
    count = 1 + m.below(max(len(shape) - 1, 1)) if m.chance(0.2) else max(len(shape) - 2, 1)
    return [1 + m.below(2) for _ in range(count)]


def _strides(m: ModelBuilder, shape: Shape) -> Any:
    """Return a stride for each axis: mostly 1, sometimes 2, rarely -1."""

    def stride() -> int:
        if m.chance(0.2):
            return 1 + m.below(2)
        return -1 if m.chance(0.05) else 1

    return [stride() for _ in shape]


def _paddings(m: ModelBuilder, shape: Shape) -> Any:
    """Return paddings [axes, 2] of 0 and 1, often all 0; for rank 4, sometimes of two axes only."""
    count = 2 if len(shape) == 4 and m.chance(0.3) else len(shape)
    return m.random.integers(0, 2, (count, 2)) * m.below(2)


def _indices(m: ModelBuilder, shape: Shape) -> Any:
    """Return an array of rank 0 to 3 with indices that are valid for every axis of ``shape``."""
    size, rank = min(shape, default=1), m.number(0, 0, 1, 1, 1, 1, 2, 3)
    return m.random.integers(0, size, [1 + m.below(3) for _ in range(int(rank))])


PARAMETERS: dict[str, Callable[[ModelBuilder, Shape], Any]] = {
    "perm": _permutation, "shape": _new_shape, "new_shape": _new_shape, "axis": _axes, "dim": _axis,
    "dimension": _axis, "split_dim": _axis, "strides": _strides, "paddings": _paddings, "indices": _indices,
    "begin": lambda m, shape: [m.below(d) if m.chance(0.2) else 0 for d in shape],
    "size": lambda m, shape: [-1 if m.chance(0.4) else d for d in shape],
    "end": lambda m, shape: list(shape),
    "block_shape": _blocks,
    "multiples": lambda m, shape: [1 + (m.below(2) if m.chance(0.2) else 0) for _ in shape],
    "dims": lambda m, shape: list(shape) or [1 + m.below(3) for _ in range(m.below(8))],
    "depth": lambda m, shape: 1 + m.below(4),
    "seq_lengths": lambda m, shape: [1 + m.below(min(shape)) for _ in range(shape[0])],
    **dict.fromkeys(
        ("dilations", "window_shape", "window_strides", "window_dilations"),
        lambda m, shape: [1 + m.below(2) for _ in shape],
    ),
    "start_indices": lambda m, shape: [m.below(2) for _ in shape],
}  # fmt: skip
"""{name of an operand with axes, sizes or indices: a function that returns random elements for it}.

The function gets the builder and the shape of the data.
"""
