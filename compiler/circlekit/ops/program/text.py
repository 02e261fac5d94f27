# SPDX-License-Identifier: Apache-2.0
"""SKIP_GRAM, an operator on strings; LSH_PROJECTION, an operator that hashes, and its hash function.

Source: TFLite skip_gram, lsh_projection; FarmHash, farmhashna (Fingerprint64).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from circlekit.errors import ModelError, ShapeError, UnsupportedError
from circlekit.ir.dtypes import DType, f32, i32
from circlekit.ir.enums import LSHProjectionType
from circlekit.ir.op import Op, attribute, operand, optional_operand
from circlekit.ir.resources.resource_limits import need_memory
from circlekit.ir.value import Array, Shape, TensorType, format_shape
from circlekit.ops.checks import require_dims, require_length, require_rank
from circlekit.ops.dimensions import product
from circlekit.ops.operand_dtypes import ANY

Words = NDArray[np.uint64]

# constants and private functions are named as in FarmHash
K0, K1, K2 = np.uint64(0xC3A5C85C97CB3127), np.uint64(0xB492B66FBE98F273), np.uint64(0x9AE16A3B2F90404F)


def fingerprint64(rows: Array) -> Words:
    """Return the FarmHash Fingerprint64 of each row, uint64[n].

    ``rows``: uint8[n, length], at least 4 bytes in each row.
    """
    size = rows.shape[1]
    factor = K2 + np.uint64(size * 2)
    with np.errstate(over="ignore"):
        if size < 8:
            first, last = (_word(rows, at, 4).astype(np.uint64) for at in (0, size - 4))
            return _hash_len_16(np.uint64(size) + (first << np.uint64(3)), last, factor)
        if size <= 16:
            a, b = _word(rows, 0) + K2, _word(rows, size - 8)
            return _hash_len_16(_rotate(b, 37) * factor + a, (_rotate(a, 25) + b) * factor, factor)
        if size > 64:
            return _hash_65_and_more(rows, size)
        a, b = _word(rows, 0) * (K1 if size <= 32 else K2), _word(rows, 8)
        c, d = _word(rows, size - 8) * factor, _word(rows, size - 16) * K2
        y = _rotate(a + b, 43) + _rotate(c, 30) + d
        z = _hash_len_16(y, a + _rotate(b + K2, 18) + c, factor)
        if size <= 32:
            return z
        e, f = _word(rows, 16) * factor, _word(rows, 24)
        g, h = (y + _word(rows, size - 32)) * factor, (z + _word(rows, size - 24)) * factor
        return _hash_len_16(_rotate(e + f, 43) + _rotate(g, 30) + h, e + _rotate(f + a, 18) + g, factor)


def _word(rows: Array, at: int, size_bytes: int = 8) -> Words:
    """Return, for each row, the little-endian number in the ``size_bytes`` bytes from ``at`` on."""
    words: Words = np.ascontiguousarray(rows[:, at : at + size_bytes]).view(f"<u{size_bytes}")[:, 0]
    return words


def _rotate(x: Words, bits: int) -> Words:
    return np.asarray((x >> np.uint64(bits)) | (x << np.uint64(64 - bits)))


def _shift_mix(x: Words) -> Words:
    return np.asarray(x ^ (x >> np.uint64(47)))


def _hash_len_16(u: Words, v: Words, factor: np.uint64 | Words) -> Words:
    a = _shift_mix((u ^ v) * factor)
    return np.asarray(_shift_mix((v ^ a) * factor) * factor)


def _weak_hash_len_32_with_seeds(rows: Array, at: int, a: Words, b: Words) -> tuple[Words, Words]:
    w, x, y, z = (_word(rows, at + i) for i in (0, 8, 16, 24))
    a = a + w
    b = _rotate(b + a + z, 21)
    c = a
    a = a + x + y
    return a + z, b + _rotate(a, 44) + c


def _hash_65_and_more(rows: Array, size: int) -> Words:
    x = np.full(len(rows), np.uint64(81)) * K2 + _word(rows, 0)
    y = np.full(len(rows), np.uint64(81)) * K1 + np.uint64(113)
    z = _shift_mix(y * K2 + np.uint64(113)) * K2
    v = w = (np.zeros(len(rows), np.uint64), np.zeros(len(rows), np.uint64))
    factor: np.uint64 | Words = K1
    multiplier = np.uint64(1)
    last = (size - 1) // 64 * 64
    for at in (*range(0, last, 64), size - 64):
        if at == size - 64:  # the last 64 bytes, which may overlap the bytes before
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


class SkipGram(Op, code="SKIP_GRAM"):
    """The groups of ``ngram_size`` words of a text, as a vector with one string for each group.

    The words of a group are in the order of the text.  Between two neighboring words of a group, up to
    ``max_skip_size`` words of the text are left out.  ``include_all_ngrams``: groups of 1 to ``ngram_size``
    words are included.  A text of fewer than ``ngram_size`` words has no groups.
    """

    input = operand(DType.STRING)

    ngram_size: int = attribute(0)
    max_skip_size: int = attribute(0)
    include_all_ngrams: bool = attribute(False)

    def infer(self) -> TensorType:
        return TensorType(DType.STRING, (None,))

    def kernel(self, input: Array) -> Array:
        if input.size != 1:
            raise ModelError(f"SKIP_GRAM: expected one string, got {input.size}")
        words = split_words(input.reshape(-1)[0])
        grams: list[bytes] = []
        if len(words) >= self.ngram_size > 0:
            need_bytes = 0
            for group in self.groups(words):  # there may be far more groups than words
                grams.append(b" ".join(group))
                need_bytes += len(grams[-1]) + 64  # a bytes object takes about 64 bytes plus its characters
                need_memory(need_bytes, "the groups of SKIP_GRAM")
        out = np.empty(len(grams), object)
        out[:] = grams
        return out

    def groups(self, words: list[bytes]) -> Iterator[list[bytes]]:
        """Yield the groups of ``words``; a group comes after all longer groups that begin with it."""
        # a stack of (indices of the words of a group, whether the groups one word longer have been added)
        waiting: list[tuple[list[int], bool]] = [([], False)]
        while waiting:
            group, is_extended = waiting.pop()
            if len(group) == self.ngram_size or (is_extended and group and self.include_all_ngrams):
                yield [words[i] for i in group]
            elif not is_extended:
                last = -1 if not group else group[-1]
                end = len(words) if not group else min(last + self.max_skip_size + 2, len(words))
                waiting.append((group, True))
                waiting += [([*group, i], False) for i in reversed(range(last + 1, end))]


def split_words(text: bytes) -> list[bytes]:
    """Return the words of ``text``.

    As in LiteRT, a white space character at the very beginning of the text is part of the first word.  Such a
    word is left out if white space follows it: the only word of b" a b" is b"b".
    """
    first, *others = re.split(rb"(?<!\A)\s", text)
    if others and first[:1].isspace():
        first = b""
    return [word for word in (first, *others) if word]


class LshProjection(Op, code="LSH_PROJECTION", options="LSHProjectionOptions"):
    """Locality-sensitive hashes: each bit is the sign of a weighted sum of fingerprints.

    ``hash``: f32[hashes, bits], a seed for each bit.  For each seed and row of ``input``, Fingerprint64 is
    computed of the bytes of the seed followed by those of the row.  It is read as a signed integer, and
    multiplied by the ``weight`` of the row if there are weights.  A bit is 1 if the sum over all rows, with
    the seed of this bit, is positive.

    DENSE returns the bits, i32[hashes * bits].  SPARSE returns one number for each hash, i32[hashes]: its
    bits as an integer, the first bit highest, plus the index of the hash times 2^bits.
    """

    hash = operand(f32)
    input = operand(*ANY)
    weight = optional_operand(f32)

    type: LSHProjectionType = attribute(LSHProjectionType.UNKNOWN)

    def infer(self) -> TensorType:
        seeds = require_rank(self.hash, "hash", 2)
        if self.type is LSHProjectionType.UNKNOWN:
            raise ShapeError("LSH_PROJECTION: expected type SPARSE or DENSE, got UNKNOWN")
        self.check_rows(self.input.shape)
        if self.weight is not None and self.input.shape:
            require_dims(self, {"weight": "rows"}, {"rows": self.input.shape[0]})
        if seeds is None:
            return TensorType(i32, (None,))
        return TensorType(i32, (seeds[0] if self.type is LSHProjectionType.SPARSE else product(seeds),))

    def check_rows(self, shape: Shape | None) -> None:
        """Raise ShapeError if an input of ``shape`` has no rows, which LiteRT refuses, too."""
        if shape is not None and shape[:1] in ((), (0,)):
            raise ShapeError(f"expected input of at least one row, got shape {format_shape(shape)}")

    def kernel(self, hash: Array, input: Array, weight: Array | None) -> Array:
        self.check_rows(input.shape)
        require_length(None if weight is None else weight.shape, len(input), "weight")
        if input.dtype == object or hash.shape[1] > 32:
            raise UnsupportedError("LSH_PROJECTION of strings or with more than 32 bits has no kernel")
        rows = np.ascontiguousarray(input).reshape(len(input), -1).view(np.uint8)
        seeds = np.ascontiguousarray(hash.reshape(-1, 1), np.float32).view(np.uint8)
        key_bytes = 4 + rows.shape[1]
        # the hash function makes about 16 numbers of 8 bytes from a key
        need_memory(len(seeds) * len(rows) * (key_bytes + 16 * 8), "the keys of LSH_PROJECTION")
        keys = np.empty((len(seeds), len(rows), key_bytes), np.uint8)
        keys[..., :4], keys[..., 4:] = seeds[:, None], rows
        prints = fingerprint64(keys.reshape(-1, key_bytes)).view(np.int64).astype(np.float64)
        terms = prints.reshape(len(seeds), len(rows))
        if weight is not None:
            terms = terms * weight.astype(np.float64)
        sums = np.cumsum(terms, axis=1)[:, -1]  # added one after the other: ``sum`` may round differently
        bits = (sums > 0).astype(np.int64).reshape(hash.shape)
        if self.type is LSHProjectionType.DENSE:
            return bits.reshape(-1).astype(np.int32)
        count = hash.shape[1]
        powers = np.int64(1) << np.arange(count)[::-1]
        return np.asarray(bits @ powers + np.arange(len(hash)) * (1 << count)).astype(np.int32)
