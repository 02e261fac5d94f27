# SPDX-License-Identifier: Apache-2.0
"""Base class of recurrent layers: weights, order of time and batch, loop over time, one or two directions.

In the hybrid form (float data, 8-bit weights), each row of the data is quantized to 8 bits before it is
multiplied by the weights.  Source: TFLite portable_tensor_utils.cc.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from circlekit.errors import ModelError, UnsupportedError
from circlekit.ir.dtypes import f32, i8
from circlekit.ir.value import Array, Shape, TensorType, Value, format_shape
from circlekit.ops.checks import require_dims, require_rank
from circlekit.ops.dimensions import Dim
from circlekit.ops.numerics.quantized_layers import (
    as_matrix,
    quantize_rows,
    quantized_product,
    to_exact_floats,
)
from circlekit.ops.program.state import Stateful
from circlekit.ops.quantized_values import scale_of, zero_point_of


class Weight(NamedTuple):
    """An operand of a recurrent layer with its elements."""

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
        """Whether the elements have 8 bits, as in the hybrid form."""
        return self.array.dtype.itemsize == 1

    def dequantized(self) -> Array:
        """Return the elements as float32; like LiteRT, read all 8-bit elements as int8 with zero point 0."""
        if not self.is_hybrid:
            return self.array
        return np.asarray(self.array.view(np.int8).astype(np.float32) * self.scale)


Weights = Mapping[str, Weight]
"""The operands that are present, with their elements, by name."""


class StackedWeights:
    """Several weights of equal shape that are multiplied by the same data, in one matrix product.

    Each weight is a matrix [outputs, n], or a vector [n] that stands for a diagonal matrix.  The constructor
    raises ModelError for any other rank, and if the shapes differ.  ``asymmetric``: whether the hybrid form
    quantizes the data with a zero point.
    """

    def __init__(self, weights: Sequence[Weight], asymmetric: bool) -> None:
        shapes = {w.array.shape for w in weights}
        if len(shapes) != 1 or weights[0].array.ndim not in (1, 2):
            found = ", ".join(map(format_shape, sorted(shapes)))
            raise ModelError(f"expected weights of one shape and of rank 1 or 2, got {found}")
        self.count = len(weights)
        self.asymmetric = asymmetric
        self.is_diagonal = weights[0].array.ndim == 1
        self.scales: Array | None = None
        if self.is_diagonal:
            self.matrix = np.stack([w.dequantized() for w in weights])
        elif any(w.is_hybrid for w in weights):
            self.matrix = to_exact_floats(np.concatenate([w.array.view(np.int8) for w in weights]))
            self.scales = np.concatenate([np.full(len(w.array), w.scale) for w in weights])
        else:
            self.matrix = np.concatenate([w.array for w in weights])

    def products(self, x: Array) -> Array:
        """Return [number of weights, rows, outputs]: ``x`` [rows, n] times the transpose of each matrix."""
        if self.is_diagonal:
            return np.asarray(x * self.matrix[:, None])
        if self.scales is None:
            products = x @ self.matrix.T
        else:
            products = quantized_product(quantize_rows(x, self.asymmetric), self.matrix, self.scales)
        outputs = products.shape[1] // self.count
        return np.asarray(products.reshape(len(x), self.count, outputs).swapaxes(0, 1))

    def sequence_products(self, x: Array) -> Array:
        """Return the products for ``x`` [time, batch, n], as [number of weights, time, batch, outputs]."""
        products = self.products(as_matrix(x))
        return products.reshape(self.count, *x.shape[:2], products.shape[-1])


CellState = tuple[Array, ...]
"""The state of a cell after a step.  Its first array, [batch, outputs], is the output of the step, too."""

Step = Callable[[int, CellState], CellState]
"""A function of t and of the state before time step t; it returns the state after this step."""

MakeStep = Callable[[Weights, Array, Array | None], Step]
"""A function of weights, input and second input that returns the step function of one direction.

See ``RecurrentLayer.cell``.
"""


class RecurrentLayer(Stateful):
    """Base class of recurrent layers: a cell that runs over a sequence, forwards or in both directions.

    The input is [time, batch, inputs] if ``time_major``, else [batch, time, inputs].  An input of rank 2 is a
    single time step.  ``ranks``: the possible ranks of the input.  ``directions``: for each direction the
    prefix of the names of its operands; "bw_" runs backwards.  There is one result for each direction.  With
    ``merge_outputs``, there is only their concatenation along the last axis.  If there are weights for
    ``aux_input``, it is a second input of both directions; without such weights, it replaces the input of the
    backward direction (but see ``BidirectionalSequenceRnn``).  With weights in one direction only, a run
    raises ModelError.
    """

    input: Any
    time_major: bool
    merge_outputs: bool
    asymmetric_quantize_inputs: bool

    ranks: ClassVar[tuple[int, ...]] = (3,)
    directions: ClassVar[tuple[str, ...]] = ("",)
    version_operand = 1  # the index of the weights for the input

    @abstractmethod
    def output_width(self, direction: str) -> Dim:
        """Return the size of the last axis of the result of ``direction``, a prefix in ``directions``."""

    @abstractmethod
    def weight_dims(self, direction: str) -> Mapping[str, str]:
        """Return {weight or bias of ``direction``, without this prefix: its dimensions} for ``require_dims``.

        The dimension ``inputs`` is the last one of the input.
        """

    @abstractmethod
    def cell(self, weights: Weights, x: Array, aux: Array | None) -> Step:
        """Return the step function of one direction.

        ``weights``: the operands by name, those of the direction without their prefix.  ``x``: the input
        [time, batch, inputs].  ``aux``: the second input, or None.
        """

    @property
    def is_one_step(self) -> bool:
        shape = self.input.shape
        return shape is not None and (len(shape) == 2 or shape[0 if self.time_major else 1] == 1)

    def batch(self, shape: Shape) -> int | None:
        return shape[1 if len(shape) == 3 and self.time_major else 0]

    def infer(self) -> TensorType | tuple[TensorType, ...]:
        return self.result_types()

    def result_types(self) -> tuple[TensorType, ...]:
        """Return the types of the results: one for each direction, or one in all with ``merge_outputs``."""
        shape = require_rank(self.input, "input", *self.ranks)
        for direction in self.directions:
            # the input of the backward direction may be ``aux_input``
            has_input = direction != "bw_" or getattr(self, "aux_input", None) is None
            known = {"inputs": shape[-1]} if shape is not None and has_input else {}
            dims = self.weight_dims(direction)
            require_dims(self, {direction + name: names for name, names in dims.items()}, known)
        widths = [*map(self.output_width, self.directions)]
        if len(widths) > 1 and self.merge_outputs:
            widths = [None if None in widths else sum(w for w in widths if w is not None)]
        dtype = self.input.dtype
        return tuple(TensorType(dtype, None if shape is None else (*shape[:-1], w)) for w in widths)

    def step(self, *args: Array | None) -> tuple[Sequence[Array], Sequence[Array | None]]:
        return self.run_cells(self.cell, args)

    def run_cells(
        self, cell: MakeStep, args: Sequence[Array | None]
    ) -> tuple[Sequence[Array], Sequence[Array | None]]:
        """Return the results and the new contents of the states.

        ``cell``: returns the step function of a direction, as ``self.cell`` does.  ``args``: the operands.
        """
        operands = zip(self.operands, self.inputs, args, strict=False)  # operands at the end may be omitted
        present = {o.name: Weight(v, a) for o, v, a in operands if v is not None and a is not None}
        data = present["input"].array
        x, aux = self._time_major(data), self.second_input(present)
        has_aux_weights = [any(n.startswith(f"{d}aux_input_") for n in present) for d in self.directions]
        if any(has_aux_weights) and not all(has_aux_weights):
            raise ModelError(f"{self.code}: expected weights for aux_input in both directions or in none")
        outputs, states = [], []
        for direction in self.directions:
            backwards = direction == "bw_"
            weights = {name.removeprefix(direction): weight for name, weight in present.items()}
            old = [present[name].array for name in self.states if name.startswith(direction)]
            if aux is None or any(has_aux_weights):
                step = cell(weights, x, aux)
            else:
                step = cell(weights, aux if backwards else x, None)
            start = tuple(s.reshape(x.shape[1], -1) if s.size else as_matrix(s) for s in old)
            out, last = self.run(step, len(x), start, backwards)
            outputs.append(self._in_layout_of(data, out))
            states += [new.reshape(before.shape) for new, before in zip(last, old, strict=True)]
        is_merged = len(outputs) > 1 and self.merge_outputs
        return [np.concatenate(outputs, axis=-1)] if is_merged else outputs, states

    def second_input(self, present: Weights) -> Array | None:
        """Return ``aux_input`` [time, batch, n]; None if it is absent."""
        return self._time_major(present["aux_input"].array) if "aux_input" in present else None

    def _time_major(self, x: Array) -> Array:
        if x.ndim == 2:
            return x[None]
        return x if self.time_major else x.swapaxes(0, 1)

    def _in_layout_of(self, x: Array, outputs: Array) -> Array:
        """Return ``outputs`` [time, batch, n] in the layout of the input ``x``."""
        if x.ndim == 2:
            return np.asarray(outputs[0])
        return outputs if self.time_major else np.ascontiguousarray(outputs.swapaxes(0, 1))

    def run(self, step: Step, steps: int, state: CellState, backwards: bool) -> tuple[Array, CellState]:
        """Run ``steps`` time steps from ``state``; return the outputs [time, batch, n] and the last state.

        ``backwards``: from the last time step to the first; the outputs still are in the order of time.
        """
        outputs = np.empty((steps, *state[0].shape), state[0].dtype)
        current = state
        for t in reversed(range(steps)) if backwards else range(steps):
            current = step(t, current)
            outputs[t] = current[0]
        return outputs, tuple(a.astype(s.dtype) for a, s in zip(current, state, strict=True))

    def no_kernel(self) -> UnsupportedError:
        """Return the error for data of a dtype for which the layer has no kernel."""
        return UnsupportedError(f"{self.code} on {self.input.dtype.short} has no kernel")

    def required_version(self) -> int:
        """Return 2 for float data with int8 weights (3 if the data are quantized asymmetrically), else 1."""
        weights = self.inputs[self.version_operand]
        if weights is None or weights.dtype is not i8 or self.input.dtype is not f32:
            return 1
        return 3 if self.asymmetric_quantize_inputs else 2
