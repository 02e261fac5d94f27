# SPDX-License-Identifier: Apache-2.0
"""Resource variables and hash tables, which keep their contents between runs.

A handle is an array of one int32 number.  Sources: TFLite var_handle, read_variable, assign_variable,
hashtable, hashtable_import, hashtable_find, hashtable_size, resource_variable, static_hashtable.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from circlekit.errors import ModelError, ShapeError, UnsupportedError
from circlekit.ir.dtypes import DType, f32, i64
from circlekit.ir.op import Inferred, Op, Run, attribute, operand
from circlekit.ir.value import Array, TensorType, Value
from circlekit.ops.operand_dtypes import ANY
from circlekit.ops.program.state import read_only, state_of


class VarHandle(Op, code="VAR_HANDLE", pure=False, stateful=True):
    """The handle of the variable ``shared_name`` in ``container``."""

    container: str | None = attribute(None)
    shared_name: str | None = attribute(None)

    def infer(self) -> TensorType:
        return TensorType(DType.RESOURCE, self.output.shape if self.results else (1,))

    def call(self, run: Run, *args: Array) -> Sequence[Array]:
        handles = state_of(self, run).handles
        number = handles.setdefault((self.container or "", self.shared_name or ""), len(handles))
        return (handle(number, self.output),)


def handle(number: int, value: Value) -> Array:
    """Return the handle ``number`` in the declared shape of ``value``, [1] if that is unknown."""
    shape = value.static_shape if value.is_static else (1,)
    return np.full(shape, number, np.int32)


def handle_number(op: Op, array: Array) -> int:
    """Return the number of a handle; ModelError if ``array`` is not a handle."""
    if array.size != 1 or array.dtype.kind != "i":
        raise ModelError(f"{op.code}: expected a handle, one integer, got {array.dtype}{list(array.shape)}")
    return int(array.reshape(-1)[0])


class ReadVariable(Op, code="READ_VARIABLE", pure=False, stateful=True):
    """The contents of a variable."""

    resource_id = operand(DType.RESOURCE, DType.INT32)

    def infer(self) -> Inferred:
        if not self.results:
            raise UnsupportedError("READ_VARIABLE: expected a declared result, it has no shape rule")
        return self.output.type

    def call(self, run: Run, *args: Array) -> Sequence[Array]:
        variables = state_of(self, run).variables
        number = handle_number(self, args[0])
        if number not in variables:
            raise ModelError("READ_VARIABLE: the variable is read before a value is assigned to it")
        return (read_only(variables[number]),)


class AssignVariable(Op, code="ASSIGN_VARIABLE", results=(), pure=False, stateful=True):
    """Assigns ``value`` to a variable."""

    resource_id = operand(DType.RESOURCE, DType.INT32)
    value = operand(*ANY)

    def infer(self) -> Inferred:
        return ()

    def call(self, run: Run, *args: Array) -> Sequence[Array]:
        state_of(self, run).variables[handle_number(self, args[0])] = np.array(args[1])
        return ()


# -- hash tables -------------------------------------------------------------------------------


class Hashtable(Op, code="HASHTABLE", pure=False, stateful=True, reference_version=0):
    """The handle of table ``table_id``, from i64 to strings or from strings to i64."""

    table_id: int = attribute(0)
    key_dtype: DType = attribute(f32)
    value_dtype: DType = attribute(f32)

    def infer(self) -> TensorType:
        if (self.key_dtype, self.value_dtype) not in ((i64, DType.STRING), (DType.STRING, i64)):
            pair = f"{self.key_dtype.short} to {self.value_dtype.short}"
            raise ShapeError(f"HASHTABLE: expected i64 to str or str to i64, got {pair}")
        return TensorType(DType.RESOURCE, (1,))

    def call(self, run: Run, *args: Array) -> Sequence[Array]:
        state_of(self, run).tables.setdefault(self.table_id, {})
        return (handle(self.table_id, self.output),)


def table_of(op: Op, run: Run, array: Array) -> dict[Any, Any]:
    """Return the table of a handle; ModelError if it does not exist."""
    tables = state_of(op, run).tables
    number = handle_number(op, array)
    if number not in tables:
        raise ModelError(f"{op.code}: table {number} is used before HASHTABLE creates it")
    return tables[number]


class HashtableImport(
    Op, code="HASHTABLE_IMPORT", results=(), pure=False, stateful=True, reference_version=0
):
    """Fills a table if it is empty; the first of equal keys is taken."""

    resource_id = operand(DType.RESOURCE)
    keys = operand(i64, DType.STRING)
    values = operand(i64, DType.STRING)

    def infer(self) -> Inferred:
        return ()

    def call(self, run: Run, *args: Array) -> Sequence[Array]:
        table = table_of(self, run, args[0])
        if not table:
            keys, values = (a.reshape(-1).tolist() for a in args[1:])
            table.update(zip(reversed(keys), reversed(values), strict=True))
        return ()


class HashtableFind(Op, code="HASHTABLE_FIND", pure=False, stateful=True, reference_version=0):
    """The entries for ``keys``, or ``default_value`` for missing keys."""

    resource_id = operand(DType.RESOURCE)
    keys = operand(i64, DType.STRING)
    default_value = operand(i64, DType.STRING)

    def infer(self) -> TensorType:
        return TensorType(self.default_value.dtype, self.keys.shape)

    def call(self, run: Run, *args: Array) -> Sequence[Array]:
        table = table_of(self, run, args[0])
        if not table:
            raise ModelError("HASHTABLE_FIND: the table is used before HASHTABLE_IMPORT fills it")
        default = args[2].reshape(-1)[0]
        out = np.empty(args[1].size, args[2].dtype)
        out[:] = [table.get(key, default) for key in args[1].reshape(-1).tolist()]
        return (out.reshape(args[1].shape),)


class HashtableSize(Op, code="HASHTABLE_SIZE", pure=False, stateful=True, reference_version=0):
    """The number of entries of a table, i64[1]."""

    resource_id = operand(DType.RESOURCE)

    def infer(self) -> TensorType:
        return TensorType(i64, (1,))

    def call(self, run: Run, *args: Array) -> Sequence[Array]:
        return (np.array([len(table_of(self, run, args[0]))], np.int64),)
