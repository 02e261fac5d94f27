# SPDX-License-Identifier: Apache-2.0
"""One fault in a small valid file for each check of the C++ verifier."""

from __future__ import annotations

import struct
import warnings

import pytest

from circlekit.equivalence.litert import accepted_files
from circlekit.errors import FormatError
from circlekit.io.read.flatbuffer_decoder import decode
from circlekit.io.schema import IDENTIFIERS

MODEL, TEXT, NUMBERS, BUFFERS, BUFFER, DATA, SPARE, SIZE = 28, 52, 64, 76, 88, 120, 128, 144
"""Byte positions in the file of ``sound``.

MODEL has the fields TEXT (description), NUMBERS (metadata_buffer) and BUFFERS, a vector of one table, BUFFER.
DATA is the data of this buffer.  From SPARE to SIZE, the end, nothing is used.
"""


def sound() -> bytearray:
    """Return a valid file: a model with a string, two numbers and one buffer with a field of 8 bytes."""
    out = bytearray(struct.pack("<I4s", MODEL, b"TFL3"))
    out += struct.pack("<8H4x", 16, 24, 4, 0, 0, 12, 16, 20)  # at 8: the vtable of the model
    # MODEL: the way back to its vtable, the version, 4 spare bytes, offsets
    out += struct.pack("<iI4xIII", MODEL - 8, 3, TEXT - 40, BUFFERS - 44, NUMBERS - 48)
    out += struct.pack("<I6s2x", 5, b"hello\0")
    out += struct.pack("<III", 2, 1, 2)
    out += struct.pack("<II", 1, BUFFER - 80) + bytes(4)
    out += struct.pack("<iI8xQ", BUFFER - 112, DATA - 92, 0)
    out += struct.pack("<4H", 8, 24, 4, 16)  # at 112: the vtable of BUFFER
    out += struct.pack("<I4s", 4, b"abcd")
    out += bytes(SIZE - SPARE)
    assert len(out) == SIZE
    return out


def changed(at: int, code: str, value: int) -> bytes:
    """Return the file with ``value`` at byte ``at``; ``code``: its format for ``struct``."""
    out = sound()
    struct.pack_into("<" + code, out, at, value)
    return bytes(out)


def moved(code: str, at: int, place: int, piece: bytes) -> bytes:
    """Put ``piece`` at ``place`` and let the offset at ``at`` refer to it.

    ``code``: "I" for an offset forwards; "i" for the way from a table back to its vtable.
    """
    out = sound()
    out[place : place + len(piece)] = piece
    struct.pack_into("<" + code, out, at, place - at if code == "I" else at - place)
    return bytes(out)


VTABLE = bytes(sound()[8:24])
FIELDLESS = struct.pack("<i20x2H", -24, 4, 4)  # a table without fields, and its vtable 24 bytes after it
TEXTUAL = struct.pack("<I", 5) + b"hello"

FAULTS = {
    "offset to itself": changed(0, "I", 0),
    "offset out of the file": changed(MODEL + 12, "I", SIZE),
    "offset to the last bytes": changed(MODEL + 12, "I", SIZE - 2 - MODEL - 12),
    "offset backwards": changed(MODEL + 12, "i", -8),
    "table not aligned": changed(0, "I", MODEL + 2),
    "table of a vector not aligned": moved("I", BUFFERS + 4, BUFFER + 2, FIELDLESS),
    "table of a vector before it": changed(BUFFERS + 4, "i", MODEL - 80),
    "table of a vector out of the file": changed(BUFFERS + 4, "I", SIZE - 80),
    "table of a vector at a huge offset": changed(BUFFERS + 4, "I", 0x7FFFFFF8),
    "vtable before the file": changed(MODEL, "i", MODEL + 4),
    "vtable beyond the file": changed(MODEL, "i", MODEL - SIZE),
    "vtable in the last byte": changed(MODEL, "i", MODEL - SIZE + 1),
    "vtable not aligned": moved("i", MODEL, SPARE - 1, VTABLE),
    "vtable of odd length": changed(8, "H", 17),
    "vtable that ends beyond the file": moved("i", MODEL, SIZE - 8, struct.pack("<4H", 16, 24, 4, 0)),
    "field out of the file": changed(8 + 4, "H", SIZE),
    "field in the place of the vtable's offset": changed(8 + 4, "H", 2),
    "field not aligned": changed(8 + 4, "H", 6),
    "field of 8 bytes not aligned": changed(112 + 6, "H", 12),
    "offset not aligned": changed(8 + 4 + 6, "H", 10),
    "text not aligned": moved("I", MODEL + 12, SPARE + 2, TEXTUAL + b"\0"),
    "text without an end": moved("I", MODEL + 12, SPARE, TEXTUAL + b"!"),
    "text up to the last byte": moved("I", MODEL + 12, SIZE - 12, struct.pack("<I", 8) + b"goodbye\0"),
    "text longer than the file": changed(TEXT, "I", SIZE),
    "vector not aligned": moved("I", MODEL + 20, SPARE + 2, struct.pack("<III", 2, 1, 2)),
    "vector longer than the file": changed(NUMBERS, "I", (SIZE - NUMBERS) // 4),
    "vector whose size wraps": changed(NUMBERS, "I", 1 << 30),
    "vector of bytes longer than the file": changed(DATA, "I", SIZE - DATA - 3),
    "tables more than the file has room for": changed(BUFFERS, "I", 1 << 30),
    "cut": bytes(sound()[: DATA + 7]),
}
"""Files that the C++ verifier refuses."""

NEAR = {
    "nothing changed": bytes(sound()),
    "vtable elsewhere": moved("i", MODEL, SPARE, VTABLE),
    "vtable at an even place": moved("i", MODEL, SIZE - 18, VTABLE + bytes(2)),
    "field elsewhere": changed(8 + 4, "H", 8),
    "text elsewhere": moved("I", MODEL + 12, SPARE + 4, TEXTUAL + b"\0"),
    "text that ends with the file": moved("I", MODEL + 12, SIZE - 12, struct.pack("<I", 7) + b"goodbye\0"),
    "vector elsewhere": moved("I", MODEL + 20, SPARE + 4, struct.pack("<III", 2, 1, 2)),
    "vector up to the end": changed(NUMBERS, "I", (SIZE - NUMBERS) // 4 - 1),
    "bytes up to the end": changed(DATA, "I", SIZE - DATA - 4),
    "the smallest": bytes(sound()[: DATA + 8]),
    "more after it": bytes(sound()) + b"abc",
}
"""Files that the C++ verifier accepts."""

OURS = {
    "table without room for its fields": changed(10, "H", 20),
    "table that ends beyond the file": changed(10, "H", SIZE),
    "table of no size": changed(112, "I", 4),
    "two fields in one place": changed(8 + 4, "H", 12),
    "vtable without the size of the table": changed(112, "H", 2),
    "table of a vector where its offset is": changed(BUFFERS + 4, "I", 0),
}
"""Files that only our decoder refuses: no writer makes them, and they would be misread."""


def refuses(data: bytes, fmt: str) -> bool:
    data = data[:4] + IDENTIFIERS[fmt] + data[8:]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # an unknown field would be another fault than the intended one
        try:
            decode(memoryview(data), fmt)
        except FormatError:
            return True
    return False


@pytest.mark.parametrize("fmt", sorted(IDENTIFIERS))
@pytest.mark.parametrize("name", [*FAULTS, *OURS])
def test_fault_is_refused(name: str, fmt: str) -> None:
    assert refuses({**FAULTS, **OURS}[name], fmt)


@pytest.mark.parametrize("fmt", sorted(IDENTIFIERS))
@pytest.mark.parametrize("name", NEAR)
def test_near_miss_is_accepted(name: str, fmt: str) -> None:
    assert not refuses(NEAR[name], fmt)


def test_litert_agrees() -> None:
    assert dict(zip(FAULTS, accepted_files(list(FAULTS.values())), strict=True)) == dict.fromkeys(
        FAULTS, False
    )
    assert dict(zip(OURS, accepted_files(list(OURS.values())), strict=True)) == dict.fromkeys(OURS, True)
    assert dict(zip(NEAR, accepted_files(list(NEAR.values())), strict=True)) == dict.fromkeys(NEAR, True)
