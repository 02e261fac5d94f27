# SPDX-License-Identifier: Apache-2.0
"""The forms of a graph's tensors while its plan is chosen: as they are stored, and as operators read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from circlekit.errors import ModelError, UnsupportedError
from circlekit.ir.dtypes import f32
from circlekit.ir.graph import Graph
from circlekit.ir.op import Op
from circlekit.ir.quantization_rule import OWN_RANGES, QuantizationRule
from circlekit.ir.value import Value
from circlekit.quant.given import (
    add_ranges,
    covered_range,
    fits_activations,
    given_form,
    with_followed,
)
from circlekit.quant.parameters import asymmetric, symmetric
from circlekit.quant.plan import TensorPlan
from circlekit.quant.scheme import Scheme
from circlekit.quant.weights import finite_numbers, indices_of, is_weight, stored_constants
from circlekit.targets.target import Target


class TensorForms:
    """What is known of a graph: the scheme of each operator, ranges, and the forms chosen so far.

    ``given``: forms by name; ``rounded``: those of tensors that are rounded also between float operators.
    ``floats``: the operators that stay float, with the reasons; ``reasons``: why operators got the fallback
    of their scheme.  ``tensors``: the forms in which tensors are stored; ``edges``: by operator and then by
    index, the form of an operand that is read in another one.
    """

    def __init__(
        self,
        graph: Graph,
        ranges: Mapping[str, tuple[float, float]],
        schemes: Mapping[Op, Scheme | None],
        target: Target,
        given: Mapping[str, TensorPlan],
    ) -> None:
        self.graph, self.target, self.given = graph, target, with_followed(graph, given)
        self.rounded = {name: form for name, form in given.items() if form.rounds}
        self.ranges = {**ranges, **{name: covered_range(form) for name, form in self.given.items()}}
        if given:
            add_ranges(graph, self.ranges)
        self.schemes = {op: schemes.get(op) for op in graph if _concerns(op, schemes.get(op))}
        self.floats: dict[Op, str] = {}
        self.reasons: dict[Op, str] = {}
        self.tensors: dict[Value, TensorPlan] = {}
        self.edges: dict[Op, dict[int, TensorPlan]] = {}

    def read_form(self, op: Op, index: int) -> TensorPlan:
        """Return the form in which ``op`` reads operand ``index``; choose it if there is none yet."""
        if index in self.edges[op]:
            return self.edges[op][index]
        value = op.inputs[index]
        assert value is not None
        scheme = self.scheme_of(op)
        if value.is_const:
            plan = self.edges[op][index] = self.constant_form(value, scheme)
            return plan
        plan = self.tensors.get(value) or self.own_form(value, scheme)
        self.tensors.setdefault(value, plan)
        if plan.dtype is not scheme.activations:
            plan = self.edges[op][index] = self.own_form(value, scheme)
        return plan

    def own_form(self, value: Value, scheme: Scheme, least_scale: float = 0.0) -> TensorPlan:
        """Return the given form of ``value`` if the scheme takes it, else the form for its observed range.

        The range is widened until the scale is ``least_scale``.  Raise UnsupportedError if there is no range,
        or if the scale of a given form is less; ModelError if the range is too small for a scale.
        """
        given = given_form(self.given.get(value.name), scheme.activations)
        if given is not None and fits_activations(given, scheme):
            if given.scale[0] < least_scale:
                raise UnsupportedError(f"the steps of %{value.name} are finer than the kernel can compute")
            return given
        if value.name not in self.ranges:
            raise UnsupportedError(f"%{value.name} has no range: calibration did not observe it")
        low, high = self.ranges[value.name]
        reason = f"covers its range [{low:.4g}, {high:.4g}]"
        if distance := self._mask_distance(value, low):
            low, reason = low - distance, f"{reason}, and masks at {distance:g} below it"
        plan = covering(low, high, scheme, reason)
        if plan.scale[0] >= least_scale or low == high == 0:
            return plan
        wider = least_scale / plan.scale[0]
        reason = f"{plan.reason}, {wider:.3g} times: finer steps cannot be computed from the operands"
        return covering(low * wider, high * wider, scheme, reason)

    def _mask_distance(self, value: Value, low: float) -> float:
        """Return how far below ``low`` masks in ``value`` have to be; 0 if there are none."""
        distance = max((self.rule_of(op).mask_distance for op in value.users), default=0.0)
        masks = [v for v in (value.producer.inputs if value.producer else ()) if is_weight(v)]
        is_masked = any(v is not None and v.array().min(initial=low) < low - distance for v in masks)
        return distance if is_masked else 0.0

    def constant_form(self, value: Value, scheme: Scheme) -> TensorPlan:
        """Return the form that covers a constant; ModelError if it is packed, sparse, NaN or infinite."""
        if not value.is_plain:
            raise ModelError(f"the constant %{value.name} is packed or sparse")
        numbers = finite_numbers(value)
        low, high = float(numbers.min(initial=0)), float(numbers.max(initial=0))
        return covering(low, high, scheme, f"covers the constant, {low:.4g} to {high:.4g}")

    def shared_form(self, op: Op, values: Sequence[Value]) -> TensorPlan:
        """Return one form for all ``values``, which ``op`` compares as integers."""
        ranges = [
            (float(v.array().min()), float(v.array().max())) if v.is_const else self.ranges[v.name]
            for v in values
        ]
        low, high = min(r[0] for r in ranges), max(r[1] for r in ranges)
        return covering(
            low, high, self.scheme_of(op), f"covers all operands of {op.code}, which compares integers"
        )

    def range_of(self, op: Op, index: int) -> tuple[float, float]:
        """Return the range of operand ``index``; of an empty constant (inf, -inf)."""
        value = op.inputs[index]
        assert value is not None
        if value.is_const:
            return float(value.array().min(initial=np.inf)), float(value.array().max(initial=-np.inf))
        return self.ranges[value.name]

    def scheme_of(self, op: Op) -> Scheme:
        """Return the scheme of an operator that the user did not choose to stay float."""
        scheme = self.schemes[op]
        assert scheme is not None  # callers skip float operators
        return scheme

    def rule_of(self, op: Op) -> QuantizationRule:
        return op.quantization_rule or OWN_RANGES  # only constants are stored of operators without a rule

    def activations(self, op: Op) -> list[int]:
        """Return the indices of float operands that are neither constant weights nor biases."""
        rule = self.rule_of(op)
        biases = set(indices_of(op, [rule.bias] if rule.bias else []))
        weights = set(indices_of(op, [*rule.weights, *rule.slopes]))
        return [
            i
            for i in range(len(op.inputs))
            if self.reads_float(op, i) and i not in biases and not (i in weights and is_weight(op.inputs[i]))
        ]

    def reads_float(self, op: Op, index: int) -> bool:
        value = op.inputs[index]
        return value is not None and value.dtype is f32

    def bias_of(self, op: Op, rule: QuantizationRule) -> Value | None:
        """Return the bias that the rule names; None if there is none."""
        return getattr(op, rule.bias) if rule.bias is not None else None

    def name_of(self, op: Op, index: int) -> str:
        value = op.inputs[index]
        return value.name if value is not None else "?"


def _concerns(op: Op, scheme: Scheme | None) -> bool:
    """Return whether a plan has anything to say of ``op``."""
    has_floats = any(v is not None and v.dtype is f32 for v in (*op.inputs, *op.results))
    if scheme is None or scheme.activations is not None:
        return has_floats
    return bool(stored_constants(op, scheme))


def covering(low: float, high: float, scheme: Scheme, reason: str) -> TensorPlan:
    """Return the form of activations of ``scheme`` that covers a range; ModelError if it has no scale."""
    assert scheme.activations is not None
    formula = asymmetric if scheme.asymmetric else symmetric
    scale, zero_point = formula(low, high, scheme.activations)
    return TensorPlan(scheme.activations, (scale,), (zero_point,), reason=reason)
