# SPDX-License-Identifier: Apache-2.0
"""Print one operator, type or constant: shortened for people, or lossless, so that the parser reads it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from circlekit.errors import CirclekitError
from circlekit.ir.graph import Graph
from circlekit.ir.op import Op, OpaqueOp
from circlekit.ir.text.lexer import quote, quoted
from circlekit.ir.text.literal_printing import (
    elements,
    format_attribute,
    format_base64,
    format_flat,
    format_items,
    format_nested,
    format_tree,
    plain_items,
    same_attribute,
)
from circlekit.ir.value import Array, Quantization, Value, format_shape

Locate = Callable[[Value], "tuple[str, int] | None"]
"""A function that returns the file with a constant's bytes and their offset; None if they are in no file."""

MAX_LIST_ELEMENTS = 32
"""Lossless text lists the elements of a constant only if it has at most this many."""

MAX_INLINE_ELEMENTS = 8
"""Shortened text shows all elements of a constant, and all scales, only if there are at most this many."""

SHORTENED_ELEMENTS = 4
"""The number of elements that shortened text shows of a larger constant."""


class Names:
    """The names of values and graphs in a text.

    ``labels``: the names by the id of the value or graph; a value or graph without an entry has its own name.
    ``lossless``: whether parsing the text must give the same model; otherwise the text is shortened for
    people.
    """

    def __init__(self, labels: Mapping[int, str] | None = None, lossless: bool = False) -> None:
        self.labels = labels or {}
        self.lossless = lossless

    def label(self, thing: Value | Graph) -> str:
        return self.labels.get(id(thing), thing.name)

    def refer(self, thing: Value | Graph) -> str:
        """Return ``%value`` or ``@graph``."""
        return quoted("%" if isinstance(thing, Value) else "@", self.label(thing))

    def operand(self, value: Value | None) -> str:
        """Return ``%value``, or ``none``; in shortened text, the elements of a small constant."""
        if value is None:
            return "none"
        data = value.data
        if (
            not self.lossless
            and data is not None
            and data.size <= MAX_INLINE_ELEMENTS
            and (data.size or data.ndim < 2)  # the shape [1000, 0] would be 1000 empty lists
            and not _is_raw(value, data)
        ):
            texts = elements(data)
            if texts is not None:
                return format_nested(texts, data.shape)
        return self.refer(value)


_SHORTENED = Names()  # own names, shortened text


# -- operators ---------------------------------------------------------------------------------


def short_op(op: Op) -> str:
    """Return the class of ``op`` and its first result, as in "Relu %y"; the class alone without results."""
    return type(op).__name__ + "".join(f" %{value.name}" for value in op.results[:1])


def print_op(op: Op) -> str:
    """Return the operator as one shortened line, with the elements of small constants in it."""
    call, types = op_parts(op)
    return f"{call} : {types}" if types else call


def op_parts(op: Op, names: Names = _SHORTENED) -> tuple[str, str]:
    """Return the two parts of an operator's line: the call and the types of the results.

    A call is, for example, ``%y = Add(%a, %b) {act: RELU}``; the types are ``f32[1,4]``.
    """
    operands = ", ".join(map(names.operand, op.inputs))
    results = ", ".join(map(names.refer, op.results))
    items = _attributes(op, names)
    attributes = f" {{{', '.join(items)}}}" if items else ""
    kind = "Opaque" if isinstance(op, OpaqueOp) else type(op).__name__
    call = f"{results}{' = ' if results else ''}{kind}({operands}){attributes}"
    return call, ", ".join(type_text(v, names) for v in op.results)


def _attributes(op: Op, names: Names) -> list[str]:
    """Return the entries in braces, ``name: value``, without attributes that have their default.

    Shortened text also leaves out attributes that have no effect, because nothing is quantized.
    """
    items = []
    if isinstance(op, OpaqueOp):
        items.append(f"code: {quote(op.code)}")
        if op.custom_code is not None:
            items.append(f"custom_code: {quote(op.custom_code)}")
        if op.option_tree is not None and names.lossless:
            items.append(f"options: {format_tree(op.option_tree, names.refer)}")
    implied = op.implied_attributes()
    is_float = all(v is None or v.quantization is None for v in (*op.inputs, *op.results))
    for spec in op.attributes:
        value = op.attribute_values.get(spec.name, spec.default)
        if spec.quantized_only and is_float and not names.lossless:
            continue
        # An attribute with its default is left out, except if the default was set and the parser would take
        # an implied value in its place.
        is_set = spec.name in op.attribute_values
        is_implied = not is_set or same_attribute(value, implied.get(spec.name, value))
        if not same_attribute(value, spec.default) or not is_implied:
            items.append(f"{spec.name}: {format_attribute(value, names.refer)}")
    if names.lossless:
        if op.version is not None and op.version != required_version(op):
            items.append(f"version: {op.version}")
        if extra := plain_items(op.extra):
            items.append(f"extra: {format_tree(extra, names.refer)}")
    return items


def required_version(op: Op) -> int | None:
    """Return ``op.required_version()``; None if the operator is invalid."""
    try:
        return op.required_version()
    except CirclekitError:
        return None


# -- types -------------------------------------------------------------------------------------


def type_text(value: Value, names: Names) -> str:
    """Return the type of ``value``: dtype, shape, quantization, and ``variable`` if it is one.

    In lossless text, the type also has ``extra``, and the name in the model if the text has another name.
    """
    parts = [f"{value.dtype.short}{format_shape(value.shape)}"]
    if value.quantization is not None:
        parts.append(_quantization(value.quantization, names))
    if names.lossless:
        if extra := plain_items(value.extra):
            parts.append(f"extra({format_items(extra, names.refer)})")
        if names.label(value) != value.name:
            parts.append(f"named({quote(value.name)})")
    if value.is_variable:
        parts.append("variable")
    return " ".join(parts)


def _quantization(quantization: Quantization, names: Names) -> str:
    """Return ``quant(...)``; shortened text with many scales has only the quantized dimension (``axis``)."""
    if not names.lossless and quantization.scale.size > MAX_INLINE_ELEMENTS:
        return f"quant(axis: {quantization.quantized_dimension})"
    items = []
    scale, zero_point = quantization.scale, quantization.zero_point
    if scale.size:
        items.append(f"scale: {_vector(scale)}")
    if zero_point.size != scale.size or zero_point.any():  # by default, one zero point of 0 for each scale
        items.append(f"zero_point: {_vector(zero_point)}")
    if quantization.quantized_dimension:
        items.append(f"axis: {quantization.quantized_dimension}")
    for name in ("min", "max"):
        bound: Array | None = getattr(quantization, name)
        if bound is not None:
            items.append(f"{name}: {_vector(bound)}")
    if quantization.details is not None:
        items.append(f"details: {format_tree(quantization.details, names.refer)}")
    return f"quant({', '.join(items)})"


def _vector(array: Array) -> str:
    """Return the literal of scales, zero points or bounds: a number if there is one, else a list."""
    texts = elements(array)
    if texts is None:  # a NaN with a payload
        return format_tree(array)
    return texts[0] if len(texts) == 1 else format_flat(texts)


# -- constants ---------------------------------------------------------------------------------


def _is_raw(value: Value, data: Array) -> bool:
    """Return whether ``data`` are bytes (packed, sparse, compressed) without dtype and shape of ``value``."""
    return value.dtype.numpy is None or data.dtype != value.dtype.numpy or data.shape != value.shape


def _is_zero(data: Array) -> bool:
    """Return whether ``data`` has bools or real numbers, and all bits are zero (so no -0.0)."""
    return data.dtype.kind in "fiub" and not np.ascontiguousarray(data).reshape(-1).view(np.uint8).any()


def payload(value: Value, data: Array, locate: Locate | None, shorten: bool) -> str:
    """Return the text after ``const TYPE``: the elements, their bytes, or a reference to a file.

    ``data``: ``value.data``.  ``locate``: finds the bytes in a file; None to refer to no file.  ``shorten``:
    show only the first elements of a large constant; the parser cannot read that.
    """
    raw = _is_raw(value, data)
    if shorten and data.size > MAX_INLINE_ELEMENTS:
        if raw:
            return f"raw({data.nbytes} bytes)"
        first = (data.reshape(-1) if data.flags.c_contiguous else data.flat)[:SHORTENED_ELEMENTS]
        return f"[{', '.join(map(str, first))}, ... {data.size} elements]"
    if not raw and MAX_INLINE_ELEMENTS < data.size <= MAX_LIST_ELEMENTS and _is_zero(data):
        return "zeros"
    texts = elements(data) if data.size <= MAX_LIST_ELEMENTS and not raw else None
    if texts is not None:
        return texts[0] if not data.shape else format_flat(texts)
    place = locate(value) if locate is not None and data.nbytes else None
    if place is not None:
        path, offset = place
        return f"file({quote(path)}, {offset}, {data.nbytes}{', raw: true' if raw else ''})"
    if not raw and _is_zero(data):  # after ``locate``, because it reads all data of a large constant
        return "zeros"
    return f"{'raw' if raw else 'base64'}({format_base64(data.tobytes())})"
