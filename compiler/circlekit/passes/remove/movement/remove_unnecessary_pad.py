# SPDX-License-Identifier: Apache-2.0
"""Borders of no width, and borders that are cut off again.

Over 120 lines because there are three kinds of Pad and two of slices, a picture for each pair.
"""

from __future__ import annotations

import numpy as np

from circlekit.ir.value import Array, Value, format_shape
from circlekit.ops.movement.slice import StridedSlice
from circlekit.passes.support.conditions import all_equal, same_quantization
from circlekit.rewrite.match import Match
from circlekit.rewrite.rewrite import Rewrite, Rules, condition


class NoWidth(Rewrite):
    """pad(x, 0)  ==  x."""

    quantized = True

    before = """
        y = Pad(x, paddings: const)
    """
    after = "x"

    @condition
    def no_border(self, match: Match) -> str | None:
        paddings = match.value("paddings")
        return all_equal(paddings.array(), 0, paddings.name)


class NoWidthV2(NoWidth):
    """pad(x, 0, value)  ==  x."""

    before = """
        y = PadV2(x, paddings: const, value)
    """


class NoMirror(NoWidth):
    """mirror_pad(x, 0)  ==  x."""

    before = """
        y = MirrorPad(x, paddings: const)           {mode: any}
    """


class CutOff(Rewrite):
    """slice(pad(x))  ==  slice(x), where nothing of the border is left."""

    quantized = True
    shared = ("p",)

    before = """
        p = Pad(x, paddings: const)
        y = Slice(p, begin: const, size: const)
    """
    after = """
        y = Slice(x, begin2, size2)
    """

    @condition
    def only_what_was_there(
        self, match: Match, x: Value, paddings: Array, begin: Array, size: Array
    ) -> str | None:
        y, p = match.value("y"), match.value("p")
        if not x.is_static or not p.is_static:
            return f"%{x.name}: has shape {format_shape(x.shape)}, expected a static shape"
        first = begin - paddings[:, 0]
        last = first + resolved(begin, size, p)
        if (first < 0).any() or (last > x.static_shape).any():
            return f"%{y.name}: keeps some of the border of %{p.name}"
        return same_quantization(x, p, y)

    def constants(self, match: Match, paddings: Array, begin: Array, size: Array) -> dict[str, Array]:
        first = begin - paddings[:, 0]
        return {
            "begin2": first.astype(begin.dtype),
            "size2": resolved(begin, size, match.value("p")).astype(size.dtype),
        }


class CutOffV2(CutOff):
    """slice(pad(x, value))  ==  slice(x), likewise."""

    before = """
        p = PadV2(x, paddings: const, value)
        y = Slice(p, begin: const, size: const)
    """


class CutOffMirror(CutOff):
    """slice(mirror_pad(x))  ==  slice(x), likewise."""

    before = """
        p = MirrorPad(x, paddings: const)           {mode: any}
        y = Slice(p, begin: const, size: const)
    """


class CutOffExactly(CutOff):
    """slice(pad(x))  ==  x, where all that was there is left and nothing else."""

    after = "x"

    @condition
    def all_that_was_there(
        self, match: Match, x: Value, paddings: Array, begin: Array, size: Array
    ) -> str | None:
        kept = resolved(begin, size, match.value("p"))
        if (begin != paddings[:, 0]).any() or (kept != x.static_shape).any():
            return f"%{match.value('y').name}: is a part of %{x.name}"
        return None

    def constants(self) -> dict[str, Array]:  # type: ignore[override]  # nothing is made
        return {}


class CutOffExactlyV2(CutOffExactly):
    """slice(pad(x, value))  ==  x, likewise."""

    before = CutOffV2.before


class CutOffExactlyMirror(CutOffExactly):
    """slice(mirror_pad(x))  ==  x, likewise."""

    before = CutOffMirror.before


class CutOffByStrides(Rewrite):
    """pad(x)[before:before + n]  ==  x."""

    quantized = True
    shared = ("p",)

    before = """
        p = Pad(x, paddings: const)
        y = StridedSlice(p, begin: const, end: const, strides: const)
            {begin_mask: any, end_mask: any, ellipsis_mask: any, offset: any}
    """
    after = "x"

    @condition
    def all_that_was_there(
        self, match: Match, x: Value, paddings: Array, begin: Array, end: Array, strides: Array
    ) -> str | None:
        op, p = match.ops["y"], match.value("p")
        if not x.is_static or not p.is_static:
            return f"%{x.name}: has shape {format_shape(x.shape)}, expected a static shape"
        assert isinstance(op, StridedSlice)  # the picture says so
        slices = op.axis_slices(begin.tolist(), end.tolist(), strides.tolist(), len(p.static_shape))
        ranges = [op.index_range(part, dim) for part, dim in zip(slices, p.static_shape, strict=True) if part]
        kept = [(r.start, r.stop, r.step) for r in ranges]
        wanted = [(a, a + d, 1) for a, d in zip(paddings[:, 0].tolist(), x.static_shape, strict=True)]
        return None if kept == wanted else f"%{op.output.name}: does not undo the border of %{p.name}"


class CutOffByStridesV2(CutOffByStrides):
    """pad(x, value)[before:before + n]  ==  x."""

    before = CutOffByStrides.before.replace("Pad(x, paddings: const)", "PadV2(x, paddings: const, value)")


def resolved(begin: Array, size: Array, of: Value) -> Array:
    """``size`` of a slice of ``of``, with -1 replaced by what there is from ``begin`` on."""
    left = [dim - b for dim, b in zip(of.static_shape, begin.tolist(), strict=True)]
    return np.where(size == -1, left, size)


class RemoveUnnecessaryPad(Rules):
    """Borders of no width, and borders of which a slice leaves nothing."""

    name = "remove_unnecessary_pad"
    rules = (
        NoWidth, NoWidthV2, NoMirror, CutOffExactly, CutOffExactlyV2, CutOffExactlyMirror, CutOffByStrides,
        CutOffByStridesV2, CutOff, CutOffV2, CutOffMirror,
    )  # fmt: skip
