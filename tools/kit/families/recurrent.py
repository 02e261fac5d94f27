# SPDX-License-Identifier: Apache-2.0
"""Cases of recurrent cells (RNN, SVDF, LSTM) with float or 8-bit weights, in several successive runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from circlekit.ir.dtypes import f32
from circlekit.ir.enums import Activation, LSTMKernelType
from circlekit.ir.op import Op
from circlekit.ir.value import Quantization, Value
from tools.kit.draw import Draw
from tools.kit.families.base import family
from tools.kit.families.windows import calm
from tools.kit.kinds import F32, HYBRID, Case, Kind

HYBRID_TOLERANCE = 2e-2
"""A difference in the last bit of a float state can change its quantized value by one step."""

NORM_TOLERANCE = 1e-4
"""Layer normalization of a few nearly equal numbers amplifies rounding errors."""

GATES = ("input", "forget", "cell", "output")


class Cell:
    """Makes the weights, biases and states of a cell."""

    def __init__(self, draw: Draw, kind: Kind) -> None:
        self.draw = draw
        self.hybrid = kind is HYBRID
        self.tolerance = HYBRID_TOLERANCE if self.hybrid else None
        draw.steps = draw.integer(1, 3)

    def matrix(self, *shape: int) -> Value:
        if not self.hybrid:
            array = self.draw.rng.normal(0, 0.5, shape).astype(np.float32)
            return self.draw.constant(array)
        array = self.draw.rng.integers(-127, 128, shape).astype(np.int8)
        scale = np.array([self.draw.real(0.002, 0.01)], np.float32)
        return self.draw.constant(array, quantization=Quantization(scale, np.zeros(1, np.int64)))

    def vector(self, size: int, around: float = 0.0) -> Value:
        return self.draw.constant(self.draw.rng.normal(around, 0.4, size).astype(np.float32))

    def state(self, *shape: int) -> Value:
        value = Value("", f32, shape)
        value.is_variable = True
        return value

    def data(self, *shape: int) -> Value:
        return self.draw.tensor(F32, shape, const=0, make=lambda: calm(self.draw, shape))

    def gate(self, inputs: int, units: int, batch: int) -> list[Value]:
        """Return weights, recurrent weights, bias and state of a simple cell."""
        weights = [self.matrix(units, inputs), self.matrix(units, units)]
        return [*weights, self.vector(units), self.state(batch, units)]

    def case(self, cls: type[Op], operands: Sequence[Value | None], **given: object) -> Case:
        if self.draw.code in ("LSTM", "UNIDIRECTIONAL_SEQUENCE_LSTM", "BIDIRECTIONAL_SEQUENCE_LSTM"):
            given.setdefault("act", Activation.TANH)
        elif "act" not in given:
            given["act"] = self.draw.choice((Activation.NONE, Activation.RELU, Activation.TANH))
        made = self.draw.case(cls, operands, "f32 x i8" if self.hybrid else "f32", results=[], **given)  # type: ignore[arg-type]
        if self.hybrid or given["act"] is not Activation.RELU:
            return replace(made, tolerance=self.tolerance)
        # it may leave only what nearly cancels, of sums whose terms are about as large as the data
        terms = self.draw.samples[operands[0]] if operands[0] is not None else np.zeros(1)
        return replace(made, tolerance=self.tolerance, magnitude=float(np.abs(terms).mean()))


@family("RNN", "f32 hybrid")
def rnn(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    cell, batch, inputs = Cell(draw, kind), draw.integer(1, 3), draw.integer(1, 7)
    gate = cell.gate(inputs, draw.integer(1, 7), batch)
    return cell.case(cls, [cell.data(batch, inputs), *gate])


@family("UNIDIRECTIONAL_SEQUENCE_RNN", "f32 hybrid")
def sequence_rnn(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    cell, (one, two), inputs = Cell(draw, kind), draw.integers(1, 4, 2), draw.integer(1, 7)
    major = draw.chance(0.5)
    gate = cell.gate(inputs, draw.integer(1, 7), two if major else one)
    return cell.case(cls, [cell.data(one, two, inputs), *gate], time_major=major)


@family("BIDIRECTIONAL_SEQUENCE_RNN", "f32 hybrid")
def both_rnn(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    cell, (one, two), inputs = Cell(draw, kind), draw.integers(1, 4, 2), draw.integer(1, 7)
    major = draw.chance(0.5)
    units = draw.integers(1, 6, 2)
    gates = [v for count in units for v in cell.gate(inputs, count, two if major else one)]
    # with 8-bit weights, by time and merged, LiteRT reads beyond its zero points
    merge = draw.chance(0.4) and not (cell.hybrid and major)
    second: list[Value | None] = [None, None, None]
    if draw.chance(0.4):
        second = [cell.data(one, two, inputs), *(cell.matrix(count, inputs) for count in units)]
    return cell.case(
        cls, [cell.data(one, two, inputs), *gates, *second], time_major=major, merge_outputs=merge
    )


@family("SVDF", "f32 hybrid")
def svdf(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    cell, batch, inputs, rank = Cell(draw, kind), draw.integer(1, 3), draw.integer(1, 7), draw.integer(1, 3)
    filters, memory = rank * draw.integer(1, 5), draw.integer(1, 6)
    bias = cell.vector(filters // rank) if draw.chance(0.7) else None
    weights = [cell.matrix(filters, inputs), cell.matrix(filters, memory)]
    operands = [cell.data(batch, inputs), *weights, bias, cell.state(batch, filters * memory)]
    act = draw.choice((Activation.NONE, Activation.RELU))
    return cell.case(cls, operands, rank=rank, act=act)


# -- LSTM --------------------------------------------------------------------------------------


def gates(cell: Cell, inputs: int, cells: int, batch: int, norm: bool) -> tuple[list[Value | None], int]:
    """Operands 1 to 19 of an LSTM, those of layer normalization behind, and the size of its output."""
    draw = cell.draw
    if norm and not cell.hybrid:
        cell.tolerance = NORM_TOLERANCE
    has_input, peepholes, projected = (draw.chance(p) for p in (0.6, 0.4, 0.3))
    outputs = draw.integer(1, cells) if projected else cells
    made: dict[str, Value | None] = {}
    for gate in GATES:
        there = gate != "input" or has_input
        made["i" + gate] = cell.matrix(cells, inputs) if there else None
        made["r" + gate] = cell.matrix(cells, outputs) if there else None
        made["b" + gate] = cell.vector(cells) if there else None
        made["n" + gate] = cell.vector(cells, 1.0) if there and norm else None
        made["p" + gate] = cell.matrix(cells) if there and peepholes else None
    names = [kind + gate for kind in "ir" for gate in GATES] + ["pinput", "pforget", "poutput"]
    listed = [made[name] for name in [*names, *("b" + gate for gate in GATES)]]
    listed.append(cell.matrix(outputs, cells) if projected else None)
    listed.append(cell.vector(outputs) if projected and draw.chance(0.5) else None)
    listed += [cell.state(batch, outputs), cell.state(batch, cells)]
    return listed + ([made["n" + gate] for gate in GATES] if norm else []), outputs


def clips(draw: Draw) -> dict[str, float]:
    return {name: draw.choice((0.0, 0.0, 0.5, 1.0)) for name in ("cell_clip", "proj_clip")}


@family("LSTM", "f32 f32 hybrid")
def lstm(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    cell, batch, inputs, cells = Cell(draw, kind), draw.integer(1, 3), draw.integer(1, 6), draw.integer(1, 6)
    if kind is F32 and draw.chance(0.3):
        before, held = cell.data(batch, cells), cell.data(batch, cells)
        operands = [
            cell.data(batch, inputs),
            before,
            cell.matrix(4 * cells, inputs + cells),
            cell.vector(4 * cells),
            held,
        ]
        return cell.case(cls, operands, kernel_type=LSTMKernelType.BASIC)
    listed, _ = gates(cell, inputs, cells, batch, draw.chance(0.3))
    given = {"kernel_type": LSTMKernelType.FULL, **clips(draw)}
    return cell.case(cls, [cell.data(batch, inputs), *listed], **given)


@family("UNIDIRECTIONAL_SEQUENCE_LSTM", "f32 f32 hybrid")
def sequence_lstm(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    cell, (one, two), inputs, cells = (
        Cell(draw, kind),
        draw.integers(1, 4, 2),
        draw.integer(1, 6),
        draw.integer(1, 6),
    )
    major = draw.chance(0.5)
    listed, _ = gates(cell, inputs, cells, two if major else one, draw.chance(0.3))
    given = {"time_major": major, "diagonal_recurrent_tensors": False, **clips(draw)}
    return cell.case(cls, [cell.data(one, two, inputs), *listed], **given)


@family("BIDIRECTIONAL_SEQUENCE_LSTM", "f32 hybrid")
def both_lstm(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    cell, (one, two), inputs = Cell(draw, kind), draw.integers(1, 4, 2), draw.integer(1, 6)
    major = draw.chance(0.5)
    batch = two if major else one
    cells = draw.integer(1, 5)  # LiteRT wants as many of both
    (forward, _), (backward, _) = (gates(cell, inputs, cells, batch, False) for _ in range(2))
    states = [*forward[17:19], *backward[17:19]]
    operands = [cell.data(one, two, inputs), *forward[:17], *backward[:17], *states, *[None] * 9]
    # merged and batch by batch, LiteRT looks for the state of a second image in the wrong place
    merge = draw.chance(0.5) and (major or batch == 1)
    given = {"time_major": major, "merge_outputs": merge, **clips(draw)}
    return cell.case(cls, operands, **given)
