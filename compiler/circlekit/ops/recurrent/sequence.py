# SPDX-License-Identifier: Apache-2.0
"""Sequences of recurrent cells: the order of time and batch, the loop over time, both directions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from circlekit.errors import UnsupportedError
from circlekit.ir.op import Op
from circlekit.ir.value import Array, TensorType, Value
from circlekit.ops.checks import require_rank
from circlekit.ops.dimensions import Dim
from circlekit.ops.program.state import Stateful
from circlekit.ops.recurrent.gate_weights import Weights, named_weights

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
