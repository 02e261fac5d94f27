# SPDX-License-Identifier: Apache-2.0
"""Infer which values of rank 4 have channels last from the operators around them."""

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
"""The sides of a transpose by TO_NHWC: it leads from NCHW to NHWC."""

CHANNELS_LAST = frozenset(
    {
        "AVERAGE_POOL_2D", "BATCH_TO_SPACE_ND", "CONV_2D", "DEPTHWISE_CONV_2D", "DEPTH_TO_SPACE",
        "INSTANCE_NORM", "L2_POOL_2D", "LOCAL_RESPONSE_NORMALIZATION", "MAX_POOL_2D", "RESIZE_BILINEAR",
        "RESIZE_NEAREST_NEIGHBOR", "SPACE_TO_BATCH_ND", "SPACE_TO_DEPTH", "TRANSPOSE_CONV",
    }
)  # fmt: skip
"""Operators whose data of rank 4 is NHWC by definition."""


def nhwc_regions(graph: Graph) -> tuple[Finder, list[Region]]:
    """Return all regions of ``graph``, and the finder that knows the side of every value.

    The sides of transposes follow from their permutation.  What is connected to a convolution or another
    operator of CHANNELS_LAST is NHWC.  Everything else is assumed to be NCHW.
    """
    finder = Finder(graph, TO_NHWC)
    transposes = [op for op in graph if isinstance(op, Transpose) and constant_perm(op) in finder.perms]
    found = list(finder.regions(transposes))
    found += _regions_of(finder, NHWC, _data(graph, is_known=True))
    found += _regions_of(finder, NCHW, _data(graph, is_known=False))
    return finder, found


def _regions_of(finder: Finder, side: int, values: Iterator[Value]) -> Iterator[Region]:
    for value in values:
        if value not in finder.sides and finder.has_side(value):
            yield finder.region(value, side)


def _data(graph: Graph, is_known: bool) -> Iterator[Value]:
    """Yield the data of operators of CHANNELS_LAST (``is_known``), or of all operators."""
    yield from () if is_known else graph.inputs
    for op in graph:
        if not is_known:
            yield from op.results
        elif op.code in CHANNELS_LAST:
            yield from (v for v in (*op.inputs, *op.results) if v is not None and not _is_weight(op, v))


def _is_weight(op: Op, value: Value) -> bool:
    """Return whether ``value`` is the filter of ``op``, which has a layout of its own."""
    return value is getattr(op, "filter", None)
