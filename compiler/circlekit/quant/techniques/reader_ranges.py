# SPDX-License-Identifier: Apache-2.0
"""Choose the range of a tensor by the result of its reader, the operator that reads it.

Errors of rounding and clipping matter only if they change the reader's result.  Examples: LEAKY_RELU and
PRELU shrink negative numbers; large numbers hardly change the results of SOFTMAX, LOGISTIC and TANH.  So a
tensor with a single reader gets the range with which the reader's quantized result has the least error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from circlekit.errors import ModelError
from circlekit.ir.graph import Model
from circlekit.ir.op import Op
from circlekit.ir.value import Array, Value
from circlekit.quant.calibration.ranges import Range
from circlekit.quant.forms.tensor_forms import covering
from circlekit.quant.plan import OperatorPlan, Plan, TensorForm, key_of
from circlekit.quant.scheme import SCHEMES
from circlekit.quant.techniques.layer_sweep import fake_quantized
from circlekit.quant.techniques.operator_runs import Column, OperatorRuns

FRACTIONS = (0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.0)
"""The factors by which each end of a range is multiplied in trials."""

LARGEST_NOISE_SHARE = 0.97
"""A range is changed if the noise of the reader's result falls below this share of the former noise."""

MOST_ELEMENTS = 1 << 18
"""The compared results of all samples together have at most this many elements; see LEAST_SAMPLES."""

LEAST_SAMPLES = 4
"""Results are compared on at least this many samples, whatever their size; on all if there are fewer."""


def reader_ranges(
    model: Model, plan: Plan, ranges: Mapping[str, Range], samples: Sequence[Sequence[Array]]
) -> dict[str, Range]:
    """Return {name: range} for the tensors of the main graph whose range in ``ranges`` can be improved.

    ``plan``: a plan of the float ``model``, made from ``ranges`` without techniques.
    ``samples``: arrays in the order of the graph's inputs.
    """
    found: dict[str, Range] = {}
    runs = OperatorRuns(model, samples)
    for op, operands, results in runs:
        operator = plan.main.operators.get(key_of(op))
        if operator is not None and _is_reader(op, operator) and op.output.name in plan.main.tensors:
            reader = _Reader(runs, op, operator, plan, operands, [r[0] for r in results])
            for value, ends in reader.free(ranges).items():
                found.update(reader.better(value, ends))
    return found


def _is_reader(op: Op, plan: OperatorPlan) -> bool:
    """Return whether ``op`` is a reader whose operands' ranges may be changed.

    Such an operator has a quantization rule, integer activations, one result and no weights; it is pure,
    calls no graph, and is not a data movement.
    """
    rule = op.quantization_rule
    if rule is None or plan.is_float or SCHEMES[plan.scheme].activations is None or op.called_graphs():
        return False
    return op.pure and not op.data_movement and not rule.weights and len(op.results) == 1


class _Reader:
    """Compares ranges for the operands of one operator by the error of its result.

    ``operator``: the plan of ``op`` in ``plan``.  ``operands``, ``results``: the operands and the result of
    ``op`` in the float model, for each sample.
    ``wanted``: ``results``, but only of the samples on which ranges are compared.
    ``forms``: the stored forms of the operands in ``plan``.  Operands with a form in ``operator.operands``,
    such as constants, are left out.
    """

    def __init__(
        self,
        runs: OperatorRuns,
        op: Op,
        operator: OperatorPlan,
        plan: Plan,
        operands: Sequence[Column],
        results: Sequence[Array],
    ) -> None:
        self.runs, self.op, self.scheme = runs, op, SCHEMES[operator.scheme]
        count = max(MOST_ELEMENTS // max(results[0].size, 1), LEAST_SAMPLES)
        self.operands = [c if c is None or isinstance(c, np.ndarray) else c[:count] for c in operands]
        self.wanted = results[:count]
        self.forms = {
            v: plan.main.tensors[v.name]
            for i, v in enumerate(op.inputs)
            if v is not None and v.name in plan.main.tensors and i not in operator.operands
        }
        self.result_form = plan.main.tensors[op.output.name]

    def free(self, ranges: Mapping[str, Range]) -> dict[Value, Range]:
        """Return the operands whose range may be changed, with their range in ``ranges``.

        Only this operator reads such an operand, and the operand's form is the one that covers this range: no
        rule demanded another form.
        """
        found = {}
        for value, form in self.forms.items():
            if value.use_count != 1 or self.runs.model.main.is_output(value) or value.name not in ranges:
                continue
            own = self._form(ranges[value.name])
            if own is not None and own.same_as(form):
                found[value] = ranges[value.name]
        return found

    def better(self, value: Value, ends: Range) -> dict[str, Range]:
        """Return {name: range} with a better range than ``ends`` for operand ``value``; {} if there is none.

        Trials move the lower end towards 0, then the upper end.  Later calls quantize ``value`` with the
        better range.
        """
        first = least = self._noise(value, ends)
        best = ends
        for end in (0, 1):
            start = best
            for fraction in FRACTIONS:
                tried = (start[0] * fraction, start[1]) if end == 0 else (start[0], start[1] * fraction)
                # an end of 0 cannot change; an empty range has no scale
                noise = self._noise(value, tried) if start[end] and tried[0] != tried[1] else np.inf
                if noise < least:
                    least, best = noise, tried
        if not least < LARGEST_NOISE_SHARE * first:  # also if the results, and so the noise, are NaN
            return {}
        self.forms[value] = self._form(best) or self.forms[value]
        return {value.name: best}

    def _form(self, ends: Range) -> TensorForm | None:
        """Return the form that covers the range ``ends``; None if there is no scale for it."""
        try:
            return covering(*ends, self.scheme, "")
        except ModelError:
            return None

    def _noise(self, value: Value, ends: Range) -> float:
        """Return the sum of squared errors of the quantized result if ``value`` has the range ``ends``.

        Return infinity if there is no scale for the range.
        """
        form = self._form(ends)
        if form is None:
            return np.inf
        forms = {**self.forms, value: form}
        columns: list[Column] = []
        for operand, column in zip(self.op.inputs, self.operands, strict=True):
            if operand is not None and operand in forms and isinstance(column, list):
                column = [fake_quantized(a, forms[operand]) for a in column]
            columns.append(column)
        noise = 0.0
        for (actual,), wanted in zip(self.runs.evaluate(self.op, columns), self.wanted, strict=True):
            difference = fake_quantized(actual, self.result_form) - wanted
            noise += float(np.square(difference, dtype=np.float64).sum())
        return noise
