# SPDX-License-Identifier: Apache-2.0
"""One direction of an LSTM over a sequence, on floats, with float or 8-bit weights.

Source: TFLite lstm_eval.cc (float and hybrid), portable_tensor_utils.cc.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from circlekit.errors import ModelError
from circlekit.ir.enums import Activation
from circlekit.ir.value import Array, Value
from circlekit.ops.fused_activation import apply_activation
from circlekit.ops.numerics.dynamic_quantization import exact, quantize_rows, quantized_product
from circlekit.ops.quantization import scale_of

GATES = ("input", "forget", "cell", "output")


@dataclass(eq=False, repr=False)
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


@dataclass(eq=False, repr=False)
class Weight:
    """An operand and its elements."""

    value: Value
    array: Array

    @property
    def is_hybrid(self) -> bool:
        return self.array.dtype.itemsize == 1

    @cached_property
    def plain(self) -> Array:
        """The elements as floats."""
        if not self.is_hybrid:
            return self.array
        return np.asarray(self.array.view(np.int8).astype(np.float32) * scale_of(self.value))

    def product(self, x: Array, asymmetric: bool) -> Array:
        """``x`` [rows, n] times the transposed matrix."""
        return Stack({"": self}, asymmetric).products(x)[""]


class Stack:
    """Several weights that meet the same rows, as one matrix; diagonal ones (rank 1) by themselves."""

    def __init__(self, weights: Mapping[str, Weight], asymmetric: bool) -> None:
        self.diagonals = {g: w.plain for g, w in weights.items() if w.array.ndim == 1}
        stacked = {g: w for g, w in weights.items() if w.array.ndim == 2}
        for gate, weight in weights.items():
            if weight.array.ndim not in (1, 2):
                raise ModelError(
                    f"weights of the {gate} gate have rank {weight.array.ndim}, 1 or 2 is wanted"
                )
        self.names = list(stacked)
        self.ends = np.cumsum([len(w.array) for w in stacked.values()])[:-1]
        self.asymmetric = asymmetric
        self.scales: Array | None = None
        if not stacked:
            return
        arrays = [w.array for w in stacked.values()]
        if any(w.is_hybrid for w in stacked.values()):
            self.matrix = exact(np.concatenate([a.view(np.int8) for a in arrays]))
            scales = [np.full(len(w.array), scale_of(w.value)) for w in stacked.values()]
            self.scales = np.concatenate(scales)
        else:
            self.matrix = arrays[0] if len(arrays) == 1 else np.concatenate(arrays)

    def products(self, x: Array) -> dict[str, Array]:
        """``x`` [rows, n] times each weight, transposed; float rows meet 8-bit weights as 8-bit rows."""
        out = {g: np.asarray(x * w) for g, w in self.diagonals.items()}
        if self.names:
            if self.scales is None:
                total = x @ self.matrix.T
            else:
                total = quantized_product(quantize_rows(x, self.asymmetric), self.matrix, self.scales)
            out |= zip(self.names, np.split(total, self.ends, axis=-1), strict=True)
        return out


@dataclass(eq=False, repr=False)
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
    _need_gates(weights)
    driven = _driven(weights, settings, x, aux)
    recurrent = Stack(weights.recurrent, settings.asymmetric)
    out = np.empty((*x.shape[:2], hidden.shape[-1]), np.float32)
    times = range(x.shape[0])
    for t in reversed(times) if backwards else times:
        sums = recurrent.products(hidden)
        sums = {g: d[t] + sums[g] for g, d in driven.items()}
        hidden, cell = _step(weights, settings, sums, cell)
        out[t] = hidden
    return out, hidden, cell


def _need_gates(weights: Weights) -> None:
    """ModelError unless every part has all gates; that of the input may be left out everywhere."""
    gates = {"forget", "cell", "output", *weights.input}
    parts = {"input": weights.input, "recurrent": weights.recurrent, "bias": weights.bias}
    optional = {"aux": weights.aux, "norm": weights.norm}
    for name, part in {**parts, **{n: p for n, p in optional.items() if p}}.items():
        missing = sorted(gates - part.keys())
        if missing:
            raise ModelError(f"the {name} weights of an LSTM lack the gates {', '.join(missing)}")


def _driven(weights: Weights, settings: Settings, x: Array, aux: Array | None) -> dict[str, Array]:
    """What the inputs, and the bias of an LSTM without normalization, give to each gate at all times."""
    total = Stack(weights.input, settings.asymmetric).products(x.reshape(-1, x.shape[-1]))
    if aux is not None and weights.aux:
        more = Stack(weights.aux, settings.asymmetric).products(aux.reshape(-1, aux.shape[-1]))
        total = {g: t + more[g] for g, t in total.items()}
    if not weights.norm:
        total = {g: t + weights.bias[g] for g, t in total.items()}
    return {g: t.reshape(*x.shape[:2], -1) for g, t in total.items()}


def _step(
    weights: Weights, settings: Settings, sums: Mapping[str, Array], cell: Array
) -> tuple[Array, Array]:
    """The new hidden and cell states, from what inputs and hidden state give to the gates."""

    def gate(name: str, act: Activation | None) -> Array:
        total = sums[name]
        if name in weights.peephole and name != "cell":
            total = total + cell * weights.peephole[name].plain
        if weights.norm:
            total = normalized(total) * weights.norm[name] + weights.bias[name]
        return sigmoid(total) if act is None else apply_activation(total, act)

    forget = gate("forget", None)
    entering = gate("input", None) if "input" in sums else 1 - forget
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
