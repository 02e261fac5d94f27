# SPDX-License-Identifier: Apache-2.0
"""Save and load a Calibration: as .json, which a person can read and edit, or as .npz, which is smaller.

Both hold the same JSON document.  But in an .npz file each list of numbers is a separate array, and the
document has the name of the array in place of the list.  The statistics of a tensor look like this (see
``TensorStatistics`` for the meaning of the fields)::

    "relu": {"min": 0.0, "max": 5.2, "count": 2048, "ignored": 0, "minima": [0.0, 0.0], "maxima": [5.2, 4.5]}

A tensor may have two further keys: ``channels``, with the fields of ``ChannelStatistics``, and ``histogram``,
with ``bin_width`` (such as "2**-5"), ``first_bin`` and ``counts``.  ``counts[i]`` is the count of the numbers
from (first_bin + i) * bin_width up to the next bin.

To set the range of a tensor, edit ``min`` or ``max``; every range estimator then returns this range, rounded
to float32.  A tensor needs no fields but these two.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from circlekit.equivalence.data_files.numpy_files import encode_npz, read_npz
from circlekit.errors import FileError, FormatError, counted
from circlekit.io.file_map import map_file
from circlekit.io.parse_json import parse_json
from circlekit.io.write.file_writer import write_file
from circlekit.ir.text.literal_printing import shortest_float32
from circlekit.ir.value import Array
from circlekit.quant.calibration.histogram import INDEX_LIMIT, Histogram
from circlekit.quant.calibration.statistics import ChannelStatistics, TensorStatistics
from circlekit.quant.json_fields import flag_field, integer_field, list_field, object_field, text_field
from circlekit.quant.readable_json import readable_json

FilePath = str | os.PathLike[str]
GraphStatistics = dict[str, TensorStatistics]
"""The statistics of the tensors of one graph, by name."""

SUFFIXES = (".json", ".npz")
VERSION = 1
DOCUMENT = "calibration"
"""The name of the .npz member that holds the document as UTF-8 text; also the key of VERSION in it."""


def check_path(path: FilePath) -> None:
    """Raise FileError unless ``path`` is a path with one of SUFFIXES as its extension."""
    if not isinstance(path, str | os.PathLike):
        raise FileError(f"expected a path, got {type(path).__name__}")
    if Path(path).suffix.lower() not in SUFFIXES:
        raise FileError(f"{os.fspath(path)}: expected the extension .json or .npz for a calibration")


def save(path: FilePath, facts: Mapping[str, Any], graphs: Sequence[GraphStatistics]) -> None:
    """Write a calibration to ``path``; equal calibrations give equal bytes.

    ``facts``: the fields of ``Calibration`` except ``graphs``, as JSON values.
    Raise FileError for an extension that is not in SUFFIXES, or if the file cannot be written.
    """
    check_path(path)
    arrays: dict[str, Array] = {}

    def stored(numbers: Array) -> Any:
        """Return the entry of the document for ``numbers``: a list, or the name of an array."""
        if Path(path).suffix.lower() == ".json":
            return _listed(numbers)
        arrays[f"numbers_{len(arrays)}"] = numbers
        return f"numbers_{len(arrays) - 1}"

    by_graph = [{name: _fields(item, stored) for name, item in graph.items()} for graph in graphs]
    text = readable_json({DOCUMENT: VERSION, **facts, "graphs": by_graph})
    if Path(path).suffix.lower() == ".json":
        write_file(path, [text.encode()])
    else:
        document = np.frombuffer(text.encode(), np.uint8)
        write_file(path, [encode_npz({DOCUMENT: document, **arrays})])


def load(path: FilePath, facts: Mapping[str, Any]) -> tuple[dict[str, Any], list[GraphStatistics]]:
    """Return (facts, graphs), the arguments with which ``save`` wrote the file.

    ``facts``: the default of each fact, for files that lack it.  A fact in the file must have the type of its
    default.
    Raise FileError for an extension that is not in SUFFIXES, or if the file cannot be read; FormatError if it
    is not a calibration; LimitError if an .npz file, or the data of a pipe, exceeds the memory limit.
    """
    check_path(path)
    name = os.fspath(path)
    arrays: dict[str, Array] = {}
    if Path(path).suffix.lower() == ".npz":
        arrays = dict(read_npz(path))
        if DOCUMENT not in arrays:
            raise FormatError(f"{name} is not a calibration: it has no member {DOCUMENT}")
        content = arrays[DOCUMENT].tobytes()
    else:
        content = bytes(map_file(path))
    try:
        document = parse_json(content)
        if not isinstance(document, dict) or DOCUMENT not in document:
            raise ValueError(f'expected an object with the key "{DOCUMENT}"')
        if document[DOCUMENT] != VERSION:
            raise ValueError(f"expected version {VERSION} of the format, got {document[DOCUMENT]!r}")
        found = {key: _fact(document.get(key, default), default, key) for key, default in facts.items()}
        graphs = list_field(document["graphs"], "graphs")
        with np.errstate(all="ignore"):  # a number too large for float32 becomes infinite, and is refused
            return found, [_graph(object_field(graph, "a graph"), arrays) for graph in graphs]
    except KeyError as error:
        raise FormatError(f"{name} is not a calibration: it has no field {error}") from None
    except (ValueError, TypeError, AttributeError, OverflowError) as error:
        raise FormatError(f"{name} is not a calibration: {' '.join(str(error).split())}") from None


# -- writing -----------------------------------------------------------------------------------


def _fields(statistics: TensorStatistics, stored: Callable[[Array], Any]) -> dict[str, Any]:
    """Return the JSON object for the statistics of a tensor.

    ``stored``: returns the entry of the object for an array: a list, or the name of the array.
    """
    fields: dict[str, Any] = {
        "min": _shortest(statistics.min),
        "max": _shortest(statistics.max),
        "count": statistics.count,
        "ignored": statistics.ignored,
        "minima": stored(np.array(statistics.minima, np.float32)),
        "maxima": stored(np.array(statistics.maxima, np.float32)),
    }
    if statistics.channels is not None:
        channels = statistics.channels
        fields["channels"] = {
            "axis": channels.axis,
            "count": channels.count,
            **{name: stored(getattr(channels, name)) for name in _CHANNEL_ARRAYS},
        }
    if statistics.histogram is not None:
        histogram = statistics.histogram
        fields["histogram"] = {
            "bin_width": f"2**{histogram.exponent}",
            "first_bin": histogram.first,
            "counts": stored(histogram.counts),
        }
    return fields


_CHANNEL_ARRAYS = {
    "minima": np.float32, "maxima": np.float32, "sums": np.float64, "square_sums": np.float64
}  # fmt: skip
"""The dtypes of the arrays of ``ChannelStatistics``, by name of the field."""


def _shortest(number: float | None) -> float | None:
    """Return the float with the fewest decimal digits that is the same float32 as ``number``.

    Return None for None and NaN.
    """
    return None if number is None or math.isnan(number) else shortest_float32(number)


def _listed(numbers: Array) -> list[Any]:
    """Return the elements of the vector ``numbers`` as a list for JSON, with None for a float32 NaN."""
    if numbers.dtype == np.float32:
        return [_shortest(number) for number in numbers.tolist()]
    return list(numbers.tolist())


# -- reading -----------------------------------------------------------------------------------


def _fact(content: Any, default: Any, name: str) -> Any:
    """Return ``content``, the field ``name``; raise ValueError unless it has the type of ``default``."""
    if isinstance(default, bool):
        return flag_field(content, name)
    return integer_field(content, name, 0) if isinstance(default, int) else text_field(content, name)


def _graph(graph: Mapping[str, Any], arrays: Mapping[str, Array]) -> GraphStatistics:
    """Return the statistics of the tensors of a graph from its JSON object."""
    return {name: _statistics(name, fields, arrays) for name, fields in graph.items()}


def _statistics(name: str, fields: Mapping[str, Any], arrays: Mapping[str, Array]) -> TensorStatistics:
    """Return the statistics of the tensor ``name`` from its JSON object.

    ``arrays``: the members of an .npz file; empty for a .json file.
    Raise ValueError, with ``name`` in the message, if a field is missing or wrong.
    """
    try:
        low, high = object_field(fields, "statistics")["min"], fields["max"]
        if (low is None) != (high is None):
            raise ValueError(f"expected both min and max, or neither, got {low} and {high}")
        if low is not None:
            low, high = float(np.float32(low)), float(np.float32(high))
            if not (math.isfinite(low) and math.isfinite(high) and low <= high):
                raise ValueError(f"expected finite numbers with min <= max, got {low} and {high}")
        minima, maxima = (_array(fields.get(key, []), np.float32, arrays) for key in ("minima", "maxima"))
        if minima.shape != maxima.shape:
            raise ValueError(f"expected as many minima as maxima, got {minima.size} and {maxima.size}")
        statistics = TensorStatistics(
            low,
            high,
            integer_field(fields.get("count", 0), "count", 0),
            integer_field(fields.get("ignored", 0), "ignored", 0),
            minima.tolist(),
            maxima.tolist(),
        )
        if "channels" in fields:
            statistics.channels = _channels(object_field(fields["channels"], "channels"), arrays)
        if "histogram" in fields:
            statistics.histogram = _histogram(object_field(fields["histogram"], "histogram"), arrays)
    except KeyError as error:
        raise ValueError(f"tensor {name} has no field {error}") from None
    except (ValueError, TypeError, OverflowError) as error:
        raise ValueError(f"tensor {name}: {error}") from None
    return statistics


def _channels(fields: Mapping[str, Any], arrays: Mapping[str, Array]) -> ChannelStatistics:
    """Return the statistics of the channels that ``fields`` describes.

    Raise ValueError unless all its lists have the same length.
    """
    numbers = {key: _array(fields[key], dtype, arrays) for key, dtype in _CHANNEL_ARRAYS.items()}
    if len({array.size for array in numbers.values()}) != 1:
        sizes = ", ".join(f"{key} {array.size}" for key, array in numbers.items())
        raise ValueError(f"expected lists of the same length for the channels, got {sizes}")
    axis, count = (integer_field(fields[name], name, 0) for name in ("axis", "count"))
    return ChannelStatistics(axis, count, **numbers)


def _histogram(fields: Mapping[str, Any], arrays: Mapping[str, Array]) -> Histogram:
    """Return the histogram that ``fields`` describes; raise ValueError for wrong bins or counts."""
    width = re.fullmatch(r"2\*\*(-?\d{1,3})", str(fields["bin_width"]))
    counts = _array(fields["counts"], np.int64, arrays)
    first = integer_field(fields["first_bin"], "first_bin")
    if width is None or abs(first) >= INDEX_LIMIT:
        raise ValueError(
            f"expected a bin_width such as 2**-5 and a first_bin of magnitude below {INDEX_LIMIT}, "
            f"got {fields['bin_width']!r} and {first}"
        )
    if counts.min(initial=0) < 0 or not counts.any():
        raise ValueError(f"expected counts of at least 0, some above 0, got {counts.tolist()[:8]}")
    return Histogram(int(width[1]), first, counts)


def _array(content: Any, dtype: Any, arrays: Mapping[str, Array]) -> Array:
    """Return ``content``, a list of numbers or the name of one of ``arrays``, as a vector of ``dtype``."""
    if isinstance(content, str) and content not in arrays:
        raise ValueError(f"expected a list of numbers or the name of an array in the file, got {content!r}")
    numbers = arrays[content] if isinstance(content, str) else content
    array = np.array(numbers, dtype)  # None becomes NaN
    if array.ndim != 1:
        raise ValueError(f"expected a list of numbers, got {counted(array.ndim, 'dimension')}")
    if np.isinf(array).any():  # JSON has no infinity, so it could not be saved again
        raise ValueError("expected a list of finite numbers, got an infinite one")
    return array
