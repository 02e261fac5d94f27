# SPDX-License-Identifier: Apache-2.0
"""A model that amplifies rounding gets a larger tolerance: as large as is measured, up to a limit."""

from __future__ import annotations

import numpy as np
import pytest

from circlekit import compare
from circlekit.equivalence.array_comparison import TOLERANCE
from circlekit.equivalence.reference_runs import reference_runs, rounding_error
from circlekit.equivalence.rounding import (
    MAX_ROUNDING_ERROR,
    _factors,
    _moved,
    excused_difference,
    is_cancelled,
)
from circlekit.ir.clone import clone
from circlekit.ir.dtypes import f32
from circlekit.ir.graph import Model
from circlekit.ir.text import parse_model
from circlekit.ir.value import Value

F32 = TOLERANCE["float32"]


def amplifier() -> Model:
    """Return x * 1.1 - x * 1.09 = 0.01 x: an error of 1e-7 in the factor 1.1 is 1e-5 of the result."""
    return parse_model("""graph main(%x: f32[64]) -> %y {
      %a = Mul(%x, 1.1)
      %b = Mul(%x, 1.09)
      %y = Sub(%a, %b)
    }""")


def with_factor(model: Model, relative: float) -> Model:
    """Return a copy in which the first factor is off by ``relative``."""
    copy = clone(model)
    constant = copy.main.ops[0].inputs[1]
    assert constant is not None
    constant.data = np.asarray(constant.array() * (1 + relative), np.float32)
    return copy


def test_noise_is_positive_limited_and_the_same_again() -> None:
    model = amplifier()
    run = reference_runs(model)[0][0]
    (noise,) = rounding_error(model, run)
    largest = float(np.abs(run.outputs[0]).max())
    assert 0 < noise <= MAX_ROUNDING_ERROR * largest
    assert rounding_error(model, run) == [noise]


def test_rounding_that_the_model_amplifies_is_excused() -> None:
    model = amplifier()
    found = compare(model, with_factor(model, 2.0**-23))
    assert found.equal
    worst = found.outputs[0].worst
    assert worst is not None
    assert worst.tolerance > F32 * float(np.abs(reference_runs(model)[0][0].outputs[0]).max())


def test_a_wrong_factor_is_not_excused() -> None:
    for relative in (2 * F32, 1e-3, -1e-3):
        steady = parse_model("graph main(%x: f32[64]) -> %y {\n%y = Mul(%x, 1.1)\n}")
        assert not compare(steady, with_factor(steady, relative)).equal
    assert not compare(amplifier(), with_factor(amplifier(), 1e-4)).equal


def test_more_is_excused_on_inputs_larger_than_the_data_that_a_model_is_made_for() -> None:
    """The error of z = 0.1 x is up to 100 x units in the last place, and exp(z) this relative error."""
    model = parse_model("""
    graph main(%x: f32[64]) -> %y {
      %a = Mul(%x, 100.1)
      %b = Mul(%x, 100.0)
      %z = Sub(%a, %b)
      %y = Exp(%z)
    }""")
    found = compare(model, with_factor(model, 2.0**-23))
    assert found.equal
    worst = {outcome.inputs: outcome.worst for outcome in found.outputs if outcome.worst is not None}
    assert worst["boundary"].relative > MAX_ROUNDING_ERROR
    wrong = {o.inputs for o in compare(model, with_factor(model, 1e-5)).outputs if not o.equal}
    assert {"normal", "boundary"} <= wrong


@pytest.mark.parametrize("label", ["boundary", "threshold_2", "negative"])
def test_the_label_of_a_record_does_not_change_what_is_excused(label: str) -> None:
    """A record may be a file with the name of a seeded set."""
    model = amplifier()
    inputs = [np.random.default_rng(0).normal(size=64).astype(np.float32)]
    runs, _ = reference_runs(model, {label: inputs, "other": inputs})
    named, other = (rounding_error(model, run) for run in runs)
    assert named == other
    assert runs[0].max_rounding_error == MAX_ROUNDING_ERROR


def test_integers_get_no_slack() -> None:
    model = parse_model("graph main(%x: i32[4]) -> %y {\n%y = Add(%x, 1)\n}")
    assert rounding_error(model, reference_runs(model)[0][0]) == [0.0]


def test_weights_move_to_a_neighbor() -> None:
    """The seed of the random direction, 7, moves some of 50 equal weights up and some down."""
    largest = np.finfo(np.float32).max
    data = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, *[1.0] * 50, *[-8.0] * 50], np.float32)
    moved = _moved(data, 7)
    assert moved.dtype == np.float32
    assert np.array_equal(moved[:5], data[:5], equal_nan=True)
    for part, value in ((moved[5:55], 1.0), (moved[55:], -8.0)):
        up, down = (np.nextafter(np.float32(value), np.float32(end)) for end in (np.inf, -np.inf))
        assert set(part.tolist()) == {float(up), float(down)}
    ends = _moved(np.full(50, largest), 7)
    assert set(ends.tolist()) == {float(largest), float(np.nextafter(largest, np.float32(0)))}


@pytest.mark.parametrize(
    ("reference", "moved", "expected"),
    [
        ([1.0, -100.0], [1.0 + 2**-10, -100.0], 4 * 2**-10),  # 4 times the largest difference
        ([1.0, -100.0], [2.0, -100.0], 0.02 * 100.0),  # at most 2 % of the largest magnitude
        ([np.inf, 800.0], [0.0, 800.5], 2.0),
        ([800.0, 800.0], [np.nan, 800.5], 2.0),
        ([np.nan, np.inf], [1.0, 1.0], 0.0),
        ([1.0], [1.0, 2.0], 0.0),
        ([], [], 0.0),
    ],
)
def test_four_times_the_difference_is_excused_up_to_the_limit(
    reference: list[float], moved: list[float], expected: float
) -> None:
    arrays = np.array(reference, np.float32), np.array(moved, np.float32)
    assert excused_difference(*arrays, limit=0.02) == expected


# -- outputs whose terms cancel ------------------------------------------------------------------


def cancelling(second: str) -> Model:
    """Return a model of a matrix product %a minus %b; ``second`` is the text that computes %b."""
    return parse_model(f"""graph main(%x: f32[3,64]) -> %y {{
      %w = const f32[8,64] gaussian(0, 0.1)
      %a = FullyConnected(%x, %w)
      {second}
      %y = Sub(%a, %b)
    }}""")


SAME = "%b = FullyConnected(%x, %w)"
HALVES = """%v = Mul(%w, 0.3)
      %u = Mul(%w, 0.7)
      %l = FullyConnected(%x, %v)
      %r = FullyConnected(%x, %u)
      %b = Add(%l, %r)"""


def test_what_rounding_leaves_of_terms_that_cancel_is_excused() -> None:
    """In one model the terms cancel to 0, in the other to about 1e-7; each is compared with the other."""
    before, after = cancelling(SAME), cancelling(HALVES)
    assert not reference_runs(before)[0][0].outputs[0].any()
    left = float(np.abs(reference_runs(after)[0][0].outputs[0]).max())
    assert 1e-9 < left < 1e-5
    assert compare(before, after).equal
    assert compare(after, before).equal


def test_one_sample_of_an_error_may_be_far_too_small() -> None:
    """With one sample of moved results instead of several, this error was measured as a seventieth."""
    chain = """
        %m1 = Mean(%x, [1]) {keep_dims: true}
        %m2 = Mean(%m1, [2]) {keep_dims: true}
        %m3 = Mean(%m2, [0, 1, 2, 3])"""
    graph = "graph main(%x: f32[1,2,3,3]) -> %m3 {"
    before = parse_model(f"{graph}{chain} }}")
    after = parse_model(f"{graph} %m3 = Mean(%x, [0, 1, 2, 3]) }}")
    assert compare(before, after).equal


def test_more_than_rounding_leaves_is_not_excused() -> None:
    wrong = HALVES.replace("0.3", "0.3001")
    assert not compare(cancelling(SAME), cancelling(wrong)).equal
    shifted = "%c = FullyConnected(%x, %w)\n%b = Add(%c, 0.00003)"
    assert not compare(cancelling(SAME), cancelling(shifted)).equal


def test_zeros_that_no_rounding_moves_are_exact() -> None:
    """Relu of negative numbers and a product with 0 are zero however their terms are rounded."""
    for zeros in ("%z = Mul(%x, %x)\n%n = Neg(%z)\n%y = Relu(%n)", "%y = Mul(%x, 0.0)"):
        moved = zeros.replace("%y", "%o") + "\n%y = Add(%o, 1e-8)"
        before, after = (parse_model(f"graph main(%x: f32[64]) -> %y {{\n{t}\n}}") for t in (zeros, moved))
        assert not compare(before, after).equal


def test_only_elements_that_stay_finite_limit_what_is_excused() -> None:
    """Only the pair 1 and 2 is finite in both arrays; the limit is half of the element of the reference."""
    reference, moved = np.array([1, 100], np.float32), np.array([2, np.inf], np.float32)
    assert excused_difference(reference, moved, limit=0.5) == 0.5
    assert excused_difference(moved[::-1], reference[::-1], limit=0.5) == 1.0


@pytest.mark.parametrize(
    ("output", "expected"),
    [([0.5], True), ([0.25, -0.5], True), ([0.25, 0.51], False), ([], False)],
)
def test_a_small_float32_output_may_be_cancelled(output: list[float], expected: bool) -> None:
    assert is_cancelled(np.array(output, np.float32), 0.5) is expected
    assert not is_cancelled(np.array(output, np.float64), 0.5)


def test_factors_next_to_one() -> None:
    unit = np.finfo(np.float32).eps
    assert set(_factors(Value("x", f32, (2, 64)), 0).tolist()) == {1 - unit, 1 + unit}
    assert _factors(Value("x", f32, (64, 2)), 0).shape == (2,)
    for shape in ((4, None), (), None):
        assert abs(_factors(Value("x", f32, shape), 0) - np.float32(1)) == unit


def test_large_integer_inputs_that_cancel_are_excused() -> None:
    """For x near 2^31, x + k - x has rounding errors of up to 128 in float32; x - x + k is k."""
    text = """
    graph main(%x: i32[4], %k: i32[4]) -> %y {
      %c = Minimum(%x, [2000000000])
      %f = Cast(%c) : f32[4]
      %g = Cast(%k) : f32[4]
      %s = Add(%f, %g)
      %y = Sub(%s, %f)
    }
    """
    reordered = text.replace("%s = Add(%f, %g)", "%s = Sub(%f, %f)").replace("Sub(%s, %f)", "Add(%s, %g)")
    assert compare(parse_model(text), parse_model(reordered)).equal
    wrong = reordered.replace("Add(%s, %g)", "Sub(%s, %g)")
    assert not compare(parse_model(text), parse_model(wrong)).equal


LAYER_NORM = """
graph main(%x: f32[2,4,8]) -> %y {{
  %r = Exp(%x)
  %m = Mean(%r, [2]) {{keep_dims: true}}
  %d = Sub(%r, %m)
  {variance}
  %e = Add(%v, {epsilon})
  %i = Rsqrt(%e)
  %y = Mul(%d, %i)
}}"""
OF_SQUARES = """%s = Mul(%r, %r) %q = Mean(%s, [2]) {keep_dims: true} %mm = Mul(%m, %m) %v = Sub(%q, %mm)"""
OF_DIFFERENCES = """%s = Mul(%d, %d) %v = Mean(%s, [2]) {keep_dims: true}"""


def test_small_numbers_that_larger_ones_swallow_are_excused() -> None:
    """For x near 0, exp(x) is near 1, and mean(r^2) - mean(r)^2 is little more than rounding."""
    before = parse_model(LAYER_NORM.format(variance=OF_SQUARES, epsilon=1e-5))
    assert compare(before, parse_model(LAYER_NORM.format(variance=OF_DIFFERENCES, epsilon=1e-5)))
    other = compare(before, parse_model(LAYER_NORM.format(variance=OF_DIFFERENCES, epsilon=2e-5)))
    assert not next(outcome for outcome in other.outputs if outcome.inputs == "negative").equal
