# SPDX-License-Identifier: Apache-2.0
"""Run models; reproduce the results of one of LiteRT's two kernel sets: reference or optimized kernels."""

from __future__ import annotations

from contextlib import suppress

from circlekit.errors import CirclekitError, ModelError, UnsupportedError
from circlekit.interp.evaluate import Inputs, model_inputs
from circlekit.interp.execution_plan import work_of
from circlekit.interp.graph_runner import BeforeOp, GraphRunner, Observe, OnGraph, OnValue
from circlekit.ir.graph import Model, check_model
from circlekit.ir.resources.progress import progress
from circlekit.ir.value import Array
from circlekit.ops.numerics.output_stage import Kernels
from circlekit.ops.program.state import State

KERNELS_METADATA = "circlekit_kernels"
"""The metadata key under which a submodel stores the name of the kernel set with which the whole model runs.

Without this key, the operators of the submodel alone might select the other set.
"""


def select_kernels(model: Model, requested: Kernels | str | None = None) -> Kernels:
    """Return the kernel set whose results an interpreter of ``model`` reproduces: the first of these.

    - ``requested``, if it is given;
    - the set that the metadata of the model names (KERNELS_METADATA), if they name one;
    - the reference kernels, if they compute every operator of the model, in its version, as it is defined
      (``Op.has_reference_kernel``);
    - the optimized kernels.

    Raise UnsupportedError if ``requested`` names no kernel set.
    """
    if requested is not None:
        known = {kernels.value: kernels for kernels in Kernels}
        name = requested.value if isinstance(requested, Kernels) else requested
        if not isinstance(name, str) or name not in known:
            raise UnsupportedError(f"expected kernels {' or '.join(known)}, got {name!r}")
        return known[name]
    stated = dict(model.metadata).get(KERNELS_METADATA)
    if stated is not None and bytes(stated) in {kernels.value.encode() for kernels in Kernels}:
        return Kernels(bytes(stated).decode())
    for op in (op for graph in model.graphs for op in graph):
        with suppress(CirclekitError):  # a malformed operator: its error is raised when it runs
            if not op.has_reference_kernel():
                return Kernels.OPTIMIZED
    return Kernels.REFERENCE


class Interpreter:
    """Runs one model any number of times, one run after the other.  Each thread needs its own interpreter.

    Variables and hash tables keep their contents from run to run, until ``reset``.  The operators of the
    model may be changed between runs.  After a change of a value (elements of a constant, dtype, shape or
    quantization), make a new interpreter.

    ``kernels``: the set of LiteRT's kernels whose integer results are reproduced, as a name or a member of
    ``Kernels``.  By default ``select_kernels`` chooses it.  The constructor raises ModelError if ``model`` is
    not a Model, and UnsupportedError if ``kernels`` names no kernel set.
    """

    def __init__(self, model: Model, kernels: Kernels | str | None = None) -> None:
        check_model(model)
        self.model = model
        self._runner = GraphRunner(State(), model, select_kernels(model, kernels))

    def __repr__(self) -> str:
        return f"<Interpreter with {self.kernels.value} kernels of {self.model!r}>"

    @property
    def kernels(self) -> Kernels:
        """The set of LiteRT's kernels whose results are reproduced."""
        return self._runner.kernels

    @property
    def state(self) -> State:
        """The state between runs: contents of variables and hash tables, positions of random streams."""
        return self._runner.state

    def reset(self) -> None:
        """Discard the state, so that the next run is like the first."""
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
        """Run the graph at index ``graph`` of the model; return its outputs in order.

        ``inputs``: a sequence in the order of the graph's inputs, or a mapping by name.  The outputs share no
        memory with inputs or constants.  The other arguments are functions that are called during the run:

        - ``before_op`` with each operator and its operands, before the operator runs;
        - ``observe`` with each operator and its results, after it ran;
        - ``on_value`` with the name and the array of each graph input and each result;
        - ``on_graph`` with each graph that begins to run, and its inputs.

        These functions are also called for the graphs that operators call.  Raise

        - ModelError if there is no such graph, if ``inputs`` or a function has a wrong type, if a kernel
          rejects its operands (such as an index out of range), or if this interpreter is running already;
        - ShapeError, which is a ModelError, if the inputs do not match the graph, the shape rule of an
          operator rejects its operands, or a result does not have the type that the model declares;
        - UnsupportedError if an operator has no kernel;
        - LimitError if a limit of memory or of graph calls is exceeded, or memory runs out.

        A registered custom kernel may raise other exceptions: see ``evaluate``.
        """
        functions = {"observe": observe, "on_value": on_value, "on_graph": on_graph, "before_op": before_op}
        for name, function in functions.items():
            if function is not None and not callable(function):
                raise ModelError(f"{name}: expected a function, got {type(function).__name__}")
        arrays = model_inputs(self.model, graph, inputs)
        return self._runner.run(self.model.graphs[graph], arrays, observe, on_value, on_graph, before_op)


def expect_runs(model: Model, count: int, graph: int = 0) -> None:
    """Announce ``count`` runs of graph number ``graph`` to the progress display, as work still to do."""
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
