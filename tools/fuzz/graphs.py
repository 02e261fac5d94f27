# SPDX-License-Identifier: Apache-2.0
"""Graphs that are long, deep, wide, or call each other often: what is exponential shows itself here."""

from __future__ import annotations

import copy

from circlekit.io.schema import Tree
from tools.fuzz.fields import World
from tools.fuzz.operators import CONTROL, code_index, ints, options_of
from tools.fuzz.sizes import add_constant, add_tensor

CHAINED = (
    "RELU", "NEG", "ABS", "TANH", "RESHAPE", "TRANSPOSE", "MUL", "ADD", "SQUEEZE", "CAST", "QUANTIZE",
    "DEQUANTIZE", "LOGISTIC", "PAD", "SLICE", "EXPAND_DIMS", "MEAN", "CONCATENATION", "PACK", "SPLIT", "GELU",
)  # fmt: skip
DOUBLED = ("ADD", "MUL", "CONCATENATION", "MAXIMUM", "SUB", "PACK", "BATCH_MATMUL")


def _append(world: World, graph: Tree, name: str, inputs: list[int], like: Tree) -> int:
    """An operator behind all others, its result like a tensor; returns the result's index."""
    shape = [] if like.get("shape") is None else [int(d) for d in like["shape"]]
    result = add_tensor(graph, like.get("type", "FLOAT32"), shape if world.rng.random() < 0.7 else [])
    new: Tree = {"opcode_index": code_index(world, name), "inputs": inputs, "outputs": [result]}
    options = options_of(world, name)
    if options is not None:
        new[options[0]] = options[1]
    graph.setdefault("operators", []).append(new)
    return result


def _start(world: World, graph: Tree) -> int:
    """A tensor to begin a chain with: an output, any, or a constant."""
    rng, count = world.rng, len(graph.get("tensors") or ())
    outputs = [i for i in ints(graph, "outputs") if 0 <= i < count]
    kind = rng.random()
    if kind < 0.5 and outputs:
        return rng.choice(outputs)
    if kind < 0.8 and count:
        return rng.randrange(count)
    return add_constant(world, graph, "f", [[1.0, 2.0]])


def long_chain(world: World) -> None:
    """Many operators one behind the other, of one kind, of two by turns, or of any."""
    graph, rng = world.graph(), world.rng
    if graph is None:
        return
    at = _start(world, graph)
    like = graph["tensors"][at]
    rank = 0 if like.get("shape") is None else len(like["shape"])
    perm = add_constant(world, graph, "i", rng.sample(range(rank), rank) or [0])
    other = add_constant(world, graph, "f", 2.0)
    names = rng.sample(CHAINED, rng.choice((1, 1, 2, 3, len(CHAINED))))
    for number in range(rng.choice((10, 50, 100, 300, 600))):
        name = names[number % len(names)]
        more = {"TRANSPOSE": [perm], "MUL": [other], "ADD": [other], "RESHAPE": [perm], "MEAN": [perm]}
        at = _append(world, graph, name, [at, *more.get(name, ())], graph["tensors"][at])
    ints(graph, "outputs").append(at)


def diamonds(world: World) -> None:
    """Each operator reads the one before twice: 2^n paths, and 2^n elements where they are concatenated."""
    graph, rng = world.graph(), world.rng
    if graph is None:
        return
    at, like = _start(world, graph), {}
    like = graph["tensors"][at]
    name = rng.choice(DOUBLED)
    for _ in range(rng.choice((8, 16, 24, 32, 64, 200))):
        at = _append(
            world,
            graph,
            name,
            [at, at],
            {"type": like.get("type", "FLOAT32")} if name in ("CONCATENATION", "PACK") else like,
        )
    ints(graph, "outputs").append(at)


def many_readers(world: World) -> None:
    """One tensor has very many readers, or one operator very many operands."""
    graph, rng = world.graph(), world.rng
    if graph is None:
        return
    at = _start(world, graph)
    count = rng.choice((50, 200, 500))
    if rng.random() < 0.5:
        name = rng.choice(("CONCATENATION", "ADD_N", "PACK"))
        result = _append(world, graph, name, [at] * count, {"type": "FLOAT32"})
        ints(graph, "outputs").append(result)
        return
    name = rng.choice(CHAINED[:4])
    results = [_append(world, graph, name, [at], graph["tensors"][at]) for _ in range(count)]
    ints(graph, "outputs").extend(results if rng.random() < 0.5 else results[:1])


def tower(world: World) -> None:
    """Graphs that call the next one, once or twice, to the last, which may call the first."""
    rng = world.rng
    graphs = world.trees("subgraphs")
    if not graphs:
        return
    name = rng.choice(("IF", "IF", "WHILE", "CALL", "CALL_ONCE"))
    options, fields = CONTROL[name]
    levels, calls = rng.choice((2, 3, 10, 30, 62, 63, 64, 65, 100, 300)), rng.choice((1, 1, 2, 3))
    first = len(graphs)
    world.root.setdefault("buffers", [{}])
    code = code_index(world, name)
    for level in range(levels):
        graphs.append(_floor(world, name, code, options, fields, calls, first, level, levels))
    caller = graphs[0]
    at = _start(world, caller)
    caller.setdefault("operators", []).append(_caller(caller, world, name, code, options, fields, first, at))
    ints(caller, "outputs").extend(caller["operators"][-1]["outputs"])


def _floor(
    world: World,
    name: str,
    code: int,
    options: str,
    fields: tuple[str, ...],
    calls: int,
    first: int,
    level: int,
    levels: int,
) -> Tree:
    """One of the graphs: it calls the next one ``calls`` times; the last calls nothing, or the first."""
    kind = "BOOL" if name == "WHILE" and world.rng.random() < 0.2 else "FLOAT32"
    tensor: Tree = {"name": "x", "type": kind, "shape": [1]}
    graph: Tree = {
        "name": f"floor_{level}",
        "tensors": [tensor],
        "inputs": [0],
        "outputs": [0],
        "operators": [],
    }
    last = level == levels - 1
    if last and world.rng.random() < 0.7:
        return graph
    at = 0
    for _ in range(calls):
        target = first if last else first + level + 1
        graph["operators"].append(_caller(graph, world, name, code, options, fields, target, at))
        at = graph["operators"][-1]["outputs"][0] if graph["operators"][-1]["outputs"] else at
    graph["outputs"] = [at]
    return graph


def _caller(
    graph: Tree,
    world: World,
    name: str,
    code: int,
    options: str,
    fields: tuple[str, ...],
    target: int,
    at: int,
) -> Tree:
    """An operator that calls graph ``target`` with tensor ``at``."""
    inputs = [] if name == "CALL_ONCE" else [at]
    if name == "IF":
        inputs.insert(0, add_constant(world, graph, "?", [world.rng.random() < 0.5]))
    shape = world.rng.choice(([1], [1], []))
    outputs = [] if name == "CALL_ONCE" else [add_tensor(graph, "FLOAT32", shape)]
    return {
        "opcode_index": code,
        "inputs": inputs,
        "outputs": outputs,
        "builtin_options": {"": options, **dict.fromkeys(fields, target)},
    }


def many_graphs(world: World) -> None:
    """Copies of a graph, all with its names, and signatures of the same key for them."""
    graph, rng = world.graph(), world.rng
    if graph is None:
        return
    graphs = world.trees("subgraphs")
    for _ in range(rng.choice((2, 5, 20))):
        graphs.append(copy.deepcopy(graph) if rng.random() < 0.5 else graph)
        if rng.random() < 0.7:
            key = rng.choice(("a", "a", "serving_default", "", "\x1b[2J\n"))
            ports = {
                side: [
                    {"name": rng.choice(("p", "q", "")), "tensor_index": max(0, i)} for i in ints(graph, side)
                ]
                for side in ("inputs", "outputs")
            }
            number = rng.choice((len(graphs) - 1, 0))
            world.root.setdefault("signature_defs", []).append(
                {"signature_key": key, "subgraph_index": number, **ports}
            )
