# SPDX-License-Identifier: Apache-2.0
"""Outputs in files: numpy, h5py and raw readers find the arrays; unusable paths are refused before a run."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest

from circlekit.equivalence.data_files.output_files import check_output, write_outputs
from circlekit.errors import FileError, ShapeError

A, B = np.arange(6, dtype=np.float32).reshape(2, 3), np.array([7, 8], np.int32)
ONE_RECORD = {"first": [A, B]}
TWO_RECORDS = {"first": [A, B], "second": [A + 1, B + 1]}


def test_numpy_files_hold_one_record_or_stack_several(tmp_path: Path) -> None:
    for records, a, b in ((ONE_RECORD, A, B), (TWO_RECORDS, np.stack([A, A + 1]), np.stack([B, B + 1]))):
        write_outputs(tmp_path / "out.npz", ["a", "b"], records)
        with np.load(tmp_path / "out.npz") as found:
            assert sorted(found) == ["a", "b"]
            np.testing.assert_array_equal(found["a"], a)
            np.testing.assert_array_equal(found["b"], b)
        write_outputs(tmp_path / "out.npy", ["a"], {label: arrays[:1] for label, arrays in records.items()})
        np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), a)


def test_an_output_that_a_graph_lists_twice_is_written_twice(tmp_path: Path) -> None:
    write_outputs(tmp_path / "out.npz", ["y", "b", "y"], {"first": [A, B, A]})
    with np.load(tmp_path / "out.npz") as found:
        assert list(found) == ["y", "b", "y:2"]
        np.testing.assert_array_equal(found["y:2"], A)


def test_the_name_of_a_repeated_output_is_that_of_no_other_output(tmp_path: Path) -> None:
    write_outputs(tmp_path / "out.npz", ["y", "y", "y:1"], {"first": [A, B, A + 1]})
    with np.load(tmp_path / "out.npz") as found:
        assert list(found) == ["y", "y:1", "y:1:2"]
        np.testing.assert_array_equal(found["y:1"], B)


def test_hdf5_files_hold_names_or_numbered_records(tmp_path: Path) -> None:
    write_outputs(tmp_path / "out.h5", ["a", "b"], ONE_RECORD)
    with h5py.File(tmp_path / "out.h5") as file:
        assert sorted(name.decode() for name in file["name"].attrs.values()) == ["a", "b"]
    write_outputs(tmp_path / "two.h5", ["a", "b"], TWO_RECORDS)
    with h5py.File(tmp_path / "two.h5") as file:
        np.testing.assert_array_equal(file["value/1/0"], A + 1)
        np.testing.assert_array_equal(file["value/0/1"], B)


def test_folders_hold_raw_files(tmp_path: Path) -> None:
    write_outputs(tmp_path / "one", ["a", "b"], ONE_RECORD)
    write_outputs(f"{tmp_path}/two.d/", ["a", "b"], TWO_RECORDS)
    for place, a in (("one", A), ("two.d/first", A), ("two.d/second", A + 1)):
        assert (tmp_path / place / "output0").read_bytes() == a.tobytes()
        assert (tmp_path / place / "output1").exists()


def test_arrays_of_several_shapes_do_not_fit_one_file(tmp_path: Path) -> None:
    records = {"x": [A, B], "y": [A, B[:1]], "z": [A, B[:0]]}
    with pytest.raises(
        ShapeError, match=r"output %b has the shapes \[0\] and \[1\] in .*write .h5 or a folder"
    ):
        write_outputs(tmp_path / "out.npz", ["a", "b"], records)
    write_outputs(tmp_path / "out.h5", ["a", "b"], records)
    del records["z"]
    with pytest.raises(ShapeError, match=r"output %b has the shapes"):
        write_outputs(tmp_path / "out.npz", ["a", "b"], records)


@pytest.mark.parametrize(
    ("name", "outputs", "message"),
    [
        ("out.npz", 2, None),
        ("out.NPY", 1, None),
        ("out.npy", 2, "an npy file holds one output, got 2; write an npz file"),
        ("out.npy", 0, "an npy file holds one output, got 0"),
        ("out.h5", 2, None),
        ("out", 2, None),
        ("out.d/", 2, None),
        ("out.d", 2, "expected one of"),
        ("none/out.npz", 2, "does not exist"),
        ("file", 1, "expected a directory to write into, got a file"),
    ],
)
def test_paths_are_checked_before_the_run(
    tmp_path: Path, name: str, outputs: int, message: str | None
) -> None:
    (tmp_path / "file").write_bytes(b"")
    path = f"{tmp_path}/{name}"
    if message is None:
        check_output(path, outputs)
    else:
        with pytest.raises(FileError, match=message):
            check_output(path, outputs)
    (tmp_path / "folder.d").mkdir()
    check_output(tmp_path / "folder.d", 2)


@pytest.mark.parametrize(
    ("earlier", "names", "later", "stale"),
    [
        (ONE_RECORD, ["a", "b"], ONE_RECORD, None),
        (ONE_RECORD, ["a"], ONE_RECORD, "output1"),
        (ONE_RECORD, ["a", "b"], TWO_RECORDS, "output0"),
        (TWO_RECORDS, ["a", "b"], TWO_RECORDS, None),
        (TWO_RECORDS, ["a", "b"], ONE_RECORD, "first/output0"),
        # the labels of records in raw files of this module: folders output0, output1
        ({"output0": [A, B], "output1": [B, A]}, ["a", "b"], {"output0": [A, B], "output1": [B, A]}, None),
        ({"output0": [A, B], "output1": [B, A]}, ["a"], {"output0": [A], "output1": [B]}, "output0/output1"),
        (TWO_RECORDS, ["a", "b"], {"second": [A, B], "third": [A, B]}, "first/output0"),
    ],
)
def test_outputs_of_two_runs_are_not_mixed(
    tmp_path: Path,
    earlier: dict[str, list[np.ndarray]],
    names: list[str],
    later: dict[str, list[np.ndarray]],
    stale: str | None,
) -> None:
    (tmp_path / "output.txt").write_text("a file that no run has written")
    write_outputs(tmp_path, ["a", "b"], earlier)
    if stale is None:
        check_output(tmp_path, len(names), list(later))
    else:
        with pytest.raises(FileError, match=f"expected no outputs of other runs, got .*/{stale}; remove"):
            check_output(tmp_path, len(names), list(later))
