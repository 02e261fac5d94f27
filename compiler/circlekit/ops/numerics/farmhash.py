# SPDX-License-Identifier: Apache-2.0
"""FarmHash's Fingerprint64, vectorized over byte strings of equal length.  Source: FarmHash, farmhashna.

Arithmetic is modulo 2^64.  Functions are named as in FarmHash: HashLen0to16, ShiftMix, ...
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from circlekit.ir.value import Array

Words = NDArray[np.uint64]

K0, K1, K2 = np.uint64(0xC3A5C85C97CB3127), np.uint64(0xB492B66FBE98F273), np.uint64(0x9AE16A3B2F90404F)


def fingerprint64(rows: Array) -> Words:
    """Return uint64[n] for uint8 ``rows`` [n, length]; shorter strings than 4 bytes are not supported."""
    size = rows.shape[1]
    with np.errstate(over="ignore"):
        if size <= 16:
            return _hash_4_to_16(rows, size)
        if size <= 32:
            return _hash_17_to_32(rows, size)
        return _hash_33_to_64(rows, size) if size <= 64 else _hash_65_and_more(rows, size)


def _uint64(number: int) -> np.uint64:
    word: np.uint64 = np.uint64(number & (1 << 64) - 1)
    return word


def _word(rows: Array, at: int) -> Words:
    words: Words = np.ascontiguousarray(rows[:, at : at + 8]).view("<u8")[:, 0]
    return words


def _half(rows: Array, at: int) -> Words:
    words: Words = np.ascontiguousarray(rows[:, at : at + 4]).view("<u4")[:, 0].astype(np.uint64)
    return words


def _rotate(x: Words, by: int) -> Words:
    return np.asarray((x >> np.uint64(by)) | (x << np.uint64(64 - by)))


def _shift_mix(x: Words) -> Words:
    return np.asarray(x ^ (x >> np.uint64(47)))


def _hash_len_16(u: Words, v: Words, factor: np.uint64 | Words) -> Words:
    a = _shift_mix((u ^ v) * factor)
    return np.asarray(_shift_mix((v ^ a) * factor) * factor)


def _hash_4_to_16(rows: Array, size: int) -> Words:
    factor = _uint64(int(K2) + size * 2)
    if size >= 8:
        a, b = _word(rows, 0) + K2, _word(rows, size - 8)
        c, d = _rotate(b, 37) * factor + a, (_rotate(a, 25) + b) * factor
        return _hash_len_16(c, d, factor)
    return _hash_len_16(np.uint64(size) + (_half(rows, 0) << np.uint64(3)), _half(rows, size - 4), factor)


def _hash_17_to_32(rows: Array, size: int) -> Words:
    factor = _uint64(int(K2) + size * 2)
    a, b = _word(rows, 0) * K1, _word(rows, 8)
    c, d = _word(rows, size - 8) * factor, _word(rows, size - 16) * K2
    return _hash_len_16(_rotate(a + b, 43) + _rotate(c, 30) + d, a + _rotate(b + K2, 18) + c, factor)


def _hash_33_to_64(rows: Array, size: int) -> Words:
    factor = _uint64(int(K2) + size * 2)
    a, b = _word(rows, 0) * K2, _word(rows, 8)
    c, d = _word(rows, size - 8) * factor, _word(rows, size - 16) * K2
    y = _rotate(a + b, 43) + _rotate(c, 30) + d
    z = _hash_len_16(y, a + _rotate(b + K2, 18) + c, factor)
    e, f = _word(rows, 16) * factor, _word(rows, 24)
    g, h = (y + _word(rows, size - 32)) * factor, (z + _word(rows, size - 24)) * factor
    return _hash_len_16(_rotate(e + f, 43) + _rotate(g, 30) + h, e + _rotate(f + a, 18) + g, factor)


def _weak_hash_len_32_with_seeds(rows: Array, at: int, a: Words, b: Words) -> tuple[Words, Words]:
    w, x, y, z = (_word(rows, at + i) for i in (0, 8, 16, 24))
    a = a + w
    b = _rotate(b + a + z, 21)
    c = a
    a = a + x + y
    return a + z, b + _rotate(a, 44) + c


def _hash_65_and_more(rows: Array, size: int) -> Words:
    x = np.full(len(rows), np.uint64(81)) * K2 + _word(rows, 0)
    y = np.full(len(rows), _uint64(81 * int(K1) + 113))
    z = _shift_mix(y * K2 + np.uint64(113)) * K2
    v = w = (np.zeros(len(rows), np.uint64), np.zeros(len(rows), np.uint64))
    factor: np.uint64 | Words = K1
    multiplier = np.uint64(1)
    last = (size - 1) // 64 * 64
    for at in (*range(0, last, 64), size - 64):
        if at == size - 64:  # the last 64 bytes, which may overlap those before
            factor = K1 + ((z & np.uint64(0xFF)) << np.uint64(1))
            multiplier = np.uint64(9)
            w = (w[0] + np.uint64((size - 1) & 63), w[1])
            v = (v[0] + w[0], v[1])
            w = (w[0] + v[0], w[1])
        x = _rotate(x + y + v[0] + _word(rows, at + 8), 37) * factor
        y = _rotate(y + v[1] + _word(rows, at + 48), 42) * factor
        x = x ^ (w[1] * multiplier)
        y = y + v[0] * multiplier + _word(rows, at + 40)
        z = _rotate(z + w[0], 33) * factor
        v = _weak_hash_len_32_with_seeds(rows, at, v[1] * factor, x + w[0])
        w = _weak_hash_len_32_with_seeds(rows, at + 32, z + w[1], y + _word(rows, at + 16))
        x, z = z, x
    return _hash_len_16(
        _hash_len_16(v[0], w[0], factor) + _shift_mix(y) * K0 + z,
        _hash_len_16(v[1], w[1], factor) + x,
        factor,
    )
