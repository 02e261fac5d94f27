# SPDX-License-Identifier: Apache-2.0
"""Declarations against the schemas of LiteRT and circle (as their Python packages have them), and traits."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as litert
from circle_schema import circle

import circlekit.ops  # noqa: F401  # declares the operators
from circlekit.ir.dtypes import DType, boolean, f32, i32
from circlekit.ir.enums import Named
from circlekit.ir.op import REGISTRY, Attribute, Op
from circlekit.ir.value import Value

CODES = sorted(REGISTRY)
TFLITE_CODES = [c for c in CODES if "tflite" in REGISTRY[c].formats]
WITH_OPTIONS = [c for c in CODES if REGISTRY[c].options is not None]


AUTHORING = {
    **dict.fromkeys(
        ["stride_w", "stride_h", "stride_d", "filter_width", "filter_height", "depth_multiplier"], 1
    ),
    "beta": 1.0,
}
"""{field: default in the text form}; the default in the schema is 0, which is hardly ever meant."""

CIRCLE_NAMES = {"adj_x": "adjoint_lhs", "adj_y": "adjoint_rhs"}
"""Fields that have another name in circle than in TFLite."""

NOT_IN_CIRCLE = ["quant_spec is no field"]
"""Sentences of ``differing`` about fields that only TFLite has."""


def camel(field: str) -> str:
    return re.sub(r"_(\w)", lambda m: m.group(1).upper(), field)


def circle_options(name: str) -> Any:
    """An options object of circle's own schema code, every field at its default."""
    return getattr(getattr(circle, name), name + "T")()


def plain(attribute: Attribute) -> Any:
    """The default as the schema's code holds it: enums are numbers, a graph is index 0."""
    default = attribute.default
    if attribute.is_graph:
        return 0
    if isinstance(default, DType):
        return getattr(litert.TensorType, default.name)
    if isinstance(default, Named):
        kind = {"Activation": "ActivationFunctionType", "WeightsFormat": "FullyConnectedOptionsWeightsFormat"}
        name = kind.get(type(default).__name__, type(default).__name__)
        table = getattr(litert, name, None) or getattr(getattr(circle, name), name)
        return getattr(table, default.name)
    return default


def differing(op: type[Op], options: Any, renamed: dict[str, str] | None = None) -> list[str]:
    """Return a sentence for each attribute whose field is missing in ``options``, or has another default.

    ``renamed``: {field: name in ``options``}.
    """
    found = []
    for attribute in op.attributes:
        name = camel((renamed or {}).get(attribute.field, attribute.field))
        if not hasattr(options, name):
            found.append(f"{attribute.field} is no field")
        elif attribute.field in AUTHORING:
            assert getattr(options, name) == 0
            if plain(attribute) not in (0, AUTHORING[attribute.field]):
                found.append(f"{attribute.field} is {plain(attribute)!r}")
        elif getattr(options, name) != plain(attribute):
            found.append(
                f"{attribute.field} is {plain(attribute)!r}, {getattr(options, name)!r} in the schema"
            )
    return found


def test_codes_are_in_the_schemas() -> None:
    for code in TFLITE_CODES:
        assert isinstance(getattr(litert.BuiltinOperator, code, None), int), f"LiteRT has no {code}"
    for code in CODES:
        assert isinstance(getattr(circle.BuiltinOperator.BuiltinOperator, code, None), int), code


def test_attributes_are_those_of_circle() -> None:
    faults = {}
    for code in WITH_OPTIONS:
        op = REGISTRY[code]
        assert op.options is not None
        unions = (circle.BuiltinOptions.BuiltinOptions, circle.BuiltinOptions2.BuiltinOptions2)
        assert any(isinstance(getattr(u, op.options, None), int) for u in unions), op.options
        found = differing(op, circle_options(op.options), CIRCLE_NAMES)
        faults[code] = [f for f in found if f not in NOT_IN_CIRCLE]
    assert {code: found for code, found in faults.items() if found} == {}


def test_attributes_are_those_of_litert_and_complete() -> None:
    faults = {}
    for code in set(WITH_OPTIONS) & set(TFLITE_CODES):
        op = REGISTRY[code]
        options = getattr(litert, f"{op.options}T")()
        missing = set(vars(options)) - {camel(a.field) for a in op.attributes}
        faults[code] = differing(op, options) + [f"{field} is not declared" for field in sorted(missing)]
    assert {code: found for code, found in faults.items() if found} == {}


def test_operators_without_options_have_no_attributes() -> None:
    for code in set(CODES) - set(WITH_OPTIONS):
        assert REGISTRY[code].attributes == (), code
        guesses = {REGISTRY[code].__name__ + "Options", code.title().replace("_", "") + "Options"}
        assert not [g for g in guesses if hasattr(litert.BuiltinOptions, g)], code


def test_classes_are_documented_and_named_after_the_code() -> None:
    for code in CODES:
        op = REGISTRY[code]
        assert op.__doc__, f"{op.__name__} has no docstring: say what it computes, and the source"
        assert op.__name__.lower() == code.replace("_", "").lower()


def test_operands_declare_their_dtypes() -> None:
    bare = [
        f"{REGISTRY[code].__name__}.{o.name}"
        for code in CODES
        for o in REGISTRY[code].operands
        if not o.dtypes
    ]
    assert not bare, (
        f"{', '.join(bare)}: declare the dtypes that kernels take, as in operand(f32, i8); "
        "circlekit.ops.operand_dtypes has groups of them"
    )


# -- traits ------------------------------------------------------------------------------------


def test_layout_operands_exist() -> None:
    for code in CODES:
        op = REGISTRY[code]
        assert set(op.layout_operands) <= {o.name for o in op.operands}, code


def test_stateful_operators_are_not_pure() -> None:
    stateful = {code for code in CODES if REGISTRY[code].stateful}
    assert not [code for code in stateful if REGISTRY[code].pure]
    assert {"RANDOM_UNIFORM", "READ_VARIABLE", "HASHTABLE_FIND", "UNIDIRECTIONAL_SEQUENCE_LSTM"} <= stateful


def test_operands_of_commutative_operators_may_be_swapped() -> None:
    commutative = [code for code in CODES if REGISTRY[code].commutative]
    assert {"ADD", "MUL", "MAXIMUM", "EQUAL", "LOGICAL_AND"} <= set(commutative)
    for code in commutative:
        op = REGISTRY[code]
        dtype = op.operands[0].dtypes[0]
        a, b = (np.array(x, dtype.numpy) for x in ([3, 1, 4, 1], [1, 5, 1, 1]))
        if code == "BROADCAST_ARGS":
            b = np.array([3, 1, 4, 5], dtype.numpy)
        node = op(Value("a", dtype, a.shape, a), Value("b", dtype, b.shape, b))
        np.testing.assert_array_equal(node.kernel(a, b), node.kernel(b, a), err_msg=code)


def test_elementwise_operators_work_on_each_element_alone() -> None:
    elementwise = [code for code in CODES if REGISTRY[code].elementwise]
    assert {"RELU", "ADD", "LESS", "ABS", "FLOOR_MOD", "LOGICAL_NOT"} <= set(elementwise)
    for code in elementwise:
        op: Any = REGISTRY[code]
        kinds = {f32: "f", boolean: "b", i32: "i", DType.COMPLEX64: "c"}
        dtype = next(d for d, kind in kinds.items() if d in op.operands[0].dtypes and kind in op.kinds)
        arrays = [np.array([[3, 1, 0], [2, 5, 1]]) + n for n, _ in enumerate(op.operands)]
        arrays = [a.astype(dtype.numpy) for a in arrays]
        node = op(*(Value(f"v{n}", dtype, a.shape) for n, a in enumerate(arrays)))
        if code == "FAKE_QUANT":
            node.num_bits = 8  # the schema's default is 0, which no kernel takes
        with np.errstate(all="ignore"):
            together = node.kernel(*arrays)
            alone = [node.kernel(*(a[i : i + 1, j] for a in arrays)) for i in range(2) for j in range(3)]
        np.testing.assert_allclose(together.reshape(-1), np.concatenate(alone), rtol=1e-6, err_msg=code)
