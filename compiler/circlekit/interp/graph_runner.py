# SPDX-License-Identifier: Apache-2.0
"""Run graphs: call the kernel of each operator in order, and free each value after its last use."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from circlekit.errors import CirclekitError, LimitError, ModelError, shown
from circlekit.interp.blas_threads import limited_blas_threads
from circlekit.interp.evaluate import check_inputs, compute
from circlekit.interp.execution_plan import ExecutionPlan, PlannedOp
from circlekit.ir.graph import Graph, Model
from circlekit.ir.location import place
from circlekit.ir.op import Op
from circlekit.ir.resources.progress import progress
from circlekit.ir.resources.resource_limits import MAX_CALL_DEPTH, limits
from circlekit.ir.value import Array, Value
from circlekit.ops.numerics.output_stage import Kernels, following
from circlekit.ops.program.state import State

Observe = Callable[[Op, Sequence[Array]], None]
"""A function called after each operator, with the operator and its results; it must not change the arrays."""

BeforeOp = Callable[[Op, Sequence[Array | None]], None]
"""A function called before each operator, with the operator and its operands (None if absent).

Absent operands at the end may be missing.  The function must not change the arrays.
"""

OnValue = Callable[[str, Array], None]
"""A function called with name and array of every graph input and result; it must not change the array."""

OnGraph = Callable[[Graph, Sequence[Array]], None]
"""A function called when a graph begins to run, with the graph and its inputs; it must not change them."""

Environment = dict[Value, Array]
"""The arrays of a running graph that are still needed: inputs and results, not constants or variables."""


class GraphRunner:
    """Runs graphs that share one state (variables, hash tables, positions of random streams).

    An operator that runs another graph calls the runner.  ``model``: the model of the graphs, named in
    errors.  ``kernels``: which of LiteRT's two sets of kernels to reproduce.
    """

    def __init__(
        self, state: State, model: Model | None = None, kernels: Kernels = Kernels.REFERENCE
    ) -> None:
        self.state = state
        self.model = model
        self.kernels = kernels
        self._plans: dict[Graph, ExecutionPlan] = {}
        self._observe: Observe | None = None
        self._before_op: BeforeOp | None = None
        self._on_value: OnValue | None = None
        self._on_graph: OnGraph | None = None
        # _held_bytes: the memory of results that are still needed; _calls: the calls of graphs in this run;
        # _depth: how many of these calls have not returned yet; 0 in the graph that ``run`` was given
        self._held_bytes = self._calls = self._depth = 0
        self._is_running = False

    def run(
        self,
        graph: Graph,
        inputs: Sequence[Array],
        observe: Observe | None = None,
        on_value: OnValue | None = None,
        on_graph: OnGraph | None = None,
        before_op: BeforeOp | None = None,
    ) -> list[Array]:
        """Return the outputs of ``graph`` as arrays.

        The outputs share no memory with each other, the inputs, the constants and the state.
        ``inputs``: the arrays of all inputs, in order, as ``check_inputs`` returns them.  The other arguments
        are functions that are called during the run: see their types.  Raise ModelError if this runner is
        already running a graph, for example if such a function calls ``run``.
        """
        if self._is_running:
            raise ModelError("this interpreter is running a graph: use another one for a second run")
        self._is_running = True
        self._held_bytes = self._calls = self._depth = 0
        self._observe, self._on_value, self._on_graph = observe, on_value, on_graph
        self._before_op = before_op
        self._progress = progress()
        try:
            # overflow and NaN are ordinary results, as in other runtimes
            with (
                np.errstate(all="ignore"),
                following(self.kernels),
                limited_blas_threads(self._plan(graph).largest_macs),
            ):
                outputs = self._run(graph, inputs)
                # copy an output whose memory may belong to an input, a constant, the state or another output
                own = {id(x): x for x in outputs if x.flags.carray and x.flags.owndata}
                return [own.pop(id(x)) if id(x) in own else x.copy() for x in outputs]
        finally:
            self._observe = self._on_value = self._on_graph = self._before_op = None
            self._is_running = False

    def __call__(self, graph: Graph, inputs: Sequence[Array]) -> list[Array]:
        """Return the outputs of ``graph`` for an operator that calls it.

        Raise LimitError if a run makes too many calls, or nests them too deep.
        """
        self._calls += 1
        if self._calls > (limit := limits().calls):
            raise LimitError(f"operators called graphs {self._calls} times in one run, the limit is {limit}")
        if self._depth >= MAX_CALL_DEPTH:
            raise LimitError(
                f"graph {shown(graph.name)} is called at depth {self._depth}, which is the limit"
            )
        arrays = check_inputs(graph, inputs, is_called=True)
        depth, held_bytes = self._depth, self._held_bytes
        self._depth = depth + 1
        try:
            return self._run(graph, arrays)
        finally:  # the called graph holds no memory any more; ``_execute`` counts its outputs
            self._depth, self._held_bytes = depth, held_bytes

    def _plan(self, graph: Graph) -> ExecutionPlan:
        """Return the execution plan of ``graph``; make a new plan if the graph has changed."""
        plan = self._plans.get(graph)
        if plan is None or plan.epoch != graph.epoch:
            plan = self._plans[graph] = ExecutionPlan(graph, self.model)
        return plan

    def _run(self, graph: Graph, inputs: Sequence[Array]) -> list[Array]:
        """Return the outputs of ``graph``, which may share memory with inputs, constants and the state."""
        plan = self._plan(graph)
        environment: Environment = {}
        if self._on_graph is not None:
            self._on_graph(graph, inputs)
        for value, array in zip(graph.inputs, inputs, strict=True):
            environment[value] = array.view()
            environment[value].flags.writeable = False
            if self._on_value is not None:
                self._on_value(value.name, environment[value])
        for planned in plan.operators:
            results = self._execute(planned, plan, environment)
            if not self._depth:  # the total of the progress leaves out the operators of called graphs
                self._progress.advance(planned.work)
            if self._observe is not None:
                self._observe(planned.op, results)
            if self._on_value is not None:
                for value, array in zip(planned.op.results, results, strict=True):
                    self._on_value(value.name, array)
        return [self._read(value, plan, environment) for value in graph.outputs]

    def _execute(self, planned: PlannedOp, plan: ExecutionPlan, environment: Environment) -> Sequence[Array]:
        """Run one operator, store its results, release the values that no later operator uses."""
        op = planned.op
        try:
            operands = [None if v is None else self._read(v, plan, environment) for v in op.inputs]
            planned.memory.check(operands, self._held_bytes)
            if self._before_op is not None:
                self._before_op(op, operands)
            results = compute(op, operands + [None] * planned.absent, self, planned.fast_kernel)
        except CirclekitError as error:
            raise error.note(place(op, self.model)) from None
        for value, array in zip(op.results, results, strict=True):
            environment[value] = array
            self._held_bytes += _owned_bytes(array)
        for value in planned.released:
            released = environment.pop(value, None)
            if released is not None:
                self._held_bytes -= _owned_bytes(released)
        return results

    def _read(self, value: Value, plan: ExecutionPlan, environment: Environment) -> Array:
        """Return the array of ``value``, which was computed or is an input, a constant or a variable."""
        if (array := environment.get(value)) is not None:
            return array
        if value.data is not None:
            return plan.constant(value)
        if value.is_variable:
            return self.state.read(value)
        raise ModelError(f"%{value.name} is read before an operator computes it")


def _owned_bytes(array: Array) -> int:
    """Return the bytes of memory that ``array`` owns; 0 for a view."""
    return array.nbytes if array.base is None else 0
