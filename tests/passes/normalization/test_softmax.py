# SPDX-License-Identifier: Apache-2.0
"""SOFTMAX, LOG_SOFTMAX and L2_NORMALIZATION are recognized; LiteRT has the same results."""

from __future__ import annotations

import pytest

from circlekit.equivalence.litert import run_model
from circlekit.ir.text import parse_model
from circlekit.passes.pipelines import pipeline_passes
from tests.passes.kit import assert_close, check_pass, make_input, refusals

MAXIMA = {
    "kept": "%m = ReduceMax(%x, [2]) {keep_dims: true}",
    "reshaped": "%k = ReduceMax(%x, [-1]) %m = Reshape(%k, [2, 3, 1])",
    "limited": "%k = ReduceMax(%x, [2]) {keep_dims: true} %m = Maximum(%k, -3.4028235e38)",
}
EXP = "%d = Sub(%x, %m) %e = Exp(%d) %s = Sum(%e, [2]) {keep_dims: true}"
ENDS = {"Softmax": "%z = Div(%e, %s)", "LogSoftmax": "%l = Log(%s) %z = Sub(%d, %l)"}


def check_o1(lines: str, operator: str, *more: str) -> None:
    """Check that O1, and the passes ``more``, leave one operator; LiteRT computes the same of both."""
    text = f"graph main(%x: f32[2,3,4]) -> %z {{ {lines} }}"
    after = check_pass(text, [*pipeline_passes("O1"), *more], [operator])
    inputs = [make_input(after.main.inputs[0], "normal")]
    assert_close(run_model(after, inputs), run_model(parse_model(text), inputs))


@pytest.mark.parametrize("maximum", MAXIMA)
@pytest.mark.parametrize("operator", ENDS)
def test_softmax(maximum: str, operator: str) -> None:
    check_o1(f"{MAXIMA[maximum]} {EXP} {ENDS[operator]}", operator)


@pytest.mark.parametrize("softmax", ["Softmax(%d) {beta: 1.0}", "LogSoftmax(%d)"])
def test_softmax_subtracts_the_maximum_itself(softmax: str) -> None:
    check_o1(f"{MAXIMA['kept']} %d = Sub(%x, %m) %z = {softmax}", softmax.partition("(")[0])


def test_a_limit_above_the_lowest_number_is_no_maximum() -> None:
    maximum = MAXIMA["limited"].replace("-3.4028235e38", "0.0")
    text = f"graph main(%x: f32[2,3,4]) -> %z {{ {maximum} {EXP} {ENDS['Softmax']} }}"
    assert any("expected the maximum of each row" in s for s in refusals(text, "fuse_softmax"))


SQUARES = ("Square(%x)", "Mul(%x, %x)", "Pow(%x, 2.0)")
QUOTIENTS = (
    "%r = Sqrt(%s) %a = Maximum(%r, 1e-12) %z = Div(%x, %a)",
    "%r = Pow(%s, 0.5) %a = Maximum(%r, 1e-6) %z = Div(%x, %a)",
    "%a = Maximum(%s, 1e-12) %r = Rsqrt(%a) %z = Mul(%x, %r)",
    "%a = Add(%s, 1e-12) %r = Rsqrt(%a) %z = Mul(%r, %x)",
    "%a = Maximum(%s, 1e-13) %r = Sqrt(%a) %z = Div(%x, %r)",
)


@pytest.mark.parametrize("square", SQUARES)
@pytest.mark.parametrize("quotient", QUOTIENTS)
def test_l2_normalization(square: str, quotient: str) -> None:
    check_o1(f"%q = {square} %s = Sum(%q, [-1]) {{keep_dims: true}} {quotient}", "L2Normalization")


@pytest.mark.parametrize("softmax", ["Softmax(%x) {beta: 1.0}", "LogSoftmax(%x)"])
@pytest.mark.parametrize("kind", ["i32", "i64"])
def test_position_of_the_maximum(softmax: str, kind: str) -> None:
    check_o1(f"%s = {softmax} %z = ArgMax(%s, [2]) {{output_type: {kind}}}", "ArgMax", "remove_softmax")
