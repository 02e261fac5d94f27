# SPDX-License-Identifier: Apache-2.0
"""Reading in a separate process: arrays arrive unchanged; a crash, a loop or a sleep becomes an error."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import h5py
import numpy as np
import pytest

from circlekit.equivalence import sandbox
from circlekit.equivalence.data_files import hdf5
from circlekit.equivalence.sandbox import SMALLEST_ARRAY_BYTES, Item, iterate_sandboxed
from circlekit.errors import FileError, FormatError, LimitError
from circlekit.ir.resources.resource_limits import limited

ODD = [
    np.float32(1.5).reshape(()),
    np.zeros((0, 3), np.int8),
    np.array([[True], [False]]),
    np.array([1, -2], ">i4"),
    np.array([1 + 2j], np.complex64),
    np.arange(1 << 19, dtype=np.float64).reshape(2, -1).T,
]


def test_arrays_come_through_as_they_are() -> None:
    """Only the byte order changes: arrays arrive in the native one."""
    found = list(
        iterate_sandboxed(lambda: [Item(i, f"é\n{i}", array) for i, array in enumerate(ODD)], "a.h5", 0)
    )
    assert [(item.group, item.name) for item in found] == [(i, f"é\n{i}") for i in range(len(ODD))]
    for item, array in zip(found, ODD, strict=True):
        assert (item.array.dtype, item.array.shape) == (array.dtype.newbyteorder("="), array.shape)
        assert np.array_equal(item.array, array)


def items(then: Callable[[], object]) -> Callable[[], Iterator[Item]]:
    """Return a reader that yields one item and then calls ``then``."""

    def read() -> Iterator[Item]:
        yield Item(0, "x", ODD[0])
        then()

    return read


def crash() -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def spin() -> None:
    while True:
        pass


def end() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def sleep() -> None:
    threading.Event().wait()


def exhaust() -> None:
    bytearray(4 << 30)


def refuse() -> None:
    raise LimitError("too much")


@pytest.mark.parametrize(
    ("then", "error", "sentence"),
    [
        (crash, FormatError, "a.h5 is damaged: the library that reads it crashed"),
        (spin, FormatError, "a.h5 is damaged: reading it does not end"),
        (sleep, FormatError, "a.h5: no array was read in 1 s; the file may be damaged, or the disk slow"),
        (end, LimitError, "a.h5: the system killed the process that reads it"),
        (exhaust, LimitError, "a.h5: reading 0 bytes takes too much memory"),
        (refuse, LimitError, "too much"),
    ],
)
def test_a_process_that_fails_is_an_error(
    then: Callable[[], object], error: type[Exception], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "CPU_SECONDS", 1)
    monkeypatch.setattr(sandbox, "SILENCE_SECONDS", 1.0 if then is sleep else 30.0)
    made, fork = [], os.fork

    def noted() -> int:
        made.append(fork())
        return made[-1]

    monkeypatch.setattr(os, "fork", noted)
    with pytest.raises(error, match=sentence):
        list(iterate_sandboxed(items(then), "a.h5", 0))
    with pytest.raises(ChildProcessError):  # nothing is left behind
        os.waitpid(made[0], os.WNOHANG)


def test_the_time_limit_is_extended_per_array(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit grows only for as many arrays as a file of that size can hold: for two of the four.

    The clock says 10 seconds at the start, then 20 and 30; each limit is 3 seconds later.
    """
    resource = pytest.importorskip("resource")
    clock = iter(range(10, 1000, 10))
    monkeypatch.setattr("time.process_time", lambda: next(clock))

    def limits_there() -> Iterator[Item]:
        for _ in range(4):
            yield Item(0, "", np.array(resource.getrlimit(resource.RLIMIT_CPU)[0]))

    found = list(iterate_sandboxed(limits_there, "a.h5", 2 * SMALLEST_ARRAY_BYTES))
    assert [int(item.array) for item in found] == [13, 23, 33, 33]


@pytest.mark.parametrize("size", [0, 1 << 25])
def test_limits_of_the_process(size: int) -> None:
    """The process gets 3 seconds and one more for each 16 MiB; memory for the file's arrays and 256 MiB."""
    resource = pytest.importorskip("resource")

    def limits_there() -> Iterator[Item]:
        kinds = (resource.RLIMIT_CPU, resource.RLIMIT_CORE, resource.RLIMIT_AS)
        soft = [resource.getrlimit(kind)[0] for kind in kinds]
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        yield Item(0, "", np.array([*soft, used], np.int64))

    with limited(1 << 30):
        (item,) = list(iterate_sandboxed(limits_there, "a.h5", size))
    seconds, core, memory, used = item.array.tolist()
    assert seconds in (3 + size // (1 << 24), 4 + size // (1 << 24))
    assert core == 0
    assert abs(memory - used - (1 << 28) - min(1 << 30, size * 1100)) < 1 << 24


def test_a_stricter_limit_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hard limit of processor time is 2 seconds, the soft limit of memory 1 byte."""
    resource = pytest.importorskip("resource")
    set_limits: list[tuple[int, tuple[int, int]]] = []
    monkeypatch.setattr(
        resource, "getrlimit", lambda kind: (1000, 2) if kind == resource.RLIMIT_CPU else (1, -1)
    )
    monkeypatch.setattr(resource, "setrlimit", lambda kind, limits: set_limits.append((kind, limits)))
    sandbox._limit_resources(0)
    assert set_limits == [(resource.RLIMIT_CORE, (0, 0)), (resource.RLIMIT_CPU, (2, 2))]


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.h5")
    with pytest.raises(FileError, match=r"a.h5: expected an HDF5 file, got a pipe, a socket or a device"):
        hdf5.read(tmp_path / "a.h5")


# -- what a file claims ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [{"chunks": (1,)}, {"chunks": (1,), "compression": "gzip"}, {"fillvalue": 3}, {"chunks": (1 << 20,)}],
    ids=["chunks", "gzip", "fill", "large chunks"],
)
def test_numbers_that_are_not_in_the_file(options: dict[str, object], tmp_path: Path) -> None:
    """A file of two kilobytes claims 512 MiB, in up to 134 million chunks."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_group("value").create_dataset("0", (1 << 27,), "<f4", **options)
    with pytest.raises(FormatError, match=r"/value/0 claims 512.0 MiB .*, of which the file stores 0 bytes"):
        hdf5.read(tmp_path / "a.h5")


def test_what_is_packed_as_densely_as_can_be_is_read(tmp_path: Path) -> None:
    numbers = np.zeros(1 << 24, np.float32)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset(
            "value/0", data=numbers, compression="gzip", compression_opts=9, chunks=(1 << 20,)
        )
    assert (tmp_path / "a.h5").stat().st_size < 1 << 17
    ((name, array),) = hdf5.read(tmp_path / "a.h5")
    assert name == "0"
    assert np.array_equal(array, numbers)


def test_a_record_without_arrays_is_refused(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["value/0/0"] = np.zeros(2, np.float32)
        file.create_group("value/1")
    with pytest.raises(FormatError, match="/value/1 has no arrays"):
        hdf5.read_records(tmp_path / "a.h5")


def test_errors_of_libraries_are_not_printed(capfd: pytest.CaptureFixture[str]) -> None:
    assert list(sandbox.run_forked(lambda: [os.write(2, b"noise")], 5.0)) == [5]
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("error", [OSError, EOFError, ValueError])
def test_errors_of_the_work_are_raised(error: type[Exception]) -> None:
    """OSError and EOFError too, which the pipe itself raises if the process has ended."""

    def work() -> Iterator[int]:
        yield 1
        raise error("text")

    found = sandbox.run_forked(work, 5.0)
    assert next(found) == 1
    with pytest.raises(error, match=r"^text$"):
        next(found)


def test_limits_grow_with_the_file() -> None:
    resource = pytest.importorskip("resource")
    megabyte = 1 << 20

    def limits_for(*sizes: int) -> tuple[int, int]:
        def get() -> Iterator[tuple[int, int]]:
            for size in sizes:
                sandbox._limit_resources(size)
            yield resource.getrlimit(resource.RLIMIT_AS)[0], resource.getrlimit(resource.RLIMIT_CPU)[0]

        (found,) = sandbox.run_forked(get, 5.0)
        return found

    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    empty, seconds = limits_for(0)
    assert abs(empty - used - sandbox.SPARE_BYTES) < 64 * megabyte
    assert sandbox.CPU_SECONDS <= seconds <= sandbox.CPU_SECONDS + 2
    memory, more_seconds = limits_for(megabyte)
    assert abs(memory - empty - megabyte * sandbox.LARGEST_COMPRESSION) < 64 * megabyte
    assert more_seconds - seconds <= 1
    assert abs(limits_for(5 * sandbox.BYTES_PER_SECOND)[1] - seconds - 5) <= 1
    assert abs(limits_for(0, megabyte)[0] - empty) < 64 * megabyte, "a limit is never raised"
    with limited("100M"):
        capped, _ = limits_for(10 * megabyte)
    assert abs(capped - empty - 100 * megabyte) < 64 * megabyte
