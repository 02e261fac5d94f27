# SPDX-License-Identifier: Apache-2.0
"""The tables of ONE's interpreter and of TensorFlow Lite for Microcontrollers, which are read from sources.

The oracles for the table of ONE's interpreter (luci) are ONE's own tests: what they run, it must allow.
"""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest

import circlekit
import circlekit.ops  # declares the operators
from circlekit.ir.declaration import DECLARATIONS
from circlekit.ir.dtypes import BY_SHORT
from circlekit.recipes.load import load_recipe
from circlekit.targets.target import TABLES, find_target
from tests.conftest import SHARED, without

ONE = SHARED / "peer/one"
LINES = (Path(__file__).with_name("one_value_tests.txt")).read_text().splitlines()
NAMES = " ".join(line for line in LINES if not line.startswith("#")).split()
RUN_BY_ONE = [path for path in ONE.glob("*Recipes/*/test.recipe") if path.parent.name in NAMES]
CIRCLE_ONLY = ["InstanceNorm_000", "InstanceNorm_001", "RmsNorm_000", "RoPE_000"]

needs_recipes = pytest.mark.skipif(not RUN_BY_ONE, reason=without("peer/one"))


def refusals(target: str, model: circlekit.Model) -> list[str]:
    return [why for op in model.ops() if (why := find_target(target).refusal(op))]


@needs_recipes
def test_luci_has_what_its_value_tests_run() -> None:
    circle_only = [ONE / "CircleRecipes" / name / "test.recipe" for name in CIRCLE_ONLY]
    wrong = {path.parent.name: refusals("luci", load_recipe(path)) for path in [*RUN_BY_ONE, *circle_only]}
    assert len(wrong) > 80
    assert not {name: why for name, why in wrong.items() if why}


@needs_recipes
def test_luci_has_what_its_tests_of_passes_run() -> None:
    """ONE compares its interpreter on the optimized model with TensorFlow on the original.

    One difference is left: a further pass of ONE separates activations from TRANSPOSE_CONV by default.
    """
    with (ONE / "pass-value.tsv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    assert len(rows) > 20
    for row in rows:
        model = load_recipe(ONE / "TensorFlowLiteRecipes" / row["recipe"] / "test.recipe")
        circlekit.optimize(model, row["passes"].replace(" ", ","), format="circle")
        for why in refusals("luci", model):
            assert why.startswith("ONE's interpreter has TRANSPOSE_CONV"), row
            assert "only with act of NONE" in why, row


MANY = ", ".join(["%x"] * 11)
INT8, INT16 = "i8[2] quant(scale: 0.5)", "i16[2] quant(scale: 0.5)"


@pytest.mark.parametrize(
    ("data", "line", "expected"),
    [
        ("i32[2]", "Add(%x, %x)", ""),
        ("i32[2]", "Add(%x, %x) {act: RELU}", "act of NONE"),  # EvalAdd does not clip integers
        ("f32[2]", f"Concatenation({MANY[4:]})", ""),
        ("f32[2]", f"Concatenation({MANY})", "at most 10 operands"),  # kMaxInputNum
        ("bool[1,1,1,1,2]", "LogicalOr(%x, [true])", "ranks up to 4"),  # BroadcastBinaryFunction4DSlow
        (INT8, "Relu6(%x) : i8[2] quant(scale: 0.25)", "the same scale"),  # Relu6Quantized does not rescale
        (INT8, f"Relu6(%x) : {INT8}", ""),
        ("i16[2] quant(scale: 0.5, zero_point: 1)", f"Relu(%x) : {INT16}", "zero point 0 of input"),
        (INT16, f"Tanh(%x) : i16[2] quant(scale: {1 / 32768})", ""),
        (INT16, f"Tanh(%x) : {INT16}", "scale 3.0517578125e-05"),
        (INT16, f"Softmax(%x) : {INT16}", "scale 3.0517578125e-05"),
        ("i32[2]", f"Quantize(%x) : {INT8}", "a scale of input"),
        ("f32[4]", "StridedSlice(%x, [1], [2], [1]) {offset: true}", "offset of False"),
        ("f32[4]", "StridedSlice(%x, [1], [3], [1])", ""),
    ],
)
def test_tflm_checks_what_its_kernels_check(data: str, line: str, expected: str) -> None:
    """See the functions of tflite-micro that the cases name."""
    model = circlekit.parse(f"graph main(%x: {data}) -> %y {{ %y = {line} }}")
    refusal = find_target("tflm").refusal(model.main.ops[-1])
    assert (refusal is None) == (not expected)
    assert expected in (refusal or "")


@pytest.mark.parametrize("name", ["luci", "tflm"])
def test_forms_name_dtypes_operands_and_attributes(name: str) -> None:
    table = json.loads((TABLES / f"{name}.json").read_text(encoding="utf-8"))
    for code, entry in table["operators"].items():
        kind = DECLARATIONS[code]
        names = {operand.name for operand in kind.operands} | set(kind.result_names)
        for form, constraints in {} if entry["forms"] == "any" else entry["forms"].items():
            types = form.replace(":", ",").split(",")
            assert all(t == "-" or _dtype_name(t) in BY_SHORT for t in types), (code, form)
            assert {*constraints.get("constant", []), *constraints.get("symmetric", [])} <= names, code
            assert set(constraints.get("values", {})) <= {a.name for a in kind.attributes}, code


def _dtype_name(text: str) -> str:
    """Return the dtype without the suffix for quantization or sparse data: i8 for i8, i8q, i8qc and i8s."""
    return re.sub(r"(q[cb]?|s)$", "", text)
