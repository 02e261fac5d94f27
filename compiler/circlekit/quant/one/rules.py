# SPDX-License-Identifier: Apache-2.0
"""The rules of ONE's quantizer for each operator class.

The rules do not mention weights and biases: an operator's own ``quantization_rule`` says which operands are
weights and biases.
Source: the behavior of ONE's QuantizeWithMinMax, its propagation passes and ConvertToFakeQuantizedModel.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from circlekit.ir.dtypes import DType, i16, u8
from circlekit.ir.enums import Activation, WeightsFormat
from circlekit.ir.op import Op, OpaqueOp
from circlekit.ir.quantization_rule import QuantizationRule
from circlekit.ir.value import Value
from circlekit.ops.arithmetic import activation, binary, cast, comparison, division, unary
from circlekit.ops.convolution import conv, pool
from circlekit.ops.matmul import dense
from circlekit.ops.movement import gather, join, pad, repeat, resize_images, shape, slice, space
from circlekit.ops.reduction import normalization, reduce

Fixed = Mapping[DType, tuple[float, int]]
"""By dtype, the only parameters that results of the dtype may have: {dtype: (scale, zero point)}."""


@dataclass(frozen=True)
class OneRule:
    """How ONE quantizes an operator.

    By default, results get parameters (scale and zero point) that cover their recorded range, the min and max
    in the file; constant operands get parameters that cover their elements.  Most fields are exceptions:

    ``forward``: the name of an operand.  The results get the parameters of this operand.
    ``backward``: names of operands.  These operands get the parameters and the range of the first result.
    ``fixed``: by dtype, the only parameters of the results.
    ``integer_scale``: the scale of the results is rounded to an integer of at least 1.
    ``per_element``: the names of constant operands.  If weights are quantized per channel, each element of
    these constants gets its own scale: the magnitude of the element.
    ``keeps_values``: to ONE, the operator only moves values.  So ONE's fake quantization does not round its
    results.
    """

    forward: str | None = None
    backward: tuple[str, ...] = ()
    fixed: Fixed = field(default_factory=dict)
    integer_scale: bool = False
    per_element: tuple[str, ...] = ()
    keeps_values: bool = False


RECORDED = OneRule()
"""The default rule: parameters come from recorded ranges and from the elements of constants."""

# results from -1 to 1: 256 steps of uint8, of which step 128 is 0; int16 has the zero point 0
TANH = OneRule(fixed={u8: (2 / 256, 128), i16: (1 / 32768, 0)})
INTEGER = OneRule(integer_scale=True)
KEEPS = OneRule(keeps_values=True)

RULES: dict[type[Op], OneRule] = {
    activation.Logistic: OneRule(fixed={u8: (1 / 256, 0), i16: (1 / 32768, 0)}),
    activation.Tanh: TANH,
    normalization.Softmax: OneRule(fixed={u8: (1 / 255, 0), i16: (1 / 32767, 0)}),
    **dict.fromkeys((unary.Floor, unary.Ceil, division.FloorDiv, division.FloorMod), INTEGER),
    gather.Gather: OneRule(forward="params", keeps_values=True),
    **dict.fromkeys(
        (shape.Reshape, shape.Transpose, slice.StridedSlice, join.Unpack),
        OneRule(forward="input", keeps_values=True),
    ),
    **dict.fromkeys((join.Split, join.SplitV), OneRule(forward="value", keeps_values=True)),
    **dict.fromkeys((join.Concatenation, join.Pack), OneRule(backward=("values",), keeps_values=True)),
    gather.OneHot: OneRule(backward=("on_value", "off_value")),
    pad.PadV2: OneRule(backward=("input", "constant_values")),
    normalization.InstanceNorm: OneRule(per_element=("gamma", "beta")),
    normalization.RmsNorm: OneRule(per_element=("gamma",)),
    activation.PRelu: OneRule(per_element=("alpha",)),
    **dict.fromkeys(
        (space.DepthToSpace, space.SpaceToDepth, slice.Slice, reduce.ArgMax, reduce.ArgMin, cast.Cast), KEEPS
    ),
    **dict.fromkeys(
        (
            activation.Elu, activation.Gelu, activation.LeakyRelu, activation.Relu, activation.Relu6,
            binary.Add, binary.AddN, binary.Maximum, binary.Minimum, binary.Mul, binary.Pow, binary.Sub,
            binary.SquaredDifference, comparison.Equal, comparison.Greater, comparison.GreaterEqual,
            comparison.Less, comparison.LessEqual, comparison.NotEqual, comparison.SelectV2,
            conv.Conv2D, conv.DepthwiseConv2D, conv.TransposeConv, dense.BatchMatMul, dense.FullyConnected,
            division.Div, gather.ReverseSequence, gather.TopKV2, normalization.LocalResponseNormalization,
            normalization.LogSoftmax, pool.AveragePool2D, pool.MaxPool2D, reduce.Mean, reduce.ReduceMax,
            reduce.ReduceMin, reduce.ReduceProd, reduce.Sum, shape.Squeeze, repeat.Tile, pad.MirrorPad,
            pad.Pad, space.BatchToSpaceND, resize_images.ResizeBilinear, resize_images.ResizeNearestNeighbor,
            space.SpaceToBatchND, unary.Abs, unary.Exp, unary.Neg, unary.Rsqrt, unary.Sqrt,
        ),
        RECORDED,
    ),
}  # fmt: skip
"""The rules of the operators that ONE's quantizer knows."""


def rule_of(op: Op, max_pool_keeps_scale: bool = False) -> OneRule:
    """Return the rule for ``op``: from RULES, or from its ``quantization_rule`` if RULES has none.

    Return RECORDED for an operator that is not in RULES and has no ``quantization_rule``.
    An operator with a fused TANH gets the rule of TANH.
    ``max_pool_keeps_scale``: the option ``--TF-style_maxpool``, by which MAX_POOL_2D keeps its input's scale.
    """
    if getattr(op, "act", None) is Activation.TANH:
        return TANH
    if max_pool_keeps_scale and isinstance(op, pool.MaxPool2D):
        return OneRule(forward="input")
    known = RULES.get(type(op))
    declared = op.quantization_rule
    if known is not None or declared is None:
        return known or RECORDED
    return OneRule(forward=declared.results_follow, backward=declared.operands_follow, fixed=declared.fixed)


def stays_float(op: Op) -> bool:
    """Return whether ``op`` stays float in a quantized model.

    These operators stay float:

    - CAST, whose integers have no scale
    - opaque operators, operators that call graphs, and operators with variables
    - FULLY_CONNECTED with shuffled weights
    - operators that ONE does not know, unless LiteRT has a correct integer kernel that respects zero points
    """
    if isinstance(op, OpaqueOp | cast.Cast) or op.called_graphs():
        return True
    if isinstance(op, dense.FullyConnected) and op.weights_format is not WeightsFormat.DEFAULT:
        return True
    if any(v is not None and v.is_variable for v in op.inputs):
        return True
    if type(op) in RULES:
        return False
    if op.quantization_rule is None or op.integer_fault() is not None:
        return True
    return bool(op.quantization_rule.symmetric)  # operands whose zero point the kernel ignores


def layer_rule(op: Op) -> QuantizationRule | None:
    """Return the ``quantization_rule`` of ``op`` if it is a layer (the rule names a bias), else None."""
    rule = op.quantization_rule
    return rule if rule is not None and rule.bias is not None else None


def origin_rule(value: Value) -> OneRule:
    """Return the rule of the operator that determines the scale of ``value``, as in ONE.

    The search goes back from ``value``.  It passes two kinds of operators and goes on with the producer of
    their operand: an operator whose rule has ``forward``, because its result has the scale of that operand;
    and a QUANTIZE, which only converts the same numbers to another dtype.  The returned rule gives the scale
    before and after such a QUANTIZE.  If the search ends at an input or a constant, return RECORDED.
    Like ONE's ``activation_qtype``, the search ignores ``--TF-style_maxpool``: it ends at a MAX_POOL_2D.
    """
    op = value.producer
    while op is not None:
        rule = rule_of(op)
        passed_on = "input" if isinstance(op, cast.Quantize) else rule.forward
        if passed_on is None:
            return rule
        op = getattr(op, passed_on).producer
    return RECORDED
