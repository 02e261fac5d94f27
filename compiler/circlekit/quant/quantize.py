# SPDX-License-Identifier: Apache-2.0
"""Plan a quantization by plain rules: prepare the float model, estimate ranges, make the plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from circlekit.errors import ModelError
from circlekit.ir.dtypes import DType, f32, i16
from circlekit.ir.graph import Graph, Model
from circlekit.quant.calibration import Calibration
from circlekit.quant.calibration.calibration import observed_values
from circlekit.quant.calibration.ranges import estimate_range
from circlekit.quant.choose import Ranges, choose
from circlekit.quant.plan import Plan, TensorPlan
from circlekit.quant.scheme import Scheme
from circlekit.quant.selection import schemes_of
from circlekit.targets.target import Target

PREPARATION = ("fold_dequantize", "replace_neg_with_mul", "replace_square_with_mul")
"""Passes without which some operators would stay float; they make no new tensors but constants."""

FOR_INTEGERS = (*PREPARATION, "replace_average_pool_with_mean")
"""Passes for integer activations; the last one avoids a kernel with coarse steps.  No new tensors."""

FOR_KERNELS = ("replace_sum_with_mean",)
"""Passes that avoid faulty quantized kernels; they make tensors, which calibration has to observe."""

FOR_INT16 = ("replace_squared_difference_with_mul", "decompose_hardswish")
"""Passes for operators without an int16 kernel; they make tensors, too."""


def preparation(scheme: Scheme, is_calibrated: bool) -> tuple[str, ...]:
    """Return the passes to run on a float model before ``scheme`` is applied.

    ``is_calibrated``: ranges were observed before, so that no pass may make new tensors.
    """
    if scheme.activations is None:
        return PREPARATION
    if is_calibrated:
        return FOR_INTEGERS
    return FOR_INTEGERS + FOR_KERNELS + (FOR_INT16 if scheme.activations is i16 else ())


def make_names_distinct(model: Model) -> None:
    """Rename tensors, in place, that have the name of an earlier tensor of their graph.

    Inputs and outputs keep their names.  It is needed because calibrations and plans know tensors by name.
    """
    for graph in model.graphs:
        seen = {value.name for value in (*graph.inputs, *graph.outputs)}
        interface = {*graph.inputs, *graph.outputs}
        for value in graph.values():
            if value.name in seen and value not in interface:
                value.name = graph.unique_name(value.name)
            seen.add(value.name)


def ranges_of(model: Model, calibration: Calibration, estimator: str = "min_max", **options: Any) -> Ranges:
    """Return the range of each tensor by the range estimator of this name.

    ``options``: those of the estimator.  A tensor that calibration did not observe, because a pass made it
    later, gets the range of the tensor whose elements it holds.  Tensors without a finite number have no
    range.  Raise the errors of ``estimate_range``.
    """
    found = []
    for index, graph in enumerate(model.graphs):
        statistics = calibration.graphs[index] if index < len(calibration.graphs) else {}
        ranges = {
            name: estimate_range(tensor, estimator, **options)
            for name, tensor in statistics.items()
            if tensor.min is not None and tensor.max is not None
        }
        _spread(graph, ranges)
        found.append(ranges)
    return found


def require_fit(model: Model, calibration: Calibration) -> None:
    """Raise ModelError if most tensors of the main graph are unknown to ``calibration``."""
    names = [value.name for index, _, value in observed_values(model) if index == 0]
    known = sum(name in calibration.main for name in names)
    if names and 2 * known < len(names):
        raise ModelError(
            f"the calibration is that of another model: it knows {known} of {len(names)} tensors"
        )


def _spread(graph: Graph, ranges: dict[str, tuple[float, float]]) -> None:
    """Add the ranges of tensors whose elements are only moved from or to a tensor in ``ranges``."""
    moves = [
        (value, op.results[0])
        for op in graph
        if op.data_movement and len(op.results) == 1
        for value in op.inputs[:1]
        if value is not None and value.dtype is f32 and not value.is_const
    ]
    for source, result in moves:
        if source.name in ranges:
            ranges.setdefault(result.name, ranges[source.name])
    for source, result in reversed(moves):
        if result.name in ranges:
            ranges.setdefault(source.name, ranges[result.name])


def plan_model(
    model: Model,
    scheme: str,
    ranges: Ranges,
    operators: Mapping[str, str] | None = None,
    only: Iterable[str] | None = None,
    target: Target | None = None,
    inputs: DType | None = None,
    outputs: DType | None = None,
    given: Sequence[Mapping[str, TensorPlan]] = (),
) -> Plan:
    """Return the plan of a quantization by plain rules; ``model`` is not changed.

    ``scheme``, ``operators``, ``only``: see ``schemes_of``.  ``ranges``, ``target``, ``given``: see
    ``choose``.  ``inputs``, ``outputs``: dtypes of the interface; None: float.
    """
    plan = choose(model, ranges, schemes_of(model, scheme, operators, only), scheme, target, given)
    plan.inputs, plan.outputs = inputs, outputs
    return plan
