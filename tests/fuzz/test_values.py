# SPDX-License-Identifier: Apache-2.0
"""Which differences of values the fuzzer reports as faults, and which not."""

from __future__ import annotations

from circlekit.ir.graph import Model
from circlekit.ir.text import parse_model
from tools.fuzz.values import compare_values, set_random_seeds

DIVIDES = """
    graph main(%x: f32[1,8]) -> %y {{
      {differs}
      %y = Div(1.0, %d)
    }}
"""
"""At the boundary input 3, the divisor is so small that rounding decides on its digits."""

BEFORE = "%m = Mul(%x, 0.1)\n%d = Sub(%m, 0.3000003)"

RANDOM_BRANCH = """
    graph main(%x: f32[2]) -> %y { %y = If([true], %x) {then_graph: @some, else_graph: @none} }
    graph some(%a: f32[2]) -> %b {
      %r = RandomUniform([2])
      %b = Add(%a, %r)
    }
    graph none(%c: f32[2]) -> %e { %e = Neg(%c) }
"""
INLINED = """
    graph main(%x: f32[2]) -> %y {
      %other = RandomUniform([2])
      %y = Add(%x, %other)
    }
"""


def model(differs: str) -> Model:
    return parse_model(DIVIDES.format(differs=differs))


def test_rounding_that_the_model_amplifies_is_no_fault() -> None:
    after = model("%s = Sub(%x, 3.000003)\n%d = Mul(%s, 0.1)")
    assert compare_values(model(BEFORE), after) == "amplified rounding"


def test_more_than_rounding_is_a_fault_in_such_a_model_too() -> None:
    after = model("%s = Sub(%x, 3.000009)\n%d = Mul(%s, 0.1)")
    assert compare_values(model(BEFORE), after).startswith("fault:")


def test_another_interface_is_a_fault_in_such_a_model_too() -> None:
    after = model("%s = Sub(%x, 3.000003)\n%d = Mul(%s, 0.1)")
    after.main.outputs[0].name = "z"
    assert compare_values(model(BEFORE), after).startswith("fault:")


def test_random_operators_without_a_seed_get_one() -> None:
    """The fuzzer gives each random operator its own seed, so it notices when one replaces another."""
    before, after = parse_model(RANDOM_BRANCH), parse_model(INLINED)
    assert compare_values(before, after) == "equal"  # --verify gives all the same seed
    set_random_seeds(before)
    seed = next(op.attribute_items()["seed"] for op in before.ops() if op.code == "RANDOM_UNIFORM")
    assert seed
    after_op = next(op for op in after.ops() if op.code.startswith("RANDOM"))
    after_op.seed = seed  # type: ignore[attr-defined]
    assert compare_values(before, after) == "equal"
    after_op.seed = seed + 1  # type: ignore[attr-defined]
    assert compare_values(before, after).startswith("fault:")


def test_given_seeds_stay() -> None:
    seeded = parse_model(INLINED.replace("([2])", "([2]) {seed2: 7}"))
    set_random_seeds(seeded)
    assert next(seeded.ops()).attribute_items() == {"seed": 0, "seed2": 7}


def test_a_multiple_of_2_to_the_32_is_no_seed() -> None:
    """The kernels and --verify read only the lowest 32 bits."""
    unseeded = parse_model(INLINED.replace("([2])", f"([2]) {{seed: {1 << 32}}}"))
    set_random_seeds(unseeded)
    assert next(unseeded.ops()).attribute_items() == {"seed": 1, "seed2": 0}
