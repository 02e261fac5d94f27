# SPDX-License-Identifier: Apache-2.0
"""Replace custom operators of TensorFlow and MediaPipe by builtin operators."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from circlekit.ir.dtypes import f32, i32
from circlekit.ir.graph import Graph
from circlekit.ir.op import OpaqueOp
from circlekit.ir.shape_inference import misfit
from circlekit.ir.value import Value, format_shape
from circlekit.ops.dimensions import broadcast_shapes
from circlekit.ops.movement.join import SplitV
from circlekit.ops.program.flexbuffer import options_of
from circlekit.ops.program.mediapipe import transposed_windows
from circlekit.passes.support.insertion import Inserter
from circlekit.rewrite.base import Context, GraphPass
from circlekit.rewrite.match import Match
from circlekit.rewrite.rewrite import Rewrite, Rules, condition


class _Sum(Rewrite):
    """add_v2(x, y)  ==  add(x, y), for dtypes for which all runtimes have ADD."""

    before = 'z = Custom("AddV2", x, y)'
    after = "z = Add(x, y)"

    @condition
    def runs_everywhere(self, x: Value) -> str | None:
        """``x`` is f32 or i32."""
        return None if x.dtype in (f32, i32) else f"%{x.name}: expected f32 or i32, got {x.dtype.short}"


class _BroadcastSum(_Sum):
    """add_v2($sum) with b = $broadcast  ==  add(x, y), if ADD broadcasts x and y to the shape of z.

    For example, add_v2(broadcast_to(x, shape), y)  ==  add(x, y).
    """

    shared = ("b",)

    before = """
        b = $broadcast
        z = Custom("AddV2", $sum)
    """

    @condition
    def is_broadcast_by_add(self, x: Value, y: Value, z: Value) -> str | None:
        """Broadcasting ``x`` and ``y`` gives the shape of ``z``."""
        if broadcast_shapes(x.shape, y.shape) == z.static_shape:
            return None
        return f"%{z.name}: shape {format_shape(z.shape)} may need the BroadcastTo"


class ResolveCustomAdd(Rules):
    """Replace TensorFlow's AddV2 of f32 or i32 by ADD, which broadcasts by itself."""

    name = "resolve_customop_add"
    rules = (
        _BroadcastSum.member(broadcast="BroadcastTo(x, shape)", sum="b, y"),
        _BroadcastSum.member(broadcast="BroadcastTo(y, shape)", sum="x, b"),
        _BroadcastSum.member(broadcast='Custom("BroadcastTo", x, shape)', sum="b, y"),
        _BroadcastSum.member(broadcast='Custom("BroadcastTo", y, shape)', sum="x, b"),
        _Sum,
    )


class ResolveFormerCustomOp(Rewrite):
    """Replace BroadcastTo, a custom operator in old models, by the builtin BROADCAST_TO."""

    name = "resolve_former_customop"

    before = 'z = Custom("BroadcastTo", x, shape)'
    after = "z = BroadcastTo(x, shape)"


class _MatMul(Rewrite):
    """mat_mul(x, y)  ==  fully_connected($operands), for one combination of transpose_a and transpose_b.

    These options of MatMul transpose x and y.  FULLY_CONNECTED computes x @ transpose(weights), so y needs a
    Transpose if transpose_b is false.
    """

    transposed: ClassVar[tuple[bool, bool]]  # (transpose_a, transpose_b)

    before = 'z = Custom("MatMul", x: f32[_, _], y: f32[_, _])'
    after = """
        $transposes
        z = FullyConnected($operands)
    """

    @condition
    def has_these_options(self, match: Match) -> str | None:
        """transpose_a and transpose_b are the combination that this rule replaces."""
        options = options_of(match.ops["z"])
        transposed = tuple(bool(options.get(name)) for name in ("transpose_a", "transpose_b"))
        has_these = transposed == self.transposed
        return None if has_these else f"%{match.value('z').name}: has other transpose options"


TRANSPOSE_X, TRANSPOSE_Y = "t = Transpose(x, [1, 0])", "w = Transpose(y, [1, 0])"


class ResolveCustomMatMul(Rules):
    """Replace TensorFlow's MatMul of f32 by FULLY_CONNECTED, with the Transposes that its options require."""

    name = "resolve_customop_matmul"
    rules = (
        _MatMul.member(transposed=(False, True), transposes="", operands="x, y"),
        _MatMul.member(transposed=(False, False), transposes=TRANSPOSE_Y, operands="x, w"),
        _MatMul.member(transposed=(True, True), transposes=TRANSPOSE_X, operands="t, y"),
        _MatMul.member(transposed=(True, False), transposes=f"{TRANSPOSE_X}\n{TRANSPOSE_Y}", operands="t, w"),
    )


class ResolveCustomTransposeConv(Rewrite):
    """Replace MediaPipe's Convolution2DTransposeBias by TRANSPOSE_CONV, whose version 3 has a bias."""

    name = "resolve_customop_transpose_conv"

    before = """
        z = Custom("Convolution2DTransposeBias", x: f32[_, _, _, I], w: f32[O, _, _, I], b: f32[O])
    """
    after = "z = TransposeConv(shape, w, x, b)  {padding: padding, stride_h: stride_h, stride_w: stride_w}"

    def constants(self, match: Match) -> dict[str, Any]:
        windows = transposed_windows(match.ops["z"])
        stride_h, stride_w = windows.strides
        shape = np.array(windows.result_shape(*(match.value(name).static_shape for name in "xw")), np.int32)
        return {"shape": shape, "padding": windows.padding, "stride_h": stride_h, "stride_w": stride_w}


class ResolveCustomBatchMatMul(Rewrite):
    """batch_mat_mul_v2(x, y)  ==  batch_matmul(x, y), with the same adj_x and adj_y, for f32.

    x and y must have rank 2 or more.
    """

    name = "resolve_customop_batchmatmul"

    before = 'z = Custom("BatchMatMulV2", x: f32, y: f32)'
    after = "z = BatchMatMul(x, y)  {adj_x: adj_x, adj_y: adj_y}"

    @condition
    def have_matrices(self, x: Value, y: Value) -> str | None:
        """``x`` and ``y`` have rank 2 or more."""
        wrong = next((v for v in (x, y) if len(v.shape or ()) < 2), None)
        return None if wrong is None else f"%{wrong.name}: expected rank 2 or more, got {wrong.type}"

    def constants(self, match: Match) -> dict[str, Any]:
        options = options_of(match.ops["z"])  # the message of its ModelError becomes the refusal
        return {name: bool(options.get(name)) for name in ("adj_x", "adj_y")}


class ResolveCustomSplitV(GraphPass):
    """Replace TensorFlow's SplitV by SPLIT_V; the sizes and the axis must be constants and become int32."""

    name = "resolve_customop_splitv"

    def run_graph(self, graph: Graph, context: Context) -> int:
        ops = [op for op in graph.ops if isinstance(op, OpaqueOp) and op.custom_code == "SplitV"]
        return sum(self._resolve(graph, op, context) for op in ops if op.results)

    def _resolve(self, graph: Graph, op: OpaqueOp, context: Context) -> bool:
        """Replace ``op`` if it has no obstacle; return whether it was replaced."""
        value, sizes, axis = op.inputs if len(op.inputs) == 3 else (None, None, None)
        sizes, axis = _as_int32(graph, sizes), _as_int32(graph, axis)
        if value is None or sizes is None or axis is None:
            expected = "data, sizes and axis, the last two as signed integer constants that fit int32"
            sentence = f"%{op.output.name}: expected {expected}"
            context.refuse(self.name, op, sentence)
            return False
        parts = [Value("", v.dtype, v.shape) for v in op.results]
        split = SplitV(value, sizes, axis, results=parts, num_splits=len(parts))
        why = misfit(split)
        if not context.accepts(self.name, op, why and f"%{op.output.name}: {why}"):
            split.drop_inputs()  # it is not used
            return False
        Inserter(graph, op).replace(split)
        return True


def _as_int32(graph: Graph, value: Value | None) -> Value | None:
    """Return ``value`` as an int32 constant; None if it is not a signed integer constant or exceeds int32."""
    if value is None or not value.is_plain or value.is_variable or value.array().dtype.kind != "i":
        return None
    array = value.array()
    limits = np.iinfo(np.int32)
    if array.dtype == np.int32:
        return value
    if array.size and not limits.min <= array.min() <= array.max() <= limits.max:
        return None
    return Value.constant(graph.unique_name(f"{value.name}/S32"), array.astype(np.int32))
