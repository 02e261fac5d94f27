# SPDX-License-Identifier: Apache-2.0
"""``channel_flows``: which channels of the operands reach which channels of the results."""

from __future__ import annotations

import numpy as np
import pytest

import circlekit as ck
from circlekit.quant.techniques.channel_flow import LARGEST_FACTOR, _distinct_factors, channel_flows


@pytest.mark.parametrize(
    ("line", "passes"),
    [
        ("PRelu(%x, %alpha)", True),
        ("Relu(%x)", True),
        ("Relu6(%x)", False),
        ("Maximum(%x, [[[[-1e6, -1e6, -1e6]]]])", False),  # a bound far from usual numbers
        ("Maximum(%x, [[[[-1e6, -300, -1e6]]]])", False),
        ("Add(%x, [[[[1e-4, 1e-4, 1e-4]]]])", False),  # small numbers show the addend
        ("Add(%x, %x)", True),
        ("Mul(%x, %x)", False),
        ("Logistic(%x)", False),
        ("Concatenation(%x, %x) {axis: 3}", True),
        ("Reshape(%x, [1, 48])", True),
        ("Reshape(%x, [1, 4, 6, 2])", False),
        ("Transpose(%x, [0, 2, 1, 3])", True),
        ("Pad(%x, [[0, 0], [1, 0], [0, 0], [0, 3]])", True),
        ("Add(%x, %x) {act: RELU}", True),
        ("Add(%x, %x) {act: RELU6}", True),  # measured as a RELU
        ("Add(%x, %x) {act: TANH}", False),
        ("Exp(%x)", False),  # not finite
        ("Mul(%x, %zeros)", False),
        ("Mul(%x, 2.0)", True),
        ("Add(%x, 2.0)", False),
        ("Maximum(%x, 0.0)", True),
        ("Maximum(%x, -3e38)", False),  # larger numbers, which show the bound, overflow
        ("Mul(%x, %r)", False),  # computed operands without channels are not measured
        ("Cast(%x) {in_data_type: f32, out_data_type: i32} : i32[1,4,4,3]", False),
    ],
)
def test_channels_pass_through_operators(line: str, passes: bool) -> None:
    """``passes``: whether factors of the channels of all operands become factors of the result's channels."""
    alpha, zeros = "%alpha = const f32[1,1,3] gaussian(0, 1)", "%zeros = const f32[1,1,3] [0.0, 0.0, 0.0]"
    text = f"graph main(%x: f32[1,4,4,3], %r: f32[]) -> %y {{\n  {alpha}\n  {zeros}\n  %y = {line}\n}}"
    flows = channel_flows(ck.parse(text).main.ops[0]) or []
    assert any(not flow.is_alone for flow in flows) == passes


def test_channels_pass_through_a_split() -> None:
    text = "graph main(%x: f32[1,2,2,4]) -> %y, %z { %y, %z = Split(3, %x) {num_splits: 2} }"
    flows = channel_flows(ck.parse(text).main.ops[0]) or []
    assert [(flow.operand, flow.result, flow.channels.tolist()) for flow in flows] == [
        (1, 0, [0, 1]),
        (1, 1, [2, 3]),
    ]


@pytest.mark.parametrize(
    ("line", "operands"),
    [("Mul(%x, %q)", [0, 1]), ("BatchMatMul(%x, %z)", [1]), ("Add(%x, %q)", []), ("Logistic(%x)", None)],
)
def test_channels_of_one_operand_pass_alone(line: str, operands: list[int] | None) -> None:
    """``operands``: those whose channels pass alone; []: they pass only together; None: no channels pass."""
    inputs = "%x: f32[1,4,4,3], %q: f32[1,4,4,3], %z: f32[1,4,3,5]"
    flows = channel_flows(ck.parse(f"graph main({inputs}) -> %y {{ %y = {line} }}").main.ops[0])
    found = None if flows is None else [flow.operand for flow in flows if flow.is_alone]
    assert found == operands
    for flow in flows or []:
        np.testing.assert_array_equal(flow.channels, np.arange(flow.channels.size))


def test_an_unknown_number_of_channels_is_not_measured() -> None:
    """A run with one channel would show that this channel reaches all channels of the result."""
    text = "graph main(%x: f32[2,3,?]) -> %y { %y = Transpose(%x, [2,0,1]) }"
    assert channel_flows(ck.parse(text).main.ops[0]) is None


def test_channels_of_a_concatenation_come_from_one_operand_each() -> None:
    text = "graph main(%x: f32[2,3], %q: f32[2,4]) -> %y { %y = Concatenation(%x, %q) {axis: 1} }"
    flows = channel_flows(ck.parse(text).main.ops[0]) or []
    found = {flow.operand: flow.channels.tolist() for flow in flows}
    assert found == {0: [0, 1, 2, -1, -1, -1, -1], 1: [-1, -1, -1, 0, 1, 2, 3]}


@pytest.mark.parametrize("count", [1, 2, 3, 100])
def test_factors_of_channels_are_distinct(count: int) -> None:
    """The factors rise from 2 to below LARGEST_FACTOR.

    The logarithms between these two are divided into equal parts: factor i is in the first third of part i.
    """
    places = np.log(_distinct_factors(count) / 2) / np.log(LARGEST_FACTOR / 2) * max(count, 2)
    assert ((places - np.arange(count) > -1e-4) & (places - np.arange(count) < 0.31)).all()


def test_random_numbers_have_no_flows_of_channels() -> None:
    text = "graph main() -> %y { %y = RandomUniform([2, 4]) : f32[2,4] }"
    assert channel_flows(ck.parse(text).main.ops[0]) is None
