# SPDX-License-Identifier: Apache-2.0
"""Techniques of rounding for a single layer: each lowers the error of the layer's outputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from circlekit.quant.techniques.gptq import damped, factored, gptq, refine, squared_errors
from circlekit.quant.techniques.layer_rounding import (
    LayerData,
    LayerFit,
    clip_weights,
    compensate,
    correct_bias,
    round_by_gptq,
    round_nearest,
)

Array = NDArray[Any]


@pytest.fixture
def layer() -> LayerData:
    """Return a layer with four outputs of depth 12; its rows are correlated and not centered."""
    rng = np.random.default_rng(1)
    mixing = rng.normal(0, 1, (12, 12))
    rows = (rng.normal(0.5, 1, (1, 400, 12)) @ mixing).astype(np.float32)
    weights = rng.normal(0, 1, (1, 4, 12))
    scale = np.abs(weights).max(axis=2, keepdims=True) / 7
    rounded = (rows @ (np.eye(12) + rng.normal(0, 0.05, (12, 12)))).astype(np.float32)
    return LayerData(
        weights,
        rng.normal(0, 1, (1, 4)),
        rows.mean(axis=1, dtype=np.float64),
        rounded.mean(axis=1, dtype=np.float64),
        rows,
        rounded,
        np.broadcast_to(scale, weights.shape),
        (-7, 7),
    )


def error(layer: LayerData, fit: LayerFit) -> float:
    """Return the mean square error of the layer's outputs."""
    wanted = layer.float_rows @ layer.weights.swapaxes(1, 2) + layer.bias[:, None]
    actual = layer.rows @ fit.weights.swapaxes(1, 2) + fit.bias[:, None]
    return float(np.square(wanted - actual).mean())


@pytest.mark.parametrize(
    ("better", "worse"),
    [(correct_bias, round_nearest), (compensate, correct_bias), (compensate, round_by_gptq)],
)
def test_each_technique_lowers_the_error_of_a_layer(
    layer: LayerData, better: Callable[[LayerData], LayerFit], worse: Callable[[LayerData], LayerFit]
) -> None:
    assert error(layer, better(layer)) < error(layer, worse(layer))


def test_gptq_lowers_the_error_that_rounding_adds(layer: LayerData) -> None:
    layer.rows, layer.mean = layer.float_rows, layer.float_mean
    assert error(layer, round_by_gptq(layer)) < error(layer, clip_weights(layer))


def test_clipping_lowers_the_square_error_of_weights(layer: LayerData) -> None:
    layer.weights[0, :, 0] *= 4  # outliers
    layer.scale = np.broadcast_to(np.abs(layer.weights).max(axis=2, keepdims=True) / 7, layer.weights.shape)
    layer.rows = np.random.default_rng(2).normal(0, 1, layer.rows.shape).astype(np.float32)
    plain, clipped = round_nearest(layer), clip_weights(layer)
    assert np.square(clipped.weights - layer.weights).sum() < np.square(plain.weights - layer.weights).sum()


@pytest.mark.parametrize(("part", "changes"), [(0.2, True), (0.3, False)])
def test_compensation_leaves_weights_for_noisy_inputs_as_they_are(
    layer: LayerData, part: float, changes: bool
) -> None:
    """``part``: the power of the noise in the inputs, divided by that of the signal."""
    noise = np.random.default_rng(3).normal(0, 1, layer.rows.shape)
    noise *= np.sqrt(part * layer.float_rows.var(axis=1).sum() / noise.var(axis=1).sum())
    layer.rows = (layer.float_rows + noise).astype(np.float32)
    same = np.array_equal(compensate(layer).integers, round_by_gptq(layer).integers)
    assert same is not changes


def test_compensation_leaves_weights_for_exact_inputs_as_they_are(layer: LayerData) -> None:
    layer.rows, layer.mean = layer.float_rows, layer.float_mean
    np.testing.assert_array_equal(compensate(layer).integers, round_by_gptq(layer).integers)


def test_bias_correction_keeps_the_mean_of_each_output(layer: LayerData) -> None:
    fit = correct_bias(layer)
    wanted = (layer.float_rows @ layer.weights.swapaxes(1, 2) + layer.bias[:, None]).mean(axis=1)
    actual = (layer.rows @ fit.weights.swapaxes(1, 2) + fit.bias[:, None]).mean(axis=1)
    np.testing.assert_allclose(actual, wanted, atol=1e-5)


def test_gptq_is_optimal_brain_quantization_in_its_order() -> None:
    """In each step, the oracle inverts the Hessian of the columns that remain."""
    rng = np.random.default_rng(3)
    rows = rng.normal(0, 1, (200, 6)) @ rng.normal(0, 1, (6, 6))
    hessian, target, step = rows.T @ rows, rng.normal(0, 1, (3, 6)), 0.3
    work, expected = target.copy(), np.zeros((3, 6))
    order = np.argsort(-np.diag(hessian), kind="stable")
    for place, column in enumerate(order):
        left = order[place:]
        inverse = np.linalg.inv(hessian[np.ix_(left, left)])
        expected[:, column] = np.clip(np.rint(work[:, column] / step), -7, 7)
        missed = work[:, column] - expected[:, column] * step
        work[:, left] -= np.outer(missed / inverse[0, 0], inverse[0])
    actual = gptq(target[None], factored(hessian[None], 0), np.full((1, 3, 6), step), (-7, 7))
    np.testing.assert_array_equal(actual[0], expected)


def test_refinement_never_raises_the_error(layer: LayerData) -> None:
    steps = np.array(layer.scale)
    first = np.clip(np.rint(layer.weights / steps), -7, 7)
    second = refine(first, layer.weights, layer.hessian, steps, (-7, 7))

    def quadratic(integers: Array) -> Array:
        missed = layer.weights - integers * steps
        return np.asarray(((missed @ layer.hessian) * missed).sum(axis=2))

    assert np.all(quadratic(second) <= quadratic(first))
    assert np.any(quadratic(second) < quadratic(first))


def test_gptq_keeps_the_best_of_several_scales(layer: LayerData, monkeypatch: pytest.MonkeyPatch) -> None:
    """No output has a larger error than with the first scale alone; some have a smaller one."""
    singular = replace(layer, rows=layer.rows * (np.arange(12) != 5))  # a dead input
    empty = replace(
        layer, weights=layer.weights * np.array([0.0, 1, 1, 1])[:, None]
    )  # an output without weights
    for data in (layer, singular, empty):
        errors = []
        for factors in (np.ones(1), np.linspace(1.0, 1.08, 9)):
            monkeypatch.setattr("circlekit.quant.techniques.layer_rounding.ENLARGEMENTS", factors)
            fit = round_by_gptq(replace(data))
            assert np.isfinite(fit.weights).all()
            assert np.array_equal(fit.scale, np.broadcast_to(fit.scale[..., :1], fit.scale.shape))
            assert np.abs(fit.integers).max() <= 7
            errors.append(squared_errors(fit.integers, data.weights, damped(data.hessian, 0.001), fit.scale))
        assert (errors[1] <= errors[0] * (1 + 1e-9)).all()
        assert errors[1].sum() < errors[0].sum()


def test_the_error_of_integers_is_that_of_the_outputs(layer: LayerData) -> None:
    fit = round_by_gptq(layer)
    rows = layer.rows - layer.rows.mean(axis=1, keepdims=True)
    wrong = rows @ (layer.weights - fit.weights).swapaxes(1, 2)
    actual = squared_errors(fit.integers, layer.weights, layer.hessian, fit.scale)
    assert actual == pytest.approx(np.square(wrong).sum(axis=1), rel=1e-4)
