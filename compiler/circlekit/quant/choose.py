# SPDX-License-Identifier: Apache-2.0
"""Choose: from a float model and the ranges of its tensors to a plan, by the rules of the operators.

Every tensor gets the parameters of its own range, unless the rule of an operator says otherwise.  What the
target cannot run as integers stays float; because that changes what its neighbors need, choosing is repeated
until no operator is refused any more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from circlekit.errors import ModelError
from circlekit.ir.dtypes import f32
from circlekit.ir.graph import Graph, Model
from circlekit.ir.op import Op
from circlekit.ir.quantization_rule import OWN_RANGES, QuantizationRule
from circlekit.ir.value import Value
from circlekit.quant.given import add_ranges, covered_range, fits_activations, fits_weights, given_form
from circlekit.quant.parameters import asymmetric, symmetric
from circlekit.quant.plan import GraphPlan, OperatorPlan, Plan, TensorPlan, key_of
from circlekit.quant.scheme import NO_SCHEME, SCHEMES, Arithmetic, Scheme
from circlekit.quant.trial import trial_refusal
from circlekit.quant.weights import (
    bias_plan,
    block_plan,
    fit_bias,
    indices_of,
    is_weight,
    saved_bytes,
    stored_constants,
    weight_plan,
)
from circlekit.targets.target import Target, find_target

Ranges = Sequence[Mapping[str, tuple[float, float]]]
"""For each graph in order: the range (min, max) of a tensor by its name."""

STEPS_FROM_ZERO = 4
"""A number counts as surely other than 0 if it is this many steps away."""


def choose(
    model: Model,
    ranges: Ranges,
    schemes: Mapping[Op, Scheme | None],
    scheme: str,
    target: Target | None = None,
    given: Sequence[Mapping[str, TensorPlan]] = (),
) -> Plan:
    """Return the plan of ``model``, which is not changed.

    ``schemes``: of each operator, None for float (see ``selection.schemes_of``).  ``scheme``: the name that
    the plan gets.  ``target``: the runtime that has to run the result; by default LiteRT.
    ``given``: for each graph, the forms of tensors by name, constants included, which they get if their
    scheme has the dtype; else they cover the same range.
    """
    target = target or find_target("litert")
    plan = Plan(scheme)
    for index, graph in enumerate(model.graphs):
        known = ranges[index] if index < len(ranges) else {}
        forms = given[index] if index < len(given) else {}
        plan.graphs.append(GraphChooser(graph, known, schemes, target, forms).plan())
    return plan


class GraphChooser:
    """Chooses the plan of one graph.

    ``floats``: the operators that stay float, with the reasons; ``reasons``: those of operators that got the
    fallback of their scheme.  ``tensors``: the forms in which tensors are
    stored; ``edges``: by operator and then by index, operands that are read in another form.
    """

    def __init__(
        self,
        graph: Graph,
        ranges: Mapping[str, tuple[float, float]],
        schemes: Mapping[Op, Scheme | None],
        target: Target,
        given: Mapping[str, TensorPlan],
    ) -> None:
        self.graph, self.target, self.given = graph, target, given
        self.ranges = {**ranges, **{name: covered_range(form) for name, form in given.items()}}
        if given:
            add_ranges(graph, self.ranges)
        self.schemes = {op: schemes.get(op) for op in graph if _concerns(op, schemes.get(op))}
        self.floats: dict[Op, str] = {}
        self.reasons: dict[Op, str] = {}
        self.tensors: dict[Value, TensorPlan] = {}
        self.edges: dict[Op, dict[int, TensorPlan]] = {}

    def plan(self) -> GraphPlan:
        """Return the plan: repeat until no operator is refused."""
        for op, scheme in self.schemes.items():
            if scheme is None:
                self.floats[op] = "chosen to stay float"
            elif op.quantization_rule is None and scheme.activations is not None:
                self.floats[op] = f"{self.target.title} has no integer kernel of {op.code}"
        while refused := self._assign():
            for op, reason in refused.items():
                self._lower(op, reason)
        return self._result()

    def _lower(self, op: Op, reason: str) -> None:
        """Give a refused operator the fallback of its scheme, if it has weights; else it stays float."""
        scheme = self._scheme(op)
        if scheme.fallback is not None and stored_constants(op, SCHEMES[scheme.fallback]):
            self.schemes[op] = SCHEMES[scheme.fallback]
            self.reasons.setdefault(op, reason)
        else:
            self.floats[op] = self.reasons.get(op, reason)

    # -- one round ------------------------------------------------------------------------------

    def _assign(self) -> dict[Op, str]:
        """Choose all parameters, and return the operators that turn out not to be possible, with reasons."""
        self.tensors, self.edges = {}, {op: {} for op in self.schemes}
        refused: dict[Op, str] = {}
        ops = [op for op in self.schemes if op not in self.floats]
        whole = [op for op in ops if self._scheme(op).arithmetic is Arithmetic.INTEGERS]
        steps: list[tuple[Callable[[Op, QuantizationRule], None], list[Op]]] = [
            (self._forward, whole),
            (self._backward, whole[::-1]),
            (self._guard, whole),
            (self._weigh, whole),
            (self._store, [op for op in ops if op not in set(whole)]),
            (self._check, ops),
        ]
        for step, among in steps:
            for op in among:
                if op not in refused:
                    try:
                        step(op, self._rule(op))
                    except ModelError as error:
                        refused[op] = str(error)
            if refused:
                return refused
        return refused

    def _forward(self, op: Op, rule: QuantizationRule) -> None:
        """Choose the forms of the operands that have none yet, and of the results."""
        for index in self._activations(op):
            self._use(op, index)
        dtype = self._scheme(op).activations
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
                source = op.inputs[index]
                reason = f"that of %{source and source.name}, which {op.code} does not scale"
                self.tensors[value] = self._use(op, index).because(reason)
            else:
                self.tensors[value] = self._own(value, self._scheme(op))

    def _backward(self, op: Op, rule: QuantizationRule) -> None:
        """Give operands the form of the result, where the rule asks for it."""
        indices = [i for i in indices_of(op, rule.operands_follow) if self._is_float(op, i)]
        if not indices:
            return
        result = next((v for v in op.results if v in self.tensors), None)
        if result is not None:
            target = self.tensors[result].because(f"that of %{result.name}, since {op.code} does not scale")
        else:
            values = [v for v in (op.inputs[i] for i in indices) if v is not None]
            target = self._shared(op, values)
        for index in indices:
            value = op.inputs[index]
            assert value is not None
            if value.is_const or not (self._use(op, index).same_as(target) or self._adopt(value, target)):
                self.edges[op][index] = target

    def _adopt(self, value: Value, plan: TensorPlan) -> bool:
        """Store ``value``, and what it only moves, in the form ``plan``; False if that is not possible.

        It is where nothing else reads it, and its producer can produce any scale.
        """
        op = value.producer
        if value.use_count != 1 or self.graph.is_output(value) or op is None or op in self.floats:
            return False
        if op not in self.schemes or self._scheme(op).activations is not plan.dtype:
            return False
        rule = self._rule(op)
        if plan.dtype in rule.fixed or rule.symmetric:
            return False
        if rule.results_follow is not None:
            source = op.inputs[next(indices_of(op, [rule.results_follow]))]
            if len(op.results) > 1 or source is None or source.is_const or not self._adopt(source, plan):
                return False
        self.tensors[value] = plan
        return True

    def _guard(self, op: Op, rule: QuantizationRule) -> None:
        """Keep zero points and integers away that a kernel ignores, or fails on."""
        for index in indices_of(op, rule.symmetric):
            if self._is_float(op, index) and any(self._use(op, index).zero_point):
                raise ModelError(f"{op.code} ignores the zero point of %{self._name(op, index)}")
        for index in indices_of(op, rule.not_negative):
            plan = self._use(op, index)
            low, high = self._range(op, index)
            if plan.zero_point[0] == plan.dtype.limits[0]:
                continue
            if self._scheme(op).asymmetric:
                scale, zero_point = asymmetric(0.0, high, plan.dtype)
                reason = f"without negative numbers, on which {op.code} fails"
                self.edges[op][index] = TensorPlan(plan.dtype, (scale,), (zero_point,), reason=reason)
            elif low < STEPS_FROM_ZERO * plan.scale[0]:
                raise ModelError(f"{op.code} fails on negative integers, and {low:.4g} is too close to 0")
        for index in indices_of(op, rule.not_zero):
            step = STEPS_FROM_ZERO * self._use(op, index).scale[0]
            low, high = self._range(op, index)
            if low < step and high > -step:
                raise ModelError(
                    f"{op.code} fails on the integer of 0, and %{self._name(op, index)} is near it"
                )

    def _weigh(self, op: Op, rule: QuantizationRule) -> None:
        """Choose the forms of constant weights, and of the bias, of an operator on integers."""
        scheme, bias = self._scheme(op), self._bias(op, rule)
        assert scheme.bias is not None  # the scheme is one of integers
        if bias is not None and not (bias.is_const and bias.is_plain):
            raise ModelError(f"the bias %{bias.name} is not a plain constant")
        for index in indices_of(op, rule.weights):
            value = op.inputs[index]
            assert value is not None
            if is_weight(value):
                self.edges[op][index] = self._weights(value, scheme, rule.weights[op.operands[index].name])
            if bias is None:
                continue
            data = self._use(op, next(indices_of(op, [rule.data])))
            if is_weight(value):
                fitted = fit_bias(self.edges[op][index], bias, data, scheme.bias, value.array())
                self.edges[op][index] = fitted
            plan = bias_plan(data, self._use(op, index), scheme.bias)
            self.edges[op][next(indices_of(op, [str(rule.bias)]))] = plan

    def _weights(self, value: Value, scheme: Scheme, axis: int | None) -> TensorPlan:
        """Return the form of constant weights: the given one if there is one that fits."""
        given = given_form(self.given.get(value.name), scheme.weights)
        if given is not None and fits_weights(given, scheme, axis):
            return given
        return weight_plan(value, scheme, axis)

    def _store(self, op: Op, rule: QuantizationRule) -> None:
        """Choose the forms of the constants of an operator whose activations stay float."""
        scheme = self._scheme(op)
        for index, axis in stored_constants(op, scheme).items():
            value = op.inputs[index]
            assert value is not None
            plan = block_plan(value, scheme) if scheme.block else weight_plan(value, scheme, axis)
            if saved_bytes(value, plan, scheme) > 0:
                self.edges[op][index] = plan
        if not self.edges[op]:
            raise ModelError("its constants are so small that the file would grow")

    def _check(self, op: Op, rule: QuantizationRule) -> None:
        """Raise ModelError if the target cannot run the operator as planned."""
        scheme = self._scheme(op)
        if scheme.arithmetic is Arithmetic.FLOATS:
            return
        operands, results = dict(self.edges[op]), {}
        if scheme.activations is not None:
            operands |= {i: self._use(op, i) for i in self._activations(op)}
            results = {i: self.tensors[v] for i, v in enumerate(op.results) if v in self.tensors}
        refusal = trial_refusal(op, operands, results, rule.attributes, self.target)
        if refusal is not None:
            raise ModelError(refusal)

    # -- forms of single tensors ----------------------------------------------------------------

    def _use(self, op: Op, index: int) -> TensorPlan:
        """Return the form in which ``op`` reads operand ``index``; choose it if there is none yet."""
        if index in self.edges[op]:
            return self.edges[op][index]
        value = op.inputs[index]
        assert value is not None
        scheme = self._scheme(op)
        if value.is_const:
            plan = self.edges[op][index] = self._constant(value, scheme)
            return plan
        plan = self.tensors.get(value) or self._own(value, scheme)
        self.tensors.setdefault(value, plan)
        if plan.dtype is not scheme.activations:
            plan = self.edges[op][index] = self._own(value, scheme)
        return plan

    def _own(self, value: Value, scheme: Scheme) -> TensorPlan:
        """Return the form for the observed range of ``value``; ModelError if there is none."""
        given = given_form(self.given.get(value.name), scheme.activations)
        if given is not None and fits_activations(given, scheme):
            return given
        if value.name not in self.ranges:
            raise ModelError(f"%{value.name} has no range: calibration did not observe it")
        low, high = self.ranges[value.name]
        return _covering(low, high, scheme, f"covers its range [{low:.4g}, {high:.4g}]")

    def _constant(self, value: Value, scheme: Scheme) -> TensorPlan:
        if not value.is_plain:
            raise ModelError(f"the constant %{value.name} is packed or sparse")
        numbers = value.array()
        if not np.isfinite(numbers).all():
            raise ModelError(f"the constant %{value.name} has numbers that are NaN or infinite")
        low, high = float(numbers.min(initial=0)), float(numbers.max(initial=0))
        return _covering(low, high, scheme, f"covers the constant, {low:.4g} to {high:.4g}")

    def _shared(self, op: Op, values: Sequence[Value]) -> TensorPlan:
        """Return one form for all ``values``, which ``op`` compares as integers."""
        ranges = [
            (float(v.array().min()), float(v.array().max())) if v.is_const else self.ranges[v.name]
            for v in values
        ]
        low, high = min(r[0] for r in ranges), max(r[1] for r in ranges)
        return _covering(
            low, high, self._scheme(op), f"covers all operands of {op.code}, which compares integers"
        )

    def _range(self, op: Op, index: int) -> tuple[float, float]:
        value = op.inputs[index]
        assert value is not None
        if value.is_const:
            return float(value.array().min(initial=np.inf)), float(value.array().max(initial=-np.inf))
        return self.ranges[value.name]

    # -- operators ------------------------------------------------------------------------------

    def _scheme(self, op: Op) -> Scheme:
        scheme = self.schemes[op]
        assert scheme is not None  # it is not float
        return scheme

    def _rule(self, op: Op) -> QuantizationRule:
        return op.quantization_rule or OWN_RANGES  # only constants are stored of operators without a rule

    def _activations(self, op: Op) -> list[int]:
        """Return the indices of float operands that are neither constant weights nor biases."""
        rule = self._rule(op)
        biases = set(indices_of(op, [rule.bias] if rule.bias else []))
        weights = set(indices_of(op, rule.weights))
        return [
            i
            for i in range(len(op.inputs))
            if self._is_float(op, i) and i not in biases and not (i in weights and is_weight(op.inputs[i]))
        ]

    def _is_float(self, op: Op, index: int) -> bool:
        value = op.inputs[index]
        return value is not None and value.dtype is f32

    def _bias(self, op: Op, rule: QuantizationRule) -> Value | None:
        return getattr(op, rule.bias) if rule.bias is not None else None

    def _name(self, op: Op, index: int) -> str:
        value = op.inputs[index]
        return value.name if value is not None else "?"

    # -- the plan -------------------------------------------------------------------------------

    def _result(self) -> GraphPlan:
        plan = GraphPlan()
        for op in self.schemes:
            if op in self.floats:
                plan.operators[key_of(op)] = OperatorPlan(op.code, NO_SCHEME, self.floats[op])
                continue
            scheme = self._scheme(op)
            reason = scheme.title + (f"; {self.reasons[op]}" if op in self.reasons else "")
            attributes = dict(rule.attributes) if (rule := op.quantization_rule) else {}
            plan.operators[key_of(op)] = OperatorPlan(
                op.code, scheme.name, reason, self.edges[op], attributes
            )
        plan.tensors = {value.name: tensor for value, tensor in self.tensors.items()}
        return plan


def _concerns(op: Op, scheme: Scheme | None) -> bool:
    """Return whether a plan has anything to say of ``op``."""
    has_floats = any(v is not None and v.dtype is f32 for v in (*op.inputs, *op.results))
    if scheme is None or scheme.activations is not None:
        return has_floats
    return bool(stored_constants(op, scheme))


def _covering(low: float, high: float, scheme: Scheme, reason: str) -> TensorPlan:
    assert scheme.activations is not None
    formula = asymmetric if scheme.asymmetric else symmetric
    scale, zero_point = formula(low, high, scheme.activations)
    return TensorPlan(scheme.activations, (scale,), (zero_point,), reason=reason)
