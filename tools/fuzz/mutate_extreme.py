# SPDX-License-Identifier: Apache-2.0
"""Mutate a model towards limits: huge results, long and recursive graphs, hostile names, misplaced data."""

from __future__ import annotations

import random
import struct
from typing import Any

import numpy as np
from flatbuffers import flexbuffers

from circlekit.io.read.flatbuffer_decoder import decode
from circlekit.io.schema import Tree
from circlekit.ir.op import REGISTRY
from circlekit.ir.value import Array
from circlekit.ops.program.custom import CUSTOM_KERNELS
from tools.fuzz.mutate_fields import FLOATS, World, within
from tools.fuzz.mutate_model import (
    Mutation,
    add_buffer,
    apply_some,
    buffer_of,
    finish,
    ints,
    known_codes,
    new_code,
    set_options,
    shape_of,
)

SIZES = (
    0, 1, 2, 3, 7, 100, 1000, 4096, 65535, 65536, 2**20, 2**24, 2**28, 2**30, 2**31 - 1, -1, -2, -(2**31),
)  # fmt: skip
"""Requested sizes; the product of two of them exceeds 64 bits."""

NUMBERS = (0, 1, -1, 2, 3, 65536, 2**31 - 1, -(2**31), 2**32, 2**63 - 1, -(2**63))
NAMES = (
    "\x1b[31mred\x1b[0m", "a\nb", "a\r\nerror: b", "\x1b]0;title\x07", "\u202eevil", "\0", "é",
    "\udcff\udcfe", "x" * 100_000, "%a(", "{}", "\u2028", "../../../etc/passwd", "C:\\x", "/dev/zero", " ",
    "\t", "tensor_0", "'\"`$(x)", "name:0;name", "x/y//z", "-", "--O1", "[1]", "%x: f32[1]",
)  # fmt: skip
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


def mutate_extreme(data: bytes, fmt: str, rng: random.Random) -> tuple[bytes, list[str]]:
    """Return a file like ``data`` with something extreme in it, and the names of the changes."""
    world = World(decode(memoryview(data), fmt), fmt, rng)
    chosen = rng.choices(list(MUTATIONS), list(MUTATIONS.values()), k=rng.choice((1, 1, 2, 3)))
    for mutate in chosen:
        mutate(world)
    done = [mutate.__name__ for mutate in chosen]
    if rng.random() < 0.3:
        done += apply_some(world)
    return finish(world, done), done


# -- building blocks ---------------------------------------------------------------------------


def add_tensor(graph: Tree, kind: str, shape: list[int]) -> int:
    """Append a tensor and return its index."""
    tensors = graph.setdefault("tensors", [])
    tensors.append({"name": f"made_{len(tensors)}", "type": kind, "shape": shape, "buffer": 0})
    return len(tensors) - 1


def add_constant(world: World, graph: Tree, kind: str, values: Any) -> int:
    """Append a constant tensor of type ``kind`` and return its index; integers are limited to the type."""
    dtype = np.dtype({"BOOL": "?"}.get(kind, kind.lower()))
    array: Array = np.array(values)
    if dtype.kind == "i":
        array = np.clip(array, np.iinfo(str(dtype)).min, np.iinfo(str(dtype)).max)
    index = add_tensor(graph, kind, list(array.shape))
    data = np.frombuffer(array.astype(dtype).tobytes(), np.uint8)
    add_buffer(world, graph["tensors"][index], data)
    return index


def append_operator(world: World, graph: Tree, name: str, inputs: list[int], kind: str, shape: Any) -> int:
    """Append an operator with one result and return the index of the result."""
    result = add_tensor(graph, kind, [within("i", int(d)) for d in shape])
    operator: Tree = {"opcode_index": new_code(world, name), "inputs": inputs, "outputs": [result]}
    set_options(world, operator, name)
    graph.setdefault("operators", []).append(operator)
    return result


def _size(rng: random.Random) -> int:
    return rng.choice(SIZES) if rng.random() < 0.7 else rng.choice((1, 2, 3, 5))


def _some_tensor(world: World, graph: Tree) -> int:
    """Return the index of an output, of any tensor, or of a new constant."""
    rng, count = world.rng, len(graph.get("tensors") or ())
    outputs = [i for i in ints(graph, "outputs") if 0 <= i < count]
    kind = rng.random()
    if kind < 0.5 and outputs:
        return rng.choice(outputs)
    if kind < 0.8 and count:
        return rng.randrange(count)
    return add_constant(world, graph, "FLOAT32", [[1.0, 2.0]])


# -- sizes -------------------------------------------------------------------------------------


def huge_result(world: World) -> None:
    """Append an operator on constants that may request a huge result; something may read it."""
    graph, rng = world.graph(), world.rng
    if graph is None:
        return
    name = rng.choice([n for n in known_codes(world) if REGISTRY[n].operands])
    inputs = []
    for operand in REGISTRY[name].operands:
        dtypes = {dtype.name for dtype in operand.dtypes}
        is_parameter = bool(dtypes) and dtypes <= {"INT32", "INT64", "INT16", "UINT32"}
        if is_parameter or rng.random() < 0.2:
            shape = rng.choice(((), (1,), (2,), (3,), (4,), (4, 2), (2, 2)))
            values = np.array([_size(rng) for _ in range(int(np.prod(shape)))]).reshape(shape)
            inputs.append(add_constant(world, graph, rng.choice(("INT32", "INT32", "INT64")), values))
        else:
            shapes = ((1,), (4,), (1000,), (65536,), (4096, 1), (1, 16384), (1, 64, 2, 3), (2, 3, 3, 3))
            inputs.append(add_constant(world, graph, "FLOAT32", np.ones(rng.choice(shapes))))
    dims = [_size(rng) for _ in range(rng.choice((0, 0, 1, 3)))]
    result = append_operator(world, graph, name, inputs, rng.choice(("FLOAT32", "FLOAT32", "INT32")), dims)
    operators = graph["operators"]
    operators.insert(0, operators.pop())
    readers = ints(rng.choice(operators), "inputs")
    if readers and rng.random() < 0.5:
        readers[rng.randrange(len(readers))] = result
    else:
        ints(graph, "outputs").append(result)


def large_dimensions(world: World) -> None:
    """Enlarge one size wherever it occurs, or give a tensor many dimensions: element counts overflow."""
    rng = world.rng
    tensors = world.parts("tensors")
    sizes = sorted({d for tensor in tensors for d in shape_of(tensor)})
    if not sizes:
        return
    if rng.random() < 0.3:
        tensor = rng.choice(tensors)
        tensor["shape"] = [rng.choice((1, 1, 2, 65536, 2**31 - 1))] * rng.choice((5, 8, 9, 32, 33, 65, 1000))
        tensor["shape"][0] *= rng.choice((0, 1))
        tensor.pop("shape_signature", None)
        return
    old, new = rng.choice(sizes), rng.choice((1000, 32768, 46341, 65536, 2**20, 2**24, 2**28, 2**31 - 1))
    for tensor in tensors:
        shape = shape_of(tensor)
        if old in shape and not tensor.get("buffer", 0):
            tensor["shape"] = [new if d == old else d for d in shape]
            tensor.pop("shape_signature", None)


# -- graphs ------------------------------------------------------------------------------------


def long_chain(world: World) -> None:
    """Append many operators one after the other, of a few kinds."""
    graph, rng = world.graph(), world.rng
    if graph is None:
        return
    at = _some_tensor(world, graph)
    rank = len(shape_of(graph["tensors"][at]))
    axes = add_constant(world, graph, "INT32", rng.sample(range(rank), rank) or [0])
    factor = add_constant(world, graph, "FLOAT32", 2.0)
    names = rng.sample(known_codes(world), rng.choice((1, 1, 2, 3, 20)))
    for number in range(rng.choice((10, 50, 100, 300, 600))):
        name = names[number % len(names)]
        count = len(REGISTRY[name].operands)
        like = graph["tensors"][at]
        inputs = [at, *([axes] if name in ("TRANSPOSE", "RESHAPE", "MEAN") else [factor] * (count - 1))]
        shape = shape_of(like) if rng.random() < 0.7 else []
        at = append_operator(world, graph, name, inputs, like.get("type", "FLOAT32"), shape)
    ints(graph, "outputs").append(at)


def diamonds(world: World) -> None:
    """Let each operator read the one before twice: 2^n paths, 2^n elements if they are concatenated."""
    graph, rng = world.graph(), world.rng
    if graph is None:
        return
    at = _some_tensor(world, graph)
    like = graph["tensors"][at]
    name = rng.choice(("ADD", "MUL", "CONCATENATION", "MAXIMUM", "SUB", "PACK", "BATCH_MATMUL"))
    shape = [] if name in ("CONCATENATION", "PACK") else shape_of(like)
    for _ in range(rng.choice((8, 16, 24, 32, 64, 200))):
        at = append_operator(world, graph, name, [at, at], like.get("type", "FLOAT32"), shape)
    ints(graph, "outputs").append(at)


def many_users(world: World) -> None:
    """Give one tensor very many users, or one operator very many operands."""
    graph, rng = world.graph(), world.rng
    if graph is None:
        return
    at = _some_tensor(world, graph)
    count = rng.choice((50, 200, 500))
    if rng.random() < 0.5:
        name = rng.choice(("CONCATENATION", "ADD_N", "PACK"))
        results = [append_operator(world, graph, name, [at] * count, "FLOAT32", [])]
    else:
        name, shape = rng.choice(("RELU", "NEG", "ABS")), shape_of(graph["tensors"][at])
        results = [append_operator(world, graph, name, [at], "FLOAT32", shape) for _ in range(count)]
    ints(graph, "outputs").extend(results)


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
    shape = world.rng.choice(([1], [1], []))
    outputs = [] if name == "CALL_ONCE" else [add_tensor(graph, "FLOAT32", shape)]
    operator: Tree = {"opcode_index": new_code(world, name), "inputs": inputs, "outputs": outputs}
    operator["builtin_options"] = {"": options, **dict.fromkeys(fields, target)}
    graph.setdefault("operators", []).append(operator)
    return outputs[0] if outputs else operand


# -- data with a structure of its own ----------------------------------------------------------


def hostile_names(world: World) -> None:
    """Use names that a terminal, a text or a file system may misinterpret, or one name for all."""
    rng = world.rng
    name = rng.choice(NAMES)
    for graph in world.trees("subgraphs"):
        for number, tensor in enumerate(graph.get("tensors") or ()):
            if rng.random() < 0.5:
                tensor["name"] = name if rng.random() < 0.5 else f"{rng.choice(NAMES[:8])}{number}"
        graph["name"] = rng.choice((graph.get("name", ""), rng.choice(NAMES)))
    world.root["description"] = rng.choice(NAMES)
    world.root.setdefault("metadata", []).append({"name": rng.choice(NAMES), "buffer": 0})


def string_table(world: World) -> None:
    """Turn a tensor into a constant of strings whose count and offsets may be wrong."""
    tensor, rng = world.part("tensors"), world.rng
    if tensor is None:
        return
    texts = [rng.choice((b"", b"a", b"hello", b"\xff\xfe", b"x" * 300)) for _ in range(rng.randrange(5))]
    start = 4 * (len(texts) + 2)
    numbers = [len(texts), *(start + sum(map(len, texts[:i])) for i in range(len(texts) + 1))]
    if rng.random() < 0.7:
        at = rng.randrange(len(numbers))
        numbers[at] = rng.choice((*NUMBERS[:7], numbers[at] + 1, numbers[at] - 4, -4, 2**30))
    data = struct.pack(f"<{len(numbers)}i", *numbers) + b"".join(texts)
    data = data[: rng.randrange(len(data) + 1)] if rng.random() < 0.2 else data
    add_buffer(world, tensor, np.frombuffer(data, np.uint8))
    tensor["type"] = "STRING"
    if rng.random() < 0.8:
        tensor["shape"] = [len(texts)]


def custom_operator(world: World) -> None:
    """Turn an operator into a custom one with odd or broken options."""
    operator, rng = world.part("operators"), world.rng
    if operator is None:
        return
    operator["opcode_index"] = new_code(world, "CUSTOM")
    world.root["operator_codes"][-1]["custom_code"] = rng.choice(CUSTOM_CODES)
    for name in ("builtin_options", "builtin_options_2"):
        operator.pop(name, None)
    data = _flexbuffer(rng)
    if rng.random() < 0.15:
        data = data[: rng.randrange(len(data))]
    for _ in range(rng.choice((0, 0, 1, 3)) if data else 0):
        data[rng.randrange(len(data))] = rng.choice((0, 1, 4, 0x24, 0x28, 0x7F, 0xFF, rng.randrange(256)))
    operator["custom_options"] = np.frombuffer(bytes(data), np.uint8)
    operator["custom_options_format"] = "FLEXBUFFERS"
    if rng.random() < 0.15:
        operator["large_custom_options_offset"] = rng.choice((1, 2, 8, 100, 2**31, 2**63, 2**64 - 1))
        operator["large_custom_options_size"] = rng.choice((1, len(data), 2**31, 2**64 - 1))


def _flexbuffer(rng: random.Random) -> bytearray:
    """Return a map of options as custom operators have them: numbers, strings, vectors, nested maps."""
    builder = flexbuffers.Builder()
    with builder.Map():
        for key in rng.sample(OPTION_KEYS, rng.randrange(1, len(OPTION_KEYS))):
            kind = rng.randrange(6)
            if kind == 0:
                builder.String(key, rng.choice(("SAME", "VALID", "", "\n")))
            elif kind == 1:
                numbers = [rng.choice(NUMBERS) for _ in range(rng.choice((1, 4, 4, 9)))]
                builder.TypedVectorFromElements(key, numbers)
            elif kind == 2:
                builder.Float(key, rng.choice(FLOATS))
            elif kind == 3:
                builder.Bool(key, rng.random() < 0.5)
            elif kind == 4:
                with builder.Map(key):
                    builder.Int("a", 1)
            else:
                builder.Int(key, rng.choice(NUMBERS))
    return bytearray(builder.Finish())


def sparsity(world: World) -> None:
    """Give a constant a sparse format whose order, blocks, segments or indices may be wrong."""
    tensor, rng = world.part("tensors"), world.rng
    if tensor is None or buffer_of(world, tensor) is None:
        return
    shape = shape_of(tensor)
    blocks = [rng.choice((1, 2, 4, 0, -1, 2**31 - 1)) for _ in range(rng.choice((0, 0, 1, 2)))]
    order = list(range(len(shape) + len(blocks)))
    if rng.random() < 0.4:
        order = [rng.choice((*order, -1, len(shape) + 9, 2**31 - 1)) for _ in order]
    tensor["sparsity"] = {
        "traversal_order": order,
        "block_map": [rng.choice((rng.randrange(len(shape) + 1), -1, 2**31 - 1)) for _ in blocks],
        "dim_metadata": [_level(rng, d) for d in (*shape, *blocks)][: rng.choice((99, 99, 1))],
    }


def _level(rng: random.Random, size: int) -> Tree:
    """Return one dimension of a sparse format: dense, or compressed with random segments and indices."""
    if rng.random() < 0.5:
        return {"format": "DENSE", "dense_size": rng.choice((size, size, size, size - 1, 0, -1, 2**31 - 1))}
    member, low, high = rng.choice(
        (("Int32Vector", -1, 2**31 - 1), ("Uint16Vector", 0, 65535), ("Uint8Vector", 0, 255))
    )
    count = rng.choice((0, 1, 2, size + 1 if 0 <= size < 300 else 3))
    segments = sorted(rng.choice((0, 1, 2, size, high)) for _ in range(count))
    indices = [rng.choice((0, 1, size - 1, high, low)) for _ in range(rng.choice((0, 1, 2, 9)))]
    level: Tree = {"format": "SPARSE_CSR", "dense_size": size}
    for name, values in (("array_segments", segments), ("array_indices", indices)):
        if rng.random() < 0.95:
            level[name] = {"": member, "values": [min(max(v, low), high) for v in values]}
    return level


def external_buffers(world: World) -> None:
    """Place the data of several buffers behind, within or across the flatbuffer and each other."""
    rng, buffers = world.rng, world.trees("buffers")
    start = rng.choice((2, 4, 16, 64, 256, 1024, 4096, 2**31, 2**63, 2**64 - 8))
    for buffer in rng.sample(buffers, min(len(buffers), rng.choice((1, 2, 3, 9)))):
        size = 0 if buffer.get("data") is None else len(buffer["data"])
        if rng.random() < 0.8:
            buffer.pop("data", None)
        buffer["offset"] = min(start, 2**64 - 1)
        buffer["size"] = rng.choice((size, size, size, size + 4, 2**63, 2**64 - 1))
        start += rng.choice((0, 1, 4, size, size // 2))


MUTATIONS: dict[Mutation, float] = {
    huge_result: 6, large_dimensions: 4, long_chain: 1, diamonds: 2, many_users: 1, nested_calls: 3,
    hostile_names: 1, string_table: 2, custom_operator: 3, sparsity: 2, external_buffers: 2,
}  # fmt: skip
"""Mutations with their weights."""
