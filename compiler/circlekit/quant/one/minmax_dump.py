# SPDX-License-Identifier: Apache-2.0
"""Write into a model the ranges that ONE's runtime recorded on a device.

The file is HDF5 with the layout of ONE's minmax-embedder.  The dataset ``/value/run_R/model_M/subg_G/op_N``
holds [min, max] of the first result of operator N of graph G of model M in run R; ``.../input_N`` holds
[min, max] of input N.  Older files have ``/value/R/M/G/N`` in place of the path with ``op_N``.  Only the
ranges of model 0 are used: a .circle or .tflite file has no other model.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

import numpy as np

from circlekit.errors import FormatError, ModelError
from circlekit.ir.graph import Model
from circlekit.ir.value import Array, Quantization, Value, format_shape
from circlekit.quant.one.sample_data import check_percentiles

PLACE = re.compile(r"(?:run_)?(\d+)/(?:model_)?(\d+)/(?:subg_)?(\d+)/(op_|input_|)(\d+)")
"""Matches the paths of datasets below ``/value``."""

LARGEST = float(np.finfo(np.float32).max)
"""The largest number of a range: models store ranges as float32."""

Place = tuple[int, str, int]
"""A tensor: (index of its graph, ``op`` or ``input``, index of the operator or input)."""


def embed_ranges(model: Model, path: str | os.PathLike[str], low: float = 1.0, high: float = 99.0) -> int:
    """Write the ranges in the HDF5 file at ``path`` into ``model``; return how many tensors got a range.

    Only float tensors get a range; it replaces their former quantization.  The min of a tensor is the
    percentile ``low`` of the minima of all runs, its max is the percentile ``high`` of the maxima.
    Raise UnsupportedError unless 0 <= low <= high <= 100.  Raise FileError, FormatError or LimitError if the
    file is unusable, ModelError if it lacks the range of a float tensor that is an input or the first result
    of an operator.
    """
    check_percentiles(low, high)
    recorded = _read(path)
    found: dict[Value, Quantization] = {}
    for place, value in _float_tensors(model):
        ranges = recorded.get(place)
        if ranges is None:
            graph, kind, number = place
            raise ModelError(
                f"{os.fspath(path)} has no range of {kind} {number} of graph {graph}, %{value.name}"
            )
        found[value] = Quantization(
            min=np.array([np.percentile(ranges[:, 0], low)], np.float32),
            max=np.array([np.percentile(ranges[:, 1], high)], np.float32),
        )
    for value, quantization in found.items():  # only now, so that an error leaves the model as it was
        value.quantization = quantization
    return len(found)


def _float_tensors(model: Model) -> Iterator[tuple[Place, Value]]:
    """Yield (place, value) for each input, and each first result of an operator, that is float."""
    for index, graph in enumerate(model.graphs):
        firsts = [op.results[0] if op.results else None for op in graph]
        for kind, values in (("input", graph.inputs), ("op", firsts)):
            for number, value in enumerate(values):
                if value is not None and value.dtype.is_float:
                    yield (index, kind, number), value


def _read(path: str | os.PathLike[str]) -> dict[Place, Array]:
    """Return the ranges of each tensor of model 0 as float64[runs, 2].

    Raise FileError or LimitError, or FormatError for a dataset that is not a range with min <= max, both
    finite float32 numbers.
    """
    from circlekit.equivalence.data_files import hdf5  # importing h5py takes a tenth of a second

    ranges: dict[Place, dict[int, Array]] = {}
    for name, array in hdf5.read_datasets(path).items():
        match = PLACE.fullmatch(name)
        if match is None or array.dtype.kind != "f" or array.size != 2:
            expected = "two floats at /value/run_R/model_M/subg_G/op_N"
            found = f"{array.dtype}{format_shape(array.shape)} at /value/{name}"
            raise FormatError(f"{os.fspath(path)}: expected {expected}, got {found}")
        if not -LARGEST <= array.flat[0] <= array.flat[1] <= LARGEST:  # NaN, too
            numbers = f"{array.flat[0]:g} and {array.flat[1]:g}"
            expected = f"finite float32 numbers min <= max at /value/{name}"
            raise FormatError(f"{os.fspath(path)}: expected {expected}, got {numbers}")
        run, model, graph, kind, number = match.groups()
        if int(model) == 0:
            place = (int(graph), "input" if kind == "input_" else "op", int(number))
            ranges.setdefault(place, {})[int(run)] = array.reshape(2).astype(np.float64)
    return {place: np.stack([runs[run] for run in sorted(runs)]) for place, runs in ranges.items()}
