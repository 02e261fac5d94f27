# SPDX-License-Identifier: Apache-2.0
"""Every declaration against the schemas of LiteRT and of circle, read by other people's packages."""

from __future__ import annotations

import re
from typing import Any

import pytest
from ai_edge_litert import schema_py_generated as litert
from circle_schema import circle

import circlekit.ops  # noqa: F401  # declares the operators
from circlekit.ir.dtypes import DType
from circlekit.ir.enums import Named
from circlekit.ir.op import REGISTRY, Attribute, Op

CODES = sorted(REGISTRY)
TFLITE_CODES = [c for c in CODES if "tflite" in REGISTRY[c].formats]
WITH_OPTIONS = [c for c in CODES if REGISTRY[c].options is not None]


AUTHORING = {
    **dict.fromkeys(
        ["stride_w", "stride_h", "stride_d", "filter_width", "filter_height", "depth_multiplier"], 1
    ),
    "beta": 1.0,
}
"""Fields whose default in the schema, 0, is no valid value: what a text that does not mention them means."""

CIRCLE_NAMES = {"adj_x": "adjoint_lhs", "adj_y": "adjoint_rhs"}
"""Fields that circle calls otherwise than TFLite."""

NOT_IN_CIRCLE = ["quant_spec is no field"]


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
    """The attributes whose field is missing, or has another default."""
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


@pytest.mark.parametrize("code", TFLITE_CODES)
def test_code_is_one_of_litert(code: str) -> None:
    assert isinstance(getattr(litert.BuiltinOperator, code, None), int)


@pytest.mark.parametrize("code", CODES)
def test_code_is_one_of_circle(code: str) -> None:
    assert isinstance(getattr(circle.BuiltinOperator.BuiltinOperator, code, None), int)


@pytest.mark.parametrize("code", WITH_OPTIONS)
def test_attributes_are_those_of_circle(code: str) -> None:
    op = REGISTRY[code]
    assert op.options is not None
    assert isinstance(getattr(circle.BuiltinOptions.BuiltinOptions, op.options, None), int) or isinstance(
        getattr(circle.BuiltinOptions2.BuiltinOptions2, op.options, None), int
    )
    found = differing(op, circle_options(op.options), CIRCLE_NAMES)
    assert [f for f in found if f not in NOT_IN_CIRCLE] == []


@pytest.mark.parametrize("code", [c for c in WITH_OPTIONS if c in TFLITE_CODES])
def test_attributes_are_those_of_litert(code: str) -> None:
    op = REGISTRY[code]
    options = getattr(litert, f"{op.options}T")()
    assert differing(op, options) == []


@pytest.mark.parametrize("code", [c for c in TFLITE_CODES if c in WITH_OPTIONS])
def test_no_field_of_litert_is_forgotten(code: str) -> None:
    op = REGISTRY[code]
    options = getattr(litert, f"{op.options}T")()
    assert {camel(a.field) for a in op.attributes} == set(vars(options))


@pytest.mark.parametrize("code", sorted(set(CODES) - set(WITH_OPTIONS)))
def test_operators_without_options_have_no_attributes(code: str) -> None:
    assert REGISTRY[code].attributes == ()
    guesses = {REGISTRY[code].__name__ + "Options", code.title().replace("_", "") + "Options"}
    assert not [g for g in guesses if hasattr(litert.BuiltinOptions, g)]


@pytest.mark.parametrize("code", CODES)
def test_declarations_are_documented_and_named_after_the_code(code: str) -> None:
    op = REGISTRY[code]
    assert op.__doc__
    assert op.__name__.lower() == code.replace("_", "").lower()


@pytest.mark.parametrize("code", CODES)
def test_layout_operands_exist(code: str) -> None:
    op = REGISTRY[code]
    assert set(op.layout_operands) <= {o.name for o in op.operands}
