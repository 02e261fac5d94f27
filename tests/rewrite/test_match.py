# SPDX-License-Identifier: Apache-2.0
"""Matching of pictures: matches, bindings, and explanations of failures."""

from __future__ import annotations

from typing import Any

import pytest

from circlekit.ir.text import parse_model
from circlekit.rewrite.match import Match, Matcher, unify
from circlekit.rewrite.picture import parse_picture


def matches(picture: str, body: str, inputs: str = "%x: f32[2,3], %u: f32[2,3]") -> list[Match]:
    """Return all matches whose root is the last operator of the graph."""
    model = parse_model(f"graph g({inputs}) -> %z {{ {body} }}")
    return list(Matcher(parse_picture(picture, "before")).matches(model.main.ops[-1]))


def failure(picture: str, body: str, inputs: str = "%x: f32[2,3], %u: f32[2,3]") -> tuple[int, str]:
    """Return the progress and the message of the attempt that got furthest.

    Each operator of the attempt adds 2 to the progress, even if one of its operands or attributes differs.
    An operator with an operand for which the picture has no place adds 1.
    """
    model = parse_model(f"graph g({inputs}) -> %z {{ {body} }}")
    matcher = Matcher(parse_picture(picture, "before"), explain=True)
    assert not list(matcher.matches(model.main.ops[-1]))
    return matcher.failure.progress, matcher.failure.sentence


@pytest.mark.parametrize(
    ("pattern", "shape", "dims", "found"),
    [
        (("O", "_", 3), (5, 7, 3), {}, {"O": 5}),
        (("O", "_", 3), (5, 7, 4), {}, None),
        (("O", "O"), (5, 5), {}, {"O": 5}),
        (("O", "O"), (5, 6), {}, None),
        (("O",), (5,), {"O": 4}, None),
        (("O",), (5,), {"O": 5, "I": 1}, {"O": 5, "I": 1}),
        (("_", "_"), (None, 2), {}, {}),
        (("O",), (None,), {}, None),
        ((2,), (None,), {}, None),
        (("O",), None, {}, None),
        (("O",), (1, 5), {}, None),
        (("*", "O"), (1, 1, 5), {}, {"O": 5}),
        (("*", "O"), (5,), {}, {"O": 5}),
        (("*", "O"), (2, 5), {}, None),
        (("*", "O", "_"), (5,), {}, None),
        (("*", "O"), (), {}, {"O": 1}),
        (("*", 1, 1), (), {}, {}),
        (("O|1",), (1,), {"O": 5}, {"O": 5}),
        (("O|1",), (5,), {"O": 5}, {"O": 5}),
        (("O|1",), (6,), {"O": 5}, None),
    ],
)
def test_matching_of_dimensions(
    pattern: Any, shape: Any, dims: dict[str, int], found: dict[str, int] | None
) -> None:
    assert unify(pattern, shape, dims) == found


def test_matching_binds_names_sizes_and_attributes() -> None:
    body = "%y = Relu(%x) %z = Mul(%y, [[1.0, 2.0, 3.0]]) {act: RELU6}"
    (found,) = matches("y = Relu(x)\nz = Mul(y, c: const f32[*, O]) {act: any = act}", body)
    assert {name: value.name for name, value in found.values.items() if value is not None} == {
        "x": "x", "y": "y", "z": "z", "c": "z/rhs",
    }  # fmt: skip
    assert {name: op.code for name, op in found.ops.items()} == {"y": "RELU", "z": "MUL"}
    assert found.dims == {"O": 3}
    assert found.attributes["act"].name == "RELU6"
    constant = found.array("c")
    assert constant is not None
    assert constant.tolist() == [[1, 2, 3]]
    assert found.value("x").shape == (2, 3)


def test_an_absent_operand_is_bound_to_none() -> None:
    inputs = "%x: f32[1,4], %w: f32[2,4]"
    (found,) = matches("z = FullyConnected(x, w, b?)", "%z = FullyConnected(%x, %w)", inputs)
    assert (found.values["b"], found.array("b")) == (None, None)
    with pytest.raises(KeyError, match="b"):
        found.value("b")
    assert not matches("z = FullyConnected(x, w, b)", "%z = FullyConnected(%x, %w)", inputs)


@pytest.mark.parametrize(
    ("picture", "body", "count"),
    [
        ("y = Relu(x)\nz = Add(y, u)", "%y = Relu(%x) %z = Add(%u, %y)", 1),  # commutative
        ("y = Relu(x)\nz = Sub(y, u)", "%y = Relu(%x) %z = Sub(%u, %y)", 0),
        ("z = Add(a, b)", "%z = Add(%x, %u)", 2),
        ("z = Add(a, b)", "%z = Add(%x, %x)", 1),
        ("z = Add(a, a)", "%z = Add(%x, %u)", 0),
        ("z = Add(a, a)", "%z = Add(%x, %x)", 1),
        ("a = Relu(x)\nb = Abs(x)\nz = Add(a, b)", "%a = Relu(%x) %b = Abs(%x) %z = Add(%b, %a)", 1),
        ("a = Relu(x)\nb = Abs(x)\nz = Add(a, b)", "%a = Relu(%x) %b = Abs(%u) %z = Add(%b, %a)", 0),
        ("z = Add|Mul(x, u)", "%z = Mul(%x, %u)", 2),
        ("z = Add|Mul(x, u)", "%z = Sub(%x, %u)", 0),
        ("z = Add(x, u)", "%z = Add(%x, %u) {act: RELU}", 0),  # the default is NONE
        ("z = Add(x, u) {act: RELU|RELU6}", "%z = Add(%x, %u) {act: RELU6}", 2),
        ("z = Add(x, u) {act: RELU|RELU6}", "%z = Add(%x, %u)", 0),
        ("z = Add(x, u) {act: any}", "%z = Add(%x, %u) {act: TANH}", 2),
        ("z = Add(x, c: const)", "%z = Add(%x, %u)", 0),
        ("z = Add(x, c: const)", "%z = Add(%x, 1.0)", 1),
        ("z = Add(x: i32, u)", "%z = Add(%x, %u)", 0),
        ("z = Add(x: f32[A, 3], u: [A, _])", "%z = Add(%x, %u)", 2),
        ("z = Mul(x, 2.0)", "%z = Mul(%x, 2.0)", 1),
        ("z = Mul(x, 2.0)", "%z = Mul(%x, [2.0])", 1),
        ("z = Mul(x, 2.0)", "%z = Mul(%x, [2.0, 2.0, 2.0])", 0),
        ("z = Mul(x, [1, 2, 3])", "%z = Mul(%x, [1.0, 2.0, 3.0])", 1),
        ("z = Mul(x, [1, 2, 3])", "%z = Mul(%x, [1.0, 2.0, 4.0])", 0),
        ("z = Mul(x, 2.0)", "%z = Mul(%x, %u)", 0),
        (
            "a = Add(x, u) {act: any = act}\nz = Mul(a, u) {act: any = act}",
            "%a = Add(%x, %u) {act: RELU} %z = Mul(%a, %u) {act: RELU}",
            1,
        ),
        (
            "a = Add(x, u) {act: any = act}\nz = Mul(a, u) {act: any = act}",
            "%a = Add(%x, %u) {act: RELU} %z = Mul(%a, %u)",
            0,
        ),
    ],
)
def test_number_of_matches(picture: str, body: str, count: int) -> None:
    assert len(matches(picture, body)) == count


def test_second_result_of_an_operator_matches() -> None:
    body = "%a, %b = Split(1, %x) {num_splits: 2} %z = Relu(%b)"
    picture = "a, b = Split(1, x) {{num_splits: 2}}\nz = Relu({})"
    assert len(matches(picture.format("b"), body, "%x: f32[2,4]")) == 1
    assert len(matches(picture.format("a"), body, "%x: f32[2,4]")) == 0


@pytest.mark.parametrize(
    ("used", "sentence"),
    [
        ("b", "%a: has 2 results, the picture has 3"),
        ("c", "%a: has 2 results, the picture has 3"),
        ("a", "%b: is another result of Split than a in the picture"),
    ],
)
def test_operators_with_fewer_or_other_results_do_not_match(used: str, sentence: str) -> None:
    body = "%a, %b = Split(1, %x) {num_splits: 2} %z = Relu(%b)"
    picture = f"a, b, c = Split(1, x) {{num_splits: any}}\nz = Relu({used})"
    assert matches(picture, body, "%x: f32[2,4]") == []
    assert failure(picture, body, "%x: f32[2,4]")[1] == sentence


def test_attributes_of_quantized_data_may_be_ignored() -> None:
    body = "%z = FullyConnected(%x, %w) {asymmetric_quantize_inputs: true}"
    model = parse_model(f"graph g(%x: f32[1,4], %w: f32[2,4]) -> %z {{ {body} }}")
    picture = parse_picture("z = FullyConnected(x, w)", "before")
    root = model.main.ops[-1]
    assert len(list(Matcher(picture, quantized=False).matches(root))) == 1
    assert len(list(Matcher(picture, quantized=True).matches(root))) == 0


@pytest.mark.parametrize(
    ("picture", "body", "progress", "sentence"),
    [
        (
            "y = Abs(x)\nz = Relu(y)",
            "%y = Exp(%x) %z = Relu(%y)",
            2,
            "%y: comes from Exp, expected Abs",
        ),
        ("y = Abs(x)\nz = Relu(y)", "%z = Relu(%x)", 2, "%x: comes from an input, expected Abs"),
        (
            "y = Abs(x)\nz = Relu(y)",
            "%v: f32[2] variable %z = Relu(%v)",
            2,
            "%v: comes from a variable, expected Abs",
        ),
        (
            "y = Abs(x)\nz = Relu(y)",
            "%z = Relu([1.0])",
            2,
            "%z/input: comes from a constant, expected Abs",
        ),
        (
            "y = Abs(x)\nz = Add(y, c: const)",
            "%y = Abs(%x) %z = Add(%y, %u)",
            4,
            "%u: is not constant, expected const",
        ),
        (
            "y = Abs(x)\nz = Sub(y, c: const f32[*, 1])",
            "%y = Abs(%x) %z = Sub(%y, [1.0, 2.0, 3.0])",
            4,
            "%z/rhs: shape is [3], expected [*,1]",
        ),
        (
            "y = Abs(x: [_, A])\nz = Sub(y, c: const [A, A])",
            "%y = Abs(%x) %z = Sub(%y, [[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]])",
            4,
            "%z/rhs: shape is [2,3], expected [A,A] with A = 3",
        ),
        ("z = Sub(x: i32, u)", "%z = Sub(%x, %u)", 2, "%x: is f32, expected i32"),
        ("z = Sub(x, x)", "%z = Sub(%x, %u)", 2, "%u: expected the same value in two places"),
        ("z = Sub(x, u)", "%z = Sub(%x, %u) {act: RELU}", 2, "%z: act is RELU, expected NONE"),
        (
            "z = Sub(x, u) {act: RELU|RELU6}",
            "%z = Sub(%x, %u)",
            2,
            "%z: act is NONE, expected RELU or RELU6",
        ),
        ("z = Sub(x, 2.0)", "%z = Sub(%x, 3.0)", 2, "%z/rhs: expected the constant 2.0"),
        (
            "z = Reshape(x)",
            "%z = Reshape(%x, [6])",
            1,
            "%z: has an operand shape, the picture has no place for it",
        ),
        (
            "y = Reshape(x)\nz = Relu(y)",
            "%y = Reshape(%x, [6]) %z = Relu(%y)",
            3,
            "%y: has an operand shape, the picture has no place for it",
        ),
    ],
)
def test_explanation_of_a_failed_match(picture: str, body: str, progress: int, sentence: str) -> None:
    assert failure(picture, body) == (progress, sentence)


def test_constants_without_plain_elements() -> None:
    inputs = "%x: f32[1,4]"
    body = '%w = const i4[2,4] raw("AAAAAA==") %z = FullyConnected(%x, %w) : f32[1,2]'
    model = parse_model(f"graph g({inputs}) -> %z {{ {body} }}")
    matcher = Matcher(parse_picture("z = FullyConnected(x, w: const)", "before"), explain=True)
    assert not list(matcher.matches(model.main.ops[-1]))
    assert matcher.failure.sentence == "%w: is packed i4, expected plain elements"


def test_an_absent_operand_is_not_the_number_of_the_picture() -> None:
    model = parse_model("graph main(%x: f32[2,3], %w: f32[4,3]) -> %y { %y = FullyConnected(%x, %w, none) }")
    matcher = Matcher(parse_picture("z = FullyConnected(x, w, 0.0)", "before"), explain=True)
    assert not list(matcher.matches(model.main.ops[0]))
    assert matcher.failure.sentence == ""
