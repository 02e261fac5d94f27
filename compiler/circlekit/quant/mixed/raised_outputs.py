# SPDX-License-Identifier: Apache-2.0
"""Raise the last operators of a model to int16 if that lowers the error of its outputs.

SOFTMAX, LOGISTIC and TANH have a fixed scale.  For int8 it is 1/256 or 1/128, even if the numbers take only
a small part of the range.  A residual ADD at the end rounds the output to int8 once more.  These operators
have no weights, so int16 costs only a QUANTIZE and little time.
"""

from __future__ import annotations

from collections.abc import Sequence

from circlekit.interp.evaluate import Inputs
from circlekit.ir.dtypes import f32
from circlekit.ir.graph import Graph, Model
from circlekit.ir.op import Op
from circlekit.quant.mixed.mixed_precision import (
    MEASURED_SAMPLES,
    MakeMixedPlan,
    Raised,
    is_quantized,
    measured_sqnr,
)
from circlekit.quant.plan import key_of

RAISED_SCHEME = "int16x8"
"""The name of the scheme of the raised operators."""

LEAST_GAIN_DB = 0.3
"""The last operators stay raised if the lowest SQNR of an output rises by at least this much.

SQNR is the signal-to-quantization-noise ratio in dB.
"""


def raise_outputs(
    model: Model, make_plan: MakeMixedPlan, samples: Sequence[Inputs], first: Raised | None = None
) -> Raised:
    """Return the operators raised so far, and those of ``last_operators`` if raising them gains enough.

    ``first``: the operators raised so far.  All quantized last operators are tried together.  They are kept
    if they gain at least LEAST_GAIN_DB and the target runs all of them in int16.
    ``make_plan``: makes plans of the float ``model``.  ``samples``: the SQNR is measured on the first
    MEASURED_SAMPLES of them.
    """
    result, samples = first or Raised(), samples[:MEASURED_SAMPLES]
    plain = make_plan(result.schemes)
    tail = {key_of(op): RAISED_SCHEME for op in last_operators(model.main) if is_quantized(op, plain)}
    schemes = {**result.schemes, **tail}
    plan = make_plan(schemes)
    if not tail or any(plan.main.operators[name].is_float for name in tail):
        return result  # nothing to raise, or the target does not run an operator in int16
    before, after = (measured_sqnr(model, tried, samples) for tried in (plain, plan))
    if before is None or after is None:
        return result
    is_kept = after >= before + LEAST_GAIN_DB
    codes = ", ".join(dict.fromkeys(plan.main.operators[name].code for name in tail))
    verdict = "kept" if is_kept else f"rejected: needed {before + LEAST_GAIN_DB:.1f} dB"
    note = f"the last operators ({codes}) raised to int16: {before:.1f} to {after:.1f} dB, {verdict}"
    kept, sqnr = (schemes, after) if is_kept else (result.schemes, before)
    return Raised(kept, sqnr, [*result.notes, note])


def last_operators(graph: Graph) -> list[Op]:
    """Return the operators without weights at the end of the graph.

    Each of their results is an output of the graph, or is read only by other operators of this kind.
    An operator is left out if it calls graphs, has no quantization rule, or has a result that is not float32.
    """
    found: set[Op] = set()
    for op in reversed(list(graph)):
        rule = op.quantization_rule
        if rule is None or rule.weights or op.called_graphs() or any(v.dtype is not f32 for v in op.results):
            continue
        if all(graph.is_output(v) or (v.users and found.issuperset(v.users)) for v in op.results):
            found.add(op)
    return [op for op in graph if op in found]
