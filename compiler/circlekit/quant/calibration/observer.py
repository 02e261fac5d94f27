# SPDX-License-Identifier: Apache-2.0
"""What is observed in one run of a model: which tensors, and which statistics of each."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from circlekit.errors import ModelError, did_you_mean
from circlekit.ir.graph import Model
from circlekit.ir.value import Array, Value
from circlekit.quant.calibration.calibration import observed_values
from circlekit.quant.calibration.statistics import Observation, joined, observed

LAST_AXIS = -1

Channels = bool | Collection[str] | Mapping[str, int]
"""Tensors with statistics per channel: all, these, or these with the axis of the channels (else the last)."""

Histograms = bool | Collection[str]
"""Tensors with a histogram: all, or these."""

Key = tuple[int, str]
"""Index of the graph in the model, name of the tensor."""

Observations = dict[Key, Observation]
"""What one sample adds, by tensor; a tensor that was not computed is missing."""


@dataclass(frozen=True)
class Selection:
    """The statistics beside the range, by name of the tensor; each takes time in proportion to its elements.

    ``channels``: the axis of the channels; ``histograms``: the tensors with a histogram.
    """

    channels: Mapping[str, int]
    histograms: frozenset[str]

    @staticmethod
    def of(model: Model, channels: Channels = False, histograms: Histograms = False) -> Selection:
        """Return what is selected; ModelError for the name of no observed tensor, or an axis it lacks."""
        ranks = {value.name: value.rank for _, _, value in observed_values(model)}
        names = list(ranks)
        per_channel = channels if isinstance(channels, Mapping) else None
        if per_channel is None:
            per_channel = dict.fromkeys(_chosen(names, channels), LAST_AXIS)
        for name in _chosen(names, per_channel):
            rank, axis = ranks[name], per_channel[name]
            if rank is not None and not -max(rank, 1) <= axis < max(rank, 1):
                raise ModelError(f"channels of %{name}: expected an axis of {rank} dimensions, got {axis}")
        return Selection(per_channel, frozenset(_chosen(names, histograms)))


def _chosen(names: Collection[str], choice: bool | Collection[str]) -> Collection[str]:
    if isinstance(choice, bool):
        return names if choice else []
    for name in sorted(set(choice) - set(names)):
        raise ModelError(f"no float tensor that is computed is named {name!r}{did_you_mean(name, names)}")
    return choice


class Observer:
    """Observes the tensors of one model: ``see`` takes each array, ``take`` returns the statistics."""

    def __init__(self, model: Model, selection: Selection) -> None:
        self.selection = selection
        self.keys: dict[Value, Key] = {v: (index, v.name) for index, _, v in observed_values(model)}
        self._seen: Observations = {}

    def see(self, value: Value, array: Array) -> None:
        """Observe one computed tensor; a tensor that is no float, or is not of this model, is skipped."""
        key = self.keys.get(value)
        if key is None:
            return
        axis = self.selection.channels.get(value.name)
        seen = observed(array, axis, value.name in self.selection.histograms)
        self._seen[key] = joined(self._seen.get(key), seen)

    def take(self) -> Observations:
        """Return what was seen since the last call, and forget it."""
        seen, self._seen = self._seen, {}
        return seen
