# SPDX-License-Identifier: Apache-2.0
"""Fusion of GELU by erf, erfc or tanh."""

from __future__ import annotations

import pytest

from tests.passes.kit import check_pass

ERF = '%e = Opaque(%s) {code: "CUSTOM", custom_code: "Erf"} : f32[2,3]'
ORDERS = [
    "%m = Mul(%x, %a)\n%z = Mul(%m, 0.5)",
    "%m = Mul(%a, %x)\n%z = Mul([0.5], %m)",
    "%h = Mul(%x, 0.5)\n%z = Mul(%h, %a)",
    "%h = Mul(%x, 0.5)\n%z = Mul(%a, %h)",
    "%h = Mul(%a, 0.5)\n%z = Mul(%x, %h)",
]


def gelu(
    last: str = ORDERS[0], scale: str = "Mul(%x, 0.70710677)", add: str = "Add(%e, 1.0)", outputs: str = "%z"
) -> str:
    return f"graph main(%x: f32[2,3]) -> {outputs} {{\n%s = {scale}\n{ERF}\n%a = {add}\n{last}\n}}"


@pytest.mark.parametrize("last", ORDERS)
@pytest.mark.parametrize("scale", ["Mul(%x, 0.70710677)", "Mul([0.70710677], %x)"])
def test_gelu(last: str, scale: str) -> None:
    check_pass(gelu(last, scale), "fuse_gelu", ["Gelu"])


def test_gelu_with_a_division() -> None:
    check_pass(gelu(ORDERS[2], "Div(%x, 1.41421356)"), "fuse_gelu", ["Gelu"])


def test_gelu_with_an_operator_of_tensorflow() -> None:
    check_pass(gelu().replace('"Erf"', '"FlexErf"'), "fuse_gelu", ["Gelu"])


def erfc(scale: str, last: str, code: str = "Erfc") -> str:
    call = f'%e = Opaque(%s) {{code: "CUSTOM", custom_code: "{code}"}} : f32[2,3]'
    return f"graph main(%x: f32[2,3]) -> %z {{\n%n = Neg(%x)\n%s = {scale}\n{call}\n{last}\n}}"


ERFC_ORDERS = [
    "%m = Mul(%x, %e)\n%z = Mul(%m, 0.5)",
    "%h = Mul(0.5, %x)\n%z = Mul(%h, %e)",
    "%h = Mul(%e, 0.5)\n%z = Mul(%h, %x)",
]


@pytest.mark.parametrize("code", ["Erfc", "FlexErfc"])
@pytest.mark.parametrize("last", ERFC_ORDERS)
@pytest.mark.parametrize(
    "scale", ["Mul(%n, 0.70710677)", "Div(%n, 1.41421356)", "Mul(%x, -0.70710677)", "Div(%x, -1.41421356)"]
)
def test_gelu_by_erfc(scale: str, last: str, code: str) -> None:
    left = ["Gelu"] if "%n" in scale else ["Neg", "Gelu"]  # a Neg that nothing reads stays
    check_pass(erfc(scale, last, code), "fuse_gelu", left)


@pytest.mark.parametrize("scale", ["Mul(%x, 0.70710677)", "Mul(%n, -0.70710677)", "Div(%n, 0.70710677)"])
def test_gelu_by_erfc_near_misses(scale: str) -> None:
    check_pass(erfc(scale, ERFC_ORDERS[0]), "fuse_gelu", refused="before Erfc, got")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (gelu(scale="Mul(%x, 0.7)"), "expected the factor 0.707107 before Erf, got 0.7"),
        (gelu(ORDERS[2], "Div(%x, 1.4)"), "expected the divisor 1.41421 before Erf, got 1.4"),
        (gelu(add="Add(%e, 2.0)"), "expected the constant 1.0"),
        (gelu(add="Add(%e, 1.0) {act: RELU}"), "%a: act is RELU"),
        (gelu(ORDERS[0].replace("0.5", "0.4")), "expected the constant 0.5"),
        (gelu(outputs="%z, %e"), "%e: is an output of the graph"),
        (
            gelu(ORDERS[0].replace("Mul(%x, %a)", "Mul(%s, %a)")),
            "expected the same value in two places",
        ),
        (
            gelu().replace("Erf", "AddV2").replace("(%s) {", "(%s, %s) {"),
            "expected the custom operator Erf",
        ),
    ],
)
def test_gelu_near_misses(text: str, sentence: str) -> None:
    check_pass(text, "fuse_gelu", refused=sentence)


# -- tanh --------------------------------------------------------------------------------------

CUBES = ("%c = Pow(%x, 3.0)", "%p = Mul(%x, %x)\n%c = Mul(%x, %p)", "%p = Square(%x)\n%c = Mul(%p, %x)")
FIRST = "%u = Mul(0.044715, %x)\n%v = Mul(%x, %u)\n%k = Mul(%v, %x)"  # not 0.044715 times the cube
PRODUCTS = (
    "%m = Mul(%a, %x)\n%y = Mul(0.5, %m)",
    "%m = Mul(%x, 0.5)\n%y = Mul(%a, %m)",
    "%m = Mul(%a, 0.5)\n%y = Mul(%x, %m)",
)


def tanh_form(cube: str, last: str, third: str = "0.044715", root: str = "0.7978845608") -> str:
    return f"""
        graph main(%x: f32[2,3], %z: f32[2,3]) -> %y {{
          {cube}
          %k = Mul({third}, %c)
          %d = Add(%k, %x)
          %s = Mul(%d, {root})
          %t = Tanh(%s)
          %a = Add(1.0, %t)
          {last}
        }}
    """


@pytest.mark.parametrize("cube", CUBES)
@pytest.mark.parametrize("last", PRODUCTS)
def test_gelu_by_tanh(cube: str, last: str) -> None:
    (op,) = check_pass(tanh_form(cube, last), "fuse_gelu", ["Gelu"]).main
    assert op.attribute_items() == {"approximate": True}


@pytest.mark.parametrize("last", PRODUCTS)
def test_gelu_by_tanh_with_the_coefficient_first(last: str) -> None:
    text = tanh_form("", last).replace("%k = Mul(0.044715, %c)", FIRST)
    (op,) = check_pass(text, "fuse_gelu", ["Gelu"]).main
    assert op.attribute_items() == {"approximate": True}


@pytest.mark.parametrize(
    "square",
    [
        *(
            f"%q = {square} %k = Mul(%q, 0.044715)"
            for square in ("Mul(%x, %x)", "Square(%x)", "Pow(%x, 2.0)")
        ),
        "%u = Mul(%x, 0.044715) %k = Mul(%u, %x)",
    ],
)
@pytest.mark.parametrize(
    "product",
    [
        "%p = Mul(%x, 0.7978845608) %s = Mul(%p, %d)",
        "%p = Mul(%x, %d) %s = Mul(0.7978845608, %p)",
        "%p = Mul(%d, 0.7978845608) %s = Mul(%p, %x)",
    ],
)
@pytest.mark.parametrize(
    "last",
    [
        "%h = Mul(%t, 0.5) %a = Add(%h, 0.5) %y = Mul(%a, %x)",
        "%h = Mul(%x, 0.5) %a = Mul(%t, %h) %y = Add(%a, %h)",
    ],
)
def test_gelu_by_tanh_of_a_factored_cubic(square: str, product: str, last: str) -> None:
    inner = f"{square} %d = Add(%k, 1.0) {product} %t = Tanh(%s)"
    text = f"graph main(%x: f32[2,3]) -> %y {{ {inner} {last} }}"
    (op,) = check_pass(text, "fuse_gelu", ["Gelu"]).main
    assert op.attribute_items() == {"approximate": True}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (tanh_form(CUBES[0], PRODUCTS[0], third="0.05"), "%k/lhs: expected 0.044715, got 0.05"),
        (tanh_form(CUBES[1], PRODUCTS[1], root="0.7"), "%s/rhs: expected 0.797885, got 0.7"),
        (tanh_form("%c = Pow(%x, 2.0)", PRODUCTS[0]), "%c/rhs: expected the constant 3.0"),
        (tanh_form("%c = Pow(%z, 3.0)", PRODUCTS[0]), "expected the same value in two places"),
        (
            tanh_form(CUBES[0], PRODUCTS[0]).replace("Add(1.0, %t)", "Add(2.0, %t)"),
            "expected the constant 1.0",
        ),
    ],
)
def test_gelu_by_tanh_near_misses(text: str, sentence: str) -> None:
    check_pass(text, "fuse_gelu", refused=sentence)
