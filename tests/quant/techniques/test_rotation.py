# SPDX-License-Identifier: Apache-2.0
"""Rotations between layers: found where they keep the outputs, tried, and repeated from a plan."""

from __future__ import annotations

import numpy as np
import pytest

import circlekit
from circlekit.errors import ModelError
from circlekit.quant import technique_search
from circlekit.quant.plan import Plan
from circlekit.quant.quantize import plan_model
from circlekit.quant.settings_search import LEAST_GAIN_DB
from circlekit.quant.techniques.rotation import Rotation, find_rotations, hadamard, rotate
from circlekit.testing import tflite_of

ATTENTION = """
graph main(%x: f32[1,6,16]) -> %y {
  %v = FullyConnected(%x, %vw, [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8,
       0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8]) {keep_num_dims: true}
  %h = Reshape(%v, [1, 6, 2, 8])
  %t = Transpose(%h, [0, 2, 1, 3])
  %m = BatchMatMul(%p, %t)
  %s = Transpose(%m, [0, 2, 1, 3])
  %r = Reshape(%s, [1, 6, 16])
  %y = FullyConnected(%r, %ow, none) {keep_num_dims: true}
}
"""
CONSTANTS = """
  %vw = const f32[16,16] gaussian(0, 0.3)
  %ow = const f32[12,16] gaussian(0, 0.3)
  %p = const f32[1,2,6,6] uniform(0, 0.3)
"""


def net(act: str = "NONE", heads: int = 2) -> circlekit.Model:
    """Return a net: a layer with the activation ``act``, attention of ``heads`` on its result, a projection.

    Two columns of the weights of the projection are 16 times as large.
    """
    text = ATTENTION.replace("-> %y {", "-> %y {" + CONSTANTS).replace(
        "{keep_num_dims: true}\n  %h", f"{{keep_num_dims: true, act: {act}}}\n  %h"
    )
    text = text.replace("6, 2, 8]", f"6, {heads}, {16 // heads}]").replace("f32[1,2,6", f"f32[1,{heads},6")
    model = circlekit.parse(text)
    weights = model.main.ops[-1].inputs[1]
    assert weights is not None
    array = weights.array().copy()
    array[:, [3, 12]] *= 16
    weights.data = array
    return model


def samples(count: int = 8) -> list[list[np.ndarray]]:
    random = np.random.default_rng(2)
    return [[random.normal(0, 1, (1, 6, 16)).astype(np.float32)] for _ in range(count)]


def test_a_hadamard_matrix_is_orthogonal() -> None:
    np.testing.assert_allclose(hadamard(8) @ hadamard(8).T, np.eye(8), atol=1e-12)


@pytest.mark.parametrize(("heads", "block"), [(2, 8), (4, 4)])
def test_heads_are_rotated_alone_and_the_outputs_stay(heads: int, block: int) -> None:
    model, data = net(heads=heads), samples()
    expected = circlekit.run(model, data[1])[0]
    (rotation,) = find_rotations(model, data[0])
    assert (rotation.first, rotation.second, rotation.start, rotation.block) == ("v", "y", 0, block)
    rotate(model, [rotation])
    np.testing.assert_allclose(circlekit.run(model, data[1])[0], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("factor", [2.0**-12, 2.0**12])
def test_outputs_of_any_size_may_change_by_a_part_of_their_size(factor: float) -> None:
    model = net()
    weights = model.main.ops[-1].inputs[1]
    assert weights is not None
    weights.data = (weights.array() * factor).astype(np.float32)
    assert find_rotations(model, samples()[0]) == find_rotations(net(), samples()[0]) != []


@pytest.mark.parametrize("which", ["first", "second"])
def test_layers_to_rotate_must_exist(which: str) -> None:
    model = net()
    (rotation,) = find_rotations(model, samples()[0])
    with pytest.raises(ModelError, match=r"no layer to rotate is named %other$"):
        rotate(
            model,
            [rotation._replace(first="other") if which == "first" else rotation._replace(second="other")],
        )


@pytest.mark.parametrize("start", [8, -8])
def test_rotated_channels_must_exist(start: int) -> None:
    """The first layer has 16 output channels, the second 16 input channels."""
    message = f"expected 16 of the 16 channels of %v, which %y reads, got channels {start} to {start + 15}"
    with pytest.raises(ModelError, match=message):
        rotate(net(), [Rotation("v", "y", start, 8)])


TWO_LAYERS = """graph main(%x: f32[2,12]) -> %y {
  %w = const f32[12,12] gaussian(0, 1)
  %v = FullyConnected(%x, %w, none)
  %u = const f32[4,12] gaussian(0, 1)
  %y = FullyConnected(%v, %u, none)
}"""


@pytest.mark.parametrize("block", [-4, 0, 3, 8, 12, 16, 1 << 40])
def test_a_block_is_a_power_of_2_that_divides_the_channels(block: int) -> None:
    with pytest.raises(ModelError, match=rf"a power of 2 that divides 12, .* %v and %y, got block {block}"):
        rotate(circlekit.parse(TWO_LAYERS), [Rotation("v", "y", 0, block)])


def test_blocks_of_one_channel_change_nothing() -> None:
    model, before = circlekit.parse(TWO_LAYERS), circlekit.parse(TWO_LAYERS)
    rotate(model, [Rotation("v", "y", 0, 1)])
    x = np.ones((2, 12), np.float32)
    np.testing.assert_array_equal(circlekit.run(model, [x])[0], circlekit.run(before, [x])[0])


def test_layers_with_shared_weights_are_not_rotated() -> None:
    model = circlekit.parse(TWO_LAYERS.replace("(%v, %u", "(%v, %w"))
    with pytest.raises(ModelError, match=r"no layer to rotate is named %v or %y"):
        rotate(model, [Rotation("v", "y", 0, 4)])


def test_heads_of_less_than_four_channels_are_not_rotated() -> None:
    assert find_rotations(net(heads=8), samples()[0]) == []


def test_nothing_is_rotated_across_a_function_of_single_channels() -> None:
    assert not find_rotations(net("RELU"), samples()[0])


def test_a_rotation_that_helps_is_kept_and_repeated_from_the_plan() -> None:
    model, other = net(), net()
    report = circlekit.quantize(model, "weight_int4", samples(24), seconds=100, passes=[])
    assert any("rotation of 1 pair of layers" in n and "better" in n for n in report.notes), report.notes
    circlekit.quantize(other, plan=report.plan)
    assert tflite_of(other) == tflite_of(model)


@pytest.mark.parametrize(("above", "is_kept"), [(0.0, False), (1e-6, True)])
def test_a_rotation_is_kept_only_above_the_least_gain(
    above: float, is_kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(technique_search, "paired_gain", lambda *_: LEAST_GAIN_DB + above)
    model = net()
    before = [value.array() for value in model.main.values() if value.is_const]
    search = technique_search.TechniqueSearch(
        model, samples(8), lambda m, ranges: plan_model(m, "weight_int4", ranges), None, seconds=100
    )
    search.trial_samples = search.samples
    search._rotate()
    (note,) = search.notes
    assert note.endswith("better" if is_kept else f", needed above {LEAST_GAIN_DB} dB")
    assert len(search.techniques) == is_kept
    after = [value.array() for value in model.main.values() if value.is_const]
    assert is_kept != all(map(np.array_equal, before, after))


@pytest.mark.parametrize(("count", "held"), [(3, 0), (4, 1), (7, 1), (8, 2), (9, 2)])
def test_a_quarter_of_the_samples_is_held_back_from_the_trial_of_a_rotation(
    count: int, held: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[int, int]] = []

    def outcome(
        self: technique_search.TechniqueSearch, model: circlekit.Model, samples: list[object], held: int
    ) -> list[object]:
        seen.append((len(samples), held))
        return [[(1.0, 1.0)]]

    monkeypatch.setattr(technique_search.TechniqueSearch, "_by_gptq", outcome)
    search = technique_search.TechniqueSearch(
        net(), samples(count), lambda *_: Plan("x", []), None, seconds=100
    )
    search.trial_samples = search.samples
    search._rotate()
    assert not search.techniques
    assert seen == ([(count, held)] * 2 if held else [])  # one trial without and one with the rotation
    search.without = ["rotation"]
    search._rotate()
    assert not search.techniques
    assert len(seen) == (2 if held else 0)


@pytest.mark.parametrize(("runs", "count"), [(2, 1), (3, 2)])
def test_the_search_ends_after_the_given_number_of_runs(runs: int, count: int) -> None:
    weights = "".join(f"%{name} = const f32[16,16] gaussian(0, 0.3) " for name in "uvw")
    layers = "%a = FullyConnected(%x, %u, none) %b = FullyConnected(%a, %v, none)"
    model = circlekit.parse(
        f"graph main(%x: f32[6,16]) -> %y {{ {weights} {layers} %y = FullyConnected(%b, %w, none) }}"
    )
    # each pair of layers takes two runs: one without the second layer, one with both
    assert len(find_rotations(model, [np.ones((6, 16), np.float32)], runs)) == count


def test_layers_of_float64_are_not_rotated() -> None:
    text = """
        graph main(%x: f32[2,8]) -> %y {
          %v = const f32[8,8] gaussian(0, 1)
          %w = const f32[4,8] gaussian(0, 1)
          %r = FullyConnected(%x, %v)
          %y = FullyConnected(%r, %w)
        }"""
    data = np.linspace(-1, 1, 16).reshape(2, 8)
    assert find_rotations(circlekit.parse(text), [data.astype(np.float32)])
    assert not find_rotations(circlekit.parse(text.replace("f32", "f64")), [data])
