# SPDX-License-Identifier: Apache-2.0
"""Whole small models put into a graph that grows: recipes of passes, and cases of the differential kit.

The inputs of such a model become values that are there, where types allow it, or inputs of the graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np

from circlekit.equivalence.seeded_inputs import InputSet, make_inputs
from circlekit.errors import CirclekitError
from circlekit.ir.clone import clone
from circlekit.ir.dtypes import f32
from circlekit.ir.enums import Activation
from circlekit.ir.graph import Graph, Model
from circlekit.ir.op import REGISTRY, Op
from circlekit.ir.text import parse_model
from circlekit.ir.value import Array, Value
from circlekit.ops.movement.shape import Reshape
from tools.kit.families import FAMILIES, draw_case
from tools.random_graphs.maker import BATCH, RESTLESS, Maker, Reject

RECIPES = Path(__file__).parents[2] / "recipes"

LARGEST_INPUT = 2048
"""Elements of the inputs of what is put in, at most."""


@cache
def texts(folder: str) -> tuple[tuple[str, str], ...]:
    """(name, text) of the project's own recipes in ``folder``."""
    return tuple((p.stem, p.read_text()) for p in sorted((RECIPES / folder).glob("*.ck")))


@cache
def _recipe(folder: str, index: int) -> tuple[Model, tuple[Array, ...]] | None:
    """A recipe and inputs for it; None where it takes none of ours."""
    name, text = texts(folder)[index]
    try:
        model = parse_model(text, name)
        return model, tuple(make_inputs(model.main, InputSet("normal"), unknown=BATCH))
    except CirclekitError:
        return None


@cache
def of_passes() -> tuple[tuple[int, ...], ...]:
    """For each pass, which of the texts are its own: what it changes first, then what it just not does."""
    found: dict[str, list[int]] = {}
    for index, (name, _) in enumerate(texts("passes")):
        found.setdefault(name.split("-")[0], []).append(index)
    return tuple(tuple(sorted(some, key=lambda i: "-" in texts("passes")[i][0])) for some in found.values())


def recipe_of_pass(m: Maker) -> Value | None:
    """What a pass looks for, or just not: a recipe of recipes/passes, often changed in one place."""
    own = of_passes()[m.below(len(of_passes()))]
    return _recipe_from(m, "passes", own[0] if m.chance(0.5) else own[m.below(len(own))])


def recipe_of_operator(m: Maker) -> Value | None:
    return _recipe_from(m, "ops", m.below(len(texts("ops"))))


def _recipe_from(m: Maker, folder: str, index: int) -> Value | None:
    found = _recipe(folder, index)
    if found is None:
        raise Reject
    return put_in(m, clone(found[0]), found[1])


def case_of_kit(m: Maker) -> Value | None:
    """Any operator with data of any dtype, quantized or not."""
    codes = sorted(code for code in FAMILIES if code in REGISTRY and code not in RESTLESS)
    case = draw_case(codes[m.below(len(codes))], m.below(2**31), 0)
    return put_in(m, Model(list(case.graphs)), case.steps[0])


def put_in(m: Maker, model: Model, arrays: Sequence[Array]) -> Value | None:
    """The operators of ``model``, which is used up, as operators of the graph; returns the last result."""
    main = model.main
    if sum(a.size for a in arrays) > LARGEST_INPUT or any(v.is_variable for v in main.inputs):
        raise Reject
    if any(op.code in RESTLESS for op in model.ops()):
        raise Reject
    if m.chance(0.4):
        change_somewhere(m, main)
    for value, array in zip(main.inputs, arrays, strict=True):
        chosen = stand_in(m, value, array)
        for op, index in value.uses:
            op.set_input(index, chosen)
    _name_anew(m, main)
    outputs, last = set(main.outputs), None
    for graph in model.graphs[1:]:
        graph.name = f"{graph.name}_{len(m.graphs)}"
        m.graphs.append(graph)
    for op in main.ops:
        main.unlink(op)
        for value in op.results:
            value.name = m.graph.unique_name(value.name or "r")
        m.put(op, keep=False)
        kept = [v for v in op.results if v in outputs or m.chance(0.1)]
        m.pool += kept
        last = kept[-1] if kept else last
    return last


def stand_in(m: Maker, value: Value, array: Array) -> Value:
    """A value for an input: one of that type, one reshaped to it, a constant, or a new input."""
    found = [
        v
        for v in m.pool
        if v.dtype is value.dtype
        and v.quantization == value.quantization
        and v.is_static == value.is_static
        and m.array(v).shape == array.shape
    ]
    floats = value.dtype is f32 and value.quantization is None
    if found and floats and m.chance(0.7):
        return found[-1 - m.below(min(len(found), 4))]
    if floats and value.is_static and m.chance(0.5):
        large = [v for v in m.pool if v.dtype is f32 and v.quantization is None and v.is_static]
        large = [v for v in large if m.array(v).size == array.size]
        if large:
            shape = m.ints(array.shape, "shape")
            return m.add(Reshape(large[-1 - m.below(min(len(large), 3))], shape), keep=False)
    if m.chance(0.03) and value.dtype.numpy is not None and value.is_static and value.quantization is None:
        made = Value.constant(m.graph.unique_name("given"), array)
        m.constants.append(made)
        return made
    made = Value(value.name, value.dtype, value.shape, None, value.quantization)
    return m.new_input(made, array)


def _name_anew(m: Maker, graph: Graph) -> None:
    """Constants and variables get names that the growing graph does not have."""
    made = {v for op in graph for v in op.results} | set(m.arrays) | set(m.constants)
    for value in dict.fromkeys(v for op in graph for v in op.inputs if v is not None):
        if value in made:
            continue
        value.name = m.graph.unique_name(value.name or "c")
        if value.data is not None:
            m.constants.append(value)
        elif value.is_variable:
            m.arrays[value] = m.state.read(value)
        else:
            raise Reject


def change_somewhere(m: Maker, graph: Graph) -> None:
    """One thing other than it was: an activation, a constant, the order of operands, a second reader."""
    ops = list(graph.ops)
    if not ops:
        raise Reject
    op = ops[m.below(len(ops))]
    kind = m.below(5)
    if kind == 0 and op.fuses_activation:
        op.act = (Activation.RELU, Activation.RELU6, Activation.NONE)[m.below(3)]  # type: ignore[attr-defined]
    elif kind == 1:
        _change_constant(m, op)
    elif kind == 2 and op.commutative:
        first, second = op.inputs[0], op.inputs[1]
        op.set_input(0, second)
        op.set_input(1, first)
    elif kind == 3:
        graph.outputs = (*graph.outputs, *op.results)
    elif kind == 4:
        _share_constant(op)


def _change_constant(m: Maker, op: Op) -> None:
    """Other elements of the same dtype, and mostly of the same shape."""
    constants = [(i, v) for i, v in enumerate(op.inputs) if v is not None and v.is_plain]
    if not constants:
        return
    index, value = constants[m.below(len(constants))]
    data = np.array(value.array())
    if data.dtype.kind == "f":
        factor = m.number(-1.0, 0.0, 0.5, 1.001, 2.0)
        changed = data * np.where(m.random.random(data.shape) < 0.5, factor, 1.0)
        if m.wild and m.chance(0.5):
            special = m.number(np.nan, np.inf, -np.inf, 1e-42, 3e38, -0.0)
            changed = np.where(m.random.random(data.shape) < 0.3, special, changed)
        if m.chance(0.2) and data.shape == (data.size,):
            changed = changed.reshape((1,) * m.below(3) + data.shape)
        changed = changed.astype(data.dtype)
    elif data.dtype.kind in "iu" and data.size:
        changed = data.copy()
        at = m.below(data.size)
        changed.reshape(-1)[at] += np.asarray(m.number(1, 2)).astype(data.dtype)
    else:
        return
    made = Value.constant(value.name, np.asarray(changed), value.quantization)
    made.dtype = value.dtype
    op.set_input(index, made)


def _share_constant(op: Op) -> None:
    """Two operands that are equal constants become one."""
    constants = [v for v in op.inputs if v is not None and v.is_plain]
    for index, value in enumerate(op.inputs):
        for other in constants:
            if (
                value is not None
                and value is not other
                and value.is_plain
                and other.dtype is value.dtype
                and other.shape == value.shape
                and other.quantization == value.quantization
            ):
                op.set_input(index, other)
                return
