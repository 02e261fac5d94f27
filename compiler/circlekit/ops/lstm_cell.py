# SPDX-License-Identifier: Apache-2.0
"""One direction of an LSTM over a sequence, on floats, with float or 8-bit weights.

Source: TFLite lstm_eval.cc (float and hybrid), portable_tensor_utils.cc.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from circlekit.ir.enums import Activation
from circlekit.ir.value import Array, Value
from circlekit.ops.common import apply_activation
from circlekit.ops.fixed_point import scale_of
from circlekit.ops.hybrid import quantize_rows, quantized_product

GATES = ("input", "forget", "cell", "output")


@dataclass
class Weights:
    """Matrices and vectors of one direction, by gate; what a form of the operator lacks is not there.

    ``input``, ``aux``: [cells, inputs]; ``recurrent``: [cells, outputs], or [cells] for a diagonal matrix;
    ``peephole``, ``bias``, ``norm``: [cells]; ``projection``: [outputs, cells].
    Without an input gate, it is one minus the forget gate (cifg).
    """

    input: Mapping[str, Weight]
    recurrent: Mapping[str, Weight]
    bias: Mapping[str, Array]
    aux: Mapping[str, Weight] = field(default_factory=dict)
    peephole: Mapping[str, Weight] = field(default_factory=dict)
    norm: Mapping[str, Array] = field(default_factory=dict)
    projection: Weight | None = None
    projection_bias: Array | None = None


@dataclass
class Weight:
    """An operand and its elements."""

    value: Value
    array: Array

    @property
    def is_hybrid(self) -> bool:
        return self.array.dtype.itemsize == 1

    def plain(self) -> Array:
        """The elements as floats."""
        if not self.is_hybrid:
            return self.array
        return np.asarray(self.array.view(np.int8).astype(np.float32) * scale_of(self.value))

    def product(self, x: Array, asymmetric: bool) -> Array:
        """``x`` [rows, n] times the transposed matrix; float rows meet 8-bit weights as 8-bit rows."""
        if self.array.ndim == 1:
            return np.asarray(x * self.plain())
        if not self.is_hybrid:
            return np.asarray(x @ self.array.T)
        rows = quantize_rows(x, asymmetric)
        return quantized_product(rows, self.array.view(np.int8), scale_of(self.value))


@dataclass
class Settings:
    """What the operator's attributes say."""

    act: Activation
    cell_clip: float = 0.0
    proj_clip: float = 0.0
    asymmetric: bool = False


def run_lstm(
    weights: Weights, settings: Settings, x: Array, aux: Array | None, hidden: Array, cell: Array,
    backwards: bool = False,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """Outputs [time, batch, outputs], and the last hidden and cell states.

    ``x``: [time, batch, inputs]; ``aux``: a second input of the same times; ``hidden``: [batch, outputs];
    ``cell``: [batch, cells].
    """
    driven = {g: _driven(weights, settings, g, x, aux) for g in weights.input}
    out = np.empty((*x.shape[:2], hidden.shape[-1]), np.float32)
    times = range(x.shape[0])
    for t in reversed(times) if backwards else times:
        hidden, cell = _step(weights, settings, {g: d[t] for g, d in driven.items()}, hidden, cell)
        out[t] = hidden
    return out, hidden, cell


def _driven(weights: Weights, settings: Settings, gate: str, x: Array, aux: Array | None) -> Array:
    """What the inputs, and the bias of an LSTM without normalization, give to ``gate`` at all times."""
    flat = x.reshape(-1, x.shape[-1])
    total = weights.input[gate].product(flat, settings.asymmetric)
    if aux is not None and weights.aux:
        total = total + weights.aux[gate].product(aux.reshape(-1, aux.shape[-1]), settings.asymmetric)
    if not weights.norm:
        total = total + weights.bias[gate]
    return np.asarray(total.reshape(*x.shape[:2], -1))


def _step(
    weights: Weights, settings: Settings, driven: Mapping[str, Array], hidden: Array, cell: Array
) -> tuple[Array, Array]:
    def gate(name: str, act: Activation | None) -> Array:
        total = driven[name] + weights.recurrent[name].product(hidden, settings.asymmetric)
        if name in weights.peephole and name != "cell":
            total = total + cell * weights.peephole[name].plain()
        if weights.norm:
            total = normalized(total) * weights.norm[name] + weights.bias[name]
        return sigmoid(total) if act is None else apply_activation(total, act)

    forget = gate("forget", None)
    entering = gate("input", None) if "input" in driven else 1 - forget
    candidate = gate("cell", settings.act)
    cell = forget * cell + entering * candidate
    if settings.cell_clip > 0:
        cell = np.clip(cell, -settings.cell_clip, settings.cell_clip)
    made = gate("output", None) * apply_activation(cell, settings.act)
    return _projected(weights, settings, made), cell


def _projected(weights: Weights, settings: Settings, made: Array) -> Array:
    if weights.projection is None:
        return made
    out = weights.projection.product(made, settings.asymmetric)
    if weights.projection_bias is not None:
        out = out + weights.projection_bias
    if settings.proj_clip > 0:
        out = np.clip(out, -settings.proj_clip, settings.proj_clip)
    return np.asarray(out)


def sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def normalized(x: Array) -> Array:
    """Rows with mean 0 and variance 1 (1e-8 is added to the variance)."""
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = np.mean(centred * centred, axis=-1, keepdims=True)
    return np.asarray(centred / np.sqrt(variance + np.float32(1e-8)))
