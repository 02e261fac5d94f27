# SPDX-License-Identifier: Apache-2.0
"""The schemes that quantize as ONE does, with the ranges of a calibration."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from circlekit.ir.dtypes import DType, f32
from circlekit.ir.graph import Model
from circlekit.ir.op import Op
from circlekit.ir.value import Quantization
from circlekit.quant.choose import Ranges
from circlekit.quant.one.settings import CHANNEL, LAYER, LayerSetting, Settings
from circlekit.quant.one.with_minmax import quantize_operators
from circlekit.quant.plan import Plan
from circlekit.quant.scheme import Scheme

PREPARATION = ("fold_dequantize",)
"""Passes to run first: without them some operators would stay float."""


def quantize_by_one(
    model: Model,
    scheme: Scheme,
    ranges: Ranges,
    schemes: Mapping[Op, Scheme | None],
    inputs: DType | None = None,
    outputs: DType | None = None,
) -> Plan:
    """Quantize ``model`` in place by ONE's rules; return the plan, with a reason for each tensor.

    ``ranges``: for each graph the smallest and largest number of each activation, by name.  ``schemes``:
    other schemes than ``scheme`` for some operators, None for float.  ``inputs``, ``outputs``: dtypes of the
    interface; None: float32.  Raise the errors of ``quantize_with_minmax``.
    """
    for graph, found in zip(model.graphs, ranges, strict=False):
        for value in graph.values():
            if value.dtype is f32 and not value.is_const and value.name in found:
                low, high = (np.array([end], np.float32) for end in found[value.name])
                value.quantization = Quantization(min=low, max=high)
    settings = Settings(_setting(scheme), input_types=[inputs or f32], output_types=[outputs or f32])
    own = {op: _setting(special) for op, special in schemes.items() if special is not None}
    floats = {op: "it was asked to stay float" for op, special in schemes.items() if special is None}
    return quantize_operators(model, settings, own, floats, scheme.name)


def _setting(scheme: Scheme) -> LayerSetting:
    """Return the setting of ONE's quantizer for one of its schemes."""
    assert scheme.activations is not None  # all of them have integer activations
    return LayerSetting(scheme.activations, CHANNEL if scheme.per_channel else LAYER)
