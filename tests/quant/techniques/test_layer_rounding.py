# SPDX-License-Identifier: Apache-2.0
"""Rounding of the weights of layers, compared with numpy; corrected biases keep the means of outputs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import circlekit as ck
from circlekit.ir.dtypes import DType
from circlekit.ir.graph import Model
from circlekit.ir.value import Array
from circlekit.quant.apply import apply
from circlekit.quant.plan import Plan, TensorForm
from circlekit.quant.quantize import plan_model
from circlekit.quant.techniques import layer_rounding
from circlekit.quant.techniques.gptq import factored, gptq, inverse_factor
from circlekit.quant.techniques.layer_rounding import LayerData, correct_bias, layer_data, round_nearest
from circlekit.quant.techniques.layer_sweep import Sweep, stream_bytes
from circlekit.quant.techniques.linear_layer import linear_layer

NET = """
graph main(%x: f32[5,64]) -> %y {
  %w = const f32[8,64] gaussian(0, 1)
  %b = const f32[8] gaussian(0, 1)
  %y = FullyConnected(%x, %w, %b)
}
"""
BLOCK = 32
FORMS = {"channel": "weight_int4", "tensor": "weight_int4", "block": "weight_int4_block32"}


def planned(kind: str) -> tuple[Model, Plan]:
    """Return the net and a plan in which its weights have a scale for each ``kind``."""
    model = ck.parse(NET)
    plan = plan_model(model, FORMS[kind], [])
    if kind == "tensor":
        forms = plan.main.operators["y"].operands
        forms[1] = replace(forms[1], scale=(max(forms[1].scale),), zero_point=(0,))
    return model, plan


def samples(count: int) -> list[list[Array]]:
    return [[np.random.default_rng(i).normal(0.5, 1, (5, 64)).astype(np.float32)] for i in range(count)]


def constant(model: Model, index: int) -> Array:
    value = model.main.ops[0].inputs[index]
    assert value is not None
    return value.array()


def scales_of(plan: Plan) -> Array:
    """Return the planned scale of each weight."""
    form = plan.main.operators["y"].operands[1]
    scales = np.repeat(form.scales, BLOCK) if form.block else form.scales
    return np.broadcast_to(scales.reshape(-1, 64 if form.block else 1), (8, 64))


@pytest.mark.parametrize("kind", FORMS)
def test_a_sweep_rounds_weights_with_the_scale_of_their_channel_tensor_or_block(kind: str) -> None:
    model, plan = planned(kind)
    before = plan.main.operators["y"].operands[1]
    Sweep(model, plan, samples(2), 0, {"rounding": round_nearest}).run()
    after = plan.main.operators["y"].operands[1]
    assert (after.scale, after.block, after.dtype) == (before.scale, before.block, before.dtype)
    assert len(after.scale) == {"channel": 8, "tensor": 1, "block": 16}[kind]  # 8 * 64 / 32 blocks
    expected = np.clip(np.rint(constant(model, 1) / scales_of(plan)), -7, 7)
    np.testing.assert_array_equal(plan.main.constants["w"], expected)
    np.testing.assert_array_equal(plan.main.constants["b"], constant(model, 2))


@pytest.mark.parametrize("kind", ["channel", "tensor"])
def test_corrected_biases_keep_the_means_of_outputs(kind: str) -> None:
    model, plan = planned(kind)
    data = samples(4)
    Sweep(model, plan, data, 0, {"bias correction": correct_bias}).run()
    quantized = ck.parse(NET)
    apply(quantized, plan)
    before, after = ([ck.run(net, sample)[0] for sample in data] for net in (model, quantized))
    np.testing.assert_allclose(np.mean(after, axis=(0, 1)), np.mean(before, axis=(0, 1)), atol=1e-4)


CHAIN = """
graph main(%x: f32[5,64]) -> %y {
  %w = const f32[8,64] gaussian(0, 1)
  %b = const f32[8] gaussian(0, 1)
  %h = FullyConnected(%x, %w, %b) {act: RELU}
  %v = const f32[64,8] gaussian(0, 1)
  %c = const f32[64] gaussian(0, 1)
  %y = FullyConnected(%h, %v, %c)
}
"""


def test_corrected_biases_keep_means_behind_a_layer_whose_means_move() -> None:
    """The rounding of the first layer moves the means of its RELU."""
    model, quantized, data = ck.parse(CHAIN), ck.parse(CHAIN), samples(4)
    plan = plan_model(model, "weight_int4", [])
    Sweep(model, plan, data, 0, {"bias correction": correct_bias}).run()
    apply(quantized, plan)
    before, after = ([ck.run(net, sample)[0] for sample in data] for net in (model, quantized))
    np.testing.assert_allclose(np.mean(after, axis=(0, 1)), np.mean(before, axis=(0, 1)), atol=1e-4)


@pytest.mark.parametrize("held", [0, 1, 2])
@pytest.mark.parametrize("kind", FORMS)
def test_errors_are_those_of_held_back_outputs_in_decibels(kind: str, held: int) -> None:
    """The last samples are held back; if there are none, the errors of all count."""
    model, plan = planned(kind)
    data = samples(4)
    techniques = {"rounding": round_nearest, "bias correction": correct_bias}
    sweep = Sweep(model, plan, data, held, techniques)
    sweep.run()
    (choice,) = sweep.choices
    weights, scales = constant(model, 1), scales_of(planned(kind)[1])
    rounded = np.clip(np.rint(weights / scales), -7, 7) * scales
    rows = np.concatenate([sample[0] for sample in data[-held:]])  # all if ``held`` is 0
    wrong, wanted = rows @ (rounded - weights).T, rows @ weights.T + constant(model, 2)
    expected = 10 * np.log10(np.square(wrong).sum() / np.square(wanted).sum())
    assert choice.errors["rounding"] == pytest.approx(expected, abs=1e-3)
    assert choice.errors[choice.chosen] == min(choice.errors.values())


def test_the_memory_of_a_sweep_is_that_of_the_largest_operator_in_both_models() -> None:
    """The estimate is twice the bytes of operands and results; it is never 0, so callers may divide by it."""
    # twice, 2 models, 4 bytes, 5 rows, 64 inputs and 8 outputs
    assert stream_bytes(ck.parse(CHAIN)) == pytest.approx(2 * 2 * 4 * 5 * (64 + 8), abs=1)
    assert stream_bytes(ck.parse("graph main(%x: f32[0]) -> %y { %y = Neg(%x) }")) > 0
    assert stream_bytes(ck.parse("graph main(%x: f32[2]) -> %x { }")) > 0


def layer(depth: int) -> LayerData:
    """Return a layer with ``depth`` inputs and 3 outputs, and 50 rows of inputs."""
    random = np.random.default_rng(depth)
    rows = random.normal(0, 1, (1, 50, depth))
    weights, scale = random.normal(0, 1, (1, 3, depth)), np.full((1, 3, depth), 0.3)
    mean = rows.mean(axis=1)
    return LayerData(weights, np.zeros((1, 3)), mean, mean, rows, rows, scale, (-7, 7))


@pytest.mark.parametrize("depth", range(1, 25))
def test_deep_layers_are_divided_into_the_fewest_equal_parts(
    depth: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layer_rounding, "MOST_COLUMNS", 6)
    data = layer(depth)
    assert data.parts == min(depth // columns for columns in range(1, 7) if depth % columns == 0)
    np.testing.assert_array_equal(data.joined(data.split(data.weights)), data.weights)


def test_each_part_of_a_layer_is_rounded_without_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layer_rounding, "MOST_COLUMNS", 6)
    monkeypatch.setattr(layer_rounding, "refine", lambda integers, *_: integers)
    data = layer(12)
    fit = layer_rounding.round_by_gptq(data)
    rows = data.rows - data.rows.mean(axis=1, keepdims=True)
    for part in (slice(0, 6), slice(6, 12)):
        hessian = factored(rows[:, :, part].swapaxes(1, 2) @ rows[:, :, part])
        alone = gptq(data.weights[:, :, part], hessian, data.clipped_scale[:, :, part], data.limits)
        np.testing.assert_array_equal(fit.integers[:, :, part], alone)


@pytest.mark.parametrize("damping", [0.0, 0.01])
def test_the_damping_grows_tenfold_until_the_factor_exists(damping: float) -> None:
    """The eigenvalues are 2.05 and -0.05.  Of the powers of 10, 0.1 is the first damping that suffices."""
    hessian = np.array([[[1, 1.05], [1.05, 1]]])
    factor = inverse_factor(hessian, damping)[0]
    np.testing.assert_allclose(factor.T @ factor @ (hessian[0] + 0.1 * np.eye(2)), np.eye(2), atol=1e-9)
    assert factor[1, 0] == 0


def test_the_range_of_weights_is_clipped_for_the_inputs_that_matter() -> None:
    """Each output has the scale of the least squared error, weighted by the variances of the inputs."""
    data = layer(16)
    powers = 10.0 ** np.linspace(-2, 2, 16)
    data.rows = data.rows * np.sqrt(powers)
    data.scale = np.abs(data.weights).max(axis=2, keepdims=True) / 7 * np.ones((1, 1, 16))
    importance = np.square(data.rows - data.rows.mean(axis=1, keepdims=True)).sum(axis=1)[0]

    def error(scale: Array) -> Array:
        wrong = np.clip(np.rint(data.weights / scale), -7, 7) * scale - data.weights
        return np.asarray((np.square(wrong) * importance).sum(axis=2))

    least = np.min([error(data.scale * shrinkage) for shrinkage in layer_rounding.SHRINKAGES], axis=0)
    assert (error(data.clipped_scale) <= 1.01 * least).all()
    assert (error(data.clipped_scale) < error(data.scale)).any()


def test_weights_of_inputs_that_do_not_vary_count_a_little() -> None:
    """Only input 0, which is constant, has a weight other than 0; a smaller scale would clip this weight."""
    data = layer(4)
    data.rows[..., 0] = 1
    data.weights = np.where(np.arange(4) == 0, data.weights, 0)
    data.scale = np.abs(data.weights[..., :1]) / 7 * np.ones((1, 1, 4))
    np.testing.assert_array_equal(data.clipped_scale, data.scale)


@pytest.mark.parametrize(("is_per_channel", "block"), [(True, 0), (False, 0), (True, 4)])
def test_gptq_changes_scales_only_if_each_output_has_one_of_its_own(is_per_channel: bool, block: int) -> None:
    data = replace(layer(8), is_per_channel=is_per_channel, block=block)
    fit = layer_rounding.round_by_gptq(data)
    assert np.array_equal(fit.scale, data.clipped_scale) == (not is_per_channel or block > 0)
    assert is_per_channel or np.array_equal(fit.scale, data.scale)


@pytest.mark.parametrize(("outputs", "scales"), [(4, 1), (4, 4), (1, 1)])
@pytest.mark.parametrize("narrow", [False, True])
def test_the_data_of_a_layer_are_those_of_its_constants_and_its_form(
    outputs: int, scales: int, narrow: bool
) -> None:
    weights = f"%w = const f32[{outputs},3] gaussian(0, 1)"
    model = ck.parse(f"graph main(%x: f32[1,3]) -> %y {{ {weights} %y = FullyConnected(%x, %w) }}")
    found = linear_layer(model.main.ops[0])
    assert found is not None
    form = TensorForm(DType.INT8, (0.5, 0.25, 0.125, 1.0)[:scales], (0,) * scales, narrow=narrow)
    means, rows = np.arange(6.0).reshape(2, 1, 3), np.arange(12.0).reshape(2, 1, 2, 3)
    data = layer_data(found, form, means, rows)
    np.testing.assert_array_equal(data.weights[0], found.weights.array())
    np.testing.assert_array_equal([data.float_mean, data.mean], means)
    np.testing.assert_array_equal([data.float_rows, data.rows], rows)
    np.testing.assert_array_equal(data.scale[0, :, 0], np.resize(form.scale, outputs))
    assert (data.limits, data.block) == ((-127 if narrow else -128, 127), 0)
    assert (data.is_per_channel, data.has_bias) == (scales == outputs, False)
    assert not data.bias.any()
