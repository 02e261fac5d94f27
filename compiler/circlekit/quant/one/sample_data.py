# SPDX-License-Identifier: Apache-2.0
"""Open samples for commands of ONE such as record-minmax: ONE's names of formats, ONE's error messages."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from circlekit.errors import FileError, FormatError, ShapeError, UnsupportedError
from circlekit.io.file_map import translated
from circlekit.ir.graph import Model
from circlekit.ir.value import Array
from circlekit.quant.calibration.sample_files import RandomSamples, SampleFile

HDF5_FORMATS, LIST_FORMATS, FOLDER_FORMATS = ("h5", "hdf5"), ("list", "filelist"), ("directory", "dir")
"""ONE's names of formats: an HDF5 file, a list of raw files, a folder of raw files."""

RANDOM_SAMPLES = 3
"""The number of random samples if no data is given, as in ONE."""

FILE_HEADS = (b"\x89HDF", b"PK", b"\x93NUMPY")
"""The first bytes of files that the format h5 accepts: HDF5, and npz and npy, which ONE does not read."""


@dataclass(frozen=True)
class OneSamples:
    """The samples of ``file``; error messages begin with ONE's words."""

    file: SampleFile

    def __iter__(self) -> Iterator[list[Array]]:
        """Yield each sample as arrays in the order of the graph's inputs."""
        with _in_words_of_one():
            yield from self.file

    def __length_hint__(self) -> int:
        with _in_words_of_one():
            return self.file.__length_hint__()

    def __str__(self) -> str:
        return str(self.file)


@contextmanager
def _in_words_of_one() -> Iterator[None]:
    """Return a context in which an error about samples gets ONE's words before its own message."""
    try:
        yield
    except (ShapeError, FileError, FormatError) as error:
        words = "Cannot open file"
        if isinstance(error, ShapeError):
            # the messages about the number or the names of inputs have one of these texts, no others have
            is_count = any(text in error.message for text in ("expected one file", "arrays for the inputs"))
            words = "Wrong number of inputs" if is_count else "Buffer size does not match"
        raise type(error)(f"{words}: {error.message}", *error.where) from None


def check_percentiles(low: float, high: float) -> None:
    """Raise UnsupportedError unless 0 <= low <= high <= 100; numbers outside of 0 to 100 get ONE's words."""
    for end in (low, high):
        if not 0 <= end <= 100:
            raise UnsupportedError(f"Percentile must be ranged from 0 to 100, got {end:g}")
    if low > high:
        raise UnsupportedError(f"expected min_percentile <= max_percentile, got {low:g} and {high:g}")


def recording_lines(count: int) -> list[str]:
    """Return the lines that record-minmax prints for ``count`` samples."""
    steps = [f"Recording {number}'th data" for number in range(count)]
    return [*steps, f"Recording finished. Number of recorded data: {count}"]


def samples_of(model: Model, data: str | None, form: str = "h5") -> RandomSamples | OneSamples:
    """Return the samples in the file or folder ``data``; for None, RANDOM_SAMPLES random samples.

    ``form``: ONE's name of the format.  The errors are in ONE's words: UnsupportedError for an unknown
    ``form``; FileError if ``data`` does not exist or cannot be read, or is not a folder although ``form``
    says so; FormatError if a file is not HDF5, npz or npy although ``form`` is h5.
    """
    if form not in HDF5_FORMATS + LIST_FORMATS + FOLDER_FORMATS:
        raise UnsupportedError(
            f"Unsupported input data format {form!r} "
            "(supported formats: h5/hdf5 (default), list/filelist, directory/dir)"
        )
    if data is None:
        return RandomSamples(model, RANDOM_SAMPLES, like_one=True)
    path = Path(data)
    with _in_words_of_one(), translated(data, "read"):  # the name may be too long
        exists, is_folder, is_file = path.exists(), path.is_dir(), path.is_file()
    if form in FOLDER_FORMATS and not is_folder:
        raise FileError(f"Cannot open directory: {data}: expected a folder of raw files")
    if not exists:
        raise FileError(f"Cannot open file: {data}: no such file")
    if form in HDF5_FORMATS and is_file:
        with _in_words_of_one(), translated(data, "read"), path.open("rb") as file:
            head = file.read(8)
        if not head.startswith(FILE_HEADS):
            raise FormatError(f"Given data file is not HDF5: {data}")
    return OneSamples(SampleFile(data, model, form in LIST_FORMATS))
