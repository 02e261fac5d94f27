# SPDX-License-Identifier: Apache-2.0
"""Make a submodel: a model of some operators of the main graph, with inputs and outputs of its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from circlekit.errors import ModelError, UnsupportedError, did_you_mean, shown
from circlekit.interp.interpreter import KERNELS_METADATA, select_kernels
from circlekit.ir.clone import copy_submodel
from circlekit.ir.dtypes import DType
from circlekit.ir.graph import Graph, Model, called_graphs
from circlekit.ir.op import Op
from circlekit.ir.value import Value
from circlekit.ops.numerics.output_stage import Kernels

HANDLES = (DType.RESOURCE, DType.VARIANT)
"""The dtypes of handles: references to state inside of a running model, such as variables and tables.

A handle means nothing outside of its model, so no input or output of a submodel has such a dtype.
"""


def operands_from_outside(ops: Sequence[Op]) -> list[Value]:
    """Return the values that ``ops`` read but do not produce, in the order of first use.

    Constants, and variables that are not inputs of the graph, are left out: a submodel has copies of them.
    """
    own = {value for op in ops for value in op.results}
    read = dict.fromkeys(v for op in ops for v in op.inputs if v is not None and v not in own)
    return [v for v in read if not v.is_const and (not v.is_variable or _is_graph_input(v, ops))]


def _is_graph_input(value: Value, ops: Sequence[Op]) -> bool:
    """Return whether ``value`` is an input of the graph of ``ops``."""
    graph = ops[0].graph
    return graph is not None and graph.is_input(value)


def results_for_outside(ops: Sequence[Op]) -> list[Value]:
    """Return the results of ``ops`` that other operators read or that are outputs of the graph.

    If there are none, return the results without users, because a model needs an output.
    """
    own = set(ops)
    results = [v for op in ops for v in op.results]
    shared = [v for v in results if v.other_user(own) is not None or _is_graph_output(v)]
    return shared or [v for v in results if not v.use_count]


def _is_graph_output(value: Value) -> bool:
    """Return whether the computed ``value`` is an output of its graph."""
    graph = value.producer.graph if value.producer is not None else None
    return graph is not None and graph.is_output(value)


def submodel(
    model: Model,
    ops: Sequence[Op],
    outputs: Sequence[Value] | None = None,
    names: Mapping[Value, str] | None = None,
    inputs: Sequence[Value] | None = None,
    kernels: Kernels | None = None,
) -> Model:
    """Return a model with copies of ``ops``.

    ``ops``: operators of the main graph of ``model``, in its order.
    ``outputs``: by default ``results_for_outside(ops)``.
    ``inputs``: by default ``operands_from_outside(ops)``; other inputs must include these.
    ``names``: new names of some inputs and outputs.
    ``kernels``: the kernel set with which ``model`` runs; None: it is ``select_kernels(model)``.

    Raise UnsupportedError if an input or output would be a handle (HANDLES).  Also raise it if ``ops`` and
    another operator of the main graph use the same variable, or if both produce or read handles, which may
    refer to the same state.  An operator also uses the variables and handles of graphs that it calls.
    """
    inputs = operands_from_outside(ops) if inputs is None else inputs
    outputs = results_for_outside(ops) if outputs is None else outputs
    for value in (*inputs, *outputs):
        if value.dtype in HANDLES:
            raise UnsupportedError(
                f"%{value.name} is a {value.dtype.short}, which cannot be an input or output of a model;"
                " keep its producer and its users together"
            )
    _check_variables(model.main, ops)
    _check_handles(model.main, ops)
    copied = copy_submodel(model, ops, inputs, outputs)
    kernels = kernels or select_kernels(model)
    if select_kernels(copied) is not kernels:  # the submodel must round as the whole model does
        copied.metadata.append((KERNELS_METADATA, kernels.value.encode()))
    for value, new in zip((*inputs, *outputs), (*copied.main.inputs, *copied.main.outputs), strict=True):
        new.name = (names or {}).get(value, new.name)
    return copied


def _check_variables(graph: Graph, ops: Sequence[Op]) -> None:
    """Raise UnsupportedError if another operator of ``graph`` uses a variable that ``ops`` use, too."""
    own, variables = set(ops), _variables(ops)
    for other in graph if variables else ():
        shared = variables & _variables([other]) if other not in own else None
        if shared:
            raise UnsupportedError(
                f"variable %{min(v.name for v in shared)} is used by {other!r}, too; "
                "keep all operators that use it together"
            )


def _variables(ops: Sequence[Op]) -> set[Value]:
    """Return the variables that ``ops`` and the operators of the graphs that they call use."""
    return {v for op in _with_called(ops) for v in op.inputs if v is not None and v.is_variable}


def _with_called(ops: Sequence[Op]) -> Iterator[Op]:
    """Yield ``ops``, and the operators of the graphs that they call."""
    yield from ops
    for graph in called_graphs(ops):
        yield from graph


def _check_handles(graph: Graph, ops: Sequence[Op]) -> None:
    """Raise UnsupportedError if both ``ops`` and other operators of ``graph`` produce or read handles."""
    handle = _handle(ops)
    if handle is None:
        return
    own = set(ops)
    for other in graph:
        if other not in own and _handle([other]) is not None:
            raise UnsupportedError(
                f"%{handle.name} refers to state that {other!r} may use, too; "
                "keep all operators that use resources together"
            )


def _handle(ops: Sequence[Op]) -> Value | None:
    """Return a handle that ``ops`` or the operators of the graphs that they call produce or read, or None."""
    values = (v for op in _with_called(ops) for v in (*op.inputs, *op.results) if v is not None)
    return next((v for v in values if v.dtype in HANDLES), None)


def find_values(graph: Graph, names: Iterable[str]) -> list[Value]:
    """Return the inputs or results of ``graph`` named ``names``; raise ModelError for an unknown name."""
    known: dict[str, Value] = {}  # of equal names, the first counts
    for value in (*graph.inputs, *(v for op in graph for v in op.results)):
        known.setdefault(value.name, value)
    found = []
    for name in names:
        if name not in known:
            hint = did_you_mean(name, known, 3)
            raise ModelError(f"graph {shown(graph.name)} has no input or result named {name!r}{hint}")
        found.append(known[name])
    return found
