# SPDX-License-Identifier: Apache-2.0
"""Operators on strings and hashes.  Source: TFLite skip_gram, lsh_projection."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from circlekit.errors import ModelError, ShapeError, UnsupportedError
from circlekit.ir.dtypes import DType, f32, i32
from circlekit.ir.enums import LSHProjectionType
from circlekit.ir.op import Op, attribute, operand, optional_operand
from circlekit.ir.resource_limits import need_memory
from circlekit.ir.value import Array, TensorType
from circlekit.ops.checks import require_rank
from circlekit.ops.dimensions import product
from circlekit.ops.numerics.farmhash import fingerprint64
from circlekit.ops.operand_dtypes import ANY

STRING_OVERHEAD_BYTES = 64
"""Memory of a ``bytes`` object beside its characters."""


class SkipGram(Op, code="SKIP_GRAM"):
    """Groups of ``ngram_size`` words of a text, with at most ``max_skip_size`` words skipped between two.

    ``include_all_ngrams`` includes smaller groups.  The result is a vector of strings.
    """

    input = operand(DType.STRING)

    ngram_size: int = attribute(0)
    max_skip_size: int = attribute(0)
    include_all_ngrams: bool = attribute(False)

    def infer(self) -> TensorType:
        return TensorType(DType.STRING, (None,))

    def kernel(self, input: Array) -> Array:
        if input.size != 1:
            raise ModelError(f"SKIP_GRAM: expected one text, got {input.size}")
        words = list(split_words(input.reshape(-1)[0]))
        grams: list[bytes] = []
        if len(words) >= self.ngram_size:
            size = 0
            for group in self.groups(words):  # their number is not limited by the input size
                grams.append(b" ".join(group))
                size += len(grams[-1]) + STRING_OVERHEAD_BYTES
                need_memory(size, "the groups of SKIP_GRAM")
        out = np.empty(len(grams), object)
        out[:] = grams
        return out

    def groups(self, words: list[bytes]) -> Iterator[list[bytes]]:
        """Yield the groups, a longer one before the shorter one that it starts with."""
        chosen: list[int] = [0] * self.ngram_size
        depth = 1
        while depth >= 0:
            if self.may_step(chosen, depth, len(words)):
                chosen[depth] += 1
                depth += 1
                if depth < self.ngram_size:
                    chosen[depth] = chosen[depth - 1]
                continue
            if depth == self.ngram_size or (self.include_all_ngrams and 0 < depth < self.ngram_size):
                yield [words[i] for i in chosen[:depth]]
            depth -= 1

    def may_step(self, chosen: list[int], depth: int, count: int) -> bool:
        if depth >= self.ngram_size or chosen[depth] + 1 >= count:
            return False
        return depth == 0 or chosen[depth] - chosen[depth - 1] <= self.max_skip_size


def split_words(text: bytes) -> Iterator[bytes]:
    """Yield the words between white space; white space at the very start is part of the first word."""
    start = 0
    for place in range(1, len(text)):
        if text[place : place + 1].isspace():
            if place > start and not text[start : start + 1].isspace():
                yield text[start:place]
            start = place + 1
    if len(text) > start:
        yield text[start:]


class LshProjection(Op, code="LSH_PROJECTION", options="LSHProjectionOptions"):
    """Locality-sensitive hashes: bits that are the signs of weighted sums of fingerprints.

    ``hash``: seeds f32[hashes, bits].  A bit is the sign of the sum, over the rows of ``input``, of the
    fingerprint of seed and row, times ``weight`` if present.  DENSE returns the bits, i32[hashes * bits];
    SPARSE one number per hash.
    """

    hash = operand(f32)
    input = operand(*ANY)
    weight = optional_operand(f32)

    type: LSHProjectionType = attribute(LSHProjectionType.UNKNOWN)

    def infer(self) -> TensorType:
        seeds = require_rank(self.hash, "hash", 2)
        if self.type is LSHProjectionType.UNKNOWN:
            raise ShapeError("LSH_PROJECTION: expected type SPARSE or DENSE, got UNKNOWN")
        if seeds is None:
            return TensorType(i32, (None,))
        return TensorType(i32, (seeds[0] if self.type is LSHProjectionType.SPARSE else product(seeds),))

    def kernel(self, hash: Array, input: Array, weight: Array | None) -> Array:
        if input.dtype == object or hash.shape[1] > 32:
            raise UnsupportedError("LSH_PROJECTION of strings or with more than 32 bits has no kernel")
        rows = np.ascontiguousarray(input).reshape(len(input), -1).view(np.uint8)
        seeds = np.ascontiguousarray(hash.reshape(-1, 1), np.float32).view(np.uint8)
        keys = np.empty((len(seeds), len(rows), 4 + rows.shape[1]), np.uint8)
        keys[..., :4], keys[..., 4:] = seeds[:, None], rows
        prints = fingerprint64(keys.reshape(-1, keys.shape[2])).view(np.int64).astype(np.float64)
        terms = prints.reshape(len(seeds), len(rows))
        if weight is not None:
            terms = terms * weight.astype(np.float64)
        bits = (np.cumsum(terms, axis=1)[:, -1] > 0).astype(np.int64).reshape(hash.shape)
        if self.type is LSHProjectionType.DENSE:
            return bits.reshape(-1).astype(np.int32)
        count = hash.shape[1]
        powers = np.int64(1) << np.arange(count)[::-1]
        return np.asarray(bits @ powers + np.arange(len(hash)) * (1 << count)).astype(np.int32)
