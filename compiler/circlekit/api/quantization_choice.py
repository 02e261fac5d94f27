# SPDX-License-Identifier: Apache-2.0
"""Choose the plan of a quantization: by techniques that are tried on samples, or by plain rules.

A plan has the form (dtype, scale, zero point) of each tensor.  By plain rules, forms follow from the ranges
of tensors alone.  A technique, such as equalization or GPTQ, changes the float model or the rounding of
weights.  To raise an operator is to give it a scheme of a higher precision than the others have.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from circlekit.errors import ModelError
from circlekit.interp.evaluate import Inputs
from circlekit.ir.dtypes import DType
from circlekit.ir.graph import Model
from circlekit.ir.value import Array
from circlekit.quant.apply import apply
from circlekit.quant.calibration import Calibration, collect
from circlekit.quant.calibration.ranges import FROM_NUMBERS
from circlekit.quant.choose import Ranges
from circlekit.quant.mixed.mixed_precision import MakeMixedPlan, Raised, raise_patterns
from circlekit.quant.mixed.raised_outputs import raise_outputs
from circlekit.quant.mixed.raised_weights import raise_weights
from circlekit.quant.one.quantize_as_one import kernel_notes, quantize_as_one
from circlekit.quant.operator_selection import name_pattern, schemes_of
from circlekit.quant.plan import Plan, TensorForm
from circlekit.quant.quantize import plan_model, ranges_of, require_fit
from circlekit.quant.scheme import SCHEMES, Arithmetic, Scheme, find_scheme
from circlekit.quant.technique_search import TechniqueSearch
from circlekit.quant.techniques.replay import Record
from circlekit.targets.target import Target


@dataclass
class QuantizationChoice:
    """The arguments of one call of ``quantize``, and its results for the report and the plan.

    ``scheme``: the default scheme.  ``runtime``: the runtime that has to run the result.
    ``estimator``, ``operators``, ``only``: arguments of ``circlekit.quantize``.
    ``interface``: the dtypes of inputs and of outputs, None for float.
    ``given``: for each graph, {name of a tensor: the grid to which a removed FAKE_QUANT or QUANTIZE rounded
    the tensor} (``take_grids``).
    ``without``: techniques that are not tried, see ``TechniqueSearch``.
    ``find``: the function that chooses the operators to raise; None if the user did not ask for mixed
    precision.  Its last argument: the operators that are raised already; its result includes them.
    ``unasked``: raised operators for which the user did not ask.  ``raised``: all raised operators.
    ``notes``: sentences for the report.  ``techniques``: records of how techniques changed the float model,
    from which ``replay`` repeats the changes.
    """

    scheme: Scheme
    estimator: str
    operators: dict[str, str]
    only: list[str] | None
    runtime: Target
    interface: tuple[DType | None, DType | None]
    given: Sequence[Mapping[str, TensorForm]]
    without: Collection[str] = ()
    find: Callable[[Model, MakeMixedPlan, Sequence[Inputs], Raised], Raised] | None = None
    unasked: Raised = field(default_factory=Raised)
    raised: Raised = field(default_factory=Raised)
    notes: list[str] = field(default_factory=list)
    techniques: list[Record] = field(default_factory=list)

    def plan(self, model: Model, ranges: Ranges, raised: Mapping[str, str] | None = None) -> Plan:
        """Return a plan by plain rules.

        ``ranges``: for each graph, the range of each tensor by name.  ``raised``: the schemes of raised
        operators by name of the first result; None: those of the field ``raised``.  A scheme that the user
        chose for an operator (``operators``) takes precedence.
        """
        named = self.raised.schemes if raised is None else raised
        operators = {**{name_pattern(name): scheme for name, scheme in named.items()}, **self.operators}
        return plan_model(
            model, self.scheme.name, ranges, operators, self.only, self.runtime, *self.interface, self.given
        )

    def collected(self, model: Model, samples: Sequence[Sequence[Array]]) -> Calibration:
        """Calibrate ``model`` on ``samples``, with histograms if the estimator needs them."""
        return collect(model, samples, histograms=self.estimator in FROM_NUMBERS)

    def _ranges_of(self, model: Model, calibration: Calibration) -> Ranges:
        """Return the ranges by the estimator, for integers as wide as the activations (8 bits if float)."""
        activations = self.scheme.activations
        return ranges_of(model, calibration, self.estimator, 8 if activations is None else activations.bits)

    def raise_unasked(self, model: Model, samples: Sequence[Sequence[Array]]) -> None:
        """Raise operators where that helps, without a request of the user; set ``unasked`` and ``raised``.

        This method is not called if the user chose schemes of operators (``operators``).
        The last operators of an int8 model with float outputs are raised to int16.  The other operators to
        raise are chosen here only without mixed precision; with it, ``find`` chooses them (``mix``).
        """
        raises_outputs = self.scheme is SCHEMES["int8"] and self.interface[1] is None
        if self.find is not None and not raises_outputs:
            return
        ranges = self._ranges_of(model, self.collected(model, samples))
        make_plan = self._float_interface_plans(model, ranges)
        if self.find is None:
            choose_raised = raise_weights if _has_int4_weights(self.scheme) else raise_patterns
            self.unasked = choose_raised(model, make_plan, samples)
        if raises_outputs:
            self.unasked = raise_outputs(model, make_plan, samples, self.unasked)
        self.notes += self.unasked.notes
        self.raised = Raised(self.unasked.schemes)  # its notes were added above

    def mix(self, samples: Sequence[Sequence[Array]], model: Model, ranges: Ranges) -> None:
        """If the user asked for mixed precision, choose the operators to raise, and set ``raised``.

        The choice depends on ``ranges``, which must be those of the final plan.  So this is called after the
        trials of techniques.
        """
        if self.find is not None:
            self.raised = self.find(model, self._float_interface_plans(model, ranges), samples, self.unasked)

    def _float_interface_plans(self, model: Model, ranges: Ranges) -> MakeMixedPlan:
        """Return a function that makes plans with float inputs and outputs: trials run on float samples."""

        def make_plan(schemes: Mapping[str, str]) -> Plan:
            """Return a plan in which the raised operators have these schemes, by name of the first result."""
            plan = self.plan(model, ranges, schemes)
            plan.inputs = plan.outputs = None
            return plan

        return make_plan

    def quantize(
        self,
        model: Model,
        samples: Sequence[Sequence[Array]] | None,
        calibration: Calibration | None,
        seconds: float,
    ) -> Plan:
        """Quantize the prepared ``model`` in place and return the plan.

        ``seconds``: about how long techniques are tried on ``samples``.  Plain rules decide in these cases:

        - ``seconds`` is 0, or there are no samples
        - there is a ``calibration``, or a grid in ``given``
        - the scheme has float weights, or follows ONE

        Raise ModelError if a scheme needs ranges and nothing (samples, ``calibration``, grids) gives them.
        """
        scheme, has_grids = self.scheme, any(self.given)
        may_search = (
            scheme.weights.is_integer and not scheme.follows_one and calibration is None and not has_grids
        )
        searched = samples if seconds and may_search else None  # samples to try techniques on; None: no trial
        is_raisable = scheme.arithmetic is Arithmetic.INTEGERS or _has_int4_weights(scheme)
        may_raise = is_raisable and "raising" not in self.without
        if searched is not None:
            if may_raise and not self.operators:
                self.raise_unasked(model, searched)
            search = TechniqueSearch(
                model,
                searched,
                self.plan,
                scheme.activations,
                self.estimator,
                seconds,
                self.without,
                partial(self.mix, searched),
            )
            plan = search.run()
            self.notes += [*search.notes, *self.raised.notes]
            self.techniques = search.techniques
            apply(model, plan)
            return plan
        if samples is not None and calibration is None and (self.find is not None or self._integer_schemes()):
            calibration = self.collected(model, samples)
        if calibration is None and not has_grids and (needy := self._integer_schemes()):
            raise ModelError(f"{needy[0]} needs the ranges of activations: give samples or a calibration")
        if calibration is not None:
            require_fit(model, calibration)
        ranges = [] if calibration is None else self._ranges_of(model, calibration)
        if samples is not None:
            self.mix(samples, model, ranges)
        self.notes += self.raised.notes
        if scheme.follows_one:
            schemes = schemes_of(model, scheme.name, self.operators, self.only)
            plan = quantize_as_one(model, scheme, ranges, schemes, *self.interface)
            self.notes += kernel_notes(model)
            return plan
        plan = self.plan(model, ranges)
        apply(model, plan)
        return plan

    def _integer_schemes(self) -> list[str]:
        """Return the names of the chosen schemes with integer activations, whose scales need ranges."""
        schemes = [self.scheme, *map(find_scheme, self.operators.values())]
        return [s.name for s in schemes if s is not None and s.activations is not None]


def _has_int4_weights(scheme: Scheme) -> bool:
    """Return whether ``scheme`` stores int4 weights from which a DEQUANTIZE makes floats."""
    return scheme.weights is DType.INT4 and scheme.arithmetic is Arithmetic.FLOATS
