# SPDX-License-Identifier: Apache-2.0
"""Operators whose results are known before the run.

Over 120 lines because what may be folded, at what size, and what takes the place of the operator are one
decision.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import ClassVar

import numpy as np

from circlekit.errors import CirclekitError
from circlekit.interp.evaluate import evaluate
from circlekit.ir.graph import Graph, Model
from circlekit.ir.op import Op, OpaqueOp
from circlekit.ir.resource_limits import limited, limits
from circlekit.ir.scratch_files import copied, settled
from circlekit.ir.value import Array, Value
from circlekit.ops.constant_storage import constant_elements
from circlekit.ops.program.custom import is_pure
from circlekit.passes.fold.content import is_plain_constant
from circlekit.rewrite.base import Context, Pass

GROWTH = 4
"""Results beyond SMALL of more than this many times the bytes of the operands are left to the run."""

SMALL = 64 << 10
"""Bytes up to which results may be any number of times as large as the operands."""

LEAST_BYTES, MOST_BYTES, TOTAL_GROWTH = 128 << 20, 4 << 30, 16
"""What one optimization may make: so many times the constants that there are, between these."""

LEAST_MACS, MOST_MACS, MACS_A_BYTE = 1_000_000_000, 200_000_000_000, 1024
"""What it may compute, by the bytes of constants that there are; adapters of rank 1000 are within it."""


class FoldConstants(Pass):
    """A pure operator on constants becomes its results, computed by its kernel.

    So does one that reads no more of its operands than their shapes (SHAPE, RANK), where those are known,
    and one whose other operands are empty.  Results keep name and quantization, those of the main graph's
    interface too; what a graph called by WHILE or IF gives back stays computed.

    ``codes``: the schema's names of the operators that are folded, or of custom ones their custom codes;
    none for all of them.  ``growth``: how many times as large as the operands a result may be.
    """

    name = "fold_constants"
    codes: ClassVar[frozenset[str]] = frozenset()
    growth: ClassVar[int] = GROWTH

    def run(self, model: Model, context: Context) -> int:
        if not context.folded.max_bytes:
            size = _constant_bytes(model)
            context.folded.max_bytes = min(max(TOTAL_GROWTH * size, LEAST_BYTES), MOST_BYTES)
            context.folded.max_macs = min(LEAST_MACS + MACS_A_BYTE * size, MOST_MACS)
        return sum(self._run_graph(graph, graph is model.main, context) for graph in model.graphs)

    def _run_graph(self, graph: Graph, is_main: bool, context: Context) -> int:
        count = 0
        constants: dict[Value, Value] = {}
        for op in graph.ops:
            if (self.codes and code_of(op) not in self.codes) or not _is_known(op):
                self._far_miss(op, context)
                continue
            arrays = _obstacle(graph, op, is_main) or self._results(op, context)
            if isinstance(arrays, str):
                context.refuse(self.name, op, arrays)
            elif context.may_rewrite:
                context.rewrites(op)
                constants.update(_become_constants(graph, op, arrays))
                count += 1
        if constants:
            graph.table = [constants.get(v, v) for v in graph.table]
        return count

    def _far_miss(self, op: Op, context: Context) -> None:
        """What is to say of an operator of another kind, or on operands that are not known."""
        if not context.partial_matches or not op.results:
            return
        if _is_known(op):
            kinds = " or ".join(sorted(self.codes))
            context.refuse(self.name, op, f"%{op.output.name}: is {code_of(op)}, {kinds} is wanted", 1)
        elif not self.codes or code_of(op) in self.codes:
            unknown = next((v for v in op.inputs if v is not None and not is_plain_constant(v)), None)
            why = "does more than to compute" if unknown is None else f"reads %{unknown.name}, no constant"
            context.refuse(self.name, op, f"%{op.output.name}: {why}", 2)

    def _results(self, op: Op, context: Context) -> list[Array] | str:
        """The results of ``op``, or why there are none."""
        work = context.folded
        most = min(context.max_folded_bytes, limits().memory, max(work.max_bytes - work.bytes, 0))
        macs = work.macs + op.macs()
        if macs > work.max_macs:
            return f"folding would take {macs} multiplications by now, at most {work.max_macs} are done"
        if all(v.is_static for v in op.results):
            why = self._oversize(op, sum(v.numel * v.dtype.bits // 8 for v in op.results), context)
            if why is not None:
                return why
        work.macs = macs
        try:
            with limited(memory=most):
                arrays = evaluate(op, [None if v is None else _elements(v) for v in op.inputs])
        except CirclekitError as error:
            return error.message
        size = sum(a.nbytes for a in arrays)
        work.bytes += size
        return self._oversize(op, size, context) or _misfit(op, arrays) or arrays

    def _oversize(self, op: Op, size: int, context: Context) -> str | None:
        """Why results of ``size`` bytes are too large, None where they are not."""
        if size > context.max_folded_bytes:
            return f"the result would have {size} bytes, at most {context.max_folded_bytes} are computed"
        operands = sum(v.data.nbytes for v in op.inputs if v is not None and v.data is not None)
        if size > max(SMALL, self.growth * operands):
            return f"the result would have {size} bytes, the operands have {operands}: the file would grow"
        return None


def _constant_bytes(model: Model) -> int:
    """Of all constants; those that are one place of a file count once."""
    known = [v.data for graph in model.graphs for v in graph.values() if v.data is not None]
    return sum({data.__array_interface__["data"][0]: data.nbytes for data in known}.values())


def _misfit(op: Op, arrays: Sequence[Array]) -> str | None:
    """How the quantization of a result of unknown shape contradicts what it turns out to be."""
    for value, array in zip(op.results, arrays, strict=True):
        why = None if value.quantization is None else value.quantization.misfit(array.shape)
        if why is not None:
            return f"%{value.name}: {why}"
    return None


def code_of(op: Op) -> str:
    """The schema's name of an operator, of a custom one its custom code."""
    return (op.custom_code or op.code) if isinstance(op, OpaqueOp) else op.code


def _is_known(op: Op) -> bool:
    """Whether all that ``op`` reads is known before the run, and it does no more than to compute of it."""
    if not op.inputs or not is_pure(op) or op.called_graphs():
        return False
    return all(v is None or is_plain_constant(v) or _is_shape_enough(op, v) for v in op.inputs)


MOST_ELEMENTS = 1 << 58
"""Of an array that takes no memory, for its elements are one, or none: numpy counts its bytes in 63 bits,
sizes of 0 aside."""


def _is_shape_enough(op: Op, value: Value) -> bool:
    if not value.is_static or value.dtype.numpy is None or value.is_variable:
        return False
    if prod(d for d in value.static_shape if d) >= MOST_ELEMENTS:
        return False
    return value.numel == 0 or not op.reads_data


def _elements(value: Value) -> Array:
    """The elements of a constant, or, where its shape alone matters, zeros."""
    if value.data is not None:
        return constant_elements(value)
    return np.broadcast_to(np.zeros((), value.dtype.numpy), value.static_shape)


def _obstacle(graph: Graph, op: Op, is_main: bool) -> str | None:
    """Why ``op`` should not be computed now, as far as its results tell."""
    for value in op.results:
        if graph.is_output(value) and not (is_main and value.is_static):
            what = "of unknown shape" if is_main else "of a called graph"
            return f"%{value.name} is an output {what}, which stays computed"
        if value.dtype.numpy is None or value.is_variable:
            kind = "a variable" if value.is_variable else value.dtype.short
            return f"%{value.name} is {kind}, which is not computed before the run"
    return None


def _become_constants(graph: Graph, op: Op, arrays: Sequence[Array]) -> dict[Value, Value]:
    """Put constants in the place of ``op``; returns them by the results that they stand for."""
    constants = {}
    for index, (value, array) in enumerate(zip(tuple(op.results), arrays, strict=True)):
        if graph.is_output(value):
            op.take_result(index, Value("", value.dtype, value.shape))
            value.data = _own(array)
            for name in ("sparsity", "compression_type"):  # how a file would pack what it is now
                value.extra.pop(name, None)
            continue
        constant = Value.constant(value.name, _own(array), value.quantization)
        graph.replace_uses(value, constant)
        constants[value] = constant
    graph.remove(op)
    return constants


def _own(array: Array) -> Array:
    """``array`` in memory of its own: a view would keep alive, or change with, what it was made from."""
    return settled(array) if array.flags.owndata and array.flags.c_contiguous else copied(array)
