# SPDX-License-Identifier: Apache-2.0
"""Find where masks are added to logits, and cover the numbers of masks that calibration has not seen.

An attention mask is 0 for the logits that SOFTMAX keeps.  For the others it is a huge negative number, which
calibration ignores if it is -inf or the lowest float32, and does not see if no sample has masked positions.
"""

from __future__ import annotations

from collections.abc import Mapping

from circlekit.ir.graph import Graph
from circlekit.ir.quantization_rule import OWN_RANGES
from circlekit.ir.value import Value
from circlekit.ops.arithmetic.binary import Add, Sub
from circlekit.quant.calibration.statistics import LARGEST
from circlekit.quant.weights import is_computed_float


def mask_distances(graph: Graph) -> dict[Value, float]:
    """Return, for each tensor, the largest ``QuantizationRule.mask_distance`` of the operators that read it.

    An operator that reads the tensor after data movement counts, too.  Tensors with the distance 0 are left
    out.
    """
    found: dict[Value, float] = {}
    for op in reversed(list(graph)):
        distance = (op.quantization_rule or OWN_RANGES).mask_distance
        if op.data_movement:
            distance = max((found.get(value, 0.0) for value in op.results), default=0.0)
        for value in filter(is_computed_float, op.inputs):
            if distance:
                found[value] = max(distance, found.get(value, 0.0))
    return found


def cover_unseen_masks(
    graph: Graph, ranges: dict[str, tuple[float, float]], distances: Mapping[Value, float]
) -> None:
    """Extend ``ranges``, (min, max) by name of the tensor, to the numbers of masks that were not seen.

    A computed tensor is such a mask if its range is 0 to 0, and if it is read, directly or after data
    movement, by an ADD or SUB whose result is in ``distances`` (``mask_distances``).  The range of a mask
    begins with the lowest float32.  The range of a mask that SUB subtracts ends with the largest float32
    instead.
    """
    ends: dict[Value, tuple[float, float]] = {}
    for op in reversed(list(graph)):
        for index, value in enumerate(op.inputs):
            if not is_computed_float(value) or ranges.get(value.name) != (0, 0):
                continue
            if isinstance(op, Add | Sub) and op.output in distances:
                is_subtracted = isinstance(op, Sub) and index == 1
                ends[value] = (0.0, LARGEST) if is_subtracted else (-LARGEST, 0.0)
            elif op.data_movement and (moved := ends.keys() & op.results):
                ends[value] = ends[moved.pop()]
    ranges.update({value.name: found for value, found in ends.items()})
