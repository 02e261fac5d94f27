# SPDX-License-Identifier: Apache-2.0
"""Mutate the tensors of a decoded model and their constants."""

from __future__ import annotations

import math
import random

import numpy as np

from circlekit.io.schema import Tree, enumeration
from circlekit.ir.dtypes import DType
from circlekit.ir.value import Array
from tools.fuzz.mutate_fields import FLOATS, World

MAX_CONSTANT_BYTES = 1 << 20
DIMENSIONS = (0, 1, 2, 3, 4, 5, 7, 8, 16, 64, 1000, 65536, 2**24, 2**28, 2**31 - 1, -1, -2, -(2**31))
"""Sizes; some are so large that a product of a few of them exceeds 64 bits."""

NOT_NEGATIVE = tuple(size for size in DIMENSIONS if size >= 0)


def shape_of(tensor: Tree) -> list[int]:
    shape = tensor.get("shape")
    return [] if shape is None else [int(d) for d in shape]


def type_of(tensor: Tree) -> str | int:
    """Return the name of the type, or its number if the schema lacks it."""
    found: str | int = tensor.get("type", "FLOAT32")
    return found


def element_of(tensor: Tree) -> np.dtype[np.generic] | None:
    """Return the dtype of stored elements (for strings: of offsets); None for packed and unknown types."""
    if type_of(tensor) == "STRING":
        return np.dtype(np.int32)
    dtype = DType.__members__.get(str(type_of(tensor)))
    return None if dtype is None else dtype.numpy


def data_of(world: World, tensor: Tree) -> Array | None:
    """Return the bytes of a constant; None for other tensors."""
    index, buffers = tensor.get("buffer", 0), world.trees("buffers")
    data = buffers[index].get("data") if 0 <= index < len(buffers) else None
    if data is None or not len(data):
        return None
    return data if isinstance(data, np.ndarray) else np.frombuffer(bytes(data), np.uint8)


def add_buffer(world: World, tensor: Tree, data: Array) -> None:
    """Append a buffer with the bytes ``data``; make it the buffer of ``tensor``."""
    world.root.setdefault("buffers", [{}]).append({"data": data})
    tensor["buffer"] = len(world.trees("buffers")) - 1


def fit_constants(world: World) -> None:
    """Give constants as many bytes as shape and type need, if known and at most MAX_CONSTANT_BYTES."""
    for tensor in (tensor for graph in world.trees("subgraphs") for tensor in graph.get("tensors") or []):
        data, dtype, shape = data_of(world, tensor), element_of(tensor), shape_of(tensor)
        has_elements = type_of(tensor) != "STRING" and "sparsity" not in tensor
        if data is None or dtype is None or not has_elements or any(d < 0 for d in shape):
            continue
        size = math.prod(shape) * dtype.itemsize
        if size == 0:
            tensor["buffer"] = 0
        elif size <= MAX_CONSTANT_BYTES and size != len(data):
            add_buffer(world, tensor, np.resize(data, size))


def replace_everywhere(world: World) -> None:
    """Replace one size, or one type, by another in all tensors of a graph: the model mostly stays valid."""
    tensors, rng = world.parts("tensors"), world.rng
    if not tensors:
        return
    if rng.random() < 0.3:
        old_type = type_of(rng.choice(tensors))
        new_type = rng.choice(list(enumeration("TensorType", world.format).numbers))
        for tensor in tensors:
            tensor["type"] = new_type if type_of(tensor) == old_type else type_of(tensor)
        return
    sizes = sorted({d for tensor in tensors for d in shape_of(tensor)}) or [1]
    old, new = rng.choice(sizes), rng.choice((*NOT_NEGATIVE, rng.choice(sizes)))
    for tensor in tensors:
        if old in shape_of(tensor):
            tensor["shape"] = [new if d == old else d for d in shape_of(tensor)]
            tensor.pop("shape_signature", None)


def constant(world: World) -> None:
    """Replace elements of a constant by small or large integers or by edge cases of floats."""
    rng = world.rng
    candidates = [(t, data) for t in world.parts("tensors") if (data := data_of(world, t)) is not None]
    if not candidates:
        return
    tensor, old = rng.choice(candidates)
    dtype, data = element_of(tensor) or np.dtype(np.uint8), np.array(old)
    count = len(data) // dtype.itemsize
    elements = data[: count * dtype.itemsize].view(dtype)
    places = list(range(min(count, 64)))
    if count and rng.random() < 0.8:
        places = [rng.randrange(count) for _ in range(rng.choice((1, 1, 2)))]
    for at in places:
        with np.errstate(all="ignore"):
            elements[at] = _element(rng, dtype, elements[at])
    if rng.random() < 0.7:  # other tensors of the old buffer stay unchanged
        add_buffer(world, tensor, data)
    else:
        world.trees("buffers")[tensor.get("buffer", 0)]["data"] = data


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
    """Set a random number of scales and zero points, some extreme; in some cases also set the type."""
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
