# SPDX-License-Identifier: Apache-2.0
"""The size and the interface of a model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from circlekit.ir.graph import Model
from circlekit.ir.value import Shape, Value, format_shape
from circlekit.targets.memory_plan import arena_bytes
from circlekit.targets.planners import Planner, default_planner


class Port(NamedTuple):
    """An input or output of the main graph: name, dtype as in the text form, shape."""

    name: str
    dtype: str
    shape: Shape | None

    def document(self) -> dict[str, Any]:
        """Return the port as JSON types."""
        shape = None if self.shape is None else list(self.shape)
        return {"name": self.name, "dtype": self.dtype, "shape": shape}

    def __str__(self) -> str:
        return f"%{self.name}: {self.dtype}{format_shape(self.shape)}"


@dataclass
class Summary:
    """The size and the interface of a model.

    The arena of a graph is the memory that a runtime plans for those of its tensors that are not constant.
    ``ops``: number of operators in all graphs, by the name of their kind in the schema.
    ``parameters``: elements of float and quantized constants that operators read; shapes, axes and indices
    do not count.
    ``macs``: multiply-accumulates of one run of every graph; unknown dimensions, mostly a batch, count as 1.
    ``arena_bytes``: size of the arenas of all graphs, as the planner named ``arena_planner`` places them.
    ``file_size``: bytes, None if there is no file.  ``format``: circle or tflite.
    """

    ops: dict[str, int]
    parameters: int
    macs: int
    file_size: int | None = None
    format: str = ""
    inputs: Sequence[Port] = ()
    outputs: Sequence[Port] = ()
    arena_bytes: int = 0
    arena_planner: str = ""

    @property
    def op_count(self) -> int:
        return sum(self.ops.values())

    def document(self) -> dict[str, Any]:
        """Return the summary as JSON types."""
        return {
            "format": self.format,
            "file_bytes": self.file_size,
            "operator_count": self.op_count,
            "operators": self.ops,
            "parameters": self.parameters,
            "macs": self.macs,
            "peak_arena_bytes": self.arena_bytes,
            "arena_planner": self.arena_planner,
            "inputs": [port.document() for port in self.inputs],
            "outputs": [port.document() for port in self.outputs],
        }


def summarize(model: Model, file_size: int | None = None, planner: Planner | None = None) -> Summary:
    """Return the size and the interface of ``model``; ``file_size``: the size of its file in bytes.

    ``planner``: places the tensors in the arena; by default the planner of the format's default target.
    """
    planner = planner or default_planner(model.format)
    ops = Counter(op.code for op in model.ops())
    # by ``id``, so that a constant with several uses counts once
    constants: dict[int, Value] = {
        id(value): value for op in model.ops() for value in op.inputs if value is not None and value.is_const
    }
    return Summary(
        ops=dict(sorted(ops.items())),
        parameters=sum(
            value.numel
            for value in constants.values()
            if value.is_static and (value.dtype.is_float or value.quantization is not None)
        ),
        macs=sum(op.macs() for op in model.ops() if op.results),
        arena_bytes=arena_bytes(model, planner),
        arena_planner=planner.name,
        file_size=file_size,
        format=model.format,
        inputs=_ports(model.main.inputs),
        outputs=_ports(model.main.outputs),
    )


def _ports(values: Iterable[Value]) -> list[Port]:
    return [Port(value.name, value.dtype.short, value.shape) for value in values]
