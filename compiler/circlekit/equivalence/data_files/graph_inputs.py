# SPDX-License-Identifier: Apache-2.0
"""Match arrays with the inputs of a graph, by their names or numbers, and check their types.

Arrays may have the names of the inputs, the names that a signature gives to the inputs, or the numbers of
the inputs (``in0``, ``input0``, ``input.0``, ``arr_0``, ``0``).  A ``:0`` at the end of a name, which
TensorFlow appends to the name of a tensor, does not count.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from circlekit.equivalence.data_files.string_arrays import with_bytes_objects
from circlekit.errors import ShapeError
from circlekit.ir.dtypes import DType
from circlekit.ir.graph import Graph, Model
from circlekit.ir.value import Array, Value, format_shape

_NUMBERED = re.compile(r"(?:in|input|arr_|input\.)?(\d{1,6})")
"""A name that gives the number of an input."""


@dataclass(frozen=True)
class GraphInputs:
    """The inputs of a graph, in order.  ``aliases``: the index of an input by its name in a signature."""

    inputs: Sequence[Value]
    aliases: Mapping[str, int]

    @staticmethod
    def of(model: Model, graph: Graph) -> GraphInputs:
        """Return the inputs of ``graph``, a graph of ``model``."""
        positions = {id(value): index for index, value in enumerate(graph.inputs)}
        signatures = [s for s in model.signatures if s.graph is graph]
        named = [(n, positions[id(v)]) for s in signatures for n, v in s.inputs.items() if id(v) in positions]
        return GraphInputs(graph.inputs, dict(named))

    def in_order(self, arrays: Sequence[tuple[str, Array]], by_order: bool = False) -> list[Array] | None:
        """Return an array for each input, in order; None if it is not clear which array an input gets.

        ``arrays``: (name, array) pairs.  The names of the inputs are tried first, then their names in
        signatures, then their numbers.  The first of these that give an array for each input are used, and
        arrays with other names are ignored.  But the result is None if two arrays are for the same input, or
        if numbers are used and one of them is not that of an input.
        If there is one input and one array, the array may have any name.
        ``by_order``: whether arrays of any names are taken in the given order if there are as many as inputs.
        """
        names = {value.name.removesuffix(":0"): index for index, value in enumerate(self.inputs)}
        aliases = {name.removesuffix(":0"): index for name, index in self.aliases.items()}
        for position in (names.get, aliases.get, self._number):
            found = [(position(name.removesuffix(":0")), array) for name, array in arrays]
            by_index = {index: array for index, array in found if index is not None}
            if by_index.keys() >= set(range(len(self.inputs))):
                if sum(index is not None for index, _ in found) > len(self.inputs):
                    return None  # two arrays for an input, or a number that no input has
                return [by_index[index] for index in range(len(self.inputs))]
        takes_any_name = len(arrays) == len(self.inputs) and (by_order or len(arrays) == 1)
        return [array for _, array in arrays] if takes_any_name else None

    def _number(self, name: str) -> int | None:
        """Return the number in a name such as ``in0``; None for any other name."""
        match = _NUMBERED.fullmatch(name)
        return int(match[1]) if match is not None else None

    def __str__(self) -> str:
        """Return the names and types of the inputs, for messages."""
        return ", ".join(f"%{value.name}: {_declared(value)}" for value in self.inputs) or "none"


def arrays_of(
    place: str, named: Sequence[tuple[str, Array]], interface: GraphInputs, by_order: bool = False
) -> list[Array]:
    """Return the arrays in the order of the inputs; raise ShapeError if that is not clear.

    ``place``: the file or record, for the message.  ``by_order``: see ``in_order``.
    """
    arrays = interface.in_order(named, by_order)
    if arrays is None:
        got = ", ".join(name for name, _ in named) or "none"
        raise ShapeError(
            f"{place}: expected arrays for the inputs {interface}, named like these or in0, in1...; got {got}"
        )
    return arrays


def fits(value: Value, shape: tuple[int, ...]) -> bool:
    """Return whether an array of this shape fits ``value``; unknown dimensions and ranks fit any."""
    declared = value.shape
    return declared is None or (
        len(declared) == len(shape) and all(a in (None, b) for a, b in zip(declared, shape, strict=True))
    )


def fitted(place: str, value: Value, array: Array) -> Array:
    """Return ``array``, with strings as bytes objects; raise ShapeError if it does not fit ``value``.

    Raise the errors of ``with_bytes_objects`` if ``value`` is a tensor of strings.  ``place``: the file or
    record, for the messages.
    """
    if value.dtype is DType.STRING:
        array = with_bytes_objects(array, f"{place}: input %{value.name}")
    is_of_shape = fits(value, array.shape)
    dtype = np.dtype(object) if value.dtype is DType.STRING else value.dtype.numpy
    if dtype is None:  # numpy takes None for float64
        raise ShapeError(f"{place}: input %{value.name} is {value.dtype.short}, which numpy does not have")
    if is_of_shape and array.dtype == dtype:
        return array
    message = f"{place}: input %{value.name}: expected {_declared(value)}, got {_actual(array)}"
    if not is_of_shape and array.shape[:1] == (0,) and fits(value, array.shape[1:]):
        raise ShapeError(f"{place}: input %{value.name}: expected at least one record, got none")
    if not is_of_shape and value.shape is not None and array.ndim >= len(value.shape):
        several = f"[N,{format_shape(value.shape)[1:]}".replace(",]", "]")  # a scalar would give "[N,]"
        message += f"; N records in an npz or npy file have the shape {several}, the same N for each input"
    raise ShapeError(message)


def _declared(value: Value) -> str:
    return value.dtype.short + format_shape(value.shape)


def _actual(array: Array) -> str:
    try:
        name = DType.of(array.dtype).short
    except KeyError:
        name = str(array.dtype)
    return name + format_shape(array.shape)
