# SPDX-License-Identifier: Apache-2.0
"""A plan is written, edited and applied: by the API and by the command."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import circlekit
from circlekit.cli.front_door import main
from circlekit.errors import CirclekitError, FormatError, ModelError, UnsupportedError
from circlekit.ir.dtypes import DType, i8, i16, u8
from circlekit.ir.tensor import same_array
from circlekit.quant.plan import GraphPlan, OperatorPlan, Plan, Preparation, TensorForm
from circlekit.testing import tflite_of

NET = """
graph main(%x: f32[1,8,8,3]) -> %y {
  %w = const f32[16,3,3,3] gaussian(0, 0.3)
  %b = const f32[16] gaussian(0, 0.1)
  %c = Conv2D(%x, %w, %b) {act: RELU}  : f32[1,8,8,16]
  %d = const f32[4,1,1,16] gaussian(0, 0.3)
  %bias = const f32[4] gaussian(0, 0.1)
  %e = Conv2D(%c, %d, %bias)           : f32[1,8,8,4]
  %p = MaxPool2D(%e) {filter_height: 2, filter_width: 2, stride_h: 2, stride_w: 2}  : f32[1,4,4,4]
  %y = Softmax(%p)
}
"""
Document = dict[str, Any]


def net() -> circlekit.Model:
    """Return NET; the channels between its layers have very different ranges, so that equalization helps."""
    model = circlekit.parse(NET)
    factors = np.logspace(-2, 0, 16, dtype=np.float32)
    first, second = (op.inputs[1] for op in model.main.ops if op.code == "CONV_2D")
    assert first is not None
    assert second is not None
    first.data = first.array() * factors.reshape(-1, 1, 1, 1)
    second.data = second.array() / factors
    return model


def samples() -> list[list[np.ndarray]]:
    random = np.random.default_rng(4)
    return [[random.normal(0, 1, (1, 8, 8, 3)).astype(np.float32)] for _ in range(6)]


def edited(change: Callable[[Document], object]) -> Document:
    """Return the plan of NET as int8, as JSON; ``change`` changes its main graph in place."""
    model = net()
    document: Document = json.loads(circlekit.quantize(model, "int8", samples(), auto=False).plan.to_json())
    change(document["graphs"][0])
    return document


def applied(document: Document) -> circlekit.Model:
    """Return NET, quantized by the plan ``document``."""
    model = net()
    circlekit.quantize(model, plan=Plan.from_json(json.dumps(document)))
    return model


@pytest.mark.parametrize("scheme", ["int8", "int16x8", "weight_int4", "dynamic_int8", "float16"])
def test_a_plan_applied_gives_the_bytes_of_its_run(scheme: str, tmp_path: Path) -> None:
    model, other = net(), net()
    report = circlekit.quantize(model, scheme, samples(), seconds=1)
    report.plan.save(tmp_path / "plan.json")
    circlekit.quantize(other, plan=tmp_path / "plan.json")
    assert tflite_of(other) == tflite_of(model)
    assert any("equalization" in str(record) for record in report.plan.preparation.techniques) == (
        scheme == "int8"
    )


def test_the_scales_of_a_plan_are_used_and_biases_follow() -> None:
    document = edited(lambda graph: graph["tensors"]["c"].update(scale=0.25, zero_point=-128))
    ops = applied(document).main.ops
    conv, other = (op for op in ops if op.code == "CONV_2D")
    assert conv.results[0].quantization is not None
    assert conv.results[0].quantization.scale.tolist() == [0.25]
    weights, bias = (value.quantization for value in other.inputs[1:] if value is not None)
    assert weights is not None
    assert bias is not None
    np.testing.assert_array_equal(bias.scale, np.float32(0.25) * weights.scale)


def test_an_operator_of_a_plan_can_be_made_float() -> None:
    document = edited(lambda graph: graph["operators"]["p"].update(scheme="float"))
    codes = [op.code for op in applied(document).main]
    assert codes[3:6] == ["DEQUANTIZE", "MAX_POOL_2D", "QUANTIZE"]


FAULTS: list[tuple[Callable[[Document], object], str]] = [
    (lambda g: g["tensors"]["c"].update(scale=-1), "%c: expected scales from"),
    (lambda g: g["tensors"]["c"].update(scale=1e39), "%c: expected scales from"),
    (lambda g: g["tensors"]["c"].update(zero_point=-129), "from -128 to 127, got -129"),
    (lambda g: g["tensors"]["c"].update(zero_point=[1, 2]), "%c: expected 1 zero point, got 2"),
    (lambda g: g["tensors"]["c"].update(scale=[0.1, 0.2]), "%c: expected 1 scale, got 2"),
    (lambda g: g["tensors"]["c"].update(scale="big"), "%c: expected a number or a list of numbers as scale"),
    (lambda g: g["tensors"]["c"].update(scale=10**400), "%c: int too large to convert to float"),
    (
        lambda g: g["tensors"]["c"].update(scale=[[0.1]]),
        "%c: expected a number or a list of numbers as scale",
    ),
    (lambda g: g["tensors"]["c"].update(scale=True), "%c: expected a number or a list of numbers as scale"),
    (
        lambda g: g["tensors"]["c"].update(zero_point=math.inf),
        "%c: expected an integer of 64 bits as zero_point, got inf",
    ),
    (
        lambda g: g["tensors"]["c"].update(zero_point=3.7),
        "%c: expected an integer of 64 bits as zero_point, got 3.7",
    ),
    (lambda g: g["tensors"]["c"].update(axis=1.5), "%c: expected an integer of 64 bits as axis, got 1.5"),
    (lambda g: g["tensors"]["c"].update(narrow="false"), "%c: expected true or false as narrow, got 'false'"),
    (
        lambda g: g["operators"]["c"]["operands"]["1"].update(axis=4),
        "operand 1 .%w.: expected an axis from 0 to 3, got 4",
    ),
    (
        lambda g: g["operators"]["c"]["operands"]["1"].update(scale=[0.1, 0.2], zero_point=[0, 0], axis=4),
        "operand 1 .%w.: expected an axis from 0 to 3, got 4",
    ),
    (lambda g: g["operators"]["c"].update(scheme=3), "expected a text as scheme of %c, got 3"),
    (lambda g: g["operators"]["c"].pop("code"), "expected a text as code of %c, got None"),
    (lambda g: g["tensors"]["c"].update(dtype="int8"), "%c: no dtype is named int8"),
    (lambda g: g["tensors"]["c"].update(dtype="i16"), "%c.*: expected i8, got i16"),
    (lambda g: g["tensors"]["c"].update(zero_point=200), "%c: expected zero points from -128 to 127"),
    (lambda g: g["tensors"].pop("c"), "%c.* has no form in the plan"),
    (lambda g: g["tensors"].update(cc=g["tensors"]["c"]), "tensor %cc, the model has no such tensor"),
    (lambda g: g["tensors"]["p"].update(scale=0.5), "of operands and results of MAX_POOL_2D, got"),
    (lambda g: g["tensors"]["y"].update(scale=0.5), "result of SOFTMAX: expected .*0.00390625, -128., got"),
    (lambda g: g["operators"]["c"].update(scheme="int9"), "no scheme is named int9"),
    (
        lambda g: g["operators"]["c"].update(scheme="one_uint8"),
        "%c: expected a scheme such as int8, or float",
    ),
    (
        lambda g: g["operators"]["c"].update(code="ADD"),
        "%c: expected CONV_2D as in the model, got ADD in the plan",
    ),
    (lambda g: g["operators"]["c"]["operands"].update({"7": g["tensors"]["c"]}), "no float operand 7"),
    (lambda g: g["operators"]["c"]["operands"]["1"].update(scale=[1.0]), "operand 1.*: expected"),
    (
        lambda g: g["operators"]["c"]["operands"]["1"].update(scale=1e-17, zero_point=0),
        "the bias %b does not fit into i32",
    ),
    (  # also if the plan states the product of the scales
        lambda g: (
            g["tensors"]["x"].update(scale=0.5),
            g["operators"]["c"]["operands"]["1"].update(scale=2.0**-56, zero_point=0),
            g["operators"]["c"]["operands"]["2"].update(scale=2.0**-57, zero_point=0),
        ),
        "the bias %b does not fit into i32",
    ),
    (
        lambda g: g["tensors"]["x"].update(dtype="f16", scale=[], zero_point=[]),
        "%c, operand 0 .%x.: expected i8, got f16",
    ),
    (
        lambda g: g["operators"]["c"]["operands"]["1"].update(dtype="f16", scale=[], zero_point=[]),
        "%c, operand 1 .%w.: expected i8, got f16",
    ),
    (
        lambda g: g["operators"]["c"]["operands"]["1"].update(scale=[]),
        "%c, operand 1 .%w.: expected 1 scale, got 0",
    ),
    (
        lambda g: g["operators"]["c"]["operands"]["1"].update(axis=3, scale=[0.1] * 3, zero_point=[0] * 3),
        "the bias %b has 16 elements, the weights have 3 scales",
    ),
    (
        lambda g: (
            g["constants"].update(b={"dtype": "int64", "shape": [16], "data": [1] * 16}),
            g["operators"]["c"]["operands"]["1"].update(scale=0.01, zero_point=0),
            g["operators"]["c"]["operands"]["2"].update(scale=[0.1] * 2),
        ),
        "the bias %b: expected 16 scales, got 2",
    ),
    (lambda g: g["tensors"].update(c=5), "%c: expected an object as a form, got 5"),
    (lambda g: g["tensors"]["c"].update(dtype=[1]), r"%c: expected a text as dtype, got \[1\]"),
    (lambda g: g["operators"].update(c=5), "expected an object as operator %c, got 5"),
    (lambda g: g["operators"]["c"].update(operands={"a": {}}), "the index of an operand of %c, got 'a'"),
    (lambda g: g.pop("tensors"), "it has no 'tensors'"),
    (
        lambda g: g["constants"].update(w={"dtype": "int8", "shape": [2], "data": [1, 2]}),
        "expected the shape",
    ),
    (lambda g: g["constants"].update(w={"dtype": "int8", "shape": [3], "data": [1, 2]}), "constant %w: "),
    *(
        (
            lambda g, fields=fields: g["constants"].update(
                w={"dtype": "int8", "shape": [2], "data": [1, 2], **fields}
            ),
            f"constant %w: {message}",
        )
        for fields, message in (
            ({"data": [1.5, 2]}, "expected a list of integers as data"),
            ({"data": ["3", 2]}, "expected a list of integers as data"),
            ({"data": [True, 2]}, "expected a list of integers as data"),
            ({"data": 3}, "expected a list of integers as data"),
            ({"shape": None}, "expected a list of dimensions of at least 0 as shape, got None"),
            ({"shape": [-1]}, r"expected a list of dimensions of at least 0 as shape, got \[-1\]"),
            ({"shape": ["2"]}, "expected an integer of 64 bits as a dimension of shape, got '2'"),
            ({"data": [1, 128]}, "expected numbers from -128 to 127 as data for int8"),
            ({"dtype": "float32", "data": [1, math.nan]}, "expected numbers from -3.4028235e.38 to"),
            ({"dtype": "float32", "data": [1, 1e50]}, "expected numbers from -3.4028235e.38 to"),
        )
    ),
    *(
        (
            lambda g, dtype=dtype: g["constants"].update(w={"dtype": dtype, "shape": [2], "data": [1, 2]}),
            f"constant %w: expected a dtype of signed integers or floats, got {re.escape(repr(dtype))}",
        )
        for dtype in ("S1", "(2,", "uint8", None)
    ),
]


@pytest.mark.parametrize(("change", "message"), FAULTS, ids=[message for _, message in FAULTS])
def test_a_plan_that_does_not_fit_ends_with_a_sentence(
    change: Callable[[Document], object], message: str
) -> None:
    with pytest.raises(CirclekitError, match=message):
        applied(edited(change))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"passes": 1}, "expected a text as the name of a pass, got 1"),
        ({"passes": ["O1", []]}, r"expected a text as the name of a pass, got \[\]"),
        ({"target": None}, "expected a text as target, got None"),
        ({"is_calibrated": "no"}, "expected true or false as is_calibrated, got 'no'"),
        ({"technique": []}, "preparation has no field technique; did you mean techniques"),
        ({"techniques": [1]}, "expected an object as a technique, got 1"),
        (
            {"techniques": [{"technique": "equalization", "strength": 10**400, "magnitudes": {}}]},
            "technique 'equalization' that is unknown or has wrong arguments",
        ),
        (
            {"techniques": [{"technique": "equalization", "strength": 1.5, "magnitudes": {}}]},
            "expected a strength from 0 to 1, got 1.5",
        ),
        (
            {"techniques": [{"technique": "equalization", "strength": float("nan"), "magnitudes": {}}]},
            "expected a strength from 0 to 1, got nan",
        ),
    ],
)
def test_a_wrong_preparation_ends_with_a_sentence(change: Document, message: str) -> None:
    document = edited(lambda g: None)
    document["preparation"].update(change)
    with pytest.raises(FormatError, match=message):
        applied(document)


def test_weights_may_get_one_scale() -> None:
    document = edited(lambda g: g["operators"]["c"]["operands"]["1"].update(scale=0.01, zero_point=0))
    weights = applied(document).main.ops[1].inputs[1]
    assert weights is not None
    assert weights.quantization is not None
    assert weights.quantization.scale.tolist() == [np.float32(0.01)]


def test_every_field_of_a_plan_is_read_as_it_was_written() -> None:
    forms = [
        TensorForm(i8, (0.1,), (3,), reason="one", rounds=True),
        TensorForm(u8, (0.5, 1e-30, 3.0), (0, 255, 7), axis=2, narrow=True),
        TensorForm(DType.INT4, (0.25, 0.5), (), block=32),
        TensorForm(DType.FLOAT16, reason="half"),
    ]
    forms = [replace(f, scale=tuple(float(np.float32(s)) for s in f.scale)) for f in forms]
    inner = {"hidden": forms[0], "x": forms[1]}
    add = OperatorPlan("ADD", "int8", "because", dict(enumerate(forms)), inner)
    w, empty = np.arange(-3, 3, dtype=np.int8).reshape(2, 1, 3), np.zeros((0, 2), np.int64)
    operators = {"a": add, "b": OperatorPlan("MUL", "float")}
    graph = GraphPlan(dict(zip("abcd", forms, strict=True)), operators, {"w": w, "e": empty})
    steps = Preparation(["fuse_x"], "onert", True, [{"technique": "own_biases"}])
    for inputs, outputs in ((None, None), (i8, None), (None, i16)):
        read = Plan.from_json(Plan("int16x8", [graph, GraphPlan()], inputs, outputs, steps).to_json())
        assert (read.scheme, read.inputs, read.outputs, read.preparation) == (
            "int16x8", inputs, outputs, steps,
        )  # fmt: skip
        assert len(list(read)) == 2
        assert (read.main.tensors, read.main.operators) == (graph.tensors, operators)
        assert all(same_array(array, read.main.constants[name]) for name, array in graph.constants.items())
        assert [op.is_float for op in read.main.operators.values()] == [False, True]


def test_plans_of_other_models_schemes_and_files_are_refused(tmp_path: Path) -> None:
    document = edited(lambda graph: None)
    other = circlekit.parse("graph main(%x: f32[1,8]) -> %y { %y = Relu(%x) }")
    with pytest.raises(ModelError, match="the model has no such"):
        circlekit.quantize(other, plan=Plan.from_json(json.dumps(document)))
    with pytest.raises(UnsupportedError, match="cannot be applied"):
        circlekit.quantize(other, plan=Plan("one_uint8"))
    with pytest.raises(UnsupportedError, match="a plan decides everything"):
        circlekit.quantize(other, plan=Plan("int8"), samples=[])
    (tmp_path / "plan.json").write_text("[1]")
    with pytest.raises(FormatError, match=r"plan\.json: not a plan"):
        circlekit.quantize(other, plan=tmp_path / "plan.json")


def test_the_command_applies_a_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "net.ck").write_text(NET)
    words = ["quantize", str(tmp_path / "net.ck")]
    plan = str(tmp_path / "plan.json")
    options = ["--random", "3", "--no-auto", "--io", "integer", "--save-plan", plan]
    assert main([*words, str(tmp_path / "a.tflite"), *options]) == 0
    assert main([*words, str(tmp_path / "b.tflite"), "--plan", plan]) == 0
    assert (tmp_path / "a.tflite").read_bytes() == (tmp_path / "b.tflite").read_bytes()
    capsys.readouterr()
    assert main([*words, str(tmp_path / "c.tflite"), "--plan", plan, "--random", "3"]) == 2
    assert main([*words, str(tmp_path / "c.tflite"), "--plan", str(tmp_path / "none.json")]) == 1
    assert "none.json" in capsys.readouterr().err
    assert not (tmp_path / "c.tflite").exists()
