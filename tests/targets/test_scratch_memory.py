# SPDX-License-Identifier: Apache-2.0
"""Scratch buffers: the planned arena has the size of LiteRT's own, for models whose kernels need many."""

from __future__ import annotations

import pytest

import circlekit
from circlekit.equivalence.litert import is_available
from circlekit.targets.memory_plan import plan_memory
from circlekit.targets.planners import LITERT
from circlekit.targets.scratch_memory import litert_scratch, one_scratch
from tests.targets.litert_arena import litert_arena_bytes


def expect_litert_arena(text: str) -> None:
    if not is_available():
        pytest.skip("LiteRT is not installed")
    model = circlekit.parse(text)
    assert plan_memory(model.main, LITERT).size == litert_arena_bytes(model)


PER_TENSOR = "quant(scale: 0.5)"
PER_CHANNEL = "quant(scale: [0.5, 0.25, 0.5, 0.25], axis: {axis})"
"""Scales of 4 channels."""


@pytest.mark.parametrize(
    ("is_per_channel", "taps", "depth", "stride"),
    [
        *((flag, taps, 4, stride) for flag in (True, False) for taps, stride in ((3, 1), (1, 1), (1, 2))),
        (True, 3, 2, 1),  # a grouped convolution has a scale for each channel
        (True, 1, 2, 3),
    ],
)
def test_hybrid_convolutions(is_per_channel: bool, taps: int, depth: int, stride: int) -> None:
    size, scales = -(-12 // stride), PER_CHANNEL.format(axis=0) if is_per_channel else PER_TENSOR
    strides = f"stride_h: {stride}, stride_w: {stride}"
    expect_litert_arena(f"""graph main(%x: f32[2,12,12,4]) -> %y {{
      %w = const i8[4,{taps},{taps},{depth}] {scales} constant(1)
      %y = Conv2D(%x, %w, [0.0, 0.0, 0.0, 0.0]) {{{strides}}} : f32[2,{size},{size},4]
    }}""")


def test_a_hybrid_convolution_without_channels() -> None:
    model = circlekit.parse(f"""graph main(%x: f32[1,5,5,0]) -> %y {{
      %w = const i8[2,3,3,0] {PER_TENSOR} []
      %y = Conv2D(%x, %w, none) : f32[1,5,5,2]
    }}""")
    assert litert_scratch(model.main.ops[0]) == [0, 0, 0, 4 * 25 * 2]


@pytest.mark.parametrize(
    ("data", "weights", "taps", "sizes"),
    [
        ("f32", "f32", 3, [5 * 5 * 3 * 3 * 4 * 4]),
        ("f32", "i8", 3, [5 * 5 * 3 * 3 * 4 * 4]),  # hybrid: LiteRT's patches are int8, ONE's are floats
        ("i8", "i8", 3, [5 * 5 * 3 * 3 * 4]),
        ("u8", "u8", 3, [5 * 5 * 3 * 3 * 4]),
        ("i16", "i16", 3, []),
        ("f32", "i8", 1, []),
    ],
)
def test_patches_of_one_have_the_dtype_of_the_input(
    data: str, weights: str, taps: int, sizes: list[int]
) -> None:
    """The sizes of ``ComputeScratchpadSizeConv2d`` in ``ScratchpadHelperLinux.h`` of ONE."""
    forms = {dtype: "" if dtype == "f32" else PER_TENSOR for dtype in (data, weights)}
    model = circlekit.parse(f"""graph main(%x: {data}[1,5,5,4] {forms[data]}) -> %y {{
      %w = const {weights}[2,{taps},{taps},4] {forms[weights]} constant(1)
      %y = Conv2D(%x, %w, none) : {data}[1,5,5,2] {forms[data]}
    }}""")
    assert one_scratch(model.main.ops[0]) == sizes


@pytest.mark.parametrize("batches", [1, 40])
def test_hybrid_depthwise_convolutions(batches: int) -> None:
    expect_litert_arena(f"""graph main(%x: f32[{batches},5,5,4]) -> %y {{
      %w = const i8[1,3,3,4] {PER_CHANNEL.format(axis=3)} constant(1)
      %y = DepthwiseConv2D(%x, %w, [0.0, 0.0, 0.0, 0.0]) {{depth_multiplier: 1}} : f32[{batches},5,5,4]
    }}""")


@pytest.mark.parametrize(("rows", "depth", "units"), [(1, 16, 100), (50, 16, 4), (7, 300, 9)])
def test_hybrid_fully_connected_layers(rows: int, depth: int, units: int) -> None:
    expect_litert_arena(f"""graph main(%x: f32[{rows},{depth}]) -> %y {{
      %w = const i8[{units},{depth}] {PER_TENSOR} constant(1)
      %y = FullyConnected(%x, %w) : f32[{rows},{units}]
    }}""")


@pytest.mark.parametrize(("adj_x", "adj_y"), [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("right", ["%v", "const f32[3,{r}] constant(1)", "const i8[3,{r}] {q} constant(1)"])
def test_batch_matrix_products(right: str, adj_x: bool, adj_y: bool) -> None:
    left, shape = "3,9,20" if adj_x else "3,20,9", "30,9" if adj_y else "9,30"
    constant = f"%v = {right.format(r=shape, q=PER_TENSOR)}" if right != "%v" else ""
    more = f", %v: f32[3,{shape}]" if right == "%v" else ""
    flags = f"adj_x: {str(adj_x).lower()}, adj_y: {str(adj_y).lower()}"
    expect_litert_arena(f"""graph main(%x: f32[{left}]{more}) -> %y {{
      {constant}
      %y = BatchMatMul(%x, %v) {{{flags}}} : f32[3,20,30]
    }}""")


@pytest.mark.parametrize(
    "line", ["DynamicUpdateSlice(%u, %a, [0])", "Div(%u, %a)", "Softmax(%a)", "Minimum(%a, %u)"]
)
def test_operands_whose_memory_the_result_takes(line: str) -> None:
    """%a may be overwritten, %u may not: it is read again."""
    expect_litert_arena(f"""graph main(%x: f32[1000]) -> %y {{
      %u = Abs(%x)
      %a = Exp(%u)
      %b = {line}
      %y = Add(%b, %u)
    }}""")


REDUCTIONS = [
    *((kind, dtype) for kind in ("Sum", "Mean", "ReduceMax") for dtype in ("f32", "i32", "i64", "u8", "i16")),
    *(("ReduceProd", dtype) for dtype in ("f32", "i32", "i64", "i8", "i16")),
    ("Sum", "i8"),
    ("ReduceAny", "bool"),
]


@pytest.mark.parametrize(("kind", "dtype"), REDUCTIONS)
def test_reductions(kind: str, dtype: str) -> None:
    quant = " quant(scale: 0.5)" if dtype in ("i8", "u8", "i16") else ""
    expect_litert_arena(f"""graph main(%x: {dtype}[300,3]{quant}) -> %y {{
      %y = {kind}(%x, [1]) : {dtype}[300]{quant}
    }}""")
