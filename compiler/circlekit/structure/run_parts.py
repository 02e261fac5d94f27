# SPDX-License-Identifier: Apache-2.0
"""Run the parts of a divided model one after the other; values go from part to part by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from circlekit.errors import ModelError
from circlekit.interp.interpreter import Interpreter
from circlekit.ir.graph import Model
from circlekit.ir.value import Array
from circlekit.ops.numerics.output_stage import Kernels


def run_parts(
    parts: Sequence[Model], inputs: Mapping[str, Array], kernels: Kernels | str | None = None
) -> dict[str, Array]:
    """Run all parts; return ``inputs`` and the outputs of all parts, by name.

    ``parts``: in any order; a part runs as soon as all its inputs are known.
    ``kernels``: the kernel set with which all parts compute; None: each part selects its own.  With the
    result of ``select_kernels`` for the divided model, the results have the same bits as those of that model.
    Raise the errors of ``Interpreter.run``, and ModelError if parts form a cycle, or if an input of a part is
    missing: it must be in ``inputs`` or be an output of another part.
    """
    values = dict(inputs)
    waiting = list(parts)
    while waiting:
        ready = next((m for m in waiting if all(v.name in values for v in m.main.inputs)), None)
        if ready is None:
            missing = next(v.name for v in waiting[0].main.inputs if v.name not in values)
            raise ModelError(
                f"a part reads %{missing}: expected it among the inputs,"
                " or among the outputs of parts that can run before"
            )
        waiting.remove(ready)
        arrays = Interpreter(ready, kernels).run([values[v.name] for v in ready.main.inputs])
        values.update({v.name: a for v, a in zip(ready.main.outputs, arrays, strict=True)})
    return values
