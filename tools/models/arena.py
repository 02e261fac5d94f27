# SPDX-License-Identifier: Apache-2.0
"""Planned arenas have the size of LiteRT's own.

LiteRT runs its built-in kernels on one thread, without delegates.  The size of its arena is read from the
addresses of the tensors after ``allocate_tensors``.  The arena begins with an input of the graph.  It has no
gaps: every other buffer begins, at the latest, at the next multiple of 64 bytes after the end of another one.
So the kernels' scratch buffers are found, too, and tensors elsewhere are left out: constants, variables and
tensors of unknown size.  LiteRT also puts elsewhere the results of a WHILE whose body computes sizes, and all
later results; for such models the planned arena is larger.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from circlekit.equivalence.litert import make_interpreter
from circlekit.io.write.save import to_bytes
from circlekit.ir.graph import Model
from circlekit.ir.value import Array
from circlekit.ops.numerics.output_stage import Kernels
from circlekit.passes.engine.legalize import legalize
from circlekit.targets.memory_plan import aligned, plan_memory
from circlekit.targets.planners import LITERT

TOLERANCE = 0.02
"""Largest difference of a planned arena from LiteRT's, as a fraction of LiteRT's."""


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


def findings(model: Model, inputs: Sequence[Array], seed: int, counts: Counter[str]) -> Iterator[str]:
    """Yield the sizes if the planned arena and LiteRT's differ by more than the tolerance."""
    legal = legalize(model, "tflite")
    plan = plan_memory(legal.main, LITERT)
    try:
        actual = litert_arena_bytes(legal)
    except (ValueError, RuntimeError):
        counts["not run by LiteRT"] += 1
        return
    counts["equal"] += plan.size == actual
    if abs(plan.size / actual - 1) > TOLERANCE:
        yield f"planned {plan.size:,}, LiteRT {actual:,} ({plan.size / actual - 1:+.2%})"
