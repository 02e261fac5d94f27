# SPDX-License-Identifier: Apache-2.0
"""Remove slices and splits that take all elements, padding of width 0, and padding that a slice cuts off."""

from __future__ import annotations

import numpy as np

from circlekit.ir.value import Array, Value
from circlekit.ops.movement.slice import AxisSlice, StridedSlice
from circlekit.passes.remove.remove_neutral import Removed
from circlekit.passes.support.conditions import all_equal, same_quantization
from circlekit.rewrite.match import Match
from circlekit.rewrite.rewrite import Rewrite, Rules, condition

PADS = (
    "Pad(x, paddings: const)",
    "PadV2(x, paddings: const, value)",
    "MirrorPad(x, paddings: const)   {mode: any}",
)
"""The operators that pad x.  Row k of ``paddings``: the widths before and after x along axis k."""


class _NoWidth(Removed, call="$pad"):
    """pad(x, 0)  ==  x."""

    @condition
    def no_border(self, match: Match) -> str | None:
        """All widths are 0."""
        paddings = match.value("paddings")
        return all_equal(paddings.array(), 0, paddings.name)


class _Sliced(Rewrite):
    """slice(pad(x))  ==  slice(x), if the slice cuts off all padding."""

    quantized = True
    shared = ("p",)

    before = """
        p = $pad
        y = Slice(p, begin: const, size: const)
    """
    after = "y = Slice(x, begin2, size)"

    @condition
    def keeps_no_border(self, match: Match, paddings: Array, begin: Array, size: Array) -> str | None:
        """The slice takes only elements of ``x``, whatever its unknown dimensions are."""
        x, y, p = map(match.value, "xyp")
        first = begin - paddings[:, 0]  # the begin of the slice as indices of x
        dims = np.array([-1 if dim is None else dim for dim in x.known_shape])
        # without padding at the end, a slice ends in x; the size -1 means all indices from ``begin`` on
        ends_late = (paddings[:, 1] > 0) & ((size == -1) | (first + size > dims))
        if (first < 0).any() or ends_late.any():
            verb = "keeps" if x.is_static else "may keep"
            return f"%{y.name}: {verb} some of the border of %{p.name}"
        return same_quantization(x, p, y)

    def constants(self, paddings: Array, begin: Array) -> dict[str, Array]:
        return {"begin2": (begin - paddings[:, 0]).astype(begin.dtype)}


class _SlicedBack(_Sliced):
    """slice(pad(x))  ==  x, if the slice cuts off the padding and nothing else."""

    after = "x"

    @condition
    def keeps_all_of_x(self, x: Value, y: Value, paddings: Array, begin: Array, size: Array) -> str | None:
        """The slice takes all elements of ``x``."""
        pairs = zip(x.known_shape, size.tolist(), strict=True)
        if (begin == paddings[:, 0]).all() and all(count in (-1, dim) for dim, count in pairs):
            return None
        return f"%{y.name}: takes a part of %{x.name}"

    def constants(self) -> dict[str, Array]:  # type: ignore[override]  # no new constant
        return {}


class _SlicedBackByStrides(Rewrite):
    """pad(x)[b:b + n]  ==  x along each axis, if the padding before x has width b, and x has size n."""

    quantized = True
    shared = ("p",)

    before = """
        p = $pad
        y = StridedSlice(p, begin: const, end: const, strides: const)
            {begin_mask: any, end_mask: any, ellipsis_mask: any, offset: any}
    """
    after = "x"

    @condition
    def keeps_all_of_x(
        self, match: Match, x: Value, paddings: Array, begin: Array, end: Array, strides: Array
    ) -> str | None:
        """The slice takes exactly the elements of ``x``."""
        op, p = match.ops["y"], match.value("p")
        assert isinstance(op, StridedSlice)  # as in the picture
        parts = op.axis_slices(begin.tolist(), end.tolist(), strides.tolist(), x.known_rank)
        for part, dim, pair in zip(parts, x.known_shape, paddings.tolist(), strict=True):
            assert part is not None  # the picture has no new axis
            if not _takes_all(op, part, dim, *pair):
                return f"%{op.output.name}: does not undo the padding of %{p.name}"
        return same_quantization(x, p)


def _takes_all(op: StridedSlice, part: AxisSlice, dim: int | None, before: int = 0, after: int = 0) -> bool:
    """Return whether ``part``, the slice of ``op`` along an axis, takes exactly the indices of x in order.

    ``dim``: the dimension of x.  ``before``, ``after``: the widths of its padding.  For an unknown dimension,
    return True only if this holds whatever the dimension is.
    """
    if dim is None:
        # exporters write 2**31 - 1 for the end of a dimension that they do not know
        is_endless = part.end is None or (part.end >= 2**31 - 1 and not op.offset)
        return part.begin in (None, 0) and part.stride == 1 and is_endless and before == after == 0
    indices = range(before + dim + after)
    return indices[op.axis_index(part, len(indices))] == range(before, before + dim)


class RemoveUnnecessaryPad(Rules):
    """Remove padding of no width, and padding that a slice cuts off again."""

    name = "remove_unnecessary_pad"
    rules = (
        *(_NoWidth.member(pad=pad) for pad in PADS),
        *(_SlicedBack.member(pad=pad) for pad in PADS),
        *(_SlicedBackByStrides.member(pad=pad) for pad in PADS),
        *(_Sliced.member(pad=pad) for pad in PADS),
    )


class RemoveUnnecessarySlice(Removed, call="Slice(x, begin: const, size: const)"):
    """slice(x, 0, all)  ==  x."""

    name = "remove_unnecessary_slice"

    @condition
    def takes_everything(self, x: Value, y: Value, begin: Array, size: Array) -> str | None:
        """The slice takes all elements of ``x``."""
        for axis, (dim, first, count) in enumerate(zip(x.known_shape, begin, size, strict=True)):
            if first != 0 or count not in (-1, dim):
                expected = f"all {dim or 'elements'} of axis {axis}"
                return f"%{y.name}: expected {expected}, got the size {count} from index {first}"
        return None


class RemoveUnnecessarySplit(Rules):
    """split(x) into one part  ==  x, and the same for split_v."""

    name = "remove_unnecessary_split"
    rules = (
        Removed.member(call="Split(axis, x)  {num_splits: 1}"),
        Removed.member(call="SplitV(x, sizes, axis)  {num_splits: 1}"),
    )


class RemoveUnnecessaryStridedSlice(Rewrite):
    """x[:, 0:n, :]  ==  x, also if masks, ``offset`` or negative numbers say that all elements are taken."""

    name = "remove_unnecessary_strided_slice"
    quantized = True

    before = """
        y = StridedSlice(x, begin: const, end: const, strides: const)
            {begin_mask: any, end_mask: any, ellipsis_mask: any, new_axis_mask: any, shrink_axis_mask: any,
             offset: any}
    """
    after = "x"

    @condition
    def takes_everything(self, match: Match, begin: Array, end: Array, strides: Array) -> str | None:
        """The slice takes all elements of ``x`` in order, and neither adds nor removes an axis."""
        op, x = match.ops["y"], match.value("x")
        assert isinstance(op, StridedSlice)  # as in the picture
        slices = op.axis_slices(begin.tolist(), end.tolist(), strides.tolist(), x.known_rank)
        name = op.output.name
        if None in slices:
            return f"%{name}: adds an axis"
        for axis, (part, dim) in enumerate(zip(slices, x.known_shape, strict=True)):
            assert part is not None  # checked above
            if part.shrink:
                return f"%{name}: removes axis {axis}"
            if not _takes_all(op, part, dim):
                return f"%{name}: does not take all of axis {axis}"
        return None
