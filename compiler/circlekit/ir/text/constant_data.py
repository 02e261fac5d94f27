# SPDX-License-Identifier: Apache-2.0
"""Make the array of a constant from the text after ``const TYPE``, or from a literal that is an operand.

A literal operand, as in ``Mul(%x, [2.0, 1.5])``, has the shape of its nested lists.  Its dtype is the first
dtype of the list below that can hold its elements.  Bool holds true and false, a float dtype holds all
numbers, and an integer dtype holds numbers without a point or an exponent.  A complex dtype, and one that
numpy lacks (bf16, i4, str), holds none.

1.  The dtype of the first operand that is not a literal and has the same declared dtypes as this operand.
    Operators that call graphs skip this step, because the dtypes of their operands are unrelated.
2.  The dtypes that are declared for the operand, in their order.
3.  If none are declared: bool if all elements are true or false, f32 if there is a float, else i32.

If no dtype of the list can hold the elements, the first one is taken, and the elements are converted to it:
true and false to 1 and 0, or 1 and 0 to true and false.  Any other element is an error.  A number beyond the
range of the dtype is always an error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from circlekit.errors import LimitError, ModelError, counted, did_you_mean
from circlekit.ir.core import Op, Value
from circlekit.ir.declaration import Operand
from circlekit.ir.dtypes import DType
from circlekit.ir.text.fillers import FILLERS, fill, seed_of
from circlekit.ir.text.literal_parsing import (
    Fail,
    array_of,
    array_of_bytes,
    bytes_hint,
    bytes_of,
    check_shape,
    literal_dtype,
)
from circlekit.ir.text.syntax import Arguments, Literal, Symbol
from circlekit.ir.text.type_syntax import TypeSpec
from circlekit.ir.value import Array, Shape, format_shape

Resolve = Callable[[str, int, int], Any]
"""A function (name, offset, size) that returns ``size`` bytes of a file, or raises an error."""

_BYTES = ("base64", "raw", "file")  # the forms that give the bytes of a constant


def constant_array(
    payload: Literal,
    dtype: DType,
    spec: TypeSpec,
    names: tuple[str, ...],
    resolve: Resolve | None,
    fail: Fail,
) -> tuple[Shape | None, Array]:
    """Return the shape and the data of a constant.

    ``payload``: the parsed text after the type.  ``spec``: the type as it is written; it may lack a dtype.
    ``dtype``: the dtype of the constant.  ``names``: the names of graph and value, which seed a filler
    (``gaussian(...)``, for example).  ``resolve``: reads ``file(...)``; None forbids it.  ``fail``: raises a
    ParseError with the given message.

    The data have the dtype and the shape.  There is one exception: ``raw(...)`` and ``file(..., raw: true)``
    give the bytes of a packed, sparse or compressed constant, or of strings, as a uint8 vector.  The shape of
    such a constant may have unknown dimensions, or be None (``[*]``).
    """
    # ``zeros`` is short for ``zeros()``
    call = Arguments(payload, [], {}, spec.token) if isinstance(payload, Symbol) else payload
    if not isinstance(call, Arguments):
        array = array_of(call, dtype, _static(spec, fail) if spec.has_shape else None, fail)
        return array.shape, array
    if call.name in _BYTES:
        data, is_raw = _bytes(call, resolve, fail)
        if is_raw:
            if not spec.has_shape:
                fail("raw bytes need a shape in the type")
            return spec.shape, np.frombuffer(data, np.uint8)
        if dtype.numpy is None:
            fail(f"elements of {dtype.short} need their bytes as stored; {bytes_hint(dtype)}")
        shape = _static(spec, fail)
        return shape, array_of_bytes(data, dtype, shape, fail)
    if call.name not in FILLERS:
        choices = [*FILLERS, *_BYTES]
        hint = did_you_mean(call.name, choices) or f"; expected one of {', '.join(choices)}"
        fail(f"no filler is named {call.name}{hint}")
    shape = _static(spec, fail)
    try:
        return shape, fill(call.name, call.positional, call.named, dtype, shape, seed_of(*names))
    except (LimitError, ModelError) as error:
        fail(error.message)


def _static(spec: TypeSpec, fail: Fail) -> tuple[int, ...]:
    """Return the shape in ``spec``; call ``fail`` if it is missing, not static or too large."""
    if not spec.has_shape:
        fail("the type needs a shape here, such as f32[2,3]")
    if spec.shape is None or None in spec.shape:
        fail(f"a constant needs a static shape, got {format_shape(spec.shape)}")
    shape: tuple[int, ...] = spec.shape  # type: ignore[assignment]  # no None is left
    check_shape(shape, fail)
    return shape


def _bytes(call: Arguments, resolve: Resolve | None, fail: Fail) -> tuple[Any, bool]:
    """Return the bytes that ``base64``, ``raw`` or ``file`` gives, and whether they are raw."""
    if call.name != "file":
        if len(call.positional) != 1 or call.named:
            fail(f"{call.name} takes one base64 string")
        return bytes_of(call.positional[0], fail), call.name == "raw"
    arguments, raw = call.positional, call.named.get("raw", False)
    types = [type(x) for x in arguments]  # exact types: true is not an int, and a name is not a str
    if types != [str, int, int] or {*call.named} - {"raw"} or not isinstance(raw, bool):
        fail('expected file("name", offset, size)')
    if resolve is None:
        fail("this text refers to a file, which is not allowed here")
    path, offset, size = arguments
    assert isinstance(offset, int)  # checked above; for the type checker
    assert isinstance(size, int)
    if min(offset, size) < 0:
        fail("offset and size must not be negative")
    try:
        data = resolve(str(path), offset, size)
    except ModelError as error:
        fail(error.message)
    if memoryview(data).nbytes != size:
        got = memoryview(data).nbytes
        fail(f"expected {counted(size, 'byte')} of the file at {offset}, got {got}")
    return data, raw


_KINDS = {DType.FLOAT32: "f", DType.INT32: "iuf", DType.BOOL: "b"}
"""The letters of the kinds of numpy dtypes (f: float, i, u: integer, b: bool) that can hold a literal.

The keys are the results of ``literal_dtype``: f32 for a literal with a float, i32 for other numbers.
"""


def inline_array(literal: Literal, allowed: Sequence[DType], alike: DType | None, fail: Fail) -> Array:
    """Return the array of a literal operand; for its dtype see the docstring of this module.

    ``allowed``: the dtypes that are declared for the operand.  ``alike``: the result of ``dtype_alike``.
    """
    default = literal_dtype(literal, fail)  # bool, f32 or i32
    candidates = [*([] if alike is None else [alike]), *(allowed or [default])]
    dtype = next((d for d in candidates if _holds(d, default)), candidates[0])
    return array_of(literal, dtype, None, fail)


def dtype_alike(
    cls: type[Op], spec: Operand, values: Sequence[Value | None], specs: Sequence[Operand]
) -> DType | None:
    """Return the dtype of the first operand with the declared dtypes of ``spec`` that is not a literal.

    ``values``: the operands of an operator of class ``cls``, with None for literals.  ``specs``: their
    declarations.  Return None if there is no such operand.  Also return None if ``cls`` declares no operands
    or calls graphs.
    """
    if not cls.operands or any(attribute.is_graph for attribute in cls.attributes):
        return None
    pairs = zip(values, specs, strict=True)
    return next((v.dtype for v, other in pairs if v is not None and other.dtypes == spec.dtypes), None)


def _holds(dtype: DType, default: DType) -> bool:
    """Return whether ``dtype`` can hold a literal whose ``literal_dtype`` is ``default``."""
    return dtype.numpy is not None and dtype.numpy.kind in _KINDS[default]
