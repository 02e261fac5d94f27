# SPDX-License-Identifier: Apache-2.0
"""HDF5 files from anywhere: nothing outside of them is read, and no more memory is taken than is allowed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from circlekit.equivalence import sandbox
from circlekit.equivalence.data_files import hdf5
from circlekit.errors import CirclekitError, FormatError, LimitError
from circlekit.ir.resources.resource_limits import limited
from circlekit.ir.value import Array

Fill = Callable[[h5py.File, Path], object]
SECRET = np.arange(4, dtype=np.float32)


def virtual(file: h5py.File, folder: Path) -> None:
    layout = h5py.VirtualLayout((4,), "<f4")
    layout[:] = h5py.VirtualSource(folder / "secret.h5", "value/0", (4,))
    file["value"].create_virtual_dataset("0", layout)


def put(key: str, item: object) -> Fill:
    def fill(file: h5py.File, folder: Path) -> None:
        file[key] = item

    return fill


HOSTILE: dict[str, tuple[Fill, str]] = {
    "external dataset": (put("value/0", h5py.ExternalLink("secret.h5", "value/0")), "/value/0 is a link"),
    "dangling link": (put("value/0", h5py.SoftLink("/other")), "/value/0 is a link"),
    "link to itself": (put("value/0", h5py.SoftLink("/value/0")), "/value/0 is a link"),
    "external names": (put("name", h5py.ExternalLink("secret.h5", "name")), "/name is a link"),
    "external storage": (
        lambda file, folder: file["value"].create_dataset(
            "0", (4,), "<f4", external=[(str(folder / "secret.h5"), 0, 16)]
        ),
        "/value/0 has its numbers in other files",
    ),
    "virtual": (virtual, "/value/0 has its numbers in other files"),
    "strings": (put("value/0", "text"), "/value/0 is not a dataset of numbers"),
    "empty": (put("value/0", h5py.Empty("<f4")), "/value/0 is not a dataset of numbers"),
    "objects": (
        lambda file, folder: file["value"].create_dataset("0", data=file.ref, dtype=h5py.ref_dtype),
        "/value/0 is not a dataset of numbers",
    ),
    "group": (lambda file, folder: file["value"].create_group("0"), "/value/0 is not a dataset of numbers"),
}
"""For each kind of file: a function that fills it, and the error on reading it."""


@pytest.mark.parametrize("kind", sorted(HOSTILE))
def test_only_numbers_in_the_file_itself_are_read(kind: str, tmp_path: Path) -> None:
    (tmp_path / "secret.h5").write_bytes(hdf5.encode([("secret", SECRET)]))
    fill, message = HOSTILE[kind]
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_group("value")
        fill(file, tmp_path)
    with pytest.raises(FormatError, match=f"a.h5: {message}"):
        hdf5.read(tmp_path / "a.h5")


def test_a_linked_group_of_values_is_refused(tmp_path: Path) -> None:
    (tmp_path / "secret.h5").write_bytes(hdf5.encode([("secret", SECRET)]))
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["value"] = h5py.ExternalLink("secret.h5", "value")
    for read in (hdf5.read, hdf5.read_records):
        with pytest.raises(FormatError, match="/value is a link"):
            read(tmp_path / "a.h5")


@pytest.mark.parametrize(
    "given", [("compression", "gzip"), ("compression", "lzf"), ("shuffle", True), ("fletcher32", True)]
)
def test_filters_that_hdf5_has_are_read(given: tuple[str, Any], tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_group("value").create_dataset("0", data=np.arange(4), chunks=(4,), **dict([given]))
    ((_, array),) = hdf5.read(tmp_path / "a.h5")
    assert array.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("number", [7, 32001, 32015])
def test_filters_that_hdf5_does_not_have_are_refused(number: int, tmp_path: Path) -> None:
    """HDF5 would look for a library to load."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        properties.set_chunk((4,))
        properties.set_filter(number, h5py.h5z.FLAG_OPTIONAL, ())
        space = h5py.h5s.create_simple((4,))
        h5py.h5d.create(file.create_group("value").id, b"0", h5py.h5t.IEEE_F32LE, space, properties)
    with pytest.raises(FormatError, match=f"encoded by filter {number}"):
        hdf5.read(tmp_path / "a.h5")


@pytest.mark.parametrize(
    "options", [{}, {"compression": "gzip", "chunks": (1 << 20,)}], ids=["plain", "gzip"]
)
def test_more_memory_than_the_limit_is_not_taken(
    options: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files of a few kilobytes claim to hold four gigabytes.

    If the process that reads a file took this memory, the error would have another message.
    """
    monkeypatch.setattr(sandbox, "SPARE_BYTES", 16 << 20)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_group("value").create_dataset("0", (1 << 30,), "<f4", fillvalue=1, **options)
    assert (tmp_path / "a.h5").stat().st_size < 1 << 16
    for read in (hdf5.read, hdf5.read_records):
        with limited("256M"), pytest.raises(LimitError, match=r"/value/0 would take 4.0 GiB .* is 256.0 MiB"):
            read(tmp_path / "a.h5")


def test_many_arrays_count_together(tmp_path: Path) -> None:
    """Four arrays of 1 MiB each."""
    arrays: list[tuple[str, Array]] = [(str(i), np.zeros(1 << 18, np.float32)) for i in range(4)]
    (tmp_path / "a.h5").write_bytes(hdf5.encode(arrays))
    with limited("4M"):
        assert len(hdf5.read(tmp_path / "a.h5")) == 4
    with limited("3M"), pytest.raises(LimitError, match=r"/value/3 would take .* in use"):
        hdf5.read(tmp_path / "a.h5")


def test_very_long_numbers_and_other_digits_are_sorted_as_names(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        values = file.create_group("value")
        for key in ("²", "9" * 5000, "10", "2"):
            values[key] = SECRET
    assert [name for name, _ in hdf5.read(tmp_path / "a.h5")] == ["2", "10", "9" * 5000, "²"]


@pytest.mark.parametrize("seed", range(40))
def test_damaged_files_do_not_crash(seed: int, tmp_path: Path) -> None:
    """Reading ends with arrays, or with an error of ours that names the file."""
    rng = np.random.default_rng(seed)
    data = bytearray(hdf5.encode([("a", SECRET), ("b", SECRET)]))
    for at in rng.integers(0, len(data), 4):
        data[at] = rng.integers(0, 256)
    (tmp_path / "a.h5").write_bytes(data)
    try:
        assert len(hdf5.read(tmp_path / "a.h5")) <= 2
    except CirclekitError as error:
        assert str(tmp_path / "a.h5") in error.message  # noqa: PT017


@pytest.mark.parametrize("name", ["", ".", "..", "a/./b", "a\0b", "\udcff", "../../x", "/", "a//b"])
def test_values_of_any_name_can_be_written(name: str) -> None:
    assert hdf5.encode([(name, SECRET)])
    assert hdf5.encode_groups({"a": {"weights": SECRET}, name: {"weights": SECRET}})


def test_numbers_are_in_order_before_names(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for key in ("x", "10", "9", "100"):
            file[f"value/{key}"] = np.zeros(1, np.float32)
    assert [name for name, _ in hdf5.read(tmp_path / "a.h5")] == ["9", "10", "100", "x"]


@pytest.mark.parametrize(
    ("count", "chunks", "is_refused"),
    [
        (1 << 24, None, False),
        ((1 << 24) + 1, None, True),
        (1 << 14, (1,), False),
        ((1 << 14) + 1, (1,), True),
        ((1 << 14) + 1, (2,), False),
    ],
)
def test_many_bytes_or_chunks_that_are_not_stored_are_refused(
    count: int, chunks: tuple[int, ...] | None, is_refused: bool, tmp_path: Path
) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_group("value").create_dataset("0", (count,), np.int8, chunks=chunks)
    if is_refused:
        with pytest.raises(FormatError, match="of which the file stores 0 bytes"):
            hdf5.read(tmp_path / "a.h5")
    else:
        ((_, array),) = hdf5.read(tmp_path / "a.h5")
        assert array.shape == (count,)


@pytest.mark.parametrize(("limit", "is_refused"), [(12000, False), (11999, True)])
def test_arrays_and_a_chunk_must_fit_into_memory_together(
    limit: int, is_refused: bool, tmp_path: Path
) -> None:
    """Two arrays and a chunk of 4000 bytes each."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("value/0", data=np.zeros(1000, np.float32))
        file.create_dataset("value/1", data=np.zeros(1000, np.float32), chunks=(1000,))
    with limited(limit):
        if is_refused:
            with pytest.raises(LimitError):
                hdf5.read(tmp_path / "a.h5")
        else:
            assert len(hdf5.read(tmp_path / "a.h5")) == 2


def test_a_file_with_a_damaged_attribute_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The HDF5 library would read the attribute for ever."""
    monkeypatch.setattr(sandbox, "CPU_SECONDS", 1)
    with pytest.raises(FormatError):
        list(hdf5.read_records(Path(__file__).with_name("attribute_without_end.h5")))
