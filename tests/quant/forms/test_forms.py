# SPDX-License-Identifier: Apache-2.0
"""The forms of a plan: which tensors share one, what a form covers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import circlekit
from circlekit.quant.plan import GraphPlan, TensorForm

X = np.linspace(-2, 2, 8, dtype=np.float32)[None]


def planned(text: str, *data: np.ndarray, scheme: str = "int8", **options: Any) -> GraphPlan:
    model = circlekit.parse(text)
    return circlekit.quantize(model, scheme, [list(data or (X,))], auto=False, passes=(), **options).plan.main


@pytest.mark.parametrize(
    ("body", "outputs", "is_shared"),
    [
        ("%a = Mul(%x, 0.5)", "%y", True),
        ("%a = Mul(%x, 0.5)", "%y, %a", False),  # %a is an output of the graph
        ("%a = Mul(%x, 0.5)\n%n = Abs(%a)", "%y, %n", False),  # %a has another user
        ("%a = Tanh(%x)", "%y", False),  # its scale is fixed
        ("%m = Mul(%x, 0.5)\n%a = Slice(%m, [0, 1], [1, 7])", "%y", True),  # %m is moved
        ("%m = Mul(%x, 0.5)\n%a = Slice(%m, [0, 1], [1, 7])\n%n = Abs(%m)", "%y, %n", False),
        ("%a = Slice(%x, [0, 1], [1, 7])", "%y", False),  # %x, an input of the graph, is moved
    ],
)
def test_operands_are_made_in_the_form_of_a_concatenation(body: str, outputs: str, is_shared: bool) -> None:
    text = f"""graph main(%x: f32[1,8]) -> {outputs} {{
      {body}
      %b = Mul(%x, 40.0)
      %y = Concatenation(%a, %b) {{axis: 1}}
    }}"""
    plan = planned(text)
    shared = plan.tensors["y"]
    assert ("a" in plan.tensors and plan.tensors["a"].same_as(shared)) == is_shared
    assert is_shared or plan.operators["y"].operands[0].same_as(shared)
    if "%m" in body:
        assert plan.tensors["m"].same_as(shared) == is_shared


def test_a_long_chain_of_movement_is_made_in_the_form_of_a_concatenation() -> None:
    chain = "\n".join(f"%a{n + 1} = Transpose(%a{n}, [1, 0])" for n in range(1500))
    plan = planned(f"""graph main(%x: f32[1,8]) -> %y {{
      %a0 = Mul(%x, 0.5)
      {chain}
      %b = Mul(%x, 40.0)
      %y = Concatenation(%a1500, %b) {{axis: 1}}
    }}""")
    assert plan.tensors["a0"].same_as(plan.tensors["y"])


@pytest.mark.parametrize(("scheme", "dtype"), [("int16x8", "i16"), ("float", "i8")])
def test_operands_with_another_scheme_keep_their_form(scheme: str, dtype: str) -> None:
    text = """graph main(%x: f32[1,8]) -> %y {
      %a = Mul(%x, 0.5)
      %y = Concatenation(%a, %x) {axis: 1}
    }"""
    plan = planned(text, operators={"a": scheme})
    assert plan.tensors["a"].dtype.short == dtype
    assert not plan.tensors["a"].same_as(plan.tensors["y"])
    assert plan.operators["y"].operands[0].same_as(plan.tensors["y"])


@pytest.mark.parametrize(("scheme", "expected"), [("int8", "int16"), ("int16x8", "int16x8")])
def test_a_kernel_that_rounds_inside_runs_in_int16(scheme: str, expected: str) -> None:
    plan = planned("graph main(%x: f32[1,8]) -> %y { %y = ReduceProd(%x, [1]) }", scheme=scheme)
    assert expected in plan.operators["y"].scheme
    reason = "the 8-bit kernel of REDUCE_PROD rounds its intermediate results"
    assert (reason in plan.operators["y"].reason) == (scheme == "int8")


def test_constant_operands_have_the_form_of_the_result() -> None:
    plan = planned("""graph main(%x: f32[1,8]) -> %y {
      %y = Concatenation(%x, [[5.0, 1.0]]) {axis: 1}
    }""")
    assert plan.operators["y"].operands[1].same_as(plan.tensors["y"])


@pytest.mark.parametrize(
    ("value", "covered"),
    [(400, 400), (600, 2), (-400, -400), (-600, -2), (2.01, 2), (2.05, 2.05), (-2.05, -2.05)],
)
def test_constants_in_the_form_of_an_operand_are_covered_unless_they_stand_for_infinity(
    value: float, covered: float
) -> None:
    """%x has the range -2 to 2 in steps of 4/255 = 0.016.

    A number of a magnitude above 512, which is 256 times the largest of %x, stands for infinity.
    2.01 is less than a step beyond 2.  ``covered``: the end of the result's range on the side of ``value``.
    """
    text = f"graph main(%x: f32[1,8]) -> %y {{ %y = PadV2(%x, [[0, 0], [1, 0]], [{value}]) }}"
    form = planned(text).tensors["y"]
    low, high = form.scale[0] * (-128 - form.zero_point[0]), form.scale[0] * (127 - form.zero_point[0])
    assert (low if covered < 0 else high) == pytest.approx(covered, abs=0.51 * form.scale[0])
    assert form.scale[0] == pytest.approx((max(covered, 2) - min(covered, -2)) / 255, rel=0.01)


@pytest.mark.parametrize(("steps", "wanted"), [(-129, -128), (-130, -130), (128, 127), (129, 129)])
def test_a_constant_one_step_beyond_the_range_needs_no_other_form(steps: int, wanted: int) -> None:
    """The operand has the integers -128 to 127 with steps of 1/64."""
    x = np.array([[-128, -1, 0, 1, 2, 3, 4, 127]], np.float32) / 64
    text = f"graph main(%x: f32[1,8]) -> %y {{ %y = PadV2(%x, [[0, 0], [1, 0]], [{steps / 64}]) }}"
    scale = (max(wanted, 127) - min(wanted, -128)) / 255 / 64
    assert planned(text, x).tensors["y"].scale[0] == pytest.approx(scale, rel=1e-6)


def test_ranges_are_widened_to_steps_that_the_kernel_can_compute() -> None:
    """HARD_SWISH needs a scale of the result of at least 1/127 of the operand's scale.

    Its kernel multiplies integers by (operand scale / 128) / result scale, which must be below 1.
    """
    x = np.linspace(-1000, -0.1, 8, dtype=np.float32)[None]
    plan = planned("graph main(%x: f32[1,8]) -> %y { %y = HardSwish(%x) }", x)
    step = plan.tensors["x"].scale[0] / 127
    assert plan.tensors["y"].scale[0] == pytest.approx(step, rel=1e-6)
    assert "the kernel cannot compute finer steps" in plan.tensors["y"].reason
    plan = planned("graph main(%x: f32[1,8]) -> %y { %y = HardSwish(%x) }")  # y: -0.375 to 5/3
    assert plan.tensors["y"].scale[0] == pytest.approx((5 / 3 + 0.375) / 255, rel=0.05)


@pytest.mark.parametrize(
    ("line", "least"), [("SquaredDifference(%x, %x)", 1e10 / 2048), ("Sub(%x, %x)", 1e5 / 2**18)]
)
def test_results_that_are_always_0_get_steps_that_the_kernel_can_compute(line: str, least: float) -> None:
    """With finer steps, LiteRT ends the process (SQUARED_DIFFERENCE) or gives wrong integers (SUB)."""
    x = np.array([[-128, 127, 0, 0, 0, 0, 0, 0]], np.float32) * np.float32(1e5)
    plan = planned(f"graph main(%x: f32[1,8]) -> %y {{ %y = {line} }}", x)
    assert plan.tensors["x"].scale[0] == pytest.approx(1e5)
    assert plan.tensors["y"].scale[0] >= 0.99 * least


def test_operands_whose_integers_are_compared_share_the_union_of_their_ranges() -> None:
    v = np.full((1, 8), 7, np.float32)
    text = "graph main(%x: f32[1,8], %v: f32[1,8]) -> %y { %y = Greater(%x, %v) }"
    plan = planned(text, X, v)
    forms = [plan.operators["y"].operands.get(i, plan.tensors.get(name)) for i, name in enumerate("xv")]
    assert isinstance(forms[0], TensorForm)
    assert forms[0].same_as(forms[1])
    assert forms[0].scale[0] == pytest.approx(9 / 255)
    constant = planned("graph main(%x: f32[1,8]) -> %y { %y = Less(%x, -6.0) }")
    assert constant.operators["y"].operands[1].scale[0] == pytest.approx(8 / 255)


def test_a_reason_names_the_operand_that_is_near_0() -> None:
    plan = planned("graph main(%x: f32[1,8]) -> %y { %y = Div(1.0, %x) }")
    assert plan.operators["y"].reason.endswith("from 0 in %x, got -2 to 2")
