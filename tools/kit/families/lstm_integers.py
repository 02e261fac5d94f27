# SPDX-License-Identifier: Apache-2.0
"""Cells on int8: LSTM with sums of 16 bits (five intermediates) or products of 8 bits (twelve), and SVDF."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from circlekit.ir.dtypes import DType, i8, i16
from circlekit.ir.enums import Activation
from circlekit.ir.op import Op
from circlekit.ir.value import Quantization, Value
from tools.kit.draw import Draw
from tools.kit.kinds import QI8, Case

GATES = ("input", "forget", "cell", "output")
SUMS, PRODUCTS = 5, 12
"""How many intermediates the forms have."""


def scaled(scale: float, zero: int = 0) -> Quantization:
    return Quantization(np.array([scale], np.float32), np.array([zero]))


class Weights:
    """Constants and states with scales of their own."""

    def __init__(self, draw: Draw) -> None:
        self.draw = draw

    def make(self, dtype: DType, limit: int, low: float, high: float, *shape: int) -> Value:
        array = self.draw.array(dtype, shape, -limit, limit)
        return self.draw.constant(array, quantization=scaled(self.draw.real(low, high)))

    def matrix(self, *shape: int) -> Value:
        return self.make(i8, 127, 0.002, 0.02, *shape)

    def bias(self, size: int) -> Value:
        return self.make(DType.INT32, self.draw.choice((300, 20_000)), 1e-4, 1e-3, size)

    def state(self, dtype: DType, quantization: Quantization, *shape: int) -> Value:
        value = Value("", dtype, shape, None, quantization)
        value.is_variable = True
        return value


def integer_lstm(draw: Draw, cls: type[Op], shape: Sequence[int], batch: int, **given: Any) -> Case:
    """``shape``: of the input.  LSTM alone has the form with ``PRODUCTS``."""
    count = PRODUCTS if draw.code == "LSTM" and draw.chance(0.5) else SUMS
    cells, weights = draw.integer(1, 6), Weights(draw)
    full = count == PRODUCTS  # without projection, its bias, and normalization LiteRT stops
    projected, norm, peepholes = full or draw.chance(0.4), full or draw.chance(0.4), draw.chance(0.4)
    outputs = draw.integer(1, cells) if projected else cells
    gates = GATES[0 if draw.chance(0.5) else 1 :]
    made: dict[str, Value] = {}
    for gate in gates:
        made["i" + gate] = weights.matrix(cells, shape[-1])
        made["r" + gate] = weights.matrix(cells, outputs)
        made["b" + gate] = weights.bias(cells)
        if peepholes and gate != "cell":
            made["p" + gate] = weights.make(i16, 32767, 1e-5, 1e-4, cells)
        if norm:
            made["n" + gate] = weights.make(i16, 32767, 2e-5, 2e-4, cells)
    names = [kind + gate for kind in "ir" for gate in GATES] + ["pinput", "pforget", "poutput"]
    listed: list[Value | None] = [made.get(name) for name in [*names, *("b" + gate for gate in GATES)]]
    listed.append(weights.matrix(outputs, cells) if projected else None)
    listed.append(weights.bias(outputs) if full or (projected and draw.chance(0.5)) else None)
    cell_bits = 15 if full else draw.integer(9, 15)
    listed += [
        weights.state(i8, scaled(draw.real(0.003, 0.02), draw.integer(-60, 60)), batch, outputs),
        weights.state(i16, scaled(2.0**-cell_bits), batch, cells),
        *(made.get("n" + gate) for gate in GATES if norm),
    ]
    draw.steps = draw.integer(1, 3)
    data = draw.tensor(QI8, shape, const=0)
    for clip in ("cell_clip", "proj_clip"):
        given[clip] = draw.choice((0.0, 0.0, 0.3, 0.8))
    case = draw.case(cls, [data, *listed], f"8x8_{8 if full else 16} q", act=Activation.TANH, **given)
    for op in case.graphs[0]:
        op.extra["intermediates"] = intermediates(draw, count)
    return case


def intermediates(draw: Draw, count: int) -> list[Value]:
    """Sums of gates in 16 bits; with ``PRODUCTS`` two 8-bit products behind each, else the hidden state."""
    if count == SUMS:
        made = [(i16, draw.real(3e-4, 4e-3), 0) for _ in GATES]
        made.append((i8, draw.real(0.003, 0.01), draw.integer(-30, 30)))
    else:
        made = []
        for _ in GATES:
            made.append((i16, draw.real(3e-4, 4e-3), 0))
            made += [(i8, draw.real(0.01, 0.1), draw.integer(-100, 100)) for _ in range(2)]
    return [
        Value(f"between{i}", dtype, (1,), None, scaled(s, zero)) for i, (dtype, s, zero) in enumerate(made)
    ]


def integer_svdf(draw: Draw, cls: type[Op]) -> Case:
    """With the one activation that LiteRT takes here, and does not compute."""
    batch, inputs, rank, memory = (
        draw.integer(1, 3),
        draw.integer(1, 7),
        draw.integer(1, 3),
        draw.integer(1, 6),
    )
    filters, weights = rank * draw.integer(1, 5), Weights(draw)
    draw.steps = draw.integer(1, 3)
    operands = [
        draw.tensor(QI8, (batch, inputs), const=0),
        weights.matrix(filters, inputs),
        weights.make(i16, 3000, 1e-5, 1e-3, filters, memory),
        weights.bias(filters // rank),
        weights.state(i16, scaled(draw.real(1e-4, 1e-2)), batch, filters * memory),
    ]
    result = scaled(draw.real(0.003, 0.1), draw.integer(-60, 60))
    return draw.case(cls, operands, "i8 q", [result], results=[i8], rank=rank, act=Activation.RELU)
