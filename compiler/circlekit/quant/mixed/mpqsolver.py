# SPDX-License-Identifier: Apache-2.0
"""ONE's circle-mpqsolver: choose which operators of a uint8 model become int16.

There are two algorithms.  One bisects the depths of the operators: int16 on one side of a depth, uint8 on the
other.  The other algorithm raises the operators of two patterns (``one_patterns``) to int16.  Source:
``circle-mpqsolver`` in ONE's repository.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from circlekit.errors import ModelError
from circlekit.ir.clone import clone
from circlekit.ir.dtypes import i16
from circlekit.ir.graph import Graph, Model
from circlekit.ir.value import Array, Value
from circlekit.quant.calibration.interpreter_engine import sample_outputs
from circlekit.quant.calibration.samples import Sample, checked_samples
from circlekit.quant.mixed.one_patterns import ONE_PATTERNS
from circlekit.quant.one.fake_quantized import fake_quantize
from circlekit.quant.one.settings import CHANNEL, LAYER, LayerSetting, Settings, layer_setting
from circlekit.quant.one.with_minmax import quantize_with_minmax

INT16 = LayerSetting(i16, CHANNEL)
"""The setting of raised operators."""


@dataclass(frozen=True)
class Configuration:
    """A choice of precision: some operators get int16.

    ``raised``: the names of the first results of these operators.  ``default``: the setting of all others.
    """

    default: LayerSetting
    raised: tuple[str, ...] = ()

    def document(self, model_path: str) -> dict[str, object]:
        """Return the JSON document of ONE's file ``*.mpq.json``, which ``circle-quantizer --config`` reads.

        ``model_path``: the path of the float model.
        """
        layers = [{"name": name, "dtype": "int16", "granularity": CHANNEL} for name in self.raised]
        return {
            "default_quantization_dtype": self.default.dtype.name.lower(),
            "default_granularity": self.default.granularity,
            "model_path": model_path,
            "layers": layers,
        }


class SearchObserver(Protocol):
    """Receives a report of each step of a bisection."""

    def begin(self, uint8: float, int16: float) -> None:
        """Receive the error of the model with all operators in uint8, and with all in int16."""

    def iteration(self, number: int, tried: Configuration, quantized: Model, error: float) -> None:
        """Receive a step: its number from 1, the tried configuration, the quantized model and its error."""

    def end(self, found: Configuration, error: float | None) -> None:
        """Receive the chosen configuration and its error; None: the error was not measured."""


@dataclass
class Solver:
    """Searches for a configuration of ``model``, a float model with recorded ranges.

    ``settings``: the settings for ``quantize_with_minmax``.  For ``bisect``, their default dtype is uint8.
    ``say``: is called with each line of the log: ONE's lines, and one more if no cut reaches the target.
    """

    model: Model
    settings: Settings
    say: Callable[[str], None] = print

    def quantized(self, configuration: Configuration) -> Model:
        """Return a copy of the model, quantized by ``configuration``.

        Raise the errors of ``quantize_with_minmax``.
        """
        result = clone(self.model)
        layers = [dict.fromkeys(configuration.raised, INT16)]
        quantize_with_minmax(result, replace(self.settings, default=configuration.default, layers=layers))
        return result

    def bisect(
        self,
        samples: Iterable[Sample],
        ratio: float,
        is_int16_front: bool | None,
        errors: Mapping[str, float] | None,
        observer: SearchObserver | None,
    ) -> Configuration:
        """Return a configuration with an error below the target and with few depths in int16.

        If uint8 alone reaches the target, all operators become uint8.  Otherwise, if the error of int16 is
        not below the target, all become int16.  If the search finds no configuration, every operator that
        depends on an input becomes int16.
        The depth of a value is the number of operators on the longest path from an input (``depths_of``).
        The error is the mean absolute difference between the outputs and those of the float model.  The
        target is int16 + ratio * (uint8 - int16).  Here int16 is the error with all operators in int16, and
        uint8 is the error with all operators in uint8.
        ``ratio``: 0 to 1.
        ``is_int16_front``: whether the operators near the inputs (True) or near the outputs (False) become
        int16.  None: True if the sum of ``errors`` is larger in the front half of the depths, else False.
        ``errors``: errors of tensors by name, needed only if ``is_int16_front`` is None.
        ``observer``: receives a report of each step.

        Raise ModelError if there are no samples, or if an output of one of the models is not finite.  Raise
        the errors of ``checked_samples``, ``quantize_with_minmax`` and the interpreter.
        """
        records = list(checked_samples(self.model, samples))
        references = list(sample_outputs(self.model, records))
        depths = depths_of(self.model.main)
        q8, q16 = Configuration(self.settings.default), Configuration(INT16)

        def error_of(quantized: Model) -> float:
            """Return the error of a quantized model, simulated with floats."""
            rounding = clone(quantized)
            fake_quantize(rounding)
            return _mean_absolute_error(references, list(sample_outputs(rounding, records)))

        self.say(">> Computing baseline qerrors")
        int16, uint8 = error_of(self.quantized(q16)), error_of(self.quantized(q8))
        self.say(f"Full int16 model qerror: {int16:g}")
        self.say(f"Full uint8 model qerror: {uint8:g}")
        if observer is not None:
            observer.begin(uint8, int16)
        target = int16 + ratio * (uint8 - int16)
        self.say(f"Target qerror: {target:g}")
        if uint8 <= target:  # also if int16 is no better than uint8; ONE then raises an error
            self.say("The best configuration is uint8 configuration")
            return _reported(observer, q8, uint8)
        if int16 >= target:
            self.say("The best configuration is int16 configuration")
            return _reported(observer, q16, int16)
        front = self._front(depths, errors or {}) if is_int16_front is None else is_int16_front
        parts = ("Q16", "Q8") if front else ("Q8", "Q16")
        self.say("Front part will be {}, while the rear will be {}".format(*parts))
        return self._search(depths, target, front, error_of, observer)

    def _front(self, depths: Mapping[Value, int], errors: Mapping[str, float]) -> bool:
        """Return whether the sum of ``errors`` is larger in the front half of the depths, near the inputs."""
        self.say(">> Running bisection(auto) algorithm")
        half = 0.5 * _deepest(depths)
        front = sum(errors.get(value.name, 0.0) for value, depth in depths.items() if depth < half)
        rear = sum(errors.get(value.name, 0.0) for value, depth in depths.items() if depth >= half)
        self.say(f"Qerror of front half: {front:g}")
        self.say(f"Qerror of rear half: {rear:g}")
        return front > rear

    def _search(
        self,
        depths: Mapping[Value, int],
        target: float,
        front: bool,
        error_of: Callable[[Model], float],
        observer: SearchObserver | None,
    ) -> Configuration:
        """Bisect the depth at which int16 ends (``front``) or begins (not ``front``).

        Return the last tried configuration with an error below ``target``.  If there is none, return the
        configuration in which every operator that depends on an input becomes int16.
        ``depths``: the depth of each value.  ``error_of``: returns the error of a quantized model.
        """
        low, high = 0, _deepest(depths)
        last, best, number = -1, None, 0
        while (cut := (low + high) // 2) != last:
            self.say(f"Looking for the optimal configuration in [{low} , {high}] depth segment")
            number, last = number + 1, cut
            trial = Configuration(self.settings.default, _names(self.model.main, depths, cut, front))
            quantized = self.quantized(trial)
            error = error_of(quantized)
            if observer is not None:
                observer.iteration(number, trial, quantized, error)
            is_enough = error < target
            relation = "<" if is_enough else ">" if error > target else "=="
            self.say(f"Qerror at depth {cut} is {error:g} {relation} target qerror ({target:g})")
            if is_enough:
                best = cut, trial, error
            if is_enough == front:  # a smaller cut makes fewer int16 operators in front, more in the rear
                high = cut
            else:
                low = cut
        if best is None:  # in this case ONE returns uint8, which misses the target
            self.say("No cut reaches the target: every operator becomes int16")
            names = _names(self.model.main, depths, 0, front=False)
            return _reported(observer, Configuration(self.settings.default, names), None)
        self.say(f"Found the best configuration at depth {best[0]}")
        return _reported(observer, *best[1:])

    def patterns(self, names: Iterable[str]) -> Configuration:
        """Return the configuration with the operators of some patterns in int16.

        ``names``: keys of ONE_PATTERNS.
        """
        graph = self.model.main
        raised = {op.results[0].name for name in names for op in ONE_PATTERNS[name](graph)}
        chosen = tuple(op.results[0].name for op in graph if op.results and op.results[0].name in raised)
        return Configuration(self.settings.default, chosen)


def pattern_setting(dtype: str, granularity: str) -> LayerSetting:
    """Return the setting of the operators outside of patterns, from ONE's words for dtype and granularity.

    int16 weights always have a scale for each channel: ``layer`` becomes ``channel``.
    Raise UnsupportedError for a word that ONE does not have.
    """
    if dtype.lower() == "int16" and granularity.lower() == LAYER:
        granularity = CHANNEL
    return layer_setting(dtype, granularity)


def _reported(observer: SearchObserver | None, found: Configuration, error: float | None) -> Configuration:
    """Report the end of a bisection to ``observer``; return ``found``."""
    if observer is not None:
        observer.end(found, error)
    return found


def depths_of(graph: Graph) -> dict[Value, int]:
    """Return the depth of each value that depends on an input: the length of the longest path from an input.

    The length is the number of operators.  As in ONE, an operator with several results counts twice.
    """
    depths = dict.fromkeys(graph.inputs, 0)
    for op in graph:
        found = [depths[value] for value in op.inputs if value is not None and value in depths]
        if found:
            depths.update(dict.fromkeys(op.results, max(found) + 1 + (len(op.results) > 1)))
    return depths


def _deepest(depths: Mapping[Value, int]) -> int:
    """Return the largest depth plus 1, because ONE counts an output node, too."""
    return max(depths.values(), default=0) + 1


def _names(graph: Graph, depths: Mapping[Value, int], cut: int, front: bool) -> tuple[str, ...]:
    """Return the names of the first results of the operators on one side of the depth ``cut``.

    These are the operators at depths up to ``cut`` if ``front``, else at depths from ``cut`` on.  Operators
    that depend on no input have no depth, and are left out.
    """
    return tuple(
        op.results[0].name
        for op in graph
        if op.results
        and (depth := depths.get(op.results[0])) is not None
        and (depth <= cut if front else depth >= cut)
    )


def _mean_absolute_error(references: Sequence[Sequence[Array]], results: Sequence[Sequence[Array]]) -> float:
    """Return the mean absolute difference between outputs, averaged over all samples and outputs.

    ``references``, ``results``: for each sample, the outputs of two models.  Empty outputs do not count.
    Raise ModelError if no output has elements, or if a difference is not finite.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        errors = [
            float(np.abs(a.astype(np.float64) - b.astype(np.float64)).mean())
            for pair in zip(references, results, strict=True)
            for a, b in zip(*pair, strict=True)
            if a.size
        ]
    if not errors or not math.isfinite(sum(errors)):
        raise ModelError("expected samples for which the outputs have elements, and only finite ones")
    return sum(errors) / len(errors)
