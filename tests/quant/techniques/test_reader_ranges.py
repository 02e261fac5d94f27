# SPDX-License-Identifier: Apache-2.0
"""Ranges of a value by its reader: they clip only numbers that hardly change the reader's result."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import circlekit as ck
from circlekit.ir.value import Value
from circlekit.quant.calibration import collect
from circlekit.quant.calibration.ranges import Range
from circlekit.quant.quantize import plan_model, ranges_of
from circlekit.quant.techniques import reader_ranges as module
from circlekit.quant.techniques.reader_ranges import (
    FRACTIONS,
    LARGEST_NOISE_SHARE,
    LEAST_SAMPLES,
    _Reader,
    reader_ranges,
)

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
    """Return the observed range (min, max) of each tensor, and the ranges that ``reader_ranges`` changes."""
    model, data = ck.parse(NET.replace("$reader", reader)), samples(24)
    ranges = ranges_of(model, collect(model, data))
    plan = plan_model(model, "int8", ranges)
    return dict(ranges[0]), reader_ranges(model, plan, ranges[0], data)


def test_an_add_with_relu_clips_what_the_other_operand_cannot_lift_above_0() -> None:
    before, found = chosen(ADD)
    low, high = found["y"]
    assert before["y"][0] < 3 * low  # both are negative
    # below -max(%r), the sum is negative, and RELU makes it 0
    assert low == pytest.approx(-before["r"][1], rel=0.4)
    assert high == pytest.approx(before["y"][1], rel=0.2)


def test_a_softmax_clips_what_gives_about_0() -> None:
    before, found = chosen("%z = Softmax(%y)\n  %n = Neg(%p)")
    low, high = found["y"]
    assert low > 0.6 * before["y"][0]
    assert high == before["y"][1]


def test_trials_may_round_to_numbers_outside_the_domain_of_the_reader() -> None:
    """The range of the exponentials is so large that most of them become 0, which has no logarithm."""
    before, found = chosen("%e = Exp(%y)\n  %z = Log(%e)\n  %n = Neg(%p)")
    assert before["e"][1] > 1e6
    assert set(found) <= set(before)


@pytest.mark.parametrize(
    "reader", ["%z = Add(%y, %p)", "%r = Relu(%y)\n  %z = Mul(%y, %r)"], ids=["shows_all", "two_readers"]
)
def test_ranges_stay_if_all_numbers_count_or_there_are_two_readers(reader: str) -> None:
    """Each end keeps more than 3/4 of its magnitude."""
    before, found = chosen(reader)
    low, high = found.get("y", before["y"])
    assert low < 0.75 * before["y"][0]
    assert high > 0.75 * before["y"][1]


def test_a_result_with_nan_changes_no_range() -> None:
    """Half of the logarithms are NaN, so their error is, too."""
    _, found = chosen("%z = Log(%y)\n  %n = Neg(%p)")
    assert found == {}


def fake(array: np.ndarray, low: float, high: float) -> np.ndarray:
    """Round to int8 numbers, with 255 steps from ``low`` to ``high``; 0 is represented exactly."""
    low, high = min(low, 0.0), max(high, 0.0)
    step = (high - low) / 255
    zero = np.clip(np.rint(-128 - low / step), -128, 127)
    return np.asarray((np.clip(np.rint(array / step) + zero, -128, 127) - zero) * step)


def softmax(y: np.ndarray) -> np.ndarray:
    e = np.exp(y - y.max(axis=-1, keepdims=True))
    return np.asarray(e / e.sum(axis=-1, keepdims=True))


@pytest.mark.parametrize(
    ("reader", "names", "function"),
    [
        ("%z = Softmax(%y)\n  %n = Neg(%p)", ["y"], softmax),
        ("%z = Tanh(%y)\n  %n = Neg(%p)", ["y"], np.tanh),
        (ADD, ["y", "r"], lambda y, r: np.maximum(y + r, 0)),
        ("%r = Neg(%p)\n  %z = Mul(%y, %r) {act: RELU6}", ["y", "r"], lambda y, r: np.clip(y * r, 0, 6)),
    ],
    ids=["softmax", "tanh", "add", "mul"],
)
def test_the_ends_are_those_with_the_least_noise(
    reader: str, names: list[str], function: Callable[..., np.ndarray]
) -> None:
    """Search the ends with numpy: for each operand in order, first the low end, then the high end."""
    text = NET.replace("$reader", reader)
    data = samples(24)
    model = ck.parse(text)
    ranges = dict(ranges_of(model, collect(model, data))[0])
    found = reader_ranges(model, plan_model(model, "int8", [ranges]), ranges, data)
    shown = ck.parse(text.replace("-> %z", "-> " + ", ".join(f"%{name}" for name in names)))
    runs = [ck.run(shown, sample) for sample in data]
    operands = [np.stack(arrays).astype(np.float64) for arrays in zip(*runs, strict=True)]
    wanted, chosen_ends = function(*operands), [ranges[name] for name in names]
    ends_of_result = {"Softmax": (0, 255 / 256), "Tanh": (-1, 127 / 128)}
    result = next((ends for kind, ends in ends_of_result.items() if kind in reader), ranges["z"])

    def noise(index: int, ends: Range) -> float:
        given = [ends if i == index else other for i, other in enumerate(chosen_ends)]
        rounded = [fake(a, *r) for a, r in zip(operands, given, strict=True)]
        return float(np.square(fake(function(*rounded), *result) - wanted).sum())

    for index, name in enumerate(names):
        first = best = chosen_ends[index]
        starts = best
        for fraction in FRACTIONS:
            tried = (starts[0] * fraction, starts[1])
            best = min(best, tried, key=lambda ends: noise(index, ends)) if starts[0] else best
        starts = best
        for fraction in FRACTIONS:
            tried = (starts[0], starts[1] * fraction)
            best = min(best, tried, key=lambda ends: noise(index, ends)) if tried[0] != tried[1] else best
        if noise(index, best) < LARGEST_NOISE_SHARE * noise(index, first):
            assert found[name] == pytest.approx(best)
            chosen_ends[index] = best
        else:
            assert name not in found


@pytest.mark.parametrize(
    ("elements", "count"), [(64 * 10, 10), (64 * 11 - 1, 10), (1, LEAST_SAMPLES), (10**9, 24)]
)
def test_readers_run_on_as_many_samples_as_the_limit_of_elements_allows(
    elements: int, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Results have 64 elements per sample."""
    seen = []

    def free(reader: _Reader, ranges: object) -> dict[Value, Range]:
        seen.append([len(reader.wanted), *(len(c) for c in reader.operands if isinstance(c, list))])
        return {}

    monkeypatch.setattr(module, "MOST_ELEMENTS", elements)
    monkeypatch.setattr(_Reader, "free", free)
    assert chosen(ADD)[1] == {}
    assert seen == [[count] * 2, [count] * 3]  # RELU: its results and one operand; ADD: its results and two
