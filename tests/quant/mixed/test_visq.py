# SPDX-License-Identifier: Apache-2.0
"""Errors of tensors: the file that visq writes, the drawing, and documents that are not such a file."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest

import circlekit
from circlekit.errors import ModelError, ParseError
from circlekit.quant.mixed.visq import COLORS, TensorErrors, read_errors, tensor_errors

ERRORS = TensorErrors("MSE", {"a": 0.0, "b": 0.5, "c": 1.0, "d": 9.0}, 0.0, 1.0)


def test_a_document_is_read_again() -> None:
    document = json.loads(json.dumps(ERRORS.document("net.circle")))
    assert read_errors(document, "e.json") == ERRORS.errors
    third = TensorErrors("TAE", {"a": 1 / 3}, 0.0, 1.0).document("net.circle")
    assert third["error"] == [{"a": 0.3333}]  # ONE's files have 4 digits
    assert third["meta"]["colorscheme"][1]["b"] == 0.1111


@pytest.mark.parametrize(
    "document",
    [[], None, {}, {"error": None}, {"error": []}, {"error": {}}, {"error": [1]}],
)
def test_documents_without_errors(document: object) -> None:
    with pytest.raises(ParseError, match=r"e.json: .*expected an object with errors by tensor at error\[0\]"):
        read_errors(document, "e.json")


def test_errors_are_numbers() -> None:
    for wrong in ("x", True, None):
        with pytest.raises(ParseError, match=r"expected numbers at error\[0\]"):
            read_errors({"error": [{"a": 1, "b": wrong}]}, "e.json")
    with pytest.raises(ParseError, match="Invalid visq file: int too large"):
        read_errors({"error": [{"a": 10**400}]}, "e.json")


def test_colors_divide_the_scale_evenly() -> None:
    colors = TensorErrors("MSE", {}, 2.0, 4.0).colors()
    assert [slot["c"] for slot in colors] == list(COLORS)
    assert colors[0]["b"] == 2.0
    assert colors[-1]["e"] == pytest.approx(4.0)
    for slot, following in pairwise(colors):
        assert slot["e"] == following["b"] > slot["b"]


def test_the_drawing_has_edges_and_the_color_of_each_error() -> None:
    graph = circlekit.parse("""
graph main(%x: f32[2]) -> %d {
  %w = const f32[2] [1.0, 2.0]
  %a = Add(%x, %w)
  %b = Neg(%a)
  %c = Mul(%a, %b)
  %d = Abs(%c)
  %u = Exp(%d)
}""").main
    lines = ERRORS.dot(graph, "net").splitlines()
    assert lines[0] == 'digraph "net" {'
    edges = {line for line in lines if "->" in line}
    assert edges == {f'"{source}" -> "{target}";' for source, target in ("xa", "ab", "ac", "bc", "cd", "du")}
    styles = {name: next(line for line in lines if line.startswith(f'"{name}" [')) for name in "abcdu"}
    middle = COLORS[len(COLORS) // 2]
    for name, color in zip("abcd", (COLORS[0], middle, COLORS[-1], COLORS[-1]), strict=True):
        assert f'fillcolor="{color}"' in styles[name]
        assert f'xlabel="MSE: {ERRORS.errors[name]:.4f}"' in styles[name]
    assert 'fillcolor="gray"' in styles["u"]
    assert "xlabel" not in styles["u"]


def test_equal_ends_of_the_scale_have_the_first_color() -> None:
    graph = circlekit.parse("graph main(%x: f32[2]) -> %a { %a = Abs(%x) }").main
    assert f'fillcolor="{COLORS[0]}"' in TensorErrors("MSE", {"a": 3.0}, 3.0, 3.0).dot(graph, "net")


NET = """
graph main(%x: f32[2], %e: f32[0]) -> %a, %b, %c, %d {{
  %a = Add(%x, %x)     : {dtype}[2] {form}
  %b = Neg(%x)         : {dtype}[2] {form}
  %c = Abs(%e)         : {dtype}[0] {form}
  %r = Reshape(%x, {shape})
  %d = Abs(%r)         : {dtype}{shape} {form}
}}"""
METRIC_NAMES = ("MPEIR", "MSE", "TAE", "SRMSE")


def errors_of(*samples: list[float], scale: float = 2.0) -> dict[str, TensorErrors]:
    """Return the errors by metric if numbers are rounded to multiples of ``scale``."""
    exact = circlekit.parse(NET.format(shape=[2], dtype="f32", form=""))
    rounded = circlekit.parse(NET.format(shape=[1, 2], dtype="i8", form=f"quant(scale: {scale})"))
    arrays = [[np.array(x, np.float32), np.zeros(0, np.float32)] for x in samples]
    return {found.metric: found for found in tensor_errors(exact, rounded, arrays, METRIC_NAMES)}


def test_errors_are_means_over_the_samples_of_what_rounding_changes() -> None:
    """A tensor has errors only if it has elements, and the same shape in both models."""
    # exact -> rounded, for both samples:
    # a: (2.5, 8) -> (2, 8), (3.25, -7.5) -> (4, -8); b: (-1.25, -4) -> (-2, -4), (-1.625, 3.75) -> (-2, 4)
    found = errors_of([1.25, 4], [1.625, -3.75])
    # the sum of the absolute errors of a sample: 0.5 + 0 and 0.75 + 0.5
    assert found["TAE"].errors == pytest.approx({"a": (0.5 + 1.25) / 2, "b": (0.75 + 0.625) / 2})
    assert (found["TAE"].low, found["TAE"].high) == pytest.approx((0.5, 1.25))
    squares = {"a": (0.5**2 + 0.75**2 + 0.5**2) / 4, "b": (0.75**2 + 0.375**2 + 0.25**2) / 4}
    assert found["MSE"].errors == pytest.approx(squares)
    # the root of the mean square, divided by the scale 2
    assert found["SRMSE"].errors == pytest.approx({name: mean**0.5 / 2 for name, mean in squares.items()})
    assert (found["SRMSE"].low, found["SRMSE"].high) == (0.0, max(found["SRMSE"].errors.values()))
    # the largest error of a sample, divided by its range: 0.5 / (8 - 2.5)
    peaks = {"a": (0.5 / 5.5 + 0.75 / 10.75) / 2, "b": (0.75 / 2.75 + 0.375 / 5.375) / 2}
    assert found["MPEIR"].errors == pytest.approx(peaks, rel=1e-5)
    assert (found["MPEIR"].low, found["MPEIR"].high) == (0.0, 1.0)


def test_the_peak_of_equal_elements_is_relative_to_a_positive_number() -> None:
    assert errors_of([1.5, 1.5])["MPEIR"].errors["a"] > 0


def test_errors_need_a_sample_and_finite_numbers() -> None:
    with pytest.raises(ModelError, match="at least one sample"):
        errors_of()
    with pytest.raises(ModelError, match=r"the error nan at %a"):
        errors_of([np.nan, 1])


@pytest.mark.parametrize("scale", [0.0, -0.5])
def test_srmse_is_relative_to_positive_scales(scale: float) -> None:
    with pytest.raises(ModelError, match=rf"%a: expected a positive scale, got {scale:g}"):
        errors_of([1.25, 4], scale=scale)
