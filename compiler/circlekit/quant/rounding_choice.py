# SPDX-License-Identifier: Apache-2.0
"""Choose how the weights of a model are rounded, once the ranges of its tensors are known."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

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
"""The techniques, by name, of which every layer gets the best one."""

ALTERNATIVES: Sequence[tuple[str, Mapping[str, LayerTechnique]]] = (
    ("rounding to nearest", {}),
    ("bias correction", {"bias correction": correct_bias}),
    ("the best technique of each layer", ROUNDING),
)
"""The alternatives that are compared by the outputs of the model, with their techniques.

The technique of a layer is chosen by the layer's own result.  In a network that amplifies noise, as one with
random weights does, fewer techniques may be better for the outputs.
"""


def best_rounding(
    model: Model,
    make_plan: Callable[[], Plan],
    samples: Sequence[Sequence[Array]],
    reference: Sequence[Sequence[Array]],
) -> tuple[Plan, list[str]]:
    """Return the plan of the alternative that gains most over the first one, and sentences for the report.

    ``make_plan``: returns a new plan by plain rules.  ``samples``: the last quarter is held back.
    ``reference``: the outputs of the float model for each sample.
    """
    held = max(len(samples) // 4, 1)
    sweeps = [
        Sweep(model, make_plan(), samples, held, techniques, () if techniques else reference)
        for _, techniques in ALTERNATIVES
    ]
    outcomes = [sweep.run() for sweep in sweeps]
    # the techniques usually help, so that no gain has to be proven on the few samples that are held back
    gains = [0.0, *(paired_gain(outcomes[0], outcome, errors=0) for outcome in outcomes[1:])]
    best = gains.index(max(gains))
    counts = {name: sum(c.chosen == name for c in sweeps[-1].choices) for name in ROUNDING}
    chosen = ", ".join(f"{count} by {name}" for name, count in counts.items() if count)
    ratios = [f"{decibels(outcome):.2f} dB" for outcome in outcomes]
    result = f"{ratios[-1]} on samples held back, {ratios[0]} by rounding to nearest"
    notes = [f"layers: {chosen or 'none with weights'}; {result}"]
    if sweeps[best] is not sweeps[-1]:
        notes.append(f"{ALTERNATIVES[best][0]} is kept, {ratios[best]}: the techniques of layers do not help")
    return sweeps[best].plan, notes
