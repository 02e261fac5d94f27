# SPDX-License-Identifier: Apache-2.0
"""The state of a model between runs: variable tensors, resource variables, hash tables, random streams.

A variable tensor is an operand that an operator also writes, such as the state of an LSTM.  A resource
variable or a hash table is named by a handle: an array of one int32 number.  Sources: TFLite var_handle,
read_variable, assign_variable, hashtable, hashtable_import, hashtable_find, hashtable_size,
resource_variable, static_hashtable.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np

from circlekit.errors import ModelError, ShapeError, UnsupportedError, counted
from circlekit.ir.dtypes import DType, f32, i64
from circlekit.ir.graph import Graph
from circlekit.ir.op import Inferred, Op, Run, attribute, operand
from circlekit.ir.resources.resource_limits import need_memory
from circlekit.ir.value import Array, Shape, TensorType, Value, format_shape
from circlekit.ops.operand_dtypes import ANY
from circlekit.ops.quantized_values import zero_point_of


@dataclass(eq=False, repr=False)
class State:
    """The state that all graphs of one interpreter share.

    ``tensors``: the contents of variable tensors.  ``handles``: the handle number of each resource variable
    by (container, name).  ``variables``, ``tables``: the contents of resource variables and hash tables by
    handle number; None for a table that has not been filled.  ``initialized``: the graphs that CALL_ONCE has
    run.  ``streams``: the next counter of each random operator.
    """

    tensors: dict[Value, Array] = field(default_factory=dict)
    handles: dict[tuple[str, str], int] = field(default_factory=dict)
    variables: dict[int, Array] = field(default_factory=dict)
    tables: dict[int, dict[Any, Any] | None] = field(default_factory=dict)
    initialized: set[Graph] = field(default_factory=set)
    streams: dict[Op, Any] = field(default_factory=dict)

    def read(self, value: Value) -> Array:
        """Return a read-only view of a variable tensor.

        Before the tensor is written for the first time, it holds 0, or the zero point if it is int8.  Raise
        UnsupportedError if numpy does not have the dtype of the tensor, ModelError if its shape is not
        static, LimitError if it is too large.
        """
        array = self.tensors.get(value)
        if array is None:
            dtype = value.dtype.numpy
            if dtype is None:
                raise UnsupportedError(f"variable %{value.name}: no kernel for dtype {value.dtype.short}")
            need_memory(value.numel * dtype.itemsize, f"the variable %{value.name}")
            zero = zero_point_of(value) if value.dtype is DType.INT8 else 0
            array = self.tensors[value] = np.full(value.static_shape, zero, dtype)
        return read_only(array)


def read_only(array: Array) -> Array:
    """Return a view of ``array`` that cannot be written."""
    view: Array = np.asarray(array).view()  # ``array`` may be a single number of numpy
    view.flags.writeable = False
    return view


@runtime_checkable
class Runner(Protocol):
    """The interpreter as ``Op.call`` gets it: it runs graphs and holds the state."""

    state: State

    def __call__(self, graph: Graph, inputs: Sequence[Array]) -> list[Array]: ...


def state_of(op: Op, run: Run) -> State:
    """Return the state of the interpreter; raise UnsupportedError if ``op`` runs outside an interpreter."""
    if not isinstance(run, Runner):
        raise UnsupportedError(f"{op.code} keeps state and cannot be computed outside an interpreter")
    return run.state


class Stateful(Op, pure=False, stateful=True):
    """Base class of operators that read and write variable tensors.

    ``states``: the names of the operands that are variable tensors.  A subclass defines ``step``.  The
    interpreter uses ``call``, which also stores the new contents that ``step`` returns; ``kernel`` drops
    these contents.
    """

    states: ClassVar[tuple[str, ...]] = ()

    @property
    def is_one_step(self) -> bool:
        """Whether a run is one step of a sequence, so that the state must be kept between runs."""
        return True

    def batch(self, shape: Shape) -> int | None:
        """Return the size of the batch of an input of ``shape``."""
        return shape[0]

    def for_new_shapes(self, old: Mapping[str, Shape | None], outer: bool) -> dict[str, Shape]:
        """Return the new shapes of the variable tensors: axis 0 changes by the same factor as the batch.

        If the old batch is unknown or 0, axis 0 becomes the new batch.  Return {} if the batch stays or
        a shape is unknown.
        ``old``: the shapes before, by operand.  ``outer`` is not used.
        Raise ShapeError if the new batch is unknown, if axis 0 would not be a whole number, or if a state
        that is not a variable, such as an input of the graph, keeps its shape.
        """
        shapes: dict[str, Shape] = {}
        before, after = old["input"], next(v.shape for _, v in self.operand_items())
        if not before or not after or self.batch(before) == self.batch(after):
            return {}
        rows, batch = self.batch(before), self.batch(after)
        for name in self.states:
            value: Value | None = getattr(self, name)
            if value is None or not (shape := old[name]) or shape[0] is None:
                continue
            if not value.is_variable:
                if value.shape == shape:
                    raise ShapeError(f"%{value.name}: expected a state for the new batch, got the old shape")
                continue
            if batch is None:
                raise ShapeError(f"expected a known batch for the variable %{value.name}, got an unknown one")
            total = shape[0] * batch
            if rows and total % rows:
                raise ShapeError(
                    f"variable %{value.name} of shape {format_shape(shape)} cannot hold a batch of {batch}"
                )
            shapes[name] = (total // rows if rows else batch, *shape[1:])
        return shapes

    @abstractmethod
    def step(self, *args: Any) -> tuple[Sequence[Array], Sequence[Array | None]]:
        """Return the results, and the new contents of each of ``states`` (None for an absent operand)."""

    def kernel(self, *args: Any) -> Sequence[Array]:
        """Return the results; the arguments include the contents of the variable tensors."""
        return self.step(*args)[0]

    def call(self, run: Run, *args: Any) -> Sequence[Array]:
        """Return the results, and store the new contents of the variable tensors in the state."""
        state = state_of(self, run)
        results, contents = self.step(*args)
        for name, array in zip(self.states, contents, strict=True):
            value: Value | None = getattr(self, name)
            if value is not None and value.is_variable and array is not None:
                state.tensors[value] = array.copy()
        return results


class VarHandle(Op, code="VAR_HANDLE", pure=False, stateful=True):
    """The handle of the variable ``shared_name`` in ``container``."""

    container: str | None = attribute(None)
    shared_name: str | None = attribute(None)

    def infer(self) -> TensorType:
        return TensorType(DType.RESOURCE, self.output.shape if self.results else (1,))

    def call(self, run: Run, *args: Array) -> Sequence[Array]:
        handles = state_of(self, run).handles
        number = handles.setdefault((self.container or "", self.shared_name or ""), len(handles))
        return (handle_array(number, self.output),)


def handle_array(number: int, value: Value) -> Array:
    """Return an int32 array filled with ``number``, of the shape of ``value``, or [1] if that is unknown."""
    return np.full(value.static_shape if value.is_static else (1,), number, np.int32)


def handle_number(op: Op, array: Array) -> int:
    """Return the number that a handle holds; raise ModelError if ``array`` is not a single integer."""
    if array.size != 1 or array.dtype.kind != "i":
        raise ModelError(f"{op.code}: expected a handle, one integer, got {array.dtype}{list(array.shape)}")
    return int(array.reshape(-1)[0])


class ReadVariable(Op, code="READ_VARIABLE", pure=False, stateful=True):
    """The contents of a variable."""

    resource_id = operand(DType.RESOURCE, DType.INT32)

    def infer(self) -> Inferred:
        if not self.results:
            got = "none: the operands do not tell its type"
            raise UnsupportedError(f"READ_VARIABLE: expected a declared result, got {got}")
        return self.output.type

    def call(self, run: Run, *args: Array) -> Sequence[Array]:
        variables = state_of(self, run).variables
        number = handle_number(self, args[0])
        if number not in variables:
            raise ModelError("READ_VARIABLE: expected a variable with an assigned value, got none")
        return (read_only(variables[number]),)


class AssignVariable(Op, code="ASSIGN_VARIABLE", results=(), pure=False, stateful=True):
    """Assigns ``value`` to a variable."""

    resource_id = operand(DType.RESOURCE, DType.INT32)
    value = operand(*ANY)

    def call(self, run: Run, *args: Array) -> Sequence[Array]:
        state_of(self, run).variables[handle_number(self, args[0])] = np.array(args[1])
        return ()


# -- hash tables -------------------------------------------------------------------------------


class TableOperator(Op, pure=False, stateful=True, reference_version=0):
    """Base class of operators that create, fill or read a hash table.  LiteRT has no reference kernel."""

    def table(self, run: Run, handle: Array) -> dict[Any, Any] | None:
        """Return the table that ``handle`` stands for, or None if it has not been filled.

        Raise ModelError if HASHTABLE has not created it.
        """
        tables = state_of(self, run).tables
        number = handle_number(self, handle)
        if number not in tables:
            raise ModelError(f"{self.code}: table {number} is used before HASHTABLE creates it")
        return tables[number]


class Hashtable(TableOperator, code="HASHTABLE"):
    """The handle of the table ``table_id``, which maps i64 to strings or strings to i64."""

    table_id: int = attribute(0)
    key_dtype: DType = attribute(f32)
    value_dtype: DType = attribute(f32)

    def infer(self) -> TensorType:
        if (self.key_dtype, self.value_dtype) not in ((i64, DType.STRING), (DType.STRING, i64)):
            pair = f"{self.key_dtype.short} to {self.value_dtype.short}"
            raise ShapeError(f"HASHTABLE: expected i64 to str or str to i64, got {pair}")
        return TensorType(DType.RESOURCE, (1,))

    def call(self, run: Run, *args: Array) -> Sequence[Array]:
        state_of(self, run).tables.setdefault(self.table_id, None)
        return (handle_array(self.table_id, self.output),)


class HashtableImport(TableOperator, code="HASHTABLE_IMPORT", results=()):
    """Fills a table, unless it has been filled.  Of several entries with equal keys, the first is kept."""

    resource_id = operand(DType.RESOURCE)
    keys = operand(i64, DType.STRING)
    values = operand(i64, DType.STRING)

    def call(self, run: Run, *args: Array) -> Sequence[Array]:
        if self.table(run, args[0]) is None:
            keys, values = (a.reshape(-1).tolist() for a in args[1:])
            if len(keys) != len(values):
                numbers = f"{counted(len(keys), 'key')} and {counted(len(values), 'value')}"
                raise ModelError(f"HASHTABLE_IMPORT: expected a value for each key, got {numbers}")
            # of equal keys, the last one written stays: write the first entry last
            table = dict(zip(reversed(keys), reversed(values), strict=True))
            state_of(self, run).tables[handle_number(self, args[0])] = table
        return ()


class HashtableFind(TableOperator, code="HASHTABLE_FIND"):
    """The values that a table has for ``keys``; ``default_value`` for keys that the table lacks.

    The kernel raises ModelError if HASHTABLE_IMPORT has not filled the table.
    """

    resource_id = operand(DType.RESOURCE)
    keys = operand(i64, DType.STRING)
    default_value = operand(i64, DType.STRING)

    def infer(self) -> TensorType:
        return TensorType(self.default_value.dtype, self.keys.shape)

    def call(self, run: Run, *args: Array) -> Sequence[Array]:
        table = self.table(run, args[0])
        if table is None:
            raise ModelError("HASHTABLE_FIND: the table is used before HASHTABLE_IMPORT fills it")
        default = args[2].reshape(-1)[0]
        out = np.empty(args[1].size, args[2].dtype)
        out[:] = [table.get(key, default) for key in args[1].reshape(-1).tolist()]
        return (out.reshape(args[1].shape),)


class HashtableSize(TableOperator, code="HASHTABLE_SIZE"):
    """The number of entries of a table, i64[1]; 0 if the table has not been filled."""

    resource_id = operand(DType.RESOURCE)

    def infer(self) -> TensorType:
        return TensorType(i64, (1,))

    def call(self, run: Run, *args: Array) -> Sequence[Array]:
        return (np.array([len(self.table(run, args[0]) or ())], np.int64),)
