# SPDX-License-Identifier: Apache-2.0
"""Run a case with LiteRT and circlekit, and compare the results."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from enum import Enum
from typing import NamedTuple

import numpy as np

from circlekit.equivalence.litert import TOLERANCE, differences, make_interpreter, run_interpreter
from circlekit.errors import CirclekitError, UnsupportedError
from circlekit.interp import run
from circlekit.io.read.load import load_bytes
from circlekit.io.write.save import to_bytes
from circlekit.ir.graph import Graph, Model
from circlekit.ir.value import Array
from circlekit.ops.numerics.output_stage import Kernels
from tools.kit.kinds import Case

FLOAT16_TOLERANCE = 1e-3
"""float16 results have 11 bits, of which the last may differ."""


class Verdict(Enum):
    PASSED = "passed"
    FAILED = "failed"
    NOT_OURS = "not supported by us"
    NOT_LITERT = "not supported by LiteRT"
    NOT_MADE = "no operands found"


class Outcome(NamedTuple):
    verdict: Verdict
    reason: str = ""
    runs: bool = True
    """Whether circlekit runs the model, if LiteRT does not."""


def judge(case: Case, phase: Callable[[str], None] = lambda name: None) -> Outcome:
    """Run ``case`` with both.  ``phase`` is called with the name of the runtime before each run."""
    content = _bytes_of(case.graph)
    phase("LiteRT")
    try:
        kernels = Kernels.OPTIMIZED if case.optimized else Kernels.REFERENCE
        wanted = run_interpreter(make_interpreter(content, kernels), [case.inputs])[0]
    except (ValueError, RuntimeError, TypeError) as error:
        refusal = _first_line(error)
        phase("circlekit")
        runs = True
        try:
            run_ours(case, content)
        except CirclekitError:
            runs = False
        return Outcome(Verdict.NOT_LITERT, refusal, runs)
    phase("circlekit")
    try:
        got = run_ours(case, content)
    except UnsupportedError as error:
        return Outcome(Verdict.NOT_OURS, error.message)
    except CirclekitError as error:
        return Outcome(Verdict.FAILED, f"{type(error).__name__}: {error.message}")
    return compare(got, wanted, case.magnitude)


def _bytes_of(graph: Graph) -> bytes:
    target = "tflite" if all("tflite" in op.formats for op in graph) else "circle"
    return to_bytes(Model([graph], format=target), target)


def run_ours(case: Case, content: bytes) -> list[Array]:
    if case.refused is not None:
        raise UnsupportedError(case.refused)
    return run(load_bytes(content), [a.copy() for a in case.inputs])


def compare(got: Sequence[Array], wanted: Sequence[Array], magnitude: float = 0.0) -> Outcome:
    """Compare the outputs; ``magnitude``: the least magnitude that the tolerance of floats refers to."""
    for index, (ours, theirs) in enumerate(zip(got, wanted, strict=True)):
        found = differences([f"output{index}"], [ours], [theirs], _tolerance(theirs, magnitude))
        if found:
            return Outcome(Verdict.FAILED, found[0])
    return Outcome(Verdict.PASSED)


def _tolerance(reference: Array, magnitude: float) -> float:
    """Return the tolerance as a part of the largest magnitude of ``reference``."""
    tolerance = FLOAT16_TOLERANCE if reference.dtype == np.float16 else TOLERANCE
    if not magnitude or reference.dtype.kind != "f":
        return tolerance
    largest = float(np.abs(reference[np.isfinite(reference)]).max(initial=0.0))
    return tolerance * max(1.0, magnitude / largest) if largest else tolerance


def _first_line(error: Exception) -> str:
    """Return the first line of LiteRT's message, without source locations and node numbers."""
    text = re.sub(r"\s*(ERROR: )?\S*\.(cc|h):\d+\s*", " ", str(error)).strip()
    text = re.sub(r"\s*Node number.*", "", text, flags=re.S)
    return (text.splitlines() or [type(error).__name__])[0].strip()[:160]
