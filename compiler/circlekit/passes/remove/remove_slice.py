# SPDX-License-Identifier: Apache-2.0
"""Remove slices and splits that take all elements, padding of width 0, and padding that a slice cuts off."""

from __future__ import annotations

import numpy as np

from circlekit.ir.value import Array, Value
from circlekit.ops.movement.slice import StridedSlice
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
    after = "y = Slice(x, begin2, size2)"

    @condition
    def keeps_no_border(self, match: Match, paddings: Array, begin: Array, size: Array) -> str | None:
        """The slice takes only elements of ``x``."""
        x, y, p = map(match.value, "xyp")
        first = begin - paddings[:, 0]  # the begin and the end of the slice as indices of x
        end = first + resolved(begin, size, p)
        if (first < 0).any() or (end > x.static_shape).any():
            return f"%{y.name}: keeps some of the border of %{p.name}"
        return same_quantization(x, p, y)

    def constants(self, match: Match, paddings: Array, begin: Array, size: Array) -> dict[str, Array]:
        kept = resolved(begin, size, match.value("p"))
        return {"begin2": (begin - paddings[:, 0]).astype(begin.dtype), "size2": kept.astype(size.dtype)}


class _SlicedBack(_Sliced):
    """slice(pad(x))  ==  x, if the slice cuts off the padding and nothing else."""

    after = "x"  # the engine refuses if y and x have different types

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
        # for each axis, the indices of p that the slice takes, and those that x has
        kept = op.axis_ranges(begin.tolist(), end.tolist(), strides.tolist(), p.static_shape)
        expected = [range(b, b + n) for b, n in zip(paddings[:, 0].tolist(), x.static_shape, strict=True)]
        return None if kept == expected else f"%{op.output.name}: does not undo the padding of %{p.name}"


def resolved(begin: Array, size: Array, sliced: Value) -> Array:
    """Return the ``size`` of a slice of ``sliced``, without -1, which means all indices from ``begin`` on."""
    return np.where(size == -1, np.subtract(sliced.static_shape, begin), size)


class RemoveUnnecessaryPad(Rules):
    """Remove padding of no width, and padding that a slice cuts off again."""

    name = "remove_unnecessary_pad"
    rules = (
        *(_NoWidth.member(pad=pad) for pad in PADS),
        *(_SlicedBack.member(pad=pad) for pad in PADS),
        *(_SlicedBackByStrides.member(pad=pad) for pad in PADS[:2]),
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
            if dim is None:
                # exporters write 2**31 - 1 for the end of a dimension that they do not know
                endless = part.end is None or (part.end >= 2**31 - 1 and not op.offset)
                full = part.begin in (None, 0) and part.stride == 1 and endless
            else:  # ``axis_index``: the slice as a Python slice
                full = range(dim)[op.axis_index(part, dim)] == range(dim)
            if not full:
                return f"%{name}: does not take all of axis {axis}"
        return None
