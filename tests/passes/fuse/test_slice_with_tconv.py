# SPDX-License-Identifier: Apache-2.0
"""A Slice after a transposed convolution is removed if SAME or VALID padding omits the same rows."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from circlekit.interp.interpreter import run
from circlekit.ir.text import parse_model
from circlekit.ops.convolution.conv import TransposeConv
from circlekit.passes.engine.legalize import legalize
from tests.ops.litert import run_litert
from tests.passes.kit import assert_close, check_pass, make_input, refusals


def sliced(
    begin: str,
    size: str,
    *,
    output: str = "[1,10,10,3]",
    filter: str = "f32[3,4,4,2]",
    input: str = "f32[1,4,4,2]",
    attributes: str = "padding: VALID, stride_h: 2, stride_w: 2",
    bias: str = ", %b",
    result: str = "%z",
) -> str:
    """Return a transposed convolution and a Slice of its result, as exporters from PyTorch write padding."""
    return f"""graph main(%x: {input}, %dyn: i32[4]) -> {result} {{
      %w = const {filter} gaussian(0, 1)
      %b = const f32[3] [0.5, -1.0, 2.0]
      %y = TransposeConv({output}, %w, %x{bias}) {{{attributes}}}
      %z = Slice(%y, {begin}, {size})
    }}"""


@pytest.mark.parametrize("bias", ["", ", %b"])
@pytest.mark.parametrize(
    ("begin", "size", "padding", "shape"),
    [
        ("[0,1,1,0]", "[1,8,8,3]", "SAME", (1, 8, 8, 3)),
        ("[0,1,1,1]", "[1,8,8,2]", "SAME", (1, 8, 8, 2)),
        ("[0,1,1,0]", "[-1,8,8,-1]", "SAME", (1, 8, 8, 3)),
        ("[0,1,1,1]", "[1,8,8,-1]", "SAME", (1, 8, 8, 2)),
        ("[0,0,0,1]", "[1,10,10,1]", "VALID", (1, 10, 10, 1)),
    ],
)
def test_the_slice_becomes_the_padding(
    begin: str, size: str, padding: str, shape: tuple[int, ...], bias: str
) -> None:
    model = check_pass(sliced(begin, size, bias=bias), "fuse_slice_with_tconv", expect_ops=["TransposeConv"])
    (op,) = model.main.ops
    assert isinstance(op, TransposeConv)
    assert op.padding.name == padding
    assert op.output.shape == shape
    assert op.output_shape.array().tolist() == list(shape)
    assert (op.bias is None) == (bias == "")
    assert op.output.name == "z"


@pytest.mark.parametrize(
    "text",
    [
        sliced("[0,0,0,1]", "[1,8,8,2]", output="[1,8,8,3]", filter="f32[3,2,2,2]"),
        sliced(
            "[0,0,0,1]", "[1,7,7,2]", output="[1,7,7,3]", attributes="padding: SAME, stride_h: 2, stride_w: 2"
        ),
    ],
    ids=["as many channels as rows of the filter", "SAME padding of an odd size"],
)
def test_slices_of_channels_shorten_the_filter(text: str) -> None:
    (op,) = check_pass(text, "fuse_slice_with_tconv", expect_ops=["TransposeConv"]).main.ops
    assert isinstance(op, TransposeConv)
    assert op.filter.static_shape[0] == 2


def strided(bounds: str, masks: str = "", strides: str = "[1,1,1,1]", **kwargs: str) -> str:
    """Return ``sliced`` with a StridedSlice; ``bounds``: its begin and end."""
    text = sliced("%BEGIN", "%SIZE", **kwargs)
    return text.replace("Slice(%y, %BEGIN, %SIZE)", f"StridedSlice(%y, {bounds}, {strides}) {{{masks}}}")


@pytest.mark.parametrize("bias", ["", ", %b"])
@pytest.mark.parametrize(
    "text_of",
    [
        lambda **words: strided("[0,1,1,0], [1,9,9,3]", **words),
        lambda **words: strided("[0,1,1,0], [1,-1,-1,3]", **words),
        lambda **words: strided("[7,1,-9,7], [7,-1,9,7]", "begin_mask: 9, end_mask: 9", **words),
        lambda **words: strided("[0,1,1], [0,9,9]", "end_mask: 1", "[1,1,1]", **words),
        lambda **words: strided(
            "[0,1,1,0], [0,-1,-1,0]", "ellipsis_mask: 1, begin_mask: 8, end_mask: 8", **words
        ),
        lambda **words: strided("[0,1,1,0], [1,8,8,3]", "offset: true", **words),
    ],
    ids=["bounds", "negative ends", "masks instead of 7", "rank 3 of 4", "ellipsis", "sizes as ends"],
)
def test_a_strided_slice_becomes_the_padding(text_of: Callable[..., str], bias: str) -> None:
    """Exporters from ONNX write x[:, p:-p, p:-p, :] for the padding."""
    (op,) = check_pass(text_of(bias=bias), "fuse_slice_with_tconv", ["TransposeConv"]).main.ops
    assert isinstance(op, TransposeConv)
    assert (op.padding.name, op.output.shape) == ("SAME", (1, 8, 8, 3))


def test_a_strided_slice_of_channels() -> None:
    text = strided("[0,1,1,1], [1,9,9,3]")
    (op,) = check_pass(text, "fuse_slice_with_tconv", ["TransposeConv"]).main.ops
    assert isinstance(op, TransposeConv)
    assert op.filter.static_shape[0] == 2


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (strided("[0,0,0,0], [1,10,10,3]", strides="[1,2,2,1]"), "neither SAME nor VALID"),
        (strided("[0,0,0,0], [1,10,10,3]", strides="[1,1,1,2]"), "strides of 1, got [1, 1, 1, 2]"),
        (strided("[0,0,0,2], [1,10,10,-4]", strides="[1,1,1,-1]"), "strides of 1, got [1, 1, 1, -1]"),
        (strided("[0,2,1,0], [1,10,9,3]"), "neither SAME nor VALID"),
        (strided("[0,1,1,0], [1,9,9,3]", "shrink_axis_mask: 1"), "shrink_axis_mask is 1, expected 0"),
        (strided("[0,1,1,0], [1,9,9,3]", result="%z, %y"), "%y: is an output of the graph"),
    ],
)
def test_strided_near_misses(text: str, sentence: str) -> None:
    check_pass(text, "fuse_slice_with_tconv", refused=sentence)


def test_different_strides_and_kernels() -> None:
    text = sliced(
        "[0,0,1,0]",
        "[1,4,12,3]",
        output="[1,4,14,3]",
        filter="f32[3,1,5,2]",
        attributes="padding: VALID, stride_h: 1, stride_w: 3",
    )
    (op,) = check_pass(text, "fuse_slice_with_tconv", expect_ops=["TransposeConv"]).main.ops
    assert isinstance(op, TransposeConv)
    assert (op.stride_h, op.stride_w, op.padding.name) == (1, 3, "SAME")


def test_same_padding_that_litert_rejects_becomes_a_slice_again() -> None:
    """6 of 10 rows, stride 2: LiteRT expects 3 input rows for 6 rows with SAME, but the input has 4."""
    text = sliced("[0,1,1,0]", "[1,6,6,3]")
    model = check_pass(text, "fuse_slice_with_tconv", expect_ops=["TransposeConv"])
    lowered = legalize(model, "tflite")
    assert [type(op).__name__ for op in lowered.main] == ["TransposeConv", "Slice"]
    inputs = [make_input(v, "normal") for v in model.main.inputs]
    wanted = run(parse_model(text), inputs)
    assert_close(run(lowered, inputs), wanted)
    assert_close(run_litert(lowered.main, inputs), wanted)


def test_a_bias_of_rank_4() -> None:
    text = sliced("[0,1,1,1]", "[1,8,8,2]").replace(
        "f32[3] [0.5, -1.0, 2.0]", "f32[1,1,1,3] [0.5, -1.0, 2.0]"
    )
    (op,) = check_pass(text, "fuse_slice_with_tconv", expect_ops=["TransposeConv"]).main.ops
    assert isinstance(op, TransposeConv)
    assert op.bias is not None
    assert op.bias.shape == (2,)


def test_activation_is_kept() -> None:
    text = sliced("[0,1,1,0]", "[1,8,8,3]", attributes="padding: VALID, stride_h: 2, stride_w: 2, act: RELU")
    (op,) = check_pass(text, "fuse_slice_with_tconv", expect_ops=["TransposeConv"]).main.ops
    assert isinstance(op, TransposeConv)
    assert op.act.name == "RELU"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            sliced("[0,2,1,0]", "[1,8,8,3]"),
            "neither SAME nor VALID padding gives [8, 8] rows and columns from [2, 1] on",
        ),
        (
            sliced("[0,1,1,0]", "[1,4,8,3]"),
            "neither SAME nor VALID padding gives [4, 8] rows and columns from [1, 1] on",
        ),
        (
            sliced("[0,0,0,0]", "[1,6,6,3]"),
            "neither SAME nor VALID padding gives [6, 6] rows and columns from [0, 0] on",
        ),
        (
            sliced("[1,1,1,0]", "[1,8,8,3]", output="[2,10,10,3]", input="f32[2,4,4,2]"),
            "%z: slices the batch",
        ),
        (
            sliced("[0,1,1,0]", "[1,8,8,3]", output="[2,10,10,3]", input="f32[2,4,4,2]"),
            "%z: slices the batch",
        ),
        (sliced("[0,1,1,0]", "[1,8,8,3]", result="%z, %y"), "%y: is an output of the graph"),
    ],
)
def test_near_misses(text: str, sentence: str) -> None:
    check_pass(text, "fuse_slice_with_tconv", refused=sentence)


@pytest.mark.parametrize(
    "text",
    [
        sliced("%dyn", "[1,8,8,3]"),
        sliced("[0,1,1,0]", "%dyn"),
        sliced("[0,1,1,0]", "[1,8,8,3]", output="%dyn"),
    ],
)
def test_computed_sizes_are_refused(text: str) -> None:
    assert any("%dyn: is not constant" in s for s in refusals(text, "fuse_slice_with_tconv"))
