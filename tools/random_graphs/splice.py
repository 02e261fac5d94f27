# SPDX-License-Identifier: Apache-2.0
"""Insert whole small models into a graph under construction: recipes and single operators of all dtypes.

Float values of the graph (sometimes after a Reshape) or, rarely, constants take the place of some inputs of
the model; for each other input, the graph gets a new input.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np

from circlekit.equivalence.seeded_inputs import InputSet, make_inputs
from circlekit.equivalence.unknown_sizes import Sizes
from circlekit.errors import CirclekitError
from circlekit.ir.clone import clone
from circlekit.ir.dtypes import f32
from circlekit.ir.enums import Activation
from circlekit.ir.graph import Graph, Model
from circlekit.ir.op import Op
from circlekit.ir.text import parse_model
from circlekit.ir.value import Array, Value
from circlekit.ops.movement.shape import Reshape
from circlekit.testing.model_builder import RANDOM_OPERATORS, UNKNOWN_SIZE, ModelBuilder, Rejected
from tools.kit.case import Job, codes, draw_case

RECIPES = Path(__file__).parents[2] / "recipes"

MAX_INPUT_ELEMENTS = 2048
"""The largest number of elements of all inputs of an inserted model."""


@cache
def texts(folder: str) -> tuple[tuple[str, str], ...]:
    """Return (name, text) of the recipes in ``recipes/folder``."""
    return tuple((p.stem, p.read_text()) for p in sorted((RECIPES / folder).glob("*.ck")))


@cache
def _recipe(folder: str, index: int) -> tuple[Model, tuple[Array, ...]] | None:
    """Return a recipe and inputs for it; None if no inputs can be made."""
    name, text = texts(folder)[index]
    try:
        model = parse_model(text, name)
        return model, tuple(make_inputs(model.main, InputSet("normal"), Sizes(UNKNOWN_SIZE)))
    except CirclekitError:
        return None


@cache
def recipes_of_passes() -> tuple[tuple[int, ...], ...]:
    """Return for each pass the indices of its recipes, positives before near misses."""
    found: dict[str, list[int]] = {}
    for index, (name, _) in enumerate(texts("passes")):
        found.setdefault(name.split("-")[0], []).append(index)
    return tuple(tuple(sorted(some, key=lambda i: "-" in texts("passes")[i][0])) for some in found.values())


def recipe_of_pass(m: ModelBuilder) -> Value | None:
    """Insert a positive or a near miss of some pass, often changed in one place."""
    own = recipes_of_passes()[m.below(len(recipes_of_passes()))]
    return _recipe_from(m, "passes", own[0] if m.chance(0.5) else own[m.below(len(own))])


def network(m: ModelBuilder) -> Value | None:
    """Insert a recipe of recipes/nets: operators as exporters write them."""
    return _recipe_from(m, "nets", m.below(len(texts("nets"))))


def recipe_of_operator(m: ModelBuilder) -> Value | None:
    return _recipe_from(m, "ops", m.below(len(texts("ops"))))


def _recipe_from(m: ModelBuilder, folder: str, index: int) -> Value | None:
    found = _recipe(folder, index)
    if found is None:
        raise Rejected
    return insert(m, clone(found[0]), found[1])


def typed_operator(m: ModelBuilder) -> Value | None:
    """Insert an operator with data of any dtype, quantized or not, in a form that LiteRT has."""
    sample = draw_case(Job(codes()[m.below(len(codes()))], m.below(2**31), m.below(100)))
    return insert(m, Model([sample.graph]), sample.inputs)


def insert(m: ModelBuilder, model: Model, arrays: Sequence[Array]) -> Value | None:
    """Move the operators of ``model`` into the graph; return the last result that later operators may use.

    ``arrays``: inputs of ``model``.  Return None if there is no such result.  Raise Rejected if ``arrays``
    are too large, an input is a variable, an operator is random, or another part of ``model`` does not fit.
    """
    main = model.main
    if sum(a.size for a in arrays) > MAX_INPUT_ELEMENTS or any(v.is_variable for v in main.inputs):
        raise Rejected
    if any(op.code in RANDOM_OPERATORS for op in model.ops()):
        raise Rejected
    if m.chance(0.4):
        change_somewhere(m, main)
    for value, array in zip(main.inputs, arrays, strict=True):
        chosen = operand_for(m, value, array)
        for op, index in value.uses:
            op.set_input(index, chosen)
    _rename(m, main)
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


def operand_for(m: ModelBuilder, value: Value, array: Array) -> Value:
    """Return a value, a constant or an input in place of the input ``value``; ``array``: its elements."""
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
        fitting = [v for v in m.pool if v.dtype is f32 and v.quantization is None and v.is_static]
        fitting = [v for v in fitting if m.array(v).size == array.size]
        if fitting:
            shape = m.ints(array.shape, "shape")
            return m.add(Reshape(fitting[-1 - m.below(min(len(fitting), 3))], shape), keep=False)
    if m.chance(0.03) and value.dtype.numpy is not None and value.is_static and value.quantization is None:
        made = Value.constant(m.graph.unique_name("given"), array)
        m.constants.append(made)
        return made
    made = Value(value.name, value.dtype, value.shape, None, value.quantization)
    return m.new_input(made, array)


def _rename(m: ModelBuilder, graph: Graph) -> None:
    """Give constants and variables names that the graph does not have yet; make them known to ``m``."""
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
            raise Rejected


def change_somewhere(m: ModelBuilder, graph: Graph) -> None:
    """Try to change an activation, a constant, the order of operands, or the outputs."""
    ops = list(graph.ops)
    if not ops:
        raise Rejected
    op = ops[m.below(len(ops))]
    kind = m.below(4)
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


def _change_constant(m: ModelBuilder, op: Op) -> None:
    """Replace a constant by other elements of the same dtype and mostly the same shape."""
    constants = [(i, v) for i, v in enumerate(op.inputs) if v is not None and v.is_plain]
    if not constants:
        return
    index, value = constants[m.below(len(constants))]
    data = np.array(value.array())
    if data.dtype.kind == "f":
        factor = m.number(-1.0, 0.0, 0.5, 1.001, 2.0)
        changed = data * np.where(m.random.random(data.shape) < 0.5, factor, 1.0)
        if m.allow_extremes and m.chance(0.5):
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
