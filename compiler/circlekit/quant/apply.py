# SPDX-License-Identifier: Apache-2.0
"""Apply a plan to a float model: quantize constants and tensors, and insert QUANTIZE and DEQUANTIZE.

A form (``TensorForm``) is the dtype, scales and zero points in which a tensor is stored.  If ``form.rounds``,
training fake-quantized the tensor in this form.  Then every user must read rounded numbers, even a user that
stays float or that reads another form.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from circlekit.errors import ModelError, counted
from circlekit.ir.dtypes import DType, f16, f32
from circlekit.ir.graph import Graph, Model
from circlekit.ir.op import Op
from circlekit.ir.quantization_rule import OWN_RANGES
from circlekit.ir.value import Array, Value
from circlekit.ops.arithmetic.cast import Dequantize, FakeQuant, Quantize
from circlekit.ops.constant_operands import packed
from circlekit.quant.calibration.calibration import inner_name
from circlekit.quant.parameters import along_axis, integers
from circlekit.quant.plan import GraphPlan, OperatorPlan, Plan, TensorForm, key_of
from circlekit.quant.scheme import SCHEMES, Arithmetic
from circlekit.quant.weights import indices_of, is_computed_float, present_operand


def apply(model: Model, plan: Plan) -> None:
    """Quantize the float ``model`` in place as ``plan`` says.

    Inputs and outputs of the main graph stay float unless the plan has a dtype for them.  A tensor that is
    both is treated as an input.  Inputs and outputs of other graphs always stay float.
    Raise ModelError if the plan has another number of graphs than the model; if an operator to quantize has
    one code in the plan and another one in the model; or if a constant that becomes integers holds NaN.
    """
    require_graphs(model, plan)
    for graph, graph_plan in zip(model.graphs, plan.graphs, strict=True):
        interface = (plan.inputs, plan.outputs) if graph is model.main else (None, None)
        _Applier(graph, graph_plan).run(*interface)


def require_graphs(model: Model, plan: Plan) -> None:
    """Raise ModelError unless ``plan`` has as many graphs as ``model``."""
    if len(plan.graphs) != len(model.graphs):
        expected = counted(len(model.graphs), "graph")
        raise ModelError(f"expected a plan of {expected}, got one of {len(plan.graphs)}")


class _Applier:
    """Quantizes one graph, operator by operator.

    ``stored``: the form of each value that is quantized so far.
    ``converted``: copies of values in other forms.  The key of a copy is (value, ``TensorForm.key`` of the
    copy's form); the key of a float copy is (value, f32).
    ``copied``: for each constant of which there are copies, the first copy.
    """

    def __init__(self, graph: Graph, plan: GraphPlan) -> None:
        self.graph, self.plan = graph, plan
        self.stored: dict[Value, TensorForm] = {}
        self.converted: dict[tuple[Value, Any], Value] = {}
        self.copied: dict[Value, Value] = {}

    def run(self, inputs: DType | None, outputs: DType | None) -> None:
        """Quantize the graph.

        ``inputs``: None if the inputs stay float; otherwise the dtype of the forms that the plan has for
        them.  ``outputs``: the same for the outputs.  An input stays float if LiteRT cannot dequantize its
        form.
        """
        floats = {v for v in self.graph.outputs if v.dtype is f32}
        for value in self.graph.inputs:
            form = self.plan.tensors.get(value.name)
            if form is None or form.dtype is not inputs or value.dtype is not f32:
                continue
            if _can_be_dequantized(form):
                self._store(value, form)
        for value in self.graph.values():
            form = self.plan.tensors.get(value.name)
            if form is not None and self._is_integer_state(value):
                self._store(value, form)
        for op in self.graph.ops:
            plan_of_op = self.plan.operators.get(key_of(op))
            if plan_of_op is None or plan_of_op.is_float:
                self._read_floats(op)
            elif plan_of_op.code != op.code:
                expected = f"expected {op.code} as in the model"
                raise ModelError(f"%{key_of(op)}: {expected}, got {plan_of_op.code} in the plan")
            else:
                self._quantize(op, plan_of_op)
        self._convert_outputs(floats, outputs)
        for copy in self.converted.values():
            if copy.producer is not None and not copy.use_count and not self.graph.is_output(copy):
                self.graph.remove(copy.producer)  # a QUANTIZE without users, see ``_dequantize``
        self._rename_copies()
        self._drop_empty_tables()

    def _rename_copies(self) -> None:
        """Give another name to each copy that has the name of a constant which stays in the graph."""
        for value, copy in self.copied.items():
            if value.use_count or self.graph.is_output(value):
                copy.name = self.graph.unique_name(f"{value.name}_{copy.dtype.short}")

    def _drop_empty_tables(self) -> None:
        """Drop the empty buffers and quantization tables that TensorFlow's converter writes.

        For each tensor, an empty buffer takes 20 bytes of the file, an empty table 8 bytes.
        """
        for value in self.graph.values():
            if not value.is_const:
                value.extra.pop("buffer", None)
            if value.quantization is None:
                value.extra.pop("stored_quantization", None)

    # -- operators ------------------------------------------------------------------------------

    def _read_floats(self, op: Op) -> None:
        """Let ``op``, which stays float, read float copies of quantized or rounded operands."""
        for index, value in enumerate(op.inputs):
            if value is not None:
                op.set_input(index, self._as_float(value))

    def _quantize(self, op: Op, plan: OperatorPlan) -> None:
        """Give the tensors of ``op`` their planned forms, and set its attributes by its quantization rule."""
        scheme = SCHEMES[plan.scheme]
        for index, value in enumerate(op.inputs):
            if value is None or value.dtype not in (f32, *_STORED):
                continue
            form = plan.operands.get(index)
            if value.is_const:
                if form is not None:
                    constant = self._constant(value, form)
                    if scheme.arithmetic is Arithmetic.FLOATS:  # a float kernel, which needs a DEQUANTIZE
                        constant = self._as_float(constant)
                    op.set_input(index, constant)
                elif value.name in self.plan.constants:
                    # the bias stays float, but a technique (bias correction) has changed its numbers
                    op.set_input(index, self._constant(value, TensorForm(f32)))
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
        """Return whether ``value`` is a state (a variable) of an operator that gets integer activations."""
        for op, index in value.uses if value.is_variable else ():
            plan, rule = self.plan.operators.get(key_of(op)), op.quantization_rule or OWN_RANGES
            if plan is None or plan.is_float or SCHEMES[plan.scheme].activations is None:
                continue
            if index in set(indices_of(op, rule.states)):
                return True
        return False

    def _inner(self, op: Op, name: str, form: TensorForm) -> Value:
        """Return a tensor without elements that has the form of the inner tensor ``name`` of ``op``.

        Inner tensors exist only inside an operator, such as the gate sums of an LSTM; a file has only their
        scales and zero points.
        """
        unique = self.graph.unique_name(inner_name(op, name))
        return Value(unique, form.dtype, (0,), None, form.quantization(unique))

    # -- values ---------------------------------------------------------------------------------

    def _store(self, value: Value, form: TensorForm) -> None:
        """Give the tensor ``value`` the dtype and the quantization of ``form``."""
        value.dtype, value.quantization = form.dtype, form.quantization(value.name)
        self.stored[value] = form

    def _constant(self, value: Value, form: TensorForm) -> Value:
        """Return the copy of the constant ``value`` in ``form``; all users of this form share the copy.

        The first copy of a constant gets the name of the constant.
        """
        key = (value, form.key)
        if key not in self.converted:
            data = self.plan.constants.get(value.name)
            if data is None:
                data = stored_data(value.array(), form)
            if form.dtype.numpy is None:
                data = packed(data, form.dtype)
            elif data.dtype != form.dtype.numpy:
                data = data.astype(form.dtype.numpy)
            is_first = value not in self.copied
            name = value.name if is_first else self.graph.unique_name(f"{value.name}_{form.dtype.short}")
            new = Value(name, form.dtype, value.shape, data, form.quantization(name))
            self.copied.setdefault(value, new)
            self.converted[key] = new
            self.stored[new] = form
        return self.converted[key]

    def _converted(self, value: Value, form: TensorForm) -> Value:
        """Return ``value`` itself if it is stored in ``form``, else the result of a QUANTIZE to ``form``.

        If training fake-quantized the value in another form, the value is first rounded to that form.
        """
        if form.same_as(self.stored.get(value)):
            return value
        own = self.plan.tensors.get(value.name)
        if own is not None and self._needs_rounding(value) and not own.same_as(form):
            value = self._converted(value, own)
        key = (value, form.key)
        if key not in self.converted:
            name = self.graph.unique_name(f"{value.name}_{form.dtype.short}")
            result = Value(name, form.dtype, value.shape, None, form.quantization(name))
            self.graph.insert_after(value.producer, Quantize(value, results=[result]))
            self.converted[key] = result
            self.stored[result] = form
        return self.converted[key]

    def _as_float(self, value: Value) -> Value:
        """Return ``value`` itself if it is float, else the result of a DEQUANTIZE.

        If training fake-quantized the float value, it is rounded to the form of training.
        """
        if value not in self.stored:
            if not self._needs_rounding(value):
                return value
            value = self._converted(value, self.plan.tensors[value.name])
        key = (value, f32)
        if key not in self.converted:
            result = Value(self.graph.unique_name(f"{value.name}_f32"), f32, value.shape)
            self.graph.insert_after(value.producer, self._dequantize(value, result))
            self.converted[key] = result
        return self.converted[key]

    def _dequantize(self, stored: Value, result: Value) -> Op:
        """Return an operator that computes the float ``result`` from ``stored``.

        If LiteRT cannot dequantize the form of ``stored``, it is a FAKE_QUANT with the same range.  The
        FAKE_QUANT reads the float operand of the QUANTIZE that produces ``stored``.
        """
        form = self.stored[stored]
        if not _can_be_dequantized(form):
            # the producer is a QUANTIZE: integer kernels have no such results, and such inputs stay float
            assert stored.producer is not None
            low, high = ((limit - form.zero_point[0]) * form.scale[0] for limit in form.dtype.limits)
            operand = present_operand(stored.producer, 0)
            return FakeQuant(operand, results=[result], min=low, max=high, num_bits=16)
        return Dequantize(stored, results=[result])

    def _needs_rounding(self, value: Value) -> bool:
        """Return whether training fake-quantized ``value``, and ``value`` is still float and not rounded.

        The result of a DEQUANTIZE counts as rounded.
        """
        form = self.plan.tensors.get(value.name)
        if form is None or isinstance(value.producer, Dequantize):
            return False
        return form.rounds and is_computed_float(value)

    def _convert_outputs(self, floats: set[Value], dtype: DType | None) -> None:
        """Give the outputs in ``floats``, which were float before quantization, their final dtype.

        ``dtype``: the dtype that the plan has for outputs.  If it is None, quantized outputs become float
        again.  Otherwise they stay as they are, and a float output that the plan has in this dtype is
        quantized.
        If training fake-quantized an output that is float in the end, it is rounded to the form of training.
        An output that is also an input keeps the form of the input.
        """
        for value in dict.fromkeys(self.graph.outputs):
            op = value.producer
            if value not in floats or op is None:
                continue  # without a producer, it is also an input, or a constant
            form = self.plan.tensors.get(value.name)
            if value in self.stored:
                if dtype is None:
                    self._dequantize_output(value, op)
            elif form is not None and form.dtype is dtype:
                self._quantize_output(value, op, form)
            elif self._needs_rounding(value):
                self._round_output(value, op)

    def _dequantize_output(self, value: Value, op: Op) -> None:
        """Make the output ``value``, the quantized result of ``op``, float.

        ``op`` gets a new quantized result.  A DEQUANTIZE of this new result produces ``value``, which keeps
        its name.  All other users of ``value`` read the new quantized result.
        """
        form = self.stored[value]
        name = self.graph.unique_name(f"{value.name}_{form.dtype.short}")
        quantized = Value(name, form.dtype, value.shape, None, form.quantization(name))
        op.take_result(value.result_index, quantized)
        self.graph.replace_uses(value, quantized)
        value.dtype, value.quantization = f32, None
        self.graph.insert_after(op, Dequantize(quantized, results=[value]))
        other = self.converted.pop((value, f32), None)  # an earlier float copy is not needed any more
        if other is not None and other.producer is not None:
            self.graph.replace_uses(other, value)
            self.graph.remove(other.producer)

    def _quantize_output(self, value: Value, op: Op, form: TensorForm) -> None:
        """Store the output ``value``, a result of the float operator ``op``, in ``form``.

        ``op`` gets a new float result, which all other users of ``value`` read.
        """
        exact = Value(self.graph.unique_name(f"{value.name}_f32"), f32, value.shape)
        op.take_result(value.result_index, exact)
        self.graph.replace_uses(value, exact)
        self._store(value, form)
        self.graph.insert_after(op, Quantize(exact, results=[value]))

    def _round_output(self, value: Value, op: Op) -> None:
        """Round the output ``value``, a result of the float operator ``op``, to its form in training.

        ``op`` gets a new float result, which is rounded to ``value``.
        """
        form = self.plan.tensors[value.name]
        exact = Value(self.graph.unique_name(f"{value.name}_exact"), f32, value.shape)
        op.take_result(value.result_index, exact)
        self.graph.replace_uses(value, exact)
        # a QUANTIZE of the value may be there already; now it reads ``exact``
        stored = self.converted.get((value, form.key)) or self._converted(exact, form)
        assert stored.producer is not None  # ``_converted`` made it with a QUANTIZE
        self.graph.insert_after(stored.producer, self._dequantize(stored, value))


def _can_be_dequantized(form: TensorForm) -> bool:
    """Return whether LiteRT has a DEQUANTIZE for ``form``.

    It has none for int16 with a zero point other than 0.  Training with a range such as [0, 6] in 16 bits
    gives such a zero point.
    """
    return form.dtype is not DType.INT16 or not any(form.zero_point)


_STORED = (DType.INT8, DType.UINT8, DType.INT16, f16, DType.INT4)
"""The dtypes of quantized tensors other than biases (i32, i64)."""


def stored_data(numbers: Array, form: TensorForm) -> Array:
    """Return the float32 ``numbers`` as they are stored in ``form``; int4 has the numpy dtype int8.

    ``form.block``: if not 0, this many neighboring numbers of a row share a scale, and zero points are 0.
    Raise ModelError for NaN if ``form`` stores integers.
    """
    if form.dtype is f16:
        with np.errstate(over="ignore"):  # numbers that are too large become infinite
            return numbers.astype(np.float16)
    if form.block:
        zero_point = np.zeros(1, np.int64)
        rows = numbers.reshape(-1, form.block)
        return integers(rows, form.scales, zero_point, form.dtype, 0, form.narrow).reshape(numbers.shape)
    return integers(numbers, form.scales, form.zero_points, form.dtype, form.axis, form.narrow)


def real_data(stored: Array, form: TensorForm) -> Array:
    """Return the float32 numbers that the elements of ``stored`` stand for, as an array of the same shape.

    ``form``: the form of ``stored``.
    """
    # float32 holds integers of up to 16 bits exactly
    numbers = stored.astype(np.float32 if form.dtype.bits <= 16 else np.float64)
    if not form.scale:  # float16
        return numbers
    if form.block:
        return (numbers.reshape(-1, form.block) * form.scales[:, None]).reshape(stored.shape)
    scales, zero_points = (along_axis(x, form.axis, stored.ndim) for x in (form.scales, form.zero_points))
    return np.asarray((numbers - zero_points.astype(numbers.dtype)) * scales, np.float32)
