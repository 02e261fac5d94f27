# SPDX-License-Identifier: Apache-2.0
"""Plan a quantization from observed ranges: prepare the float model, estimate ranges, make the plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from circlekit.errors import ModelError
from circlekit.ir.dtypes import DType, i16
from circlekit.ir.graph import Graph, Model
from circlekit.quant.calibration import Calibration
from circlekit.quant.calibration.calibration import observed_values
from circlekit.quant.calibration.ranges import estimate_range
from circlekit.quant.choose import Ranges, choose
from circlekit.quant.forms.given_forms import range_of_operands
from circlekit.quant.operator_selection import schemes_of
from circlekit.quant.plan import Plan, TensorForm
from circlekit.quant.scheme import Scheme
from circlekit.quant.weights import is_computed_float
from circlekit.targets.target import Target

PREPARATION = ("fold_dequantize", "replace_neg_with_mul", "replace_square_with_mul")
"""Passes for every scheme: without them some operators would stay float.

These passes make only constants, no tensors that calibration would have to observe.
"""

FOR_INTEGERS = (*PREPARATION, "replace_average_pool_with_mean")
"""Passes for integer activations.  The last pass avoids the AVERAGE_POOL_2D kernel, whose steps are coarse.

These passes, too, make no tensors that calibration would have to observe.
"""

FOR_KERNELS = ("replace_pow", "replace_sum_with_mean")
"""Passes that avoid absent and faulty integer kernels.  They make tensors that calibration has to observe."""

FOR_INT16 = ("replace_squared_difference_with_mul", "decompose_hardswish")
"""Passes that replace operators without an int16 kernel.  They make tensors that calibration must observe."""


def preparation(scheme: Scheme, is_calibrated: bool) -> tuple[str, ...]:
    """Return the names of the passes to run on a float model before ``scheme`` is applied.

    ``is_calibrated``: the ranges come from an earlier calibration, so no pass may make new tensors.
    """
    if scheme.activations is None:
        return PREPARATION
    if is_calibrated:
        return FOR_INTEGERS
    return FOR_INTEGERS + FOR_KERNELS + (FOR_INT16 if scheme.activations is i16 else ())


def ranges_of(
    model: Model, calibration: Calibration, estimator: str = "min_max", bits: int = 8, **options: Any
) -> Ranges:
    """Return for each graph the range (min, max) of each tensor by name.

    ``estimator``, ``bits``, ``options``: see ``estimate_range``.
    A tensor without a finite observed number, such as one that a pass made after calibration, gets the range
    of other tensors along data movement operators (``_add_moved_ranges``); else it has no range.
    Raise the errors of ``estimate_range``.
    """
    found = []
    for index, graph in enumerate(model.graphs):
        statistics = calibration.graphs[index] if index < len(calibration.graphs) else {}
        ranges = {
            name: estimate_range(tensor, estimator, bits, **options)
            for name, tensor in statistics.items()
            if tensor.min is not None
        }
        _add_moved_ranges(graph, ranges)
        found.append(ranges)
    return found


def require_fit(model: Model, calibration: Calibration) -> None:
    """Raise ModelError if ``calibration`` lacks more than half of the main graph's tensors."""
    names = [value.name for graph_index, _, value in observed_values(model) if graph_index == 0]
    known = sum(name in calibration.main for name in names)
    if names and 2 * known < len(names):
        raise ModelError(
            f"expected a calibration of this model, got one with {known} of its {len(names)} tensors"
        )


def _add_moved_ranges(graph: Graph, ranges: dict[str, tuple[float, float]]) -> None:
    """Give ranges to tensors without one, along the data movement operators with one result.

    First, in order, each result gets the union of the operands' ranges, if all are known.  Then, in reverse
    order, the operands get the range of the result.  A range that is known already is kept.
    """
    moves = [op for op in graph if op.data_movement and len(op.results) == 1]
    for op in moves:
        if (ends := range_of_operands(op, ranges)) is not None:
            ranges.setdefault(op.results[0].name, ends)
    for op in reversed(moves):
        for value in op.inputs:
            if is_computed_float(value) and op.results[0].name in ranges:
                ranges.setdefault(value.name, ranges[op.results[0].name])


def plan_model(
    model: Model,
    scheme: str,
    ranges: Ranges,
    operators: Mapping[str, str] | None = None,
    only: Iterable[str] | None = None,
    target: Target | None = None,
    inputs: DType | None = None,
    outputs: DType | None = None,
    given: Sequence[Mapping[str, TensorForm]] = (),
) -> Plan:
    """Return a plan of the float ``model``, which is not changed.

    No technique (``quant.techniques``) is used.

    ``scheme``, ``operators``, ``only``: which operators get which scheme, see ``schemes_of``.
    ``ranges``, ``target``, ``given``: see ``choose``.
    ``inputs``, ``outputs``: see ``Plan``.
    Raise the errors of ``schemes_of`` and ``choose``.
    """
    plan = choose(model, ranges, schemes_of(model, scheme, operators, only), scheme, target, given)
    plan.inputs, plan.outputs = inputs, outputs
    return plan
