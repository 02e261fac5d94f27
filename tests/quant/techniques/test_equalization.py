# SPDX-License-Identifier: Apache-2.0
"""Channel equalization: which constants absorb factors, the factors, and what keeps a factor of 1."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import circlekit as ck
from circlekit.ir.graph import Model
from circlekit.quant.calibration import collect
from circlekit.quant.techniques.equalization import SMALLEST_FACTOR, channel_magnitudes, equalize
from tests.quant.techniques.uneven_net import samples, uneven

RANGES = np.array([1, 0.125, 0.5, 0.25])
"""Largest magnitudes of four channels.

The factors equal them, because the largest is 1, all are powers of 2, and none is below SMALLEST_FACTOR.
"""


def net(middle: str, first: str = "Logistic(%x)") -> Model:
    """Return a model in which ``middle`` computes %m from %s, and ``first`` computes %s.

    The channels of %s cannot be scaled if ``first`` is the default, a LOGISTIC.
    """
    return ck.parse(f"""
        graph main(%x: f32[2,4]) -> %y {{
          %v = const f32[4,4] gaussian(0, 1)
          %s = {first}
          %g = const f32[4] [1.0, 0.125, 0.5, 0.25]
          {middle}
          %w = const f32[3,4] gaussian(0, 1)
          %y = FullyConnected(%m, %w)
        }}
        """)


def constant(model: Model, name: str) -> NDArray[Any]:
    return next(v for v in model.main.values() if v.name == name).array()


def check_outputs(model: Model, before: Model) -> None:
    x = np.random.default_rng(0).normal(size=(2, 4)).astype(np.float32)
    np.testing.assert_allclose(ck.run(model, [x])[0], ck.run(before, [x])[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("product", ["Mul(%s, %g)", "Mul(%g, %s)"])
def test_a_product_with_a_constant_absorbs_factors(product: str) -> None:
    """The operand %s keeps its numbers; the channels of the product %m get equal ranges."""
    model, before = net(f"%m = {product}"), net(f"%m = {product}")
    changed = ["%y: 0 of 3 channels scaled", "%m: 3 of 4 numbers of its constant scaled"]
    assert equalize(model, {"m": RANGES}) == changed
    np.testing.assert_array_equal(constant(model, "g"), np.ones(4))
    np.testing.assert_array_equal(constant(model, "w"), constant(before, "w") * RANGES)
    check_outputs(model, before)


def test_layers_without_factors_are_not_listed() -> None:
    model = net("%m = Mul(%s, %g)", "FullyConnected(%x, %v)\n%p = Logistic(%s)").main
    product = next(op for op in model if op.code == "MUL")
    product.set_input(0, next(op for op in model if op.code == "LOGISTIC").output)
    changed = equalize(Model([model]), {"m": RANGES})
    assert [sentence.split(":")[0] for sentence in changed] == ["%y", "%m"]


def test_a_tensor_between_two_products_has_factors_of_its_own() -> None:
    text = "%n = Mul(%s, %g)\n%h = const f32[4] gaussian(1, 0.1)\n%m = Mul(%n, %h)"
    model, before = net(text), net(text)
    equalize(model, {"n": RANGES, "m": RANGES[::-1]})
    np.testing.assert_array_equal(constant(model, "g"), np.ones(4))
    np.testing.assert_allclose(constant(model, "h"), constant(before, "h") * RANGES / RANGES[::-1])
    check_outputs(model, before)


@pytest.mark.parametrize(
    "middle",
    [
        "%m = Mul(%s, 0.5)",  # one number for all channels
        "%m = Mul(%s, %g) {act: RELU6}",  # with an activation, %m must have the factors of %s, which are 1
        "%k = const f32[2,4] gaussian(0, 1)\n%m = Mul(%s, %k)",  # other numbers for each row
        "%m = Mul(%s, %s)",
        "%a = Mul(%s, %g)\n%m = Add(%a, %g)",  # another operator reads the constant
    ],
)
def test_products_that_cannot_absorb_factors_keep_their_channels(middle: str) -> None:
    assert equalize(net(middle), {"m": RANGES}) == []


def test_products_are_equalized_without_layers() -> None:
    text = """graph main(%x: f32[1,4]) -> %y {
      %s = Neg(%x)
      %m = Mul(%s, [1.0, 0.125, 0.5, 0.25])
      %k = Mul(%m, [1.0, 2.0, 4.0, 8.0])
      %y = Abs(%k)
    }"""
    model = ck.parse(text)
    assert equalize(model, {"m": RANGES}) == [
        f"%{name}: 3 of 4 numbers of its constant scaled" for name in "mk"
    ]
    x = [np.ones((1, 4), np.float32)]
    np.testing.assert_array_equal(ck.run(model, x)[0], ck.run(ck.parse(text), x)[0])


@pytest.mark.parametrize(
    "middle",
    [
        "%m = Relu(%s)",
        "%k = const f32[4] gaussian(0.2, 0.1)\n%m = PRelu(%s, %k)",
        "%m = Mul(%s, %t)",  # scaling %s scales the product
        "%m = Mul(%s, %t) {act: RELU}",
        "%k = const f32[4] gaussian(0, 1)\n%m = Add(%s, %k)",
        "%m = Add(%s, %s)",
    ],
)
def test_factors_pass_through_operators(middle: str) -> None:
    first = "FullyConnected(%x, %v)\n%t = Logistic(%x)"
    model, before = net(middle, first), net(middle, first)
    assert equalize(model, {"m": RANGES}) == ["%s: 3 of 4 channels scaled", "%y: 0 of 3 channels scaled"]
    np.testing.assert_allclose(constant(model, "v"), constant(before, "v") / RANGES[:, None], rtol=1e-6)
    check_outputs(model, before)


@pytest.mark.parametrize(
    "middle",
    [
        "%m = Mul(%s, %s)",
        "%m = Tanh(%s)",
        "%m = Add(%s, %s) {act: RELU_N1_TO_1}",
        "%k = const f32[4] gaussian(0, 1)\n%a = Add(%s, %k)\n%m = Add(%a, %k)",  # %k has two users
    ],
)
def test_tensors_that_cannot_be_scaled_keep_factors_of_1(middle: str) -> None:
    assert equalize(net(middle, "FullyConnected(%x, %v)"), {"m": RANGES, "s": RANGES}) == []


def test_factors_have_a_strength_and_a_least_value() -> None:
    """A factor is max(range / largest range, SMALLEST_FACTOR) ** strength, rounded to a power of 2^(1/8)."""
    ranges = np.array([4, 1.2, 4 * SMALLEST_FACTOR / 8, 0])  # a channel that is always 0 keeps its numbers
    for strength, expected in (
        (1.0, [1, 2 ** (-14 / 8), SMALLEST_FACTOR, 1]),  # 1.2 / 4 = 2^(-13.9 / 8)
        (0.5, [1, 2 ** (-7 / 8), SMALLEST_FACTOR**0.5, 1]),
    ):
        model, before = net("%m = Mul(%s, %g)"), net("%m = Mul(%s, %g)")
        equalize(model, {"m": ranges}, strength)
        expected_weights = constant(before, "w") * np.array(expected)
        np.testing.assert_allclose(constant(model, "w"), expected_weights, rtol=1e-6)
    assert equalize(net("%m = Mul(%s, %g)"), {"m": RANGES}, strength=0.0) == []


@pytest.mark.parametrize("ranges", [[0, 0, 0, 0], [1, 0.5, np.inf, 1], [1, 0.5]])
def test_ranges_that_say_nothing_change_nothing(ranges: list[float]) -> None:
    assert equalize(net("%m = Mul(%s, %g)"), {"m": np.array(ranges)}) == []


@pytest.mark.parametrize(
    ("layer", "other", "is_scaled"),
    [
        ("FullyConnected(%x, %v)", "Neg(%b)", True),
        ("FullyConnected(%x, %v, %b)", "Neg(%x)", True),
        ("FullyConnected(%x, %v, %b)", "Neg(%b)", False),
        ("FullyConnected(%x, %v)", "Neg(%v)", False),
        ("FullyConnected(%x, %v, %b)", "Neg(%v)", False),
    ],
)
def test_layers_are_scaled_if_no_other_operator_reads_their_constants(
    layer: str, other: str, is_scaled: bool
) -> None:
    model = ck.parse(f"""
        graph main(%x: f32[2,4]) -> %y, %o {{
          %v = const f32[4,4] gaussian(0, 1)
          %b = const f32[4] gaussian(0, 1)
          %s = {layer}
          %m = Relu(%s)
          %w = const f32[3,4] gaussian(0, 1)
          %y = FullyConnected(%m, %w)
          %o = {other}
        }}
        """)
    assert bool(equalize(model, {"m": RANGES})) == is_scaled


@pytest.mark.parametrize("strength", [0.5, 1.0])
def test_equalization_keeps_the_outputs_and_evens_the_ranges(strength: float) -> None:
    model, data = uneven(), samples(4)
    expected = [ck.run(model, sample)[0] for sample in data]
    before = channel_magnitudes(collect(model, data, channels=True))
    assert equalize(model, before, strength)
    for sample, output in zip(data, expected, strict=True):
        np.testing.assert_allclose(ck.run(model, sample)[0], output, rtol=1e-4, atol=1e-5)
    after = channel_magnitudes(collect(model, data, channels=True))

    def unevenness(ranges: dict[str, NDArray[Any]]) -> float:
        return float(ranges["a"].max() / ranges["a"].min())

    assert unevenness(after) < unevenness(before) / 2
