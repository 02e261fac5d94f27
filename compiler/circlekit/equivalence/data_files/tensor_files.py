# SPDX-License-Identifier: Apache-2.0
"""Read and write inputs and outputs of runs as HDF5, or as a raw file per tensor, as ONE's interpreter does.

``write_record`` writes the inputs and outputs of the runs of a verification into a folder.  For the first set
of inputs, the folder has the files ``input.h5``, ``expected.h5`` (outputs before the passes) and
``opt.expected.h5`` (outputs after the passes).  For each other set of inputs (``boundary``, ``zero``...), the
folder has a folder of this name with the same three files.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from circlekit.equivalence.data_files.string_arrays import with_bytes_objects
from circlekit.errors import FileError, FormatError, ShapeError, counted
from circlekit.io.file_map import translated
from circlekit.io.write.file_writer import require_directory, write_file
from circlekit.ir.dtypes import DType
from circlekit.ir.graph import Model
from circlekit.ir.value import Array, Value, format_shape
from circlekit.ops.constant_operands import decode_strings, encode_strings

if TYPE_CHECKING:
    from circlekit.equivalence.verify import Verifier

Prefix = str | os.PathLike[str]
"""The path of an HDF5 file, or the beginning of the paths of raw files, to which a number is appended."""


def read_raw(prefix: Prefix, values: Sequence[Value]) -> list[Array]:
    """Return an array for each of ``values``, read from the files ``<prefix>0``, ``<prefix>1``...

    If a value has one unknown dimension, the size of the file determines that dimension.  Raise FileError if
    a file cannot be read, and the errors of ``decode_elements``.
    """
    return [_read(Path(f"{os.fspath(prefix)}{index}"), value) for index, value in enumerate(values)]


def _read(path: Path, value: Value) -> Array:
    try:
        content = path.read_bytes()
    except OSError as error:
        reason = error.strerror or type(error).__name__
        # ONE's words, for which its circle-interpreter-test searches
        opening = f'Cannot open file "{path}"'
        raise FileError(f"{opening}: {reason}; expected the elements of input %{value.name}") from None
    return decode_elements(path, content, value)


def decode_elements(path: Path, content: bytes | memoryview, value: Value) -> Array:
    """Return the array with the dtype and shape of ``value`` that the bytes ``content`` hold.

    ``content``: the elements in memory order, little-endian; strings in TFLite's encoding.  ``path``: the
    file with these bytes, for messages.  Raise ShapeError if the number of bytes does not fit, or if numpy
    does not have the dtype.  Raise ModelError if the encoding of strings is damaged.
    """
    dtype = value.dtype.numpy
    if value.dtype is DType.STRING:
        strings = decode_strings(np.frombuffer(content, np.uint8), str(path))
        return strings.reshape(_shape(path, value, len(strings), "string"))
    if dtype is None:
        raise ShapeError(f"input %{value.name} is {value.dtype.short}, which cannot be read from raw files")
    if len(content) % dtype.itemsize:
        expected = f"a multiple of {dtype.itemsize} for %{value.name}"
        raise ShapeError(f"{path} has {counted(len(content), 'byte')}, expected {expected}")
    count = len(content) // dtype.itemsize
    return np.frombuffer(content, dtype).reshape(_shape(path, value, count, "element"))


def _shape(path: Path, value: Value, count: int, unit: str) -> tuple[int, ...]:
    """Return the shape of ``value`` with ``count`` elements; for an unknown rank, return (``count``,).

    One dimension may be unknown: ``count`` determines it, unless another dimension is 0.
    Raise ShapeError if no shape fits, or more than one.
    ``path``, ``unit``: the file, and what it holds ("element" or "string"), for the message.
    """
    if value.shape is None:
        return (count,)
    unknown_dims = value.shape.count(None)
    # the product of the known dimensions
    known = int(np.prod([d for d in value.shape if d is not None], dtype=np.int64))
    determines_one = unknown_dims == 1 and known > 0 and count % known == 0
    fits = determines_one if unknown_dims else count == known
    if not fits:
        expected = value.dtype.short + format_shape(value.shape)
        raise ShapeError(f"{path} holds {counted(count, unit)}, input %{value.name} is {expected}")
    return tuple(count // known if d is None else d for d in value.shape)


def write_raw(prefix: Prefix, values: Sequence[Value], arrays: Sequence[Array]) -> None:
    """Write the elements of each array, little-endian, to the files ``<prefix>0``, ``<prefix>1``...

    ``values`` is not used; it is there because callers call ``write_raw`` and ``write_h5`` in the same way.
    Each file appears whole or not at all.  Raise FileError if a file cannot be written.
    """
    for index, array in enumerate(arrays):
        content: Any = array
        if array.dtype == object:
            content = encode_strings([bytes(s) for s in array.reshape(-1)])
        elif array.dtype.byteorder == ">":
            content = array.astype(array.dtype.newbyteorder("<"))
        write_file(f"{os.fspath(prefix)}{index}", [np.ascontiguousarray(content).tobytes()])


def read_h5(path: Prefix, values: Sequence[Value]) -> Mapping[str, Array] | list[Array]:
    """Return the arrays of an HDF5 file, one for each of ``values``.

    If the names in the file are those of ``values``, return a dict by name; else return a list in the order
    of the file.  Raise FormatError if the numbers of arrays and values differ, and the errors of
    ``hdf5.read``.
    """
    from circlekit.equivalence.data_files import hdf5  # imports h5py, which takes a tenth of a second

    pairs = [(name, with_bytes_objects(array, os.fspath(path))) for name, array in hdf5.read(path)]
    if sorted(name for name, _ in pairs) == sorted(v.name for v in values):
        return dict(pairs)
    if len(pairs) != len(values):
        expected = ", ".join(f"%{v.name}" for v in values) or "none"
        raise FormatError(f"{os.fspath(path)} has {counted(len(pairs), 'array')}, the inputs are {expected}")
    return [array for _, array in pairs]


def write_h5(path: Prefix, values: Sequence[Value], arrays: Sequence[Array]) -> None:
    """Write ``arrays``, under the names of ``values``, to an HDF5 file.

    Raise FileError if that fails, UnsupportedError for a name of more than ``hdf5.MAX_NAME_BYTES``.
    """
    from circlekit.equivalence.data_files import hdf5  # imports h5py, which takes a tenth of a second

    write_file(path, [hdf5.encode([(v.name, a) for v, a in zip(values, arrays, strict=True)])])


INPUT, EXPECTED, OPTIMIZED = "input.h5", "expected.h5", "opt.expected.h5"
"""The files of ``write_record``: inputs, outputs before the passes, outputs after the passes."""


def check_folder(folder: str | os.PathLike[str]) -> Path:
    """Return ``folder`` as a path; raise FileError if it is a file, or if the folder above does not exist.

    Nothing is created.
    """
    with translated(folder, "written"):
        path = Path(folder)
        if path.exists() and not path.is_dir():
            raise FileError(f"{path}: expected a directory to write into, got a file")
        require_directory(path)
    return path


def write_record(folder: str | os.PathLike[str], model: Model, verifier: Verifier) -> list[Path]:
    """Write inputs and outputs of the runs of ``verifier`` into ``folder``; return the paths of the files.

    ``model``: its inputs and outputs give the names in the files.  ``verifier`` must have compared a model
    before; the outputs of the last comparison go to ``opt.expected.h5``.
    """
    written = []
    for run, latest in zip(verifier.runs, verifier.latest, strict=True):
        # the first set of inputs has no folder of its own
        place = check_folder(folder) / ("" if run.label == verifier.runs[0].label else run.label)
        with translated(place, "made"):
            place.mkdir(exist_ok=True)
        written += [place / INPUT, place / EXPECTED, place / OPTIMIZED]
        write_h5(place / INPUT, model.main.inputs, run.arrays)
        write_h5(place / EXPECTED, model.main.outputs, run.outputs)
        write_h5(place / OPTIMIZED, model.main.outputs, latest)
    return written
