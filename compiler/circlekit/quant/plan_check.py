# SPDX-License-Identifier: Apache-2.0
"""Check a plan, which a person may have edited, against the model to which it will be applied.

A form is the dtype, scales and zero points of a tensor.  The rule of an operator (``QuantizationRule``) says
what its kernels demand of the forms.  ``rule.bias``: the operand whose scale is the scale of ``rule.data``
times that of the weights.  ``rule.biases``: for operators with several matrix products, such as LSTMs, the
factors of the scale of each bias.  These operators also have inner tensors: neither operands nor results.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from circlekit.errors import ModelError, counted, did_you_mean
from circlekit.ir.dtypes import DType, f32
from circlekit.ir.graph import Graph, Model
from circlekit.ir.location import working_on
from circlekit.ir.op import Op
from circlekit.ir.quantization_rule import OWN_RANGES, QuantizationRule
from circlekit.ir.value import Value, format_shape
from circlekit.quant.apply import require_graphs
from circlekit.quant.parameters import LARGEST_SCALE, SMALLEST_SCALE
from circlekit.quant.plan import GraphPlan, OperatorPlan, Plan, TensorForm, key_of
from circlekit.quant.planned_op import conversion_refusal, target_refusal
from circlekit.quant.scheme import Arithmetic, Scheme, find_scheme
from circlekit.quant.weights import (
    LARGEST_BIAS,
    bias_form,
    biases_of,
    indices_of,
    is_float,
    is_weight,
    operand_scheme,
    present_operand,
    product_of,
)
from circlekit.targets.target import Target


def fit_plan(model: Model, plan: Plan, target: Target) -> None:
    """Check that ``plan`` can be applied to the float ``model``, and compute the scales of its biases anew.

    ``plan`` is changed in place: the scale of a bias must be the product of the scales of data and weights,
    and a person may have edited these two.
    Raise ModelError, with the name of the tensor or operator, if the plan does not fit the model or if
    ``target`` cannot run the result; UnsupportedError for an unknown scheme.
    """
    require_graphs(model, plan)
    for graph, graph_plan in zip(model.graphs, plan.graphs, strict=True):
        with working_on(graph, model):
            _GraphChecker(graph, graph_plan, target).check()


class _GraphChecker:
    """Checks the plan of one graph.

    ``values``: the tensors of the graph by name.  In the methods, ``scheme`` is the way in which an operator
    is quantized: the dtypes of its activations, weights and biases.  With ``Arithmetic.INTEGERS``, these are
    integers.  With ``DYNAMIC`` and ``FLOATS``, only weights change their dtype.
    """

    def __init__(self, graph: Graph, plan: GraphPlan, target: Target) -> None:
        self.graph, self.plan, self.target = graph, plan, target
        self.values = {value.name: value for value in graph.values()}

    def check(self) -> None:
        """Check the names, forms and operators of the plan, and compute the scales of biases."""
        ops = {key_of(op): op for op in self.graph}
        _require_known("operator", self.plan.operators, ops)
        _require_known("tensor", self.plan.tensors, self.values)
        constants = {name: value for name, value in self.values.items() if value.is_const}
        _require_known("constant", self.plan.constants, constants)
        for name, form in self.plan.tensors.items():
            _require_form(form, self.values[name], f"%{name}")
        for name, array in self.plan.constants.items():
            if array.shape != constants[name].static_shape:
                shapes = format_shape(constants[name].shape), format_shape(array.shape)
                raise ModelError(f"constant %{name}: expected the shape {shapes[0]}, got {shapes[1]}")
        for name, plan in self.plan.operators.items():
            op, scheme = ops[name], find_scheme(plan.scheme)  # None: the operator stays float
            if plan.code != op.code:
                raise ModelError(f"%{name}: expected {op.code} as in the model, got {plan.code} in the plan")
            if scheme is not None:
                self._check_operator(op, plan, scheme, op.quantization_rule or OWN_RANGES)

    def _check_operator(self, op: Op, plan: OperatorPlan, scheme: Scheme, rule: QuantizationRule) -> None:
        """Check the plan of an operator that does not stay float, and compute the scales of its biases.

        First the forms of data and weights are checked.  Then the scales of biases are computed from them,
        and the forms of biases are checked.
        """
        if scheme.follows_one:
            raise ModelError(
                f"%{key_of(op)}: expected a scheme such as int8, or float; a plan with ONE's scheme "
                f"{scheme.name} cannot be applied"
            )
        for index in plan.operands:
            value = op.inputs[index] if 0 <= index < len(op.inputs) else None
            if not is_float(value):
                raise ModelError(f"%{key_of(op)}: {op.code} has no float operand {index}")
        if scheme.arithmetic is Arithmetic.INTEGERS:
            self._require_inner(op, plan, scheme, rule)
        for item in self._forms(op, plan, scheme, rule):
            self._require_operand(op, scheme, *item)
        if scheme.arithmetic is Arithmetic.INTEGERS:
            self._fit_biases(op, plan, scheme, rule)
        for item in self._bias_forms(op, plan, scheme):
            self._require_operand(op, scheme, *item)
        if scheme.arithmetic is Arithmetic.INTEGERS:
            self._require_rule(op, plan, rule)
        if scheme.arithmetic is not Arithmetic.FLOATS:  # FLOATS: the operator runs on float tensors
            _require_symmetric_weights(op, plan, rule)
            self._require_target(op, plan, scheme, rule)

    def _require_operand(
        self, op: Op, scheme: Scheme, where: str, value: Value, form: TensorForm | None, dtype: DType | None
    ) -> None:
        """Check the planned form of ``value``, an operand or result of ``op``.

        Raise ModelError if ``form`` is None, has another dtype than ``dtype``, or has scales or zero points
        that do not fit.  Also raise ModelError if the data of a constant cannot be stored in ``form``.
        ``where``: the place for the message.
        """
        if form is None:
            raise ModelError(f"{where} has no form in the plan, but {op.code} has the scheme {scheme.name}")
        if form.dtype is not dtype:
            raise ModelError(f"{where}: expected {dtype and dtype.short}, got {form.dtype.short}")
        _require_form(form, value, where)
        self._require_integers(value, form, where)

    def _forms(
        self, op: Op, plan: OperatorPlan, scheme: Scheme, rule: QuantizationRule
    ) -> Iterator[tuple[str, Value, TensorForm | None, DType | None]]:
        """Yield (place for messages, tensor, planned form, dtype that ``scheme`` demands).

        There is one item for each float operand and float result of ``op`` that the scheme quantizes.  If the
        scheme quantizes activations, biases are left out, because ``_bias_forms`` yields them.
        """
        # slopes, such as those of a PRELU, are stored like weights
        weights, biases = set(indices_of(op, [*rule.weights, *rule.slopes])), biases_of(op)
        for index, value in enumerate(op.inputs):
            if not is_float(value):
                continue
            where = _place(op, index)
            if scheme.activations is None:
                if index in plan.operands:
                    yield where, value, plan.operands[index], scheme.weights
            elif index not in biases:
                of_operand = operand_scheme(op, index, scheme)  # ``rule.wide`` may demand int16
                has_weights_dtype = index in weights and is_weight(value)
                dtype = of_operand.weights if has_weights_dtype else of_operand.activations
                yield where, value, self._read_form(op, plan, index), dtype
        for value in op.results if scheme.activations is not None else ():
            if value.dtype is f32:
                yield f"%{value.name}", value, self.plan.tensors.get(value.name), scheme.activations

    def _bias_forms(
        self, op: Op, plan: OperatorPlan, scheme: Scheme
    ) -> Iterator[tuple[str, Value, TensorForm | None, DType | None]]:
        """Yield items as ``_forms`` does, for the float biases, if the scheme quantizes activations."""
        for index in biases_of(op) if scheme.activations is not None else ():
            value = op.inputs[index]
            if is_float(value):
                yield _place(op, index), value, plan.operands.get(index), scheme.bias

    def _read_form(self, op: Op, plan: OperatorPlan, index: int) -> TensorForm | None:
        """Return the planned form in which ``op`` reads operand ``index``; None if there is none."""
        value = present_operand(op, index)
        return plan.operands.get(index) or (None if value.is_const else self.plan.tensors.get(value.name))

    def _require_inner(self, op: Op, plan: OperatorPlan, scheme: Scheme, rule: QuantizationRule) -> None:
        """Raise ModelError unless the plan has a valid form for each inner tensor, in the order of ``op``."""
        wanted = [inner.name for inner in op.inner_tensors()]
        if list(plan.inner) != wanted:
            expected, got = (", ".join(names) or "none" for names in (wanted, plan.inner))
            raise ModelError(f"%{key_of(op)}: expected the inner tensors {expected}, got {got}")
        for inner in op.inner_tensors():
            where = f"%{key_of(op)}, inner tensor {inner.name}"
            # the rule names in ``wide`` what is int16 in every scheme
            is_wide = inner.fixed_scale is not None or inner.name in rule.wide
            dtype = DType.INT16 if is_wide else scheme.activations
            # the inner tensor is not a Value; the first result stands for it, because both have no data
            self._require_operand(op, scheme, where, op.results[0], plan.inner[inner.name], dtype)

    def _products(
        self, op: Op, plan: OperatorPlan, rule: QuantizationRule
    ) -> Iterator[tuple[int, float | None, TensorForm | None]]:
        """Yield (index, scale of the data, form of the weights) for each bias of ``op``.

        ``rule.biases`` gives the scale of a bias as a product: a constant times the scales of several tensors
        (factors).  For such a bias, the form of the last factor is yielded as that of the weights.  The scale
        of the data is the constant times the scales of the other factors.  Example:
        constant * scale(a) * scale(b) gives the scale constant * scale(a), and b as the weights.
        """
        for index in indices_of(op, [rule.bias] if rule.bias else []):
            data, weights = (next(indices_of(op, names), None) for names in ([rule.data], rule.weights))
            form = self._form_at(op, plan, data)
            yield index, None if form is None else form.scale[0], self._form_at(op, plan, weights)
        for name, products in rule.biases.items():
            product = product_of(op, products)
            if product is None:
                continue
            for index in indices_of(op, [name]):
                *others, last = (
                    plan.inner.get(factor) or self._form_at(op, plan, next(indices_of(op, [factor]), None))
                    for factor in product.factors
                )
                scale = product.constant * math.prod(form.scale[0] for form in others if form)
                yield index, float(np.float32(scale)), last

    def _form_at(self, op: Op, plan: OperatorPlan, index: int | None) -> TensorForm | None:
        """Return the result of ``_read_form``, or None for the index None."""
        return None if index is None else self._read_form(op, plan, index)

    def _fit_biases(self, op: Op, plan: OperatorPlan, scheme: Scheme, rule: QuantizationRule) -> None:
        """Compute the scales of biases: the scale of the data times the scales of the weights.

        If the plan has integers of a bias (``GraphPlan.constants``), convert these to the new scales.  Raise
        ModelError if the integers of a bias do not fit into its dtype, or if the weights have N > 1 scales
        and the bias does not have N elements.
        """
        for index, data_scale, weights in self._products(op, plan, rule):
            bias, old = present_operand(op, index), plan.operands.get(index)
            where = f"the bias %{bias.name}"
            if data_scale is None or weights is None:  # ``_forms`` has checked those that are float32
                raise ModelError(f"{where}: expected float32 data and weights of {op.code} %{key_of(op)}")
            assert scheme.bias is not None
            form = bias_form(bias, data_scale, weights, scheme.bias)
            if len(form.scale) not in (1, bias.numel):
                raise ModelError(
                    f"{where} has {counted(bias.numel, 'element')}, "
                    f"the weights have {counted(len(form.scale), 'scale')}"
                )
            stored = self.plan.constants.get(bias.name) if old is not None else None
            if stored is not None and old is not None:
                _require_form(old, bias, where)
                numbers = np.rint(stored * (old.scales.astype(np.float64) / form.scales))
            else:
                numbers = bias.array().reshape(-1) / form.scales.astype(np.float64)
            # the quantizer rounds scales to float32, so its largest bias may exceed the limit a little
            if np.abs(numbers).max(initial=0) > LARGEST_BIAS[scheme.bias] * (1 + 1e-6):
                raise ModelError(f"{where} does not fit into {scheme.bias.short}: "
                                 "the scales of data and weights are too small")  # fmt: skip
            if old is not None and np.array_equal(old.scales, form.scales) and old.dtype is form.dtype:
                continue  # the plan stays as it is
            if stored is not None:
                self.plan.constants[bias.name] = numbers.astype(np.int64)
            plan.operands[index] = form

    def _require_integers(self, value: Value, form: TensorForm, where: str) -> None:
        """Raise ModelError if a constant has NaN, or planned integers that do not fit ``form``.

        A ``form`` of floats takes every number.
        """
        if not (value.is_const and form.dtype.is_integer):
            return
        numbers = self.plan.constants.get(value.name)
        if numbers is None and np.isnan(value.array()).any():
            raise ModelError(f"{where}: expected numbers to quantize, got NaN")
        if numbers is not None and numbers.size:
            (low, high), smallest, largest = form.dtype.limits, numbers.min(), numbers.max()
            if numbers.dtype.kind != "i" or smallest < low or largest > high:
                raise ModelError(
                    f"{where}: expected integers from {low} to {high} in the plan's constants, got "
                    f"{numbers.dtype} from {smallest} to {largest}"
                )

    def _require_rule(self, op: Op, plan: OperatorPlan, rule: QuantizationRule) -> None:
        """Raise ModelError if a planned form contradicts ``rule``, the rule of ``op``.

        A rule may fix the scale and zero point of results, or demand that operands and results have the same
        scale and zero point.
        """
        results = [(v.name, self.plan.tensors[v.name]) for v in op.results if v.name in self.plan.tensors]
        for name, form in results:
            fixed = rule.fixed.get(form.dtype)
            if fixed is not None and (form.scale, form.zero_point) != ((fixed[0],), (fixed[1],)):
                raise ModelError(
                    f"%{name}, result of {op.code}: expected (scale, zero point) ({fixed[0]:g}, {fixed[1]}), "
                    f"got {_short(form)}"
                )
        # the forms of these operands and of all results must have the same scale and zero point
        follow = [rule.results_follow] if rule.results_follow else []
        indices = [*indices_of(op, follow), *indices_of(op, rule.operands_follow)]
        forms = [self._read_form(op, plan, i) for i in indices] + [form for _, form in results if indices]
        known = [form for form in forms if form is not None]
        for form in known[1:]:
            if (form.scale, form.zero_point) != (known[0].scale, known[0].zero_point):
                raise ModelError(
                    f"%{key_of(op)}: expected the same (scale, zero point) of operands and results of "
                    f"{op.code}, got {_short(known[0])} and {_short(form)}"
                )

    def _require_target(self, op: Op, plan: OperatorPlan, scheme: Scheme, rule: QuantizationRule) -> None:
        """Raise ModelError if the target cannot run ``op`` in the planned forms."""
        operands, results = dict(plan.operands), {}
        if scheme.activations is not None:
            found = {i: self._read_form(op, plan, i) for i, v in enumerate(op.inputs) if is_float(v)}
            operands = {i: form for i, form in found.items() if form is not None}
            results = {i: self.plan.tensors[v.name] for i, v in enumerate(op.results) if v.dtype is f32}
        refusals = [target_refusal(op, operands, results, rule.attributes, self.target)]
        for index, form in operands.items() if scheme.activations is not None else ():
            stored = self.plan.tensors.get(present_operand(op, index).name)
            if stored is not None:
                refusals.append(conversion_refusal(stored, form, self.target))
        for refusal in filter(None, refusals):
            raise ModelError(f"%{key_of(op)}: {refusal}")


def _place(op: Op, index: int) -> str:
    """Return operand ``index`` of ``op`` as text, for messages."""
    return f"%{key_of(op)}, operand {index} (%{present_operand(op, index).name})"


def _require_symmetric_weights(op: Op, plan: OperatorPlan, rule: QuantizationRule) -> None:
    """Raise ModelError if constant weights of a signed dtype have other zero points than 0."""
    for index in indices_of(op, rule.weights):
        form = plan.operands.get(index)
        if form is None or not is_weight(op.inputs[index]) or form.dtype.limits[0] == 0:
            continue
        if other := next(filter(None, form.zero_point), None):
            raise ModelError(f"{_place(op, index)}: expected zero points of 0 for weights, got {other}")


def _require_known(kind: str, names: Iterable[str], known: Mapping[str, object]) -> None:
    """Raise ModelError if one of ``names`` is not in ``known``.

    ``names``: those in the plan.  ``known``: those in the model.  ``kind``: ``operator``, ``tensor`` or
    ``constant``, for the message.
    """
    for name in names:
        if name not in known:
            raise ModelError(
                f"the plan has the {kind} %{name}, the model has no such {kind}{did_you_mean(name, known)}"
            )


def _require_form(form: TensorForm, value: Value, where: str) -> None:
    """Raise ModelError unless scales and zero points fit the dtype of ``form`` and the shape of ``value``.

    A float dtype has neither; other dtypes than integers and floats are errors, too.

    Only constants may have several scales.  ``form.block``: how many neighboring elements of a row share a
    scale; 0: no blocks.  ``where``: the place for the message.
    """
    if form.dtype.is_float:
        return
    if not form.dtype.is_integer:
        raise ModelError(f"{where}: expected an integer or float dtype, got {form.dtype.short}")
    shape = value.static_shape if value.is_const else ()
    count = len(form.scale)
    if form.block:
        if form.block < 1:
            raise ModelError(f"{where}: expected a block of at least 1 element, got {form.block}")
        if not shape or 0 in shape or shape[-1] % form.block:
            expected = f"a constant with elements, in rows of a multiple of {form.block}"
            raise ModelError(f"{where}: expected {expected}, got {format_shape(value.shape)}")
        wanted = value.numel // form.block
    elif count > 1 and shape and form.axis not in range(len(shape)):
        raise ModelError(f"{where}: expected an axis from 0 to {len(shape) - 1}, got {form.axis}")
    else:
        wanted = shape[form.axis] if count > 1 and shape else 1
    if count != wanted:
        raise ModelError(f"{where}: expected {counted(wanted, 'scale')}, got {count}")
    scales = form.scales
    if not (np.isfinite(scales).all() and SMALLEST_SCALE <= scales.min() <= scales.max() <= LARGEST_SCALE):
        raise ModelError(
            f"{where}: expected scales from {SMALLEST_SCALE:.3g} to {LARGEST_SCALE:.3g}, "
            f"got {scales.min():.3g} to {scales.max():.3g}"
        )
    low, high = form.dtype.limits
    if not form.block and len(form.zero_point) != count:
        raise ModelError(f"{where}: expected {counted(count, 'zero point')}, got {len(form.zero_point)}")
    for zero_point in form.zero_point:
        if not low <= zero_point <= high:
            raise ModelError(f"{where}: expected zero points from {low} to {high}, got {zero_point}")


def _short(form: TensorForm) -> str:
    """Return ``(scale, zero point)`` of a form with one scale as text, for messages."""
    return f"({form.scale[0]:g}, {form.zero_point[0]})"
