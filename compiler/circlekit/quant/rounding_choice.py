# SPDX-License-Identifier: Apache-2.0
"""Choose how the weights of a model are rounded, once the ranges of its tensors are known."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from circlekit.ir.graph import Model
from circlekit.ir.value import Array
from circlekit.quant.plan import Plan
from circlekit.quant.techniques.layer_rounding import (
    LayerTechnique,
    clip_weights,
    compensate,
    correct_bias,
    round_by_gptq,
    round_nearest,
)
from circlekit.quant.techniques.layer_sweep import Sweep
from circlekit.quant.techniques.noise import decibels, paired_gain

ROUNDING: Mapping[str, LayerTechnique] = {
    "rounding": round_nearest,
    "bias correction": correct_bias,
    "clipping": clip_weights,
    "GPTQ": round_by_gptq,
    "GPTQ with compensation": compensate,
}
"""By name, the techniques from which the best one is chosen for each layer.

A technique chooses the integers, the scales and the bias of one layer.
"""

ALTERNATIVES: Sequence[tuple[str, Mapping[str, LayerTechnique]]] = (
    ("rounding to nearest", {}),
    ("bias correction", {"bias correction": correct_bias}),
    ("the best technique of each layer", ROUNDING),
)
"""Names and techniques of the alternatives that are compared by the outputs of the whole model.

The technique of a layer is chosen by the result of that layer alone.  What is best for a layer may be worse
for the outputs, in particular in a network that amplifies noise.
"""


def best_rounding(
    model: Model,
    make_plan: Callable[[], Plan],
    samples: Sequence[Sequence[Array]],
    reference: Sequence[Sequence[Array]],
    without: Collection[str] = (),
) -> tuple[Plan, list[str]]:
    """Try each of ALTERNATIVES on a new plan; return the best plan, and sentences for the report.

    The best plan has the largest gain (``paired_gain``) over rounding to nearest, measured at the outputs of
    the whole model.

    ``make_plan``: returns a new plan that no technique has changed.
    ``samples``: at least two, each with arrays in the order of the graph's inputs.  The error is measured on
    the last quarter (rounded down, at least one sample); techniques are fitted to the samples before it.
    ``reference``: the outputs of the float model for each sample.
    ``without``: names in ``ROUNDING`` of the techniques that are not tried.
    """
    held = max(len(samples) // 4, 1)  # the number of samples that are held back
    alternatives = [
        (name, {key: technique for key, technique in techniques.items() if key not in without})
        for name, techniques in ALTERNATIVES
    ]
    # a sweep without techniques takes the outputs of the float model from ``reference``; others compute them
    sweeps = [
        Sweep(model, make_plan(), samples, held, techniques, () if techniques else reference)
        for _, techniques in alternatives
    ]
    outcomes = [sweep.run() for sweep in sweeps]
    # the gain of each alternative over the first one: by how many dB its noise is less.  No margin for the
    # standard error is subtracted from a gain, since techniques usually help
    gains = [0.0, *(paired_gain(outcomes[0], outcome, standard_errors=0) for outcome in outcomes[1:])]
    best = gains.index(max(gains))
    counts = {name: sum(c.chosen == name for c in sweeps[-1].choices) for name in ROUNDING}
    chosen = ", ".join(f"{count} by {name}" for name, count in counts.items() if count)
    ratios = [f"{decibels(outcome):.2f} dB" for outcome in outcomes]
    result = f"{ratios[-1]} on samples held back, {ratios[0]} by rounding to nearest"
    notes = [f"layers: {chosen or 'no technique chosen'}; {result}"]
    if sweeps[best] is not sweeps[-1]:
        notes.append(
            f"{alternatives[best][0]} is kept with {ratios[best]}: its noise has the smallest mean amplitude"
        )
    return sweeps[best].plan, notes
