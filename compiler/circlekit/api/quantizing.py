# SPDX-License-Identifier: Apache-2.0
"""Calibrate and quantize models."""

from __future__ import annotations

from collections.abc import Iterable

from circlekit.api.models import check_model
from circlekit.ir.graph import Model
from circlekit.quant.calibration import Calibration, collect
from circlekit.quant.calibration.observer import Channels, Histograms
from circlekit.quant.calibration.samples import Sample


def calibrate(
    model: Model,
    samples: Iterable[Sample],
    *,
    channels: Channels = False,
    histograms: Histograms = False,
) -> Calibration:
    """Run ``model`` on samples and return the range and further statistics of every float tensor.

    ``samples``: an iterable of lists of arrays in the order of the graph's inputs, or of dicts of arrays by
    input name.  ``channels``: the tensors with statistics per channel: True for all, a list of names, or a
    dict of axes by name.  ``histograms``: True, or a list of names.  The result has ``save`` and ``load``.

    Raise ModelError without samples or for one with NaN, ShapeError for one that does not fit the inputs.
    """
    check_model(model)
    return collect(model, samples, channels=channels, histograms=histograms)
