# SPDX-License-Identifier: Apache-2.0
"""A calibration: statistics of the float tensors of a model, observed while the model runs on samples.

This file also decides which tensors are observed, and by which names.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field, fields

from circlekit.errors import ModelError, did_you_mean, shown
from circlekit.ir.dtypes import f32
from circlekit.ir.graph import Graph, Model
from circlekit.ir.op import Op
from circlekit.ir.value import Value
from circlekit.ir.verifier import shared_names
from circlekit.ops.program.state import Stateful
from circlekit.quant.calibration import calibration_file
from circlekit.quant.calibration.statistics import TensorStatistics

FilePath = str | os.PathLike[str]


@dataclass(eq=False)
class Calibration:
    """The statistics of the float tensors of a model.

    ``graphs``: for each graph of the model, in their order, the statistics by name of the tensor.
    ``samples``: the number of samples.  ``source``: a text that says where they come from.
    ``engine``: the name of the program that ran the model, ``circlekit`` or ``litert``.
    ``is_complete``: False in a file that an interrupted run left: some samples have not been run.
    ``setup_checksum``: a checksum of the model and of the requested channels and histograms.
    ``samples_checksum``: a checksum of the samples that were run.  A run that continues an interrupted run
    compares both.  They are 0 in a complete calibration.
    """

    graphs: list[dict[str, TensorStatistics]] = field(default_factory=lambda: [{}])
    samples: int = 0
    source: str = ""
    engine: str = ""
    is_complete: bool = True
    setup_checksum: int = 0
    samples_checksum: int = 0

    @property
    def main(self) -> dict[str, TensorStatistics]:
        """The statistics of the main graph."""
        return self.graphs[0]

    def __getitem__(self, name: str) -> TensorStatistics:
        """Return the statistics of tensor ``name`` of the main graph; raise ModelError if there are none."""
        if name not in self.main:
            raise ModelError(f"the calibration has no tensor {name!r}{did_you_mean(name, self.main)}")
        return self.main[name]

    def of(self, value: Value, graph: int = 0) -> TensorStatistics | None:
        """Return the statistics of ``value``; None if there are none.

        ``graph``: the index in the model of the graph that contains ``value``.
        """
        return self.graphs[graph].get(value.name) if graph < len(self.graphs) else None

    def save(self, path: FilePath) -> None:
        """Write a .json file, which a person can read and edit, or an .npz file, which is smaller.

        The extension of ``path`` decides.  Raise FileError for any other extension, or if writing fails.
        """
        calibration_file.save(path, {key: getattr(self, key) for key in _FACTS}, self.graphs)

    @staticmethod
    def load(path: FilePath) -> Calibration:
        """Return the calibration in the file at ``path``, which ``save`` wrote.

        Raise FileError if the extension is neither .json nor .npz, or if the file cannot be read; FormatError
        if it is not a calibration; LimitError if an .npz file, or the data of a pipe, exceeds the memory
        limit.
        """
        facts, graphs = calibration_file.load(path, _FACTS)
        return Calibration(graphs or [{}], **facts)


_FACTS = {fact.name: fact.default for fact in fields(Calibration) if fact.name != "graphs"}
"""The fields of ``Calibration`` except ``graphs``, with their defaults for files that lack them."""


def keeps_state(model: Model) -> bool:
    """Return whether the main graph computes one step of a sequence per run, and keeps state for the next.

    If it does, the samples are consecutive steps.  If not, every sample is run from the initial state.
    """
    return any(isinstance(op, Stateful) and op.is_one_step for op in model.main)


def inner_name(op: Op, name: str) -> str:
    """Return the name by which a calibration identifies the operand or inner tensor ``name`` of ``op``.

    For an operand, this is the name of its value.  An inner tensor (such as the gate sums of an LSTM) exists
    only inside ``op``.  For it, the name is ``RESULT:name``, where RESULT is the first result of ``op``.
    """
    value = next((v for o, v in op.operand_items() if o == name), None)
    return value.name if value is not None else f"{op.results[0].name}:{name}"


def inner_names(model: Model) -> Iterator[tuple[int, Op, str]]:
    """Yield (index of the graph, operator, ``inner_name``) for the states and inner tensors to observe.

    Only recurrent operators with float data have them.  States that have the form of the result are not
    observed, nor are inner tensors whose scale does not depend on their range.
    """
    for index, graph in enumerate(model.graphs):
        for op in graph:
            rule = op.quantization_rule
            if rule is not None and rule.states and op.inputs[0] is not None and op.inputs[0].dtype is f32:
                own = [inner.name for inner in op.inner_tensors() if inner.has_range]
                states = [s for s in rule.states if s not in rule.operands_follow]
                yield from ((index, op, inner_name(op, name)) for name in (*states, *own))


def make_names_distinct(model: Model) -> None:
    """Rename in place every tensor that has the name of an input, output or earlier tensor of its graph.

    Calibrations and plans identify tensors by name, so they need distinct names.  Inputs and outputs keep
    their names; raise ModelError if two of them have the same name.
    """
    for graph in model.graphs:
        for value in shared_names(graph):
            names = f"graph {shown(graph.name)}: expected distinct names of inputs and outputs"
            raise ModelError(f"{names}, got two that are named %{value.name}")
        interface = {value.name: value for value in (*graph.inputs, *graph.outputs)}
        seen = set(interface)
        for value in graph.values():
            if value.name in seen and interface.get(value.name) is not value:
                value.name = graph.unique_name(value.name)
            seen.add(value.name)


def observed_values(model: Model) -> Iterator[tuple[int, Graph, Value]]:
    """Yield (index of the graph, graph, value) for the float inputs and float results in every graph."""
    for index, graph in enumerate(model.graphs):
        values = dict.fromkeys(graph.inputs)
        for op in graph:
            values.update(dict.fromkeys(op.results))
        for value in values:
            if value.dtype.is_float and value.data is None:
                yield index, graph, value
