# SPDX-License-Identifier: Apache-2.0
"""Raise to int8 the few int4 weights that add most of the noise.

A first layer, a depthwise convolution and the projection of a residual branch have few weights, but their
errors reach everything after them.  Int8 in place of int4 makes their noise about 300 times smaller and
costs half a byte more for each weight.  Source: Dong et al., "HAWQ", ICCV 2019, where the noise is estimated
from second derivatives; here it is measured (see ``sensitivity``).
"""

from __future__ import annotations

from collections.abc import Sequence

from circlekit.interp.evaluate import Inputs
from circlekit.ir.graph import Model
from circlekit.quant.mixed.mixed_precision import MakeMixedPlan, Raised, is_quantized, measured_sensitivity
from circlekit.quant.mixed.raising import Budget, choose_raised
from circlekit.quant.plan import key_of

RAISED_SCHEME = "weight_int8"
"""The name of the scheme of the raised operators."""

RAISED_SHARE = 0.015
"""The largest share of the bytes of constants that is raised; the file grows by about the same share."""


def raise_weights(model: Model, make_plan: MakeMixedPlan, samples: Sequence[Inputs]) -> Raised:
    """Return the operators whose weights add most noise for their bytes, within RAISED_SHARE of all bytes.

    The gain is not measured, because int8 weights are closer to the float weights.  Even so, the
    outputs of a small model may become a little worse, because GPTQ then rounds other layers differently.
    ``make_plan``: makes plans of the float ``model``.  ``samples``: the noise is measured on them; without
    samples, no operator is raised.
    """
    plan = make_plan({})
    pool = [op for op in model.main if is_quantized(op, plan)]
    if not pool or not samples:
        return Raised()
    sensitivity = measured_sensitivity(model, plan, samples)
    ops = choose_raised(sensitivity, pool, budget=Budget(RAISED_SHARE, "bytes"))
    whole, left = sensitivity.remaining([]), sensitivity.remaining(ops)
    if not ops or not whole:
        return Raised()
    schemes = {key_of(op): RAISED_SCHEME for op in ops}
    planned = make_plan(schemes).main.operators
    small = sum(planned[name].is_float for name in schemes)  # int8 would save no bytes
    counts = {"int8": len(ops) - small, "float, too small for int8": small}
    kinds = " and ".join(
        f"{count} of {len(pool)} operators are {kind}" for kind, count in counts.items() if count
    )
    shares = f"{1 - left / whole:.0%} of the noise, at most {RAISED_SHARE:.1%} of the bytes"
    return Raised(schemes, notes=[f"the weights of {kinds}: {shares}"])
