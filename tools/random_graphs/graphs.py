# SPDX-License-Identifier: Apache-2.0
"""Random models from lists of steps; leaving steps out gives a smaller model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from typing import NamedTuple

import numpy as np

from circlekit.errors import CirclekitError
from circlekit.interp import register_custom
from circlekit.ir.dtypes import boolean, f32, i32
from circlekit.ir.graph import Graph, Model, Signature
from circlekit.ir.op import REGISTRY, Op, OpaqueOp
from circlekit.ir.value import Array, Value
from circlekit.ops.arithmetic.activation import Relu
from circlekit.ops.arithmetic.binary import Add, Mul
from circlekit.ops.arithmetic.comparison import Less
from circlekit.ops.movement.join import Pack
from circlekit.ops.movement.repeat import Fill
from circlekit.ops.movement.shape import Reshape, Shape
from circlekit.ops.movement.slice import StridedSlice
from circlekit.ops.program.control import If, While
from circlekit.passes.engine.registry import all_passes
from circlekit.rewrite.picture import Picture
from circlekit.testing.model_builder import ModelBuilder, Rejected
from circlekit.testing.random_models import add_instance, pictures_of
from circlekit.testing.random_operators import random_operator
from tools.random_graphs import splice

Part = Callable[[ModelBuilder], object]
"""A function that appends operators to the graph under construction; it raises an error if none fits."""

UNKNOWN_CUSTOM_CODE = "circlekit.random_graphs.AddOne"
"""A custom operator that no pass knows."""

MAX_STEPS = 14


class Step(NamedTuple):
    """The index of a part in ALL_PARTS, and the seed of its choices."""

    part: int
    seed: int


# -- parts -------------------------------------------------------------------------------------


def _frequent(codes: str) -> Part:
    """Return a part that appends one of the operators ``codes``; repeated ones are more frequent."""
    kinds = codes.split()

    def part(m: ModelBuilder) -> Value:
        return random_operator(m, REGISTRY[kinds[m.below(len(kinds))]])

    part.__name__ = codes.lower()
    return part


arithmetic = _frequent("ADD MUL SUB DIV MAXIMUM MINIMUM SQUARED_DIFFERENCE")
activation = _frequent("RELU RELU6 RELU_N1_TO_1 TANH LOGISTIC HARD_SWISH ELU LEAKY_RELU")
layout = _frequent("TRANSPOSE TRANSPOSE RESHAPE RESHAPE SQUEEZE EXPAND_DIMS")
movement = _frequent("PAD SLICE STRIDED_SLICE SPLIT CONCATENATION PACK UNPACK TILE GATHER BROADCAST_TO")
layer = _frequent("CONV_2D CONV_2D DEPTHWISE_CONV_2D TRANSPOSE_CONV FULLY_CONNECTED BATCH_MATMUL")
reduction = _frequent("MEAN MEAN SUM REDUCE_MAX AVERAGE_POOL_2D MAX_POOL_2D SOFTMAX")
product = _frequent("BATCH_MATMUL")
regroup = _frequent("DEPTH_TO_SPACE SPACE_TO_DEPTH REVERSE_V2 SPLIT_V SPLIT UNPACK PACK CONCATENATION")
quantization = _frequent("QUANTIZE QUANTIZE DEQUANTIZE DEQUANTIZE FAKE_QUANT CAST")


@cache
def pictures() -> tuple[Picture, ...]:
    return pictures_of(all_passes().values())


def picture(m: ModelBuilder) -> Value:
    """Append an instance of a picture of some pass."""
    known = pictures()
    return add_instance(m, known[m.below(len(known))])


def repeat_operator(m: ModelBuilder) -> Value:
    """Append an operator that exists already, on the same operands or on equal constants."""
    ops = [op for op in m.graph.ops if op.pure and len(op.results) == 1]
    if not ops:
        raise Rejected
    op = ops[-1 - m.below(min(len(ops), 6))]
    operands = list(op.inputs[::-1] if op.commutative and m.chance(0.3) else op.inputs)
    for index, value in enumerate(operands):
        if value is not None and value.is_const and m.chance(0.5):
            name = m.graph.unique_name("same")
            operands[index] = Value.constant(name, value.array().copy(), value.quantization)
    result = Value.of_type(op.output, m.graph.unique_name(op.output.name))  # with its quantization
    return m.add(type(op)(*operands, results=[result], **op.attribute_values))


def constant_chain(m: ModelBuilder) -> Value:
    """Append an operator on constants, so that it can be folded, and an operator that reads its result."""
    x = m.pick()
    folded = m.add(Relu(m.constant(m.random.normal(0, 1, m.shape(x)[-1:]))), keep=m.chance(0.2))
    return m.add((Add, Mul)[m.below(2)](x, folded))


def dead_operator(m: ModelBuilder) -> Value:
    return m.add(Relu(m.pick()), keep=False)


def computed_shape(m: ModelBuilder) -> Value:
    """Append a Reshape of a value, or a Fill, whose shape is computed from the shape of this value."""
    x = m.pick(lambda v: 1 <= len(m.shape(v)) <= 4)
    shape = m.add(Shape(x, out_type=i32), keep=m.chance(0.1))
    if m.chance(0.3):
        return m.add(Add(x, m.add(Fill(shape, m.constant(m.number(0.0, 1.0))), keep=m.chance(0.5))))
    begin, end = m.ints([0]), m.ints([1])
    first = m.add(StridedSlice(shape, begin, end, m.ints([1]), shrink_axis_mask=1), keep=False)
    rest = m.ints(-1, "rest")
    return m.add(Reshape(x, m.add(Pack(first, rest, values_count=2, axis=0), keep=False)))


def unknown_custom(m: ModelBuilder) -> Value:
    """Append a custom operator that no pass knows: x + 1."""
    x = m.pick()
    results = [Value("", x.dtype, x.shape)]
    return m.add(OpaqueOp(x, code="CUSTOM", custom_code=UNKNOWN_CUSTOM_CODE, results=results))


def _add_one(op: Op, x: Array) -> Array:
    return np.asarray(x + np.asarray(1, x.dtype))


def branch(m: ModelBuilder) -> Value:
    """Append an If over a float value; both branches are random graphs that keep its shape."""
    x = m.pick(lambda v: v.is_static and bool(m.shape(v)))
    condition = next(v for v in m.graph.inputs if v.dtype is boolean)
    graphs = [_sub_graph(m, x, f"branch{len(m.graphs) + i}") for i in range(2)]
    y = m.add(If(condition, x, then_graph=graphs[0], else_graph=graphs[1]))
    m.graphs += graphs
    return y


def loop(m: ModelBuilder) -> Value:
    """Append a While that runs its body twice."""
    x = m.pick(lambda v: v.is_static and bool(m.shape(v)))
    body = _sub_graph(m, x, f"body{len(m.graphs)}")
    state = Value("i", i32, ())
    count = Add(state, Value.constant("one", np.array(1, np.int32)))
    body.append(count)
    body.inputs, body.outputs = (state, *body.inputs), (count.output, *body.outputs)
    cond = Graph(f"cond{len(m.graphs)}", [Value("i", i32, ()), Value("x", f32, x.shape)])
    less = Less(cond.inputs[0], Value.constant("two", np.array(2, np.int32)))
    cond.append(less)
    cond.outputs = (less.output,)
    op = While(m.constant(np.array(0), "i", np.int32), x, cond=cond, body=body)
    m.add(op, keep=False)
    m.graphs += [cond, body]
    m.pool.append(op.results[1])
    return op.results[1]


def _sub_graph(m: ModelBuilder, x: Value, name: str) -> Graph:
    """Return a random graph with one input and one output, both of the type of ``x``."""
    start = Value("x", f32, x.shape)
    graph = Graph(name, [start])
    inner = ModelBuilder(graph, [m.array(x)], m.random)
    # ALL_PARTS begins with SINGLE, so these steps are made of its parts
    grow(inner, [Step(m.below(len(SINGLE)), m.below(2**31)) for _ in range(m.below(5))])
    fits = [v for v in inner.pool if v.dtype is f32 and v.shape == x.shape and v is not start]
    graph.outputs = (fits[-1] if fits else graph.append(Relu(start)).output,)
    return graph


def hidden_operand(m: ModelBuilder) -> None:
    """Append a slice of a value; no later operator gets this value, so the slice may move up."""
    y = random_operator(m, REGISTRY[("SLICE", "STRIDED_SLICE", "GATHER")[m.below(3)]])
    m.pool = [v for v in m.pool if y.producer is None or v not in y.producer.inputs]


SINGLE: tuple[Part, ...] = (
    *[random_operator] * 6, *[arithmetic] * 8, *[activation] * 3, *[layout] * 8, *[movement] * 4,
    *[layer] * 5, *[reduction] * 3, repeat_operator, repeat_operator, constant_chain, computed_shape,
    computed_shape, dead_operator, unknown_custom,
)  # fmt: skip

QUANTIZED: tuple[Part, ...] = (
    quantization, quantization, quantization, arithmetic, activation, layout, movement, layer, reduction,
)  # fmt: skip

PARTS: tuple[Part, ...] = (
    *SINGLE, *QUANTIZED, branch, loop, *[splice.recipe_of_pass] * 14, splice.recipe_of_operator,
    splice.network, *[splice.typed_operator] * 3, *[picture] * 14,
)  # fmt: skip

FAMILIES: tuple[tuple[Part, ...], ...] = (
    PARTS, SINGLE, (*QUANTIZED, *QUANTIZED, *SINGLE), (splice.recipe_of_pass, picture), PARTS, PARTS,
    (splice.network, layout, arithmetic, layer, layout, activation),
)  # fmt: skip
"""Each model is made of the parts of one of these families."""

MOVING: tuple[Part, ...] = (
    *[layout] * 9, *[movement] * 4, *[regroup] * 4, *[arithmetic] * 2, activation, reduction, product,
    *[hidden_operand] * 4,
)  # fmt: skip
"""The parts of models that mainly move data."""

ALL_PARTS: tuple[Part, ...] = (*PARTS, product, regroup, hidden_operand)

FIRST_MOVING_SEED = 1 << 50
"""From this seed on, models are made of MOVING."""


# -- models ------------------------------------------------------------------------------------


def random_steps(seed: int) -> list[Step]:
    """Return 3 to MAX_STEPS steps."""
    random = np.random.default_rng(seed)
    count = int(random.integers(3, MAX_STEPS + 1))
    family = MOVING if seed >= FIRST_MOVING_SEED else FAMILIES[int(random.integers(len(FAMILIES)))]
    parts = [family[int(random.integers(len(family)))] for _ in range(count)]
    return [Step(ALL_PARTS.index(part), int(random.integers(2**31))) for part in parts]


def grow(m: ModelBuilder, steps: Sequence[Step]) -> None:
    """Apply ``steps``, skipping those that do not fit."""
    for step in steps:
        m.random = np.random.default_rng(step.seed)
        with suppress(Rejected, CirclekitError):
            ALL_PARTS[step.part](m)


def make(seed: int, steps: Sequence[Step]) -> tuple[Model, list[Array]]:
    """Return (model of ``steps``, its inputs); ``seed`` decides on inputs and outputs."""
    register_custom(UNKNOWN_CUSTOM_CODE, _add_one)
    m = ModelBuilder.of_seed(seed)
    grow(m, steps)
    m.random = np.random.default_rng(seed)
    if not m.graph.ops:
        m.add(Relu(m.graph.inputs[0]))
    model, arrays = m.model()
    inner = [v for op in model.main for v in op.results if not model.main.is_output(v)]
    if len(inner) > 1 and m.chance(0.03):
        inner[0].name = inner[1].name  # in a file, two tensors may have the same name
    if m.chance(0.3):
        inputs = {f"in{i}": v for i, v in enumerate(model.main.inputs)}
        outputs = {f"out{i}": v for i, v in enumerate(model.main.outputs)}
        model.signatures.append(Signature("serving_default", model.main, inputs, outputs))
    if m.chance(0.1):
        forget_shapes(m, model.main)
    return model, arrays


def forget_shapes(m: ModelBuilder, graph: Graph) -> None:
    """Let some results state less than what follows from their operands: unknown dimensions, or no rank."""
    for op in graph:
        for value in op.results if m.chance(0.4) and not isinstance(op, OpaqueOp) else ():
            value.shape = tuple(None if m.chance(0.5) else dim for dim in value.shape or ())
            if m.chance(0.1) or value.shape == ():
                value.shape = None
