# SPDX-License-Identifier: Apache-2.0
"""Compares two HDF5 files of named arrays."""

from __future__ import annotations

import os
from collections.abc import Callable

from circlekit.equivalence import hdf5
from circlekit.equivalence.array_comparison import Outcome, compare_arrays
from circlekit.errors import FormatError
from circlekit.ir.value import Array

Tolerance = float | Callable[[Array], float]
"""The largest absolute difference of equal numbers, or what gives it for the array that is the reference."""


def compare_files(
    left: str | os.PathLike[str], right: str | os.PathLike[str], tolerance: Tolerance
) -> list[Outcome]:
    """One outcome for each name in either file, in the order of the left one.

    Byte order does not matter, and a name may end in the ``:0`` that ONE appends.
    """
    a, b = _by_name(left), _by_name(right)
    return [
        _outcome(name, a.get(name), b.get(name), left, right, tolerance) for name in dict.fromkeys([*a, *b])
    ]


def _by_name(path: str | os.PathLike[str]) -> dict[str, Array]:
    arrays: dict[str, Array] = {}
    for name, array in hdf5.read(path):
        name = name.removesuffix(":0")
        if name in arrays:
            raise FormatError(f"{os.fspath(path)} has two arrays of the name {name}")
        arrays[name] = array.astype(array.dtype.newbyteorder("="))
    return arrays


def _outcome(
    name: str,
    a: Array | None,
    b: Array | None,
    left: str | os.PathLike[str],
    right: str | os.PathLike[str],
    tolerance: Tolerance,
) -> Outcome:
    if a is None or b is None:
        return Outcome(name, reason=f"missing in {os.fspath(left if a is None else right)}")
    return compare_arrays(name, a, b, tolerance(a) if callable(tolerance) else tolerance)
