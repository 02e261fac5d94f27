# SPDX-License-Identifier: Apache-2.0
"""Samples for ONE's programs: which formats take which files, and the words of errors."""

from __future__ import annotations

import errno
import re
from pathlib import Path

import numpy as np
import pytest

import circlekit
from circlekit.errors import CirclekitError, FileError
from circlekit.quant.calibration.sample_files import RandomSamples
from circlekit.quant.one.sample_data import RANDOM_SAMPLES, check_percentiles, recording_lines, samples_of

NET = "graph main(%x: f32[2], %z: f32[3]) -> %y, %w {\n  %y = Neg(%x)\n  %w = Neg(%z)\n}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with two samples in four formats: two lists, a folder of raw files, and an npz file."""
    arrays = np.arange(10, dtype=np.float32).reshape(2, 5)
    (tmp_path / "raw").mkdir()
    for number, sample in enumerate(arrays):
        sample.tofile(tmp_path / "raw" / f"{number}.bin")
        sample[:2].tofile(tmp_path / f"x{number}.bin")
        sample[2:].tofile(tmp_path / f"z{number}.bin")
    (tmp_path / "list.txt").write_text("x0.bin z0.bin\nx1.bin z1.bin\n")
    (tmp_path / "whole.txt").write_text("raw/0.bin\nraw/1.bin\n")
    np.savez(tmp_path / "data.npz", x=arrays[:, :2], z=arrays[:, 2:])
    return tmp_path


@pytest.mark.parametrize(
    ("name", "form", "count"),
    [
        ("list.txt", "list", 2),
        ("whole.txt", "filelist", 2),
        ("raw", "dir", 2),
        ("raw", "directory", 2),
        ("data.npz", "h5", 2),
        ("data.npz", "hdf5", 2),
        ("list.txt", "h5", "Given data file is not HDF5"),
        ("list.txt", "dir", "Cannot open directory: .*: expected a folder of raw files"),
        ("none", "directory", "Cannot open directory"),
        ("none.h5", "h5", "Cannot open file: .*: no such file"),
        ("none.txt", "list", "Cannot open file: .*: no such file"),
        ("x" * 300, "h5", "Cannot open file: .*: cannot be read: File name too long"),
        ("data.npz", "npz", "Unsupported input data format 'npz'"),
    ],
)
def test_formats_of_one(name: str, form: str, count: int | str, folder: Path) -> None:
    model = circlekit.parse(NET)
    if isinstance(count, str):
        with pytest.raises(CirclekitError, match=count):
            samples_of(model, str(folder / name), form)
        return
    samples = samples_of(model, str(folder / name), form)
    found = [[array.tolist() for array in sample] for sample in samples]
    assert found == [[[0, 1], [2, 3, 4]], [[5, 6], [7, 8, 9]]]
    assert len(list(samples_of(model, None, form))) == RANDOM_SAMPLES


@pytest.mark.parametrize("form", ["h5", "list", "dir"])
def test_an_empty_name_is_not_the_working_directory(form: str) -> None:
    with pytest.raises(FileError, match="Cannot open file: a file without a name cannot be read"):
        samples_of(circlekit.parse(NET), "", form)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x0.bin z0.bin x1.bin\n", "Wrong number of inputs: expected one file, or one for each of 2 inputs"),
        ("x0.bin x1.bin\n", "Buffer size does not match: "),
        ("x0.bin\n", "Buffer size does not match: "),
        ("x0.bin none.bin\n", "Cannot open file: "),
        ("", "Cannot open file: "),
    ],
)
def test_errors_in_the_words_of_one(text: str, words: str, folder: Path) -> None:
    (folder / "list.txt").write_text(text)
    samples = samples_of(circlekit.parse(NET), str(folder / "list.txt"), "list")
    with pytest.raises(CirclekitError) as error:
        list(samples)
    assert error.value.message.startswith(words)


def test_a_line_of_two_files_for_one_input_has_a_wrong_number_of_inputs(folder: Path) -> None:
    (folder / "list.txt").write_text("x0.bin x1.bin\n")
    model = circlekit.parse("graph main(%x: f32[2]) -> %y { %y = Neg(%x) }")
    with pytest.raises(CirclekitError, match="Wrong number of inputs: expected one file, got 2"):
        list(samples_of(model, str(folder / "list.txt"), "list"))


def test_a_file_that_may_not_be_read_is_an_error_in_the_words_of_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(FileError, match=r"Cannot open file: .*data.npz: cannot be read: Permission denied"):
        samples_of(circlekit.parse(NET), str(folder / "data.npz"))


def test_an_npz_file_that_lacks_an_input_has_a_wrong_number_of_inputs(folder: Path) -> None:
    np.savez(folder / "data.npz", x=np.zeros((2, 2), np.float32))
    with pytest.raises(CirclekitError, match="Wrong number of inputs"):
        list(samples_of(circlekit.parse(NET), str(folder / "data.npz")))


@pytest.mark.parametrize(
    ("low", "high", "message"),
    [
        (0, 100, None),
        (50, 50, None),
        (-0.5, 99, "from 0 to 100, got -0.5"),
        (1, 100.5, "from 0 to 100, got 100.5"),
        (51, 50, "expected min_percentile <= max_percentile, got 51 and 50"),
    ],
)
def test_percentiles(low: float, high: float, message: str | None) -> None:
    if message is None:
        check_percentiles(low, high)
        return
    with pytest.raises(CirclekitError, match=re.escape(message)):
        check_percentiles(low, high)


def test_lines_of_a_recording() -> None:
    last = "Recording finished. Number of recorded data: 2"
    assert recording_lines(2) == ["Recording 0'th data", "Recording 1'th data", last]


def test_random_samples_have_the_distributions_of_one() -> None:
    text = "graph main(%x: f32[400], %i: i32[400], %b: bool[4]) -> %x, %i, %b { }"
    model = circlekit.parse(text)
    ((floats, integers, bools),) = RandomSamples(model, 1, like_one=True)
    assert -5 <= floats.min() < -4.5
    assert 4.5 < floats.max() <= 5
    assert 0 <= integers.min() < 10
    assert 90 < integers.max() <= 100
    assert bools.dtype == np.bool_


@pytest.mark.parametrize("dtype", ["f16", "f32"])
def test_random_samples_of_a_float_input_with_indices_are_whole_numbers_below_the_size(dtype: str) -> None:
    text = f"""graph main(%x: {dtype}[20000]) -> %y {{
      %table = const f32[100,1] zeros
      %i = Cast(%x)       : i32[20000]
      %y = Gather(%table, %i)
    }}"""
    ((indices,),) = RandomSamples(circlekit.parse(text), 1, like_one=True)
    assert indices.dtype.name == {"f16": "float16", "f32": "float32"}[dtype]
    assert set(indices.tolist()) == set(range(100))
