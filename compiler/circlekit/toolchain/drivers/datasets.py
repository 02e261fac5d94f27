# SPDX-License-Identifier: Apache-2.0
"""one-create-quant-dataset and rawdata2hdf5: copy files with samples into one HDF5 file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from circlekit.errors import CirclekitError
from circlekit.toolchain.driver import Driver, Invocation
from circlekit.toolchain.option import DriverError, Option
from circlekit.toolchain.session import Session

DATA_LIST = Option(
    "data_list",
    "a text file; each line has the data files of one sample, one for each input, with spaces between",
    "-l",
    required=True,
)


def _run(invocation: Invocation, session: Session) -> None:
    """Write the HDF5 file and print how many samples it has."""
    values = invocation.values
    form = str(values.get("input_data_format", "rawdata"))  # rawdata2hdf5 has no such option
    count = write_dataset(str(values["data_list"]), str(values["output_path"]), form)
    kind = "Raw" if form == "rawdata" else "Numpy"
    session.say(f"{kind} data have been packaged to {values['output_path']}")
    session.say(f"Number of packaged data: {count}")


def write_dataset(data_list: str, output: str, form: str) -> int:
    """Write the files that ``data_list`` names into the HDF5 file ``output``; return the number of samples.

    ``form``: ``rawdata`` for raw files, ``numpy`` for npy files.
    The layout is ONE's: the dataset ``/value/SAMPLE/INPUT`` holds one input of one sample; SAMPLE and INPUT
    are numbers from 0 on.  Raw data are uint8 vectors, and the group ``value`` has the attribute ``rawData``.
    Relative paths in ``data_list`` are relative to the working directory.
    Raise DriverError if a file cannot be read or written, or if an npy file has elements other than numbers
    and bools.  Raise FileError if ``output`` is ``data_list``, one of the listed files, or not the path of a
    file in a directory that exists.
    """
    import h5py  # slow to import

    from circlekit.api.models import check_output_path, refuse_overwriting  # slow to import

    check_output_path(output)  # h5py would cut the path at a zero byte
    if Path(output).exists() and not Path(output).is_file():  # os.replace would replace even /dev/null
        raise DriverError("OSError", f"{output} cannot be written: expected a file")
    samples = list(_listed(data_list))
    for path in (data_list, *chain.from_iterable(samples)):
        refuse_overwriting(path, output)
    temporary = f"{output}.{os.getpid()}"
    try:
        with h5py.File(temporary, "w") as file:
            group = file.create_group("value")
            if form == "rawdata":
                group.attrs["rawData"] = "1"
            for number, paths in enumerate(samples):
                sample = group.create_group(str(number))
                for index, path in enumerate(paths):
                    sample.create_dataset(str(index), data=_array(path, form))
                sample.attrs["desc"] = ",".join(Path(path).name for path in paths)
        os.replace(temporary, output)  # noqa: PTH105  # both are strings
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else error  # the text of h5py's error has many lines
        raise DriverError(type(error).__name__, f"{output} cannot be written: {reason}") from None
    finally:
        Path(temporary).unlink(missing_ok=True)
    return len(samples)


def _listed(path: str) -> Iterator[list[str]]:
    """Yield the paths in each line of the file ``path``, without empty lines.

    Raise DriverError if this file is missing, cannot be read or is not UTF-8, or if a listed file is missing.
    The messages about missing files are ONE's.
    """
    if not Path(path).is_file():
        raise DriverError("FileNotFoundError", f"No such file. {path}")
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DriverError(type(error).__name__, f"{path}: {error}") from None
    for line in lines:
        paths = line.split()
        for name in paths:
            if not Path(name).is_file():
                raise DriverError("FileNotFoundError", f"No such file. {name} (listed in {path})")
        if paths:
            yield paths


def _array(path: str, form: str) -> object:
    """Return the array in an npy file, or the bytes of a raw file as uint8.  ``form``: see ``write_dataset``.

    Raise DriverError if the file cannot be read, or if an npy file has elements other than numbers
    and bools.
    """
    import numpy as np  # slow to import

    from circlekit.equivalence.data_files.numpy_files import read_npy  # slow to import

    if form == "rawdata":
        try:
            return np.fromfile(path, np.uint8)
        except OSError as error:
            raise DriverError("RuntimeError", f"{path} cannot be read: {error}") from None
    try:
        array = read_npy(path)
    except CirclekitError as error:
        advice = "is not loadable by np.load. Please check it is a numpy file."
        raise DriverError("RuntimeError", f"{path} {advice} ({error.message})") from None
    if array.dtype.kind not in "fiubc":
        raise DriverError("RuntimeError", f"{path}: expected an array of numbers or bools, got {array.dtype}")
    return array


one_create_quant_dataset = Driver(
    "one-create-quant-dataset",
    "command line tool to convert data files to hdf5 file",
    lambda: [
        Option(
            "input_data_format", "format of the data files: rawdata or numpy", "-i",
            choices=("rawdata", "numpy"), required=True,
        ),
        DATA_LIST,
        Option("output_path", "path to the output file", "-p", required=True),
    ],
    _run,
    log="",
    standard=(),
)  # fmt: skip

rawdata2hdf5 = Driver(
    "rawdata2hdf5",
    "command line tool to convert raw data files to hdf5 file (one-create-quant-dataset does more)",
    lambda: [DATA_LIST, Option("output_path", "path to the output hdf5 file", "-o", required=True)],
    _run,
    log="",
    standard=(),
)
