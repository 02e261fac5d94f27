# SPDX-License-Identifier: Apache-2.0
"""The plan of a quantization: for every tensor dtype, scale and zero point, and for every choice a reason.

``choose`` makes a plan, techniques change it, ``apply`` carries it out.  Tensors are known by their names,
operators by the names of their first results.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from circlekit.errors import FormatError
from circlekit.ir.dtypes import BY_SHORT, DType
from circlekit.ir.op import Op
from circlekit.ir.value import Array, Quantization, Value
from circlekit.quant.scheme import NO_SCHEME

BLOCKWISE = "BlockwiseQuantization"


@dataclass(frozen=True)
class TensorPlan:
    """How a tensor is stored: ``real = scale * (stored - zero_point)``.

    ``scale``, ``zero_point``: one element, or one for each index of ``axis``; for blocks, the scales of the
    blocks of row 0, then of row 1, and so on.  Empty for float16.  ``block``: elements of a block, 0 if there
    are none.  ``narrow``: the lowest integer is not used.  ``reason``: one sentence.
    """

    dtype: DType
    scale: tuple[float, ...] = ()
    zero_point: tuple[int, ...] = ()
    axis: int = 0
    block: int = 0
    narrow: bool = False
    reason: str = ""

    def same_as(self, other: TensorPlan | None) -> bool:
        """Return whether equal integers stand for equal numbers in ``other``; False for None."""
        return other is not None and self.key == other.key

    @property
    def key(self) -> tuple[Any, ...]:
        """All that determines the stored data."""
        return self.dtype, self.scale, self.zero_point, self.axis, self.block, self.narrow

    def because(self, reason: str) -> TensorPlan:
        """Return this plan with another reason."""
        return replace(self, reason=reason)

    @property
    def scales(self) -> Array:
        """The scales as a float32 array of rank 1."""
        return np.array(self.scale, np.float32)

    @property
    def zero_points(self) -> Array:
        """The zero points as an int64 array of rank 1."""
        return np.array(self.zero_point, np.int64)

    def quantization(self, name: str) -> Quantization | None:
        """Return the quantization of the tensor ``name``; None for float16."""
        if self.block:
            scales = Value.constant(f"{name}_scales", self.scales.astype(np.float16))
            details = {"": BLOCKWISE, "scales": scales, "zero_points": -1, "block_size": self.block}
            return Quantization(details=details)
        return Quantization(self.scales, self.zero_points, self.axis) if self.scale else None


@dataclass
class OperatorPlan:
    """How an operator is computed.

    ``scheme``: the name of its scheme, ``float`` if it stays as it is; ``reason``: why it does.
    ``operands``: by index, the forms of operands that differ from those of their tensors: of constants, and
    of tensors that are quantized again.
    """

    code: str
    scheme: str
    reason: str = ""
    operands: dict[int, TensorPlan] = field(default_factory=dict)

    @property
    def is_float(self) -> bool:
        return self.scheme == NO_SCHEME


@dataclass
class GraphPlan:
    """The plan of one graph: tensors and operators by name.

    ``constants``: integers that replace the rounded numbers of a constant, by its name: from techniques such
    as GPTQ and bias correction.
    """

    tensors: dict[str, TensorPlan] = field(default_factory=dict)
    operators: dict[str, OperatorPlan] = field(default_factory=dict)
    constants: dict[str, Array] = field(default_factory=dict)


@dataclass
class Plan:
    """The plan of a model: one GraphPlan for each graph, in order.

    ``inputs``, ``outputs``: dtypes of the interface; None: it stays as it is.
    """

    scheme: str
    graphs: list[GraphPlan] = field(default_factory=list)
    inputs: DType | None = None
    outputs: DType | None = None

    def __iter__(self) -> Iterator[GraphPlan]:
        return iter(self.graphs)

    @property
    def main(self) -> GraphPlan:
        return self.graphs[0]

    def to_json(self) -> str:
        """Return the plan as JSON, which ``from_json`` reads; integers of constants included."""
        return json.dumps(_encoded(self), indent=1) + "\n"

    @staticmethod
    def from_json(text: str) -> Plan:
        """Return the plan of a JSON text; FormatError if it is not a plan."""
        try:
            return _decoded(json.loads(text))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise FormatError(f"not a plan of a quantization: {error!r}") from None


def key_of(op: Op) -> str:
    """Return the name by which plans know an operator: that of its first result."""
    return op.results[0].name if op.results else f"{op.code} of {', '.join(v.name for v in op.inputs if v)}"


# -- JSON --------------------------------------------------------------------------------------


def _encoded(plan: Plan) -> dict[str, Any]:
    return {
        "plan": 1,
        "scheme": plan.scheme,
        "inputs": plan.inputs.short if plan.inputs else None,
        "outputs": plan.outputs.short if plan.outputs else None,
        "graphs": [
            {
                "tensors": {name: _tensor(t) for name, t in graph.tensors.items()},
                "operators": {
                    name: {
                        "code": op.code,
                        "scheme": op.scheme,
                        "reason": op.reason,
                        "operands": {str(i): _tensor(t) for i, t in op.operands.items()},
                    }
                    for name, op in graph.operators.items()
                },
                "constants": {
                    name: {"dtype": str(a.dtype), "shape": list(a.shape), "data": a.reshape(-1).tolist()}
                    for name, a in graph.constants.items()
                },
            }
            for graph in plan.graphs
        ],
    }


def _tensor(plan: TensorPlan) -> dict[str, Any]:
    fields: dict[str, Any] = {"dtype": plan.dtype.short}
    if plan.scale:
        fields["scale"] = _one_or_list([float(str(np.float32(s))) for s in plan.scale])
        fields["zero_point"] = _one_or_list(plan.zero_point)
    for name in ("axis", "block", "narrow"):
        if getattr(plan, name):
            fields[name] = getattr(plan, name)
    return {**fields, "reason": plan.reason}


def _one_or_list(numbers: Sequence[Any]) -> Any:
    """Return the number if there is one only, else the list."""
    return numbers[0] if len(numbers) == 1 else list(numbers)


def _decoded(tree: Mapping[str, Any]) -> Plan:
    graphs = [
        GraphPlan(
            {name: _tensor_plan(t) for name, t in graph["tensors"].items()},
            {
                name: OperatorPlan(
                    op["code"],
                    op["scheme"],
                    op.get("reason", ""),
                    {int(i): _tensor_plan(t) for i, t in op.get("operands", {}).items()},
                )
                for name, op in graph["operators"].items()
            },
            {
                name: np.array(a["data"], a["dtype"]).reshape(a["shape"])
                for name, a in graph.get("constants", {}).items()
            },
        )
        for graph in tree["graphs"]
    ]
    dtypes = [BY_SHORT[tree[side]] if tree.get(side) else None for side in ("inputs", "outputs")]
    return Plan(tree["scheme"], graphs, *dtypes)


def _tensor_plan(tree: Mapping[str, Any]) -> TensorPlan:
    scale, zero_point = (tree.get(name, []) for name in ("scale", "zero_point"))
    return TensorPlan(
        BY_SHORT[tree["dtype"]],
        tuple(float(np.float32(s)) for s in (scale if isinstance(scale, list) else [scale])),
        tuple(int(z) for z in (zero_point if isinstance(zero_point, list) else [zero_point])),
        tree.get("axis", 0),
        tree.get("block", 0),
        tree.get("narrow", False),
        tree.get("reason", ""),
    )
