# SPDX-License-Identifier: Apache-2.0
"""The execution plan of a graph: operators in order, bytes of their results, last uses of values."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from math import prod

from circlekit.errors import CirclekitError, UnsupportedError
from circlekit.interp.fast import FastKernel, prepare
from circlekit.ir.dtypes import DType
from circlekit.ir.graph import Graph, Model
from circlekit.ir.location import place
from circlekit.ir.op import Op, OpaqueOp
from circlekit.ir.resources.byte_sizes import format_exact_size
from circlekit.ir.resources.resource_limits import need_memory
from circlekit.ir.value import Array, TensorType, Value
from circlekit.ops.constant_operands import constant_elements
from circlekit.ops.dimensions import element_count

WORK_PER_ELEMENT = 8
"""The time to store one element of a result, as a number of multiply-accumulates."""

POINTER_BYTES = 8
"""The bytes of one element of a string tensor in an array: a pointer to a Python object."""


class ResultMemory:
    """Checks that the results of one operator fit the memory limit, before they are computed.

    ``static_bytes``: the size of the results if the shapes in the model determine it, else None.  If None,
    the size is inferred at run time: from the shapes of the operands, or, if these are not enough, from the
    elements of the operands.
    """

    def __init__(self, op: Op) -> None:
        self.op = op
        # an OpaqueOp has no shape rule: its result types are those in the model
        types = [v.type for v in op.results] if isinstance(op, OpaqueOp) else _inferred_types(op)
        self.static_bytes = _total_bytes(types)
        # the last inferred size, ``_shaped_bytes``, and the shapes of operands for which it was inferred
        self._shapes: list[tuple[int, ...] | None] | None = None
        self._shaped_bytes: int | None = None

    def check(self, operands: Sequence[Array | None], held_bytes: int = 0) -> None:
        """Raise LimitError if the results for ``operands`` plus ``held_bytes`` exceed the memory limit.

        ``held_bytes``: the memory that earlier results of the same run hold.  If the size has to be inferred
        at run time, also raise the error with which the shape rule rejects ``operands``, mostly ShapeError.
        """
        size = self.static_bytes
        if size is None:
            shapes = [None if a is None else a.shape for a in operands]
            if shapes != self._shapes:
                types = _inferred_types(with_operands(self.op, operands, constant=False))
                self._shapes, self._shaped_bytes = shapes, _total_bytes(types)
            size = self._shaped_bytes
        if size is None:  # the shapes of the results depend on elements of the operands
            with suppress(UnsupportedError):  # no shape rule
                size = _total_bytes(with_operands(self.op, operands, constant=True).inferred())
        if size is not None:
            need_memory(held_bytes + size, lambda: self._described(operands, held_bytes))

    def _described(self, operands: Sequence[Array | None], held_bytes: int) -> str:
        """Return the names and types of the results, and the bytes held by the run, for an error message."""
        types = _inferred_types(with_operands(self.op, operands, constant=True))
        pairs = zip(self.op.results, types or [v.type for v in self.op.results], strict=False)
        held = f" (in addition to {format_exact_size(held_bytes)} held by this run)" if held_bytes else ""
        return f"{', '.join(f'%{v.name}: {t}' for v, t in pairs)} of {self.op.code}{held}"


def with_operands(op: Op, operands: Sequence[Array | None], constant: bool) -> Op:
    """Return a copy of ``op`` whose operands have the shapes of the arrays ``operands``.

    If ``constant``, the operands are constants with the elements of the arrays.  For None in ``operands``,
    the copy has the operand of ``op``.  The copy serves only to infer shapes, and is not
    registered as a user of any value.
    """

    def given(value: Value | None, array: Array | None) -> Value | None:
        if value is None or array is None:
            return value
        data = array if constant else value.data
        return Value(value.name, value.dtype, array.shape, data, value.quantization)

    copy: Op = object.__new__(type(op))
    copy.__dict__.update(op.__dict__)
    values = [*op.inputs, *[None] * (len(operands) - len(op.inputs))]
    copy.inputs = [given(v, a) for v, a in zip(values, operands, strict=False)]
    return copy


def _inferred_types(op: Op) -> Sequence[TensorType]:
    """Return the result types by the shape rule of ``op``.

    Return () if the rule rejects the operands, or if there is none.
    """
    try:
        return op.inferred()
    except (CirclekitError, ValueError, IndexError, ArithmeticError):
        return ()


def _total_bytes(types: Sequence[TensorType]) -> int | None:
    """Return the bytes of arrays of ``types`` in memory; None if a shape is unknown or ``types`` is empty.

    A dimension of 0 or less counts as 1: a kernel may need memory even for an empty result.  For instance, a
    GATHER to [0, N] still computes N indices.
    """
    total = 0
    for result in types:
        if result.shape is None or None in result.shape:
            return None
        if result.dtype.numpy is not None:
            element_bytes = result.dtype.numpy.itemsize
        elif result.dtype is DType.BFLOAT16:  # an array of float32
            element_bytes = 4
        else:  # numbers of less than 8 bits take a byte each
            element_bytes = 1 if result.dtype.bits else POINTER_BYTES
        total += prod(max(dim, 1) for dim in result.shape if dim is not None) * element_bytes
    return total if types else None


class ExecutionPlan:
    """The operators of a graph in order, with their fast paths, and the decoded constants of the graph.

    The plan is valid while ``graph.epoch`` equals ``epoch``, that is, until the operators change.  The
    elements of constants must not change meanwhile, because the plan keeps them.  ``largest_macs``: the
    largest number of multiply-accumulates of one operator.
    """

    def __init__(self, graph: Graph, model: Model | None = None) -> None:
        """Plan ``graph``; raise ModelError, naming an operator and ``model``, if the operator is invalid."""
        self.epoch = graph.epoch
        self.operators = [_planned(op, model) for op in graph]
        self.largest_macs = max((op.macs() for op in graph if op.results), default=0)
        self._constants: dict[Value, Array] = {}
        # a value is released after the last operator that uses or produces it; outputs of the graph are kept
        last_op: dict[Value, PlannedOp] = {}
        for planned in self.operators:
            for value in (*planned.op.inputs, *planned.op.results):
                if value is not None and value.data is None:
                    last_op[value] = planned
        outputs = set(graph.outputs)
        for value, planned in last_op.items():
            if value not in outputs:
                planned.released.append(value)

    def constant(self, value: Value) -> Array:
        """Return the elements of a constant as a read-only array, decoded at the first request."""
        array = self._constants.get(value)
        if array is None:
            array = self._constants[value] = constant_elements(value).view()
            array.flags.writeable = False
        return array


class PlannedOp:
    """One operator of an execution plan.

    ``absent``: the number of declared operands that are missing at the end of the operands of ``op``.
    ``fast_kernel``: the kernel to call instead of ``op.kernel``, or None.  ``memory``: checks the size of the
    results.  ``work``: see ``work_of``.  ``released``: the values to release after this operator.
    """

    def __init__(self, op: Op) -> None:
        self.op = op
        self.absent = absent_operands(op)
        self.fast_kernel: FastKernel | None = prepare(op)
        self.memory = ResultMemory(op)
        self.work = work_of(op)
        self.released: list[Value] = []


def _planned(op: Op, model: Model | None) -> PlannedOp:
    """Return ``op`` as a part of a plan; an error names the place of ``op`` in ``model``."""
    try:
        return PlannedOp(op)
    except CirclekitError as error:
        raise error.note(place(op, model)) from None


def work_of(op: Op) -> int:
    """Return an estimate of the time of ``op``, as a number of multiply-accumulates."""
    elements = sum(element_count(value.shape) for value in op.results)
    return 1 + WORK_PER_ELEMENT * elements + (op.macs() if op.results else 0)


def absent_operands(op: Op) -> int:
    """Return how many of its declared operands ``op`` omits at the end; 0 for a variadic operator."""
    if any(operand.variadic for operand in op.operands):
        return 0
    return max(len(op.operands) - len(op.inputs), 0)
