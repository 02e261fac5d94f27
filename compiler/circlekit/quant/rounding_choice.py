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
from circlekit.quant.techniques.layer_sweep import Sweep, decibels

ROUNDING: Mapping[str, LayerTechnique] = {
    "rounding": round_nearest,
    "bias correction": correct_bias,
    "clipping": clip_weights,
    "GPTQ": round_by_gptq,
    "GPTQ with compensation": compensate,
}
"""The techniques, by name, of which every layer gets the best one."""

ALTERNATIVES: Sequence[tuple[str, Mapping[str, LayerTechnique]]] = (
    ("the best technique of each layer", ROUNDING),
    ("bias correction", {"bias correction": correct_bias}),
    ("rounding to nearest", {}),
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
    """Return the plan of the alternative with the least error of the outputs, and sentences for the report.

    ``make_plan``: returns a new plan by plain rules.  ``samples``: the last quarter is held back.
    ``reference``: the outputs of the float model for each sample.
    """
    held = max(len(samples) // 4, 1)
    sweeps = [
        Sweep(model, make_plan(), samples, held, techniques, () if techniques else reference)
        for _, techniques in ALTERNATIVES
    ]
    results = [decibels(sweep.run()) for sweep in sweeps]
    # few samples are held back: all of them count, too
    scores = [r + decibels(sweep.output_powers()) for r, sweep in zip(results, sweeps, strict=True)]
    best = scores.index(max(scores))
    counts = {name: sum(c.chosen == name for c in sweeps[0].choices) for name in ROUNDING}
    chosen = ", ".join(f"{count} by {name}" for name, count in counts.items() if count)
    result = f"{results[0]:.2f} dB on samples held back, {results[-1]:.2f} dB by rounding to nearest"
    notes = [f"layers: {chosen or 'none with weights'}; {result}"]
    if best:
        name = ALTERNATIVES[best][0]
        notes.append(f"{name} is kept, {results[best]:.2f} dB: the techniques of layers do not help")
    return sweeps[best].plan, notes
