# SPDX-License-Identifier: Apache-2.0
"""Copying from file to file: every way gives the same bytes, and what is no matter of the way is told."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from circlekit.errors import FileError, LimitError
from circlekit.io.files import map_file, write_file
from circlekit.io.moves import PAGE
from circlekit.io.read.file_map import FileMap
from circlekit.io.write import output
from circlekit.io.write.output import FileRange, Output, Piece
from circlekit.ir.resource_limits import limited

SIZE = 3 * PAGE + 77
CONTENT = np.random.default_rng(0).bytes(SIZE)
RANGES = [(0, SIZE), (16, PAGE), (PAGE, 2 * PAGE), (5, 10), (SIZE - 1, 1), (PAGE - 1, PAGE + 2)]
MEMORY = Path("/dev/shm")


@pytest.fixture
def source(tmp_path: Path) -> FileMap:
    path = tmp_path / "source"
    path.write_bytes(CONTENT)
    return as_map(path)


def as_map(path: Path) -> FileMap:
    file = map_file(path).obj
    assert isinstance(file, FileMap)
    return file


def pieces(source: FileMap) -> Iterator[Piece]:
    """Ranges between bytes from memory, most of them where they were in their page."""
    at = 0
    for number, (start, size) in enumerate(RANGES):
        between = b"<%d>" % number
        if number % 3 != 2:
            between += bytes((start - at - len(between)) % PAGE)
        yield between
        yield FileRange(source, start, size)
        at += len(between) + size


def expected() -> bytes:
    found = b""
    for number, (start, size) in enumerate(RANGES):
        found += b"<%d>" % number
        if number % 3 != 2:
            found += bytes((start - len(found)) % PAGE)
        found += CONTENT[start : start + size]
    return found


EXPECTED = expected()


def refuse(number: int) -> Callable[..., int]:
    def call(*_: Any) -> int:
        raise OSError(number, os.strerror(number))

    return call


def only(monkeypatch: pytest.MonkeyPatch, name: str | None, replaced: Callable[..., int] | None) -> list[str]:
    """Let the ways to copy be told, and all but ``name`` refuse as ``replaced`` does (None: not be there)."""
    used: list[str] = []
    for way in ("copy_file_range", "sendfile"):
        if way != name and replaced is None:
            monkeypatch.delattr(os, way)
            continue
        call = getattr(os, way) if way == name or replaced is None else replaced

        def told(*arguments: Any, way: str = way, call: Callable[..., int] = call) -> int:
            count = call(*arguments)
            used.extend([way] if count else [])
            return count

        monkeypatch.setattr(os, way, told)
    return used


@pytest.mark.parametrize("way", ["copy_file_range", "sendfile", None])
@pytest.mark.parametrize("number", [None, "EXDEV", "EINVAL", "ENOSYS", "EOPNOTSUPP", "EBADF", 0])
def test_every_way_copies_the_same(
    way: str | None,
    number: str | int | None,
    source: FileMap,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """``number``: how the ways before are lacking: absent, refused, or without a byte copied."""
    replaced: Callable[..., int] | None = (lambda *_: 0) if number == 0 else None
    if isinstance(number, str):
        replaced = refuse(getattr(errno, number))
    used = only(monkeypatch, way, replaced)
    assert write_file(tmp_path / "out", pieces(source), len(EXPECTED)) == len(EXPECTED)
    assert (tmp_path / "out").read_bytes() == EXPECTED
    assert used == len(used) * [way]
    assert way is None or used


@pytest.mark.parametrize("way", ["copy_file_range", "sendfile"])
def test_a_way_that_fails_in_the_middle_is_continued_by_the_next(
    way: str, source: FileMap, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Short copies, and then EINVAL, as a kernel may do where it meets another file system."""
    real = getattr(os, way)
    calls = []

    def short(a: int, b: int, c: int, d: int) -> int:
        calls.append(way)
        if len(calls) > 3:
            raise OSError(errno.EINVAL, "no more")
        count: int = real(a, b, min(c, 100), d) if way == "copy_file_range" else real(a, b, c, min(d, 100))
        return count

    only(monkeypatch, way, refuse(errno.ENOSYS))
    monkeypatch.setattr(os, way, short)
    write_file(tmp_path / "out", pieces(source))
    assert (tmp_path / "out").read_bytes() == EXPECTED
    assert len(calls) == 4


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EFBIG, errno.EDQUOT])
def test_an_error_of_the_disk_is_told(
    number: int, source: FileMap, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "out").write_bytes(b"before")
    monkeypatch.setattr(os, "copy_file_range", refuse(number))
    with pytest.raises(FileError, match=f"out: cannot be written: {os.strerror(number)}"):
        write_file(tmp_path / "out", pieces(source))
    assert (tmp_path / "out").read_bytes() == b"before"
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.skipif(not MEMORY.is_dir(), reason="no file system in memory at /dev/shm")
def test_to_another_file_system(source: FileMap, tmp_path: Path) -> None:
    if MEMORY.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip(f"{tmp_path} is on the file system of {MEMORY}")
    path = MEMORY / f"circlekit-test-{os.getpid()}"
    try:
        write_file(path, pieces(source), len(EXPECTED))
        assert path.read_bytes() == EXPECTED
        back = FileRange(as_map(path), 0, len(EXPECTED))
        write_file(tmp_path / "back", [back])
        assert (tmp_path / "back").read_bytes() == EXPECTED
    finally:
        path.unlink(missing_ok=True)


@pytest.mark.parametrize(("size", "fits"), [(3 << 20, True), ((3 << 20) + 1, False)])
def test_from_a_pipe(size: int, fits: bool) -> None:
    """What comes may have no end: it is read as far as memory may be taken."""
    ends = os.pipe()
    content = bytes(range(256)) * (size // 256) + bytes(size % 256)

    def write() -> None:
        rest = memoryview(content)
        while rest:
            rest = rest[os.write(ends[1], rest) :]
        os.close(ends[1])

    writer = threading.Thread(target=write)
    writer.start()
    with limited(memory=3 << 20):
        if fits:
            got = map_file(f"/dev/fd/{ends[0]}")
            assert got.readonly
            assert got == content
        else:
            with pytest.raises(LimitError, match=f"/dev/fd/{ends[0]}: what comes of it would take"):
                map_file(f"/dev/fd/{ends[0]}")
            while os.read(ends[0], 1 << 20):
                pass
    writer.join()
    os.close(ends[0])


def test_to_a_pipe(source: FileMap) -> None:
    """More than a pipe holds, to a reader that is slower."""
    ends = os.pipe()
    many = [piece for _ in range(30) for piece in pieces(source)]
    got = bytearray()

    def read() -> None:
        while part := os.read(ends[0], 10_000):
            got.extend(part)

    reader = threading.Thread(target=read)
    reader.start()
    written = write_file(f"/dev/fd/{ends[1]}", many)
    os.close(ends[1])
    reader.join()
    os.close(ends[0])
    assert written == len(got)
    assert got == EXPECTED * 30


@pytest.mark.parametrize("size", [0, SIZE, 3 * output.RESERVED])
def test_what_was_reserved_too_much_is_given_back(size: int, source: FileMap, tmp_path: Path) -> None:
    write_file(tmp_path / "out", pieces(source), size)
    assert (tmp_path / "out").read_bytes() == EXPECTED
    assert (tmp_path / "out").stat().st_blocks * 512 < output.RESERVED


@pytest.mark.parametrize("number", [errno.EOPNOTSUPP, errno.ENOSPC])
def test_room_that_cannot_be_reserved_may_still_be_there(
    number: int, source: FileMap, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "posix_fallocate", refuse(number))
    write_file(tmp_path / "out", pieces(source), output.RESERVED)
    assert (tmp_path / "out").read_bytes() == EXPECTED


def test_large_pieces_and_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces larger than a step; the disk is told of every byte but the last ones, once."""
    monkeypatch.setattr(output, "STEP", 2 * PAGE)
    monkeypatch.setattr(output, "BUFFER", 100)
    told = []
    monkeypatch.setattr(os, "posix_fadvise", lambda fd, start, size, advice: told.append((start, size)))
    data = np.random.default_rng(1).bytes(9 * PAGE + 5)
    path = tmp_path / "in"
    path.write_bytes(data)
    (tmp_path / "out").write_bytes(b"before")  # or nobody would wait for the disk
    write_file(
        tmp_path / "out",
        [data[:50], memoryview(data)[50:99], FileRange(as_map(path), 99, len(data) - 99), data],
    )
    assert (tmp_path / "out").read_bytes() == 2 * data
    ends = [0, *(start + size for start, size in told)]
    assert [start for start, _ in told] == ends[:-1]
    assert 0 <= 2 * len(data) - ends[-1] < 2 * PAGE


@pytest.mark.parametrize("start", [0, 1, PAGE, 5 * PAGE + 16])
def test_blocks_are_copied_whole(start: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """But for the first and the last, every copy begins and ends at a block of the new file."""
    monkeypatch.setattr(output, "STEP", 4 * output.BLOCK)
    data = np.random.default_rng(2).bytes(11 * output.BLOCK + 99)
    path = tmp_path / "in"
    path.write_bytes(data)
    real = os.copy_file_range
    ends = [start]

    def told(source: int, target: int, size: int, offset: int) -> int:
        count = real(source, target, size, offset)
        ends.append(ends[-1] + count)
        return count

    monkeypatch.setattr(os, "copy_file_range", told)
    rest = FileRange(as_map(path), start, len(data) - start)
    write_file(tmp_path / "out", [data[:start], rest])
    assert (tmp_path / "out").read_bytes() == data
    assert ends[-1] == len(data)
    assert all(end % output.BLOCK == 0 for end in ends[1:-1])
    assert len(ends) in (5, 6)


# -- the source changes ------------------------------------------------------------------------


def cut(path: Path) -> None:
    os.truncate(path, PAGE + 10)


def grow(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"more")


def rewrite(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(b"other")


@pytest.mark.parametrize("change", [cut, grow, rewrite])
@pytest.mark.parametrize("way", ["copy_file_range", None])
def test_a_changed_source_is_told(
    change: Callable[[Path], None], way: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "source"
    path.write_bytes(CONTENT)
    source = as_map(path)
    source.check()
    only(monkeypatch, way, refuse(errno.ENOSYS))
    change(path)
    with pytest.raises(FileError, match="source: it was changed since it was read"):
        source.check()
    with (tmp_path / "out").open("wb") as file:
        output = Output(file.fileno())
        if change is cut:
            with pytest.raises(FileError, match="source: it was changed"):
                output.write_all([FileRange(source, 0, SIZE)])
        else:
            assert output.write_all([FileRange(source, 0, SIZE)]) == SIZE


def test_a_replaced_source_is_still_there(tmp_path: Path, source: FileMap) -> None:
    """Another file with its name is another file."""
    other = tmp_path / "other"
    other.write_bytes(b"new")
    other.replace(tmp_path / "source")
    source.check()
    write_file(tmp_path / "source", pieces(source))
    source.check()
    assert (tmp_path / "source").read_bytes() == EXPECTED


def test_the_descriptor_goes_with_the_map(tmp_path: Path) -> None:
    path = tmp_path / "source"
    path.write_bytes(CONTENT)
    view = map_file(path)
    assert isinstance(view.obj, FileMap)
    descriptor = view.obj.descriptor
    os.fstat(descriptor)
    part = view[10:20]
    del view
    os.fstat(descriptor)
    assert bytes(part) == CONTENT[10:20]
    del part
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)
