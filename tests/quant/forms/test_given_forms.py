# SPDX-License-Identifier: Apache-2.0
"""Forms with which a model was trained: where they fit, when steps become finer, which tensors get them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import circlekit
from circlekit.ir.dtypes import DType, i8, i16, u8
from circlekit.quant.choose import GraphChooser
from circlekit.quant.forms.given_forms import (
    add_ranges,
    finer_form,
    fits_activations,
    fits_weights,
    wanted_step,
    with_followed,
    without_clipping,
)
from circlekit.quant.parameters import integers
from circlekit.quant.plan import TensorForm
from circlekit.quant.scheme import SCHEMES
from circlekit.targets.target import find_target

FORM = TensorForm(i8, (0.5,), (3,), rounds=True)
CHANNELS = TensorForm(i8, (0.5, 0.25), (0, 0), axis=1)


@pytest.mark.parametrize(
    ("observed", "is_kept"),
    [((-64.5, 64.0), True), ((-64.75, 0.0), False), ((0.0, 64.25), False), (None, True)],
)
def test_a_form_is_kept_if_it_clips_by_one_step_at_most(
    observed: tuple[float, float] | None, is_kept: bool
) -> None:
    form = TensorForm(i8, (0.5,), (0,))  # from -64 to 63.5
    ranges = {} if observed is None else {"x": observed}
    assert without_clipping({"x": form}, ranges) == ({"x": form} if is_kept else {})
    read_by_all = replace(form, rounds=True)
    assert without_clipping({"x": read_by_all}, ranges) == {"x": read_by_all}


@pytest.mark.parametrize(
    ("form", "asymmetric", "symmetric"),
    [
        (None, False, False),
        (FORM, True, False),
        (TensorForm(i8, (0.5,), (0,)), True, True),
        (CHANNELS, False, False),
    ],
)
def test_activations_have_one_scale_and_int16_no_zero_point(
    form: TensorForm | None, asymmetric: bool, symmetric: bool
) -> None:
    assert fits_activations(form, SCHEMES["int8"]) == asymmetric
    assert fits_activations(form, SCHEMES["int16x8"]) == symmetric


@pytest.mark.parametrize(
    ("scheme", "form", "axis", "fits"),
    [
        ("int8", None, 1, False),
        ("int8", CHANNELS, 1, True),
        ("int8", CHANNELS, 0, False),
        ("int8", CHANNELS, None, False),
        ("int8_per_tensor", CHANNELS, 1, False),
        ("int8", FORM, 1, False),
        ("int8", replace(CHANNELS, zero_point=(0, 1)), 1, False),
        ("weight_int4", CHANNELS, 1, True),
        ("uint8", FORM, 1, True),
        ("int8", TensorForm(i8, (0.5,), (0,)), 1, True),
        ("int8_per_tensor", TensorForm(i8, (0.5,), (0,)), None, True),
        ("uint8", TensorForm(u8, (0.5,), (128,)), None, True),
        ("weight_int4_block32", TensorForm(DType.INT4, (0.5,), (0,)), None, False),
    ],
)
def test_weights_have_the_scales_of_the_scheme(
    scheme: str, form: TensorForm | None, axis: int | None, fits: bool
) -> None:
    assert fits_weights(form, SCHEMES[scheme], axis) == fits


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("largest", [3, 7, 31])
@pytest.mark.parametrize("step", [0.6, 0.5, 0.3, 0.02, 1e-6])
def test_finer_steps_hold_the_same_numbers(per_channel: bool, largest: int, step: float) -> None:
    """Steps are halved as long as they exceed the wanted step and the integers still fit into the dtype."""
    scale = (0.5, 0.25) if per_channel else (0.5,)
    form = TensorForm(i8, scale, (0,) * len(scale), axis=1, rounds=True)
    steps = np.array([[largest, -2], [0, 1]]) if per_channel else np.array([[-largest, 2], [0, 1]])
    numbers = (steps * np.array(scale)).astype(np.float32)
    finer = finer_form(form, numbers, step)
    stored = integers(numbers, finer.scales, np.zeros(1), i8, axis=1)
    assert np.array_equal(stored * finer.scales, numbers)
    factor = 0.5 / finer.scale[0]
    assert finer.scales * np.float32(factor) == pytest.approx(scale)
    assert factor == 1 or 2 * finer.scale[0] > step
    assert finer.scale[0] <= step or 2 * factor * largest > 127


def test_forms_that_were_not_used_in_training_keep_their_steps() -> None:
    form = TensorForm(i8, (0.5,), (0,))
    assert finer_form(form, np.ones((2, 2), np.float32), 0.01) is form


MOVED = circlekit.parse("""
graph main(%x: f32[4]) -> %y, %n, %k {
  %c = const f32[] [1.0]
  %k = Minimum(%x, %c)
  %m = Relu(%k)
  %r = Reshape(%m, [2, 2])
  %p = Reshape(%r, [4])
  %y = Reshape(%p, [1, 4])
  %t = Reshape(%m, [4, 1])
  %n = Tanh(%t)
}
""").main


def forms(**scales: float) -> dict[str, TensorForm]:
    return {name: TensorForm(i8, (scale,), (0,), rounds=True) for name, scale in scales.items()}


def test_the_wanted_step_is_the_least_after_movement() -> None:
    values = {value.name: value for value in MOVED.values()}
    assert wanted_step(values["r"], forms(y=0.5)) == 0.5
    assert wanted_step(values["m"], forms(y=0.5, t=0.25)) == 0.25
    assert wanted_step(values["m"], forms(y=0.25, t=0.5)) == 0.25
    assert wanted_step(values["m"], forms(m=2.0, t=0.25)) == 2.0
    assert wanted_step(values["t"], forms(n=0.5)) is None  # TANH computes other numbers
    assert wanted_step(values["m"], {}) is None


def test_the_ways_to_a_wanted_step_are_not_followed_one_by_one() -> None:
    """Each pair of TRANSPOSEs doubles the number of ways from %a0 to %y."""
    lines = [
        f"%b{n} = Transpose(%a{n}, [1, 0]) %c{n} = Transpose(%a{n}, [1, 0]) %a{n + 1} = Maximum(%b{n}, %c{n})"
        for n in range(2000)
    ]
    text = "graph main(%a0: f32[2,2]) -> %y {\n" + "\n".join([*lines, "%y = Reshape(%a2000, [4])\n}"])
    (source,) = circlekit.parse(text).main.inputs
    assert wanted_step(source, forms(y=0.5)) == 0.5


def test_forms_follow_through_movement_and_from_the_constant_of_a_minimum() -> None:
    followed = with_followed(MOVED, forms(y=0.5))
    assert {name: form.scale[0] for name, form in followed.items()} == {"y": 0.5, "p": 0.5, "r": 0.5}
    assert with_followed(MOVED, forms(y=0.5, p=0.25))["r"].scale == (0.25,)
    assert set(with_followed(MOVED, forms(n=0.5))) == {"n"}
    assert with_followed(MOVED, {}) == {}
    assert with_followed(MOVED, forms(c=0.5))["k"].scale == (0.5,)
    assert with_followed(MOVED, forms(c=0.5, k=0.25))["k"].scale == (0.25,)


def chooser(text: str, scheme: str, given: dict[str, TensorForm]) -> GraphChooser:
    """Return a chooser for the graph ``text`` that has made a plan.

    All tensors have the range -2 to 2, except those with a form in ``given``.
    """
    graph = circlekit.parse(text).main
    ranges = {value.name: (-2.0, 2.0) for value in graph.values()}
    made = GraphChooser(graph, ranges, dict.fromkeys(graph, SCHEMES[scheme]), find_target("litert"), given)
    made.plan()
    return made


@pytest.mark.parametrize(
    ("scheme", "form", "fits"),
    [
        ("int8", TensorForm(i8, (0.5,), (3,)), True),
        ("int16x8", TensorForm(i16, (0.5,), (0,)), True),
        ("int16x8", TensorForm(i16, (0.5,), (3,)), False),
    ],
)
def test_an_operand_is_rounded_to_the_form_of_the_result_only_if_the_form_fits(
    scheme: str, form: TensorForm, fits: bool
) -> None:
    """int16 activations have no zero point."""
    pool = "MaxPool2D(%x) {filter_height: 2, filter_width: 2, act: RELU}"
    made = chooser(f"graph main(%x: f32[1,4,4,2]) -> %y {{ %y = {pool} }}", scheme, {"y": form})
    (op,) = made.graph
    assert made.scheme_of(op).name == scheme
    assert (0 in made.operand_forms[op]) == made.read_form(op, 0).same_as(form) == fits


@pytest.mark.parametrize(
    ("scheme", "form", "fits"),
    [
        ("int8", TensorForm(i8, (0.5,), (-100,)), True),
        ("int16x8", TensorForm(i16, (0.5,), (-20000,)), False),
    ],
)
def test_steps_become_finer_only_if_the_given_form_fits(scheme: str, form: TensorForm, fits: bool) -> None:
    """The numbers from the lowest of the form to the bound 1.5 take less than half of its integers."""
    text = "graph main(%x: f32[4]) -> %y {\n%c = const f32[] [1.5]\n%k = Minimum(%x, %c)\n%y = Neg(%k)\n}"
    made = chooser(text, scheme, {"c": form, "k": form})
    user = made.graph.ops[1]
    made.refined.add(user)
    made.refine_operands(user)
    finer = made.operand_forms[user].get(0)
    assert (finer is not None and finer.scale[0] < form.scale[0]) == fits


def test_ranges_follow_from_operands() -> None:
    graph = circlekit.parse("""
graph main(%x: f32[4], %v: f32[4], %i: i32[4]) -> %j, %s, %t, %q, %k, %e, %h {
  %c = const f32[] [1.5]
  %j = Concatenation(%x, %v, [9.0, 2.0]) {axis: 0}
  %s = Add(%x, %v)
  %t = Abs(%x)
  %q = Relu(%s)
  %k = Minimum(%t, %c)
  %e = Exp(%x)
  %h = Reshape(%i, [2, 2])
}
""").main
    ranges = {"x": (-3.0, 2.0), "v": (-1.0, 4.0), "k": (0.0, 1.5), "e": (0.0, 1.0)}
    add_ranges(graph, ranges)
    assert ranges.pop("j") == (-3.0, 9.0)
    assert ranges.pop("t") == pytest.approx((0.0, 3.0), abs=0.02)
    assert ranges == {"x": (-3.0, 2.0), "v": (-1.0, 4.0), "k": (0.0, 1.5), "e": (0.0, 1.0)}


def test_a_tensor_that_only_a_minimum_reads_has_the_range_of_the_result() -> None:
    text = """graph main(%x: f32[4], %v: f32[4]) -> %k{more} {{
      %s = Add(%x, %v)
      %k = Minimum(%s, 1.5)
    {op}}}"""
    for more, op, expected in (("", "", (0.0, 1.5)), (", %l", "  %l = Square(%s)\n    ", None)):
        ranges = {"k": (0.0, 1.5)}
        add_ranges(circlekit.parse(text.format(more=more, op=op)).main, ranges)
        assert ranges.get("s") == expected


def test_ranges_that_are_not_finite_are_left_out() -> None:
    graph = circlekit.parse("graph main(%x: f32[4]) -> %l {\n  %l = Log(%x)\n}").main
    ranges = {"x": (0.0, 1.0)}
    add_ranges(graph, ranges)
    assert "l" not in ranges


def test_a_known_range_of_one_result_is_kept() -> None:
    text = (
        "graph main(%x: f32[4]) -> %a, %b, %c {\n  %a, %b, %c = SplitV(%x, [1, 1, 2], 0) {num_splits: 3}\n}"
    )
    for known in ("a", "b"):
        ranges = {"x": (-2.0, 2.0), known: (-1.0, 1.0)}
        add_ranges(circlekit.parse(text).main, ranges)
        assert ranges == {**dict.fromkeys("xabc", (-2.0, 2.0)), known: (-1.0, 1.0)}
