# SPDX-License-Identifier: Apache-2.0
"""The forms of a graph's tensors while its plan is chosen: stored forms, and those in which operators read.

A form is a ``TensorPlan``: dtype, scales and zero points.
"""

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
from circlekit.quant.weights import (
    biases_of,
    finite_numbers,
    indices_of,
    is_weight,
    operand_scheme,
    stored_constants,
)
from circlekit.targets.target import Target

INFINITE_FACTOR = 256
"""A constant this many times as large as all other numbers stands for infinity: it only wins or loses
comparisons."""


class TensorForms:
    """The schemes of operators, the ranges, and the forms chosen so far for one graph.

    ``ranges``, ``schemes``, ``target``, ``given``: see ``choose``; here ranges include those of given forms.
    ``rounded``: the forms of tensors that are rounded also between float operators.  ``floats``: the
    operators that stay float, with the reasons.  ``reasons``: why operators got the fallback of their scheme.
    ``tensors``: the forms in which tensors are stored.  ``edges``: for each operator the forms of operands,
    by index, that it reads in another form than the stored one; constants too.
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
        """Return the form in which ``op``, with integer activations, reads operand ``index``.

        It is chosen if there is none yet.  Raise the errors of ``own_form`` and ``constant_form``.
        """
        if index in self.edges[op]:
            return self.edges[op][index]
        value = op.inputs[index]
        assert value is not None
        scheme = self.scheme_at(op, index)
        if value.is_const:
            plan = self.edges[op][index] = self._mask_form(op, value, scheme) or self.constant_form(
                value, scheme
            )
            return plan
        stored = self.tensors.get(value)
        if stored is not None and stored.dtype is scheme.activations:
            return stored
        plan = self.own_form(value, scheme)
        if stored is None and (value.name not in self.rounded or plan.rounds):
            self.tensors[value] = plan
        else:  # it is stored, or rounded, in a form that has another dtype
            self.edges[op][index] = plan
        return plan

    def own_form(self, value: Value, scheme: Scheme, least_scale: float = 0.0) -> TensorPlan:
        """Return the given form of ``value`` if it fits the scheme, else a form for its observed range.

        ``least_scale``: the range is widened so that the scale is at least this.  Raise UnsupportedError if
        there is no range, or if the scale of a given form is less; ModelError if the range is too small for a
        scale.
        """
        given = given_form(self.given.get(value.name), scheme.activations)
        if given is not None and fits_activations(given, scheme):
            if given.scale[0] < least_scale:
                raise UnsupportedError(f"the steps of %{value.name} are finer than the kernel can compute")
            return given
        low, high = self.range_by_name(value.name)
        reason = f"covers its range [{low:.4g}, {high:.4g}]"
        if (mask := self._mask_of(value)) is not None:
            low = mask
            reason = f"covers [{low:.4g}, {high:.4g}]: masked numbers are lowest, those below it too"
        plan = covering(low, high, scheme, reason)
        if plan.scale[0] >= least_scale or low == high == 0:
            return plan
        wider = least_scale / plan.scale[0]
        reason = f"{plan.reason}, {wider:.3g} times: finer steps cannot be computed from the operands"
        return covering(low * wider, high * wider, scheme, reason)

    def range_by_name(self, name: str) -> tuple[float, float]:
        """Return the (min, max) of the tensor ``name``; raise UnsupportedError if it has none."""
        if name not in self.ranges:
            raise UnsupportedError(
                f"%{name} has no range: calibration did not observe it, or saw no finite number"
            )
        return self.ranges[name]

    def form_of_range(self, name: str, scheme: Scheme) -> TensorPlan:
        """Return the form for the range of the tensor ``name``; errors: see ``own_form``."""
        low, high = self.range_by_name(name)
        return covering(low, high, scheme, f"covers its range [{low:.4g}, {high:.4g}]")

    def _mask_of(self, value: Value) -> float | None:
        """Return the lowest number of ``value`` that its users can tell from masks; None if it has no mask.

        A mask is added to, or selected in place of, much larger numbers: an element of a constant, or of a
        tensor whose range is INFINITE_FACTOR times that of the other operand.
        """
        op = value.producer
        distance = max((self.rule_of(user).mask_distance for user in value.users), default=0.0)
        if not distance or op is None or value.name not in self.ranges:
            return None
        present = [v for v in op.inputs if v is not None]
        ranges = sorted(
            (self.ranges[v.name] for v in present if v.name in self.ranges), key=lambda r: r[1] - r[0]
        )
        if not ranges:
            return None
        (least, most), *others = ranges
        masks = [low for low, _ in others if low < -INFINITE_FACTOR * max(distance, most - least)]
        if len(masks) < len(others):
            return None
        constants = [v.array().reshape(-1) for v in present if is_weight(v)]
        numbers = np.concatenate([np.array(masks), *constants])
        is_mask = numbers < least - distance - (most - least)
        kept = numbers[~is_mask]
        is_sum = self.ranges[value.name][1] <= 1.01 * most + kept.max(initial=0)
        return least + float(kept.min(initial=0)) - distance if is_mask.any() and is_sum else None

    def refuse_masks(self, op: Op) -> None:
        """Raise ModelError if ``op`` adds a computed mask: its integers do not resolve the other operand."""
        mask = self._mask_of(op.results[0]) if op.results else None
        if mask is None:
            return
        for value in op.inputs:
            if (
                value is not None
                and not value.is_const
                and self.ranges.get(value.name, (mask, 0.0))[0] < mask
            ):
                raise ModelError(
                    f"the integers of the mask %{value.name} are too coarse for the other operand"
                )

    def _mask_form(self, op: Op, value: Value, scheme: Scheme) -> TensorPlan | None:
        """Return the form of the constant ``value`` that ``op`` adds as a mask; None if it has no mask."""
        mask, numbers = self._mask_of(op.results[0]) if op.results else None, value.array()
        if mask is None or np.isnan(numbers).any() or not value.is_plain:
            return None
        most = max(self.ranges[v.name][1] for v in op.inputs if v and v.name in self.ranges)
        low, high = max(float(numbers.min()), mask - most), float(numbers.max())
        return covering(min(low, 0.0), high, scheme, f"covers the constant, with masks at {low:.4g}")

    def constant_form(self, value: Value, scheme: Scheme) -> TensorPlan:
        """Return the form that covers the numbers of a constant.

        Raise ModelError if it is packed or sparse, or has NaN or infinite numbers.
        """
        if not value.is_plain:
            raise ModelError(f"the constant %{value.name} is packed or sparse")
        numbers = finite_numbers(value)
        low, high = float(numbers.min(initial=0)), float(numbers.max(initial=0))
        return covering(low, high, scheme, f"covers the constant, {low:.4g} to {high:.4g}")

    def shared_form(self, op: Op, values: Sequence[Value]) -> TensorPlan:
        """Return one form that covers all ``values``, operands whose integers ``op`` compares."""
        ranges = [
            (float(v.array().min()), float(v.array().max())) if v.is_const else self.ranges[v.name]
            for v in values
        ]
        low, high = min(r[0] for r in ranges), max(r[1] for r in ranges)
        return covering(
            low, high, self.scheme_of(op), f"covers all operands of {op.code}, which compares integers"
        )

    def range_of(self, op: Op, index: int) -> tuple[float, float]:
        """Return the (min, max) of operand ``index``, which is present; (inf, -inf) for an empty constant."""
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

    def scheme_at(self, op: Op, index: int) -> Scheme:
        """Return the scheme of operand ``index`` of ``op``, an operator that is quantized."""
        return operand_scheme(op, index, self.scheme_of(op))

    def rule_of(self, op: Op) -> QuantizationRule:
        """Return the rule of ``op``; a default if it has none, and therefore only stores constants."""
        return op.quantization_rule or OWN_RANGES

    def activations(self, op: Op) -> list[int]:
        """Return the indices of the float operands of ``op`` but constant weights, biases and states."""
        rule = self.rule_of(op)
        others = biases_of(op) | set(indices_of(op, rule.states))
        weights = set(indices_of(op, [*rule.weights, *rule.slopes]))
        return [
            i
            for i in range(len(op.inputs))
            if self.reads_float(op, i) and i not in others and not (i in weights and is_weight(op.inputs[i]))
        ]

    def reads_float(self, op: Op, index: int) -> bool:
        """Return whether operand ``index`` is present and float32 in the float model."""
        value = op.inputs[index]
        return value is not None and value.dtype is f32

    def bias_of(self, op: Op, rule: QuantizationRule) -> Value | None:
        """Return the operand that ``rule``, the rule of ``op``, names as bias; None if there is none."""
        return getattr(op, rule.bias) if rule.bias is not None else None

    def name_of(self, op: Op, index: int) -> str:
        """Return the name of operand ``index``, for messages."""
        value = op.inputs[index]
        return value.name if value is not None else "?"


def _concerns(op: Op, scheme: Scheme | None) -> bool:
    """Return whether a plan lists ``op``: whether it has floats, or constants that ``scheme`` stores."""
    has_floats = any(v is not None and v.dtype is f32 for v in (*op.inputs, *op.results))
    if scheme is None or scheme.activations is not None:
        return has_floats
    return bool(stored_constants(op, scheme))


def covering(low: float, high: float, scheme: Scheme, reason: str) -> TensorPlan:
    """Return the form of an activation that covers the range ``low`` to ``high``.

    ``scheme``: one with integer activations.  Raise ModelError if the range is not finite or too small.
    """
    assert scheme.activations is not None
    formula = asymmetric if scheme.asymmetric else symmetric
    scale, zero_point = formula(low, high, scheme.activations)
    return TensorPlan(scheme.activations, (scale,), (zero_point,), reason=reason)
