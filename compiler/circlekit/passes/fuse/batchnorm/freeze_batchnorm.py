# SPDX-License-Identifier: Apache-2.0
"""Replace statistics that a batch norm in training mode computes from the batch by those of a data set."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from circlekit.errors import CirclekitError, RewriteError
from circlekit.interp.interpreter import Interpreter
from circlekit.ir.graph import Model
from circlekit.ir.op import Op
from circlekit.ir.value import Array, Value
from circlekit.passes.fold.remove_dead import RemoveDead
from circlekit.passes.graph_transforms import FoldBatchNorms
from circlekit.passes.support.training_norms import TrainingNorm, training_norms
from circlekit.rewrite.base import Context, Option, Pass

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
            yield from (_note(norm, graph is model.main) for norm in training_norms(graph))

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


def _note(norm: TrainingNorm, is_main: bool) -> str:
    advice = "export the model in inference mode"
    if is_main:
        advice += ", or freeze them: --freeze_batchnorm DATA.h5"
    return (
        f"%{norm.mean.name} and %{norm.variance.name} are the statistics of a batch norm of "
        f"%{norm.input.name} in training mode: results depend on what else is in the batch, and it cannot be "
        f"folded; {advice}"
    )


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
