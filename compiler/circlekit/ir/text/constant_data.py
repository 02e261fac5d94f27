# SPDX-License-Identifier: Apache-2.0
"""Make the array of a constant from the text after ``const TYPE``, or from a literal that is an operand.

A literal operand, as in ``Mul(%x, [2.0, 1.5])``, has the shape of its nested lists.  Its dtype is the first
dtype of the list below whose kind can hold its elements.  Bool holds true and false, a float dtype holds all
numbers, and an integer dtype holds numbers without a point or an exponent.

1.  the dtype of the first other operand that is no literal and has the same declared dtypes; this step is
    left out for operators that call graphs, because the dtypes of their operands are unrelated;
2.  the dtypes that are declared for the operand, in their order;
3.  if none are declared: bool for true and false, f32 if there is a float, else i32.

If no dtype of the list has such a kind, the first dtype of the list is taken.  Then true and false may stand
for 1 and 0, or 1 and 0 for true and false; other elements are an error.  A number that is too large for the
dtype is an error, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from circlekit.errors import LimitError, ModelError, did_you_mean
from circlekit.ir.core import Op, Value
from circlekit.ir.declaration import Operand
from circlekit.ir.dtypes import DType
from circlekit.ir.text.fillers import FILLERS, fill, seed_of
from circlekit.ir.text.literal_parsing import Fail, array_of, array_of_bytes, bytes_of, literal_dtype
from circlekit.ir.text.syntax import Arguments, Literal, Symbol
from circlekit.ir.text.type_syntax import TypeSpec
from circlekit.ir.value import Array, Shape, format_shape

Resolve = Callable[[str, int, int], Any]
"""A function (name, offset, size) that returns ``size`` bytes of a file, or raises an error."""

LARGEST_ELEMENTS = 1 << 48
"""The product of a constant's dimensions other than 0 must be below this; numpy rejects larger shapes."""

_BYTES = ("base64", "raw", "file")


def constant_array(
    payload: Literal,
    dtype: DType,
    spec: TypeSpec,
    names: tuple[str, ...],
    resolve: Resolve | None,
    fail: Fail,
) -> tuple[Shape | None, Array]:
    """Return the shape and the data of a constant.

    ``payload``: the parsed text after the type.  ``dtype``: the dtype of the constant.  ``spec``: its type.
    ``names``: the names of graph and value, which seed a filler (``gaussian(...)``, for example).
    ``resolve``: reads ``file(...)``; None forbids it.

    The data have the dtype and the shape, except those of ``raw(...)`` and ``file(..., raw: true)``: these
    are the bytes of a packed or sparse constant, a uint8 vector.
    """
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
            fail(f"{dtype.short} is a packed dtype; write raw(base64 text)")
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
    """Return the shape in ``spec``; call ``fail`` if it is missing, not static or too large for numpy."""
    if not spec.has_shape:
        fail("the type needs a shape here, such as f32[2,3]")
    if spec.shape is None or None in spec.shape:
        fail(f"a constant needs a static shape, got {format_shape(spec.shape)}")
    if prod(d for d in spec.shape if d) >= LARGEST_ELEMENTS:
        fail(f"a constant of shape {format_shape(spec.shape)} is too large")
    return spec.shape  # type: ignore[return-value]  # no None is left


def _bytes(call: Arguments, resolve: Resolve | None, fail: Fail) -> tuple[Any, bool]:
    """Return the bytes that ``base64``, ``raw`` or ``file`` gives, and whether they are packed or sparse."""
    if call.name != "file":
        if len(call.positional) != 1 or call.named:
            fail(f"{call.name} takes one base64 string")
        return bytes_of(call.positional[0], fail), call.name == "raw"
    arguments, raw = call.positional, call.named.get("raw", False)
    types = [type(x) for x in arguments]
    if types != [str, int, int] or {*call.named} - {"raw"} or not isinstance(raw, bool):
        fail('expected file("name", offset, size)')
    if resolve is None:
        fail("this text refers to a file, which is not allowed here")
    path, offset, size = arguments
    if not isinstance(offset, int) or not isinstance(size, int) or min(offset, size) < 0:
        fail("offset and size must not be negative")
    data = resolve(str(path), offset, size)
    if memoryview(data).nbytes != size:
        fail(f"the file has {memoryview(data).nbytes} bytes at {offset}, expected {size}")
    return data, raw


_KINDS = {DType.FLOAT32: "f", DType.INT32: "iuf", DType.BOOL: "b"}
"""The kinds of numpy dtypes that can hold a literal, by the ``literal_dtype`` of the literal."""


def inline_array(literal: Literal, allowed: Sequence[DType], alike: DType | None, fail: Fail) -> Array:
    """Return the array of a literal operand; for its dtype see the docstring of this module.

    ``allowed``: the dtypes that are declared for the operand.  ``alike``: the result of ``dtype_alike``.
    """
    default = literal_dtype(literal, fail)
    candidates = [*([] if alike is None else [alike]), *(allowed or [default])]
    dtype = next((d for d in candidates if _holds(d, default)), candidates[0])
    return array_of(literal, dtype, None, fail)


def dtype_alike(
    cls: type[Op], spec: Operand, values: Sequence[Value | None], specs: Sequence[Operand]
) -> DType | None:
    """Return the dtype of the first operand that is no literal and has the same declared dtypes as ``spec``.

    ``values``: the operands of an operator of class ``cls``, with None for literals.  ``specs``: their
    declarations.  Return None if there is no such operand, or if ``cls`` declares no operands or calls
    graphs.
    """
    if not cls.operands or any(attribute.is_graph for attribute in cls.attributes):
        return None
    pairs = zip(values, specs, strict=True)
    return next((v.dtype for v, other in pairs if v is not None and other.dtypes == spec.dtypes), None)


def _holds(dtype: DType, default: DType) -> bool:
    """Return whether ``dtype`` can hold a literal whose ``literal_dtype`` is ``default``."""
    return dtype.numpy is not None and dtype.numpy.kind in _KINDS[default]
