# SPDX-License-Identifier: Apache-2.0
"""Operators that compute each channel separately, and groups of values whose channels may change places."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import numpy as np
import pytest

from circlekit.interp.evaluate import evaluate
from circlekit.ir.clone import clone
from circlekit.ir.dtypes import f32
from circlekit.ir.graph import Graph
from circlekit.ir.op import REGISTRY, Op, OpaqueOp
from circlekit.ir.text import parse_model
from circlekit.ir.value import Array, Value
from circlekit.passes.layout.channel_groups import (
    GroupFinder,
    channelwise,
    permute_group,
)
from circlekit.testing.model_builder import ModelBuilder, Rejected
from circlekit.testing.random_operators import random_operator
from tests.passes.mutants import mutants
from tests.passes.test_near_misses import assert_same_values

SHAPE = (2, 4, 4, 6)
DRAWS = 12

CODES = sorted(code for code, cls in REGISTRY.items() if cls.operands and cls.pure)


def operators(code: str) -> Iterator[tuple[Op, list[Array | None]]]:
    """Yield random operators of one kind, and their operands."""
    for seed in range(DRAWS):
        random = np.random.default_rng(seed)
        inputs = [Value("x", f32, SHAPE), Value("y", f32, SHAPE), Value("row", f32, SHAPE[-1:])]
        arrays = [random.uniform(0.5, 3, v.static_shape).astype(np.float32) for v in inputs]
        m = ModelBuilder(Graph("main", inputs), arrays, random)
        with suppress(Rejected):
            op = random_operator(m, REGISTRY[code]).producer
            assert op is not None
            yield op, [None if v is None else m.array(v) for v in op.inputs]


@pytest.mark.parametrize("code", CODES)
def test_permuted_channels_of_the_operands_give_permuted_channels(code: str) -> None:
    for op, operands in operators(code):
        if (found := channelwise(op)) is None:
            continue
        order = np.roll(np.arange(op.output.static_shape[-1]), 1)
        moved = list(operands)
        for index, value in enumerate(op.inputs):
            array = operands[index]
            if any(value is source for source in found.data) and array is not None:
                moved[index] = array[..., order]
        for index, axis in found.constants:
            array = operands[index]
            assert array is not None
            moved[index] = np.take(array, order, axis)
        with np.errstate(all="ignore"):
            expected, actual = evaluate(op, operands)[0][..., order], evaluate(op, moved)[0]
        np.testing.assert_allclose(actual, expected, rtol=1e-6, err_msg=f"{op} {found}")


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("Pad(%x, [[0,0],[1,1],[1,0],[0,0]])", True),
        ("Pad(%x, [[0,0],[0,0],[0,0],[1,0]])", False),
        ("Pad(%x, [[0,0],[0,0],[0,0],[0,1]])", False),
        ("Mean(%x, [1,2]) {keep_dims: true}", True),
        ("Mean(%x, [-2])", True),
        ("Mean(%x, [0,3]) {keep_dims: true}", False),
        ("Mean(%x, [-1]) {keep_dims: true}", False),
        ("Add(%x, %y)", True),
        ("Add(%x, %one)", True),
        ("Add(%x, %row)", True),
        ("Add(%x, 2.0)", True),
        ("Add(%one, %one)", False),
        ("Transpose(%x, [0,2,1,3])", True),
        ("Transpose(%x, [0,1,3,2])", False),
        ("Slice(%x, [0,1,0,0], [2,2,4,6])", True),
        ("Slice(%x, [0,0,0,2], [2,4,4,2])", False),
        ("DepthwiseConv2D(%x, %f, %row) {depth_multiplier: 1}", True),
        ("DepthwiseConv2D(%x, %g, %row) {depth_multiplier: 1}", False),
        ("DepthwiseConv2D(%one, %f, %row) {depth_multiplier: 6}", False),
    ],
)
def test_operators_of_separate_channels_and_near_misses(call: str, expected: bool) -> None:
    model = parse_model(f"""
graph main(%x: f32[2,4,4,6], %y: f32[2,4,4,6], %one: f32[2,4,4,1], %g: f32[1,3,3,6]) -> %o {{
  %row = const f32[6] gaussian(0, 1)
  %f = const f32[1,3,3,6] gaussian(0, 1)
  %o = {call}
}}""")
    assert (channelwise(next(iter(model.main))) is not None) == expected


@pytest.mark.parametrize(
    ("call", "group"), [("DepthwiseConv2D(%x, %f)", 8), ("Mean(%x, [1]) {keep_dims: true}", 16)]
)
@pytest.mark.parametrize("extra", [-1, 0, 1])
def test_some_quantized_operators_need_full_groups_of_channels(call: str, group: int, extra: int) -> None:
    channels = 3 * group + extra
    for kind in ("i8", "f32"):
        scale = "" if kind == "f32" else " quant(scale: 0.5, zero_point: 0)"
        model = parse_model(f"""
graph main(%x: {kind}[1,1,1,{channels}]{scale}) -> %o {{
  %f = const {kind}[1,3,3,{channels}]{scale} ones
  %o = {call} : {kind}[1,1,1,{channels}]{scale}
}}""")
        assert (channelwise(next(iter(model.main))) is not None) == (kind == "f32" or not extra)


LAYERS = """
graph main(%x: f32[1,4,4,3], %z: f32[1,4,4,3]) -> %y {
  %f = const f32[4,1,1,3] gaussian(0, 1)
  %fb = const f32[4] gaussian(0, 1)
  %k = const f32[4] gaussian(0, 1)
  %s = const f32[1,1,4] gaussian(0, 1)
  %d = const f32[1,3,3,4] gaussian(0, 1)
  %db = const f32[4] gaussian(0, 1)
  %g = const f32[2,1,1,4] gaussian(0, 1)
  %a = Conv2D(%x, %f, %fb)
  %b = Add(%a, %k) {act: RELU}
  %p = PRelu(%b, %s)
  %q = DepthwiseConv2D(%p, %d, %db) {depth_multiplier: 1}
  %m = MaxPool2D(%q) {filter_height: 2, filter_width: 2}
  %e = Pad(%m, [[0,0],[1,0],[0,1],[0,0]])
  %y = Conv2D(%e, %g, none)
}
"""

SUM = """
graph main(%x: f32[2,3]) -> %y {
  %v = const f32[4,3] gaussian(0, 1)
  %w = const f32[4,3] gaussian(0, 1)
  %u = const f32[2,4] gaussian(0, 1)
  %a = FullyConnected(%x, %v, none)
  %b = FullyConnected(%x, %w, none)
  %c = Maximum(%a, %b)
  %y = FullyConnected(%c, %u, none)
}
"""


@pytest.mark.parametrize(("text", "inner"), [(LAYERS, "abpqme"), (SUM, "abc")])
def test_layers_absorb_another_order_of_a_free_group(text: str, inner: str) -> None:
    """Rotate the channels by one.  The group is free in the model as it is, and may be free in a mutant."""
    base = parse_model(text)
    for what, model in [("as it is", clone(base)), *mutants(base)]:
        value = next((v for v in model.main.values() if v.name == "a"), None)
        if value is None:
            continue
        before = clone(model)
        group = GroupFinder(model.main, (), ()).group_of(value)
        if what == "as it is":
            assert group.is_free
            assert {v.name for v in group.values} == {*inner}
        if group.is_free:
            permute_group(model.main, group, np.roll(np.arange(group.channels), 1).tolist())
            assert all(op.inferred() for op in model.main if not isinstance(op, OpaqueOp))
            assert_same_values(model, before, base, what)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("-> %y", "-> %y, %b"),
        ("-> %y", "-> %a, %y"),
        ("%fb)", "%k)"),  # one constant is the bias of a layer and the operand of the Add
        ("%y = Conv2D", "%o = Conv2D(%z, %f, none) %y = Conv2D"),
        ("%p = PRelu(%b, %s)", "%p = Softmax(%b)"),
        ("[0,1],[0,0]]", "[0,0],[0,1]]"),
        ("%y = Conv2D(%e, %g, none)", "%y = Conv2D(%e, %e, none)"),
        ("%y = Conv2D(%e, %g, none)", "%o = Reshape(%g, [8]) %y = Conv2D(%e, %g, none)"),
        ("%e = Pad", "%i = Sum(%m, [3]) %e = Pad"),
        ("Conv2D(%x, %f, %fb)", "Relu(%n)"),
    ],
)
def test_near_misses_of_free_groups(old: str, new: str) -> None:
    text = LAYERS.replace(old, new).replace("(%x: f32[1,4,4,3]", "(%n: f32[1,4,4,4], %x: f32[1,4,4,3]")
    main = parse_model(text.replace("[2,1,1,4]", "[2,1,1,5]") if "[0,1]]" in new else text).main
    group = GroupFinder(main, (), ()).group_of(next(v for v in main.values() if v.name == "a"))
    assert group.obstacle is not None


def test_the_computed_operands_of_a_product_are_in_one_group() -> None:
    """The product %b = %a * %j: both factors are results of layers, whose weights change together."""
    text = LAYERS.replace(
        "%b = Add(%a, %k) {act: RELU}", "%h = Relu(%z) %j = Conv2D(%h, %i, none) %b = Mul(%a, %j)"
    )
    main = parse_model(text.replace("%k = const f32[4]", "%i = const f32[4,1,1,3]")).main
    finder = GroupFinder(main, (), ())
    values = {v.name: v for v in main.values()}
    assert finder.group_of(values["a"]) is finder.group_of(values["j"])
    assert finder.group_of(values["a"]).is_free
    assert [op.output.name for op in finder.group_of(values["a"]).producers] == ["a", "j"]
