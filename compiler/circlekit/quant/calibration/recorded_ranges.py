# SPDX-License-Identifier: Apache-2.0
"""Write ranges of tensors into a model: min and max of the quantization, as in ONE."""

from __future__ import annotations

from typing import Any

import numpy as np

from circlekit.errors import CirclekitError
from circlekit.ir.graph import Model
from circlekit.ir.value import Quantization
from circlekit.quant.calibration.calibration import Calibration, observed_values
from circlekit.quant.calibration.ranges import estimate_range


def record_ranges(
    model: Model, calibration: Calibration, estimator: str = "min_max", **options: Any
) -> list[str]:
    """Write the range of every float tensor into ``model``; return the names of the tensors without a range.

    Constants get no range, and are not among the names.
    A tensor has no range if ``calibration`` has no statistics of it, or if no run computed any element of it.
    A range replaces the tensor's former quantization.
    ``estimator``, ``options``: see ``estimate_range``.  Raise the errors of ``estimate_range``, for example
    ModelError for a tensor whose elements are all ignored (see ``statistics``); then the model stays as it
    is.
    """
    missing, found = [], []
    for index, _, value in observed_values(model):
        statistics = calibration.of(value, index)
        if statistics is None or (statistics.min is None and not statistics.ignored):
            missing.append(value.name)
            continue
        try:
            low, high = estimate_range(statistics, estimator, **options)
        except CirclekitError as error:
            raise error.note(f"for %{value.name}") from None
        found.append((value, np.array([low], np.float32), np.array([high], np.float32)))
    for value, smallest, largest in found:
        value.quantization = Quantization(min=smallest, max=largest)
    return missing
