# SPDX-License-Identifier: Apache-2.0
"""Read and write npy and npz files.  A file may be hostile: nothing in it is executed."""

from __future__ import annotations

import io
import lzma
import mmap
import os
import struct
import warnings
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from tokenize import TokenError
from typing import Any

import numpy as np

from circlekit.equivalence.data_files.string_arrays import with_fixed_length
from circlekit.errors import FormatError, UnsupportedError
from circlekit.io.file_map import map_file
from circlekit.ir.resources.resource_limits import count_memory, counted_memory, need_memory
from circlekit.ir.text.columns import abridged
from circlekit.ir.value import Array

FilePath = str | os.PathLike[str]

MAX_HEADER_BYTES = 1 << 16
"""The header of an npy file is read from this many bytes; numpy rejects headers that are longer."""

MAX_NAME_BYTES = (1 << 16) - 1
"""The largest size of the name of a zip member."""

ENCRYPTED = 1
"""The bit in the flags of a zip member that says that the member is encrypted."""

LOCAL_HEADER_BYTES = 30
"""The size of the fixed part of the header of a zip member; the name and the extra field follow it."""

_ZIP_DAMAGE = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, RuntimeError, ValueError, EOFError, OSError,
    OverflowError, struct.error,
)  # fmt: skip
"""The exceptions that zipfile raises for a file that is damaged or of another kind."""

_HEADER_DAMAGE = (
    ValueError, OverflowError, struct.error, KeyError, TypeError, SyntaxError, TokenError,
    RecursionError, MemoryError,  # deep nesting
)  # fmt: skip
"""The exceptions that numpy raises for a damaged header of an npy file, which it parses as Python."""


def read_npy(path: FilePath) -> Array:
    """Return the array of an npy file.  A little-endian array is a read-only view of the mapped file.

    Raise FileError if the file cannot be read, FormatError if it is not npy or holds Python objects,
    LimitError if a big-endian array or the data of a pipe exceeds the memory limit.
    """
    name = os.fspath(path)
    try:
        return _decode(map_file(path), name)
    except _Damaged as error:
        raise FormatError(f"{name} is not a readable npy file: {error}") from None


def read_npz(path: FilePath) -> list[tuple[str, Array]]:
    """Return the (name, array) pairs of an npz file, in the order of the file.

    Little-endian arrays that are not compressed are read-only views of the mapped file.  Raise FileError if
    the file cannot be read, and FormatError if it is not npz or holds Python objects.  Raise LimitError if
    the compressed and big-endian arrays, or the data of a pipe, exceed the memory limit.
    """
    name, pairs = os.fspath(path), []
    content = map_file(path)
    # ``content`` is a view of a memory map, except for a pipe or an empty file
    file: Any = content.obj if isinstance(content.obj, mmap.mmap) else io.BytesIO(content)
    try:
        with _damage(*_ZIP_DAMAGE):
            archive = zipfile.ZipFile(file)
        with counted_memory(), archive:
            for member in archive.infolist():
                array = _decode(_member(name, content, archive, member), f"{name}: {member.filename}")
                pairs.append((member.filename.removesuffix(".npy"), array))
    except _Damaged as error:
        raise FormatError(f"{name} is not a readable npz file: {error}") from None
    return pairs


def encode_npy(array: Array) -> bytes:
    """Return the bytes of an npy file with ``array``.  Strings (dtype object) are stored as dtype S."""
    stream = io.BytesIO()
    np.lib.format.write_array(stream, np.asanyarray(with_fixed_length(array)), allow_pickle=False)
    return stream.getvalue()


def encode_npz(arrays: Mapping[str, Array]) -> bytes:
    """Return the bytes of an npz file, not compressed; equal arrays always give equal bytes.

    Unlike ``numpy.savez``, this function takes names such as ``file``.  NUL and lone surrogates, which names
    in zip files cannot have, are written as escapes.  Strings (dtype object) are stored as dtype S.
    Raise UnsupportedError if a name is too long, or if two names differ only in that one has escapes in place
    of such characters.
    """
    stream = io.BytesIO()
    names: dict[str, str] = {}
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            stored = name.replace("\0", r"\x00").encode("utf-8", "backslashreplace").decode()
            if stored in names:
                pair = f"the names {names[stored]!r} and {name!r}"
                raise UnsupportedError(f"{pair} are the same in an npz file; rename one of them")
            names[stored] = name
            member = zipfile.ZipInfo(f"{stored}.npy")  # with the earliest possible date
            if (size := len(member.filename.encode())) > MAX_NAME_BYTES:
                expected = f"expected at most {MAX_NAME_BYTES} bytes with .npy, got {size}"
                raise UnsupportedError(f"the name {abridged(name, 60)!r} in an npz file: {expected}")
            archive.writestr(member, encode_npy(array))
    return stream.getvalue()


def _member(name: str, content: memoryview, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> memoryview:
    """Return the bytes of ``member``: a view of ``content`` if they are neither compressed nor encrypted.

    ``name``, ``content``: the name and the bytes of the whole file.  Raise _Damaged if the member is damaged,
    LimitError if the decompressed member exceeds the memory limit.
    """
    if member.compress_type == zipfile.ZIP_STORED and not member.flag_bits & ENCRYPTED:
        header = member.header_offset
        # the lengths of name and extra field, which follow the fixed part of the header
        with _damage(struct.error, OverflowError):
            lengths = struct.unpack_from("<2H", content, header + 26)
        start = header + LOCAL_HEADER_BYTES + sum(lengths)
        stored = content[start : start + member.file_size]
        if len(stored) != member.file_size or zlib.crc32(stored) != member.CRC:
            raise _Damaged(f"{member.filename} is damaged")
        return stored
    need_memory(member.file_size, f"{name}: {member.filename}")
    count_memory(member.file_size)
    with _damage(*_ZIP_DAMAGE):
        return memoryview(archive.read(member))


def _decode(content: memoryview, name: str) -> Array:
    """Return the array of an npy file with the bytes ``content``; raise _Damaged if it is damaged.

    ``name``: the name of the file, for errors.  Raise LimitError if a big-endian array exceeds the memory
    limit.
    """
    stream = io.BytesIO(content[:MAX_HEADER_BYTES])
    with _damage(ValueError):
        version = np.lib.format.read_magic(stream)
    read_header = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }.get(version)
    if read_header is None:
        raise _Damaged(f"version {version[0]}.{version[1]} of the format is not supported")
    with warnings.catch_warnings(), _damage(*_HEADER_DAMAGE):
        warnings.simplefilter("ignore")  # numpy parses the header as Python, which may warn
        shape, is_fortran, dtype = read_header(stream)
    if not all(type(dim) is int and dim >= 0 for dim in shape):
        raise _Damaged(f"expected a shape of integers of at least 0, got {shape}")
    if dtype.hasobject:
        raise _Damaged("it holds Python objects, which are not loaded")
    size = int(np.prod(shape, dtype=object))  # dtype=object: Python integers, which cannot overflow
    with _damage(ValueError, OverflowError):  # the shape does not fit the bytes
        array = np.frombuffer(content, dtype, size, stream.tell()) if size else np.zeros(0, dtype)
        array = array.reshape(shape, order="F" if is_fortran else "C")
    if not dtype.isnative:
        need_memory(array.nbytes, name)
        count_memory(array.nbytes)
    return array.astype(dtype.newbyteorder("="), copy=False)


class _Damaged(Exception):
    """The file is damaged or of another kind.  The text is the reason."""


@contextmanager
def _damage(*kinds: type[Exception]) -> Iterator[None]:
    """Return a context that turns exceptions of ``kinds`` into _Damaged, with their message on one line."""
    try:
        yield
    except kinds as error:
        raise _Damaged(" ".join(str(error).split()) or type(error).__name__) from None
