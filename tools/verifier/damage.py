# SPDX-License-Identifier: Apache-2.0
"""Damage to the structure of a flatbuffer, aimed at what the C++ verifier looks at."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable

from tools.verifier.places import Places

MOST = 3
"""Changes of one file."""

FEW = 4096
"""Bytes of the largest vector that is moved."""

WORDS = (2**29, 2**30, 2**31 - 4, 2**31 - 1, 2**31, 2**31 + 4, 2**32 - 4, 2**32 - 1)
SHORTS = (0x7FFE, 0x7FFF, 0x8000, 0xFFFC, 0xFFFE, 0xFFFF)


def damaged(places: Places, rng: random.Random) -> tuple[bytes, list[str]]:
    """A file like that of ``places`` with some of its structure changed, and what was done."""
    out = bytearray(places.data)
    done = []
    for _ in range(rng.choice((1, 1, 1, 2, MOST))):
        kind = rng.choices(list(_KINDS), [weight for weight, _ in _KINDS.values()])[0]
        _KINDS[kind][1](out, places, rng)
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


def _offset(out: bytearray, places: Places, rng: random.Random) -> None:
    """An offset leads beside its target, to another's, to the edges of the file or of numbers."""
    at = rng.choice(places.offsets)
    end = len(out) - at
    other = rng.choice(places.offsets)
    target = other + _get(out, "I", other) - at
    edge = rng.choice((0, 1, 2, 3, 4, -4, -at, 2**31 - at, end - 8, _near(rng, end), end))
    near = _near(rng, _get(out, "I", at))
    _put(out, "I", at, rng.choice((near, near, target, edge, rng.choice(WORDS))))


def _to_vtable(out: bytearray, places: Places, rng: random.Random) -> None:
    """The vtable of a table is beside where it was, that of another table, or out of the file."""
    home, other = rng.choice(places.homes), rng.choice(places.homes)
    place = rng.choice((other.vtable, other.vtable, _near(rng, home.vtable)))
    edge = rng.choice((-1, 0, 1, 2, 4, _near(rng, len(out)), len(out), home.at, home.at - 2, home.at + 2))
    value = rng.choice((home.at - place, home.at - place, home.at - edge, rng.choice(WORDS)))
    _put(out, "i", home.at, value)


def _vtable_size(out: bytearray, places: Places, rng: random.Random) -> None:
    at = rng.choice(places.homes).vtable
    near, end = _near(rng, _get(out, "H", at)), len(out) - at
    edge = rng.choice((0, 1, 2, 3, 4, 5, 6, 8, 64, end, _near(rng, end), *SHORTS))
    _put(out, "H", at, rng.choice((near, near, edge)))


def _table_size(out: bytearray, places: Places, rng: random.Random) -> None:
    home = rng.choice(places.homes)
    near, end = _near(rng, _get(out, "H", home.vtable + 2)), len(out) - home.at
    edge = rng.choice((0, 1, 2, 3, 4, 8, end, end + 1, end - 1, *SHORTS))
    _put(out, "H", home.vtable + 2, rng.choice((near, edge)))


def _slot(out: bytearray, places: Places, rng: random.Random) -> None:
    """A field is elsewhere in its table, outside of it, or not at all: no value of a union, or no type."""
    at = rng.choice(places.slots)
    near, other = _near(rng, _get(out, "H", at)), _get(out, "H", rng.choice(places.slots))
    end = len(out) - rng.choice(places.homes).at
    edge = rng.choice((1, 2, 3, 4, 5, 6, 7, 8, 12, 16, end, _near(rng, end), *SHORTS))
    _put(out, "H", at, rng.choice((0, 0, near, other, edge)))


def _length(out: bytearray, places: Places, rng: random.Random) -> None:
    """The length of a vector or a string."""
    if not places.lengths:
        return
    at, size = rng.choice(places.lengths)
    near, room = _near(rng, _get(out, "I", at)), (len(out) - at - 4) // size
    edge = rng.choice((0, 1, 2, room - 1, room, room + 1, len(out)))
    wrap = rng.choice((2**32, 2**31)) // size + rng.choice((-1, 0, 1))
    _put(out, "I", at, rng.choice((near, near, edge, wrap, rng.choice(WORDS))))


def _terminator(out: bytearray, places: Places, rng: random.Random) -> None:
    if places.ends:
        _put(out, "B", rng.choice(places.ends), rng.choice((1, 0x20, 0xFF)))


def _tag(out: bytearray, places: Places, rng: random.Random) -> None:
    """The type of a union."""
    if places.tags:
        value = rng.choice((0, 0, 1, 2, 3, 127, 128, 255, rng.randrange(256)))
        _put(out, "B", rng.choice(places.tags), value)


def _move_leaf(out: bytearray, places: Places, rng: random.Random) -> None:
    """A vector of numbers or a string goes to the end, aligned or not, whole or not."""
    leaves = [leaf for leaf in places.leaves if leaf.size < FEW]
    if not leaves:
        return
    leaf = rng.choice(leaves)
    out += bytes(-len(out) % 8 + rng.choice((0, 1, 2, 3, 4, 4, 5, 6, 7)))
    _put(out, "I", leaf.at, len(out) - leaf.at)
    out += places.data[leaf.start : leaf.start + leaf.size]
    if leaf.is_text and rng.random() < 0.7:
        out.append(rng.choice((0, 0, 0, 1)))
    elif rng.random() < 0.3:
        del out[-rng.randrange(1, 9) :]
    out += bytes(rng.choice((0, 0, 1, 4, 64)))


def _move_table(out: bytearray, places: Places, rng: random.Random) -> None:
    """A table that refers to nothing goes to the end, aligned or not, whole or not; its vtable stays."""
    homes = [home for home in places.homes if home.is_leaf]
    if not homes:
        return
    home = rng.choice(homes)
    size = _get(out, "H", home.vtable + 2)
    out += bytes(-len(out) % 8 + rng.choice((0, 1, 2, 3, 4, 4, 5, 6, 7)))
    _put(out, "I", home.offset, len(out) - home.offset)
    out += struct.pack("<i", len(out) - home.vtable) + places.data[home.at + 4 : home.at + size]
    if rng.random() < 0.4:
        del out[-rng.randrange(1, 9) :]
    out += bytes(rng.choice((0, 0, 1, 4, 64)))


def _move_vtable(out: bytearray, places: Places, rng: random.Random) -> None:
    """A vtable goes to the end, aligned or not, longer or cut."""
    home = rng.choice(places.homes)
    length = _get(out, "H", home.vtable)
    out += bytes(-len(out) % 4 + rng.choice((0, 0, 1, 2, 3)))
    place = len(out)
    _put(out, "i", home.at, home.at - place)
    out += places.data[home.vtable : home.vtable + length]
    more = rng.choice((0, 0, 1, 2, 4, 64, 1000))
    out += rng.choice((bytes(more), b"\4" * more))
    _put(out, "H", place, length + more + rng.choice((0, 0, 0, -1, 1, 2, 3)))
    if rng.random() < 0.3:
        del out[-rng.randrange(1, 9) :]


def _cut(out: bytearray, places: Places, rng: random.Random) -> None:
    """The file ends within something."""
    ends = [rng.choice(places.ends)] if places.ends else []
    ends += [rng.choice(places.offsets), rng.choice(places.homes).vtable, rng.choice(places.homes).at]
    ends += [rng.choice(places.lengths)[0]] if places.lengths else []
    at = rng.choice((rng.choice(ends), max((leaf.start for leaf in places.leaves), default=8), len(out)))
    del out[max(0, at + rng.randrange(-9, 10)) :]


def _behind(out: bytearray, places: Places, rng: random.Random) -> None:
    out += rng.randbytes(rng.choice((1, 2, 3, 4, 7, 8, 16, 1024)))


def _insert(out: bytearray, places: Places, rng: random.Random) -> None:
    """Some bytes more before something: all behind it is at another place, and most offsets lead astray."""
    at = rng.choice((rng.choice(places.offsets), rng.choice(places.homes).at, 0))
    out[at:at] = bytes(rng.choice((1, 2, 4, 8)))


def _identifier(out: bytearray, places: Places, rng: random.Random) -> None:
    out[4:8] = rng.choice((b"TFL3", b"CIR0", b"TFL2", bytes(4)))


def _noise(out: bytearray, places: Places, rng: random.Random) -> None:
    """Any number near a table or an offset."""
    at = rng.choice((rng.choice(places.homes).at, rng.choice(places.offsets))) + rng.randrange(-16, 17)
    value = rng.choice((0, 1, 4, *SHORTS, *WORDS, rng.getrandbits(32)))
    _put(out, rng.choice("BHI"), at, value)


Damage = Callable[[bytearray, Places, random.Random], None]

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
