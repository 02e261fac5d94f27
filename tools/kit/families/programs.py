# SPDX-License-Identifier: Apache-2.0
"""Operators that make sense with others alone: control flow, variables, tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from circlekit.ir.dtypes import DType, boolean, i32, i64
from circlekit.ir.graph import Graph
from circlekit.ir.op import REGISTRY, Op
from circlekit.ir.value import Value
from circlekit.ops.constant_storage import encode_strings
from tools.kit.draw import Draw
from tools.kit.families.base import family
from tools.kit.kinds import F32, Case, Kind


def make(code: str, *operands: Value | None, **given: Any) -> Op:
    return REGISTRY[code](*operands, **given)


def graph(name: str, inputs: Sequence[Value], ops: Sequence[Op], outputs: Sequence[Value]) -> Graph:
    """A graph of ``ops``, in which everything has a name."""
    made = Graph(name, inputs)
    for op in ops:
        made.append(op)
    made.outputs = tuple(outputs)
    for index, value in enumerate(made.values()):
        value.name = value.name or f"{name}_{index}"
    return made


def some(draw: Draw, x: Value) -> Op:
    """An operator of one operand of the shape of ``x``."""
    kind = draw.choice(("ADD", "MUL", "SUB", "MAXIMUM"))
    array = draw.array(x.dtype, x.static_shape, -3, 3)
    other = np.clip(np.nan_to_num(array, posinf=1, neginf=-1), -2, 2).astype(array.dtype)
    return make(kind, x, draw.constant(other))


def value(name: str, dtype: DType, shape: Sequence[int]) -> Value:
    return Value(name, dtype, tuple(shape))


def finished(draw: Draw, graphs: Sequence[Graph], kind: Kind) -> Case:
    """A case of ``graphs``, with arrays for every input of the first."""
    steps = [
        [draw.array(v.dtype, v.static_shape, 0, 3) for v in graphs[0].inputs]
        for _ in range(draw.integer(1, 3))
    ]
    return Case(draw.code, kind.label, graphs, steps)


@family("IF", "f32 i32")
def choice(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    shape = draw.shape(0, 3)
    branches = []
    for name in ("then", "else"):
        inner = value(f"{name}_x", kind.dtype, shape)
        op = some(draw, inner)
        branches.append(graph(name, [inner], [op], op.results))
    flag, x = value("flag", boolean, ()), value("x", kind.dtype, shape)
    op = cls(flag, x, then_graph=branches[0], else_graph=branches[1])
    return finished(draw, [graph("main", [flag, x], [op], op.results), *branches], kind)


@family("WHILE", "f32 i32")
def loop(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    shape = draw.shape(0, 3)
    tested = [value("c_i", i32, ()), value("c_x", kind.dtype, shape)]
    less = make("LESS", tested[0], draw.constant(draw.integer(0, 6), i32))
    carried = [value("b_i", i32, ()), value("b_x", kind.dtype, shape)]
    count, other = make("ADD", carried[0], draw.constant(1, i32)), some(draw, carried[1])
    cond = graph("cond", tested, [less], less.results)
    body = graph("body", carried, [count, other], [count.output, other.output])
    given = [value("i", i32, ()), value("x", kind.dtype, shape)]
    op = cls(*given, cond=cond, body=body)
    return finished(draw, [graph("main", given, [op], op.results), cond, body], kind)


@family("CALL STABLEHLO_COMPOSITE", "f32 i32")
def callee(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    shape = draw.shape(0, 3)
    inner = value("inner", kind.dtype, shape)
    body = some(draw, inner)
    called = graph("called", [inner], [body], body.results)
    x = value("x", kind.dtype, shape)
    given: dict[str, Any] = {"subgraph": called}
    if draw.code == "STABLEHLO_COMPOSITE":
        empty = (0, 1, 0, 1, 0, 0, 36, 1)  # a map without entries
        given = {"name": "kit.some", "decomposition": called, "composite_attributes": empty}
    op = cls(x, **given)
    return finished(draw, [graph("main", [x], [op], op.results), called], kind)


@family("VAR_HANDLE READ_VARIABLE ASSIGN_VARIABLE CALL_ONCE", "f32 i32")
def counter(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    """A variable that another graph sets first, and that every run changes."""
    shape = draw.shape(1, 3)
    start = make("VAR_HANDLE", shared_name="v")
    begin = draw.constant(draw.array(kind.dtype, shape, -3, 3))
    init = graph("init", [], [start, make("ASSIGN_VARIABLE", start.output, begin)], [])
    x = value("x", kind.dtype, shape)
    handle = make("VAR_HANDLE", shared_name="v")
    read = REGISTRY["READ_VARIABLE"](handle.output, results=[value("old", kind.dtype, shape)])
    total = make("ADD", read.output, x)
    assign = make("ASSIGN_VARIABLE", handle.output, total.output)
    again = REGISTRY["READ_VARIABLE"](handle.output, results=[value("new", kind.dtype, shape)])
    ops = [make("CALL_ONCE", init=init), handle, read, total, assign, again]
    return finished(draw, [graph("main", [x], ops, [read.output, again.output]), init], kind)


@family("HASHTABLE HASHTABLE_IMPORT HASHTABLE_FIND HASHTABLE_SIZE", "str i64")
def table(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    """A table from strings to integers or back, filled in another graph; ``kind`` is that of its keys."""
    words = [bytes([97 + n]) * draw.integer(1, 3) for n in draw.integers(0, 5, draw.integer(1, 6))]
    numbers = draw.integers(-3, 3, len(words))
    sides = [strings(words), draw.constant(numbers, i64)]
    asked: Value = strings([*words[:2], b"zz"])
    default = draw.constant(-7, i64)
    default.shape, default.data = (1,), np.array([-7])
    if kind.dtype is i64:
        sides.reverse()
        asked, default = draw.constant([*numbers[:2], 99], i64), strings([b"none"])
    given: dict[str, Any] = {"table_id": 4, "key_dtype": sides[0].dtype, "value_dtype": sides[1].dtype}
    made = make("HASHTABLE", **given)
    init = graph("init", [], [made, make("HASHTABLE_IMPORT", made.output, *sides)], [])
    used = make("HASHTABLE", **given)
    find, size = make("HASHTABLE_FIND", used.output, asked, default), make("HASHTABLE_SIZE", used.output)
    ops = [make("CALL_ONCE", init=init), used, find, size]
    main = graph("main", [], ops, [find.output, size.output])
    return Case(draw.code, f"{kind.label} keys", [main, init], [[]])


def strings(texts: Sequence[bytes]) -> Value:
    return Value("", DType.STRING, (len(texts),), encode_strings(texts))


@family("RANDOM_UNIFORM RANDOM_STANDARD_NORMAL", "f32")
def stream(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    draw.steps = draw.integer(1, 3)
    seeds = draw.integers(1, 1 << 40, 2)
    shape = draw.parameter(list(draw.shape(1, 4, 20)))
    return draw.case(cls, [shape], "f32", seed=seeds[0], seed2=seeds[1])


@family("MULTINOMIAL", "f32")
def multinomial(draw: Draw, cls: type[Op], kind: Kind) -> Case:
    draw.steps = draw.integer(1, 3)
    seeds = draw.integers(1, 1 << 40, 2)
    shape = draw.integers(1, 6, 2)
    logits = draw.tensor(F32, shape, const=0, make=lambda: draw.rng.normal(0, 2, shape).astype(np.float32))
    count = draw.parameter(draw.integer(1, 30))
    result = [draw.choice((i32, i64))]
    return draw.case(cls, [logits, count], "f32", results=result, seed=seeds[0], seed2=seeds[1])
