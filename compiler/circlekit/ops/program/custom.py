# SPDX-License-Identifier: Apache-2.0
"""Kernels of custom operators: those that converters keep from TensorFlow, and those that LiteRT defines.

A kernel is a function of the operator and of one array per operand.  The operator's attributes are in its
custom options, a FlexBuffer map.  Source: TensorFlow's definitions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from circlekit.errors import ModelError, ShapeError, UnsupportedError
from circlekit.ir.enums import Padding
from circlekit.ir.op import Op, OpaqueOp
from circlekit.ir.resources.resource_limits import need_memory
from circlekit.ir.value import Array
from circlekit.ops.constant_operands import int_list
from circlekit.ops.dimensions import axis_windows, normalized_axis
from circlekit.ops.movement.join import split_by_sizes
from circlekit.ops.numerics.float_functions import erf, erfc
from circlekit.ops.program.detection import detection_postprocess
from circlekit.ops.program.flexbuffer import options_of
from circlekit.ops.program.mediapipe import convolution_2d_transpose_bias

UNSUPPORTED = {
    "CONCAT_EMBEDDINGS": "no runtime implements it",
    "DELEGATE": "it represents a part of a model that a delegate has replaced",
    "PLACEHOLDER_FOR_GREATER_OP_CODES": "it is a placeholder for newer operators in old files",
    "RUN_MODEL": "it runs another model file",
    "STABLEHLO": "StableHLO operators are kept unchanged, for runtimes that compile them",
}
"""Why an opaque built-in operator has no kernel, by its code.

STABLEHLO stands for all codes that begin with it.
"""


def why_unsupported(code: str) -> str | None:
    """Return why the opaque operator ``code`` has no kernel; None if the reason is not in UNSUPPORTED."""
    return UNSUPPORTED.get("STABLEHLO" if code.startswith("STABLEHLO_") else code)


def reduce_all(op: Op, x: Array, axes: Array) -> Array:
    """Return whether all elements along ``axes`` are true."""
    reduced = tuple(normalized_axis(a, x.ndim) for a in int_list(axes))
    return np.asarray(np.all(x, axis=reduced, keepdims=bool(options_of(op).get("keep_dims"))))


def matrix_product(op: Op, x: Array, y: Array) -> Array:
    """Return the products of the matrices in the last two axes.

    Options may ask to transpose a matrix (``transpose_a``, ``transpose_b``), or to transpose and conjugate it
    (``adj_x``, ``adj_y``).  Raise ShapeError unless the operands of a MatMul have rank 2.
    """
    if isinstance(op, OpaqueOp) and op.custom_code == "MatMul" and (x.ndim, y.ndim) != (2, 2):
        raise ShapeError(f"MatMul: expected two matrices, got ranks {x.ndim} and {y.ndim}")
    options = options_of(op)
    if options.get("transpose_a") or options.get("adj_x"):
        x = x.swapaxes(-1, -2)
    if options.get("transpose_b") or options.get("adj_y"):
        y = y.swapaxes(-1, -2)
    x, y = (np.conj(a) if options.get(name) else a for a, name in ((x, "adj_x"), (y, "adj_y")))
    return np.asarray(x @ y)


def matrix_band_part(op: Op, x: Array, lower: Array, upper: Array) -> Array:
    """Return ``x`` with 0 outside of a band around the main diagonal.

    The band has ``lower`` diagonals below and ``upper`` above the main diagonal; a negative number means all.
    """
    below, above = (int(a.reshape(-1)[0]) for a in (lower, upper))
    distance = np.arange(x.shape[-1]) - np.arange(x.shape[-2])[:, None]
    kept = ((below < 0) | (-distance <= below)) & ((above < 0) | (distance <= above))
    return np.where(kept, x, np.zeros((), x.dtype))


def window_options(op: Op) -> tuple[list[int], list[int], Padding, bool]:
    """Return the options ksize (the window's size) and strides, padding, and include_batch_in_index.

    ksize and strides are lists of four integers, for N, H, W and C.  include_batch_in_index is False if it is
    missing.  Raise ModelError if ksize, strides or padding is missing or invalid.
    """
    options = options_of(op, ksize=list, strides=list, padding=str)
    taps, strides = options["ksize"], options["strides"]
    if len(taps) != 4 or len(strides) != 4 or any(type(n) is not int or n < 1 for n in (*taps, *strides)):
        raise ModelError(f"ksize, strides: expected four positive integers each, got {taps} and {strides}")
    if options["padding"] not in Padding.__members__:
        raise ModelError(f"padding: expected SAME or VALID, got {options['padding']!r}")
    return taps, strides, Padding[options["padding"]], bool(options.get("include_batch_in_index"))


def max_pool_with_argmax(op: Op, x: Array) -> Sequence[Array]:
    """Return the maximum of each window of NHWC data, and the index of that element in the image.

    The index is (row * width + column) * channels + channel.  If the option ``include_batch_in_index`` is
    true, the batch index times the number of elements of an image is added.
    """
    taps, strides, padding, includes_batch = window_options(op)
    if x.ndim != 4:
        raise ShapeError(f"MaxPoolWithArgmax: expected rank 4, got {x.ndim}")
    if {*taps[::3], *strides[::3]} != {1}:
        got = f"got ksize {taps} and strides {strides}"
        only = "only for sizes and strides of 1 for N and C"
        raise UnsupportedError(f"MaxPoolWithArgmax has a kernel {only}, {got}")
    batch, height, width, channels = x.shape
    rows, columns = (axis_windows(x.shape[a], taps[a], strides[a], 1, padding) for a in (1, 2))
    index_dtype = (op.results[1].dtype.numpy if len(op.results) > 1 else None) or np.int64
    if not rows.number or not columns.number:
        shape = (batch, rows.number, columns.number, channels)
        return np.zeros(shape, x.dtype), np.zeros(shape, index_dtype)
    padded_sizes = [n + w.before + w.after for n, w in ((height, rows), (width, columns))]
    window_elements = rows.number * columns.number * taps[1] * taps[2]
    need_bytes = batch * channels * (window_elements + prod(padded_sizes)) * (8 + x.itemsize)
    need_memory(need_bytes, "the windows of MaxPoolWithArgmax")
    lowest = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    padding_of_axes = ((0, 0), (rows.before, rows.after), (columns.before, columns.after), (0, 0))
    data = np.pad(x, padding_of_axes, constant_values=lowest)
    windows = np.lib.stride_tricks.sliding_window_view(data, (taps[1], taps[2]), (1, 2))
    windows = windows[:, :: strides[1], :: strides[2]][:, : rows.number, : columns.number]
    best = windows.reshape(*windows.shape[:4], taps[1] * taps[2]).argmax(axis=-1)
    # the best position is in the padding only if all elements of the window are the lowest number: the first
    # position of the window is taken then, and its row or column may be negative
    row = np.maximum(np.arange(rows.number)[:, None, None] * strides[1] - rows.before + best // taps[2], 0)
    column = np.maximum(np.arange(columns.number)[:, None] * strides[2] - columns.before + best % taps[2], 0)
    index = (row * width + column) * channels + np.arange(channels)
    if includes_batch:
        index = index + np.arange(batch).reshape(-1, 1, 1, 1) * (height * width * channels)
    return windows.max(axis=(-2, -1)), index.astype(index_dtype)


_NAMES = "CheckNumerics CheckNumericsV2 Identity PlaceholderWithDefault PreventGradient Snapshot StopGradient"
IDENTITIES = tuple(prefix + name for prefix in ("", "Flex") for name in _NAMES.split())
"""The operators of TensorFlow that return their operand; their checks and effects in training are omitted.

The converter puts Flex before the name of an operator that TensorFlow's own kernel has to run.
"""

CUSTOM_KERNELS: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(IDENTITIES, lambda op, x: np.array(x)),
    "AddV2": lambda op, x, y: np.asarray(x + y),
    "All": reduce_all,
    "BatchMatMulV2": matrix_product,
    "Convolution2DTransposeBias": convolution_2d_transpose_bias,
    "BroadcastTo": lambda op, x, shape: np.array(np.broadcast_to(x, int_list(shape))),
    **dict.fromkeys(("Erf", "FlexErf"), lambda op, x: np.asarray(erf(x), x.dtype)),
    **dict.fromkeys(("Erfc", "FlexErfc"), lambda op, x: np.asarray(erfc(x), x.dtype)),
    "MatMul": matrix_product,
    "MatrixBandPart": matrix_band_part,
    "MaxPoolWithArgmax": max_pool_with_argmax,
    "SplitV": lambda op, x, sizes, axis: split_by_sizes(x, sizes, axis),
    "TFLite_Detection_PostProcess": detection_postprocess,
}
"""The built-in kernels of custom operators by custom code: functions of the operator and its operands."""


def is_pure(op: Op) -> bool:
    """Return whether ``op`` has no side effects and its results depend on its operands only.

    All custom operators in CUSTOM_KERNELS are pure; other custom operators may not be.
    """
    return op.pure or (isinstance(op, OpaqueOp) and op.code == "CUSTOM" and op.custom_code in CUSTOM_KERNELS)
