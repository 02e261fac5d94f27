# SPDX-License-Identifier: Apache-2.0
"""Find the forms of an operator that a runtime runs, and their constraints.

A form is the dtypes and the kinds of quantization of operands and results (``targets.operator_form``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import product
from typing import NamedTuple

import numpy as np

from circlekit.equivalence.litert import differences
from circlekit.equivalence.litert_undefined import undefined
from circlekit.errors import CirclekitError, UnsupportedError
from circlekit.interp import run
from circlekit.io.write.save import to_bytes
from circlekit.ir.dtypes import DType, f32
from circlekit.ir.graph import Graph, Model
from circlekit.ir.op import REGISTRY, Op, OpaqueOp
from circlekit.ir.value import Array, Value
from circlekit.ops.arithmetic.unary import Neg
from circlekit.targets.operator_form import form_of
from tools.probe_targets.constraints import (
    Constraints,
    Observation,
    is_broken,
    known_constraints,
    learn,
    parts_of,
)
from tools.probe_targets.recurrent import RECURRENT, recurrent_samples
from tools.probe_targets.runtimes import (
    CRASH,
    FAILS_IN_RUN,
    RUNTIMES,
    Job,
    Ran,
    Runtime,
    is_registered,
    run_jobs,
)
from tools.samples.drawing import RANKS
from tools.samples.typed_operator import Sample, draw_sample
from tools.samples.types import FILTERS, Types, all_types

FIRST_SAMPLES, KNOWN_SAMPLES = 7, len(RANKS)
"""How many samples of each combination of types are drawn first: KNOWN_SAMPLES if constraints are published,
else FIRST_SAMPLES.  If none of them runs, the runtime lacks the form."""

SAMPLES, MORE_SAMPLES = 2 * len(RANKS), 12 * len(RANKS)
"""Samples with numbers below SAMPLES are drawn in each form that runs.  Those from there to MORE_SAMPLES are
drawn in a few forms (see SPREAD), and in all forms if a result contradicts the constraints so far."""

OUTSIDE_SAMPLES, ALONE = 2 * MORE_SAMPLES, 6
"""For each constraint, up to ALONE samples are run that break this constraint and no other.  They are
searched among the samples with numbers from SAMPLES to OUTSIDE_SAMPLES."""

SPREAD, STEP = 3, len(RANKS)
"""After SAMPLES, each sample is drawn in SPREAD forms; after every STEP samples, constraints are learned
again if a result contradicts them."""

LEAST_RUNNING = 0.2
"""A form counts only if at least this part of its models runs.  Even if the runtime lacks the form, a model
may run by luck, for example with a single element."""

LARGEST_HARM, LARGEST_REFUSED = 0.1, 0.3
"""A form counts only if few models that satisfy its constraints fail: at most the part LARGEST_HARM is harmed
(see ``Observation``), and at most the part LARGEST_REFUSED does not run."""

HIGHEST_VERSION = 20
"""The highest version of an operator that is tried."""

FLOAT_TOLERANCE, HYBRID_TOLERANCE, QUANTUM_TOLERANCE = 1e-2, 1e-1, 2
"""The first two are parts of the largest magnitude, the third one is a number of steps of a quantized result.
HYBRID_TOLERANCE: for float data and integer weights; some runtimes quantize the data in each run."""


class Measured(NamedTuple):
    """What a runtime has of an operator.  ``version``: the highest that it loads; None: any, or no form runs.

    ``forms``: the forms that it runs, with their constraints.  ``unexplained``, ``reasons``: by form, how
    many failures break no constraint, and why one model failed.
    """

    version: int | None
    forms: dict[str, Constraints]
    unexplained: Counter[str]
    reasons: dict[str, str]


class _Form:
    """What was observed of a form.  ``is_valid``: our interpreter ran a sample that the runtime did not."""

    def __init__(self) -> None:
        self.types: dict[Types, None] = {}
        self.observed: list[Observation] = []
        self.constraints: Constraints = {}
        self.reason = ""
        self.is_valid = False
        self.crashes = 0

    @property
    def runs(self) -> bool:
        return any(o.runs for o in self.observed)


def measure(code: str, name: str, seed: int) -> Measured | None:
    """Return what a runtime has of an operator; None if no model that our interpreter runs was drawn."""
    return _Probe(code, name, seed).measure()


class _Probe:
    """Measures one operator.  Samples of the same number have the same shapes and attributes in all forms."""

    def __init__(self, code: str, name: str, seed: int) -> None:
        self.code, self.runtime, self.seed = code, (runtime := RUNTIMES[name]), seed
        known = known_constraints(name, code)
        self.published, self.suspects = (known, []) if runtime.checks_first else ([], known)
        self.forms: dict[str, _Form] = {}

    def measure(self) -> Measured | None:
        """Run samples of all types, then more samples of the types that run, and learn (see MORE_SAMPLES)."""
        if self.code in RECURRENT:
            return self.measure_recurrent()
        known = self.runtime.dtypes
        every = [t for t in all_types(REGISTRY[self.code]) if known.issuperset(filter(None, t.dtypes))]
        first = KNOWN_SAMPLES if self.published else FIRST_SAMPLES
        for number in range(first):
            crashing = [form for form in self.forms.values() if form.crashes > 1 and not form.runs]
            given_up = {types for form in crashing for types in form.types}
            self.observe((types, number) for types in every if types not in given_up)
        running = list({types: None for form in self.forms.values() if form.runs for types in form.types})
        if not running:
            return None if not any(form.is_valid for form in self.forms.values()) else self.result()
        self.observe((types, number) for number in range(first, SAMPLES) for types in running)
        self.learn()
        for start in range(SAMPLES, MORE_SAMPLES, STEP):
            few = [
                (running[(number * SPREAD + step) % len(running)], number)
                for number in range(start, start + STEP)
                for step in range(min(SPREAD, len(running)))
            ]
            surprising = self.observe(few)
            if surprising:
                rest = ((types, number) for number in sorted(surprising) for types in running)
                self.observe(pair for pair in rest if pair not in few)
                self.learn()
        self.try_outside(running)
        return self.result()

    def try_outside(self, running: Sequence[Types]) -> None:
        """Run more samples that break one constraint alone, up to ALONE for each constraint; learn again."""
        found = Counter[tuple[str, str]]()
        for text, form in self.forms.items():
            found.update(
                (text, only) for o in form.observed if (only := _only_broken(o.op, form.constraints))
            )
        wanted = []
        for number, types in product(range(SAMPLES, OUTSIDE_SAMPLES), running):
            sample = draw_sample(self.code, types, number, self.seed)
            text = form_of(sample.op) if sample is not None else ""
            if sample is None or text not in self.forms:
                continue
            only = _only_broken(sample.op, self.forms[text].constraints)
            if only is not None and found[text, only] < ALONE:
                found[text, only] += 1
                wanted.append((types, number))
        self.observe(wanted)
        self.learn()

    def measure_recurrent(self) -> Measured:
        """Return the forms of which every sample runs; they have no further constraints."""
        samples = list(recurrent_samples(self.code, self.seed))
        jobs = [Job(content_of(s.graph, self.runtime.format), s.inputs) for s in samples]
        for sample, ran in zip(samples, run_jobs(self.runtime, jobs), strict=True):
            reason = judged(self.runtime, sample, ran)
            if reason is not None:
                form = self.forms.setdefault(form_of(sample.op), _Form())
                form.observed.append(Observation(sample.op, not reason, harms=bool(reason)))
                form.reason = reason or form.reason
        failed = {text for text, form in self.forms.items() if not all(o.runs for o in form.observed)}
        found: dict[str, Constraints] = {text: {} for text in sorted(self.forms.keys() - failed)}
        op = next((o.op for text in found for o in self.forms[text].observed), None)
        version = None if op is None else _highest_version(self.runtime, op)
        reasons = {text: self.forms[text].reason for text in failed}
        return Measured(version, found, Counter(failed), reasons)

    def observe(self, wanted: Iterable[tuple[Types, int]]) -> set[int]:
        """Run samples; return the numbers of those whose results contradict the constraints so far."""
        samples: list[tuple[Types, int, Sample]] = []
        jobs = []
        for types, number in wanted:
            sample = draw_sample(self.code, types, number, self.seed)
            if sample is not None and undefined(Model([sample.graph])) is None:
                with suppress(CirclekitError):
                    jobs.append(Job(content_of(sample.graph, self.runtime.format), sample.inputs))
                    samples.append((types, number, sample))
        surprising = set()
        for (types, number, sample), ran in zip(samples, run_jobs(self.runtime, jobs), strict=True):
            reason = judged(self.runtime, sample, ran)
            if reason is None:
                continue
            form = self.forms.setdefault(form_of(sample.op), _Form())
            form.types[types] = None
            late = reason.startswith(CRASH) or any(words in reason for words in FAILS_IN_RUN)
            harms = bool(reason) and (ran.outputs is not None or late)
            form.observed.append(Observation(sample.op, not reason, harms))
            form.reason = reason or form.reason
            form.crashes += reason.startswith(CRASH)
            if is_broken(sample.op, form.constraints) != bool(reason):
                surprising.add(number)
            if ran.outputs is None and not form.is_valid:
                form.is_valid = not isinstance(run_here(self.runtime.format, sample), Exception)
        return surprising

    def learn(self) -> None:
        for form in self.forms.values():
            if self.published or any(is_broken(o.op, form.constraints) == o.runs for o in form.observed):
                form.constraints = learn(form.observed, self.published, self.suspects)

    def needs_known_shapes(self, running: Iterable[Types]) -> list[str]:
        """If most models with unknown shapes fail, return the names of their operands that are not constant.

        Else return [].  The runtime is told the sizes of the inputs before it prepares the model.
        """
        sized, names = self.runtime.sized_dtypes, dict[str, None]()
        samples: list[Sample] = []
        for number, types in product(range(SAMPLES), running):
            sample = draw_sample(self.code, types, number, self.seed) if sized else None
            form = self.forms.get(form_of(sample.op)) if sample is not None else None
            if sample is None or form is None or is_broken(sample.op, form.constraints):
                continue
            if all(v.shape and v.dtype in sized for v in sample.graph.inputs):
                _forget_shapes(sample)
                samples.append(sample)
                names.update({name: None for name, v in sample.op.operand_items() if not v.is_const})
        jobs = [Job(content_of(sample.graph, self.runtime.format), sample.inputs) for sample in samples]
        ran = zip(samples, run_jobs(self.runtime, jobs), strict=True)
        refused = sum(bool(judged(self.runtime, sample, result)) for sample, result in ran)
        return list(names) if refused > len(samples) / 2 else []

    def result(self) -> Measured:
        """Return what was measured; forms that mostly fail, or fail for unknown reasons, are left out."""
        found = {text: form for text, form in sorted(self.forms.items()) if form.runs}
        unexplained = Counter[str]()
        for text, form in list(found.items()):
            left = [o for o in form.observed if not is_broken(o.op, form.constraints)]
            unexplained[text] = sum(not o.runs for o in left)
            harmed = sum(o.harms for o in left)
            possible = left if self.published else form.observed
            if (
                sum(o.runs for o in form.observed) < LEAST_RUNNING * len(possible)
                or harmed > LARGEST_HARM * len(left)
                or unexplained[text] > LARGEST_REFUSED * len(left)
            ):
                del found[text]
        op = next((o.op for form in found.values() for o in form.observed if o.runs), None)
        version = None if op is None else _highest_version(self.runtime, op)
        known = self.needs_known_shapes(dict.fromkeys(t for form in found.values() for t in form.types))
        more = {"known": known} if known else {}
        constraints = {text: {**form.constraints, **more} for text, form in found.items()}
        reasons = {text: form.reason for text, form in self.forms.items() if form.reason}
        return Measured(version, constraints, +unexplained, reasons)  # ``+`` drops counts of 0


def _only_broken(op: Op, constraints: Constraints) -> str | None:
    """Return the only constraint that ``op`` breaks, as text; None if it breaks none or several."""
    broken = [str(part) for part in parts_of(constraints) if is_broken(op, part)]
    return broken[0] if len(broken) == 1 else None


def _forget_shapes(sample: Sample) -> None:
    """Make all dimensions of the inputs unknown, and infer the shapes of the results again."""
    for value in sample.graph.inputs:
        value.shape = (None,) * len(value.shape or ())
    for value, found in zip(sample.op.results, sample.op.inferred(), strict=True):
        value.shape = found.shape


def content_of(graph: Graph, format: str) -> bytes:
    """Return the file of a model with this graph."""
    return to_bytes(Model([graph], format=format), format)


def judged(runtime: Runtime, sample: Sample, ran: Ran) -> str | None:
    """Return why the runtime does not run a sample, "" if it does, None if the model is invalid.

    If our interpreter has a kernel, the results must be close to our results.  A form that our kernel refuses
    counts as not run: LiteRT misreads most such forms.
    """
    ours = run_here(runtime.format, sample)
    if isinstance(ours, Exception):
        if ran.outputs is None:
            return ran.reason if isinstance(ours, UnsupportedError) else None
        has_kernel = type(sample.op).kernel is not Op.kernel
        return f"our interpreter: {ours}".partition("\n")[0] if has_kernel else ""
    if ran.outputs is None:
        return ran.reason
    for value, a, b in zip(sample.op.results, ours, ran.outputs, strict=True):
        if a.shape != b.shape:
            return f"the shape is {b.shape}, expected {a.shape}"
        if a.dtype.kind in "iu" and a.dtype.itemsize <= 2:
            tolerance = QUANTUM_TOLERANCE if value.quantization is not None else 1
            if np.abs(a.astype(np.int64) - b.astype(np.int64)).max(initial=0) > tolerance:
                return "other values"
        elif differences([value.name], [a], [b], _float_tolerance(sample.op)):
            return "other values"
    return ""


def _float_tolerance(op: Op) -> float:
    named = dict(op.operand_items())
    weights = [named[name] for name in (*FILTERS, "y") if name in named]
    return HYBRID_TOLERANCE if any(value.dtype.is_integer for value in weights) else FLOAT_TOLERANCE


def run_here(format: str, sample: Sample) -> list[Array] | Exception:
    """Return the outputs of our interpreter, or its error."""
    try:
        return run(Model([sample.graph], format=format), [array.copy() for array in sample.inputs])
    except (CirclekitError, AttributeError, TypeError, ValueError) as error:
        return error


def _highest_version(runtime: Runtime, op: Op) -> int | None:
    """Return the highest version with which the runtime loads ``op``; None if it loads every version."""
    jobs = []
    for number in range(1, HIGHEST_VERSION + 1):
        op.version = number
        assert op.graph is not None
        jobs.append(Job(content_of(op.graph, runtime.format), []))
    op.version = None
    loads = [is_registered(ran.reason) for ran in run_jobs(runtime, jobs)]
    return None if loads[-1] else max(number for number, good in enumerate(loads, 1) if good)


def registered(codes: Sequence[str], runtime: Runtime) -> Iterator[str]:
    """Yield those of the operators ``codes`` that the runtime loads, whatever happens when it runs them."""
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


def input_dtypes(runtime: Runtime) -> list[str] | None:
    """Return the dtypes that the runtime takes for an unused input; None if it takes all dtypes of arrays."""
    dtypes = [dtype for dtype in DType if dtype.numpy is not None and dtype.numpy.kind != "O"]
    jobs = []
    for dtype in dtypes:
        x, unread = Value("x", f32, (1, 2)), Value("unread", dtype, (1, 2))
        graph = Graph("main", (x, unread))
        graph.outputs = (graph.append(Neg(x)).output,)
        graph.outputs[0].name = "y"
        arrays = [np.zeros((1, 2), np.float32), np.zeros((1, 2), dtype.numpy)]
        jobs.append(Job(content_of(graph, runtime.format), arrays))
    results = zip(dtypes, run_jobs(runtime, jobs), strict=True)
    taken = [dtype.short for dtype, ran in results if ran.outputs is not None]
    return None if len(taken) == len(dtypes) else taken
