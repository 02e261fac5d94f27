# SPDX-License-Identifier: Apache-2.0
"""Read inputs of a model from files: records in npz, npy and HDF5 files, raw files, and folders of these.

A record is one array for each input.

- npz, HDF5: each input has an array of its name, or each has one of the name that a signature gives to it, or
  each has one of its number (``in0``, ``input0``, ``arr_0``, ``0``).  Arrays with other names are ignored;
  but if numbers are used, a number that no input has is an error.  A single array for a single input may have
  any name.  If an HDF5 file has as many arrays as the model has inputs, they may also have any names; they
  are then taken in their order.
- npz, npy: if the arrays have one axis more than the inputs, each index of the first axis is a record.
- raw: the elements of all inputs in the order of the graph, little-endian, without a header.
- A folder is one record if each of its files holds one of several inputs (``x.npy`` and ``y.npy``, or ``in0``
  and ``in1``).  Otherwise, each file or folder in it holds one or more records.  If a folder has a file
  ``input.h5``, its other files hold outputs and are not read.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate, chain, islice
from pathlib import Path

import numpy as np

from circlekit.equivalence.data_files.array_files import ARRAY_SUFFIXES, HDF5_SUFFIXES, read_arrays
from circlekit.equivalence.data_files.graph_inputs import GraphInputs, arrays_of, fits, fitted
from circlekit.equivalence.data_files.numpy_files import read_npy
from circlekit.equivalence.data_files.tensor_files import INPUT, decode_elements
from circlekit.errors import FileError, ShapeError, counted
from circlekit.io.file_map import map_file, translated
from circlekit.ir.graph import Graph, Model
from circlekit.ir.resources.progress import progress
from circlekit.ir.value import Array, Value

FilePath = str | os.PathLike[str]
GIVEN = "given"
"""The label of the only record in a file, and of a folder that is one record."""

_LAST_NUMBER = re.compile(r"\d+$")
"""The number at the end of a file name."""


def read_records(path: FilePath, model: Model, graph: Graph | None = None) -> dict[str, list[Array]]:
    """Return the records in a file or a folder: for each label, the arrays in the order of the inputs.

    The labels are:

    - GIVEN: for a file with one record, and for a folder that is one record
    - ``record_0``, ``record_1``, ...: for a file with several records
    - for any other folder: made of the names of the files and folders in it, and of numbers of records, such
      as ``c.d`` for ``c/d.npy`` and ``b.0`` for the first of several records in ``b.npy``; equal labels get
      ``_2``, ``_3``, ...

    ``graph``: a graph of ``model``, by default the main graph.
    Raise FileError if something cannot be read, FormatError for a damaged file, and LimitError for too much
    data.  Raise ShapeError if arrays are missing or do not have the dtypes and shapes of the inputs.  Raise
    ModelError if the strings in a raw file are damaged.
    """
    is_folder, path, interface = _is_folder(path), Path(path), GraphInputs.of(model, graph or model.main)
    if is_folder:
        labelled: dict[str, list[Array]] = {}
        for label, record in _folder_records(path, interface):
            unique, number = label, 1
            while unique in labelled:  # record 0 of a.npz and the only record of a.0.npz have the same label
                number += 1
                unique = f"{label}_{number}"
            labelled[unique] = record
        return labelled
    records = list(_file_records(path, interface))
    if len(records) == 1:
        return {GIVEN: records[0]}
    return {f"record_{index}": record for index, record in enumerate(records)}


def iterate_records(path: FilePath, model: Model) -> Iterator[list[Array]]:
    """Yield the records of ``read_records`` for the main graph one by one; raise the same errors.

    Only a few records are in memory at a time, unless an npz file is compressed, or arrays in npz and npy
    files are big-endian.  Progress: the caller has counted 1 for each file and folder directly in ``path``;
    this function adds 1 to the total for each further record of a file, so the total is an estimate.
    """
    is_folder, path, interface = _is_folder(path), Path(path), GraphInputs.of(model, model.main)
    if is_folder:
        yield from (record for _, record in _folder_records(path, interface, True))
    else:
        yield from _file_records(path, interface, True)


def _is_folder(path: FilePath) -> bool:
    """Return whether ``path`` is a folder; raise FileError if it does not exist or is empty."""
    with translated(path, "read"):
        if not Path(path).exists():
            raise FileError(f"{os.fspath(path)}: no such file or folder")
        return Path(path).is_dir()


# -- folders -----------------------------------------------------------------------------------


def _folder_records(
    folder: Path, interface: GraphInputs, lazily: bool = False
) -> Iterator[tuple[str, list[Array]]]:
    """Yield the (label, record) pairs of ``folder`` and of the folders in it.

    ``lazily``: as for ``_file_records``.
    """
    with translated(folder, "read"):
        entries = sorted((p for p in folder.iterdir() if not p.name.startswith(".")), key=_natural)
    if (folder / INPUT).is_file():  # a folder of ``write_record``: the other files hold outputs
        entries = [folder / INPUT, *(p for p in entries if p.is_dir())]
    else:
        record = _input_per_file(entries, interface)
        if record is not None:
            yield GIVEN, record
            return
    is_empty = True
    stems = Counter(entry.stem for entry in entries)
    for entry in entries:
        label = entry.stem if stems[entry.stem] == 1 else entry.name
        if entry.is_dir():
            for inner, record in _folder_records(entry, interface, lazily):
                is_empty = False
                yield label if inner == GIVEN else f"{label}.{inner}", record
            continue
        records = _file_records(entry, interface, lazily)
        # two records are read in advance, because the label of a single record has no number
        ahead = list(islice(records, 2))
        is_single = len(ahead) == 1
        taken = (ahead.pop(0) for _ in range(len(ahead)))  # a record that was yielded needs no memory
        for number, record in enumerate(chain(taken, records)):
            is_empty = False
            yield label if is_single else f"{label}.{number}", record
    if is_empty:
        raise FileError(f"{folder}: expected records for the inputs {interface} in it, found none")


def _input_per_file(files: Sequence[Path], interface: GraphInputs) -> list[Array] | None:
    """Return the only record if each of ``files`` holds one input; None if they hold whole records."""
    inputs = interface.inputs
    if len(files) != len(inputs) or len(inputs) == 1 or not all(p.is_file() for p in files):
        return None
    if any(p.suffix.lower() in (".npz", *HDF5_SUFFIXES) for p in files):
        return None
    stems = [p.stem if p.suffix.lower() in (".npy", ".bin", ".raw") else p.name for p in files]
    # ``in_order`` moves arrays without reading them, so it gets the index of each file in place of its array
    order = interface.in_order([(stem, np.array(n)) for n, stem in enumerate(stems)])
    prefixes = {_LAST_NUMBER.sub("", stem) for stem in stems}
    if order is None and len(prefixes) == 1:  # files of ONE's tools: one prefix, then the number of the input
        numbers = [stem.removeprefix(*prefixes) for stem in stems]
        order = interface.in_order([(number, np.array(n)) for n, number in enumerate(numbers)])
    if order is None:
        return None
    chosen = [files[int(number)] for number in order]
    if all(p.suffix.lower() != ".npy" for p in chosen) and _are_whole_records(chosen, inputs):
        return None
    return [read_input(path, value) for path, value in zip(chosen, inputs, strict=True)]


def _are_whole_records(files: Sequence[Path], inputs: Sequence[Value]) -> bool:
    """Return whether each raw file has the size of all inputs together, and so holds a whole record."""
    sizes = [_raw_bytes(value) for value in inputs]
    return None not in sizes and all(p.stat().st_size == sum(filter(None, sizes)) for p in files)


def read_input(path: Path, value: Value) -> Array:
    """Return the array for the input ``value`` from an npy or raw file; errors as in ``read_records``."""
    if path.suffix.lower() == ".npy":
        return fitted(str(path), value, read_npy(path))
    return decode_elements(path, map_file(path), value)


def _natural(path: Path) -> list[tuple[int, str]]:
    """Return a sort key that orders ``x2`` before ``x10``."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", path.name)]


# -- files -------------------------------------------------------------------------------------


def _file_records(path: Path, interface: GraphInputs, lazily: bool = False) -> Iterator[list[Array]]:
    """Yield the records of one file.

    ``lazily``: hold only a few records in memory; compressed npz files and big-endian arrays are still read
    as a whole.  Add all records but the first to the total of the progress.  The memory limit then applies to
    each array of an HDF5 file, not to all together.
    """
    suffix = path.suffix.lower()
    if suffix in HDF5_SUFFIXES:
        yield from _hdf5_records(path, interface, lazily)
        return
    if suffix not in ARRAY_SUFFIXES:
        yield read_raw_record(path, interface)
        return
    values, arrays = interface.inputs, arrays_of(str(path), read_arrays(path), interface)
    counts = {len(array) for array in arrays if array.ndim}
    pairs = list(zip(values, arrays, strict=True))
    # a file has several records only if all arrays have them along a first axis of the same size
    if len(counts) != 1 or counts == {0} or not all(_holds_records(v, a) for v, a in pairs):
        yield [fitted(str(path), v, a) for v, a in pairs]
        return
    count = counts.pop()
    if lazily:
        progress().expect(count - 1)
    for number in range(count):
        yield [fitted(f"{path}: record {number}", v, a[number]) for v, a in pairs]


def _holds_records(value: Value, array: Array) -> bool:
    """Return whether ``array`` has an axis of records before the shape of ``value``."""
    return value.shape is not None and array.ndim == len(value.shape) + 1 and fits(value, array.shape[1:])


def _hdf5_records(path: Path, interface: GraphInputs, lazily: bool) -> Iterator[list[Array]]:
    """Yield the records of an HDF5 file.  ``lazily``: as for ``_file_records``."""
    from circlekit.equivalence.data_files import hdf5  # imports h5py, which takes a tenth of a second

    if lazily:
        progress().expect(hdf5.count_records(path) - 1)
    for number, named in enumerate(hdf5.iterate_named_records(path, lazily)):
        place = f"{path}: record {number}"
        pairs = zip(interface.inputs, arrays_of(place, named, interface, by_order=True), strict=True)
        yield [fitted(place, value, _unpacked(value, array)) for value, array in pairs]


def _unpacked(value: Value, array: Array) -> Array:
    """Return ``array``; decode it first if it is a vector of the bytes of ``value``, as ONE may write."""
    is_bytes = array.ndim == 1 and array.itemsize == 1 and array.dtype.kind != "S"
    is_raw = is_bytes and array.size == _raw_bytes(value)
    if value.dtype.numpy is None or not is_raw or fits(value, array.shape):
        return array
    return array.view(value.dtype.numpy).reshape(value.static_shape)


def read_raw_record(path: Path, interface: GraphInputs) -> list[Array]:
    """Return the arrays of a raw file with all inputs; raise the errors of ``read_records``.

    The file does not say where an input ends.  So if there are several inputs, each must have a known number
    of bytes: a known shape, and a dtype that numpy has.  Strings have no known number of bytes.
    """
    content = map_file(path)
    if len(interface.inputs) == 1:
        return [decode_elements(path, content, interface.inputs[0])]
    known = [size for value in interface.inputs if (size := _raw_bytes(value)) is not None]
    if len(known) < len(interface.inputs):
        raise ShapeError(
            f"{path}: expected inputs of known sizes for a raw file of all inputs, got {interface}"
        )
    if sum(known) != len(content):
        expected = f"expected the inputs {interface}, together {counted(sum(known), 'byte')}"
        raise ShapeError(f"{path}: {expected}, got {counted(len(content), 'byte')}")
    parts = zip(interface.inputs, known, accumulate(known), strict=True)
    return [decode_elements(path, content[end - size : end], value) for value, size, end in parts]


def _raw_bytes(value: Value) -> int | None:
    """Return the number of bytes of ``value`` in a raw file; None if its shape or element size is unknown."""
    if value.dtype.numpy is None or not value.is_static:
        return None
    return value.numel * value.dtype.numpy.itemsize
