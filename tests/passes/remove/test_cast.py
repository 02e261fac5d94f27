# SPDX-License-Identifier: Apache-2.0
"""Casts to the same dtype, and to another dtype and back."""

from __future__ import annotations

from itertools import pairwise

import pytest

from circlekit.ir.dtypes import BY_SHORT
from circlekit.passes.remove.remove_neutral import holds_all
from tests.passes.kit import check_pass

NAME = "remove_unnecessary_cast"


def casts(*types: str) -> str:
    """Return a model that casts from each of ``types`` to the next, between two reshapes."""
    lines = [
        f"%c{i} = Cast(%c{i - 1}) {{in_data_type: {a}, out_data_type: {b}}} : {b}[2,3]"
        for i, (a, b) in enumerate(pairwise(types), 1)
    ]
    body = "\n".join(lines)
    return f"""
        graph main(%x: {types[0]}[3,2]) -> %y {{
          %c0 = Reshape(%x, [2, 3])
          {body}
          %y = Reshape(%c{len(types) - 1}, [6])
        }}
    """


@pytest.mark.parametrize("dtype", ["f32", "i32", "bool"])
def test_same_dtype(dtype: str) -> None:
    check_pass(casts(dtype, dtype), NAME, ["Reshape", "Reshape"])


@pytest.mark.parametrize(("narrow", "wide"), [("i8", "f32"), ("f16", "f32"), ("bool", "i8"), ("u8", "i16")])
def test_cast_to_a_wider_dtype_and_back(narrow: str, wide: str) -> None:
    check_pass(casts(narrow, wide, narrow), NAME, ["Reshape", "Reshape"])


@pytest.mark.parametrize(("first", "other"), [("i32", "f32"), ("f32", "f16"), ("f32", "i32"), ("u8", "i8")])
def test_cast_to_a_dtype_that_lacks_numbers_and_back_stays(first: str, other: str) -> None:
    check_pass(
        casts(first, other, first), NAME, refused=f"{other} does not represent every number of {first}"
    )


def test_two_casts_to_different_dtypes_stay() -> None:
    check_pass(casts("i8", "f32", "i32"), NAME, refused="is i32[2,3], %c0 is i8[2,3]")


def test_intermediate_value_with_other_users() -> None:
    text = casts("i8", "f32", "i8").replace("-> %y", "-> %y, %c1")
    check_pass(text, NAME, ["Reshape", "Cast", "Reshape"])


@pytest.mark.parametrize(
    ("wide", "narrow", "holds"),
    [
        ("f32", "u16", True), ("f32", "i32", False), ("f64", "i32", True), ("f64", "i64", False),
        ("f64", "u64", False), ("f16", "i8", True), ("f16", "i16", False), ("i16", "u8", True),
        ("i8", "u8", False), ("i64", "u32", True), ("u32", "i8", False), ("f16", "f32", False),
        ("i32", "f16", False), ("bool", "i8", False), ("c64", "f32", False), ("bf16", "i8", False),
    ],
)  # fmt: skip
def test_dtypes_that_represent_all_values_of_another(wide: str, narrow: str, holds: bool) -> None:
    assert holds_all(BY_SHORT[wide], BY_SHORT[narrow]) is holds
