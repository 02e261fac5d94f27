# SPDX-License-Identifier: Apache-2.0
"""Compute integer results that depend only on constants and shapes; operators may read them as shapes."""

from __future__ import annotations

from contextlib import suppress
from itertools import compress

import numpy as np

from circlekit.errors import CirclekitError
from circlekit.interp.evaluate import evaluate
from circlekit.ir.op import Op
from circlekit.ir.value import Array, Value
from circlekit.ops.quantized_values import followed_operand

MAX_KNOWN_ELEMENTS = 1024
"""Integer results with more elements than this are not computed: they are unlikely to be shapes."""


class KnownIntegers:
    """The elements of results that are known before a run.

    ``known``: at most MAX_KNOWN_ELEMENTS integers for each value; they depend only on constants and shapes.
    ``partial``: the values in ``known`` in which a -1 may stand for an unknown dimension.  Of the operators
    that read such a value, only those that copy its elements are computed: a -1 that is used as a number,
    such as in arithmetic or as an axis, would give wrong results.
    """

    def __init__(self) -> None:
        self.known: dict[Value, Array] = {}
        self.partial: set[Value] = set()

    def compute(self, op: Op) -> None:
        """Compute the results of ``op`` if they can be ``known`` (see the class); else do nothing."""
        if not op.pure or not all(_is_small(v) for v in op.results):
            return
        if not op.reads_data:
            self._compute_from_shapes(op)
            return
        if any(v is not None and not v.is_const and v not in self.known for v in op.inputs):
            return
        partial = self.partial.intersection(v for v in op.inputs if v is not None)
        if not partial.issubset(_copied_operands(op)):
            return
        with suppress(CirclekitError):  # without a kernel for the operands, the results stay unknown
            results = evaluate(op, [None if v is None else self.known.get(v, v.data) for v in op.inputs])
            self.known.update(zip(op.results, results, strict=True))
            if partial:
                holds_unknown = (bool((result == -1).any()) for result in results)
                self.partial.update(compress(op.results, holds_unknown))

    def _compute_from_shapes(self, op: Op) -> None:
        """Compute the results of ``op``, which depend only on the shapes of its operands.

        The kernel runs twice, with different sizes in place of unknown dimensions.  Elements that differ
        depend on an unknown dimension, and become -1.
        """
        operands = [v for v in op.inputs if v is not None]  # no such operator has optional operands
        if any(v.shape is None or v.dtype.numpy is None for v in operands):
            return
        with suppress(CirclekitError):
            first, second = (evaluate(op, [_zeros(v, size) for v in operands]) for size in (2, 3))
            for value, a, b in zip(op.results, first, second, strict=True):
                self.known[value] = np.where(a == b, a, np.array(-1, a.dtype))
                if not np.array_equal(a, b):
                    self.partial.add(value)


def _copied_operands(op: Op) -> list[Value]:
    """Return the operands whose elements ``op`` copies to its results; [] if it does not move data.

    Other operands say how to move the data, such as an axis, or the indices of GATHER.
    """
    if not op.data_movement:
        return []
    followed = followed_operand(op)  # None for CONCATENATION and PACK, which copy all operands
    return [v for v in op.inputs if v is not None] if followed is None else [followed]


def _zeros(value: Value, unknown: int) -> Array:
    """Return zeros with the shape of ``value``, where unknown dimensions have the size ``unknown``.

    The array is a view of a single element, so it takes no memory.
    """
    assert value.shape is not None  # the caller has checked it
    return np.broadcast_to(
        np.zeros((), value.dtype.numpy), [unknown if d is None else d for d in value.shape]
    )


def _is_small(value: Value) -> bool:
    """Return whether ``value`` holds at most MAX_KNOWN_ELEMENTS integers."""
    return value.dtype.is_integer and value.is_static and value.numel <= MAX_KNOWN_ELEMENTS
