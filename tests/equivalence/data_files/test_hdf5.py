# SPDX-License-Identifier: Apache-2.0
"""HDF5 files: the layout of ONE, reproducible bytes, errors, and the comparison of two files."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest

from circlekit.equivalence.data_files import hdf5
from circlekit.equivalence.data_files.array_files import compare_files
from circlekit.errors import CirclekitError, FileError, FormatError, UnsupportedError
from circlekit.ir.value import Array

ARRAYS: list[tuple[str, Array]] = [
    ("serving:0", np.arange(6, dtype=np.float32).reshape(2, 3)),
    ("größe", np.array(7, np.int64)),
    ("", np.array([True, False])),
    ("bytes", np.array([[-1]], np.int8)),
    ("half", np.array([1.5], np.float16)),
    ("none", np.zeros((0, 2), np.float32)),
]


def write(path: Path, arrays: list[tuple[str, Array]]) -> Path:
    path.write_bytes(hdf5.encode(arrays))
    return path


def test_the_layout_is_that_of_one(tmp_path: Path) -> None:
    with h5py.File(write(tmp_path / "a.h5", ARRAYS)) as file:
        assert sorted(file) == ["name", "value"]
        assert sorted(file["name"].attrs) == sorted(file["value"]) == [str(i) for i in range(len(ARRAYS))]
        for index, (name, array) in enumerate(ARRAYS):
            stored = file["name"].attrs[str(index)]
            assert (stored.decode() if isinstance(stored, bytes) else stored) == name
            assert np.array_equal(file["value"][str(index)][()], array)
            assert file["value"][str(index)].dtype == array.dtype


def test_reading_gives_what_was_written(tmp_path: Path) -> None:
    many = [(f"x{i}", np.array([i], np.float32)) for i in range(12)]  # as text, "10" comes before "2"
    for arrays in (ARRAYS, many):
        read = hdf5.read(write(tmp_path / "a.h5", arrays))
        assert [(name, a.dtype) for name, a in read] == [(name, a.dtype) for name, a in arrays]
        assert all(np.array_equal(a, b) for (_, a), (_, b) in zip(read, arrays, strict=True))


def test_a_number_is_read_as_an_array_of_rank_0(tmp_path: Path) -> None:
    ((_, array),) = hdf5.read(write(tmp_path / "a.h5", [("x", np.array(1.5, np.float32))]))
    assert isinstance(array, np.ndarray)
    assert array.shape == ()


def test_names_that_are_too_long_for_hdf5_are_refused(tmp_path: Path) -> None:
    most = hdf5.MAX_NAME_BYTES
    one, name = np.ones(1, np.float32), "é" * (most // 2)  # two bytes each
    ((read, _),) = hdf5.read(write(tmp_path / "a.h5", [(name, one)]))
    assert read == name
    sentence = f"expected a name of at most {most} bytes in an HDF5 file, got {most + 1}: "
    with pytest.raises(UnsupportedError, match=sentence):
        hdf5.encode([(name + "a", one)])


def test_datasets_are_read_from_groups_of_limited_depth(tmp_path: Path) -> None:
    most = hdf5.MAX_GROUP_DEPTH
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for depth in (0, 1, most, most + 1):
            file["/".join(["value", *["g"] * depth, "x"])] = np.float32(depth)
    read = hdf5.read_datasets(tmp_path / "a.h5")
    assert {name: float(array) for name, array in read.items()} == {
        "g/" * depth + "x": depth for depth in (0, 1, most)
    }


def test_bytes_do_not_depend_on_the_time() -> None:
    first = hdf5.encode(ARRAYS)
    time.sleep(1.1)  # HDF5 stores times in whole seconds
    assert hdf5.encode(ARRAYS) == first


def no_value(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file.create_group("other")


def strings(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file["value/0"] = "text"


@pytest.mark.parametrize(
    ("make", "error", "sentence"),
    [
        (lambda path: None, FileError, "no such file"),
        (lambda path: path.mkdir(), FileError, "got a directory"),
        (lambda path: path.write_bytes(b"\0" * 100), FormatError, "is not a readable HDF5"),
        (lambda path: path.write_bytes(b""), FormatError, "is not a readable HDF5"),
        (
            lambda path: path.write_bytes(hdf5.encode(ARRAYS)[:900]),
            FormatError,
            "is not a readable HDF5 file",
        ),
        (no_value, FormatError, "has no group /value"),
        (strings, FormatError, "/value/0 is not a dataset of numbers"),
    ],
    ids=["missing", "directory", "zeros", "empty", "truncated", "layout", "strings"],
)
def test_unusable_files_are_refused(
    tmp_path: Path, make: Callable[[Path], None], error: type[CirclekitError], sentence: str
) -> None:
    path = tmp_path / "bad.h5"
    make(path)
    with pytest.raises(error, match=f"bad.h5.*{sentence}"):
        hdf5.read(path)


# -- comparison --------------------------------------------------------------------------------


def test_equal_by_name_whatever_the_order(tmp_path: Path) -> None:
    left = write(tmp_path / "l.h5", ARRAYS)
    right = write(tmp_path / "r.h5", ARRAYS[::-1])
    assert [(entry.name, entry.equal) for entry in compare_files(left, right, 0)] == [
        (name.removesuffix(":0"), True) for name, _ in ARRAYS
    ]


def test_differences_are_named(tmp_path: Path) -> None:
    one = np.ones(2, np.float32)
    left = write(tmp_path / "l.h5", [("a", one), ("b", one), ("c", one), ("d", one), ("only", one)])
    right = write(
        tmp_path / "r.h5",
        [
            ("a:0", one),
            ("b", one + np.float32(0.5)),
            ("c", np.ones(3, np.float32)),
            ("d", one.astype(np.int32)),
        ],
    )
    entries = {entry.name: entry for entry in compare_files(left, right, 0.001)}
    assert [name for name, entry in entries.items() if entry.equal] == ["a"]
    assert str(entries["b"]).startswith("b: [0]: 1.0 and 1.5 differ by 0.5")
    assert entries["c"].reason == "shapes [2] and [3] differ"
    assert entries["d"].reason == "dtypes float32 and int32 differ"
    assert entries["only"].reason == f"missing in {right}"


def test_byte_order_and_missing_names_do_not_matter(tmp_path: Path) -> None:
    """A dataset without a name is compared by its number.  ONE's i5diff reads such files, too."""
    with h5py.File(tmp_path / "big.h5", "w") as file:
        file["value/0"] = np.array([1, 2], ">f4")
    ((name, array),) = hdf5.read(tmp_path / "big.h5")
    assert (name, array.dtype.str) == ("0", "<f4")
    ours = write(tmp_path / "ours.h5", [("0", np.array([1, 2.0005], np.float32))])
    (entry,) = compare_files(tmp_path / "big.h5", ours, 0.001)
    assert entry.equal
    (entry,) = compare_files(tmp_path / "big.h5", ours, 0.0001)
    assert not entry.equal


@pytest.mark.parametrize(
    ("places", "count"),
    [
        (["value/0", "value/1"], 1),  # two arrays of one record
        (["value/0/0", "value/1/0", "value/2/0"], 3),  # a group for each record
        (["value/0/0", "value/x"], 1),  # an array beside a group: one record
    ],
)
def test_the_number_of_records(tmp_path: Path, places: list[str], count: int) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for place in places:
            file[place] = np.ones(2, np.float32)
    assert hdf5.count_records(tmp_path / "a.h5") == count


@pytest.mark.parametrize("group", ["value", "other"])
def test_a_file_without_records(tmp_path: Path, group: str) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_group(group)
    assert hdf5.count_records(tmp_path / "a.h5") == 0
    with pytest.raises(FormatError, match="expected records in a group /value"):
        list(hdf5.iterate_named_records(tmp_path / "a.h5", lazily=True))
