# SPDX-License-Identifier: Apache-2.0
"""Damage to the structure of a flatbuffer, aimed at what a verifier checks."""

from __future__ import annotations

import random
import struct

from tools.fuzz.mutate_bytes import mutate_bytes
from tools.verifier.structure import Structure

LARGEST_MOVED_BYTES = 4096

WORDS = (2**29, 2**30, 2**31 - 4, 2**31 - 1, 2**31, 2**31 + 4, 2**32 - 4, 2**32 - 1)
SHORTS = (0x7FFE, 0x7FFF, 0x8000, 0xFFFC, 0xFFFE, 0xFFFF)
BYTES = (0, 1, 2, 3, 0x20, 127, 128, 255)
EXTREMES = {"I": WORDS, "i": WORDS, "H": SHORTS, "B": BYTES}

KINDS = {
    "offset": 6.0, "to_vtable": 4.0, "vtable_size": 4.0, "table_size": 2.0, "slot": 6.0, "length": 4.0,
    "end": 1.0, "tag": 3.0, "move_part": 7.0, "move_vtable": 3.0, "bytes": 4.0,
}  # fmt: skip
"""Kinds of damage with their weights: the kinds of numbers of a Structure, moved parts, and any bytes."""


def damaged(structure: Structure, rng: random.Random) -> tuple[bytes, list[str]]:
    """Return the file of ``structure`` with some of its structure changed, and the kinds of changes."""
    out = bytearray(structure.data)
    done = rng.choices(list(KINDS), list(KINDS.values()), k=rng.choice((1, 1, 1, 2, 3)))
    for kind in done:
        if kind == "bytes":
            out[:] = mutate_bytes(bytes(out), structure.data, rng)[0]
        elif kind == "move_part":
            _move_part(out, structure, rng)
        elif kind == "move_vtable":
            _move_vtable(out, structure, rng)
        elif structure.numbers[kind]:
            _change_number(out, structure, kind, rng)
    return bytes(out), done


def _change_number(out: bytearray, structure: Structure, kind: str, rng: random.Random) -> None:
    """Set a number near its value, to an edge of what is valid, to another target, or anywhere."""
    at, code, unit = rng.choice(structure.numbers[kind])
    old, end = _get(out, code, at), len(out) - at
    other, sign = rng.choice(structure.targets) - at, -1 if kind == "to_vtable" else 1
    if kind == "table_size":
        end = len(out) - rng.choice(structure.tables).at
    edges = (0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 64, -4, -at, end, _near(rng, end), end - 8, 2**31 - at)
    room = (end - 4) // unit + rng.choice((-1, 0, 1))
    wrap = rng.choice((2**32, 2**31)) // unit + rng.choice((-1, 0, 1))
    length = rng.choice((room, wrap) if kind == "length" else (other, rng.choice(edges)))
    near = _near(rng, old)
    value = rng.choice(
        (near, near, sign * other, sign * rng.choice(edges), sign * length, rng.choice(EXTREMES[code]))
    )
    _put(out, code, at, 0 if kind in ("slot", "tag") and rng.random() < 0.3 else value)


def _put(out: bytearray, code: str, at: int, value: int) -> None:
    size = struct.calcsize(code)
    if 0 <= at <= len(out) - size:
        out[at : at + size] = (value % (1 << 8 * size)).to_bytes(size, "little")


def _get(out: bytearray, code: str, at: int) -> int:
    inside = 0 <= at <= len(out) - struct.calcsize(code)
    return int(struct.unpack_from("<" + code, out, at)[0]) if inside else 0


def _near(rng: random.Random, old: int) -> int:
    return old + rng.choice((-8, -6, -5, -4, -3, -2, -1, 1, 2, 3, 4, 5, 6, 8))


def _move_part(out: bytearray, structure: Structure, rng: random.Random) -> None:
    """Move a vector, a string, or a table without references to the end: aligned or not, complete or not."""
    small = [leaf for leaf in structure.leaves if leaf.size < LARGEST_MOVED_BYTES]
    homes = [home for home in structure.tables if home.is_leaf]
    if not small or not homes:
        return
    out += bytes(-len(out) % 8 + rng.choice((0, 1, 2, 3, 4, 4, 5, 6, 7)))
    if rng.random() < 0.5:
        leaf = rng.choice(small)
        _put(out, "I", leaf.at, len(out) - leaf.at)
        out += structure.data[leaf.start : leaf.start + leaf.size]
        if leaf.is_text and rng.random() < 0.7:
            out.append(rng.choice((0, 0, 0, 1)))
    else:
        home = rng.choice(homes)
        size = _get(out, "H", home.vtable + 2)
        _put(out, "I", home.offset, len(out) - home.offset)
        out += struct.pack("<i", len(out) - home.vtable) + structure.data[home.at + 4 : home.at + size]
    if rng.random() < 0.3:
        del out[-rng.randrange(1, 9) :]
    out += bytes(rng.choice((0, 0, 1, 4, 64)))


def _move_vtable(out: bytearray, structure: Structure, rng: random.Random) -> None:
    """Move a vtable to the end, aligned or not, longer or truncated."""
    home = rng.choice(structure.tables)
    length = _get(out, "H", home.vtable)
    out += bytes(-len(out) % 4 + rng.choice((0, 0, 1, 2, 3)))
    place = len(out)
    _put(out, "i", home.at, home.at - place)
    out += structure.data[home.vtable : home.vtable + length]
    more = rng.choice((0, 0, 1, 2, 4, 64, 1000))
    out += rng.choice((bytes(more), b"\4" * more))
    _put(out, "H", place, length + more + rng.choice((0, 0, 0, -1, 1, 2, 3)))
    if rng.random() < 0.3:
        del out[-rng.randrange(1, 9) :]
