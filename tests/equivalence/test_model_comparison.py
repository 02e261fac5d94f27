# SPDX-License-Identifier: Apache-2.0
"""Findings of a comparison: the worst output, the sentences, and the interface."""

from __future__ import annotations

import numpy as np
import pytest

import circlekit.ops  # noqa: F401  # declares the operators of the texts
from circlekit.equivalence.array_comparison import (
    Difference,
    Outcome,
    allowed_difference,
)
from circlekit.equivalence.model_comparison import (
    Comparison,
    Port,
    compare_outputs,
    interface_differences,
    interface_of,
    weak_outputs,
)
from circlekit.ir.dtypes import DType
from circlekit.ir.text import parse_model


def output(name: str, absolute: float, tolerance: float, reason: str = "") -> Outcome:
    worst = Difference((0,), 1.0, 1.0 + absolute, absolute, absolute, tolerance)
    return Outcome(name, None if reason else worst, reason, "normal")


@pytest.mark.parametrize(
    ("outputs", "worst"),
    [
        ([output("a", 1.0, 10.0), output("b", 0.5, 1.0)], "b"),  # in proportion to the tolerance
        ([output("a", 1e9, 1.0), output("b", 0.0, 0.0, "shapes differ")], "b"),
        ([output("a", 5.0, 1.0), output("b", 0.1, 0.0)], "b"),  # no difference is tolerated
        ([output("a", 0.0, 0.0), output("b", 0.1, 1.0)], "b"),
        ([output("a", 0.1, 1.0), Outcome("b", None, "", "normal")], "a"),
    ],
)
def test_the_worst_output_differs_most_in_proportion_to_its_tolerance(
    outputs: list[Outcome], worst: str
) -> None:
    found = Comparison(outputs=outputs).worst
    assert found is not None
    assert found.name == worst


def test_equality_needs_interface_and_every_output() -> None:
    good, bad = output("a", 1.0, 1.0), output("b", 1.5, 1.0)
    assert Comparison().equal
    assert Comparison(outputs=[good])
    assert not Comparison(outputs=[good, bad])
    assert not Comparison(["input 0 was a, is b"], [good])
    assert Comparison().worst is None


def test_the_text_is_the_verdict_and_a_line_for_each_finding() -> None:
    found = Comparison(["x was a, is b"], [output("y", 0.0, 1.0)], ["a note"])
    lines = ["x was a, is b", "output %y on normal inputs: all elements are equal", "a note"]
    assert str(found).splitlines() == ["different", *lines]
    assert str(Comparison(outputs=[Outcome("y", None, "", "zero")])) == (
        "equal\noutput %y on zero inputs: empty"
    )


def test_noise_extends_the_tolerance_and_never_reduces_it() -> None:
    a = np.ones(1, np.float32)
    b = a + np.float32(0.25)
    assert not compare_outputs("normal", {"y": a}, {"y": b})[0].equal
    assert compare_outputs("normal", {"y": a}, {"y": b}, {"y": 0.25})[0].equal
    (small,) = compare_outputs("normal", {"y": a}, {"y": b}, {"y": 0.0})
    assert small.worst is not None
    assert small.worst.tolerance == allowed_difference(a) == pytest.approx(1e-5)


def test_the_interface_of_a_model() -> None:
    model = parse_model("""
        signature "serve" @main (image: %x) -> (result: %y)
        graph main(%x: f32[?,2], %i: i32[]) -> %y { %y = Relu(%x) }
    """)
    assert {place: str(port) for place, port in interface_of(model).items()} == {
        "input 0": "%x: f32[?,2]",
        "input 1": "%i: i32[]",
        "output 0": "%y: f32[?,2]",
        "signature 'serve' input 'image'": "%x: f32[?,2]",
        "signature 'serve' output 'result'": "%y: f32[?,2]",
    }


@pytest.mark.parametrize(
    ("before", "after", "sentences"),
    [
        ("f32[2]", "f32[2]", []),
        ("f32[2]", "f32[3]", ["input 0 was %x: f32[2], is %x: f32[3]"]),
        ("f32[2]", "f32[?]", ["input 0 was %x: f32[2], is %x: f32[?]"]),
        ("f32[?]", "f32[2]", ["input 0 was %x: f32[?], is %x: f32[2]"]),
        ("f32[2]", "f32[2,1]", ["input 0 was %x: f32[2], is %x: f32[2,1]"]),
        ("f32[2]", "f32[*]", ["input 0 was %x: f32[2], is %x: f32[*]"]),
        ("f32[*]", "f32[*]", []),
        ("f32[]", "f32[3]", []),  # [] may stand for an unknown rank
        ("f32[]", "i32[3]", ["input 0 was %x: f32[], is %x: i32[3]"]),
        ("f32[3]", "f32[]", ["input 0 was %x: f32[3], is %x: f32[]"]),
    ],
)
def test_interface_differences(before: str, after: str, sentences: list[str]) -> None:
    texts = (f"graph main(%x: {type}) -> %x {{\n}}" for type in (before, after))
    found = interface_differences(*(interface_of(parse_model(text)) for text in texts))
    assert [sentence for sentence in found if "input" in sentence] == sentences


@pytest.mark.parametrize(
    ("before", "after", "is_same"),
    [
        ("%y = Reshape(%x, [3,4])", "%y = Relu(%x)", True),  # the RESHAPE proves that ? is 3
        ("%y = Relu(%x) : f32[3,4]", "%y = Neg(%x) : f32[?,4]", True),  # 3 may be the batch of a sample
        ("%y = Relu(%x) : f32[3,4]", "%y = Reshape(%x, [3,4])", False),
        ("%y = Relu(%x)", "%y = Reshape(%x, [3,4])", False),
    ],
)
def test_dimensions_of_outputs_that_follow_inputs(before: str, after: str, is_same: bool) -> None:
    sides = [parse_model(f"graph main(%x: f32[?,4]) -> %y {{\n{line}\n}}") for line in (before, after)]
    assert (interface_differences(*map(interface_of, sides)) == []) == is_same


def test_missing_parts_of_the_interface() -> None:
    port = Port("x", DType.FLOAT32, (2,))
    found = interface_differences({"input 0": port}, {"input 1": port})
    assert found == ["input 0 was %x: f32[2], is missing", "input 1 was missing, is %x: f32[2]"]


def test_an_output_is_weak_only_if_it_is_weak_in_all_runs() -> None:
    graph = parse_model("graph main(%x: f32[1]) -> %y, %z { %y = Relu(%x) %z = Neg(%x) }").main
    zero, one = np.zeros(1, np.float32), np.ones(1, np.float32)
    assert weak_outputs(graph, [[zero, one], [zero, zero]]) == [
        "output %y is NaN, infinite or zero on all inputs: its equality proves little"
    ]
    assert weak_outputs(graph, [[zero, one], [one, zero]]) == []
    (sentence,) = weak_outputs(graph, [[one, one[:0]], [one, one[:0]]])
    assert sentence == "output %z has no elements on any input: its equality proves little"


@pytest.mark.parametrize(("value", "is_weak"), [(0, True), (np.nan, True), (np.inf, True), (2, False)])
def test_an_output_of_zeros_nan_and_infinities_is_weak(value: float, is_weak: bool) -> None:
    graph = parse_model("graph main(%x: f32[3]) -> %y { %y = Neg(%x) }").main
    for dtype in (np.float32, np.complex64):
        assert bool(weak_outputs(graph, [[np.array([0, value, np.nan], dtype)]])) is is_weak
    assert not weak_outputs(graph, [[np.array([False, True])]])
    assert weak_outputs(graph, [[np.array([0, 0], np.int8)]])


def test_the_verdict_gives_the_difference_of_the_worst_output() -> None:
    assert Comparison(outputs=[output("a", 0.25, 1.0), output("b", 0.5, 8.0)]).verdict == (
        "equal within 0.25, allowed 1"
    )
    assert Comparison().verdict == "equal"
