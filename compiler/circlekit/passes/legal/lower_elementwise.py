# SPDX-License-Identifier: Apache-2.0
"""Lower elementwise operators, reductions and a few others to operators that more runtimes have.

A Lowering replaces the picture ``before`` by ``after`` if the format, a runtime or the delegate of a runtime
refuses the last operator of ``before``.  The format and the runtimes must take ``after``, or what replaces
its operators in turn.  If only the delegate refuses operators of ``before``, two more conditions must hold:
the delegate takes ``after``, and the model has no more partitions than before.  A partition is a part of the
graph that the delegate runs at once.

An infinite result may differ: operators that can fuse an activation, such as MUL, clamp it to the largest
finite number, and so does POW with a whole exponent above 1.  Other operators do not.  The sign of a zero
may differ, too.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from circlekit.ir.value import Array, Value
from circlekit.passes.engine.legalize import Lowering
from circlekit.passes.replace.forms_for_runtimes import DecomposeHardSwish
from circlekit.rewrite.rewrite import condition

LEAST_SOFTPLUS_THRESHOLD = 17
"""For x from this number on, log(exp(x) + 1) is x in float32."""

LARGEST_SOFTPLUS_THRESHOLD = 88
"""For x up to this number, exp(x) is finite in float32."""


class LowerHardSwish(Lowering):
    """hard_swish(x)  ==  x * (relu6(x + 3) / 6)."""

    before = DecomposeHardSwish.before
    after = DecomposeHardSwish.after


class LowerReluN1To1(Lowering):
    """relu_n1_to_1(x)  ==  min(max(x, -1), 1), for x other than NaN."""

    before = "y = ReluN1To1(x: f32)"
    after = "m = Maximum(x, -1.0)  y = Minimum(m, 1.0)"


class LowerRelu0To1(Lowering):
    """relu_0_to_1(x)  ==  min(relu(x), 1), for x other than NaN."""

    before = "y = Relu0To1(x: f32)"
    after = "m = Relu(x)  y = Minimum(m, 1.0)"


class LowerPRelu(Lowering):
    """prelu(x, alpha)  ==  relu(x) + alpha * min(x, 0), for finite alpha."""

    before = "y = PRelu(x: f32, alpha)"
    after = """
        p = Relu(x)
        n = Minimum(x, 0.0)
        a = Mul(n, alpha)
        y = Add(p, a)
    """


class LowerCeil(Lowering):
    """ceil(x)  ==  -floor(-x)."""

    before = "y = Ceil(x)"
    after = "n = Neg(x)  f = Floor(n)  y = Neg(f)"


class LowerSquare(Lowering):
    """pow(x, 2)  ==  square(x)."""

    before = "y = Pow(x: f32, 2.0)"
    after = "y = Square(x)"


class LowerCube(Lowering):
    """pow(x, 3)  ==  x * x * x."""

    before = "y = Pow(x: f32, 3.0)"
    after = "s = Square(x)  y = Mul(s, x)"


class LowerSquareRoot(Lowering):
    """pow(x, 1/2)  ==  sqrt(x), for x above -inf (pow: inf, sqrt: NaN)."""

    before = "y = Pow(x: f32, 0.5)"
    after = "y = Sqrt(x)"


class LowerReciprocalSquareRoot(Lowering):
    """pow(v + e, -1/2)  ==  rsqrt(v + e), for a constant e other than 0 and v above -inf.

    The two differ for -0 and for -inf (pow: 0, rsqrt: NaN).  If e is not 0, v + e is never -0.
    """

    before = """
        a = Add(v: f32, e: const f32[*, 1])
        y = Pow(a, -0.5)
    """
    after = "b = Add(v, e)  y = Rsqrt(b)"

    @condition
    def is_not_zero(self, e: Array) -> str | None:
        return None if e.all() else "expected a constant other than 0 as addend"


class LowerFlatLeakyRelu(Lowering):
    """leaky_relu(x)  ==  relu(x), for a slope of 0 and x above -inf."""

    before = "y = LeakyRelu(x: f32)    {alpha: 0.0}"
    after = "y = Relu(x)"


class LowerLeakySelect(Lowering):
    """select(x > 0, x, slope * x)  ==  leaky_relu(x)."""

    before = """
        g = Greater|GreaterEqual(x: f32, 0.0)
        m = Mul(x, slope: const f32[*, 1])
        y = SelectV2|Select(g, x, m)
    """
    after = "y = LeakyRelu(x)  {alpha: alpha}"

    def constants(self, slope: Array) -> dict[str, Any]:
        return {"alpha": float(slope.reshape(-1)[0])}


class LowerFloorDiv(Lowering):
    """floor_div(x, d)  ==  floor(x / d).

    The two differ by 1 where float32 rounds the quotient x / d up to a whole number.
    """

    before = "y = FloorDiv(x: f32, d)"
    after = "q = Div(x, d)  y = Floor(q)"


class LowerSign(Lowering):
    """sign(x)  ==  (x > 0) - (x < 0), for x other than NaN."""

    before = "y = Sign(x: f32)"
    after = """
        p = Greater(x, 0.0)
        n = Less(x, 0.0)
        a = Cast(p)         {in_data_type: bool, out_data_type: f32}
        b = Cast(n)         {in_data_type: bool, out_data_type: f32}
        y = Sub(a, b)
    """


class LowerIntegerMaximum(Lowering):
    """max(x, z)  ==  x + z - min(x, z), for i32.

    The equation also holds if the sum overflows, because sum and difference wrap around.
    """

    before = "y = Maximum(x: i32, z)"
    after = "s = Add(x, z)  m = Minimum(x, z)  y = Sub(s, m)"


class LowerSquaredDifference(Lowering):
    """squared_difference(x, z)  ==  (x - z) * (x - z)."""

    before = "y = SquaredDifference(x: f32, z)"
    after = "d = Sub(x, z)  y = Mul(d, d)"


class LowerSoftplus(Lowering):
    """select(x > t, x, log(exp(x) + 1))  ==  max(x, log(exp(min(x, t)) + 1)), for t from 17 to 88.

    x must not be NaN.  For x up to t, the logarithm is at least x, so the maximum is the logarithm.  For x
    above t, min(x, t) is t, and in float32 log(exp(t) + 1) is t, so the maximum is x.
    """

    before = """
        e = Exp(x: f32)
        a = Add(e, 1.0)
        l = Log(a)
        g = Greater(x, t: const f32[*, 1])
        y = SelectV2|Select(g, x, l)
    """
    after = """
        n = Minimum(x, t)
        p = Exp(n)
        q = Add(p, 1.0)
        r = Log(q)
        y = Maximum(x, r)
    """

    @condition
    def threshold_is_in_range(self, t: Array) -> str | None:
        threshold, least, largest = t.item(), LEAST_SOFTPLUS_THRESHOLD, LARGEST_SOFTPLUS_THRESHOLD
        if least <= threshold <= largest:
            return None
        return f"expected a threshold from {least} to {largest}, got {threshold:g}"


class LowerReduceMin(Lowering):
    """reduce_min(x)  ==  -reduce_max(-x)."""

    before = "y = ReduceMin(x: f32, axes)    {keep_dims: any = keep_dims}"
    after = "n = Neg(x)  m = ReduceMax(n, axes) {keep_dims: keep_dims}  y = Neg(m)"


class LowerReduceMinThenReshape(Lowering):
    """reduce_min(x)  ==  reshape(-reduce_max(-x)), for runtimes that have REDUCE_MAX only with keep_dims."""

    before = "y = ReduceMin(x: f32, axes)"
    after = """
        n = Neg(x)
        m = ReduceMax(n, axes)      {keep_dims: true}
        k = Neg(m)
        y = Reshape(k, shape)       {new_shape: new_shape}
    """

    @condition
    def has_a_known_shape(self, y: Value) -> str | None:
        return None if y.is_static else f"%{y.name}: expected a known shape, got {y.type}"

    def constants(self, y: Value) -> dict[str, Any]:
        return {"shape": np.array(y.static_shape, np.int32), "new_shape": y.static_shape}


class LowerL2Pool(Lowering):
    """l2_pool(x)  ==  sqrt(average_pool(x * x))."""

    before = """
        y = L2Pool2D(x: f32) {padding: any = padding, stride_h: any = stride_h, stride_w: any = stride_w,
                              filter_height: any = rows, filter_width: any = columns}
    """
    after = """
        q = Mul(x, x)
        a = AveragePool2D(q) {padding: padding, stride_h: stride_h, stride_w: stride_w,
                              filter_height: rows, filter_width: columns}
        y = Sqrt(a)
    """


class LowerLocalResponseNormalization(Lowering):
    """local_response_normalization(x)  ==  x * (bias + alpha * sum(x * x)) ** -beta, for finite x * x.

    The sum for a channel is over the channels at most ``radius`` away.  A 1x1 convolution of x * x computes
    bias + alpha * sum: its filter ``window`` has alpha where two channels are that near, and 0 elsewhere.
    """

    before = """
        y = LocalResponseNormalization(x: f32[_, _, _, C])
            {radius: any = radius, bias: any = bias, alpha: any = alpha, beta: any = beta}
    """
    after = """
        q = Mul(x, x)
        t = Conv2D(q, window, offset)     {padding: VALID}
        p = Pow(t, exponent)
        y = Mul(x, p)
    """

    def constants(self, C: int, radius: int, bias: float, alpha: float, beta: float) -> dict[str, Array]:
        channels = np.arange(C)
        near = np.abs(channels[:, None] - channels) <= radius
        return {
            "window": np.asarray(near * alpha, np.float32)[:, None, None, :],
            "offset": np.full(C, bias, np.float32),
            "exponent": np.asarray(-beta, np.float32),
        }


class LowerFloorMod(Lowering):
    """floor_mod(x, d)  ==  x - floor_div(x, d) * d, for integers: floats would be rounded differently."""

    before = "y = FloorMod(x, d)"
    after = "q = FloorDiv(x, d)  m = Mul(q, d)  y = Sub(x, m)"

    @condition
    def is_integer(self, x: Value) -> str | None:
        return None if x.dtype.is_integer else f"%{x.name}: expected integers, got {x.type}"


class LowerEmbeddingLookup(Lowering):
    """embedding_lookup(i, table)  ==  gather(table, i) along axis 0."""

    quantized = True  # also for quantized values: the result has the scale of the table

    before = "y = EmbeddingLookup(i, table)"
    after = "y = Gather(table, i)"
