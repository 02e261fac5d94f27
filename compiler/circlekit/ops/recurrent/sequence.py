# SPDX-License-Identifier: Apache-2.0
"""Sequences of recurrent cells: weights, the order of time and batch, the loop over time, both directions.

Weights are float matrices, or 8-bit ones for float data (the hybrid form); then each row of the data is
quantized to 8 bits before the product.  Source: TFLite portable_tensor_utils.cc.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from circlekit.errors import ModelError, UnsupportedError
from circlekit.ir.dtypes import f32, i8
from circlekit.ir.op import Op
from circlekit.ir.value import Array, TensorType, Value
from circlekit.ops.checks import require_rank
from circlekit.ops.dimensions import Dim
from circlekit.ops.numerics.quantized_layers import exact, quantize_rows, quantized_product
from circlekit.ops.program.state import Stateful
from circlekit.ops.quantization import scale_of, zero_point_of


class Weight(NamedTuple):
    """An operand with its elements."""

    value: Value
    array: Array

    @property
    def scale(self) -> np.float32:
        return scale_of(self.value)

    @property
    def zero_point(self) -> int:
        return zero_point_of(self.value)

    @property
    def is_hybrid(self) -> bool:
        """Whether the elements have 8 bits."""
        return self.array.dtype.itemsize == 1

    def dequantized(self) -> Array:
        """Return the elements as float32; 8-bit elements are signed, as in LiteRT."""
        if not self.is_hybrid:
            return self.array
        return np.asarray(self.array.view(np.int8).astype(np.float32) * self.scale)


Weights = Mapping[str, Weight]
"""The operands that are present, by name."""


def named_weights(op: Op, arrays: Sequence[Array | None]) -> dict[str, Weight]:
    """Return the operands of ``op`` that are present, by name, with their ``arrays``."""
    items = zip(op.operands, op.inputs, arrays, strict=False)
    return {spec.name: Weight(v, a) for spec, v, a in items if v is not None and a is not None}


class StackedWeights:
    """Weights of one shape, multiplied with the same data by one matrix product.

    Each is a matrix [outputs, n], or a vector [n] that stands for a diagonal matrix.  ``asymmetric``: how
    the hybrid form quantizes the data.  ModelError for other ranks or different shapes.
    """

    def __init__(self, weights: Sequence[Weight], asymmetric: bool) -> None:
        shapes = {w.array.shape for w in weights}
        if len(shapes) != 1 or weights[0].array.ndim not in (1, 2):
            raise ModelError(f"expected recurrent weights of one shape and of rank 1 or 2, got {shapes}")
        self.count = len(weights)
        self.asymmetric = asymmetric
        self.is_diagonal = weights[0].array.ndim == 1
        self.scales: Array | None = None
        if self.is_diagonal:
            self.matrix = np.stack([w.dequantized() for w in weights])
        elif any(w.is_hybrid for w in weights):
            self.matrix = exact(np.concatenate([w.array.view(np.int8) for w in weights]))
            self.scales = np.concatenate([np.full(len(w.array), w.scale) for w in weights])
        else:
            self.matrix = np.concatenate([w.array for w in weights])

    def products(self, x: Array) -> Array:
        """Return [weights, rows, outputs]: ``x`` [rows, n] times each transposed matrix."""
        if self.is_diagonal:
            return np.asarray(x * self.matrix[:, None])
        if self.scales is None:
            products = x @ self.matrix.T
        else:
            products = quantized_product(quantize_rows(x, self.asymmetric), self.matrix, self.scales)
        return np.asarray(products.reshape(len(x), self.count, -1).swapaxes(0, 1))

    def sequence_products(self, x: Array) -> Array:
        """Return [weights, time, batch, outputs] for ``x`` [time, batch, n]."""
        products = self.products(x.reshape(-1, x.shape[-1]))
        return products.reshape(self.count, *x.shape[:2], -1)


def hybrid_version(data: Value, weights: Value | None, asymmetric: bool) -> int:
    """Return operator version 1 for float weights, 2 for int8 ones, 3 with asymmetric quantization."""
    if weights is None or weights.dtype is not i8 or data.dtype is not f32:
        return 1
    return 3 if asymmetric else 2


State = tuple[Array, ...]
"""State of a cell between two steps; first the hidden state [batch, outputs], which is also the output."""

Step = Callable[[int, State], State]
"""Computes the state after time step t from the state before it."""


def to_time_major(x: Array, time_major: bool) -> Array:
    """Return ``x`` as [time, batch, inputs]; rank 2 is a single time step."""
    if x.ndim == 2:
        return x[None]
    return x if time_major else x.swapaxes(0, 1)


def to_layout_of(x: Array, outputs: Array, time_major: bool) -> Array:
    """Return ``outputs`` [time, batch, n] in the layout of the input ``x``."""
    if x.ndim == 2:
        return np.asarray(outputs[0])
    return outputs if time_major else np.ascontiguousarray(outputs.swapaxes(0, 1))


def run_sequence(step: Step, steps: int, state: State, backwards: bool = False) -> tuple[Array, State]:
    """Run a cell over ``steps`` time steps; return its outputs [time, batch, n] and the last state."""
    outputs = np.empty((steps, *state[0].shape), state[0].dtype)
    current = state
    for t in reversed(range(steps)) if backwards else range(steps):
        current = step(t, current)
        outputs[t] = current[0]
    return outputs, tuple(a.astype(s.dtype) for a, s in zip(current, state, strict=True))


def require_float_input(op: Op, x: Array) -> None:
    """Raise UnsupportedError unless the input has float32 elements."""
    if x.dtype != np.float32:
        raise UnsupportedError(f"{op.code} on {x.dtype} has no kernel")


class Bidirectional(Stateful):
    """A recurrent layer that runs forwards and backwards: two results, or one that concatenates them.

    Operand names begin with ``fw_`` or ``bw_``.  ``aux_input`` is a second input of both directions if they
    have weights for it, else the input of the backward direction.
    """

    input: Value
    aux_input: Value | None
    merge_outputs: bool
    time_major: bool

    def widths(self) -> list[Dim]:
        """Return the number of outputs of each direction."""
        raise NotImplementedError

    def infer(self) -> tuple[TensorType, ...]:
        shape, widths = require_rank(self.input, "input", 3), self.widths()
        if self.merge_outputs:
            widths = [None if None in widths else sum(w for w in widths if w is not None)]
        dtype = self.input.dtype
        return tuple(TensorType(dtype, None if shape is None else (*shape[:-1], w)) for w in widths)

    def has_aux_weights(self) -> bool:
        """Whether the directions have weights for the second input."""
        raise NotImplementedError

    def run_direction(
        self, weights: Weights, x: Array, aux: Array | None, backwards: bool
    ) -> tuple[Array, State]:
        """Return outputs and last state of one direction; ``weights`` have names without prefix."""
        raise NotImplementedError

    def direction_inputs(self, x: Array, second: Array | None) -> list[tuple[Array, Array | None]]:
        """Return input and second input of each direction, all of them [time, batch, n]."""
        if second is None:
            return [(x, None), (x, None)]
        if self.has_aux_weights():
            return [(x, second), (x, second)]
        return [(x, None), (second, None)]

    def step(self, *args: Array | None) -> tuple[Sequence[Array], Sequence[Array]]:
        operands = named_weights(self, args)
        x = operands["input"].array
        require_float_input(self, x)
        second = operands.get("aux_input")
        inputs = self.direction_inputs(
            to_time_major(x, self.time_major),
            None if second is None else to_time_major(second.array, self.time_major),
        )
        outputs: list[Array] = []
        states: list[Array] = []
        for prefix, (data, aux) in zip(("fw_", "bw_"), inputs, strict=True):
            weights = {n.removeprefix(prefix): w for n, w in operands.items() if n.startswith(prefix)}
            out, state = self.run_direction(weights, data, aux, prefix == "bw_")
            outputs.append(to_layout_of(x, out, self.time_major))
            states += state
        old = [operands[name].array for name in self.states]
        states = [new.reshape(before.shape) for new, before in zip(states, old, strict=True)]
        return [np.concatenate(outputs, axis=-1)] if self.merge_outputs else outputs, states
