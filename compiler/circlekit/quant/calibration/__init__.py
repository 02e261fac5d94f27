# SPDX-License-Identifier: Apache-2.0
"""Calibration: run a float model on samples and observe the range of every tensor.

``collect`` does that; a ``Runner`` says where and with which program the samples are run.
"""

from __future__ import annotations

from circlekit.quant.calibration.calibration import Calibration
from circlekit.quant.calibration.collector import collect
from circlekit.quant.calibration.runner import Runner
from circlekit.quant.calibration.statistics import ChannelStatistics, TensorStatistics

__all__ = ["Calibration", "ChannelStatistics", "Runner", "TensorStatistics", "collect"]
