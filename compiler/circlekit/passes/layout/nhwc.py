# SPDX-License-Identifier: Apache-2.0
"""Which values of rank 4 have their channels last, told by the operators around them."""

from __future__ import annotations

from collections.abc import Iterator

from circlekit.ir.graph import Graph
from circlekit.ir.op import Op
from circlekit.ir.value import Value
from circlekit.ops.movement.shape import Transpose
from circlekit.passes.layout.axes import Perm
from circlekit.passes.layout.region import Finder, Region, constant_perm

TO_NHWC: Perm = (0, 2, 3, 1)
TO_NCHW: Perm = (0, 3, 1, 2)

NCHW, NHWC = 0, 1
"""The sides that a transpose by TO_NHWC leads from, and to."""

CHANNELS_LAST = frozenset(
    {
        "AVERAGE_POOL_2D", "BATCH_TO_SPACE_ND", "CONV_2D", "DEPTHWISE_CONV_2D", "DEPTH_TO_SPACE",
        "INSTANCE_NORM", "L2_POOL_2D", "LOCAL_RESPONSE_NORMALIZATION", "MAX_POOL_2D", "RESIZE_BILINEAR",
        "RESIZE_NEAREST_NEIGHBOR", "SPACE_TO_BATCH_ND", "SPACE_TO_DEPTH", "TRANSPOSE_CONV",
    }
)  # fmt: skip
"""Operators whose data of rank 4 is NHWC by definition."""


def nhwc_regions(graph: Graph) -> tuple[Finder, list[Region]]:
    """All regions of ``graph``, every value with the side that it is on today.

    The sides of transposes follow from their permutation, what is connected with a convolution or the like
    is NHWC, and all else, without any transpose or convolution to tell, is taken for NCHW.
    """
    finder = Finder(graph, TO_NHWC)
    transposes = [op for op in graph if isinstance(op, Transpose) and constant_perm(op) in finder.perms]
    found = list(finder.regions(transposes))
    found += _regions_of(finder, NHWC, _data(graph, told=True))
    found += _regions_of(finder, NCHW, _data(graph, told=False))
    return finder, found


def _regions_of(finder: Finder, side: int, values: Iterator[Value]) -> Iterator[Region]:
    for value in values:
        if value not in finder.sides and finder.is_member(value):
            yield finder.region(value, side)


def _data(graph: Graph, told: bool) -> Iterator[Value]:
    """The values around operators that tell their layout, or around all."""
    yield from () if told else graph.inputs
    for op in graph:
        if not told:
            yield from op.results
        elif op.code in CHANNELS_LAST:
            yield from (v for v in (*op.inputs, *op.results) if v is not None and not _is_weight(op, v))


def _is_weight(op: Op, value: Value) -> bool:
    """Whether ``value`` is a filter: of rank 4, but no data."""
    return value is getattr(op, "filter", None)
