# SPDX-License-Identifier: Apache-2.0
"""Techniques that scale channels between layers keep the outputs of random chains of operators."""

from __future__ import annotations

import numpy as np

import circlekit
from circlekit.api.one_tools import equalize_feature_maps
from circlekit.interp.evaluate import evaluate
from circlekit.ir.clone import clone
from circlekit.ir.enums import Activation
from circlekit.ir.graph import Model
from circlekit.ir.value import Array, Value
from circlekit.ir.verifier import check
from circlekit.quant.calibration import collect
from circlekit.quant.techniques.channel_flow import channel_flows
from circlekit.quant.techniques.equalization import channel_magnitudes, equalize
from circlekit.quant.techniques.linear_layer import linear_layer
from tests.quant.random_chains import CHAINS, chain, samples

TOLERANCE = 1e-5
"""Largest difference, relative to the largest magnitude."""


def assert_close(found: Array, expected: Array) -> None:
    """Assert that arrays of the same shape differ by at most TOLERANCE."""
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=0, atol=TOLERANCE * float(np.abs(expected).max()))


def expect_equal(model: Model, before: Model, given: list[list[Array]]) -> None:
    """Expect that ``model`` is valid, and computes the outputs of ``before`` on the records ``given``."""
    check(model)
    for sample in given:
        (expected,), (found,) = circlekit.run(before, sample), circlekit.run(model, sample)
        assert_close(found, expected)


def test_scaled_channels_keep_the_outputs() -> None:
    """Most chains have channels that can be scaled; more than a quarter have patterns of fm-equalize."""
    scaled, patterns = 0, 0
    for seed in range(CHAINS):
        before, given = chain(seed), samples(seed)
        model = clone(before)
        scaled += bool(equalize(model, channel_magnitudes(collect(model, given, channels=True))))
        expect_equal(model, before, given)
        model = clone(before)
        patterns += bool(equalize_feature_maps(model, given, allow_copies=True))
        expect_equal(model, before, given)
    assert scaled > CHAINS / 2
    assert patterns > CHAINS / 4


def _numbers(value: Value | None, rng: np.random.Generator) -> Array | None:
    """Return the data of a constant, random numbers for any other value, and None for None."""
    if value is None or value.is_const:
        return None if value is None else value.array()
    return rng.normal(0, 1, value.static_shape).astype(np.float32)


def test_scaled_operands_of_flows_give_scaled_results() -> None:
    """If a flow ``is_alone``, as in MUL, its operand is scaled alone; else, as in ADD, those of all flows."""
    measured = 0
    for seed in range(CHAINS):
        for op in chain(seed).main:
            rng = np.random.default_rng(seed)
            arrays = [_numbers(value, rng) for value in op.inputs]
            flows = channel_flows(op) or []
            for chosen in [[f] for f in flows if f.is_alone] or ([flows] if flows else []):
                factors = rng.uniform(0.5, 2, 6)
                scaled, wanted = list(arrays), np.ones(6)
                for flow in chosen:
                    operand = arrays[flow.operand]
                    assert operand is not None
                    scaled[flow.operand] = (operand * factors).astype(np.float32)
                    used = flow.channels >= 0
                    wanted[used] = factors[flow.channels[used]]
                before, after = evaluate(op, arrays)[0], evaluate(op, scaled)[0]
                assert_close(after, before * wanted)
                measured += 1
    assert measured > CHAINS / 2


def test_rows_times_matrices_are_the_results_of_layers() -> None:
    """``rows`` [groups, n, depth] times transposed ``matrices`` [groups, outputs, depth] are the results.

    ``mean_row`` equals the mean of the rows, and ``from_matrices`` undoes ``matrices``.
    """
    for seed in range(CHAINS):
        model = chain(seed)
        layer = linear_layer(model.main.ops[0])
        assert layer is not None
        layer.op.attribute_values = layer.op.attribute_values | {"act": Activation.NONE}
        (data,), output = samples(seed)[0], layer.op.output.static_shape
        rows, weights = layer.rows(data, output), layer.weights.array()
        matrices = layer.matrices(weights)
        products = (rows @ matrices.swapaxes(1, 2)).transpose(1, 0, 2).reshape(output)
        bias = layer.bias.array() if layer.bias is not None else 0
        rng = np.random.default_rng(0)
        operands = [data if v is layer.input else _numbers(v, rng) for v in layer.op.inputs]
        assert_close(products + bias, evaluate(layer.op, operands)[0])
        assert_close(layer.mean_row(data, output), rows.mean(axis=1))
        np.testing.assert_array_equal(layer.from_matrices(matrices), weights)


def test_channels_do_not_flow_if_their_number_is_unknown_or_there_is_no_element() -> None:
    for shape, line in (("2,?", "Reshape(%x, [2,-1])"), ("0,4", "Relu(%x)"), ("2,0", "Relu(%x)")):
        model = circlekit.parse(f"graph main(%x: f32[{shape}]) -> %y {{\n  %y = {line}\n}}")
        assert channel_flows(model.main.ops[0]) is None
        assert equalize(model, {"x": np.ones(4), "y": np.ones(4)}) == []
