# SPDX-License-Identifier: Apache-2.0
"""Remove strided slices of everything."""

from __future__ import annotations

from circlekit.ir.value import Array, Value
from circlekit.ops.movement.slice import AxisSlice, StridedSlice
from circlekit.rewrite.match import Match
from circlekit.rewrite.rewrite import Rewrite, condition

ENDLESS = 2**31 - 1
"""End index that exporters write for "to the end" of a dimension that they do not know."""


class RemoveUnnecessaryStridedSlice(Rewrite):
    """x[:, 0:n, :]  ==  x, with all masks, offsets and negative ends."""

    name = "remove_unnecessary_strided_slice"
    quantized = True

    before = """
        y = StridedSlice(x, begin: const, end: const, strides: const)
            {begin_mask: any, end_mask: any, ellipsis_mask: any, new_axis_mask: any, shrink_axis_mask: any,
             offset: any}
    """
    after = "x"

    @condition
    def takes_everything(
        self, match: Match, x: Value, begin: Array, end: Array, strides: Array
    ) -> str | None:
        op = match.ops["y"]
        assert isinstance(op, StridedSlice)  # as in the picture
        if x.shape is None:
            return f"%{x.name}: expected a known rank"
        slices = op.axis_slices(begin.tolist(), end.tolist(), strides.tolist(), len(x.shape))
        name = op.output.name
        if None in slices:
            return f"%{name}: adds an axis"
        for axis, (part, dim) in enumerate(zip(slices, x.shape, strict=True)):
            assert part is not None  # checked above
            if part.shrink:
                return f"%{name}: removes axis {axis}"
            if not _is_full(op, part, dim):
                return f"%{name}: does not take all of axis {axis}"
        return None


def _is_full(op: StridedSlice, part: AxisSlice, dim: int | None) -> bool:
    if dim is not None:
        return part.stride == 1 and op.index_range(part, dim) == range(dim)
    endless = part.end is None or (part.end >= ENDLESS and not op.offset)
    return part.begin in (None, 0) and part.stride == 1 and endless
