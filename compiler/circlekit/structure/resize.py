# SPDX-License-Identifier: Apache-2.0
"""Give the inputs of a model other shapes; update the results' shapes and the constants that state shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

import numpy as np

from circlekit.errors import CirclekitError, ShapeError, UnsupportedError, counted, shown
from circlekit.ir.clone import clone
from circlekit.ir.graph import Graph, Model
from circlekit.ir.location import place
from circlekit.ir.op import Op, OpaqueOp
from circlekit.ir.shape_inference import result_types
from circlekit.ir.value import Array, Shape, Value, format_shape
from circlekit.ops.dimensions import shapes_differ
from circlekit.ops.program.control import While
from circlekit.structure.input_shapes import Shapes, shapes_by_input
from circlekit.structure.known_integers import KnownIntegers
from circlekit.structure.variable_shapes import Contents, assigned_shapes, joined, variables

PROBE_FACTOR = 3
"""In trials of ``_changes_leading_ones``, an unknown dimension gets this many times its former size."""

UNKNOWN_SIZES = (1, 7)
"""Two sizes of an unknown dimension; a shape that is the same for both does not depend on it.

The second one is above the axes and dimensions of most tensors: as an index, it fits none of these.
"""


def resize(model: Model, shapes: Shapes) -> Model:
    """Return a copy of ``model`` whose inputs have ``shapes``.

    The shapes of all results are inferred, also in graphs that operators call.  Constants that state a shape
    (of RESHAPE, TRANSPOSE_CONV, SLICE and others) change with the shape of the operand.  Integers that the
    model computes from shapes are computed again, up to ``known_integers.MAX_KNOWN_ELEMENTS`` in a result;
    shapes that depend on longer results become unknown.
    Raise ModelError if ``shapes`` is not a collection, for a wrong number of shapes, or for an unknown name.
    Raise ShapeError

    - for a shape that is not a list of valid dimensions, or has too many of them,
    - for an input or a result whose quantization does not fit its new shape,
    - if operators that call the same graph would give it different shapes,
    - if the operands of an operator do not fit any more; the error says where the operator is.
    """
    wanted = shapes_by_input(model.main, shapes)
    return _resized(model, wanted, _changes_leading_ones(model, wanted))


def _resized(model: Model, shapes: Sequence[Shape | None], outer: bool) -> Model:
    """Return a copy of ``model`` whose inputs have ``shapes``.

    The contents of a resource variable may get another shape, which may depend on the former contents.  Then
    a trial with unknown dimensions of these contents infers the shapes of the assigned values, and
    READ_VARIABLE gets these shapes.  If the assigned values then have other shapes, READ_VARIABLE gets an
    unknown rank.
    ``outer``: see ``_changes_leading_ones``.
    """

    def trial(contents: Contents) -> Model:
        copy = clone(model)
        _Resizer(copy, outer, contents).graph(copy.main, shapes)
        return copy

    before = assigned_shapes(model)
    changed = list(before)
    with suppress(*([ShapeError] if before else ())):  # the former shapes of the variables may not fit
        copy = trial({})
        after = assigned_shapes(copy)
        changed = [v for v in before if after[v] != before[v]]
        if not changed:
            return copy
    former = {v: joined(before[v]) for v in changed}
    inferred = assigned_shapes(trial({v: s and (None,) * len(s) for v, s in former.items()}))
    contents = {v: joined(inferred[v]) for v in changed}
    copy = trial(contents)
    after = assigned_shapes(copy)
    is_settled = all(joined(after[v]) == shape for v, shape in contents.items())
    return copy if is_settled else trial(dict.fromkeys(changed))  # unknown ranks fit everything


def _changes_leading_ones(model: Model, shapes: Sequence[Shape | None]) -> bool:
    """Return whether the operators fit only if a 1 at the beginning of constant shapes changes, too.

    Such a 1 may stand for the batch; it then changes with the first dimension of an operand (``outer`` of
    ``Op.for_new_shapes``).  To find out, the model is resized without and then with such changes.  If both
    trials fail, the result is False.
    In these trials, inputs that keep their rank have no unknown dimensions, because these fit everything.
    """
    probe = [
        shape if v.shape is None or shape is None or len(shape) != len(v.shape) else _probe(v.shape, shape)
        for v, shape in zip(model.main.inputs, shapes, strict=True)
    ]
    for outer in (False, True):
        with suppress(CirclekitError):
            _resized(model, probe, outer)
            return outer
    return False


def _probe(before: Shape, after: Shape) -> Shape:
    """Return ``after`` with known sizes: an unknown size becomes PROBE_FACTOR times the size in ``before``.

    A size of ``before`` that is 0 or unknown counts as 1.
    """
    return tuple(PROBE_FACTOR * (a or 1) if b is None else b for a, b in zip(before, after, strict=True))


class _Resizer:
    """Infers the shapes of ``model`` operator by operator, and writes them into it.

    ``outer``: see ``_changes_leading_ones``.
    ``read``: for each operator that reads or assigns a variable in ``contents``, the new shape of that
    variable.  READ_VARIABLE has a result of this shape.
    ``old``: the former shape of each value that has a new shape.
    ``integers``: the elements of results that are known before a run.
    ``done``: for each graph that was visited, the shapes of its inputs.  ``visited``: the operators so far.
    """

    def __init__(self, model: Model, outer: bool, contents: Contents) -> None:
        """Make a resizer.  ``contents``: the new shapes of variables."""
        self.model = model
        self.outer = outer
        self.read = {op: contents[v] for op, v in variables(model).items() if v in contents}
        self.old: dict[Value, Shape | None] = {}
        self.integers = KnownIntegers()
        self.done: dict[Graph, list[Shape | None]] = {}
        self.visited: set[Op] = set()

    def graph(self, graph: Graph, shapes: Sequence[Shape | None]) -> None:
        """Set the shapes of the inputs of ``graph``, and infer the shapes of all its results.

        Raise ShapeError if the operands of an operator do not fit, or if the graph is called with different
        shapes.
        """
        if graph in self.done:
            if self.done[graph] != list(shapes):
                raise ShapeError(
                    f"graph {shown(graph.name)} is called with different shapes: expected equal ones"
                )
            return
        self.done[graph] = list(shapes)
        for value, shape in zip(graph.inputs, shapes, strict=True):
            self._set(value, shape)
        for op in graph:
            self._infer_placed(op)
            self.visited.add(op)
        # ``_set`` does not count as a change of the graph by itself
        graph.epoch += 1

    def _infer_placed(self, op: Op) -> None:
        """Infer the shapes of the results of ``op``; an error says where ``op`` is in the model."""
        try:
            self._infer(op)
        except CirclekitError as error:
            raise error if error.where else error.note(place(op, self.model)) from None

    def _set(self, value: Value, shape: Shape | None) -> None:
        """Set the shape of ``value``; raise ShapeError if its quantization does not fit."""
        if shape != value.shape:
            self.old.setdefault(value, value.shape)
            misfit = value.quantization.misfit(shape) if value.quantization is not None else None
            if misfit is not None:
                raise ShapeError(f"%{value.name} cannot have shape {format_shape(shape)}: {misfit}")
            value.shape = shape

    def _infer(self, op: Op) -> None:
        """Infer the shapes of the results of ``op`` if an operand has a new shape or known elements.

        Graphs that ``op`` calls with its operands are visited first.  If an output of such a graph changes,
        the shapes of the results are inferred, too.
        """
        if op in self.read and op.results:
            self._set(op.results[0], self.read[op])
        has_changed = any(v in self.old or v in self.integers.known for v in op.inputs if v is not None)
        for called in op.called_graphs():
            operands = [v for v in op.inputs if v is not None]
            count = len(called.inputs)
            arguments = operands[-count:] if count else []  # the last ones: IF has a condition before them
            if isinstance(op, OpaqueOp) and not self._had_equal_shapes(called.inputs, arguments):
                continue  # it calls the graph with other values, as a reduction does with single elements
            if len(arguments) != count:
                expected = f"graph {shown(called.name)}: expected {counted(count, 'operand')}"
                raise ShapeError(f"{expected}, got {len(arguments)}")
            self.graph(called, [self._passed(a, v) for a, v in zip(arguments, called.inputs, strict=True)])
            has_changed |= any(v in self.old for v in called.outputs)
        if isinstance(op, While):
            self._check_loop(op)
        if has_changed:
            self._follow(op)
            self._set_results(op)
        self.integers.compute(op)

    def _passed(self, argument: Value, value: Value) -> Shape | None:
        """Return the new shape of ``value``, an input of a called graph that gets ``argument``.

        A dimension that was known for ``argument`` but not for ``value`` stays unknown, because it may change
        in the rounds of a loop.
        """
        before, after, stated = self.old.get(argument, argument.shape), argument.shape, value.shape
        if value in self.old or before is None or after is None or len(before) != len(after):
            return after
        if stated is None or len(stated) != len(after):
            return stated
        return tuple(
            None if a is not None and b is None else d for a, b, d in zip(before, stated, after, strict=True)
        )

    def _check_loop(self, op: While) -> None:
        """Raise ShapeError if an output of the body has a new shape that does not fit the next round."""
        # not strict: the shape rule compares the numbers of inputs and outputs
        for value, output in zip(op.body.inputs, op.body.outputs, strict=False):
            if (value in self.old or output in self.old) and shapes_differ(output.shape, value.shape):
                raise ShapeError(
                    f"%{value.name} of the loop {op.body.name} has shape {format_shape(value.shape)}, but the"
                    f" next round would get %{output.name} of shape {format_shape(output.shape)}"
                )

    def _had_equal_shapes(self, inputs: Sequence[Value], arguments: Sequence[Value]) -> bool:
        """Return whether the former shapes of ``inputs`` are those of ``arguments``."""
        first, second = ([self.old.get(v, v.shape) for v in values] for values in (inputs, arguments))
        return first == second

    def _follow(self, op: Op) -> None:
        """Change the constants, attributes and variables of ``op`` that state shapes to fit the new ones."""
        named = dict(op.operand_items())
        old = {name: self.old.get(v, v.shape) for name, v in named.items()}
        old["output"] = op.results[0].shape if op.results else None
        changes = op.for_new_shapes(old, self.outer)
        for name, content in changes.items():
            if name not in named:  # an attribute
                if getattr(op, name) != content:
                    setattr(op, name, content)
                continue
            value = named[name]
            if value.is_variable:
                self._set_variable(value, content)
                continue
            data = np.array(content, value.dtype.numpy)
            if not np.array_equal(data, value.array()):
                assert op.graph is not None  # it is in the graph that is resized
                fresh = Value.constant(op.graph.unique_name(value.name), data, value.quantization)
                setattr(op, name, fresh)

    def _set_variable(self, value: Value, shape: Shape) -> None:
        """Set the shape of a variable; raise ShapeError if operators have read it in its former shape."""
        early = next((user for user in value.users if user in self.visited), None)
        if early is not None and shape != value.shape:
            raise ShapeError(
                f"variable %{value.name} would get shape {format_shape(shape)}, but {early!r} reads it before"
            )
        self._set(value, shape)

    def _set_results(self, op: Op) -> None:
        """Set the shapes of the results of ``op``.

        The shape rule uses the known integers.  It is asked with each of UNKNOWN_SIZES in place of unknown
        dimensions among them; where the two results differ, the dimension is unknown.  If the rule fails for
        one of these sizes, it is asked without the elements of operands that have unknown dimensions.
        """
        known = {v: self.integers.known[v] for v in op.inputs if v is not None and v in self.integers.known}
        whole = {v: data for v, data in known.items() if v not in self.integers.partial}
        if len(whole) == len(known):
            shapes = self._inferred(op, known)
        else:
            try:
                trials = [self._inferred(op, self._filled(known, size)) for size in UNKNOWN_SIZES]
                shapes = list(map(joined, zip(*trials, strict=True)))
            except ShapeError:
                shapes = self._inferred(op, whole)
        for value, shape in zip(op.results, shapes, strict=True):
            self._set(value, shape)

    def _filled(self, known: Mapping[Value, Array], size: int) -> dict[Value, Array]:
        """Return ``known`` with ``size`` in place of each -1 that may stand for an unknown dimension."""
        return {
            v: np.where(data == -1, np.array(size, data.dtype), data) if v in self.integers.partial else data
            for v, data in known.items()
        }

    def _inferred(self, op: Op, known: Mapping[Value, Array]) -> list[Shape | None]:
        """Return the shapes of the results of ``op``, whose operands in ``known`` have these elements.

        If ``op`` has no shape rule, all dimensions are unknown.
        """
        for value, data in known.items():
            value.data = data  # until the shape rule has read it
        try:
            return [t.shape for t in result_types(op)]
        except UnsupportedError:  # no shape rule
            return [None if v.shape is None else (None,) * len(v.shape) for v in op.results]
        finally:
            for value in known:
                value.data = None
