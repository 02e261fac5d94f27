# SPDX-License-Identifier: Apache-2.0
"""Search the best techniques for the quantization of one model.

Each trial simulates the quantized model with other settings (see ``layer_sweep``) and measures the error of
its outputs.  A setting is kept if it lowers the error.  The search has these steps:

1. Rotate channels between layers, or not.
2. Equalize the float model with several strengths.
3. Estimate the ranges in several ways, each from three quarters of the samples.  The error is measured on
   the other quarter, whose numbers may be outside of the ranges.
4. Choose how the weights are rounded (see ``rounding_choice``).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from circlekit.interp.interpreter import Interpreter
from circlekit.ir.clone import clone
from circlekit.ir.dtypes import DType
from circlekit.ir.graph import Model
from circlekit.ir.value import Array
from circlekit.ops.program.state import Stateful
from circlekit.quant.calibration import collect
from circlekit.quant.choose import Ranges
from circlekit.quant.plan import Plan
from circlekit.quant.quantize import ranges_of
from circlekit.quant.rounding_choice import ROUNDING, best_rounding
from circlekit.quant.search_budget import (
    COLLECTING_NUMBERS_RUNS,
    COLLECTING_RUNS,
    COMPARING_RUNS,
    CORRECTING_RUNS,
    READER_RUNS,
    ROTATION_RUNS,
    SearchBudget,
)
from circlekit.quant.techniques.equalization import channel_magnitudes, equalize
from circlekit.quant.techniques.layer_rounding import correct_bias
from circlekit.quant.techniques.layer_sweep import Sweep, stream_bytes
from circlekit.quant.techniques.linear_layer import separate_biases
from circlekit.quant.techniques.noise import Outcome, decibels, paired_gain
from circlekit.quant.techniques.replay import Record, equalized, own_biases, rotated
from circlekit.quant.techniques.rotation import find_rotations, rotate
from circlekit.quant.trials import PER_TENSOR, QUARTERS, MakePlan, Samples, Settings, Trials, estimated_ranges

LEAST_GAIN_DB = 0.05
"""A setting is kept only if the signal-to-noise ratio of the outputs rises by more than this, in dB."""

FEW_SAMPLES_DB = 3.0
"""FEW_SAMPLES_DB / n is added to the gain in dB that a setting must reach on n samples to be kept.

Few samples may be alike by chance; the standard error of the gain is then estimated too small.
"""

EQUALIZED_BITS = 8
"""Equalization is tried only for activations of 8 bits; with 16 bits, small channels are exact enough."""

STRENGTHS = (1.0, 0.5, 0.75)
"""Strengths of the equalization to try."""

LARGEST_SEARCH = 0.7
"""No trial begins once this part of the budget is spent: the rest is for choosing how weights are rounded."""

WIDENINGS = {8: (1.1, 1.25), 16: (1.0, 1.25, 4.0)}
"""By the number of bits of the activations, the factors that are tried for widening all ranges."""

SAFE_WIDENING = 2.0
"""The default factor by which ranges are widened for activations of 16 bits.

Wider ranges clip fewer of the numbers that calibration did not see.  The factor 2 costs one of 16 bits, which
matters little: most of the noise comes from the rounding of int8 weights.
"""

LEAST_GAIN_OF_WIDENING_DB = 1.0
"""The gain in dB that a factor other than SAFE_WIDENING must reach to be kept.

This gain is large because the few samples of a trial rarely have numbers outside of the ranges.
"""

TRIAL_PART = 0.06
"""The part of the budget for one trial; the number of samples of a trial follows from it."""

LAST_PART = 0.07
"""The part of the budget from which the number of samples of the last step follows."""

ROTATION_PART = 0.1
"""The part of the budget for the search for layers to rotate; measuring the gain takes as much again."""

LEAST_SAMPLES = 4
"""A trial uses at least this many samples (or all, if there are fewer), even if that exceeds its budget."""

LARGEST_STREAM_BYTES = 1 << 30
"""The largest memory that the tensors of a trial may take, about; it limits the number of samples."""

TECHNIQUES: Mapping[str, str] = {
    "rotation": "rotation",
    "equalization": "equalization",
    "ranges": "ranges",
    "raising": "raising",
    **{name.lower().replace(" ", "-"): name for name in list(ROUNDING)[1:]},
}
"""{word that a user writes: name in the code} of the techniques that can be left out."""

Change = tuple[Mapping[str, Any], float]
"""Fields of ``Settings`` to change, by name, and the gain in dB above which the change is kept."""


@dataclass
class Auto:
    """Searches the best settings for the float ``model``; call ``run`` once.

    ``samples``: arrays in the order of the graph's inputs.  ``plan_of``: makes plans by plain rules.
    ``activations``: the dtype of activations; None: they stay float.  ``estimator``: the default range
    estimator.
    ``seconds``: about how long the search may take on a usual core.  Work is counted, not time, so that the
    result does not depend on the machine.  ``without``: values of TECHNIQUES, which are not tried.
    ``notes``: filled with sentences on what was tried and kept.  ``techniques``: filled with records of the
    changes of ``model``.
    """

    model: Model
    samples: Samples
    plan_of: MakePlan
    activations: DType | None
    estimator: str = "min_max"
    seconds: float = 60.0
    without: Collection[str] = ()
    notes: list[str] = field(default_factory=list)
    techniques: list[Record] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._budget = SearchBudget.of(self.model, self.seconds)

    def run(self) -> Plan:
        """Apply the best techniques to ``model`` and return its plan; a plan by plain rules if none helps."""
        if (obstacle := _obstacle(self.model)) is not None:
            self.notes.append(f"plain rules: {obstacle}, which the trials do not simulate")
            return self.plan_of(self.model, self._plain_ranges())
        separate_biases(self.model.main)
        self.techniques.append(own_biases())
        whole = collect(self.model, self.samples, channels=True)
        self._reference = self._outputs()
        self._budget.spend((COLLECTING_RUNS + 1) * len(self.samples))
        self.trial_samples = self.samples[: self._affordable(TRIAL_PART)]
        if self._rotate():
            whole = collect(self.model, self.samples, channels=True)
            self._budget.spend(COLLECTING_RUNS * len(self.samples))
        self.trials = Trials(
            self.model,
            self.plan_of,
            self.activations,
            self.estimator,
            self.samples,
            self.trial_samples,
            channel_magnitudes(whole),
        )
        best = self._search()
        self.notes.append(f"kept: {best}")
        return self._final(best, self.samples[: self._affordable(LAST_PART)])

    def _rotate(self) -> bool:
        """Rotate channels of ``model`` between layers if that lowers the error; return whether it did."""
        runs = self._budget.runs(ROTATION_PART)
        samples = self.samples[: int(min(runs / ROTATION_RUNS, len(self.trial_samples)))]
        held = len(samples) // 4
        if not held or "rotation" in self.without:
            return False  # the budget or the samples are too few to hold any sample back
        most = int(min(runs, 96))
        found = find_rotations(self.model, samples[0], most)
        self._budget.spend(most / 2)
        if not found:
            return False
        copy = clone(self.model)
        rotate(copy, found)
        before, after = (self._by_gptq(model, samples, held) for model in (self.model, copy))
        self._budget.spend(ROTATION_RUNS * len(samples))
        is_better = paired_gain(before, after) > LEAST_GAIN_DB
        verdict = "better" if is_better else "rejected"
        ratios = f"{decibels(before):.2f} to {decibels(after):.2f} dB"
        self.notes.append(f"rotation of {len(found)} pairs of layers: {ratios}, {verdict}")
        if is_better:
            rotate(self.model, found)
            self.techniques.append(rotated(found))
        return is_better

    def _by_gptq(self, model: Model, samples: Samples, held: int) -> Outcome:
        """Choose the rounding of the weights by GPTQ or to nearest; return the outcome.

        The techniques are fitted to all samples but the last ``held``, on which the outcome is measured.
        """
        ranges: Ranges = []
        if self.activations is not None:
            ranges = ranges_of(model, collect(model, self.samples), "min_max")
        names = ("rounding", "GPTQ")
        techniques = {name: ROUNDING[name] for name in names if name not in self.without}
        plan = self.plan_of(model, ranges)
        return Sweep(model, plan, samples, held, techniques).run()

    def _outputs(self) -> list[list[Array]]:
        """Return the outputs of the float model for each sample; techniques do not change these."""
        # a new interpreter for each sample begins with the initial state
        return [Interpreter(self.model).run(sample) for sample in self.samples]

    def _plain_ranges(self) -> Ranges:
        """Return the ranges by the default estimator; none if activations stay float."""
        if self.activations is None:
            return []
        return estimated_ranges(self.model, self.samples, self.estimator)

    def _affordable(self, part: float) -> int:
        """Return the number of samples of a trial that may use this part, 0 to 1, of the budget.

        It is at least LEAST_SAMPLES, if there are so many samples.
        """
        count = self._budget.runs(part) / CORRECTING_RUNS
        count = min(count, LARGEST_STREAM_BYTES / stream_bytes(self.model))
        return int(min(max(count, LEAST_SAMPLES), len(self.samples)))

    # -- trials ---------------------------------------------------------------------------------

    def _search(self) -> Settings:
        """Return the best settings that are found by changing one setting at a time."""
        best = Settings(estimator=self.estimator)
        changes: list[Change]
        if len(self.trial_samples) < 2:
            self.notes.append("only one sample: nothing can be held back, plain rules are kept")
            return best
        if self.activations is None:
            return best
        if self.activations.bits == EQUALIZED_BITS and "equalization" not in self.without:
            if self.trials.equalized(1.0) is self.model:
                self.notes.append("equalization: no layer can be equalized")
            else:
                changes = [({"strength": s}, LEAST_GAIN_DB) for s in STRENGTHS]
                best = self._best(best, changes, self._corrected, "with corrected biases")
        is_wide = self.activations.bits > EQUALIZED_BITS
        best = replace(best, widening=SAFE_WIDENING) if is_wide else best
        if len(self.trial_samples) >= QUARTERS and "ranges" not in self.without:
            if not is_wide:
                best = replace(best, margin=True)  # the samples held back rarely show that a margin helps
            changes = self._changes_of_ranges(is_wide)
            best = self._best(best, changes, self._held_back, "on samples held back")
        return best

    def _changes_of_ranges(self, is_wide: bool) -> list[Change]:
        """Return the changes of range settings to try, in order; ``is_wide``: activations have 16 bits."""
        assert self.activations is not None  # the caller checked it
        widenings = [{"widening": factor} for factor in WIDENINGS[self.activations.bits]]
        if is_wide:
            return [(change, LEAST_GAIN_OF_WIDENING_DB) for change in widenings]
        first: list[Mapping[str, Any]] = [{"estimator": PER_TENSOR}, {"margin": False}]
        return [(change, LEAST_GAIN_DB) for change in (*first, *widenings, {"by_readers": True})]

    def _best(
        self, first: Settings, changes: Sequence[Change], run: Callable[[Settings], Outcome], measure: str
    ) -> Settings:
        """Return ``first`` with those of ``changes`` that raise the signal-to-noise ratio enough.

        Each change is made to the best settings so far.  It is kept if its gain minus the standard error of
        the gain (``paired_gain``) is large enough.  Every trial adds a note.
        ``run``: measures settings.  ``measure``: the text that says in the first note how ``run`` measures.
        """
        best, best_outcome = first, run(first)
        self.notes.append(f"{first}: {decibels(best_outcome):.2f} dB {measure}")
        for change, least_gain in changes:
            settings = replace(best, **change)
            if self._budget.spent > self._budget.runs(LARGEST_SEARCH):
                self.notes.append(f"{settings}: not tried, the budget is spent")
                continue
            outcome = run(settings)
            needed = least_gain + FEW_SAMPLES_DB / len(outcome)
            is_better = paired_gain(best_outcome, outcome) > needed
            verdict = "better" if is_better else "rejected"
            self.notes.append(f"{settings}: {decibels(outcome):.2f} dB, {verdict}")
            if is_better:
                best, best_outcome = settings, outcome
        return best

    def _corrected(self, settings: Settings) -> Outcome:
        """Return the outcome of ``settings`` with corrected biases.

        Ranges and outcome are both from the samples of the trials.
        """
        model = self.trials.equalized(settings.strength)
        plan = self.plan_of(model, estimated_ranges(model, self.trial_samples, settings.estimator))
        sweep = Sweep(model, plan, self.trial_samples, 0, {"bias correction": correct_bias})
        self._budget.spend((COLLECTING_RUNS + CORRECTING_RUNS) * len(self.trial_samples))
        return sweep.run()

    def _held_back(self, settings: Settings) -> Outcome:
        """Return the outcome of ``settings`` on all quarters of the samples.

        Each quarter is run with the ranges of the other three.
        """
        model = self.trials.equalized(settings.strength)
        if not self.trials.has_numbers(settings.strength):
            self._budget.spend(COLLECTING_NUMBERS_RUNS * len(self.samples))
        runs = COMPARING_RUNS + (READER_RUNS if settings.by_readers else 0)
        self._budget.spend(runs * len(self.trial_samples))
        outcome: Outcome = []
        for quarter in range(QUARTERS):
            plan = self.plan_of(model, self.trials.ranges(settings, quarter))
            samples = self.trial_samples[quarter::QUARTERS]
            outcome += Sweep(model, plan, samples, 0, {}, self._reference[quarter::QUARTERS]).run()
        return outcome

    # -- the result -----------------------------------------------------------------------------

    def _final(self, settings: Settings, samples: Samples) -> Plan:
        """Apply ``settings`` to ``model``; return its plan with the best rounding of the weights.

        Ranges are from all samples; the rounding is chosen on ``samples``.
        """
        model = self.trials.equalized(settings.strength)
        ranges = self.trials.ranges(settings, QUARTERS)
        if len(samples) > 1:
            plan, notes = best_rounding(
                model, lambda: self.plan_of(model, ranges), samples, self._reference, self.without
            )
            self.notes += notes
        else:
            plan = self.plan_of(model, ranges)
        if model is not self.model:
            equalize(self.model, self.trials.magnitudes, settings.strength)
            self.techniques.append(equalized(self.trials.magnitudes, settings.strength))
        return plan


def _obstacle(model: Model) -> str | None:
    """Return why the results of a run depend on earlier runs; None if they do not."""
    for op in model.ops():
        if isinstance(op, Stateful) and not op.is_one_step and _owns_its_states(op):
            continue  # each sample is a sequence that begins with the initial state
        if op.stateful:
            return f"{op.code} keeps state between runs"
        if any(v is not None and v.is_variable for v in op.inputs):
            return f"{op.code} reads a variable"
    return None


def _owns_its_states(op: Stateful) -> bool:
    """Return whether the states of ``op`` are variables that no other operator uses."""
    values = [value for name, value in op.operand_items() if name in op.states]
    inputs = () if op.graph is None else op.graph.inputs
    return all(v.is_variable and v.use_count == 1 and v not in inputs for v in values)
