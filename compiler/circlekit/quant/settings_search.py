# SPDX-License-Identifier: Apache-2.0
"""Search for the best equalization and ranges for the quantization of one model, by trials.

Each trial simulates the quantized model with other settings (see ``layer_sweep``) and measures its outputs:
the outcome of the trial is the power of the signal and of the noise.  A setting is kept if it lowers the
noise clearly.  The search has two steps:

1. Equalize the float model with several strengths, by the magnitudes in one half of the samples at a time.
2. Estimate the ranges in several ways, from three quarters of the samples at a time.

The noise is measured on the other half or quarter, whose numbers may be outside of the ranges.

Wider ranges are the default: ``margin`` for activations of 8 bits, ``widening`` for 16 bits.  They are kept
unless the noise is clearly lower without them.

The fields of ``Settings``: ``strength`` of the equalization; ``estimator``, the rule that makes a range from
statistics; ``widening``, a factor for all ranges; ``margin``: ranges are wider for tensors of which few
numbers were observed; ``by_readers``: a range is chosen by the results of the operator that reads the tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from circlekit.ir.value import Array
from circlekit.quant.search_budget import (
    COLLECTING_NUMBERS_RUNS,
    COLLECTING_RUNS,
    COMPARING_RUNS,
    CORRECTING_RUNS,
    READER_RUNS,
    SearchBudget,
)
from circlekit.quant.techniques.layer_rounding import correct_bias
from circlekit.quant.techniques.layer_sweep import Sweep
from circlekit.quant.techniques.noise import Outcome, decibels, paired_gain
from circlekit.quant.trials import HALVES, PER_TENSOR, QUARTERS, Settings, Trials, estimated_ranges

LEAST_GAIN_DB = 0.05
"""A setting is kept only if the signal-to-noise ratio of the outputs rises by more than this, in dB."""

FEW_SAMPLES_DB = 3.0
"""FEW_SAMPLES_DB / n is added to the gain in dB that a setting must reach on n samples to be kept.

Few samples may be alike by chance; the standard error of the gain is then estimated too small.
"""

EQUALIZED_BITS = 8
"""Equalization is tried only for activations of 8 bits; with 16 bits, small channels are exact enough."""

STRENGTHS = (0.5, 0.75, 1.0)
"""Strengths of the equalization to try, in order.

Smaller strengths come first, because a greater one is riskier and must win by a clear gain.  With full
strength, the largest number of every channel is at the end of the range, so a new sample may be clipped in
any channel.
"""

SEARCH_SHARE = 0.7
"""Once this share of the budget is spent, no further change is tried.

The settings with which a step begins are always run.  The rest of the budget is for choosing how weights are
rounded.
"""

WIDENINGS = {8: (1.1, 1.25), 16: (1.0, 1.25, 4.0)}
"""By the number of bits of the activations, the factors that are tried for widening all ranges."""

SAFE_WIDENING = 2.0
"""The default factor by which ranges are widened for activations of 16 bits.

Wider ranges clip fewer of the numbers that calibration did not see.  The factor 2 costs one of the 16 bits,
which matters little: most of the noise comes from the rounding of int8 weights.
"""

LEAST_GAIN_OF_WIDENING_DB = 1.0
"""For activations of 16 bits, the gain in dB above which another factor than SAFE_WIDENING is kept.

This gain is large because the few samples of a trial rarely have numbers outside of the ranges.
"""

Change = tuple[Mapping[str, Any], float]
"""Fields of ``Settings`` to change, by name, and the gain in dB above which the change is kept."""


@dataclass
class SettingsSearch:
    """Searches for the best ``Settings`` of a float model; call ``run`` once.

    ``trials``: makes the models and ranges.  ``budget``: ends the search.
    ``reference``: the outputs of the float model for each sample.
    ``without``: the values of ``auto.TECHNIQUES`` that are not tried.
    ``notes``: ``run`` appends sentences on what was tried.
    """

    trials: Trials
    budget: SearchBudget
    reference: Sequence[Sequence[Array]]
    without: Collection[str] = ()
    notes: list[str] = field(default_factory=list)

    def run(self) -> Settings:
        """Change one setting at a time and keep what helps; return the settings that were kept."""
        best, activations = Settings(estimator=self.trials.estimator), self.trials.activations
        if len(self.trials.tried) < 2:
            self.notes.append("only one sample: settings cannot be compared, the defaults are kept")
        if activations is None:  # then there are no ranges to choose
            return best
        is_wide = activations.bits > EQUALIZED_BITS  # 16 bits
        if len(self.trials.tried) > 1 and not is_wide and "equalization" not in self.without:
            if self.trials.equalized(1.0) is self.trials.model:
                self.notes.append("equalization: no layer can be equalized")
            else:
                changes: list[Change] = [({"strength": s}, LEAST_GAIN_DB) for s in STRENGTHS]
                best = self._best(best, changes, self._corrected, "with corrected biases")
        # a trial cannot judge wider ranges: the few samples held back rarely have numbers outside of the
        # ranges.  So wider ranges are the default, and a trial without them must win by a clear gain
        if is_wide:
            best = replace(best, widening=SAFE_WIDENING)
        elif "ranges" not in self.without:
            best = replace(best, margin=True)
        if len(self.trials.tried) >= QUARTERS and "ranges" not in self.without:
            changes = _changes_of_ranges(activations.bits)
            best = self._best(best, changes, self._held_back, "on samples held back")
        return best

    def _best(
        self, first: Settings, changes: Sequence[Change], run: Callable[[Settings], Outcome], measure: str
    ) -> Settings:
        """Return ``first`` with those of ``changes`` that raise the signal-to-noise ratio enough.

        Each change is made to the best settings so far.  It is kept if the gain, minus standard errors of the
        gain (``paired_gain``), is large enough.  Every trial adds a note.
        ``run``: returns the outcome of settings.  ``measure``: how it measures, in words, for the first note.
        """
        best, best_outcome = first, run(first)
        self.notes.append(f"{first}: {decibels(best_outcome):.2f} dB {measure}")
        for change, least_gain in changes:
            settings = replace(best, **change)
            if self.budget.spent > self.budget.runs(SEARCH_SHARE):
                self.notes.append(f"{settings}: not tried, the budget is spent")
                continue
            outcome = run(settings)
            gain, needed = paired_gain(best_outcome, outcome), least_gain + FEW_SAMPLES_DB / len(outcome)
            self.notes.append(f"{settings}: {decibels(outcome):.2f} dB, {verdict(gain, needed)}")
            if gain > needed:
                best, best_outcome = settings, outcome
        return best

    def _corrected(self, settings: Settings) -> Outcome:
        """Return the outcome of ``settings`` with corrected biases, on both halves of the samples.

        Each half is run with the magnitudes, ranges and corrections of the other half: the largest number
        that few samples have in a channel says little about other samples.
        """
        outcome: Outcome = []
        for half in range(HALVES):
            model = self.trials.equalized_without(settings.strength, half)
            fitted, held = self.trials.tried[1 - half :: HALVES], self.trials.tried[half::HALVES]
            ranges = estimated_ranges(model, fitted, settings.estimator, EQUALIZED_BITS)
            plan = self.trials.plan_of(model, ranges)
            techniques = {"bias correction": correct_bias}
            outcome += Sweep(model, plan, [*fitted, *held], len(held), techniques).run()
        self.budget.spent += (COLLECTING_RUNS + HALVES * CORRECTING_RUNS) * len(self.trials.tried)
        return outcome

    def _held_back(self, settings: Settings) -> Outcome:
        """Return the outcome of ``settings`` on all quarters of the samples.

        Each quarter is run with the ranges of the other three.
        """
        model = self.trials.equalized(settings.strength)
        if not self.trials.is_calibrated(settings.strength):
            self.budget.spent += COLLECTING_NUMBERS_RUNS * len(self.trials.samples)
        runs = COMPARING_RUNS + (READER_RUNS if settings.by_readers else 0)
        self.budget.spent += runs * len(self.trials.tried)
        outcome: Outcome = []
        for quarter in range(QUARTERS):
            plan = self.trials.plan_of(model, self.trials.ranges(settings, quarter))
            samples = self.trials.tried[quarter::QUARTERS]
            reference = self.reference[quarter::QUARTERS]
            sweep = Sweep(model, plan, samples, held=0, techniques={}, reference=reference)  # only measures
            outcome += sweep.run()
        return outcome


def verdict(gain: float, needed: float) -> str:
    """Return ``better`` or why a change is rejected; ``gain``, ``needed``: in dB, see ``paired_gain``."""
    if gain > needed:
        return "better"
    return f"rejected: gain minus standard errors {gain:.2f} dB, needed above {needed:.2f} dB"


def _changes_of_ranges(bits: int) -> list[Change]:
    """Return the changes of range settings to try, in order; ``bits``: those of the activations."""
    widenings = [{"widening": factor} for factor in WIDENINGS[bits]]
    if bits > EQUALIZED_BITS:
        return [(change, LEAST_GAIN_OF_WIDENING_DB) for change in widenings]
    first: list[Mapping[str, Any]] = [{"estimator": PER_TENSOR}, {"margin": False}]
    return [(change, LEAST_GAIN_DB) for change in (*first, *widenings, {"by_readers": True})]
