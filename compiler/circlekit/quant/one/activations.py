# SPDX-License-Identifier: Apache-2.0
"""Choose parameters (scale and zero point) of activations by ONE's rules.

The recorded range of an activation is the min and max in its quantization, which ONE's record-minmax or
``quantize_as_one`` has stored there.
Constants in operands that could also be activations, such as c in Add(x, c), get parameters, too.

The fields of a ``OneRule`` that appear here:

- ``forward``: the operand whose parameters the results get.
- ``backward``: the operands that get the parameters of the result.
- ``per_element``: the constant operands with a scale for each element.
- ``fixed``: by dtype, the only parameters that the results may have.
- ``integer_scale``: whether the scale of the results must be an integer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from circlekit.errors import ModelError, UnsupportedError
from circlekit.ir.dtypes import DType, f32
from circlekit.ir.enums import Activation
from circlekit.ir.graph import Graph
from circlekit.ir.op import Op
from circlekit.ir.value import Array, Quantization, Value
from circlekit.ops.arithmetic.cast import Quantize
from circlekit.ops.movement.pad import PadV2
from circlekit.quant.one.formulas import parameters, to_given_integers, to_integers, with_integer_scale
from circlekit.quant.one.graph_editor import GraphEditor
from circlekit.quant.one.rules import OneRule, layer_rule, origin_rule, rule_of
from circlekit.quant.one.settings import LayerSetting, Settings
from circlekit.quant.weights import indices_of, is_float_constant, present_operand

LOWEST = np.finfo(np.float32).min
"""The lowest float32; exporters write it for minus infinity."""


@dataclass
class Task:
    """The quantization of one graph: the state that all steps share.

    ``settings``: the settings of the model.  ``own``: the settings of the operators that do not have the
    default setting.  ``editor``: changes the graph.
    ``float_ops``: the operators that stay float, with the reasons.  ``floats``: the values that stay float32.
    ``reasons``: for each quantized value, why it has its parameters.
    """

    graph: Graph
    settings: Settings
    own: Mapping[Op, LayerSetting]
    editor: GraphEditor
    float_ops: dict[Op, str] = field(default_factory=dict)
    floats: set[Value] = field(default_factory=set)
    reasons: dict[Value, str] = field(default_factory=dict)

    def setting(self, op: Op | None) -> LayerSetting:
        """Return the own setting of ``op``, or else the default; None stands for the inputs of the graph."""
        return self.settings.default if op is None else self.own.get(op, self.settings.default)

    def rule(self, op: Op) -> OneRule:
        """Return the rule by which ONE quantizes ``op`` with these settings."""
        return rule_of(op, self.settings.max_pool_keeps_scale)

    def quantized_ops(self) -> list[Op]:
        """Return the operators of the float model that are quantized, in order."""
        skipped = self.editor.inserted.keys() | self.float_ops.keys()
        return [op for op in self.graph.ops if op not in skipped]


def recorded_range(value: Value) -> tuple[np.float32, np.float32] | None:
    """Return the recorded (min, max) of ``value``; None if there are none.

    Raise ModelError if min or max is not finite, or if min is above max.
    """
    quantization = value.quantization
    if quantization is None or quantization.min is None or quantization.max is None:
        return None
    if not quantization.min.size or not quantization.max.size:
        return None
    low, high = np.float32(quantization.min.min()), np.float32(quantization.max.max())
    if not (np.isfinite(low) and np.isfinite(high) and low <= high):
        expected = "a recorded range of finite numbers with min <= max"
        raise ModelError(f"%{value.name}: expected {expected}, got {low} to {high}")
    return low, high


def range_parameters(low: np.float32, high: np.float32, dtype: DType) -> Quantization:
    """Return the parameters of a tensor with the range [low, high], which becomes their min and max."""
    made = parameters(np.asarray(low), np.asarray(high), dtype).quantization()
    return Quantization(made.scale, made.zero_point, 0, np.array([low]), np.array([high]))


def converted_parameters(value: Value, dtype: DType) -> Quantization:
    """Return the parameters that ``value`` gets when it is converted to ``dtype``.

    The rule is that of the operator that determines the scale of ``value`` (``origin_rule``).  If the rule
    has fixed parameters for ``dtype``, return them.  Otherwise return parameters that cover the recorded
    range, with an integer scale if the rule demands one.  Raise ModelError if there are neither fixed
    parameters nor a range.
    """
    rule = origin_rule(value)
    if dtype in rule.fixed:
        return fixed_parameters(rule, dtype)
    found = recorded_range(value)
    if found is None:
        raise no_range(value)
    made = range_parameters(found[0], found[1], dtype)
    return with_integer_scale(made) if rule.integer_scale else made


def fixed_parameters(rule: OneRule, dtype: DType) -> Quantization:
    """Return the fixed scale and zero point of ``rule`` for ``dtype``."""
    return Quantization.per_tensor(*rule.fixed[dtype])


def no_range(value: Value) -> ModelError:
    """Return the error for a value without a recorded range."""
    advice = "calibrate (record-minmax) with samples for which this tensor has finite numbers"
    return ModelError(f"%{value.name}: expected recorded min and max, got none; {advice}")


# -- steps, in the order in which ``with_minmax`` runs them; between them it runs steps of other files ----


def quantize_ranges(task: Task) -> None:
    """Give every float activation an integer dtype and the parameters of its recorded range.

    The result of a PADV2 that pads with the lowest float gets the parameters for the range of its input.
    Without a recorded range, an unused activation gets the range [0, 0]; for a used one, raise ModelError.
    """
    ops = [None, *task.quantized_ops()]
    for op in ops:
        dtype = task.setting(op).dtype
        for value in task.graph.inputs if op is None else op.results:
            if value.dtype is not f32 or value in task.floats:
                continue
            source = op.input if isinstance(op, PadV2) and _pads_with_lowest(op) else value
            found = _element_range(source) if source.is_const else recorded_range(source)
            if found is None and (value.use_count or task.graph.is_output(value)):
                raise no_range(value)
            low, high = found or (np.float32(0), np.float32(0))
            value.quantization = range_parameters(low, high, dtype)
            value.dtype = dtype
            kind = f"range of the constant %{source.name}," if source.is_const else "recorded range"
            task.reasons[value] = f"{kind} {low:.6g} to {high:.6g}"


def _element_range(constant: Value) -> tuple[np.float32, np.float32] | None:
    """Return (min, max) of the elements of ``constant``; None if it is empty.

    Raise the errors of ``finite_floats``.
    """
    data = finite_floats(constant)
    return (data.min(), data.max()) if data.size else None


def is_activation(task: Task, value: Value) -> bool:
    """Return whether ``value`` is a quantized activation: no constant, not in ``task.floats``, one scale."""
    return not value.is_const and value not in task.floats and single_scale(value) is not None


def single_scale(value: Value | None) -> Quantization | None:
    """Return the quantization of ``value`` if it has exactly one scale, else None."""
    form = None if value is None else value.quantization
    return form if form is not None and form.scale.size == 1 else None


def propagate_backward(task: Task) -> None:
    """Give operands the parameters of the result where the operator's rule says so (``OneRule.backward``).

    An operand keeps its own parameters if it has other users, if it is a graph output, or if an operator of
    the same class produces it.  All operands of an operator with a fused activation keep their parameters,
    because the activation may make the range of the result too narrow for them.
    For a PADV2 that pads a quantized input with the lowest float, the direction is reversed: its result gets
    the parameters of its input.  A float constant as input gets the parameters of the result.
    """
    for op in task.quantized_ops():
        names = task.rule(op).backward
        if not names or single_scale(op.output) is None:
            continue
        source = op.output
        if isinstance(op, PadV2) and _pads_with_lowest(op) and op.input.dtype is not f32:
            source = op.input
            op.output.quantization = source.quantization
            reason = f"the scale of %{source.name}: the lowest float must not widen the range"
            task.reasons[op.output] = reason
        elif getattr(op, "act", Activation.NONE) is not Activation.NONE:
            continue  # ``quantize_constants`` quantizes its constants
        for index in indices_of(op, names):
            value = present_operand(op, index)
            if value is source:
                continue
            if value.is_const:
                _quantize_like(task, op, index, source)
            elif is_activation(task, value) and type(value.producer) is not type(op):
                is_needed_elsewhere = len(value.users) > 1 or task.graph.is_output(value)
                if not is_needed_elsewhere:
                    value.quantization = source.quantization
                    task.reasons[value] = shared_scale_reason(op)


def shared_scale_reason(op: Op) -> str:
    """Return the reason for an operand of ``op`` that has the parameters of the result."""
    return f"the scale of %{op.output.name}: operands and result of {op.code} have one scale"


def _pads_with_lowest(op: PadV2) -> bool:
    """Return whether ``op`` pads with the lowest float or -inf, which must not widen the result's range."""
    data = op.constant_values.data
    return data is not None and data.dtype == np.float32 and data.size > 0 and data.flat[0] <= LOWEST


def _quantize_like(task: Task, op: Op, index: int, source: Value) -> None:
    """Quantize the constant ``op.inputs[index]`` with the parameters of ``source``.

    Do nothing if the constant is not float32, or if ``source`` has no parameters.  Raise ModelError for NaN;
    UnsupportedError if the constant is sparse or compressed.
    """
    value, like = present_operand(op, index), source.quantization
    if like is None or value.dtype is not f32:
        return
    dtype, data = source.dtype, plain_floats(value)
    if np.isnan(data).any():
        raise ModelError(f"%{value.name}: expected numbers, got NaN")
    # operators that need the constant in the same form (an equal key) share the new constant
    key = ("like", dtype, like.scale.tobytes(), like.zero_point.tobytes())

    def make() -> tuple[Array, DType, Quantization]:
        """Return data, dtype and quantization of the new constant."""
        return to_given_integers(data, dtype, like.scale[0], like.zero_point[0]), dtype, like

    constant = task.editor.replace_constant(op, index, key, make)
    task.reasons[constant] = shared_scale_reason(op)


def plain_floats(value: Value) -> Array:
    """Return the data of a float32 constant; raise UnsupportedError if it is sparse or compressed."""
    if not value.is_plain or value.dtype is not f32:
        got = "sparse or compressed data" if value.dtype is f32 else value.dtype.short
        raise UnsupportedError(f"%{value.name}: expected dense float32 data, got {got}")
    return value.array()


def finite_floats(value: Value) -> Array:
    """Return the data of a float32 constant.

    Raise ModelError for NaN, infinity and +-FLT_MAX; UnsupportedError if it is sparse or compressed.
    """
    data = plain_floats(value)
    if data.size and not float(np.abs(data).max()) < -float(LOWEST):
        raise ModelError(f"%{value.name}: expected finite numbers, got NaN, infinity or the largest float")
    return data


def quantize_constants(task: Task) -> None:
    """Quantize constants in operands that could also be activations, by the range of their elements.

    These are all float constants except the weights and biases of layers (``layer_rule``) and the constants
    in ``OneRule.per_element``.  BATCH_MATMUL has no bias, so it is no layer.
    Raise the errors of ``finite_floats``.
    """
    for op in task.quantized_ops():
        rule, layer, dtype = task.rule(op), layer_rule(op), task.setting(op).dtype
        names = [*rule.per_element, *([] if layer is None else [*layer.weights, str(layer.bias)])]
        excluded = set(indices_of(op, names))
        for index, value in enumerate(op.inputs):
            if is_float_constant(value) and index not in excluded:
                quantize_constant(task, op, index, dtype)


def quantize_constant(task: Task, op: Op, index: int, dtype: DType) -> None:
    """Quantize the constant ``op.inputs[index]`` with one scale, by the range of its elements.

    Raise the errors of ``finite_floats``.
    """
    data = finite_floats(present_operand(op, index))

    def make() -> tuple[Array, DType, Quantization]:
        """Return data, dtype and quantization of the new constant."""
        low, high = (np.asarray(end(data) if data.size else 0, np.float32) for end in (np.min, np.max))
        made = parameters(low, high, dtype)
        inside = np.clip(data, made.low, made.high)
        return to_integers(inside, dtype, made.scale, made.low), dtype, made.quantization()

    constant = task.editor.replace_constant(op, index, ("range", dtype), make)
    task.reasons[constant] = "range of its elements"


def set_fixed_and_integer_scales(task: Task) -> None:
    """Set the parameters of results for which the rule has fixed parameters, or demands integer scales.

    Results that are quantized already in the given model keep their parameters.
    """
    for op in task.quantized_ops():
        rule = task.rule(op)
        for value in op.results:
            form = single_scale(value)
            if form is None or value not in task.reasons:
                continue
            if value.dtype in rule.fixed:
                value.quantization = fixed_parameters(rule, value.dtype)
                task.reasons[value] = f"the fixed scale of {op.code}"
            elif rule.integer_scale:
                value.quantization = with_integer_scale(form)
                task.reasons[value] += f"; ONE rounds the scale of {op.code} to an integer of at least 1"


def propagate_forward(task: Task) -> None:
    """Give results the parameters of an operand where the operator's rule says so (``OneRule.forward``).

    The results keep their own min and max.  An inserted QUANTIZE gets the fixed scale or integer scale that
    its result needs.
    """
    for op in task.graph.ops:
        if op in task.editor.inserted:
            _refresh_conversion(op)
            continue
        forward = None if op in task.float_ops else task.rule(op).forward
        if forward is None:
            continue
        operand = getattr(op, forward)
        source = single_scale(operand)
        for value in op.results:
            kept = value.quantization
            if source is not None and kept is not None:
                value.quantization = Quantization(source.scale, source.zero_point, 0, kept.min, kept.max)
                task.reasons[value] = f"the scale of %{operand.name}, which {op.code} keeps"


def _refresh_conversion(op: Op) -> None:
    """Give the result of a QUANTIZE from one integer dtype to another the parameters that a rule demands.

    The rule is that of the operator that determines the scale of the operand (``origin_rule``).  It may have
    fixed parameters, or demand an integer scale.  Do nothing for any other ``op``.
    """
    if not isinstance(op, Quantize):
        return
    value, result = op.input, op.output
    if value.dtype in (f32, result.dtype) or result.quantization is None:
        return
    rule = origin_rule(value)
    if result.dtype in rule.fixed:
        result.quantization = fixed_parameters(rule, result.dtype)
    elif rule.integer_scale:
        result.quantization = with_integer_scale(result.quantization)
