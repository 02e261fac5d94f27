# SPDX-License-Identifier: Apache-2.0
"""Models with ONNX's QuantizeLinear and DequantizeLinear as custom operators."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from flatbuffers import flexbuffers

from circlekit.api.models import parse
from circlekit.errors import CirclekitError, ModelError, UnsupportedError
from circlekit.interp.interpreter import Interpreter
from circlekit.ir.dtypes import DType, f32, i16, u8
from circlekit.ops.constant_operands import constant_elements
from circlekit.quant.one.formulas import integer_limits
from circlekit.quant.one.onnx_quantized import quantize_onnx_model
from tests.quant.one.one_models import kinds, on_floats

DTYPES = {"u8": u8, "i16": i16}
CODE = '{code: "CUSTOM", custom_code: "ONNX$Linear"}'


def test_operators_between_pairs_of_onnx_become_quantized() -> None:
    model = parse(
        """graph main(%x: f32[1,2]) -> %y {
          %s = const f32[] 0.001
          %z = const i16[] 0
          %ws = const f32[2] [0.5, 0.25]
          %wz = const u8[2] [8, 8]
          %wi = const u8[2,2] [0, 15, 8, 9]
          %q = Opaque(%x, %s, %z) {code: "CUSTOM", custom_code: "ONNXQuantizeLinear"} : i16[1,2]
          %d = Opaque(%q, %s, %z) {code: "CUSTOM", custom_code: "ONNXDequantizeLinear"} : f32[1,2]
          %w = Opaque(%wi, %ws, %wz) {code: "CUSTOM", custom_code: "ONNXDequantizeLinear"} : f32[2,2]
          %y1 = FullyConnected(%d, %w) : f32[1,2]
          %q1 = Opaque(%y1, %s, %z) {code: "CUSTOM", custom_code: "ONNXQuantizeLinear"} : i16[1,2]
          %d1 = Opaque(%q1, %s, %z) {code: "CUSTOM", custom_code: "ONNXDequantizeLinear"} : f32[1,2]
          %y = Reshape(%d1, [2]) : f32[2]
        }"""
    )
    quantize_onnx_model(model)
    assert kinds(model) == ["FULLY_CONNECTED", "RESHAPE"]
    weights = model.main.ops[0].inputs[1]
    assert weights is not None
    assert weights.dtype is DType.INT4
    assert constant_elements(weights).tolist() == [[-8, 7], [0, 1]]
    assert [v.dtype for v in (*model.main.inputs, *model.main.outputs)] == [i16, i16]


def onnx_pair(source: str, result: str, dtype: str, scale: str, zero_point: int = 0, shape: str = "2") -> str:
    """Return the two operators of ONNX that round %``source`` to ``dtype``; their result is %``result``."""
    count = scale.count(",") + 1
    operands = f"%{result}_s, %{result}_z"
    return f"""
      %{result}_s = const f32[{count}] [{scale}]
      %{result}_z = const {dtype}[{count}] {[zero_point] * count}
      %{result}_q = Opaque(%{source}, {operands}) {CODE.replace("$", "Quantize")} : {dtype}[{shape}]
      %{result} = Opaque(%{result}_q, {operands}) {CODE.replace("$", "Dequantize")} : f32[{shape}]"""


@pytest.mark.parametrize(
    ("operands", "widest"),
    [
        ([("i16", "0.01"), ("i16", "0.02"), ("i16", "0.005")], 1),
        ([("i16", "0.02"), ("i16", "0.01"), ("i16", "0.02")], 0),
        ([("i16", "0.02"), ("u8", "0.03"), ("i16", "0.02")], None),
        ([("u8", "0.02"), ("i16", "0.01"), ("i16", "0.01")], None),
    ],
)
def test_a_concatenation_in_onnx_models_gets_the_widest_int16_range(
    operands: list[tuple[str, str]], widest: int | None
) -> None:
    pairs = "".join(onnx_pair(f"x{n}", f"a{n}", *operand) for n, operand in enumerate(operands))
    inputs = ", ".join(f"%x{n}: f32[2]" for n in range(3))
    model = parse(
        f"graph main({inputs}) -> %y {{{pairs}\n%y = Concatenation(%a0, %a1, %a2) {{axis: 0}} : f32[6]\n}}"
    )
    if widest is None:
        with pytest.raises(ModelError, match="stay float"):
            quantize_onnx_model(model)
        assert model.main.outputs[0].dtype is f32
        return
    quantize_onnx_model(model)
    assert model.main.outputs[0].quantization == model.main.inputs[widest].quantization


@pytest.mark.parametrize("dtypes", ["i16 u8", "u8 i16", "i16 i16"])
@pytest.mark.parametrize("line", ["Mul(%a, %b)", "Add(%a, %b)"])
def test_a_product_in_onnx_models_is_computed_in_the_dtype_of_its_operands(dtypes: str, line: str) -> None:
    """The result of the product keeps its range, and a QUANTIZE converts it.

    A sum is an error if the dtypes of operands and result differ.
    """
    inner, outer = dtypes.split()
    steps = {"u8": ("0.0078125", 128), "i16": ("0.00006", 0)}  # scale and zero point
    pairs = onnx_pair("x", "a", inner, *steps[inner]) + onnx_pair("w", "b", inner, *steps[inner])
    last = onnx_pair("p", "y", outer, *steps[outer])
    model = parse(f"graph main(%x: f32[2], %w: f32[2]) -> %y {{{pairs}\n%p = {line} : f32[2]{last}\n}}")
    if line.startswith("Add") and inner != outer:
        with pytest.raises(ModelError):
            quantize_onnx_model(model)
        return
    quantize_onnx_model(model)
    code = line[:3].upper()
    assert kinds(model) == ([code] if inner == outer else [code, "QUANTIZE"])
    (y,) = on_floats(model, np.array([0.9, -0.5], np.float32), np.array([0.5, 0.9], np.float32))
    assert y == pytest.approx([0.45, -0.45] if code == "MUL" else [1.4, 0.4], abs=0.02)
    if inner != outer:
        made, wanted = (v.quantization for v in (model.main.ops[0].output, model.main.outputs[0]))
        assert made is not None
        assert wanted is not None
        lowest, highest = (end - int(wanted.zero_point[0]) for end in integer_limits(DTYPES[outer]))
        least, most = integer_limits(DTYPES[inner])
        # the range of int16 is symmetric, because its zero point is 0
        widest = highest - lowest if inner == "u8" else 2 * max(-lowest, highest)
        covered = float(made.scale[0]) * (most - least)
        assert covered == pytest.approx(widest * float(wanted.scale[0]), rel=1e-6)


@pytest.mark.parametrize(
    ("integers", "zero_point", "dtype"),
    [
        ([0, 15, 8, 9], 8, DType.INT4),
        ([0, 15, 8, 9], 7, DType.UINT4),
        ([0, 16, 8, 9], 8, u8),
        ([0, 1, 2, 3], 15, DType.UINT4),
        ([0, 1, 2, 3], 16, u8),
    ],
)
def test_constants_of_onnx_models_get_4_bits_if_they_fit(
    integers: list[int], zero_point: int, dtype: DType
) -> None:
    pair = onnx_pair("x", "a", "i16", "0.001", shape="1,2")
    model = parse(f"""graph main(%x: f32[1,2]) -> %y {{{pair}
      %wi = const u8[2,2] {integers}
      %ws = const f32[2] [0.5, 0.25]
      %wz = const u8[2] [{zero_point}, {zero_point}]
      %w = Opaque(%wi, %ws, %wz) {{code: "CUSTOM", custom_code: "ONNXDequantizeLinear"}} : f32[2,2]
      %p = FullyConnected(%a, %w) : f32[1,2]{onnx_pair("p", "y", "i16", "0.001", shape="1,2")}
    }}""")
    quantize_onnx_model(model)
    weights = model.main.ops[0].inputs[1]
    assert weights is not None
    assert weights.dtype is dtype
    assert weights.quantization is not None
    real = (
        constant_elements(weights) - weights.quantization.zero_point[:, None]
    ) * weights.quantization.scale[:, None]
    expected = (np.array(integers).reshape(2, 2) - zero_point) * np.array([[0.5], [0.25]])
    assert real.tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            ("%y_s = const f32[1] [0.001]", "%y_s = const f32[2] [0.001, 0.002]"),
            "as many float32 scales as zero",
        ),
        (("(%y_q, %y_s", "(%y_q, %a_s"), "expected the scale, zero point and dtype of %y_q"),
        (("(%y_q, %y_s, %y_z)", "(%y_q, %y_s, %z2)"), "expected the scale, zero point and dtype of %y_q"),
        (("(%y_q, %y_s, %y_z)", "(%y_q, %y_s, %z3)"), "expected the scale, zero point and dtype of %y_q"),
        (("(%y_q, %y_s, %y_z)", "(%y_q, %y_s)"), "expected constant scale and zero point"),
        (("const i16[1] [0]", "const i32[1] [0]"), "zero point of int16, uint8 or int8, got 1 and i32"),
        (("(%y_q, %y_s", "(%r, %y_s"), "%y: expected a constant or ONNXQuantizeLinear as operand"),
        (("(%y_q, %y_s, %y_z)", "(%y_q, %a, %y_z)"), "%y: expected constant scale and zero point"),
        (("(%y_q, %y_s, %y_z)", "(%y_q, %y_s, %n)"), "%y: expected constant scale and zero point"),
        (("%y_s = const f32[1]", "%y_s = const f16[1]"), "as many float32 scales as zero"),
        (
            (
                "%y_s = const f32[1] [0.001]\n      %y_z = const i16[1] [0]",
                "%y_s = const f32[2] [0.001, 0.002]\n      %y_z = const i16[2] [0, 0]",
            ),
            "%y: expected one scale, and a zero point of int16, uint8 or int8, got 2 and i16",
        ),
        (("-> %y {", "-> %y, %y_q {"), "%y_q: expected that only ONNXDequantizeLinear reads it"),
        (
            ("%r = Neg", "%q = Opaque(%a, %k, %n) " + CODE.replace("$", "Quantize") + ": i16[2] %r = Neg"),
            "%q: expected that only ONNXDequantizeLinear reads it",
        ),
        (("Opaque(%r, %y_s", "Opaque(%k, %y_s"), "%y_q: expected a computed value as operand"),
        (("Opaque(%r, %y_s", "Opaque(none, %y_s"), "%y_q: expected a computed value as operand"),
        (("Opaque(%r, %y_s", "Opaque(%x, %y_s"), "%x has two different scales, zero points or dtypes"),
        (
            (
                "%y_s = const f32[1] [0.001]\n      %y_z = const i16[1] [0]\n      %y_q = Opaque(%r,",
                "%y_s = const f32[1] [0.002]\n      %y_z = const i8[1] [0]\n      %y_q = Opaque(%x,",
            ),
            "%x has two different scales, zero points or dtypes",
        ),
    ],
)
def test_wrong_operators_in_onnx_models(change: tuple[str, str], message: str) -> None:
    text = f"""graph main(%x: f32[2], %n: i16[1]) -> %y {{
      %k = const f32[2] [1.0, 2.0]
      %z2 = const i16[1] [1]
      %z3 = const i8[1] [0]{onnx_pair("x", "a", "i16", "0.002")}
      %r = Neg(%a) : f32[2]{onnx_pair("r", "y", "i16", "0.001")}
    }}"""
    assert change[0] in text
    text = text.replace(*change)
    with pytest.raises(CirclekitError, match=re.escape(message)):
        quantize_onnx_model(parse(text))


def test_onnx_models_need_the_operators_of_onnx() -> None:
    with pytest.raises(ModelError, match="ONNXQuantizeLinear and ONNXDequantizeLinear, found none"):
        quantize_onnx_model(parse("graph main(%x: f32[2]) -> %y { %y = Relu(%x) }"))
    model = parse(
        """graph main(%x: f32[2]) -> %y {
          %w = Opaque([1, 2], 0.5, 0) {code: "CUSTOM", custom_code: "ONNXDequantizeLinear"} : f32[2]
          %a = Add(%x, %w)
          %y = Mul(%a, [2.0, 3.0])
        }"""
    )
    with pytest.raises(ModelError, match="got f32 and i32") as error:
        quantize_onnx_model(model)
    assert "tensors without ONNXQuantizeLinear and ONNXDequantizeLinear stay float" in str(error.value)


@pytest.mark.parametrize("dtype", ["i16", "u8"])
@pytest.mark.parametrize(
    "line",
    ["Reshape(%a, [2,1])", "Transpose(%a, [1,0])", "Squeeze(%a)", "StridedSlice(%a, [0,0], [1,2], [1,1])"],
)
def test_what_moves_elements_in_onnx_models_keeps_their_scale(line: str, dtype: str) -> None:
    pair = onnx_pair("x", "a", dtype, "0.5", 3 if dtype == "u8" else 0, shape="1,2")
    model = parse(f"graph main(%x: f32[1,2]) -> %r {{{pair}\n  %r = {line}\n}}")
    quantize_onnx_model(model)
    result = model.main.outputs[0]
    assert result.dtype is DTYPES[dtype]
    assert result.quantization == model.main.inputs[0].quantization


def test_negated_elements_in_onnx_models_keep_their_scale_only_if_they_are_symmetric() -> None:
    model = parse(f"graph main(%x: f32[2]) -> %r {{{onnx_pair('x', 'a', 'i16', '0.5')}\n  %r = Neg(%a)\n}}")
    quantize_onnx_model(model)
    result = model.main.outputs[0]
    assert (result.dtype, result.quantization) == (i16, model.main.inputs[0].quantization)
    model = parse(f"graph main(%x: f32[2]) -> %r {{{onnx_pair('x', 'a', 'u8', '0.5')}\n  %r = Neg(%a)\n}}")
    with pytest.raises(CirclekitError, match="%r is f32"):
        quantize_onnx_model(model)


def test_a_value_may_be_rounded_twice_in_onnx_models_if_its_scales_are_the_same() -> None:
    pairs = "".join(onnx_pair("x", name, "i16", "0.002") for name in "ab")
    for output, line in (("a_q", ""), ("n", "%n = Neg(%a_q)")):
        model = parse(
            f"graph main(%x: f32[2]) -> %r, %{output} {{{pairs}\n  %r = Reshape(%b, [2,1])\n  {line}\n}}"
        )
        with pytest.raises(UnsupportedError, match="%a_q: expected that only ONNXDequantizeLinear reads it"):
            quantize_onnx_model(model)
    model = parse(f"graph main(%x: f32[2]) -> %r, %a {{{pairs}\n  %r = Reshape(%b, [2,1])\n}}")
    quantize_onnx_model(model)
    assert kinds(model) == ["RESHAPE"]
    assert model.main.outputs[1] is model.main.inputs[0]


@pytest.mark.parametrize(
    ("axis", "scales", "dimension"),
    [(0, [0.5, 0.25], 0), (1, [0.5, 0.25], 1), (None, [0.5, 0.25], 0), (1, [0.5], 0), (-1, [0.5, 0.25], 1)],
)
def test_scales_of_a_constant_in_onnx_models_belong_to_the_axis_of_the_operator(
    axis: int | None, scales: list[float], dimension: int
) -> None:
    count = len(scales)
    model = parse(
        f"""graph main(%x: f32[1,2]) -> %y {{
          %s = const f32[{count}] {scales}
          %z = const i8[{count}] {[0] * count}
          %wi = const i8[2,2] [1, 2, 3, 4]
          %b = const f32[2] [0.5, -0.25]
          %w = Opaque(%wi, %s, %z) {{code: "CUSTOM", custom_code: "ONNXDequantizeLinear"}} : f32[2,2]
          {onnx_pair("x", "a", "i16", "0.25", shape="1,2")}
          %p = FullyConnected(%a, %w, %b) : f32[1,2]{onnx_pair("p", "y", "i16", "0.002", shape="1,2")}
        }}"""
    )
    op = next(op for op in model.main if "w" in [v.name for v in op.results])
    if axis is not None:
        op.extra["custom_options"] = np.frombuffer(bytes(flexbuffers.Dumps({"axis": axis})), np.uint8)
    quantize_onnx_model(model)
    weights, bias = (v for v in model.main.values() if v.is_const)
    assert weights.quantization is not None
    assert weights.quantization.scale.tolist() == scales
    assert weights.quantization.quantized_dimension == dimension
    assert bias.dtype is DType.INT64
    assert bias.quantization is not None
    assert bias.quantization.scale.tolist() == [0.25 * scale for scale in scales]
    assert (bias.array() * bias.quantization.scale).tolist() == [0.5, -0.25]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("Cast(%a) : i32[2]", [1, -2]),
        ("Cast(%a) : f64[2]", [1.5, -2.0]),
        ("Where(%a)", [[0], [1]]),
    ],
)
def test_operators_that_stay_float_read_real_numbers(line: str, expected: list[Any]) -> None:
    model = parse(f"graph main(%x: f32[2]) -> %y {{{onnx_pair('x', 'a', 'u8', '0.5', 100)}\n%y = {line}\n}}")
    quantize_onnx_model(model)
    assert kinds(model)[0] == "DEQUANTIZE"
    (y,) = Interpreter(model).run([np.array([103, 96], np.uint8)])  # 1.5 and -2.0
    assert y.tolist() == expected


def test_operators_that_stay_float_keep_float_operands_and_results() -> None:
    """The custom operator reads a quantized tensor twice, a quantized constant and an integer constant."""
    model = parse(
        f"""graph main(%x: f32[2]) -> %y {{
          %wi = const i8[2] [1, 2]
          %wz = const i8[1] [0]{onnx_pair("x", "a", "i16", "0.5")}
          %r = Reshape(%a, [2]) : f32[2]
          %w = Opaque(%wi, %a_s, %wz) {CODE.replace("$", "Dequantize")} : f32[2]
          %f = Opaque(%a, %r, %w, %wi, none) {{code: "CUSTOM", custom_code: "Other"}} : f32[2]
          {onnx_pair("f", "b", "i16", "0.25")}
          %y = Neg(%b)
        }}"""
    )
    quantize_onnx_model(model)
    other = next(op for op in model.main if op.code == "CUSTOM")
    assert [None if v is None else v.dtype for v in other.inputs] == [f32, f32, f32, DType.INT8, None]
    assert other.output.dtype is f32
    assert sorted(kinds(model)) == ["CUSTOM", *["DEQUANTIZE"] * 3, "NEG", "QUANTIZE", "RESHAPE"]
    assert [v.dtype for v in (*model.main.inputs, *model.main.outputs)] == [i16, i16]
    quantized = other.output.users[0].output.quantization
    assert quantized is not None
    assert quantized.scale.tolist() == [0.25]
