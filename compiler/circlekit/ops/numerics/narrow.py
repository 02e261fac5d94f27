# SPDX-License-Identifier: Apache-2.0
"""Elementwise functions of integers of 8 or 16 bits on a tape: by table, in floats, or a part at a time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from circlekit.ir.op import Op
from circlekit.ir.tape import Tape
from circlekit.ir.value import Array
from circlekit.ops.dimensions import common_shape
from circlekit.ops.numerics.lookup import (
    ALL_PAIRS,
    BLOCK,
    FEWEST,
    every,
    look_up,
    look_up_pairs,
    parts,
    table_of,
)
from circlekit.ops.numerics.pairs import Pairwise


def stored(compute: Callable[..., Array], *operands: Array) -> None:
    """What ``compute`` makes of all but the last of ``operands``, in the last."""
    operands[-1][...] = compute(*operands[:-1])


WIDE = 64
"""Bytes that a number of 8 or 16 bits takes on its way through functions of integers of 64 bits."""


def note_stored(tape: Tape, compute: Callable[..., Array], *operands: Array) -> None:
    """Note ``stored`` for an elementwise ``compute`` of operands that broadcast, a part of them at a time."""
    out = operands[-1]
    most = max(FEWEST, min(BLOCK, tape.scratch // 4 // WIDE))
    if out.size <= most:
        tape.do(stored, compute, *operands)
        return
    whole = [np.broadcast_to(a, out.shape) for a in operands[:-1]]

    def run() -> None:
        for part in parts(out.shape, most):
            stored(compute, *(a[part] for a in whole), out[part])

    tape.do(run)


def bound_narrow(tape: Tape, op: Op, function: Callable[[Array], Array], x: Array) -> Array:
    """The result of an elementwise ``function`` of ``x``, quantized in 8 or 16 bits."""
    out = tape.empty(x.shape, op.output.dtype.numpy)
    if x.dtype.itemsize == 1:
        look_up(tape, function(every(x.dtype)), x, out)
    else:
        note_stored(tape, function, x, out)
    return out


def bound_pairs(
    tape: Tape,
    op: Op,
    function: Callable[[Array, Array], Array],
    x: Array,
    y: Array,
    sketch: Pairwise | None = None,
) -> Array:
    """The result of an elementwise ``function`` of ``x`` and ``y``, quantized in 8 or 16 bits.

    ``sketch``: what the function may be of 8 bits.
    """
    out = tape.empty(common_shape(x, y), op.output.dtype.numpy)
    if not x.dtype.itemsize == y.dtype.itemsize == 1:
        note_stored(tape, function, x, y, out)
        return out
    one = any(a.size == 1 and tape.fixed(a) for a in (x, y))
    if out.size >= SEVERAL and sketch is not None and not one:
        exact = sketch.proven(function, x.dtype, _values(tape, y), out.dtype, tape.scratch)
        if exact is not None:
            exact.note(tape, x, y, out)
            return out
    if _is_vector(tape, y, out):
        _look_up_rows(tape, function, x, y, out)
    elif _is_vector(tape, x, out):
        _look_up_rows(tape, lambda a, b: function(b, a), y, x, out)
    elif out.size >= SEVERAL and tape.keeps(ALL_PAIRS * out.itemsize):
        look_up_pairs(tape, table_of(function, every(x.dtype), every(y.dtype)), x, y, out)
    else:
        note_stored(tape, function, x, y, out)
    return out


def _values(tape: Tape, y: Array) -> Array:
    """All that y can be."""
    return y.reshape(-1) if tape.fixed(y) and y.size < 256 else every(y.dtype)


def _is_vector(tape: Tape, x: Array, out: Array) -> bool:
    """Whether ``x`` is one number, or one for each channel, of which a table is worth while."""
    channels = out.shape[-1:] == x.shape[-1:] and x.size == x.shape[-1] <= 256
    return tape.fixed(x) and (x.size == 1 or (channels and x.size * 16 < out.size))


def _look_up_rows(
    tape: Tape, function: Callable[[Array, Array], Array], x: Array, y: Array, out: Array
) -> None:
    """``function`` of ``x`` and a constant vector ``y``."""
    table = table_of(function, every(x.dtype), y.reshape(-1))
    if y.size == 1:
        look_up(tape, table, np.broadcast_to(x, out.shape), out)
    else:
        tape.holds(table)
        look_up_pairs(tape, table, x, np.arange(y.size, dtype=np.uint16) << np.uint16(8), out)


SEVERAL = 1 << 11
"""Results that are worth a table of all pairs."""
