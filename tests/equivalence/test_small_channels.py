# SPDX-License-Identifier: Apache-2.0
"""Channels whose numbers are small are compared by their own size, and by what rounding can change."""

from __future__ import annotations

import numpy as np
import pytest

import circlekit
from circlekit import compare
from circlekit.equivalence.array_comparison import TOLERANCE
from circlekit.equivalence.small_channels import _pooled
from circlekit.equivalence.verify import Verifier
from circlekit.errors import EquivalenceError
from circlekit.ir.graph import Model
from circlekit.ir.text import parse_model

F32 = TOLERANCE["float32"]


def boxes_and_scores(change: float = 0.0) -> Model:
    """Return a model with an output of large numbers and of numbers up to 1; ``change``: of the latter."""
    return parse_model(f"""
    graph main(%x: f32[4,3]) -> %y {{
      %boxes = Mul(%x, 1000.0)
      %scores = Logistic(%x)
      %z = Mul(%scores, {1 + change})
      %y = Concatenation(%boxes, %z) {{axis: 1}}
    }}""")


@pytest.mark.parametrize("change", [1e-4, -1e-3])
def test_an_error_in_small_channels_is_found(change: float) -> None:
    """Both changes are less than TOLERANCE times the largest number of the output, which is 1000 or more."""
    found = compare(boxes_and_scores(), boxes_and_scores(change))
    worst = next(o.worst for o in found.outputs if not o.equal)
    assert worst is not None
    assert worst.index[1] >= 3
    assert worst.relative == pytest.approx(abs(change), rel=0.01)
    assert worst.tolerance == pytest.approx(F32 * abs(worst.left), rel=1)


def test_small_channels_may_differ_by_rounding() -> None:
    assert compare(boxes_and_scores(), boxes_and_scores(2.0**-23)).equal
    assert compare(boxes_and_scores(), boxes_and_scores(0.5 * F32)).equal


@pytest.mark.parametrize(("change", "equal"), [(2.0**-22, True), (1e-4, False)])
def test_a_small_sum_of_large_terms_may_differ_by_the_rounding_of_the_terms(
    change: float, equal: bool
) -> None:
    """The terms are about 1000 times as large as their sum, in a channel beside much larger ones."""

    def model(factor: float) -> Model:
        return parse_model(f"""
        graph main(%x: f32[4,3]) -> %y {{
          %a = Mul(%x, {factor})
          %b = Mul(%x, 0.999)
          %s = Sub(%a, %b)
          %large = Mul(%x, 1000.0)
          %y = Concatenation(%s, %large) {{axis: 1}}
        }}""")

    assert compare(model(1.0), model(1 + change)).equal is equal


def test_an_infinite_channel_beside_a_small_one_causes_no_warning() -> None:
    """The infinite element stays infinite when the constants are moved: their difference is NaN."""
    numbers = "%c = const f32[2,3] [[inf, 1000.0, 0.001], [1.0, 2.0, 0.003]]"
    text = f"graph main(%x: f32[1]) -> %y {{ {numbers} %y = Mul(%c, [1.0, 1.0, FACTOR]) }}"
    model = parse_model(f"graph main(%x: f32[1]) -> %y {{ {numbers.replace('%c', '%y')} }}")
    others = (parse_model(text.replace("FACTOR", factor)) for factor in ("1.0", "1.0001"))
    assert [compare(model, other).equal for other in others] == [True, False]


def test_noise_is_pooled_among_channels_of_similar_magnitude() -> None:
    magnitudes = np.array([1.0, 1.9, 7.0, 0.2, 1000.0, 0.0])
    noise = np.array([0.0, 0.5, 0.25, 0.0, 2.0, 0.0])
    assert _pooled(noise, magnitudes).tolist() == [0.5, 0.5, 0.5, 0.5, 2.0, 0.5]
    assert _pooled(noise[:1], magnitudes[:1]).tolist() == [0.0]


def test_the_noise_of_a_channel_of_zeros_does_not_excuse_an_error_in_another_channel() -> None:
    """Moved by rounding, %zeros is up to 1e-3 times %x; the scores are about 1."""

    def model(factor: float) -> Model:
        return parse_model(f"""
        graph main(%x: f32[4,3]) -> %y {{
          %a = Mul(%x, 10000.0)
          %b = Mul(%x, 10000.0)
          %zeros = Sub(%a, %b)
          %large = Mul(%x, 1000000.0)
          %scores = Logistic(%x)
          %z = Mul(%scores, {factor})
          %y = Concatenation(%zeros, %large, %z) {{axis: 1}}
        }}""")

    inputs = [np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)]
    assert _pooled(np.array([1.0, 0.0]), np.array([0.0, 1.0])).tolist() == [0.0, 0.0]
    assert compare(model(1.0), model(1 + 2.0**-23), inputs).equal
    assert not compare(model(1.0), model(1.001), inputs).equal


def test_a_deep_chain_of_layers_may_round_differently() -> None:
    """A rewrite that moves a factor into the weights of all layers rounds each weight once more."""
    lines = [
        f"%w{n} = const f32[48,48] gaussian(0, 0.2) %l{n} = FullyConnected(%m{n - 1}, %w{n}, none) "
        f"%m{n} = Mul(%l{n}, 0.77)"
        for n in range(1, 65)
    ]
    model = parse_model(f"graph main(%m0: f32[1,48]) -> %m64 {{ {' '.join(lines)} }}")
    assert circlekit.optimize(model, ["fuse_mul_with_fullyconnected"], verify=True).verified
    assert len(model.main) == 64


def test_another_order_of_the_terms_of_a_sum_of_inputs_is_rounding() -> None:
    text = "graph main(%x: f32[512], %y: f32[3]) -> %z {{ {} %z = Concatenation(%s, %y) {{axis: 0}} }}"
    model, other = (
        parse_model(text.format(lines))
        for lines in (
            "%s = Sum(%x, [0]) {keep_dims: true}",
            "%r = ReverseV2(%x, [0]) %m = Mean(%r, [0]) {keep_dims: true} %s = Mul(%m, 512.0)",
        )
    )
    assert compare(model, other).equal


def test_a_channel_of_zeros_is_compared_with_the_largest_number_of_the_output() -> None:
    text = """graph main(%x: f32[64]) -> %y {
      %a = Abs(%x)
      %s = Mul(%a, NUMBER)
      %r = Relu(%s)
      %y = Concatenation(%r, %x) {axis: 0}
    }"""
    model, *others = (parse_model(text.replace("NUMBER", number)) for number in ("-1e-9", "1e-9", "1e-3"))
    assert [compare(model, other).equal for other in others] == [True, False]


def test_a_step_that_changes_small_channels_is_found() -> None:
    verifier = Verifier(boxes_and_scores())
    verifier.check(boxes_and_scores(2.0**-23), "step 1")
    with pytest.raises(EquivalenceError, match=r"step 2 changed output %y on .* \(0.0005 of the value\)"):
        verifier.check(boxes_and_scores(5e-4), "step 2")
