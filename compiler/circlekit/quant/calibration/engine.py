# SPDX-License-Identifier: Apache-2.0
"""Engines: the programs that run a model on one sample and observe its tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from circlekit.errors import UnsupportedError, check_name, did_you_mean
from circlekit.ir.graph import Model
from circlekit.ir.value import Array
from circlekit.quant.calibration.interpreter_engine import InterpreterEngine
from circlekit.quant.calibration.litert_engine import LitertEngine
from circlekit.quant.calibration.observer import Observations, Selection


class Engine(Protocol):
    """Runs one model and observes its tensors.  ``name``: the word with which users choose the engine."""

    name: str

    def observe(self, sample: Sequence[Array]) -> Observations:
        """Run ``sample``, arrays in the order of the model's inputs; return the statistics of the tensors.

        The run begins with the initial state.  If the model computes one step of a sequence per run
        (``calibration.keeps_state``), it begins with the state that the previous sample left instead.
        """


ENGINES: dict[str, type[InterpreterEngine] | type[LitertEngine]] = {
    kind.name: kind for kind in (InterpreterEngine, LitertEngine)
}
"""The engines by name."""


def make_engine(name: str, model: Model, selection: Selection) -> Engine:
    """Return the engine ``name`` for ``model``.

    ``selection``: the tensors that get statistics per channel or a histogram.
    Raise UnsupportedError for an unknown name, or if the engine cannot run the model; ModelError if ``name``
    is not a text; LimitError if the tensors in LiteRT would take more memory than allowed.
    """
    check_name("an engine", name)
    if name not in ENGINES:
        known = did_you_mean(name, ENGINES) or f"; expected {' or '.join(ENGINES)}"
        raise UnsupportedError(f"no engine is named {name!r}{known}")
    return ENGINES[name](model, selection)
