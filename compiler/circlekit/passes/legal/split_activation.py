# SPDX-License-Identifier: Apache-2.0
"""Replace fused activations that runtimes ignore or reject by separate operators.

Some dtypes of integers have no activation operator: int16 has no RELU_N1_TO_1, int32 has none at all.  Then
MAXIMUM and MINIMUM limit the values.  For integers without a scale, a runtime may lack MAXIMUM or MINIMUM;
then a new ADD of 0 has the activation fused.  TFLite's kernels do not limit integers for a fused TANH, so a
fused TANH of integers is only removed.
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
from circlekit.ops.quantized_values import dtype_limits, is_quantized_8_or_16_bits
from circlekit.passes.engine.legalize import LITERT, Replacement
from circlekit.passes.support.insertion import Inserter

OPERATORS: dict[Activation, type[Op]] = {
    Activation.RELU: Relu,
    Activation.RELU6: Relu6,
    Activation.RELU_N1_TO_1: ReluN1To1,
    Activation.TANH: Tanh,
}
"""The operator that computes each activation; other activations (SIGN_BIT) are not split."""


class _Step(NamedTuple):
    """One operator of a replacement: ``kind(value)``, or ``kind(value, number)`` if there is a ``number``.

    ``number``: a constant of one element.  ``act``: the fused activation of the operator.
    """

    kind: type[Op]
    number: Value | None = None
    act: Activation = Activation.NONE

    def op(self, value: Value) -> Op:
        """Return this operator for ``value``; its result has the type and quantization of ``value``."""
        others = () if self.number is None else (self.number,)
        fused = {} if self.act is Activation.NONE else {"act": self.act}
        return self.kind(value, *others, results=[Value.of_type(value)], **fused)


class _Split(Replacement[Op]):
    """op(x) with a fused activation  ==  activation(op(x)).

    The result of ``op`` without activation has the type and quantization of the old result.
    """

    def wants(self, op: Op) -> bool:
        return _activation(op) in OPERATORS and super().wants(op)

    def results(self, op: Op, insert: Inserter) -> list[Value] | None:
        result = op.output
        if result.dtype.is_integer and result.dtype.numpy is None:
            return None  # packed integers: no operator that limits them has a kernel
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
        """Return the steps that apply ``act`` to a value with the type and quantization of ``result``.

        - Floats, and quantized dtypes for which the operator of ``act`` has a kernel: this operator.
        - Other integers: MAXIMUM, MINIMUM or both; no step if ``act`` allows all integers (as TANH does).
        - Integers that are not quantized in 8 or 16 bits, if a runtime lacks the MAXIMUM or MINIMUM, but all
          runtimes have ADD with ``act`` fused: an ADD of 0.
        """
        single, is_quantized = OPERATORS[act], is_quantized_8_or_16_bits(result)
        has_kernel = issubclass(single, Clamped) and result.dtype in single.quantized_dtypes
        if result.dtype.is_float or (is_quantized and has_kernel):
            return [_Step(single)]
        limits = [_Step(kind, _number(insert, result, n)) for kind, n in _limits(act, result)]
        if is_quantized or self.runs(limits, result):
            return limits
        fused = [_Step(Add, _number(insert, result, 0), act)]
        return fused if self.runs(fused, result) else limits

    def runs(self, steps: Sequence[_Step], value: Value) -> bool:
        """Return whether the format and all runtimes have ``steps`` for the type of ``value``."""
        ops = [step.op(Value.of_type(value)) for step in steps]
        sentences = [self.obstacle(op) for op in ops]
        for op in ops:
            op.drop_inputs()  # the operators were made only to be examined
        return not any(sentences)


class SplitActivation(_Split):
    """Split off the activation of an operator that a runtime refuses; TRANSPOSE_CONV has its own class."""

    kinds = (Op,)

    def wants(self, op: Op) -> bool:
        return op.fuses_activation and not isinstance(op, TransposeConv) and super().wants(op)


class SplitTransposeConvActivation(_Split):
    """Split off the activation fused into a TRANSPOSE_CONV: ONE's interpreter takes none there."""

    # the default target of circle: so activations are split also if the user names no target
    targets = frozenset({"luci"})
    lowers = "fused_activations"  # with this word in ``keep``, ``legalize_in_place`` omits this class
    kinds = (TransposeConv,)


class SplitConcatenationActivation(_Split):
    """Split off the activation fused into a CONCATENATION.

    LiteRT and ONE's interpreter reject such an activation, and ONE's runtime ignores it.
    """

    targets = LITERT | {"luci", "onert"}
    kinds = (Concatenation,)


def _activation(op: Op) -> Activation:
    """Return the fused activation of ``op``; NONE if ``op`` has no attribute ``act``."""
    return op.attribute_items().get("act", Activation.NONE)  # type: ignore[no-any-return]


def _limits(act: Activation, value: Value) -> list[tuple[type[Op], int]]:
    """Return (operator, constant) for each operator that limits ``value`` to the range of ``act``.

    The list is empty if ``act`` allows all numbers of the dtype, or if ``value`` is not of integers.
    """
    if not value.dtype.is_integer:
        return []
    grid = value
    if not is_quantized_8_or_16_bits(value):  # for kernels, other integers have a scale of 1
        grid = Value("", value.dtype, (), None, Quantization(np.array([1.0], np.float32)))
    low, high = quantized_activation_range(act, grid)
    lowest, highest = dtype_limits(value.dtype)
    return [*([(Maximum, low)] if low > lowest else []), *([(Minimum, high)] if high < highest else [])]


def _number(insert: Inserter, value: Value, number: int) -> Value:
    """Return a new constant of one element, with the dtype and the quantization of ``value``."""
    constant = insert.constant("limit", np.array(number, value.dtype.numpy))
    constant.quantization = value.quantization
    return constant
