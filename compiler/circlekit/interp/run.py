# SPDX-License-Identifier: Apache-2.0
"""Walks a graph in order; a value is freed after its last use, the model's state with its interpreter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from circlekit.errors import CirclekitError, ModelError, ShapeError
from circlekit.interp.evaluate import check_type, evaluate
from circlekit.ir.graph import Graph, Model
from circlekit.ir.op import Op
from circlekit.ir.place import place
from circlekit.ir.value import Array, Value
from circlekit.ops.constants import constant_elements
from circlekit.ops.state import State

Observe = Callable[[Op, Sequence[Array]], None]
"""Is told every operator and its results, in the order of the run; must not change them."""


class Interpreter:
    """Runs one model again and again; ``state``: variables and tables, which one run leaves to the next."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.state = State()

    def reset(self) -> None:
        """Forget the state: the next run is like the first."""
        self.state = State()

    def run(
        self,
        inputs: Sequence[Array] | Mapping[str, Array],
        graph: int = 0,
        observe: Observe | None = None,
    ) -> list[Array]:
        """Outputs of graph number ``graph``, in its order.

        ``inputs``: arrays in the graph's order, or by name.  ShapeError where they do not fit the graph.
        """
        graphs = self.model.graphs
        if not 0 <= graph < len(graphs):
            raise ModelError(f"there is no graph {graph}, the model has {len(graphs)}")
        try:
            arrays = _checked(graphs[graph], _in_order(graphs[graph], inputs))
        except CirclekitError as error:
            if self.model.source is not None:
                error.note(f"in {self.model.source}")
            raise
        return _Runner(self.state, observe, self.model)(graphs[graph], arrays)


def run(
    model: Model,
    inputs: Sequence[Array] | Mapping[str, Array],
    graph: int = 0,
    observe: Observe | None = None,
) -> list[Array]:
    """What a new ``Interpreter`` of the model gives in its first run."""
    return Interpreter(model).run(inputs, graph, observe)


def run_graph(
    graph: Graph, inputs: Sequence[Array], observe: Observe | None = None, state: State | None = None
) -> list[Array]:
    """Outputs of ``graph`` for ``inputs``, in its order; they share no memory with inputs or constants.

    ``state``: what earlier runs left; nothing by default.
    """
    return _Runner(State() if state is None else state, observe)(graph, inputs)


class _Runner:
    """Runs graphs that share one state.  ``model``: theirs, for the places of errors."""

    def __init__(self, state: State, observe: Observe | None, model: Model | None = None) -> None:
        self.state = state
        self.observe = observe
        self.model = model

    def __call__(self, graph: Graph, inputs: Sequence[Array]) -> list[Array]:
        return [_own(x) for x in _Frame(graph, _checked(graph, inputs), self).run()]


def _checked(graph: Graph, inputs: Sequence[Array]) -> list[Array]:
    """``inputs`` as arrays; ShapeError where ``graph`` does not take them."""
    arrays = [np.asarray(x) for x in inputs]
    if len(arrays) != len(graph.inputs):
        names = ", ".join(f"%{v.name}" for v in graph.inputs)
        raise ShapeError(f"graph {graph.name} got {len(arrays)} inputs, it has {len(graph.inputs)}: {names}")
    for value, array in zip(graph.inputs, arrays, strict=True):
        check_type(value, array, "given")
    return arrays


def _in_order(graph: Graph, inputs: Sequence[Array] | Mapping[str, Array]) -> Sequence[Array]:
    if not isinstance(inputs, Mapping):
        return inputs
    names = [v.name for v in graph.inputs]
    if set(names) != set(inputs):
        raise ShapeError(
            f"inputs are named {', '.join(sorted(inputs))}; graph {graph.name} wants {', '.join(names)}"
        )
    return [inputs[name] for name in names]


def _own(array: Array) -> Array:
    return (
        array if array.flags.owndata and array.flags.writeable and array.flags.c_contiguous else array.copy()
    )


class _Frame:
    """One run of one graph: the arrays of the values that are still needed."""

    def __init__(self, graph: Graph, inputs: Sequence[Array], runner: _Runner) -> None:
        self.graph = graph
        self.runner = runner
        self.observe = runner.observe
        self.arrays: dict[int, Array] = {}
        for value, array in zip(graph.inputs, inputs, strict=True):
            self.arrays[id(value)] = _frozen(array)
        self.pending = Counter(id(v) for op in graph for v in op.inputs if v is not None)
        self.pending.update(id(v) for v in graph.outputs)

    def run(self) -> list[Array]:
        for op in self.graph:
            self._step(op)
        return [self._read(v) for v in self.graph.outputs]

    def _step(self, op: Op) -> None:
        try:
            results = evaluate(op, [None if v is None else self._read(v) for v in op.inputs], self.runner)
        except CirclekitError as error:
            raise error.note(place(op, self.runner.model)) from None
        if self.observe is not None:
            self.observe(op, results)
        for value, array in zip(op.results, results, strict=True):
            if self.pending[id(value)]:
                self.arrays[id(value)] = array
        for value in (v for v in op.inputs if v is not None):
            self.pending[id(value)] -= 1
            if not self.pending[id(value)]:
                self.arrays.pop(id(value), None)

    def _read(self, value: Value) -> Array:
        array = self.arrays.get(id(value))
        if array is not None:
            return array
        if value.data is not None:
            return _frozen(constant_elements(value))
        if value.is_variable:
            return self.runner.state.read(value)
        raise ModelError(f"%{value.name} is read before anything makes it")


def _frozen(array: Array) -> Array:
    """A view that no kernel can write into."""
    view: Array = array.view()
    view.flags.writeable = False
    return view
