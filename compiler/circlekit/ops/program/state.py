# SPDX-License-Identifier: Apache-2.0
"""State of a model between runs: variable tensors, resource variables, hash tables, random streams."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np

from circlekit.errors import UnsupportedError
from circlekit.ir.dtypes import DType
from circlekit.ir.graph import Graph
from circlekit.ir.op import Op, Run
from circlekit.ir.resource_limits import need_memory
from circlekit.ir.value import Array, Value
from circlekit.ops.quantization import zero_point_of


@dataclass(eq=False, repr=False)
class State:
    """The state that all graphs of one interpreter share.

    ``tensors``: contents of variable tensors; ``handles``: number of a resource variable by (container,
    name); ``variables``, ``tables``: contents by handle number; ``initialized``: graphs that CALL_ONCE has
    run; ``streams``: positions of the random operators.
    """

    tensors: dict[Value, Array] = field(default_factory=dict)
    handles: dict[tuple[str, str], int] = field(default_factory=dict)
    variables: dict[int, Array] = field(default_factory=dict)
    tables: dict[int, dict[Any, Any]] = field(default_factory=dict)
    initialized: set[Graph] = field(default_factory=set)
    streams: dict[Op, Any] = field(default_factory=dict)

    def read(self, value: Value) -> Array:
        """Return the contents of a variable tensor, read-only.

        It starts with zeros; int8 with the zero point.
        """
        array = self.tensors.get(value)
        if array is None:
            dtype = value.dtype.numpy
            if dtype is None:
                raise UnsupportedError(f"variable %{value.name}: no kernel for dtype {value.dtype.short}")
            need_memory(value.numel * dtype.itemsize, f"the variable %{value.name}")
            zero = zero_point_of(value) if value.dtype is DType.INT8 else 0
            array = self.tensors[value] = np.full(value.static_shape, zero, dtype)
        return read_only(array)

    def write(self, value: Value, array: Array) -> None:
        """Set the contents of a variable tensor to a copy of ``array``."""
        self.tensors[value] = array.copy()


def read_only(array: Array) -> Array:
    """Return a view of ``array`` that cannot be written."""
    view: Array = array.view()
    view.flags.writeable = False
    return view


@runtime_checkable
class Runner(Protocol):
    """What an interpreter passes to ``Op.call``: it runs graphs and holds the state."""

    state: State

    def __call__(self, graph: Graph, inputs: Sequence[Array]) -> list[Array]: ...


def state_of(op: Op, run: Run) -> State:
    """Return the state of the interpreter; UnsupportedError outside an interpreter."""
    if not isinstance(run, Runner):
        raise UnsupportedError(f"{op.code} keeps state, it cannot be computed outside an interpreter")
    return run.state


class Stateful(Op, pure=False, stateful=True):
    """An operator that reads and writes variable tensors.

    ``states``: names of the operands that are variable tensors.
    """

    states: ClassVar[tuple[str, ...]] = ()

    def step(self, *args: Any) -> tuple[Sequence[Array], Sequence[Array | None]]:
        """Return the results, and the new contents of the ``states`` in the same order."""
        raise UnsupportedError(f"{self.code} has no kernel")

    def kernel(self, *args: Any) -> Sequence[Array]:
        """Return the results for the given contents of the variable tensors."""
        return self.step(*args)[0]

    def call(self, run: Run, *args: Any) -> Sequence[Array]:
        state = state_of(self, run)
        results, contents = self.step(*args)
        for name, array in zip(self.states, contents, strict=True):
            value: Value | None = getattr(self, name)
            if value is not None and value.is_variable and array is not None:
                state.write(value, array)
        return results
