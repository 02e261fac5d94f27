# SPDX-License-Identifier: Apache-2.0
"""Run graphs: operators in order, each by its kernel; values are freed after their last use."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from circlekit.errors import CirclekitError, LimitError, ModelError
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
"""Called with every operator and its results, in execution order; must not change the arrays."""

BeforeOp = Callable[[Op, Sequence[Array | None]], None]
"""Called with every operator and its operands, None for an absent one, before it runs."""

OnValue = Callable[[str, Array], None]
"""Called with name and array of every graph input and every result; must not change the array."""

OnGraph = Callable[[Graph, Sequence[Array]], None]
"""Called with every graph that begins to run and its inputs; must not change the arrays."""

Environment = dict[Value, Array]
"""The values of a running graph that exist at the moment: inputs and results, not constants."""


class GraphRunner:
    """Runs graphs that share one state; operators call it to run other graphs.

    ``model``: the model of the graphs, which errors name.  ``kernels``: the kernels of LiteRT whose results
    to reproduce.
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
        # bytes of results not yet released; graph calls so far; graph calls that have not returned
        self._held_bytes = self._calls = self._depth = 0

    def run(
        self,
        graph: Graph,
        inputs: Sequence[Array],
        observe: Observe | None = None,
        on_value: OnValue | None = None,
        on_graph: OnGraph | None = None,
        before_op: BeforeOp | None = None,
    ) -> list[Array]:
        """Return the outputs of ``graph`` as arrays that share no memory with anything else.

        ``inputs``: arrays for all inputs, in order, as ``check_inputs`` returns them.
        """
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
                # a copy where the memory may belong to an input, a constant or the state
                return [x if x.flags.carray and x.flags.owndata else x.copy() for x in outputs]
        finally:
            self._observe = self._on_value = self._on_graph = self._before_op = None

    def __call__(self, graph: Graph, inputs: Sequence[Array]) -> list[Array]:
        """Return the outputs of a graph that an operator calls; raise LimitError for too many calls."""
        self._calls += 1
        if self._calls > (limit := limits().calls):
            raise LimitError(f"operators called graphs {self._calls} times in one run, the limit is {limit}")
        if self._depth >= MAX_CALL_DEPTH:
            raise LimitError(f"graph {graph.name} is called at depth {self._depth}, which is the limit")
        arrays = check_inputs(graph, inputs)
        depth, held_bytes = self._depth, self._held_bytes
        self._depth = depth + 1
        try:
            return self._run(graph, arrays)
        finally:
            self._depth, self._held_bytes = depth, held_bytes

    def _plan(self, graph: Graph) -> ExecutionPlan:
        """Return the plan of ``graph`` as it is now."""
        plan = self._plans.get(graph)
        if plan is None or plan.epoch != graph.epoch:
            plan = self._plans[graph] = ExecutionPlan(graph)
        return plan

    def _run(self, graph: Graph, inputs: Sequence[Array]) -> list[Array]:
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
            if not self._depth:
                self._progress.advance(planned.work)
            if self._observe is not None:
                self._observe(planned.op, results)
            if self._on_value is not None:
                for value, array in zip(planned.op.results, results, strict=True):
                    self._on_value(value.name, array)
        return [self._read(value, plan, environment) for value in graph.outputs]

    def _execute(self, planned: PlannedOp, plan: ExecutionPlan, environment: Environment) -> Sequence[Array]:
        """Compute one operator, store its results, and release the values that it is the last to read."""
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
        if (array := environment.get(value)) is not None:
            return array
        if value.data is not None:
            return plan.constant(value)
        if value.is_variable:
            return self.state.read(value)
        raise ModelError(f"%{value.name} is read before an operator computes it")


def _owned_bytes(array: Array) -> int:
    """Return the bytes of the array's own memory; 0 for a view."""
    return array.nbytes if array.base is None else 0
