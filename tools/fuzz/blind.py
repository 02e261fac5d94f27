# SPDX-License-Identifier: Apache-2.0
"""Mutations of bytes by one that knows nothing of the format."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable

from tools.fuzz.blobs import with_archive

NUMBERS = (0, 1, 2, 3, 4, 7, 8, 16, 127, 128, 255, 256, 32767, 32768, 65535, 65536, 2**24, 2**31 - 1, 2**31)
MOST = 8
"""Mutations of one file."""


def mutate_bytes(data: bytes, other: bytes, rng: random.Random) -> tuple[bytes, list[str]]:
    """``data`` with some of its bytes changed, and what was done; ``other``: another file, to splice with."""
    out = bytearray(data)
    done = []
    for _ in range(_count(rng)):
        kind = rng.choices(list(_KINDS), [weight for weight, _ in _KINDS.values()])[0]
        _KINDS[kind][1](out, other, rng)
        done.append(kind)
    return bytes(out), done


def _count(rng: random.Random) -> int:
    count = 1
    while count < MOST and rng.random() < 0.4:
        count += 1
    return count


def _place(out: bytearray, rng: random.Random) -> int:
    """Where: mostly in what is no constant data, which both ends of a file are more likely to be."""
    size = max(len(out), 1)
    near = min(size, rng.choice((64, 1024, 8192)))
    kind = rng.random()
    if kind < 0.4:
        return rng.randrange(near)
    return size - 1 - rng.randrange(near) if kind < 0.6 else rng.randrange(size)


def _flip(out: bytearray, other: bytes, rng: random.Random) -> None:
    if out:
        out[_place(out, rng)] ^= 1 << rng.randrange(8)


def _byte(out: bytearray, other: bytes, rng: random.Random) -> None:
    if out:
        out[_place(out, rng)] = rng.choice((0, 1, 4, 8, 0x7F, 0x80, 0xFF, rng.randrange(256)))


def _number(out: bytearray, other: bytes, rng: random.Random) -> None:
    """An aligned word becomes an interesting number, or a neighbour of what it was."""
    at = _place(out, rng) & ~3
    if at + 4 > len(out):
        return
    (old,) = struct.unpack_from("<I", out, at)
    new = rng.choice((*NUMBERS, -1, -2, -(2**31), old + 1, old - 1, old + 4, old - 4, old * 2, len(out) - at))
    struct.pack_into("<I", out, at, new & 0xFFFFFFFF)


def _word_copy(out: bytearray, other: bytes, rng: random.Random) -> None:
    """One aligned word goes to another place: offsets that lead astray, shared vtables."""
    source, target = _place(out, rng) & ~3, _place(out, rng) & ~3
    if max(source, target) + 4 <= len(out):
        out[target : target + 4] = out[source : source + 4]


def _insert(out: bytearray, other: bytes, rng: random.Random) -> None:
    at = _place(out, rng)
    out[at:at] = rng.randbytes(rng.choice((1, 2, 4, 8, 16)))


def _delete(out: bytearray, other: bytes, rng: random.Random) -> None:
    at = _place(out, rng)
    del out[at : at + rng.choice((1, 2, 4, 8, 64))]


def _truncate(out: bytearray, other: bytes, rng: random.Random) -> None:
    del out[_place(out, rng) :]


def _repeat(out: bytearray, other: bytes, rng: random.Random) -> None:
    at, size = _place(out, rng), rng.choice((4, 16, 64, 256))
    out[at:at] = out[at : at + size]


def _splice(out: bytearray, other: bytes, rng: random.Random) -> None:
    """A piece of another file in the place of as many bytes."""
    size = rng.choice((4, 16, 64, 512))
    at, there = _place(out, rng) & ~3, rng.randrange(max(1, len(other))) & ~3
    out[at : at + size] = other[there : there + size]


def _cross(out: bytearray, other: bytes, rng: random.Random) -> None:
    """The start of this file, the rest of the other."""
    at = _place(out, rng) & ~3
    out[at:] = other[at:]


def _zeros(out: bytearray, other: bytes, rng: random.Random) -> None:
    """A piece of nothing, or of bytes that are all set."""
    at, size = _place(out, rng), rng.choice((4, 8, 32, 256))
    out[at : at + size] = rng.choice((b"\0", b"\xff")) * len(out[at : at + size])


def _archive(out: bytearray, other: bytes, rng: random.Random) -> None:
    """A zip archive behind everything, as TFLite's metadata tools append one."""
    out[:] = with_archive(bytes(out), rng)


Mutation = Callable[[bytearray, bytes, random.Random], None]

_KINDS: dict[str, tuple[float, Mutation]] = {
    "flip": (4, _flip),
    "byte": (4, _byte),
    "number": (6, _number),
    "word_copy": (3, _word_copy),
    "insert": (1, _insert),
    "delete": (1, _delete),
    "truncate": (0.5, _truncate),
    "repeat": (1, _repeat),
    "splice": (2, _splice),
    "cross": (0.5, _cross),
    "zeros": (0.5, _zeros),
    "archive": (0.2, _archive),
}
