# SPDX-License-Identifier: Apache-2.0
"""Compare two HDF5 files of named arrays."""

from __future__ import annotations

import os
from collections.abc import Callable

from circlekit.equivalence import hdf5
from circlekit.equivalence.array_comparison import Outcome, compare_arrays
from circlekit.errors import FormatError
from circlekit.ir.value import Array

FilePath = str | os.PathLike[str]
Tolerance = float | Callable[[Array], float]
"""The largest absolute difference of equal numbers, or a function of the reference array that returns it."""


def compare_files(left: FilePath, right: FilePath, tolerance: Tolerance) -> list[Outcome]:
    """Return one outcome for each name in either file, in the order of ``left``, the reference.

    The byte order does not matter, and a name may end in the ``:0`` that ONE appends.
    """
    a, b = _by_name(left), _by_name(right)
    found = []
    for name in dict.fromkeys([*a, *b]):
        if name not in a or name not in b:
            found.append(Outcome(name, reason=f"missing in {os.fspath(right if name in a else left)}"))
        else:
            limit = tolerance(a[name]) if callable(tolerance) else tolerance
            found.append(compare_arrays(name, a[name], b[name], limit))
    return found


def _by_name(path: FilePath) -> dict[str, Array]:
    arrays: dict[str, Array] = {}
    for name, array in hdf5.read(path):
        name = name.removesuffix(":0")
        if name in arrays:
            raise FormatError(f"{os.fspath(path)} has two arrays named {name}")
        arrays[name] = array.astype(array.dtype.newbyteorder("="))
    return arrays
