# SPDX-License-Identifier: Apache-2.0
"""The checks of the decoder, each at the last place that is valid and the first that is not."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest

from circlekit.errors import FormatError
from circlekit.io.read.flatbuffer_decoder import HEADER_BYTES, MAX_OFFSET, Decoder
from circlekit.io.schema import table

SIZE = 400


def decoder(content: bytes = b"", size: int = SIZE) -> Decoder:
    return Decoder(memoryview(content.ljust(size, b"\0")), "circle", "net")


def words(**at: int) -> bytes:
    """Return SIZE bytes, all 0 except int32 numbers: ``words(b100=3)`` has the number 3 at byte 100."""
    content = bytearray(SIZE)
    for place, number in at.items():
        struct.pack_into("<i", content, int(place.removeprefix("b")), number)
    return bytes(content)


def test_references_and_bytes_are_limited_by_the_size_of_the_file() -> None:
    """A file of n bytes may have n / 4 references, and 4 n bytes of it may be read."""
    for references, size, more in ((SIZE // 4, 4 * SIZE, (1, 0)), (SIZE // 4, 4 * SIZE, (0, 1))):
        counting = decoder()
        counting.spend(references, size)
        with pytest.raises(FormatError, match="refers to the same data too often"):
            counting.spend(*more)


def test_a_file_has_at_least_a_header() -> None:
    with pytest.raises(FormatError, match=f"expected {HEADER_BYTES} bytes or more, got {HEADER_BYTES - 1}"):
        decoder(size=HEADER_BYTES - 1).root()
    with pytest.raises(FormatError, match="does not lead forwards to an aligned place"):
        decoder(size=HEADER_BYTES).root()


ALIGNED, BEYOND = "does not lead forwards to an aligned place", "beyond the end of the file"


@pytest.mark.parametrize(
    ("at", "offset", "error"),
    [
        (0, SIZE - 4, None),
        (2, 2, None),
        (0, SIZE, BEYOND),
        (0, SIZE - 3, BEYOND),
        (SIZE - 1, 1, BEYOND),
        (SIZE, 0, ALIGNED),
        (0, MAX_OFFSET - 4, BEYOND),
        (0, MAX_OFFSET, ALIGNED),
        (0, 2, ALIGNED),
        (4, 0, ALIGNED),
    ],
)
def test_where_an_offset_may_lead(at: int, offset: int, error: str | None) -> None:
    if error is None:
        assert decoder().target(at, offset) == at + offset
        return
    with pytest.raises(FormatError, match=error):
        decoder().target(at, offset)


OUTSIDE, INVALID = "expected a vtable at an even byte inside the file", "has an invalid size"


@pytest.mark.parametrize(
    ("at", "error"),
    [(-2, OUTSIDE), (0, INVALID), (3, OUTSIDE), (SIZE - 4, INVALID), (SIZE - 2, OUTSIDE), (2, INVALID)],
)
def test_where_a_vtable_may_be(at: int, error: str) -> None:
    with pytest.raises(FormatError, match=error):
        decoder().layout(at, table("Model", "circle"))


@pytest.mark.parametrize(
    ("length", "size", "at", "fits"),
    [
        (4, 4, 0, True),
        (3, 4, 0, False),
        (5, 4, 0, False),
        (4, 3, 0, False),
        (8, 4, SIZE - 8, True),
        (10, 4, SIZE - 8, False),
    ],
)
def test_sizes_of_a_vtable_and_its_table(length: int, size: int, at: int, fits: bool) -> None:
    read = decoder(words(**{f"b{at}": length | size << 16}))
    if fits:
        assert read.layout(at, table("Model", "circle")).size == size
        assert read.references_left == SIZE // 4
        assert read.bytes_left == 4 * SIZE - length
        return
    with pytest.raises(FormatError, match=INVALID):
        read.layout(at, table("Model", "circle"))


@pytest.mark.parametrize(
    ("at", "count", "size", "error"),
    [
        (100, (SIZE - 104) // 4, 4, None),
        (100, (SIZE - 104) // 4 + 1, 4, "ends beyond the file"),
        (100, SIZE - 104, 1, None),
        (100, SIZE - 103, 1, "ends beyond the file"),
        (100, -1, 8, "ends beyond the file"),
        (100, 1, 8, None),
        (104, 1, 8, None),
    ],
)
def test_where_a_vector_may_be(at: int, count: int, size: int, error: str | None) -> None:
    read = decoder(words(**{f"b{at}": count}))
    if error is None:
        assert read.vector(0, at, size) == (at + 4, count)
        return
    with pytest.raises(FormatError, match=error):
        read.vector(0, at, size)


@pytest.mark.parametrize(
    ("get", "references", "size"),
    [
        (lambda d: d.string_at(0, 100), 1, 3),
        (lambda d: (d.string_at(0, 100), d.string_at(0, 100)), 2, 3),
        (lambda d: d.tables_at(0, 200, table("Buffer", "circle")), 0, 0),
    ],
)
def test_what_is_read_is_counted(get: Callable[[Decoder], object], references: int, size: int) -> None:
    """A string that is read twice is decoded once."""
    read = decoder(words(b100=3))
    get(read)
    assert (SIZE // 4 - read.references_left, 4 * SIZE - read.bytes_left) == (references, size)


def test_elements_of_vectors_are_counted() -> None:
    fields = {field.name: field for field in table("Tensor", "circle").fields}
    read = decoder(words(b100=5))
    assert read.scalars_at(0, 100, fields["shape"]).tolist() == [0] * 5
    assert (SIZE // 4 - read.references_left, 4 * SIZE - read.bytes_left) == (0, 20)
    data = {field.name: field for field in table("Buffer", "circle").fields}["data"]
    assert len(read.scalars_at(0, 100, data)) == 5
    assert 4 * SIZE - read.bytes_left == 20, "data of constants are not read"
