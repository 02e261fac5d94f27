# SPDX-License-Identifier: Apache-2.0
"""Named arrays in HDF5 files, in the layout of ONE's test data generator.

``/name`` has one string attribute for each array, named by its number; ``/value`` has one dataset for
each, named likewise.  This is the only module that imports h5py, which is slow to start; what has another
layout is encoded here too.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import TypeVar

import h5py
import numpy as np

from circlekit.equivalence.sandbox import DENSEST, Item, read_apart
from circlekit.errors import FileError, FormatError, LimitError
from circlekit.io.file_map import translated
from circlekit.ir.resource_limits import adding_up, amount, hold_memory, need_memory
from circlekit.ir.value import Array

T = TypeVar("T")
Items = Callable[[Path, h5py.File], Iterator[Item]]
Named = list[tuple[str, Array]]


def encode(arrays: Sequence[tuple[str, Array]]) -> bytes:
    """The bytes of the file; the same arrays give the same bytes (no times, no free space)."""
    with h5py.File("memory", "w", driver="core", backing_store=False, libver="earliest") as file:
        names = file.create_group("name", track_order=False)
        values = file.create_group("value", track_order=False)
        for index, (name, array) in enumerate(arrays):
            text = name.encode("utf-8", "backslashreplace")
            kind = h5py.string_dtype("ascii" if name.isascii() else "utf-8", max(len(text), 1))
            names.attrs.create(str(index), np.array(text, kind), dtype=kind)
            values.create_dataset(str(index), data=array, track_times=False)
        file.flush()
        return bytes(file.id.get_file_image())


def encode_groups(groups: Mapping[str, Mapping[str, Array]]) -> bytes:
    """The bytes of a file with a group for each name, and in it a dataset for each of its names.

    A name with ``/`` makes groups in groups, as in ONE; what HDF5 cannot have in a name is escaped.
    """
    with h5py.File("memory", "w", driver="core", backing_store=False, libver="earliest") as file:
        for name, arrays in groups.items():
            group = file.require_group(_member_name(name))
            for key, array in arrays.items():
                if key not in group:  # two tensors of one name: the first
                    group.create_dataset(key, data=array, track_times=False)
        file.flush()
        return bytes(file.id.get_file_image())


def _member_name(name: str) -> str:
    """``name`` for HDF5, which has no zeros in names, and for which . is the group itself."""
    text = name.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")
    return "/".join("\\x2e" if part == "." else part for part in text.split("/") if part) or "\\x2f"


# -- reading -----------------------------------------------------------------------------------

FILTERS = frozenset({1, 2, 3, 4, 5, 6, 32000})
"""Of HDF5: deflate, shuffle, fletcher32, szip, nbit, scaleoffset, lzf.  Others are code that it looks for."""

UNSTORED, UNSTORED_CHUNKS = 1 << 24, 1 << 14
"""Bytes, and chunks, that a dataset may have without storing them: those that have the fill value."""

BROKEN = (OSError, RuntimeError, KeyError, ValueError, TypeError, OverflowError)
"""What h5py raises for a file that is none, or a damaged one."""


def read_records(path: str | os.PathLike[str]) -> list[list[Array]]:
    """The inputs of a data set: ``/value/R/I`` is input I of record R; or ``/value/I``, one record.

    The errors are those of ``read``.
    """
    found: dict[int, list[Array]] = {}
    for item in _apart(path, _records):
        found.setdefault(item.group, []).append(item.array)
    return list(found.values())


def read(path: str | os.PathLike[str]) -> Named:
    """(name, array) in the order of their numbers; a dataset without a name is named by its number.

    The file may come from anywhere: what lies in other files is not read, nor more than may be used of
    memory, and where HDF5 crashes or never ends that is an error like others.  FileError where the file
    cannot be read, FormatError where it is no HDF5 file or has another layout, LimitError where it is too
    large.
    """
    return [(item.name, item.array) for item in _apart(path, _named)]


def _apart(path: str | os.PathLike[str], items: Items) -> list[Item]:
    """What ``items`` yields of the file."""
    path = Path(path)
    with translated(path, "read"):
        if not path.exists():
            raise FileError(f"{path}: no such file")
        if not path.is_file():
            what = "a directory" if path.is_dir() else "no regular file"
            raise FileError(f"{path} is {what}, an HDF5 file is wanted")
        size = path.stat().st_size

    def read_items() -> Iterator[Item]:
        with adding_up(), _opened(path) as file:
            yield from items(path, file)

    return read_apart(read_items, str(path), size)


@contextmanager
def _opened(path: str | os.PathLike[str]) -> Iterator[h5py.File]:
    """The file, and h5py's complaints about it as ours."""
    try:
        with h5py.File(path, "r") as file:
            yield file
    except PermissionError as error:
        raise FileError(f"{path}: {error.strerror or 'permission denied'}") from None
    except MemoryError:
        raise LimitError(f"{path}: the memory for what it claims to hold is not to be had") from None
    except BROKEN as error:
        raise FormatError(f"{path} is no readable HDF5 file: {' '.join(str(error).split())}") from None


def _records(path: Path, file: h5py.File) -> Iterator[Item]:
    """The inputs of every record, or of the only one."""
    records = _member(path, file, "value", h5py.Group)
    if records is None or not len(records):
        raise FormatError(f"{path} has no records in a group /value")
    keys = sorted(records, key=_order)
    groups = [_member(path, records, key, h5py.Group) for key in keys]
    if any(group is None for group in groups):
        yield from _named(path, file)
        return
    for number, group in enumerate(groups):
        assert group is not None  # as all of them
        if not len(group):
            raise FormatError(f"{path}: {group.name} has no arrays")
        for key in sorted(group, key=_order):
            yield Item(number, key, _elements(path, group, key))


def _named(path: Path, file: h5py.File) -> Iterator[Item]:
    values = _member(path, file, "value", h5py.Group)
    if values is None:
        raise FormatError(f"{path} has no group /value, the layout /name@0, /value/0 ... is wanted")
    group = _member(path, file, "name", h5py.Group)
    names = {} if group is None else group.attrs
    for key in sorted(values, key=_order):
        yield Item(0, _text(names.get(key, key)), _elements(path, values, key))


def _member(path: str | os.PathLike[str], group: h5py.Group, key: str, kind: type[T]) -> T | None:
    """Member ``key`` of a group where it is of that kind; None for another kind, or none."""
    link = group.get(key, getlink=True)
    if link is None:
        return None
    if not isinstance(link, h5py.HardLink):
        raise FormatError(
            f"{path}: {group.name.rstrip('/')}/{key} is a link, only what is in its place is read"
        )
    found = group[key]
    return found if isinstance(found, kind) else None


def _elements(path: str | os.PathLike[str], group: h5py.Group, key: str) -> Array:
    """The numbers of a dataset, all of which are in this file."""
    place = f"{path}: {group.name.rstrip('/')}/{key}"
    dataset = _member(path, group, key, h5py.Dataset)
    if dataset is None or dataset.shape is None or dataset.dtype.kind not in "fiubc":
        raise FormatError(f"{place} is no dataset of numbers")
    if dataset.external or dataset.is_virtual:
        raise FormatError(f"{place} has its numbers in other files, which are not read")
    properties = dataset.id.get_create_plist()
    for number in range(properties.get_nfilters()):
        code = properties.get_filter(number)[0]
        if code not in FILTERS:
            raise FormatError(f"{place} is compressed by filter {code}, which is none of HDF5's own")
    size = dataset.size * dataset.dtype.itemsize
    chunk = prod(dataset.chunks or (0,)) * dataset.dtype.itemsize
    need_memory(size + chunk, place)
    _need_stored(dataset, size, place)
    hold_memory(size)
    array: Array = dataset[()]
    return array


def _need_stored(dataset: h5py.Dataset, size: int, place: str) -> None:
    """Refuse numbers that are not in the file: a few bytes can claim any size, or chunks without number."""
    stored = dataset.id.get_storage_size()
    chunks = prod(-(-dim // step) for dim, step in zip(dataset.shape, dataset.chunks or (), strict=False))
    if size > UNSTORED + stored * DENSEST or chunks > UNSTORED_CHUNKS + stored:
        raise FormatError(f"{place} claims {amount(size)}, of which the file stores {amount(stored)}")


def _order(key: str) -> tuple[bool, int, str]:
    """Numbers by their size, then the rest."""
    is_number = key.isascii() and key.isdigit() and len(key) < 19
    return (not is_number, int(key) if is_number else 0, key)


def _text(name: object) -> str:
    return name.decode(errors="replace") if isinstance(name, bytes) else str(name)
