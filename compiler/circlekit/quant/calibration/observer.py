# SPDX-License-Identifier: Apache-2.0
"""Select tensors and the statistics to collect about them; observe them while a model runs on one sample."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from circlekit.errors import ModelError, ShapeError, did_you_mean, names_in
from circlekit.interp.evaluate import KERNEL_ERRORS, kernel_error
from circlekit.ir.graph import Model
from circlekit.ir.op import Op
from circlekit.ir.value import Array, Value
from circlekit.quant.calibration.calibration import inner_name, inner_names, observed_values
from circlekit.quant.calibration.statistics import Observation, joined, observed

LAST_AXIS = -1
"""The default axis of channels."""

Channels = bool | Collection[str] | Mapping[str, int]
"""The tensors that get statistics per channel: True, False (none), names, or {name: channel axis}.

True stands for all tensors but those whose last axis has no declared size: their number of channels may
change between runs.  For True and for names, the axis of the channels is LAST_AXIS.
"""

Histograms = bool | Collection[str]
"""The tensors that get a histogram: True (all), False (none), or names."""

Key = tuple[int, str]
"""A tensor: the index of its graph in the model, and its name."""

Observations = dict[Key, Observation]
"""The statistics of one run by tensor; a tensor that the run did not compute is missing."""


@dataclass(frozen=True)
class Selection:
    """The tensors for which more than the range is observed.

    ``channels``: {name: axis of the channels} of the tensors with statistics per channel.
    ``histograms``: the names of the tensors with a histogram.
    """

    channels: Mapping[str, int]
    histograms: frozenset[str]

    @staticmethod
    def of(model: Model, channels: Channels = False, histograms: Histograms = False) -> Selection:
        """Return the selection that ``channels`` and ``histograms`` describe for ``model``.

        Raise ModelError for a name that is unknown or not a text, for an axis that is not an integer, or for
        an axis outside of the declared rank of a tensor.  (If no rank is declared, ``Observer`` checks the
        axis in each run.)
        """
        values = [value for _, _, value in observed_values(model)]
        names = list(dict.fromkeys([*(name for _, _, name in inner_names(model)), *(v.name for v in values)]))
        if isinstance(channels, Mapping):
            per_channel = dict(channels)
        else:
            per_channel = dict.fromkeys(_chosen(names, channels), LAST_AXIS)
        if channels is True:
            for value in values:
                if value.shape is None or (value.shape and value.shape[LAST_AXIS] is None):
                    per_channel.pop(value.name, None)
        _chosen(names, per_channel)  # raises for an unknown name
        for name, axis in per_channel.items():
            if isinstance(axis, bool) or not isinstance(axis, int | np.integer):
                raise ModelError(f"channels of %{name}: expected an integer as axis, got {axis!r}")
        for value in values:  # tensors of two graphs may have the same name
            rank, axis = value.rank, per_channel.get(value.name, LAST_AXIS)
            if rank is not None and not -max(rank, 1) <= axis < max(rank, 1):
                raise ModelError(
                    f"channels of %{value.name}: expected an axis of a tensor of rank {rank}, got {axis}"
                )
        return Selection(per_channel, frozenset(_chosen(names, histograms)))


def _chosen(names: Collection[str], choice: bool | Collection[str]) -> Collection[str]:
    """Return the names that ``choice`` selects: all of ``names``, none, or those in ``choice``.

    Raise ModelError if ``choice`` has a name that is not in ``names``.
    """
    if isinstance(choice, bool):
        return names if choice else []
    chosen = names_in("a tensor", choice)
    for name in sorted(set(chosen) - set(names)):
        raise ModelError(f"no computed float tensor is named {name!r}{did_you_mean(name, names)}")
    return chosen


class Observer:
    """Observes the float tensors of one run.

    Call ``see`` for each input and result, ``see_inside`` for each operator in ``inside``, and ``take`` when
    the run has ended.
    ``keys``: for each tensor that is observed, its key in the statistics.
    ``inside``: the operators whose states and inner tensors (such as the gate sums of an LSTM) are observed,
    each with the index of its graph.
    """

    def __init__(self, model: Model, selection: Selection) -> None:
        self.selection = selection
        self.keys: dict[Value, Key] = {v: (index, v.name) for index, _, v in observed_values(model)}
        self.inside: dict[Op, int] = {op: index for index, op, _ in inner_names(model)}
        self._seen: Observations = {}

    def see(self, value: Value, array: Array) -> None:
        """Add ``array``, the elements of the tensor ``value``; do nothing if ``value`` is not in ``keys``.

        Raise ShapeError if ``array`` lacks the axis of the channels, or has another number of channels than
        an earlier array of this tensor in the same run.  An array is not checked if none of its elements
        belong to the range: the module ``statistics`` says which elements are ignored.
        """
        key = self.keys.get(value)
        if key is not None:
            self._add(key, array)

    def see_inside(self, op: Op, operands: Sequence[Array | None]) -> None:
        """Compute the states and inner tensors of ``op`` from ``operands``, and add their elements.

        ``operands``: one array for each declared operand, None for an absent operand.
        Do nothing if ``op`` is not in ``inside``.  Raise ModelError if the operands do not fit each other;
        raise the errors of ``see``.
        """
        if op not in self.inside:
            return
        try:
            found = op.inner_values(*operands)
        except KERNEL_ERRORS as error:
            raise kernel_error(op, operands, error) from error
        for name, array in found.items():
            self._add((self.inside[op], inner_name(op, name)), array)

    def _add(self, key: Key, array: Array) -> None:
        """Add the elements of ``array`` to the statistics of tensor ``key``; raise the errors of ``see``."""
        name = key[1]
        try:
            seen = observed(array, self.selection.channels.get(name), name in self.selection.histograms)
            self._seen[key] = joined(self._seen.get(key), seen)
        except ShapeError as error:
            raise error.note(f"for %{name}") from None

    def take(self) -> Observations:
        """Return the statistics since the last call of ``take``, and start again with empty ones."""
        seen, self._seen = self._seen, {}
        return seen
