# SPDX-License-Identifier: Apache-2.0
"""Search for the best techniques for the quantization of one model.

A technique changes the float model, its ranges or the rounding of its weights to lower the error of the
outputs.  A trial simulates the quantized model on some samples and measures this error.  A technique of the
steps 1 and 2 is kept if the error falls by more than a least gain.  The search has these steps:

1. Rotate channels between layers, or not.
2. Equalize the float model with several strengths, and estimate the ranges in several ways (see
   ``settings_search``).
3. Choose how the weights are rounded: the way with the lowest error (see ``rounding_choice``).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from circlekit.errors import counted
from circlekit.ir.clone import clone
from circlekit.ir.dtypes import DType
from circlekit.ir.graph import Graph, Model
from circlekit.ops.program.state import Stateful
from circlekit.quant.calibration import collect
from circlekit.quant.calibration.interpreter_engine import sample_outputs
from circlekit.quant.choose import Ranges
from circlekit.quant.plan import Plan
from circlekit.quant.quantize import ranges_of
from circlekit.quant.rounding_choice import ROUNDING, best_rounding
from circlekit.quant.search_budget import (
    COLLECTING_RUNS,
    CORRECTING_RUNS,
    ROTATION_RUNS,
    SearchBudget,
)
from circlekit.quant.settings_search import LEAST_GAIN_DB, SettingsSearch, verdict
from circlekit.quant.techniques.equalization import channel_magnitudes, equalize
from circlekit.quant.techniques.layer_sweep import Sweep, stream_bytes
from circlekit.quant.techniques.linear_layer import separate_biases
from circlekit.quant.techniques.noise import Outcome, decibels, paired_gain
from circlekit.quant.techniques.replay import Record, equalized, own_biases, rotated
from circlekit.quant.techniques.rotation import MAX_RUNS, find_rotations, rotate
from circlekit.quant.trials import HALVES, QUARTERS, MakePlan, Samples, Settings, Trials, estimated_ranges

TRIAL_PART = 0.06
"""The part of the budget (``TechniqueSearch.seconds``) for one trial.

It determines the number of samples of the trial.
"""

LAST_PART = 0.07
"""The part of the budget that determines the number of samples of the last step, the rounding."""

LAST_PART_OF_WEIGHTS = 0.3
"""LAST_PART if activations stay float: there are no settings to search, so more samples are affordable."""

ROTATION_PART = 0.1
"""The part of the budget for the search for layers to rotate; measuring the gain takes as much again."""

LEAST_SAMPLES = 4
"""A trial uses at least this many samples (or all, if there are fewer), even if that exceeds a limit."""

LARGEST_STREAM_BYTES = 1 << 30
"""The approximate limit for the memory of the tensors of a trial; it limits the number of samples."""

TECHNIQUES: Mapping[str, str] = {
    "rotation": "rotation",
    "equalization": "equalization",
    "ranges": "ranges",
    "raising": "raising",
    **{name.lower().replace(" ", "-"): name for name in list(ROUNDING)[1:]},
}
"""The techniques that can be left out: {word that a user writes: name in the code}.

Rounding to nearest, the first of ROUNDING, cannot be left out.  ``TechniqueSearch`` does not raise operators
to a higher precision (``raising``): ``api.quantization_choice`` does this.
"""


@dataclass
class TechniqueSearch:
    """Searches for the best settings of the float ``model``; call ``run`` once.

    ``samples``: for each sample, arrays in the order of the graph's inputs.
    ``plan_of``: makes plans by plain rules, that is, without techniques.
    ``activations``: the dtype of activations; None: they stay float.  ``estimator``: the default range
    estimator.
    ``seconds``: about how long the search may take on a usual core.  Work is counted, not time, so that the
    result does not depend on the machine.  ``without``: values of TECHNIQUES, which are not tried.
    ``before_rounding``: called before the plan is made or the rounding is chosen, with the model (equalized,
    if that was best) and its ranges; it may change the plans that ``plan_of`` makes.
    ``notes``: ``run`` adds sentences on what was tried and kept.  ``techniques``: ``run`` adds a record of
    each change of ``model``, so that the changes can be repeated on another copy of the model.
    """

    model: Model
    samples: Samples
    plan_of: MakePlan
    activations: DType | None
    estimator: str = "min_max"
    seconds: float = 60.0
    without: Collection[str] = ()
    before_rounding: Callable[[Model, Ranges], None] = lambda model, ranges: None
    notes: list[str] = field(default_factory=list)
    techniques: list[Record] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._budget = SearchBudget.of(self.model, self.seconds)

    def run(self) -> Plan:
        """Apply the best techniques to ``model``, in place, and return its plan.

        The plan follows plain rules if the results of a run depend on earlier runs (``_obstacle``).
        """
        if (obstacle := _obstacle(self.model)) is not None:
            self.notes.append(f"plain rules: {obstacle}, which the trials do not simulate")
            ranges = self._plain_ranges()
            self.before_rounding(self.model, ranges)
            return self.plan_of(self.model, ranges)
        separate_biases(self.model.main)
        self.techniques.append(own_biases())
        self._reference = list(sample_outputs(self.model, self.samples))
        self._budget.spent += len(self.samples)
        self.trial_samples = self.samples[: self._affordable(TRIAL_PART)]
        self._rotate()
        halves = [self.samples[half::HALVES] or self.samples for half in range(HALVES)]
        self._budget.spent += COLLECTING_RUNS * len(self.samples)
        self.trials = Trials(
            self.model,
            self.plan_of,
            self.activations,
            self.estimator,
            self.samples,
            self.trial_samples,
            [channel_magnitudes(collect(self.model, half, channels=True)) for half in halves],
        )
        search = SettingsSearch(self.trials, self._budget, self._reference, self.without)
        best = search.run()
        self.notes += [*search.notes, f"kept: {best}"]
        part = LAST_PART if self.activations is not None else LAST_PART_OF_WEIGHTS
        return self._final(best, self.samples[: self._affordable(part)])

    def _rotate(self) -> None:
        """Rotate channels of ``model`` between layers, or not.

        They are rotated if the error falls by more than LEAST_GAIN_DB, after a margin for the standard error
        (``paired_gain``).  Of the samples that the budget allows, the last quarter is held back to measure
        the error.
        """
        runs = self._budget.runs(ROTATION_PART)
        samples = self.samples[: int(min(runs / ROTATION_RUNS, len(self.trial_samples)))]
        held = len(samples) // 4
        if not held or "rotation" in self.without:
            return  # left out by the user, or too few affordable samples to hold one back
        most_runs = int(min(runs, MAX_RUNS))
        found = find_rotations(self.model, samples[0], most_runs)
        self._budget.spent += most_runs / 2  # an estimate: the search seldom needs all runs
        if not found:
            return
        copy = clone(self.model)
        rotate(copy, found)
        before, after = (self._by_gptq(model, samples, held) for model in (self.model, copy))
        self._budget.spent += ROTATION_RUNS * len(samples)
        gain = paired_gain(before, after)
        ratios = f"{decibels(before):.2f} to {decibels(after):.2f} dB"
        result = f"{ratios}, {verdict(gain, LEAST_GAIN_DB)}"
        self.notes.append(f"rotation of {counted(len(found), 'pair')} of layers: {result}")
        if gain > LEAST_GAIN_DB:
            rotate(self.model, found)
            self.techniques.append(rotated(found))

    def _by_gptq(self, model: Model, samples: Samples, held: int) -> Outcome:
        """Round the weights of each layer by GPTQ or to nearest, whichever is better; return the outcome.

        The outcome is the signal and the noise of the outputs.  It is measured on the last ``held`` samples;
        the rounding is fitted to the samples before these.
        """
        ranges: Ranges = []
        if self.activations is not None:
            ranges = ranges_of(model, collect(model, self.samples), "min_max")
        names = ("rounding", "GPTQ")
        techniques = {name: ROUNDING[name] for name in names if name not in self.without}
        plan = self.plan_of(model, ranges)
        return Sweep(model, plan, samples, held, techniques).run()

    def _plain_ranges(self) -> Ranges:
        """Return the ranges by the default estimator; [] if activations stay float."""
        if self.activations is None:
            return []
        return estimated_ranges(self.model, self.samples, self.estimator, self.activations.bits)

    def _affordable(self, part: float) -> int:
        """Return the number of samples on which a trial can be run with ``part``, 0 to 1, of the budget.

        It is at least LEAST_SAMPLES, or the number of all samples if there are fewer.
        """
        count = self._budget.runs(part) / CORRECTING_RUNS
        count = min(count, LARGEST_STREAM_BYTES / stream_bytes(self.model))
        return int(min(max(count, LEAST_SAMPLES), len(self.samples)))

    # -- the result -----------------------------------------------------------------------------

    def _final(self, settings: Settings, samples: Samples) -> Plan:
        """Apply ``settings`` to ``model``; return its plan with the best rounding of the weights.

        The ranges come from all samples; the rounding is chosen on ``samples``.
        """
        model = self.trials.equalized(settings.strength)
        ranges = self.trials.ranges(settings, QUARTERS)
        self.before_rounding(model, ranges)
        if len(samples) > 1:
            plan, notes = best_rounding(
                model, lambda: self.plan_of(model, ranges), samples, self._reference, self.without
            )
            self.notes += notes
        else:
            plan = self.plan_of(model, ranges)
        if model is not self.model:
            magnitudes = self.trials.all_magnitudes()
            equalize(self.model, magnitudes, settings.strength)
            self.techniques.append(equalized(magnitudes, settings.strength))
        return plan


def _obstacle(model: Model) -> str | None:
    """Return why the results of a run depend on earlier runs; None if they do not.

    A recurrent operator with states of its own is no obstacle if each sample is a whole sequence.
    """
    for graph in model.graphs:
        for op in graph:
            if isinstance(op, Stateful) and not op.is_one_step and _owns_its_states(graph, op):
                continue  # every sample is run from the initial state
            if op.stateful:
                return f"{op.code} keeps state between runs"
            if any(v is not None and v.is_variable for v in op.inputs):
                return f"{op.code} reads a variable"
    return None


def _owns_its_states(graph: Graph, op: Stateful) -> bool:
    """Return whether the states of ``op`` are variables that no other operator uses."""
    values = [value for name, value in op.operand_items() if name in op.states]
    return all(v.is_variable and v.use_count == 1 and v not in graph.inputs for v in values)
