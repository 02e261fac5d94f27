# SPDX-License-Identifier: Apache-2.0
"""The plan of a quantization: dtype, scale and zero point of every tensor, with a reason for every choice.

``choose`` makes a plan, techniques change it, ``apply`` quantizes a model by it.  Tensors are known by their
names, operators by the names of their first results.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from circlekit.errors import FormatError, did_you_mean
from circlekit.io.file_map import map_file
from circlekit.io.write.file_writer import write_file
from circlekit.ir.dtypes import BY_SHORT, DType
from circlekit.ir.op import Op
from circlekit.ir.value import Array, Quantization, Value
from circlekit.quant.readable_json import readable_json
from circlekit.quant.scheme import NO_SCHEME

FilePath = str | os.PathLike[str]
BLOCKWISE = "BlockwiseQuantization"
"""The name of the table of the schema for weights with scales of blocks."""


@dataclass(frozen=True)
class TensorPlan:
    """The form of a tensor: ``real = scale * (stored - zero_point)``.

    ``scale``, ``zero_point``: one element, or one for each index of ``axis``; for blocks, the scales of the
    blocks of row 0, then of row 1, and so on, without zero points; empty for float16.  ``block``: number of
    elements of a block, 0 if there are no blocks.  ``narrow``: the lowest integer is not used.  ``rounds``:
    the model was trained with this rounding, so that operators that read another form get the rounded
    numbers.  ``reason``: why the form was chosen.
    """

    dtype: DType
    scale: tuple[float, ...] = ()
    zero_point: tuple[int, ...] = ()
    axis: int = 0
    block: int = 0
    narrow: bool = False
    reason: str = ""
    rounds: bool = False

    def same_as(self, other: TensorPlan | None) -> bool:
        """Return whether ``other`` stores the same integers for the same numbers; False for None."""
        return other is not None and self.key == other.key

    @property
    def key(self) -> tuple[Any, ...]:
        """The fields that determine the stored data."""
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

    ``code``: the operator's name in the schema.  ``scheme``: the name of its scheme, ``float`` if it stays
    float.  ``reason``: why it has that scheme.  ``operands``: the forms of operands by index: of constants,
    and of tensors that it reads in another form than the stored one.  ``inner``: the forms of inner tensors
    by name, in the order of ``Declaration.inner_tensors``.
    """

    code: str
    scheme: str
    reason: str = ""
    operands: dict[int, TensorPlan] = field(default_factory=dict)
    inner: dict[str, TensorPlan] = field(default_factory=dict)

    @property
    def is_float(self) -> bool:
        """Whether the operator stays float."""
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
class Preparation:
    """The changes of the float model before its plan is applied, in this order.

    ``passes``: a pipeline or names of passes.  ``target``: the runtime for which the model is then legalized.
    ``is_calibrated``: passes that make new tensors are left out.  ``techniques``: changes of constants, each
    an object with the name of the ``technique`` and its arguments (see ``techniques.replay``).
    """

    passes: str | list[str] = "O1"
    target: str = "litert"
    is_calibrated: bool = False
    techniques: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class Plan:
    """The plan of a model: one GraphPlan for each graph, in order.

    ``inputs``, ``outputs``: dtypes of the interface; None: it stays as it is.
    """

    scheme: str
    graphs: list[GraphPlan] = field(default_factory=list)
    inputs: DType | None = None
    outputs: DType | None = None
    preparation: Preparation = field(default_factory=Preparation)

    def __iter__(self) -> Iterator[GraphPlan]:
        return iter(self.graphs)

    @property
    def main(self) -> GraphPlan:
        """The plan of the main graph."""
        return self.graphs[0]

    def save(self, path: FilePath) -> None:
        """Write the plan as JSON, which a person can read and edit; raise FileError if that fails."""
        write_file(path, [self.to_json().encode()])

    @staticmethod
    def load(path: FilePath) -> Plan:
        """Read a file that ``save`` wrote; raise FileError or FormatError if that fails."""
        try:
            return Plan.from_json(bytes(map_file(path)).decode(errors="replace"))
        except FormatError as error:
            raise FormatError(f"{os.fspath(path)}: {error}") from None

    def to_json(self) -> str:
        """Return the plan as JSON, with the integers of constants; ``from_json`` reads it."""
        return readable_json(_encoded(self))

    @staticmethod
    def from_json(text: str) -> Plan:
        """Return the plan of a JSON text; raise FormatError if it is not a plan."""
        try:
            return _decoded(json.loads(text))
        except KeyError as error:
            raise FormatError(f"not a plan of a quantization: it has no {error}") from None
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            raise FormatError(f"not a plan of a quantization: {error}") from None


def key_of(op: Op) -> str:
    """Return the name by which plans know an operator: that of its first result."""
    return op.results[0].name if op.results else f"{op.code} of {', '.join(v.name for v in op.inputs if v)}"


# -- JSON --------------------------------------------------------------------------------------


def _encoded(plan: Plan) -> dict[str, Any]:
    """Return ``plan`` as a JSON object."""
    return {
        "plan": 1,
        "scheme": plan.scheme,
        "inputs": plan.inputs.short if plan.inputs else None,
        "outputs": plan.outputs.short if plan.outputs else None,
        "preparation": vars(plan.preparation),
        "graphs": [
            {
                "tensors": {name: _tensor(t) for name, t in graph.tensors.items()},
                "operators": {
                    name: {
                        "code": op.code,
                        "scheme": op.scheme,
                        "reason": op.reason,
                        "operands": {str(i): _tensor(t) for i, t in op.operands.items()},
                        **({"inner": {n: _tensor(t) for n, t in op.inner.items()}} if op.inner else {}),
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
    """Return the form of a tensor as a JSON object; fields with their default are left out."""
    fields: dict[str, Any] = {"dtype": plan.dtype.short}
    if plan.scale:
        fields["scale"] = _one_or_list([float(str(np.float32(s))) for s in plan.scale])
        fields["zero_point"] = _one_or_list(plan.zero_point)
    for name in ("axis", "block", "narrow", "rounds"):
        if getattr(plan, name):
            fields[name] = getattr(plan, name)
    return {**fields, "reason": plan.reason}


def _one_or_list(numbers: Sequence[Any]) -> Any:
    """Return the number if there is only one, else the list."""
    return numbers[0] if len(numbers) == 1 else list(numbers)


def _decoded(tree: Mapping[str, Any]) -> Plan:
    inputs, outputs = (_dtype(tree[side]) if tree.get(side) else None for side in ("inputs", "outputs"))
    graphs = [_graph_plan(graph) for graph in tree["graphs"]]
    return Plan(tree["scheme"], graphs, inputs, outputs, Preparation(**tree.get("preparation", {})))


def _graph_plan(graph: Mapping[str, Any]) -> GraphPlan:
    """Return the plan of the JSON object of a graph."""
    plan = GraphPlan()
    for name, fields in graph["tensors"].items():
        plan.tensors[name] = _tensor_plan(fields, f"%{name}")
    for name, op in graph["operators"].items():
        operands = op.get("operands", {}).items()
        forms = {int(i): _tensor_plan(fields, f"operand {i} of %{name}") for i, fields in operands}
        named = op.get("inner", {}).items()
        inner = {n: _tensor_plan(fields, f"{n} inside of %{name}") for n, fields in named}
        plan.operators[name] = OperatorPlan(op["code"], op["scheme"], op.get("reason", ""), forms, inner)
    for name, constant in graph.get("constants", {}).items():
        plan.constants[name] = _array(constant, name)
    return plan


def _array(tree: Mapping[str, Any], name: str) -> Array:
    try:
        array: Array = np.asarray(tree["data"], tree["dtype"]).reshape(tree["shape"])
        return array
    except (ValueError, OverflowError) as error:
        raise FormatError(f"constant %{name}: {error}") from None


def _tensor_plan(tree: Mapping[str, Any], where: str) -> TensorPlan:
    """Return the form of one tensor; raise FormatError, which begins with ``where``, if it is wrong."""
    try:
        scale, zero_point = (np.atleast_1d(tree.get(name, [])) for name in ("scale", "zero_point"))
        with np.errstate(over="ignore"):  # infinite scales are refused when the plan is applied
            scales = tuple(scale.astype(np.float32).tolist())
        return TensorPlan(
            _dtype(tree["dtype"]),
            scales,
            tuple(int(z) for z in zero_point.tolist()),
            int(tree.get("axis", 0)),
            int(tree.get("block", 0)),
            bool(tree.get("narrow", False)),
            str(tree.get("reason", "")),
            bool(tree.get("rounds", False)),
        )
    except KeyError as error:
        raise FormatError(f"{where} has no {error}") from None
    except (ValueError, TypeError, AttributeError) as error:
        raise FormatError(f"{where}: {error}") from None


def _dtype(name: str) -> DType:
    if name not in BY_SHORT:
        raise ValueError(f"no dtype is named {name}{did_you_mean(str(name), BY_SHORT)}")
    return BY_SHORT[name]
