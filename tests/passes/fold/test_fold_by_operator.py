# SPDX-License-Identifier: Apache-2.0
"""Each fold_* pass folds its own operator, and no other."""

from __future__ import annotations

import pytest

from circlekit.ir.text import parse_model
from circlekit.passes.engine.explain import explain_pass
from tests.passes.kit import check_pass

ADD_V2 = '{code: "CUSTOM", custom_code: "AddV2"}'
CASES = {
    "fold_add_v2": f"%k = Opaque([1, 2, 3], [4, 5, 6]) {ADD_V2} : i32[3]\n%r = Cast(%k) : f32[3]",
    "fold_cast": "%r = Cast([1, 2, 3]) : f32[3]",
    "fold_dequantize": "%k = const i8[3] quant(scale: 0.5) [1, 2, -3]\n%r = Dequantize(%k) : f32[3]",
    "fold_dwconv": "%r = DepthwiseConv2D([[[[1.0,2,3]]]], [[[[1.0,2,3]]]], [1.0,1,1]) {act: RELU6}",
    "fold_fully_connected": "%r = FullyConnected([[1.0,2]], [[1.0,2],[3,4],[5,-6]]) {act: RELU}",
    "fold_gather": "%r = Gather([[1.0,2,3],[4,5,6]], [1]) {axis: 0}",
    "fold_mul": "%r = Mul([[1.0],[-2]], [1.0,2,3]) {act: RELU}",
    "fold_reshape": "%r = Reshape([1.0,2,3], [1,3])",
    "fold_shape": "%k = Shape(%x) {out_type: i32}\n%r = Cast(%k) : f32[2]",
    "fold_squeeze": "%r = Squeeze([[[1.0,2,3]]])",
}
LEFT = {"fold_add_v2": ["Cast"], "fold_shape": ["Cast"]}
"""The operators that a pass leaves in its own case, besides the last Add; other passes leave none."""


def model(lines: str) -> str:
    shape = "[2,2]" if "%k = Shape" in lines else "[1,3]"
    return f"graph main(%x: f32{shape}) -> %y {{\n{lines}\n%y = Add(%x, %r)\n}}"


@pytest.mark.parametrize("name", CASES)
def test_folds_its_operator(name: str) -> None:
    check_pass(model(CASES[name]), name, [*LEFT.get(name, ()), "Add"])
    check_pass(model(CASES[name]), "fold_constants", ["Add"])


@pytest.mark.parametrize("name", [*CASES, "fold_densify", "fold_sparse_to_dense"])
def test_folds_no_other(name: str) -> None:
    for other, lines in CASES.items():
        if name != other:
            kinds = {"fold_add_v2": ["OpaqueOp", "Cast"], "fold_shape": ["Shape", "Cast"]}
            first = lines.split("%r = ")[1].split("(")[0]
            check_pass(model(lines), name, [*kinds.get(other, [first]), "Add"])


def test_sum_of_computed_values_stays() -> None:
    lines = f"%k = Opaque(%x, %x) {ADD_V2} : f32[1,3]\n%r = Neg(%k)"
    check_pass(model(lines), "fold_add_v2", ["OpaqueOp", "Neg", "Add"])


@pytest.mark.parametrize(
    ("name", "body", "sentences"),
    [
        ("fold_mul", "%a = Add(1.0, 2.0)\n%y = Add(%a, %x)", ["%a: expected MUL, got ADD"]),
        ("fold_mul", "%a = Add(1.0, 2.0)\n%y = Mul(%a, %x)", ["%y: reads %a, which is not constant"]),
        ("fold_constants", "%y = Neg(%x)", ["%y: reads %x, which is not constant"]),
        (  # %n is no obstacle: it has no elements
            "fold_constants",
            "%n = Slice(%x, [0, 0], [0, 2]) : f32[0,2]\n%y = Concatenation(%n, %x) {axis: 0}",
            ["%n: reads %x, which is not constant", "%y: reads %x, which is not constant"],
        ),
        (
            "fold_constants",
            "%r = Relu(%x) : f32[2,?]\n%y = Rank(%r)",
            ["%r: reads %x, which is not constant", "%y: reads %r, whose shape is not known"],
        ),
        ("fold_constants", "%y = RandomUniform([2, 2])", ["%y: is not pure"]),
        (
            "fold_constants",
            '%y = Opaque() {code: "CUSTOM", custom_code: "Erf"} : f32[2]',
            ["%y: has no operands"],
        ),
        ("fold_constants", "%y = Neg(3.0)", []),
    ],
)
def test_what_is_missing_is_explained(name: str, body: str, sentences: list[str]) -> None:
    found = explain_pass(parse_model(f"graph main(%x: f32[2,2]) -> %y {{ {body} }}"), name, "circle")
    assert [refusal.sentence for refusal in found] == sentences


SPARSE = """graph main(%x: f32[2,4]) -> %y {
  %sparse = const f32[2,4] extra(sparsity: {
    traversal_order: array(i32, [0, 1]), block_map: array(i32, []),
    dim_metadata: [
      {dense_size: 2},
      {
        format: "SPARSE_CSR",
        array_segments: {"": "Int32Vector", values: array(i32, [0, 1, 3])},
        array_indices: {"": "Int32Vector", values: array(i32, [1, 0, 3])}
      }
    ]
  }) raw("AADAPwAAAMAAAAA/")
  %dense = Densify(%sparse)
  %y = Mul(%x, %dense)
}"""


def test_fold_densify() -> None:
    check_pass(SPARSE, "fold_densify", ["Mul"])
    check_pass(SPARSE, "fold_constants", ["Mul"])
