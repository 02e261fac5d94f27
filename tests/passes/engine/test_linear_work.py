# SPDX-License-Identifier: Apache-2.0
"""O1 on graphs of many operators: the number of function calls is linear in the number of operators."""

from __future__ import annotations

import cProfile
import pstats

import pytest

import circlekit
from circlekit.ir.graph import Model
from circlekit.ir.verifier import check
from circlekit.targets.ignored_attributes import tolerated
from circlekit.targets.target import find_target

CONSTANTS = """
    %w{n} = const f32[4,1,1,4] uniform(0.1, 0.5)
    %s{n} = const f32[4,1,1] uniform(0.1, 0.5)
"""
NCHW = f"""{CONSTANTS}
    %h{{n}} = Transpose(%{{x}}, [0, 2, 3, 1])
    %c{{n}} = Conv2D(%h{{n}}, %w{{n}}) {{{{padding: SAME}}}}
    %u{{n}} = Transpose(%c{{n}}, [0, 3, 1, 2])
    %r{{n}} = Mul(%u{{n}}, %s{{n}})"""
FACTOR = """
    %s{n} = const f32[4] uniform(0.1, 0.5)
    %r{n} = Mul(%{x}, %s{n})"""
CALL = "%r{n} = If(%flag, %{x}) {{then_graph: @then{n}, else_graph: @else{n}}}"
CALLED = "graph {name}(%x: f32[1,4,4,4]) -> %y {{ %t = Tanh(%x)\n%y = Mul(%t, [2.0]) }}"


def build(shape: str, size: int) -> Model:
    """Return a model of about ``size`` operators.

    ``shape``: "chain" (of layers), "tree" (of sums), "factors" (products that read one value) or "calls" (IFs
    that call graphs).
    """
    step, operators = {"chain": (NCHW, 4), "tree": (FACTOR, 2), "factors": (FACTOR, 1), "calls": (CALL, 5)}[
        shape
    ]
    numbers = range(size // operators)
    reads_last = shape in ("chain", "calls")
    lines = [step.format(n=n, x=f"r{n - 1}" if reads_last and n else "x") for n in numbers]
    outputs = [f"%r{n}" for n in numbers][-1 if reads_last else 0 :]
    while shape == "tree" and len(outputs) > 1:
        lines.append(f"%sum{len(lines)} = Add({outputs[0]}, {outputs[1]})")
        outputs = [*outputs[2:], f"%sum{len(lines) - 1}"]
    called = [CALLED.format(name=f"{kind}{n}") for n in numbers for kind in ("then", "else")]
    head = f"graph main(%x: f32[1,4,4,4], %flag: bool[1]) -> {', '.join(outputs)} {{"
    return circlekit.parse("\n".join(["model circle", head, *lines, "}", *called * (shape == "calls")]))


@pytest.mark.parametrize("shape", ["chain", "tree", "factors", "calls"])
def test_the_number_of_calls_is_linear(shape: str) -> None:
    """With quadratic work, six times the operators need six times the calls per operator."""
    few, many = (calls(build(shape, size)) / size for size in (40, 240))
    assert many < 2 * few


def test_more_channel_shuffles_take_no_more_rounds() -> None:
    """In one round, all shuffles between elementwise operators are merged into one."""
    shuffle = """
    %a{n} = Reshape(%{x}, [1,2,4,4,4]) {{new_shape: [1,2,4,4,4]}}
    %b{n} = Transpose(%a{n}, [0,2,1,3,4])
    %c{n} = Reshape(%b{n}, [1,8,4,4]) {{new_shape: [1,8,4,4]}}
    %r{n} = Tanh(%c{n})"""
    runs = []
    for count in (5, 20):
        lines = [shuffle.format(n=n, x=f"r{n - 1}" if n else "x") for n in range(count)]
        head = f"graph main(%x: f32[1,8,4,4]) -> %r{count - 1} {{"
        report = circlekit.optimize(circlekit.parse("\n".join([head, *lines, "}"])))
        runs.append(max(record.runs for record in report.passes))
    assert runs[0] == runs[1]


def test_ignored_attributes_are_judged_in_linear_work() -> None:
    """Each FULLY_CONNECTED must keep the dimensions, which onert does not do."""
    layer = """
    %w{n} = const f32[4,8] uniform(0.1, 0.5)
    %j{n} = Concatenation(%{x}, %x) {{axis: 3}}
    %r{n} = FullyConnected(%j{n}, %w{n}) {{keep_num_dims: true}}"""
    target = find_target("onert")
    per_operator = []
    for size in (40, 240):
        lines = [layer.format(n=n, x=f"r{n - 1}" if n else "x") for n in range(size // 2)]
        head = f"graph main(%x: f32[1,4,4,4]) -> %r{size // 2 - 1} {{"
        model = circlekit.parse("\n".join(["model circle", head, *lines, "}"]))
        profile = cProfile.Profile()
        assert profile.runcall(tolerated, model.main, target) == set()
        per_operator.append(pstats.Stats(profile).total_calls / size)  # type: ignore[attr-defined]
    assert per_operator[1] < 2 * per_operator[0]


def calls(model: Model) -> int:
    """Return how many functions O1 calls; unlike the time, it is the same on every machine."""
    check(model)
    profile = cProfile.Profile()
    profile.runcall(circlekit.optimize, model, "O1")
    total: int = pstats.Stats(profile).total_calls  # type: ignore[attr-defined]
    return total
