# SPDX-License-Identifier: Apache-2.0
"""What outlives one run of a model: variable tensors, resource variables, hash tables, random streams."""

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
    """Belongs to one interpreter; the graphs of its model share it.

    ``tensors``: variable tensors; ``handles``: the number of a resource variable by (container, name);
    ``variables``, ``tables``: what a handle's number stands for; ``initialized``: graphs that CALL_ONCE
    has run; ``streams``: where the random operators are.
    """

    tensors: dict[Value, Array] = field(default_factory=dict)
    handles: dict[tuple[str, str], int] = field(default_factory=dict)
    variables: dict[int, Array] = field(default_factory=dict)
    tables: dict[int, dict[Any, Any]] = field(default_factory=dict)
    initialized: set[Graph] = field(default_factory=set)
    streams: dict[Op, Any] = field(default_factory=dict)

    def read(self, value: Value) -> Array:
        """The contents of a variable tensor, which begins with zeros (as its quantization has them)."""
        array = self.tensors.get(value)
        if array is None:
            start = zero_point_of(value) if value.dtype is DType.INT8 else 0
            if value.dtype.numpy is None:
                raise UnsupportedError(
                    f"the variable %{value.name} is {value.dtype.short}, which has no elements"
                )
            need_memory(value.numel * value.dtype.numpy.itemsize, f"the variable %{value.name}")
            array = np.full(value.static_shape, start, value.dtype.numpy)
            self.tensors[value] = array
        view: Array = array.view()
        view.flags.writeable = False
        return view


@runtime_checkable
class Runner(Protocol):
    """What an interpreter gives to ``Op.call``: it runs graphs, and has the state."""

    state: State

    def __call__(self, graph: Graph, inputs: Sequence[Array]) -> list[Array]: ...


def state_of(op: Op, run: Run) -> State:
    """The state that ``op`` works on; UnsupportedError where it is computed outside of an interpreter."""
    if not isinstance(run, Runner):
        raise UnsupportedError(f"{op.code} keeps state between runs, it cannot be computed alone")
    return run.state


class Stateful(Op, pure=False, stateful=True):
    """An operator that reads and writes variable tensors.

    ``states``: names of the operands that are variable tensors.  ``step`` gives the results, and the new
    contents of those operands in the same order.
    """

    states: ClassVar[tuple[str, ...]] = ()

    def step(self, *args: Any) -> tuple[Sequence[Array], Sequence[Array | None]]:
        raise UnsupportedError(f"{self.code} has no kernel")

    def kernel(self, *args: Any) -> Sequence[Array]:
        """The results alone, for the given contents of the variable tensors."""
        return self.step(*args)[0]

    def call(self, run: Run, *args: Any) -> Sequence[Array]:
        state = state_of(self, run)
        results, contents = self.step(*args)
        for name, array in zip(self.states, contents, strict=True):
            value: Value | None = getattr(self, name)
            if value is not None and value.is_variable and array is not None:
                state.tensors[value] = array
        return results
