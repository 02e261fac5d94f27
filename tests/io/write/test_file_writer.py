# SPDX-License-Identifier: Apache-2.0
"""Files written from ranges of memory and of mapped files."""

from __future__ import annotations

import errno
import io
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from circlekit.errors import FileError, LimitError
from circlekit.io.file_map import FileMap, map_file
from circlekit.io.write import file_writer as output
from circlekit.io.write.file_writer import Piece, write_file, write_pieces
from circlekit.ir.resources.progress import Progress, watched
from circlekit.ir.resources.resource_limits import limited

PAGE = 4096
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
    """Yield each range of RANGES after some bytes from memory.

    Two of three ranges begin at the same offset in a page as in the source; zeros before them fill the gap.
    """
    at = 0
    for number, (start, size) in enumerate(RANGES):
        between = b"<%d>" % number
        if number % 3 != 2:
            between += bytes((start - at - len(between)) % PAGE)
        yield between
        yield memoryview(source)[start : start + size]
        at += len(between) + size


def expected() -> bytes:
    """Return the content of a file of ``pieces``."""
    found = b""
    for number, (start, size) in enumerate(RANGES):
        found += b"<%d>" % number
        if number % 3 != 2:
            found += bytes((start - len(found)) % PAGE)
        found += CONTENT[start : start + size]
    return found


EXPECTED = expected()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EFBIG, errno.EDQUOT])
@pytest.mark.parametrize("before", [b"", b"before"])
def test_disk_errors_are_raised(
    number: int, before: bytes, source: FileMap, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken(io.RawIOBase):
        def writable(self) -> bool:
            return True

        def write(self, _: object) -> int:
            raise OSError(number, os.strerror(number))

    out = tmp_path / "out"
    if before:
        out.write_bytes(before)
    monkeypatch.setattr(os, "fdopen", lambda *_, **__: io.BufferedWriter(Broken()))
    with pytest.raises(FileError, match=f"out: cannot be written: {os.strerror(number)}"):
        write_file(out, pieces(source))
    assert [p.read_bytes() for p in tmp_path.iterdir() if p.name != "source"] == [before] * bool(before)


@pytest.mark.skipif(not MEMORY.is_dir(), reason="no file system in memory at /dev/shm")
def test_copy_to_another_file_system(source: FileMap, tmp_path: Path) -> None:
    if MEMORY.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip(f"{tmp_path} is on the file system of {MEMORY}")
    path = MEMORY / f"circlekit-test-{os.getpid()}"
    try:
        write_file(path, pieces(source))
        assert path.read_bytes() == EXPECTED
        back = memoryview(as_map(path))
        write_file(tmp_path / "back", [back])
        assert (tmp_path / "back").read_bytes() == EXPECTED
    finally:
        path.unlink(missing_ok=True)


@pytest.mark.parametrize(("size", "fits"), [(3 << 20, True), ((3 << 20) + 1, False)])
def test_read_from_a_pipe(size: int, fits: bool) -> None:
    """A pipe may never end: it is read up to the memory limit."""
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
            with pytest.raises(LimitError, match=f"/dev/fd/{ends[0]}: the data read from it would take"):
                map_file(f"/dev/fd/{ends[0]}")
            while os.read(ends[0], 1 << 20):
                pass
    writer.join()
    os.close(ends[0])


def test_write_to_a_pipe(source: FileMap) -> None:
    """Write more than the pipe's buffer holds, to a slow reader."""
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


def test_ranges_of_any_size_are_written_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes below and above that of the buffer and of one write call."""
    monkeypatch.setattr(output, "WRITE_STEP_BYTES", 2 * PAGE)
    monkeypatch.setattr(output, "BUFFER_BYTES", 100)
    data = np.random.default_rng(1).bytes(9 * PAGE + 5)
    path = tmp_path / "in"
    path.write_bytes(data)
    rest = memoryview(as_map(path))[99:]
    size = write_file(tmp_path / "out", [data[:50], memoryview(data)[50:99], rest, data, b"end"])
    assert (tmp_path / "out").read_bytes() == 2 * data + b"end"
    assert size == 2 * len(data) + 3


def test_small_ranges_are_written_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "BUFFER_BYTES", 100)
    ends = os.pipe2(os.O_DIRECT)  # a read gives what one write wrote
    assert write_pieces(ends[1], [bytes(30)] * 9 + [bytes(120)] + [bytes(99)]) == 489
    os.close(ends[1])
    sizes = []
    while part := os.read(ends[0], 1000):
        sizes.append(len(part))
    os.close(ends[0])
    assert sum(sizes) == 489
    assert len(sizes) < 7  # of 11 ranges: 90, 90, 90, 120 and 99 bytes


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
def test_changed_source_is_detected(change: Callable[[Path], None], tmp_path: Path) -> None:
    path = tmp_path / "source"
    path.write_bytes(CONTENT)
    source = as_map(path)
    source.check()
    change(path)
    with pytest.raises(FileError, match="source: the file was changed after it was read"):
        source.check()


def test_a_truncated_source_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "BUFFER_BYTES", 100)
    path = tmp_path / "source"
    path.write_bytes(CONTENT)
    source = as_map(path)
    cut(path)
    with pytest.raises(FileError, match="out: cannot be written: Bad address"):
        write_file(tmp_path / "out", [memoryview(source)])
    assert [entry.name for entry in tmp_path.iterdir()] == ["source"]


def test_a_replaced_source_is_still_there(tmp_path: Path, source: FileMap) -> None:
    """The map refers to the old file, not to the new one of the same name."""
    other = tmp_path / "other"
    other.write_bytes(b"new")
    other.replace(tmp_path / "source")
    source.check()
    write_file(tmp_path / "source", pieces(source))
    source.check()
    assert (tmp_path / "source").read_bytes() == EXPECTED


def test_descriptor_is_closed_with_the_map(tmp_path: Path) -> None:
    path = tmp_path / "source"
    path.write_bytes(CONTENT)
    view = map_file(path)
    assert isinstance(view.obj, FileMap)
    descriptor = view.obj.descriptor
    os.fstat(descriptor)  # it is open
    part = view[10:20]
    del view
    os.fstat(descriptor)
    assert bytes(part) == CONTENT[10:20]
    del part
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


@pytest.mark.parametrize("size", [None, SIZE])
def test_progress_is_reported_if_the_size_is_known(size: int | None, tmp_path: Path) -> None:
    class Noted(Progress):
        def __init__(self) -> None:
            self.steps, self.done = list[tuple[str, int, str]](), 0

        def begin(self, step: str, total: int = 0, unit: str = "") -> None:
            self.steps.append((step, total, unit))

        def advance(self, amount: int = 1, remark: str = "") -> None:
            self.done += amount

    with watched(Noted()) as noted:
        assert write_file(tmp_path / "out", [memoryview(CONTENT)], size=size) == SIZE
    assert noted.steps == ([] if size is None else [("writing out", SIZE, "bytes")])
    assert noted.done == (size or 0)
