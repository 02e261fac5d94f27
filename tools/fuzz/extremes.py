# SPDX-License-Identifier: Apache-2.0
"""What one would try who wants to break the reader: sizes at limits, calls without end, blobs that lie."""

from __future__ import annotations

import random

from circlekit.io.read.flatbuffer_decoder import decode
from tools.fuzz import blobs, graphs, sizes
from tools.fuzz.fields import World
from tools.fuzz.trees import Mutation, encode_shared, forget_shapes, settled, some_mutations

MOST = 3


def mutate_extremely(data: bytes, fmt: str, rng: random.Random) -> tuple[bytes, list[str]]:
    """A file like ``data`` with something extreme in it, and what was done."""
    world = World(decode(memoryview(data), fmt), fmt, rng)
    done = []
    for _ in range(rng.choice((1, 1, 2, MOST))):
        kind = rng.choices(list(_KINDS), [weight for weight, _ in _KINDS.values()])[0]
        _KINDS[kind][1](world)
        done.append(kind)
    if rng.random() < 0.3:
        done += some_mutations(world)
    if rng.random() < 0.3:
        forget_shapes(world)
        done.append("forget_shapes")
    out = encode_shared(world.root, fmt)
    if rng.random() < 0.3:
        done.append("settle")
        out = settled(out)
    if rng.random() < 0.05:
        done.append("archive")
        out = blobs.with_archive(out, rng)
    return out, done


_KINDS: dict[str, tuple[float, Mutation]] = {
    "huge_result": (6, sizes.huge_result),
    "large_sizes": (3, sizes.large_sizes),
    "many_dimensions": (1, sizes.many_dimensions),
    "long_chain": (1, graphs.long_chain),
    "diamonds": (2, graphs.diamonds),
    "many_readers": (1, graphs.many_readers),
    "tower": (3, graphs.tower),
    "many_graphs": (1, graphs.many_graphs),
    "odd_names": (1, blobs.odd_names),
    "string_table": (2, blobs.string_table),
    "custom_operator": (3, blobs.custom_operator),
    "odd_quantization": (2, blobs.odd_quantization),
    "odd_sparsity": (2, blobs.odd_sparsity),
    "far_buffers": (2, blobs.far_buffers),
}
