# SPDX-License-Identifier: Apache-2.0
"""Mutate a model through the schema: the result can mostly be decoded, but something in it is odd or huge."""

from __future__ import annotations

import copy
import math
import random
import struct
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from flatbuffers import flexbuffers

from circlekit.io.read.flatbuffer_decoder import decode
from circlekit.io.read.load import load_bytes
from circlekit.io.schema import Table, Tree, enumeration, options_field, table
from circlekit.io.write.flatbuffer_encoder import Encoder
from circlekit.io.write.save import to_bytes
from circlekit.ir.dtypes import DType
from circlekit.ir.op import REGISTRY
from circlekit.ir.shape_inference import infer_shapes
from circlekit.ir.value import Array
from circlekit.ops.program.custom import CUSTOM_KERNELS
from tools.fuzz.mutate_fields import FLOATS, World, mutate_field, some_table, tables, within

MAX_MUTATIONS = 5
MAX_CONSTANT_BYTES = 1 << 20
DIMENSIONS = (0, 1, 2, 3, 4, 5, 7, 8, 16, 64, 1000, 65536, 2**24, 2**28, 2**31 - 1, -1, -2, -(2**31))
"""Sizes; the product of two of them exceeds 64 bits."""

NUMBERS = (0, 1, -1, 2, 3, 65536, 2**31 - 1, -(2**31), 2**32, 2**63 - 1, -(2**63))
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

Mutation = Callable[[World], None]


def mutate_model(data: bytes, fmt: str, rng: random.Random) -> tuple[bytes, list[str]]:
    """Return a file like ``data``, a valid model, with a few things changed, and the names of the changes.

    Sometimes the shapes of results are dropped, or replaced by those that the operators infer.
    """
    world = World(decode(memoryview(data), fmt), fmt, rng)
    count = 1
    while count < MAX_MUTATIONS and rng.random() < 0.45:
        count += 1
    chosen = rng.choices(list(MUTATIONS), list(MUTATIONS.values()), k=count)
    for mutate in chosen:
        mutate(world)
    done = [mutate.__name__ for mutate in chosen]
    if rng.random() < 0.3:
        forget_shapes(world)
        done.append("forget_shapes")
    made = encode_shared(world.root, fmt)
    if rng.random() < 0.3:
        done.append("infer_shapes")
        made = with_inferred_shapes(made)
    return made, done


def forget_shapes(world: World) -> None:
    """Remove the shapes of all results, so that only the passes notice contradictions."""
    for graph in world.trees("subgraphs"):
        known = graph.get("tensors") or []
        for operator in graph.get("operators") or []:
            for index in ints(operator, "outputs"):
                if 0 <= index < len(known):
                    known[index]["shape"] = []
                    known[index].pop("shape_signature", None)


def with_inferred_shapes(data: bytes) -> bytes:
    """Return the model with the shapes that its operators infer; unchanged where inference fails."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = load_bytes(data)
            for op in model.ops():
                for value in op.results:
                    if value.data is None:
                        value.shape = None
            infer_shapes(model)
            return to_bytes(model)
    except Exception:  # the run of the case meets the same error and reports it
        return data


# -- any field ---------------------------------------------------------------------------------


def any_field(world: World, names: Sequence[str] = ("",)) -> None:
    """Change some field of some table whose name ends like one of ``names``; all kinds are equally likely."""
    rng = world.rng
    found: dict[str, list[tuple[Tree, Table]]] = {}
    for tree, spec in tables(world.root, table("Model", world.format), world.format):
        if spec.fields and spec.name.endswith(tuple(names)):
            found.setdefault(spec.name, []).append((tree, spec))
    if found:
        tree, spec = rng.choice(found[rng.choice(sorted(found))])
        mutate_field(world, tree, spec, rng.choice(spec.fields))


def attribute(world: World) -> None:
    """Change one or two attributes of operators."""
    for _ in range(world.rng.choice((1, 1, 2))):
        any_field(world, ("Options",))


def rewire(world: World) -> None:
    """Change operands or results of an operator, or inputs or outputs of a graph."""
    name, tree = world.rng.choice(
        (("Operator", world.part("operators")),) * 3 + (("SubGraph", world.graph()),)
    )
    if tree is not None:
        spec = table(name, world.format)
        mutate_field(world, tree, spec, spec.by_name[world.rng.choice(("inputs", "inputs", "outputs"))])


def signature(world: World) -> None:
    """Add a signature for some graph, sometimes with a wrong field."""
    rng, graphs = world.rng, world.trees("subgraphs")
    if not graphs:
        return
    number, same = rng.randrange(len(graphs)), rng.choice((1, 1, 2))
    made: Tree = {"signature_key": rng.choice(("a", "b", "")), "subgraph_index": number}
    for side in ("inputs", "outputs"):
        indices = enumerate(ints(graphs[number], side))
        made[side] = [{"name": f"p{i // same}", "tensor_index": max(0, index)} for i, index in indices]
    world.root.setdefault("signature_defs", []).append(made)
    if rng.random() < 0.5:
        any_field(world, ("SignatureDef", "TensorMap"))


# -- tensors -----------------------------------------------------------------------------------


def shape_of(tensor: Tree) -> list[int]:
    shape = tensor.get("shape")
    return [] if shape is None else [int(d) for d in shape]


def numpy_of(tensor: Tree) -> np.dtype[np.generic] | None:
    kind = tensor.get("type", "FLOAT32")
    dtype = DType.__members__.get(kind) if isinstance(kind, str) else None
    return None if dtype is None else dtype.numpy


def buffer_of(world: World, tensor: Tree) -> Tree | None:
    """Return the tensor's buffer, or None where that has no data."""
    index, buffers = tensor.get("buffer", 0), world.trees("buffers")
    if not 0 <= index < len(buffers):
        return None
    data = buffers[index].get("data")
    return buffers[index] if data is not None and len(data) else None


def data_of(buffer: Tree) -> Array:
    data = buffer["data"]
    return data if isinstance(data, np.ndarray) else np.frombuffer(bytes(data), np.uint8)


def add_buffer(world: World, tensor: Tree, data: Array) -> None:
    world.root.setdefault("buffers", [{}]).append({"data": data})
    tensor["buffer"] = len(world.trees("buffers")) - 1


def resize_constant(world: World, tensor: Tree) -> None:
    """Give a constant as many bytes as its shape and type need, in a buffer of its own."""
    buffer, dtype = buffer_of(world, tensor), numpy_of(tensor)
    shape = shape_of(tensor)
    if buffer is None or dtype is None or any(d < 0 for d in shape):
        return
    size = math.prod(shape) * dtype.itemsize
    if 0 < size <= MAX_CONSTANT_BYTES and size != len(buffer["data"]):
        add_buffer(world, tensor, np.resize(data_of(buffer), size))


def tensor_shape(world: World) -> None:
    """Change, add, drop or reorder dimensions, or make some unknown; a constant may follow."""
    tensor, rng = world.part("tensors"), world.rng
    if tensor is None:
        return
    shape, kind = shape_of(tensor), rng.randrange(8)
    if kind == 0 and shape:
        del shape[rng.randrange(len(shape))]
    elif kind == 1:
        for _ in range(rng.choice((1, 1, 1, 30, 1000))):
            shape.insert(rng.randrange(len(shape) + 1), rng.choice((1, 1, 2, *DIMENSIONS)))
    elif kind == 2:
        rng.shuffle(shape)
    elif kind == 3:
        shape = [math.prod(shape)] if math.prod(shape) < 2**31 else [1]
    elif kind in (4, 5):
        tensor["shape_signature"] = [rng.choice((-1, d)) for d in shape][: rng.choice((99, 99, 1))]
        tensor["has_rank"] = rng.random() < 0.8
    elif shape:
        shape[rng.randrange(len(shape))] = rng.choice(DIMENSIONS)
    tensor["shape"] = [within("i", d) for d in shape]
    if rng.random() < 0.7:
        resize_constant(world, tensor)


def rename_dimension(world: World) -> None:
    """Replace one size by another in all shapes: mostly still a valid model, with odd or huge sizes."""
    tensors, rng = world.parts("tensors"), world.rng
    sizes = sorted({d for tensor in tensors for d in shape_of(tensor)})
    if not sizes:
        return
    old, new = rng.choice(sizes), rng.choice((*DIMENSIONS[:15], rng.choice(sizes)))
    for tensor in tensors:
        shape = shape_of(tensor)
        if old in shape:
            tensor["shape"] = [new if d == old else d for d in shape]
            tensor.pop("shape_signature", None)
            resize_constant(world, tensor)
            if new == 0 and buffer_of(world, tensor) is not None:
                tensor["buffer"] = 0


def tensor_type(world: World) -> None:
    """Give one tensor, or all of one type, another type; constants may follow."""
    tensor, rng = world.part("tensors"), world.rng
    if tensor is None:
        return
    old, new = (
        tensor.get("type", "FLOAT32"),
        rng.choice(list(enumeration("TensorType", world.format).numbers)),
    )
    changed = [tensor]
    if rng.random() < 0.3:
        changed = [t for t in world.parts("tensors") if t.get("type", "FLOAT32") == old]
    for one in changed:
        one["type"] = new
        if rng.random() < 0.8:
            resize_constant(world, one)


def constant(world: World) -> None:
    """Change elements of a constant: small and large integers, edge cases of floats."""
    rng = world.rng
    candidates = [(t, b) for t in world.parts("tensors") if (b := buffer_of(world, t)) is not None]
    if not candidates:
        return
    tensor, buffer = rng.choice(candidates)
    dtype = numpy_of(tensor) or np.dtype(np.uint8)
    data = np.array(data_of(buffer))
    count = len(data) // dtype.itemsize
    elements = data[: count * dtype.itemsize].view(dtype)
    places = list(range(min(count, 64)))
    if count and rng.random() < 0.8:
        places = [rng.randrange(count) for _ in range(rng.choice((1, 1, 2)))]
    for at in places:
        with np.errstate(all="ignore"):
            elements[at] = _element(rng, dtype, elements[at])
    if rng.random() < 0.7:  # other tensors that share the buffer keep theirs
        add_buffer(world, tensor, data)
    else:
        buffer["data"] = data


def _element(rng: random.Random, dtype: np.dtype[np.generic], old: object) -> object:
    if dtype.kind in "fc":
        return rng.choice((*FLOATS, rng.uniform(-9, 9), 0.0, -1.0))
    if dtype.kind == "b":
        return not old
    number = int(old)  # type: ignore[call-overload]
    low, high = int(np.iinfo(str(dtype)).min), int(np.iinfo(str(dtype)).max)
    near = (number + 1, number - 1, -number, number * 2)
    chosen = rng.choice((-1, 0, 1, 2, 3, 4, -2, -5, 9, 1000, low, high, 2**31 - 1, -(2**31), *near))
    return min(max(chosen, low), high)


def quantization(world: World) -> None:
    """Set scales and zero points, some of them extreme, whose number fits an axis or not."""
    tensor, rng = world.part("tensors"), world.rng
    if tensor is None:
        return
    shape = shape_of(tensor)
    axis = rng.randrange(-1, len(shape) + 1)
    size = shape[axis] if 0 <= axis < len(shape) and rng.random() < 0.7 else rng.choice((1, 1, 1, 0, 2, 3))
    size = min(max(size, 0), 4096)
    scales, points = [0.02] * size, [0] * rng.choice((size, size, 1, 0))
    if scales and rng.random() < 0.4:
        scales[rng.randrange(size)] = rng.choice((0.5, 1.0, 1e-38, 3e38, *FLOATS))
    if points:
        points[rng.randrange(len(points))] = rng.choice((0, 0, 1, 127, 128, -129, 300, 2**31, -(2**63)))
    tensor["quantization"] = {"scale": scales, "zero_point": points, "quantized_dimension": axis}
    if rng.random() < 0.3:
        tensor["type"] = rng.choice(("INT4", "INT8", "UINT8", "INT16", "INT32", "FLOAT32"))
        resize_constant(world, tensor)
    if rng.random() < 0.3:
        any_field(world, ("QuantizationParameters", "Quantization"))


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


def external_buffers(world: World) -> None:
    """Place the data of several buffers behind, within or across the flatbuffer and each other."""
    rng, buffers = world.rng, world.trees("buffers")
    start = rng.choice((2, 4, 16, 64, 256, 1024, 4096, 2**31, 2**63, 2**64 - 8))
    for buffer in rng.sample(buffers, min(len(buffers), rng.choice((1, 2, 3, 9)))):
        size = len(buffer["data"]) if buffer.get("data") is not None else 0
        if rng.random() < 0.8:
            buffer.pop("data", None)
        buffer["offset"] = min(start, 2**64 - 1)
        buffer["size"] = rng.choice((size, size, size, size + 4, 2**63, 2**64 - 1))
        start += rng.choice((0, 1, 4, size, size // 2))


# -- operators ---------------------------------------------------------------------------------


def ints(tree: Tree, name: str) -> list[int]:
    """Return a vector of indices as a list that belongs to the tree."""
    values = tree.get(name)
    tree[name] = out = [] if values is None else [int(v) for v in values]
    return out


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
    kind = REGISTRY.get(name)
    field = None if kind is None or kind.options is None else options_field(kind.options)
    if kind is None or kind.options is None or field is None:
        return
    union = "BuiltinOptions2" if field == "builtin_options_2" else "BuiltinOptions"
    if enumeration(union, world.format).numbers.get(kind.options):
        fields = some_table(world, kind.options) if world.rng.random() < 0.3 else {}
        operator[field] = {**fields, "": kind.options}


def some_code(world: World) -> str:
    known = enumeration("BuiltinOperator", world.format).numbers
    return world.rng.choice([name for name in REGISTRY if name in known])


def add_tensor(graph: Tree, kind: str, shape: Sequence[int]) -> int:
    """Append a tensor and return its index."""
    tensors = graph.setdefault("tensors", [])
    shape = [within("i", d) for d in shape]
    tensors.append({"name": f"made_{len(tensors)}", "type": kind, "shape": shape, "buffer": 0})
    return len(tensors) - 1


def add_constant(world: World, graph: Tree, kind: str, values: Any) -> int:
    """Append a constant tensor of type ``kind`` and return its index; integers are limited to the type."""
    dtype = np.dtype({"BOOL": "?"}.get(kind, kind.lower()))
    array: Array = np.array(values)
    if dtype.kind == "i":
        array = np.clip(array, np.iinfo(str(dtype)).min, np.iinfo(str(dtype)).max)
    index = add_tensor(graph, kind, array.shape)
    add_buffer(world, graph["tensors"][index], np.frombuffer(array.astype(dtype).tobytes(), np.uint8))
    return index


def append_operator(
    world: World, graph: Tree, name: str, inputs: list[int], kind: str, shape: Sequence[int]
) -> int:
    """Append an operator with one result and return the index of the result."""
    result = add_tensor(graph, kind, shape)
    operator: Tree = {"opcode_index": new_code(world, name), "inputs": inputs, "outputs": [result]}
    set_options(world, operator, name)
    graph.setdefault("operators", []).append(operator)
    return result


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
    graph, operators, rng = world.graph(), world.parts("operators"), world.rng
    if not operators or graph is None or operators is not graph.get("operators"):
        return
    operator = operators.pop(rng.randrange(len(operators)))
    inputs, outputs = ints(operator, "inputs"), ints(operator, "outputs")
    if rng.random() < 0.4:
        ints(graph, "inputs").extend(outputs)
    elif inputs and outputs:
        for tree, name in [*((o, "inputs") for o in operators), (graph, "outputs")]:
            tree[name] = [inputs[0] if i == outputs[0] else i for i in ints(tree, name)]


def insert_operator(world: World) -> None:
    """Insert an operator with one operand before a random operand, or repeat an operator."""
    graph, rng = world.graph(), world.rng
    operators, tensors = ((graph or {}).get(name) or [] for name in ("operators", "tensors"))
    if graph is None or not operators:
        return
    at = rng.randrange(len(operators))
    if rng.random() < 0.3:
        operators.insert(rng.randrange(len(operators)), copy.deepcopy(operators[at]))
        return
    inputs = ints(operators[at], "inputs")
    places = [i for i, index in enumerate(inputs) if 0 <= index < len(tensors)]
    if places:
        place = rng.choice(places)
        like = tensors[inputs[place]]
        kind, shape = like.get("type", "FLOAT32"), shape_of(like)
        inputs[place] = append_operator(world, graph, some_code(world), [inputs[place]], kind, shape)
        operators.insert(at, operators.pop())


def huge_result(world: World) -> None:
    """Insert an operator on constants that may request a huge result; something may read it."""
    graph, rng = world.graph(), world.rng
    name = some_code(world)
    if graph is None or not REGISTRY[name].operands:
        return
    inputs = []
    for operand in REGISTRY[name].operands:
        dtypes = {dtype.name for dtype in operand.dtypes}
        is_parameter = bool(dtypes) and dtypes <= {"INT32", "INT64", "INT16", "UINT32"}
        if is_parameter or rng.random() < 0.2:
            shape = rng.choice(((), (1,), (2,), (3,), (4,), (4, 2), (2, 2)))
            sizes = rng.choices((*DIMENSIONS, 1, 2, 3, 5), k=math.prod(shape))
            inputs.append(add_constant(world, graph, "INT32", np.array(sizes).reshape(shape)))
        else:
            shapes = ((1,), (4,), (1000,), (65536,), (4096, 1), (1, 16384), (1, 64, 2, 3), (2, 3, 3, 3))
            inputs.append(add_constant(world, graph, "FLOAT32", np.ones(rng.choice(shapes))))
    dims = rng.choices(DIMENSIONS, k=rng.choice((0, 0, 1, 3)))
    result = append_operator(world, graph, name, inputs, rng.choice(("FLOAT32", "FLOAT32", "INT32")), dims)
    operators = graph["operators"]
    operators.insert(0, operators.pop())
    readers = ints(rng.choice(operators), "inputs")
    if readers and rng.random() < 0.5:
        readers[rng.randrange(len(readers))] = result
    else:
        ints(graph, "outputs").append(result)


def many_operators(world: World) -> None:
    """Append many operators: a chain, of which each may read the one before several times, or in parallel."""
    graph, rng = world.graph(), world.rng
    count = len((graph or {}).get("tensors") or ())
    if graph is None or not count:
        return
    at = start = rng.choice([i for i in ints(graph, "outputs") if 0 <= i < count] or [rng.randrange(count)])
    like = graph["tensors"][at]
    names = [some_code(world) for _ in range(rng.choice((1, 1, 2, 20)))]
    if rng.random() < 0.5:  # 2^n paths; 2^n elements if they are concatenated
        names = [
            rng.choice(("ADD", "MUL", "CONCATENATION", "MAXIMUM", "SUB", "PACK", "ADD_N", "BATCH_MATMUL"))
        ]
    repeats = rng.choice((0, 0, 1, 200)) if names[0] in ("CONCATENATION", "PACK", "ADD_N") else 0
    is_parallel = rng.random() < 0.2
    shape = shape_of(like) if rng.random() < 0.6 else []
    for number in range(rng.choice((2, 8, 32, 64, 200, 600) if not repeats else (1, 8))):
        name = names[number % len(names)]
        source = start if is_parallel else at
        inputs = [source] * max(repeats, len(REGISTRY[name].operands), 1)
        at = append_operator(world, graph, name, inputs, like.get("type", "FLOAT32"), shape)
        if is_parallel:
            ints(graph, "outputs").append(at)
    ints(graph, "outputs").append(at)


def custom_operator(world: World) -> None:
    """Turn an operator into a custom one with odd or broken options."""
    operator, rng = world.part("operators"), world.rng
    if operator is None:
        return
    operator["opcode_index"] = new_code(world, "CUSTOM")
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
    options = {}
    for key in rng.sample(OPTION_KEYS, rng.randrange(1, len(OPTION_KEYS))):
        numbers = [rng.choice(NUMBERS) for _ in range(rng.choice((1, 4, 4, 9)))]
        text, real = rng.choice(("SAME", "VALID", "", "\n")), rng.choice(FLOATS)
        options[key] = rng.choice((text, numbers, real, rng.random() < 0.5, {"a": 1}, numbers[0]))
    return bytearray(flexbuffers.Dumps(options))


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


MUTATIONS: dict[Mutation, float] = {
    any_field: 11, attribute: 8, rewire: 7, signature: 1, tensor_shape: 5, rename_dimension: 3,
    tensor_type: 3, constant: 8, quantization: 4, string_table: 0.6, external_buffers: 0.6,
    change_operator: 4, drop_operator: 3, insert_operator: 5, huge_result: 2, many_operators: 0.6,
    custom_operator: 1, nested_calls: 0.6,
}  # fmt: skip
"""Mutations with their weights."""


# -- encoding ----------------------------------------------------------------------------------


class SharingEncoder(Encoder):
    """Encoder that writes a table that occurs several times once, at its last occurrence."""

    def __init__(self, fmt: str, root: Tree) -> None:
        super().__init__(fmt)
        walk = list(tables(root, table("Model", fmt), fmt))
        self.left = Counter(id(tree) for tree, _ in walk)
        self.waiting: dict[int, list[int]] = {}

    def write_table(self, at: int, tree: Tree, spec: Table) -> None:
        self.left[id(tree)] -= 1
        if self.left[id(tree)] > 0:
            self.waiting.setdefault(id(tree), []).append(at)
            return
        super().write_table(at, tree, spec)
        place = at + int.from_bytes(self.out[at : at + 4], "little")
        for other in self.waiting.pop(id(tree), ()):
            self.out[other : other + 4] = (place - other).to_bytes(4, "little")


def encode_shared(tree: Tree, fmt: str) -> bytes:
    """Encode ``tree``; a table that is one object in the tree is one table in the file."""
    return b"".join(SharingEncoder(fmt, tree).run(tree).pieces())
