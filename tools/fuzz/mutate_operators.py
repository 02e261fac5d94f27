# SPDX-License-Identifier: Apache-2.0
"""Mutate the operators of a decoded model: other ones, fewer, many more, and graphs that call each other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from flatbuffers import flexbuffers

from circlekit.io.schema import Tree, enumeration, options_field
from circlekit.ir.declaration import Operand
from circlekit.ir.op import REGISTRY
from circlekit.ops.program.custom import CUSTOM_KERNELS
from tools.fuzz.mutate_bytes import mutate_bytes
from tools.fuzz.mutate_fields import FLOATS, LARGE, World, some_table, within
from tools.fuzz.mutate_tensors import DIMENSIONS, add_buffer, shape_of, type_of

CUSTOM_CODES = (*CUSTOM_KERNELS, "FlexErf", "Convolution2DTransposeBias", "RFFT2D", "Unknown", "")
OPTION_KEYS = (
    "ksize", "strides", "padding", "include_batch_in_index", "keep_dims", "adj_x", "adj_y", "transpose_a",
    "transpose_b", "T", "max_detections", "max_classes_per_detection", "detections_per_class", "num_classes",
    "nms_iou_threshold", "nms_score_threshold", "use_regular_nms", "y_scale", "x_scale", "h_scale", "w_scale",
)  # fmt: skip
CONTROL_FLOW = {
    "IF": ("IfOptions", ("then_subgraph_index", "else_subgraph_index")),
    "WHILE": ("WhileOptions", ("cond_subgraph_index", "body_subgraph_index")),
    "CALL_ONCE": ("CallOnceOptions", ("init_subgraph_index",)),
    "CALL": ("CallOptions", ("subgraph",)),
}
"""Operators that run graphs, their options, and the fields that hold graph indices."""

INTEGERS = frozenset({"INT32", "INT64", "INT16", "UINT32"})
JOINING = ("ADD", "MUL", "CONCATENATION", "MAXIMUM", "SUB", "PACK", "ADD_N", "BATCH_MATMUL")
"""Operators of several operands: a chain of n has 2^n paths, and of CONCATENATION 2^n elements."""


def ints(tree: Tree, name: str) -> list[int]:
    """Return a vector of indices as a list that belongs to the tree."""
    values = tree.get(name)
    tree[name] = out = [] if values is None else [int(v) for v in values]
    return out


def some_code(world: World) -> str:
    known = enumeration("BuiltinOperator", world.format).numbers
    return world.rng.choice([name for name in REGISTRY if name in known])


def new_code(world: World, name: str, version: int = 1) -> int:
    """Append an operator code and return its index."""
    number = enumeration("BuiltinOperator", world.format).numbers[name]
    codes = world.root.setdefault("operator_codes", [])
    codes.append({"deprecated_builtin_code": min(number, 127), "builtin_code": name, "version": version})
    if name == "CUSTOM":
        codes[-1]["custom_code"] = world.rng.choice(CUSTOM_CODES)
    return len(codes) - 1


def set_options(world: World, operator: Tree, name: str) -> None:
    """Replace the options of ``operator`` by defaults, or random ones, of operator ``name``."""
    for name_of_field in ("builtin_options", "builtin_options_2"):
        operator.pop(name_of_field, None)
    options = REGISTRY[name].options if name in REGISTRY else None
    field = options and options_field(options)
    if not options or not field:
        return
    union = "BuiltinOptions2" if field == "builtin_options_2" else "BuiltinOptions"
    if enumeration(union, world.format).numbers.get(options):
        fields = some_table(world, options) if world.rng.random() < 0.3 else {}
        operator[field] = {**fields, "": options}


def add_tensor(graph: Tree, kind: str, shape: Sequence[int]) -> int:
    """Append a tensor and return its index."""
    tensors = graph.setdefault("tensors", [])
    shape = [within("i", d) for d in shape]
    tensors.append({"name": f"made_{len(tensors)}", "type": kind, "shape": shape, "buffer": 0})
    return len(tensors) - 1


def add_constant(world: World, graph: Tree, kind: str, values: Any) -> int:
    """Append a constant tensor of type ``kind`` and return its index; integers are limited to the type."""
    array = np.array(values)
    if kind == "INT32":
        array = np.clip(array, -(2**31), 2**31 - 1)
    index = add_tensor(graph, kind, array.shape)
    content = array.astype({"BOOL": "?"}.get(kind, kind.lower())).tobytes()
    add_buffer(world, graph["tensors"][index], np.frombuffer(content, np.uint8))
    return index


def change_operator(world: World) -> None:
    """Turn an operator into another one, with its own options, the old ones, or none."""
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
    """Remove an operator; its results become inputs, or its first operand replaces its result."""
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
    """Insert an operator, a chain of them, or many beside each other, before an operand or an output."""
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
    """Return ``source``, or a constant of sizes that may request a huge result."""
    rng, dtypes = world.rng, {dtype.name for dtype in spec.dtypes}
    if dtypes and dtypes <= INTEGERS and rng.random() < 0.8:
        shape = rng.choice(((), (1,), (2,), (3,), (4,), (4, 2), (2, 2)))
        sizes = rng.choices((*DIMENSIONS, 1, 2, 3, 5), k=math.prod(shape))
        return add_constant(world, graph, "INT32", np.array(sizes).reshape(shape))
    if rng.random() < 0.2:
        shapes = ((1,), (4,), (1000,), (65536,), (4096, 1), (1, 16384), (1, 64, 2, 3), (2, 3, 3, 3))
        return add_constant(world, graph, "FLOAT32", np.ones(rng.choice(shapes)))
    return source


def custom_operator(world: World) -> None:
    """Turn an operator into a custom one with odd or broken options."""
    operator, rng = world.part("operators"), world.rng
    if operator is None:
        return
    operator["opcode_index"] = new_code(world, "CUSTOM")
    set_options(world, operator, "CUSTOM")
    options = {}
    for key in rng.sample(OPTION_KEYS, rng.randrange(1, len(OPTION_KEYS))):
        numbers = [rng.choice((-1, 0, 1, *LARGE)) for _ in range(rng.choice((1, 4, 4, 9)))]
        text, real = rng.choice(("SAME", "VALID", "", "\n")), rng.choice(FLOATS)
        options[key] = rng.choice((text, numbers, real, rng.random() < 0.5, {"a": 1}, numbers[0]))
    data = bytes(flexbuffers.Dumps(options))
    if rng.random() < 0.5:
        data, _ = mutate_bytes(data, data, rng)
    operator["custom_options"] = np.frombuffer(data, np.uint8)
    operator["custom_options_format"] = "FLEXBUFFERS"
    if rng.random() < 0.15:
        operator["large_custom_options_offset"] = rng.choice((1, 2, 8, 100, 2**31, 2**63, 2**64 - 1))
        operator["large_custom_options_size"] = rng.choice((1, len(data), 2**31, 2**64 - 1))


def nested_calls(world: World) -> None:
    """Append graphs that each run the next one, up to three times; the last may run the first."""
    rng, graphs = world.rng, world.trees("subgraphs")
    if not graphs:
        return
    name = rng.choice(("IF", "IF", "WHILE", "CALL", "CALL_ONCE"))
    levels, calls = rng.choice((2, 3, 10, 30, 62, 63, 64, 65, 100, 300)), rng.choice((1, 1, 2, 3))
    first, is_loop = len(graphs), rng.random() < 0.3
    for level in range(levels):
        kind = "BOOL" if name == "WHILE" and rng.random() < 0.2 else "FLOAT32"
        tensors = [{"name": "x", "type": kind, "shape": [1]}]
        graph: Tree = {"name": f"level_{level}", "tensors": tensors, "inputs": [0], "outputs": [0]}
        graphs.append(graph)
        is_last = level == levels - 1
        for _ in range(calls if not is_last or is_loop else 0):
            graph["outputs"] = [_call(world, graph, name, first if is_last else first + level + 1)]
    ints(graphs[0], "outputs").append(_call(world, graphs[0], name, first))


def _call(world: World, graph: Tree, name: str, target: int) -> int:
    """Append an operator that runs graph ``target``; return the index of its result, or of its operand."""
    options, fields = CONTROL_FLOW[name]
    operand = (ints(graph, "outputs") or [0])[-1]
    inputs = [] if name == "CALL_ONCE" else [operand]
    if name == "IF":
        inputs.insert(0, add_constant(world, graph, "BOOL", [world.rng.random() < 0.5]))
    outputs = [] if name == "CALL_ONCE" else [add_tensor(graph, "FLOAT32", world.rng.choice(([1], [1], [])))]
    operator: Tree = {"opcode_index": new_code(world, name), "inputs": inputs, "outputs": outputs}
    operator["builtin_options"] = {"": options, **dict.fromkeys(fields, target)}
    graph.setdefault("operators", []).append(operator)
    return outputs[0] if outputs else operand
