# SPDX-License-Identifier: Apache-2.0
"""Checks that shape rules and kernels share.

Shape rules raise ShapeError for operands that do not fit together.  Kernels raise UnsupportedError for forms
of an operator that they do not implement.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from circlekit.errors import ModelError, ShapeError, UnsupportedError, counted
from circlekit.ir.op import Op
from circlekit.ir.value import Array, Shape, Value, format_shape
from circlekit.ops.dimensions import Dim, dims_differ, merge_dims, normalized_axis, product, shapes_differ
from circlekit.ops.quantized_values import is_quantized

# -- shapes ------------------------------------------------------------------------------------


def require_rank(value: Value, name: str, *ranks: int) -> Shape | None:
    """Return the shape of ``value``, the operand ``name``; raise ShapeError if its rank is not in ``ranks``.

    Return None if the rank is unknown.
    """
    if value.shape is None or len(value.shape) in ranks:
        return value.shape
    expected = " or ".join(str(r) for r in ranks)
    raise ShapeError(f"expected {name} of rank {expected}, got shape {format_shape(value.shape)}")


def require_one_element(value: Value, name: str) -> None:
    """Raise ShapeError if ``value``, the operand ``name``, has a known number of elements that is not 1."""
    if value.shape is not None and dims_differ(product(value.shape), 1):
        raise ShapeError(f"{name}: expected 1 element, got shape {format_shape(value.shape)}")


def require_elements(value: Value, name: str) -> None:
    """Raise ShapeError if ``value``, the operand ``name``, is known to have no elements."""
    if value.shape is not None and product(value.shape) == 0:
        raise ShapeError(f"{name}: expected at least 1 element, got shape {format_shape(value.shape)}")


def require_shape(shape: Shape | None, expected: Shape | None, name: str) -> None:
    """Raise ShapeError if ``shape``, the shape of operand ``name``, is known not to be ``expected``."""
    if shapes_differ(shape, expected):
        raise ShapeError(f"{name}: expected shape {format_shape(expected)}, got {format_shape(shape)}")


def require_length(shape: Shape | None, count: int, name: str) -> None:
    """Raise ShapeError unless ``shape``, the shape of operand ``name``, is [``count``], [None] or None."""
    if shape is not None and (len(shape) != 1 or shape[0] not in (None, count)):
        raise ShapeError(f"expected {name} of shape [{count}], got {format_shape(shape)}")


def require_dims(op: Op, operands: Mapping[str, str], known: Mapping[str, Dim] | None = None) -> None:
    """Raise ShapeError if operands of ``op`` do not fit together.

    ``operands``: for each operand the names of its dimensions, such as ``units inputs`` for [units, inputs].
    Equal names stand for equal dimensions; a number stands for itself.  An operand that is absent, or whose
    rank is unknown, fits.
    ``known``: dimensions by name.
    """
    sizes: dict[str, Dim] = dict(known or {})
    for name, text in operands.items():
        value: Value | None = getattr(op, name)
        if value is None or value.shape is None:
            continue
        words = text.split()
        if len(words) == value.rank:
            for word, dim in zip(words, value.shape, strict=True):
                if sizes.get(word) is None:
                    sizes[word] = int(word) if word.isdigit() else dim
        expected = [sizes.get(word) for word in words]
        if len(words) != value.rank or any(map(dims_differ, expected, value.shape)):
            shape = ",".join(word if n is None else str(n) for word, n in zip(words, expected, strict=True))
            raise ShapeError(f"expected {name} of shape [{shape}], got {format_shape(value.shape)}")


def require_bias(bias: Value | None, channels: Dim) -> None:
    """Raise ShapeError if ``bias`` does not have one element for each of the result's ``channels``.

    An absent bias fits.  An unknown number of elements or channels fits, too.
    """
    count = None if bias is None or bias.shape is None else product(bias.shape)
    if dims_differ(count, channels):
        expected = f"expected bias of {counted(channels, 'element')}, one per channel of the result"
        raise ShapeError(f"{expected}, got {count}")


def common_shape(op: Op, values: tuple[Value, ...], skip: int | None = None) -> list[Dim] | None:
    """Return the dimensions of ``values``, which must agree on all axes except axis ``skip``.

    At ``skip``, the result has the dimension of the first value whose rank is known.  Return None if no rank
    is known.  Raise ShapeError if there are no values, or if their dtypes, ranks or dimensions disagree.  The
    caller must check that there is an axis ``skip``: this function may accept a wrong number.
    """
    if not values:
        raise ShapeError(f"{op.code}: expected at least one operand, got none")
    merged: list[Dim] | None = None
    for index, value in enumerate(values):
        require_same_dtype("operand 0", values[0], f"operand {index}", value)
        if value.shape is None:
            continue
        if merged is None:
            merged = list(value.shape)
            continue
        if len(merged) != len(value.shape):
            raise ShapeError(f"expected operands of equal rank, got {len(merged)} and {len(value.shape)}")
        axis = None if skip is None else normalized_axis(skip, len(merged))
        for i, dim in enumerate(value.shape):
            if i == axis:
                continue
            if dims_differ(merged[i], dim):
                raise ShapeError(
                    f"expected operands of equal dimension along axis {i}, got {merged[i]} and {dim}"
                )
            merged[i] = merge_dims(merged[i], dim)
    return merged


# -- dtypes ------------------------------------------------------------------------------------


def require_same_dtype(first: str, a: Value, second: str, b: Value) -> None:
    """Raise ShapeError if ``a`` and ``b``, the operands named ``first`` and ``second``, differ in dtype."""
    if a.dtype is not b.dtype:
        raise ShapeError(
            f"expected {first} and {second} of one dtype, got {a.dtype.short} and {b.dtype.short}"
        )


def require_same_float(op: Op) -> None:
    """Raise ShapeError if two operands have different floating-point dtypes."""
    floats = [(name, v) for name, v in op.operand_items() if v.dtype.is_float]
    for name, value in floats[1:]:
        require_same_dtype(*floats[0], name, value)


def require_int_list(numbers: Any, name: str) -> list[int]:
    """Return the elements of the attribute ``name`` as int; raise ModelError unless it lists integers."""
    listed = numbers.tolist() if isinstance(numbers, np.ndarray) else numbers
    if not isinstance(listed, list | tuple):
        raise ModelError(f"expected a list of integers in {name}, got {numbers!r}")
    for number in listed:
        if not isinstance(number, int | np.integer) or isinstance(number, bool):
            raise ModelError(f"expected integers in {name}, got {number!r}")
    return [int(number) for number in listed]


# -- forms that have no kernel -----------------------------------------------------------------


NUMERIC_KINDS = "fiubc"
"""The kinds of dtypes that have a 0: float, int, unsigned, bool, complex.  Strings have none."""


def require_numpy_kind(op: Op, array: Array, kinds: str) -> None:
    """Raise UnsupportedError unless ``array.dtype.kind`` is one of the letters ``kinds``, such as "fi"."""
    if array.dtype.kind not in kinds:
        raise UnsupportedError(f"{op.code} on {array.dtype} has no kernel")


def require_float(op: Op, *arrays: Array | None) -> None:
    """Raise UnsupportedError unless all arrays are float32, or all are float64; None is ignored."""
    names = {str(a.dtype) for a in arrays if a is not None}
    if names != {"float32"} and names != {"float64"}:
        listed = ", ".join(sorted(names))
        raise UnsupportedError(f"{op.code} on {listed} has no kernel, only f32 and f64 have")


def reject_quantized(op: Op) -> None:
    """Raise UnsupportedError if an operand or a result of ``op`` is quantized."""
    for value in (*op.inputs, *op.results):
        if value is not None and is_quantized(value):
            raise no_quantized_kernel(op, value)


def no_quantized_kernel(op: Op, value: Value) -> UnsupportedError:
    """Return the error that ``op`` has no kernel for the quantized operand or result ``value``."""
    return UnsupportedError(f"{op.code} on quantized {value.dtype.short} (%{value.name}) has no kernel")
