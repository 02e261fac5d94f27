# SPDX-License-Identifier: Apache-2.0
"""GELU by the tangent on float32, to the last bit as LiteRT computes it.

Where x is far below 0, 1 + tanh is little else than the rounding error of the tangent: only the same tangent
in the same order gives the same numbers.  LiteRT has Eigen's, a quotient of polynomials.  Source: TFLite
gelu.h, Eigen's float tangent; x86 without fused multiplications.
"""

from __future__ import annotations

import math

import numpy as np

from circlekit.ir.tape import Tape
from circlekit.ir.value import Array

BLOCK = 1 << 14
"""Elements at a time: the scratch of a block stays in the cache."""

FEWEST = 1 << 8

END = np.float32(7.90738964)
"""Beyond, the quotient is as near to 1 as it comes."""

HALF, ONE, CUBIC, ROOT = map(np.float32, (0.5, 1, 0.044715, math.sqrt(2 / math.pi)))
ABOVE = tuple(map(np.float32, (1.39455363e-8, 2.10273356e-5, 3.52075673e-3, 1.34021610e-1)))
BELOW = tuple(map(np.float32, (8.01577698e-7, 3.32695141e-4, 2.59725451e-2, 4.67354834e-1, 1)))


def write_gelu(tape: Tape, x: Array, out: Array) -> None:
    """The calls that put 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) into ``out``."""
    data, results = tape.contiguous(x).reshape(-1), out.reshape(-1)
    step = min(max(FEWEST, min(BLOCK, tape.scratch // 16)), max(data.size, 1))

    def run(t: Array, square: Array, below: Array) -> None:
        for first in range(0, data.size, step):
            part, made = data[first : first + step], results[first : first + step]
            _block(part, made, *(a[: part.size] for a in (t, square, below)))

    need = (step,), np.dtype(np.float32)
    tape.work(run, need, need, need)


def _block(x: Array, out: Array, t: Array, square: Array, below: Array) -> None:
    np.multiply(x, x, t)
    np.multiply(t, x, t)
    np.multiply(t, CUBIC, t)
    np.add(t, x, t)
    np.multiply(t, ROOT, t)
    np.clip(t, -END, END, t)
    np.multiply(t, t, square)
    _polynomial(square, ABOVE, out)
    _polynomial(square, BELOW, below)
    np.multiply(square, t, square)
    np.multiply(out, square, out)
    np.add(out, t, out)
    np.divide(out, below, out)
    np.add(out, ONE, out)
    np.multiply(x, HALF, t)
    np.multiply(out, t, out)


def _polynomial(x: Array, coefficients: tuple[np.float32, ...], out: Array) -> None:
    """Horner's scheme, the highest power first."""
    first, *others = coefficients
    np.multiply(x, first, out)
    for coefficient in others[:-1]:
        np.add(out, coefficient, out)
        np.multiply(out, x, out)
    np.add(out, others[-1], out)
