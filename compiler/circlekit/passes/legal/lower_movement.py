# SPDX-License-Identifier: Apache-2.0
"""Lower SPLIT_V to SLICE; lower MIRROR_PAD, GATHER_ND and RESIZE_NEAREST_NEIGHBOR to GATHER.

A Replacement replaces the operators of its ``kinds`` that the format, a runtime or its delegate refuses.  Its
``results`` returns None to leave an operator as it is, for example one with an unknown shape or index, or a
MIRROR_PAD that pads nothing: it needs no GATHER.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from circlekit.ir.value import Array, Value
from circlekit.ops.constant_operands import static_int_vector
from circlekit.ops.movement.gather import Gather, GatherNd
from circlekit.ops.movement.join import SplitV
from circlekit.ops.movement.pad import MirrorPad
from circlekit.ops.movement.resize_images import ResizeNearestNeighbor
from circlekit.ops.movement.slice import Slice
from circlekit.passes.engine.legalize import Replacement
from circlekit.passes.support.insertion import Inserter


class SplitVToSlices(Replacement[SplitV]):
    """split_v(x)  ==  a slice of x for each part."""

    # replaced for this runtime even if its table accepts the operator: onert returns wrong parts
    targets = frozenset({"onert"})
    kinds = (SplitV,)

    def results(self, op: SplitV, insert: Inserter) -> list[Value] | None:
        axes = static_int_vector(op.split_dim)
        if axes is None or not all(value.is_static for value in (op.value, *op.results)):
            return None
        axis = axes[0] % len(op.value.static_shape)
        parts, begin = [], 0
        for result in op.results:
            first = np.zeros(len(result.static_shape), np.int32)
            first[axis] = begin
            size = np.array(result.static_shape, np.int32)
            parts.append(
                insert.make(Slice(op.value, insert.constant("begin", first), insert.constant("size", size)))
            )
            begin += result.static_shape[axis]
        return parts


class GatherNdToGather(Replacement[GatherNd]):
    """gather_nd(x, indices)  ==  gather(reshape(x), flat indices), for constant indices.

    The last axis of ``indices`` has one index for each of the first axes of x.  The reshape merges these axes
    into one, and a flat index is the position along it.  The operator stays if an index is outside of x, or
    if ``indices`` has no index at all, because its last axis has size 0.
    """

    kinds = (GatherNd,)

    def results(self, op: GatherNd, insert: Inserter) -> list[Value] | None:
        if not (op.params.is_static and op.indices.is_plain and op.indices.static_shape[-1]):
            return None
        shape, indices = op.params.static_shape, op.indices.array()
        count = indices.shape[-1]
        if (indices < 0).any() or (indices >= shape[:count]).any():
            return None
        flat = np.ravel_multi_index(tuple(np.moveaxis(indices, -1, 0)), shape[:count]).astype(np.int32)
        rows = insert.reshaped(op.params, (math.prod(shape[:count]), *shape[count:]))
        return [insert.make(Gather(rows, insert.constant("indices", np.asarray(flat))))]


class ResizeNearestToGathers(Replacement[ResizeNearestNeighbor]):
    """resize_nearest(x)  ==  gather of the nearest rows, then of the nearest columns."""

    kinds = (ResizeNearestNeighbor,)

    def results(self, op: ResizeNearestNeighbor, insert: Inserter) -> list[Value] | None:
        if not (op.input.is_static and op.output.is_static):
            return None
        sizes = [(axis, op.input.static_shape[axis], op.output.static_shape[axis]) for axis in (1, 2)]
        return _gathered(op.input, {axis: op.nearest(size, out) for axis, size, out in sizes}, insert)


class MirrorPadToGathers(Replacement[MirrorPad]):
    """mirror_pad(x)  ==  a gather of the mirrored indices for each padded axis."""

    kinds = (MirrorPad,)

    def results(self, op: MirrorPad, insert: Inserter) -> list[Value] | None:
        if not (op.input.is_static and op.paddings.is_plain):
            return None
        paddings = op.paddings.array().reshape(-1, 2)
        shape = op.input.static_shape
        padded = {axis: pair for axis, pair in enumerate(paddings.tolist()) if any(pair)}
        # the kernel, applied to the indices of an axis, gives the index of each element of the result
        mirrored = {a: op.kernel(np.arange(shape[a]), np.array([pair])) for a, pair in padded.items()}
        return _gathered(op.input, mirrored, insert)


def _gathered(value: Value, indices: Mapping[int, Array], insert: Inserter) -> list[Value] | None:
    """Insert a GATHER along each axis in ``indices``, and return the result of the last one.

    ``indices``: for an axis, the indices to take along it.  Indices that leave the axis unchanged need no
    GATHER.  Return None if no axis needs a GATHER.
    """
    data = value
    for axis, numbers in indices.items():
        if numbers.tolist() != list(range(value.static_shape[axis])):
            constant = insert.constant("indices", numbers.astype(np.int32))
            data = insert.make(Gather(data, constant, axis=axis))
    return None if data is value else [data]
