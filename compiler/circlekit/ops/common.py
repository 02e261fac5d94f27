# SPDX-License-Identifier: Apache-2.0
"""What the operator families share: activations, shapes with unknown dimensions, windows, checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import NamedTuple

import numpy as np

from circlekit.errors import ShapeError, UnsupportedError
from circlekit.ir.dtypes import DType
from circlekit.ir.enums import Activation, Padding
from circlekit.ir.op import Op
from circlekit.ir.tape import NOW, Tape
from circlekit.ir.value import Array, Shape, Value, format_shape

clip: np.ufunc = import_module("numpy._core.umath" if hasattr(np, "_core") else "numpy.core.umath").clip
"""(data, low, high, out): the ufunc in np.clip, which itself takes some microseconds before it begins."""

Dim = int | None
"""One dimension; None where it is unknown."""

# -- activations -------------------------------------------------------------------------------

_BOUNDS: dict[Activation, tuple[float | None, float | None]] = {
    Activation.RELU: (0, None),
    Activation.RELU6: (0, 6),
    Activation.RELU_N1_TO_1: (-1, 1),
}
_FUSED_BOUNDS = {Activation.NONE: (None, None), **_BOUNDS}


def apply_activation(array: Array, act: Activation, out: Array | None = None) -> Array:
    """``act`` of every element; ``out=array`` works in place, for an array that the caller has just made.

    NONE gives ``array`` itself.
    """
    if act is Activation.NONE:
        return array
    if act in _BOUNDS:
        low, high = _BOUNDS[act]
        return np.clip(array, low, high, out=out)
    if act is Activation.TANH and array.dtype.kind == "f":
        return np.asarray(np.tanh(array, out=out))
    raise UnsupportedError(f"the fused activation {act!r} has no kernel on {array.dtype}")


def fused(out: Array, act: Activation) -> Array:
    """What an operator that can fuse an activation hands on: ``act`` of ``out``, in place, and all finite.

    TFLite's kernels clamp to the activation's range, which ends at the largest finite number even for
    NONE; NaN stays.  ``out`` is an array that the kernel has just made.
    """
    out = np.asarray(out)
    write_fused(NOW, out, act)
    return out


def write_fused(tape: Tape, out: Array, act: Activation, reach: float = np.inf) -> None:
    """``fused`` on a tape; ``reach``: of what is in ``out`` before."""
    if out.dtype.kind == "f" and act in _FUSED_BOUNDS:
        limit = float(np.finfo(out.dtype).max)
        low, high = _FUSED_BOUNDS[act]
        if act is not Activation.NONE or not reach <= limit:
            bounds = (-limit if low is None else low, limit if high is None else high)
            tape.do(clip, out, *(np.asarray(b, out.dtype) for b in bounds), out)
        tape.limit(out, reach if high is None else min(reach, high))
    elif act is not Activation.NONE:
        tape.do(apply_activation, out, act, out)


SEVERAL = 1 << 10
"""Weights that are looked at at a time: small models have few more."""


def product_reach(tape: Tape, data: Array, weights: Array, axis: int = 0) -> float:
    """A magnitude that no sum of products with the ``weights`` of one entry of ``axis`` exceeds."""
    if not tape.reach(weights) < np.inf:
        return np.inf
    units = weights.swapaxes(0, axis)
    others, step = tuple(range(1, weights.ndim)), max(1, SEVERAL * len(units) // max(weights.size, 1))
    parts = (np.abs(units[first : first + step]) for first in range(0, len(units), step))
    return tape.reach(data) * max(
        (float(p.sum(axis=others, dtype=np.float64).max()) for p in parts), default=0.0
    )


def common_shape(*arrays: Array) -> tuple[int, ...]:
    """That of all ``arrays`` together, as np.broadcast has it, which takes five kilobytes."""
    shapes = {a.shape for a in arrays}
    return shapes.pop() if len(shapes) == 1 else tuple(d or 0 for d in broadcast_shapes(*shapes) or ())


# -- bfloat16 ----------------------------------------------------------------------------------


def rounded_to_bfloat16(x: Array) -> Array:
    """float32 numbers that bfloat16 holds: the nearest, of two the even one; kernels hold them in float32."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    rounded = (bits + (0x7FFF + ((bits >> 16) & 1))) & np.uint32(0xFFFF0000)
    quiet = np.uint32(0x7FC00000) | (bits & np.uint32(0x80000000))
    return np.asarray(np.where(np.isnan(x), quiet, rounded), np.uint32).view(np.float32)


# -- dimensions --------------------------------------------------------------------------------


def broadcast_dims(a: Dim, b: Dim) -> Dim:
    """The dimension that ``a`` and ``b`` broadcast to; ShapeError where they cannot.

    An unknown one takes a known one greater than 1, because it must then be that or 1.
    """
    if a == b or b == 1:
        return a
    if a == 1:
        return b
    if a is None or b is None:
        return b if a is None else a
    raise ShapeError(f"dimensions {a} and {b} do not broadcast")


def broadcast_shapes(*shapes: Shape | None) -> Shape | None:
    """The shape that ``shapes`` broadcast to, aligned at the last axis; None where a rank is unknown."""
    result: Shape = ()
    for shape in shapes:
        if shape is None:
            return None
        rank = max(len(result), len(shape))
        left = (1,) * (rank - len(result)) + result
        right = (1,) * (rank - len(shape)) + shape
        try:
            result = tuple(broadcast_dims(a, b) for a, b in zip(left, right, strict=True))
        except ShapeError as error:
            pair = f"{format_shape(result)} and {format_shape(shape)}"
            raise ShapeError(f"shapes {pair} do not broadcast: {error.message}") from None
    return result


def merge_dims(a: Dim, b: Dim) -> Dim:
    """The dimension that is both ``a`` and ``b``; ShapeError where they differ."""
    if a is None or b is None:
        return b if a is None else a
    if a != b:
        raise ShapeError(f"dimensions {a} and {b} differ")
    return a


def dims_differ(a: Dim, b: Dim) -> bool:
    """Whether both are known and not equal."""
    return a is not None and b is not None and a != b


def product(dims: Sequence[Dim]) -> Dim:
    """The product of ``dims``: None where one is unknown, unless another is 0."""
    if 0 in dims:
        return 0
    result = 1
    for dim in dims:
        if dim is None:
            return None
        result *= dim
    return result


def element_count(dims: Sequence[Dim] | None) -> int:
    """The product of ``dims``, unknown ones taken as 1; 0 where even the rank is unknown."""
    return 0 if dims is None else product([1 if dim is None else dim for dim in dims]) or 0


def known(*dims: Dim) -> tuple[int, ...] | None:
    """``dims`` if all of them are known, else None."""
    return None if None in dims else dims  # type: ignore[return-value]  # no None is left


def normalized_axis(axis: int, rank: int) -> int:
    """``axis`` counted from the front; ShapeError where a tensor of ``rank`` has no such axis."""
    if not -rank <= axis < rank:
        raise ShapeError(f"axis {axis} is outside of a tensor of rank {rank}")
    return axis % rank


def plain_data(value: Value) -> Array | None:
    """The elements of a constant that stands as an array in the file; None for packed and sparse ones too."""
    return value.data if value.is_plain else None


def static_int_vector(value: Value | None) -> list[int] | None:
    """The elements of a constant integer operand, flattened; None where it is absent or no constant."""
    if value is None or not value.dtype.is_integer:
        return None
    data = plain_data(value)
    return None if data is None else [int(x) for x in data.reshape(-1)]


# -- windows -----------------------------------------------------------------------------------


class Window(NamedTuple):
    """One axis of a sliding window: output size, and the padding before and after the data."""

    size: int
    before: int
    after: int


LARGEST_WINDOW = 1 << 20
"""Elements along one axis: far beyond any image; the work of a kernel grows with it, whatever the result."""


def window_size(size: Dim, taps: Dim, stride: int, dilation: int, padding: Padding) -> Dim:
    """Output size of a window of ``taps`` over ``size``; None where one of them is unknown.

    SAME: ceil(size / stride).  VALID: ceil((size - span + 1) / stride), span = (taps - 1) * dilation + 1.
    """
    if not 1 <= stride <= LARGEST_WINDOW or dilation < 1:
        raise ShapeError(
            f"stride {stride} and dilation {dilation} must be at least 1, at most {LARGEST_WINDOW}"
        )
    if taps is not None and (taps - 1) * dilation >= LARGEST_WINDOW:
        raise ShapeError(
            f"a window of {taps} with dilation {dilation} spans more than {LARGEST_WINDOW} elements"
        )
    if size is None:
        return None
    if padding is Padding.SAME:
        return -(-size // stride)
    if taps is None:
        return None
    span = (taps - 1) * dilation + 1
    if span > size:
        raise ShapeError(f"a window of {span} does not fit into {size} with VALID padding")
    return (size - span) // stride + 1


def conv_padding(size: int, taps: int, stride: int, dilation: int, padding: Padding) -> Window:
    """Output size and zero padding of one axis, as TFLite computes them: the odd element goes after."""
    out = window_size(size, taps, stride, dilation, padding)
    assert out is not None  # nothing is unknown
    if padding is Padding.VALID:
        return Window(out, 0, 0)
    total = max((out - 1) * stride + (taps - 1) * dilation + 1 - size, 0)
    return Window(out, total // 2, total - total // 2)


# -- checks ------------------------------------------------------------------------------------


def need_rank(value: Value, name: str, *ranks: int) -> Shape | None:
    """The shape of operand ``name``, None where unknown; ShapeError where its rank is none of ``ranks``."""
    if value.shape is None or len(value.shape) in ranks:
        return value.shape
    wanted = " or ".join(str(r) for r in ranks)
    raise ShapeError(f"{name} has shape {format_shape(value.shape)}, rank {wanted} is wanted")


def need_bias(bias: Value | None, channels: Dim) -> None:
    """ShapeError unless ``bias`` is absent or holds one element for each of ``channels``."""
    if bias is None or bias.shape is None:
        return
    count = product(bias.shape)
    if dims_differ(count, channels):
        raise ShapeError(f"bias has {count} elements, the result has {channels} channels")


def need_float(op: Op, *arrays: Array | None) -> None:
    """UnsupportedError unless the present ``arrays`` are all float32 or all float64."""
    kinds = {a.dtype.char for a in arrays if a is not None}
    if kinds != {"f"} and kinds != {"d"}:
        names = ", ".join(sorted({str(a.dtype) for a in arrays if a is not None}))
        raise UnsupportedError(f"{op.code} on {names} has no kernel yet, only its float32 form")


def need_same_float(op: Op) -> None:
    """ShapeError where two operands have different floating point types."""
    kinds = [(name, v.dtype) for name, v in op.operand_items() if v.dtype.is_float]
    for name, dtype in kinds[1:]:
        if dtype is not kinds[0][1]:
            raise ShapeError(
                f"{name} is {dtype.short}, {kinds[0][0]} is {kinds[0][1].short}; one type is wanted"
            )


# -- operator versions -------------------------------------------------------------------------


def version_by_dtype(value: Value, versions: Mapping[DType, int]) -> int:
    """The operator version that the type of ``value`` needs, 1 where ``versions`` does not say."""
    return versions.get(value.dtype, 1)


def is_hybrid(data: Value, weights: Value) -> bool:
    """Whether float data meets integer weights."""
    return data.dtype is DType.FLOAT32 and weights.dtype.is_integer


def is_per_channel(value: Value) -> bool:
    return value.quantization is not None and value.quantization.is_per_channel
