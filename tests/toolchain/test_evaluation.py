# SPDX-License-Identifier: Apache-2.0
"""The metrics that circle-eval-diff and one-quantize print, against numpy; what cannot be compared."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import circlekit
from circlekit.errors import ModelError
from circlekit.ir.value import Array
from circlekit.toolchain.evaluation import METRICS, compare_outputs


def model(function: str, size: int = 6) -> circlekit.Model:
    return circlekit.parse(f"graph main(%x: f32[{size}]) -> %y {{ %y = {function} }}")


FIRST, SECOND = model("Abs(%x)"), model("Cos(%x)")
SAMPLES = [np.array(x, np.float32) for x in ([1, -2, 0.5, 3, -4, 6], [2, 2.5, -3, 0.25, 1, -1])]


def lines(first: circlekit.Model, second: circlekit.Model, *metrics: str, size: int = 6) -> list[str]:
    """Return the lines that compare both models on the first ``size`` elements of each of SAMPLES."""
    pairs = [([sample[:size]], [sample[:size]]) for sample in SAMPLES]
    return list(compare_outputs(first, second, pairs, metrics))


EXPECTED: dict[str, Callable[[Array, Array], float]] = {
    "mae": lambda a, b: np.abs(a - b).mean(),
    "mape": lambda a, b: 100 * np.abs(1 - b / a).mean(),
    "mpeir": lambda a, b: np.abs(a - b).max() / (a.max() - a.min()),
    "mse": lambda a, b: ((a - b) ** 2).mean(),
    "top1_match": lambda a, b: float(a.argmax() == b.argmax()),
    "top5_match": lambda a, b: len({*np.argsort(-a)[:5]} & {*np.argsort(-b)[:5]}) / 5,
}


@pytest.mark.parametrize("metric", METRICS)
def test_metrics_are_means_over_the_samples(metric: str) -> None:
    def both(x: Array) -> tuple[Array, Array]:
        return np.abs(x).astype(np.float64), np.cos(x).astype(np.float64)

    expected = np.mean([EXPECTED[metric](*both(x)) for x in SAMPLES])
    found = lines(FIRST, SECOND, metric)
    assert found[:2] == ["Evaluating 0'th data", "Evaluating 1'th data"]
    assert METRICS[metric][0] == found[2]
    assert float(found[3].split()[-1].rstrip("%")) == pytest.approx(expected, rel=1e-5)
    assert len(found) == 4


@pytest.mark.parametrize("metric", METRICS)
def test_infinite_outputs_and_zeros_are_compared_without_warnings(metric: str) -> None:
    sample = np.array([np.inf, -np.inf, 0, 1, 2, 3], np.float32)
    same = circlekit.parse("graph main(%x: f32[6]) -> %y { %y = Abs(%x) }")
    found = list(compare_outputs(same, same, [([sample], [sample])], [metric]))
    assert found[-1].split()[-1].rstrip("%") == ("1" if metric.startswith("top") else "nan")


def test_top5_of_an_output_with_fewer_than_five_elements_is_left_out() -> None:
    for size, is_left_out in ((4, True), (5, False)):
        found = lines(model("Abs(%x)", size), model("Square(%x)", size), "top5_match", size=size)
        ignored = [line for line in found if "ignored" in line]
        assert ignored == is_left_out * ["Top-5metric for y is ignored, because it has elements less than 5"]
        assert any("Mean Top-5 match ratio for y is" in line for line in found) != is_left_out


@pytest.mark.parametrize("metric", METRICS)
def test_an_output_with_too_few_elements_has_no_metric(metric: str) -> None:
    for size in (0, 1, 5):
        found = lines(model("Abs(%x)", size), model("Cos(%x)", size), metric, size=size)
        least = int(metric[3]) if metric.startswith("top") else 1
        ignored = f" for y is ignored, because it has elements less than {least}"
        assert (ignored in "".join(found)) == (size < least)
        assert (METRICS[metric][1].split("{}")[0] in "".join(found)) == (size >= least)


def test_an_output_of_equal_elements_has_no_interval() -> None:
    found = lines(model("Mul(%x, 0.0)"), model("Add(%x, 1.0)"), "mpeir")
    largest = np.mean([np.abs(x + 1).max() for x in SAMPLES])
    assert float(found[-1].split()[-1]) == pytest.approx(largest, rel=1e-5)


def test_outputs_that_differ_cannot_be_compared() -> None:
    with pytest.raises(ModelError, match=r"Output shape mismatch \(y, y\): \[6\] and \[2, 3\]"):
        lines(FIRST, model("Reshape(%x, [2, 3])"))
    with pytest.raises(ModelError, match="Output dtype mismatch"):
        lines(FIRST, circlekit.parse("graph main(%x: f32[6]) -> %y { %y = Cast(%x) : i32[6] }"), "mae")
    two = circlekit.parse("graph main(%x: f32[6]) -> %y, %z {\n%y = Abs(%x)\n%z = Neg(%x)\n}")
    with pytest.raises(ModelError, match="different output counts"):
        lines(FIRST, two)


@pytest.mark.parametrize(
    ("dtype", "array"), [("c64", np.ones(2, np.complex64)), ("str", np.array([b"a", b"b"]))]
)
def test_complex_numbers_and_strings_have_no_metrics(dtype: str, array: Array) -> None:
    same = circlekit.parse(f"graph main(%x: {dtype}[2]) -> %x {{ }}")
    with pytest.raises(ModelError, match=f"%x: expected real numbers for metrics, got {dtype}"):
        list(compare_outputs(same, same, [([array], [array])], ["mae"]))
    assert list(compare_outputs(same, same, [([array], [array])], [])) == ["Evaluating 0'th data"]


def test_handles_of_resources_have_no_metrics() -> None:
    model = circlekit.parse("graph main() -> %y { %y = VarHandle() }")
    with pytest.raises(ModelError, match="%y: expected real numbers for metrics, got resource"):
        list(compare_outputs(model, model, [([], [])], ["mae"]))


def test_the_largest_element_of_an_output_of_one_element() -> None:
    found = lines(model("Abs(%x)", 1), model("Square(%x)", 1), "top1_match", size=1)
    assert found[-1].split()[-1] in ("1", "1.0")
