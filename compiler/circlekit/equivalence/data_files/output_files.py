# SPDX-License-Identifier: Apache-2.0
"""Write the outputs of runs to an npz, npy or HDF5 file, or to a folder of raw files.

A path means a folder if it ends in ``/``, has no extension, or is an existing folder.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from circlekit.equivalence.data_files.array_files import ARRAY_SUFFIXES, HDF5_SUFFIXES
from circlekit.equivalence.data_files.numpy_files import encode_npy, encode_npz
from circlekit.equivalence.data_files.tensor_files import check_folder, write_raw
from circlekit.errors import FileError, ShapeError
from circlekit.io.file_map import translated
from circlekit.io.write.file_writer import require_directory, write_file
from circlekit.ir.value import Array, format_shape

FilePath = str | os.PathLike[str]


_RAW_OUTPUT = re.compile(r"output\d+")
"""The name of a raw file of ``write_outputs``."""


def check_output(path: FilePath, outputs: int, labels: Sequence[str] = ()) -> None:
    """Raise FileError if the outputs of a model cannot be written to ``path``.

    ``outputs``: the number of outputs of the model.
    ``labels``: the labels of the runs; empty if they are not known.  With labels, a folder is refused if raw
    files of an earlier run would stay in it, because these would be taken for outputs of this run.
    Call this function before the model runs, so that a wrong path is reported before the work.
    """
    target, suffix = Path(path), Path(path).suffix.lower()
    if _is_folder(path):
        check_folder(path)
        stale = _earlier_output(target, outputs, labels) if labels else None
        if stale is not None:
            advice = "remove them, or write into another folder"
            raise FileError(f"{os.fspath(path)}: expected no outputs of other runs, got {stale}; {advice}")
        return
    with translated(path, "written"):
        require_directory(target)
    check_output_extension(path)
    if suffix == ".npy" and outputs != 1:
        raise FileError(f"{os.fspath(path)}: an npy file holds one output, got {outputs}; write an npz file")


def check_output_extension(path: FilePath) -> None:
    """Raise FileError unless ``path`` means a folder or has the extension of a file of arrays."""
    if not _is_folder(path) and Path(path).suffix.lower() not in ARRAY_SUFFIXES:
        expected = f"{', '.join(ARRAY_SUFFIXES)}, or a folder, which ends in /"
        raise FileError(f"{os.fspath(path)}: expected one of {expected}")


def write_outputs(path: FilePath, names: Sequence[str], records: Mapping[str, Sequence[Array]]) -> None:
    """Write the outputs of one or several runs to ``path``, which ``check_output`` has checked.

    ``names``: the names of the outputs.  ``records``: the outputs of each run, by a label of the run.

    - npz, npy: several records are stacked along a new first axis.
    - HDF5: one record has the datasets ``/value/0``, ``/value/1``... and their names in the group ``/name``;
      several records have ``/value/R/I``, output I of record R, without names.
    - folder: one record has the raw files ``output0``, ``output1``...; of several records, each gets a folder
      with its label as the name.

    ``input_files`` can read these as inputs of a model, whatever the names of the outputs are.  An exception
    is an npz file of several outputs: it must have the names that ``input_files`` expects.
    Raise FileError if something cannot be written, and ShapeError if outputs that have to be stacked differ
    in shape.
    """
    suffix = Path(path).suffix.lower()
    if _is_folder(path):
        _write_folder(Path(path), records)
    elif suffix in HDF5_SUFFIXES:
        write_file(path, [_hdf5(names, list(records.values()))])
    else:
        stacked = dict(zip(_distinct(names), _stacked(path, names, list(records.values())), strict=True))
        content = encode_npz(stacked) if suffix == ".npz" else encode_npy(*stacked.values())
        write_file(path, [content])


def _distinct(names: Sequence[str]) -> list[str]:
    """Return ``names`` made distinct: if a name occurred before, append ``:`` and its index in the list.

    Names occur twice if a graph lists a value twice as an output.
    """
    found: list[str] = []
    for index, name in enumerate(names):
        new = name
        while new in found:
            new = f"{new}:{index}"
        found.append(new)
    return found


def _is_folder(path: FilePath) -> bool:
    return os.fspath(path).endswith(("/", os.sep)) or not Path(path).suffix or Path(path).is_dir()


def _earlier_output(folder: Path, outputs: int, labels: Sequence[str]) -> Path | None:
    """Return a raw file that ``write_outputs`` may have left in ``folder``, and would not overwrite now.

    Return None if there is none.
    """
    written = {_place(folder, label, len(labels)) / f"output{i}" for label in labels for i in range(outputs)}
    with translated(folder, "read"):
        found = sorted([*folder.glob("output*"), *folder.glob("*/output*")])
    raw = (path for path in found if _RAW_OUTPUT.fullmatch(path.name) and path.is_file())
    return next((path for path in raw if path not in written), None)


def _place(folder: Path, label: str, records: int) -> Path:
    """Return the folder for the raw files of the record ``label``, which is one of ``records``."""
    return folder / label if records > 1 else folder


def _write_folder(folder: Path, records: Mapping[str, Sequence[Array]]) -> None:
    for label, arrays in records.items():
        place = _place(folder, label, len(records))
        with translated(place, "made"):
            place.mkdir(parents=True, exist_ok=True)
        write_raw(place / "output", (), arrays)  # (): ``write_raw`` needs no values


def _hdf5(names: Sequence[str], records: Sequence[Sequence[Array]]) -> bytes:
    """Return the bytes of an HDF5 file of one record with names, or of several numbered records."""
    from circlekit.equivalence.data_files import hdf5  # imports h5py, which takes a tenth of a second

    if len(records) == 1:
        return hdf5.encode(list(zip(names, records[0], strict=True)))
    groups = {f"value/{n}": {str(i): a for i, a in enumerate(arrays)} for n, arrays in enumerate(records)}
    return hdf5.encode_groups(groups)


def _stacked(path: FilePath, names: Sequence[str], records: Sequence[Sequence[Array]]) -> Sequence[Array]:
    """Return one array per output; the arrays of several records are stacked along a new first axis."""
    if len(records) == 1:
        return records[0]
    for index, name in enumerate(names):
        shapes = {arrays[index].shape for arrays in records}
        if len(shapes) > 1:
            two = " and ".join(map(format_shape, sorted(shapes)[:2]))
            reason = f"has the shapes {two} in different records, which one array cannot hold"
            raise ShapeError(f"{os.fspath(path)}: output %{name} {reason}; write .h5 or a folder")
    return [np.stack(arrays) for arrays in zip(*records, strict=True)]
