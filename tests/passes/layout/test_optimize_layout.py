# SPDX-License-Identifier: Apache-2.0
"""Layout optimization: removed transposes, changed operators, and refusals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from circlekit.api.rewriting import optimize
from circlekit.interp.interpreter import run
from circlekit.io.read.load import load
from circlekit.ir.text import parse_model
from circlekit.passes.layout.optimize import OptimizeLayout, moves_by
from circlekit.passes.layout.region_finder import RegionFinder
from circlekit.passes.layout.region_problem import demands_of
from circlekit.passes.support.axes import (
    inverse,
    keeps_order,
    keeps_shape,
)
from circlekit.rewrite.base import Context
from circlekit.rewrite.target_rules import TargetRules
from tests.passes.kit import assert_close, check_pass, interface_of
from tests.passes.layout.pooled_models import NCHW, NHWC, POOL, kinds, last, pooled

LAYOUT = "optimize_layout"

# lines between the pools: they make %z from %m (see ``pooled`` and ``last``)
BETWEEN = {
    "unary": "%z = Relu(%m)",
    "chain": "%a = Tanh(%m) %b = Abs(%a) %z = Neg(%b)",
    "channel constant": "%z = Mul(%m, [[[[1.0]], [[2.0]], [[3.0]]]])",
    "constant of lower rank": "%z = Add([[[1.0]], [[2.0]], [[3.0]]], %m)",
    "constant of the last axis": "%z = Sub(%m, [1.0, 2.0, 3.0, 4.0, 5.0])",
    "scalar": "%z = Maximum(%m, 0.5)",
    "one element": "%z = Minimum([[[[0.5]]]], %m)",
    "full constant": "%k = const f32[1,3,4,5] gaussian(0, 1) %z = Add(%m, %k)",
    "both operands": "%a = Logistic(%m) %z = Mul(%m, %a)",
    "concat": "%a = Neg(%m) %z = Concatenation(%m, %a) {axis: 1}",
    "concat from behind": "%a = Neg(%m) %z = Concatenation(%m, %a) {axis: -1}",
    "pad": "%z = Pad(%m, [[0, 0], [1, 2], [0, 1], [3, 0]])",
    "slice": "%z = Slice(%m, [0, 1, 2, 0], [1, 2, -1, 4])",
    "mean": "%a = Mean(%m, [-1, -2]) {keep_dims: true} %z = Mul(%m, %a)",
    "split": "%a, %b, %c = Split(1, %m) {num_splits: 3} %d = Add(%a, %c) %z = Sub(%d, %b)",
    "prelu": "%z = PRelu(%m, [[[0.1]], [[0.2]], [[0.3]]])",
    "select": "%a = Greater(%m, 0.0) %z = SelectV2(%a, %m, [[[1.0]], [[2.0]], [[3.0]]])",
}


@pytest.mark.parametrize("between", BETWEEN.values(), ids=BETWEEN)
def test_no_transpose_is_left_between_two_pools(between: str) -> None:
    model = check_pass(pooled(between + "\n" + last("%z")), LAYOUT)
    assert "Transpose" not in kinds(model)


SHUFFLES = {
    "channels": (
        "%a = Reshape(%m, [1, 2, 3, 4, 5]) %b = Transpose(%a, [0, 2, 1, 3, 4])%z = Reshape(%b, [1, 6, 4, 5])",
        ["MaxPool2D", "Reshape", "Transpose", "Reshape", "MaxPool2D"],
    ),
    "flattened image": (
        "%a = Reshape(%m, [1, 6, 20, 1]) %b = Relu(%a) %z = Reshape(%b, [1, 6, 4, 5])",
        ["MaxPool2D", "Reshape", "Relu", "Reshape", "MaxPool2D"],
    ),
    "every row twice": (
        "%a = Tile(%m, [1, 1, 1, 2]) %z = Reshape(%a, [1, 6, 8, 5])",
        ["MaxPool2D", "Reshape", "Tile", "Reshape", "MaxPool2D"],
    ),
    "turned image": (
        "%a = Transpose(%m, [0, 1, 3, 2]) %z = Reshape(%a, [1, 6, 5, 4])",
        ["MaxPool2D", "Transpose", "MaxPool2D"],
    ),
    "part of an image": (
        "%a = Slice(%m, [0, 0, 1, 0], [1, 6, 2, 5]) %z = Reshape(%a, [1, 6, 5, 2])",
        ["MaxPool2D", "Slice", "Reshape", "MaxPool2D"],
    ),
}


@pytest.mark.parametrize("name", SHUFFLES)
def test_data_movement_between_the_layouts_changes_its_map(name: str) -> None:
    """The operators are written anew for NHWC, with other shapes and axes.

    An operator that moves no element in NHWC is a Reshape there, or is left out.
    """
    body, expected = SHUFFLES[name]
    assert kinds(check_pass(pooled(body + "\n" + last("%z"), "%x: f32[1,4,5,6]"), LAYOUT)) == expected


def test_bounds_keep_their_own_dtypes() -> None:
    """The greatest i64 stands for "up to the end" in exported models, also beside bounds of i32."""
    end = 2**63 - 1
    check_pass(
        f"""graph main(%x: f32[1,4,6,8]) -> %y {{
              %b = const i32[4] [0, 0, 1, 0]
              %e = const i64[4] [{end}, {end}, {end}, 3]
              %t = Transpose(%x, [0, 2, 3, 1])
              %s = StridedSlice(%t, %b, %e, [1, 2, 1, 1])
              %y = Transpose(%s, [0, 3, 1, 2])
            }}""",
        "optimize_layout",
        ["StridedSlice"],
    )


def test_unknown_dimensions() -> None:
    text = pooled(BETWEEN["mean"] + "\n" + last("%z"), "%x: f32[?,?,4,3]")
    assert "Transpose" not in kinds(check_pass(text, LAYOUT))


@pytest.mark.parametrize(
    ("shape", "there", "back"),
    [
        ("[2,3,4]", "[0,2,1]", "[0,2,1]"),
        ("[1,2,3,4,5]", "[0,4,1,2,3]", "[0,2,3,4,1]"),
        ("[2,3]", "[-1,0]", "[1,0]"),
    ],
)
def test_any_permutation_of_any_rank(shape: str, there: str, back: str) -> None:
    text = f"""graph main(%x: f32{shape}) -> %y {{
                 %a = Transpose(%x, {there})
                 %b = Mul(%a, [2.0])
                 %y = Transpose(%b, {back})
               }}"""
    check_pass(text, LAYOUT, ["Mul"])


def test_two_permutations_in_one_graph() -> None:
    text = f"""graph main(%x: f32[1,2,3,4], %u: f32[2,3]) -> %y, %v {{
                 %a = Transpose(%x, {NHWC})
                 %b = Neg(%a)
                 %y = Transpose(%b, {NCHW})
                 %s = Transpose(%u, [1, 0])
                 %r = Relu(%s)
                 %v = Transpose(%r, [1, 0])
               }}"""
    check_pass(text, LAYOUT, ["Neg", "Relu"])


def test_users_share_one_transposed_copy() -> None:
    text = f"""graph main(%x: f32[1,3,4,5]) -> %y, %z {{
                 %r = Relu(%x)
                 %a = Transpose(%r, {NHWC})
                 %b = Transpose(%r, {NHWC})
                 %y = MaxPool2D(%a) {POOL}
                 %z = AveragePool2D(%b) {POOL}
               }}"""
    check_pass(text, LAYOUT, ["Relu", "Transpose", "MaxPool2D", "AveragePool2D"])


def test_the_smaller_side_of_a_pad_is_transposed() -> None:
    text = f"""graph main(%x: f32[1,3,4,5]) -> %y {{
                 %p = Pad(%x, [[0, 0], [0, 0], [1, 1], [1, 1]])
                 %a = Transpose(%p, {NHWC})
                 %y = MaxPool2D(%a) {POOL}
               }}"""
    check_pass(text, LAYOUT, ["Transpose", "Pad", "MaxPool2D"])


def test_at_equal_cost_the_later_transpose_is_taken() -> None:
    """So the users of a convolution stay next to it, and can be fused into it."""
    text = f"""graph main(%x: f32[1,4,5,3]) -> %y {{
                 %n = MaxPool2D(%x) {POOL}
                 %t = Transpose(%n, {NCHW})
                 %r = Relu(%t)
                 %y = Tanh(%r)
               }}"""
    check_pass(text, LAYOUT, ["MaxPool2D", "Relu", "Tanh", "Transpose"])


def test_a_transpose_in_front_of_a_pool_stays() -> None:
    text = f"""graph main(%x: f32[1,3,4,5]) -> %y {{
                 %r = Relu(%x)
                 %t = Transpose(%r, {NHWC})
                 %y = MaxPool2D(%t) {POOL}
               }}"""
    check_pass(text, LAYOUT, refused="MaxPool2D works only in its own layout")


def test_fewer_bytes_in_more_transposes_are_refused() -> None:
    """One transpose of 8 channels would become two of 2 channels each: fewer bytes, but one operator more."""
    text = f"""graph main(%x: f32[1,4,6,8]) -> %y, %z {{
                 %n = MaxPool2D(%x) {POOL}
                 %m = Transpose(%n, {NCHW})
                 %a = Slice(%m, [0, 0, 0, 0], [1, 2, 4, 6])
                 %b = Slice(%m, [0, 2, 0, 0], [1, 2, 4, 6])
                 %y = Reshape(%a, [48])
                 %z = Reshape(%b, [48])
               }}"""
    check_pass(text, LAYOUT, refused="Reshape works only in its own layout")


def test_outputs_keep_name_and_layout() -> None:
    text = pooled(f"%z = Relu(%m) %w = Transpose(%z, {NHWC})", outputs="%w, %m, %n")
    model = check_pass(text, LAYOUT, ["MaxPool2D", "Transpose", "Relu"])
    assert [v.name for v in model.main.outputs] == ["w", "m", "n"]


def test_two_equal_outputs_stay_separate() -> None:
    text = pooled(f"%a = Transpose(%n, {NCHW})", outputs="%m, %a")
    check_pass(text, LAYOUT, ["MaxPool2D", "Transpose", "Transpose"])


def test_an_operator_that_reads_the_second_of_two_equal_outputs_stays() -> None:
    text = """
    graph main(%x: f32[2,3]) -> %r, %t, %y {
      %r = Reshape(%x, [2,3])
      %t = Transpose(%r, [0,1])
      %s = Slice(%t, [0,0], [2,-1])
      %y = Transpose(%s, [1,0])
    }
    """
    check_pass(text, LAYOUT, ["Reshape", "Transpose", "Slice", "Transpose"])


def test_dimensions_of_one_are_reshaped() -> None:
    text = pooled(
        """%a = Mean(%m, [2, 3]) {keep_dims: true}
           %s = MaxPool2D(%a) {filter_height: 1, filter_width: 1, stride_h: 1, stride_w: 1}
           %z = Mul(%m, %a)
        """
        + last("%z"),
        outputs="%y, %s",
    )
    check_pass(text, LAYOUT, ["MaxPool2D", "Mean", "Reshape", "MaxPool2D", "Mul", "MaxPool2D"])


def test_reshape_of_dimensions_of_one_reads_either_order() -> None:
    text = pooled("%a = Mean(%m, [2, 3]) {keep_dims: true} %y = Reshape(%a, [1, 3])")
    check_pass(text, LAYOUT, ["MaxPool2D", "Mean", "Reshape"])


def test_shared_constant_is_not_modified() -> None:
    text = pooled(
        """%k = const f32[1,3,1,1] gaussian(0, 1)
           %z = Mul(%m, %k)
           %s = Sub(%u, %k)
        """
        + last("%z"),
        "%x: f32[1,4,5,3], %u: f32[1,3,2,2]",
        "%y, %s",
    )
    model = check_pass(text, LAYOUT)
    shapes = {type(op).__name__: op.inputs[1].shape for op in model.main if op.inputs[1:] and op.inputs[1]}
    assert shapes == {"Mul": (1, 1, 1, 3), "Sub": (1, 3, 1, 1)}


# lines from %m to %z with an operator that holds the layout: (lines, part of its refusal)
WALLS = {
    "reshape": ("%z = Reshape(%m, [1, 5, 3, 4])", "Reshape works only in its own layout"),
    "reduction without the axes": (
        "%a = Sum(%m, [1]) %z = Mul(%m, %a)",
        "Sum has %a, which cannot be transposed",
    ),
    "lower rank": ("%z = Add(%m, %u)", "Add has %u, which cannot be transposed"),
    "axes known at run time": (
        "%a = Mean(%m, %i) {keep_dims: true} %z = Mul(%m, %a)",
        "Mean cannot work on permuted axes",
    ),
    "both orders": (
        "%z = Add(%m, %n)",
        "%m: other operators need the operand and the result of this Transpose in one layout",
    ),
}


@pytest.mark.parametrize(("between", "sentence"), WALLS.values(), ids=WALLS)
def test_refusals_give_a_reason(between: str, sentence: str) -> None:
    square = between.endswith("%n)")
    inputs = f"%x: f32[1,{'3,3,3' if square else '4,5,3'}], %u: f32[4,5], %i: i32[1]"
    model = parse_model(pooled(between + "\n" + last("%z"), inputs))
    before = kinds(model).count("Transpose")
    context = Context(refusals=[])
    OptimizeLayout().run(model, context)
    sentences = [refusal.sentence for refusal in context.refusals or ()]
    assert any(sentence in s for s in sentences)
    outputs = {f"%{value.name}" for value in model.main.outputs}
    assert {s.partition(":")[0] for s in sentences if "an output keeps" in s} <= outputs
    assert kinds(model).count("Transpose") == before


def test_variables_are_not_permuted() -> None:
    model = parse_model(pooled("%z = Relu(%m)\n" + last("%z")))
    value = next(v for v in model.main.values() if v.name == "m")
    value.is_variable = True
    assert OptimizeLayout().run(model, Context()) == 0


def test_bodies_keep_their_interface() -> None:
    text = f"""graph main(%x: f32[1,2,3,4]) -> %y {{
                 %a = Transpose(%x, {NHWC})
                 %b = If(true, %a) {{then_graph: @a, else_graph: @b}} : f32[1,3,4,2]
                 %y = Transpose(%b, {NCHW})
               }}
               graph a(%p: f32[1,3,4,2]) -> %q {{
                 %c = Transpose(%p, {NCHW})
                 %d = Relu(%c)
                 %q = Transpose(%d, {NHWC})
               }}
               graph b(%r: f32[1,3,4,2]) -> %s {{ %s = Neg(%r) }}"""
    model = check_pass(text, LAYOUT, ["Transpose", "If", "Transpose"])
    assert [type(op).__name__ for op in model.graphs[1]] == ["Relu"]


# -- parts -------------------------------------------------------------------------------------


def test_permutations_that_keep_an_order_or_a_shape() -> None:
    assert inverse((0, 2, 3, 1)) == (0, 3, 1, 2)
    assert keeps_order((2, 3, 1, 1), (0, 2, 3, 1))
    assert not keeps_order((2, 3, 4, 1), (0, 2, 3, 1))
    assert keeps_order((None, 3, 1, 1), (0, 2, 3, 1))
    assert not keeps_order((None, None, 1, 1), (0, 2, 3, 1))
    assert keeps_shape((5, 1, 1, 1), (0, 2, 3, 1))
    assert keeps_shape((), (1, 0))
    assert keeps_shape((1, 1, 7), (0, 2, 1, 3))
    assert not keeps_shape((1, 7, 1), (0, 2, 1, 3))
    assert not keeps_shape((1, 1, 1, 1, 1), (0, 2, 3, 1))


def test_a_long_chain() -> None:
    links = "\n".join(f"%v{i + 1} = Relu(%v{i})" for i in range(1000))
    text = f"""graph main(%x: f32[1,4,5,3]) -> %y {{
                 %v0 = Transpose(%x, {NCHW})
                 {links}
                 %y = Transpose(%v1000, {NHWC})
               }}"""
    model = parse_model(text)
    OptimizeLayout().run(model, Context())
    assert kinds(model) == ["Relu"] * 1000


LEFT = {"cbr": 1, "dcgan": 1, "mbv2": 1, "resnet": 1, "unet": 2}
"""How many transposes each model keeps: those at inputs and outputs, whose layout must not change."""


@pytest.mark.parametrize("name", LEFT)
def test_models_of_pytorch(shared: Path, name: str) -> None:
    model = load(shared / "models" / "tico" / f"{name}.circle")
    interface = interface_of(model)
    random = np.random.default_rng(0)
    inputs = [random.standard_normal(v.static_shape).astype(np.float32) for v in model.main.inputs]
    wanted = run(model, inputs)
    OptimizeLayout().run(model, Context())
    assert kinds(model).count("Transpose") == LEFT[name]
    assert interface_of(model) == interface
    assert_close(run(model, inputs), wanted)
    assert OptimizeLayout().run(model, Context()) == 0


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (
            f"""graph main(%x: f32[1,2,3,4]) -> %y {{
                  %a = Transpose(%x, {NHWC})
                  %y = Transpose(%a, {NCHW})
                }}""",
            ["Transpose", "Transpose"],
        ),
        (pooled(f"%y = Transpose(%m, {NHWC})", outputs="%y, %n"), ["MaxPool2D", "Transpose", "Transpose"]),
        (pooled(f"%y = Transpose(%m, {NHWC})"), ["MaxPool2D"]),
    ],
)
def test_an_input_or_output_is_not_merged_with_an_equal_output(text: str, left: list[str]) -> None:
    check_pass(text, LAYOUT, left)


@pytest.mark.parametrize(("shape", "size"), [("[1,1,1,3]", 0), ("[1,2,2,3]", 48), ("[?,?,1,1]", 4)])
def test_cost_of_copies(shape: str, size: int) -> None:
    """A Reshape moves no bytes; it cannot express two unknown dimensions.

    [1,2,2,3] has 12 elements of 4 bytes; an unknown dimension counts as 1.
    """
    model = parse_model(
        f"""graph main(%x: f32{shape}) -> %y {{
              %a = Transpose(%x, {NCHW})
              %b = Relu(%a)
              %y = Transpose(%b, {NHWC})
            }}"""
    )
    perms = [(0, 2, 3, 1)]
    finder = RegionFinder(model.main, perms)
    (region,) = finder.regions(moves_by(model.main, perms))
    demands = [demands_of(tensor, finder) for tensor in region.tensors]
    assert [(sum(d.cost.bytes for d in each), sum(d.cost.moves for d in each)) for each in demands] == [
        (size, 1)
    ] * 2


@pytest.mark.parametrize(("channels", "run_bytes", "kept"), [(3, 0, 0), (3, 64, 3), (32, 64, 0)])
def test_runs_that_are_copied_count(channels: int, run_bytes: int, kept: int) -> None:
    """A concatenation along the last axis copies each pixel as a run; ``run_bytes`` is the cost of a run.

    With 3 channels and 64 bytes per run, the three transposes cost less than the runs, so they are kept.
    """
    shape = f"f32[1,9,9,{channels}]"
    model = parse_model(
        f"""graph main(%x: {shape}, %z: {shape}) -> %y {{
              %a = MaxPool2D(%x) {POOL}
              %b = MaxPool2D(%z) {POOL}
              %m = Transpose(%a, {NCHW})
              %n = Transpose(%b, {NCHW})
              %j = Concatenation(%m, %n) {{axis: 1}}
              {last("%j")}
            }}"""
    )
    rules = TargetRules([], run_bytes=run_bytes)
    OptimizeLayout().run(model, Context(target=rules))
    assert kinds(model).count("Transpose") == kept


def test_runs_of_a_slice_do_not_count() -> None:
    """A Transpose before the Slice would save runs, but ``merge_data_movement`` would remove it again."""
    text = """graph main(%x: f32[3,5,5]) -> %y {
        %r = Relu(%x)
        %s = Slice(%r, [0,2,4], [3,3,1])
        %y = Reshape(%s, [3,1,3])
    }"""
    assert OptimizeLayout().run(parse_model(text), Context(target=TargetRules([], run_bytes=64))) == 0
    model = parse_model(text)
    optimize(model, target="litert-xnnpack")  # it raised an error: the two passes took turns
    assert kinds(model) == ["Slice", "Relu", "Reshape"]
