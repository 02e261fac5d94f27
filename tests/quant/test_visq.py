# SPDX-License-Identifier: Apache-2.0
"""Errors of tensors: the file that visq writes, the drawing, and documents that are none."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest

import circlekit
from circlekit.errors import ParseError
from circlekit.quant.mixed.visq import COLORS, TensorErrors, read_errors

ERRORS = TensorErrors("MSE", {"a": 0.0, "b": 0.5, "c": 1.0, "d": 9.0}, 0.0, 1.0)


def test_a_document_is_read_again() -> None:
    document = json.loads(json.dumps(ERRORS.document("net.circle")))
    assert read_errors(document, "e.json") == ERRORS.errors


@pytest.mark.parametrize(
    "document",
    [[], None, {}, {"error": None}, {"error": []}, {"error": {}}, {"error": [1]}],
)
def test_documents_without_errors(document: object) -> None:
    with pytest.raises(ParseError, match=r"e.json: .*expected an object with errors by tensor at error\[0\]"):
        read_errors(document, "e.json")


def test_errors_are_numbers() -> None:
    with pytest.raises(ParseError, match=r"expected numbers at error\[0\]"):
        read_errors({"error": [{"a": 1, "b": "x"}]}, "e.json")


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
