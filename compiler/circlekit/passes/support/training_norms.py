# SPDX-License-Identifier: Apache-2.0
"""Find batch norms that were exported in training mode: mean and variance are computed from the batch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from circlekit.ir.graph import Graph
from circlekit.ir.op import Op
from circlekit.ir.value import Value
from circlekit.ops.arithmetic.binary import Mul, SquaredDifference, Sub
from circlekit.ops.arithmetic.unary import Square
from circlekit.ops.constant_operands import static_int_vector
from circlekit.ops.reduction.reduce import Mean


@dataclass(eq=False, repr=False)
class TrainingNorm:
    """``mean`` and ``variance`` of ``input`` over all dimensions but the channels, including the batch."""

    input: Value
    mean: Value
    variance: Value


def training_norms(graph: Graph) -> Iterator[TrainingNorm]:
    """Every such pair of statistics, in the order of the graph."""
    for op in graph:
        if isinstance(op, Mean) and _is_over_batch(op):
            found = _variance_of(op)
            if found is not None:
                yield TrainingNorm(op.input, op.output, found.output)


def _is_over_batch(op: Mean) -> bool:
    """Whether the mean is over the first dimension and all others but one, the channels."""
    rank, axes = op.input.rank, static_int_vector(op.axis)
    if rank is None or rank < 2 or axes is None:
        return False
    reduced = set(op.normalized_axes(axes, rank))
    return 0 in reduced and len(reduced) == rank - 1


def _variance_of(mean: Mean) -> Op | None:
    """The operator that computes the variance: mean((x - mean)^2), or mean(x^2) - mean^2."""
    for user in mean.output.users:
        square = _squared_deviation(user, mean)
        if square is not None:
            for reader in square.output.users:
                if _has_axes_of(reader, mean):
                    return reader
        if _is_square_of(user, mean.output):
            for reader in user.output.users:
                is_difference = isinstance(reader, Sub) and reader.inputs[1] is user.output
                if is_difference and _is_mean_of_squares(reader.inputs[0], mean):
                    return reader
    return None


def _has_axes_of(op: Op | None, mean: Mean) -> bool:
    """Whether ``op`` is a mean over the same dimensions as ``mean``."""
    if not isinstance(op, Mean) or not _is_over_batch(op) or op.input.rank != mean.input.rank:
        return False
    rank = mean.input.rank or 0
    one, two = (sorted(m.normalized_axes(static_int_vector(m.axis) or [], rank)) for m in (op, mean))
    return one == two


def _is_mean_of_squares(value: Value | None, mean: Mean) -> bool:
    """Whether ``value`` is the mean of the squares of the operand of ``mean``."""
    maker = None if value is None else value.producer
    if not isinstance(maker, Mean) or not _has_axes_of(maker, mean):
        return False
    squares = maker.input.producer
    return squares is not None and _is_square_of(squares, mean.input)


def _squared_deviation(op: Op, mean: Mean) -> Op | None:
    """The operator that computes (x - mean)^2, where ``op`` is a user of the mean."""
    if set(op.inputs) != {mean.input, mean.output}:
        return None
    if isinstance(op, SquaredDifference):
        return op
    if isinstance(op, Sub):
        return next((user for user in op.output.users if _is_square_of(user, op.output)), None)
    return None


def _is_square_of(op: Op, value: Value) -> bool:
    if isinstance(op, Square):
        return op.inputs[0] is value
    return isinstance(op, Mul) and op.inputs[0] is op.inputs[1] is value
