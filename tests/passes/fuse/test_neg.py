# SPDX-License-Identifier: Apache-2.0
"""NEG fused into its user, with results equal bit for bit; Reshapes removed before FULLY_CONNECTED."""

from __future__ import annotations

import numpy as np
import pytest

import circlekit
from circlekit.interp.interpreter import run
from circlekit.ir.clone import clone
from circlekit.ir.text import parse_model
from tests.passes.kit import check_pass, make_input

NEG = {  # {users of %n = Neg(%x): the kinds of operators after the pass, None if NEG stays}
    "%y = Add(%a, %n) {act: RELU}": ["Sub"],
    "%y = Add(%n, %a)": ["Sub"],
    "%y = Sub(%a, %n)": ["Add"],
    "%y = Sub(%n, %a)": None,
    "%m = Mul(%a, %n) %y = Add(%m, %a)": ["Mul", "Sub"],
    "%m = Mul(%n, %a) %y = Sub(%a, %m) {act: RELU6}": ["Mul", "Add"],
    "%m = Mul(%n, %a) %y = Sub(%m, %a)": None,
    "%y = Mul(%n, [0.0, 2.0, -3.0]) {act: TANH}": ["Mul"],
    "%y = Mul(%n, %a)": None,
    "%y = Add(%n, %n)": None,
}


@pytest.mark.parametrize("lines", NEG)
def test_neg_is_fused_into_its_user(lines: str) -> None:
    text = f"graph main(%x: f32[2,1], %a: f32[2,3]) -> %y {{\n%n = Neg(%x)\n{lines}\n}}"
    kinds = NEG[lines]
    model = check_pass(text, "fuse_neg", kinds)
    assert kinds is not None or any(op.code == "NEG" for op in model.main)
    inputs = [make_input(value, "boundary") for value in model.main.inputs]
    before, after = run(parse_model(text), inputs)[0], run(model, inputs)[0]
    np.testing.assert_array_equal(before.view(np.uint32), after.view(np.uint32))


@pytest.mark.parametrize(("sine", "products"), [("%sin", 1), ("[0.5, -2.0, 3.0, 0.0]", 0), ("%other", 2)])
def test_equal_products_of_a_factor_and_signs_are_made_once(sine: str, products: int) -> None:
    """A factor that is not constant is multiplied by the signs [-1, -1, 1, 1].

    One product serves both uses of %sin; %sin and %other need one each.
    """
    first = "%sin" if sine == "%other" else sine
    text = f"""graph main(%x: f32[2,4], %z: f32[2,4], %sin: f32[4], %other: f32[4]) -> %y, %w {{
      %a, %b = Split(1, %x) {{num_splits: 2}}
      %c, %d = Split(1, %z) {{num_splits: 2}}
      %m = Neg(%b)
      %n = Neg(%d)
      %e = Concatenation(%m, %a) {{axis: 1}}
      %f = Concatenation(%n, %c) {{axis: 1}}
      %y = Mul(%e, {first})
      %w = Mul(%f, {sine})
    }}"""
    kinds = ["Split", "Split", "Concatenation", "Concatenation", *["Mul"] * (2 + products)]
    model = check_pass(text, "fuse_neg_with_factor")
    assert sorted(type(op).__name__ for op in model.main) == sorted(kinds)


@pytest.mark.parametrize("shape", ["2,1,3,4", "24,1", "1,2,12", "?,1,3,4"])
def test_reshape_before_a_layer_is_removed(shape: str) -> None:
    text = f"""graph main(%x: f32[{shape}]) -> %y {{
      %w = const f32[5,12] gaussian(0, 0.3)
      %r = Reshape(%x, [-1,12])
      %y = FullyConnected(%r, %w, [0.1, 0.2, 0.3, 0.4, 0.5]) {{act: RELU}}
    }}"""
    check_pass(text, "remove_reshape_before_fullyconnected", ["FullyConnected"])


def test_reshape_of_a_quantized_input_is_removed() -> None:
    quantized = "quant(scale: 0.05, zero_point: 3)"
    text = f"""graph main(%x: i8[2,1,1,6] {quantized}) -> %y {{
      %w = const i8[5,6] quant(scale: 0.01) uniform(-100, 100)
      %r = Reshape(%x, [2,6]) : i8[2,6] {quantized}
      %y = FullyConnected(%r, %w) : i8[2,5] quant(scale: 0.1, zero_point: -7)
    }}"""
    model = parse_model(text)
    before = clone(model)
    circlekit.optimize(model, ["remove_reshape_before_fullyconnected"])
    assert [op.code for op in model.main] == ["FULLY_CONNECTED"]
    x = np.random.default_rng(2).integers(-128, 128, (2, 1, 1, 6), np.int8)
    np.testing.assert_array_equal(circlekit.run(model, [x])[0], circlekit.run(before, [x])[0])
