# SPDX-License-Identifier: Apache-2.0
"""Mutate the operators of a decoded model: change, drop or insert them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from circlekit.io.schema import Tree, enumeration, options_field
from circlekit.ir.declaration import Operand
from circlekit.ir.op import REGISTRY
from tools.fuzz.mutate_fields import World, some_table, within
from tools.fuzz.mutate_tensors import DIMENSIONS, add_buffer, shape_of, type_of

INTEGERS = frozenset({"INT32", "INT64", "INT16", "UINT32"})
JOINING = ("ADD", "MUL", "CONCATENATION", "MAXIMUM", "SUB", "PACK", "ADD_N", "BATCH_MATMUL")
"""Operators of several operands.

In a chain of n, each may read the result before it twice: 2^n paths, and with CONCATENATION 2^n elements.
"""


def ints(tree: Tree, name: str) -> list[int]:
    """Turn the vector of indices ``name`` of ``tree`` into a list, and return this list."""
    values = tree.get(name)
    tree[name] = out = [] if values is None else [int(v) for v in values]
    return out


def some_code(world: World) -> str:
    """Return the code of a declared operator that the format has."""
    known = enumeration("BuiltinOperator", world.format).numbers
    return world.rng.choice([name for name in REGISTRY if name in known])


def new_code(world: World, name: str, version: int = 1) -> int:
    """Append an operator code and return its index."""
    number = enumeration("BuiltinOperator", world.format).numbers[name]
    codes = world.root.setdefault("operator_codes", [])
    codes.append({"deprecated_builtin_code": min(number, 127), "builtin_code": name, "version": version})
    return len(codes) - 1


def set_options(world: World, operator: Tree, name: str) -> None:
    """Replace the options of ``operator`` by default or random options of the operator ``name``."""
    for name_of_field in ("builtin_options", "builtin_options_2"):
        operator.pop(name_of_field, None)
    options = REGISTRY[name].options
    field = options and options_field(options)
    if not options or not field:
        return
    union = "BuiltinOptions2" if field == "builtin_options_2" else "BuiltinOptions"
    if enumeration(union, world.format).numbers.get(options):
        fields = some_table(world, options) if world.rng.random() < 0.3 else {}
        operator[field] = {**fields, "": options}


def add_tensor(graph: Tree, kind: str | int, shape: Sequence[int]) -> int:
    """Append a tensor and return its index."""
    tensors = graph.setdefault("tensors", [])
    shape = [within("i", d) for d in shape]
    tensors.append({"name": f"made_{len(tensors)}", "type": kind, "shape": shape, "buffer": 0})
    return len(tensors) - 1


def add_constant(world: World, graph: Tree, kind: str, values: Any) -> int:
    """Append a constant tensor of type ``kind`` and return its index; INT32 values are clipped."""
    array = np.array(values)
    if kind == "INT32":
        array = np.clip(array, -(2**31), 2**31 - 1)
    index = add_tensor(graph, kind, array.shape)
    content = array.astype({"BOOL": "?"}.get(kind, kind.lower())).tobytes()
    add_buffer(world, graph["tensors"][index], np.frombuffer(content, np.uint8))
    return index


def change_operator(world: World) -> None:
    """Turn an operator into another one, with options of the new operator, the old options, or none."""
    operator, rng = world.part("operators"), world.rng
    if operator is None:
        return
    name = some_code(world)
    operator["opcode_index"] = new_code(world, name, rng.choice((1, 1, 1, 2, 99)))
    if rng.random() < 0.8:
        set_options(world, operator, name)
    elif rng.random() < 0.3:
        operator.pop("builtin_options", None)


def drop_operator(world: World) -> None:
    """Remove an operator.

    Its results become inputs of the graph, or its first operand takes the place of its first result.
    """
    graph, rng = world.graph(), world.rng
    operators = (graph or {}).get("operators")
    if graph is None or not operators:
        return
    operator = operators.pop(rng.randrange(len(operators)))
    inputs, outputs = ints(operator, "inputs"), ints(operator, "outputs")
    if rng.random() < 0.4:
        ints(graph, "inputs").extend(outputs)
    elif inputs and outputs:
        for tree, name in [*((o, "inputs") for o in operators), (graph, "outputs")]:
            tree[name] = [inputs[0] if i == outputs[0] else i for i in ints(tree, name)]


def insert_operators(world: World) -> None:
    """Insert operators, in a chain or beside each other, between a value and one operand or output."""
    graph, rng = world.graph(), world.rng
    if graph is None:
        return
    operators, tensors = graph.setdefault("operators", []), graph.get("tensors") or []
    where = rng.randrange(len(operators) + 1)
    readers = ints(operators[where], "inputs") if where < len(operators) else ints(graph, "outputs")
    places = [i for i, index in enumerate(readers) if 0 <= index < len(tensors)]
    if not places:
        return
    place = rng.choice(places)
    source = at = readers[place]
    kind = type_of(tensors[source])
    odd_shape = rng.choices(DIMENSIONS, k=rng.choice((0, 1, 3)))
    shape = shape_of(tensors[source]) if rng.random() < 0.7 else odd_shape
    names = [some_code(world) for _ in range(rng.choice((1, 1, 2, 20)))]
    count = rng.choice((1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 8, 32, 64, 600))
    if count > 1 and rng.random() < 0.5:
        names = [rng.choice(JOINING)]
    is_parallel = rng.random() < 0.2
    made = []
    for number in range(count):
        name = names[number % len(names)]
        specs = REGISTRY[name].operands
        inputs = [_operand(world, graph, spec, source if is_parallel else at) for spec in specs]
        if specs and specs[-1].variadic:
            inputs += inputs[-1:] * rng.choice((0, 1, 1, 200 if count < 9 else 1))
        at = add_tensor(graph, kind, shape)
        made.append({"opcode_index": new_code(world, name), "inputs": inputs, "outputs": [at]})
        set_options(world, made[-1], name)
        if is_parallel or rng.random() < 0.01:
            ints(graph, "outputs").append(at)
    operators[where:where] = made
    readers[place] = at


def _operand(world: World, graph: Tree, spec: Operand, source: int) -> int:
    """Return the index of a tensor: ``source``, or a new constant, which may hold huge sizes of a result."""
    rng, dtypes = world.rng, {dtype.name for dtype in spec.dtypes}
    if dtypes and dtypes <= INTEGERS and rng.random() < 0.8:
        shape = rng.choice(((), (1,), (2,), (3,), (4,), (4, 2), (2, 2)))
        sizes = rng.choices((*DIMENSIONS, 1, 2, 3, 5), k=math.prod(shape))
        return add_constant(world, graph, "INT32", np.array(sizes).reshape(shape))
    if rng.random() < 0.2:
        shapes = ((1,), (4,), (1000,), (65536,), (4096, 1), (1, 16384), (1, 64, 2, 3), (2, 3, 3, 3))
        return add_constant(world, graph, "FLOAT32", np.ones(rng.choice(shapes)))
    return source
