# SPDX-License-Identifier: Apache-2.0
"""fm-equalize on the recipes of ONE's own tests: the same patterns, and the values stay.

A pattern is a pair of layers, front and back.  The back reads the channels of the front's result.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import circlekit
from circlekit.api.one_tools import equalize_feature_maps
from circlekit.cli.quant.fm_equalize import fm_equalize, fme_apply, fme_detect
from circlekit.equivalence.seeded_inputs import InputSet, make_inputs
from circlekit.errors import ModelError
from circlekit.interp.interpreter import Interpreter, run
from circlekit.ir.clone import clone
from circlekit.ir.verifier import check
from circlekit.quant.techniques.feature_map_equalization import (
    Pattern,
    apply_patterns,
    find_patterns,
    measure,
    patterns_of,
)
from circlekit.quant.weights import present_operand
from tests.recipes.one_recipes import one_recipe

EQUALIZED = [("FullyConnected_010", 1), ("Net_DConv_Conv_000", 1), ("Net_InstNorm_Conv_000", 1)]
EQUALIZED += [("Net_Conv_Pad_000", 1), ("Net_Conv_Gelu_000", 0), ("Net_FullyConnected_Gelu_000", 0)]


@pytest.mark.parametrize(("name", "count"), EQUALIZED)
def test_patterns_in_recipes_of_one(name: str, count: int, shared: Path) -> None:
    """No scale passes through GELU (count 0).  ONE's list of tests has these two commented out."""
    model = one_recipe(shared, name)
    circlekit.optimize(model, ["fuse_instnorm"], format="circle")
    before = clone(model)
    patterns = equalize_feature_maps(model)
    check(model)
    assert len(patterns) == count
    for kind in ("normal", "boundary"):
        inputs = make_inputs(before.main, InputSet(kind))
        for a, b in zip(run(before, inputs), run(model, inputs), strict=True):
            np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-4)


BRANCH = """
graph main(%x: f32[1,4,4,2]) -> %a, %b {
  %k = const f32[3,1,1,2] gaussian(0, 1)
  %u = const f32[2,1,1,3] gaussian(0, 9)
  %v = const f32[2,1,1,3] gaussian(0, 3)
  %f = Conv2D(%x, %k, [0.1, 0.2, 0.3]) {padding: VALID, act: RELU} : f32[1,4,4,3]
  %a = Conv2D(%f, %u, [0.1, 0.2]) {padding: VALID} : f32[1,4,4,2]
  %p = MaxPool2D(%f) {padding: VALID, filter_width: 2, filter_height: 2} : f32[1,3,3,3]
  %b = Conv2D(%p, %v, [0.1, 0.2]) {padding: VALID} : f32[1,3,3,2]
}
"""


def test_layers_with_several_users_are_copied_if_allowed() -> None:
    model = circlekit.parse(BRANCH)
    assert find_patterns(model) == []
    before = clone(model)
    found = [(p.front, p.back) for p in equalize_feature_maps(model, allow_copies=True)]
    assert found == [("f", "a"), ("f", "b")]
    check(model)
    assert len(model.main) == 5
    inputs = make_inputs(before.main, InputSet("normal"))
    for a, b in zip(run(before, inputs), run(model, inputs), strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-4)


def test_a_front_whose_result_is_an_output_is_copied() -> None:
    model = circlekit.parse("""
graph main(%x: f32[1,4]) -> %h, %y {
  %w = const f32[3,4] gaussian(0, 1)
  %v = const f32[2,3] gaussian(0, 1)
  %h = FullyConnected(%x, %w)
  %y = FullyConnected(%h, %v)
}""")
    before = clone(model)
    assert find_patterns(model) == []
    assert [(p.front, p.back) for p in find_patterns(model, allow_copies=True)] == [("h", "y")]
    apply_patterns(model, [Pattern("h", "y", [5.0, 0.1, 20.0])])
    check(model)
    inputs = make_inputs(before.main, InputSet("normal"))
    for a, b in zip(run(before, inputs), run(model, inputs), strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("front", "count"),
    [
        ("Mul(%x, [2.0, 3.0])", 1),
        ("Mul(%x, [2.0, 3.0]) {act: RELU}", 1),
        ("Mul(%x, [2.0, 3.0]) {act: RELU6}", 0),
        ("Mul(%x, 2.0)", 0),  # one number for all channels
        ("Mul(%x, [[2.0, 3.0], [1.0, 1.0]])", 0),
        ("Add(%x, [2.0, 3.0])", 0),  # the result is not scaled with the constant
        ("Mul(%x, %x)", 0),
        ("Maximum(%x, [50.0, 30.0])", 0),  # the result is not the constant where an input is larger
        ("Minimum(%x, [-50.0, -30.0])", 0),
        ("Add(%x, [1e5, 1e5])", 0),
        ("ReverseV2([2.0, 3.0], [0])", 0),  # a number scales another channel than its own
        ("FullyConnected([2.0, 3.0], %x)", 0),  # a number scales a part of all channels
    ],
)
def test_fronts_scale_each_channel_by_a_constant(front: str, count: int) -> None:
    model = circlekit.parse(f"""
graph main(%x: f32[2,2]) -> %y {{
  %w = const f32[3,2] gaussian(0, 1)
  %f = {front}
  %y = FullyConnected(%f, %w)
}}""")
    assert len(find_patterns(model)) == count
    shown = circlekit.parse(str(model).replace("-> %y", "-> %y, %f"))
    assert find_patterns(shown) == []  # an output of the graph is not scaled


def test_commands_of_equalization(shared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, target, patterns = (str(tmp_path / name) for name in ("in.circle", "out.circle", "p.json"))
    circlekit.save(one_recipe(shared, "Net_DConv_Conv_000"), source)
    assert fme_detect(["--input", source, "--output", patterns]) == 0
    (found,) = json.loads(Path(patterns).read_text())
    assert found["type"] == "ScaleOnly"
    assert "act_scale" not in found
    assert fme_apply(["--input", source, "--fme_patterns", patterns, "--output", target]) == 255
    assert "act_scale is missing" in capsys.readouterr().err
    assert fm_equalize(["-i", source, "-o", target, "-f", patterns]) == 0
    (found,) = json.loads(Path(patterns).read_text())
    channels = circlekit.load(source).main.ops[0].output.static_shape[-1]
    assert len(found["act_scale"]) == channels
    first = Path(target).read_bytes()
    assert fme_apply(["--input", source, "--fme_patterns", patterns, "--output", target]) == 0
    assert Path(target).read_bytes() == first
    Path(patterns).write_text(json.dumps([{**found, "act_scale": 3}]))
    assert fme_apply(["--input", source, "--fme_patterns", patterns, "--output", target]) == 255
    assert "act_scale's element is not fp32" in capsys.readouterr().err
    assert fm_equalize(["-i", source, "-o", target, "-f", f"{tmp_path}/./out.circle"]) == 1
    assert "expected different files to write" in capsys.readouterr().err
    assert Path(target).read_bytes() == first


@pytest.mark.parametrize(
    ("front", "back", "message"),
    [
        ("layer_x", "b", "'layer_x'; did you mean layer_. or layer_. or layer_.\\?$"),
        ("layer_a", "nothing", "'nothing'$"),
    ],
)
def test_unknown_names_of_layers_are_answered_with_the_nearest(front: str, back: str, message: str) -> None:
    layers = "".join(f"  %layer_{n} = Neg(%x)\n" for n in "abcd")
    outputs = ", ".join(f"%layer_{n}" for n in "abcd")
    model = circlekit.parse(f"graph main(%x: f32[2,2]) -> {outputs} {{\n{layers}}}")
    with pytest.raises(ModelError, match=f"Invalid names in front or back of the given patterns: {message}"):
        apply_patterns(model, [Pattern(front, back)])


GOOD = {"front": "a", "back": "b", "type": "ScaleOnly"}


@pytest.mark.parametrize("scale", [None, [], [1], [1.5, 2]])
def test_documents_of_patterns_are_read_again(scale: list[float] | None) -> None:
    pattern = Pattern("a", "b", scale)
    assert patterns_of([pattern.document()]) == [pattern]
    assert pattern.document() == (GOOD if scale is None else {**GOOD, "act_scale": scale})


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({}, "expected a JSON list of patterns"),
        ([[]], "expected a JSON object for each pattern"),
        *([[{**GOOD, key: value}], f"{key} is missing"] for key in GOOD for value in (None, 3)),
        ([{**GOOD, "type": "ShiftOnly"}], "Unsupported EqualizePattern type: ShiftOnly"),
        *(
            [[{**GOOD, "act_scale": scale}], "act_scale's element is not fp32"]
            for scale in (3, ["1"], [1, None], [True], [1e39], [10**400], [np.nan])
        ),
        ([GOOD, {**GOOD, "act_scale": 1.5}], "act_scale's element is not fp32"),
    ],
)
def test_documents_that_are_no_patterns(document: object, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        patterns_of(document)


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ("%m = Relu(%f)", 1),
        ("%m = Transpose(%f, [0, 2, 1, 3])", 1),
        ("%m = Transpose(%f, [0, 1, 3, 2])", 0),
        ("%m = Reshape(%f, [1, 3, 9, 1])", 0),
        ("%m = Add(%f, %f)", 0),
        ("%m = Add(%f, %x)", 0),
        ("%m = Relu6(%f)", 0),
        ("%m = Mul(%f, %x)", 0),
        ("%m = Mul(%f, %f)", 0),
        ("%m = MaxPool2D(%f) {filter_width: 1, filter_height: 1}", 1),
        ("%m = MaxPool2D(%f) {filter_width: 1, filter_height: 1, act: RELU}", 1),
        ("%m = MaxPool2D(%f) {filter_width: 1, filter_height: 1, act: RELU6}", 0),
        ("%m = Relu(%f)\n%n = Neg(%m)", 0),
        ("%m = Pad(%f, [[0, 0], [1, 1], [0, 0], [0, 0]])", 1),
        ("%m = Pad(%f, [[0, 0], [0, 0], [0, 0], [1, 1]])", 0),
    ],
)
def test_scales_pass_only_where_each_channel_stays_in_its_place(line: str, count: int) -> None:
    depth = {"Pad(%f, [[0, 0], [0, 0], [0, 0], [1, 1]])": 5, "Reshape(%f, [1, 3, 9, 1])": 1}.get(line[5:], 3)
    model = circlekit.parse(f"""
    graph main(%x: f32[1,3,3,3]) -> %y {{
      %v = const f32[3,1,1,3] gaussian(0, 1)
      %w = const f32[2,1,1,{depth}] gaussian(0, 1)
      %f = Conv2D(%x, %v)
      {line}
      %y = Conv2D(%m, %w)
    }}""")
    assert [(p.front, p.back) for p in find_patterns(model)] == [("f", "y")] * count


def test_magnitudes_are_the_same_on_both_sides_afterwards() -> None:
    """A channel stays as it is if all its activations, or all weights that read it, are 0."""
    model = circlekit.parse("""
    graph main(%x: f32[1,3,3,4]) -> %y {
      %v = const f32[6,1,1,4] gaussian(0, 1)
      %w = const f32[2,1,1,6] gaussian(0, 1)
      %f = Conv2D(%x, %v)
      %y = Conv2D(%f, %w)
    }""")
    front, back = model.main
    # the front computes channel 0 as 0; no weight of the back reads channel 1
    for layer, dead in ((front, (0, slice(None))), (back, (slice(None), ..., 1))):
        value = layer.inputs[1]
        assert value is not None
        data = value.array().copy()
        data[dead] = 0
        uneven = 4.0 ** np.arange(6).reshape(6, 1, 1, 1) if layer is front else 1.0
        value.data = np.asarray(data / uneven, np.float32)
    dead_channel = present_operand(back, 1).array()[..., 0].copy()
    inputs = make_inputs(model.main, InputSet("normal"))
    (pattern,) = equalize_feature_maps(model, [inputs])
    assert pattern.act_scale is not None
    found = []
    Interpreter(model).run(
        inputs, observe=lambda op, arrays: found.append(np.abs(arrays[0]).max(axis=(0, 1, 2)))
    )
    weights = present_operand(back, 1)
    np.testing.assert_array_equal(weights.array()[..., 0], dead_channel)
    sides = found[0], np.abs(weights.array()).max(axis=(0, 1, 2))  # of the front's result, of the weights
    np.testing.assert_allclose(sides[0][2:], sides[1][2:], rtol=1e-4)
    assert found[0][0] == sides[1][1] == 0
    assert found[0][1] == pytest.approx(pattern.act_scale[1])


@pytest.mark.parametrize("front", ["s", "e", "i"])
def test_tensors_without_channels_elements_or_floats_are_not_measured(front: str) -> None:
    model = circlekit.parse("""
    graph main(%x: f32[2,4], %e: f32[2,0], %i: i32[2,4]) -> %s, %y {
      %s = Sum(%x, [0, 1]) : f32[]
      %y = Relu(%x)
    }""")
    patterns = [Pattern(front, "y"), Pattern("y", "y")]
    measure(
        model,
        patterns,
        [[np.ones((2, 4), np.float32), np.ones((2, 0), np.float32), np.ones((2, 4), np.int32)]],
    )
    assert [pattern.act_scale for pattern in patterns] == [None, [1.0] * 4]


CHAIN = """
graph main(%x: f32[1,3,3,4]) -> %y, %t, %u {
  %v = const f32[4,1,1,4] gaussian(0, 1)
  %w = const f32[WEIGHTS] gaussian(0, 1)
  %v2 = const f32[2,1,1,4] gaussian(0, 1)
  %f = Conv2D(%x, %v)
  %m = Relu(%f)
  %y = LAYER
  %t = Tanh(%x)
  %u = Conv2D(%t, %v2)
}"""


@pytest.mark.parametrize(
    ("weights", "layer"),
    [
        ("2,3,3,4", "Conv2D(%m, %w)"),
        ("6,3,3,2", "Conv2D(%m, %w)"),
        ("1,3,3,4", "DepthwiseConv2D(%m, %w, none)"),
        ("1,3,3,8", "DepthwiseConv2D(%m, %w, none) {depth_multiplier: 2}"),
        ("2,12", "FullyConnected(%m, %w)"),
    ],
)
def test_every_kind_of_back_keeps_the_outputs(weights: str, layer: str) -> None:
    model = circlekit.parse(CHAIN.replace("WEIGHTS", weights).replace("LAYER", layer))
    before, inputs = clone(model), make_inputs(model.main, InputSet("normal"))
    found = [(p.front, p.back) for p in equalize_feature_maps(model, [inputs])]
    assert found == [("f", "y")]
    for a, b in zip(run(before, inputs), run(model, inputs), strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-4)
    changed, old = (next(op for op in m.main if op.output.name == "f") for m in (model, before))
    assert not np.array_equal(present_operand(changed, 1).array(), present_operand(old, 1).array())


@pytest.mark.parametrize(("front", "back"), [("t", "u"), ("f", "u"), ("f", "m"), ("f", "t"), ("m", "y")])
def test_channels_flow_from_the_front_to_the_back(front: str, back: str) -> None:
    model = circlekit.parse(CHAIN.replace("WEIGHTS", "2,3,3,4").replace("LAYER", "Conv2D(%m, %w)"))
    with pytest.raises(ModelError, match="Cannot find front node: no channels flow from"):
        apply_patterns(model, [Pattern(front, back, [1.0] * 4)])


def test_outputs_and_channels_that_share_a_weight_are_not_scaled() -> None:
    text = CHAIN.replace("WEIGHTS", "2,3,3,4").replace("LAYER", "Conv2D(%m, %w)")
    assert len(find_patterns(circlekit.parse(text))) == 1
    assert find_patterns(circlekit.parse(text.replace("-> %y", "-> %m, %y"))) == []
    regrouped = text.replace("%w = const f32[2,3,3,4]", "%w = const f32[2,6]").replace(
        "Conv2D(%m", "FullyConnected(%m"
    )
    assert find_patterns(circlekit.parse(regrouped)) == []  # each weight reads several channels


@pytest.mark.parametrize(
    ("line", "patterns"),
    [("Mul(%f, [1.0, 2.0, 3.0, 4.0])", ["fy", "my"]), ("Add(%f, [1.0, 2.0, 3.0, 4.0])", [])],
)
def test_scales_pass_through_products_with_constants(line: str, patterns: list[str]) -> None:
    text = CHAIN.replace("WEIGHTS", "2,3,3,4").replace("LAYER", "Conv2D(%m, %w)").replace("Relu(%f)", line)
    assert [p.front + p.back for p in find_patterns(circlekit.parse(text))] == patterns


def test_pairs_of_layers_need_a_sample() -> None:
    text = "%w = const f32[2,2] ones  %f = Mul(%x, [2.0, 3.0])  %y = FullyConnected(%f, %w)"
    model = circlekit.parse(f"graph main(%x: f32[2,2]) -> %y {{ {text} }}")
    with pytest.raises(ModelError, match="at least one sample on which magnitudes are measured, got none"):
        equalize_feature_maps(model, [])
    assert equalize_feature_maps(circlekit.parse("graph main(%x: f32[2]) -> %y { %y = Neg(%x) }"), []) == []


def test_magnitudes_are_those_of_the_main_graph() -> None:
    model = circlekit.parse("""
    graph main(%x: f32[1,2], %p: bool[1]) -> %y, %q {
      %w = const f32[3,2] gaussian(0, 1)
      %f = Mul(%x, [2.0, 3.0])
      %y = FullyConnected(%f, %w)
      %q = If(%p, %x) {then_graph: @branch, else_graph: @branch}
    }
    graph branch(%a: f32[1,2]) -> %b {
      %f = Concatenation(%a, %a) {axis: 1}
      %b = Neg(%f)
    }""")
    (pattern,) = find_patterns(model)
    measure(model, [pattern], [[np.ones((1, 2), np.float32), np.array([True])]])
    assert pattern.act_scale == [2.0, 3.0]


def test_fronts_have_known_shapes() -> None:
    text = (
        "graph main(%x: f32[2,2]) -> %y {\n  %w = const f32[3,2] gaussian(0, 1)\n  %f = Mul(%x, [2.0, 3.0])\n"
    )
    text += "  %y = FullyConnected(%f, %w)\n}"
    assert len(find_patterns(circlekit.parse(text))) == 1
    assert find_patterns(circlekit.parse(text.replace("f32[2,2]", "f32[?,2]"))) == []
