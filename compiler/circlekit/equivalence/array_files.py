# SPDX-License-Identifier: Apache-2.0
"""Named arrays in npz, npy and HDF5 files, and their comparison."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from circlekit.equivalence.model_comparison import Outcome, compare_arrays, similarity
from circlekit.equivalence.numpy_files import read_npy, read_npz
from circlekit.errors import FormatError
from circlekit.ir.value import Array

FilePath = str | os.PathLike[str]

HDF5_SUFFIXES = (".h5", ".hdf5")
ARRAY_SUFFIXES = (".npz", ".npy", *HDF5_SUFFIXES)


def read_arrays(path: FilePath) -> list[tuple[str, Array]]:
    """Return the (name, array) pairs of a file; its extension says the format, HDF5 if it is unknown.

    Input I of record R of several records in an HDF5 file is named ``R/I``.  Raise FileError if the file
    cannot be read, FormatError if it is damaged, LimitError if it is too large.
    """
    suffix = Path(path).suffix.lower()
    if suffix == ".npz":
        return read_npz(path)
    if suffix == ".npy":
        return [("arr_0", read_npy(path))]
    from circlekit.equivalence import hdf5  # imports h5py, which takes a tenth of a second

    records = hdf5.read_named_records(path)
    if len(records) == 1:
        return records[0]
    return [(f"{number}/{name}", array) for number, named in enumerate(records) for name, array in named]


def compare_files(left: FilePath, right: FilePath, tolerance: float | None = None) -> list[Outcome]:
    """Return one outcome for each name in either file, in the order of ``left``, the reference.

    ``tolerance``: the largest absolute difference of equal numbers, by default that of rounding.  The byte
    order does not matter, and a name may end in the ``:0`` that ONE appends.
    """
    a, b = _by_name(left), _by_name(right)
    outcomes = []
    for name in {**a, **b}:
        if name in a and name in b:
            found = compare_arrays(name, a[name], b[name], tolerance)
            outcomes.append(replace(found, similarity=similarity(a[name], b[name])))
        else:
            missing = os.fspath(right if name in a else left)
            outcomes.append(Outcome(name, reason=f"missing in {missing}"))
    return outcomes


def _by_name(path: FilePath) -> dict[str, Array]:
    arrays: dict[str, Array] = {}
    for name, array in read_arrays(path):
        if arrays.setdefault(name.removesuffix(":0"), array) is not array:
            raise FormatError(f"{os.fspath(path)} has two arrays named {name.removesuffix(':0')}")
    return arrays
