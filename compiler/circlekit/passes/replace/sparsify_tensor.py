# SPDX-License-Identifier: Apache-2.0
"""Store only the parts of a constant that are not zero, in the sparse format of the schema.

The constant is divided into blocks of equal size.  The option ``sparsify_block_map`` names the axes that are
divided; along other axes, a block has one element.  Each axis of the array of blocks is a level, and each
divided axis gives one more level, for the positions inside a block.  Example: a [4,6] matrix in blocks of
[2,3] has the levels 0 and 1 (2 x 2 blocks), and 2 and 3 (2 x 3 elements of a block).  The option
``sparsify_traversal_order`` gives the order of the levels.

A dense level is stored as its size; a sparse level as the indices of the parts that are not zero.  The levels
inside a block are always dense.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from circlekit.errors import RewriteError, did_you_mean
from circlekit.ir.dtypes import f32, i8, i32
from circlekit.ir.graph import Model
from circlekit.ir.value import Array, Value
from circlekit.passes.support.equality import graph_constants
from circlekit.rewrite.base import Context, Option, Pass

DENSE, SPARSE = "d", "s"
"""Formats of a level, as ONE's options name them."""


def _numbers(text: str) -> list[int]:
    """Parse integers separated by commas; raise ValueError for other text."""
    words = text.split(",")
    if not all(word.strip().isdecimal() for word in words):
        raise ValueError(f"expected numbers separated by commas, got {text!r}")
    return [int(word) for word in words]


def _formats(text: str) -> list[str]:
    """Parse formats separated by commas; raise ValueError for other text."""
    words = [word.strip() for word in text.split(",")]
    if not set(words) <= {DENSE, SPARSE}:
        raise ValueError(f"expected d (dense) or s (sparse), separated by commas, got {text!r}")
    return words


class SparsifyTensor(Pass):
    """Store one constant, chosen by its name, in the sparse format of the schema, with the same values.

    Raise RewriteError in these cases:

    - No operator reads a constant of this name.
    - The dtype is not f32, i32 or i8, or the data are packed or compressed.
    - The block size is not set, or the options do not fit the shape.
    - No element would be stored, because all are 0.

    If constants of several graphs have this name, the first one is stored sparse.
    """

    name = "sparsify_tensor"
    makes_special_forms = True
    options = (
        Option("sparsify_tensor", "store the constant of this name sparse", "NAME"),
        Option(
            "sparsify_traversal_order",
            "order of the levels, outermost first (default: 0,1,2,3)",
            "N,N",
            _numbers,
            [0, 1, 2, 3],
        ),
        Option(
            "sparsify_format",
            "d (dense) or s (sparse) for each axis (default: d,s)",
            "F,F",
            _formats,
            ["d", "s"],
        ),
        Option("sparsify_block_size", "size along each axis of the block map; required", "N,N", _numbers),
        Option(
            "sparsify_block_map", "axes that are divided into blocks (default: 0,1)", "N,N", _numbers, [0, 1]
        ),
    )

    def run(self, model: Model, context: Context) -> int:
        name = self.setting(context, "sparsify_tensor")
        if name is None:
            return 0
        constants: dict[str, Value] = {}
        for graph in model.graphs:
            for constant in graph_constants(graph):
                constants.setdefault(constant.name, constant)
        if name not in constants:
            similar = did_you_mean(name, constants, 3)
            raise RewriteError(f"sparsify_tensor: no operator reads a constant %{name}{similar}")
        value = constants[name]
        if "sparsity" in value.extra:
            return 0  # it is stored sparse already
        block = self.setting(context, "sparsify_block_size")
        if block is None:
            raise RewriteError("sparsify_tensor: expected the setting sparsify_block_size, got none")
        keys = ("sparsify_traversal_order", "sparsify_format", "sparsify_block_map")
        order, formats, block_map = (self.setting(context, key) for key in keys)
        if value.dtype not in (i32, i8, f32) or not value.is_plain:
            got = value.dtype.short if value.is_plain else "packed or compressed data"
            raise RewriteError(f"sparsify_tensor: %{name}: expected f32, i32 or i8, got {got}")
        _sparsify(value, order, formats, block, block_map)
        for graph in model.graphs:  # any of them may read the constant; a new epoch says that a graph changed
            graph.epoch += 1
        return 1


def _sparsify(
    value: Value, order: Sequence[int], formats: Sequence[str], block: Sequence[int], block_map: Sequence[int]
) -> None:
    """Store ``value`` sparse; raise RewriteError if the settings do not fit its shape.

    ``order``: the numbers of the levels, outermost first.  ``formats``: DENSE or SPARSE for each axis of
    ``value``.  ``block``: the size of a block along each axis in ``block_map``.
    """
    shape, rank = value.static_shape, len(value.static_shape)
    levels = rank + len(block_map)
    if sorted(order) != list(range(levels)) or len(formats) != rank or len(block) != len(block_map):
        raise RewriteError(
            f"sparsify_tensor: %{value.name} has rank {rank} and {len(block_map)} dimensions with blocks; "
            f"expected a traversal order of {levels}, {rank} formats and {len(block_map)} block sizes"
        )
    if len(set(block_map)) < len(block_map):
        raise RewriteError(
            f"sparsify_tensor: expected different axes in the block map, got {list(block_map)}"
        )
    if any(axis >= rank or not n or shape[axis] % n for axis, n in zip(block_map, block, strict=True)):
        axes = f"axes {list(block_map)} of {list(shape)}"
        raise RewriteError(f"sparsify_tensor: blocks of {list(block)} do not fit {axes}")
    blocks = _in_blocks(value.array(), block, block_map).transpose(order)
    stored, metadata = _levels(blocks, [formats[axis] if axis < rank else DENSE for axis in order])
    if value.numel and not stored.size:  # in a file, a tensor without data is not a constant
        expected = "expected an element that is not 0, got only zeros"
        raise RewriteError(f"sparsify_tensor: %{value.name}: {expected}")
    value.data = np.frombuffer(stored.tobytes(), np.uint8)
    value.extra["sparsity"] = {
        "traversal_order": np.array(order, np.int32),
        "block_map": np.array(block_map, np.int32),
        "dim_metadata": metadata,
    }


def _in_blocks(array: Array, block: Sequence[int], block_map: Sequence[int]) -> Array:
    """Return ``array`` with one axis per level: [number of blocks along each axis..., ``block``...].

    For example, [4,6] in blocks of [2,3] becomes [2,2,2,3].
    """
    sizes = dict(zip(block_map, block, strict=True))
    counts = [size // sizes.get(axis, 1) for axis, size in enumerate(array.shape)]
    split = [n for axis, count in enumerate(counts) for n in (count, sizes.get(axis, 1))]
    inner = [2 * axis + 1 for axis in block_map]
    ones = [2 * axis + 1 for axis in range(array.ndim) if axis not in block_map]  # blocks of one element
    moved = array.reshape(split).transpose([*range(0, len(split), 2), *inner, *ones])
    return np.asarray(moved.reshape([*counts, *block]))


def _levels(array: Array, formats: Sequence[str]) -> tuple[Array, list[dict[str, Any]]]:
    """Return the elements of ``array`` that are stored, and the metadata of each level.

    ``array``: one axis for each level, the outermost first.  ``formats``: DENSE or SPARSE for each level.
    Only elements whose bits are all 0 are left out, so -0.0 is stored.
    """
    is_set = np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}") != 0
    # the parts that are stored, as flat indices over the axes so far; at first the whole array is one part
    stored = np.zeros(1, np.int64)
    metadata: list[dict[str, Any]] = []
    for level, (size, level_format) in enumerate(zip(array.shape, formats, strict=True)):
        children = stored[:, None] * size + np.arange(size)
        if level_format == DENSE:
            metadata.append({"dense_size": size})
            stored = children.reshape(-1)
            continue
        occupied = is_set.any(axis=tuple(range(level + 1, is_set.ndim))).reshape(-1)[children]
        segments = _vector(np.concatenate([[0], np.cumsum(occupied.sum(axis=1))]))
        indices = _vector(np.nonzero(occupied)[1])
        metadata.append({"format": "SPARSE_CSR", "array_segments": segments, "array_indices": indices})
        stored = children[occupied]
    return np.ascontiguousarray(array).reshape(-1)[stored], metadata


def _vector(numbers: Array) -> dict[str, Any]:
    """Return ``numbers`` as a table of the schema: 16 bits per number, as in ONE, or 32 bits if needed."""
    small = numbers.max(initial=0) < 1 << 16
    table, dtype = ("Uint16Vector", np.uint16) if small else ("Int32Vector", np.int32)
    return {"": table, "values": numbers.astype(dtype)}
