# SPDX-License-Identifier: Apache-2.0
"""Replace operators by RESHAPE, PAD or SPLIT where these do the same: more runtimes have these three."""

from __future__ import annotations

import numpy as np

from circlekit.ir.enums import Padding
from circlekit.ir.graph import Graph
from circlekit.ir.op import Op
from circlekit.ir.shape_inference import fits
from circlekit.ir.text.lines import short_op
from circlekit.ir.value import Array, Value, format_shape
from circlekit.ops.constant_operands import static_int_vector
from circlekit.ops.convolution.pool import MaxPool2D
from circlekit.ops.movement.join import Split, SplitV
from circlekit.ops.movement.shape import checked_perm
from circlekit.ops.movement.slice import StridedSlice
from circlekit.passes.support.axes import constant_perm
from circlekit.passes.support.conditions import determined_shape, is_never_negative, same_quantization
from circlekit.passes.support.insertion import Inserter
from circlekit.rewrite.base import Context, GraphPass
from circlekit.rewrite.match import Match
from circlekit.rewrite.rewrite import Rewrite, condition


class _ToReshape(Rewrite):
    """$call  ==  reshape(x, the shape of the result).

    ``$call``: an operator that keeps the elements of x in their order.  ``$attributes``: the attributes of
    the operator that may have any value.  ``quantized``: x and z may be quantized.
    """

    quantized = True

    before = "z = $call  $attributes"
    after = "z = Reshape(x, shape)"

    @condition
    def has_one_shape(self, z: Value) -> str | None:
        """At most one dimension of ``z`` is unknown, and then no other one is 0."""
        return determined_shape(z)

    @condition
    def keeps_the_scale(self, x: Value, z: Value) -> str | None:
        """``x`` and ``z`` have the same quantization parameters."""
        return same_quantization(x, z)

    def constants(self, z: Value) -> dict[str, Array]:
        return {"shape": np.asarray([-1 if d is None else d for d in z.known_shape], np.int32)}


class SubstituteSqueezeToReshape(_ToReshape, call="Squeeze(x)", attributes="{squeeze_dims: any}"):
    """squeeze(x)  ==  reshape(x, the shape without the squeezed dimensions)."""

    name = "substitute_squeeze_to_reshape"


class SubstituteExpandDimsToReshape(_ToReshape, call="ExpandDims(x, axis: const)", attributes=""):
    """expand_dims(x, axis)  ==  reshape(x, the shape with a 1 at the axis)."""

    name = "substitute_expand_dims_to_reshape"


class SubstitutePackToReshape(_ToReshape, call="Pack(x)", attributes="{values_count: any, axis: any}"):
    """pack([x])  ==  reshape(x, the shape with a 1 at the axis)."""

    name = "substitute_pack_to_reshape"


class SubstituteGatherNdToGather(Rewrite):
    """gather_nd(x, indices [..., 1])  ==  gather(x, indices [...], axis 0), whose axis can be permuted.

    litert-torch writes the upsampling of sequences with GATHER_ND.
    """

    name = "substitute_gathernd_to_gather"
    quantized = True

    before = "z = GatherNd(x, indices: const)"
    after = "z = Gather(x, rows)"

    @condition
    def takes_rows(self, x: Value, z: Value, indices: Array) -> str | None:
        """Each index is the number of one row of ``x``, from 0 to the known number of rows minus 1."""
        rows = None if not x.shape else x.shape[0]
        if indices.shape[-1:] != (1,) or rows is None:
            return (
                f"%{z.name}: expected indices of the rows of %{x.name}, {x.type}, got {list(indices.shape)}"
            )
        if ((indices < 0) | (indices >= rows)).any():
            return f"%{z.name}: expected indices from 0 to {rows - 1}, the rows of %{x.name}"
        return same_quantization(x, z)

    def constants(self, indices: Array) -> dict[str, Array]:
        return {"rows": indices[..., 0].astype(np.int32)}


class SubstituteStridedSliceToReshape(
    _ToReshape,
    call="StridedSlice(x, begin: const, end: const, strides: const)",
    attributes="{begin_mask: any, end_mask: any, ellipsis_mask: any, new_axis_mask: any,\n"
    "             shrink_axis_mask: any, offset: any}",
):
    """strided_slice(x) of all elements  ==  reshape(x, the shape of the result)."""

    name = "substitute_strided_slice_to_reshape"

    @condition
    def keeps_everything_in_order(
        self, match: Match, x: Value, z: Value, begin: Array, end: Array, strides: Array
    ) -> str | None:
        """The slice takes all elements of ``x``, and reverses no axis."""
        if x.numel != z.numel:
            return f"%{z.name}: expected all elements of %{x.name}, {x.type}, got {z.type}"
        op = match.ops["z"]
        assert isinstance(op, StridedSlice)  # as in the picture
        slices = op.axis_slices(begin.tolist(), end.tolist(), strides.tolist(), x.known_rank)
        axes = zip((part for part in slices if part is not None), x.static_shape, strict=True)
        if any(part.stride < 0 and dim > 1 for part, dim in axes):
            return f"%{z.name}: reverses an axis"
        return None


class SubstituteTransposeToReshape(_ToReshape, call="Transpose(x, perm: const)", attributes=""):
    """transpose(x, perm)  ==  reshape(x, the permuted shape), if dimensions other than 1 keep their order."""

    name = "substitute_transpose_to_reshape"

    @condition
    def moves_only_dimensions_of_1(self, x: Value, z: Value, perm: Array) -> str | None:
        """Dimensions other than 1 keep their order."""
        kept = [a for a in checked_perm(perm.tolist(), x.known_rank) if x.known_shape[a] != 1]
        if kept != sorted(kept):
            return f"%{z.name}: perm {perm.tolist()} changes the order of dimensions of %{x.name}, {x.type}"
        return None


class SubstitutePadV2ToPad(Rewrite):
    """max_pool(padv2(x, c))  ==  max_pool(pad(x)), if x >= 0 >= c and every window contains elements of x.

    PADV2 pads with c, PAD with 0.  Neither number exceeds an element of x, so the maximum of a window is an
    element of x.  Transposes may stand before and after the PADV2.
    """

    name = "substitute_padv2_to_pad"

    before = "y = PadV2(x: f32[_, _, _, _], paddings: const, c: const f32[*, 1])"
    after = "y = Pad(x, paddings)"

    @condition
    def nothing_is_negative(self, match: Match, x: Value, c: Array) -> str | None:
        """``c`` is 0 or less, and ``x`` comes from an operator that returns 0 or more."""
        if not c.max() <= 0:  # true for NaN, too
            return f"%{match.value('c').name}: expected 0 or less, got {c.max():g}"
        if is_never_negative(x):
            return None
        return f"%{x.name}: may be negative, so a padding of 0 may exceed it"

    @condition
    def windows_reach_x(self, y: Value, paddings: Array) -> str | None:
        """Only max pools read ``y``, perhaps transposed, and all their windows have elements of ``x``."""
        return _reader_obstacle(y, [tuple(pair) for pair in paddings.tolist()])


def _reader_obstacle(value: Value, edges: list[tuple[int, ...]]) -> str | None:
    """Return why the rewrite may change results of users of ``value``; None if it changes none.

    ``value``: the result of the PADV2.  ``edges``: the padding (before, after) of each axis of ``value``.
    """
    graph = None if value.producer is None else value.producer.graph
    todo = [(value, edges)]
    while todo:
        value, edges = todo.pop()
        if graph is not None and graph.is_output(value):
            return f"%{value.name}: is an output of the graph"
        for user in value.users:
            if (perm := constant_perm(user)) is not None:
                todo.append((user.output, [edges[a] for a in perm]))
            elif (sentence := _pool_obstacle(user, value, edges)) is not None:
                return sentence
    return None


def _pool_obstacle(user: Op, value: Value, edges: list[tuple[int, ...]]) -> str | None:
    """Refuse unless ``user`` is a max pool whose windows all contain elements that are not padding.

    ``value``: the result of the PADV2, perhaps transposed.  ``edges``: the padding of each of its axes.
    Along each axis, the padding at either end must be shorter than the window.  If the operand of the PADV2
    may be empty, the padding at both ends together must be shorter.  Along the axes 0 and 3, a window has
    size 1.
    """
    if not isinstance(user, MaxPool2D):
        return f"%{value.name}: is read by {short_op(user)}, expected MaxPool2D"
    if user.padding is not Padding.VALID:
        return f"%{user.output.name}: padding is {user.padding.name}, expected VALID"
    for axis, size in ((0, 1), (1, user.filter_height), (2, user.filter_width), (3, 1)):
        dim = None if value.shape is None else value.shape[axis]
        has_elements = dim is not None and dim > sum(edges[axis])
        padding = max(edges[axis]) if has_elements else sum(edges[axis])
        if padding >= size:
            return f"%{value.name}: windows of %{user.output.name} may be inside the padding of axis {axis}"
    return None


class SubstituteSplitVToSplit(GraphPass):
    """split_v(x, [n, n, ...])  ==  split(x)."""

    name = "substitute_splitv_to_split"

    def run_graph(self, graph: Graph, context: Context) -> int:
        splits = [op for op in graph.ops if isinstance(op, SplitV)]
        replaced = [op for op in splits if context.accepts(self.name, op, _size_refusal(op))]
        for op in replaced:
            Inserter(graph, op).replace(Split(op.split_dim, op.value, num_splits=len(op.results)))
        return len(replaced)


def _size_refusal(op: SplitV) -> str | None:
    """Refuse unless all parts have the same known size along the axis that is split."""
    axis = static_int_vector(op.split_dim) if fits(op) else None
    sizes = [v.shape[axis[0]] if axis and v.shape else None for v in op.results]
    if None not in sizes and len({*sizes}) == 1:
        return None
    return f"%{op.output.name}: expected parts of equal size, got the sizes {format_shape(tuple(sizes))}"
