# SPDX-License-Identifier: Apache-2.0
"""The choice of operators to raise, for given noises: budgets, targets, neighbors, clusters."""

from __future__ import annotations

import sys
from itertools import combinations

import numpy as np
import pytest

import circlekit
from circlekit.ir.op import Op
from circlekit.quant.mixed.raising import MAX_CLUSTER, Budget, _Gains, choose_raised
from circlekit.quant.mixed.sensitivity import Sensitivity

NET = circlekit.parse("""
graph main(%x: f32[4,6]) -> %t, %j {
  %a = Relu(%x)
  %b = Tanh(%a)
  %r = Reshape(%b, [6, 4])
  %t = Neg(%r)
  %c = Logistic(%a)
  %d = Add(%b, %c)
  %j = Concatenation(%d, %a) {axis: 1}
}
""")
OPS = list(NET.main)
VALUES = [*NET.main.inputs, *(v for op in OPS for v in op.results)]


def random_noise(seed: int) -> Sensitivity:
    rng = np.random.default_rng(seed)
    return Sensitivity({op: float(rng.random()) for op in OPS}, {v: float(rng.random()) for v in VALUES})


@pytest.mark.parametrize("keeps_constants", [False, True])
def test_the_gain_of_a_cluster_is_the_noise_that_vanishes(keeps_constants: bool) -> None:
    for seed in range(30):
        noise, rng = random_noise(seed), np.random.default_rng(seed)
        # elements of %r are those of %b: they are not rounded again
        del noise.tensors[OPS[2].output]
        first, second = ({op: None for op in OPS if rng.random() < 0.5} for _ in range(2))
        new = [op for op in second if op not in first]
        gain = _Gains(noise, OPS, keeps_constants).of(new, first)
        before, after = (noise.remaining(ops, keeps_constants) for ops in (first, [*first, *new]))
        assert gain == pytest.approx(before - after)


def test_without_noise_of_tensors_a_budget_buys_the_largest_noises() -> None:
    for seed in range(10):
        noise = Sensitivity(random_noise(seed).constants)
        for count in range(1, len(OPS)):
            chosen = choose_raised(noise, OPS, budget=Budget(count / len(OPS)))
            best = min(combinations(OPS, count), key=noise.remaining)
            assert set(chosen) == set(best)


def test_only_the_given_operators_are_raised_and_only_those_that_gain() -> None:
    noise = Sensitivity({op: 0.0 if op is OPS[0] else 1.0 for op in OPS})
    assert set(choose_raised(noise, OPS[:3])) == set(OPS[1:3])


@pytest.mark.parametrize("decibel", [-4.0, 0.0, 3.0, 10.0])
def test_a_target_is_reached_and_needs_the_last_operator(decibel: float) -> None:
    noise = Sensitivity(random_noise(3).constants)
    goal = 10 ** (-decibel / 10)
    chosen = choose_raised(noise, OPS, target_sqnr=decibel)
    assert noise.remaining(chosen) <= goal < noise.remaining(chosen[:-1])


def costly() -> tuple[list[Op], Sensitivity]:
    """Return three layers of 64, 16 and 16 multiply-accumulates, and their noises: 5, 4 and 1."""
    model = circlekit.parse("""
graph main(%x: f32[1,8]) -> %z {
  %u = const f32[8,8] gaussian(0, 1)
  %v = const f32[2,8] gaussian(0, 1)
  %w = const f32[8,2] gaussian(0, 1)
  %a = FullyConnected(%x, %u)
  %b = FullyConnected(%a, %v)
  %z = FullyConnected(%b, %w)
}""")
    ops = list(model.main)
    return ops, Sensitivity(dict(zip(ops, (5.0, 4.0, 1.0), strict=True)))


@pytest.mark.parametrize("unit", ["macs", "bytes"])
@pytest.mark.parametrize(
    ("share", "chosen"), [(0.15, ""), (1 / 6, "b"), (1 / 3, "bz"), (0.65, "bz"), (5 / 6, "ba"), (1, "baz")]
)
def test_gains_are_compared_per_cost(unit: str, share: float, chosen: str) -> None:
    """Gain per cost: %b 4 / 16, %a 5 / 64, %z 1 / 16; what the rest of the budget cannot pay is skipped."""
    ops, noise = costly()
    raised = choose_raised(noise, ops, budget=Budget(share, unit))
    assert "".join(op.output.name for op in raised) == chosen


def star(users: int) -> tuple[list[Op], Sensitivity]:
    """Return the producer and the ``users`` users of a tensor, and the noises.

    The only noise is that of the tensor; raising gains only if the producer and all users are raised.
    """
    lines = "".join(f"  %y{i} = Relu(%s)\n" for i in range(users))
    outputs = ", ".join(f"%y{i}" for i in range(users))
    model = circlekit.parse(f"graph main(%x: f32[4]) -> {outputs} {{\n  %s = Tanh(%x)\n{lines}}}")
    ops = list(model.main)
    return ops, Sensitivity({}, {ops[0].output: 1.0})


def test_neighbors_are_raised_together_up_to_a_limit() -> None:
    ops, noise = star(MAX_CLUSTER - 1)
    assert set(choose_raised(noise, ops)) == set(ops)
    ops, noise = star(MAX_CLUSTER)
    assert choose_raised(noise, ops) == []


def test_given_clusters_are_raised_as_a_whole_or_not_at_all() -> None:
    ops, noise = star(MAX_CLUSTER)
    assert set(choose_raised(noise, ops, clusters=[ops])) == set(ops)
    assert choose_raised(noise, ops, budget=Budget(0.99), clusters=[ops]) == []
    assert set(choose_raised(noise, ops, budget=Budget(1.0), clusters=[ops])) == set(ops)
    assert choose_raised(noise, ops[:-1], clusters=[ops]) == []  # an operator that may not be raised


def test_a_cluster_grows_by_the_neighbor_that_gains_most_for_its_cost() -> None:
    """%b gains only together with %q, at a cost of 64, or with %y and %z, at a cost of 32 for both.

    The gains are equal.  The budget is 32.
    """
    model = circlekit.parse("""
graph main(%x: f32[1,8]) -> %y, %z {
  %u = const f32[8,8] gaussian(0, 1)
  %w = const f32[2,8] gaussian(0, 1)
  %q = FullyConnected(%x, %u)
  %b = Tanh(%q)
  %y = FullyConnected(%b, %w)
  %z = FullyConnected(%b, %w)
}""")
    q, b, y, z = model.main
    noise = Sensitivity({}, {q.output: 1.0, b.output: 1.0})
    assert set(choose_raised(noise, model.main, budget=Budget(32 / 96, "macs"))) == {b, y, z}


def test_the_rest_of_a_cluster_is_raised_after_a_part_of_it() -> None:
    """First one user is raised because of its constants, then all others because of the tensor."""
    ops, noise = star(MAX_CLUSTER)
    noise.constants[ops[1]] = 10.0
    chosen = choose_raised(noise, ops, clusters=[ops])
    assert chosen[0] is ops[1]
    assert set(chosen) == set(ops)
    assert len(chosen) == len(ops)


def test_budgets_are_parsed() -> None:
    assert Budget.parse("20%") == Budget(0.2, "operators")
    assert Budget.parse("0%") == Budget(0.0, "operators")
    assert Budget.parse("100% bytes") == Budget(1.0, "bytes")
    for text in ("5%:macs", "5%: macs", " 5 % : macs "):
        assert Budget.parse(text) == Budget(0.05, "macs")


def test_a_chain_of_data_movement_may_be_longer_than_the_recursion_limit() -> None:
    count = sys.getrecursionlimit()
    lines = "".join(f"  %v{i + 1} = Reshape(%v{i}, [{2 - i % 2}, {1 + i % 2}])\n" for i in range(count))
    model = circlekit.parse(
        f"graph main(%x: f32[1,2]) -> %y {{\n  %v0 = Relu(%x)\n{lines}  %y = Neg(%v{count})\n}}"
    )
    ops = list(model.main)
    noise = Sensitivity({}, {ops[0].output: 1.0})
    assert noise.remaining(ops) == 0.0
    assert noise.remaining(ops[:-1]) == 1.0
    assert choose_raised(noise, ops[-1:]) == []


def test_no_operator_that_gains_is_left_behind_data_movement() -> None:
    """Once the cluster and %v are raised, %v stays rounded only because %y reads its copy %w."""
    outputs = [f"%e{i}" for i in range(MAX_CLUSTER)]
    lines = "".join(f"  {name} = Sin(%t)\n" for name in outputs)
    model = circlekit.parse(f"""graph main(%x: f32[1,4]) -> {", ".join(outputs)}, %y {{
  %v = Abs(%x)
  %w = Reshape(%v, [4, 1])
  %y = Neg(%w)
  %t = Exp(%x)
{lines}}}""")
    v, w, _, t, *users = model.main
    noise = Sensitivity({v: 0.1}, {t.output: 5.0, v.output: 0.01})
    assert set(choose_raised(noise, model.main, clusters=[[t, w, *users]])) == set(model.main)
