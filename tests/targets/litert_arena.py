# SPDX-License-Identifier: Apache-2.0
"""The size of LiteRT's arena, read from the addresses of the tensors after ``allocate_tensors``.

LiteRT runs its built-in kernels on one thread, without delegates.  The arena begins with an input of the
graph.  Each later buffer begins inside of the memory of the buffers before it, or at the next multiple of 64
bytes after their end.  So the kernels' scratch buffers are found, too.  Tensors outside of the arena are left
out: constants, variables and tensors of unknown size.

LiteRT also puts the results of a WHILE whose body computes sizes, and all later results, outside of the
arena; for such models the planned arena is larger.
"""

from __future__ import annotations

from typing import Any

from circlekit.equivalence.litert import make_interpreter
from circlekit.io.write.save import to_bytes
from circlekit.ir.graph import Model
from circlekit.ops.numerics.output_stage import Kernels
from circlekit.targets.memory_plan import aligned
from circlekit.targets.planners import LITERT


def litert_arena_bytes(model: Model) -> int:
    """Return the size of LiteRT's arena for the main graph of a TFLite model, in bytes."""
    interpreter = make_interpreter(to_bytes(model, "tflite"), Kernels.OPTIMIZED)
    interpreter.allocate_tensors()
    begin = min(filter(None, (_place(interpreter, d["index"]) for d in interpreter.get_input_details())))[0]
    size = 0
    places = (_place(interpreter, index) for index in range(interpreter._interpreter.NumTensors(0)))
    for first, last in sorted(filter(None, places)):
        if begin <= first <= begin + aligned(size, LITERT.alignment):
            size = max(size, last - begin)
    return size


def _place(interpreter: Any, index: int) -> tuple[int, int] | None:
    """Return the address of a tensor and the one after its end; None if it has no memory."""
    try:
        interpreter._interpreter.TensorType(index, 0)
        interpreter._interpreter.TensorSize(index, 0)
        array = interpreter.tensor(index)()
    except ValueError:
        return None
    address = array.__array_interface__["data"][0]
    return (address, address + array.nbytes) if array.nbytes else None
