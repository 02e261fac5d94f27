# SPDX-License-Identifier: Apache-2.0
"""Transposes that are identities, cancel each other, or equal a Reshape."""

from __future__ import annotations

import numpy as np
import pytest

from circlekit.ops.movement.shape import Transpose
from tests.passes.kit import chain, check_pass, check_refusal

ALONE, PAIR = "remove_unnecessary_transpose", "remove_redundant_transpose"


# -- one Transpose -----------------------------------------------------------------------------


@pytest.mark.parametrize("perm", ["[0, 1, 2]", "[0, 1, -1]", "[-3, -2, -1]"])
def test_identity_is_removed(perm: str) -> None:
    check_pass(chain("[2,?,4]", f"Transpose(%a, {perm})"), ALONE, ["Neg", "Neg"])


def test_other_perm_stays() -> None:
    check_pass(
        chain("[2,3,3]", "Transpose(%a, [0, 2, 1])"),
        ALONE,
        refused="expected a perm that moves no axis, got [0, 2, 1]",
    )


def test_computed_perm_stays() -> None:
    text = "graph main(%x: f32[2,2], %p: i32[2]) -> %y { %a = Neg(%x)\n%y = Transpose(%a, %p) : f32[2,2] }"
    check_refusal(text, ALONE, "%p: is not constant")


# -- two or more Transposes --------------------------------------------------------------------


def test_two_transposes_cancel() -> None:
    text = chain("[2,3,4,5]", "Transpose(%a, [0, 2, 3, 1])", "Transpose(%b, [0, 3, 1, 2])")
    check_pass(text, PAIR, ["Neg", "Neg"])


def test_cancel_with_unknown_dimensions() -> None:
    check_pass(
        chain("[?,3,?]", "Transpose(%a, [1, 2, 0])", "Transpose(%b, [-1, 0, 1])"), PAIR, ["Neg", "Neg"]
    )


def test_two_transposes_merge() -> None:
    text = chain("[2,3,4,5]", "Transpose(%a, [1, 0, 3, 2])", "Transpose(%b, [-1, 0, 2, 1])")
    model = check_pass(text, PAIR, ["Neg", "Transpose", "Neg"])
    (op,) = (op for op in model.main if isinstance(op, Transpose))
    np.testing.assert_array_equal(op.perm.array(), [2, 1, 3, 0])  # items 3, 0, 2 and 1 of [1, 0, 3, 2]


def test_three_become_one_or_none() -> None:
    turn = ["Transpose(%a, [1, 2, 0])", "Transpose(%b, [1, 2, 0])", "Transpose(%c, [1, 0, 2])"]
    check_pass(chain("[2,3,4]", *turn), PAIR, ["Neg", "Transpose", "Neg"])
    back = ["Transpose(%a, [1, 2, 0])", "Transpose(%b, [1, 2, 0])", "Transpose(%c, [1, 2, 0])"]
    check_pass(chain("[2,3,4]", *back), PAIR, ["Neg", "Neg"])


def test_first_transpose_with_other_users_stays() -> None:
    text = chain("[2,3,4]", "Transpose(%a, [1, 2, 0])", "Transpose(%b, [2, 0, 1])", outputs="%y, %b")
    check_pass(text, PAIR, ["Neg", "Transpose", "Neg"])
    text = chain("[2,3,4]", "Transpose(%a, [1, 2, 0])", "Transpose(%b, [1, 0, 2])", outputs="%y, %b")
    check_pass(text, PAIR, ["Neg", "Transpose", "Transpose", "Neg"])


def test_an_output_is_not_replaced_by_an_input() -> None:
    """Two Transposes that cancel become one that moves no axis."""
    text = """
        graph main(%x: f32[2,3]) -> %y {
          %a = Transpose(%x, [1, 0])
          %y = Transpose(%a, [1, 0])
        }
    """
    check_pass(text, PAIR, ["Transpose"])
    check_pass(text, [ALONE, PAIR], ["Transpose"], refused="%x is an input or an output, too")


def test_output_keeps_its_name() -> None:
    text = """
        graph main(%x: f32[2,3]) -> %y {
          %n = Neg(%x)
          %a = Transpose(%n, [1, 0])
          %y = Transpose(%a, [1, 0])
        }
    """
    check_pass(text, PAIR, ["Neg"])


def test_quantized_transposes_cancel_if_all_parameters_are_equal() -> None:
    q, other = "quant(scale: 0.5, zero_point: 3)", "quant(scale: 0.25, zero_point: 3)"
    text = f"""
        graph main(%x: i8[2,3] {q}) -> %y {{
          %a = Transpose(%x, [1, 0])    : i8[3,2] {q}
          %b = Transpose(%a, [1, 0])    : i8[2,3] {q}
          %y = Reshape(%b, [6])         : i8[6] {q}
        }}
    """
    check_pass(text, PAIR, ["Reshape"])
    text = text.replace(f"i8[3,2] {q}", f"i8[3,2] {other}")
    check_pass(text, PAIR, refused="has other quantization parameters")


# -- with Reshapes -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "calls"),
    [
        ("[1,1,1,64]", ["Transpose(%a, [0, 3, 1, 2])", "Reshape(%b, [1, 64])"]),
        ("[2,3,1,4]", ["Transpose(%a, [0, 2, 1, 3])", "Reshape(%b, [2, 12])"]),
        ("[2,12]", ["Reshape(%a, [2, 3, 1, 4])", "Transpose(%b, [2, 0, 1, 3])"]),
        ("[1,8,4,6]", ["Transpose(%a, [0, 3, 1, 2])", "Reshape(%b, [1, 6, 32])", "Transpose(%c, [0, 2, 1])"]),
        ("[2,3,4]", ["Transpose(%a, [2, 0, 1])", "Reshape(%b, [2, 2, 6])", "Transpose(%c, [2, 0, 1])"]),
    ],
)
def test_transposes_and_reshapes_become_one_reshape(shape: str, calls: list[str]) -> None:
    check_pass(chain(shape, *calls), ALONE, ["Neg", "Reshape", "Neg"])


@pytest.mark.parametrize(
    ("shape", "calls", "sentence"),
    [
        (
            "[2,3,4]",
            ["Transpose(%a, [1, 0, 2])", "Reshape(%b, [6, 4])"],
            "does not keep the order of the elements",
        ),
        (
            "[2,6]",
            ["Reshape(%a, [4, 3])", "Transpose(%b, [1, 0])"],
            "%c: does not keep the order of the elements",
        ),
        (
            "[4,6]",
            ["Reshape(%a, [6, 4])", "Transpose(%b, [1, 0])"],
            "%b: splits or merges axes of %a irregularly",
        ),
        (
            "[2,3,4]",
            ["Transpose(%a, [2, 0, 1])", "Reshape(%b, [2, 2, 6])", "Transpose(%c, [0, 2, 1])"],
            "does not keep the order of the elements",
        ),
    ],
)
def test_transposes_that_reorder_elements_stay(shape: str, calls: list[str], sentence: str) -> None:
    check_pass(chain(shape, *calls), ALONE, refused=sentence)


def test_transpose_and_reshape_of_unknown_dimensions_stay() -> None:
    text = chain("[?,1,3]", "Transpose(%a, [1, 0, 2])", "Reshape(%b, [-1, 3])")
    check_pass(text, ALONE, refused="expected a static shape")


def test_intermediate_value_with_other_users_stays() -> None:
    text = chain("[1,1,1,64]", "Transpose(%a, [0, 3, 1, 2])", "Reshape(%b, [1, 64])", outputs="%y, %b")
    check_pass(text, ALONE, refused="%b: is an output of the graph")
