# SPDX-License-Identifier: Apache-2.0
"""Check of the arrays that a caller gives for the inputs of a graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from circlekit.errors import CirclekitError, ModelError, ShapeError
from circlekit.interp.evaluate import check_type
from circlekit.ir.graph import Graph, Model
from circlekit.ir.value import Array, Value, format_shape

Inputs = Sequence[Array] | Mapping[str, Array]
"""Arrays in the order of a graph's inputs, or by input name."""


def model_inputs(model: Model, graph: int, inputs: Inputs) -> list[Array]:
    """Return ``inputs`` in the order of graph number ``graph``; errors name the file of the model.

    ModelError if there is no such graph, ShapeError if the inputs do not match its declarations.
    """
    if not 0 <= graph < len(model.graphs):
        raise ModelError(f"expected a graph number below {len(model.graphs)}, got {graph}")
    called = model.graphs[graph]
    try:
        return check_inputs(called, _in_order(called, inputs))
    except CirclekitError as error:
        if model.source is not None:
            error.note(f"in {model.source}")
        raise


def check_inputs(graph: Graph, inputs: Sequence[Array]) -> list[Array]:
    """Return ``inputs`` as arrays; ShapeError if number, dtypes or shapes are not those of ``graph``."""
    arrays = [np.asarray(x) for x in inputs]
    if len(arrays) != len(graph.inputs):
        raise ShapeError(
            f"graph {graph.name}: expected {len(graph.inputs)} inputs ({_listed(graph)}), got {len(arrays)}"
        )
    for value, array in zip(graph.inputs, arrays, strict=True):
        check_type(value, array, "input")
    return arrays


def _in_order(graph: Graph, inputs: Inputs) -> Sequence[Array]:
    if not isinstance(inputs, Mapping):
        return inputs
    missing = [_declared(v) for v in graph.inputs if v.name not in inputs]
    unknown = [f"%{name}" for name in inputs if name not in {v.name for v in graph.inputs}]
    faults = [f"missing {name}" for name in missing] + [f"unknown {name}" for name in unknown]
    if faults:
        raise ShapeError(f"graph {graph.name}: expected inputs {_listed(graph)}: {', '.join(faults)}")
    return [inputs[v.name] for v in graph.inputs]


def _listed(graph: Graph) -> str:
    return ", ".join(_declared(v) for v in graph.inputs) or "none"


def _declared(value: Value) -> str:
    return f"%{value.name}: {value.dtype.short}{format_shape(value.shape)}"
