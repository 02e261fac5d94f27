# SPDX-License-Identifier: Apache-2.0
"""Named arrays in HDF5 files, in the layout of ONE's test data generator.

``/name`` has one string attribute for each array, named by its number; ``/value`` has one dataset for
each, named likewise.  This is the only module that imports h5py, which is slow to start; what has another
layout is encoded here too.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import h5py
import numpy as np

from circlekit.errors import FileError, FormatError
from circlekit.ir.value import Array

Named = list[tuple[str, Array]]


def encode(arrays: Sequence[tuple[str, Array]]) -> bytes:
    """The bytes of the file; the same arrays give the same bytes (no times, no free space)."""
    with h5py.File("memory", "w", driver="core", backing_store=False, libver="earliest") as file:
        names = file.create_group("name", track_order=False)
        values = file.create_group("value", track_order=False)
        for index, (name, array) in enumerate(arrays):
            text = name.encode()
            kind = h5py.string_dtype("ascii" if name.isascii() else "utf-8", max(len(text), 1))
            names.attrs.create(str(index), np.array(text, kind), dtype=kind)
            values.create_dataset(str(index), data=array, track_times=False)
        file.flush()
        return bytes(file.id.get_file_image())


def encode_groups(groups: Mapping[str, Mapping[str, Array]]) -> bytes:
    """The bytes of a file with a group for each name, and in it a dataset for each of its names."""
    with h5py.File("memory", "w", driver="core", backing_store=False, libver="earliest") as file:
        for name, arrays in groups.items():
            group = file.create_group(name, track_order=False)
            for key, array in arrays.items():
                group.create_dataset(key, data=array, track_times=False)
        file.flush()
        return bytes(file.id.get_file_image())


def read_records(path: str | os.PathLike[str]) -> list[list[Array]]:
    """The inputs of a data set: ``/value/R/I`` is input I of record R; or ``/value/I``, one record.

    FileError and FormatError as for ``read``.
    """
    path = Path(path)
    if not path.is_file():
        raise FileError(f"{path}: no such file")
    try:
        with h5py.File(path, "r") as file:
            records = file.get("value")
            if not isinstance(records, h5py.Group) or not len(records):
                raise FormatError(f"{path} has no records in a group /value")
            keys = sorted(records, key=_order)
            if any(isinstance(records[key], h5py.Dataset) for key in keys):
                return [[array for _, array in _read_groups(path, file)]]
            return [[records[key][index][()] for index in sorted(records[key], key=_order)] for key in keys]
    except (OSError, RuntimeError, KeyError) as error:
        raise FormatError(f"{path} is no readable HDF5 file: {error}") from None


def _order(key: str) -> tuple[bool, int, str]:
    """Numbers by their size, then the rest."""
    return (not key.isdigit(), int(key) if key.isdigit() else 0, key)


def read(path: str | os.PathLike[str]) -> Named:
    """(name, array) in the order of their numbers; a dataset without a name is named by its number.

    FileError where the file cannot be read, FormatError where it is no HDF5 file or has another layout.
    """
    path = Path(path)
    if not path.exists():
        raise FileError(f"{path}: no such file")
    if path.is_dir():
        raise FileError(f"{path} is a directory, an HDF5 file is wanted")
    try:
        with h5py.File(path, "r") as file:
            return _read_groups(path, file)
    except PermissionError as error:
        raise FileError(f"{path}: {error.strerror or 'permission denied'}") from None
    except (OSError, RuntimeError, KeyError) as error:
        raise FormatError(f"{path} is no readable HDF5 file: {error}") from None


def _read_groups(path: Path, file: h5py.File) -> Named:
    values = file.get("value")
    if not isinstance(values, h5py.Group):
        raise FormatError(f"{path} has no group /value, the layout /name@0, /value/0 ... is wanted")
    names = file["name"].attrs if "name" in file else {}
    found: Named = []
    for key in sorted(values, key=_order):
        dataset = values[key]
        if not isinstance(dataset, h5py.Dataset) or dataset.dtype.kind not in "fiubc":
            raise FormatError(f"{path}: /value/{key} is no dataset of numbers")
        found.append((_text(names.get(key, key)), dataset[()]))
    return found


def _text(name: object) -> str:
    return name.decode(errors="replace") if isinstance(name, bytes) else str(name)
