# SPDX-License-Identifier: Apache-2.0
"""Mutations of tensors that keep a file plausible: shapes, types and constants that still fit each other."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from circlekit.io.schema import Tree, enumeration
from circlekit.ir.dtypes import DType
from tools.fuzz.fields import FLOATS, World, within

MOST_BYTES = 1 << 20
"""Of a constant that is made larger."""

COMMON = (
    "INT8", "UINT8", "INT16", "INT32", "INT64", "FLOAT16", "FLOAT64", "FLOAT32", "BOOL", "INT4", "STRING",
)  # fmt: skip
DIMS = (0, 1, 2, 3, 4, 5, 7, 8, 16, 64, 1000, 65536, 2**31 - 1, -1, -2)


def buffer_of(world: World, tensor: Tree) -> Tree | None:
    """The tensor's buffer where that has data."""
    index, buffers = tensor.get("buffer", 0), world.trees("buffers")
    if not 0 <= index < len(buffers):
        return None
    data = buffers[index].get("data")
    return buffers[index] if data is not None and len(data) else None


def shape_of(tensor: Tree) -> list[int]:
    shape = tensor.get("shape")
    return [] if shape is None else [int(d) for d in shape]


def itemsize(tensor: Tree) -> int | None:
    kind = tensor.get("type", "FLOAT32")
    dtype = DType.__members__.get(kind) if isinstance(kind, str) else None
    return dtype.numpy.itemsize if dtype is not None and dtype.numpy is not None else None


def fit(world: World, tensor: Tree) -> None:
    """Give a constant as many bytes as its shape and type take, in a buffer of its own."""
    buffer, size = buffer_of(world, tensor), itemsize(tensor)
    shape = shape_of(tensor)
    if buffer is None or size is None or any(d < 0 for d in shape):
        return
    wanted = math.prod(shape) * size
    if 0 < wanted <= MOST_BYTES and wanted != len(buffer["data"]):
        world.trees("buffers").append({"data": np.resize(_bytes(buffer), wanted)})
        tensor["buffer"] = len(world.trees("buffers")) - 1


def _bytes(buffer: Tree) -> Any:
    data = buffer["data"]
    return data if isinstance(data, np.ndarray) else np.frombuffer(bytes(data), np.uint8)


# -- mutations ---------------------------------------------------------------------------------


def change_shape(world: World) -> None:
    """Another shape: a dimension changed, added or dropped, an order changed; the constant may follow."""
    tensor, rng = world.part("tensors"), world.rng
    if tensor is None:
        return
    shape = shape_of(tensor)
    kind = rng.randrange(6)
    if kind == 0 and shape:
        del shape[rng.randrange(len(shape))]
    elif kind == 1:
        shape.insert(rng.randrange(len(shape) + 1), rng.choice((1, 1, 2, *DIMS)))
    elif kind == 2:
        rng.shuffle(shape)
    elif kind == 3:
        shape = [math.prod(shape)] if math.prod(shape) < 2**31 else [1]
    elif shape:
        shape[rng.randrange(len(shape))] = rng.choice(DIMS)
    tensor["shape"] = [within("i", d) for d in shape]
    if rng.random() < 0.7:
        fit(world, tensor)


def rename_dimension(world: World) -> None:
    """One size becomes another wherever it is: mostly still a sound model, with odd sizes."""
    graph, rng = world.graph(), world.rng
    tensors = (graph or {}).get("tensors") or []
    sizes = sorted({d for tensor in tensors for d in shape_of(tensor)})
    if not sizes:
        return
    old, new = rng.choice(sizes), rng.choice((*DIMS[:10], rng.choice(sizes)))
    for tensor in tensors:
        shape = shape_of(tensor)
        if old in shape:
            tensor["shape"] = [new if d == old else d for d in shape]
            tensor.pop("shape_signature", None)
            fit(world, tensor)
            if new == 0 and buffer_of(world, tensor) is not None:
                tensor["buffer"] = 0


def change_type(world: World) -> None:
    """Another type; the constant may follow."""
    tensor = world.part("tensors")
    if tensor is None:
        return
    tensor["type"] = world.rng.choice(list(enumeration("TensorType", world.format).numbers))
    if world.rng.random() < 0.7:
        fit(world, tensor)


def rename_type(world: World) -> None:
    """One type becomes another in the whole graph."""
    graph, rng = world.graph(), world.rng
    tensors = (graph or {}).get("tensors") or []
    if not tensors:
        return
    old = rng.choice(tensors).get("type", "FLOAT32")
    new = rng.choice(COMMON)
    for tensor in tensors:
        if tensor.get("type", "FLOAT32") == old:
            tensor["type"] = new
            fit(world, tensor)


def change_constant(world: World) -> None:
    """Other numbers in a constant: small and large ones as axes and shapes have them, or edges of floats."""
    tensor, rng = world.part("tensors"), world.rng
    for _ in range(4):
        if tensor is not None and buffer_of(world, tensor) is not None:
            break
        tensor = world.part("tensors")
    buffer = None if tensor is None else buffer_of(world, tensor)
    if tensor is None or buffer is None:
        return
    kind = tensor.get("type", "FLOAT32")
    dtype = DType.__members__.get(kind) if isinstance(kind, str) else None
    numpy = np.dtype(np.uint8) if dtype is None or dtype.numpy is None else dtype.numpy
    data = np.array(_bytes(buffer))
    count = len(data) // numpy.itemsize
    elements = data[: count * numpy.itemsize].view(numpy)
    which = list(range(min(count, 64)))
    if count and rng.random() < 0.8:
        which = [rng.randrange(count) for _ in range(rng.choice((1, 1, 2)))]
    for at in which:
        with np.errstate(all="ignore"):
            elements[at] = _number(world, numpy, elements[at])
    index = len(world.trees("buffers"))
    if rng.random() < 0.7:  # others that share the buffer may keep theirs
        world.trees("buffers").append({"data": data})
        tensor["buffer"] = index
    else:
        buffer["data"] = data


def _number(world: World, numpy: Any, old: Any) -> Any:
    rng = world.rng
    if numpy.kind in "fc":
        return rng.choice((*FLOATS, rng.uniform(-9, 9), 0.0, -1.0))
    if numpy.kind == "b":
        return not old
    low, high = int(np.iinfo(numpy).min), int(np.iinfo(numpy).max)
    step = rng.choice((int(old) + 1, int(old) - 1, -int(old), int(old) * 2))
    value = rng.choice((-1, 0, 1, 2, 3, 4, -2, -5, 9, 1000, low, high, 2**31 - 1, -(2**31), step, step))
    return min(max(value, low), high)


def change_quantization(world: World) -> None:
    """Scales and zero points at their edges, in numbers that fit an axis or do not."""
    tensor, rng = world.part("tensors"), world.rng
    if tensor is None:
        return
    shape = shape_of(tensor)
    axis = rng.randrange(-1, len(shape) + 1)
    size = shape[axis] if 0 <= axis < len(shape) and rng.random() < 0.7 else rng.choice((1, 1, 1, 0, 2, 3))
    size = min(max(size, 0), 4096)
    scale = rng.choice((0.5, 0.01, 1.0, *FLOATS)) if rng.random() < 0.3 else 0.02
    zero_point = rng.choice((0, 0, 1, -1, 128, -128, 300, 2**31, -(2**63)))
    points = rng.choice((size, size, 1, 0))
    quantization: Tree = {"scale": [scale] * size, "zero_point": [zero_point] * points}
    if rng.random() < 0.7:
        quantization["quantized_dimension"] = axis
    if rng.random() < 0.2:
        quantization |= {"min": [rng.choice(FLOATS)] * size, "max": [rng.choice(FLOATS)] * size}
    tensor["quantization"] = quantization
    if rng.random() < 0.3:
        tensor["type"] = rng.choice(("INT8", "UINT8", "INT16", "INT32", "FLOAT32"))
        fit(world, tensor)


def copy_quantization(world: World) -> None:
    """Two tensors share one table of quantization."""
    a, b = world.part("tensors"), world.part("tensors")
    if a is not None and b is not None and a.get("quantization") is not None:
        b["quantization"] = a["quantization"]


def sparsify(world: World) -> None:
    """A table of sparsity, sound for a dense matrix but for one number at times."""
    tensor, rng = world.part("tensors"), world.rng
    if tensor is None:
        return
    shape = shape_of(tensor)
    dims: list[Tree] = [{"format": "DENSE", "dense_size": d} for d in shape]
    if dims:
        rows, columns = rng.choice(((1, 1), (2, 3), (0, 0))), rng.choice((0, 1, 5))
        member = rng.choice(("Int32Vector", "Uint16Vector", "Uint8Vector"))
        dims[-1] = {
            "format": "SPARSE_CSR",
            "array_segments": {"": member, "values": list(range(rows[0], rows[1] + 1))},
            "array_indices": {"": member, "values": [columns]},
        }
    order = list(range(len(shape)))
    if rng.random() < 0.3:
        order = [rng.randrange(-1, len(shape) + 2) for _ in order]
    tensor["sparsity"] = {"traversal_order": order, "dim_metadata": dims}
    if rng.random() < 0.3:
        tensor["sparsity"]["block_map"] = [rng.randrange(-1, len(shape) + 1)]


def share_buffer(world: World) -> None:
    """Two tensors have one buffer, or a tensor becomes a constant, or stops to be one."""
    a, b = world.part("tensors"), world.part("tensors")
    if a is not None and b is not None:
        a["buffer"] = world.rng.choice((b.get("buffer", 0), 0))


def move_buffer(world: World) -> None:
    """A buffer somewhere else in the file, or beyond its end."""
    buffers, rng = world.trees("buffers"), world.rng
    if not buffers:
        return
    buffer = rng.choice(buffers)
    size = len(buffer.pop("data", None) if buffer.get("data") is not None else ())
    buffer["offset"] = rng.choice((0, 1, 2, 8, 16, 64, 1000, 2**31, 2**40, 2**63, 2**64 - 1))
    buffer["size"] = rng.choice((size, size, size, 0, 1, 4, 2**32, 2**64 - 1))


def make_variable(world: World) -> None:
    tensor = world.part("tensors")
    if tensor is not None:
        tensor["is_variable"] = not tensor.get("is_variable", False)


def unknown_shape(world: World) -> None:
    """Dimensions that the file says are unknown."""
    tensor, rng = world.part("tensors"), world.rng
    if tensor is None:
        return
    shape = shape_of(tensor)
    if rng.random() < 0.2:
        shape = [rng.choice((-1, d, d)) for d in shape]
        tensor["shape"] = shape
    tensor["shape_signature"] = [rng.choice((-1, d)) for d in shape][: rng.choice((99, 99, 1))]
    if rng.random() < 0.2:
        tensor["has_rank"] = rng.random() < 0.5
