# SPDX-License-Identifier: Apache-2.0
"""Run a case with LiteRT and circlekit, and compare the results."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, NamedTuple

import numpy as np

from circlekit.equivalence.litert import make_interpreter, run_interpreter
from circlekit.errors import CirclekitError, UnsupportedError
from circlekit.interp.interpreter import Interpreter
from circlekit.io.read.load import load_bytes
from circlekit.io.write.save import to_bytes
from circlekit.ir.graph import Graph, Model
from circlekit.ir.value import Array
from circlekit.ops.numerics.kernel_flavor import Kernels
from tools.kit.kinds import Case

TOLERANCE = 1e-5
"""Largest difference of floats, as a part of the largest magnitude of the result."""

Steps = list[list[Array]]


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
    content = _bytes_of(case.graphs)
    phase("LiteRT")
    try:
        kernels = Kernels.OPTIMIZED if case.optimized else Kernels.REFERENCE
        wanted = run_interpreter(make_interpreter(content, kernels), case.steps)
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
    return compare(got, wanted, case.tolerance, case.magnitude)


def _bytes_of(graphs: Sequence[Graph]) -> bytes:
    target = "tflite" if all("tflite" in op.formats for graph in graphs for op in graph) else "circle"
    return to_bytes(Model(list(graphs), format=target), target)


def run_ours(case: Case, content: bytes) -> Steps:
    if case.refused is not None:
        raise UnsupportedError(case.refused)
    interpreter = Interpreter(load_bytes(content))
    return [interpreter.run([_writable(a) for a in inputs]) for inputs in case.steps]


def _writable(array: Array) -> Array:
    copy: Array = array.copy()
    return copy


def compare(got: Steps, wanted: Steps, within: float | None = None, magnitude: float = 0.0) -> Outcome:
    """Compare all runs.  ``within``: the tolerance; ``magnitude``: the least magnitude that it refers to."""
    for step, (ours, theirs) in enumerate(zip(got, wanted, strict=True)):
        place = f"run {step}: " if len(wanted) > 1 else ""
        if len(ours) != len(theirs):
            return Outcome(Verdict.FAILED, f"{place}{len(ours)} outputs instead of {len(theirs)}")
        for index, pair in enumerate(zip(ours, theirs, strict=True)):
            reason = difference(*pair, within, magnitude)
            if reason:
                where = f"output {index}: " if len(theirs) > 1 else ""
                return Outcome(Verdict.FAILED, place + where + reason)
    return Outcome(Verdict.PASSED)


def difference(got: Array, wanted: Array, within: float | None = None, magnitude: float = 0.0) -> str | None:
    """Return a sentence about the difference of ``got`` from ``wanted``, or None."""
    if got.dtype != wanted.dtype and not (got.dtype.kind in "OS" and wanted.dtype.kind in "OS"):
        return f"dtype {got.dtype} instead of {wanted.dtype}"
    if got.shape != wanted.shape:
        return f"shape {list(got.shape)} instead of {list(wanted.shape)}"
    if wanted.dtype.kind not in "fc":
        wrong = np.flatnonzero(got.reshape(-1) != wanted.reshape(-1))
        if not wrong.size:
            return None
        a, b = (x.reshape(-1)[wrong[0]] for x in (got, wanted))
        return f"{wrong.size} of {wanted.size} elements differ, the first is {a} instead of {b}"
    return _float_difference(got, wanted, within or tolerance(wanted.dtype), magnitude)


def _float_difference(got: Array, wanted: Array, within: float, magnitude: float) -> str | None:
    got, wanted = got.reshape(-1), wanted.reshape(-1)
    finite = np.isfinite(wanted)
    strange = ~finite & ~((got == wanted) | (np.isnan(got) & np.isnan(wanted)))
    strange |= finite & ~np.isfinite(got)
    if strange.any():
        first = int(np.flatnonzero(strange)[0])
        return f"{got[first]} instead of {wanted[first]}"
    scale = float(np.abs(wanted[finite]).max(initial=0.0))
    error = np.abs(got[finite].astype(np.complex128) - wanted[finite].astype(np.complex128))
    worst = float(error.max(initial=0.0))
    if worst <= within * max(scale, magnitude):
        return None
    first = int(error.argmax())
    pair = f"{got[finite][first]} instead of {wanted[finite][first]}"
    return f"differs by {worst / scale if scale else worst:.1e} of the largest magnitude: {pair}"


def tolerance(dtype: np.dtype[Any]) -> float:
    """Return the tolerance of a dtype; float16 results have 11 bits, of which the last may differ."""
    return 1e-3 if dtype == np.float16 else TOLERANCE


def _first_line(error: Exception) -> str:
    """Return the first line of LiteRT's message, without source locations and node numbers."""
    text = re.sub(r"\s*(ERROR: )?\S*\.(cc|h):\d+\s*", " ", str(error)).strip()
    text = re.sub(r"\s*Node number.*", "", text, flags=re.S)
    return (text.splitlines() or [type(error).__name__])[0].strip()[:160]
