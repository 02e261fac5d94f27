# SPDX-License-Identifier: Apache-2.0
"""Raise the operators whose quantization adds most noise, up to a demanded SQNR or within a budget.

SQNR is the signal-to-quantization-noise ratio of an output in dB: the higher, the better.  To raise an
operator is to give it a scheme of higher precision, for example ``float``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from circlekit.equivalence.judgement.error_metrics import ErrorMetrics
from circlekit.errors import ModelError, counted
from circlekit.interp.evaluate import Inputs
from circlekit.interp.execution_plan import work_of
from circlekit.ir.clone import clone
from circlekit.ir.graph import Model
from circlekit.ir.op import Op
from circlekit.quant.apply import apply
from circlekit.quant.calibration.interpreter_engine import sample_outputs
from circlekit.quant.mixed.patterns import find_patterns
from circlekit.quant.mixed.raising import Budget, choose_raised
from circlekit.quant.mixed.sensitivity import Sensitivity, measure
from circlekit.quant.plan import Plan, key_of
from circlekit.quant.scheme import SCHEMES, find_scheme
from circlekit.quant.techniques.noise import aligned

MakeMixedPlan = Callable[[Mapping[str, str]], Plan]
"""A function that returns a plan of the model.

Its argument gives some operators a scheme, by name: {key_of(op): scheme}; all others get the default scheme.
``key_of(op)`` is the name of the operator's first result.
"""

MEASURED_WORK = 4 * 10**10
"""The approximate number of multiply-accumulates for measuring noise; it limits the number of samples."""

MEASURED_SAMPLES = 16
"""The noise is measured on at most this many samples.

Outputs of classifiers have most noise on the few samples near a decision boundary; 4 samples may hold none.
"""

CHECKED_SAMPLES = 8
"""A choice of operators is checked by running the quantized model on at most this many samples."""

MAX_CHECKS = 6
"""At most this many choices are checked for a target; each has more operators than the one before."""

EXTRA_SQNR = 0.5
"""If a choice misses the target, the next choice aims higher by the missing dB and by this much.

So fewer choices are needed.
"""

MIN_SQNR = {8: 12.0, 16: 24.0}
"""By bits of the activations, the SQNR in dB below which ``raise_patterns`` raises patterns.

With 8 bits such a model is of little use.  With 16 bits, the noise of activations is so high only if a range
is too wide for integers.
"""

MIN_PATTERN_GAIN = 6.0
"""The gain in dB that a pattern must bring so that ``raise_patterns`` raises it."""


@dataclass
class Raised:
    """The operators to raise.

    ``schemes``: {key_of(op): scheme} of these operators.
    ``sqnr``: the lowest SQNR of an output in dB, measured on samples; None if it was not measured, or if
    ``measured_sqnr`` returned None.
    ``notes``: sentences about what was measured.
    """

    schemes: dict[str, str] = field(default_factory=dict)
    sqnr: float | None = None
    notes: list[str] = field(default_factory=list)


def raise_operators(
    model: Model,
    make_plan: MakeMixedPlan,
    samples: Sequence[Inputs],
    first: Raised | None = None,
    target_sqnr: float | None = None,
    budget: Budget | None = None,
    raise_to: str = "float",
) -> Raised:
    """Return the operators of the float ``model`` to raise to the scheme ``raise_to``.

    ``first``: the operators that are raised so far; the result includes them, without their notes.  None: no
    operators.
    At least one of these two is given:
    ``target_sqnr``: the target; choose few operators with which every output reaches this SQNR, in dB.
    ``budget``: choose the operators that reduce the noise most within this budget.  With both a target and a
    budget, the search ends when the target is reached or the budget is spent.
    ``make_plan``: makes plans of ``model``.
    ``samples``: at most MEASURED_SAMPLES of them are used; they may be those of the calibration.
    If the target is missed, a note says so.

    Raise ModelError without samples; UnsupportedError if no scheme is named ``raise_to``; the errors of
    ``make_plan`` and of ``Interpreter.run``.
    """
    if not samples:
        raise ModelError("expected at least one sample for mixed precision, got none")
    first = first or Raised()
    plan = make_plan(first.schemes)
    pool = [op for op in model.main if is_quantized(op, plan)]
    sensitivity = measured_sensitivity(model, plan, samples, target_sqnr)
    clusters = find_patterns(model.main)
    raised_scheme, scheme = find_scheme(raise_to), SCHEMES[plan.scheme]
    # with the same dtype of weights, as in int8 and int16x8, raising changes only activations
    keeps_constants = raised_scheme is not None and raised_scheme.weights is scheme.weights
    result, goal = Raised(), target_sqnr
    obstacle = f"{MAX_CHECKS} choices of operators were not enough"
    for _ in range(MAX_CHECKS):
        ops = choose_raised(sensitivity, pool, goal, budget, keeps_constants, [ops for _, ops in clusters])
        schemes = {key_of(op): raise_to for op in ops}
        if result.sqnr is not None and schemes == result.schemes:
            obstacle = "no other operator gains" + ("" if budget is None else " within the budget")
            break
        result.schemes = schemes
        plan = make_plan({**first.schemes, **schemes})
        result.sqnr = measured_sqnr(model, plan, samples[:CHECKED_SAMPLES])
        if target_sqnr is None or result.sqnr is None or result.sqnr >= target_sqnr or len(ops) == len(pool):
            break
        assert goal is not None  # the target is not None
        goal += target_sqnr - result.sqnr + EXTRA_SQNR
    result.notes = _notes(sensitivity, clusters, result, len(pool))
    if target_sqnr is not None and result.sqnr is not None and result.sqnr < target_sqnr:
        if len(result.schemes) == len(pool):
            obstacle = f"all operators are {raise_to}"
        result.notes.append(f"the target of {target_sqnr:g} dB is missed: {obstacle}")
    result.schemes = {**first.schemes, **result.schemes}
    return result


def raise_patterns(
    model: Model, make_plan: MakeMixedPlan, samples: Sequence[Inputs], raise_to: str = "float"
) -> Raised:
    """Return the operators of patterns to raise.

    No operator is raised if the quantized model has at least MIN_SQNR, if its activations stay float, or if
    its SQNR cannot be measured (``measured_sqnr`` returns None).  In the last case, a note says so.
    A pattern describes parts of models that often lose much precision, such as softmaxes (``find_patterns``).
    One pattern after the other is tried: all its operators are raised.  They stay raised if the lowest SQNR
    of an output gains at least MIN_PATTERN_GAIN.
    ``model``, ``make_plan``, ``samples``, ``raise_to``: see ``raise_operators``; but without samples, no
    operator is raised.
    """
    plan, samples = make_plan({}), samples[:MEASURED_SAMPLES]
    patterns: dict[str, list[Op]] = {}
    for name, ops in find_patterns(model.main):
        if quantized := [op for op in ops if is_quantized(op, plan)]:
            patterns.setdefault(name, []).extend(quantized)
    result = Raised()
    activations = SCHEMES[plan.scheme].activations
    if not patterns or activations is None:
        return result
    best = result.sqnr = measured_sqnr(model, plan, samples)
    if best is None:
        reason = "no sample gives an output with a finite number other than 0"
        result.notes.append(f"patterns that often lose much are not tried: {reason}")
        return result
    if best >= MIN_SQNR[activations.bits]:
        return result
    result.notes.append(f"{best:.1f} dB is too little: patterns that often lose much are tried")
    for name, ops in patterns.items():
        schemes = {**result.schemes, **{key_of(op): raise_to for op in ops}}
        sqnr = measured_sqnr(model, make_plan(schemes), samples)
        if sqnr is None:
            continue
        needed = best + MIN_PATTERN_GAIN
        is_kept = sqnr >= needed
        verdict = "kept" if is_kept else f"rejected: needed {needed:.1f} dB"
        result.notes.append(
            f"{name}, {counted(len(ops), 'operator')} raised to {raise_to}: {sqnr:.1f} dB, {verdict}"
        )
        if is_kept:
            result.schemes, best = schemes, sqnr
    result.sqnr = best
    return result


def measured_sqnr(model: Model, plan: Plan, samples: Sequence[Inputs]) -> float | None:
    """Quantize a copy of the float ``model`` by ``plan`` and return the lowest SQNR of an output, in dB.

    ``samples``: see ``sample_outputs``.  Return None if there are no samples, or if no output has an element
    for them that is finite and not 0.
    """
    quantized = clone(model)
    apply(quantized, plan)
    outputs = [ErrorMetrics() for _ in model.main.outputs]
    for runs in zip(sample_outputs(model, samples), sample_outputs(quantized, samples), strict=True):
        for metrics, reference, result in zip(outputs, *runs, strict=True):
            metrics.add(*aligned(reference, result))
    return min((m.sqnr for m in outputs if m.sqnr is not None), default=None)


def measured_sensitivity(
    model: Model, plan: Plan, samples: Sequence[Inputs], target_sqnr: float | None = None
) -> Sensitivity:
    """Measure, on at most MEASURED_SAMPLES of ``samples``, the noise of all that ``plan`` rounds.

    ``target_sqnr``: outputs that reach this SQNR, in dB, do not count.
    """
    count = sum(is_quantized(op, plan) for op in model.main)
    # for each quantized operator, the graph runs about twice: with rounded constants, with a rounded result
    work = 2 * count * sum(work_of(op) for op in model.main)
    few = samples[: min(max(MEASURED_WORK // max(work, 1), 1), MEASURED_SAMPLES)]
    return measure(model, plan, few, goal=0.0 if target_sqnr is None else 10 ** (-target_sqnr / 10))


def is_quantized(op: Op, plan: Plan) -> bool:
    """Return whether ``plan`` gives ``op`` another scheme than float."""
    chosen = plan.main.operators.get(key_of(op))
    return chosen is not None and not chosen.is_float


def _notes(
    sensitivity: Sensitivity, clusters: Sequence[tuple[str, Sequence[Op]]], result: Raised, total: int
) -> list[str]:
    """Return sentences about ``result``.

    ``clusters``: (name of a pattern, its operators).  ``total``: the number of quantized operators.
    """
    whole = sensitivity.remaining([])
    notes = [
        f"mixed precision: {len(result.schemes)} of {total} quantized operators are raised"
        + (f", {result.sqnr:.1f} dB" if result.sqnr is not None else "")
    ]
    for name, ops in clusters:
        count = sum(key_of(op) in result.schemes for op in ops)
        size = len(ops)
        if count:
            share = 1 - sensitivity.remaining(ops) / whole if whole else 0.0
            notes.append(
                f"{name}: {count} of {size} operators raised; all {size} make {share:.0%} of the noise"
            )
    return notes
