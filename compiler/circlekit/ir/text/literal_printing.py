# SPDX-License-Identifier: Apache-2.0
"""Print arrays and plain data as literals; ``literal_parsing`` reads the same bits from them."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from math import prod
from typing import Any

import numpy as np

from circlekit.ir.core import Graph, Value
from circlekit.ir.dtypes import DType
from circlekit.ir.tensor import Array
from circlekit.ir.text.lexer import quote, quoted

Reference = Callable[[Value | Graph], str]
"""A function that returns the text for a value (``%x``) or a graph (``@main``)."""

LONGEST_ARRAY_LIST = 64
"""``array(...)`` lists the elements of a vector that has at most this many; other arrays are base64."""

# -- arrays ------------------------------------------------------------------------------------


def elements(array: Array) -> list[str] | None:
    """Return one literal per element in C order; None if parsing would not give the same bits.

    Floats are printed as the shortest decimals with the same bits.  The result is None for complex numbers,
    and if an element is a NaN whose bits differ from those that the parser makes of ``nan``.
    """
    flat = np.ascontiguousarray(array).reshape(-1)
    kind = flat.dtype.kind
    if kind == "b":
        return ["true" if x else "false" for x in flat.tolist()]
    if kind in "iu":
        return [str(x) for x in flat.tolist()]
    return _floats(flat) if kind == "f" else None


def _floats(flat: Array) -> list[str] | None:
    """Return the literals of a vector of floats; None if there is a NaN that no literal gives."""
    texts = [repr(float(str(x))) for x in flat]  # numpy's str is the shortest decimal of this dtype
    # what the parser makes of the texts: first float64, then the dtype
    doubles = np.array([float(t) for t in texts], np.float64)
    with np.errstate(over="ignore"):
        parsed = doubles.astype(flat.dtype)
    unsigned = np.dtype(f"u{flat.dtype.itemsize}")
    for index in np.flatnonzero(parsed.view(unsigned) != flat.view(unsigned)).tolist():
        if np.isnan(flat[index]):
            return None  # a NaN with a payload or a sign
        texts[index] = repr(float(flat[index]))  # the short decimal was rounded twice, to other bits
    return texts


def shortest_float32(value: float) -> float:
    """Return the float with the fewest decimal digits that is rounded to the same float32 as ``value``."""
    with np.errstate(over="ignore"):
        rounded = np.float32(value)
        short = float(str(rounded))
        # the digits are rounded twice, to float64 and to float32: rarely, that gives a neighbor
        return short if np.float32(short) == rounded else float(rounded)


def format_float32(value: float) -> str:
    """Return the shortest decimal that is parsed to the same float32 as ``value``."""
    return repr(shortest_float32(value))


def format_flat(texts: Iterable[str]) -> str:
    return "[" + ", ".join(texts) + "]"


def format_nested(texts: list[str], shape: tuple[int, ...]) -> str:
    """Return ``texts`` as nested lists of ``shape``; the shape () gives the bare text."""
    if not shape:
        return texts[0]
    if len(shape) == 1:
        return format_flat(texts)
    step = prod(shape[1:])
    return format_flat(format_nested(texts[i * step : (i + 1) * step], shape[1:]) for i in range(shape[0]))


def format_base64(data: bytes) -> str:
    return f'"{base64.b64encode(data).decode("ascii")}"'


# -- plain data --------------------------------------------------------------------------------


def format_tree(data: Any, reference: Reference | None = None) -> str:
    """Return the literal of plain data: a number, a string, bytes, an array, a list, a dict or None.

    ``data``: for example, a field of a file that the IR does not interpret.  ``reference``: returns the text
    for a value or a graph in ``data``; by default, the text is the name with % or @.
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


def format_items(data: Mapping[str, Any], reference: Reference | None) -> str:
    """Return the literal of a dict without the braces around it."""
    return ", ".join(f"{format_key(k)}: {format_tree(v, reference)}" for k, v in data.items())


def format_key(key: str) -> str:
    """Return the key of a dict as text: as it is if the lexer reads it as a name, else in quotes.

    The lexer reads ``inf`` and ``nan`` as numbers.
    """
    return key if key.isidentifier() and key.isascii() and key not in ("inf", "nan") else quote(key)


def _format_array(array: Array) -> str:
    """Return ``array(dtype, [elements])`` or ``array(dtype, "base64")``, with a shape if not a vector."""
    dtype = DType.of(array.dtype).short
    texts = elements(array) if array.ndim == 1 and array.size <= LONGEST_ARRAY_LIST else None
    if texts is not None:
        return f"array({dtype}, {format_flat(texts)})"
    shape = "" if array.ndim == 1 else f", {format_flat(map(str, array.shape))}"
    return f"array({dtype}, {format_base64(array.tobytes())}{shape})"


# -- entries of ``extra`` that are printed -----------------------------------------------------

# the types of single items in plain data
_PLAIN = (bool, int, float, str, bytes, bytearray, memoryview, Value, np.bool_, np.integer, np.floating)
_STORAGE_KEYS = frozenset({"absent", "buffer", "no_options", "far_options"})


def is_storage_key(key: str) -> bool:
    """Return whether an entry of ``extra`` with this key only says how a file stored the model.

    ``extra`` is a dict of a model, graph, operator or value, for what the IR does not represent.
    """
    return key in _STORAGE_KEYS or key.startswith("stored_")


def plain_items(extra: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries of ``extra`` that are printed and compared.

    The other entries record how the file stored the model, or are Python objects of the reader.
    """
    return {key: value for key, value in extra.items() if not is_storage_key(key) and _is_plain(value)}


def _is_plain(data: Any) -> bool:
    """Return whether ``data`` is plain: ``format_tree`` can print it, and it contains no graph."""
    if isinstance(data, Mapping):
        return all(isinstance(k, str) and _is_plain(x) for k, x in data.items())
    if isinstance(data, list | tuple):
        return all(map(_is_plain, data))
    if isinstance(data, np.ndarray):
        return data.dtype.kind in "biufc"
    return data is None or isinstance(data, _PLAIN)


# -- attributes of operators ------------------------------------------------------------------

_SEQUENCE = (list, tuple, np.ndarray)
_NUMBER = (int, float, np.number)


def same_attribute(a: Any, b: Any) -> bool:
    """Return whether a file would store the same for two values of an attribute.

    A file stores floats as float32, and does not tell lists from tuples and arrays.
    """
    if a is b:
        return True
    if isinstance(a, _SEQUENCE) and isinstance(b, _SEQUENCE):
        return len(a) == len(b) and all(map(same_attribute, a, b))
    if isinstance(a, _NUMBER) and isinstance(b, _NUMBER) and bool not in (type(a), type(b)):
        are_integers = isinstance(a, int | np.integer) and isinstance(b, int | np.integer)
        return int(a) == int(b) if are_integers else format_float32(float(a)) == format_float32(float(b))
    return type(a) is type(b) and bool(a == b)


def format_attribute(value: Any, graph: Callable[[Graph], str]) -> str:
    """Return the literal of an attribute.  ``graph``: returns the text for a graph."""
    if isinstance(value, Graph):
        return graph(value)
    if isinstance(value, Enum):
        return value.short if isinstance(value, DType) else value.name
    if isinstance(value, float | np.floating):
        return format_float32(float(value))
    if isinstance(value, _SEQUENCE):
        return format_flat(format_attribute(x, graph) for x in value)
    return format_tree(value)
