# SPDX-License-Identifier: Apache-2.0
"""Binary codes at random, and what they stand for, read bit by bit."""

from __future__ import annotations

import numpy as np

from circlekit.ir.value import Array

RNG = np.random.default_rng(5)


def codes(clusters: list[list[int]], hidden: int) -> tuple[Array, Array]:
    """Return random scales and words for ``clusters``, [bits, rows] each; unused last bits are random."""
    count = sum(bits * rows for bits, rows in clusters)
    words = RNG.integers(-(2**31), 2**31, (count, -(-hidden // 32)), dtype=np.int64).astype(np.int32)
    return RNG.uniform(0.1, 1, count).astype(np.float32), words


def read_plainly(scales: Array, words: Array, clusters: list[list[int]], hidden: int) -> Array:
    """Return the weights: each is the sum of the scales of its codes, with the signs of its bits."""
    rows: list[list[float]] = []
    first = 0
    for bits, count in clusters:
        for row in range(count):
            weights = []
            for column in range(hidden):
                total = 0.0
                for plane in range(bits):
                    code = first + plane * count + row
                    word = int(words[code, column // 32]) % 2**32
                    total += float(scales[code]) * (1 if word >> (column % 32) & 1 else -1)
                weights.append(total)
            rows.append(weights)
        first += bits * count
    return np.array(rows)
