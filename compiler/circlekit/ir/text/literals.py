# SPDX-License-Identifier: Apache-2.0
"""Arrays and plain data as literals of the text form, both ways, to the bit."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable, Mapping
from math import prod
from types import MappingProxyType
from typing import Any, NoReturn, TypeVar

import numpy as np

from circlekit.errors import near_miss
from circlekit.ir.dtypes import BY_SHORT, DType
from circlekit.ir.graph import Graph
from circlekit.ir.text.lexer import quote, quoted
from circlekit.ir.text.syntax import Arguments, GraphName, Literal, Symbol, ValueName
from circlekit.ir.value import Array, Value

T = TypeVar("T")

Fail = Callable[[str], NoReturn]
"""Raises the ParseError for a message."""

# -- arrays to text ----------------------------------------------------------------------------


def elements(array: Array) -> list[str] | None:
    """One literal for each element in C order; None where literals cannot give the same bits back.

    Floats are the shortest decimals that do.
    """
    flat = np.ascontiguousarray(array).reshape(-1)
    kind = flat.dtype.kind
    if kind == "b":
        return ["true" if x else "false" for x in flat.tolist()]
    if kind in "iu":
        return [str(x) for x in flat.tolist()]
    if kind != "f":
        return None
    return _floats(flat)


def _floats(flat: Array) -> list[str] | None:
    texts = (
        [repr(x) for x in flat.tolist()] if flat.dtype.itemsize == 8 else [repr(float(str(x))) for x in flat]
    )
    back = np.array([float(t) for t in texts], np.float64)
    with np.errstate(over="ignore"):
        bits = back.astype(flat.dtype)
    unsigned = np.dtype(f"u{flat.dtype.itemsize}")
    for index in np.flatnonzero(bits.view(unsigned) != flat.view(unsigned)).tolist():
        if np.isnan(flat[index]):
            return None  # a NaN with a payload or a sign
        texts[index] = repr(float(flat[index]))
    return texts


def format_float32(value: float) -> str:
    """The shortest decimal with the same float32."""
    with np.errstate(over="ignore"):
        return repr(float(str(np.float32(value))))


def format_flat(texts: Iterable[str]) -> str:
    return "[" + ", ".join(texts) + "]"


def format_nested(texts: list[str], shape: tuple[int, ...]) -> str:
    """Lists in lists for ``shape``; a bare number for a scalar."""
    if not shape:
        return texts[0]
    step = len(texts) // shape[0] if shape[0] else 0
    if len(shape) == 1:
        return format_flat(texts)
    parts = (format_nested(texts[i * step : (i + 1) * step], shape[1:]) for i in range(shape[0]))
    return format_flat(parts)


def format_base64(data: bytes) -> str:
    return f'"{base64.b64encode(data).decode("ascii")}"'


# -- plain data to text ------------------------------------------------------------------------


Reference = Callable[[Value | Graph], str]


def format_tree(data: Any, reference: Reference | None = None) -> str:
    """A literal for an uninterpreted field of a file: numbers, text, bytes, arrays, lists, dicts...

    ``reference``: how the values of the graph, and other graphs, are called.
    """
    if data is None:
        return "none"
    if isinstance(data, bool | np.bool_):
        return "true" if data else "false"
    if isinstance(data, int | np.integer):
        return str(int(data))
    if isinstance(data, float | np.floating):
        return repr(float(data))
    if isinstance(data, str):
        return quote(data)
    if isinstance(data, bytes | bytearray | memoryview):
        return f"base64({format_base64(bytes(data))})"
    if isinstance(data, Mapping):
        return "{" + format_items(data, reference) + "}"
    if isinstance(data, Value | Graph):
        sigil = "%" if isinstance(data, Value) else "@"
        return reference(data) if reference is not None else quoted(sigil, data.name)
    if isinstance(data, np.ndarray):
        return _format_array(data)
    return format_flat(format_tree(x, reference) for x in data)


def format_items(data: Mapping[str, Any], reference: Reference | None = None) -> str:
    """What stands in the braces for a dict."""
    return ", ".join(f"{format_key(k)}: {format_tree(v, reference)}" for k, v in data.items())


def is_plain(data: Any) -> bool:
    """Whether ``format_tree`` can print it: what readers keep for themselves in ``extra`` may be anything."""
    if isinstance(data, Mapping):
        return all(isinstance(k, str) and is_plain(x) for k, x in data.items())
    if isinstance(data, list | tuple):
        return all(map(is_plain, data))
    if isinstance(data, np.ndarray):
        return data.dtype.kind in "biufc"
    return data is None or isinstance(data, _PLAIN)


def plain_items(extra: Mapping[str, Any]) -> dict[str, Any]:
    """The entries of an ``extra`` that mean something outside of the file they came from."""
    if not extra:
        return {}
    return {key: value for key, value in extra.items() if not _is_storage(key) and is_plain(value)}


def _is_storage(key: str) -> bool:
    """Whether a reader notes under this key how its file stored what the model says anyway."""
    return key in _STORAGE or key.startswith("stored_")


_STORAGE = frozenset({"absent", "buffer", "no_options", "far_options"})
_PLAIN = (bool, int, float, str, bytes, bytearray, memoryview, Value, np.bool_, np.integer, np.floating)


def _format_array(array: Array) -> str:
    dtype = DType.of(array.dtype).short
    texts = elements(array) if array.ndim == 1 and array.size <= 64 else None
    if texts is not None:
        return f"array({dtype}, {format_flat(texts)})"
    shape = "" if array.ndim == 1 else f", {format_flat(map(str, array.shape))}"
    return f"array({dtype}, {format_base64(array.tobytes())}{shape})"


def format_key(key: str) -> str:
    """A key of a dict: bare where it reads as a word, which numbers (``inf``, ``nan``) are not."""
    return key if key.isidentifier() and key.isascii() and key not in ("inf", "nan") else quote(key)


# -- text to data ------------------------------------------------------------------------------


LATER: Mapping[str, Value] = MappingProxyType({})
"""For ``tree_of``: names of values stay names, because not all values are known yet."""


def tree_of(
    literal: Literal,
    fail: Fail,
    values: Mapping[str, Value] | None = None,
    graphs: Mapping[str, Graph] | None = None,
) -> Any:
    """What ``format_tree`` was given.  ``values``: those of the graph by name; ``graphs``: by label."""
    if isinstance(literal, Symbol):
        if literal == "none":
            return None
        fail(f"expected a literal, found {literal}; text stands in quotes")
    if isinstance(literal, list):
        return [tree_of(x, fail, values, graphs) for x in literal]
    if isinstance(literal, dict):
        return {key: tree_of(x, fail, values, graphs) for key, x in literal.items()}
    if isinstance(literal, Arguments):
        return _special(literal, fail)
    if isinstance(literal, bool | int | float):
        return literal
    if isinstance(literal, ValueName):
        return literal if values is LATER else _named(literal, f"%{literal}", values or {}, fail)
    if isinstance(literal, GraphName):
        return _named(literal, f"@{literal}", graphs or {}, fail)
    return str(literal)


def _named(name: str, shown: str, known: Mapping[str, T], fail: Fail) -> T:
    if name not in known:
        fail(f"{shown} is not defined before this place{near_miss(name, known)}")
    return known[name]


def _special(literal: Arguments, fail: Fail) -> Any:
    arguments = literal.positional
    if literal.name == "base64" and len(arguments) == 1:
        return bytes_of(arguments[0], fail)
    if literal.name != "array" or len(arguments) not in (2, 3):
        fail(f"expected base64(text) or array(dtype, elements), found {literal.name}(...)")
    dtype = BY_SHORT.get(str(arguments[0]))
    if dtype is None or dtype.numpy is None:
        fail(f"no array is of {arguments[0]}")
    if isinstance(arguments[1], list):
        return array_of(arguments[1], dtype, None, fail)
    data = bytes_of(arguments[1], fail)
    dims = _dims(arguments[2], fail) if len(arguments) == 3 else [len(data) // dtype.numpy.itemsize]
    return array_of_bytes(data, dtype, tuple(dims), fail)


def _dims(literal: Literal, fail: Fail) -> list[int]:
    if not isinstance(literal, list):
        fail("a shape is a list")
    dims = [x for x in literal if isinstance(x, int) and x >= 0]
    if len(dims) != len(literal):
        fail("a shape is a list of whole numbers from 0 on")
    return dims


def bytes_of(literal: Literal, fail: Fail) -> bytes:
    """The bytes of a base64 string."""
    if not isinstance(literal, str) or isinstance(literal, Symbol):
        fail("expected a base64 string")
    try:
        return base64.b64decode(literal, validate=True)
    except (binascii.Error, ValueError):
        fail("the string is no base64")


def array_of_bytes(data: Any, dtype: DType, shape: tuple[int, ...], fail: Fail) -> Array:
    """The bytes of a buffer seen as an array."""
    assert dtype.numpy is not None  # packed types stay bytes
    wanted = prod(shape) * dtype.numpy.itemsize
    have = memoryview(data).nbytes
    if have != wanted:
        fail(f"the data has {have} bytes, {dtype.short}{list(shape)} has {wanted}")
    return np.frombuffer(data, dtype.numpy).reshape(shape)


def literal_dtype(literal: Literal, fail: Fail) -> DType:
    """The dtype of a literal that is given none: f32 for a list with a float, i32, bool."""
    flat = list(_flatten(literal, fail))
    if any(isinstance(x, float) for x in flat):
        return DType.FLOAT32
    if flat and all(isinstance(x, bool) for x in flat):
        return DType.BOOL
    return DType.INT32


def array_of(literal: Literal, dtype: DType, shape: tuple[int, ...] | None, fail: Fail) -> Array:
    """The array that a number or a list says: nested like ``shape``, or flat; ``shape`` None: as nested."""
    own = _shape_of(literal, fail)
    flat = list(_flatten(literal, fail))
    if shape is None:
        shape = own
    if own != shape and (len(own) > 1 or prod(shape) != len(flat)):
        fail(f"the literal has {_amount(own)}, the type says {list(shape)}")
    return _elements_of(flat, dtype, fail).reshape(shape)


def _amount(shape: tuple[int, ...]) -> str:
    return f"shape {list(shape)}" if len(shape) > 1 else f"{prod(shape)} elements"


def _shape_of(literal: Literal, fail: Fail) -> tuple[int, ...]:
    if not isinstance(literal, list):
        return ()
    inner = {_shape_of(x, fail) for x in literal}
    if len(inner) > 1:
        fail("the inner lists differ in length")
    return (len(literal), *(inner.pop() if inner else ()))


def _flatten(literal: Literal, fail: Fail) -> Iterable[int | float | bool]:
    if isinstance(literal, list):
        for item in literal:
            yield from _flatten(item, fail)
    elif isinstance(literal, bool | int | float):
        yield literal
    else:
        name = literal.name if isinstance(literal, Arguments) else literal
        fail(f"expected a number, found {name}")


def _elements_of(flat: list[int | float | bool], dtype: DType, fail: Fail) -> Array:
    if dtype.numpy is None or dtype.numpy.kind not in "fiub":
        fail(f"a constant of {dtype.short} has no elements to write; use raw(base64 text)")
    if dtype.numpy.kind == "b":
        if any(x not in (0, 1) for x in flat):
            fail("a bool is true or false")
        return np.array(flat, np.bool_)
    if dtype.numpy.kind == "f":
        return _float_elements(flat, dtype.numpy, fail)
    info = np.iinfo(dtype.numpy)  # type: ignore[type-var]  # the kind is i or u
    for x in flat:
        if isinstance(x, float):
            fail(f"{x} is no whole number, {dtype.short} is wanted")
        if not info.min <= x <= info.max:
            fail(f"{x} does not fit {dtype.short}")
    return np.array(flat, dtype.numpy)


def _float_elements(flat: list[int | float | bool], dtype: np.dtype[Any], fail: Fail) -> Array:
    try:
        exact = np.array([float(x) for x in flat], np.float64)
    except OverflowError:
        fail("a number does not fit a float")
    with np.errstate(over="ignore"):
        rounded = exact.astype(dtype)
    for index in np.flatnonzero(np.isinf(rounded) & ~np.isinf(exact)).tolist():
        fail(f"{flat[index]} does not fit {DType.of(dtype).short}")
    return rounded
