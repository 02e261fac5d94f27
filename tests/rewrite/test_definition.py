# SPDX-License-Identifier: Apache-2.0
"""Pictures are parsed on demand, and only if the graph has all operators that they contain."""

from __future__ import annotations

import subprocess
import sys

import pytest

from circlekit.errors import CirclekitError
from circlekit.ir.op import Op, OpaqueOp
from circlekit.ops.arithmetic.activation import Relu, Relu6
from circlekit.ops.arithmetic.binary import Add, Mul
from circlekit.passes.engine.describe import rules_of
from circlekit.passes.engine.registry import all_passes
from circlekit.rewrite.definition import may_match, operator_names
from circlekit.rewrite.picture import Picture, parse_picture
from circlekit.rewrite.rewrite import Rewrite

RULES = [rule for item in all_passes().values() for rule in rules_of(item)]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"{rule.__module__}.{rule.__name__}")
def test_every_picture_can_be_parsed(rule: type[Rewrite]) -> None:
    """``definition`` also checks that scanning and parsing the text of ``before`` find the same operators."""
    assert isinstance(rule.definition().before, Picture)
    assert isinstance(rule.definition().after, Picture)


@pytest.mark.parametrize(
    ("text", "kinds", "fits"),
    [
        ("z = Add(x, y)", [Add], True),
        ("z = Add(x, y)", [Add, Mul], True),
        ("z = Add(x, y)", [Mul], False),
        ("a = Mul(x, y)\nz = Add(a, y)", [Mul], False),
        ("a = Mul(x, y)\nz = Add(a, y)", [Mul, Add], True),
        ("z = Relu|Relu6(x)", [Relu6], True),
        ("z = Relu | Relu6 (x)", [Relu], True),
        ("z = Relu|Relu6(x)", [Add], False),
        ('z = Custom("AddV2", x)', [OpaqueOp], True),
        ('z = Custom("AddV2", x)', [Add], False),
        ('z = Custom("= Mul(", x)', [OpaqueOp], True),
        ("# z = Mul(x)\nz = Add(x, y)", [Add], True),
        ("z = Add(x, y) {act: any = act}\n", [Add], True),
    ],
)
def test_operators_found_by_scanning_the_text(text: str, kinds: list[type[Op]], fits: bool) -> None:
    assert may_match(text, frozenset(kinds)) is fits


def test_subclass_of_the_kind_in_the_picture_matches() -> None:
    class SumOfTwo(Add):
        pass

    assert may_match("z = Add(x, y)", frozenset({SumOfTwo}))
    assert not may_match("z = SumOfTwo(x, y)", frozenset({Add}))


def test_operator_names_are_in_the_order_of_the_text() -> None:
    assert operator_names("a = Mul(x, y)\nz, w = Relu|Relu6(a)") == (("Mul",), ("Relu", "Relu6"))


READ = """
from circlekit.ir.text import parse_model
from circlekit.passes.engine.registry import all_passes
from circlekit.passes.engine.describe import rules_of
from circlekit.passes.engine.pass_manager import run_passes
from circlekit.rewrite.base import Context

model = parse_model("graph g(%x: f32[2]) -> %y { %a = Neg(%x)  %y = Add(%x, %a) }")
run_passes(model, ["fuse_neg", "fuse_gelu", "fuse_batchnorm_with_conv"], Context())
rules = [rule for item in all_passes().values() for rule in rules_of(item)]
print({rule.name for rule in rules if "_definition" in vars(rule)})
"""


def test_pictures_are_parsed_only_if_the_model_may_match() -> None:
    """In a separate process: in this one all pictures are parsed already."""
    done = subprocess.run([sys.executable, "-c", READ], capture_output=True, text=True, check=True)
    assert done.stdout == "{'fuse_neg'}\n"


def test_pictures_of_circlekit_are_parsed_when_first_needed() -> None:
    """Pictures of other packages are parsed when their class is defined.

    So a mistake in a picture is an error in the place where it was made.
    """

    def define_in(module: str) -> type[Rewrite]:
        body = {"before": "y = Nothing(x)", "after": "y = x", "__module__": module}
        return type("Wrong", (Rewrite,), body)

    own = define_in("circlekit.passes.wrong")
    with pytest.raises(CirclekitError, match="Nothing"):
        own.definition()
    with pytest.raises(CirclekitError, match="Nothing"):
        define_in("mine.passes")


@pytest.mark.parametrize(
    "text", ["x: f32[*,C]", "x: f32[_,2,C|1]", "x: i8", "x: const f32[N]", "x: const i32", "x: const"]
)
def test_types_of_operands_as_text(text: str) -> None:
    (operand,) = parse_picture(f"y = Neg({text})", "test").nodes[0].operands
    assert operand.type_text() == text.removeprefix("x: ")
