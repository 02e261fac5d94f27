# SPDX-License-Identifier: Apache-2.0
"""Replace operators and constants by equivalent forms that a runtime or a later tool requires."""

from __future__ import annotations

import numpy as np

from circlekit.ir.enums import WeightsFormat
from circlekit.ir.graph import Graph
from circlekit.ir.value import Array, Value, format_shape
from circlekit.ops.matmul.dense import BLOCK_ROWS, shuffled_16x1
from circlekit.passes.support.linear_producer import per_channel
from circlekit.rewrite.base import MAX_FOLDED_BYTES, Context
from circlekit.rewrite.rewrite import Rewrite, Rules, condition


class DecomposeHardSwish(Rewrite):
    """hard_swish(x)  ==  x * (relu6(x + 3) / 6).

    If this pass is requested together with O1, O1 omits ``fuse_hardswish``, which would undo the rewrite.
    """

    name = "decompose_hardswish"
    has_conditions = False

    before = "z = HardSwish(x: f32)"
    after = """
        a = Add(x, 3.0)
        r = Relu6(a)
        s = Mul(r, 0.16666667)
        z = Mul(x, s)
    """


class _DecomposeSoftmax(Rewrite):
    """softmax(x)  ==  e / sum(e) with e = exp(x - max(x)); sum and max are over the last axis."""

    before = "z = Softmax(x: f32)  {beta: 1.0}"
    after = """
        m = ReduceMax(x, [-1])      {keep_dims: true}
        d = Sub(x, m)
        e = Exp(d)
        s = Sum(e, [-1])            {keep_dims: true}
        z = Div(e, s)
    """


class _DecomposeSoftmaxWithBeta(Rewrite):
    """softmax(x) with another beta than 1  ==  e / sum(e) with e = exp(beta * (x - max(x)))."""

    before = "z = Softmax(x: f32)  {beta: any = beta}"
    after = """
        m = ReduceMax(x, [-1])      {keep_dims: true}
        d = Sub(x, m)
        b = Mul(d, factor)
        e = Exp(b)
        s = Sum(e, [-1])            {keep_dims: true}
        z = Div(e, s)
    """

    def constants(self, beta: float) -> dict[str, Array]:
        return {"factor": np.asarray(beta, np.float32)}


class DecomposeSoftmax(Rules):
    """softmax(x)  ==  e / sum(e) with e = exp(beta * (x - max(x))), without a product if beta is 1."""

    name = "decompose_softmax"
    has_conditions = False
    rules = (_DecomposeSoftmax, _DecomposeSoftmaxWithBeta)


class ReplaceSubWithAdd(Rewrite):
    """x - c  ==  x + (-c)."""

    name = "replace_sub_with_add"

    before = "z = Sub(x, c: const f32)  {act: any = act}"
    after = "z = Add(x, negative)  {act: act}"

    def constants(self, c: Array) -> dict[str, Array]:
        return {"negative": -c}


class ReplaceChannelwiseMulAdd(Rewrite):
    """x * gamma + beta  ==  dwconv(x, gamma, beta) with 1 x 1 filters; gamma, beta: per channel or scalar."""

    name = "replace_cw_mul_add_with_depthwise_conv"

    before = """
        m = Mul(x: f32[_, _, _, C], gamma: const f32[*, C|1])
        z = Add(m, beta: const f32[*, C|1])         {act: NONE|RELU|RELU6|RELU_N1_TO_1 = act}
    """
    after = "z = DepthwiseConv2D(x, w, b)  {padding: SAME, act: act}"

    def constants(self, gamma: Array, beta: Array, C: int) -> dict[str, Array]:
        w = per_channel(gamma, C).reshape(1, 1, 1, C)
        return {"w": w, "b": per_channel(beta, C)}


class _Expand(Rewrite):
    """$operator($old)  ==  $operator($new), where ``full`` is ``c`` broadcast along one axis."""

    before = "z = $operator($old)  {act: any = act}"
    after = "z = $operator($new)  {like z, act: act}"

    @condition
    def one_dimension(self, c: Array, z: Value) -> str | None:
        """``c`` has the rank of ``z``, and is broadcast along exactly one axis."""
        shape = z.static_shape
        if c.ndim != len(shape):
            return f"%{z.name}: expected a constant of rank {len(shape)}, got {c.ndim}"
        broadcast = [axis for axis, (a, b) in enumerate(zip(c.shape, shape, strict=True)) if a != b]
        if len(broadcast) == 1:
            return None
        return f"%{z.name}: expected a constant broadcast along 1 dimension, got {len(broadcast)}"

    @condition
    def small_enough(self, z: Value) -> str | None:
        """``z`` has at most 64 MiB."""
        size = 4 * z.numel  # bytes of f32
        if size <= MAX_FOLDED_BYTES:
            return None
        return f"%{z.name}: expected a result of at most {MAX_FOLDED_BYTES} bytes, got {size}"

    @condition
    def only_the_constant(self, x: Value, z: Value) -> str | None:
        """``x`` has the shape of ``z``, so only ``c`` is broadcast."""
        if x.shape == z.shape:
            return None
        return f"%{x.name}: is broadcast too, from {format_shape(x.shape)} to {format_shape(z.shape)}"

    def constants(self, c: Array, z: Value) -> dict[str, Array]:
        return {"full": np.ascontiguousarray(np.broadcast_to(c, z.static_shape))}


class ExpandBroadcastConst(Rules):
    """Expand a constant operand of ADD, SUB, MUL or DIV to the result's shape if one dimension is broadcast.

    The constant must have the rank of the result.  The other operand must have the shape of the result, which
    must be static.  The result must have at most 64 MiB.
    """

    name = "expand_broadcast_const"
    rules = (
        _Expand.member(operator="Add|Mul|Div|Sub", old="x, c: const f32", new="x, full"),
        _Expand.member(operator="Div|Sub", old="c: const f32, x", new="full, x"),
    )


class ShuffleWeightTo16x1Float32(Rewrite):
    """Store float32 weights of FULLY_CONNECTED in ONE's format SHUFFLED16x1FLOAT32, in blocks of 16 rows.

    The weights must be constant, and their number of rows a multiple of 16.  TFLite models stay unchanged.
    """

    name = "shuffle_weight_to_16x1float32"
    formats = frozenset({"circle"})
    makes_special_forms = True  # only a target that the user names restricts the pass

    before = "y = FullyConnected(x, w: const f32[O, _], b?)"
    after = "y = FullyConnected(x, w2, b)  {like y, weights_format: format}"

    def run_graph(self, graph: Graph, context: Context) -> int:
        # ``formats`` keeps the pass out of pipelines only; a user may ask for it by name
        return context.format in self.formats and super().run_graph(graph, context)

    @condition
    def whole_blocks(self, O: int) -> str | None:
        """The number of rows of ``w`` is a multiple of 16."""
        return f"expected weights with a multiple of {BLOCK_ROWS} rows, got {O}" if O % BLOCK_ROWS else None

    def constants(self, w: Array) -> dict[str, object]:
        return {"w2": shuffled_16x1(w), "format": WeightsFormat.SHUFFLED16x1FLOAT32}
