# SPDX-License-Identifier: Apache-2.0
"""Models with recorded ranges; functions to quantize them by ONE's rules and run them on real numbers."""

from __future__ import annotations

import numpy as np

from circlekit.api.models import parse, run
from circlekit.ir.dtypes import f32, u8
from circlekit.ir.graph import Model
from circlekit.ir.value import Array, Value
from circlekit.quant.one.settings import CHANNEL, LayerSetting, Settings
from circlekit.quant.one.with_minmax import quantize_with_minmax

UINT8 = Settings(LayerSetting(u8, CHANNEL))
ONE_TO_ONE = "quant(min: -1.0, max: 1.0)"

FC = (
    "graph main(%x: f32[1,2] quant(min: -1.0, max: 1.0)) -> %y {{\n"
    "  %w = const f32[2,2] [{w}, {w}, 1.0, -1.0]\n"
    "  %b = const f32[2] [{b}, 0.5]\n"
    "  %y = FullyConnected(%x, %w, %b) : f32[1,2] quant(min: -{r}, max: {r})\n"
    "}}"
)


def quantized(text: str, settings: Settings = UINT8) -> Model:
    model = parse(text)
    quantize_with_minmax(model, settings)
    return model


def value_of(model: Model, name: str) -> Value:
    return next(v for v in model.main.values() if v.name == name)


def kinds(model: Model) -> list[str]:
    return [op.code for op in model.main]


def on_floats(model: Model, *inputs: Array) -> list[Array]:
    """Run a quantized model on real numbers; return the outputs as real numbers."""
    encoded = [_encoded(v, x) for v, x in zip(model.main.inputs, inputs, strict=True)]
    return [_decoded(v, y) for v, y in zip(model.main.outputs, run(model, encoded), strict=True)]


def _encoded(value: Value, x: Array) -> Array:
    q = value.quantization
    if value.dtype is f32 or q is None:
        return x
    stored = np.clip(np.rint(x / q.scale[0]) + q.zero_point[0], *value.dtype.limits)
    return np.asarray(stored, value.dtype.numpy)


def _decoded(value: Value, y: Array) -> Array:
    q = value.quantization
    return y if value.dtype is f32 or q is None else (y - float(q.zero_point[0])) * q.scale[0]
