# SPDX-License-Identifier: Apache-2.0
"""Inputs and outputs of a run in raw files and in HDF5 files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from circlekit.equivalence.data_files.tensor_files import read_h5, read_raw, write_h5, write_raw
from circlekit.errors import CirclekitError, FileError, FormatError, ShapeError
from circlekit.ir.dtypes import DType
from circlekit.ir.value import Array, Shape, Value

TEXTS = np.array([[b"a", b""], [b"\xff", b"bc"]], object)


def value(name: str, dtype: DType = DType.FLOAT32, shape: Shape | None = (2, 3)) -> Value:
    return Value(name, dtype, shape)


def test_raw_files_are_read_as_they_were_written(tmp_path: Path) -> None:
    arrays: list[Array] = [np.arange(6, dtype=np.float32).reshape(2, 3), np.array([-1], np.int8), TEXTS]
    values = [value("x"), value("y", DType.INT8, (1,)), value("s", DType.STRING, (2, 2))]
    write_raw(tmp_path / "in", values, arrays)
    assert (tmp_path / "in0").read_bytes() == arrays[0].tobytes()
    for found, array in zip(read_raw(tmp_path / "in", values), arrays, strict=True):
        assert found.dtype == array.dtype
        assert found.tolist() == array.tolist()


def test_raw_files_are_little_endian(tmp_path: Path) -> None:
    write_raw(tmp_path / "x", [value("x")], [np.array([1], ">i4")])
    assert (tmp_path / "x0").read_bytes() == b"\1\0\0\0"


@pytest.mark.parametrize(
    ("shape", "found"),
    [((2, 3), (2, 3)), ((None, 3), (2, 3)), ((None,), (6,)), (None, (6,)), ((3, None, 1), (3, 2, 1))],
)
def test_an_unknown_dimension_follows_from_the_size(
    shape: Shape | None, found: tuple[int, ...], tmp_path: Path
) -> None:
    (tmp_path / "x0").write_bytes(bytes(24))
    assert read_raw(tmp_path / "x", [value("x", shape=shape)])[0].shape == found


@pytest.mark.parametrize(
    ("expected", "size", "error", "sentence"),
    [
        (value("x"), None, FileError, 'x0": No such file or directory; expected the elements of input %x'),
        (value("x"), 23, ShapeError, "x0 has 23 bytes, expected a multiple of 4 for %x"),
        (value("x"), 20, ShapeError, "x0 holds 5 elements, input %x is f32[2,3]"),
        (value("x", shape=(None, 4)), 20, ShapeError, "x0 holds 5 elements, input %x is f32[?,4]"),
        (value("x", shape=(None, None)), 16, ShapeError, "x0 holds 4 elements, input %x is f32[?,?]"),
        (value("x", shape=(None, 0)), 0, ShapeError, "x0 holds 0 elements, input %x is f32[?,0]"),
        (value("x", DType.INT4), 3, ShapeError, "input %x is i4, which cannot be read from raw files"),
    ],
)
def test_raw_files_that_do_not_fit(
    expected: Value, size: int | None, error: type[CirclekitError], sentence: str, tmp_path: Path
) -> None:
    if size is not None:
        (tmp_path / "x0").write_bytes(bytes(size))
    with pytest.raises(error) as found:
        read_raw(tmp_path / "x", [expected])
    assert sentence in found.value.message


def test_hdf5_holds_strings(tmp_path: Path) -> None:
    strings = value("s", DType.STRING, (2, 2))
    write_h5(tmp_path / "x.h5", [strings], [TEXTS])
    found = read_h5(tmp_path / "x.h5", [strings])
    assert isinstance(found, dict)
    assert found["s"].dtype == object
    assert found["s"].tolist() == TEXTS.tolist()


def test_hdf5_by_name_and_by_order(tmp_path: Path) -> None:
    a, b = np.zeros(1, np.float32), np.ones(1, np.float32)
    write_h5(tmp_path / "in.h5", [value("a"), value("b")], [a, b])
    by_name = read_h5(tmp_path / "in.h5", [value("b"), value("a")])
    assert isinstance(by_name, dict)
    assert by_name["b"].tolist() == [1.0]
    by_order = read_h5(tmp_path / "in.h5", [value("p"), value("q")])
    assert isinstance(by_order, list)
    assert [array.tolist() for array in by_order] == [[0.0], [1.0]]
    with pytest.raises(FormatError, match="has 2 arrays, the inputs are %a"):
        read_h5(tmp_path / "in.h5", [value("a")])
