# SPDX-License-Identifier: Apache-2.0
"""Choose forms for tensors that only recurrent operators have: states, inner tensors, more than one bias.

A state is a variable that the operator reads and writes.  An inner tensor, such as the sums of a gate of an
LSTM, has no data in the file, only a scale and a zero point (see ``ir.quantization_rule.InnerTensor``).  The
scale of a bias is a constant times the scales of some operands or inner tensors.  A ``Product`` has this
constant and the names of these factors; the last factor is the weights.

Source: LiteRT's quantization specification, and ``tools/optimize/operator_property.cc`` of TensorFlow.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from circlekit.errors import ModelError, UnsupportedError
from circlekit.ir.dtypes import DType
from circlekit.ir.op import Op
from circlekit.ir.quantization_rule import Product, QuantizationRule
from circlekit.ir.value import Value
from circlekit.quant.calibration.calibration import inner_name
from circlekit.quant.forms.tensor_forms import TensorForms
from circlekit.quant.plan import TensorForm
from circlekit.quant.weights import (
    bias_form,
    fit_bias,
    indices_of,
    present_operand,
    product_of,
    wide_scheme,
)

LARGEST_SUM = 2.0**15
"""The largest sum of the magnitudes of the integer weights of one unit.

A unit is one index of the last axis of the results.  It adds up products of these weights with int16 numbers.
These numbers have magnitudes of at most 2^15.  So the magnitude of the sum is at most 2^30, and fits 32 bits.
"""


class InnerForms(TensorForms):
    """Chooses the forms of states and inner tensors; ``TensorForms`` has the other attributes.

    ``inner``: the forms of inner tensors, by operator and name.
    """

    inner: dict[Op, dict[str, TensorForm]]

    def choose_inner_forms(self, op: Op, rule: QuantizationRule) -> None:
        """Choose the forms of the states and of the inner tensors of ``op``.

        A state in ``rule.operands_follow`` holds the last result, so it gets the form of the result.  A state
        in ``rule.power_of_two`` gets a power of two as scale.  Any other state gets a form of its own.
        Raise UnsupportedError for a state that another operator uses in another form, or that
        ``_require_own_state`` refuses; raise the errors of ``own_form``, ``_power_of_two`` and
        ``_inner_form``.
        """
        for index in indices_of(op, rule.states):
            value, name = present_operand(op, index), op.operands[index].name
            self._require_own_state(op, value)
            if name in rule.operands_follow:
                result = op.results[0]
                form = self.tensors[result].because(
                    f"the form of %{result.name}, which it holds between runs"
                )
            elif name in rule.power_of_two:
                form = self._power_of_two(value, *rule.power_of_two[name])
            else:
                form = self.own_form(value, self.scheme_at(op, index))
            if not form.same_as(self.tensors.setdefault(value, form)):
                raise UnsupportedError(f"%{value.name} is a state of two operators that need different forms")
            self.operand_forms[op][index] = form
        self.inner[op] = {inner.name: self._inner_form(op, rule, inner.name) for inner in op.inner_tensors()}

    def _require_own_state(self, op: Op, value: Value) -> None:
        """Raise UnsupportedError unless ``value``, a state of ``op``, is a variable inside of the graph.

        All its users must have integer activations.
        """
        if not value.is_variable or self.graph.is_input(value) or self.graph.is_output(value):
            kind = "no variable" if not value.is_variable else "an input or output of the graph"
            raise UnsupportedError(
                f"%{value.name}, a state of {op.code}: expected a variable inside the graph, got {kind}"
            )
        for user in value.users:
            if user in self.floats or user not in self.schemes or not self.scheme_of(user).activations:
                raise UnsupportedError(f"{user.code} reads the state %{value.name} as floats")

    def _power_of_two(self, value: Value, least: int, greatest: int) -> TensorForm:
        """Return an int16 form for the state ``value`` with the smallest scale 2^n that covers its range.

        n is at least ``least``.  The number 2^(n + 15) itself is clipped by one step.
        Raise UnsupportedError if n would be above ``greatest``, or if the state has no range.
        """
        low, high = self.range_by_name(value.name)
        magnitude = max(-low, high)
        exponent = max(math.ceil(math.log2(magnitude)) - 15, least) if magnitude > 0 else least
        if exponent > greatest:
            largest = 2.0 ** (greatest + 15)
            raise UnsupportedError(
                f"%{value.name}: expected numbers of up to {largest:g}, got {magnitude:.4g}"
            )
        reason = f"covers its range [{low:.4g}, {high:.4g}] with a power of two, which the kernel needs"
        return TensorForm(DType.INT16, (2.0**exponent,), (0,), reason=reason)

    def _inner_form(self, op: Op, rule: QuantizationRule, name: str) -> TensorForm:
        """Return the form of the inner tensor ``name`` of ``op``; raise the errors of ``form_of_range``."""
        inner = next(inner for inner in op.inner_tensors() if inner.name == name)
        result = op.results[0]
        if inner.fixed_scale is not None:
            reason = f"{op.code} always has this scale inside"
            return TensorForm(DType.INT16, (inner.fixed_scale,), (0,), reason=reason)
        if inner.follows_result:
            return self.tensors[result].because(f"the form of %{result.name}, which is the same tensor")
        scheme = self.scheme_of(op)
        scheme = wide_scheme(scheme) if name in rule.wide else scheme
        form = self.form_of_range(inner_name(op, name), scheme)
        if not inner.negates_zero_point:
            return form
        # The kernel adds the zero point where other kernels subtract it, so the negated zero point is stored.
        # int8 has no 128, so a zero point of -128 first becomes -127, and the scale grows by 255/254.
        if form.zero_point == (form.dtype.limits[0],):
            form = replace(form, scale=(form.scale[0] * 255 / 254,), zero_point=(form.zero_point[0] + 1,))
        reason = f"{form.reason}; {op.code} adds the zero point"
        return replace(form, zero_point=(-form.zero_point[0],), reason=reason)

    def choose_inner_biases(self, op: Op, rule: QuantizationRule) -> None:
        """Choose the forms of the biases in ``rule.biases``; other constants of ``op`` have forms already.

        Each bias has one or more alternative Products; the first whose factors ``op`` has is used.
        Weights get larger scales where a bias does not fit its dtype, or where sums of products may overflow
        (``rule.summed``).
        Raise ModelError for a bias that is computed, packed, sparse or compressed; UnsupportedError if there
        is no Product to use, for example because the weights are absent.
        """
        for index in indices_of(op, rule.summed):
            self._limit_sums(op, index)
        for name, products in rule.biases.items():
            for index in indices_of(op, [name]):
                bias = present_operand(op, index)
                if not (bias.is_const and bias.is_plain):
                    raise ModelError(f"the bias %{bias.name} is computed, packed, sparse or compressed")
                product = product_of(op, products)
                if product is None:
                    raise UnsupportedError(f"%{bias.name} is a bias of {op.code}, which lacks its weights")
                self._fit_inner_bias(op, index, product)

    def _limit_sums(self, op: Op, index: int) -> None:
        """Enlarge the scale of the weights, operand ``index``, if sums of products could overflow 32 bits."""
        form, units = self.read_form(op, index), op.results[0].static_shape[-1]
        weights = present_operand(op, index).array().astype(np.float64)
        sums = np.abs(weights).reshape(units, -1).sum(axis=1)
        least = float(np.float32(sums.max() / LARGEST_SUM))
        if least > form.scale[0]:
            reason = "sums of products with int16 numbers fit into 32 bits"
            self.operand_forms[op][index] = replace(form, scale=(least,), reason=reason)

    def _fit_inner_bias(self, op: Op, index: int, product: Product) -> None:
        """Choose the form of the bias, operand ``index``, whose scale follows from ``product``.

        Enlarge the scale of the weights, the last factor of the product, if the bias does not fit its dtype.
        """
        scheme, bias = self.scheme_of(op), present_operand(op, index)
        assert scheme.bias is not None  # schemes with integer activations have a dtype for biases
        *others, last = product.factors
        forms = [self._factor(op, name) for name in others]
        scale = product.constant * math.prod(form.scale[0] for form in forms)
        data_scale = float(np.float32(scale))
        (at,) = indices_of(op, [last])
        weights = present_operand(op, at)
        if weights.dtype.is_float:
            self.operand_forms[op][at] = fit_bias(
                self.read_form(op, at), bias, data_scale, scheme.bias, weights.array()
            )
        self.operand_forms[op][index] = bias_form(bias, data_scale, self._factor(op, last), scheme.bias)

    def _factor(self, op: Op, name: str) -> TensorForm:
        """Return the form of the operand or inner tensor ``name`` of ``op``."""
        index = next(indices_of(op, [name]), None)
        if index is None:
            return self.inner[op][name]
        return self.read_form(op, index)
