# SPDX-License-Identifier: Apache-2.0
"""Times of runs and operators, on a clock that the operators of the test advance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import circlekit
from circlekit.interp import timing
from circlekit.interp.interpreter import Interpreter
from circlekit.ir.op import Op
from circlekit.ir.value import Array

MODEL = circlekit.parse("graph main(%x: f32[2]) -> %y {\n%a = Abs(%x)\n%y = Neg(%a)\n}")


@pytest.mark.parametrize("per_op", [False, True])
def test_the_first_run_does_not_count(per_op: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """ABS takes 1 s in run 1, 2 s in run 2...; NEG takes 10 s; a call of the clock takes none."""
    now, number = 100.0, 0

    class Clocked:
        """An interpreter whose operators advance the clock before ``observe`` is called."""

        def __init__(self) -> None:
            self.inner = Interpreter(MODEL)

        def reset(self) -> None:
            nonlocal number
            number += 1

        def run(self, inputs: Sequence[Array], graph: int, observe: Any) -> list[Array]:
            def after(op: Op, results: Sequence[Array]) -> None:
                nonlocal now
                now += number if op.code == "ABS" else 10
                if observe is not None:
                    observe(op, results)

            return self.inner.run(inputs, graph, observe=after)

    monkeypatch.setattr(timing, "perf_counter", lambda: now)
    interpreter: Any = Clocked()
    found = timing.time_runs(interpreter, [np.ones(2, np.float32)], 0, 3, per_op)
    assert found.runs == [12, 13, 14]  # runs 2 to 4, for example 2 + 10; run 1 (11 s) does not count
    assert found.median == 13
    assert [(timed.op.code, timed.seconds) for timed in found.ops] == per_op * [("NEG", 10), ("ABS", 3)]
    assert number == 4
