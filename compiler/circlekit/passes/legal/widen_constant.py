# SPDX-License-Identifier: Apache-2.0
"""Repeat constants so that kernels of delegates, which compute run by run, have fewer and longer runs.

A run is consecutive elements of the result for which the constant has one number each, or one number for all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from circlekit.ir.op import Op
from circlekit.ir.value import Array, Value
from circlekit.ops.elementwise import Binary
from circlekit.ops.quantized_values import is_per_channel
from circlekit.passes.engine.legalize import Replacement
from circlekit.passes.support.insertion import Inserter

LONG_RUNS = 4
"""A run is long enough at LONG_RUNS * ``run_bytes`` bytes: then its fixed cost is small beside its elements.

``run_bytes``: the fixed cost of one run, as the number of bytes that are copied in the same time.
"""

MAX_WIDE_BYTES = 1 << 14
"""Size of the largest constant that is made: it has to stay in the cache together with the data."""


class WidenConstant(Replacement[Op]):
    """x + c  ==  x + c', where c' is c repeated along the last axes in which it broadcasts.

    The operator may be any ``Binary``, such as ADD or MUL, with one constant operand; the other operand must
    have the shape of the result.  Example: if c has one number for each channel of an NHWC image, a run is
    one pixel; if c' repeats these numbers along a row, a run is the whole row.
    """

    kinds = (Binary,)

    def wants(self, op: Op) -> bool:
        return self.delegate_obstacle(op) is None  # other legalizations are for refused operators

    @property
    def run_bytes(self) -> int:
        """The largest ``run_bytes`` (see LONG_RUNS) of all runtimes; 0 if there is no runtime."""
        return max((runtime.run_bytes for runtime in self.runtimes), default=0)

    def results(self, op: Op, insert: Inserter) -> list[Value] | None:
        constants = [index for index, value in enumerate(op.inputs) if value is not None and value.is_plain]
        if len(constants) != 1 or not op.output.is_static:
            return None
        (index,) = constants
        old, data = op.inputs[index], op.inputs[1 - index]
        if old is None or data is None or data.shape != op.output.shape or is_per_channel(old):
            return None
        wide = self._widened(old.array(), op.output.static_shape)
        if wide is None:
            return None
        constant = insert.constant("wide", wide)
        constant.quantization = old.quantization
        operands = [constant if value is old else value for value in op.inputs]
        result = Value.of_type(op.output)
        return [insert.make(type(op)(*operands, results=[result], **op.attribute_values))]

    def _widened(self, array: Array, shape: Sequence[int]) -> Array | None:
        """Return ``array`` broadcast along its last axes, so that runs in a result of ``shape`` are longer.

        It is broadcast along as few axes as make the runs long enough (see LONG_RUNS).  If that would take
        more than MAX_WIDE_BYTES, the runs become as long as this limit allows.
        Return None if the runs are long enough already or cannot become longer, or if ``array`` has a higher
        rank than ``shape``.
        """
        if array.ndim > len(shape):  # the result has shape [], which may stand for an unknown rank
            return None
        array = array.reshape((1,) * (len(shape) - array.ndim) + array.shape)
        enough = LONG_RUNS * self.run_bytes / array.itemsize
        best, longest = None, _run(array.shape, shape)
        for axis in reversed(range(len(shape))):
            wide = (*array.shape[:axis], *shape[axis:])
            if longest >= min(enough, math.prod(shape)) or math.prod(wide) * array.itemsize > MAX_WIDE_BYTES:
                break
            if (run := _run(wide, shape)) > longest:
                best, longest = wide, run
        return None if best is None else np.ascontiguousarray(np.broadcast_to(array, best))


def _run(constant: Sequence[int], shape: Sequence[int]) -> int:
    """Return the number of elements of a run in data of ``shape``.

    ``constant``: the shape of the constant, of the same rank.  A run comprises the last axes as far as the
    constant broadcasts along all of them, or along none; axes of size 1 do not count.  Example: in data
    [8, 16, 32], a constant [1, 1, 32] has runs of 32 elements, and [1, 16, 32] has runs of 512.
    """
    broadcasts = [size == 1 for size, whole in zip(constant, shape, strict=True) if whole > 1]
    sizes = [whole for whole in shape if whole > 1]
    run = 1
    for is_single, size in zip(reversed(broadcasts), reversed(sizes), strict=True):
        if is_single != broadcasts[-1]:
            break
        run *= size
    return run
