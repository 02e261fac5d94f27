# SPDX-License-Identifier: Apache-2.0
"""Mutate the bytes of a file, without knowledge of its format."""

from __future__ import annotations

import random
from collections.abc import Callable

NUMBERS = (0, 1, 2, 3, 4, 7, 8, 16, 127, 128, 255, 256, 32767, 32768, 65535, 65536, 2**24, 2**31 - 1, 2**31)
MAX_MUTATIONS = 8

Mutation = Callable[[bytearray, bytes, random.Random], None]


def mutate_bytes(data: bytes, other: bytes, rng: random.Random) -> tuple[bytes, list[str]]:
    """Return ``data`` with a few changes, and the names of the changes.

    ``other``: another file, of which pieces may be copied into ``data``.
    """
    out = bytearray(data)
    count = 1
    while count < MAX_MUTATIONS and rng.random() < 0.4:
        count += 1
    chosen = rng.choices(list(MUTATIONS), list(MUTATIONS.values()), k=count)
    for mutate in chosen:
        mutate(out, other, rng)
    return bytes(out), [mutate.__name__ for mutate in chosen]


def _position(out: bytearray, rng: random.Random) -> int:
    """Return a position, mostly near either end, where a file has less constant data."""
    size = max(len(out), 1)
    near = min(size, rng.choice((64, 1024, 8192)))
    kind = rng.random()
    if kind < 0.4:
        return rng.randrange(near)
    return size - 1 - rng.randrange(near) if kind < 0.6 else rng.randrange(size)


def flip_bit(out: bytearray, other: bytes, rng: random.Random) -> None:
    if out:
        out[_position(out, rng)] ^= 1 << rng.randrange(8)


def set_byte(out: bytearray, other: bytes, rng: random.Random) -> None:
    if out:
        out[_position(out, rng)] = rng.choice((0, 1, 4, 8, 0x7F, 0x80, 0xFF, rng.randrange(256)))


def set_word(out: bytearray, other: bytes, rng: random.Random) -> None:
    """Set an aligned 16 or 32 bit word to an extreme number, one near the old, or the distance to the end."""
    size = rng.choice((2, 4, 4))
    at = _position(out, rng) // size * size
    if at + size > len(out):
        return
    old = int.from_bytes(out[at : at + size], "little")
    near = (old + 1, old - 1, old + 2, old - 2, old + 4, old - 4, old * 2, len(out) - at, len(out) - at - 4)
    new = rng.choice((*NUMBERS, -1, -2, -(2**31), *near))
    out[at : at + size] = (new % (1 << 8 * size)).to_bytes(size, "little")


def copy_word(out: bytearray, other: bytes, rng: random.Random) -> None:
    """Copy one aligned word to another place: this may break an offset, or let two tables share a vtable."""
    source, target = _position(out, rng) & ~3, _position(out, rng) & ~3
    if max(source, target) + 4 <= len(out):
        out[target : target + 4] = out[source : source + 4]


def insert(out: bytearray, other: bytes, rng: random.Random) -> None:
    """Insert random bytes, or repeat a piece of the file."""
    at, size = _position(out, rng), rng.choice((1, 2, 4, 8, 16, 64, 256))
    out[at:at] = rng.randbytes(size) if rng.random() < 0.5 else out[at : at + size]


def delete(out: bytearray, other: bytes, rng: random.Random) -> None:
    """Delete a piece, or everything after a position."""
    at = _position(out, rng)
    size = rng.choice((1, 2, 4, 8, 64)) if rng.random() < 0.7 else len(out)
    del out[at : at + size]


def splice(out: bytearray, other: bytes, rng: random.Random) -> None:
    """Replace a piece by a piece of ``other``, or everything after a position by what ``other`` has there."""
    at, there = _position(out, rng) & ~3, rng.randrange(max(1, len(other))) & ~3
    size = rng.choice((4, 16, 64, 512))
    if rng.random() < 0.2:
        out[at:] = other[at:]
    else:
        out[at : at + size] = other[there : there + size]


MUTATIONS: dict[Mutation, float] = {
    flip_bit: 4, set_byte: 4, set_word: 6, copy_word: 3, insert: 2, delete: 1.5, splice: 2.5,
}  # fmt: skip
"""Mutations with their weights."""
