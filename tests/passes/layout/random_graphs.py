# SPDX-License-Identifier: Apache-2.0
"""Small graphs with many transposes, from lists of numbers that hypothesis can shrink."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from hypothesis import strategies as st

from circlekit.ir.dtypes import f32
from circlekit.ir.graph import Graph, Model
from circlekit.ir.op import Op
from circlekit.ir.value import Value
from circlekit.ops.arithmetic.activation import Relu
from circlekit.ops.arithmetic.binary import Add, Maximum, Mul
from circlekit.ops.arithmetic.unary import Neg
from circlekit.ops.movement.join import Concatenation, Split
from circlekit.ops.movement.pad import Pad
from circlekit.ops.movement.shape import Reshape, Transpose
from circlekit.ops.movement.slice import Slice
from circlekit.ops.reduction.reduce import Mean

NHWC, NCHW, OTHER = (0, 2, 3, 1), (0, 3, 1, 2), (0, 2, 1, 3)

Step = tuple[int, int, int]
"""The index of the operator in BUILDERS, a number that selects its operand, the seed of its attributes."""


def steps(most: int) -> st.SearchStrategy[list[Step]]:
    """Return a strategy for 1 to ``most`` steps."""
    return st.lists(
        st.tuples(st.integers(0, len(BUILDERS) - 1), st.integers(0, 50), st.integers(0, 10**6)),
        min_size=1,
        max_size=most,
    )


def make_model(chosen: Sequence[Step]) -> Model:
    """Return the model of the steps ``chosen``: one input; the last value and some others as outputs."""
    x = Value("x", f32, (1, 2, 3, 4))
    graph = Graph("main", [x])
    pool = [x]  # all values so far
    for kind, pick, how in chosen:
        op = BUILDERS[kind](pool, pool[-1 - pick % len(pool)], np.random.default_rng(how))
        graph.append(op)
        for index, value in enumerate(op.inputs):
            if value is not None and value.is_const and not value.name:
                value.name = graph.unique_name(f"c{index}")
        pool += op.results
    made = pool[1:]
    outputs = [v for v, (_, _, how) in zip(made, chosen, strict=False) if how % 4 == 0]
    graph.outputs = list(dict.fromkeys([*outputs, made[-1]]))
    return Model([graph])


def constant(array: object) -> Value:
    return Value.constant("", np.asarray(array))


def transpose(perm: tuple[int, ...]) -> Callable[[list[Value], Value, np.random.Generator], Op]:
    def build(pool: list[Value], x: Value, random: np.random.Generator) -> Op:
        return Transpose(x, constant(np.array(perm, np.int32)))

    return build


def relu(pool: list[Value], x: Value, random: np.random.Generator) -> Op:
    return Relu(x)


def with_constant(pool: list[Value], x: Value, random: np.random.Generator) -> Op:
    """Return Add or Mul of ``x`` and a constant that broadcasts, maybe of lower rank, in either order."""
    shape = [int(d) if random.integers(2) else 1 for d in x.static_shape][random.integers(0, 5) :]
    operands = [x, constant(random.standard_normal(shape).astype(np.float32))]
    if random.integers(2):
        operands.reverse()
    return (Add, Mul)[int(random.integers(2))](*operands)


def with_value(pool: list[Value], x: Value, random: np.random.Generator) -> Op:
    """Return Add or Maximum of ``x`` and another value that broadcasts; if none does, of ``x`` and ``x``."""
    shape = x.static_shape
    fits = [
        v for v in pool if all(a in (1, b) for a, b in zip(v.static_shape, shape, strict=True)) and v is not x
    ]
    other = fits[int(random.integers(len(fits)))] if fits else x
    return (Add, Maximum)[int(random.integers(2))](x, other)


def concatenation(pool: list[Value], x: Value, random: np.random.Generator) -> Op:
    same = [v for v in pool if v.shape == x.shape]
    other = same[int(random.integers(len(same)))]
    return Concatenation(x, other, axis=int(random.integers(-4, 4))) if x.numel < 500 else Neg(x)


def pad(pool: list[Value], x: Value, random: np.random.Generator) -> Op:
    return Pad(x, constant(random.integers(0, 2, (4, 2)).astype(np.int32))) if x.numel < 500 else Neg(x)


def mean(pool: list[Value], x: Value, random: np.random.Generator) -> Op:
    axes = random.permutation(4)[: random.integers(1, 4)] - 4 * random.integers(2)
    return Mean(x, constant(axes.astype(np.int32)), keep_dims=True)


def box(pool: list[Value], x: Value, random: np.random.Generator) -> Op:
    begin = np.array([random.integers(0, d) for d in x.static_shape], np.int32)
    size = np.where(random.integers(0, 2, 4) == 0, -1, x.static_shape - begin).astype(np.int32)
    return Slice(x, constant(begin), constant(size))


def split(pool: list[Value], x: Value, random: np.random.Generator) -> Op:
    axes = [a for a, d in enumerate(x.static_shape) if d % 2 == 0]
    if not axes:
        return Neg(x)
    axis = axes[int(random.integers(len(axes)))]
    return Split(constant(np.array(axis, np.int32)), x, num_splits=2)


def wall(pool: list[Value], x: Value, random: np.random.Generator) -> Op:
    """Return a Reshape, which works in one layout only."""
    return Reshape(x, constant(np.array(random.permutation(x.static_shape), np.int32)))


BUILDERS: tuple[Callable[[list[Value], Value, np.random.Generator], Op], ...] = (
    transpose(NHWC),
    transpose(NCHW),
    relu,
    with_constant,
    with_value,
    concatenation,
    pad,
    mean,
    box,
    split,
    wall,
    transpose(OTHER),
)
"""Functions of all values so far, the operand and a random generator, which return the next operator."""
