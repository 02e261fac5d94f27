# SPDX-License-Identifier: Apache-2.0
"""For circle-mpqsolver and ``one-quantize --ampq``: read the errors of tensors, and bisect."""

from __future__ import annotations

from collections.abc import Mapping

from circlekit.errors import ParseError, UnsupportedError
from circlekit.io.file_map import map_file
from circlekit.io.parse_json import parse_json
from circlekit.quant.mixed.mpqsolver import Configuration, SearchObserver, Solver
from circlekit.quant.mixed.visq import read_errors
from circlekit.quant.one.sample_data import samples_of
from circlekit.toolchain.mpqsolver_output import bisection_heading


def read_visq_file(path: str) -> dict[str, float]:
    """Return the error of each tensor, by name, from the file that visq wrote at ``path``.

    Raise FileError if the file cannot be read, LimitError if it is a pipe with more bytes than the memory
    limit, ParseError if it is not a JSON file of visq.
    """
    try:
        return read_errors(parse_json(bytes(map_file(path))), path)
    except ValueError as error:
        raise ParseError(f"{path}: Invalid visq file: expected JSON, {error}") from None


def bisect(
    solver: Solver,
    data: str | None,
    data_format: str,
    ratio: float,
    is_int16_front: bool | None,
    errors: Mapping[str, float] | None,
    observer: SearchObserver | None,
) -> Configuration:
    """Print the settings of a bisection, and run it on the samples ``data``; return its configuration.

    ``data``, ``data_format``: arguments of ``samples_of``.  The others are arguments of ``Solver.bisect``.
    Raise UnsupportedError if ``ratio`` is not 0 to 1, and the errors of both functions.
    """
    if not 0 <= ratio <= 1:
        raise UnsupportedError(f"quantization ratio must be in [0, 1], got {ratio:g}")
    for line in bisection_heading(is_int16_front, ratio):
        solver.say(line)
    samples = samples_of(solver.model, data, data_format)
    return solver.bisect(samples, ratio, is_int16_front, errors, observer)
