# SPDX-License-Identifier: Apache-2.0
"""Check the sparsity parameters of a constant, in linear time.

Source: TFLite's SparsityParameters.  They describe the stored elements as a tree with one level per axis.
The entries of the last level are the stored elements.  A dense level has, below each entry of the level
above, one entry for every index along its axis.  A compressed level (CSR) has, below entry i of the level
above, one entry for each index in ``indices[segments[i]:segments[i + 1]]``.  If an axis is divided into
blocks, it has two levels: the number of the block, and the index in the block.

``traversal_order`` lists the axes of the levels, from the top: 0 to rank - 1 are the axes of the constant,
rank + i is the index in the blocks along axis ``block_map[i]``.  ``dim_metadata`` lists the levels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from circlekit.errors import counted
from circlekit.ir.value import Array


def sparsity_fault(sparsity: Mapping[str, Any], shape: Sequence[int], stored: int) -> str | None:
    """Return why a constant of ``stored`` elements cannot be decoded to ``shape``; None if it can.

    ``sparsity``: the schema's table SparsityParameters; a model text may state fields of any type.  If the
    result is None, decoding takes memory for the dense constant and the levels only.
    """
    try:
        return _fault(sparsity, shape, stored)
    except (AttributeError, TypeError, ValueError, OverflowError) as error:
        return f"the sparsity has a value of a wrong type: {error}"


def _fault(sparsity: Mapping[str, Any], shape: Sequence[int], stored: int) -> str | None:
    """Return the result of ``sparsity_fault``; raise any error for values of wrong types."""
    order = [int(x) for x in sparsity.get("traversal_order", ())]
    block_map = [int(x) for x in sparsity.get("block_map", ())]
    levels = sparsity.get("dim_metadata", ())
    rank = len(shape)
    axes = list(range(rank + len(block_map)))
    if sorted(order) != axes or len(levels) != len(order):
        expected = f"a permutation of {axes[:16]}, with one level each"
        levels_text = counted(len(levels), "level")
        return f"the sparsity has traversal order {order[:16]} and {levels_text}, expected {expected}"
    if any(not 0 <= axis < rank for axis in block_map) or len({*block_map}) < len(block_map):
        return f"the sparsity has blocks along {block_map[:16]}, expected different axes of rank {rank}"
    blocks = [int(levels[order.index(rank + i)].get("dense_size", 0)) for i in range(len(block_map))]
    # the size of each axis, indexed by its number in ``order``; for a divided axis, its number of blocks
    sizes = [*shape, *blocks]
    for axis, block in zip(block_map, blocks, strict=True):
        if block < 1 or shape[axis] % block:
            size = counted(shape[axis], "element")
            return f"the sparsity has blocks of {block} along axis {axis}, which has {size}"
        sizes[axis] = shape[axis] // block
    count = 1  # of the entries of the level above; the root counts as one
    for number, (axis, level) in enumerate(zip(order, levels, strict=True)):
        entries = _entries(level, count, sizes[axis])
        if isinstance(entries, str):
            return f"level {number} of the sparsity {entries}"
        count = entries
    if count > stored:
        return f"the sparsity places {counted(count, 'element')}, expected at most {stored}, the stored ones"
    return None


def _entries(level: Mapping[str, Any], above: int, size: int) -> int | str:
    """Return the number of entries of a level, or the end of a sentence that says what is wrong with it.

    ``above``: the number of entries of the level above.  ``size``: the size of the level's axis.
    """
    form = level.get("format", "DENSE")
    if form == "DENSE":
        dense_size = int(level.get("dense_size", 0))
        return above * size if dense_size == size else f"has dense size {dense_size}, expected {size}"
    if form != "SPARSE_CSR":
        return f"has the unknown format {form}"
    segments, indices = (level_numbers(level, name) for name in ("array_segments", "array_indices"))
    if segments is None or indices is None:
        return "lacks its segments or its indices"
    if len(segments) != above + 1 or segments[0] != 0 or np.any(segments[1:] < segments[:-1]):
        return f"has {counted(len(segments), 'segment')}, expected {above + 1} ascending ones from 0"
    count = int(segments[-1])
    if count > len(indices):
        return f"has segments that end at {count}, expected at most the number of indices, {len(indices)}"
    if count and not 0 <= int(indices.min()) <= int(indices.max()) < size:
        return f"has indices from {indices.min()} to {indices.max()}, expected 0 <= index < {size}"
    return count


def level_numbers(level: Mapping[str, Any], name: str) -> Array | None:
    """Return the field ``name`` of a compressed level as an int64 vector; None if it is absent."""
    union = level.get(name)  # a table of int32, uint16 or uint8 numbers
    if not isinstance(union, Mapping):
        return None
    return np.asarray(union.get("values", ()), np.int64).reshape(-1)
