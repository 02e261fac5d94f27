# SPDX-License-Identifier: Apache-2.0
"""Replace operators on constants by their results, within limits of size and work."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import ClassVar

import numpy as np

from circlekit.errors import CirclekitError
from circlekit.interp.evaluate import evaluate
from circlekit.ir.graph import Graph, Model
from circlekit.ir.op import Op, OpaqueOp
from circlekit.ir.resources.resource_limits import limited, limits
from circlekit.ir.resources.scratch_files import copied_to_file, moved_to_file
from circlekit.ir.value import Array, Value
from circlekit.ops.constant_operands import constant_elements
from circlekit.ops.program.custom import is_pure
from circlekit.passes.support.equality import is_fixed_constant
from circlekit.rewrite.base import Context, Pass

MAX_GROWTH = 4
"""Largest ratio of the bytes of the results to the bytes of the operands, so that the file stays small.

It does not limit results of at most SMALL_BYTES.
"""

SMALL_BYTES = 64 << 10
"""Results of at most this size are computed whatever the size of the operands."""

MIN_TOTAL_BYTES, MAX_TOTAL_BYTES, MAX_TOTAL_GROWTH = 128 << 20, 4 << 30, 16
"""Limits for the bytes of all results that constant folding computes in one optimization.

The limit is MAX_TOTAL_GROWTH times the bytes of the model's constants, but at least MIN_TOTAL_BYTES and at
most MAX_TOTAL_BYTES.
"""

MIN_TOTAL_MACS, MAX_TOTAL_MACS, MACS_PER_BYTE = 1_000_000_000, 200_000_000_000, 1024
"""Limits for all multiply-accumulates that constant folding computes in one optimization.

The limit is MIN_TOTAL_MACS, plus MACS_PER_BYTE for each byte of the model's constants, but at most
MAX_TOTAL_MACS.  For example, the product of the two matrices of a LoRA (low-rank) adapter of rank 1000 takes
1000 MACs for each adapted weight.  So it is within the limit for up to 200 million weights.
"""

MAX_VIRTUAL_ELEMENTS = 1 << 58
"""An operand of which only the shape is used must have fewer elements than this, or the operator stays.

An array of numpy has fewer than 2^63 bytes.  With fewer than 2^58 elements, of at most 2^4 bytes each
(complex128), it has fewer than 2^62.
"""


class FoldConstants(Pass):
    """Replace a pure operator with constant operands by its results, computed by its kernel.

    An operator that uses only the shapes of its operands, such as SHAPE, is folded if the shapes are known.
    Results keep their names and quantization.  An output of the main graph may become a constant if its shape
    is known.  Outputs of other graphs, such as those that WHILE calls, never become constants.

    ``codes``: the operators that are folded, as ``code_of`` names them; all if it is empty.  ``max_growth``:
    the largest ratio of result bytes to operand bytes for results above SMALL_BYTES.
    """

    name = "fold_constants"
    codes: ClassVar[frozenset[str]] = frozenset()
    max_growth: ClassVar[int] = MAX_GROWTH

    def run(self, model: Model, context: Context) -> int:
        if not context.folded.max_bytes:  # the first folding pass of the optimization sets the limits
            data = [v.data for graph in model.graphs for v in graph.values() if v.data is not None]
            # constants that share data count once
            size = sum({array.__array_interface__["data"][0]: array.nbytes for array in data}.values())
            context.folded.max_bytes = min(max(MAX_TOTAL_GROWTH * size, MIN_TOTAL_BYTES), MAX_TOTAL_BYTES)
            context.folded.max_macs = min(MIN_TOTAL_MACS + MACS_PER_BYTE * size, MAX_TOTAL_MACS)
        return sum(self._run_graph(graph, graph is model.main, context) for graph in model.graphs)

    def _run_graph(self, graph: Graph, is_main: bool, context: Context) -> int:
        """Fold the operators of ``graph``, producers first; return how many were folded."""
        count = 0
        constants: dict[Value, Value] = {}
        for op in graph.ops:
            if (self.codes and code_of(op) not in self.codes) or not _is_foldable(op):
                self._refuse_partial(op, context)
                continue
            arrays = _result_refusal(graph, op, is_main) or self._compute(op, context)
            if isinstance(arrays, str):
                context.refuse(self.name, op, arrays)
            elif context.may_rewrite:
                context.count_rewrite(op)
                constants.update(_replace_by_constants(graph, op, arrays))
                count += 1
        if constants:  # ``table``: the values in the order of the file
            graph.table = [constants.get(v, v) for v in graph.table]
        return count

    def _refuse_partial(self, op: Op, context: Context) -> None:
        """Record why ``op``, which is not in ``codes`` or not foldable, is not folded.

        The progress, the last argument of ``refuse``, is 1 if the operands fit but not the operator, and 2 if
        the operator fits but not the operands.  If neither fits, nothing is recorded.
        """
        if not context.partial_matches or not op.results:
            return
        if _is_foldable(op):
            kinds = " or ".join(sorted(self.codes))
            context.refuse(self.name, op, f"%{op.output.name}: expected {kinds}, got {code_of(op)}", 1)
        elif not self.codes or code_of(op) in self.codes:
            operand = next((v for v in op.inputs if not _is_known(op, v)), None)
            if operand is not None:
                needs_shape = not (op.reads_data or operand.is_static)
                what = "whose shape is not known" if needs_shape else "which is not constant"
                why = f"reads %{operand.name}, {what}"
            else:
                why = "has no operands" if is_pure(op) else "is not pure"
            context.refuse(self.name, op, f"%{op.output.name}: {why}", 2)

    def _compute(self, op: Op, context: Context) -> list[Array] | str:
        """Return the results of ``op``, or a sentence that says why they are not computed."""
        work = context.folded
        macs = work.macs + op.macs()
        if macs > work.max_macs:
            return f"folding would take {macs} multiplications in total, the limit is {work.max_macs}"
        if all(v.is_static for v in op.results):  # the size is known before the results are computed
            size = sum(v.numel * v.dtype.bits // 8 for v in op.results)
            why = self._size_refusal(op, size, context)
            if why is not None:
                return why
            total = work.bytes + size
            if total > work.max_bytes:
                return f"folding would compute {total} bytes in total, the limit is {work.max_bytes}"
        work.macs = macs
        available = max(work.max_bytes - work.bytes, 0)
        try:
            with limited(memory=min(context.max_folded_bytes, limits().memory, available)):
                arrays = evaluate(op, [None if v is None else _elements(v) for v in op.inputs])
        except CirclekitError as error:
            return error.message
        size = sum(a.nbytes for a in arrays)
        work.bytes += size
        for value, array in zip(op.results, arrays, strict=True):
            # the scales may not fit a result whose shape was unknown
            why = None if value.quantization is None else value.quantization.misfit(array.shape)
            if why is not None:
                return self._size_refusal(op, size, context) or f"%{value.name}: {why}"
        return self._size_refusal(op, size, context) or arrays

    def _size_refusal(self, op: Op, size: int, context: Context) -> str | None:
        """Return why results of ``size`` bytes are too large, None if they are not."""
        if size > context.max_folded_bytes:
            return f"the result would have {size} bytes, the limit is {context.max_folded_bytes}"
        operands = sum(v.data.nbytes for v in op.inputs if v is not None and v.data is not None)
        if size > max(SMALL_BYTES, self.max_growth * operands):
            return f"the result would have {size} bytes, the operands have {operands}: the file would grow"
        return None


def code_of(op: Op) -> str:
    """Return the name of the operator in the schema, or the custom code of a custom operator."""
    return (op.custom_code or op.code) if isinstance(op, OpaqueOp) else op.code


def _is_foldable(op: Op) -> bool:
    """Return whether ``op`` is pure, has operands, and needs only their known elements or shapes."""
    if not op.inputs or not is_pure(op):
        return False
    return all(_is_known(op, v) for v in op.inputs)


def _is_known(op: Op, operand: Value | None) -> bool:
    """Return whether ``op`` needs only known elements, or a known shape, of its ``operand``."""
    return operand is None or is_fixed_constant(operand) or _is_shape_enough(op, operand)


def _is_shape_enough(op: Op, value: Value) -> bool:
    """Return whether ``op`` needs only the known shape of ``value``, or ``value`` has no elements."""
    if not value.is_static or value.dtype.numpy is None or value.is_variable:
        return False
    # without dimensions of 0: numpy leaves them out, too, when it checks the size of an array
    if prod(d for d in value.static_shape if d) >= MAX_VIRTUAL_ELEMENTS:
        return False
    return value.numel == 0 or not op.reads_data


def _elements(value: Value) -> Array:
    """Return the elements of a constant; for another value, zeros that take no memory.

    Of such a value, the operator uses only the shape.
    """
    if value.data is not None:
        return constant_elements(value)
    return np.broadcast_to(np.zeros((), value.dtype.numpy), value.static_shape)


def _result_refusal(graph: Graph, op: Op, is_main: bool) -> str | None:
    """Return why a result of ``op`` cannot become a constant; None if all can."""
    for value in op.results:
        if graph.is_output(value) and not (is_main and value.is_static):
            what = "of unknown shape" if is_main else "of a graph other than the main graph"
            return f"%{value.name} is an output {what}; such an output is not replaced by a constant"
        if value.dtype.numpy is None or value.is_variable:
            kind = "a variable" if value.is_variable else value.dtype.short
            return f"%{value.name} is {kind}, which cannot be a constant"
    return None


def _replace_by_constants(graph: Graph, op: Op, arrays: Sequence[Array]) -> dict[Value, Value]:
    """Replace ``op`` by constants with the data ``arrays``; return the constant for each replaced result.

    A result that is an output of the graph is not replaced, but becomes constant itself: it gets the data, so
    that the output stays the same value.
    """
    constants = {}
    for index, (value, array) in enumerate(zip(tuple(op.results), arrays, strict=True)):
        if graph.is_output(value):
            op.take_result(index, Value("", value.dtype, value.shape))  # ``op`` no longer produces ``value``
            value.data = _owned(array)
            for name in ("sparsity", "compression_type"):  # they describe the old data
                value.extra.pop(name, None)
            continue
        constant = Value.constant(value.name, _owned(array), value.quantization)
        graph.replace_uses(value, constant)
        constants[value] = constant
    graph.remove(op)
    return constants


def _owned(array: Array) -> Array:
    """Return the elements of ``array`` in an array of their own, kept in a file if it is large.

    A view is copied, because it would keep its whole base in memory.
    """
    return moved_to_file(array) if array.flags.owndata and array.flags.c_contiguous else copied_to_file(array)
