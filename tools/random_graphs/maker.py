# SPDX-License-Identifier: Apache-2.0
"""Makes graphs step by step; every operator is run at once, so that only models that run come out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

import numpy as np

from circlekit.errors import CirclekitError, UnsupportedError
from circlekit.interp.evaluate import evaluate
from circlekit.interp.graph_runner import GraphRunner
from circlekit.ir.dtypes import DType, f32
from circlekit.ir.graph import Graph
from circlekit.ir.op import Op, OpaqueOp
from circlekit.ir.value import Array, Shape, Value
from circlekit.ir.verifier_rules import op_faults
from circlekit.ops.program.state import State

BATCH = 3
"""The size of unknown dimensions in the run that goes along."""

LARGEST = 50.0
"""Values beyond this magnitude are not made: rounding errors would grow with them."""

MOST_ELEMENTS = 4096


RESTLESS = frozenset({"RANDOM_UNIFORM", "RANDOM_STANDARD_NORMAL", "MULTINOMIAL"})
"""Operators whose results depend on the runs before."""


class Reject(Exception):
    """The step has nothing to work on."""


class Maker:
    """A graph that grows.

    ``pool``: values that further operators may read.  ``arrays``: what the values are in the run that goes
    along with the making.  ``random``: the source of all choices of the present step.  ``wild``: numbers of
    any size may come out, infinities and NaN too.
    """

    def __init__(self, graph: Graph, arrays: Sequence[Array], random: np.random.Generator) -> None:
        self.graph = graph
        self.random = random
        self.pool: list[Value] = list(graph.inputs)
        self.arrays: dict[Value, Array] = dict(zip(graph.inputs, arrays, strict=True))
        self.graphs: list[Graph] = []
        self.constants: list[Value] = []
        self.state = State()
        self.wild = False

    # -- choices -------------------------------------------------------------------------------

    def chance(self, probability: float) -> bool:
        return bool(self.random.random() < probability)

    def below(self, n: int) -> int:
        return int(self.random.integers(n))

    def choose(self, *things: object) -> object:
        return things[self.below(len(things))]

    def number(self, *numbers: float) -> float:
        return numbers[self.below(len(numbers))]

    def pick(self, fits: Callable[[Value], bool] = lambda v: True, dtype: DType = f32) -> Value:
        """A value of the pool, mostly one of the newest."""
        found = [v for v in self.pool if v.dtype is dtype and v.quantization is None and fits(v)]
        if not found:
            raise Reject
        if self.chance(0.6):
            return found[-1]
        return (
            found[-1 - self.below(min(len(found), 6))] if self.chance(0.8) else found[self.below(len(found))]
        )

    def of_rank(self, *ranks: int) -> Value:
        return self.pick(lambda v: len(self.shape(v)) in ranks)

    def of_shape(self, shape: tuple[int, ...]) -> Value:
        return self.pick(lambda v: self.shape(v) == shape)

    # -- what is there -------------------------------------------------------------------------

    def shape(self, value: Value) -> tuple[int, ...]:
        """The shape in the run that goes along."""
        return self.array(value).shape

    def array(self, value: Value) -> Array:
        return value.array() if value.is_const else self.arrays[value]

    def target(self, value: Value, shape: Sequence[int]) -> list[int]:
        """``shape`` as a Reshape wants it: where ``value`` has an unknown dimension, one is -1."""
        wanted = [int(d) for d in shape]
        if not value.is_static:
            if BATCH not in wanted:
                raise Reject
            wanted[wanted.index(BATCH)] = -1
        return wanted

    # -- making --------------------------------------------------------------------------------

    def constant(self, array: object, name: str = "c", dtype: object = np.float32) -> Value:
        """A constant; sometimes one that is there already and equal in shape, shared between readers."""
        made = np.array(array, dtype)  # type: ignore[call-overload]  # any dtype that numpy takes
        if made.dtype == np.float32 and self.chance(0.1):
            for old in self.constants:
                if old.dtype is f32 and old.shape == made.shape:
                    return old
        value = Value.constant(self.graph.unique_name(name), made)
        self.constants.append(value)
        return value

    def ints(self, numbers: object, name: str = "i") -> Value:
        return self.constant(numbers, name, np.int32)

    def normal(self, shape: Sequence[int], name: str = "c", spread: float = 1.0) -> Value:
        return self.constant(self.random.normal(0, spread, tuple(shape)), name)

    def add(self, op: Op, keep: bool = True) -> Value:
        """Put ``op`` at the end if it can run and gives numbers of a moderate size; returns its result."""
        self.put(op, keep)
        return op.output

    def put(self, op: Op, keep: bool = True) -> None:
        """``add`` for an operator that may have no result."""
        try:
            check_op(op)
            operands = [None if v is None else self.array(v) for v in op.inputs]
            results = evaluate(op, operands, GraphRunner(self.state))
        except CirclekitError as error:
            raise Reject(str(error)) from None
        if any(self.is_bad(array) for array in results):
            raise Reject
        self.graph.append(op)
        self.arrays.update(zip(op.results, results, strict=True))
        if keep:
            self.pool += op.results

    def is_bad(self, array: Array) -> bool:
        """Whether a result makes no good test: empty, large, or of numbers that are."""
        if not 0 < array.size <= MOST_ELEMENTS:
            return True
        return bool(not self.wild and array.dtype.kind == "f" and not (np.abs(array) <= LARGEST).all())

    def new_input(self, value: Value, array: Array) -> Value:
        """Make ``value``, which gets a name of its own, an input of the graph; ``array``: what it is now."""
        value.name = self.graph.unique_name(value.name or "x")
        self.graph.inputs = (*self.graph.inputs, value)
        self.arrays[value] = array
        return value

    def forget_strays(self) -> None:
        """Take the operators that did not get into the graph from the uses of its values."""
        for value in (*self.arrays, *self.constants):
            for op, _ in value.uses:
                if op.graph is None:
                    op.drop_inputs()


def check_op(op: Op) -> None:
    """Reject, or the operator's own error, where it does not fit what it reads, or is random.

    A result of rank 0 that no shape rule gives may stand for one of unknown rank, and then becomes that.
    """
    if op.code in RESTLESS or (isinstance(op, OpaqueOp) and any(v.shape == () for v in op.results)):
        raise Reject
    with suppress(UnsupportedError):
        op.inferred()
    graphs = {id(graph) for graph in op.called_graphs()}
    if list(op_faults(op, graphs)):
        raise Reject


def example(shape: Shape | None, dtype: DType, random: np.random.Generator, unknown: int = BATCH) -> Array:
    """Seeded data for an input, unknown dimensions as ``unknown``; many numbers are where things bend."""
    size = tuple(unknown if d is None else d for d in shape or ())
    assert dtype.numpy is not None
    if dtype.numpy.kind == "b":
        return np.asarray(random.integers(0, 2, size)).astype(bool)
    if dtype.numpy.kind in "iu":
        return np.asarray(random.integers(0, 5, size)).astype(dtype.numpy)
    edges = random.choice(np.array([0.0, 1.0, -1.0, 3.0, -3.0, 6.0, -0.0]), size)
    data = np.where(random.random(size) < 0.2, edges, random.normal(0, 1.5, size))
    return np.asarray(data).astype(dtype.numpy)
