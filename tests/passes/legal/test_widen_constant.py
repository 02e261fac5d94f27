# SPDX-License-Identifier: Apache-2.0
"""For a delegate that computes run by run, constants that broadcast in short runs are repeated.

Run: consecutive elements of the result for which the constant has one number each, or one number for all.
"""

from __future__ import annotations

import numpy as np
import pytest

from circlekit.interp.interpreter import run
from circlekit.ir.graph import Model
from circlekit.ir.model_equality import difference
from circlekit.ir.text import parse_model
from circlekit.passes.engine.legalize import legalize
from circlekit.passes.legal.widen_constant import LONG_RUNS, MAX_WIDE_BYTES
from circlekit.targets.target import find_target, target_names
from tests.passes.kit import make_input

LONG_ELEMENTS = LONG_RUNS * find_target("litert-xnnpack").run_bytes // 4
"""The number of f32 elements in the shortest run that is long enough."""


def legal(shape: str, constant: str) -> tuple[Model, Model]:
    """Return a model that subtracts %x of ``shape`` from a constant, and its legalization for XNNPACK."""
    model = parse_model(f"""graph main(%x: f32[{shape}]) -> %y {{
        %c = const f32[{constant}] gaussian(0, 1)
        %y = Sub(%c, %x) {{act: RELU6}}
    }}""")
    return model, legalize(model, "tflite", targets=[find_target("litert-xnnpack")])


@pytest.mark.parametrize(
    ("shape", "constant", "wide"),
    [
        ("1,32,30,4", "4", (1, 1, 30, 4)),
        ("1,8,6,8", "8", (1, 8, 6, 8)),
        ("1,2,3,4", "4", (1, 2, 3, 4)),  # one run, which is still short
        ("3,5,7,2", "7,1", (1, 5, 7, 2)),
        ("1,32,30,64", "64", (64,)),  # the runs of this constant and the next are long enough
        ("1,8,32,32", "8,1,1", (8, 1, 1)),
        ("1,9,2048,4", "4", (4,)),  # [2048,4] would have 32 KiB, more than MAX_WIDE_BYTES, 16 KiB
        (f"1,9,{MAX_WIDE_BYTES // 16},4", "4", (1, 1, MAX_WIDE_BYTES // 16, 4)),
        (f"1,9,2,{LONG_ELEMENTS}", str(LONG_ELEMENTS), (LONG_ELEMENTS,)),
        (f"1,9,2,{LONG_ELEMENTS - 1}", str(LONG_ELEMENTS - 1), (1, 1, 2, LONG_ELEMENTS - 1)),
        ("4", "3,4", (3, 4)),  # the constant has the shape of the result; %x is the one that broadcasts
        ("1,6,1,4", "5,1", (5, 1)),  # both operands broadcast
        ("?,2,4", "4", (4,)),
        ("1,6,6,4", "1", (1,)),  # one number for all: a single run
    ],
)
def test_a_constant_is_repeated_until_runs_are_long(shape: str, constant: str, wide: tuple[int, ...]) -> None:
    model, result = legal(shape, constant)
    (op,) = result.main.ops
    assert op.inputs[0] is not None
    assert op.inputs[0].shape == wide
    inputs = [make_input(value, "normal") for value in model.main.inputs]
    for expected, actual in zip(run(model, inputs), run(result, inputs), strict=True):
        np.testing.assert_array_equal(actual, expected)


def test_a_constant_stays_if_the_rank_of_the_result_is_unknown() -> None:
    model = parse_model("graph main(%x: f32[*]) -> %y { %a = Neg(%x) %y = Sub([[1.0, 2.0, 3.0, 4.0]], %a) }")
    for op in model.main:
        op.output.shape = ()  # old files write [] also for an unknown rank
    result = legalize(model, "tflite", targets=[find_target("litert-xnnpack")])
    assert difference(model, result) is None


def test_two_constants_stay() -> None:
    model = parse_model("graph main() -> %y { %c = const f32[4] zeros\n%y = Sub(%c, [[1.0], [2.0]]) }")
    assert difference(legalize(model, "tflite", targets=[find_target("litert-xnnpack")]), model) is None


@pytest.mark.parametrize("name", sorted({*target_names()} - {"litert-xnnpack"}))
def test_no_other_target_repeats_a_constant(name: str) -> None:
    model, _ = legal("1,32,30,4", "4")
    (op,) = legalize(model, "tflite", targets=[find_target(name)]).main.ops
    assert op.inputs[0] is not None
    assert op.inputs[0].shape == (4,)
