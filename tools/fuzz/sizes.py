# SPDX-License-Identifier: Apache-2.0
"""Operators on small constants whose results, or whose work, would be huge."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from circlekit.io.schema import Tree, table
from tools.fuzz.fields import World, within
from tools.fuzz.operators import code_index, ints, options_of

TYPES = {"f": "FLOAT32", "i": "INT32", "l": "INT64", "?": "BOOL", "b": "INT8"}
NUMPY = {"f": "<f4", "i": "<i4", "l": "<i8", "?": "?", "b": "i1"}

SIZES = (
    0,
    1,
    2,
    3,
    7,
    100,
    1000,
    4096,
    65535,
    65536,
    2**20,
    2**24,
    2**28,
    2**30,
    2**31 - 1,
    -1,
    -2,
    -(2**31),
)
"""Of what a file asks for; two of them are multiplied beyond 64 bits."""


def add_constant(
    world: World, graph: Tree, kind: str, values: Any, shape: Sequence[int] | None = None
) -> int:
    """The index of a new constant tensor; ``kind``: a letter of TYPES."""
    array = np.array(values)
    if kind in "ilb":
        info = np.iinfo(NUMPY[kind])
        array = np.clip(array, info.min, info.max)
    data = array.astype(NUMPY[kind])
    buffers = world.root.setdefault("buffers", [{}])
    buffers.append({"data": np.frombuffer(data.tobytes(), np.uint8)})
    return add_tensor(graph, TYPES[kind], list(data.shape if shape is None else shape), len(buffers) - 1)


def add_tensor(graph: Tree, kind: str, shape: list[int], buffer: int = 0) -> int:
    """The index of a new tensor."""
    tensors = graph.setdefault("tensors", [])
    tensors.append({"name": f"made_{len(tensors)}", "type": kind, "shape": shape, "buffer": buffer})
    return len(tensors) - 1


def add_operator(
    world: World,
    graph: Tree,
    name: str,
    inputs: list[int],
    outputs: list[int],
    at: int | None = None,
    **fields: Any,
) -> Tree:
    """A new operator ``name``; ``fields``: attributes; it stands at ``at``, or somewhere."""
    operators = graph.setdefault("operators", [])
    new: Tree = {"opcode_index": code_index(world, name, 1), "inputs": inputs, "outputs": outputs}
    options = options_of(world, name)
    if options is not None:
        new[options[0]] = {**options[1], **fields}
    operators.insert(world.rng.randrange(len(operators) + 1) if at is None else at, new)
    return new


def _size(world: World) -> int:
    rng = world.rng
    return rng.choice(SIZES) if rng.random() < 0.7 else rng.choice((1, 2, 3, 5))


def _list(world: World, most: int = 5) -> list[int]:
    return [_size(world) for _ in range(world.rng.randrange(1, most))]


def _asked(world: World) -> tuple[str, list[tuple[str, Any]], str]:
    """An operator, its constant operands (letter, numbers), and the letter of its result."""
    rng, dims = world.rng, _list(world)
    one = ("f", [1.5])
    ids = ("i", [rng.choice((0, 1, 2**30, 2**31 - 1, -1)) for _ in range(3)])
    some = ("f", np.arange(rng.choice((1, 4, 1000, 4096, 65536)), dtype=np.float32))
    image = ("f", np.ones((1, rng.choice((1, 2, 64)), 2, rng.choice((1, 3))), np.float32))
    pairs = ("i", [[rng.choice((0, 1, 2**30, 2**31 - 1, -1, 65536)), _size(world)] for _ in range(4)])
    size, twice = ("i", np.int64(_size(world))), ("i", [_size(world), _size(world)])
    zero, unit, step = ("f", np.float32(0)), ("f", np.float32(1)), ("i", np.int32(rng.choice((1, -1, 0))))
    small = ("f", np.float32(rng.choice((1e-38, 1, 0))))
    table: list[tuple[str, list[tuple[str, Any]], str]] = [
        ("FILL", [(rng.choice("il"), dims), unit], "f"),
        ("RANGE", [("i", np.int32(0)), size, step], "i"),
        ("RANGE", [zero, ("f", np.float32(3e38)), small], "f"),
        ("TILE", [some, (rng.choice("il"), [_size(world)])], "f"),
        ("TILE", [image, ("i", [_size(world) for _ in range(4)])], "f"),
        ("BROADCAST_TO", [one, (rng.choice("il"), dims)], "f"),
        ("ONE_HOT", [ids, size, unit, zero], "f"),
        (rng.choice(("PAD", "MIRROR_PAD")), [image, pairs], "f"),
        ("PADV2", [image, pairs, unit], "f"),
        (rng.choice(("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR")), [image, twice], "f"),
        ("TRANSPOSE_CONV", [("i", [1, _size(world), 9, 2]), ("f", np.ones((2, 3, 3, 3))), image], "f"),
        ("SPARSE_TO_DENSE", [("i", [[0], [1]]), (rng.choice("il"), dims[:1]), ("f", [1, 2]), zero], "f"),
        ("SPARSE_TO_DENSE", [("i", [[0, 0], [_size(world), 1]]), twice, one, one], "f"),
        ("SCATTER_ND", [("i", [[0], [_size(world)]]), ("f", [1, 2]), ("i", dims)], "f"),
        (f"UNSORTED_SEGMENT_{rng.choice(('SUM', 'MAX'))}", [("f", [1, 2, 3]), ids, size], "f"),
        ("SEGMENT_SUM", [("f", [1, 2, 3]), ids], "f"),
        ("GATHER", [some, ids], "f"),
        ("MATRIX_DIAG", [some], "f"),
        ("STRIDED_SLICE", [some, ("i", dims), ("i", _list(world)), ("i", _list(world))], "f"),
        ("SLICE", [some, ("l", [_size(world)]), ("l", [_size(world)])], "f"),
        ("TOPK_V2", [some, size], "f"),
        ("BATCH_TO_SPACE_ND", [image, twice, ("i", [[0, _size(world)], [0, 0]])], "f"),
        ("SPACE_TO_BATCH_ND", [image, twice, ("i", [[0, _size(world)], [0, 0]])], "f"),
        ("MUL", [("f", np.ones((4096, 1))), ("f", np.ones((1, rng.choice((4096, 65536)))))], "f"),
        ("BATCH_MATMUL", [("f", np.ones((4096, 1))), ("f", np.ones((1, 16384)))], "f"),
        ("RESHAPE", [some, ("i", dims)], "f"),
        ("RANDOM_UNIFORM", [("i", dims)], "f"),
        ("MULTINOMIAL", [("f", [[1, 2]]), size], "l"),
        ("EXPAND_DIMS", [image, size], "f"),
        ("CUMSUM", [some, size], "f"),
        ("DYNAMIC_UPDATE_SLICE", [some, one, ("i", [_size(world)])], "f"),
        ("CONV_2D", [("f", np.ones((1, 256, 256, 1))), ("f", np.ones((4, 255, 255, 1)))], "f"),
        ("CONV_2D", [image, ("f", np.ones((1, 9, 9, image[1].shape[3]))), one], "f"),
        (rng.choice(("MAX_POOL_2D", "AVERAGE_POOL_2D", "L2_POOL_2D")), [image], "f"),
        ("EMBEDDING_LOOKUP", [ids, some], "f"),
        ("REVERSE_SEQUENCE", [image, ("l", [_size(world)])], "f"),
        ("SPLIT_V", [some, ("i", dims), ("i", np.int32(0))], "f"),
        ("BUCKETIZE", [some], "i"),
        ("WHERE", [("?", np.ones(4096, bool))], "l"),
        ("RFFT2D", [image, twice], "f"),
        ("CONV_3D", [("f", np.ones((1, 3, 3, 3, 1))), ("f", np.ones((2, 2, 2, 1, 2)))], "f"),
    ]  # fmt: skip
    return rng.choice(table)


def huge_result(world: World) -> None:
    """An operator on constants asks for a result of odd or huge size; something may read it."""
    graph, rng = world.graph(), world.rng
    if graph is None:
        return
    name, operands, letter = _asked(world)
    inputs = [add_constant(world, graph, kind, values) for kind, values in operands]
    shape = rng.choice(([], [], _list(world), [1]))
    result = add_tensor(graph, TYPES[letter], [within("i", d) for d in shape])
    if name == "SPLIT_V":
        outputs = [result, *(add_tensor(graph, "FLOAT32", []) for _ in operands[1][1][1:])]
    else:
        outputs = [result, add_tensor(graph, "INT32", [])] if name == "TOPK_V2" else [result]
    operator = add_operator(world, graph, name, inputs, outputs, 0)
    options = operator.get("builtin_options") or {}
    odd = [
        n
        for n in ("stride_w", "stride_h", "filter_width", "filter_height", "dilation_w_factor", "block_size")
        if rng.random() < 0.3
    ]
    options.update({n: within("i", _size(world)) for n in odd if options and _knows(options, n)})
    _read(world, graph, result)


def _knows(options: Tree, name: str) -> bool:
    return name in table(options[""], "circle").by_name


def _read(world: World, graph: Tree, result: int) -> None:
    """Somebody reads the result: the user, an operator in the place of an operand, or an addition to one."""
    rng = world.rng
    operators = graph["operators"]
    kind = rng.random()
    if kind < 0.3 or len(operators) < 2:
        ints(graph, "outputs").append(result)
        return
    reader = rng.choice(operators[1:])
    inputs = ints(reader, "inputs")
    if kind < 0.6 and inputs:
        inputs[rng.randrange(len(inputs))] = result
    elif inputs:
        place = rng.randrange(len(inputs))
        both = add_tensor(graph, "FLOAT32", [])
        operators.insert(1, {"opcode_index": code_index(world, "ADD"), "inputs": [inputs[place], result]})
        operators[1] |= {"outputs": [both], "builtin_options": {"": "AddOptions"}}
        if rng.random() < 0.5:
            inputs[place] = both
        else:
            ints(graph, "outputs").append(both)


def large_sizes(world: World) -> None:
    """One size becomes a large one wherever it is, constants aside: products overflow, or nearly so."""
    graph, rng = world.graph(), world.rng
    tensors = (graph or {}).get("tensors") or []
    shapes = [list(map(int, s)) for t in tensors if (s := t.get("shape")) is not None and len(s)]
    sizes = sorted({d for shape in shapes for d in shape})
    if not sizes:
        return
    old, new = rng.choice(sizes), rng.choice((1000, 32768, 46341, 65536, 2**20, 2**24, 2**28, 2**31 - 1))
    for tensor in tensors:
        shape = tensor.get("shape")
        if shape is not None and old in list(shape) and not tensor.get("buffer", 0):
            tensor["shape"] = [new if d == old else int(d) for d in shape]
            tensor.pop("shape_signature", None)


def many_dimensions(world: World) -> None:
    """A tensor of more dimensions than anybody has, or of a size beyond 64 bits."""
    tensor, rng = world.part("tensors"), world.rng
    if tensor is None:
        return
    size = rng.choice((1, 1, 2, 65536, 2**31 - 1))
    tensor["shape"] = [size] * rng.choice((5, 6, 7, 8, 9, 16, 32, 33, 64, 65, 255, 1000))
    if rng.random() < 0.3:
        tensor["shape"][0] = 0
    tensor.pop("shape_signature", None)
