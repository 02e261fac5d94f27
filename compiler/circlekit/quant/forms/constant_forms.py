# SPDX-License-Identifier: Apache-2.0
"""Choose the forms of weights and biases, and of other constants that are stored in fewer bits.

A given form is a form that a tensor had before planning, for example in training.  The read form of an
operand is the form in which the operator reads it.
"""

from __future__ import annotations

import numpy as np

from circlekit.errors import ModelError, counted
from circlekit.ir.op import Op
from circlekit.ir.quantization_rule import QuantizationRule
from circlekit.ir.value import Value
from circlekit.quant.forms.given_forms import finer_form, fits_weights, given_form
from circlekit.quant.forms.kernel_forms import KernelForms
from circlekit.quant.plan import TensorForm
from circlekit.quant.scheme import Scheme
from circlekit.quant.weights import (
    bias_form,
    block_form,
    finite_numbers,
    fit_bias,
    indices_of,
    is_weight,
    present_operand,
    saved_bytes,
    stored_constants,
    weight_form,
)

LEAST_MULTIPLIER = 2.0**-30
"""The smallest allowed ratio of a bias's scale to the scale of the result.

Kernels multiply sums by this ratio, and round ratios below 2^-32 to 0; the limit leaves a margin.
"""

LARGEST_BIAS_IN_RESULT_STEPS = 2**29
"""The largest allowed magnitude of a bias in steps of the result.

Kernels scale the sum of products and bias to steps of the result in 32 bits, before they clip.  They first
shift the sum, and then multiply it by a number from 1/2 to 1.  The shifted sum may be twice as large as the
result, so the result may have up to 2^30 steps: half of them for the bias, half for the products.
"""

LARGEST_BIAS_STEP = 0.25
"""The largest wanted ratio of a bias's scale to the scale of the result.

A bias with a larger scale loses precision.  The scale of the bias falls with the scales of the weights.  So
weights with a given form get smaller scales, as far as the dtype has room.
"""


class ConstantForms(KernelForms):
    """Chooses the forms of constants of one operator; see ``TensorForms`` for the attributes."""

    def choose_weights(self, op: Op, rule: QuantizationRule) -> None:
        """Choose the forms of the constant weights and of the bias of ``op``.

        The activations of ``op`` are integers.
        Raise ModelError for a bias that is computed, packed, sparse, compressed or too large for the kernel,
        and for weights that cannot be quantized.
        """
        scheme, bias = self.scheme_of(op), self.bias_of(op, rule)
        assert scheme.bias is not None  # schemes with integer activations have a dtype for biases
        if bias is not None and not (bias.is_const and bias.is_plain):
            raise ModelError(f"the bias %{bias.name} is computed, packed, sparse or compressed")
        for index in indices_of(op, [*rule.weights, *rule.slopes]):
            value = present_operand(op, index)
            if is_weight(value):
                axis = rule.weights.get(op.operands[index].name)
                self.operand_forms[op][index] = self._weights(value, self.scheme_at(op, index), axis)
            if bias is None:
                continue
            data_scale = self.read_form(op, next(indices_of(op, [rule.data]))).scale[0]
            if value.is_plain:
                # with weights of this scale, the bias would have the scale of the result
                result_step = self.tensors[op.results[0]].scale[0]
                step = result_step / data_scale
                form = finer_form(self.read_form(op, index), value.array(), LARGEST_BIAS_STEP * step)
                fitted = fit_bias(form, bias, data_scale, scheme.bias, value.array(), LEAST_MULTIPLIER * step)
                if is_weight(value):
                    self.operand_forms[op][index] = fitted
                elif fitted is not form:
                    raise ModelError(f"the bias %{bias.name} needs other scales of the stored %{value.name}")
                limit = LARGEST_BIAS_IN_RESULT_STEPS * result_step
                largest = np.abs(bias.array()).max(initial=0)
                if largest > limit:
                    expected = f"a bias of at most {limit:.4g}, 2^29 steps of the result"
                    raise ModelError(f"its kernel overflows: expected {expected}, got {largest:.4g}")
            (at,) = indices_of(op, [str(rule.bias)])
            self.operand_forms[op][at] = bias_form(bias, data_scale, self.read_form(op, index), scheme.bias)

    def _weights(self, value: Value, scheme: Scheme, axis: int | None) -> TensorForm:
        """Return the given form of the weights ``value`` if it fits ``scheme``, else a new form.

        ``axis``: the axis of the channels; None: the weights get one scale.
        """
        given = given_form(self.given.get(value.name), scheme.weights)
        if given is not None and fits_weights(given, scheme, axis):
            return given
        return weight_form(value, scheme, axis)

    def choose_stored_constants(self, op: Op, rule: QuantizationRule) -> None:
        """Choose the forms of the constants of ``op``, whose activations stay float.

        Raise ModelError if a constant holds NaN or infinite numbers, if no form would save bytes, or if the
        weights have too few elements (``Scheme.least_elements``).
        """
        scheme, bias = self.scheme_of(op), self.bias_of(op, rule)
        if is_weight(bias):
            finite_numbers(bias)  # raises ModelError for other numbers
        constants = stored_constants(op, scheme)
        weights = [present_operand(op, i) for i in indices_of(op, rule.weights) if i in constants]
        if weights and all(value.numel < scheme.least_elements for value in weights):
            most = max(value.numel for value in weights)
            raise ModelError(f"it has only {counted(most, 'weight')}, so dynamic ranges would save few bytes")
        for index, axis in constants.items():
            value = present_operand(op, index)
            of_operand = self.scheme_at(op, index)
            form = block_form(value, scheme) if scheme.block else weight_form(value, of_operand, axis)
            if saved_bytes(value, form, scheme) > 0:
                self.operand_forms[op][index] = form
        if not self.operand_forms[op]:
            raise ModelError("its constants are so small that quantizing them would make the file larger")
