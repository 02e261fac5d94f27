# SPDX-License-Identifier: Apache-2.0
"""Matrix products in forms that the runtime lacks, and sums that become matrix products."""

from __future__ import annotations

import re

import pytest

from circlekit.interp.interpreter import run
from circlekit.ir.model_equality import difference
from circlekit.ir.text import parse_model
from circlekit.passes.engine.legalize import legalize
from tests.passes.kit import assert_close, make_input
from tests.passes.legal.made_up_runtimes import check, runtime


@pytest.mark.parametrize(
    ("attributes", "axis", "ops"),
    [
        ("", -1, "Reshape FullyConnected Reshape"),
        ("reverse: true", 3, "Reshape FullyConnected Reshape"),
        ("exclusive: true", 1, "Transpose Reshape FullyConnected Reshape Transpose"),
        ("exclusive: true, reverse: true", 2, "Transpose Reshape FullyConnected Reshape Transpose"),
    ],
)
def test_cumulative_sum_becomes_a_matrix_product(attributes: str, axis: int, ops: str) -> None:
    check(f"%y = Cumsum(%x, {axis}) {{{attributes}}}", runtime("CUMSUM"), ops)


@pytest.mark.parametrize(
    ("shape", "axis"),
    [("[]", "%a = const i32[] 0"), ("[2,3]", "%a = const i32[] 7"), ("[2,3]", "%a = const i32[0] []")],
)
def test_a_cumulative_sum_over_no_axis_of_its_operand_stays(shape: str, axis: str) -> None:
    """A file may have an operator that breaks its shape rule."""
    model = parse_model(f"graph main(%x: f32{shape}) -> %y {{ {axis} %y = Cumsum(%x, %a) : f32{shape} }}")
    assert difference(legalize(model, "circle", targets=[runtime("CUMSUM")]), model) is None


@pytest.mark.parametrize("adjoint", ["", " {adj_x: true}", " {adj_y: true}"])
def test_matrix_products(adjoint: str) -> None:
    forms = {"BATCH_MATMUL": {"f32,f32:f32": {"rank": 3, "computed": ["x"]}}}
    body = f"%s = const f32[5,5] gaussian(0, 1)\n%y = BatchMatMul(%s, %x){adjoint}"
    check(body, runtime(forms=forms), "BatchMatMul Transpose", shape="3,5,5")
    body = f"%z = Tanh(%x)\n%y = BatchMatMul(%x, %z){adjoint}"
    check(body, runtime(forms=forms), "Tanh Reshape Reshape BatchMatMul Reshape", shape="2,1,2,5,5")
    check(body, runtime(), "Tanh BatchMatMul", shape="2,1,2,5,5")
    body = f"%w = const f32[2,1,2,5,5] gaussian(0, 1)\n%y = BatchMatMul(%x, %w){adjoint}"
    check(body, runtime(forms=forms), "Reshape BatchMatMul Reshape", shape="2,1,2,5,5")


@pytest.mark.parametrize(
    ("x", "y", "ops"),
    [
        ("const f32[4,5] gaussian(0, 1)", "f32[3,5,6]", "BatchMatMul Transpose"),
        ("const f32[4,5] gaussian(0, 1)", "f32[?,5,6]", "BatchMatMul"),
        ("const f32[4,5] gaussian(0, 1)", "const f32[3,5,6] gaussian(0, 1)", "BatchMatMul"),
        ("const i8[4,5] quant(scale: 0.5) constant(1)", "i8[3,5,6] quant(scale: 0.5)", "BatchMatMul"),
    ],
)
def test_only_a_constant_of_f32_becomes_the_second_operand(x: str, y: str, ops: str) -> None:
    forms = {"BATCH_MATMUL": {key: {"computed": ["x"]} for key in ("f32,f32:f32", "i8q,i8q:i8q")}}
    given = [f"%{name}: {kind}" for name, kind in (("x", x), ("y", y)) if not kind.startswith("const")]
    constants = "".join(f"%{n} = {kind}\n" for n, kind in (("x", x), ("y", y)) if kind.startswith("const"))
    result = "" if x.startswith("const f32") else " : i8[3,4,6] quant(scale: 9.0)"
    model = parse_model(
        f"graph main({', '.join(given)}) -> %z {{ {constants} %z = BatchMatMul(%x, %y){result} }}"
    )
    legal = legalize(model, "circle", targets=[runtime(forms=forms)])
    assert [type(op).__name__ for op in legal.main] == ops.split()


def test_computed_operands_do_not_change_places() -> None:
    forms = {"BATCH_MATMUL": {"f32,f32:f32": {"values": {"adj_x": [False]}}}}
    body = "%z = Tanh(%x)\n%y = BatchMatMul(%x, %z) {adj_x: true, adj_y: true}"
    check(body, runtime(forms=forms), "Tanh BatchMatMul", shape="3,5,5")
    body = "%s = const f32[5,5] gaussian(0, 1)\n%y = BatchMatMul(%s, %x) {adj_x: true, adj_y: true}"
    check(body, runtime(forms=forms), "BatchMatMul Transpose", shape="3,5,5")


@pytest.mark.parametrize(
    ("x", "y", "merged"),
    [
        ("2,3,2,2,3,4", "2,3,2,2,4,5", "24,3,5"),
        ("?,2,2,2,3,4", "?,2,2,2,4,5", "?,8,3,5"),
        ("2,2,2,2,?,4", "2,2,2,2,4,5", "16,?,5"),
        ("?,2,2,2,3,4", "4,5", "?,3,5"),
        ("1,1,2,2,3,4", "?,2,2,2,4,5", "?,4,3,5"),
        ("1,2,3,1,2,3,4", "1,2,3,2,1,4,5", "6,2,2,3,5"),
        ("2,1,2,1,3,4", "1,2,1,2,4,5", None),  # neighboring dimensions broadcast differently
        ("?,2,2,2,?,4", "?,2,2,2,4,5", None),  # a reshape computes only one size
        ("?,2,?,2,3,4", "1,2,1,2,4,5", None),
    ],
)
def test_batches_of_matrix_products_are_merged(x: str, y: str, merged: str | None) -> None:
    """``merged``: the shape of the result of the new product; None if merging does not reach rank 5."""
    target = runtime(forms={"BATCH_MATMUL": {"f32,f32:f32": {"rank": 5}}})
    model = parse_model(f"graph main(%x: f32[{x}], %y: f32[{y}]) -> %z {{ %z = BatchMatMul(%x, %y) }}")
    legal = legalize(model, "circle", targets=[target])
    (op,) = (op for op in legal.main if op.code == "BATCH_MATMUL")
    assert (target.refusal(op) is None) == (merged is not None)
    if merged is not None:
        assert op.output.shape == tuple(None if size == "?" else int(size) for size in merged.split(","))
        inputs = [make_input(value, "normal") for value in model.main.inputs]
        assert_close(run(legal, inputs), run(model, inputs), "normal inputs")


@pytest.mark.parametrize(
    ("form", "x", "y", "is_merged"),
    [
        ("i8q,i8q:i8q", "i8 quant(scale: 0.5)", "i8 quant(scale: 0.25)", True),
        ("i8q,i8qc:i8q", "i8 quant(scale: 0.5)", "i8 quant(scale: [0.25, 0.5], axis: 5)", False),
        ("f32,i8q:f32", "f32", "i8 quant(scale: 0.25)", False),
    ],
)
def test_batches_whose_scales_depend_on_them_are_not_merged(
    form: str, x: str, y: str, is_merged: bool
) -> None:
    left, right, result = (
        re.sub(r"^\w+", rf"\g<0>[2,2,2,2,{sizes}]", kind)
        for kind, sizes in ((x, "3,4"), (y, "4,2"), (x, "3,2"))
    )
    product = f"%y = const {right} constant(1)\n%z = BatchMatMul(%x, %y) : {result}"
    model = parse_model(f"graph main(%x: {left}) -> %z {{\n{product}\n}}")
    target = runtime(forms={"BATCH_MATMUL": {form: {"rank": 5}}})
    assert (len(legalize(model, "circle", targets=[target]).main) > 1) == is_merged
