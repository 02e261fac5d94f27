# SPDX-License-Identifier: Apache-2.0
"""Custom operators of TensorFlow and MediaPipe become builtin operators; near misses stay custom."""

from __future__ import annotations

import itertools
import struct
from collections import Counter
from typing import Any

import pytest
from ai_edge_litert.interpreter import Interpreter

from circlekit.equivalence.litert import run_interpreter, run_model
from circlekit.interp.interpreter import run
from circlekit.io.operator_fields import flexbuffer_map
from circlekit.io.write.save import to_bytes
from circlekit.ir.text import parse_model
from tests.passes.kit import assert_close, check_pass, check_refusal, make_input


def custom(code: str, operands: str, **options: Any) -> str:
    stored = list(bytes(flexbuffer_map(options)))
    extra = f", extra: {{custom_options: array(u8, {stored})}}" if options else ""
    return f'Opaque({operands}) {{code: "CUSTOM", custom_code: "{code}"{extra}}}'


ADD = f"%z = {custom('AddV2', '%x, %y')} : f32[2,3]"
BROADCAST = custom("BroadcastTo", "%u, [2, 3]")


@pytest.mark.parametrize("shape", ["[2,3]", "[3]", "[1,1]"])
def test_add(shape: str) -> None:
    text = f"graph main(%x: f32[2,3], %y: f32{shape}) -> %z {{ {ADD} }}"
    check_pass(text, "resolve_customop_add", ["Add"])


@pytest.mark.parametrize("broadcast", [BROADCAST, "BroadcastTo(%u, [2, 3])"])
@pytest.mark.parametrize("operands", ["%b, %y", "%y, %b"])
def test_broadcast_before_add_is_removed(broadcast: str, operands: str) -> None:
    text = f"""graph main(%u: f32[1,3], %y: f32[2,3]) -> %z {{
      %b = {broadcast} : f32[2,3]
      %z = {custom("AddV2", operands)} : f32[2,3]
    }}"""
    check_pass(text, "resolve_customop_add", ["Add"])
    left = "OpaqueOp" if "Opaque" in broadcast else "BroadcastTo"
    check_pass(text.replace("-> %z", "-> %z, %b"), "resolve_customop_add", [left, "Add"])


def test_broadcast_that_the_sum_needs_stays() -> None:
    text = f"""graph main(%u: f32[1,3], %y: f32[3]) -> %z {{
      %b = {BROADCAST} : f32[2,3]
      %z = {custom("AddV2", "%b, %y")} : f32[2,3]
    }}"""
    check_pass(text, "resolve_customop_add", ["OpaqueOp", "Add"])


@pytest.mark.parametrize("operands", ["%b, %y", "%y, %b"])
def test_a_broadcast_of_an_unknown_batch_stays(operands: str) -> None:
    """If the batch is 1, the broadcast makes 3 of it; the sum alone would not."""
    text = f"""graph main(%u: f32[?,2], %y: f32[?,2]) -> %z {{
      %b = BroadcastTo(%u, [3, 2]) : f32[3,2]
      %z = {custom("AddV2", operands)} : f32[3,2]
    }}"""
    check_pass(text, "resolve_customop_add", ["BroadcastTo", "Add"])


def test_add_of_unsupported_dtypes_stays() -> None:
    text = f"graph main(%x: i64[2,3], %y: i64[2,3]) -> %z {{ {ADD.replace('f32', 'i64')} }}"
    check_refusal(text, "resolve_customop_add", "%x: expected f32 or i32, got i64")


@pytest.mark.parametrize(("a", "b"), list(itertools.product((False, True), repeat=2)))
def test_batch_matmul(a: bool, b: bool) -> None:
    x, y = ("[2,5,3,4]" if a else "[2,5,4,3]"), ("[5,2,3]" if b else "[5,3,2]")
    text = f"""graph main(%x: f32{x}, %y: f32{y}) -> %z {{
      %z = {custom("BatchMatMulV2", "%x, %y", adj_x=a, adj_y=b, T=1)} : f32[2,5,4,2]
    }}"""
    check_pass(text, "resolve_customop_batchmatmul", ["BatchMatMul"])


def test_batch_matmul_of_vectors_stays() -> None:
    text = f"""graph main(%x: f32[2,4,3], %y: f32[3]) -> %z {{
      %z = {custom("BatchMatMulV2", "%x, %y")} : f32[2,4]
    }}"""
    check_refusal(text, "resolve_customop_batchmatmul", "%y: expected rank 2 or more, got f32[3]")


@pytest.mark.parametrize("name", ["batchmatmul", "matmul"])
def test_a_product_with_damaged_options_stays(name: str) -> None:
    code = {"batchmatmul": "BatchMatMulV2", "matmul": "MatMul"}[name]
    options = "extra: {custom_options: array(u8, [1, 2, 3])}"
    text = f"""graph main(%x: f32[4,3], %y: f32[3,2]) -> %z {{
      %z = Opaque(%x, %y) {{code: "CUSTOM", custom_code: "{code}", {options}}} : f32[4,2]
    }}"""
    check_refusal(text, f"resolve_customop_{name}", "%z: FlexBuffer: expected a slot of 1, 2, 4 or 8 bytes")


@pytest.mark.parametrize(("a", "b"), list(itertools.product((False, True), repeat=2)))
def test_matmul(a: bool, b: bool) -> None:
    x, y = ("[3,4]" if a else "[4,3]"), ("[2,3]" if b else "[3,2]")
    text = f"""graph main(%x: f32{x}, %y: f32{y}) -> %z {{
      %z = {custom("MatMul", "%x, %y", transpose_a=a, transpose_b=b)} : f32[4,2]
    }}"""
    transposes = ["Transpose"] * (a + (not b))
    check_pass(text, "resolve_customop_matmul", [*transposes, "FullyConnected"])


def test_matmul_of_integers_stays() -> None:
    call = custom("MatMul", "%x, %y", transpose_a=False, transpose_b=False)
    text = f"graph main(%x: i32[4,3], %y: i32[3,2]) -> %z {{ %z = {call} : i32[4,2] }}"
    check_pass(text, "resolve_customop_matmul", ["OpaqueOp"])


SPLIT = (
    "graph main(%x: f32[6,2], %n: i32[3]) -> %a, %b, %c {{ %a, %b, %c = {} : f32[1,2], f32[3,2], f32[2,2] }}"
)


@pytest.mark.parametrize("dtype", ["i32", "i64"])
def test_split_v(dtype: str) -> None:
    call = custom("SplitV", "%x, %sizes, %axis")
    text = SPLIT.format(call).replace(
        "{ %a", f"{{ %sizes = const {dtype}[3] [1, 3, -1] %axis = const {dtype}[] 0 %a"
    )
    operands = check_pass(text, "resolve_customop_splitv", ["SplitV"]).main.ops[0].inputs
    assert [value and value.dtype.short for value in operands] == ["f32", "i32", "i32"]
    assert ([value and value.name for value in operands[1:]] == ["sizes", "axis"]) == (dtype == "i32")


@pytest.mark.parametrize("operands", ["%x, %n, 0", "%x, [1.0, 3.0, 2.0], 0", "%x, %k, 0"])
def test_split_v_of_invalid_sizes_stays(operands: str) -> None:
    text = SPLIT.format(custom("SplitV", operands))
    text = text.replace("{ %a", "{ %k = const i64[3] [1, 3, 4294967298] %a")
    sentence = "expected data, sizes and axis, the last two as signed integer constants that fit int32"
    check_refusal(text, "resolve_customop_splitv", sentence)


def test_split_v_of_another_total_or_axis_stays() -> None:
    text = SPLIT.format(custom("SplitV", "%x, %sizes, 0")).replace(
        "{ %a", "{ %sizes = const i32[3] [1, 3, 3] %a"
    )
    check_refusal(text, "resolve_customop_splitv", "%a: size_splits: expected a sum of 6, got [1, 3, 3]")
    text = SPLIT.format(custom("SplitV", "%x, [1, 3, 2], 5"))
    check_refusal(text, "resolve_customop_splitv", "%a: axis 5 is out of range for rank 2")


def test_broadcast_to() -> None:
    text = f"graph main(%u: f32[1,3]) -> %z {{ %z = {BROADCAST} : f32[2,3] }}"
    check_pass(text, "resolve_former_customop", ["BroadcastTo"])


def test_another_custom_operator_stays() -> None:
    text = f"graph main(%u: f32[3]) -> %z {{ %z = {custom('Erf', '%u')} : f32[3] }}"
    for name in ("resolve_former_customop", "resolve_customop_add", "resolve_customop_splitv"):
        check_pass(text, name, ["OpaqueOp"])


# -- MaxPoolWithArgmax ---------------------------------------------------------------------------


def pool(
    shape: str = "[2,6,7,3]",
    result: str = "[2,2,3,3]",
    places: str = "i64",
    outputs: str = "%y, %p",
    taps: tuple[int, ...] = (1, 3, 2, 1),
    strides: tuple[int, ...] = (1, 2, 2, 1),
    padding: str = "VALID",
    images: bool = False,
) -> str:
    """Return a model of one MaxPoolWithArgmax.

    ``result``: the shape of both results.  ``places``: the dtype of the positions %p.  ``taps``: the window.
    ``images``: whether positions count the elements of all images (``include_batch_in_index``).
    """
    options: dict[str, Any] = {"ksize": list(taps), "strides": list(strides), "padding": padding}
    if images:
        options["include_batch_in_index"] = True
    call = custom("MaxPoolWithArgmax", "%x", **options)
    return f"""graph main(%x: f32{shape}) -> {outputs} {{
      %y, %p = {call} : f32{result}, {places}{result}
    }}"""


def parts(channels: int, padded: bool = False) -> list[str]:
    """Return the operators that replace a MaxPoolWithArgmax."""
    per_channel = [
        "Conv2D",
        "ArgMax",
        "Reshape",
        "Cast",
        "Mul",
        "Floor",
        "Mul",
        "Neg",
        "Add",
        "Mul",
        "Add",
        "Mul",
        "Add",
    ]
    before = ["MaxPool2D", *["Mul", "PadV2"] * padded, "Split"]
    return [*before, *per_channel * channels, "Concatenation", *["Add"] * (channels > 1), "Cast"]


PASS = "resolve_customop_max_pool_with_argmax"


@pytest.mark.parametrize("images", [False, True])
@pytest.mark.parametrize("places", ["i32", "i64"])
def test_max_pool_with_argmax(images: bool, places: str) -> None:
    check_pass(pool(images=images, places=places), PASS, parts(3))


def test_max_pool_with_argmax_of_one_channel() -> None:
    check_pass(pool("[2,6,7,1]", "[2,2,3,1]"), PASS, parts(1))
    check_pass(pool("[2,6,7,1]", "[2,4,2,1]", strides=(1, 1, 3, 1)), PASS, parts(1))


@pytest.mark.parametrize("window", [1, 4])
def test_max_pool_with_argmax_has_the_operators_that_the_rules_of_one_count(window: int) -> None:
    """The counts are those of the rules of ONE's recipes MaxPoolWithArgmax_000 and 001.

    The window of MaxPoolWithArgmax_000 has 1 element: SAME pads nothing, and ONE makes PADV2 all the same.
    """
    counts = {"Split": 1, "Cast": 2, "Add": 3, "Mul": 5, "Floor": 1, "Neg": 1, "Concatenation": 1, "PadV2": 1}
    taps = (1, window, window, 1)
    model = check_pass(pool("[1,18,18,1]", "[1,9,9,1]", taps=taps, padding="SAME"), PASS)
    found = Counter(type(op).__name__ for op in model.main)
    assert {name: found[name] for name in counts} == counts


def test_max_pool_with_argmax_padded() -> None:
    """The padding of a SAME window is never the maximum, even if all elements are negative."""
    check_pass(pool("[2,6,7,2]", "[2,3,4,2]", padding="SAME", images=True), PASS, parts(2, True))
    wide = pool("[1,14,14,2]", "[1,2,2,2]", taps=(1, 7, 7, 1), strides=(1, 7, 7, 1), padding="SAME")
    check_pass(wide, PASS, parts(2, True))  # windows of 7 fit 14 rows and columns without padding


def test_max_pool_with_argmax_of_the_whole_image() -> None:
    check_pass(pool("[1,3,2,1]", "[1,1,1,1]"), PASS, parts(1))


@pytest.mark.parametrize(
    ("limit", "number", "sentence"),
    [
        ("MAX_EXACT_INTEGER", 252, None),
        (
            "MAX_EXACT_INTEGER",
            251,
            "expected at most 251 elements, whose positions are exact in f32, got 252",
        ),
        ("MAX_WINDOW_OR_CHANNELS", 6, None),
        ("MAX_WINDOW_OR_CHANNELS", 5, "at most 5 elements in a window and at most 5 channels, got 6 and 3"),
    ],
)
def test_limits_of_max_pool_with_argmax(
    monkeypatch: pytest.MonkeyPatch, limit: str, number: int, sentence: str | None
) -> None:
    """The data have 2 * 6 * 7 * 3 = 252 elements, the window has 3 * 2 = 6."""
    monkeypatch.setattr(f"circlekit.passes.replace.{PASS}.{limit}", number)
    if sentence is None:
        check_pass(pool(), PASS, parts(3))
    else:
        check_refusal(pool(), PASS, sentence)


def test_positions_in_a_window_larger_than_the_image_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last element of the window is 4 rows and 1 column behind the first: (4 * 3 + 1) * 2 = 26."""
    text = pool("[1,2,3,2]", "[1,1,2,2]", taps=(1, 5, 2, 1), padding="SAME")
    limit = f"circlekit.passes.replace.{PASS}.MAX_EXACT_INTEGER"
    monkeypatch.setattr(limit, 26)
    check_pass(text, PASS, parts(2, padded=True))
    monkeypatch.setattr(limit, 25)
    check_refusal(text, PASS, "expected positions in a window that differ by at most 25")


def test_channels_share_the_constants_of_the_convolution() -> None:
    model = check_pass(pool(), PASS)
    convolutions = [op for op in model.main if op.code == "CONV_2D"]
    assert len(convolutions) == 3
    assert len({tuple(op.inputs[1:]) for op in convolutions}) == 1


def test_max_pool_with_unused_positions() -> None:
    check_pass(pool(outputs="%y"), PASS, ["MaxPool2D"])


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (pool("[?,6,7,3]", "[?,2,3,3]"), "%y: expected a static [N,H,W,C], got [?,6,7,3]"),
        (pool("[2,6,7,0]", "[2,2,3,0]"), "%y: expected data with elements, got [2,6,7,0]"),
        (
            pool("[1,4096,4097,1]", "[1,2047,2048,1]"),
            "expected at most 16777216 elements, whose positions are exact in f32, got 16781312",
        ),
        (
            pool("[1,2,40995,1]", "[1,2,641,1]", taps=(1, 1023, 1, 1), strides=(1, 1, 64, 1), padding="SAME"),
            "which is exact in f32, got a difference of 41896890",
        ),
        (pool(places="i16"), "expected f32 data and positions of i32 or i64"),
        (pool("[6,7,3]", "[2,3,3]"), "%y: expected a static [N,H,W,C], got [6,7,3]"),
        (pool(result="[2,2,4,3]"), "%y: expected shape [2,2,3,3], got [2,2,4,3]"),
        (pool().replace(": f32[2,2", ": i16[2,2"), "expected f32 data and positions of i32 or i64"),
        (pool().replace("(%x)", "(%x, %x)"), "%y: expected one operand, got 2"),
        (pool().replace("%x: f32", "%x: f16"), "expected f32 data and positions of i32 or i64"),
        (
            pool(outputs="%y").replace("%y, %p =", "%y =").replace(", i64[2,2,3,3]", ""),
            "expected f32 data and positions of i32 or i64",
        ),
        (pool(taps=(1, 3, 2, 2)), "expected windows within one image and channel"),
        (pool(strides=(1, 2, 2, 2)), "expected windows within one image and channel"),
        (pool(strides=(2, 2, 2, 1)), "expected windows within one image and channel"),
    ],
)
def test_max_pool_with_argmax_near_misses(text: str, sentence: str) -> None:
    check_refusal(text, PASS, sentence)


def transpose_conv(size: int, taps: int, stride: int, padding: int) -> str:
    """Return MediaPipe's transposed convolution of ``size`` rows; ``padding``: 1 for SAME, 2 for VALID."""
    options = list(struct.pack("<3i", padding, 1, stride))
    omitted = max(0, taps - (size - 1) % stride - 1) if padding == 1 else 0
    return f"""graph main(%x: f32[1,{size},3,2]) -> %z {{
      %w = const f32[4,{taps},1,2] gaussian(0, 1)
      %b = const f32[4] [0.5, -1.0, 2.0, 4.0]
      %z = Opaque(%x, %w, %b) {{
        code: "CUSTOM", custom_code: "Convolution2DTransposeBias",
        extra: {{custom_options: array(u8, {options})}}
      }} : f32[1,{stride * (size - 1) + taps - omitted},3,4]
    }}"""


@pytest.mark.parametrize("size", [1, 2, 4, 5])
@pytest.mark.parametrize(("taps", "stride"), [(1, 1), (2, 2), (3, 1), (3, 2), (4, 3)])
@pytest.mark.parametrize("padding", [1, 2])
def test_transpose_conv_of_mediapipe(size: int, taps: int, stride: int, padding: int) -> None:
    """The kernel and the TRANSPOSE_CONV have the results of LiteRT's delegate, which alone has a kernel."""
    text = transpose_conv(size, taps, stride, padding)
    before, after = parse_model(text), check_pass(text, "resolve_customop_transpose_conv", ["TransposeConv"])
    inputs = [make_input(before.main.inputs[0], "normal")]
    wanted = run_interpreter(Interpreter(model_content=to_bytes(before, "tflite")), [inputs])[0]
    assert_close(run(before, inputs), wanted)
    assert_close(run_model(after, inputs), wanted)


@pytest.mark.parametrize(
    ("padding", "stride", "cut", "sentence"),
    [
        (1, 2, 4, "%z: CUSTOM: expected at least 12 bytes of custom options, got 4"),
        (0, 2, 12, "%z: CUSTOM: expected padding 1 or 2 and strides of at least 1, got padding 0"),
        (1, 0, 12, "got padding 1 and strides 0 and 1"),
    ],
)
def test_transpose_conv_near_misses(padding: int, stride: int, cut: int, sentence: str) -> None:
    old = list(struct.pack("<3i", 1, 1, 2))
    new = list(struct.pack("<3i", padding, 1, stride)[:cut])
    text = transpose_conv(4, 3, 2, 1).replace(str(old), str(new))
    check_refusal(text, "resolve_customop_transpose_conv", sentence)
