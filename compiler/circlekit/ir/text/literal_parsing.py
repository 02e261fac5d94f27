# SPDX-License-Identifier: Apache-2.0
"""Convert literals of the text form to arrays and plain data."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from math import isinf, prod
from types import MappingProxyType
from typing import Any, NoReturn, TypeVar

import numpy as np

from circlekit.errors import counted, did_you_mean
from circlekit.ir.core import Graph, Value
from circlekit.ir.declaration import Attribute
from circlekit.ir.dtypes import BY_SHORT, DType
from circlekit.ir.tensor import MAX_RANK, Array
from circlekit.ir.text.lexer import quote
from circlekit.ir.text.literal_printing import shortest_float32
from circlekit.ir.text.syntax import Arguments, GraphName, Literal, Symbol, ValueName

T = TypeVar("T")

Fail = Callable[[str], NoReturn]
"""A function that raises a ParseError with the given message at the place of the literal."""

ELEMENTS_BOUND = 1 << 48
"""The product of the nonzero dimensions of an array must be less than this.

numpy rejects much larger shapes, even of empty arrays.
"""

UNRESOLVED: Mapping[str, Value] = MappingProxyType({})
"""Given to ``tree_of`` as ``values`` while not all values are known: each ``%name`` stays a ValueName."""

# -- plain data --------------------------------------------------------------------------------


def tree_of(
    literal: Literal,
    fail: Fail,
    values: Mapping[str, Value] | None = None,
    graphs: Mapping[str, Graph] | None = None,
) -> Any:
    """Return a literal as plain data: the inverse of ``literal_printing.format_tree``.

    Plain data are numbers, strings, bytes, arrays, None, values, graphs, and lists and dicts of these.
    ``values``, ``graphs``: the values and graphs, by name, that ``%name`` and ``@name`` stand for.
    """
    if isinstance(literal, Symbol):
        if literal == "none":
            return None
        fail(f"expected a literal, got {literal}; write strings in quotes")
    if isinstance(literal, list):
        return [tree_of(x, fail, values, graphs) for x in literal]
    if isinstance(literal, dict):
        return {key: tree_of(x, fail, values, graphs) for key, x in literal.items()}
    if isinstance(literal, Arguments):
        return _special(literal, fail)
    if isinstance(literal, bool | int | float):
        return literal
    if isinstance(literal, ValueName):
        return literal if values is UNRESOLVED else _named(literal, f"%{literal}", values or {}, fail)
    if isinstance(literal, GraphName):
        return _named(literal, f"@{literal}", graphs or {}, fail)
    return str(literal)


def _named(name: str, shown: str, known: Mapping[str, T], fail: Fail) -> T:
    """Return ``known[name]``.  ``shown``: the name with % or @, for the error."""
    if name not in known:
        fail(f"{shown} is not known here{did_you_mean(name, known)}")
    return known[name]


def _special(literal: Arguments, fail: Fail) -> Any:
    """Return the bytes of ``base64("...")``, or the array of an ``array(...)`` literal.

    Examples are ``array(f32, [1.0, 2.0])``, ``array(f32, "TEXT")`` and ``array(f32, "TEXT", [2, 3])``.  TEXT
    is the base64 form of the elements, and ``[2, 3]`` is the shape; by default, the array is a vector.
    """
    arguments = literal.positional
    if literal.named:
        fail(f"{literal.name}(...) takes no named arguments")
    if literal.name == "base64" and len(arguments) == 1:
        return bytes_of(arguments[0], fail)
    if literal.name != "array" or len(arguments) not in (2, 3):
        fail(f"expected base64(string) or array(dtype, elements), got {literal.name}(...)")
    dtype = BY_SHORT.get(str(arguments[0]))
    if dtype is None or dtype.numpy is None:
        fail(f"expected the dtype of an array, got {arguments[0]}")
    if isinstance(arguments[1], list):
        if len(arguments) == 3:
            fail("the nested lists give the shape; a shape may follow base64 text only")
        return array_of(arguments[1], dtype, None, fail)
    data = bytes_of(arguments[1], fail)
    shape = arguments[2] if len(arguments) == 3 else [len(data) // dtype.numpy.itemsize]
    dims = [x for x in shape if isinstance(x, int) and x >= 0] if isinstance(shape, list) else []
    if not isinstance(shape, list) or len(dims) != len(shape):
        fail("expected a shape: a list of integers of at least 0")
    check_shape(dims, fail)
    return array_of_bytes(data, dtype, tuple(dims), fail)


def bytes_of(literal: Literal, fail: Fail) -> bytes:
    """Return the bytes that ``literal``, a base64 string in quotes, stands for."""
    if not isinstance(literal, str) or isinstance(literal, Symbol):
        fail("expected a base64 string")
    try:
        return base64.b64decode(literal, validate=True)
    except (binascii.Error, ValueError):
        fail("the string is not valid base64")


# -- arrays ------------------------------------------------------------------------------------


def bytes_hint(dtype: DType) -> str:
    """Return, for an error message, how to give the bytes of a constant of ``dtype``."""
    return f'use {"raw" if dtype.numpy is None else "base64"}("..."), with the bytes in base64'


def check_shape(shape: Sequence[int], fail: Fail) -> None:
    """Call ``fail`` if ``shape`` has more than MAX_RANK dimensions, or breaks the rule of ELEMENTS_BOUND."""
    if len(shape) > MAX_RANK:
        fail(f"expected at most {MAX_RANK} dimensions, got {len(shape)}")
    if prod(d for d in shape if d) >= ELEMENTS_BOUND:
        fail(f"an array of shape {list(shape)} is too large")


def array_of_bytes(data: Any, dtype: DType, shape: tuple[int, ...], fail: Fail) -> Array:
    """Return ``data``, bytes or another buffer, as an array of ``dtype`` and ``shape`` without a copy."""
    assert dtype.numpy is not None  # packed types stay bytes
    expected = prod(shape) * dtype.numpy.itemsize
    size = memoryview(data).nbytes
    if size != expected:
        fail(f"expected {counted(expected, 'byte')} for {dtype.short}{list(shape)}, got {size}")
    return np.frombuffer(data, dtype.numpy).reshape(shape)


def literal_dtype(literal: Literal, fail: Fail) -> DType:
    """Return the default dtype of a literal: f32 if it has a float, bool if all are bools, else i32.

    An empty list is i32.
    """
    types = {type(x) for x in _numbers(literal, fail).flat}
    if float in types:
        return DType.FLOAT32
    return DType.BOOL if types == {bool} else DType.INT32


def array_of(literal: Literal, dtype: DType, shape: tuple[int, ...] | None, fail: Fail) -> Array:
    """Return the array of a number or of a list, flat or nested.

    ``shape``: the shape of the array, by default that of the literal.  The array of a number or of a flat
    list may have any shape with the same number of elements.
    """
    numbers = _numbers(literal, fail)
    if shape is None:
        shape = numbers.shape
    if numbers.shape != shape and (numbers.ndim > 1 or prod(shape) != numbers.size):
        has = f"shape {list(numbers.shape)}" if numbers.ndim > 1 else counted(numbers.size, "element")
        fail(f"expected shape {list(shape)}, got a literal of {has}")
    return _elements_of(numbers.reshape(-1).tolist(), dtype, fail).reshape(shape)


def _numbers(literal: Literal, fail: Fail) -> Array:
    """Return the numbers in a literal as an array of Python objects with the shape of the nested lists.

    A single number gives an array of rank 0.
    """
    numbers = np.array(literal, object)
    if numbers.ndim > MAX_RANK:
        fail(f"the literal has {counted(numbers.ndim, 'dimension')}, expected at most {MAX_RANK}")
    for item in numbers.flat:
        if isinstance(item, list):  # numpy keeps lists as items if their shapes differ
            fail("the inner lists differ in length or depth")
        if not isinstance(item, bool | int | float):
            fail(f"expected a number, got {item.name if isinstance(item, Arguments) else item}")
    return numbers


def _elements_of(flat: list[int | float | bool], dtype: DType, fail: Fail) -> Array:
    """Return the numbers as a vector of ``dtype``; round them for float dtypes, fail if one does not fit."""
    if dtype.numpy is None or dtype.numpy.kind not in "fiub":
        fail(f"elements of {dtype.short} cannot be written as numbers; {bytes_hint(dtype)}")
    if dtype.numpy.kind == "b":
        if any(x not in (0, 1) for x in flat):
            fail("expected true or false for a bool")
        return np.array(flat, np.bool_)
    if dtype.numpy.kind == "f":
        return _float_elements(flat, dtype.numpy, fail)
    info = np.iinfo(dtype.numpy)  # type: ignore[type-var]  # the kind is i or u
    for x in flat:
        if isinstance(x, float):
            fail(f"expected an integer for {dtype.short}, got {x}")
        if not info.min <= x <= info.max:
            fail(f"{x} does not fit {dtype.short}")
    return np.array(flat, dtype.numpy)


def _float_elements(flat: list[int | float | bool], dtype: np.dtype[Any], fail: Fail) -> Array:
    """Return the numbers rounded to ``dtype``; fail if a finite number becomes infinite."""
    try:
        exact = np.array([float(x) for x in flat], np.float64)
    except OverflowError:
        fail("a number does not fit a float")
    with np.errstate(over="ignore"):
        rounded = exact.astype(dtype)
    overflowed = np.flatnonzero(np.isinf(rounded) & ~np.isinf(exact))
    if overflowed.size:
        fail(f"{flat[overflowed[0]]} does not fit {DType.of(dtype).short}")
    return rounded


# -- attributes of operators ------------------------------------------------------------------


def attribute_of(spec: Attribute, literal: Literal, graphs: Mapping[str, Graph], fail: Fail) -> Any:
    """Return a literal as a value of the attribute ``spec``, with the type of its default.

    Files store a float in 32 bits: so a float becomes the shortest decimal with the same float32.  Fail if a
    finite float becomes infinite.  Lists become tuples.
    """
    default = spec.default
    if spec.is_graph:
        if not isinstance(literal, GraphName):
            fail(f"{spec.name} must be a graph, written @name")
        if literal not in graphs:
            fail(f"no graph is named @{literal}" + did_you_mean(literal, graphs))
        return graphs[literal]
    if isinstance(default, Enum):
        members = BY_SHORT if isinstance(default, DType) else type(default).__members__
        return _member(spec, literal, members, fail)
    value = tree_of(literal, fail)
    if (fault := spec.misfit(value)) is not None:
        fail(fault)
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
        fail(f"{spec.name} does not fit 64 bits")
    return _rounded(float(value) if isinstance(default, float) else value, spec, fail)


def _member(spec: Attribute, literal: Literal, members: Mapping[str, Any], fail: Fail) -> Any:
    """Return the member of an enum that ``literal`` names; ``members``: all members by name."""
    if not isinstance(literal, Symbol) or literal not in members:
        hint = did_you_mean(str(literal), members) or f"; expected one of {', '.join(members)}"
        shown = quote(literal) if type(literal) is str else literal
        fail(f"{spec.name} cannot be {shown}{hint}")
    return members[literal]


def _rounded(data: Any, spec: Attribute, fail: Fail) -> Any:
    """Round floats to the shortest decimal with the same float32; turn lists into tuples.

    Fail if a finite number becomes infinite.  ``spec``: the attribute, for the error.
    """
    if isinstance(data, list):
        return tuple(_rounded(x, spec, fail) for x in data)
    if not isinstance(data, float):
        return data
    rounded = shortest_float32(data)
    if isinf(rounded) and not isinf(data):
        fail(f"{spec.name}: {data} does not fit f32")
    return rounded
