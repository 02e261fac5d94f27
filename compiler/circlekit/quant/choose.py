# SPDX-License-Identifier: Apache-2.0
"""Choose the plan of a float model from the ranges of its tensors.

Every tensor gets a form (dtype, scales, zero points) that covers its range, unless the quantization rule of
an operator demands another form.  An operator is refused if its numbers cannot be quantized, or if the target
cannot run it in these forms.  A refused operator gets the fallback of its scheme, or stays float.  Then its
neighbors may need other forms, so all forms are chosen again until no operator is refused.

The stored form of a tensor is its own form.  A read form is the form in which an operator reads the tensor;
where the two differ, a QUANTIZE before the operator converts the integers.  A given form is one that the
caller passes: the tensor had it before planning, for example in training.  The kernel of an operator misses
the grid (the numbers) of a given form if its result is off by more than one step.  Activations are tensors
other than weights and biases.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from circlekit.errors import CirclekitError, ModelError, UnsupportedError
from circlekit.ir.dtypes import f32
from circlekit.ir.graph import Model
from circlekit.ir.op import Op
from circlekit.ir.quantization_rule import QuantizationRule
from circlekit.ir.value import Value
from circlekit.quant.forms.constant_forms import ConstantForms
from circlekit.quant.forms.given_forms import covered_range, given_form
from circlekit.quant.plan import GraphPlan, OperatorPlan, Plan, TensorForm, key_of
from circlekit.quant.planned_op import conversion_refusal, planned_op, target_refusal
from circlekit.quant.scheme import NO_SCHEME, SCHEMES, Arithmetic, Scheme
from circlekit.quant.weights import (
    indices_of,
    is_computed_float,
    is_float,
    is_weight,
    present_operand,
    stored_constants,
)
from circlekit.targets.target import Target, find_target

Ranges = Sequence[Mapping[str, tuple[float, float]]]
"""For each graph, in their order: {name of a tensor: (min, max)}."""


def choose(
    model: Model,
    ranges: Ranges,
    schemes: Mapping[Op, Scheme | None],
    scheme: str,
    target: Target | None = None,
    given: Sequence[Mapping[str, TensorForm]] = (),
) -> Plan:
    """Return the plan of the float ``model``, which is not changed.

    ``ranges``: see ``Ranges``.  An operator is refused if a tensor whose range it needs has none.
    ``schemes``: the scheme of each operator, None for float (see ``operator_selection.schemes_of``).
    ``scheme``: the name of the default scheme; it is only recorded in the plan.
    ``target``: the runtime that has to run the quantized model; None: LiteRT.
    ``given``: for each graph, in their order, the forms of some tensors and constants by name.  A tensor gets
    its given form if that fits the scheme, else a form that covers the same range.
    """
    target = target or find_target("litert")
    plan = Plan(scheme)
    for index, graph in enumerate(model.graphs):
        known = ranges[index] if index < len(ranges) else {}
        forms = given[index] if index < len(given) else {}
        plan.graphs.append(GraphChooser(graph, known, schemes, target, forms).plan())
    return plan


class GraphChooser(ConstantForms):
    """Chooses the plan of one graph.

    The base class ``TensorForms`` has the attributes, and chooses the form of one tensor.  The base class
    ``KernelForms`` chooses forms that suit the kernel of one operator; ``ConstantForms`` chooses the forms of
    weights and biases.
    """

    def plan(self) -> GraphPlan:
        """Return the plan of the graph; the target has a kernel for every quantized operator in it."""
        self.widened, self.refined, self.tried = {}, set(), {}
        for op, scheme in self.schemes.items():
            if scheme is None:
                self.floats[op] = "chosen to stay float"
            elif op.called_graphs():
                self.floats[op] = "the graphs that it calls are quantized, but take and return floats"
            elif op.quantization_rule is None and scheme.activations is not None:
                self.floats[op] = self._without_rule(op)
        # repeat until no operator is refused and no kernel misses a grid; each round changes an operator
        while (refused := self._choose_all() or self._refused_by_delegate()) or self._mend_kernels():
            for op, error in refused.items():
                self._fall_back(op, error)
        return self._result()

    def _without_rule(self, op: Op) -> str:
        """Return why ``op``, which has no quantization rule, stays float."""
        # a form in a target's table lists the dtypes of operands and of results, such as "i8,i8:i8"
        forms = self.target.operators.get(op.code, {}).get("forms", "any")
        if forms != "any" and any("i8" in form.split(":")[0] for form in forms):
            return f"kernels of {op.code} compute with the stored integers and ignore scale and zero point"
        return f"{self.target.title} has no integer kernel of {op.code}"

    def _fall_back(self, op: Op, error: CirclekitError) -> None:
        """Give the refused ``op`` the fallback of its scheme, or let it stay float.

        ``op`` gets the fallback if ``error`` is an UnsupportedError (the target lacks a kernel, or a tensor
        has no range) and if the fallback would quantize at least one constant of ``op``.  After a ModelError,
        ``op`` stays float, because its numbers cannot be quantized.
        """
        scheme, reason = self.scheme_of(op), str(error)
        if scheme.arithmetic is Arithmetic.INTEGERS:
            reason = op.integer_fault() or reason
        has_fallback = isinstance(error, UnsupportedError) and scheme.fallback is not None
        if has_fallback and stored_constants(op, SCHEMES[str(scheme.fallback)]):
            self.schemes[op] = replace(SCHEMES[str(scheme.fallback)], least_elements=0)
            self.reasons.setdefault(op, reason)
        else:
            self.floats[op] = self.reasons.get(op, reason)

    # -- one round ------------------------------------------------------------------------------

    def _choose_all(self) -> dict[Op, CirclekitError]:
        """Choose all forms again; return the refused operators, with the reasons.

        Each step needs the forms of the step before.  So the round ends after the first step that refuses an
        operator.
        """
        self.tensors, self.inner, self.operand_forms = {}, {}, {op: {} for op in self.schemes}
        refused: dict[Op, CirclekitError] = {}
        ops = [op for op in self.schemes if op not in self.floats]
        by_integers = [op for op in ops if self.scheme_of(op).arithmetic is Arithmetic.INTEGERS]
        others = [op for op in ops if self.scheme_of(op).arithmetic is not Arithmetic.INTEGERS]
        steps: list[tuple[Callable[[Op, QuantizationRule], None], list[Op]]] = [
            (self._choose_results, by_integers),
            (self._choose_operands, by_integers[::-1]),
            (self.choose_inner_forms, by_integers),
            (self.avoid_faults, by_integers),
            (self.choose_weights, by_integers),
            (self.choose_inner_biases, by_integers),
            (self.choose_stored_constants, others),
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

    def _choose_results(self, op: Op, rule: QuantizationRule) -> None:
        """Choose the stored forms of the results of ``op``, and the forms of operands that have none yet."""
        self.refine_operands(op)
        self.read_on_result_grid(op, rule)
        self.read_without_zero_point(op, rule)
        self.widen(op, rule)
        following = set(indices_of(op, rule.operands_follow))
        for index in self.activations(op):
            if index not in following or not is_weight(op.inputs[index]):
                self.read_form(op, index)  # chooses the form if there is none yet
        dtype = self.scheme_of(op).activations
        assert dtype is not None  # the caller skips operators with float activations
        for value in op.results:
            if value.dtype is not f32:
                continue
            if dtype in rule.fixed:
                scale, zero_point = rule.fixed[dtype]
                reason = f"{op.code} always has this scale and zero point"
                self.tensors[value] = TensorForm(dtype, (scale,), (zero_point,), reason=reason)
            elif rule.results_follow is not None:
                index = next(indices_of(op, [rule.results_follow]))
                self.cover_constants(op, rule, index)
                source = self.name_of(op, index)
                reason = f"the form of %{source}, because {op.code} does not requantize its operand"
                self.tensors[value] = self.read_form(op, index).because(reason)
            else:
                scheme = self.scheme_of(op)
                scheme = replace(scheme, asymmetric=False) if rule.symmetric else scheme
                self.tensors[value] = self.own_form(value, scheme, self.least_scale(op, rule))
            self.ranges.setdefault(value.name, covered_range(self.tensors[value]))

    def _choose_operands(self, op: Op, rule: QuantizationRule) -> None:
        """Give the operands in ``rule.operands_follow`` the form of the first result that has one.

        If no result has a form, give them one form that covers all of them.
        """
        states = set(indices_of(op, rule.states))
        following = set(indices_of(op, rule.operands_follow)) - states
        indices = [i for i in sorted(following) if self.reads_float(op, i)]
        if not indices:
            return
        result = next((v for v in op.results if v in self.tensors), None)
        if result is not None:
            reason = f"the form of %{result.name}, because {op.code} does not requantize its operands"
            form = self.tensors[result].because(reason)
        else:
            form = self.shared_form(op, [present_operand(op, i) for i in indices])
        for index in indices:
            value = present_operand(op, index)
            if value.is_const:
                if np.isnan(value.array()).any():
                    raise ModelError(f"the constant %{value.name} has numbers that are NaN")
                self.operand_forms[op][index] = form
            elif not self.read_form(op, index).same_as(form) and not self._try_store(value, form):
                self.operand_forms[op][index] = form  # ``form`` cannot be stored: a QUANTIZE is needed

    def _try_store(self, value: Value, form: TensorForm) -> bool:
        """Make ``form`` the stored form of ``value`` if that is possible; return whether it is.

        These conditions must hold:

        - The value has one use, is not an output, and has no given form other than ``form``.
        - Its producer has activations of the dtype of ``form``, and can produce any scale and zero point.
        - If the result of the producer must have the form of an operand (``results_follow``), the producer
          has one result, and the operand fulfills these conditions, too.  It then gets ``form``.
        """
        values = []  # those that get ``form``
        while (producer := self._free_producer(value, form)) is not None:
            values.append(value)
            rule = self.rule_of(producer)
            if rule.results_follow is None:
                self.tensors.update(dict.fromkeys(reversed(values), form))
                return True
            value = present_operand(producer, next(indices_of(producer, [rule.results_follow])))
            if len(producer.results) > 1 or value.is_const:
                break
        return False

    def _free_producer(self, value: Value, form: TensorForm) -> Op | None:
        """Return the producer of ``value``; None if one of the conditions of ``_try_store`` excludes it.

        The operand that the producer may have to follow is not examined.
        """
        op = value.producer
        if value.use_count != 1 or self.graph.is_output(value) or op is None or op in self.floats:
            return None
        if value.name in self.given and not form.same_as(given_form(self.given[value.name], form.dtype)):
            return None
        if op not in self.schemes or self.scheme_of(op).activations is not form.dtype:
            return None
        rule = self.rule_of(op)
        return None if form.dtype in rule.fixed or rule.symmetric else op

    def _check(self, op: Op, rule: QuantizationRule) -> None:
        """Raise UnsupportedError if the target cannot run ``op`` with the chosen forms.

        Either the target has no kernel for these forms, or the kernel is faulty, or the target cannot convert
        an operand from its stored form to the form in which ``op`` reads it.
        """
        arithmetic = self.scheme_of(op).arithmetic
        if arithmetic is Arithmetic.FLOATS:
            return  # the float kernel runs, as before quantization
        if arithmetic is Arithmetic.DYNAMIC and (fault := op.dynamic_fault()) is not None:
            raise UnsupportedError(fault)
        forms = self._forms_around(op)
        if arithmetic is Arithmetic.INTEGERS:
            fault = planned_op(op, *forms, rule.attributes).integer_fault()
            if fault is not None:
                raise UnsupportedError(fault)
        refusals = [
            target_refusal(op, *forms, rule.attributes, self.target),
            *self._conversion_refusals(op, forms[0]),
        ]
        for refusal in filter(None, refusals):
            raise UnsupportedError(refusal)

    def _conversion_refusals(self, op: Op, operands: dict[int, TensorForm]) -> Iterator[str | None]:
        """Yield for each operand why the target cannot convert it to the form that ``op`` reads, or None.

        ``operands``: the forms in which ``op`` reads its operands, by index.
        """
        for index in self.activations(op) if self.scheme_of(op).activations is not None else ():
            value = present_operand(op, index)
            stored = self.rounded.get(value.name) or self.tensors.get(value)
            if stored is not None and not value.is_const:
                yield conversion_refusal(stored, operands[index], self.target)

    def _forms_around(self, op: Op) -> tuple[dict[int, TensorForm], dict[int, TensorForm]]:
        """Return the chosen forms of the operands and of the results of ``op``: two dicts by index."""
        operands, results = dict(self.operand_forms[op]), {}
        if self.scheme_of(op).activations is not None:
            operands |= {i: self.read_form(op, i) for i in self.activations(op)}
            results = {i: self.tensors[v] for i, v in enumerate(op.results) if v in self.tensors}
        return operands, results

    def _refused_by_delegate(self) -> dict[Op, CirclekitError]:
        """Return the operators that the target's delegate takes as float operators, but not as planned.

        A delegate (such as XNNPACK) is a faster program to which the target hands some operators.  The dict
        has the reasons.  It is empty if the delegate takes none of the planned operators: then the plan is
        not meant for the delegate, and leaving operators float would not help.
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

    def _mend_kernels(self) -> bool:
        """Choose finer forms for operators whose kernels miss the grid of a given form (``kernel_fault``).

        An operator for which there are no finer forms stays float.  Return whether such kernels were found.
        """
        found = {}
        for op in self.schemes if self.given else ():
            if op not in self.floats and self.scheme_of(op).arithmetic is Arithmetic.INTEGERS:
                fault = self.kernel_fault(op, *self._forms_around(op))
                if fault is not None:
                    found[op] = fault
        for op, fault in found.items():
            if not self.make_finer(op, fault):
                self.floats[op] = fault
        return bool(found)

    # -- the plan -------------------------------------------------------------------------------

    def _result(self) -> GraphPlan:
        """Return the plan with the chosen forms and schemes."""
        plan = GraphPlan()
        for op in self.schemes:
            if op in self.floats:
                plan.operators[key_of(op)] = OperatorPlan(op.code, NO_SCHEME, self.floats[op])
                continue
            scheme = self.scheme_of(op)
            why = self.reasons.get(op) or self.widened.get(op)
            reason = f"{scheme.title}; {why}" if why else scheme.title
            inner = self.inner.get(op, {})
            plan.operators[key_of(op)] = OperatorPlan(
                op.code, scheme.name, reason, self.operand_forms[op], inner
            )
        plan.tensors = {value.name: form for value, form in self.tensors.items()}
        # tensors that training rounded are rounded between float operators, too
        for value in self.graph.values():
            if is_computed_float(value) and value.name in self.rounded:
                plan.tensors.setdefault(value.name, self.rounded[value.name])
        # a float input gets its given form, such as that of the QUANTIZE that reads it
        for value in self.graph.inputs:
            if is_float(value) and value.name in self.given:
                plan.tensors.setdefault(value.name, self.given[value.name])
        return plan
