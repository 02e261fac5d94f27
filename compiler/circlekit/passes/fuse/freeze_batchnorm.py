# SPDX-License-Identifier: Apache-2.0
"""Replace statistics that a batch norm in training mode computes from the batch by those of a data set."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from circlekit.errors import CirclekitError, RewriteError
from circlekit.interp.interpreter import Interpreter
from circlekit.ir.graph import Graph, Model
from circlekit.ir.op import Op
from circlekit.ir.value import Array, Value
from circlekit.ops.arithmetic.binary import Mul, SquaredDifference, Sub
from circlekit.ops.arithmetic.unary import Square
from circlekit.ops.constant_operands import static_int_vector
from circlekit.ops.reduction.reduce import Mean
from circlekit.passes.fold.remove_dead import RemoveDead
from circlekit.passes.graph_transforms import FoldBatchNorms
from circlekit.rewrite.base import Context, Option, Pass


@dataclass(eq=False, repr=False)
class TrainingNorm:
    """``mean`` and ``variance`` of ``input`` over all dimensions but the channels, including the batch."""

    input: Value
    mean: Value
    variance: Value


def training_norms(graph: Graph) -> Iterator[TrainingNorm]:
    """Yield the mean and the variance of each batch norm in training mode, in the order of the graph."""
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


Records = Sequence[Sequence[Array] | Mapping[str, Array]]
"""Inputs of the model, once for each batch."""


def _decay(text: str) -> float:
    number = float(text)
    if not 0 <= number < 1:
        raise ValueError(f"expected a number from 0 to below 1, got {text}")
    return number


class FreezeBatchNorm(Pass):
    """Give batch norms in training mode constant statistics, computed from data, and fold them.

    The statistics are exponential moving averages over the batches of the data, as in training:
    average = decay * average + (1 - decay) * statistic.  The first batches, the warm-up, have equal weights.
    """

    name = "freeze_batchnorm"
    changes_values = True
    options = (
        Option(
            "freeze_batchnorm",
            "constant statistics for batch norms in training mode",
            "DATA.h5",
            records=True,
        ),
        Option("freeze_decay", "how much of the average a new batch leaves (0.99)", "X", _decay, 0.99),
        Option("freeze_warmup", "how many batches at first have equal weights (100)", "N", int, 100),
    )

    @classmethod
    def notes(cls, model: Model, context: Context, changes: int | None) -> Iterable[str]:
        if changes == 0:
            yield "freeze_batchnorm: the model has no batch norm in training mode"
        for graph in model.graphs:
            for norm in training_norms(graph):
                freeze = ", or freeze them: --freeze_batchnorm DATA.h5" if graph is model.main else ""
                yield (
                    f"%{norm.mean.name} and %{norm.variance.name} are the statistics of a batch norm of "
                    f"%{norm.input.name} in training mode: results depend on what else is in the batch, and "
                    f"it cannot be folded; export the model in inference mode{freeze}"
                )

    def run(self, model: Model, context: Context) -> int:
        norms = list(training_norms(model.main))
        if not norms:
            return 0
        records: Records | None = self.setting(context, "freeze_batchnorm")
        if not records:
            raise RewriteError(
                f"freeze_batchnorm needs data: %{norms[0].mean.name} is computed from the batch"
            )
        values = [value for norm in norms for value in (norm.mean, norm.variance)]
        decay, warmup = self.setting(context, "freeze_decay"), self.setting(context, "freeze_warmup")
        for value, array in zip(values, averages(model, values, records, decay, warmup), strict=True):
            constant = Value.constant(model.main.unique_name(f"{value.name}/frozen"), array)
            model.main.replace_uses(value, constant)
        RemoveDead().run(model, context)
        FoldBatchNorms().run(model, context)
        return len(norms)


def averages(
    model: Model, values: Sequence[Value], records: Records, decay: float, warmup: int
) -> list[Array]:
    """The moving average of each of ``values`` over runs of ``model`` on ``records``, in float32."""
    number = {id(value): index for index, value in enumerate(values)}
    totals: list[Array | None] = [None] * len(values)
    latest: dict[int, Array] = {}

    def observe(op: Op, results: Sequence[Array]) -> None:
        for value, array in zip(op.results, results, strict=True):
            if id(value) in number:
                latest[number[id(value)]] = np.asarray(array, np.float64)

    interpreter = Interpreter(model)
    for count, record in enumerate(records):
        try:
            interpreter.run(record, observe=observe)
        except CirclekitError as error:
            raise error.note(f"in record {count} of the data for freeze_batchnorm") from None
        kept = count / (count + 1) if count < max(warmup, 1) else decay
        for index, array in latest.items():
            before = totals[index]
            totals[index] = array if before is None else kept * before + (1 - kept) * array
    return [np.asarray(total, np.float32) for total in totals]
