# SPDX-License-Identifier: Apache-2.0
"""Choose, for each tensor, a form that covers the range of its numbers.

A form is a ``TensorForm``: dtype, scales and zero points.  A tensor is stored in one form.  An operator may
read the tensor in another form; then a QUANTIZE before the operator converts the integers.
``TensorForms`` is a base class of ``choose.GraphChooser``, which chooses the plan of a whole graph.

Masks need a special form.  An attention mask adds a huge negative number (or -inf) to the logits that
SOFTMAX shall ignore, or subtracts a huge positive number.  If a form covered that number, the steps would be
too coarse for the other logits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from circlekit.errors import ModelError, UnsupportedError
from circlekit.ir.dtypes import i8
from circlekit.ir.graph import Graph
from circlekit.ir.op import Op
from circlekit.ir.quantization_rule import OWN_RANGES, QuantizationRule
from circlekit.ir.value import Value
from circlekit.quant.calibration.ranges import Range
from circlekit.quant.forms.given_forms import (
    add_ranges,
    fits_activations,
    given_form,
    given_ranges,
    with_followed,
    without_clipping,
)
from circlekit.quant.forms.masks import cover_unseen_masks, mask_distances
from circlekit.quant.parameters import asymmetric, symmetric
from circlekit.quant.plan import TensorForm
from circlekit.quant.scheme import Scheme
from circlekit.quant.weights import (
    biases_of,
    finite_numbers,
    form_of_stored,
    indices_of,
    is_computed_float,
    is_float,
    is_weight,
    operand_scheme,
    present_operand,
    stored_constants,
)
from circlekit.targets.target import Target

INFINITE_FACTOR = 256
"""A number stands for infinity if it is this many times as large as the other numbers an operator reads.

The result of an operator such as MAXIMUM or SOFTMAX does not depend on how large such a number is.
"""


class TensorForms:
    """The schemes of operators, the ranges of tensors, and the forms chosen so far, for one graph.

    ``target``: the runtime that has to run the model.
    ``given``: the given forms by name of the tensor.  The caller of ``quant.choose.choose`` passes them: the
    tensors had them before planning, for example in training.  Those that would clip are left out
    (``without_clipping``); forms that follow from the others (``with_followed``) are added.
    ``ranges``: (min, max) by name of the tensor: the range of its given form (``given_ranges``), else the
    observed one, else one that follows from other ranges (``add_ranges``, only if there are given forms).
    Masks that calibration has not seen have the range of ``cover_unseen_masks``.
    ``rounded``: those given forms that the caller passes with ``TensorForm.rounds``, by name of the tensor.
    Such a tensor is rounded to its form even between two float operators.
    ``mask_distances``: see ``masks.mask_distances``.
    ``schemes``: the scheme of each operator that the plan will list, None for float.
    ``floats``: the operators that stay float, with the reasons.
    ``reasons``: the operators that got the ``fallback`` of their scheme, with the reasons.
    ``tensors``: the form in which each tensor is stored.
    ``operand_forms``: for each operator, forms by index of the operand: those of its constants and states.
    Any other operand is listed only if the operator does not read it in its stored form.
    """

    def __init__(
        self,
        graph: Graph,
        ranges: Mapping[str, tuple[float, float]],
        schemes: Mapping[Op, Scheme | None],
        target: Target,
        given: Mapping[str, TensorForm],
    ) -> None:
        given = without_clipping(given, ranges)
        self.graph, self.target, self.given = graph, target, with_followed(graph, given)
        self.rounded = {name: form for name, form in given.items() if form.rounds}
        self.ranges = {**ranges, **given_ranges(graph, self.given, ranges)}
        if given:
            add_ranges(graph, self.ranges)
        self.mask_distances = mask_distances(graph)
        cover_unseen_masks(graph, self.ranges, self.mask_distances)
        self.schemes = {op: schemes.get(op) for op in graph if _is_planned(op, schemes.get(op))}
        self.floats: dict[Op, str] = {}
        self.reasons: dict[Op, str] = {}
        self.tensors: dict[Value, TensorForm] = {}
        self.operand_forms: dict[Op, dict[int, TensorForm]] = {}

    def read_form(self, op: Op, index: int) -> TensorForm:
        """Return the form in which ``op`` reads operand ``index``; choose that form if there is none yet.

        ``op``: its scheme has integer activations.  The operand is present.  An operand that is quantized
        already, such as the weights of a model with dynamic ranges, keeps its form.
        Raise the errors of ``own_form``, ``constant_form`` and ``form_of_stored``.
        """
        if index in self.operand_forms[op]:
            return self.operand_forms[op][index]
        value, scheme = present_operand(op, index), self.scheme_at(op, index)
        if not value.dtype.is_float:
            return form_of_stored(value)
        if value.is_const:
            form = self._mask_form(op, value, scheme) or self.constant_form(value, scheme)
            self.operand_forms[op][index] = form
            return form
        stored = self.tensors.get(value)
        if stored is not None and stored.dtype is scheme.activations:
            return stored
        form = self.own_form(value, scheme)
        if stored is None and (value.name not in self.rounded or form.rounds):
            self.tensors[value] = form
        else:  # the tensor is stored in, or will be rounded to, a form that does not fit the scheme
            self.operand_forms[op][index] = form
        return form

    def own_form(self, value: Value, scheme: Scheme, least_scale: float = 0.0) -> TensorForm:
        """Return the given form of ``value`` if it fits ``scheme``, else a form that covers its range.

        ``least_scale``: the smallest scale that the producer's kernel can compute; a range with a smaller
        scale is widened.
        Raise UnsupportedError if the value has no range, if this range has only masks, or if the scale of its
        given form is below ``least_scale``; raise the errors of ``covering``.
        """
        given = given_form(self.given.get(value.name), scheme.activations)
        if given is not None and fits_activations(given, scheme):
            if given.scale[0] < least_scale:
                raise UnsupportedError(f"the steps of %{value.name} are finer than the kernel can compute")
            return given
        low, high = self.range_by_name(value.name)
        reason = f"covers its range [{low:.4g}, {high:.4g}]"
        if (mask := self._mask_of(value)) is not None:
            if high < mask:
                raise UnsupportedError(f"calibration observed only masked numbers in %{value.name}")
            low = mask
            if scheme.asymmetric and scheme.activations is i8:
                # QUANTIZE may turn a float mask into the least int32; adding a negative zero point would wrap
                # it to the highest integer.  The factor 1.02 keeps the zero point at 0 or
                # more, also after rounding.
                low = min(mask, -1.02 * max(high, 0.0))
            reason = (
                f"covers [{low:.4g}, {high:.4g}]; masked numbers, which are lower, get its lowest integer"
            )
        form = covering(low, high, scheme, reason)
        if form.scale[0] >= least_scale:
            return form
        if low == high == 0:  # zeros can have any scale
            high = 1.0
            form = covering(low, high, scheme, reason)
        wider = least_scale / form.scale[0]
        reason = f"{form.reason}, times {wider:.3g}: the kernel cannot compute finer steps"
        return covering(low * wider, high * wider, scheme, reason)

    def range_by_name(self, name: str) -> tuple[float, float]:
        """Return the range (min, max) of the tensor ``name``; raise UnsupportedError if it has none."""
        if name not in self.ranges:
            raise UnsupportedError(
                f"%{name} has no range: no calibration observed it, or it held no finite number"
            )
        return self.ranges[name]

    def form_of_range(self, name: str, scheme: Scheme) -> TensorForm:
        """Return the form that covers the range of the tensor ``name``.

        Raise the errors of ``range_by_name`` and ``covering``.
        """
        low, high = self.range_by_name(name)
        return covering(low, high, scheme, f"covers its range [{low:.4g}, {high:.4g}]")

    def _mask_of(self, value: Value) -> float | None:
        """Return the lower end of the range that the form of ``value`` has to cover; None without a mask.

        Numbers below this end are masks, which may be stored as the lowest integer.  The result of data
        movement holds masks if its operand does.  Any other ``value`` holds masks if all of this is true:

        - A user ignores numbers that lie a ``distance`` below the others (``mask_distances``).
        - The producer adds or selects masks.  (A SUB adds the negated second operand.)  Of its operands with
          a range, the one with the narrowest range, [least, most], holds the logits.  The ranges of all
          others begin below -INFINITE_FACTOR times the larger of ``distance`` and most - least, so these
          operands are masks.
        - A mask, or an element of a constant operand, is less than least - ``distance`` - (most - least).
        - The largest number of ``value`` is at most the largest logit plus the largest other number that is
          not a mask, as for sums and selections.

        Example: logits in [-8, 8] plus a constant of 0 and -1e9, with ``distance`` 10.  The constant has a
        mask, because -1e9 is less than -8 - 10 - 16.  The result is -8 + 0 - 10 = -18.
        """
        op = value.producer
        while op and op.data_movement and len(sources := list(filter(is_computed_float, op.inputs))) == 1:
            value, op = sources[0], sources[0].producer
        distance = self.mask_distances.get(value, 0.0)
        if not distance or op is None or value.name not in self.ranges:
            return None
        ranges = sorted((ends for _, ends in self._summands(op)), key=lambda r: r[1] - r[0])
        if not ranges:
            return None
        (least, most), *others = ranges  # the narrowest range is that of the logits; the others must be masks
        masks = [low for low, _ in others if low < -INFINITE_FACTOR * max(distance, most - least)]
        if len(masks) < len(others):
            return None
        constants = [
            (-v.array() if _is_subtracted(op, i) else v.array()).reshape(-1)
            for i, v in enumerate(op.inputs)
            if v is not None and is_weight(v)
        ]
        numbers = np.concatenate([np.array(masks), *constants])
        is_mask = numbers < least - distance - (most - least)  # low enough for the users to ignore them
        kept = numbers[~is_mask]
        # the maximum of a sum is at most the sum of the operands' maxima; 1 % of ``most`` is for rounding
        is_sum = self.ranges[value.name][1] <= most + 0.01 * abs(most) + kept.max(initial=0)
        return least + float(kept.min(initial=0)) - distance if is_mask.any() and is_sum else None

    def refuse_masks(self, op: Op) -> None:
        """Raise ModelError if ``op`` adds, subtracts or selects a computed mask.

        The form of such a mask covers the huge number, so its steps are too coarse beside the other operand.
        """
        mask = self._mask_of(op.results[0]) if op.results and not op.data_movement else None
        if mask is None:
            return
        for value, (low, _) in self._summands(op):
            if is_computed_float(value) and low < mask:
                raise ModelError(
                    f"the integers of the mask %{value.name} are too coarse for the other operand"
                )

    def _summands(self, op: Op) -> list[tuple[Value, Range]]:
        """Return (operand, range) for operands with a range; the range that a SUB subtracts is negated."""
        found = [(v, i, self.ranges[v.name]) for i, v in enumerate(op.inputs) if v and v.name in self.ranges]
        return [(v, (-high, -low) if _is_subtracted(op, i) else (low, high)) for v, i, (low, high) in found]

    def _mask_form(self, op: Op, value: Value, scheme: Scheme) -> TensorForm | None:
        """Return the form of the constant operand ``value`` if the result of ``op`` has masks, else None.

        The form covers the numbers of the constant that are not masks.  Masks get the lowest integer, or the
        highest integer if SUB subtracts them.
        """
        mask = self._mask_of(op.results[0]) if op.results else None
        numbers = value.array()
        if mask is None or np.isnan(numbers).any() or not value.is_plain:
            return None
        # a number below ``end`` gives a result below ``mask``, even with the largest logit
        end = mask - max(high for _, (_, high) in self._summands(op))
        low, high = min(float(numbers.min()), 0.0), max(float(numbers.max()), 0.0)
        if _is_subtracted(op, 1) and op.inputs[1] is value:
            high = end = min(high, -end)
        else:
            low = end = max(low, end)
        return covering(low, high, scheme, f"covers the constant, with masks at {end:.4g}")

    def constant_form(self, value: Value, scheme: Scheme) -> TensorForm:
        """Return the form that covers the numbers of the constant ``value``.

        Raise ModelError if the constant is packed, sparse or compressed, or holds NaN or infinite numbers;
        raise the errors of ``covering``.
        """
        if not value.is_plain:
            raise ModelError(f"the constant %{value.name} is packed, sparse or compressed")
        numbers = finite_numbers(value)
        low, high = float(numbers.min(initial=0)), float(numbers.max(initial=0))
        return covering(low, high, scheme, f"covers the constant, {low:.4g} to {high:.4g}")

    def shared_form(self, op: Op, values: Sequence[Value]) -> TensorForm:
        """Return one form that covers all ``values``: operands of ``op``, which compares their integers.

        ``values``: constants, and tensors that have a range.
        """
        ranges = [
            (float(v.array().min(initial=0)), float(v.array().max(initial=0)))
            if v.is_const
            else self.ranges[v.name]
            for v in values
        ]
        low, high = min(r[0] for r in ranges), max(r[1] for r in ranges)
        return covering(
            low, high, self.scheme_of(op), f"covers all operands of {op.code}, which compares integers"
        )

    def range_of(self, op: Op, index: int) -> tuple[float, float]:
        """Return the range (min, max) of operand ``index``, which is a constant or has a range.

        The range of an empty constant is (inf, -inf).
        """
        value = present_operand(op, index)
        if value.is_const:
            return float(value.array().min(initial=np.inf)), float(value.array().max(initial=-np.inf))
        return self.ranges[value.name]

    def scheme_of(self, op: Op) -> Scheme:
        """Return the scheme of ``op``, which must not be an operator that stays float."""
        scheme = self.schemes[op]
        assert scheme is not None  # callers skip float operators
        return scheme

    def scheme_at(self, op: Op, index: int) -> Scheme:
        """Return the scheme of operand ``index`` of ``op``; it may differ from that of ``op``."""
        return operand_scheme(op, index, self.scheme_of(op))

    def rule_of(self, op: Op) -> QuantizationRule:
        """Return the quantization rule of ``op``, or a default if its class declares none."""
        return op.quantization_rule or OWN_RANGES

    def activations(self, op: Op) -> list[int]:
        """Return the indices of the float operands of ``op`` that are activations.

        Biases, states, and constant weights and slopes are not activations.
        """
        rule = self.rule_of(op)
        others = biases_of(op) | set(indices_of(op, rule.states))
        weights = set(indices_of(op, [*rule.weights, *rule.slopes]))
        return [
            i
            for i in range(len(op.inputs))
            if self.reads_float(op, i) and i not in others and not (i in weights and is_weight(op.inputs[i]))
        ]

    def reads_float(self, op: Op, index: int) -> bool:
        """Return whether operand ``index`` of ``op`` is present and has the dtype float32."""
        return is_float(op.inputs[index])

    def bias_of(self, op: Op, rule: QuantizationRule) -> Value | None:
        """Return the bias of ``op``; None if it has none, or if ``rule`` names several (``biases``)."""
        return getattr(op, rule.bias) if rule.bias is not None else None

    def name_of(self, op: Op, index: int) -> str:
        """Return the name of operand ``index``, which is present, for messages."""
        return present_operand(op, index).name


def _is_subtracted(op: Op, index: int) -> bool:
    """Return whether ``op`` is a SUB and ``index`` the operand that it subtracts."""
    return op.code == "SUB" and index == 1


def _is_planned(op: Op, scheme: Scheme | None) -> bool:
    """Return whether a plan lists ``op``.

    With float activations, the operator must have a constant that ``scheme`` stores.  With integer
    activations, or without a scheme, it must have a float tensor.
    """
    has_floats = any(map(is_float, (*op.inputs, *op.results)))
    if scheme is None or scheme.activations is not None:
        return has_floats
    return bool(stored_constants(op, scheme))


def covering(low: float, high: float, scheme: Scheme, reason: str) -> TensorForm:
    """Return the form of an activation that covers the range [low, high].

    ``scheme``: a scheme with integer activations.  ``reason``: why the form has this range, for the plan.
    Raise ModelError if the range is not finite, or too small or too large for a scale.
    """
    assert scheme.activations is not None
    formula = asymmetric if scheme.asymmetric else symmetric
    scale, zero_point = formula(low, high, scheme.activations)
    return TensorForm(scheme.activations, (scale,), (zero_point,), reason=reason)
