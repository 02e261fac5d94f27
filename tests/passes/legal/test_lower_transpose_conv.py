# SPDX-License-Identifier: Apache-2.0
"""Transposed convolutions for runtimes that lack them, or have them only without bias or activation."""

from __future__ import annotations

import pytest

from circlekit.interp.interpreter import run
from circlekit.ir.text import parse_model
from circlekit.passes.engine.legalize import legalize
from tests.passes.kit import assert_close, make_input
from tests.passes.legal.made_up_runtimes import NO_ACTIVATION, check, runtime


def transposed(size: int, stride: int, padding: str, out: tuple[int, int], act: str, bias: str = "") -> str:
    """Return a transposed convolution of [1,8,6,4] to ``out`` rows and columns of 3 channels, as text.

    ``size``: the rows, and the columns, of the filter.
    """
    return f"""
        %w = const f32[3,{size},{size},4] gaussian(0, 1)
        %y = TransposeConv([1, {out[0]}, {out[1]}, 3], %w, %x{bias})
            {{stride_h: {stride}, stride_w: {stride}, padding: {padding}, act: {act}}}
    """


BIAS = ", [0.1, -0.2, 0.3]"


@pytest.mark.parametrize(
    ("size", "stride", "padding", "out", "ops"),
    [
        (2, 2, "VALID", (16, 12), "Conv2D DepthToSpace"),
        (3, 2, "SAME", (16, 12), "Pad Conv2D DepthToSpace"),
        (3, 2, "VALID", (17, 13), "Pad Conv2D DepthToSpace Slice"),
        (4, 2, "SAME", (16, 12), "Pad Conv2D DepthToSpace Slice"),
        (4, 2, "VALID", (18, 14), "Pad Conv2D DepthToSpace"),
        (1, 2, "VALID", (15, 11), "Conv2D DepthToSpace Slice"),
        (3, 1, "SAME", (8, 6), "Pad Conv2D"),
        (3, 1, "VALID", (10, 8), "Pad Conv2D"),
        (5, 3, "VALID", (26, 20), "Pad Conv2D DepthToSpace Slice"),
    ],
)
def test_transposed_convolution(size: int, stride: int, padding: str, out: tuple[int, int], ops: str) -> None:
    target = runtime("TRANSPOSE_CONV")
    check(transposed(size, stride, padding, out, "NONE"), target, ops)
    check(transposed(size, stride, padding, out, "RELU", BIAS), target, ops)


@pytest.mark.parametrize(
    ("strides", "size", "out", "ops"),
    [
        ((2, 1), 2, (16, 7), "Pad Conv2D Reshape Transpose Reshape"),
        ((1, 2), 2, (9, 12), "Pad Conv2D Reshape"),
        ((3, 2), 3, (24, 13), "Pad Conv2D Reshape Transpose Reshape Slice"),
    ],
)
def test_transposed_convolution_of_uneven_strides(
    strides: tuple[int, int], size: int, out: tuple[int, int], ops: str
) -> None:
    body = transposed(size, 9, "VALID", out, "RELU", BIAS).replace("stride_h: 9", f"stride_h: {strides[0]}")
    check(body.replace("stride_w: 9", f"stride_w: {strides[1]}"), runtime("TRANSPOSE_CONV"), ops)


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("more", [(1, 0), (2, 0), (0, 5), (9, 9)])
def test_transposed_convolution_of_more_than_the_full_result(stride: int, more: tuple[int, int]) -> None:
    """Rows and columns that no input reaches are zeros."""
    full = (7 * stride + 2 + more[0], 5 * stride + 2 + more[1])
    body = transposed(2, stride, "VALID", full, "NONE")
    model = parse_model(f"graph main(%x: f32[1,8,6,4]) -> %y {{ {body} }}")
    legal = legalize(model, "circle", targets=[runtime("TRANSPOSE_CONV")])
    assert "TRANSPOSE_CONV" not in {op.code for op in legal.main}
    inputs = [make_input(value, "normal") for value in model.main.inputs]
    assert_close(run(legal, inputs), run(model, inputs))


def test_transposed_convolution_by_a_computed_filter_stays() -> None:
    target = runtime("TRANSPOSE_CONV")
    computed = transposed(2, 2, "VALID", (16, 12), "NONE").replace("%w, %x", "%v, %x")
    check(computed.replace("%y =", "%v = Abs(%w)\n%y ="), target, "Abs TransposeConv")


def test_bias_and_activation_of_transposed_convolution() -> None:
    body = transposed(2, 2, "VALID", (16, 12), "RELU6", BIAS)
    form, with_bias = "i32,f32,f32:f32", "i32,f32,f32,f32:f32"
    check(body, runtime(forms={"TRANSPOSE_CONV": {with_bias: NO_ACTIVATION}}), "TransposeConv Relu6")
    check(body, runtime(forms={"TRANSPOSE_CONV": {form: NO_ACTIVATION}}), "TransposeConv Add")
    check(body, runtime(forms={"TRANSPOSE_CONV": {with_bias: {}}}), "TransposeConv")
