# SPDX-License-Identifier: Apache-2.0
"""Parsed pictures, mistakes in them (a caret shows the place), and pictures that do not fit together."""

from __future__ import annotations

import subprocess
import sys

import pytest

from circlekit.errors import CirclekitError, ParseError, RewriteError
from circlekit.ir.enums import Activation
from circlekit.ir.text import parse_model
from circlekit.passes.engine.registry import all_passes
from circlekit.rewrite.base import PASSES, Context
from circlekit.rewrite.match import Matcher
from circlekit.rewrite.picture import parse_picture
from circlekit.rewrite.rewrite import Rewrite, condition


@pytest.mark.parametrize(
    ("text", "message", "column"),
    [
        ("y = TransposeCnov(s, w, x)", "no operator is named TransposeCnov; did you mean TransposeConv?", 5),
        ("y = Add(a)", "expected the operands (lhs, rhs) of Add, got 1 operand", 5),
        ("y = Add(a, b, c)", "expected the operands (lhs, rhs) of Add, got 3 operands", 5),
        ("y = Add(a?, b)", "the operand lhs of Add is not optional", 9),
        ("y = Relu|Add(a)", "expected the operands (lhs, rhs) of Add, got 1 operand", 5),
        ("y = Add|Relu(a, b)", "expected the operands (input) of Relu, got 2 operands", 5),
        ("y = Add|Sub(a, b?, c)", "expected the operands (lhs, rhs) of Add, got 3 operands", 5),
        ("y = Add(a, b) {atc: RELU}", "Add has no attribute atc; did you mean act?", 16),
        ("y = Add(a, b) {act: RELU7}", "act cannot be RELU7; did you mean RELU?", 16),
        ("y = Add(a, b) {act: f32}", "act cannot be f32; expected one of NONE", 16),
        ('y = Add(a, b) {act: "RELU"}', 'act cannot be "RELU"; did you mean RELU?', 16),
        ("y = Softmax(a) {beta: [1]}", "beta is [1], expected a number", 17),
        ("y = Add(a: f32[?], b)", "expected a dimension such as 3, O, O|1, _ or *, got ?", 12),
        ("y = Add(a: f32[7|5], b)", "expected a dimension such as 3, O, O|1, _ or *, got 7|5", 12),
        ("y = Add(a: f32[A|B], b)", "expected a dimension such as 3, O, O|1, _ or *, got A|B", 12),
        ('y = Add(a, "b")', "expected a number, got b", 12),
        ("y = Add(a, [[1, 2], [3]])", "the inner lists differ in length or depth", 12),
        ("y = Add(z, a)\nz = Neg(a)", "z is read before it is produced", 1),
        ("y = Add(a: f33, b)", "no dtype is named f33", 12),
        ("y = Add(a: f32[O, *], b)", "* stands for leading dimensions of 1, so it must come first", 12),
        ("y = Add(a: f32[1] quant(scale: 1), b)", "quant after a type is allowed in models only", 19),
        ("y = Add(a: f32[1] variable, b)", "variable after a type is allowed in models only", 19),
        ("y = Add(a, b) : f32[1]", "types of results are allowed in models only", 17),
        ("y = Add(a, b) {like a}", "`like` is allowed in `after` only", 21),
        ("y = Add(a, b", "expected ',', got 'end of text'", 13),
        ("y = Add(a, b) {act: RELU, act: RELU6}", "attribute act is given twice", 27),
        ("y = Relu(x)\ny = Relu(x)", "y is produced twice", 1),
        ("y, z = Relu(x)", "expected at most 1 result of Relu, got 2", 4),
        ("w = const f32[2] [1, 2]", "expected an operator, got a constant", 1),
        ("y = Add(a, b) $", "unexpected character '$'", 15),
        ("", "the picture is empty", 1),
    ],
)
def test_a_typo_fails_with_a_caret_under_it(text: str, message: str, column: int) -> None:
    with pytest.raises(ParseError) as caught:
        parse_picture(text, "Pass.before")
    first, _, caret = str(caught.value).split("\n")
    assert message in first
    assert first.startswith("Pass.before:")
    assert caret.index("^") - 2 == column - 1


def test_parsed_content_of_a_picture() -> None:
    picture = parse_picture(
        """
        y = Conv2D(x, w: const f32[O, _, 3], b?: const) {act: RELU|RELU6 = a, stride_h: any}
        z = Relu|Relu6(y)
        """,
        "before",
    )
    conv, relu = picture.nodes
    assert [kind.__name__ for kind in relu.kinds] == ["Relu", "Relu6"]
    assert conv.operands[1].dims == ("O", "_", 3)
    assert conv.operands[1].const
    assert conv.operands[2].optional
    assert conv.attributes["act"].choices == (Activation.RELU, Activation.RELU6)
    assert conv.attributes["act"].bind == "a"
    assert conv.attributes["stride_h"].choices is None
    assert picture.root is relu
    assert picture.bound() == {"a"}


def make(before: str, after: str, **members: object) -> type[Rewrite]:
    return type("Made", (Rewrite,), {"before": before, "after": after, **members})


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("z = Relu(x)", "y = Relu6(x)", "`after` does not produce z, the result of `before`"),
        (
            "y = Relu(x)\nz = Relu(y)",
            "y = Relu(x)\nz = Relu(y)",
            "`after` produces y, an interior value of `before`",
        ),
        ("z = Relu(x)", "z = Relu6(x) {like y}", "`after` says `like y`"),
        ("z = Relu(x)", "w", "`after` is the value w, which `before` does not have"),
        ("x", "x", "`before` has no operator"),
        ("y = Neg(x)\nz = Relu(x)", "x", "`before` has y, which no operator reads"),
        ("z = Relu(x)", "z = Add(x, q)", "`after` reads q, which `before` does not have"),
    ],
)
def test_before_and_after_must_agree(before: str, after: str, message: str) -> None:
    with pytest.raises(RewriteError, match=message):
        make(before, after)


def test_parameter_must_be_a_name_in_the_picture() -> None:
    @condition
    def small(self: Rewrite, weight: object) -> str | None:
        return None

    with pytest.raises(RewriteError, match="the parameter weight is no name in `before`"):
        make("z = Add(x, w: const)", "x", small=small)


@pytest.mark.parametrize("attribute", ["shared", "spread"])
@pytest.mark.parametrize("name", ["x", "z", "misspelled"])
def test_only_interior_results_can_be_shared(attribute: str, name: str) -> None:
    with pytest.raises(RewriteError, match=f"`{attribute}` has {name}, no interior result of `before`"):
        make("y = Neg(x)\nz = Abs(y)", "z = Abs(x)", **{attribute: ("y", name)})


def test_picture_without_a_name_is_not_a_pass() -> None:
    before = set(PASSES)
    make("z = Add(x, 0.0)", "x")
    assert set(PASSES) == before


def test_constants_must_define_the_names_in_after() -> None:
    def constants(self: Rewrite) -> dict[str, object]:
        return {}

    made = make("z = Relu(x)", "z = Add(x, q)", constants=constants)
    model = parse_model("graph main(%x: f32[2]) -> %z { %z = Relu(%x) : f32[2] }")
    with pytest.raises(RewriteError, match="`after` reads q, which neither `before` nor `constants` gives"):
        made().run(model, Context())


def test_constants_must_be_a_dict() -> None:
    made = make("z = Relu(x)", "z = Add(x, q)", constants=lambda self: None)
    model = parse_model("graph main(%x: f32[2]) -> %z { %z = Relu(%x) : f32[2] }")
    with pytest.raises(RewriteError, match="`constants` of Made: expected a dict, got NoneType"):
        made().run(model, Context())


def test_something_must_give_the_attributes_in_after() -> None:
    made = make("z = Relu(x)", "z = LeakyRelu(x) {alpha: slope}")
    model = parse_model("graph main(%x: f32[2]) -> %z { %z = Relu(%x) : f32[2] }")
    sentence = "`after` has the attribute slope, which neither `before` nor `constants` gives"
    with pytest.raises(RewriteError, match=sentence):
        made().run(model, Context())


def test_pass_names_are_unique() -> None:
    """A pass whose name is taken is not registered, nor is a pass with an invalid picture."""
    before = all_passes()
    with pytest.raises(RewriteError, match=r"fuse_add_with_conv is declared twice: by circlekit\.passes\."):
        make("z = Relu(x)", "x", name="fuse_add_with_conv")
    with pytest.raises(CirclekitError):
        make("z = Relu(", "x", name="never")
    assert all_passes() == before


TAKEN = """
import circlekit
from circlekit.ir.text import parse_model
from circlekit.rewrite import Rewrite

class Mine(Rewrite):
    name = "fuse_neg"
    before = "z = Neg(x)"
    after = "z = Abs(x)"

circlekit.optimize(parse_model("graph main(%x: f32[2]) -> %z { %z = Neg(%x) }"), "fuse_neg")
"""


def test_built_in_names_are_reserved_before_import() -> None:
    done = subprocess.run([sys.executable, "-c", TAKEN], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "the pass fuse_neg is declared twice: by __main__.Mine and by circlekit.passes." in done.stderr


def test_picture_errors_are_circlekit_errors() -> None:
    with pytest.raises(CirclekitError):
        make("z = Relu(", "x")


@pytest.mark.parametrize(
    ("after", "message"),
    [
        ("z = Relu|Relu6(x)", r"1:10: expected one operator in `after`, or {like y}, got Relu\|Relu6"),
        ("z = Add(x, 1.0) {act: any}", "1:18: expected one value of act in `after`, got any"),
        ("z = Add(x, 1.0) {act: any = a}", "1:18: expected one value of act in `after`, got any = a"),
        ("z = Add(x, 1.0) {act: RELU|RELU6}", r"1:18: expected one value of act in `after`, got RELU\|RELU6"),
        ("z = Add(x, 1.0) {act: RELU = a}", "1:18: expected one value of act in `after`, got RELU = a"),
        ("z = Neg(x: f32)", "1:9: `const` and the type of x are allowed in `before` only"),
        ("z = Neg(x: f32[_, 3])", "1:9: `const` and the type of x are allowed in `before` only"),
        ("z = Add(1.0, x: const)", "1:14: `const` and the type of x are allowed in `before` only"),
    ],
)
def test_after_says_exactly_what_is_created(after: str, message: str) -> None:
    with pytest.raises(ParseError, match=rf"test_picture\.Made\.after:{message}"):
        make("z = Relu|Relu6(x)", after, __module__=__name__)


def test_like_chooses_among_the_operators_of_after() -> None:
    assert len(make("z = Relu|Relu6(x)", "z = Relu|Relu6(x) {like z}").definition().after.root.kinds) == 2


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ('z = Custom("Erf", x)', 'z = Custom("Erf", x)', "`after` cannot create custom operators"),
        ("z = Custom(x)", "z = Relu(x)", "expected the custom code first"),
        ('z = Custom|Relu("Erf", x)', "z = Relu(x)", "`|` cannot join Custom with other operators"),
        ("z = Relu|Custom(x)", "z = Relu(x)", "`|` cannot join Custom with other operators"),
        ('z = Custom("Erf", x) {act: RELU}', "z = Relu(x)", "has no attribute act"),
    ],
)
def test_custom_operators_in_pictures(before: str, after: str, message: str) -> None:
    with pytest.raises(CirclekitError, match=message):
        type("Broken", (Rewrite,), {"before": before, "after": after})


def test_an_operand_after_an_absent_one_prevents_a_match() -> None:
    """The picture has the operands (a, b?): (a, none, none) matches, (a, none, c) does not."""
    picture = parse_picture('z = Custom("Three", a, b?: f32)', "picture")
    text = """graph main(%a: f32[2], %c: f32[2]) -> %z {{
      %z = Opaque(%a, none, {last}) {{code: "CUSTOM", custom_code: "Three"}} : f32[2]
    }}"""
    for last, count in (("none", 1), ("%c", 0)):
        root = parse_model(text.format(last=last)).main.ops[0]
        assert len(list(Matcher(picture).matches(root))) == count
    explaining = Matcher(picture, explain=True)
    assert not list(explaining.matches(root))
    assert explaining.failure.sentence == "%z: has an operand 2, the picture has no place for it"


@pytest.mark.parametrize(
    ("literal", "constant", "fits"),
    [
        ("0.5", "const i32[1] [0]", False),
        ("0.5", "const f32[1] [0.5]", True),
        ("300", "const i8[1] [44]", False),  # 300 - 256
        ("2.0", "const i32[1] [2]", True),
        ("0.1", "const f32[1] [0.1]", True),
        ("2.0", "const bool[1] [true]", False),
    ],
)
def test_number_matches_in_any_dtype_that_holds_it(literal: str, constant: str, fits: bool) -> None:
    """A float constant matches after rounding; no integer dtype holds 0.5, and int8 does not hold 300."""
    picture = parse_picture(f"y = Mul(x, {literal})", "before")
    kind = constant.split()[1].split("[")[0]
    model = parse_model(f"graph main(%x: {kind}[1]) -> %y {{ %c = {constant} %y = Mul(%x, %c) }}")
    assert (next(Matcher(picture).matches(model.main.ops[0]), None) is not None) is fits
