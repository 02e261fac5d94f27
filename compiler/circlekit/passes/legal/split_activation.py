# SPDX-License-Identifier: Apache-2.0
"""Replace fused activations that runtimes ignore or reject by operators of their own.

Some dtypes of integers have no activation operator (RELU_N1_TO_1 of int16, any activation of int32).
MAXIMUM and MINIMUM limit their values instead.  If a runtime lacks these, the activation stays fused, but in
a new ADD of 0.  A fused TANH does not limit integers, as in TFLite's kernels, and so is only removed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from circlekit.ir.enums import Activation
from circlekit.ir.op import Op
from circlekit.ir.value import Quantization, Value
from circlekit.ops.arithmetic.activation import Clamped, Relu, Relu6, ReluN1To1, Tanh
from circlekit.ops.arithmetic.binary import Add, Maximum, Minimum
from circlekit.ops.convolution.conv import TransposeConv
from circlekit.ops.movement.join import Concatenation
from circlekit.ops.numerics.fixed_point import quantized_activation_range
from circlekit.ops.quantization import dtype_limits
from circlekit.passes.engine.legalize import LITERT, Replacement
from circlekit.passes.support.insertion import Inserter

OPERATORS: dict[Activation, type[Op]] = {
    Activation.RELU: Relu,
    Activation.RELU6: Relu6,
    Activation.RELU_N1_TO_1: ReluN1To1,
    Activation.TANH: Tanh,
}


class _Step(NamedTuple):
    """An operator ``kind`` on a value and perhaps a constant ``number``, with a fused activation ``act``."""

    kind: type[Op]
    number: Value | None = None
    act: Activation = Activation.NONE

    def op(self, value: Value) -> Op:
        """Return the operator on ``value``; its result has the same type."""
        others = () if self.number is None else (self.number,)
        fused = {} if self.act is Activation.NONE else {"act": self.act}
        return self.kind(value, *others, results=[Value.of_type(value)], **fused)


class _Split(Replacement):
    """op(x) with a fused activation  ==  activation(op(x)).

    The results of both operators have the type and the quantization of the old result.
    """

    def wants(self, op: Op) -> bool:
        return _activation(op) in OPERATORS and super().wants(op)

    def results(self, op: Op, insert: Inserter) -> list[Value]:
        result = op.output
        steps = self.steps(_activation(op), result, insert)
        if isinstance(op, Concatenation) and steps and [v.type for v in op.values] == [result.type]:
            (value,) = op.values  # without the activation, the CONCATENATION would do nothing
        else:
            attributes = {**op.attribute_items(), "act": Activation.NONE}
            value = insert.make(type(op)(*op.inputs, results=[Value.of_type(result)], **attributes))
        for step in steps:
            value = insert.make(step.op(value))
        return [value]

    def steps(self, act: Activation, result: Value, insert: Inserter) -> list[_Step]:
        """Return steps that limit values like ``result`` as ``act`` does.

        The only step is the activation's own operator if this has a kernel for the dtype.  Otherwise the
        steps are MAXIMUM, MINIMUM or both.  If a runtime lacks these for integers without a scale, and all
        runtimes have an ADD of 0 with the fused activation, this ADD is the only step.
        """
        single = OPERATORS[act]
        has_kernel = issubclass(single, Clamped) and result.dtype in single.quantized_dtypes
        if result.dtype.is_float or (result.quantization is not None and has_kernel):
            return [_Step(single)]
        limits = [_Step(kind, _number(insert, result, n)) for kind, n in _limits(act, result)]
        if result.quantization is not None or self.runs(limits, result):
            return limits
        fused = [_Step(Add, _number(insert, result, 0), act)]
        return fused if self.runs(fused, result) else limits

    def runs(self, steps: Sequence[_Step], value: Value) -> bool:
        """Return whether the format and all runtimes have ``steps`` for values like ``value``."""
        ops = [step.op(Value.of_type(value)) for step in steps]
        sentences = [self.obstacle(op) for op in ops]
        for op in ops:
            op.drop_inputs()
        return not any(sentences)


class SplitActivation(_Split):
    """Split the activation of any operator but TRANSPOSE_CONV if a runtime refuses the operator."""

    kinds = (Op,)

    def wants(self, op: Op) -> bool:
        return op.fuses_activation and not isinstance(op, TransposeConv) and super().wants(op)


class SplitTransposeConvActivation(_Split):
    """Split the activation of TRANSPOSE_CONV, which ONE's runtime ignores."""

    targets = frozenset({"luci"})
    lowers = "fused_activations"
    kinds = (TransposeConv,)


class SplitConcatenationActivation(_Split):
    """Split the activation of CONCATENATION.

    LiteRT and ONE's interpreter reject it, and ONE's runtime ignores it.
    """

    targets = LITERT | {"luci", "onert"}
    kinds = (Concatenation,)


def _activation(op: Op) -> Activation:
    """Return the fused activation, NONE if ``op`` has no such attribute."""
    return op.attribute_items().get("act", Activation.NONE)  # type: ignore[no-any-return]


def _limits(act: Activation, value: Value) -> list[tuple[type[Op], int]]:
    """Return the operators, each with its constant, that limit integers to the range of ``act``."""
    if value.dtype.numpy is None or value.dtype.numpy.kind not in "iu":
        return []
    grid = value
    if value.quantization is None or not value.quantization.scale.size:
        grid = Value("", value.dtype, (), None, Quantization(np.array([1.0], np.float32)))
    low, high = quantized_activation_range(act, grid)
    lowest, highest = dtype_limits(value.dtype)
    return [*([(Maximum, low)] if low > lowest else []), *([(Minimum, high)] if high < highest else [])]


def _number(insert: Inserter, value: Value, number: int) -> Value:
    """Return a new constant of one element, with the dtype and the quantization of ``value``."""
    constant = insert.constant("limit", np.array(number, value.dtype.numpy))
    constant.quantization = value.quantization
    return constant
