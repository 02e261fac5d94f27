# SPDX-License-Identifier: Apache-2.0
"""Compare the values of two models: of each output, and of each layer.

A layer is a result of an operator in the main graph whose name is in both models.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from circlekit.equivalence.array_comparison import Outcome
from circlekit.equivalence.judgement.judge import Judge, Judgement, is_quantized_form
from circlekit.equivalence.layer_comparison import compare_layers, compare_models
from circlekit.equivalence.model_comparison import Comparison
from circlekit.equivalence.reference_runs import Records
from circlekit.equivalence.verify import Verifier
from circlekit.errors import CirclekitError
from circlekit.ir.graph import Model
from circlekit.ir.resources.progress import progress
from circlekit.passes.engine.optimization_report import equal_within

GOOD_SQNR = 20.0
"""The lowest SQNR (signal-to-quantization-noise ratio), in dB, of a quantized model that is shown as good."""


@dataclass
class ValueComparison:
    """The differences of the values of two models.

    ``outputs``: for each set of inputs, the comparison of each output.
    ``layers``: the comparison of each layer, on one set of inputs, in the order of the second model.
    Comparisons without a largest difference or a similarity are left out: arrays that are empty, cannot be
    compared, or have no element that is finite in both models.
    ``verdict``: a text.

    - Equal models: the largest difference of an output, which is within its tolerance, or that the outputs
      have no elements.
    - Different outputs: the output that differs most.
    - Equal outputs, but different interfaces: a difference of the interface.
    - The second model is a quantized form of the first, and an output has an SQNR: the lowest SQNR.
    - Nothing was compared: why.

    ``is_equal``: whether outputs and interface are equal; for a quantized form with an SQNR, whether this is
    at least GOOD_SQNR; None if nothing was compared.
    ``notes``: differences of the interface, and what the comparison does not prove.
    ``judgement``: the errors of a quantized form; None if the second model is not a quantized form.
    """

    verdict: str
    is_equal: bool | None = None
    outputs: list[Outcome] = field(default_factory=list)
    layers: list[Outcome] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    judgement: Judgement | None = None

    @property
    def layer_errors(self) -> dict[str, float]:
        """{name of a layer: its largest difference / its largest magnitude in the first model}."""
        errors = ((layer.name, layer.relative_to_largest) for layer in self.layers)
        return {name: error for name, error in errors if error is not None}


def compare_values(before: Model, after: Model, records: Records | None = None) -> ValueComparison:
    """Compare two models on ``records``, at least one; None: on seeded inputs.

    Layers are compared on the first record, by default the normal inputs.
    A float model and its quantized form are compared as real numbers; the second model gets the inputs of
    the first, quantized where it takes integers.  If a model cannot be run, no error is raised; the verdict
    says why.
    """
    if records is not None and not records:
        return ValueComparison("not compared: expected at least one record of inputs, got none")
    try:  # a judge runs the second model after each run of the first, and measures the quantization error
        judge = Judge(before, after, records, with_layers=True) if is_quantized_form(before, after) else None
        progress().begin("running the first model" if judge is None else "running both models")
        verifier = Verifier(before, records, pair=judge)
        progress().begin("running the second model" if judge is None else "comparing the outputs")
        comparison = compare_models(verifier, after)
        notes = comparison.interface + comparison.notes
        result = ValueComparison(_verdict(comparison), comparison.equal, notes=notes)
        result.outputs = _measured(comparison.outputs)
        if judge is None:
            progress().begin("comparing layers")
            layers = compare_layers(before, after, verifier.runs[0])
        else:
            layers, result.judgement = judge.layer_outcomes, judge.judgement
        result.layers = _measured(layers)
        if result.judgement is not None:
            sqnr = result.judgement.sqnr
            if sqnr is not None:
                result.verdict = (
                    f"a quantized form: signal to noise ratio of {sqnr:.1f} dB or more per output"
                )
                result.is_equal = sqnr >= GOOD_SQNR
    except CirclekitError as error:
        return ValueComparison(f"not compared: {error.message}")
    return result


def _verdict(comparison: Comparison) -> str:
    """Return the verdict by the tolerances.  If there is an SQNR, ``compare_values`` replaces the verdict."""
    worst = comparison.worst
    if not comparison.equal:
        has_equal_outputs = worst is None or worst.equal
        return f"different: {comparison.interface[0] if has_equal_outputs else worst}"
    if worst is None or worst.worst is None:
        return "equal: there are no elements to compare"
    return equal_within(worst.worst.absolute, worst.worst.tolerance)


def _measured(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Return those of ``outcomes`` that have a largest difference and a similarity."""
    return [outcome for outcome in outcomes if outcome.relative_to_largest is not None]
