# SPDX-License-Identifier: Apache-2.0
"""Measure how much rounding can change the outputs of a model.

To measure that, the float constants of the model are moved by one unit in the last place, and the model runs
again on the same inputs (``with_moved_constants``).  An output may be the small sum of large terms that
cancel.  Its rounding error is then in proportion to these terms, so the float32 results of operators are
moved, too (``with_moved_results``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from circlekit.equivalence.array_comparison import TOLERANCE, largest_magnitude
from circlekit.interp.evaluate import Inputs
from circlekit.ir.clone import clone
from circlekit.ir.dtypes import f32
from circlekit.ir.graph import Model
from circlekit.ir.text.fillers import seed_of
from circlekit.ir.value import Array, Value
from circlekit.ops.arithmetic.binary import Mul

SAFETY_FACTOR = 4.0
"""The tolerated difference is this many times the measured one, which is not an upper bound."""

MAX_ROUNDING_ERROR = 1e-4
"""The largest difference that rounding may excuse, divided by the largest magnitude of the output."""

MAX_EXTREME_ROUNDING_ERROR = 1e-2
"""MAX_ROUNDING_ERROR for boundary and threshold sets of inputs (see ``seeded_inputs``).

A model may amplify errors much more where its inputs are larger than the data that it was made for.
"""


def with_moved_constants(model: Model) -> Model:
    """Return a copy of ``model`` whose float constants are moved by one unit in the last place.

    Each element moves up or down at random, seeded by the names of the graph and the constant.  Zeros, NaN
    and infinities stay, and so do bf16, packed, sparse and compressed constants.
    """
    moved = clone(model)
    for graph in moved.graphs:
        for value in list(graph.values()):
            if value.data is not None and value.is_plain and value.data.dtype.kind == "f":
                value.data = _moved(value.data, seed_of(graph.name, value.name))
    return moved


def with_moved_inputs(inputs: Inputs, seed: int) -> Inputs:
    """Return ``inputs`` with each element of the float arrays moved by one unit in the last place.

    Each element moves up or down at random, seeded by ``seed`` and by the name or number of the input.
    """
    if isinstance(inputs, Mapping):
        return {name: _moved_float(a, seed, name) for name, a in inputs.items()}
    return [_moved_float(a, seed, str(number)) for number, a in enumerate(inputs)]


def _moved_float(array: Array, seed: int, name: str) -> Array:
    return _moved(array, seed_of(f"inputs {seed}", name)) if array.dtype.kind == "f" else array


def _moved(data: Array, seed: int) -> Array:
    """Return each element moved to the next higher or lower float, at random.

    Zeros stay, and so does an element that is not finite or would not be finite.
    """
    up = np.random.Generator(np.random.PCG64(seed)).integers(0, 2, data.shape, dtype=np.int8) == 1
    with np.errstate(all="ignore"):
        neighbors = np.nextafter(data, np.where(up, np.inf, -np.inf).astype(data.dtype))
    keep = (data == 0) | ~np.isfinite(data) | ~np.isfinite(neighbors)
    return np.where(keep, data, neighbors)


def excused_difference(reference: Array, moved: Array, limit: float = MAX_ROUNDING_ERROR) -> float:
    """Return the absolute difference that rounding may make in an output; 0 if its dtype is not float.

    ``reference``: the output.  ``moved``: the same output of the model with moved constants; if the shapes
    differ, return 0.
    ``limit``: the largest difference to return, divided by the largest magnitude of the output.
    """
    if reference.dtype.kind != "f" or reference.shape != moved.shape:
        return 0.0
    finite = np.isfinite(reference) & np.isfinite(moved)
    return min(tolerated_error(reference, moved), limit * largest_magnitude(reference[finite]))


def tolerated_error(reference: Array, moved: Array) -> float:
    """Return SAFETY_FACTOR times the largest finite difference of the arrays; 0 if their shapes differ."""
    if reference.shape != moved.shape:
        return 0.0
    with np.errstate(invalid="ignore", over="ignore"):
        errors = np.abs(reference.astype(np.float64) - moved)
    return SAFETY_FACTOR * largest_magnitude(errors)


# -- outputs whose terms cancel ------------------------------------------------------------------
# If large terms sum to a small output, its rounding error is in proportion to the terms, not to the output.


def cancellation_limit(model: Model, inputs: Sequence[Array]) -> float:
    """Return the largest difference that rounding may excuse in an output whose terms cancel.

    The size of the terms is not known.  It is taken to be the largest magnitude among the ``inputs`` of the
    model that are float32 or integers (which a CAST may convert), and its float32 constants that are not
    packed, sparse or compressed; the result is the TOLERANCE of float32 times this size.
    """
    values = (value for graph in model.graphs for value in graph.values() if value.is_plain)
    constants = (array for value in values if (array := value.array()).dtype == np.float32)
    terms = (array for array in inputs if array.dtype == np.float32 or array.dtype.kind in "iu")
    return TOLERANCE["float32"] * max(map(largest_magnitude, (*terms, *constants)), default=0.0)


def is_cancelled(output: Array, limit: float) -> bool:
    """Return whether a float32 output is so small that it may be only the rounding error of larger terms.

    That is, no finite element is above ``limit`` (see ``cancellation_limit``) in magnitude.
    """
    return output.dtype == np.float32 and output.size > 0 and largest_magnitude(output) <= limit


CANCELLATION_RUNS = 4
"""How often the error of an output whose terms cancel is measured: in a single run, the errors may cancel."""


def with_moved_results(model: Model, seed: int) -> Model:
    """Return a copy of ``model`` with its float constants and float32 results moved.

    A constant moves by one unit in the last place (see ``with_moved_constants``).  A result is multiplied by
    1 + 2^-23 or 1 - 2^-23: a random choice for each index of the last axis, seeded by ``seed``.
    """
    moved = with_moved_constants(model)
    for graph in moved.graphs:
        for op in list(graph):
            for index, value in enumerate(op.results):
                if value.dtype is f32:
                    exact = Value(f"{value.name}/exact", f32, value.shape)
                    op.take_result(index, exact)
                    factor = Value.constant(f"{value.name}/factor", _factors(value, seed))
                    graph.insert_after(op, Mul(exact, factor, results=[value]))
    return moved


def _factors(value: Value, seed: int) -> Array:
    """Return float32 factors next to 1, one for each index of the last axis.

    Return a single factor if ``value`` is a scalar, or the size of the last axis is unknown.
    """
    channels = value.shape[-1] if value.shape else None
    rng = np.random.Generator(np.random.PCG64(seed_of(f"factors {seed}", value.name)))
    signs = rng.choice([-1.0, 1.0], () if channels is None else (channels,))
    return np.asarray(1 + signs * np.finfo(np.float32).eps, np.float32)
