# SPDX-License-Identifier: Apache-2.0
"""The plan of a quantization: dtype, scale and zero point of every tensor, with a reason for every choice.

``choose`` makes a plan, techniques change it, ``apply`` quantizes a model by it.  A plan can be saved as a
JSON file and edited by hand.  It identifies a tensor by its name, an operator by the name of its first result
(``key_of``).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from circlekit.errors import FormatError, did_you_mean, shown
from circlekit.io.file_map import map_file
from circlekit.io.parse_json import parse_json
from circlekit.io.write.file_writer import write_file
from circlekit.ir.dtypes import BY_SHORT, DType
from circlekit.ir.op import Op
from circlekit.ir.text.literal_printing import shortest_float32
from circlekit.ir.value import BLOCKWISE, Array, Quantization, Value
from circlekit.quant.json_fields import flag_field, integer_field, list_field, object_field, text_field
from circlekit.quant.readable_json import readable_json
from circlekit.quant.scheme import NO_SCHEME

FilePath = str | os.PathLike[str]


@dataclass(frozen=True)
class TensorForm:
    """The form of a tensor: ``real = scale * (stored - zero_point)``.

    ``dtype``: the dtype of the stored numbers.
    ``scale``, ``zero_point``: one element, or one for each index of ``axis``; both are empty for floats.
    ``block``: the number of neighboring elements of a row (last axis) that share a scale; 0: no blocks.  With
    blocks, ``scale`` lists the blocks of row 0, then those of row 1, and so on; ``zero_point`` is empty.
    ``narrow``: the lowest integer is not used.
    ``reason``: why the form was chosen.
    ``rounds``: the model was trained with fake quantization of the tensor to this form.  So every operator,
    even one that stays float, reads numbers that were rounded to this form.
    """

    dtype: DType
    scale: tuple[float, ...] = ()
    zero_point: tuple[int, ...] = ()
    axis: int = 0
    block: int = 0
    narrow: bool = False
    reason: str = ""
    rounds: bool = False

    def same_as(self, other: TensorForm | None) -> bool:
        """Return whether both forms store the same data for the same numbers; False for None."""
        return other is not None and self.key == other.key

    @property
    def key(self) -> tuple[Any, ...]:
        """The fields that determine the stored data: all but ``reason`` and ``rounds``."""
        axis = self.axis if len(self.scale) > 1 else 0
        return self.dtype, self.scale, self.zero_point, axis, self.block, self.narrow

    def because(self, reason: str) -> TensorForm:
        """Return a copy with another reason."""
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
        """Return this form as the quantization of a tensor of the IR; None for floats.

        ``name``: the name of the tensor.  The scales of blocks are a constant with the name ``NAME_scales``.
        """
        if self.block:
            scales = Value.constant(f"{name}_scales", self.scales.astype(np.float16))
            # "": the name of the table; -1: there is no tensor of zero points
            details = {"": BLOCKWISE, "scales": scales, "zero_points": -1, "block_size": self.block}
            return Quantization(details=details)
        return Quantization(self.scales, self.zero_points, self.axis) if self.scale else None


@dataclass
class OperatorPlan:
    """The plan of one operator.

    ``code``: the operator's name in the schema, such as ``CONV_2D``.
    ``scheme``: the name of its scheme; ``float`` if it stays float.  ``reason``: why it has that scheme.
    ``operands``: forms by index of the operand: those of all constants that are quantized, and of all states
    (variables of a recurrent operator).  Any other operand is listed only if the operator does not read it in
    its stored form (``GraphPlan.tensors``).
    ``inner``: the forms of tensors inside the operator (an LSTM has some) by name, in the order of
    ``Op.inner_tensors``.
    """

    code: str
    scheme: str
    reason: str = ""
    operands: dict[int, TensorForm] = field(default_factory=dict)
    inner: dict[str, TensorForm] = field(default_factory=dict)

    @property
    def is_float(self) -> bool:
        """Whether the operator stays float."""
        return self.scheme == NO_SCHEME


@dataclass
class GraphPlan:
    """The plan of one graph.

    ``tensors``: the stored forms of tensors that are not constant, by name.
    ``operators``: the plans of operators, by ``key_of``.
    ``constants``: the stored numbers of some constants, by name: integers, or float32 numbers of a bias that
    stays float.  Techniques such as GPTQ choose them; all other constants are rounded to nearest.
    """

    tensors: dict[str, TensorForm] = field(default_factory=dict)
    operators: dict[str, OperatorPlan] = field(default_factory=dict)
    constants: dict[str, Array] = field(default_factory=dict)


@dataclass
class Preparation:
    """The changes of the float model that must be made before its plan is applied, in this order.

    ``passes``: the name of a pipeline, or names of passes.
    ``target``: the runtime for which the model is then legalized.
    ``is_calibrated``: the ranges come from an earlier calibration, which has none for new tensors.  So passes
    that make new tensors are left out.
    ``techniques``: changes of constants, such as equalization.  Each is an object with the name of a
    ``technique`` and its arguments (see ``techniques.replay``).
    """

    passes: str | list[str] = "O1"
    target: str = "litert"
    is_calibrated: bool = False
    techniques: list[dict[str, Any]] = field(default_factory=list)


NUMBER_DTYPES = frozenset(str(t.numpy) for t in DType if t.numpy is not None and t.numpy.kind in "if")
"""The numpy names of the dtypes that the constants of a plan may have: signed integers and floats."""


@dataclass
class Plan:
    """The plan of a model.

    ``scheme``: the name of the default scheme.  ``graphs``: the plans of the graphs, in their order.
    ``inputs``, ``outputs``: None if the inputs or outputs stay float, else the dtype of the default scheme.
    In the second case they are stored in their forms in ``graphs``, which may have another dtype if an
    operator has another scheme.
    ``preparation``: what to do with the float model first.
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
        """Write the plan as a JSON file, which a person can read and edit; raise FileError if that fails."""
        write_file(path, [self.to_json().encode()])

    @staticmethod
    def load(path: FilePath) -> Plan:
        """Return the plan in the JSON file at ``path``, which ``save`` wrote.

        Raise FileError if the file cannot be read; FormatError if it is not a plan; LimitError if ``path`` is
        a pipe with more bytes than the memory limit.
        """
        try:
            return Plan.from_json(bytes(map_file(path)).decode(errors="replace"))
        except FormatError as error:
            raise FormatError(f"{os.fspath(path)}: {error}") from None

    def to_json(self) -> str:
        """Return the plan as JSON text, which ``from_json`` reads."""
        return readable_json(_encoded(self))

    @staticmethod
    def from_json(text: str) -> Plan:
        """Return the plan in a JSON text; raise FormatError if the text is not a plan."""
        try:
            return _decoded(parse_json(text))
        except KeyError as error:
            raise FormatError(f"not a plan of a quantization: it has no {error}") from None
        except (ValueError, TypeError, AttributeError) as error:
            raise FormatError(f"not a plan of a quantization: {error}") from None


def key_of(op: Op) -> str:
    """Return the name by which plans identify ``op``: that of its first result.

    An operator without results gets a name made from its code and its operands.
    """
    return op.results[0].name if op.results else f"{op.code} of {', '.join(v.name for v in op.inputs if v)}"


# -- JSON --------------------------------------------------------------------------------------


def _encoded(plan: Plan) -> dict[str, Any]:
    """Return ``plan`` as a JSON object."""
    return {
        "plan": 1,  # says what the document is, and the version of its format; nothing reads it yet
        "scheme": plan.scheme,
        "inputs": plan.inputs.short if plan.inputs else None,
        "outputs": plan.outputs.short if plan.outputs else None,
        "preparation": vars(plan.preparation),
        "graphs": [
            {
                "tensors": {name: _encoded_form(form) for name, form in graph.tensors.items()},
                "operators": {name: _encoded_operator(op) for name, op in graph.operators.items()},
                "constants": {
                    name: {"dtype": str(a.dtype), "shape": list(a.shape), "data": a.reshape(-1).tolist()}
                    for name, a in graph.constants.items()
                },
            }
            for graph in plan.graphs
        ],
    }


def _encoded_operator(op: OperatorPlan) -> dict[str, Any]:
    """Return the plan of an operator as a JSON object, without ``inner`` if there are no inner tensors."""
    fields: dict[str, Any] = {
        "code": op.code,
        "scheme": op.scheme,
        "reason": op.reason,
        "operands": {str(i): _encoded_form(form) for i, form in op.operands.items()},
    }
    if op.inner:
        fields["inner"] = {name: _encoded_form(form) for name, form in op.inner.items()}
    return fields


def _encoded_form(form: TensorForm) -> dict[str, Any]:
    """Return ``form`` as a JSON object; most fields that have their default are left out."""
    fields: dict[str, Any] = {"dtype": form.dtype.short}
    if form.scale:
        # the fewest digits that give the same float32 number
        fields["scale"] = _one_or_list([shortest_float32(s) for s in form.scale])
        fields["zero_point"] = _one_or_list(form.zero_point)
    for name in ("axis", "block", "narrow", "rounds"):
        if getattr(form, name):
            fields[name] = getattr(form, name)
    return {**fields, "reason": form.reason}


def _one_or_list(numbers: Sequence[Any]) -> Any:
    """Return the number if there is exactly one, else a list of all."""
    return numbers[0] if len(numbers) == 1 else list(numbers)


def _decoded(tree: Mapping[str, Any]) -> Plan:
    """Return the plan in a JSON object; raise the errors that ``from_json`` converts."""
    object_field(tree, "a plan")
    inputs, outputs = (_dtype(text_field(tree[s], s)) if tree.get(s) else None for s in ("inputs", "outputs"))
    graphs = [_decoded_graph(object_field(g, "a graph")) for g in list_field(tree["graphs"], "graphs")]
    preparation = _decoded_preparation(object_field(tree.get("preparation", {}), "preparation"))
    return Plan(text_field(tree["scheme"], "scheme"), graphs, inputs, outputs, preparation)


def _decoded_preparation(tree: Mapping[str, Any]) -> Preparation:
    """Return the preparation in a JSON object; raise ValueError for an unknown or wrong field."""
    known = Preparation.__dataclass_fields__
    for name in tree:
        if name not in known:
            raise ValueError(f"preparation has no field {name}{did_you_mean(name, known)}")
    preparation = Preparation(**tree)
    passes, techniques = preparation.passes, preparation.techniques
    text_field(preparation.target, "target")
    for name in passes if isinstance(passes, list) else [passes]:
        text_field(name, "the name of a pass")
    flag_field(preparation.is_calibrated, "is_calibrated")
    for record in list_field(techniques, "techniques"):
        object_field(record, "a technique")
    return preparation


def _decoded_graph(graph: Mapping[str, Any]) -> GraphPlan:
    """Return the plan of one graph in a JSON object."""
    plan = GraphPlan()
    for name, fields in object_field(graph["tensors"], "tensors").items():
        plan.tensors[name] = _decoded_form(fields, f"%{name}")
    for name, op in object_field(graph["operators"], "operators").items():
        operands = object_field(
            object_field(op, f"operator %{name}").get("operands", {}), f"operands of %{name}"
        )
        if wrong := [i for i in operands if not i.isdecimal()]:
            raise ValueError(f"expected the index of an operand of %{name}, got {wrong[0]!r}")
        forms = {int(i): _decoded_form(form, f"operand {i} of %{name}") for i, form in operands.items()}
        named = object_field(op.get("inner", {}), f"inner tensors of %{name}").items()
        inner = {n: _decoded_form(fields, f"inner tensor {n} of %{name}") for n, fields in named}
        fields = {"code": op.get("code"), "scheme": op.get("scheme"), "reason": op.get("reason", "")}
        code, scheme, reason = (text_field(text, f"{field} of %{name}") for field, text in fields.items())
        plan.operators[name] = OperatorPlan(code, scheme, reason, forms, inner)
    for name, constant in object_field(graph.get("constants", {}), "constants").items():
        plan.constants[name] = _array(constant, name)
    return plan


def _array(tree: Mapping[str, Any], name: str) -> Array:
    """Return the numbers of the constant ``name``.

    Raise FormatError if a number does not fit the dtype (a fraction in integers, for example), or if the
    numbers are not as many as ``shape`` says.
    """
    try:
        dtype, data, shape = (object_field(tree, "a constant")[key] for key in ("dtype", "data", "shape"))
        if dtype not in NUMBER_DTYPES:
            raise ValueError(f"expected a dtype of signed integers or floats, got {dtype!r}")
        is_integer = np.dtype(dtype).kind == "i"
        kinds, limits = ({int}, np.iinfo(dtype)) if is_integer else ({int, float}, np.finfo(dtype))
        if not isinstance(data, list) or not {type(number) for number in data} <= kinds:
            raise ValueError(f"expected a list of {'integers' if is_integer else 'numbers'} as data")
        low, high = (end.item() if isinstance(end, np.generic) else end for end in (limits.min, limits.max))
        if not all(low <= number <= high for number in data):  # False for NaN
            raise ValueError(f"expected numbers from {low:.8g} to {high:.8g} as data for {dtype}")
        if not isinstance(shape, list) or any(integer_field(d, "a dimension of shape") < 0 for d in shape):
            raise ValueError(f"expected a list of dimensions of at least 0 as shape, got {shape!r}")
        return np.array(data, dtype).reshape(shape)
    except (ValueError, OverflowError) as error:
        raise FormatError(f"constant %{name}: {error}") from None


def _decoded_form(tree: Mapping[str, Any], where: str) -> TensorForm:
    """Return the form in a JSON object; raise FormatError, beginning with ``where``, for a wrong object."""
    try:
        scale, zero_points = (
            np.atleast_1d(object_field(tree, "a form").get("scale", [])),
            tree.get("zero_point", []),
        )
        zero_points = zero_points if isinstance(zero_points, list) else [zero_points]
        if scale.ndim > 1 or scale.dtype.kind not in "iufO":  # O: integers beyond 64 bits
            raise ValueError("expected a number or a list of numbers as scale")
        with np.errstate(over="ignore"):  # infinite scales are refused when the plan is applied
            scales = tuple(scale.astype(np.float32).tolist())
        return TensorForm(
            _dtype(text_field(tree["dtype"], "dtype")),
            scales,
            tuple(integer_field(zero_point, "zero_point") for zero_point in zero_points),
            integer_field(tree.get("axis", 0), "axis"),
            integer_field(tree.get("block", 0), "block"),
            flag_field(tree.get("narrow", False), "narrow"),
            text_field(tree.get("reason", ""), "reason"),
            flag_field(tree.get("rounds", False), "rounds"),
        )
    except KeyError as error:
        raise FormatError(f"{where} has no {error}") from None
    except (ValueError, TypeError, AttributeError, OverflowError) as error:
        raise FormatError(f"{where}: {error}") from None


def _dtype(name: str) -> DType:
    """Return the dtype with the short name ``name``, such as ``i8``; raise ValueError for other names."""
    if name not in BY_SHORT:
        raise ValueError(f"no dtype is named {shown(name)}{did_you_mean(name, BY_SHORT)}")
    return BY_SHORT[name]
