# SPDX-License-Identifier: Apache-2.0
"""Ranges by readers: they clip what the reader's result does not show, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest

import circlekit as ck
from circlekit.quant.calibration import collect
from circlekit.quant.calibration.ranges import Range
from circlekit.quant.quantize import plan_model, ranges_of
from circlekit.quant.techniques.reader_ranges import reader_ranges

NET = """
graph main(%x: f32[1,64], %p: f32[1,64]) -> %z {
  %w = const f32[64,64] gaussian(0, 1)
  %b = const f32[64] gaussian(0, 1)
  %y = FullyConnected(%x, %w, %b)
  $reader
}
"""
ADD = "%r = Relu(%p)\n  %z = Add(%y, %r) {act: RELU}"


def samples(count: int) -> list[list[np.ndarray]]:
    rng = np.random.default_rng(4)
    return [[rng.normal(0, 1, (1, 64)).astype(np.float32) for _ in range(2)] for _ in range(count)]


def chosen(reader: str) -> tuple[dict[str, Range], dict[str, Range]]:
    """Return the ranges of minimum and maximum, and the ranges that the readers change."""
    model, data = ck.parse(NET.replace("$reader", reader)), samples(24)
    ranges = ranges_of(model, collect(model, data))
    plan = plan_model(model, "int8", ranges)
    return dict(ranges[0]), reader_ranges(model, plan, ranges[0], data)


def test_an_add_with_relu_clips_what_the_other_operand_cannot_lift_above_0() -> None:
    before, found = chosen(ADD)
    low, high = found["y"]
    assert before["y"][0] < 3 * low
    assert low == pytest.approx(-before["r"][1], rel=0.4)
    assert high == pytest.approx(before["y"][1], rel=0.2)


def test_a_softmax_clips_what_gives_about_0() -> None:
    before, found = chosen("%z = Softmax(%y)\n  %n = Neg(%p)")
    low, high = found["y"]
    assert low > 0.6 * before["y"][0]
    assert high == before["y"][1]


@pytest.mark.parametrize(
    "reader", ["%z = Add(%y, %p)", "%r = Relu(%y)\n  %z = Mul(%y, %r)"], ids=["shows_all", "two_readers"]
)
def test_other_operands_keep_their_ranges(reader: str) -> None:
    before, found = chosen(reader)
    low, high = found.get("y", before["y"])
    assert low < 0.75 * before["y"][0]
    assert high > 0.75 * before["y"][1]
