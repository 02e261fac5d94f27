# SPDX-License-Identifier: Apache-2.0
"""Apply a plan to a model: quantize constants and tensors, and insert QUANTIZE and DEQUANTIZE."""

from __future__ import annotations

from typing import Any

import numpy as np

from circlekit.errors import ModelError
from circlekit.ir.dtypes import DType, f16, f32
from circlekit.ir.graph import Graph, Model
from circlekit.ir.op import Op
from circlekit.ir.quantization_rule import OWN_RANGES
from circlekit.ir.value import Array, Value
from circlekit.ops.arithmetic.cast import Dequantize, Quantize
from circlekit.ops.constant_operands import packed
from circlekit.quant.calibration.calibration import inner_name
from circlekit.quant.parameters import integers
from circlekit.quant.plan import GraphPlan, OperatorPlan, Plan, TensorPlan, key_of
from circlekit.quant.scheme import SCHEMES, Arithmetic
from circlekit.quant.weights import indices_of


def apply(model: Model, plan: Plan) -> None:
    """Quantize ``model`` in place as ``plan`` says.

    Inputs and outputs of the main graph stay float unless the plan has a dtype for them; those of other
    graphs always stay float.  Raise ModelError if the plan is of another model.
    """
    if len(plan.graphs) != len(model.graphs):
        raise ModelError(f"the plan is of {len(plan.graphs)} graphs, the model has {len(model.graphs)}")
    for graph, graph_plan in zip(model.graphs, plan.graphs, strict=True):
        interface = (plan.inputs, plan.outputs) if graph is model.main else (None, None)
        _Applier(graph, graph_plan).run(*interface)


class _Applier:
    """Quantizes one graph.

    ``stored``: the form of each value that is quantized.  ``converted``: copies of values in other forms, by
    the value and ``TensorPlan.key`` of the form, or f32.
    """

    def __init__(self, graph: Graph, plan: GraphPlan) -> None:
        self.graph, self.plan = graph, plan
        self.stored: dict[Value, TensorPlan] = {}
        self.converted: dict[tuple[Value, Any], Value] = {}

    def run(self, inputs: DType | None, outputs: DType | None) -> None:
        """Quantize the graph; ``inputs``, ``outputs``: their dtypes, None for float."""
        floats = {v for v in self.graph.outputs if v.dtype is f32}
        for value in self.graph.inputs:
            plan = self.plan.tensors.get(value.name)
            if inputs is not None and plan is not None and value.dtype is f32:
                self._store(value, plan)
        for value in self.graph.values():
            plan = self.plan.tensors.get(value.name)
            if plan is not None and self._is_integer_state(value):
                self._store(value, plan)
        for op in self.graph.ops:
            plan_of_op = self.plan.operators.get(key_of(op))
            if plan_of_op is None or plan_of_op.is_float:
                self._read_floats(op)
            elif plan_of_op.code != op.code:
                raise ModelError(f"%{key_of(op)} is a result of {op.code}, in the plan of {plan_of_op.code}")
            else:
                self._quantize(op, plan_of_op)
        self._convert_outputs(floats, outputs)
        for value in self.graph.values():  # empty tables of TensorFlow's converter, which take 20 and 8 bytes
            if not value.is_const:
                value.extra.pop("buffer", None)
            if value.quantization is None:
                value.extra.pop("stored_quantization", None)

    # -- operators ------------------------------------------------------------------------------

    def _read_floats(self, op: Op) -> None:
        """Let ``op``, which stays float, read its operands as floats."""
        for index, value in enumerate(op.inputs):
            if value is not None:
                op.set_input(index, self._as_float(value))

    def _quantize(self, op: Op, plan: OperatorPlan) -> None:
        """Give operands and results of ``op`` the forms of the plan."""
        scheme = SCHEMES[plan.scheme]
        for index, value in enumerate(op.inputs):
            if value is None or value.dtype not in (f32, *_STORED):
                continue
            form = plan.operands.get(index)
            if value.is_const:
                if form is not None:
                    constant = self._constant(value, form)
                    if scheme.arithmetic is Arithmetic.FLOATS:
                        constant = self._as_float(constant)
                    op.set_input(index, constant)
                elif (numbers := self.plan.constants.get(value.name)) is not None:
                    op.set_input(index, Value.constant(value.name, numbers))
            elif scheme.activations is None:
                op.set_input(index, self._as_float(value))
            elif wanted := form or self.plan.tensors.get(value.name):
                op.set_input(index, self._converted(value, wanted))
        if scheme.activations is not None:
            for value in op.results:
                result = self.plan.tensors.get(value.name)
                if value.dtype is f32 and result is not None:
                    self._store(value, result)
        for name, content in (op.quantization_rule or OWN_RANGES).attributes.items():
            setattr(op, name, content)
        if plan.inner:
            op.extra["intermediates"] = [self._inner(op, *item) for item in plan.inner.items()]
        op.touch()

    def _is_integer_state(self, value: Value) -> bool:
        """Return whether an operator on integers keeps its state in ``value``."""
        for op, index in value.uses if value.is_variable else ():
            plan, rule = self.plan.operators.get(key_of(op)), op.quantization_rule or OWN_RANGES
            if plan is None or plan.is_float or SCHEMES[plan.scheme].activations is None:
                continue
            if index in set(indices_of(op, rule.states)):
                return True
        return False

    def _inner(self, op: Op, name: str, form: TensorPlan) -> Value:
        """Return the tensor without elements that holds scale and zero point of an inner tensor."""
        unique = self.graph.unique_name(inner_name(op, name))
        return Value(unique, form.dtype, (0,), None, form.quantization(unique))

    # -- values ---------------------------------------------------------------------------------

    def _store(self, value: Value, plan: TensorPlan) -> None:
        """Make ``value`` a tensor of the form ``plan``."""
        value.dtype, value.quantization = plan.dtype, plan.quantization(value.name)
        self.stored[value] = plan

    def _constant(self, value: Value, plan: TensorPlan) -> Value:
        """Return the constant ``value`` in the form ``plan``: one copy for all users of this form."""
        key = (value, plan.key)
        if key not in self.converted:
            data = self.plan.constants.get(value.name)
            if data is None:
                data = stored_data(value.array(), plan)
            if plan.dtype.numpy is None:
                data = packed(data, plan.dtype)
            elif data.dtype != plan.dtype.numpy:
                data = data.astype(plan.dtype.numpy)
            name = self._name(value, plan)
            new = Value(name, plan.dtype, value.shape, data, plan.quantization(name))
            self.converted[key] = new
            self.stored[new] = plan
        return self.converted[key]

    def _name(self, value: Value, plan: TensorPlan) -> str:
        """Return the name of a copy of the constant ``value``: its own for the first copy."""
        is_first = all(other is not value for other, _ in self.converted)
        return value.name if is_first else self.graph.unique_name(f"{value.name}_{plan.dtype.short}")

    def _converted(self, value: Value, plan: TensorPlan) -> Value:
        """Return ``value`` in the form ``plan``, by a QUANTIZE if it has another one."""
        if plan.same_as(self.stored.get(value)):
            return value
        own = self.plan.tensors.get(value.name)
        if own is not None and self._needs_rounding(value) and not own.same_as(plan):
            value = self._converted(value, own)
        key = (value, plan.key)
        if key not in self.converted:
            name = self.graph.unique_name(f"{value.name}_{plan.dtype.short}")
            result = Value(name, plan.dtype, value.shape, None, plan.quantization(name))
            self.graph.insert_after(value.producer, Quantize(value, results=[result]))
            self.converted[key] = result
            self.stored[result] = plan
        return self.converted[key]

    def _as_float(self, value: Value) -> Value:
        """Return ``value`` as float32, by a DEQUANTIZE if it is quantized, or was trained with rounding."""
        if value not in self.stored:
            if not self._needs_rounding(value):
                return value
            value = self._converted(value, self.plan.tensors[value.name])
        key = (value, f32)
        if key not in self.converted:
            result = Value(self.graph.unique_name(f"{value.name}_f32"), f32, value.shape)
            self.graph.insert_after(value.producer, Dequantize(value, results=[result]))
            self.converted[key] = result
        return self.converted[key]

    def _needs_rounding(self, value: Value) -> bool:
        """Return whether ``value`` is float, but the model was trained with it on a grid.

        The result of a DEQUANTIZE that the model had is on its grid already.
        """
        plan = self.plan.tensors.get(value.name)
        if plan is None or isinstance(value.producer, Dequantize):
            return False
        return plan.rounds and value.dtype is f32 and not value.is_const

    def _convert_outputs(self, floats: set[Value], dtype: DType | None) -> None:
        """Let each output in ``floats`` be the result of a DEQUANTIZE if it is quantized now; names stay.

        ``dtype``: the dtype of the outputs, None for float; nothing changes for any other.
        """
        if dtype is not None:
            return
        for value in dict.fromkeys(self.graph.outputs):
            if (
                value in floats
                and value not in self.stored
                and value.producer
                and self._needs_rounding(value)
            ):
                self._round_output(value, value.producer)
            if value not in floats or value not in self.stored:
                continue
            plan, op = self.stored[value], value.producer
            name = self.graph.unique_name(f"{value.name}_{plan.dtype.short}")
            inner = Value(name, plan.dtype, value.shape, None, plan.quantization(name))
            if op is None:
                continue  # an input that is an output too
            op.take_result(value.result_index, inner)
            for user, index in value.uses:
                user.set_input(index, inner)
            value.dtype, value.quantization = f32, None
            self.graph.insert_after(op, Dequantize(inner, results=[value]))
            other = self.converted.pop((value, f32), None)
            if other is not None and other.producer is not None:
                self.graph.replace_uses(other, value)
                self.graph.remove(other.producer)

    def _round_output(self, value: Value, op: Op) -> None:
        """Round ``value``, an output that the float operator ``op`` produces, by QUANTIZE and DEQUANTIZE."""
        plan = self.plan.tensors[value.name]
        exact = Value(self.graph.unique_name(f"{value.name}_exact"), f32, value.shape)
        op.take_result(value.result_index, exact)
        for user, index in value.uses:
            user.set_input(index, exact)
        stored = self.converted.get((value, plan.key)) or self._converted(exact, plan)
        assert stored.producer is not None  # a QUANTIZE
        self.graph.insert_after(stored.producer, Dequantize(stored, results=[value]))


_STORED = (DType.INT8, DType.UINT8, DType.INT16, f16, DType.INT4)
"""The dtypes of quantized tensors."""


def stored_data(numbers: Array, plan: TensorPlan) -> Array:
    """Return ``numbers``, float32, in the form ``plan``; int4 integers have the numpy dtype int8.

    Raise ModelError for NaN in integers.
    """
    if plan.dtype is f16:
        with np.errstate(over="ignore"):
            return numbers.astype(np.float16)
    if plan.block:
        zero_point = np.zeros(1, np.int64)
        rows = numbers.reshape(-1, plan.block)
        return integers(rows, plan.scales, zero_point, plan.dtype, 0, plan.narrow).reshape(numbers.shape)
    return integers(numbers, plan.scales, plan.zero_points, plan.dtype, plan.axis, plan.narrow)


def real_data(stored: Array, plan: TensorPlan) -> Array:
    """Return the float32 numbers for which ``stored`` stands; ``plan``: the form of ``stored``."""
    # float32 holds integers of up to 16 bits exactly
    numbers = stored.astype(np.float32 if plan.dtype.bits <= 16 else np.float64)
    if not plan.scale:  # float16
        return numbers
    if plan.block:
        return (numbers.reshape(-1, plan.block) * plan.scales[:, None]).reshape(stored.shape)
    shape = [-1 if i == plan.axis else 1 for i in range(stored.ndim)] if len(plan.scale) > 1 else []
    steps = numbers - plan.zero_points.reshape(shape).astype(numbers.dtype)
    return np.asarray(steps * plan.scales.reshape(shape), np.float32)
