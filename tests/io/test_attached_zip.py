# SPDX-License-Identifier: Apache-2.0
"""The archive after a model is found whatever its offsets count from; anything else is not an archive."""

from __future__ import annotations

import io
import struct
import zipfile

import pytest

from circlekit.io.attached_zip import attached_archive

MODEL = bytes(range(100)) * 3


def archive(before: bytes = b"", comment: bytes = b"", files: int = 2) -> bytes:
    """Return ``before`` and an archive after it; its offsets count from the start of ``before``."""
    out = io.BytesIO(before)
    with zipfile.ZipFile(out, "a") as target:
        target.comment = comment
        for number in range(files):
            info = zipfile.ZipInfo(f"file{number}.txt")
            info.extra = struct.pack("<HHI", 0x9999, 4, number)
            info.comment = b"note"
            target.writestr(info, b"content %d" % number)
    return out.getvalue()


def found(data: bytes) -> bytes:
    return attached_archive(memoryview(data))


@pytest.mark.parametrize("comment", [b"", b"c", b"c" * 0xFFFF, b"PK\5\6, " * 9])
@pytest.mark.parametrize("files", [1, 2])
def test_offsets_count_from_the_start_of_the_archive(comment: bytes, files: int) -> None:
    alone = archive(b"", comment, files)
    assert found(archive(MODEL, comment, files)) == alone
    assert found(MODEL + alone) == alone
    assert found(alone) == alone


END = struct.Struct("<4s4HIIH")
"""The end record: signature, 4 numbers, size and offset of the directory, length of the comment."""


def changed(at: int, data: bytes, code: str, value: int) -> bytes:
    out = bytearray(data)
    struct.pack_into(code, out, at, value)
    return bytes(out)


WHOLE = archive(MODEL)
LAST = len(WHOLE) - END.size
DIRECTORY = LAST - END.unpack_from(WHOLE, LAST)[5]
"""The positions of the end record and of the directory, which ends where the end record begins."""


@pytest.mark.parametrize(
    "data",
    [
        MODEL,
        b"",
        b"PK\5\6",
        WHOLE[:-1],
        WHOLE + b"\0",
        archive(MODEL, b"", 0),
        changed(LAST + 10, WHOLE, "<H", 3),  # entries
        changed(LAST + 12, WHOLE, "<I", len(WHOLE)),  # size of the directory
        changed(LAST + 16, WHOLE, "<I", 0),  # offset of the directory
        changed(DIRECTORY, WHOLE, "<B", 0),  # signature of an entry
        changed(DIRECTORY + 28, WHOLE, "<H", 10),  # length of a name
        changed(len(MODEL), WHOLE, "<B", 0),  # signature of a file
    ],
)
def test_damaged_archives_are_not_kept(data: bytes) -> None:
    assert found(data) == b""


def test_an_entry_may_have_no_name() -> None:
    """Then the fixed part of the last entry ends where the directory ends."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as target:
        target.writestr(zipfile.ZipInfo(""), b"content")
    assert found(MODEL + out.getvalue()) == out.getvalue()
