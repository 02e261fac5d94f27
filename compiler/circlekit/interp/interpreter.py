# SPDX-License-Identifier: Apache-2.0
"""Runs one model again and again: graphs become plans once, a value is freed after its last use."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np

from circlekit.errors import CirclekitError, LimitError, ModelError, ShapeError
from circlekit.interp.blas import LARGE, TINY, few_threads
from circlekit.interp.evaluate import check_type
from circlekit.interp.kernels import kernels_of
from circlekit.interp.plan import Plan, known_bytes
from circlekit.interp.recorder import Recorder
from circlekit.interp.track import Entry, read
from circlekit.ir.graph import Graph, Model
from circlekit.ir.location import place
from circlekit.ir.op import Op
from circlekit.ir.resource_limits import DEPTH, limits
from circlekit.ir.value import Array, Value, format_shape
from circlekit.ops.numerics.kernel_flavor import Kernels, following
from circlekit.ops.once import Kept, keeping
from circlekit.ops.program.state import State

Observe = Callable[[Op, Sequence[Array]], None]
"""Is told every operator and its results, in the order of the run; must not change them."""

OnValue = Callable[[str, Array], None]
"""Is told the name and the elements of every input and every result; must not change them."""

Inputs = Sequence[Array] | Mapping[str, Array]
"""Arrays in a graph's order, or by name."""

SHARE = 1.5
"""What is prepared, and scratch, in parts of the constants and the values that live at once."""

BUFFER = 1 << 9
"""Elements that numpy's functions convert, or repeat, at a time.  By itself it takes 8192 of each operand."""

LEAST = 1 << 14
"""What is prepared, and scratch, may take so many bytes, however small the model is."""


LIMITED = (np.dtype(np.float32), np.dtype(np.float64))
REACH = 2.0**40
SQUARES = REACH**2
"""Recorded runs are for inputs whose sum of squares is at most the square of REACH; NaN is none of them."""


class Interpreter:
    """Runs one model; each thread needs one of its own.

    The first run records the calls of all kernels for the shapes of its inputs, with what follows from the
    constants; later runs of these shapes repeat the calls.  Runs that are observed compute every operator
    by itself, and so does the first run of other shapes.

    ``state``: variables and tables, which one run leaves to the next.  The model must not change meanwhile:
    operators that come and go are noticed, new contents of a constant are not.

    ``kernels``: those of LiteRT's whose integers are wanted; by default what ``kernels_of`` says.
    """

    def __init__(self, model: Model, kernels: Kernels | None = None) -> None:
        self.model = model
        self.state = State()
        constants = {
            id(v.data): v.data.nbytes for g in model.graphs for v in g.values() if v.data is not None
        }
        self._constants = sum(constants.values())
        kept = Kept(max(self._constants, LEAST))
        self._runner = Runner(self.state, model, kept, kernels_of(model, kernels))
        self._recordings: dict[int, Recording] = {}
        self._shapes: dict[int, list[tuple[int, ...]]] = {}

    def reset(self) -> None:
        """Forget the state: the next run is like the first."""
        self.state = self._runner.state = State()

    def run(
        self,
        inputs: Inputs,
        graph: int = 0,
        observe: Observe | None = None,
        on_value: OnValue | None = None,
    ) -> list[Array]:
        """Outputs of graph number ``graph``, in its order; they share no memory with inputs or constants.

        ShapeError where ``inputs`` do not fit the graph, with the name of the input and what is wanted.
        """
        arrays = fitting(self.model, graph, inputs)
        if observe is None and on_value is None:
            recording = self._recording(graph, arrays)
            outputs = None if recording is None else recording.run(arrays)
            if outputs is not None:
                return outputs
        return self._runner.observed(self.model.graphs[graph], arrays, observe, on_value)

    def _recording(self, graph: int, arrays: Sequence[Array]) -> Recording | None:
        """What runs such ``arrays`` without looking at operators; None where the runner has to."""
        recording = self._recordings.get(graph)
        if recording is not None and recording.fits(arrays):
            return None if recording.running else recording
        shapes = [a.shape for a in arrays]
        again, self._shapes[graph] = self._shapes.get(graph) == shapes, shapes
        if recording is not None and not again and recording.is_current():
            return None  # shapes may change with every run
        self._recordings.pop(graph, None)
        try:
            recording = Recording(self._runner, self.model.graphs[graph], arrays, self._constants)
        except LimitError:  # all branches together are too large: the runner makes one after the other
            return None
        self._recordings[graph] = recording
        return recording


def fitting(model: Model, graph: int, inputs: Inputs) -> list[Array]:
    """``inputs`` as arrays in the order of graph number ``graph``, which takes them."""
    if not 0 <= graph < len(model.graphs):
        raise ModelError(f"there is no graph {graph}, the model has {len(model.graphs)}")
    try:
        return checked(model.graphs[graph], in_order(model.graphs[graph], inputs))
    except CirclekitError as error:
        if model.source is not None:
            error.note(f"in {model.source}")
        raise


class Runner:
    """Runs graphs that share one state.  ``model``: theirs, for the places of errors.

    ``held``: bytes of the values that are alive in this run; ``calls``: graphs that operators have run in
    it; ``depth``: of those that are running now.
    """

    def __init__(
        self,
        state: State,
        model: Model | None = None,
        kept: Kept | None = None,
        kernels: Kernels = Kernels.REFERENCE,
    ) -> None:
        self.state = state
        self.model = model
        self.kept = kept
        self.kernels = kernels
        self.observe: Observe | None = None
        self.on_value: OnValue | None = None
        self.plans: dict[Graph, Plan] = {}
        self.held = 0
        self.calls = 0
        self.depth = 0

    def __call__(self, graph: Graph, inputs: Sequence[Array]) -> list[Array]:
        """Outputs of a graph that an operator calls; LimitError for one call too many."""
        self.count()
        if self.depth >= DEPTH:
            raise LimitError(
                f"graph {graph.name} is called by {self.depth} graphs in a row, that is the limit"
            )
        arrays, held = checked(graph, inputs), self.held
        self.depth += 1
        try:
            return self._run(graph, arrays)
        finally:
            self.depth -= 1
            self.held = held

    def count(self) -> None:
        """An operator runs a graph: LimitError where that is one too many."""
        self.calls += 1
        if self.calls > limits().calls:
            raise LimitError(f"the graphs that operators run are {self.calls}, the limit is {limits().calls}")

    def run(self, graph: Graph, arrays: Sequence[Array]) -> list[Array]:
        """Outputs of ``graph``; ``arrays`` fit it."""
        self.held = self.calls = self.depth = 0
        # infinities and NaN are values like others, as in the runtimes
        with (
            np.errstate(all="ignore"),
            keeping(self.kept),
            following(self.kernels),
            few_threads(self.plan(graph).macs),
        ):
            return [_own(x) for x in self._run(graph, arrays)]

    def observed(
        self, graph: Graph, arrays: Sequence[Array], observe: Observe | None, on_value: OnValue | None
    ) -> list[Array]:
        """``run``, of which ``observe`` and ``on_value`` are told."""
        self.observe, self.on_value = observe, on_value
        try:
            return self.run(graph, arrays)
        finally:
            self.observe = self.on_value = None

    def plan(self, graph: Graph) -> Plan:
        """The plan of ``graph`` as it is now."""
        plan = self.plans.get(graph)
        if plan is None or plan.epoch != graph.epoch:
            plan = self.plans[graph] = Plan(graph)
        return plan

    def _run(self, graph: Graph, arrays: Sequence[Array]) -> list[Array]:
        plan = self.plan(graph)
        slots = plan.slots.copy()
        for index, array in enumerate(arrays):
            slots[index] = _frozen(array)
            if self.on_value is not None:
                self.on_value(graph.inputs[index].name, slots[index])
        for step in plan.steps:
            try:
                results = step.compute(slots, self)
            except CirclekitError as error:
                raise error.note(place(step.op, self.model)) from None
            if self.observe is not None or self.on_value is not None:
                self._tell(step.op, results)
        return plan.outputs(slots, self.state)

    def _tell(self, op: Op, results: Sequence[Array]) -> None:
        if self.observe is not None:
            self.observe(op, results)
        if self.on_value is not None:
            for value, array in zip(op.results, results, strict=True):
                self.on_value(value.name, array)


class Recording:
    """The calls of one graph for inputs of certain shapes, and what follows from ``constants`` bytes of such.

    All of it is to be less than three times the constants and the values that live at once: what those and
    the outputs leave is for what is prepared, and for scratch.

    It holds for floats of magnitudes that a sum of squares tells to be below ``REACH``.
    """

    def __init__(self, runner: Runner, graph: Graph, arrays: Sequence[Array], constants: int) -> None:
        self.runner = runner
        self.running = False
        plan = runner.plan(graph)
        values = plan.most()
        beside = sum(known_bytes(v) for v in graph.outputs)
        room = max(int(SHARE * (constants + values)) - beside, LEAST)
        with np.errstate(all="ignore"), small_buffers(), following(runner.kernels):
            recorder = self._recorded(graph, arrays, values, room)
            if recorder.beyond > 0:  # what is held was not known when it was said what can be worked in
                room -= recorder.beyond
                del recorder, self.inputs, self.outputs
                recorder = self._recorded(graph, arrays, values, max(room, LEAST))
        self.kept = recorder.kept
        self.kept.limit -= recorder.space.size
        self.macs = runner.plan(graph).macs
        self.is_plain = not (recorder.has_general or recorder.has_work or TINY < self.macs < LARGE)
        self.track, self.graphs = recorder.track, list(recorder.seen.items())
        self.shapes = [a.shape for a in self.inputs]
        self.floats = [a.reshape(-1) for a in self.inputs if a.dtype in LIMITED]

    def _recorded(self, graph: Graph, arrays: Sequence[Array], values: int, room: int) -> Recorder:
        """With ``values`` bytes for values, and ``room`` for what is kept and for scratch."""
        recorder = Recorder(self.runner.model, self.runner.plan, self.runner, Kept(room))
        recorder.reserve(values)
        self.inputs = [recorder.input(a, REACH) for a in arrays]
        self.outputs = recorder.record(graph, self.inputs)
        return recorder

    def is_current(self) -> bool:
        """Whether the graphs are what they were."""
        for graph, epoch in self.graphs:  # noqa: SIM110  # all() takes longer than the loop
            if graph.epoch != epoch:
                return False
        return True

    def fits(self, arrays: Sequence[Array]) -> bool:
        return [a.shape for a in arrays] == self.shapes and self.is_current()

    def run(self, arrays: Sequence[Array]) -> list[Array] | None:
        """Outputs of the graph; ``arrays`` fit.  None where it does not hold for them."""
        self.running = True
        self.runner.held = self.runner.calls = self.runner.depth = 0
        try:
            with np.errstate(all="ignore"):
                if self.is_plain:
                    return self._play(arrays)
                with (
                    small_buffers(),
                    keeping(self.kept),
                    following(self.runner.kernels),
                    few_threads(self.macs),
                ):
                    return self._play(arrays)
        finally:
            self.running = False

    def _play(self, arrays: Sequence[Array]) -> list[Array] | None:
        for target, array in zip(self.inputs, arrays, strict=True):
            target[...] = array
        for flat in self.floats:
            if not flat.dot(flat) <= SQUARES:
                return None
        self.track()
        return [_copy(entry, self.runner) for entry in self.outputs]


@contextmanager
def small_buffers() -> Iterator[None]:
    """Within, numpy's functions work in small buffers."""
    before = np.setbufsize(BUFFER)
    try:
        yield
    finally:
        np.setbufsize(before)


def _copy(entry: Entry, runner: Runner) -> Array:
    array = entry if isinstance(entry, np.ndarray) else read(entry, runner)
    assert array is not None  # a graph has no absent outputs
    copy: Array = array.copy()
    return copy


# -- inputs and outputs ------------------------------------------------------------------------


def in_order(graph: Graph, inputs: Inputs) -> Sequence[Array]:
    """``inputs`` in the graph's order; ShapeError where one is missing, or none of the graph's."""
    if not isinstance(inputs, Mapping):
        return inputs
    wanted = {v.name: v for v in graph.inputs}
    missing = [v for name, v in wanted.items() if name not in inputs]
    extra = [name for name in inputs if name not in wanted]
    if missing:
        given = f"; %{extra[0]} is no input of graph {graph.name}" if extra else ""
        raise ShapeError(f"input {_declared(missing[0])} is missing{given}")
    if extra:
        listed = ", ".join(_declared(v) for v in graph.inputs) or "none"
        raise ShapeError(f"%{extra[0]} is no input of graph {graph.name}, its inputs are {listed}")
    return [inputs[name] for name in wanted]


def checked(graph: Graph, inputs: Sequence[Array]) -> list[Array]:
    """``inputs`` as arrays; ShapeError where ``graph`` does not take them."""
    arrays = [np.asarray(x) for x in inputs]
    if len(arrays) != len(graph.inputs):
        listed = ", ".join(_declared(v) for v in graph.inputs) or "none"
        less = len(arrays) < len(graph.inputs)
        which = f"input {_declared(graph.inputs[len(arrays)])} is missing: " if less else ""
        found = f"graph {graph.name} got {len(arrays)} inputs, it has {len(graph.inputs)}: {listed}"
        raise ShapeError(which + found)
    for value, array in zip(graph.inputs, arrays, strict=True):
        check_type(value, array, "given")
    return arrays


def _declared(value: Value) -> str:
    return f"%{value.name} ({value.dtype.short}{format_shape(value.shape)})"


def _own(array: Array) -> Array:
    flags = array.flags
    return array if flags.owndata and flags.writeable and flags.c_contiguous else array.copy()


def _frozen(array: Array) -> Array:
    """A view that no kernel can write into."""
    view: Array = array.view()
    view.flags.writeable = False
    return view
