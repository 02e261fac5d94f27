# SPDX-License-Identifier: Apache-2.0
"""Build random graphs whose operators run: each operator is run on example data when it is added.

Tests use the models: a pass must not change the outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

import numpy as np

from circlekit.errors import CirclekitError, UnsupportedError
from circlekit.interp.evaluate import evaluate
from circlekit.interp.graph_runner import GraphRunner
from circlekit.ir.dtypes import DType, boolean, f32, i32
from circlekit.ir.graph import Graph, Model
from circlekit.ir.op import Op, OpaqueOp
from circlekit.ir.shape_inference import check_op
from circlekit.ir.value import Array, Shape, Value
from circlekit.ir.verifier import op_faults
from circlekit.ops.movement.shape import Reshape
from circlekit.ops.program.state import State

UNKNOWN_SIZE = 3
"""The size that unknown dimensions have in the example data."""

MAX_MAGNITUDE = 50.0
"""Float results with a larger magnitude or NaN are rejected: rounding errors grow with the magnitude.

The limit does not apply if ``ModelBuilder.allow_extremes`` is true.
"""

MAX_ELEMENTS = 4096
"""Results with more elements are rejected, to keep models fast."""

RANDOM_OPERATORS = frozenset({"RANDOM_UNIFORM", "RANDOM_STANDARD_NORMAL", "MULTINOMIAL"})
"""Operators with random results are rejected, because two runs cannot be compared."""

INPUT_SHAPES: tuple[Shape, ...] = (
    (1, 4, 5, 3), (1, 3, 4, 4), (2, 3, 4, 5), (1, 4, 4, 4), (1, 1, 4, 6), (None, 4, 4, 3), (2, 4, 6), (4, 6),
    (1, 2, 3, 2, 2), (1, 4, 1, 4), (None, 6), (3, 3, 3, 3), (None, 3, 2, 4), (1, None, None, 4),
    (None, 4, None),
)  # fmt: skip
"""The shapes from which those of graph inputs are drawn; None: an unknown dimension."""

NOT_AN_OUTPUT = (DType.RESOURCE, DType.VARIANT, DType.STRING)
"""The dtypes of values that do not become outputs."""


class Rejected(Exception):
    """An operator cannot be added: it does not run on the existing values, or no value fits it."""


class ModelBuilder:
    """A graph under construction.

    ``random``: the generator for all random choices.
    ``pool``: the values that further operators may use.  ``arrays``: the example data of each value that is
    not constant.
    ``graphs``: the graphs that operators call.  ``constants``: all constants so far.
    ``state``: the contents of variables after the runs so far.
    ``allow_extremes``: whether floats may be huge, infinite or NaN.
    """

    def __init__(self, graph: Graph, arrays: Sequence[Array], random: np.random.Generator) -> None:
        self.graph = graph
        self.random = random
        self.pool: list[Value] = list(graph.inputs)
        self.arrays: dict[Value, Array] = dict(zip(graph.inputs, arrays, strict=True))
        self.graphs: list[Graph] = []
        self.constants: list[Value] = []
        self.state = State()
        self.allow_extremes = False

    @staticmethod
    def of_seed(seed: int) -> ModelBuilder:
        """Return a builder whose graph has random inputs and no operators; ``seed`` decides all choices."""
        random = np.random.default_rng(seed)
        count = 1 + int(random.integers(2))
        shapes = [INPUT_SHAPES[int(random.integers(len(INPUT_SHAPES)))] for _ in range(count)]
        inputs = [Value(f"x{i}", f32, shape) for i, shape in enumerate(shapes)]
        if random.random() < 0.5:
            inputs.append(Value("channels", f32, (int(random.integers(1, 5)),)))
        inputs += [Value("flag", boolean, (1,)), Value("numbers", i32, (2, 3))]
        arrays = [example(v.shape, v.dtype, random) for v in inputs]
        builder = ModelBuilder(Graph("main", inputs), arrays, random)
        builder.allow_extremes = seed % 8 == 0
        shared = Value.constant(builder.graph.unique_name("shared"), np.ones(4, np.float32))
        builder.constants.append(shared)
        return builder

    # -- choices -------------------------------------------------------------------------------

    def chance(self, probability: float) -> bool:
        """Return True with ``probability``, 0 to 1."""
        return bool(self.random.random() < probability)

    def below(self, n: int) -> int:
        """Return a random integer from 0 to ``n`` - 1."""
        return int(self.random.integers(n))

    def number(self, *numbers: float) -> float:
        """Return one of ``numbers`` at random."""
        return numbers[self.below(len(numbers))]

    def pick(self, fits: Callable[[Value], bool] = lambda v: True, dtype: DType = f32) -> Value:
        """Return a value of the pool with ``dtype``, without quantization, for which ``fits`` is true.

        Raise Rejected if there is none.
        """
        return self.pick_any(lambda v: v.dtype is dtype and v.quantization is None and fits(v))

    def pick_any(self, fits: Callable[[Value], bool]) -> Value:
        """Return a value of the pool for which ``fits`` is true, most often the newest one.

        Raise Rejected if there is none.
        """
        candidates = [v for v in self.pool if fits(v)]
        if not candidates:
            raise Rejected
        if self.chance(0.6):
            return candidates[-1]
        candidates = candidates[-6:] if self.chance(0.8) else candidates
        return candidates[self.below(len(candidates))]

    # -- values --------------------------------------------------------------------------------

    def shape(self, value: Value) -> tuple[int, ...]:
        """Return the shape of ``array(value)``, in which no dimension is unknown."""
        return self.array(value).shape

    def array(self, value: Value) -> Array:
        """Return the elements of a constant, or the example data of any other value."""
        return value.array() if value.is_const else self.arrays[value]

    def constant(self, array: object, name: str = "c", dtype: object = np.float32) -> Value:
        """Return a new constant with the elements ``array``, converted to the numpy dtype ``dtype``.

        Sometimes return an earlier float32 constant of the same shape instead, so that operators share it.
        """
        with np.errstate(all="ignore"):
            made = np.array(array, dtype)  # type: ignore[call-overload]  # any dtype that numpy takes
        if made.dtype == np.float32 and self.chance(0.1):
            for old in self.constants:
                if old.dtype is f32 and old.shape == made.shape:
                    return old
        value = Value.constant(self.graph.unique_name(name), made)
        self.constants.append(value)
        return value

    def ints(self, numbers: object, name: str = "i") -> Value:
        """Return a new int32 constant with the elements ``numbers``."""
        return self.constant(numbers, name, np.int32)

    def new_input(self, value: Value, array: Array) -> Value:
        """Make ``value`` an input of the graph under a new name; ``array``: its example data."""
        value.name = self.graph.unique_name(value.name or "x")
        self.graph.inputs = (*self.graph.inputs, value)
        self.arrays[value] = array
        return value

    # -- operators -----------------------------------------------------------------------------

    def add(self, op: Op, keep: bool = True) -> Value:
        """Append ``op`` as ``put`` does; return its first result."""
        self.put(op, keep)
        return op.output

    def put(self, op: Op, keep: bool = True) -> None:
        """Run ``op`` on the example data, and append it to the graph.  ``op`` may have no results.

        ``keep``: whether further operators may use its results.
        Raise Rejected if ``op`` is invalid, fails or is random, or if a result is empty, may have an unknown
        rank, or exceeds MAX_ELEMENTS or MAX_MAGNITUDE.  A rejected operator is in no graph, but stays among
        the users of its operands (see ``remove_rejected``).
        """
        try:
            # in the result of an opaque operator, the shape [] may stand for an unknown rank
            has_unknown_result = isinstance(op, OpaqueOp) and any(v.shape == () for v in op.results)
            if op.code in RANDOM_OPERATORS or has_unknown_result:
                raise Rejected
            with suppress(UnsupportedError):  # an opaque operator has no shape rule
                check_op(op)
            if list(op_faults(op, {id(graph) for graph in op.called_graphs()})):
                raise Rejected
            operands = [None if v is None else self.array(v) for v in op.inputs]
            with np.errstate(all="ignore"):
                results = evaluate(op, operands, GraphRunner(self.state))
        except CirclekitError as error:
            raise Rejected(str(error)) from None
        for array in results:
            if not 0 < array.size <= MAX_ELEMENTS:
                raise Rejected
            is_limited = array.dtype.kind == "f" and not self.allow_extremes
            if is_limited and not (np.abs(array) <= MAX_MAGNITUDE).all():
                raise Rejected
        self.graph.append(op)
        self.arrays.update(zip(op.results, results, strict=True))
        if keep:
            self.pool += op.results

    # -- the finished model --------------------------------------------------------------------

    def model(self) -> tuple[Model, list[Array]]:
        """Choose outputs; return (the model, the example data of its inputs).

        The model gets a format that has all its operators.
        """
        self.remove_rejected()
        self.graph.outputs = self._outputs()
        graphs = [self.graph, *self.graphs]
        needs_circle = any("tflite" not in op.formats for graph in graphs for op in graph)
        model = Model(graphs, format="circle" if needs_circle or self.chance(0.5) else "tflite")
        return model, [self.arrays[v] for v in self.graph.inputs]

    def remove_rejected(self) -> None:
        """Remove rejected operators, which are in no graph, from the users of the graph's values."""
        for value in (*self.arrays, *self.constants):
            for op, _ in value.uses:
                if op.graph is None:
                    op.drop_inputs()

    def _outputs(self) -> list[Value]:
        """Return random outputs: the newest result and some others.

        If there are no results, and rarely otherwise, a reshaped input is appended to the results, or the
        input itself if a RESHAPE cannot keep its shape.
        Sometimes one value is an output twice, or an input or a constant is an output.
        """
        results = [v for v in self.pool if v.producer is not None and v.dtype not in NOT_AN_OUTPUT]
        if not results or self.chance(0.05):
            x = self.graph.inputs[0]
            shape = [-1 if d is None else d for d in x.shape or ()]
            if shape.count(-1) < 2:  # RESHAPE can infer one dimension
                results.append(self.add(Reshape(x, self.ints(shape, "same"))))
            else:
                results.append(x)
        probability = 0.12 if self.chance(0.7) else 0.5
        outputs = [v for v in results[:-1] if self.chance(probability)] + [results[-1]]
        if self.chance(0.1):
            outputs.append(outputs[0])
        if self.chance(0.05):
            outputs.append(self.graph.inputs[0])
        if self.chance(0.03):
            outputs += [v for v in self.constants if v.use_count and v.dtype is f32][:1]
        self.random.shuffle(outputs)
        return outputs


def example(
    shape: Shape | None, dtype: DType, random: np.random.Generator, unknown: int = UNKNOWN_SIZE
) -> Array:
    """Return random data for an input with this shape and dtype.

    Some floats are points at which activations change their slope, such as 0 and 6.  ``unknown``: the size of
    unknown dimensions; an unknown rank counts as 0.
    """
    size = tuple(unknown if d is None else d for d in shape or ())
    assert dtype.numpy is not None
    if dtype.numpy.kind == "b":
        return np.asarray(random.integers(0, 2, size)).astype(bool)
    if dtype.numpy.kind in "iu":
        return np.asarray(random.integers(0, 5, size)).astype(dtype.numpy)
    edges = random.choice(np.array([0.0, 1.0, -1.0, 3.0, -3.0, 6.0, -0.0]), size)
    data = np.where(random.random(size) < 0.2, edges, random.normal(0, 1.5, size))
    return np.asarray(data).astype(dtype.numpy)


def graph_of(op: Op) -> Graph:
    """Return a graph that has only ``op``; its inputs are the operands except constants and variables.

    Operands without a name get one.
    """
    inputs: dict[Value, None] = {}
    for index, (operand, value) in enumerate(op.operand_items()):
        value.name = value.name or f"{operand}{index}"
        if not value.is_const and not value.is_variable:
            inputs[value] = None
    graph = Graph("main", tuple(inputs))
    graph.append(op)
    graph.outputs = op.results
    return graph
