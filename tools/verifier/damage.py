# SPDX-License-Identifier: Apache-2.0
"""Damage to the structure of a flatbuffer, aimed at what a verifier checks."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable

from tools.verifier.structure import Structure

MAX_CHANGES = 3
"""Changes of one file."""

LARGEST_MOVED_BYTES = 4096

WORDS = (2**29, 2**30, 2**31 - 4, 2**31 - 1, 2**31, 2**31 + 4, 2**32 - 4, 2**32 - 1)
SHORTS = (0x7FFE, 0x7FFF, 0x8000, 0xFFFC, 0xFFFE, 0xFFFF)


def damaged(structure: Structure, rng: random.Random) -> tuple[bytes, list[str]]:
    """Return the file of ``structure`` with some of its structure changed, and the kinds of changes."""
    out = bytearray(structure.data)
    done = []
    for _ in range(rng.choice((1, 1, 1, 2, MAX_CHANGES))):
        kind = rng.choices(list(_KINDS), [weight for weight, _ in _KINDS.values()])[0]
        _KINDS[kind][1](out, structure, rng)
        done.append(kind)
    return bytes(out), done


def _put(out: bytearray, code: str, at: int, value: int) -> None:
    size = struct.calcsize(code)
    if 0 <= at <= len(out) - size:
        out[at : at + size] = (value % (1 << 8 * size)).to_bytes(size, "little")


def _get(out: bytearray, code: str, at: int) -> int:
    inside = 0 <= at <= len(out) - struct.calcsize(code)
    return int(struct.unpack_from("<" + code, out, at)[0]) if inside else 0


def _near(rng: random.Random, old: int) -> int:
    return old + rng.choice((-8, -6, -5, -4, -3, -2, -1, 1, 2, 3, 4, 5, 6, 8))


def _offset(out: bytearray, structure: Structure, rng: random.Random) -> None:
    """Move an offset beside its target, to another target, to the end of the file or of the number range."""
    at = rng.choice(structure.offsets)
    end = len(out) - at
    other = rng.choice(structure.offsets)
    target = other + _get(out, "I", other) - at
    edge = rng.choice((0, 1, 2, 3, 4, -4, -at, 2**31 - at, end - 8, _near(rng, end), end))
    near = _near(rng, _get(out, "I", at))
    _put(out, "I", at, rng.choice((near, near, target, edge, rng.choice(WORDS))))


def _to_vtable(out: bytearray, structure: Structure, rng: random.Random) -> None:
    """Move the vtable of a table nearby, to that of another table, or out of the file."""
    home, other = rng.choice(structure.tables), rng.choice(structure.tables)
    place = rng.choice((other.vtable, other.vtable, _near(rng, home.vtable)))
    edge = rng.choice((-1, 0, 1, 2, 4, _near(rng, len(out)), len(out), home.at, home.at - 2, home.at + 2))
    value = rng.choice((home.at - place, home.at - place, home.at - edge, rng.choice(WORDS)))
    _put(out, "i", home.at, value)


def _vtable_size(out: bytearray, structure: Structure, rng: random.Random) -> None:
    at = rng.choice(structure.tables).vtable
    near, end = _near(rng, _get(out, "H", at)), len(out) - at
    edge = rng.choice((0, 1, 2, 3, 4, 5, 6, 8, 64, end, _near(rng, end), *SHORTS))
    _put(out, "H", at, rng.choice((near, near, edge)))


def _table_size(out: bytearray, structure: Structure, rng: random.Random) -> None:
    home = rng.choice(structure.tables)
    near, end = _near(rng, _get(out, "H", home.vtable + 2)), len(out) - home.at
    edge = rng.choice((0, 1, 2, 3, 4, 8, end, end + 1, end - 1, *SHORTS))
    _put(out, "H", home.vtable + 2, rng.choice((near, edge)))


def _slot(out: bytearray, structure: Structure, rng: random.Random) -> None:
    """Move a field within its table or out of it, or drop it: a union without value or without type."""
    at = rng.choice(structure.slots)
    near, other = _near(rng, _get(out, "H", at)), _get(out, "H", rng.choice(structure.slots))
    end = len(out) - rng.choice(structure.tables).at
    edge = rng.choice((1, 2, 3, 4, 5, 6, 7, 8, 12, 16, end, _near(rng, end), *SHORTS))
    _put(out, "H", at, rng.choice((0, 0, near, other, edge)))


def _length(out: bytearray, structure: Structure, rng: random.Random) -> None:
    """Change the length of a vector or a string."""
    if not structure.lengths:
        return
    at, size = rng.choice(structure.lengths)
    near, room = _near(rng, _get(out, "I", at)), (len(out) - at - 4) // size
    edge = rng.choice((0, 1, 2, room - 1, room, room + 1, len(out)))
    wrap = rng.choice((2**32, 2**31)) // size + rng.choice((-1, 0, 1))
    _put(out, "I", at, rng.choice((near, near, edge, wrap, rng.choice(WORDS))))


def _terminator(out: bytearray, structure: Structure, rng: random.Random) -> None:
    if structure.ends:
        _put(out, "B", rng.choice(structure.ends), rng.choice((1, 0x20, 0xFF)))


def _tag(out: bytearray, structure: Structure, rng: random.Random) -> None:
    """Change the type of a union."""
    if structure.tags:
        value = rng.choice((0, 0, 1, 2, 3, 127, 128, 255, rng.randrange(256)))
        _put(out, "B", rng.choice(structure.tags), value)


def _move_leaf(out: bytearray, structure: Structure, rng: random.Random) -> None:
    """Move a vector of numbers or a string to the end, aligned or not, complete or not."""
    leaves = [leaf for leaf in structure.leaves if leaf.size < LARGEST_MOVED_BYTES]
    if not leaves:
        return
    leaf = rng.choice(leaves)
    out += bytes(-len(out) % 8 + rng.choice((0, 1, 2, 3, 4, 4, 5, 6, 7)))
    _put(out, "I", leaf.at, len(out) - leaf.at)
    out += structure.data[leaf.start : leaf.start + leaf.size]
    if leaf.is_text and rng.random() < 0.7:
        out.append(rng.choice((0, 0, 0, 1)))
    elif rng.random() < 0.3:
        del out[-rng.randrange(1, 9) :]
    out += bytes(rng.choice((0, 0, 1, 4, 64)))


def _move_table(out: bytearray, structure: Structure, rng: random.Random) -> None:
    """Move a table without references to the end, aligned or not, complete or not; its vtable stays."""
    homes = [home for home in structure.tables if home.is_leaf]
    if not homes:
        return
    home = rng.choice(homes)
    size = _get(out, "H", home.vtable + 2)
    out += bytes(-len(out) % 8 + rng.choice((0, 1, 2, 3, 4, 4, 5, 6, 7)))
    _put(out, "I", home.offset, len(out) - home.offset)
    out += struct.pack("<i", len(out) - home.vtable) + structure.data[home.at + 4 : home.at + size]
    if rng.random() < 0.4:
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


def _cut(out: bytearray, structure: Structure, rng: random.Random) -> None:
    """Truncate the file near the end or inside of a table, a vtable, a vector, a string or the data."""
    ends = [rng.choice(structure.ends)] if structure.ends else []
    ends += [
        rng.choice(structure.offsets),
        rng.choice(structure.tables).vtable,
        rng.choice(structure.tables).at,
    ]
    ends += [rng.choice(structure.lengths)[0]] if structure.lengths else []
    at = rng.choice((rng.choice(ends), max((leaf.start for leaf in structure.leaves), default=8), len(out)))
    del out[max(0, at + rng.randrange(-9, 10)) :]


def _behind(out: bytearray, structure: Structure, rng: random.Random) -> None:
    out += rng.randbytes(rng.choice((1, 2, 3, 4, 7, 8, 16, 1024)))


def _insert(out: bytearray, structure: Structure, rng: random.Random) -> None:
    """Insert bytes, so that everything behind them moves and most offsets are wrong."""
    at = rng.choice((rng.choice(structure.offsets), rng.choice(structure.tables).at, 0))
    out[at:at] = bytes(rng.choice((1, 2, 4, 8)))


def _identifier(out: bytearray, structure: Structure, rng: random.Random) -> None:
    out[4:8] = rng.choice((b"TFL3", b"CIR0", b"TFL2", bytes(4)))


def _noise(out: bytearray, structure: Structure, rng: random.Random) -> None:
    """Write any number near a table or an offset."""
    at = rng.choice((rng.choice(structure.tables).at, rng.choice(structure.offsets))) + rng.randrange(-16, 17)
    value = rng.choice((0, 1, 4, *SHORTS, *WORDS, rng.getrandbits(32)))
    _put(out, rng.choice("BHI"), at, value)


Damage = Callable[[bytearray, Structure, random.Random], None]

_KINDS: dict[str, tuple[float, Damage]] = {
    "offset": (6, _offset),
    "to_vtable": (4, _to_vtable),
    "vtable_size": (4, _vtable_size),
    "table_size": (2, _table_size),
    "slot": (6, _slot),
    "length": (4, _length),
    "terminator": (1, _terminator),
    "tag": (3, _tag),
    "move_leaf": (4, _move_leaf),
    "move_table": (3, _move_table),
    "move_vtable": (3, _move_vtable),
    "cut": (1.5, _cut),
    "behind": (0.5, _behind),
    "insert": (0.5, _insert),
    "identifier": (0.2, _identifier),
    "noise": (3, _noise),
}
