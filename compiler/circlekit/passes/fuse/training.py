# SPDX-License-Identifier: Apache-2.0
"""Batch norms that were exported in training mode: mean and variance are computed from the batch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from circlekit.ir.graph import Graph, Model
from circlekit.ir.op import Op
from circlekit.ir.value import Value
from circlekit.ops.common import static_int_vector
from circlekit.ops.elementwise import Mul, SquaredDifference, Sub
from circlekit.ops.reduce import Mean
from circlekit.ops.unary import Square


@dataclass(frozen=True, eq=False)
class TrainingNorm:
    """``mean`` and ``variance`` of ``input``, over all dimensions but the channels, the batch among them."""

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


def training_notes(model: Model) -> list[str]:
    """A sentence for each, with what to do."""
    return [_note(norm) for graph in model.graphs for norm in training_norms(graph)]


def _note(norm: TrainingNorm) -> str:
    statistics = f"%{norm.mean.name} and %{norm.variance.name}"
    return (
        f"{statistics} are the statistics of a batch norm of %{norm.input.name} in training mode: results "
        "depend on what else is in the batch, and it cannot be folded; export the model in inference mode, "
        "or freeze them: --freeze_batchnorm DATA.h5"
    )


def _is_over_batch(op: Mean) -> bool:
    """Whether the mean is over the first dimension and all others but the last (of 2 or more)."""
    rank, axes = op.input.rank, static_int_vector(op.axis)
    if rank is None or rank < 2 or axes is None:
        return False
    return sorted(op.axes(axes, rank)) == list(range(rank - 1))


def _variance_of(mean: Mean) -> Mean | None:
    """The mean of the squared difference between what ``mean`` reads and its result."""
    squares = [square for user in mean.output.users if (square := _square(user, mean)) is not None]
    for square in squares:
        for reader in square.output.users:
            if isinstance(reader, Mean) and _is_over_batch(reader) and reader.input is square.output:
                return reader
    return None


def _square(op: Op, mean: Mean) -> Op | None:
    """The operator that makes (x - mean)^2, ``op`` being one that reads the mean."""
    if set(op.inputs) != {mean.input, mean.output}:
        return None
    if isinstance(op, SquaredDifference):
        return op
    if isinstance(op, Sub):
        return next((user for user in op.output.users if _is_square(user, op.output)), None)
    return None


def _is_square(op: Op, value: Value) -> bool:
    return isinstance(op, Square) or (isinstance(op, Mul) and op.inputs[0] is op.inputs[1] is value)
