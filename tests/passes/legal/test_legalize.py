# SPDX-License-Identifier: Apache-2.0
"""Operators that a target lacks are lowered; values stay equal in our interpreter and in LiteRT."""

from __future__ import annotations

import pytest

from circlekit.ir.clone import clone
from circlekit.ir.model_equality import difference
from circlekit.ir.text import parse_model
from circlekit.ir.value import LARGEST_DIMENSION
from circlekit.passes.engine.legalize import LEGALIZATIONS, legalize
from circlekit.passes.engine.registry import all_passes
from circlekit.passes.legal.fit_transpose_conv import FitTransposeConv
from tests.passes.kit import check_pass
from tests.passes.legal.for_formats import check


@pytest.mark.parametrize(("side", "shape"), [("outputs", (2, 4)), ("outputs", (1, 9, 9, 3)), ("inputs", ())])
def test_transposed_convolution_with_impossible_shapes_stays(side: str, shape: tuple[int, ...]) -> None:
    model = parse_model(
        """
        graph main(%x: f32[1,3,3,2]) -> %y {
          %w = const f32[3,3,3,2] gaussian(0, 1)
          %y = TransposeConv([1, 5, 5, 3], %w, %x) {padding: VALID}
        }
        """
    )
    getattr(model.main, side)[0].shape = shape
    before = clone(model)
    assert difference(legalize(model, "tflite"), before) is None


@pytest.mark.parametrize("padding", ["VALID", "SAME"])
@pytest.mark.parametrize(("kernel", "stride"), [(1, 2), (2, 1), (2, 2), (3, 2), (2, 3), (3, 3)])
def test_transposed_convolutions_of_any_size(padding: str, kernel: int, stride: int) -> None:
    """LiteRT runs an output size only if a convolution over as many rows gives the 3 rows of %x (``runs``).

    With VALID padding, any other size of at most ``full`` rows is sliced from the full result.
    """
    full, pads = 2 * stride + kernel, f"{{padding: {padding}, stride_h: {stride}}}"
    for size in range(1, full + 2):
        text = f"""
            graph main(%x: f32[1,3,2,2]) -> %y {{
              %w = const f32[3,{kernel},1,2] gaussian(0, 1)
              %y = TransposeConv([1, {size}, 2, 3], %w, %x) {pads}
            }}
            """
        legal = legalize(parse_model(text), "tflite")
        places = size - kernel + 1 if padding == "VALID" else size
        runs = -(-places // stride) == 3
        if padding == "VALID":
            assert len(legal.main) == (2 if size <= full and not runs else 1), size
        if runs or len(legal.main) == 2:
            check(text, "tflite", [type(op).__name__ for op in legal.main])


def test_omitted_rows_count_in_the_refusal_of_a_transposed_convolution() -> None:
    text = """
        graph main(%x: f32[1,3,2,2]) -> %y {
          %w = const f32[3,3,1,2] gaussian(0, 1)
          %y = TransposeConv([1, 7, 2, 3], %w, %x) {padding: SAME, stride_h: 2}
        }
        """
    check_pass(text, FitTransposeConv, refused="within the full 7 rows or columns, got 7 after the first 1,")


@pytest.mark.parametrize(("stride", "ops"), [(LARGEST_DIMENSION - 1, 2), (LARGEST_DIMENSION, 1)])
def test_transposed_convolution_has_at_most_the_largest_dimension(stride: int, ops: int) -> None:
    model = parse_model(
        f"""graph main(%x: f32[1,2,2,2]) -> %y {{
          %w = const f32[3,1,1,2] gaussian(0, 1)
          %y = TransposeConv([1, 5, 2, 3], %w, %x) {{padding: VALID, stride_h: {stride}}}
        }}"""
    )
    assert len(legalize(model, "tflite").main) == ops


def test_activation_of_concatenated_values_of_unknown_size() -> None:
    text = """graph main(%x: f32[?,3]) -> %y, %z {
      %y = Concatenation(%x, %x) {axis: 0, act: RELU}
      %z = Concatenation(%x) {axis: 0, act: RELU}
    }"""
    check(text, "tflite", ["Concatenation", "Relu", "Relu"])


# -- circle ------------------------------------------------------------------------------------

TCONV = """
    graph main(%x: f32[1,3,4,2]) -> %y {{
      %w = const f32[3,2,2,2] gaussian(0, 1)
      %y = TransposeConv([1, 6, 8, 3], %w, %x, [0.1, -0.2, 0.3])
        {{stride_h: 2, stride_w: 2, padding: VALID, act: {act}}}
    }}
"""


@pytest.mark.parametrize(
    ("act", "operator"),
    [("RELU", "Relu"), ("RELU6", "Relu6"), ("RELU_N1_TO_1", "ReluN1To1"), ("TANH", "Tanh")],
)
def test_activation_of_transpose_conv(act: str, operator: str) -> None:
    model = check(TCONV.format(act=act), "circle", ["TransposeConv", operator])
    names = [op.output.name for op in model.main]
    assert names == ["y/TransposeConv", "y"]


def test_activation_stays_fused_for_tflite() -> None:
    check(TCONV.format(act="RELU"), "tflite", ["TransposeConv"])


@pytest.mark.parametrize("format", ["circle", "tflite"])
def test_activation_of_concatenation(format: str) -> None:
    text = "graph main(%x: f32[2,3]) -> %y { %y = Concatenation(%x, %x) {axis: 1, act: RELU6} }"
    model = check(text, format, ["Concatenation", "Relu6"])
    assert [op.output.name for op in model.main] == ["y/Concatenation", "y"]


BOTH, LEAST = ["Maximum", "Minimum"], ["Maximum"]


@pytest.mark.parametrize("format", ["circle", "tflite"])
@pytest.mark.parametrize(
    ("dtype", "act", "ops"),
    [
        ("i8 quant(scale: 0.125, zero_point: 3)", "RELU_N1_TO_1", ["ReluN1To1"]),
        ("i16 quant(scale: 0.125)", "RELU6", ["Relu6"]),
        ("i16 quant(scale: 0.125)", "RELU_N1_TO_1", BOTH),
        ("i16 quant(scale: 0.125)", "TANH", []),
        ("i32", "RELU", LEAST),
        ("i32", "RELU6", BOTH),
        ("i32 quant(scale: 0.5, zero_point: 3)", "RELU6", BOTH),
        ("i64", "RELU_N1_TO_1", BOTH),
        ("u8", "RELU_N1_TO_1", ["Minimum"]),
        ("u8 quant(min: -1.0, max: 9.0)", "RELU6", ["Minimum"]),
        ("bool", "RELU", []),
    ],
)
def test_activation_of_concatenated_integers(format: str, dtype: str, act: str, ops: list[str]) -> None:
    """One operator if runtimes have it for the dtype, else MAXIMUM and MINIMUM.

    A limit that no integer of the dtype exceeds is left out: u8 is never below -1.  A fused TANH does nothing
    to integers.
    """
    name, _, quantization = dtype.partition(" ")
    text = f"""graph main(%x: {name}[2,3] {quantization}) -> %y {{
      %y = Concatenation(%x, %x) {{axis: 1, act: {act}}} : {name}[2,6] {quantization}
    }}"""
    check(text, format, ["Concatenation", *ops])


def test_activation_of_packed_integers_stays() -> None:
    text = """graph main(%x: i4[2,3] quant(scale: 0.5)) -> %y {
      %y = Concatenation(%x, %x) {axis: 1, act: RELU} : i4[2,6] quant(scale: 0.5)
    }"""
    assert difference(legalize(parse_model(text), "circle"), parse_model(text)) is None


def test_legal_model_stays_unchanged() -> None:
    text = TCONV.format(act="NONE")
    assert difference(check(text, "circle", ["TransposeConv"]), parse_model(text)) is None


def test_intermediate_result_keeps_its_quantization() -> None:
    q = "quant(scale: 0.5, zero_point: 3)"
    text = f"""
        graph main(%x: i8[1,3,4,2] {q}) -> %y {{
          %w = const i8[3,2,2,2] {q} zeros()
          %y = TransposeConv([1, 6, 8, 3], %w, %x) {{stride_h: 2, stride_w: 2, act: RELU}} : i8[1,6,8,3] {q}
        }}
    """
    first, second = legalize(parse_model(text), "circle").main.ops
    assert first.output.type == second.output.type
    assert first.output.quantization is not None


# -- TFLite ------------------------------------------------------------------------------------

NORM = ["Mean", "SquaredDifference", "Mean", "Add", "Rsqrt", "Mul", "Sub", "Mul", "Add"]


@pytest.mark.parametrize("act", ["NONE", "RELU", "RELU6"])
@pytest.mark.parametrize(("gamma", "beta"), [("[1.5, -0.5, 2.0]", "[0.1, 0.2, 0.3]"), ("[1.5]", "[0.25]")])
def test_instance_norm(act: str, gamma: str, beta: str) -> None:
    text = f"""
        graph main(%x: f32[2,4,5,3]) -> %y {{
          %n = Abs(%x)
          %z = InstanceNorm(%n, {gamma}, {beta}) {{epsilon: 1e-3, act: {act}}}
          %y = Exp(%z)
        }}
    """
    model = check(text, "tflite", ["Abs", *NORM, "Exp"])
    assert [getattr(op, "act").name for op in model.main.ops[-2:-1]] == [act]  # noqa: B009  # not on every Op


def test_instance_norm_of_rank_3() -> None:
    text = """
        graph main(%x: f32[2,3,7]) -> %y {
          %y = InstanceNorm(%x, [1.5, -0.5, 2.0], [0.1, 0.2, 0.3]) {epsilon: 1e-3}
        }
    """
    found = ["Mean", "SquaredDifference", "Mean", "Add", "Rsqrt", "Reshape", "Mul", "Sub", "Mul", "Reshape"]
    check(text, "tflite", [*found, "Add"])


@pytest.mark.parametrize(
    ("gamma", "ops"),
    [
        ("[1.0]", ["Square", "Mean", "Add", "Rsqrt", "Mul"]),
        ("[1.0, 1.0, 1.0, 1.0]", ["Square", "Mean", "Add", "Rsqrt", "Mul"]),
        ("[1.0, 1.0, 2.0, 1.0]", ["Square", "Mean", "Add", "Rsqrt", "Mul", "Mul"]),
        ("%g", ["Square", "Mean", "Add", "Rsqrt", "Mul", "Mul"]),
    ],
)
def test_rms_norm(gamma: str, ops: list[str]) -> None:
    text = f"""
        graph main(%x: f32[2,3,4], %g: f32[4]) -> %y {{
          %y = RmsNorm(%x, {gamma}) {{epsilon: 1e-5}}
        }}
    """
    check(text, "tflite", ops)


TURN = {"GPT_NEOX": ["Split", "Neg", "Concatenation"], "GPT_J": ["Gather", "Mul"]}


@pytest.mark.parametrize("mode", sorted(TURN))
@pytest.mark.parametrize("rows", ["8", "1,1,1,8", "1,1,5,8"])
def test_rope_of_constant_tables(mode: str, rows: str) -> None:
    text = f"""
        graph main(%x: f32[2,3,5,8]) -> %y {{
          %s = const f32[{rows}] uniform(-1, 1)
          %c = const f32[{rows}] uniform(-1, 1)
          %y = RoPE(%x, %s, %c) {{mode: {mode}}}
        }}
    """
    check(text, "tflite", [*TURN[mode], "Mul", "Mul", "Add"])


@pytest.mark.parametrize("mode", sorted(TURN))
@pytest.mark.parametrize(
    ("rows", "more"), [("1,1,1,8", []), ("1,1,5,8", ["Reshape", "Slice", "Reshape", "Slice"])]
)
def test_rope_of_computed_tables(mode: str, rows: str, more: list[str]) -> None:
    text = f"""
        graph main(%x: f32[2,3,5,8], %s: f32[{rows}], %c: f32[{rows}]) -> %y {{
          %y = RoPE(%x, %s, %c) {{mode: {mode}}}
        }}
    """
    check(text, "tflite", [*TURN[mode], *more, "Mul", "Mul", "Add"])


def test_rope_of_a_table_that_changes() -> None:
    text = """
        graph main(%x: f32[2,3,5,8]) -> %y {
          %s = const f32[5,8] uniform(-1, 1)
          %y = RoPE(%x, %s, %s) {mode: GPT_NEOX}
        }
    """
    model = parse_model(text)
    table = model.main.ops[0].inputs[1]
    assert table is not None
    table.is_variable = True
    kinds = [type(op).__name__ for op in legalize(model, "tflite").main]
    assert kinds == [*TURN["GPT_NEOX"], "Reshape", "Slice", "Reshape", "Slice", "Mul", "Mul", "Add"]


def test_circle_keeps_its_own_operators() -> None:
    text = """
        graph main(%x: f32[2,3,4]) -> %y {
          %y = RmsNorm(%x, [1.0]) {epsilon: 1e-5}
        }
    """
    check(text, "circle", ["RmsNorm"])


def test_two_lowered_operators_have_unique_names() -> None:
    text = """
        graph main(%x: f32[2,3,4]) -> %y {
          %z = RmsNorm(%x, [1.0]) {epsilon: 1e-5}
          %y = RmsNorm(%z, [2.0]) {epsilon: 1e-5}
        }
    """
    model = check(text, "tflite", ["Square", "Mean", "Add", "Rsqrt", "Mul"] * 2 + ["Mul"])
    assert model.main.ops[4].output.name == "z"


def test_legalizations_are_not_passes() -> None:
    assert LEGALIZATIONS
    assert not {cls.__name__ for cls in LEGALIZATIONS} & {cls.__name__ for cls in all_passes().values()}
    assert all(not cls.name for cls in LEGALIZATIONS)


@pytest.mark.parametrize(
    "op",
    [
        "Conv2D(%x, %w) {stride_h: 2, stride_w: 2, act: RELU}",
        "Conv2D(%x, %w, none) {padding: VALID}",
        "DepthwiseConv2D(%x, %d) {depth_multiplier: 2}",
    ],
)
def test_a_convolution_without_bias_gets_zeros_for_tflite(op: str) -> None:
    text = f"""graph main(%x: f32[1,5,5,2]) -> %y {{
      %w = const f32[3,2,2,2] gaussian(0, 1)
      %d = const f32[1,2,2,4] gaussian(0, 1)
      %y = {op}
    }}"""
    lowered = check(text, "tflite", [op.split("(")[0]])
    bias = lowered.main.ops[0].inputs[2]
    assert bias is not None
    assert not bias.array().any()
    check(text, "circle", [op.split("(")[0]])


@pytest.mark.parametrize("format", ["circle", "tflite"])
@pytest.mark.parametrize(
    ("op", "formats"),
    [
        ("Conv2D(%x, %w, [1.0, 2.0]) {stride_h: 1, stride_w: 1}", ()),
        ("Conv2D(%x, %w) {stride_h: 1, stride_w: 1}", ("tflite",)),
        ("Concatenation(%x, %x) {axis: 3}", ()),
        ("Concatenation(%x, %x) {axis: 3, act: RELU}", ("circle", "tflite")),
    ],
)
def test_model_changes_only_where_needed(op: str, formats: tuple[str, ...], format: str) -> None:
    model = parse_model(f"""
        graph main(%x: f32[1,3,3,2]) -> %y {{
          %w = const f32[2,1,1,2] gaussian(0, 1)
          %y = {op}
        }}
    """)
    legal = legalize(model, format)
    assert legal is not model
    assert (difference(legal, model) is not None) == (format in formats)
