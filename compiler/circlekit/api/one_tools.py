# SPDX-License-Identifier: Apache-2.0
"""Functions for ONE's tools around quantization: ranges and parameters from files, equalization, hooks."""

from __future__ import annotations

import os
from collections.abc import Iterator

from circlekit.api.models import FilePath, check_model
from circlekit.equivalence import analysis_hooks
from circlekit.ir.graph import Model
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
    """Write the ranges in an HDF5 file of ONE's runtime into ``model``; return how many tensors got a range.

    ``low``, ``high``: the percentile, 0 to 100, of the minima of all runs that becomes the min of a tensor,
    and the percentile of the maxima that becomes the max.
    Raise FormatError for another layout, ModelError if a float tensor has no range, UnsupportedError for a
    wrong percentile.
    """
    check_model(model)
    return minmax_dump.embed_ranges(model, path, low, high)


def implant(model: Model, path: FilePath) -> None:
    """Quantize ``model``, in place, with the parameters and integers in a JSON file of ONE's q-implant.

    Raise FileError or FormatError for the files; ModelError or ShapeError if they do not fit the model, or if
    a tensor stays float32.
    """
    check_model(model)
    implanting.implant(model, path)


def equalize_feature_maps(
    model: Model, samples: Samples | None = None, allow_copies: bool = False
) -> list[Pattern]:
    """Equalize the channels between layers of ``model``, in place; return the patterns that were applied.

    The outputs keep their values.
    ``samples``: see ``calibrate``; None: one seeded random sample.
    ``allow_copies``: a layer whose result has several users is copied, so that each copy can be equalized.
    """
    check_model(model)
    patterns = find_patterns(model, allow_copies)
    measure(model, patterns, samples_or_random(model, samples))
    apply_patterns(model, patterns)
    return patterns


def analyze(model: Model, analysis: object, samples: Samples | None = None, arguments: str = "") -> int:
    """Run ``model`` and call the hooks of ``analysis`` for each operator; return the number of samples.

    ``analysis``: an object with the hooks of ONE's dalgona, or the path of a Python file that has a class
    with the name of the file.
    ``samples``: see ``calibrate``; None: one seeded random sample.
    ``arguments``: the text with which the hook StartAnalysis is called.
    """
    check_model(model)
    if isinstance(analysis, str | os.PathLike):
        analysis = analysis_hooks.load_analysis(analysis)
    return analysis_hooks.analyze(model, analysis, samples_or_random(model, samples), arguments)


def samples_or_random(model: Model, samples: Samples | None) -> Iterator[list[Array]]:
    """Return the checked ``samples``; for None, one sample of random numbers, as ONE's tools use."""
    return checked_samples(model, RandomSamples(model, 1, like_one=True) if samples is None else samples)
