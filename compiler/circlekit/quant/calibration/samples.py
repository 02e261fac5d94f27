# SPDX-License-Identifier: Apache-2.0
"""Check samples, which are Python objects or files, and bring their arrays into the order of the inputs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from circlekit.equivalence.data_files.graph_inputs import GraphInputs
from circlekit.errors import CirclekitError, ModelError
from circlekit.interp.evaluate import model_inputs
from circlekit.ir.graph import Model
from circlekit.ir.value import Array
from circlekit.quant.calibration.sample_files import open_samples

Sample = Sequence[Array] | Mapping[str, Array] | Array
"""The inputs of one run, in one of three forms.

- a list or tuple of arrays in the order of the graph's inputs;
- a dict of arrays by the names of the inputs, or by the names that a signature gives to the inputs;
- a single array, for a model with one input.
"""

Samples = Iterable[Sample] | str | os.PathLike[str]
"""Samples, or the path of a file or folder with samples (see ``SampleFile``)."""


def checked_samples(model: Model, samples: Samples) -> Iterator[list[Array]]:
    """Yield each sample as a list of arrays in the order of the main graph's inputs.

    Raise ModelError for a sample that is not a ``Sample`` or has NaN in an array of floats; ShapeError if
    number, names, shapes or dtypes of its arrays are not those of the inputs.  These messages have the number
    of the sample, counted from 0.  Raise ModelError if ``samples`` is a dict or bytes, or not iterable.  If it is a path, raise the
    errors of reading the file (``SampleFile``).
    """
    if isinstance(samples, str | os.PathLike):
        samples = open_samples(samples, model)
    if isinstance(samples, bytes | Mapping) or not isinstance(samples, Iterable):
        kind = type(samples).__name__
        raise ModelError(f"samples: expected an iterable of lists of arrays or of dicts by name, got {kind}")
    for number, sample in enumerate(samples):
        try:
            arrays = model_inputs(model, 0, _inputs(model, sample))
            for value, array in zip(model.main.inputs, arrays, strict=True):
                if array.dtype.kind == "f" and array.size and np.isnan(array.min()):
                    count = int(np.isnan(array).sum())
                    raise ModelError(f"input %{value.name} has NaN in {count} of {array.size} elements")
        except CirclekitError as error:
            raise error.note(f"in sample {number}") from None
        yield arrays


def _inputs(model: Model, sample: Sample) -> Sequence[Array] | Mapping[str, Array]:
    """Return ``sample`` as arrays in the order of the inputs, or as a dict by the names of the inputs.

    Raise ModelError if ``sample`` is not a Sample.  Names are not checked here.
    """
    if isinstance(sample, np.ndarray) and len(model.main.inputs) == 1:
        return [sample]
    if not isinstance(sample, list | tuple | Mapping):
        kind = type(sample).__name__
        raise ModelError(
            f"expected a list of arrays in the order of the inputs, or a dict of arrays by name, got {kind}"
        )
    if isinstance(sample, Mapping) and not sample.keys() & {value.name for value in model.main.inputs}:
        aliases = GraphInputs.of(model, model.main).aliases
        named = {
            model.main.inputs[aliases[name]].name: sample[name] for name in sample.keys() & aliases.keys()
        }
        if len(named) == len(sample):  # no other name, and no two arrays for the same input
            return named
    return sample
