# SPDX-License-Identifier: Apache-2.0
"""Read FlexBuffers, a format without a schema, in which custom operators store their options.

A value has a type and a slot of 1, 2, 4 or 8 bytes.  A value that does not fit its slot is stored at an
earlier position, and the slot holds the distance to that position in bytes.  Several slots may refer to one
position.  Source: "FlexBuffers' internals" in the documentation of FlatBuffers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from circlekit.errors import ModelError, counted
from circlekit.ir.op import Op

NULL, INT, UINT, FLOAT, KEY, STRING = range(6)
INDIRECT_INT, INDIRECT_UINT, INDIRECT_FLOAT, MAP, VECTOR, VECTOR_INT = range(6, 12)
VECTOR_STRING, VECTOR_INT2, VECTOR_FLOAT4, BLOB, BOOL, VECTOR_BOOL = 15, 16, 24, 25, 26, 36
# the types from VECTOR_INT to VECTOR_STRING: vectors of INT, UINT, FLOAT, KEY, STRING.  From VECTOR_INT2 to
# VECTOR_FLOAT4: 2 INT, 2 UINT, 2 FLOAT, then 3 and 4 of each

MAX_DEPTH = 64
"""A value may be inside at most this many vectors and maps: more of them could exhaust Python's stack."""


def options_of(op: Op, **required: type) -> dict[str, Any]:
    """Return the custom options of an operator by name; {} if it has none.

    ``required``: by name, the types of the options that must be there.  An option of the type float may also
    be an int or a bool, and an option of the type int may be a bool; their values are not converted.
    Raise ModelError if the options are malformed or not a map, or if a required option is missing or has
    another type.
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
        # a vector to which several slots refer is read for each of them; without a limit, vectors of such
        # vectors would take exponential time
        self.elements_left = 4 * len(data)
        # strings, keys and blobs are read once for each position; together they exceed the buffer only if
        # they overlap, as in damaged files
        self.text_bytes_left = len(data)
        self.texts: dict[tuple[int, int, int], str | bytes] = {}  # by position, size of its slots, and type

    def bytes_at(self, at: int, size: int) -> bytes:
        if not 0 <= at <= at + size <= len(self.data):
            found = f"{counted(size, 'byte')} at {at}"
            raise ModelError(f"FlexBuffer: expected positions in its {len(self.data)} bytes, got {found}")
        return self.data[at : at + size]

    def unsigned(self, at: int, width: int) -> int:
        return int.from_bytes(self.bytes_at(at, width), "little")

    def value(self, at: int, width: int, packed: int, depth: int) -> Any:
        """Return the value of the slot at ``at``.

        ``packed``: 4 * type + n.  If the slot holds a distance, each slot at the earlier position has 2^n
        bytes.  ``depth``: the number of vectors and maps that contain the value.
        """
        kind, target_width = packed >> 2, 1 << (packed & 3)
        if depth > MAX_DEPTH:
            raise ModelError(f"FlexBuffer: expected at most {MAX_DEPTH} nested vectors and maps")
        if kind == NULL:
            return None
        if kind in (INT, UINT, FLOAT, BOOL):
            return self.scalar(at, width, kind)
        target = at - self.unsigned(at, width)
        if kind in (INDIRECT_INT, INDIRECT_UINT, INDIRECT_FLOAT):
            return self.scalar(target, target_width, kind - INDIRECT_INT + INT)
        if kind in (KEY, STRING, BLOB):
            return self.text(target, target_width, kind)
        return self.elements(target, target_width, kind, depth)

    def scalar(self, at: int, width: int, kind: int) -> Any:
        raw = self.bytes_at(at, width)
        if kind == FLOAT:
            if width == 1:
                raise ModelError("FlexBuffer: expected a float of 2, 4 or 8 bytes, got one byte")
            return float(np.frombuffer(raw, f"<f{width}")[0])
        number = int.from_bytes(raw, "little", signed=kind == INT)
        return bool(number) if kind == BOOL else number

    def text(self, at: int, width: int, kind: int) -> str | bytes:
        """Return the key, string or blob at ``at``: the same object for all slots that refer to it.

        A key ends with a zero byte.  The size of a string or blob is stored before it, in ``width`` bytes.
        """
        text = self.texts.get((at, width, kind))
        if text is not None:
            return text
        if kind == KEY:
            size = -1 if at < 0 else self.data.find(b"\0", at) - at
            if size < 0:
                raise ModelError("FlexBuffer: expected a key that ends with a zero byte")
        else:
            size = self.unsigned(at - width, width)
        raw = self.bytes_at(at, size)
        self.text_bytes_left -= size
        if self.text_bytes_left < 0:
            limit = f"{len(self.data)} bytes of strings, keys and blobs"
            raise ModelError(f"FlexBuffer: expected at most {limit}, got more, because they overlap")
        text = self.texts[at, width, kind] = raw if kind == BLOB else raw.decode("utf-8", "replace")
        return text

    def elements(self, at: int, width: int, kind: int, depth: int) -> Any:
        """Return a map, a vector of values of any types (``VECTOR``), or a vector of values of one type.

        The length is stored before the elements.  It is not stored if the type says that there are 2, 3 or 4
        numbers.  In a map and in a ``VECTOR``, the types of all elements are stored after the elements.
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
            element = INT + (kind - VECTOR_INT2) % 3 if is_fixed else INT + kind - VECTOR_INT
            types = bytes([(BOOL if kind == VECTOR_BOOL else element) << 2]) * count
        values = [self.value(at + i * width, width, types[i], depth + 1) for i in range(count)]
        if kind != MAP:
            return values
        # before its length, a map stores the distance to the vector of its keys, and the slot size there
        keys = at - 3 * width - self.unsigned(at - 3 * width, width)
        key_width = self.unsigned(at - 2 * width, width)
        slots = [keys + i * key_width for i in range(count)]
        names = [self.text(slot - self.unsigned(slot, key_width), 1, KEY) for slot in slots]
        return dict(zip(names, values, strict=True))
