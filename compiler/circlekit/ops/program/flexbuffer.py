# SPDX-License-Identifier: Apache-2.0
"""Reader of FlexBuffers, the schemaless format of the options of custom operators.

A value is a slot of 1, 2, 4 or 8 bytes with a type; values that do not fit into a slot are stored before it,
and the slot holds the distance.  Source: FlexBuffers' internals in the documentation of FlatBuffers.
"""

from __future__ import annotations

import struct
from typing import Any

from circlekit.errors import ModelError
from circlekit.ir.op import Op

NULL, INT, UINT, FLOAT, KEY, STRING = range(6)
INDIRECT_INT, INDIRECT_UINT, INDIRECT_FLOAT, MAP, VECTOR, VECTOR_INT = range(6, 12)
VECTOR_STRING, VECTOR_INT2, VECTOR_FLOAT4, BLOB, BOOL, VECTOR_BOOL = 15, 16, 24, 25, 26, 36

_SIGNED = {1: "<b", 2: "<h", 4: "<i", 8: "<q"}
_UNSIGNED = {1: "<B", 2: "<H", 4: "<I", 8: "<Q"}
_FLOATS = {2: "<e", 4: "<f", 8: "<d"}

MAX_DEPTH = 64
"""Largest nesting of values."""


def options_of(op: Op, **required: type) -> dict[str, Any]:
    """Return the custom options of an operator, a map; an empty one if it has none.

    ``required``: types of options that must be present; an int is accepted as a float.
    """
    stored = op.extra.get("custom_options")
    empty = stored is None or not len(stored)
    tree = {} if empty else read_flexbuffer(bytes(stored))  # type: ignore[arg-type]  # it is not None then
    if not isinstance(tree, dict):
        raise ModelError(f"{op.code}: expected a map of options, got {type(tree).__name__}")
    for name, kind in required.items():
        if not isinstance(tree.get(name), (int, float) if kind is float else kind):
            raise ModelError(f"{op.code}: option {name}: expected {kind.__name__}, got {tree.get(name)!r}")
    return tree


def read_flexbuffer(data: bytes) -> Any:
    """Return the root: None, bool, int, float, str, bytes, list or dict; ModelError for malformed data."""
    if len(data) < 3:
        raise ModelError(f"FlexBuffer: expected at least 3 bytes, got {len(data)}")
    width = data[-1]
    if width not in _UNSIGNED:
        raise ModelError(f"FlexBuffer: expected a slot of 1, 2, 4 or 8 bytes, got {width}")
    return _Reader(data).value(len(data) - 2 - width, width, data[-2], 0)


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.budget = 4 * len(data)  # vectors may be shared: limits the time that a malformed file can take

    def number(self, form: str, at: int) -> Any:
        if not 0 <= at <= len(self.data) - struct.calcsize(form):
            raise ModelError(f"FlexBuffer: offset {at} is outside of {len(self.data)} bytes")
        return struct.unpack_from(form, self.data, at)[0]

    def unsigned(self, at: int, width: int) -> int:
        return int(self.number(_UNSIGNED[width], at))

    def pointed(self, at: int, width: int) -> int:
        """Return the position that the slot at ``at`` refers to."""
        return at - self.unsigned(at, width)

    def value(self, at: int, width: int, packed: int, depth: int) -> Any:
        """Return the value of a slot; ``packed``: its type, and the width of the slots that it refers to."""
        kind, inner = packed >> 2, 1 << (packed & 3)
        if depth > MAX_DEPTH:
            raise ModelError(f"FlexBuffer: expected at most {MAX_DEPTH} nested values")
        if kind == NULL:
            return None
        if kind in (INT, UINT, FLOAT, BOOL):
            return self.scalar(at, width, kind)
        target = self.pointed(at, width)
        if kind in (INDIRECT_INT, INDIRECT_UINT, INDIRECT_FLOAT):
            return self.scalar(target, inner, kind - INDIRECT_INT + INT)
        if kind == KEY:
            return self.key(target)
        if kind in (STRING, BLOB):
            raw = self.slice(target, self.unsigned(target - inner, inner))
            return raw.decode("utf-8", "replace") if kind == STRING else raw
        if kind in (MAP, VECTOR):
            return self.collection(target, inner, kind, depth)
        return self.typed(target, inner, kind, depth)

    def scalar(self, at: int, width: int, kind: int) -> Any:
        if kind == FLOAT:
            if width not in _FLOATS:
                raise ModelError("FlexBuffer: expected a float of 2, 4 or 8 bytes, got one byte")
            return float(self.number(_FLOATS[width], at))
        number = int(self.number((_SIGNED if kind == INT else _UNSIGNED)[width], at))
        return bool(number) if kind == BOOL else number

    def slice(self, at: int, size: int) -> bytes:
        if not 0 <= at <= at + size <= len(self.data):
            raise ModelError(f"FlexBuffer: {size} bytes at {at} exceed its {len(self.data)} bytes")
        return self.data[at : at + size]

    def key(self, at: int) -> str:
        end = self.data.find(b"\0", max(at, 0))
        if at < 0 or end < 0:
            raise ModelError("FlexBuffer: expected a key that ends with a zero byte")
        return self.data[at:end].decode("utf-8", "replace")

    def spend(self, count: int) -> None:
        self.budget -= count
        if self.budget < 0:
            raise ModelError("FlexBuffer: it has more elements than bytes")

    def collection(self, at: int, width: int, kind: int, depth: int) -> Any:
        count = self.unsigned(at - width, width)
        self.spend(count)
        types = self.slice(at + count * width, count)
        values = [self.value(at + i * width, width, types[i], depth + 1) for i in range(count)]
        if kind == VECTOR:
            return values
        keys = self.pointed(at - 3 * width, width)
        key_width = self.unsigned(at - 2 * width, width)
        if key_width not in _UNSIGNED:
            raise ModelError(f"FlexBuffer: expected a slot of 1, 2, 4 or 8 bytes, got {key_width}")
        names = [self.key(self.pointed(keys + i * key_width, key_width)) for i in range(count)]
        return dict(zip(names, values, strict=True))

    def typed(self, at: int, width: int, kind: int, depth: int) -> list[Any]:
        """Return a vector whose elements have one type; vectors of 2 to 4 have no stored length."""
        if VECTOR_INT2 <= kind <= VECTOR_FLOAT4:
            element, count = (kind - VECTOR_INT2) % 3 + INT, (kind - VECTOR_INT2) // 3 + 2
        elif VECTOR_INT <= kind <= VECTOR_STRING or kind == VECTOR_BOOL:
            element = BOOL if kind == VECTOR_BOOL else kind - VECTOR_INT + INT
            count = self.unsigned(at - width, width)
        else:
            raise ModelError(f"FlexBuffer: unknown type {kind}")
        self.spend(count)
        packed = element << 2
        return [self.value(at + i * width, width, packed, depth + 1) for i in range(count)]
