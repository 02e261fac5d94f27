# SPDX-License-Identifier: Apache-2.0
"""Random numbers from Philox streams, equal to those of LiteRT.

Philox makes four random words of 32 bits from a counter of 128 bits and a key of 64 bits.  Each operator has
a stream of its own: a counter that continues where the last run ended.  Only the lower 32 bits of a seed
count, as in LiteRT.  If both seeds are 0, LiteRT makes unpredictable seeds.  circlekit then makes a seed from
the name of the result: the numbers are the same in every process, but not those of LiteRT.
Sources: TFLite random_ops; TSL philox_random.h, random_distributions_utils.h; Random123.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from circlekit.errors import ShapeError
from circlekit.ir.dtypes import f32, i32, i64
from circlekit.ir.op import Op, Run, attribute, operand
from circlekit.ir.value import Array, TensorType
from circlekit.ops.checks import require_rank
from circlekit.ops.constant_operands import int_list, listed_shape, static_int
from circlekit.ops.operand_dtypes import INDICES
from circlekit.ops.program.state import state_of

UINT32_MASK = (1 << 32) - 1
WORDS_PER_COUNTER = 4
"""The number of random 32-bit words that Philox makes from one 128-bit counter."""


def philox(seed: int, seed2: int, start: int, count: int) -> Array:
    """Return the words uint32[count, 4] that Philox-4x32-10 makes from ``count`` counters of 128 bits.

    The lower half of the counters goes up from ``start``; the upper half is ``seed2``.  The 64-bit key is
    ``seed``.  Ten rounds and their constants define the algorithm.
    """
    low = np.arange(count, dtype=np.uint64) + np.uint64(start)
    c0, c1 = low & np.uint64(UINT32_MASK), low >> np.uint64(32)
    c2, c3 = (np.full(count, word, np.uint64) for word in (seed2 & UINT32_MASK, (seed2 >> 32) & UINT32_MASK))
    key0, key1 = seed & UINT32_MASK, (seed >> 32) & UINT32_MASK
    for _ in range(10):
        a, b = c0 * np.uint64(0xD2511F53), c2 * np.uint64(0xCD9E8D57)
        c0, c1, c2, c3 = (
            (b >> np.uint64(32)) ^ c1 ^ np.uint64(key0),
            b & np.uint64(UINT32_MASK),
            (a >> np.uint64(32)) ^ c3 ^ np.uint64(key1),
            a & np.uint64(UINT32_MASK),
        )
        key0, key1 = (key0 + 0x9E3779B9) & UINT32_MASK, (key1 + 0xBB67AE85) & UINT32_MASK
    return np.stack([c0, c1, c2, c3], axis=1).astype(np.uint32)


def uniform_floats(words: Array) -> Array:
    """Return one float32 in [0, 1) for each of ``words`` (uint32), made from its lower 23 bits."""
    return np.asarray(
        ((words & np.uint32(0x7FFFFF)) | np.uint32(0x3F800000)).view(np.float32) - np.float32(1)
    )


def uniform_doubles(words: Array) -> Array:
    """Return one float64 in [0, 1) for each pair of ``words`` (uint32): 20 bits of one, 32 of the other."""
    pairs = words.reshape(-1, 2).astype(np.uint64)
    mantissa = ((pairs[:, 0] & np.uint64(0xFFFFF)) << np.uint64(32)) | pairs[:, 1]
    return np.asarray((mantissa | np.uint64(1023 << 52)).view(np.float64) - 1.0)


def normal_floats(words: Array) -> Array:
    """Return two standard normal float32 numbers for each pair of ``words``, by the Box-Muller transform.

    ``words``: uint32, an even number of them.
    """
    pairs = uniform_floats(words.reshape(-1, 2))
    radius = np.sqrt(np.float32(-2) * np.log(np.maximum(pairs[:, 0], np.float32(1e-7))))
    angle = (2 * np.pi * pairs[:, 1].astype(np.float64)).astype(np.float32)
    return np.stack([np.sin(angle) * radius, np.cos(angle) * radius], axis=1).reshape(-1)


class Random(Op, pure=False, stateful=True):
    """Base class of operators that draw from a random stream of their own.

    They define ``call`` instead of ``kernel``, because the streams belong to the state of ``run``.
    """

    seed: int = attribute(0)
    seed2: int = attribute(0)

    def draw(self, run: Run, count: int, reserved: int) -> Array:
        """Return the words (uint32) of ``count`` counters; advance the stream by ``reserved`` counters."""
        streams = state_of(self, run).streams
        start = streams.get(self, 0)
        streams[self] = start + reserved
        # the lower 32 bits of each seed as a signed number, which Philox extends to 64 bits
        seed, seed2 = (((s & UINT32_MASK) ^ 0x80000000) - 0x80000000 for s in (self.seed, self.seed2))
        if seed == 0 and seed2 == 0:
            seed2 = zlib.crc32(self.output.name.encode())
        return philox(seed, seed2, start, count).reshape(-1)


class RandomFloats(Random):
    """Base class of operators that return random float32 numbers; the operand is the shape of the result."""

    shape = operand(*INDICES)

    distribution: ClassVar[Any] = None
    """The function that converts random words (uint32) to float32 numbers."""

    def infer(self) -> TensorType:
        return TensorType(f32, listed_shape(self.shape))

    def call(self, run: Run, *args: Array) -> Sequence[Array]:
        shape = tuple(int_list(args[0]))
        size = int(np.prod(shape, dtype=np.int64))
        counters = -(-size // WORDS_PER_COUNTER)
        return (type(self).distribution(self.draw(run, counters, counters))[:size].reshape(shape),)


class RandomUniform(
    RandomFloats, code="RANDOM_UNIFORM", options="RandomOptions", distribution=uniform_floats
):
    """Numbers uniformly distributed in [0, 1)."""


class RandomStandardNormal(
    RandomFloats, code="RANDOM_STANDARD_NORMAL", options="RandomOptions", distribution=normal_floats
):
    """Numbers with standard normal distribution."""


class Multinomial(Random, code="MULTINOMIAL", options="RandomOptions"):
    """``num_samples`` random classes for each row of ``logits`` [batch, classes]; there must be a class.

    Each class is drawn with the probability softmax(logits); infinite and NaN logits have probability 0.  If
    a row has no finite logit, its results are the number of classes.
    """

    logits = operand(f32)
    num_samples = operand(i32)

    def infer(self) -> TensorType:
        shape = require_rank(self.logits, "logits", 2)
        dtype = self.output.dtype if self.results else i64
        if dtype not in (i32, i64):
            raise ShapeError(f"MULTINOMIAL: expected a result of i32 or i64, got {dtype.short}")
        return TensorType(
            dtype, (None if shape is None else shape[0], static_int(self.num_samples, "num_samples"))
        )

    def call(self, run: Run, *args: Array) -> Sequence[Array]:
        logits, count = args[0], int(args[1].reshape(-1)[0])
        rows, classes = logits.shape
        if not classes:
            raise ShapeError("MULTINOMIAL: expected logits of 1 class or more, got 0 classes")
        padded_count = -(-count // WORDS_PER_COUNTER) * WORDS_PER_COUNTER
        # a sample takes two words, half a counter; more counters are reserved than used, as in LiteRT
        words = self.draw(run, -(-rows * count // 2), rows * padded_count * 2 * 256)
        uniform = uniform_doubles(words)[: rows * count].reshape(rows, count)
        is_finite = np.isfinite(logits)
        largest = np.where(is_finite, logits, np.finfo(np.float32).min).max(axis=1, keepdims=True)
        weights = np.where(is_finite, np.exp(logits - largest.astype(np.float64)), 0)
        cumulative = np.cumsum(weights, axis=1)
        searches = zip(cumulative, uniform * cumulative[:, -1:], strict=True)
        drawn = [np.searchsorted(sums, targets, side="right") for sums, targets in searches]
        return (np.array(drawn, self.output.dtype.numpy).reshape(rows, count),)
