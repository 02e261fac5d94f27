# SPDX-License-Identifier: Apache-2.0
"""Read samples from files (HDF5, npz, npy, raw, folders, lists of raw files), or make random samples."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from circlekit.equivalence.data_files.graph_inputs import GraphInputs
from circlekit.equivalence.data_files.input_files import iterate_records, read_input, read_raw_record
from circlekit.equivalence.integer_uses import index_bounds
from circlekit.equivalence.seeded_inputs import InputSet, make_inputs
from circlekit.equivalence.unknown_sizes import Sizes, sizes_that_run
from circlekit.errors import CirclekitError, FileError, ShapeError, counted
from circlekit.io.file_map import map_file, translated
from circlekit.ir.dtypes import i64
from circlekit.ir.graph import Model
from circlekit.ir.text.fillers import fill
from circlekit.ir.value import Array, Value

FilePath = str | os.PathLike[str]

LIST_SUFFIXES = (".txt", ".lst", ".list")
"""The extensions of lists: text files with the names of raw files."""

FLOATS_OF_ONE, LARGEST_OF_ONE = (-5.0, 5.0), 100
"""The range of floats, and the largest integer, in the random data of ONE's command ``record-minmax``."""


@dataclass(frozen=True)
class SampleFile:
    """The samples for ``model`` in the file or folder ``path``.

    At most three samples are in memory at a time.  Exceptions: compressed npz files, and big-endian arrays of
    npz and npy files, are read as a whole.
    A folder and an HDF5, npz, npy or raw file are read as the command ``circlekit run --inputs`` reads them.
    ``is_list``: the file is a list with one line for each sample.  A line names one raw file with the
    elements of all inputs, or one raw file for each input, with spaces between::

        first/image.bin first/mask.bin
        second/image.bin second/mask.bin

    A path is relative to the working directory or, if there is no such file, to the folder of the list.
    """

    path: FilePath
    model: Model
    is_list: bool = False

    def __iter__(self) -> Iterator[list[Array]]:
        """Yield each sample as arrays in the order of the inputs; raise the errors of ``iterate_records``.

        For a list, also raise FileError if it has only blank lines or is not UTF-8, ShapeError if a line has
        a wrong number of names.
        """
        return self._listed() if self.is_list else iterate_records(self.path, self.model)

    def __str__(self) -> str:
        return os.fspath(self.path)

    def __length_hint__(self) -> int:
        """Return an estimate of the number of samples, for the display of progress.

        It is the number of files and folders in the folder, or of lines in the list; 1 for any other file.
        Raise FileError if the folder or list cannot be read.
        """
        path = Path(self.path)
        if self.is_list:
            return len(_lines(path))
        with translated(self.path, "read"):
            return sum(not entry.name.startswith(".") for entry in path.iterdir()) if path.is_dir() else 1

    def _listed(self) -> Iterator[list[Array]]:
        """Yield the samples of a list; raise FileError if all lines of the list are blank."""
        interface = GraphInputs.of(self.model, self.model.main)
        lines = _lines(Path(self.path))
        if not lines:
            raise FileError(f"{os.fspath(self.path)}: expected a line for each sample, got none")
        for number, line in lines:
            yield self._sample(f"in line {number} of {os.fspath(self.path)}", line, interface)

    def _sample(self, place: str, line: str, interface: GraphInputs) -> list[Array]:
        """Return the sample in ``line`` of a list; ``place``: what to append to the message of an error."""
        try:
            return self._arrays(line, interface)
        except CirclekitError as error:
            raise error.note(place) from None

    def _arrays(self, line: str, interface: GraphInputs) -> list[Array]:
        """Return the sample in ``line``, as arrays in the order of the inputs.

        If the whole line is the path of a file, it is one name, which may contain spaces.
        """
        words = [line] if _exists(self._path_of(line)) else line.split()
        inputs = interface.inputs
        if len(words) == 1:
            return read_raw_record(self._path_of(words[0]), interface)
        if len(words) != len(inputs):
            more = f", or one for each of {len(inputs)} inputs" if len(inputs) > 1 else ""
            raise ShapeError(f"expected one file{more}, got {len(words)}")
        return [read_input(self._path_of(word), value) for word, value in zip(words, inputs, strict=True)]

    def _path_of(self, word: str) -> Path:
        """Return the path ``word``, or ``word`` in the folder of the list if only that file exists."""
        beside = Path(self.path).parent / word
        return beside if not _exists(Path(word)) and _exists(beside) else Path(word)


def _exists(path: Path) -> bool:
    """Return whether there is a file or folder at ``path``; False for names that the system refuses."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def _lines(path: Path) -> list[tuple[int, str]]:
    """Return (number from 1, text) of the lines that are not blank; raise FileError if they are not UTF-8."""
    try:
        text = bytes(map_file(path)).decode("utf-8-sig")  # editors of Windows write a byte order mark
    except UnicodeDecodeError:
        raise FileError(f"{path}: expected a UTF-8 text that lists files, got other bytes") from None
    return [(number, line.strip()) for number, line in enumerate(text.split("\n"), 1) if line.strip()]


def open_samples(path: FilePath, model: Model) -> SampleFile:
    """Return the samples in a file or folder; a file with one of LIST_SUFFIXES is a list.

    Raise FileError if ``path`` is empty, too long or no path.
    """
    with translated(path, "read"):
        is_list = Path(path).suffix.lower() in LIST_SUFFIXES and not Path(path).is_dir()
    return SampleFile(path, model, is_list)


@dataclass(frozen=True)
class RandomSamples:
    """``count`` random samples for ``model``; with the same arguments, they are always the same.

    Ranges observed on them are not those of real data.
    ``like_one``: use the distributions of ONE's ``record-minmax``: uniform floats from -5 to 5, uniform
    integers from 0 to 100.  If False, the samples are the inputs that the command ``circlekit run`` makes:
    normally distributed floats.
    Inputs that hold indices of an axis, also as floats, stay below the size of the axis.
    """

    model: Model
    count: int
    seed: int = 0
    like_one: bool = False

    def __iter__(self) -> Iterator[list[Array]]:
        """Yield each sample as arrays in the order of the inputs; raise the errors of ``make_inputs``."""

        def make(sizes: Sizes, number: int = 0) -> list[Array]:
            which = InputSet("normal", seed=self.seed * self.count + number)
            return make_inputs(self.model.main, which, sizes)

        sizes = sizes_that_run(self.model, make)
        for number in range(self.count):
            sample = make(sizes, number)
            yield self._like_one(sample, number) if self.like_one else sample

    def __length_hint__(self) -> int:
        return self.count

    def __str__(self) -> str:
        return f"{counted(self.count, 'random sample')}, seed {self.seed}"

    def _like_one(self, sample: Sequence[Array], number: int) -> list[Array]:
        """Return sample ``number`` with random numbers as in ONE; ``sample``: gives dtypes and shapes."""
        bounds = index_bounds(self.model.main)
        seeds = ((self.seed * self.count + number) * len(sample) + index for index in range(len(sample)))
        return [
            self._uniform(value, array, seed, bounds.get(id(value)))
            for value, array, seed in zip(self.model.main.inputs, sample, seeds, strict=True)
        ]

    def _uniform(self, value: Value, array: Array, seed: int, bound: int | None) -> Array:
        """Return uniform numbers with the dtype and the shape of ``array``; indices are below ``bound``.

        Return ``array`` itself if its elements are neither floats nor integers.
        """
        if array.dtype.kind not in "fiu":
            return array
        if array.dtype.kind == "f" and bound is None:
            return fill("uniform", FLOATS_OF_ONE, {}, value.dtype, array.shape, seed)
        end = min(bound or LARGEST_OF_ONE + 1, LARGEST_OF_ONE + 1)
        # as integers, because rounding to a float dtype may give ``end``, which is no index
        dtype = value.dtype if value.dtype.is_integer else i64
        return fill("uniform", (0, end), {}, dtype, array.shape, seed).astype(array.dtype)
