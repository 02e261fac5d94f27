# SPDX-License-Identifier: Apache-2.0
"""Random models from lists of steps: leave steps out, and what is left is a smaller model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from circlekit.errors import CirclekitError
from circlekit.ir.dtypes import DType, boolean, f32, i32
from circlekit.ir.graph import Graph, Model, Signature
from circlekit.ir.value import Array, Shape, Value
from circlekit.ops.arithmetic.activation import Relu
from circlekit.ops.arithmetic.binary import Add
from circlekit.ops.arithmetic.comparison import Less
from circlekit.ops.movement.shape import Reshape
from circlekit.ops.program.control import If, While
from tools.random_graphs import exported, motifs, parts, pictures, pieces, quantized, specials, splice
from tools.random_graphs.maker import Maker, Reject, example
from tools.random_graphs.parts import Part


class Step(NamedTuple):
    """Which part, and the seed of its choices."""

    part: int
    seed: int


def branch(m: Maker) -> Value:
    """An If over a float value; both branches are random graphs that keep its shape."""
    x = m.pick(lambda v: v.is_static and bool(m.shape(v)))
    found = [v for v in m.graph.inputs if v.dtype is boolean]
    if not found:
        raise Reject
    graphs = [sub_graph(m, x, f"branch{len(m.graphs) + i}") for i in range(2)]
    y = m.add(If(found[0], x, then_graph=graphs[0], else_graph=graphs[1]))
    m.graphs += graphs
    return y


def loop(m: Maker) -> Value:
    """A While that runs twice."""
    x = m.pick(lambda v: v.is_static and bool(m.shape(v)))
    body = sub_graph(m, x, f"body{len(m.graphs)}")
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


def sub_graph(m: Maker, x: Value, name: str) -> Graph:
    """A random graph with one input and one output, both of the type of ``x``."""
    start = Value("x", f32, x.shape)
    graph = Graph(name, [start])
    inner = Maker(graph, [m.array(x)], m.random)
    grow(inner, [Step(m.below(len(FLAT)), m.below(2**31)) for _ in range(m.below(5))])
    fits = [v for v in inner.pool if v.dtype is f32 and v.shape == x.shape and v is not start]
    if fits:
        graph.outputs = (fits[-1],)
    else:
        op = Relu(start)
        graph.append(op)
        graph.outputs = (op.output,)
    return graph


EXPORTED: tuple[Part, ...] = (
    exported.over_blocks, exported.over_blocks, exported.crossed, exported.crossed, exported.crossed,
    exported.unfused_norm, exported.instance_norm,
)  # fmt: skip

FLAT: tuple[Part, ...] = (
    parts.unary_op, parts.activation, parts.with_constant, parts.with_constant, parts.other_with_constant,
    parts.with_value, parts.with_value, parts.transpose, parts.transpose, parts.transpose, parts.reshape,
    parts.reshape, parts.squeeze_or_expand, parts.dynamic_reshape, pieces.pad, pieces.box, pieces.strided,
    pieces.split, pieces.concat, pieces.unpack_and_pack, pieces.mean, pieces.mean, pieces.pooling,
    pieces.softmax,
    pieces.space, pieces.repeat, pieces.bmm, pieces.bmm, parts.cast, parts.integer_arithmetic,
    parts.constant_chain, parts.duplicate, parts.duplicate,
    motifs.conv, motifs.conv, motifs.dwconv, motifs.tconv, motifs.tconv, motifs.dense, motifs.rms_norm,
    motifs.rope, motifs.hard_swish, motifs.layer_norm, motifs.squeeze_excite, motifs.cancelling,
    motifs.cancelling, *EXPORTED,
)  # fmt: skip

QUANTIZED: tuple[Part, ...] = (
    quantized.quantize, quantized.dequantize, quantized.there_and_back, quantized.requantize,
    quantized.fake_quant, quantized.moved, quantized.arithmetic, quantized.one_operand, quantized.reduced,
    quantized.pooled, quantized.layer, quantized.stored_as_integers, quantized.whole_numbers,
)  # fmt: skip

SPECIAL: tuple[Part, ...] = (
    specials.wall, specials.computed_shape, specials.computed_shape, specials.positions, specials.selected,
    specials.truths, specials.long_numbers, specials.looked_up, specials.edge_constant, specials.dead,
    specials.repeated,
)  # fmt: skip

PARTS: tuple[Part, ...] = (
    *FLAT, *QUANTIZED, *SPECIAL, branch, loop, *[splice.recipe_of_pass] * 14, splice.recipe_of_operator,
    *[splice.case_of_kit] * 3, *[pictures.instance] * 14,
)  # fmt: skip

FAMILIES: tuple[tuple[Part, ...], ...] = (
    PARTS, FLAT, (*QUANTIZED, *QUANTIZED, *FLAT), (*SPECIAL, *SPECIAL, *FLAT),
    (splice.recipe_of_pass, pictures.instance), PARTS, PARTS, (*EXPORTED, *EXPORTED, *FLAT),
)  # fmt: skip
"""Of which steps a model is made: mostly of all, sometimes of what belongs together."""

SHAPES: tuple[Shape, ...] = (
    (1, 4, 5, 3), (1, 3, 4, 4), (2, 3, 4, 5), (1, 4, 4, 4), (1, 1, 4, 6), (None, 4, 4, 3), (2, 4, 6), (4, 6),
    (1, 2, 3, 2, 2), (1, 4, 1, 4), (None, 6), (3, 3, 3, 3), (None, 3, 2, 4),
    (1, None, None, 4), (None, 4, None),
)  # fmt: skip


OPAQUE = (DType.RESOURCE, DType.VARIANT, DType.STRING)
"""Dtypes that are no outputs here."""


def random_steps(seed: int, most: int = 14) -> list[Step]:
    random = np.random.default_rng(seed)
    count = int(random.integers(3, most + 1))
    family = FAMILIES[int(random.integers(len(FAMILIES)))]
    parts = [family[int(random.integers(len(family)))] for _ in range(count)]
    return [Step(PARTS.index(part), int(random.integers(2**31))) for part in parts]


def grow(m: Maker, steps: Sequence[Step]) -> None:
    for step in steps:
        m.random = np.random.default_rng(step.seed)
        try:
            PARTS[step.part](m)
        except (Reject, CirclekitError):  # an operator that does not fit its operands
            continue
    m.forget_strays()


def make(seed: int, steps: Sequence[Step]) -> tuple[Model, list[Array]]:
    """A model and inputs for it; the seed decides on inputs and outputs."""
    m = maker_of(seed)
    graph = m.graph
    m.constants.append(Value.constant(graph.unique_name("shared"), np.ones(4, np.float32)))
    grow(m, steps)
    m.random = np.random.default_rng(seed)
    graph.outputs = _outputs(m)
    is_circle = m.chance(0.5) or any("tflite" not in op.formats for g in (graph, *m.graphs) for op in g)
    model = Model([graph, *m.graphs], format="circle" if is_circle else "tflite")
    if m.chance(0.03):
        _name_twice(m)
    if m.chance(0.3):
        ins = {f"in{i}": v for i, v in enumerate(graph.inputs)}
        outs = {f"out{i}": v for i, v in enumerate(graph.outputs)}
        model.signatures.append(Signature("serving_default", graph, ins, outs))
    return model, [m.arrays[v] for v in graph.inputs]


def _name_twice(m: Maker) -> None:
    """Two values inside get one name: files may have that."""
    inside = [v for op in m.graph for v in op.results if not m.graph.is_output(v)]
    if len(inside) > 1:
        inside[0].name = inside[1].name


def maker_of(seed: int) -> Maker:
    """Inputs, and no operators yet."""
    random = np.random.default_rng(seed)
    graph = Graph("main", _inputs(random))
    m = Maker(graph, [example(v.shape, v.dtype, random) for v in graph.inputs], random)
    m.wild = seed % 8 == 0
    return m


def _inputs(random: np.random.Generator) -> list[Value]:
    count = 1 + int(random.integers(2))
    inputs = [Value(f"x{i}", f32, SHAPES[int(random.integers(len(SHAPES)))]) for i in range(count)]
    if random.random() < 0.5:
        inputs.append(Value("channels", f32, (int(random.integers(1, 5)),)))
    return [*inputs, Value("flag", boolean, (1,)), Value("numbers", i32, (2, 3))]


def _outputs(m: Maker) -> list[Value]:
    """The newest value, some in the middle, the same twice, an identity of an input."""
    made = [v for v in m.pool if v.producer is not None and v.dtype not in OPAQUE]
    if not made or m.chance(0.05):
        x = m.graph.inputs[0]
        shape = [-1 if d is None else d for d in x.shape or ()]
        made.append(m.add(Reshape(x, m.ints(shape, "same")) if shape.count(-1) < 2 else Relu(x)))
    often = 0.12 if m.chance(0.7) else 0.5
    outputs = [v for v in made[:-1] if m.chance(often)] + [made[-1]]
    if m.chance(0.1):
        outputs.append(outputs[0])
    if m.chance(0.05):
        outputs.append(m.graph.inputs[0])
    if m.chance(0.03):
        outputs += [v for v in m.constants if v.use_count and v.dtype is f32][:1]
    m.random.shuffle(outputs)
    return outputs
