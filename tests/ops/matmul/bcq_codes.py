# SPDX-License-Identifier: Apache-2.0
"""Random binary-coded weights (BCQ), and a plain decoder that reads them bit by bit.

A cluster [bits, rows] has ``bits`` codes for each row: first code 0 of all rows, then code 1 of all rows, and
so on.  A code is a scale and one bit for each column, 32 bits in a word.
"""

from __future__ import annotations

import numpy as np

from circlekit.ir.value import Array


def codes(clusters: list[list[int]], hidden: int) -> tuple[Array, Array]:
    """Return random scales [codes] and words [codes, words of a row]; bits beyond ``hidden`` are random."""
    count = sum(bits * rows for bits, rows in clusters)
    rng = np.random.default_rng([5, count, hidden])
    words = rng.integers(-(2**31), 2**31, (count, -(-hidden // 32)), dtype=np.int64).astype(np.int32)
    return rng.uniform(0.1, 1, count).astype(np.float32), words


def read_plainly(scales: Array, words: Array, clusters: list[list[int]], hidden: int) -> Array:
    """Return the weights [rows, hidden]: the scales of a row, added for bit 1, subtracted for bit 0."""
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
