# SPDX-License-Identifier: Apache-2.0
"""Fields of the schema that a text states, with values of wrong types: the error names the field."""

from __future__ import annotations

import re

import pytest

import circlekit
from circlekit.errors import CirclekitError, ModelError, UnsupportedError
from circlekit.io.schema import table
from circlekit.io.write.save import to_bytes

OPAQUE = "graph main(%x: f32[4]) -> %y {{ %y = Opaque(%x) {{{}}} : f32[4] }}"
OP = "graph main(%x: f32[4]) -> %y {{ %y = Softmax(%x) {{extra: {{{}}}}} }}"
VALUE = "graph main(%x: f32[4] extra({})) -> %y {{ %y = Neg(%x) }}"
GRAPH = "graph main(%x: f32[4]) -> %y {{ %y = Neg(%x) extra {{{}}} }}"
MODEL = "extra {{{}}} graph main(%x: f32[4]) -> %y {{ %y = Neg(%x) }}"
NO_TABLE = "expected the name of an options table under the key '', got"


@pytest.mark.parametrize(
    ("text", "fields", "message"),
    [
        (OPAQUE, 'code: "STABLEHLO_SORT", options: {dimension: 0}', f"{NO_TABLE} None"),
        (OPAQUE, 'code: "STABLEHLO_SORT", options: {"": "Nope"}', f"{NO_TABLE} 'Nope'"),
        (OPAQUE, 'code: "STABLEHLO_SORT", options: {"": 5}', f"{NO_TABLE} 5"),
        (
            OPAQUE,
            'code: "STABLEHLO_CASE", options: {"": "StablehloCaseOptions", branch_subgraph_indices: "abc"}',
            "StablehloCaseOptions.branch_subgraph_indices: expected a list, got 'abc'",
        ),
        (OP, "custom_options: 5", "Operator.custom_options: expected a list, got 5"),
        (OP, "intermediates: [5]", "intermediates in extra: expected a list of values, got [5]"),
        (OP, "stored_code: []", "stored_code in extra: expected int, got []"),
        (OP, "absent: 5", "absent in extra: expected list or tuple, got 5"),
        (VALUE, 'shape: "x"', "shape in extra: expected list or ndarray, got 'x'"),
        (VALUE, 'shape: ["x"]', "shape in extra: expected integers, got ['x']"),
        (VALUE, "sparsity: 5", "Tensor.sparsity: expected a table, got 5"),
        (VALUE, 'has_rank: "x"', "Tensor.has_rank: expected a number, got 'x'"),
        (VALUE, "variant_tensors: [5]", "Tensor.variant_tensors: expected a list of tables, got [5]"),
        (
            VALUE,
            "sparsity: {dim_metadata: [{array_segments: {values: [1]}}]}",
            "DimensionMetadata.array_segments: expected a table with its name under the key ''",
        ),
        (GRAPH, "unused: 5", "unused in extra: expected list, got 5"),
        (MODEL, "origin: 5", "origin in extra: expected Origin, got 5"),
    ],
)
def test_a_value_of_a_wrong_type_is_an_error(text: str, fields: str, message: str) -> None:
    model = circlekit.parse(text.format(fields))
    with pytest.raises(ModelError, match=re.escape(message)):
        to_bytes(model, "circle")


def test_custom_options_may_be_absent_and_unknown_codes_are_numbers() -> None:
    model = circlekit.parse(OPAQUE.format('code: "CUSTOM", custom_code: "x", extra: {far_options: true}'))
    assert circlekit.load(to_bytes(model, "circle")).main.ops[0].code == "CUSTOM"
    model = circlekit.parse(OPAQUE.format('code: "UNKNOWN_x"'))
    with pytest.raises(UnsupportedError, match=r"\.circle has no operator UNKNOWN_x"):
        to_bytes(model, "circle")


@pytest.mark.parametrize("text", [OP, VALUE, GRAPH])
@pytest.mark.parametrize(
    "value", ["5", "1.5", '"x"', "true", "[]", "[5]", '["x"]', "{}", "{a: 5}", '{"": "x"}']
)
def test_any_value_of_any_field_is_saved_or_refused(text: str, value: str) -> None:
    """The fields: those of Operator, Tensor and SubGraph, and the keys of ``extra`` that are not fields."""
    name = {OP: "Operator", VALUE: "Tensor", GRAPH: "SubGraph"}[text]
    own = {"options", "no_options", "misfit", "stored_code", "stored_name", "stored_data", "unused"}
    for field in {*table(name, "circle").by_name, *own}:
        model = circlekit.parse(text.format(f"{field}: {value}"))
        try:
            to_bytes(model, "circle")
        except CirclekitError:  # any other exception fails the test
            continue
