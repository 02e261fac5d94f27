# SPDX-License-Identifier: Apache-2.0
"""Read FlexBuffers, a format without a schema, in which custom operators store their options.

A value has a type and a slot of 1, 2, 4 or 8 bytes.  A value that does not fit its slot is stored at an
earlier position, and the slot holds the distance to that position in bytes.  Source: "FlexBuffers' internals"
in the documentation of FlatBuffers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from circlekit.errors import ModelError
from circlekit.ir.op import Op

NULL, INT, UINT, FLOAT, KEY, STRING = range(6)
INDIRECT_INT, INDIRECT_UINT, INDIRECT_FLOAT, MAP, VECTOR, VECTOR_INT = range(6, 12)
VECTOR_STRING, VECTOR_INT2, VECTOR_FLOAT4, BLOB, BOOL, VECTOR_BOOL = 15, 16, 24, 25, 26, 36

MAX_DEPTH = 64
"""A value may be inside at most this many vectors and maps: more of them could exhaust Python's stack."""


def options_of(op: Op, **required: type) -> dict[str, Any]:
    """Return the custom options of an operator by name; {} if it has none.

    ``required``: the types of options that must be there, by name.  Raise ModelError if the options are no
    map, or if such an option is missing or has another type (an int may stand for a float).
    """
    stored = op.extra.get("custom_options")
    is_empty = stored is None or not len(stored)
    options = {} if is_empty else read_flexbuffer(bytes(stored))  # type: ignore[arg-type]  # it is not None then
    if not isinstance(options, dict):
        raise ModelError(f"{op.code}: expected a map of options, got {type(options).__name__}")
    for name, expected in required.items():
        value = options.get(name)
        if not isinstance(value, (int, float) if expected is float else expected):
            raise ModelError(f"{op.code}: option {name}: expected {expected.__name__}, got {value!r}")
    return options


def read_flexbuffer(data: bytes) -> Any:
    """Return the value of a FlexBuffer: None, bool, int, float, str, bytes, list or dict.

    Raise ModelError if it is malformed.
    """
    if len(data) < 3:
        raise ModelError(f"FlexBuffer: expected at least 3 bytes, got {len(data)}")
    width = data[-1]
    if width not in (1, 2, 4, 8):
        raise ModelError(f"FlexBuffer: expected a slot of 1, 2, 4 or 8 bytes, got {width}")
    return _Reader(data).value(len(data) - 2 - width, width, data[-2], 0)


class _Reader:
    """Reads the parts of a FlexBuffer.

    In all methods, ``at`` is an offset in the buffer and ``width`` the size of a slot, both in bytes.
    """

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.elements_left = 4 * len(data)  # limits the time: a shared vector counts each time it is read

    def bytes_at(self, at: int, size: int) -> bytes:
        if not 0 <= at <= at + size <= len(self.data):
            raise ModelError(f"FlexBuffer: {size} bytes at {at} exceed its {len(self.data)} bytes")
        return self.data[at : at + size]

    def unsigned(self, at: int, width: int) -> int:
        return int.from_bytes(self.bytes_at(at, width), "little")

    def value(self, at: int, width: int, packed: int, depth: int) -> Any:
        """Return the value of the slot at ``at``.

        ``packed``: 4 * type + n.  If the value is stored at an earlier position, its slots there have 2^n
        bytes.  ``depth``: the number of vectors and maps that contain the value.
        """
        kind, target_width = packed >> 2, 1 << (packed & 3)
        if depth > MAX_DEPTH:
            raise ModelError(f"FlexBuffer: expected at most {MAX_DEPTH} nested values")
        if kind == NULL:
            return None
        if kind in (INT, UINT, FLOAT, BOOL):
            return self.scalar(at, width, kind)
        target = at - self.unsigned(at, width)
        if kind in (INDIRECT_INT, INDIRECT_UINT, INDIRECT_FLOAT):
            return self.scalar(target, target_width, kind - INDIRECT_INT + INT)
        if kind == KEY:
            return self.key(target)
        if kind in (STRING, BLOB):
            raw = self.bytes_at(target, self.unsigned(target - target_width, target_width))
            return raw.decode("utf-8", "replace") if kind == STRING else raw
        return self.elements(target, target_width, kind, depth)

    def scalar(self, at: int, width: int, kind: int) -> Any:
        raw = self.bytes_at(at, width)
        if kind == FLOAT:
            if width == 1:
                raise ModelError("FlexBuffer: expected a float of 2, 4 or 8 bytes, got one byte")
            return float(np.frombuffer(raw, f"<f{width}")[0])
        number = int.from_bytes(raw, "little", signed=kind == INT)
        return bool(number) if kind == BOOL else number

    def key(self, at: int) -> str:
        end = -1 if at < 0 else self.data.find(b"\0", at)
        if end < 0:
            raise ModelError("FlexBuffer: expected a key that ends with a zero byte")
        return self.data[at:end].decode("utf-8", "replace")

    def elements(self, at: int, width: int, kind: int, depth: int) -> Any:
        """Return a map, a vector of values of any types (``VECTOR``), or a vector of values of one type.

        The length is stored before the elements, except for the types of exactly 2, 3 or 4 numbers.  In a
        map, and in a vector of values of any types, the types of all elements are stored after the elements.
        """
        is_fixed = VECTOR_INT2 <= kind <= VECTOR_FLOAT4
        if not (is_fixed or VECTOR_INT <= kind <= VECTOR_STRING or kind in (MAP, VECTOR, VECTOR_BOOL)):
            raise ModelError(f"FlexBuffer: unknown type {kind}")
        count = (kind - VECTOR_INT2) // 3 + 2 if is_fixed else self.unsigned(at - width, width)
        self.elements_left -= count
        if self.elements_left < 0:
            raise ModelError(f"FlexBuffer: expected at most {4 * len(self.data)} elements, got more")
        if kind in (MAP, VECTOR):
            types = self.bytes_at(at + count * width, count)
        else:
            number = INT + (kind - VECTOR_INT2) % 3 if is_fixed else INT + kind - VECTOR_INT
            types = bytes([(BOOL if kind == VECTOR_BOOL else number) << 2]) * count
        values = [self.value(at + i * width, width, types[i], depth + 1) for i in range(count)]
        if kind != MAP:
            return values
        # before its length, a map stores the distance to the vector of its keys, and the slot size there
        keys = at - 3 * width - self.unsigned(at - 3 * width, width)
        key_width = self.unsigned(at - 2 * width, width)
        slots = [keys + i * key_width for i in range(count)]
        return {self.key(at - self.unsigned(at, key_width)): v for at, v in zip(slots, values, strict=True)}
