# SPDX-License-Identifier: Apache-2.0
"""Compares two HDF5 files of named arrays."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

from circlekit.equivalence import h5
from circlekit.equivalence.arrays import Difference, worst_difference
from circlekit.errors import FormatError
from circlekit.ir.value import Array, format_shape

Tolerance = float | Callable[[Array], float]
"""The largest absolute difference of equal numbers, or what gives it for the array that is the reference."""


@dataclass
class Entry:
    """How the arrays of one name compare; ``reason`` where they cannot be (absent, shape, dtype)."""

    name: str
    worst: Difference | None = None
    reason: str = ""

    @property
    def equal(self) -> bool:
        return not self.reason and (self.worst is None or self.worst.equal)

    def __str__(self) -> str:
        return f"{self.name}: {self.reason or self.worst or 'empty'}"


def compare_files(
    left: str | os.PathLike[str], right: str | os.PathLike[str], tolerance: Tolerance
) -> list[Entry]:
    """One entry for each name in either file, in the order of the left one.

    Byte order does not matter, and a name may end in the ``:0`` that ONE appends.
    """
    a, b = _by_name(left), _by_name(right)
    return [
        _entry(name, a.get(name), b.get(name), left, right, tolerance) for name in dict.fromkeys([*a, *b])
    ]


def _by_name(path: str | os.PathLike[str]) -> dict[str, Array]:
    arrays: dict[str, Array] = {}
    for name, array in h5.read(path):
        name = name.removesuffix(":0")
        if name in arrays:
            raise FormatError(f"{os.fspath(path)} has two arrays of the name {name}")
        arrays[name] = array.astype(array.dtype.newbyteorder("="))
    return arrays


def _entry(
    name: str,
    a: Array | None,
    b: Array | None,
    left: str | os.PathLike[str],
    right: str | os.PathLike[str],
    tolerance: Tolerance,
) -> Entry:
    if a is None or b is None:
        return Entry(name, reason=f"missing in {os.fspath(left if a is None else right)}")
    if a.shape != b.shape:
        return Entry(name, reason=f"shapes {format_shape(a.shape)} and {format_shape(b.shape)} differ")
    if a.dtype != b.dtype:
        return Entry(name, reason=f"dtypes {a.dtype} and {b.dtype} differ")
    allowed = tolerance(a) if callable(tolerance) else tolerance
    return Entry(name, worst_difference(a, b, allowed))
