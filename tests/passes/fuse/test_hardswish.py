# SPDX-License-Identifier: Apache-2.0
"""x * relu6(x + 3) / 6 in all forms."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from tests.passes.kit import check_pass

NAME = "fuse_hardswish"
SIXTH = float(np.float32(1 / 6))

RELU6 = ("%r = Add({three}) {{act: RELU6}}", "%a = Add({three})\n%r = Relu6(%a)")
SIXTHS = ("Div({0}, 6.0)", f"Mul({{0}}, {SIXTH!r})", f"Mul({SIXTH!r}, {{0}})")
TAILS = (
    ("%m = Mul({p})\n%z = {s}", "%x, %r", "%m"),
    ("%m = {s}\n%z = Mul({p})", "%x, %m", "%r"),
    ("%m = {s}\n%z = Mul({p})", "%r, %m", "%x"),
)
"""(lines with the product {p} and the sixth {s}, the operands of the product, the value that is divided)."""


def swapped(pair: str, swap: bool) -> str:
    return ", ".join(reversed(pair.split(", "))) if swap else pair


def text(relu6: str, tail: tuple[str, str, str], sixth: str, swap: bool = False) -> str:
    form, pair, divided = tail
    body = form.format(p=swapped(pair, swap), s=sixth.format(divided))
    return f"""
        graph main(%in: f32[2,40]) -> %y {{
          %x = Neg(%in)
          {relu6.format(three=swapped("%x, 3.0", swap))}
          {body}
          %y = Neg(%z)
        }}
    """


@pytest.mark.parametrize(
    ("relu6", "tail", "sixth", "swap"), list(product(RELU6, TAILS, SIXTHS, (False, True)))
)
def test_all_forms(relu6: str, tail: tuple[str, str, str], sixth: str, swap: bool) -> None:
    check_pass(text(relu6, tail, sixth, swap), NAME, ["Neg", "HardSwish", "Neg"])


CLIPS = (
    "%r = Relu0To1(%a)",
    "%c = Minimum(%a, 1.0)\n%r = Maximum(%c, 0.0)",
    "%c = Maximum(0.0, %a)\n%r = Minimum(1.0, %c)",
    "%c = Relu(%a)\n%r = Minimum(%c, 1.0)",
    "%c = Minimum(%a, 1.0)\n%r = Relu(%c)",
)


def hard_sigmoid(sixth: str, clip: str, half: str = "0.5") -> str:
    """Return x * min(max(x / 6 + 1/2, 0), 1)."""
    lines = f"%s = {sixth.format('%x')}\n%a = Add(%s, {half})\n{clip}\n%y = Mul(%x, %r)"
    return f"graph main(%x: f32[2,40]) -> %y {{\n{lines}\n}}"


@pytest.mark.parametrize(("sixth", "clip"), list(product(SIXTHS, CLIPS)))
def test_the_definition_of_onnx(sixth: str, clip: str) -> None:
    check_pass(hard_sigmoid(sixth, clip), NAME, ["HardSwish"])


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        (hard_sigmoid("Mul({0}, 0.2)", CLIPS[0]), "expected 0.16666667, got 0.2"),
        (hard_sigmoid(SIXTHS[0], CLIPS[0], "0.4"), "expected the constant 0.5"),
        (hard_sigmoid(SIXTHS[0], CLIPS[1]).replace("%a, 1.0", "%a, 2.0"), "expected the constant 1.0"),
        (hard_sigmoid(SIXTHS[0], CLIPS[1]).replace("-> %y", "-> %y, %r"), "%r: is an output of the graph"),
    ],
)
def test_the_definition_of_onnx_near_misses(model: str, sentence: str) -> None:
    check_pass(model, NAME, refused=sentence)


def neighbour(steps: int) -> str:
    """Return SIXTH plus ``steps`` units in its last place, as text."""
    value = np.float32(SIXTH) + np.float32(steps) * np.spacing(np.float32(SIXTH))
    return repr(float(value))


PLAIN = text(RELU6[0], TAILS[0], SIXTHS[0])
TIMES = text(RELU6[1], TAILS[1], SIXTHS[1])


@pytest.mark.parametrize("steps", [-1, 1])
def test_factor_may_be_one_unit_in_the_last_place_off(steps: int) -> None:
    check_pass(TIMES.replace(repr(SIXTH), neighbour(steps)), NAME, ["Neg", "HardSwish", "Neg"])


@pytest.mark.parametrize(
    ("model", "old", "new", "sentence"),
    [
        (PLAIN, "%x, 3.0", "%x, 2.5", "expected 3.0, got 2.5"),
        (PLAIN, "%x, 3.0", "%x, 3.0000002384185791", "expected 3.0, got 3.0000002"),
        (PLAIN, ", 6.0", ", 5.0", "expected 6.0, got 5.0"),
        (TIMES, repr(SIXTH), neighbour(2), "expected 0.16666667, got 0.1666667"),
        (PLAIN, "act: RELU6", "act: RELU", "act is RELU, expected RELU6"),
        (text(RELU6[1], TAILS[0], SIXTHS[0]), "Relu6(%a)", "Relu(%a)", "comes from Relu"),
        (PLAIN, "%m = Mul(%x, %r)", "%m = Mul(%in, %r)", "the same value in two places"),
        (PLAIN, "%m = Mul(%x, %r)", "%m = Mul(%x, %r) {act: RELU}", "act is RELU"),
        (PLAIN, "Add(%x, 3.0)", f"Add(%x, {[3.0] * 40})", "expected one element, got 40"),
        (PLAIN, "Add(%x, 3.0)", "Add(%x, [[[3.0]]])", "has shape [1,2,40], the rewrite gives [2,40]"),
        (PLAIN, "-> %y", "-> %y, %m", "%m: is an output of the graph"),
        (PLAIN, "-> %y", "-> %y, %r", "%r: is an output of the graph"),
    ],
)
def test_near_miss(model: str, old: str, new: str, sentence: str) -> None:
    assert old in model
    check_pass(model.replace(old, new), NAME, refused=sentence)


def test_integers_stay() -> None:
    model = PLAIN.replace("f32", "i32").replace("3.0", "3").replace("6.0", "6")
    check_pass(model, NAME, refused="is i32, expected f32")
