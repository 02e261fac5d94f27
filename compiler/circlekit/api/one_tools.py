# SPDX-License-Identifier: Apache-2.0
"""ONE's tools around quantization: take ranges or parameters from files, equalize layers, analyze runs."""

from __future__ import annotations

import os
from collections.abc import Iterator

from circlekit.api.models import FilePath
from circlekit.equivalence import analysis_hooks
from circlekit.ir.graph import Model, check_model
from circlekit.ir.value import Array
from circlekit.quant.calibration.sample_files import RandomSamples
from circlekit.quant.calibration.samples import Samples, checked_samples
from circlekit.quant.one import implant as implanting
from circlekit.quant.one import minmax_dump
from circlekit.quant.techniques.feature_map_equalization import (
    Pattern,
    apply_patterns,
    find_patterns,
    measure,
)


def embed_ranges(model: Model, path: FilePath, low: float = 1.0, high: float = 99.0) -> int:
    """Write ranges from the HDF5 file ``path`` of ONE's runtime into ``model``; return how many it wrote.

    The file has the min and the max of each tensor in each run on a device.  ``low``, ``high``: percentiles
    from 0 to 100.  The min of a float tensor becomes the percentile ``low`` of its minima in all runs, its
    max the percentile ``high`` of its maxima.  This range replaces the former quantization of the tensor.
    Other tensors stay as they are.
    Raise FileError if the file cannot be read, LimitError if it is too large.  Raise FormatError if it has
    another layout, or a range that is not finite, or with a min above its max.  Raise ModelError if the file
    lacks the range of a float input, or of the first result of an operator where this result is float.
    Raise UnsupportedError unless 0 <= low <= high <= 100.
    """
    check_model(model)
    return minmax_dump.embed_ranges(model, path, low, high)


def implant(model: Model, path: FilePath) -> None:
    """Quantize the main graph of ``model``, in place, with scales, zero points and integers from files.

    ``path``: a JSON file for ONE's q-implant.  For each tensor it names npy files with scales and zero
    points; for a constant it may also name a file with the integers.
    After an error the model is as before.  Raise:

    - FileError or FormatError if a file is missing or wrong
    - ModelError or ShapeError if the JSON file or the arrays do not fit the graph, or have wrong numbers
    - LimitError if an array, or the data of a pipe, exceeds the memory limit
    - ModelError if a tensor of the graph stays float32, because the JSON file does not name it
    - UnsupportedError for a sparse or compressed constant without a file with the integers
    """
    check_model(model)
    implanting.implant(model, path)


def equalize_feature_maps(
    model: Model, samples: Samples | None = None, allow_copies: bool = False
) -> list[Pattern]:
    """Scale channels between layers of ``model`` to similar magnitudes, in place; return the pairs of layers.

    Weights and bias of the first layer of a pair are divided by a scale for each channel, weights of the
    second layer are multiplied by it.  So the outputs of the model stay equal up to rounding.
    ``samples``: the magnitudes are measured on them, see ``calibrate``; None: one seeded random sample.
    ``allow_copies``: whether to copy a layer whose result is an output or has several users, so that each
    copy can be equalized.
    If there are pairs, raise ModelError for empty ``samples``.  Raise the errors of ``calibrate`` for samples
    that do not fit.
    """
    check_model(model)
    patterns = find_patterns(model, allow_copies)
    measure(model, patterns, samples_or_random(model, samples))
    apply_patterns(model, patterns)
    return patterns


def analyze(model: Model, analysis: object, samples: Samples | None = None, arguments: str = "") -> int:
    """Run ``model`` on samples and call ``analysis`` for each operator; return the number of samples.

    ``analysis``: an object whose methods are the hooks of ONE's tool dalgona, such as ``DefaultOpPost``; or
    the path of a Python file NAME.py that defines a class NAME with such methods.
    ``samples``: see ``calibrate``; None: one seeded random sample.
    ``arguments``: the text that the hook ``StartAnalysis`` gets.
    Raise AnalysisError if the code of the file or a hook fails, FileError if there is no such Python file,
    ModelError if it does not define the class, and the errors of ``calibrate`` for samples that do not fit.
    """
    check_model(model)
    if isinstance(analysis, str | os.PathLike):
        analysis = analysis_hooks.load_analysis(analysis)
    return analysis_hooks.analyze(model, analysis, samples_or_random(model, samples), arguments)


def samples_or_random(model: Model, samples: Samples | None) -> Iterator[list[Array]]:
    """Yield the checked ``samples``; for None, one sample of seeded random numbers, as in ONE's tools."""
    return checked_samples(model, RandomSamples(model, 1, like_one=True) if samples is None else samples)
