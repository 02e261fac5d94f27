# SPDX-License-Identifier: Apache-2.0
"""Find the forms of an operator that a runtime runs, and their constraints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from circlekit.equivalence.litert import differences
from circlekit.errors import CirclekitError, UnsupportedError
from circlekit.interp import run
from circlekit.io.write.save import to_bytes
from circlekit.ir.dtypes import f32
from circlekit.ir.graph import Graph, Model
from circlekit.ir.op import REGISTRY, Op, OpaqueOp
from circlekit.ir.value import Array, Value
from circlekit.targets.operator_form import form_of
from circlekit.targets.target import obstacles
from tools.probe_targets.constraints import Observation, learn, suspects
from tools.probe_targets.runtimes import CRASH, Job, Ran, Runtime, is_registered, run_jobs
from tools.probe_targets.samples import Sample, Types, all_types, draw_sample
from tools.random_graphs.litert_undefined import undefined

FIRST_DRAWS = 5
"""Samples after which a form that did not run once counts as one that the runtime lacks."""

DRAWS = (12, 16, 50, 70)
"""For the constraints of a form that runs, in each round.  See ``_is_decisive``."""

LARGEST_HARM, LARGEST_REFUSED = 0.1, 0.5
"""A form counts if at most these parts of the models that satisfy its constraints are harmed, do not run."""

HIGHEST_VERSION = 20
FLOAT_TOLERANCE, QUANTUM_TOLERANCE = 1e-2, 2

NOT_JUDGED = "our interpreter: "
"""A form that a runtime runs but our interpreter refuses does not count: LiteRT misreads most of them."""

Form = dict[str, Any]


class Measured(NamedTuple):
    """``forms``: with constraints.  ``unexplained``: by form, failures that break no constraint."""

    version: int | None
    forms: dict[str, Form]
    unexplained: Counter[str]
    reasons: dict[str, str]


class _Form:
    """What was observed of a form, in samples of ``types``; whether our interpreter runs one of them."""

    def __init__(self) -> None:
        self.types: dict[Types, None] = {}
        self.runs: list[Observation] = []
        self.reason = ""
        self.is_valid = False
        self.crashes = 0


def measure(code: str, runtime: Runtime, seed: int) -> Measured | None:
    """Return what the runtime has of an operator; None if no model that our interpreter runs was drawn."""
    cls = REGISTRY[code]
    forms: dict[str, _Form] = {}
    numbers: Counter[Types] = Counter()
    candidates = [
        t for t in all_types(cls) if runtime.dtypes.issuperset(d for d in t.dtypes if d is not None)
    ]
    for _ in range(FIRST_DRAWS):
        missing = [t for t in candidates if not _is_known(forms, t)]
        _observe(code, runtime, seed, missing, numbers, forms, 1)
    for draws in DRAWS:
        running = dict.fromkeys(
            types
            for form in forms.values()
            if any(o.runs for o in form.runs) and (draws <= DRAWS[1] or suspects(form.runs))
            for types in form.types
        )
        _observe(code, runtime, seed, list(running), numbers, forms, draws)
    found = {text: form for text, form in sorted(forms.items()) if any(o.runs for o in form.runs)}
    learned = {text: learn(form.runs) for text, form in found.items()}
    unexplained = Counter[str]()
    for text, form in list(found.items()):
        left = [o for o in form.runs if next(obstacles(o.op, learned[text]), None) is None]
        unexplained[text] = sum(not o.runs for o in left)
        harmed = sum(o.harms for o in left)
        if harmed > LARGEST_HARM * len(left) or unexplained[text] > LARGEST_REFUSED * len(left):
            del found[text]
    learned = {text: learned[text] for text in found}
    version = None
    if found:
        version = _highest_version(runtime, next(o.op for f in found.values() for o in f.runs if o.runs))
    elif not any(form.is_valid for form in forms.values()):
        return None
    return Measured(version, learned, +unexplained, {t: f.reason for t, f in forms.items() if f.reason})


def _is_known(forms: dict[str, _Form], types: Types) -> bool:
    """Return whether a model of ``types`` has run, or two have ended the process."""
    alike = [form for form in forms.values() if types in form.types]
    return any(form.crashes > 1 or any(o.runs for o in form.runs) for form in alike)


def _observe(
    code: str,
    runtime: Runtime,
    seed: int,
    wanted: Sequence[Types],
    numbers: Counter[Types],
    forms: dict[str, _Form],
    draws: int,
) -> None:
    """Draw and run ``draws`` more samples of each of ``wanted``; add what happened to ``forms``."""
    samples: list[tuple[str, Types, Sample, bytes]] = []
    known = {text: (learn(form.runs), suspects(form.runs)) for text, form in forms.items() if draws > 1}
    for types in wanted:
        for _ in range(draws):
            sample = draw_sample(code, types, numbers[types], seed)
            numbers[types] += 1
            if sample is None or undefined(Model([sample.graph])) is not None:
                continue
            text = form_of(sample.op)
            if draws > 1 and not _is_decisive(sample.op, *known.get(text, ({}, {})), late=draws > DRAWS[1]):
                continue
            with suppress(CirclekitError):
                samples.append((text, types, sample, content_of(sample.graph, runtime.format)))
    jobs = [Job(content, sample.inputs) for _, _, sample, content in samples]
    for (text, types, sample, _), ran in zip(samples, run_jobs(runtime, jobs), strict=True):
        form = forms.setdefault(text, _Form())
        form.types[types] = None
        reason = ran.reason or wrong_values(runtime.format, sample, ran)
        harms = bool(reason) and (ran.outputs is not None or reason.startswith(CRASH))
        form.runs.append(Observation(sample.op, not reason, harms))
        form.reason = reason or form.reason
        form.crashes += reason.startswith(CRASH)
        if ran.outputs is None and not form.is_valid:
            form.is_valid = not isinstance(run_here(runtime.format, sample), Exception)


def _is_decisive(op: Op, learned: Form, suspected: Form, late: bool) -> bool:
    """Return whether a run of ``op`` may change the constraints.

    One that breaks two constraints says nothing.  ``late``: run only what breaks one constraint, and what
    breaks suspected constraints alone, since that shows whether one of them holds.
    """
    broken = sum(1 for _ in obstacles(op, learned))
    return broken <= 1 and (not late or broken == 1 or next(obstacles(op, suspected), None) is not None)


def content_of(graph: Graph, format: str) -> bytes:
    return to_bytes(Model([graph], format=format), format)


def wrong_values(format: str, sample: Sample, ran: Ran) -> str:
    """Return how the outputs differ from those of our interpreter; "" if they agree or it has no kernel."""
    assert ran.outputs is not None
    ours = run_here(format, sample)
    if isinstance(ours, Exception):
        reason = NOT_JUDGED + str(ours).partition("\n")[0]
        return reason if type(sample.op).kernel is not Op.kernel else ""
    for value, a, b in zip(sample.op.results, ours, ran.outputs, strict=True):
        if a.shape != b.shape:
            return f"the shape is {b.shape}, expected {a.shape}"
        if value.quantization is not None and a.dtype.kind in "iu":
            if np.abs(a.astype(np.int64) - b.astype(np.int64)).max(initial=0) > QUANTUM_TOLERANCE:
                return "other values"
        elif differences([value.name], [a], [b], FLOAT_TOLERANCE):
            return "other values"
    return ""


def run_here(format: str, sample: Sample) -> list[Array] | Exception:
    """Return the outputs of our interpreter, or its error."""
    try:
        return run(Model([sample.graph], format=format), [array.copy() for array in sample.inputs])
    except (CirclekitError, AttributeError, TypeError, ValueError) as error:
        return error


def _highest_version(runtime: Runtime, op: Op) -> int | None:
    """Return the highest version that the runtime loads ``op`` with; None if it loads every one."""
    jobs = []
    for number in range(1, HIGHEST_VERSION + 1):
        op.version = number
        assert op.graph is not None
        jobs.append(Job(content_of(op.graph, runtime.format), []))
    op.version = None
    loads = [is_registered(ran.reason) for ran in run_jobs(runtime, jobs)]
    return None if loads[-1] else max(number for number, good in enumerate(loads, 1) if good)


def registered(codes: Sequence[str], runtime: Runtime) -> Iterator[str]:
    """Yield the operators that the runtime loads, whatever it does then; for those without samples."""
    jobs = {}
    for code in codes:
        x, y = Value("x", f32, (1, 2)), Value("y", f32, (1, 2))
        graph = Graph("main", (x,))
        graph.append(OpaqueOp(x, code=code, results=(y,)))
        graph.outputs = (y,)
        with suppress(UnsupportedError):  # the format has no such operator
            jobs[code] = Job(content_of(graph, runtime.format), [np.zeros((1, 2), np.float32)])
    for code, ran in zip(jobs, run_jobs(runtime, list(jobs.values())), strict=True):
        if is_registered(ran.reason):
            yield code
