# SPDX-License-Identifier: Apache-2.0
"""Read and write named arrays in HDF5 files, in the layouts of ONE's tools.

A file of records has one of two layouts.  In a file of named arrays, the dataset ``/value/I`` is array
number I, and the attribute ``I`` of the group ``/name`` is its name.  In a file of several records,
``/value/R/I`` is array I of record R; these arrays have no names.  Strings have a fixed length; zeros at the
end of a string are lost.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from itertools import groupby
from math import prod
from pathlib import Path
from typing import TypeVar

import h5py
import numpy as np

from circlekit.equivalence.data_files.string_arrays import with_fixed_length
from circlekit.equivalence.sandbox import LARGEST_COMPRESSION, Item, iterate_sandboxed
from circlekit.errors import FileError, FormatError, LimitError, UnsupportedError
from circlekit.io.file_map import translated
from circlekit.ir.resources.byte_sizes import format_exact_size
from circlekit.ir.resources.resource_limits import count_memory, counted_memory, need_memory
from circlekit.ir.value import Array

T = TypeVar("T")
FilePath = str | os.PathLike[str]
ReadItems = Callable[[Path, h5py.File], Iterator[Item]]
"""A function that yields arrays of an open file, each as an ``Item``: (number of the record, name, array)."""

KNOWN_FILTERS = frozenset({1, 2, 3, 4, 5, 6, 32000})
"""The filters that need no plugin, by number: deflate, shuffle, fletcher32, szip, nbit, scaleoffset, lzf."""

UNSTORED_BYTES, UNSTORED_CHUNKS = 1 << 24, 1 << 14
"""How many bytes and chunks a dataset may have beyond those that its stored data can explain.

HDF5 does not store a chunk to which nothing was written: all its elements have the fill value.  So a small
file can claim a huge dataset.
"""

MAX_NAME_BYTES = 65_000
"""The longest name of an array that ``encode`` writes: HDF5 stores names in a header of at most 64 KiB."""

MAX_GROUP_DEPTH = 8
"""Datasets are read from groups that are nested at most this many levels below /value."""

_DAMAGE = (OSError, RuntimeError, KeyError, ValueError, TypeError, OverflowError)
"""The exceptions that h5py raises for a file that is not HDF5 or is damaged."""


# -- writing -----------------------------------------------------------------------------------


def encode(arrays: Sequence[tuple[str, Array]]) -> bytes:
    """Return the bytes of an HDF5 file with these (name, array) pairs; equal pairs give equal bytes.

    Raise UnsupportedError for a name of more than MAX_NAME_BYTES.
    """
    with _in_memory() as file:
        names = file.create_group("name", track_order=False)
        values = file.create_group("value", track_order=False)
        for index, (name, array) in enumerate(arrays):
            text = name.encode("utf-8", "backslashreplace")
            if len(text) > MAX_NAME_BYTES:
                expected = f"expected a name of at most {MAX_NAME_BYTES} bytes in an HDF5 file"
                raise UnsupportedError(f"{expected}, got {len(text)}: {name[:40]}...")
            dtype = h5py.string_dtype("ascii" if name.isascii() else "utf-8", max(len(text), 1))
            names.attrs.create(str(index), np.array(text, dtype), dtype=dtype)
            # h5py would store objects as strings of any length, which may not contain zeros
            values.create_dataset(str(index), data=with_fixed_length(array), track_times=False)
        return _image(file)


def encode_groups(groups: Mapping[str, Mapping[str, Array]]) -> bytes:
    """Return the bytes of an HDF5 file with a group for each key, and a dataset in it for each array.

    A key with ``/`` makes nested groups, as in ONE.  Parts of a key that HDF5 does not allow become escape
    sequences.  Names of arrays stay as they are.  If two arrays get the same path, the first is kept.  A key
    that begins with the path of an earlier array raises TypeError or ValueError.  Equal arrays always give
    equal bytes.
    """
    with _in_memory() as file:
        for name, arrays in groups.items():
            group = file.require_group(_member_name(name))
            for key, array in arrays.items():
                if key not in group:  # two keys may be equal after escaping
                    group.create_dataset(key, data=with_fixed_length(array), track_times=False)
        return _image(file)


def _in_memory() -> h5py.File:
    """Return an open HDF5 file in memory, in the oldest version of the format, which all programs read."""
    return h5py.File("memory", "w", driver="core", backing_store=False, libver="earliest")


def _image(file: h5py.File) -> bytes:
    """Return the bytes of the file that ``_in_memory`` opened."""
    file.flush()
    return bytes(file.id.get_file_image())


def _member_name(name: str) -> str:
    """Return ``name`` as a path of groups.

    Empty parts are left out: "a//b" becomes "a/b".  NUL and parts ``.`` become escape sequences.  A name with
    only empty parts, such as "" or "/", becomes the escape sequence of ``/``.
    """
    text = name.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")
    return "/".join("\\x2e" if part == "." else part for part in text.split("/") if part) or "\\x2f"


# -- reading -----------------------------------------------------------------------------------


def read(path: FilePath) -> list[tuple[str, Array]]:
    """Return the (name, array) pairs of a file in the order of their numbers.

    An array without a name has its number as the name.  The file may be hostile: memory is limited, and data
    in other files are not read.  Raise FileError if the file cannot be read, and LimitError if it is too
    large.  Raise FormatError if it is not HDF5, has another layout, or makes the HDF5 library crash or loop.
    """
    return [(item.name, item.array) for item in _read(path, _named)]


def read_records(path: FilePath) -> list[list[Array]]:
    """Return the arrays of each record; a file of named arrays (``/value/I``) has one record.

    Raise the errors of ``read``.
    """
    return [[array for _, array in record] for record in iterate_named_records(path)]


def iterate_named_records(path: FilePath, lazily: bool = False) -> Iterator[list[tuple[str, Array]]]:
    """Yield the (name, array) pairs of each record.

    In a file of several records, and for an array without a name, the name is the number of the array.
    Raise the errors of ``read``.
    ``lazily``: whether the memory limit applies to each array instead of to all arrays together.
    """
    return _grouped(_read(path, _records, together=not lazily))


def count_records(path: FilePath) -> int:
    """Return the number of records, 1 for a file of named arrays; 0 if /value is missing or empty.

    Raise the errors of ``read``, except those that only reading the arrays would find.
    """
    (item,) = _read(path, _count)
    return int(item.array)


def read_datasets(path: FilePath) -> dict[str, Array]:
    """Return all datasets in the group /value and in its groups, by their path below /value.

    Groups that are nested more deeply than MAX_GROUP_DEPTH are left out.
    Raise the errors of ``read``.
    """
    return {item.name: item.array for item in _read(path, _tree)}


def _tree(path: Path, file: h5py.File) -> Iterator[Item]:
    """Yield the datasets of ``read_datasets``."""
    root = _member(path, file, "value", h5py.Group)
    if root is None:
        raise FormatError(f"{path} has no group /value")
    waiting = [("", root)]
    while waiting:
        place, group = waiting.pop()
        for key in sorted(group, key=_order):
            inner = _member(path, group, key, h5py.Group)
            if inner is None:
                yield Item(0, place + key, _elements(path, group, key))
            elif place.count("/") < MAX_GROUP_DEPTH:
                waiting.append((f"{place}{key}/", inner))


def _count(path: Path, file: h5py.File) -> Iterator[Item]:
    """Yield one item: the number of records."""
    records = _member(path, file, "value", h5py.Group)
    count = 0 if records is None else len(records)
    is_named = records is not None and any(_member(path, records, key, h5py.Group) is None for key in records)
    yield Item(0, "", np.array(1 if is_named else count))  # a file of named arrays has one record


def _grouped(items: Iterable[Item]) -> Iterator[list[tuple[str, Array]]]:
    """Yield the (name, array) pairs of each record: consecutive items with the same ``group``."""
    for _, group in groupby(items, key=lambda item: item.group):
        yield [(item.name, item.array) for item in group]


def _read(path: FilePath, read_items: ReadItems, together: bool = True) -> Iterator[Item]:
    """Yield the items that ``read_items`` yields for the file at ``path``.

    A forked process reads the file, because a damaged file may crash the HDF5 library or make it loop.
    ``together``: whether the memory limit applies to all arrays together instead of to each.
    """
    path = Path(path)
    with translated(path, "read"):
        if not path.exists():
            raise FileError(f"{path}: no such file")
        if not path.is_file():
            actual = "a directory" if path.is_dir() else "a pipe, a socket or a device"
            raise FileError(f"{path}: expected an HDF5 file, got {actual}")
        size = path.stat().st_size

    def read_safely() -> Iterator[Item]:
        """Yield the items; turn the errors of h5py into CirclekitErrors."""
        try:
            with counted_memory() if together else nullcontext(), h5py.File(path, "r") as file:
                yield from read_items(path, file)
        except PermissionError as error:
            raise FileError(f"{path}: {error.strerror or 'permission denied'}") from None
        except MemoryError:
            raise LimitError(f"{path}: it claims more data than memory can hold") from None
        except _DAMAGE as error:
            raise FormatError(f"{path} is not a readable HDF5 file: {' '.join(str(error).split())}") from None

    yield from iterate_sandboxed(read_safely, str(path), size)


def _records(path: Path, file: h5py.File) -> Iterator[Item]:
    """Yield the arrays of all records; a file of named arrays has one record."""
    records = _member(path, file, "value", h5py.Group)
    if records is None or not len(records):
        raise FormatError(f"{path}: expected records in a group /value")
    groups = [_member(path, records, key, h5py.Group) for key in sorted(records, key=_order)]
    if any(group is None for group in groups):  # a dataset: the other layout, of named arrays
        yield from _named(path, file)
        return
    for number, group in enumerate(groups):
        assert group is not None  # checked above
        if not len(group):
            raise FormatError(f"{path}: {group.name} has no arrays")
        for key in sorted(group, key=_order):
            yield Item(number, key, _elements(path, group, key))


def _named(path: Path, file: h5py.File) -> Iterator[Item]:
    """Yield the arrays of a file of one record, with their names."""
    values = _member(path, file, "value", h5py.Group)
    if values is None:
        raise FormatError(f"{path} has no group /value; expected arrays at /value/0, /value/1, ...")
    group = _member(path, file, "name", h5py.Group)
    names = {} if group is None else group.attrs
    for key in sorted(values, key=_order):
        name = names.get(key, key)
        text = name.decode(errors="replace") if isinstance(name, bytes) else str(name)
        yield Item(0, text, _elements(path, values, key))


def _member(path: Path, group: h5py.Group, key: str, kind: type[T]) -> T | None:
    """Return the member ``key`` of ``group`` if it is a ``kind``, else None; raise FormatError for a link."""
    link = group.get(key, getlink=True)
    if link is None:
        return None
    if not isinstance(link, h5py.HardLink):
        place = f"{group.name.rstrip('/')}/{key}"
        raise FormatError(f"{path}: {place} is a link; links are not followed")
    member = group[key]
    return member if isinstance(member, kind) else None


def _elements(path: Path, group: h5py.Group, key: str) -> Array:
    """Return the elements of the dataset ``key`` of ``group``.

    Raise LimitError if the elements exceed the memory limit, and FormatError if

    - they are neither numbers nor strings of a fixed length,
    - they are in other files,
    - HDF5 needs a plugin to decode them,
    - the dataset claims far more data than the file stores (UNSTORED_BYTES, UNSTORED_CHUNKS).
    """
    place = f"{path}: {group.name.rstrip('/')}/{key}"
    dataset = _member(path, group, key, h5py.Dataset)
    if dataset is None or dataset.shape is None or dataset.dtype.kind not in "fiubcS":
        raise FormatError(f"{place} is not a dataset of numbers, or of strings of a fixed length")
    if dataset.external or dataset.is_virtual:
        raise FormatError(f"{place} has its numbers in other files, which are not read")
    properties = dataset.id.get_create_plist()
    for number in range(properties.get_nfilters()):
        filter_id = properties.get_filter(number)[0]
        if filter_id not in KNOWN_FILTERS:
            raise FormatError(f"{place} is encoded by filter {filter_id}, which HDF5 itself does not have")
    size = dataset.size * dataset.dtype.itemsize
    need_memory(size + prod(dataset.chunks or (0,)) * dataset.dtype.itemsize, place)  # h5py holds one chunk
    # a small file may claim any size and any number of chunks; a stored chunk has at least one byte
    stored = dataset.id.get_storage_size()
    chunks = prod(-(-dim // step) for dim, step in zip(dataset.shape, dataset.chunks or (), strict=False))
    if size > UNSTORED_BYTES + stored * LARGEST_COMPRESSION or chunks > UNSTORED_CHUNKS + stored:
        claimed = f"{format_exact_size(size)} in {chunks} chunk{'s' * (chunks != 1)}"
        raise FormatError(f"{place} claims {claimed}, of which the file stores {format_exact_size(stored)}")
    count_memory(size)
    array = np.asarray(dataset[()])  # h5py gives numbers, not arrays, of rank 0
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _order(key: str) -> str:
    """Return a sort key: numbers of up to 20 digits by value, before names that begin with a letter."""
    return key.zfill(20) if key.isascii() and key.isdigit() else key
