# SPDX-License-Identifier: Apache-2.0
"""Replace the statistics of batch norms in training mode by constants, computed from a data set.

In training mode, a batch norm computes mean and variance (the statistics) from the batch that it receives.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from circlekit.errors import CirclekitError, RewriteError
from circlekit.interp.interpreter import Interpreter
from circlekit.ir.graph import Graph, Model
from circlekit.ir.op import Op
from circlekit.ir.value import Array, Value
from circlekit.ops.constant_operands import int_list
from circlekit.ops.reduction.reduce import Mean, reduced_axes
from circlekit.passes.fold.remove_dead import RemoveDead
from circlekit.passes.graph_transforms import FoldBatchNorms
from circlekit.rewrite.base import Context, Option, Pass
from circlekit.rewrite.match import Matcher
from circlekit.rewrite.picture import parse_picture


class TrainingNorm(NamedTuple):
    """A batch norm of float32 in training mode.

    ``mean``, ``variance``: the statistics of ``input`` over all its axes but one, the axis of the channels.
    """

    input: Value
    mean: Value
    variance: Value


MEAN = "m = Mean(x: f32, a: const) {keep_dims: any}"
PICTURES = (
    *(
        f"{MEAN}  {square}  v = Mean(q, b: const) {{keep_dims: any}}"
        for square in (
            "q = SquaredDifference(x, m)",
            "d = Sub(x, m)  q = Square(d)",
            "d = Sub(m, x)  q = Square(d)",
            "d = Sub(x, m)  q = Mul(d, d)",
            "d = Sub(m, x)  q = Mul(d, d)",
        )
    ),
    *(
        f"{MEAN}  {square}  n = Mean(q, b: const) {{keep_dims: any}}  {product}  v = Sub(n, p)"
        for square in ("q = Square(x)", "q = Mul(x, x)")
        for product in ("p = Square(m)", "p = Mul(m, m)")
    ),
)
"""Pictures of the mean ``m`` of ``x`` and its variance ``v``: mean((x - m)^2) or mean(x^2) - m^2.

``a``, ``b``: the axes of the means.
"""


@cache
def _matchers() -> list[Matcher]:
    """Return a matcher for each of PICTURES."""
    return [Matcher(parse_picture(text, "a batch norm in training mode")) for text in PICTURES]


def training_norms(graph: Graph) -> Collection[TrainingNorm]:
    """Return the batch norms in training mode in ``graph``, in the order of its operators."""
    found: dict[Value, TrainingNorm] = {}
    matchers = _matchers() if Mean in graph.kinds else []
    matches = (match for op in graph for matcher in matchers for match in matcher.matches(op))
    for match in matches:
        norm = TrainingNorm(match.value("x"), match.value("m"), match.value("v"))
        if _is_over_batch(norm.input, match.value("a").array(), match.value("b").array()):
            found.setdefault(norm.mean, norm)  # one batch norm may match several pictures
    return found.values()


def _is_over_batch(x: Value, mean_axes: Array, variance_axes: Array) -> bool:
    """Return whether both arrays list the same axes: axis 0 (the batch) and all others of ``x`` but one."""
    if x.rank is None:
        return False
    axes, others = (set(reduced_axes(int_list(v), x.rank)) for v in (mean_axes, variance_axes))
    return axes == others and 0 in axes and len(axes) + 1 == x.rank


Records = Sequence[Sequence[Array] | Mapping[str, Array]]
"""For each batch, the inputs of the model: a sequence in their order, or a mapping by name."""


def _decay(text: str) -> float:
    """Parse the option freeze_decay."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number < 1:
        raise ValueError(f"expected a number from 0 to below 1, got {text}")
    return number


def _warmup(text: str) -> int:
    """Parse the option freeze_warmup."""
    if not text.strip().isdecimal():
        raise ValueError(f"expected an integer of 0 or more, got {text!r}")
    return int(text)


class FreezeBatchNorm(Pass):
    """Replace the statistics of batch norms in training mode by constants from data, and fold these norms.

    Only batch norms in the main graph are frozen.

    Each statistic becomes its moving average over the batches of the data, as in training: after each batch,
    average = decay * average + (1 - decay) * statistic.  During the first batches, the warm-up, the average
    is the mean of all batches so far.
    Raise RewriteError if there is such a batch norm and the user gives no data, CirclekitError if the model
    cannot run on the data.
    """

    name = "freeze_batchnorm"
    changes_values = True
    options = (
        Option("freeze_batchnorm", "freeze statistics of batch norms in training", "DATA.h5", records=True),
        Option("freeze_decay", "weight of the old average at each new batch (0.99)", "X", _decay, 0.99),
        Option("freeze_warmup", "number of first batches with equal weights (100)", "N", _warmup, 100),
    )

    @classmethod
    def notes(cls, model: Model, context: Context, changes: int | None) -> Iterable[str]:
        if changes == 0:
            yield "freeze_batchnorm: the main graph has no batch norm in training mode"
        for graph in model.graphs:
            for norm in training_norms(graph):
                freeze = ", or freeze them: --freeze_batchnorm DATA.h5" if graph is model.main else ""
                yield (
                    f"%{norm.mean.name} and %{norm.variance.name} are the statistics of a batch norm of "
                    f"%{norm.input.name} in training mode: results depend on what else is in the batch, and "
                    f"no pass can fold them; export the model in inference mode{freeze}"
                )

    def run(self, model: Model, context: Context) -> int:
        norms = training_norms(model.main)
        if not norms:
            return 0
        records: Records | None = self.setting(context, "freeze_batchnorm")
        if not records:
            mean = next(iter(norms)).mean.name
            raise RewriteError(f"freeze_batchnorm needs data: %{mean} is computed from the batch")
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
    """Return the moving average (float32) of each of ``values`` over runs of ``model`` on ``records``.

    ``values``: results of operators of the main graph.  ``decay``, ``warmup``: as in FreezeBatchNorm.  Raise
    CirclekitError if the model cannot run on a record.
    """
    indices = {id(value): index for index, value in enumerate(values)}
    totals: list[Array | None] = [None] * len(values)
    latest: dict[int, Array] = {}  # the value of the current batch, by index into ``values``

    def observe(op: Op, results: Sequence[Array]) -> None:
        for value, array in zip(op.results, results, strict=True):
            if id(value) in indices:
                latest[indices[id(value)]] = np.asarray(array, np.float64)

    interpreter = Interpreter(model)
    for count, record in enumerate(records):
        try:
            interpreter.run(record, observe=observe)
        except CirclekitError as error:
            raise error.note(f"in record {count} of the data for freeze_batchnorm") from None
        weight = count / (count + 1) if count < warmup else decay  # of the average of ``count`` batches
        for index, array in latest.items():
            old = totals[index]
            totals[index] = array if old is None else weight * old + (1 - weight) * array
    return [np.asarray(total, np.float32) for total in totals]
