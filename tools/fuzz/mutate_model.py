# SPDX-License-Identifier: Apache-2.0
"""Mutate a model through the schema: the result can still be decoded, but something in it is odd."""

from __future__ import annotations

import copy
import math
import random
import warnings
from collections import Counter
from collections.abc import Callable

import numpy as np

from circlekit.io.read.flatbuffer_decoder import decode
from circlekit.io.read.load import load_bytes
from circlekit.io.schema import Table, Tree, enumeration, options_field, table
from circlekit.io.write.flatbuffer_encoder import Encoder
from circlekit.io.write.save import to_bytes
from circlekit.ir.dtypes import DType
from circlekit.ir.op import REGISTRY
from circlekit.ir.shape_inference import infer_shapes
from circlekit.ir.value import Array
from tools.fuzz.mutate_fields import FLOATS, World, mutate_field, some_table, tables, within

MAX_MUTATIONS = 5
MAX_CONSTANT_BYTES = 1 << 20
DIMENSIONS = (0, 1, 2, 3, 4, 5, 7, 8, 16, 64, 1000, 65536, 2**31 - 1, -1, -2)
DTYPES = (
    "INT8", "UINT8", "INT16", "INT32", "INT64", "FLOAT16", "FLOAT64", "FLOAT32", "BOOL", "INT4", "STRING",
)  # fmt: skip

Mutation = Callable[[World], None]


def mutate_model(data: bytes, fmt: str, rng: random.Random) -> tuple[bytes, list[str]]:
    """Return a file like ``data``, a valid model, with a few things changed, and the names of the changes."""
    world = World(decode(memoryview(data), fmt), fmt, rng)
    done = apply_some(world)
    return finish(world, done), done


def apply_some(world: World) -> list[str]:
    """Apply one mutation or a few; return their names."""
    count = 1
    while count < MAX_MUTATIONS and world.rng.random() < 0.45:
        count += 1
    chosen = world.rng.choices(list(MUTATIONS), list(MUTATIONS.values()), k=count)
    for mutate in chosen:
        mutate(world)
    return [mutate.__name__ for mutate in chosen]


def finish(world: World, done: list[str]) -> bytes:
    """Encode the file; sometimes drop the shapes of results, or replace them by inferred ones."""
    if world.rng.random() < 0.3:
        forget_shapes(world)
        done.append("forget_shapes")
    data = encode_shared(world.root, world.format)
    if world.rng.random() < 0.3:
        done.append("infer_shapes")
        data = with_inferred_shapes(data)
    return data


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


def any_field(world: World) -> None:
    """Change some field of some table; every kind of table has the same chance."""
    rng = world.rng
    found: dict[str, list[tuple[Tree, Table]]] = {}
    for tree, spec in tables(world.root, table("Model", world.format), world.format):
        if spec.fields:
            found.setdefault(spec.name, []).append((tree, spec))
    tree, spec = rng.choice(found[rng.choice(sorted(found))])
    mutate_field(world, tree, spec, rng.choice(spec.fields))


def attribute(world: World) -> None:
    """Change one or two attributes of an operator."""
    options: Tree | None = None
    for _ in range(6):
        operator = world.part("operators") or {}
        options = options or operator.get("builtin_options") or operator.get("builtin_options_2")
    if options:
        spec = table(options[""], world.format)
        for _ in range(world.rng.choice((1, 1, 2))):
            if spec.fields:
                mutate_field(world, options, spec, world.rng.choice(spec.fields))


def operator_code(world: World) -> None:
    """Set fields of an operator code that contradict each other, unknown numbers or versions."""
    codes, rng = world.trees("operator_codes"), world.rng
    if codes:
        name, values = rng.choice((
            ("version", (0, -1, 2, 3, 7, 99, 2**31 - 1, -(2**31))),
            ("builtin_code", (300, 127, -20, 2**31 - 1, "CUSTOM", "DELEGATE")),
            ("deprecated_builtin_code", (0, 127, -1, -128, 32, 100)),
            ("custom_code", ("", "x", "FlexAdd", "\0")),
        ))  # fmt: skip
        rng.choice(codes)[name] = rng.choice(values)


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
    """Replace one size by another in all shapes: mostly still a valid model, with odd sizes."""
    tensors, rng = world.parts("tensors"), world.rng
    sizes = sorted({d for tensor in tensors for d in shape_of(tensor)})
    if not sizes:
        return
    old, new = rng.choice(sizes), rng.choice((*DIMENSIONS[:10], rng.choice(sizes)))
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
    old = tensor.get("type", "FLOAT32")
    if rng.random() < 0.3:
        new = rng.choice(DTYPES)
        changed = [t for t in world.parts("tensors") if t.get("type", "FLOAT32") == old]
    else:
        new, changed = rng.choice(list(enumeration("TensorType", world.format).numbers)), [tensor]
    for one in changed:
        one["type"] = new
        if rng.random() < 0.8:
            resize_constant(world, one)


def constant(world: World) -> None:
    """Change elements of a constant: small and large integers, edge cases of floats."""
    rng = world.rng
    candidates = [t for t in world.parts("tensors") if buffer_of(world, t) is not None]
    if not candidates:
        return
    tensor = rng.choice(candidates)
    buffer = buffer_of(world, tensor)
    assert buffer is not None
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
    if rng.random() < 0.1:
        tensor["quantization"] = (world.part("tensors") or {}).get("quantization") or {}
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
    odd_axis = rng.choice((axis, axis, axis, axis, len(shape), 2**31 - 1, -(2**31)))
    result: Tree = {"scale": scales, "zero_point": points, "quantized_dimension": odd_axis}
    if rng.random() < 0.1:
        result |= {"min": [rng.choice(FLOATS)] * size, "max": [rng.choice(FLOATS)] * size}
    elif rng.random() < 0.1:
        indices = {name: rng.randrange(-1, 9) for name in ("scales", "zero_points")}
        result["details"] = {"": "BlockwiseQuantization", **indices, "block_size": rng.choice((0, 1, -1, 32))}
    tensor["quantization"] = result
    if rng.random() < 0.3:
        tensor["type"] = rng.choice(("INT4", "INT8", "UINT8", "INT16", "INT32", "FLOAT32"))
        resize_constant(world, tensor)


def buffer_index(world: World) -> None:
    """Let two tensors share a buffer, turn a tensor into a constant or back, or toggle is_variable."""
    a, b = world.part("tensors"), world.part("tensors")
    if a is None or b is None:
        return
    if world.rng.random() < 0.3:
        a["is_variable"] = not a.get("is_variable", False)
    else:
        a["buffer"] = world.rng.choice((b.get("buffer", 0), 0))


# -- operators ---------------------------------------------------------------------------------


def ints(tree: Tree, name: str) -> list[int]:
    """Return a vector of indices as a list that belongs to the tree."""
    values = tree.get(name)
    out = [] if values is None else [int(v) for v in values]
    tree[name] = out
    return out


def new_code(world: World, name: str, version: int = 1) -> int:
    """Append an operator code and return its index."""
    number = enumeration("BuiltinOperator", world.format).numbers[name]
    codes = world.root.setdefault("operator_codes", [])
    codes.append({"deprecated_builtin_code": min(number, 127), "builtin_code": name, "version": version})
    if name == "CUSTOM":
        codes[-1]["custom_code"] = world.rng.choice(("MaxPoolWithArgmax", "Erf", "x", ""))
    return len(codes) - 1


def set_options(world: World, operator: Tree, name: str) -> Tree:
    """Replace the options of ``operator`` by defaults, or random ones, of operator ``name``; return them."""
    for name_of_field in ("builtin_options", "builtin_options_2"):
        operator.pop(name_of_field, None)
    kind = REGISTRY.get(name)
    field = None if kind is None or kind.options is None else options_field(kind.options)
    if kind is None or kind.options is None or field is None:
        return {}
    union = "BuiltinOptions2" if field == "builtin_options_2" else "BuiltinOptions"
    if not enumeration(union, world.format).numbers.get(kind.options):
        return {}
    fields = some_table(world, kind.options) if world.rng.random() < 0.3 else {}
    operator[field] = {**fields, "": kind.options}
    return operator[field]  # type: ignore[no-any-return]


def known_codes(world: World) -> list[str]:
    known = enumeration("BuiltinOperator", world.format).numbers
    return [name for name in REGISTRY if name in known]


def change_operator(world: World) -> None:
    """Turn an operator into another one, with its own options, the old ones, or none."""
    operator, rng = world.part("operators"), world.rng
    if operator is None:
        return
    name = rng.choice(known_codes(world))
    operator["opcode_index"] = new_code(world, name, rng.choice((1, 1, 1, 2, 99)))
    if rng.random() < 0.8:
        set_options(world, operator, name)
    elif rng.random() < 0.3:
        operator.pop("builtin_options", None)


def rewire(world: World) -> None:
    """Change operands or results: swap, drop, repeat, add, leave out, or replace by another tensor."""
    operator, rng = world.part("operators"), world.rng
    if operator is None:
        return
    indices = ints(operator, rng.choice(("inputs", "inputs", "outputs")))
    _change_indices(indices, len(world.parts("tensors")), rng)


def interface(world: World) -> None:
    """Change the inputs or outputs of a graph in the ways of ``rewire``."""
    graph = world.graph()
    if graph is not None:
        indices = ints(graph, world.rng.choice(("inputs", "outputs", "outputs")))
        _change_indices(indices, len(graph.get("tensors") or ()), world.rng)


def _change_indices(indices: list[int], tensors: int, rng: random.Random) -> None:
    other = rng.randrange(max(1, tensors))
    if not indices:
        indices.append(other)
        return
    at, kind = rng.randrange(len(indices)), rng.randrange(6)
    if kind == 0:
        rng.shuffle(indices)
    elif kind == 1:
        del indices[at]
    elif kind == 2:
        indices.append(rng.choice((*indices, other)))
    else:
        indices[at] = -1 if kind == 3 else other


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
    operators, tensors, rng = world.parts("operators"), world.parts("tensors"), world.rng
    if not operators:
        return
    at = rng.randrange(len(operators))
    if rng.random() < 0.3:
        operators.insert(rng.randrange(len(operators)), copy.deepcopy(operators[at]))
        return
    inputs = ints(operators[at], "inputs")
    places = [i for i, index in enumerate(inputs) if 0 <= index < len(tensors)]
    if not places:
        return
    place = rng.choice(places)
    source = tensors[inputs[place]]
    new = {"name": f"new_{len(tensors)}", "type": source.get("type", "FLOAT32"), "shape": shape_of(source)}
    tensors.append(new)
    name = rng.choice(known_codes(world))
    operator: Tree = {"opcode_index": new_code(world, name), "inputs": [inputs[place]]}
    operator["outputs"] = [len(tensors) - 1]
    set_options(world, operator, name)
    inputs[place] = len(tensors) - 1
    operators.insert(at, operator)


# -- graphs and signatures ---------------------------------------------------------------------


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
        spec = table("SignatureDef", world.format)
        mutate_field(world, made, spec, rng.choice(spec.fields))


def share_tables(world: World) -> None:
    """Replace a tensor or operator by another one, such that the file holds one table for both."""
    parts = world.parts(world.rng.choice(("tensors", "operators")))
    if parts:
        parts[world.rng.randrange(len(parts))] = world.rng.choice(parts)


MUTATIONS: dict[Mutation, float] = {
    any_field: 9, attribute: 8, operator_code: 1.5, tensor_shape: 5, rename_dimension: 2, tensor_type: 3,
    constant: 8, quantization: 4, buffer_index: 1.5, change_operator: 4, rewire: 5, interface: 2,
    drop_operator: 3, insert_operator: 5, signature: 1, share_tables: 0.5,
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
