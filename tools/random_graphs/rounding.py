# SPDX-License-Identifier: Apache-2.0
"""Measure the effect of rounding on the outputs of a model, by runs with perturbed float results.

A rewrite may add in another order.  If a model amplifies the difference, or rounds to integers afterwards, no
fixed tolerance is right; the perturbed runs give a bound for each element.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from circlekit.errors import CirclekitError
from circlekit.interp.evaluate import evaluate
from circlekit.ir.graph import Graph, Model
from circlekit.ir.op import Op
from circlekit.ir.value import Array, Value
from circlekit.ops.constant_operands import constant_elements
from circlekit.ops.program.state import State

RUNS = 16
MAX_ULPS = 4.0
"""Largest perturbation of an element, in units in the last place."""

FACTOR = 8.0
"""The allowed deviation of a float output is this multiple of the largest deviation in the RUNS runs."""

SUMS = frozenset({"ADD", "SUB", "SQUARED_DIFFERENCE", "ADD_N"})
"""Elementwise operators that add.

If large terms cancel, the result is small, but its error is in proportion to the terms.
"""

OF_ONE_ELEMENT = frozenset({
    "CAST", "DEQUANTIZE", "FAKE_QUANT", "FILL", "MAX_POOL_2D", "PAD", "PADV2", "PRELU", "REDUCE_MAX",
    "REDUCE_MIN", "SELECT", "SELECT_V2",
})  # fmt: skip
"""Other operators that compute or choose each element of a result from one element of an operand.

Unlike elementwise operators and data movement, they have no trait that says so.
"""


@dataclass
class Allowed:
    """For each element of an output: the allowed ``deviation``, and whether any value is allowed."""

    deviation: Array
    is_free: Array


def allowed_deviations(model: Model, inputs: Sequence[Array], outputs: Sequence[Array]) -> list[Allowed]:
    """Return the allowed deviations of ``outputs``, which ``model`` computes from ``inputs``."""
    found = [Allowed(np.zeros(a.shape), np.zeros(a.shape, bool)) for a in outputs]
    for seed in range(RUNS):
        try:
            outputs_perturbed = _PerturbedRun(np.random.default_rng(seed))(model.main, inputs)
        except CirclekitError:  # an index out of range, another shape
            continue
        for allowed, wanted, array in zip(found, outputs, outputs_perturbed, strict=True):
            if array.shape == wanted.shape and wanted.dtype.kind in "fiub":
                _widen(allowed, wanted, array)
    for allowed, wanted in zip(found, outputs, strict=True):
        allowed.deviation *= FACTOR if wanted.dtype.kind == "f" else 1.0
    return found


def _widen(allowed: Allowed, wanted: Array, array: Array) -> None:
    """Widen ``allowed`` so that it allows ``array`` in place of ``wanted``."""
    with np.errstate(all="ignore"):
        left, right = wanted.astype(np.float64), array.astype(np.float64)
        same = (left == right) | (np.isnan(left) & np.isnan(right))
        allowed.is_free |= ~same & ~(np.isfinite(left) & np.isfinite(right))
        distance = np.abs(left - right)
        allowed.deviation = np.maximum(allowed.deviation, np.where(np.isfinite(distance), distance, 0.0))


class _PerturbedRun:
    """Runs a graph, and the graphs that its operators call, and perturbs every float result."""

    def __init__(self, random: np.random.Generator) -> None:
        self.random = random
        self.state = State()

    def __call__(self, graph: Graph, inputs: Sequence[Array]) -> list[Array]:
        arrays: dict[Value, Array] = dict(zip(graph.inputs, inputs, strict=True))

        def array_of(value: Value) -> Array:
            if value in arrays:
                return arrays[value]
            return self.state.read(value) if value.is_variable else constant_elements(value)

        for op in graph:
            operands = [None if v is None else array_of(v) for v in op.inputs]
            results = evaluate(op, operands, self)
            arrays.update(
                (v, self.perturbed(op, a, operands)) for v, a in zip(op.results, results, strict=True)
            )
        return [array_of(v) for v in graph.outputs]

    def perturbed(self, op: Op, array: Array, operands: Sequence[Array | None]) -> Array:
        """Return ``array`` with errors up to MAX_ULPS of each element, or of the largest if ``op`` adds."""
        if array.dtype.kind != "f":
            return array
        with np.errstate(all="ignore"):
            size = np.abs(array)
            if op.code in SUMS or not (op.elementwise or op.data_movement or op.code in OF_ONE_ELEMENT):
                size = np.maximum(size, max([_largest(array), *map(_largest, operands)]))
            unit = MAX_ULPS * np.finfo(array.dtype).eps * self.random.uniform(-1, 1, array.shape)
            perturbed = array + np.where(np.isfinite(size), size, 0.0) * unit
            return np.where(np.isfinite(array), perturbed, array).astype(array.dtype)


def _largest(array: Array | None) -> float:
    if array is None or array.dtype.kind != "f":
        return 0.0
    return float(np.abs(array[np.isfinite(array)]).max(initial=0.0))
