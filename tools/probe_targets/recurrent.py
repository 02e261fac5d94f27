# SPDX-License-Identifier: Apache-2.0
"""Samples of recurrent operators with each set of optional operands.

Data and weights are float (float samples), data are float and weights integer (hybrid), or both are integer.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np

from circlekit.ir.dtypes import DType, f32, i8, i16, i32, u8
from circlekit.ir.enums import Activation, LSTMKernelType
from circlekit.ir.op import REGISTRY, Op
from circlekit.ir.value import Array, Value
from circlekit.testing.model_builder import graph_of
from tools.samples.typed_operator import Sample
from tools.samples.types import per_tensor

RECURRENT = ("LSTM", "RNN", "SVDF", "UNIDIRECTIONAL_SEQUENCE_LSTM", "UNIDIRECTIONAL_SEQUENCE_RNN")
"""The bidirectional operators are missing: whether LiteRT runs them depends on attributes and memory."""

TIME, BATCH, INPUTS, CELLS, OUTPUTS, DEPTH = 2, 2, 5, 8, 6, 4
"""``TIME`` and ``BATCH`` are equal, so that shapes fit both orders of these axes (``time_major``).

``OUTPUTS``: the outputs of a projection.  ``DEPTH``: the steps that SVDF remembers.
"""

OPTIONS = {
    "no input gate": ("_to_input", "input_gate", "input_layer_norm"),
    "no peephole": ("cell_to_",),
    "no norm": ("_layer_norm_coefficients",),
    "no projection": ("projection_",),
    "no projection bias": ("projection_bias",),
    "no bias": ("bias",),
}
"""{option: parts of the names of the operands that are then absent}.  ``no bias`` is for SVDF alone."""


def recurrent_samples(code: str, seed: int) -> Iterator[Sample]:
    """Yield samples of each form, with both orders of the axes."""
    kind = REGISTRY[code]
    names = [spec.name for spec in kind.operands]
    known = [k for k, parts in OPTIONS.items() if any(p in n for p in parts for n in names)]
    known = [k for k in known if k != "no bias" or code == "SVDF"]
    orders = [{"time_major": x} for x in (False, True)] if "SEQUENCE" in code else [{}]
    for absent in product((False, True), repeat=len(known)):
        gone = [
            part for option, is_gone in zip(known, absent, strict=True) if is_gone for part in OPTIONS[option]
        ]
        for weights, attributes in product((f32, i8, u8), orders):
            for data in (f32, i8) if weights is i8 else (f32,):
                yield RecurrentMaker(code, data, weights, gone, seed).sample(attributes)
    if code == "LSTM":
        yield from (_basic(dtype, seed) for dtype in (f32, u8))


class RecurrentMaker:
    """Makes samples of one operator; ``gone``: parts of the names of absent operands."""

    def __init__(self, code: str, data: DType, weights: DType, gone: list[str], seed: int) -> None:
        self.kind, self.data, self.weights, self.gone = REGISTRY[code], data, weights, gone
        self.rng = np.random.default_rng(seed)
        names = [spec.name for spec in self.kind.operands]
        self.outputs = OUTPUTS if any("projection" in n and self.has(n) for n in names) else CELLS

    def has(self, name: str) -> bool:
        return not any(part in name for part in self.gone)

    def sample(self, attributes: dict[str, bool]) -> Sample:
        operands = [self.operand(spec.name) if self.has(spec.name) else None for spec in self.kind.operands]
        given: dict[str, object] = {**attributes, "act": Activation.TANH}
        if self.kind.code == "SVDF":
            given = {"act": Activation.RELU, "rank": 2}
        op = self.kind(*operands, results=[Value("", self.data, None)], **given)
        for value, found in zip(op.results, op.inferred(), strict=True):
            value.shape = found.shape
            if self.data is i8:
                value.quantization = found.quantization or per_tensor(0.05, 0)
        if self.data is i8 and op.inner_tensors():
            op.extra["intermediates"] = [
                Value(inner.name, i8 if inner.name == "hidden" else i16, (0,), None, per_tensor(0.004, 0))
                for inner in op.inner_tensors()
            ]
        graph = graph_of(op)
        return Sample(graph, [self.numbers(value) for value in graph.inputs])

    def numbers(self, value: Value) -> Array:
        numbers = self.rng.normal(0, 1, value.static_shape)
        return np.rint(numbers * 50).astype(np.int8) if value.dtype is i8 else numbers.astype(np.float32)

    def operand(self, name: str) -> Value:
        """Return the operand ``name`` with dtype and scale of ``type_of``; constants have random elements."""
        dtype, scale = self.type_of(name)
        value = Value("", dtype, self.shape_of(name), None, None if dtype is f32 else per_tensor(scale, 0))
        value.is_variable = name.endswith("state")
        if not value.is_variable and name != "input":
            numbers = self.rng.normal(1 if "norm" in name else 0, 0.3, value.static_shape)
            if dtype is not f32:
                low, high = (i8 if dtype is u8 else dtype).limits  # LiteRT reads uint8 weights as int8
                numbers = np.clip(np.rint(numbers / scale), low + 1, high)
                numbers = numbers.astype(np.int64).astype(dtype.numpy)
            value.data = np.asarray(numbers, dtype.numpy)
        return value

    def type_of(self, name: str) -> tuple[DType, float]:
        """Return a dtype and a scale for an operand; for integer data, the dtype that LiteRT specifies."""
        on_integers = self.data is i8
        if name.endswith("bias"):
            return (i32, 1e-4) if on_integers else (f32, 1.0)
        if "norm" in name or "cell_state" in name or (name == "state"):
            return (i16, 2.0**-12) if on_integers else (f32, 1.0)
        if on_integers and (name.startswith("cell_to") or name == "weights_time"):
            return i16, 2.0**-12
        if "weights" in name:
            return self.weights, 0.01
        return self.data, 0.02 if name == "input" else 0.05

    def shape_of(self, name: str) -> tuple[int, ...]:
        if "hidden_state" in name or "output_state" in name:
            return BATCH, self.outputs
        if name == "state":
            return BATCH, CELLS * DEPTH
        if "cell_state" in name:
            return BATCH, CELLS
        if name == "input":
            return (BATCH, INPUTS) if self.kind.code in ("LSTM", "RNN", "SVDF") else (TIME, BATCH, INPUTS)
        if "projection" in name:
            return (self.outputs, CELLS)[: 1 if name.endswith("bias") else 2]
        if name.endswith("bias") or "norm" in name or "cell_to" in name:
            return (CELLS // 2 if self.kind.code == "SVDF" else CELLS,)
        if name == "weights_time":
            return CELLS, DEPTH
        return CELLS, self.outputs if "recurrent" in name else INPUTS


def _basic(dtype: DType, seed: int) -> Sample:
    """Return a sample of the LSTM with five operands."""
    rng = np.random.default_rng(seed)
    is_float = dtype is f32
    wide = (f32, f32) if is_float else (i32, i16)

    def value(shape: tuple[int, ...], kind: DType, scale: float, zero: int = 0) -> Value:
        return Value("", kind, shape, None, None if is_float else per_tensor(scale, zero))

    x, last = value((BATCH, INPUTS), dtype, 1 / 128, 128), value((BATCH, CELLS), dtype, 1 / 128, 128)
    weights = value((4 * CELLS, INPUTS + CELLS), dtype, 0.01, 128)
    bias, cell = value((4 * CELLS,), wide[0], 0.01 / 128), value((BATCH, CELLS), wide[1], 2**-11)
    last.is_variable = cell.is_variable = True
    for operand, spread in ((weights, 30), (bias, 1000)):
        offset = 128 if operand.dtype is u8 else 0
        numbers = rng.normal(offset, 0.3 if is_float else spread, operand.static_shape)
        operand.data = np.asarray(numbers.clip(0, 255) if offset else numbers, operand.dtype.numpy)
    kind = REGISTRY["LSTM"]
    op: Op = kind(x, last, weights, bias, cell, kernel_type=LSTMKernelType.BASIC, act=Activation.TANH,
                  results=[Value("", dtype, None) for _ in range(4)])  # fmt: skip
    for result, found in zip(op.results, op.inferred(), strict=True):
        result.dtype, result.shape, result.quantization = found.dtype, found.shape, found.quantization
    graph = graph_of(op)
    elements = rng.normal(0 if is_float else 128, 0.5 if is_float else 40, (BATCH, INPUTS))
    return Sample(graph, [np.asarray(elements if is_float else elements.clip(0, 255), dtype.numpy)])
