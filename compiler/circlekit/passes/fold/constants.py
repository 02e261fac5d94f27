# SPDX-License-Identifier: Apache-2.0
"""Operators whose results are known before the run."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from circlekit.errors import CirclekitError
from circlekit.interp.evaluate import evaluate
from circlekit.ir.graph import Graph
from circlekit.ir.op import Op
from circlekit.ir.value import Array, Value
from circlekit.passes.fold.content import is_plain_constant
from circlekit.rewrite.base import Context, GraphPass

GROWTH = 4
"""Results beyond SMALL of more than this many times the bytes of the operands are left to the run."""

SMALL = 64 << 10
"""Bytes up to which results may be any number of times as large as the operands."""


class FoldConstants(GraphPass):
    """A pure operator on constants becomes its results, computed by its kernel.

    So does one that reads no more of its operands than their shapes (SHAPE, RANK), where those are known.
    Results keep name and quantization.  One that is an output of the graph stays computed: many readers
    of the format stumble over a constant there.
    """

    name = "fold_constants"

    def run_graph(self, graph: Graph, context: Context) -> int:
        count = 0
        constants: dict[Value, Value] = {}
        for op in graph.ops:
            operands = _operands(op)
            if operands is None:
                continue
            arrays = _obstacle(graph, op, context) or _results(op, operands, context)
            if isinstance(arrays, str):
                context.refuse(self.name, op, arrays)
            elif context.may_rewrite:
                context.rewrites(op)
                constants.update(_become_constants(graph, op, arrays))
                count += 1
        if constants:
            graph.table = [constants.get(v, v) for v in graph.table]
        return count


def _operands(op: Op) -> list[Array | None] | None:
    """What to call the kernel with; None where that is not known, or the run has an effect."""
    if not op.pure or not op.inputs or op.called_graphs():
        return None
    arrays: list[Array | None] = []
    for value in op.inputs:
        if value is None or is_plain_constant(value):
            arrays.append(None if value is None else value.data)
        elif not op.reads_data and value.is_static and value.dtype.numpy is not None:
            arrays.append(np.broadcast_to(np.zeros((), value.dtype.numpy), value.static_shape))
        else:
            return None
    return arrays


def _obstacle(graph: Graph, op: Op, context: Context) -> str | None:
    """Why ``op`` should not be computed now, as far as its declaration tells."""
    for value in op.results:
        if graph.is_output(value):
            return f"%{value.name} is an output of the graph, which stays computed"
        if value.dtype.numpy is None or value.is_variable:
            kind = "a variable" if value.is_variable else value.dtype.short
            return f"%{value.name} is {kind}, which is not computed before the run"
    for known in op.inputs:
        if known is not None and known.data is not None and not _is_plain_array(known, known.data):
            return f"%{known.name} is packed or sparse, its elements are not at hand"
    if not all(v.is_static for v in op.results):
        return None
    return _oversize(op, sum(v.numel * v.dtype.bits // 8 for v in op.results), context)


def _is_plain_array(value: Value, data: Array) -> bool:
    return value.dtype.numpy == data.dtype and value.shape == data.shape


def _oversize(op: Op, size: int, context: Context) -> str | None:
    """Why results of ``size`` bytes are too large, None where they are not."""
    if size > context.fold_limit:
        return f"the result would have {size} bytes, at most {context.fold_limit} are computed"
    operands = sum(v.data.nbytes for v in op.inputs if v is not None and v.data is not None)
    if size > max(SMALL, GROWTH * operands):
        return f"the result would have {size} bytes, the operands have {operands}: the file would grow"
    return None


def _results(op: Op, operands: Sequence[Array | None], context: Context) -> list[Array] | str:
    """The results of ``op``, or why there are none."""
    try:
        arrays = evaluate(op, operands)
    except CirclekitError as error:
        return error.message
    return _oversize(op, sum(a.nbytes for a in arrays), context) or arrays


def _become_constants(graph: Graph, op: Op, arrays: Sequence[Array]) -> dict[Value, Value]:
    """Put constants in the place of ``op``; returns them by the results that they stand for."""
    constants = {}
    for value, array in zip(op.results, arrays, strict=True):
        constant = Value.constant(value.name, _own(array), value.quantization)
        graph.replace_uses(value, constant)
        constants[value] = constant
    graph.remove(op)
    return constants


def _own(array: Array) -> Array:
    """``array`` in memory of its own: a view would keep alive, or change with, what it was made from."""
    return array if array.flags.owndata and array.flags.c_contiguous else np.array(array, order="C")
