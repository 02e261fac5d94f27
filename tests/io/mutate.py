# SPDX-License-Identifier: Apache-2.0
"""Damage to the structure of a flatbuffer: offsets, vtables, lengths, cuts.  Seeded."""

from __future__ import annotations

import random
import struct

HEAD_BYTES = 1500
"""Small files have their tables in these first bytes; half of the damaged files change only there."""


def damaged(data: bytes, seed: int) -> bytes:
    """Return ``data`` with 1, 2 or 4 random changes; sometimes its end is cut off.

    The file identifier, bytes 4 to 7, stays.
    """
    rng = random.Random(seed)
    out = bytearray(data)
    end = len(out) if rng.random() < 0.5 else min(len(out), HEAD_BYTES)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        _change(out, end, rng)
    out[4:8] = data[4:8]
    if rng.random() < 0.1:
        del out[rng.randrange(len(out) // 2, len(out)) :]
    return bytes(out)


def _change(out: bytearray, end: int, rng: random.Random) -> None:
    """Change a bit, a byte, or an integer of 16 or 32 bits of ``out``, before ``end``."""
    size = len(out)
    kind = rng.choice(("byte", "word", "short", "nudge", "bit"))
    if kind == "byte":
        out[rng.randrange(8, end)] = rng.randrange(256)
    elif kind == "bit":
        out[rng.randrange(8, end)] ^= 1 << rng.randrange(8)
    elif kind == "short":
        at = 2 * rng.randrange(4, end // 2 - 1)
        struct.pack_into("<H", out, at, rng.choice((0, 1, 2, 3, 4, 6, 8, 12, 64, 0x8000, 0xFFFF)))
    else:
        at = 4 * rng.randrange(0 if kind == "nudge" else 2, end // 4 - 1)
        (old,) = struct.unpack_from("<I", out, at)
        new = old + rng.choice((-8, -4, -2, -1, 1, 2, 4, 8))
        if kind == "word":
            ends = (size - at, size - at - 1, size - at - 4, size)
            new = rng.choice((0, 1, 2, 3, 4, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, *ends))
        struct.pack_into("<I", out, at, new & 0xFFFFFFFF)
