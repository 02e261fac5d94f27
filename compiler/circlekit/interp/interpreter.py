# SPDX-License-Identifier: Apache-2.0
"""Run models; choose which of LiteRT's kernel sets, reference or optimized, the results follow."""

from __future__ import annotations

from contextlib import suppress

from circlekit.errors import CirclekitError
from circlekit.interp.evaluate import Inputs, model_inputs
from circlekit.interp.execution_plan import work_of
from circlekit.interp.graph_runner import BeforeOp, GraphRunner, Observe, OnGraph, OnValue
from circlekit.ir.graph import Model
from circlekit.ir.resources.progress import progress
from circlekit.ir.value import Array
from circlekit.ops.numerics.output_stage import Kernels
from circlekit.ops.program.state import State

KERNELS_METADATA = "circlekit_kernels"
"""Key of metadata in a submodel: the kernel set of the whole model, if ``select_kernels`` chose the other."""


def select_kernels(model: Model, requested: Kernels | str | None = None) -> Kernels:
    """Return ``requested``, or by default the kernel set that LiteRT can run the whole model with.

    LiteRT takes all kernels from one set: its reference kernels if these implement every operator of the
    model in its version, else its optimized kernels.  KERNELS_METADATA comes before that.  Raise ValueError
    for an unknown name.
    """
    if requested is not None:
        return Kernels(requested)
    stated = dict(model.metadata).get(KERNELS_METADATA)
    if stated is not None and bytes(stated) in {kernels.value.encode() for kernels in Kernels}:
        return Kernels(bytes(stated).decode())
    for op in (op for graph in model.graphs for op in graph):
        newest = op.reference_version  # the last version that reference kernels implement; None: all
        with suppress(CirclekitError):  # a malformed operator: the error is raised where the operator runs
            if newest is not None and (op.version or op.required_version()) > newest:
                return Kernels.OPTIMIZED
    return Kernels.REFERENCE


class Interpreter:
    """Runs one model, any number of times; each thread needs an interpreter of its own.

    Variables and hash tables keep their contents from run to run, until ``reset``.  The model may be changed
    between runs, but a change of the elements of a constant needs a new interpreter.

    ``kernels``: the set of LiteRT's kernels whose integer results to reproduce; by default the one that
    LiteRT would use for this model (see ``select_kernels``).
    """

    def __init__(self, model: Model, kernels: Kernels | str | None = None) -> None:
        self.model = model
        self._runner = GraphRunner(State(), model, select_kernels(model, kernels))

    @property
    def kernels(self) -> Kernels:
        """The set of LiteRT's kernels whose results are reproduced."""
        return self._runner.kernels

    @property
    def state(self) -> State:
        """Contents of variables and tables, and positions of random streams."""
        return self._runner.state

    def reset(self) -> None:
        """Discard the state: the next run is like the first."""
        self._runner.state = State()

    def run(
        self,
        inputs: Inputs,
        graph: int = 0,
        observe: Observe | None = None,
        on_value: OnValue | None = None,
        on_graph: OnGraph | None = None,
        before_op: BeforeOp | None = None,
    ) -> list[Array]:
        """Return the outputs, in order, of the graph at index ``graph`` of the model.

        ``inputs``: a sequence in the order of the graph's inputs, or a mapping by name.
        ``before_op`` is called with each operator and its operands before it runs, ``observe`` with each
        operator and its results, ``on_value`` with the name and the array of each graph input and each
        result, ``on_graph`` with each graph that begins to run (the one at ``graph`` and those that operators
        call) and its inputs.  The outputs share no memory with inputs or constants.

        Raise ModelError if there is no such graph, ShapeError if the inputs do not match it,
        UnsupportedError if an operator has no kernel, LimitError beyond the limits of memory and graph calls.
        """
        arrays = model_inputs(self.model, graph, inputs)
        return self._runner.run(self.model.graphs[graph], arrays, observe, on_value, on_graph, before_op)


def expect_runs(model: Model, count: int, graph: int = 0) -> None:
    """Add ``count`` runs of a graph to the work of the current step; a run reports each of its operators."""
    progress().expect(count * sum(work_of(op) for op in model.graphs[graph]))


def run(
    model: Model,
    inputs: Inputs,
    graph: int = 0,
    observe: Observe | None = None,
    on_value: OnValue | None = None,
    kernels: Kernels | str | None = None,
) -> list[Array]:
    """Run ``model`` once, from its initial state: see ``Interpreter.run``."""
    return Interpreter(model, kernels).run(inputs, graph, observe, on_value)
