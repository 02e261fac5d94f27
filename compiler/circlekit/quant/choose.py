# SPDX-License-Identifier: Apache-2.0
"""Choose a plan for a float model from the ranges of its tensors, by the rules of the operators.

Every tensor gets the parameters of its own range, unless the rule of an operator says otherwise.  An operator
that the target cannot run with integers stays float.  That changes what its neighbors need, so the choice is
repeated until no operator is refused any more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from circlekit.errors import CirclekitError, ModelError, UnsupportedError
from circlekit.ir.dtypes import f32
from circlekit.ir.graph import Model
from circlekit.ir.op import Op
from circlekit.ir.quantization_rule import QuantizationRule
from circlekit.ir.value import Value
from circlekit.quant.given import covered_range, finer_form, fits_weights, given_form
from circlekit.quant.kernel_forms import KernelForms
from circlekit.quant.plan import GraphPlan, OperatorPlan, Plan, TensorPlan, key_of
from circlekit.quant.scheme import NO_SCHEME, SCHEMES, Arithmetic, Scheme
from circlekit.quant.trial import planned_op, trial_refusal
from circlekit.quant.weights import (
    bias_plan,
    block_plan,
    finite_numbers,
    fit_bias,
    indices_of,
    is_weight,
    saved_bytes,
    stored_constants,
    weight_plan,
)
from circlekit.targets.target import Target, find_target

Ranges = Sequence[Mapping[str, tuple[float, float]]]
"""For each graph, in order, the range (min, max) of tensors by name."""

LEAST_MULTIPLIER = 2.0**-30
"""The least scale of a bias divided by that of the result: kernels round smaller factors than 2^-31 to 0."""

LARGEST_BIAS_STEP = 0.25
"""The largest scale of a bias divided by that of the result; given grids of weights get finer for it."""


def choose(
    model: Model,
    ranges: Ranges,
    schemes: Mapping[Op, Scheme | None],
    scheme: str,
    target: Target | None = None,
    given: Sequence[Mapping[str, TensorPlan]] = (),
) -> Plan:
    """Return the plan of ``model``, which is not changed.

    ``schemes``: the scheme of each operator, None for float (see ``selection.schemes_of``).  ``scheme``: the
    name of the scheme in the plan.  ``target``: the runtime that has to run the result; by default LiteRT.
    ``given``: for each graph the forms of some tensors by name, also of constants.  A tensor gets its given
    form if the scheme has its dtype, else a form for the same range.
    """
    target = target or find_target("litert")
    plan = Plan(scheme)
    for index, graph in enumerate(model.graphs):
        known = ranges[index] if index < len(ranges) else {}
        forms = given[index] if index < len(given) else {}
        plan.graphs.append(GraphChooser(graph, known, schemes, target, forms).plan())
    return plan


class GraphChooser(KernelForms):
    """Chooses the plan of one graph."""

    def plan(self) -> GraphPlan:
        """Return the plan; the choice is repeated until target and delegate take all that is quantized."""
        self.widened = {}
        for op, scheme in self.schemes.items():
            if scheme is None:
                self.floats[op] = "chosen to stay float"
            elif op.called_graphs():
                self.floats[op] = "its graphs are quantized inside; they take and return floats"
            elif op.quantization_rule is None and scheme.activations is not None:
                self.floats[op] = f"{self.target.title} has no integer kernel of {op.code}"
        while refused := self._assign() or self._left_by_delegate():
            for op, error in refused.items():
                self._lower(op, error)
        return self._result()

    def _lower(self, op: Op, error: CirclekitError) -> None:
        """Give a refused operator the fallback of its scheme if that stores its weights, else leave it float.

        Only an UnsupportedError has a fallback: a ModelError says that the numbers are the reason.
        """
        scheme, reason = self.scheme_of(op), str(error)
        has_fallback = isinstance(error, UnsupportedError) and scheme.fallback is not None
        if has_fallback and stored_constants(op, SCHEMES[str(scheme.fallback)]):
            self.schemes[op] = SCHEMES[str(scheme.fallback)]
            self.reasons.setdefault(op, reason)
        else:
            self.floats[op] = self.reasons.get(op, reason)

    # -- one round ------------------------------------------------------------------------------

    def _assign(self) -> dict[Op, CirclekitError]:
        """Choose all forms anew; return the operators that cannot be quantized so, with the reasons."""
        self.tensors, self.inner, self.edges = {}, {}, {op: {} for op in self.schemes}
        refused: dict[Op, CirclekitError] = {}
        ops = [op for op in self.schemes if op not in self.floats]
        whole = [op for op in ops if self.scheme_of(op).arithmetic is Arithmetic.INTEGERS]
        steps: list[tuple[Callable[[Op, QuantizationRule], None], list[Op]]] = [
            (self._forward, whole),
            (self._backward, whole[::-1]),
            (self.hold, whole),
            (self.guard, whole),
            (self._weigh, whole),
            (self.weigh_inner, whole),
            (self._store, [op for op in ops if op not in set(whole)]),
            (self._check, ops),
        ]
        for step, among in steps:
            for op in among:
                if op not in refused:
                    try:
                        step(op, self.rule_of(op))
                    except (ModelError, UnsupportedError) as error:
                        refused[op] = error
            if refused:
                return refused
        return refused

    def _forward(self, op: Op, rule: QuantizationRule) -> None:
        """Choose the forms of operands that have none yet, and of the results of ``op``."""
        self.keep_grid(op, rule)
        self.center(op, rule)
        self.widen(op, rule)
        following = set(indices_of(op, rule.operands_follow))
        for index in self.activations(op):
            if index not in following or not is_weight(op.inputs[index]):
                self.read_form(op, index)
        dtype = self.scheme_of(op).activations
        assert dtype is not None  # the scheme is one of integers
        for value in op.results:
            if value.dtype is not f32:
                continue
            if dtype in rule.fixed:
                scale, zero_point = rule.fixed[dtype]
                reason = f"{op.code} always has this scale and zero point"
                self.tensors[value] = TensorPlan(dtype, (scale,), (zero_point,), reason=reason)
            elif rule.results_follow is not None:
                index = next(indices_of(op, [rule.results_follow]))
                self.cover_constants(op, rule, index)
                reason = f"that of %{self.name_of(op, index)}, which {op.code} does not scale"
                self.tensors[value] = self.read_form(op, index).because(reason)
            else:
                scheme = self.scheme_of(op)
                scheme = replace(scheme, asymmetric=False) if rule.symmetric else scheme
                self.tensors[value] = self.own_form(value, scheme, self.least_scale(op, rule))
            self.ranges.setdefault(value.name, covered_range(self.tensors[value]))

    def _backward(self, op: Op, rule: QuantizationRule) -> None:
        """Give operands the form of the result, where the rule of ``op`` says so (``operands_follow``)."""
        states = set(indices_of(op, rule.states))
        following = set(indices_of(op, rule.operands_follow)) - states
        indices = [i for i in sorted(following) if self.reads_float(op, i)]
        if not indices:
            return
        result = next((v for v in op.results if v in self.tensors), None)
        if result is not None:
            target = self.tensors[result].because(f"that of %{result.name}, since {op.code} does not scale")
        else:
            values = [v for v in (op.inputs[i] for i in indices) if v is not None]
            target = self.shared_form(op, values)
        for index in indices:
            value = op.inputs[index]
            assert value is not None
            if value.is_const:
                if np.isnan(value.array()).any():
                    raise ModelError(f"the constant %{value.name} has numbers that are NaN")
                self.edges[op][index] = target
            elif not self.read_form(op, index).same_as(target) and not self._adopt(value, target):
                self.edges[op][index] = target

    def _adopt(self, value: Value, plan: TensorPlan) -> bool:
        """Store ``value`` in the form ``plan``, and return True, if that is possible.

        It is if the value has one use, no given form, and a producer that can produce any scale, or only
        moves elements of a value for which that is true, too.
        """
        op = value.producer
        if value.use_count != 1 or self.graph.is_output(value) or op is None or op in self.floats:
            return False
        if value.name in self.given and not plan.same_as(given_form(self.given[value.name], plan.dtype)):
            return False
        if op not in self.schemes or self.scheme_of(op).activations is not plan.dtype:
            return False
        rule = self.rule_of(op)
        if plan.dtype in rule.fixed or rule.symmetric:
            return False
        if rule.results_follow is not None:
            source = op.inputs[next(indices_of(op, [rule.results_follow]))]
            if len(op.results) > 1 or source is None or source.is_const or not self._adopt(source, plan):
                return False
        self.tensors[value] = plan
        return True

    def _weigh(self, op: Op, rule: QuantizationRule) -> None:
        """Choose the forms of constant weights and of the bias of an operator with integer activations."""
        scheme, bias = self.scheme_of(op), self.bias_of(op, rule)
        assert scheme.bias is not None  # the scheme is one of integers
        if bias is not None and not (bias.is_const and bias.is_plain):
            raise ModelError(f"the bias %{bias.name} is not a plain constant")
        for index in indices_of(op, [*rule.weights, *rule.slopes]):
            value = op.inputs[index]
            assert value is not None
            if is_weight(value):
                axis = rule.weights.get(op.operands[index].name)
                self.edges[op][index] = self._weights(value, self.scheme_at(op, index), axis)
            if bias is None:
                continue
            data = self.read_form(op, next(indices_of(op, [rule.data])))
            if is_weight(value):
                step = self.tensors[op.results[0]].scale[0] / data.scale[0]
                form = finer_form(self.edges[op][index], value.array(), LARGEST_BIAS_STEP * step)
                fitted = fit_bias(form, bias, data, scheme.bias, value.array(), LEAST_MULTIPLIER * step)
                self.edges[op][index] = fitted
            plan = bias_plan(bias, data, self.read_form(op, index), scheme.bias)
            self.edges[op][next(indices_of(op, [str(rule.bias)]))] = plan

    def _weights(self, value: Value, scheme: Scheme, axis: int | None) -> TensorPlan:
        """Return the given form of constant weights if it fits the scheme, else one for their numbers."""
        given = given_form(self.given.get(value.name), scheme.weights)
        if given is not None and fits_weights(given, scheme, axis):
            return given
        return weight_plan(value, scheme, axis)

    def _store(self, op: Op, rule: QuantizationRule) -> None:
        """Choose the forms of the constants of an operator whose activations stay float."""
        scheme, bias = self.scheme_of(op), self.bias_of(op, rule)
        if bias is not None and is_weight(bias):
            finite_numbers(bias)  # refuses NaN
        for index, axis in stored_constants(op, scheme).items():
            value = op.inputs[index]
            assert value is not None
            of_operand = self.scheme_at(op, index)
            plan = block_plan(value, scheme) if scheme.block else weight_plan(value, of_operand, axis)
            if saved_bytes(value, plan, scheme) > 0:
                self.edges[op][index] = plan
        if not self.edges[op]:
            raise ModelError("its constants are so small that the file would grow")

    def _check(self, op: Op, rule: QuantizationRule) -> None:
        """Raise UnsupportedError if the target cannot run the operator as planned, or runs it wrongly."""
        arithmetic = self.scheme_of(op).arithmetic
        if arithmetic is Arithmetic.FLOATS:
            return
        if arithmetic is Arithmetic.DYNAMIC and (fault := op.dynamic_fault()) is not None:
            raise UnsupportedError(fault)
        forms = self._forms_around(op)
        if arithmetic is Arithmetic.INTEGERS:
            fault = planned_op(op, *forms, rule.attributes).integer_fault()
            if fault is not None:
                raise UnsupportedError(fault)
        refusal = trial_refusal(op, *forms, rule.attributes, self.target)
        if refusal is not None:
            raise UnsupportedError(refusal)

    def _forms_around(self, op: Op) -> tuple[dict[int, TensorPlan], dict[int, TensorPlan]]:
        """Return the planned forms of operands and results, by index."""
        operands, results = dict(self.edges[op]), {}
        if self.scheme_of(op).activations is not None:
            operands |= {i: self.read_form(op, i) for i in self.activations(op)}
            results = {i: self.tensors[v] for i, v in enumerate(op.results) if v in self.tensors}
        return operands, results

    def _left_by_delegate(self) -> dict[Op, CirclekitError]:
        """Return the operators that the target's delegate takes as floats, but not as planned.

        Return none if it takes no operator as planned: then the scheme is made for another runtime.
        """
        if not self.target.delegated:
            return {}
        found: dict[Op, CirclekitError] = {}
        is_taken = False
        for op in self.schemes:
            if op in self.floats or self.scheme_of(op).activations is None:
                continue
            planned = planned_op(op, *self._forms_around(op), self.rule_of(op).attributes)
            sentence = self.target.delegate_refusal(planned)
            is_taken |= sentence is None
            if sentence is not None and self.target.delegate_refusal(op) is None:
                found[op] = UnsupportedError(sentence)
        return found if is_taken else {}

    # -- the plan -------------------------------------------------------------------------------

    def _result(self) -> GraphPlan:
        """Return the plan of the forms and schemes that were chosen."""
        plan = GraphPlan()
        for op in self.schemes:
            if op in self.floats:
                plan.operators[key_of(op)] = OperatorPlan(op.code, NO_SCHEME, self.floats[op])
                continue
            scheme = self.scheme_of(op)
            why = self.reasons.get(op) or self.widened.get(op)
            reason = f"{scheme.title}; {why}" if why else scheme.title
            inner = self.inner.get(op, {})
            plan.operators[key_of(op)] = OperatorPlan(op.code, scheme.name, reason, self.edges[op], inner)
        plan.tensors = {value.name: tensor for value, tensor in self.tensors.items()}
        for value in self.graph.values():
            if value.dtype is f32 and not value.is_const and value.name in self.rounded:
                plan.tensors.setdefault(value.name, self.rounded[value.name])
        return plan
