# SPDX-License-Identifier: Apache-2.0
"""Mutations of operators, graphs and signatures: what is connected with what, and what it is."""

from __future__ import annotations

import copy
from typing import Any

from circlekit.io.schema import Tree, enumeration, options_field, table
from circlekit.ir.op import REGISTRY
from tools.fuzz.fields import World, mutate_field, some_table

CONTROL = {
    "IF": ("IfOptions", ("then_subgraph_index", "else_subgraph_index")),
    "WHILE": ("WhileOptions", ("cond_subgraph_index", "body_subgraph_index")),
    "CALL_ONCE": ("CallOnceOptions", ("init_subgraph_index",)),
    "CALL": ("CallOptions", ("subgraph",)),
}
"""Operators that run graphs, their options, and the fields that say which."""

_UNARY = (
    "RELU", "RELU6", "RELU_N1_TO_1", "TANH", "LOGISTIC", "ABS", "NEG", "RSQRT", "SQRT", "SQUARE", "EXP",
    "QUANTIZE", "DEQUANTIZE", "CAST", "SOFTMAX", "ELU", "HARD_SWISH", "LEAKY_RELU", "GELU", "FLOOR",
    "RESHAPE", "SQUEEZE", "SHAPE", "RANK", "PACK", "CONCATENATION", "ADD_N", "L2_NORMALIZATION", "CUSTOM",
)  # fmt: skip


def ints(tree: Tree, name: str) -> list[int]:
    """A vector of indices, as a list of the tree's own."""
    values = tree.get(name)
    out = [] if values is None else [int(v) for v in values]
    tree[name] = out
    return out


def code_index(world: World, name: str, version: int = 1) -> int:
    """The index of a new operator code."""
    number = enumeration("BuiltinOperator", world.format).numbers[name]
    codes = world.root.setdefault("operator_codes", [])
    old = min(number, 127)
    codes.append({"deprecated_builtin_code": old, "builtin_code": name, "version": version})
    if name == "CUSTOM":
        codes[-1]["custom_code"] = world.rng.choice(("MaxPoolWithArgmax", "Erf", "x", ""))
    return len(codes) - 1


def options_of(world: World, name: str) -> tuple[str, Tree] | None:
    """The union field and a table of options for operator ``name``, with attributes that are odd at times."""
    kind = REGISTRY.get(name)
    if kind is None or kind.options is None:
        return None
    field = options_field(kind.options)
    union = "BuiltinOptions2" if field == "builtin_options_2" else "BuiltinOptions"
    if field is None or not enumeration(union, world.format).numbers.get(kind.options):
        return None
    fields = some_table(world, kind.options) if world.rng.random() < 0.3 else {}
    return field, {**fields, "": kind.options}


def _codes(world: World) -> list[str]:
    known = enumeration("BuiltinOperator", world.format).numbers
    return [name for name in REGISTRY if name in known]


def set_options(world: World, operator: Tree, name: str) -> None:
    """Replace the options of ``operator`` by some for operator ``name``."""
    for field in ("builtin_options", "builtin_options_2"):
        operator.pop(field, None)
    options = options_of(world, name)
    if options is not None:
        operator[options[0]] = options[1]


# -- mutations of operators --------------------------------------------------------------------


def change_code(world: World) -> None:
    """Another operator with these operands, with its own options, or those of the one before."""
    operator, rng = world.part("operators"), world.rng
    if operator is None:
        return
    name = rng.choice(_codes(world))
    operator["opcode_index"] = code_index(world, name, rng.choice((1, 1, 1, 2, 99)))
    if rng.random() < 0.8:
        set_options(world, operator, name)


def change_attribute(world: World) -> None:
    """One or two attributes at their edges."""
    rng = world.rng
    options: Tree | None = None
    for _ in range(6):
        operator = world.part("operators") or {}
        options = options or operator.get("builtin_options") or operator.get("builtin_options_2")
    if not options:
        return
    spec = table(options[""], world.format)
    for _ in range(rng.choice((1, 1, 2))):
        if spec.fields:
            mutate_field(world, options, spec, rng.choice(spec.fields))


def drop_options(world: World) -> None:
    operator = world.part("operators")
    if operator is not None:
        operator.pop("builtin_options", None)


def rewire(world: World) -> None:
    """Operands swapped, dropped, added, absent, or another tensor."""
    graph, rng = world.graph(), world.rng
    operators = (graph or {}).get("operators") or []
    if not operators or graph is None:
        return
    inputs = ints(rng.choice(operators), "inputs")
    other = rng.randrange(max(1, len(graph.get("tensors") or ())))
    kind = rng.randrange(6)
    at = rng.randrange(len(inputs)) if inputs else 0
    if kind == 0 and inputs:
        there = rng.randrange(len(inputs))
        inputs[at], inputs[there] = inputs[there], inputs[at]
    elif kind == 1 and inputs:
        del inputs[at]
    elif kind == 2:
        inputs.append(other)
    elif kind == 3 and inputs:
        inputs[at] = -1
    elif inputs:
        inputs[at] = other


def rewire_results(world: World) -> None:
    """Results dropped, added, twice, or another tensor."""
    graph, rng = world.graph(), world.rng
    operators = (graph or {}).get("operators") or []
    if not operators or graph is None:
        return
    outputs = ints(rng.choice(operators), "outputs")
    other = rng.randrange(max(1, len(graph.get("tensors") or ())))
    kind = rng.randrange(4)
    if kind == 0 and outputs:
        del outputs[rng.randrange(len(outputs))]
    elif kind == 1:
        outputs.append(rng.choice((*outputs, other)))
    elif kind == 2:
        graph.setdefault("tensors", []).append({"name": "extra", "type": "FLOAT32", "shape": [1]})
        outputs.append(len(graph["tensors"]) - 1)
    elif outputs:
        outputs[rng.randrange(len(outputs))] = other


def drop_operator(world: World) -> None:
    """One operator less; its result may become an input, or a copy of its operand take its place."""
    graph, rng = world.graph(), world.rng
    operators = (graph or {}).get("operators") or []
    if not operators or graph is None:
        return
    operator = operators.pop(rng.randrange(len(operators)))
    inputs, outputs = ints(operator, "inputs"), ints(operator, "outputs")
    kind = rng.random()
    if kind < 0.4:
        ints(graph, "inputs").extend(outputs)
    elif kind < 0.8 and inputs and outputs:
        for other in operators:
            other["inputs"] = [inputs[0] if i == outputs[0] else i for i in ints(other, "inputs")]
        graph["outputs"] = [inputs[0] if i == outputs[0] else i for i in ints(graph, "outputs")]


def repeat_operator(world: World) -> None:
    """The same operator once more, with new results that others read, or the same ones."""
    graph, rng = world.graph(), world.rng
    operators = (graph or {}).get("operators") or []
    if not operators or graph is None:
        return
    at = rng.randrange(len(operators))
    twin = copy.deepcopy(operators[at])
    operators.insert(at + 1, twin)
    if rng.random() < 0.9:
        tensors = graph.get("tensors") or []
        outputs = ints(twin, "outputs")
        for place, index in enumerate(outputs):
            if 0 <= index < len(tensors):
                tensors.append({**tensors[index], "name": f"again_{len(tensors)}"})
                outputs[place] = len(tensors) - 1
        if rng.random() < 0.5:
            ints(graph, "outputs").extend(outputs)
        elif outputs:
            reader = rng.choice(operators)
            old = set(ints(operators[at], "outputs"))
            reader["inputs"] = [outputs[0] if i in old else i for i in ints(reader, "inputs")]


def move_operator(world: World) -> None:
    graph, rng = world.graph(), world.rng
    operators = (graph or {}).get("operators") or []
    if operators:
        operators.insert(rng.randrange(len(operators)), operators.pop(rng.randrange(len(operators))))


def insert_operator(world: World) -> None:
    """An operator of one operand between a tensor and one of its readers."""
    graph, rng = world.graph(), world.rng
    operators = (graph or {}).get("operators") or []
    tensors = (graph or {}).get("tensors") or []
    if not operators or not tensors:
        return
    at = rng.randrange(len(operators))
    inputs = ints(operators[at], "inputs")
    places = [i for i, index in enumerate(inputs) if 0 <= index < len(tensors)]
    if not places:
        return
    place = rng.choice(places)
    source = tensors[inputs[place]]
    shape = [] if source.get("shape") is None else list(source["shape"])
    tensors.append({"name": f"new_{len(tensors)}", "type": source.get("type", "FLOAT32"), "shape": shape})
    name = rng.choice(_UNARY)
    new: Tree = {"opcode_index": code_index(world, name), "inputs": [inputs[place]]}
    new["outputs"] = [len(tensors) - 1]
    set_options(world, new, name)
    inputs[place] = len(tensors) - 1
    operators.insert(at, new)


# -- mutations of graphs and signatures --------------------------------------------------------


def change_interface(world: World) -> None:
    """Inputs and outputs dropped, twice, in another order, or more of them."""
    graph, rng = world.graph(), world.rng
    if graph is None:
        return
    indices = ints(graph, rng.choice(("inputs", "outputs", "outputs")))
    kind = rng.randrange(5)
    if kind == 0 and indices:
        del indices[rng.randrange(len(indices))]
    elif kind == 1 and indices:
        indices.append(rng.choice(indices))
    elif kind == 2:
        rng.shuffle(indices)
    else:
        indices.append(rng.randrange(max(1, len(graph.get("tensors") or ()))))


def add_graph(world: World) -> None:
    """A subgraph that is the copy of one; most often one that nothing calls."""
    graph = world.graph()
    if graph is not None and len(world.trees("subgraphs")) < 6:
        world.trees("subgraphs").append(copy.deepcopy(graph))


def call_graph(world: World) -> None:
    """An operator that runs a graph, its own too, in the place of one, or before all others."""
    graph, rng = world.graph(), world.rng
    if graph is None:
        return
    if rng.random() < 0.5:
        add_graph(world)
    name = rng.choice(list(CONTROL))
    options, fields = CONTROL[name]
    count = len(world.trees("subgraphs"))
    new: dict[str, Any] = {"": options, **{f: rng.randrange(count + (rng.random() < 0.05)) for f in fields}}
    operators = graph.setdefault("operators", [])
    if operators and rng.random() < 0.6:
        operator = rng.choice(operators)
        operator.pop("builtin_options_2", None)
        operator |= {"opcode_index": code_index(world, name), "builtin_options": new}
        return
    inputs = ints(graph, "inputs") if name != "CALL_ONCE" else []
    tensors = graph.get("tensors") or []
    outputs = []
    for index in inputs if name == "WHILE" else ints(graph, "outputs") if name != "CALL_ONCE" else []:
        if 0 <= index < len(tensors):
            tensors.append({**tensors[index], "name": f"called_{len(tensors)}", "buffer": 0})
            outputs.append(len(tensors) - 1)
    operators.insert(0, {"opcode_index": code_index(world, name), "inputs": list(inputs), "outputs": outputs})
    operators[0]["builtin_options"] = new
    if rng.random() < 0.7:
        ints(graph, "outputs").extend(outputs)


def change_signature(world: World) -> None:
    """A signature for some graph, or other ports of one."""
    rng = world.rng
    signatures = world.root.setdefault("signature_defs", [])
    graphs = world.trees("subgraphs")
    if not graphs:
        return
    number = rng.randrange(len(graphs))
    ports = {side: _ports(world, ints(graphs[number], side)) for side in ("inputs", "outputs")}
    signatures.append({"signature_key": rng.choice(("a", "b", "")), "subgraph_index": number, **ports})
    if rng.random() < 0.5:
        spec = table("SignatureDef", world.format)
        mutate_field(world, signatures[-1], spec, rng.choice(spec.fields))


def _ports(world: World, indices: list[int]) -> list[Tree]:
    """Names for tensors, some of them twice."""
    same = world.rng.choice((1, 1, 2))
    return [{"name": f"p{i // same}", "tensor_index": max(0, index)} for i, index in enumerate(indices)]


def odd_codes(world: World) -> None:
    """Operator codes with fields that contradict each other, unknown numbers, or versions at their edges."""
    codes, rng = world.trees("operator_codes"), world.rng
    if not codes:
        return
    code = rng.choice(codes)
    kind = rng.randrange(4)
    if kind == 0:
        code["version"] = rng.choice((0, -1, 2, 3, 7, 99, 2**31 - 1, -(2**31)))
    elif kind == 1:
        code["builtin_code"] = rng.choice((300, 127, -20, 2**31 - 1, "CUSTOM", "DELEGATE"))
    elif kind == 2:
        code["deprecated_builtin_code"] = rng.choice((0, 127, -1, -128, 32, 100))
    else:
        code["custom_code"] = rng.choice(("", "x", "FlexAdd", "\0"))
