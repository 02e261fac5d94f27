# SPDX-License-Identifier: Apache-2.0
"""What a file holds in forms of its own: texts, options of custom operators, sparsity, archives, far data."""

from __future__ import annotations

import io
import random
import struct
import zipfile

import numpy as np
from flatbuffers import flexbuffers

from circlekit.io.schema import Tree
from circlekit.ops.program.custom import CUSTOM
from tools.fuzz.fields import FLOATS, World
from tools.fuzz.operators import code_index, ints
from tools.fuzz.tensors import buffer_of, shape_of

NAMES = (
    "\x1b[31mred\x1b[0m", "a\nb", "a\r\nerror: b", "\x1b]0;title\x07", "\u202eevil", "\0", "é",
    "\udcff\udcfe", "x" * 100_000, "%a(", "{}", "\u2028", "../../../etc/passwd", "C:\\x", "/dev/zero", " ",
    "\t", "tensor_0", "'\"`$(x)", "name:0;name", "x/y//z", "-", "--O1", "[1]", "%x: f32[1]",
)  # fmt: skip
CODES = (*CUSTOM, "FlexErf", "Convolution2DTransposeBias", "BatchMatMulV2", "RFFT2D", "Unknown", "")
KEYS = (
    "ksize", "strides", "padding", "include_batch_in_index", "keep_dims", "adj_x", "adj_y", "transpose_a",
    "transpose_b", "T", "max_detections", "max_classes_per_detection", "detections_per_class", "num_classes",
    "nms_iou_threshold", "nms_score_threshold", "use_regular_nms", "y_scale", "x_scale", "h_scale", "w_scale",
)  # fmt: skip
NUMBERS = (0, 1, -1, 2, 3, 65536, 2**31 - 1, -(2**31), 2**32, 2**63 - 1, -(2**63))


def odd_names(world: World) -> None:
    """Names that a terminal, a text or a file system takes for something else; or one name for all."""
    rng = world.rng
    name = rng.choice(NAMES)
    for graph in world.trees("subgraphs"):
        for number, tensor in enumerate(graph.get("tensors") or ()):
            if rng.random() < 0.5:
                tensor["name"] = name if rng.random() < 0.5 else f"{rng.choice(NAMES[:8])}{number}"
        if rng.random() < 0.3:
            graph["name"] = rng.choice(NAMES)
    if rng.random() < 0.3:
        world.root["description"] = rng.choice(NAMES)
    if rng.random() < 0.3:
        world.root.setdefault("metadata", []).append({"name": rng.choice(NAMES), "buffer": 0})


def string_table(world: World) -> None:
    """A constant of texts: a count and offsets, sound or not."""
    tensor, rng = world.part("tensors"), world.rng
    if tensor is None:
        return
    texts = [rng.choice((b"", b"a", b"hello", b"\xff\xfe", b"x" * 300)) for _ in range(rng.randrange(5))]
    start = 4 * (len(texts) + 2)
    offsets = [start + sum(map(len, texts[:i])) for i in range(len(texts) + 1)]
    numbers = [len(texts), *offsets]
    if rng.random() < 0.7:
        at = rng.randrange(len(numbers))
        numbers[at] = rng.choice((*NUMBERS[:7], numbers[at] + 1, numbers[at] - 4, -4, 2**30))
    data = struct.pack(f"<{len(numbers)}i", *numbers) + b"".join(texts)
    data = data[: rng.randrange(len(data) + 1)] if rng.random() < 0.2 else data
    world.root.setdefault("buffers", [{}]).append({"data": np.frombuffer(data, np.uint8)})
    tensor["buffer"] = len(world.root["buffers"]) - 1
    tensor["type"] = "STRING"
    if rng.random() < 0.8:
        tensor["shape"] = [len(texts)]


def custom_operator(world: World) -> None:
    """An operator becomes a custom one that is known, or not, with options that are odd or broken."""
    operator, rng = world.part("operators"), world.rng
    if operator is None:
        return
    operator["opcode_index"] = code_index(world, "CUSTOM")
    world.root["operator_codes"][-1]["custom_code"] = rng.choice(CODES)
    for name in ("builtin_options", "builtin_options_2"):
        operator.pop(name, None)
    blob = flexbuffer(rng)
    kind = rng.random()
    if kind < 0.15:
        blob = blob[: rng.randrange(len(blob))]
    elif kind < 0.5:
        for _ in range(rng.choice((1, 1, 3))):
            blob[rng.randrange(len(blob))] = rng.choice(
                (0, 1, 2, 4, 0x24, 0x25, 0x28, 0x7F, 0xFF, rng.randrange(256))
            )
    operator["custom_options"] = np.frombuffer(bytes(blob), np.uint8)
    operator["custom_options_format"] = "FLEXBUFFERS"
    if rng.random() < 0.15:
        operator["large_custom_options_offset"] = rng.choice((1, 2, 8, 100, 2**31, 2**63, 2**64 - 1))
        operator["large_custom_options_size"] = rng.choice((1, len(blob), 2**31, 2**64 - 1))
    if rng.random() < 0.3:
        ints(operator, "outputs").extend(ints(operator, "inputs")[:1])


def flexbuffer(rng: random.Random) -> bytearray:
    """A map of options that some custom operator has, of numbers, texts, vectors, and maps in maps."""
    builder = flexbuffers.Builder()
    with builder.Map():
        for key in rng.sample(KEYS, rng.randrange(1, len(KEYS))):
            kind = rng.randrange(6)
            if kind == 0:
                builder.String(key, rng.choice(("SAME", "VALID", "", "\n")))
            elif kind == 1:
                builder.TypedVectorFromElements(
                    key, [rng.choice(NUMBERS) for _ in range(rng.choice((1, 4, 4, 9)))]
                )
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


def odd_quantization(world: World) -> None:
    """One number of a table of quantization that is not like the others; tables of other kinds."""
    tensor, rng = world.part("tensors"), world.rng
    if tensor is None:
        return
    shape = shape_of(tensor)
    axis = rng.randrange(len(shape)) if shape else 0
    size = min(max(shape[axis] if shape else 1, 1), 4096)
    scales, points = [0.02] * size, [0] * size
    scales[rng.randrange(size)] = rng.choice((*FLOATS, 1e-38, 3e38))
    points[rng.randrange(size)] = rng.choice((0, 127, 128, -129, 256, 2**31, -(2**63), 2**63 - 1))
    axis = rng.choice((axis, axis, axis, -1, len(shape), 2**31 - 1, -(2**31)))
    table: Tree = {"scale": scales, "zero_point": points, "quantized_dimension": axis}
    if rng.random() < 0.2:
        table["details_type"] = rng.choice(("CustomQuantization", "BlockwiseQuantization"))
    elif rng.random() < 0.2:
        count = len((world.graph() or {}).get("tensors") or ())
        indices = {n: rng.randrange(-1, count + 1) for n in ("scales", "zero_points")}
        table["details"] = {"": "BlockwiseQuantization", **indices, "block_size": rng.choice(NUMBERS[:8])}
    tensor["quantization"] = table
    if rng.random() < 0.4:
        tensor["type"] = rng.choice(("INT8", "INT4", "INT16", "INT32", "UINT8"))


def odd_sparsity(world: World) -> None:
    """A sparse constant whose order, blocks, segments or indices lead astray."""
    tensor, rng = world.part("tensors"), world.rng
    if tensor is None or buffer_of(world, tensor) is None:
        return
    shape = shape_of(tensor)
    rank, blocks = len(shape), rng.choice((0, 0, 1, 2))
    order = list(range(rank + blocks))
    if rng.random() < 0.4:
        order = [rng.choice((*order, -1, rank + 9, 2**31 - 1)) for _ in order]
    dims = [
        _level(world, d) for d in (*shape, *(rng.choice((1, 2, 4, 0, -1, 2**31 - 1)) for _ in range(blocks)))
    ]
    tensor["sparsity"] = {
        "traversal_order": order,
        "block_map": [rng.choice((rng.randrange(rank + 1), -1, 2**31 - 1)) for _ in range(blocks)],
        "dim_metadata": dims[: rng.choice((99, 99, 1))],
    }


def _level(world: World, size: int) -> Tree:
    rng = world.rng
    if rng.random() < 0.5:
        return {"format": "DENSE", "dense_size": rng.choice((size, size, size, size - 1, 0, -1, 2**31 - 1))}
    member, most = rng.choice((("Int32Vector", 2**31 - 1), ("Uint16Vector", 65535), ("Uint8Vector", 255)))
    low = -1 if member == "Int32Vector" else 0
    count = rng.choice((0, 1, 2, size + 1 if 0 <= size < 300 else 3))
    segments = sorted(rng.choice((0, 1, 2, size, most)) for _ in range(count))
    if rng.random() < 0.3:
        rng.shuffle(segments)
    indices = [rng.choice((0, 1, size - 1, most, low)) for _ in range(rng.choice((0, 1, 2, 9)))]
    level: Tree = {"format": "SPARSE_CSR", "dense_size": size}
    for name, values in (("array_segments", segments), ("array_indices", indices)):
        if rng.random() < 0.95:
            level[name] = {"": member, "values": [min(max(v, low), most) for v in values]}
    return level


def far_buffers(world: World) -> None:
    """Several buffers behind, within or across the flatbuffer and each other."""
    rng, buffers = world.rng, world.trees("buffers")
    start = rng.choice((2, 4, 16, 64, 256, 1024, 4096, 2**31, 2**63, 2**64 - 8))
    for buffer in rng.sample(buffers, min(len(buffers), rng.choice((1, 2, 3, 9)))):
        data = buffer.get("data")
        size = 0 if data is None else len(data)
        if rng.random() < 0.8:
            buffer.pop("data", None)
        buffer["offset"] = min(start, 2**64 - 1)
        buffer["size"] = rng.choice((size, size, size, size + 4, 2**63, 2**64 - 1))
        start += rng.choice((0, 1, 4, size, size // 2))


# -- of bytes ----------------------------------------------------------------------------------


def with_archive(data: bytes, rng: random.Random) -> bytes:
    """``data`` and a zip archive behind it, sound or not."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as out:
        for number in range(rng.choice((0, 1, 1, 3))):
            out.writestr(f"labels_{number}.txt", "x\n" * rng.randrange(20))
        if rng.random() < 0.3:
            out.comment = b"PK\5\6" * rng.randrange(9)
    tail = bytearray(archive.getvalue())
    if rng.random() < 0.6:
        for _ in range(rng.choice((1, 2, 4))):
            at = rng.choice((rng.randrange(len(tail)), max(0, len(tail) - 1 - rng.randrange(22))))
            tail[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
    return data + bytes(tail)
