# SPDX-License-Identifier: Apache-2.0
"""Read constant operands: parameters (axes, paddings, shapes), and packed, sparse and string constants.

``packed`` and ``encode_strings`` write what ``unpacked`` and ``decode_strings`` read.

Sources: TFLite's portable_tensor_utils for packed integers, sparsity_format_converter for sparse tensors,
string_util for strings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from circlekit.errors import ModelError, ShapeError, UnsupportedError, counted
from circlekit.ir.dtypes import DType
from circlekit.ir.resources.resource_limits import need_memory
from circlekit.ir.sparsity import level_numbers, sparsity_fault
from circlekit.ir.value import Array, Shape, Value
from circlekit.ops.dimensions import unknown_dims


def plain_data(value: Value) -> Array | None:
    """Return the elements of a plain constant (not packed, sparse or compressed); None for other values."""
    return value.data if value.is_plain else None


def static_int_vector(value: Value | None) -> list[int] | None:
    """Return the elements of a plain constant of integers as a flat list; None for any other operand."""
    if value is None or not value.dtype.is_integer:
        return None
    data = plain_data(value)
    return None if data is None else int_list(data)


def static_int(value: Value, name: str) -> int | None:
    """Return the only element of a plain constant of integers; None for any other operand.

    Raise ShapeError if such a constant does not have exactly one element.  ``name``: the name of the operand,
    for the message.
    """
    numbers = static_int_vector(value)
    if numbers is None:
        return None
    if len(numbers) != 1:
        raise ShapeError(f"expected 1 element in {name}, got {len(numbers)}")
    return numbers[0]


def vector_length(value: Value) -> int | None:
    """Return the number of elements of a vector; None if it is unknown or ``value`` is not a vector."""
    return value.shape[0] if value.shape is not None and len(value.shape) == 1 else None


def listed_shape(value: Value) -> Shape | None:
    """Return the shape whose dimensions are the elements of the operand ``value``.

    The elements of a plain constant of integers are not checked: they may be negative.  For any other
    operand, all dimensions are unknown.  Then return None if ``value`` is not known to be a vector or its
    length is unknown, and raise ShapeError if its length exceeds MAX_RANK.
    """
    dims = static_int_vector(value)
    return unknown_dims(vector_length(value)) if dims is None else tuple(dims)


def int_list(array: Array) -> list[int]:
    """Return the elements of ``array`` as a flat list of int."""
    return [int(x) for x in array.reshape(-1).tolist()]


def constant_elements(value: Value) -> Array:
    """Return the elements of a constant as kernels take them: an array of its shape.

    Packed integers become int8 or uint8, bfloat16 becomes float32, strings become ``bytes`` in an array of
    objects, and sparse constants become dense.  Raise

    - ModelError if ``value`` is not a constant, or its data do not fit its shape;
    - UnsupportedError for data that no kernel reads (compressed; packed, but neither integers nor bfloat16);
    - LimitError if the dense array of a sparse constant exceeds the memory limit.
    """
    data = value.array()
    if value.is_plain:
        return data
    if value.dtype is DType.STRING:
        strings = decode_strings(data, f"%{value.name}")
        if strings.size != value.numel:
            raise ModelError(
                f"expected {counted(value.numel, 'string')} in %{value.name}, got {strings.size}"
            )
        return strings.reshape(value.static_shape)
    if value.extra.get("compression_type", "NONE") != "NONE":
        raise UnsupportedError(f"%{value.name} is a compressed constant, which no kernel reads")
    stored = unpacked(data, value.dtype, f"%{value.name}")
    if "sparsity" in value.extra:
        return dense(stored, value.static_shape, value.extra["sparsity"], f"%{value.name}")
    if stored.size < value.numel:  # more elements are allowed: padding at the end
        raise ModelError(f"expected {counted(value.numel, 'element')} in %{value.name}, got {stored.size}")
    return stored[: value.numel].reshape(value.static_shape)


# -- packed numbers ----------------------------------------------------------------------------


def unpacked(data: Array, dtype: DType, name: str = "a constant") -> Array:
    """Return all numbers of ``dtype`` in the bytes ``data``, as a vector.

    Integers of less than 8 bits become int8 or uint8; the first integer of a byte is in its lowest bits.
    Unused bits of the last byte are returned as numbers, too.  ``name``: the constant, for messages.  Raise
    ModelError if the last number is incomplete, UnsupportedError if ``dtype`` is a packed dtype but neither
    an integer nor bfloat16.
    """
    if data.nbytes * 8 % max(dtype.bits, 8):
        raise ModelError(
            f"expected whole {dtype.short} numbers in {name}, got {counted(data.nbytes, 'byte')}"
        )
    if dtype.numpy is not None:
        return data.view(dtype.numpy)
    if dtype is DType.BFLOAT16:
        return (data.view("<u2").astype("<u4") << 16).view("<f4")
    if not dtype.is_integer:
        raise UnsupportedError(f"{name} is a packed {dtype.short} constant, which no kernel reads")
    shifts = np.arange(0, 8, dtype.bits, dtype=np.uint8)
    fields = ((data.reshape(-1, 1) >> shifts) & ((1 << dtype.bits) - 1)).reshape(-1)
    if dtype.short.startswith("u"):
        return fields
    unused = 8 - dtype.bits  # move the sign bit to the top and back, so that it fills these bits
    return np.asarray((fields << unused).view(np.int8) >> unused)


def packed(numbers: Array, dtype: DType) -> Array:
    """Return integers of less than 8 bits as packed bytes (uint8): the inverse of ``unpacked``."""
    per_byte = 8 // dtype.bits
    fields = np.zeros(-(-numbers.size // per_byte) * per_byte, np.uint8)
    fields[: numbers.size] = numbers.reshape(-1).astype(np.uint8) & ((1 << dtype.bits) - 1)
    shifts = np.arange(0, 8, dtype.bits, dtype=np.uint8)
    return np.asarray(np.bitwise_or.reduce(fields.reshape(-1, per_byte) << shifts, axis=1), np.uint8)


# -- strings -----------------------------------------------------------------------------------


def decode_strings(data: Array, name: str = "a string tensor") -> Array:
    """Return the strings in the bytes of a string tensor as a vector of ``bytes`` objects.

    The tensor begins with int32 numbers: the count of strings, and count + 1 offsets.  The texts follow.
    Less than 4 bytes hold no string.  ``name``: the tensor or its file, for messages.  Raise ModelError if
    longer data are damaged.
    """
    raw = data.tobytes()
    count = int(np.frombuffer(raw, "<i4", 1)[0]) if len(raw) >= 4 else 0
    if count < 0:
        raise ModelError(f"expected 0 or more strings in {name}, got {count}")
    if count and len(raw) < 4 * (count + 2):
        strings = counted(count, "string")
        raise ModelError(f"expected at least {4 * (count + 2)} bytes for {strings} in {name}, got {len(raw)}")
    out = np.empty(count, object)
    offsets = np.frombuffer(raw, "<i4", count + 1, 4).tolist() if count else [0]
    if any(not 0 <= a <= b <= len(raw) for a, b in pairwise(offsets)):
        raise ModelError(f"expected ascending offsets inside the bytes of {name}")
    out[:] = [raw[a:b] for a, b in pairwise(offsets)]
    return out


def encode_strings(strings: Sequence[bytes]) -> Array:
    """Return the bytes (uint8) of a string tensor with ``strings``: the inverse of ``decode_strings``."""
    offsets = np.cumsum([0, *(len(s) for s in strings)]) + 4 * (len(strings) + 2)
    head = np.array([len(strings), *offsets], "<i4").tobytes()
    return np.frombuffer(head + b"".join(strings), np.uint8)


# -- sparse data -------------------------------------------------------------------------------


def dense(
    stored: Array, shape: tuple[int, ...], sparsity: Mapping[str, Any], name: str = "a sparse constant"
) -> Array:
    """Return the dense array of a sparse constant; elements that are not stored are 0.

    ``stored``: the stored elements.  ``shape``: the shape of the array.  ``name``: the constant, for the
    messages.  ``sparsity``: the schema's SparsityParameters, which describe a tree with one level for each
    axis, in ``traversal_order``:

    - A node stands for an index along the axis of its level.  In a dense level, each parent has a node for
      every index; in a compressed level, for each index that is listed.
    - An axis may be divided into blocks.  It then has two levels: one for the number of the block, one for
      the index inside the block.  If entry b of ``block_map`` is this axis, ``traversal_order`` calls the
      second level rank + b.
    - The nodes of the last level are the stored elements.

    For example, [[0, 5, 0], [7, 0, 8]] may be stored as the elements 5, 7, 8, with two levels:

    - rows: a dense level of size 2;
    - columns: a compressed level with ``array_indices`` 1, 0, 2 (the columns of the elements) and
      ``array_segments`` 0, 1, 3 (where each row begins in ``array_indices``, and where the last row ends).

    Raise ModelError if the levels do not fit the shape or each other, LimitError if the dense array exceeds
    the memory limit.
    """
    fault = sparsity_fault(sparsity, shape, len(stored))
    if fault is not None:
        raise ModelError(f"{name}: {fault}")
    need_memory(prod(shape) * stored.itemsize, f"the dense form of {name}")
    if not shape:
        return np.asarray(stored[0])
    out = np.zeros(shape, stored.dtype)
    if not out.size:
        return out
    order = [int(x) for x in sparsity["traversal_order"]]
    block_map = [int(x) for x in sparsity.get("block_map", ())]
    levels = sparsity["dim_metadata"]
    rank = len(shape)
    position = np.zeros(1, np.int64)  # by node of the current level (see ``_expand_level``): first the root
    coordinates: dict[int, Array] = {}  # by axis: for each node, its own or its ancestor's index on the axis
    for axis, level in zip(order, levels, strict=True):
        parents, position, index = _expand_level(level, position)
        coordinates = {a: indices[parents] for a, indices in coordinates.items()}
        coordinates[axis] = index
    for block, axis in enumerate(block_map):
        size = int(levels[order.index(rank + block)]["dense_size"])  # sparsity_fault has checked it
        coordinates[axis] = coordinates[axis] * size + coordinates[rank + block]
    out[tuple(coordinates[axis] for axis in range(rank))] = stored[: len(position)]
    return out


def _expand_level(level: Mapping[str, Any], parent_position: Array) -> tuple[Array, Array, Array]:
    """Return three arrays with one number per node of ``level``: parent, position and index.

    - parent: the number of the parent among the nodes of the level above, from 0.
    - position: where the node is stored.  In a dense level, parent's position * size + index; in a compressed
      level, the place of the node in ``array_indices``.
    - index: the index along the axis of the level.

    ``parent_position``: the positions of the nodes of the level above.
    """
    if level.get("format", "DENSE") == "DENSE":
        size = int(level.get("dense_size", 0))
        parents = np.repeat(np.arange(len(parent_position)), size)
        index = np.tile(np.arange(size), len(parent_position))
        return parents, parent_position[parents] * size + index, index
    segments, indices = (level_numbers(level, name) for name in ("array_segments", "array_indices"))
    assert segments is not None  # checked by sparsity_fault
    assert indices is not None
    # the nodes below the position p are at segments[p] to segments[p + 1] - 1 in ``array_indices``
    counts = segments[parent_position + 1] - segments[parent_position]
    parents = np.repeat(np.arange(len(parent_position)), counts)
    starts = np.cumsum(counts) - counts
    position = segments[parent_position][parents] + np.arange(len(parents)) - starts[parents]
    return parents, position, indices[position]
