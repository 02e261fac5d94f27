# SPDX-License-Identifier: Apache-2.0
"""Read named arrays from npz, npy and HDF5 files, and compare two such files."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from circlekit.equivalence.array_comparison import Outcome, compare_arrays, similarity
from circlekit.equivalence.data_files.numpy_files import read_npy, read_npz
from circlekit.errors import FormatError
from circlekit.ir.value import Array

FilePath = str | os.PathLike[str]

HDF5_SUFFIXES = (".h5", ".hdf5")
ARRAY_SUFFIXES = (".npz", ".npy", *HDF5_SUFFIXES)


def read_arrays(path: FilePath) -> list[tuple[str, Array]]:
    """Return the (name, array) pairs of an npz, npy or HDF5 file.

    A file with an extension other than .npz and .npy is read as HDF5.  The array of an npy file has the name
    ``arr_0``.  If an HDF5 file has several records, array I of record R has the name ``R/I``.  Raise
    FileError if the file cannot be read, FormatError if it is damaged, LimitError if it is too large.
    """
    suffix = Path(path).suffix.lower()
    if suffix == ".npz":
        return read_npz(path)
    if suffix == ".npy":
        return [("arr_0", read_npy(path))]
    from circlekit.equivalence.data_files import hdf5  # imports h5py, which takes a tenth of a second

    records = list(hdf5.iterate_named_records(path))
    if len(records) == 1:
        return records[0]
    return [(f"{number}/{name}", array) for number, record in enumerate(records) for name, array in record]


def compare_files(left: FilePath, right: FilePath, tolerance: float | None = None) -> list[Outcome]:
    """Compare the arrays of two files by name; return one outcome per name.

    ``left``: the file with the reference arrays; the outcomes of its arrays come first.  If only one file has
    an array of a name, the ``reason`` of the outcome names the other file.
    ``tolerance``: the absolute difference up to which two numbers count as equal; None: it follows from the
    dtype and the largest magnitude of the left array (``allowed_difference``).
    A ``:0`` at the end of a name, which ONE appends, is ignored.
    Raise the errors of ``read_arrays``, and FormatError if two arrays of a file have the same name.
    """
    a, b = _by_name(left), _by_name(right)
    outcomes = []
    for name in {**a, **b}:
        if name in a and name in b:
            outcome = compare_arrays(name, a[name], b[name], tolerance)
            outcomes.append(replace(outcome, similarity=similarity(a[name], b[name])))
        else:
            outcomes.append(Outcome(name, reason=f"missing in {os.fspath(right if name in a else left)}"))
    return outcomes


def _by_name(path: FilePath) -> dict[str, Array]:
    """Return the arrays of a file by name, without ``:0``; raise FormatError if two have the same name."""
    arrays: dict[str, Array] = {}
    for full_name, array in read_arrays(path):
        name = full_name.removesuffix(":0")
        if name in arrays:
            raise FormatError(f"{os.fspath(path)} has two arrays named {name}")
        arrays[name] = array
    return arrays
