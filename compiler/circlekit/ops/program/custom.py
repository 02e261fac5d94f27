# SPDX-License-Identifier: Apache-2.0
"""Kernels of custom operators: TensorFlow's, where converters keep them as custom, and LiteRT's own.

They follow TensorFlow's definitions; attributes are read from the options, a FlexBuffer map.  A kernel gets
the operator and its operands, like the kernels that users register.  ``UNSUPPORTED``: operators without one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from circlekit.errors import ModelError, ShapeError
from circlekit.ir.enums import Padding
from circlekit.ir.op import Op, OpaqueOp
from circlekit.ir.resource_limits import need_memory
from circlekit.ir.value import Array
from circlekit.ops.constant_operands import int_list
from circlekit.ops.dimensions import conv_padding, normalized_axis
from circlekit.ops.numerics.float_functions import erfc
from circlekit.ops.program.detection import detection_postprocess
from circlekit.ops.program.flexbuffer import options_of

_STABLEHLO_REASON = "StableHLO operators are kept unchanged, for runtimes that compile them"

_STABLEHLO = """
    ABS ADD AND BROADCAST_IN_DIM CASE CBRT CLAMP COMPARE CONCATENATE CONVERT CONVOLUTION COSINE CUSTOM_CALL
    DIVIDE DOT_GENERAL DYNAMIC_SLICE DYNAMIC_UPDATE_SLICE EXPONENTIAL FLOOR GATHER IOTA LOG LOGISTIC MAXIMUM
    MINIMUM MULTIPLY NEGATE OR PAD POWER REDUCE REDUCE_WINDOW REMAINDER RESHAPE RNG_BIT_GENERATOR RSQRT
    SCATTER SELECT SHIFT_LEFT SLICE SORT SUBTRACT TANH TRANSPOSE WHILE
"""

UNSUPPORTED: dict[str, str] = {
    "CONCAT_EMBEDDINGS": "no runtime implements it",
    "DELEGATE": "it represents a part of a model that a delegate has replaced",
    "PLACEHOLDER_FOR_GREATER_OP_CODES": "it is a placeholder for newer operators in old files",
    "RUN_MODEL": "it runs another model file",
    **{f"STABLEHLO_{name}": _STABLEHLO_REASON for name in _STABLEHLO.split()},
}
"""Reason by the schema's name.  Custom operators are looked up by their custom code instead."""


def add_v2(op: Op, x: Array, y: Array) -> Array:
    """Return x + y, broadcast."""
    return np.asarray(x + y)


def reduce_all(op: Op, x: Array, axes: Array) -> Array:
    """Return whether all elements along ``axes`` are true."""
    along = tuple(normalized_axis(a, x.ndim) for a in int_list(axes))
    return np.asarray(np.all(x, axis=along, keepdims=bool(options_of(op).get("keep_dims"))))


def batch_matmul_v2(op: Op, x: Array, y: Array) -> Array:
    """Return products of the matrices in the last two axes, adjoint if ``adj_x`` or ``adj_y`` is set."""
    options = options_of(op)
    x, y = (np.conj(a.swapaxes(-1, -2)) if options.get(n) else a for a, n in ((x, "adj_x"), (y, "adj_y")))
    return np.asarray(x @ y)


def matmul(op: Op, x: Array, y: Array) -> Array:
    """Return the product of two matrices, transposed if ``transpose_a`` or ``transpose_b`` is set."""
    if x.ndim != 2 or y.ndim != 2:
        raise ShapeError(f"MatMul: expected two matrices, got ranks {x.ndim} and {y.ndim}")
    options = options_of(op)
    x, y = (a.T if options.get(n) else a for a, n in ((x, "transpose_a"), (y, "transpose_b")))
    return np.asarray(x @ y)


def matrix_band_part(op: Op, x: Array, lower: Array, upper: Array) -> Array:
    """Keep ``lower`` diagonals below and ``upper`` above the main one, all if negative; others are zero."""
    below, above = (int(a.reshape(-1)[0]) for a in (lower, upper))
    distance = np.arange(x.shape[-1]) - np.arange(x.shape[-2])[:, None]
    kept = ((below < 0) | (-distance <= below)) & ((above < 0) | (distance <= above))
    return np.where(kept, x, np.zeros((), x.dtype))


def erf(op: Op, x: Array) -> Array:
    """Return the error function of x."""
    return np.asarray(1 - erfc(x), x.dtype)


def broadcast_to(op: Op, x: Array, shape: Array) -> Array:
    """Return ``x`` broadcast to ``shape``."""
    return np.array(np.broadcast_to(x, int_list(shape)))


def split_v(op: Op, x: Array, sizes: Array, axis: Array) -> Sequence[Array]:
    """Split ``x`` into parts of ``sizes`` along ``axis``; one size may be -1, the rest."""
    along = normalized_axis(int(axis.reshape(-1)[0]), x.ndim)
    parts = int_list(sizes)
    if parts.count(-1) > 1 or min(parts, default=0) < -1:
        raise ModelError(f"SplitV: expected at most one -1 and no other negative size, got {parts}")
    rest = x.shape[along] - sum(p for p in parts if p >= 0)
    parts = [rest if p < 0 else p for p in parts]
    if sum(parts) != x.shape[along] or rest < 0:
        raise ShapeError(f"SplitV: expected sizes with a sum of {x.shape[along]}, got {parts}")
    return np.split(x, np.cumsum(parts)[:-1], axis=along)


def window_options(op: Op) -> tuple[list[int], list[int], Padding, bool]:
    """Return window and strides of MaxPoolWithArgmax, each [N,H,W,C], padding, include_batch_in_index."""
    options = options_of(op, ksize=list, strides=list, padding=str)
    taps, strides = options["ksize"], options["strides"]
    if len(taps) != 4 or len(strides) != 4 or any(type(n) is not int or n < 1 for n in (*taps, *strides)):
        raise ModelError(f"ksize, strides: expected four positive numbers each, got {taps} and {strides}")
    if options["padding"] not in Padding.__members__:
        raise ModelError(f"padding: expected SAME or VALID, got {options['padding']!r}")
    return taps, strides, Padding[options["padding"]], bool(options.get("include_batch_in_index"))


def max_pool_with_argmax(op: Op, x: Array) -> Sequence[Array]:
    """Return the maximum of each window of NHWC data and its index (y * width + x) * channels + channel.

    ``include_batch_in_index`` adds the batch number times the size of an image.
    """
    if x.ndim != 4:
        raise ShapeError(f"MaxPoolWithArgmax: expected rank 4, got {x.ndim}")
    taps, strides, padding, counts_images = window_options(op)
    batch, height, width, channels = x.shape
    rows, columns = (conv_padding(x.shape[a], taps[a], strides[a], 1, padding) for a in (1, 2))
    edges = ((0, 0), rows[1:], columns[1:], (0, 0))
    lowest = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    spans = [n + w.before + w.after for n, w in zip((height, width), (rows, columns), strict=True)]
    windows_size = batch * rows.size * columns.size * channels * taps[1] * taps[2]
    padded_size = batch * spans[0] * spans[1] * channels
    need_memory((windows_size + padded_size) * (8 + x.itemsize), "the windows of MaxPoolWithArgmax")
    data = np.pad(x, edges, constant_values=lowest)
    positions = np.arange(height * width, dtype=np.int64).reshape(1, height, width, 1)
    windows = np.lib.stride_tricks.sliding_window_view(data, (taps[1], taps[2]), (1, 2))
    where = np.lib.stride_tricks.sliding_window_view(np.pad(positions, edges), (taps[1], taps[2]), (1, 2))
    flat = (batch, rows.size, columns.size, channels, -1)
    step = (slice(None), slice(None, None, strides[1]), slice(None, None, strides[2]))
    windows = windows[step][:, : rows.size, : columns.size].reshape(flat)
    where = where[step][:, : rows.size, : columns.size].reshape((1, rows.size, columns.size, 1, -1))
    best = windows.argmax(axis=-1)[..., None]
    index = np.take_along_axis(np.broadcast_to(where, windows.shape), best, axis=-1)[..., 0]
    index = index * channels + np.arange(channels)
    if counts_images:
        index = index + np.arange(batch).reshape(-1, 1, 1, 1) * (height * width * channels)
    kind = op.results[1].dtype.numpy if len(op.results) > 1 else None
    return np.take_along_axis(windows, best, axis=-1)[..., 0], index.astype(kind or np.int64)


def identity(op: Op, x: Array) -> Array:
    """Return ``x``: the operator has an effect in training only."""
    return np.array(x)


IDENTITIES = tuple(
    prefix + name
    for prefix in ("", "Flex")
    for name in (
        "CheckNumerics", "CheckNumericsV2", "Identity", "PlaceholderWithDefault", "PreventGradient",
        "Snapshot", "StopGradient",
    )
)  # fmt: skip
"""TensorFlow's operators that return their operand (CheckNumerics without its check)."""

CUSTOM_KERNELS: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(IDENTITIES, identity),
    "AddV2": add_v2,
    "All": reduce_all,
    "BatchMatMulV2": batch_matmul_v2,
    "BroadcastTo": broadcast_to,
    "Erf": erf,
    "MatMul": matmul,
    "MatrixBandPart": matrix_band_part,
    "MaxPoolWithArgmax": max_pool_with_argmax,
    "SplitV": split_v,
    "TFLite_Detection_PostProcess": detection_postprocess,
}
"""Built-in kernels by custom code."""


def is_pure(op: Op) -> bool:
    """Whether ``op`` has no side effect and depends on its operands only, as built-in custom operators do."""
    return op.pure or (isinstance(op, OpaqueOp) and op.code == "CUSTOM" and op.custom_code in CUSTOM_KERNELS)
