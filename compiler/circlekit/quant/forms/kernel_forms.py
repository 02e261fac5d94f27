# SPDX-License-Identifier: Apache-2.0
"""Choose forms with which integer kernels give right results.

Some kernels fail on certain integers or zero points; some round to coarser steps than the form of the result
has.  The quantization rule of each operator (``QuantizationRule``) says what its kernels need.

A step is the scale of a form.  A given form is a form that a tensor had before planning, for example in
training.  The read form of an operand is the form in which the operator reads it; if the tensor is stored in
another form, a QUANTIZE before the operator converts the integers.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from circlekit.errors import ModelError
from circlekit.ir.dtypes import boolean, f32, i8, i16, u8
from circlekit.ir.op import Op
from circlekit.ir.quantization_rule import QuantizationRule
from circlekit.ops.quantized_values import followed_operand
from circlekit.quant.forms.given_forms import (
    covered_range,
    finer_activation,
    fits_activations,
    given_form,
    wanted_step,
)
from circlekit.quant.forms.inner_forms import InnerForms
from circlekit.quant.forms.kernel_trial import kernel_errors
from circlekit.quant.forms.tensor_forms import INFINITE_FACTOR, covering
from circlekit.quant.parameters import asymmetric
from circlekit.quant.plan import TensorForm
from circlekit.quant.planned_op import conversion_refusal, target_refusal
from circlekit.quant.scheme import SCHEMES, Scheme
from circlekit.quant.weights import biases_of, indices_of, is_float, is_weight, present_operand

WIDE = "int16x8"
"""The name of the scheme for operators whose 8-bit kernels are too coarse."""

STEPS_FROM_ZERO = 4
"""A number at least this many steps away from 0 does not become the integer that stands for 0.

Half a step would be enough; the rest allows for errors of the operators before.
"""


class KernelForms(InnerForms):
    """Chooses forms that suit the integer kernels of operators; see ``TensorForms`` for the attributes.

    ``widened``: the operators to which ``widen`` or ``make_finer`` gave the scheme WIDE, with the reasons.
    ``refined``: the operators that read operands with finer steps, see ``refine_operands``.
    ``tried``: by operator, the forms with which ``kernel_fault`` found no fault.  With these forms, the
    kernel need not run again.
    """

    widened: dict[Op, str]
    refined: set[Op]
    tried: dict[Op, object]

    def kernel_fault(
        self, op: Op, operands: dict[int, TensorForm], results: dict[int, TensorForm]
    ) -> str | None:
        """Run the integer kernel of ``op``; return a sentence if a result is wrong, else None.

        A result that will be rounded to a given form (``wanted_step``) is wrong if it differs from the float
        result by more than one step of that form.  A bool is wrong if it differs at all.  Other results are
        not compared.  Also return None if the kernel cannot be run alone.
        ``operands``, ``results``: the forms by index.
        """
        steps = [wanted_step(value, self.given) for value in op.results]
        is_compared = any(v.dtype is boolean for v in op.results)
        if not (any(steps) or is_compared) or self.tried.get(op) == (operands, results):
            return None
        errors = kernel_errors(op, operands, results, self.rule_of(op).attributes, self.given, self.ranges)
        for value, step, error in zip(op.results, steps, errors, strict=False):
            if value.dtype is boolean and error:
                return f"{op.code} of the integers has other results than {op.code} of the floats"
            if step and error > step:
                return f"its kernel misses the grid of %{value.name} by {error / step:.2g} steps"
        self.tried[op] = operands, results
        return None

    def make_finer(self, op: Op, fault: str) -> bool:
        """Let ``op`` compute with finer steps, because of ``fault``; return False if that is not possible.

        The first call for ``op`` enters it in ``refined``, so that ``refine_operands`` treats it in the next
        round of planning.  The second call gives it the scheme WIDE.
        """
        scheme = self.scheme_of(op)
        if op not in self.refined:
            self.refined.add(op)
            return True
        if scheme.activations not in (i8, u8) or not self._runs_wide(op, self.rule_of(op), scheme):
            return False
        self.schemes[op], self.widened[op] = SCHEMES[WIDE], fault
        return True

    def refine_operands(self, op: Op) -> None:
        """If ``op`` is in ``refined``, let it read operands with finer steps, where the dtype has room.

        The dtype has room if the operand's range, extended to 0, takes at most half of the integers of its
        given form.
        """
        for index in self.activations(op) if op in self.refined else ():
            value, dtype = op.inputs[index], self.scheme_of(op).activations
            assert value is not None
            form = given_form(self.given.get(value.name), dtype)
            if form is not None and fits_activations(form, self.scheme_of(op)):
                finer = finer_activation(form, *self.ranges[value.name])
                if finer is not None:
                    self.operand_forms[op][index] = finer.because(
                        f"the same numbers with finer steps for {op.code}"
                    )

    def widen(self, op: Op, rule: QuantizationRule) -> None:
        """Give ``op`` the scheme WIDE if its 8-bit kernel rounds intermediate results.

        Do nothing if the target does not run ``op``, or the conversions around it, in int16.
        """
        scheme = self.scheme_of(op)
        if rule.rounds_inside and scheme.activations in (i8, u8) and self._runs_wide(op, rule, scheme):
            reason = f"the 8-bit kernel of {op.code} rounds its intermediate results"
            self.schemes[op], self.widened[op], self.operand_forms[op] = SCHEMES[WIDE], reason, {}

    def _runs_wide(self, op: Op, rule: QuantizationRule, scheme: Scheme) -> bool:
        """Return whether the target runs ``op`` in int16, and each QUANTIZE that this needs.

        One QUANTIZE converts activations of ``scheme`` to int16, and another one converts them back.
        """
        assert scheme.activations is not None
        narrow, wide = (TensorForm(dtype, (1.0,), (0,)) for dtype in (scheme.activations, i16))
        operands = dict.fromkeys(self.activations(op), wide)
        for indices, dtype in (
            (indices_of(op, rule.weights), SCHEMES[WIDE].weights),
            (biases_of(op), SCHEMES[WIDE].bias),
        ):
            for index in indices:
                if dtype is not None and is_weight(op.inputs[index]):
                    operands[index] = TensorForm(dtype, (1.0,), (0,))
        results = {i: wide for i, v in enumerate(op.results) if v.dtype is f32}
        refusals = (
            target_refusal(op, operands, results, rule.attributes, self.target),
            conversion_refusal(narrow, wide, self.target),
            conversion_refusal(wide, narrow, self.target),
        )
        return not any(refusals)

    def least_scale(self, op: Op, rule: QuantizationRule) -> float:
        """Return the smallest scale of the results with which the kernel of ``op`` works; 0: any scale."""
        dtype = self.scheme_of(op).activations
        if dtype is None or dtype not in {**rule.least_step, **rule.least_square_step}:
            return 0.0
        largest = max((self.read_form(op, index).scale[0] for index in self.activations(op)), default=0.0)
        return largest * max(
            rule.least_step.get(dtype, 0.0), rule.least_square_step.get(dtype, 0.0) * largest
        )

    def read_on_result_grid(self, op: Op, rule: QuantizationRule) -> None:
        """Let an ``op`` that does not requantize read its operand in the given form of its result.

        Such an operator moves or compares elements, so its operand can be rounded instead of its result.
        Nothing happens unless all of this is true:

        - The result has a given form, which is not the given form of the operand.
        - The kernel of ``op`` can read this form.
        - ``op`` has one result, and does not average elements.
        """
        source = followed_operand(op)
        if not is_float(source) or rule.averages or len(op.results) != 1:
            return
        dtype = self.scheme_of(op).activations
        wanted, own = (given_form(self.given.get(v.name), dtype) for v in (op.results[0], source))
        if wanted is None or not fits_activations(wanted, self.scheme_of(op)) or wanted.same_as(own):
            return
        if rule.symmetric and any(wanted.zero_point):
            return
        (index,) = indices_of(op, [str(rule.results_follow)])
        self.operand_forms[op][index] = wanted.because(
            f"the form of the result %{op.results[0].name}, because {op.code} does not requantize its operand"
        )

    def read_without_zero_point(self, op: Op, rule: QuantizationRule) -> None:
        """Choose forms with the zero point 0 for operands whose zero point the kernel of ``op`` ignores.

        This is for operators whose result has the form of an operand (``rule.results_follow``).  In all other
        operators with such a kernel, the operand gets the form of the result (``rule.operands_follow``).
        """
        for index in indices_of(op, rule.symmetric) if rule.results_follow else ():
            value = op.inputs[index]
            if is_float(value) and any(self.read_form(op, index).zero_point):
                choose = self.constant_form if value.is_const else self.own_form
                form = choose(value, replace(self.scheme_of(op), asymmetric=False))
                self.operand_forms[op][index] = form.because(
                    f"{form.reason}; {op.code} ignores the zero point"
                )

    def cover_constants(self, op: Op, rule: QuantizationRule, index: int) -> None:
        """Widen the form of operand ``index`` of ``op`` so that it covers the constant operands, too.

        The result and the constants of ``op``, such as the number with which PADV2 pads, will get that form.
        Constant numbers far outside of the range (INFINITE_FACTOR) stand for infinity: they are not covered,
        and become the lowest or highest integer.  Numbers at most one step outside of the range do not widen
        the form.  Given forms are not widened.
        """
        source, form = present_operand(op, index), self.read_form(op, index)
        constants = [v for i in indices_of(op, rule.operands_follow) if is_weight(v := op.inputs[i])]
        if not constants or source.name in self.given or op.results[0].name in self.given:
            return
        low, high = covered_range(form)
        farthest = INFINITE_FACTOR * max(-low, high)
        numbers = np.concatenate([v.array().reshape(-1) for v in constants])
        numbers = numbers[np.abs(numbers) <= farthest]
        if numbers.size and (numbers.min() < low - form.scale[0] or numbers.max() > high + form.scale[0]):
            names = ", ".join(f"%{v.name}" for v in constants)
            low, high = min(low, float(numbers.min())), max(high, float(numbers.max()))
            reason = f"covers its range and {names}"
            self.operand_forms[op][index] = covering(low, high, self.scheme_of(op), reason)

    def avoid_faults(self, op: Op, rule: QuantizationRule) -> None:
        """Choose forms without the integers and zero points on which the kernel of ``op`` fails.

        The fields ``scales_below``, ``not_negative`` and ``not_zero`` of the rule say on which scales and
        numbers the kernel fails.
        Raise ModelError if there are no such forms, or if ``op`` adds or selects a computed mask
        (``refuse_masks``).
        """
        self.refuse_masks(op)
        scales = [self.read_form(op, index).scale[0] for index in self.activations(op)]
        if max(scales, default=0.0) >= rule.scales_below:
            raise ModelError(f"{op.code} fails on scales of {rule.scales_below:g} and more")
        for index in indices_of(op, rule.not_negative):
            form = self.read_form(op, index)
            low, high = self.range_of(op, index)
            if form.zero_point[0] == form.dtype.limits[0]:
                continue  # no integer stands for a negative number
            if self.scheme_of(op).asymmetric:
                scale, zero_point = asymmetric(0.0, high, form.dtype)
                if self.name_of(op, index) in self.given:  # the numbers of a given form stay
                    scale = form.scale[0]
                reason = f"without negative numbers, on which {op.code} fails"
                self.operand_forms[op][index] = TensorForm(form.dtype, (scale,), (zero_point,), reason=reason)
            elif low < STEPS_FROM_ZERO * form.scale[0]:
                raise ModelError(
                    f"{op.code} fails on negative numbers: expected numbers of at least "
                    f"{STEPS_FROM_ZERO * form.scale[0]:.4g}, got {low:.4g}"
                )
        for index in indices_of(op, rule.not_zero):
            step = STEPS_FROM_ZERO * self.read_form(op, index).scale[0]
            low, high = self.range_of(op, index)
            if low < step and high > -step:
                raise ModelError(
                    f"{op.code} fails on 0: expected numbers farther than {step:.4g} from 0 in "
                    f"%{self.name_of(op, index)}, got {low:.4g} to {high:.4g}"
                )
