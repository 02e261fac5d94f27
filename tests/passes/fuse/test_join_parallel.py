# SPDX-License-Identifier: Apache-2.0
"""Layers of one input become one layer and a SPLIT, which moves past equal operators on its parts."""

from __future__ import annotations

from itertools import product
from math import prod

import numpy as np
import pytest

from circlekit.ir.text import parse_model
from circlekit.ops.matmul.dense import FullyConnected
from circlekit.passes.engine.pass_manager import run_passes
from circlekit.passes.engine.registry import all_passes
from circlekit.passes.fuse.join_parallel import _axis_after_reshape
from circlekit.passes.pipelines import pipeline_passes
from circlekit.rewrite.base import Context
from tests.passes.kit import check_pass, refusals

QUANTIZED = """graph main(%x: i8[5,8] quant(scale: 0.1)) -> %z {
  %v = const i8[2,8] quant(scale: [0.01, 0.02]) uniform(-100, 100)
  %w = const i8[3,8] quant(scale: [0.03, 0.04, 0.05]) uniform(-100, 100)
  %b = const i32[2] quant(scale: [0.001, 0.002]) [1000, -2000]
  %c = const i32[3] quant(scale: [0.003, 0.004, 0.005]) [100, -200, 300]
  %p = FullyConnected(%x, %v, %b) : i8[5,2] quant(scale: 0.5, zero_point: 7)
  %q = FullyConnected(%x, %w, %c) : i8[5,3] quant(scale: 0.5, zero_point: 7)
  %z = Concatenation(%q, %p) {axis: 1} : i8[5,5] quant(scale: 0.5, zero_point: 7)
}"""

GATE = """graph main(%x: f32[1,6,8]) -> %z {
  %v = const f32[8,8] gaussian(0, 1)
  %w = const f32[8,8] gaussian(0, 1)
  %p = FullyConnected(%x, %v) {keep_num_dims: true}
  %q = FullyConnected(%x, %w) {keep_num_dims: true}
  %z = Mul(%p, %q)
}"""


def test_scales_per_row_are_joined() -> None:
    model = check_pass(QUANTIZED, "join_fully_connected", ["FullyConnected", "SplitV", "Concatenation"])
    layer = next(op for op in model.main if isinstance(op, FullyConnected))
    for value, unit in ((layer.weights, 0.01), (layer.bias, 0.001)):
        assert value is not None
        assert value.quantization is not None
        np.testing.assert_allclose(value.quantization.scale, np.arange(1, 6) * unit, rtol=1e-6)


def test_results_with_other_scales_stay() -> None:
    text = QUANTIZED.replace("i8[5,2] quant(scale: 0.5", "i8[5,2] quant(scale: 0.25")
    assert refusals(text, "join_fully_connected")[0].startswith("%p: no other layer of %x that can be joined")


@pytest.mark.parametrize("name", ["join_fully_connected", "replace_non_const_fc_with_batch_matmul"])
def test_a_layer_with_two_results_stays(name: str) -> None:
    text = """graph main(%x: f32[2,3], %w: f32[4,3]) -> %y {
      %y, %s = FullyConnected(%x, %w) : f32[2,4], f32[2,3]
      %z, %r = FullyConnected(%x, %w) : f32[2,4], f32[2,3]
    }"""
    assert "%y: expected one result, got 2" in refusals(text, name)


def test_a_pipeline_does_not_join_two_layers_that_one_operator_reads() -> None:
    """There is nothing behind them that would become one operator, too.  ``exact``: as in a pipeline."""
    model, context = parse_model(GATE), Context(exact=True, refusals=[])
    run_passes(model, ["join_fully_connected"], context)
    assert len(model.main) == 3
    assert [r.sentence for r in context.refusals or ()] == [
        "%p: joining 2 layers would remove 0 operators and move 576 bytes more"  # 2 * (192 + 192) - 192
    ]


def test_a_pipeline_joins_no_layers_for_fewer_bytes_alone() -> None:
    model, context = parse_model(layers(2, 800, 4)), Context(exact=True, refusals=[])
    run_passes(model, ["join_fully_connected"], context)
    assert [r.sentence for r in context.refusals or ()] == [
        "%f0: joining 2 layers would remove 0 operators and move 15680 bytes less"  # 16000 - 2 * (80 + 80)
    ]


def layers(count: int, depth: int, units: int, alike: bool = False) -> str:
    """Return a model in which ``count`` layers read %x [5, depth].

    ``alike``: whether operators of the same kind read the results of the layers.
    """
    readers = ["Relu"] * count if alike else ["Relu", "Neg", "Abs", "Tanh", "Exp"][:count]
    body = "".join(
        f"""%w{i} = const f32[{units},{depth}] gaussian(0, 1)
            %f{i} = FullyConnected(%x, %w{i}) {{keep_num_dims: true}}
            %y{i} = {reader}(%f{i})
        """
        for i, reader in enumerate(readers)
    )
    outputs = ", ".join(f"%y{i}" for i in range(count))
    return f"graph main(%x: f32[5,{depth}]) -> {outputs} {{ {body} }}"


@pytest.mark.parametrize(
    ("count", "depth", "units", "alike", "joins"),
    [
        (1, 32, 8, False, False),
        (2, 32, 8, True, True),  # one operator less, as many bytes
        (2, 31, 8, True, False),  # one operator less, 20 bytes more
        (2, 64, 8, False, False),  # no operator less
        (3, 11, 4, False, False),  # one operator less, 40 bytes more
        (3, 12, 4, False, True),  # one operator less, as many bytes
        (4, 16, 8, False, True),  # two operators less, 320 bytes more for 2560 multiplications
        (4, 6, 3, False, True),  # two operators less, 120 bytes more for 360 multiplications
        (4, 5, 3, False, False),  # two operators less, 180 bytes more for 300 multiplications
    ],
)
def test_a_pipeline_joins_layers_for_few_bytes(
    count: int, depth: int, units: int, alike: bool, joins: bool
) -> None:
    text = layers(count, depth, units, alike)
    model, context = parse_model(text), Context(exact=True, refusals=[])
    run_passes(model, ["join_fully_connected"], context)
    assert (sum(isinstance(op, FullyConnected) for op in model.main) < count) == joins
    assert bool(context.refusals) == (count > 1 and not joins)
    check_pass(text, "join_fully_connected")


def test_a_layer_without_bias_gets_zeros() -> None:
    text = """graph main(%x: f32[5,8]) -> %p, %q, %r {
      %u = const f32[2,8] gaussian(0, 1)
      %v = const f32[3,8] gaussian(0, 1)
      %w = const f32[4,8] gaussian(0, 1)
      %p = FullyConnected(%x, %u)
      %q = FullyConnected(%x, %v, [0.5, -1.0, 2.0])
      %r = FullyConnected(%x, %w, [[1.0, 2.0, 3.0, 4.0]])
    }"""
    check_pass(text, "join_fully_connected", ["FullyConnected", "SplitV"])


def shapes(size: int, rank: int) -> list[tuple[int, ...]]:
    """Return all shapes of ``rank`` dimensions and ``size`` elements."""
    if rank == 0:
        return [()] if size == 1 else []
    return [(n, *rest) for n in range(1, size + 1) if size % n == 0 for rest in shapes(size // n, rank - 1)]


@pytest.mark.parametrize(
    ("olds", "axis"), [(((2, 2, 3), (2, 2, 3)), 1), (((6, 1), (6, 2)), 1), (((4,), (6,)), 0)]
)
def test_the_axis_of_reshaped_parts(olds: tuple[tuple[int, ...], ...], axis: int) -> None:
    """Joined along the found axis, the reshaped parts equal the reshaped whole; None if no axis does that."""
    sizes = [prod(old) for old in olds]
    whole = np.arange(sum(sizes)).reshape(*olds[0][:axis], -1, *olds[0][axis + 1 :])
    parts = np.split(whole, [olds[0][axis]], axis)
    for rank in (1, 2, 3):
        for first, second in product(shapes(sizes[0], rank), shapes(sizes[1], rank)):
            news = [first, second]
            found = _axis_after_reshape(olds, news, axis)
            right = []
            for new in range(rank):
                if first[:new] + first[new + 1 :] == second[:new] + second[new + 1 :]:
                    joined = np.concatenate([p.reshape(n) for p, n in zip(parts, news, strict=True)], new)
                    right += [new] if np.array_equal(joined, whole.reshape(joined.shape)) else []
            assert found in right if right else found is None, news


def test_a_split_moves_past_reshapes_with_one_unknown_size_but_not_with_two() -> None:
    text = """graph main(%x: f32[?,1,6,5], %s: i32[3]) -> %p, %q {
      %a, %b = Split(2, %x) {num_splits: 2}
      %c = Reshape(%a, %s) : f32[?,3,5]
      %d = Reshape(%b, %s) : f32[?,3,5]
      %p = Neg(%c)
      %q = Neg(%d)
    }"""
    count = all_passes()["forward_split"]().run(parse_model(text), Context())
    assert count == 2  # past the reshapes, then past Neg
    for before, after in (("?,?,6,5", "?,3,5"), ("?,1,6,5", "?,?,5"), ("?,?,6,5", "?,?,3,5")):
        unknown = text.replace("?,1,6,5", before).replace("f32[?,3,5]", f"f32[{after}]")
        unknown = unknown.replace("i32[3]", f"i32[{after.count(',') + 1}]")
        assert refusals(unknown, "forward_split") == [
            "%c: the parts are not moved alike along axis 2 by Reshape"
        ]


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("%p = Softmax(%a) %q = Softmax(%b)", "%p: the parts are not moved alike along axis 1 by Softmax"),
        ("%p = LeakyRelu(%a) {alpha: 0.5} %q = LeakyRelu(%b) {alpha: 0.25}", "%p: the parts are not moved"),
        ("%p = Add(%a, %c) %q = Add(%b, %c)", "%p: the parts are not moved alike"),
        (
            "%p, %o = Split(1, %a) {num_splits: 2} %q, %r = Split(1, %b) {num_splits: 2}",
            "%a: expected one result of Split %p, got 2",
        ),
    ],
)
def test_parts_that_are_not_read_alike(body: str, sentence: str) -> None:
    head = "graph main(%x: f32[3,4], %c: f32[3,2]) -> %p, %q"
    text = f"{head} {{ %a, %b = Split(1, %x) {{num_splits: 2}} {body} }}"
    check_pass(text, "forward_split", refused=sentence)


def test_a_split_does_not_move_past_reshapes_to_an_unknown_size_along_its_axis() -> None:
    text = """graph main(%x: f32[3,?], %s: i32[2]) -> %p, %q {
      %a, %b = Split(1, %x) {num_splits: 2} : f32[3,?], f32[3,?]
      %p = Reshape(%a, %s) : f32[3,?]
      %q = Reshape(%b, %s) : f32[3,?]
    }"""
    assert refusals(text, "forward_split") == ["%p: the parts are not moved alike along axis 1 by Reshape"]


@pytest.mark.parametrize(
    ("p", "q", "sentence"),
    [
        ("scale: [0.1, 0.2, 0.3]", "scale: [0.1, 0.2, 0.3]", "%p: expected a quantization per tensor"),
        ("scale: 0.1", "scale: 0.2", "%q: expected the quantization of %p"),
    ],
)
def test_results_of_parts_need_one_quantization_per_tensor(p: str, q: str, sentence: str) -> None:
    text = f"""graph main(%x: i8[3,4] quant(scale: 0.1)) -> %p, %q {{
      %a, %b = Split(1, %x) {{num_splits: 2}} : i8[3,2] quant(scale: 0.1), i8[3,2] quant(scale: 0.1)
      %p = Relu(%a) : i8[3,2] quant({p})
      %q = Relu(%b) : i8[3,2] quant({q})
    }}"""
    assert refusals(text, "forward_split") == [sentence]


def test_a_part_that_is_an_output_keeps_the_split_before_the_users() -> None:
    text = "graph main(%x: f32[3,4]) -> %a, %q { %a, %b = Split(1, %x) {num_splits: 2} %q = Neg(%b) }"
    check_pass(text, "forward_split", refused="%a: is an output of the graph")


def test_biases_of_rank_2_are_joined() -> None:
    text = """graph main(%x: f32[1,4]) -> %y {
      %w = const f32[3,4] gaussian(0, 1)
      %v = const f32[5,4] gaussian(0, 1)
      %b = const f32[1,3] gaussian(0, 1)
      %c = const f32[1,5] gaussian(0, 1)
      %f = FullyConnected(%x, %w, %b)
      %g = FullyConnected(%x, %v, %c)
      %y = Concatenation(%f, %g) {axis: 1}
    }"""
    joined = check_pass(text, "join_fully_connected", ["FullyConnected", "SplitV", "Concatenation"])
    assert [value.shape for value in joined.main.ops[0].inputs if value is not None] == [(1, 4), (8, 4), (8,)]


def test_queries_keys_and_values_are_one_layer_one_transpose_and_one_split() -> None:
    names = "qkv"
    text = "graph main(%x: f32[2,5,8]) -> %z {" + "".join(
        f"""%w{n} = const f32[8,8] gaussian(0, 1)
            %{n} = FullyConnected(%x, %w{n}) {{keep_num_dims: true}}
            %h{n} = Reshape(%{n}, [2, 5, 2, 4])
            %t{n} = Transpose(%h{n}, {[0, 2, 3, 1] if n == "k" else [0, 2, 1, 3]})
        """
        for n in names
    )
    text += "%a = BatchMatMul(%tq, %tk) %s = Softmax(%a) {beta: 1.0} %z = BatchMatMul(%s, %tv) }"
    expected = ["FullyConnected", "Reshape", "Transpose", "Split", "BatchMatMul", "Softmax", "BatchMatMul"]
    check_pass(text, pipeline_passes("O1"), expected)
