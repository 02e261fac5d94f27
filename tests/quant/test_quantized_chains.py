# SPDX-License-Identifier: Apache-2.0
"""Random chains of operators, quantized: results near those of the float model and equal to LiteRT's."""

from __future__ import annotations

import random

import numpy as np
import pytest

import circlekit
from circlekit.equivalence.judgement.error_metrics import ErrorMetrics
from circlekit.ir.clone import clone
from circlekit.ir.dtypes import DType, f32, i16, u8
from circlekit.ir.value import Array
from circlekit.ir.verifier import check
from circlekit.quant.calibration.recorded_ranges import record_ranges
from circlekit.quant.one.settings import CHANNEL, LAYER, LayerSetting, Settings
from circlekit.quant.one.with_minmax import quantize_with_minmax
from circlekit.quant.plan import Plan
from circlekit.quant.scheme import SCHEMES
from circlekit.testing import is_available, run_litert, tflite_of
from tests.quant.one.one_models import on_floats
from tests.quant.random_chains import chain, samples

LEAST_DB = {
    "int8": 35,
    "int8_per_tensor": 35,
    "int16x8": 37,
    "uint8": 35,
    "dynamic_int8": 35,
    "weight_int4": 14,
}
"""{scheme: the smallest ratio of signal to quantization noise that is accepted, in dB}.

8 bits that cover the range of a tensor give about 45, 4 bits about 21; each layer of a chain adds its noise.
"""

WRONG_WITH_ONE = {"MAXIMUM", "AVERAGE_POOL_2D", "MAX_POOL_2D", "NEG"}
"""Operators whose operands and results get different scales from ONE, which their kernels ignore.

NEG has no quantized kernel.
"""


def sqnr(expected: Array, found: Array) -> float:
    """Return the ratio of signal to quantization noise in dB."""
    metrics = ErrorMetrics()
    metrics.add(expected, found)
    assert metrics.lost == 0
    assert metrics.sqnr is not None
    return metrics.sqnr


@pytest.mark.parametrize("scheme", LEAST_DB)
def test_schemes_keep_the_numbers_near_and_compute_as_litert(scheme: str) -> None:
    """In every second model, one operator may have another scheme or stay float.

    The others also run in LiteRT, if it is available and the scheme quantizes activations.
    """
    for seed in range(6):
        rng = random.Random(seed)
        model, given = chain(seed), samples(seed)
        expected = circlekit.run(model, given[0])[0]
        before, names = clone(model), [op.results[0].name for op in model.main]
        others = {rng.choice(names): rng.choice(["float", scheme, "int16x8", "weight_int8"])}
        is_mixed = seed % 2 == 0
        report = circlekit.quantize(
            model, scheme, given, auto=False, operators=others if is_mixed else None, passes=[]
        )
        check(model)
        found = circlekit.run(model, given[0])[0]
        assert sqnr(expected, found) > LEAST_DB[scheme], seed
        again = clone(before)
        circlekit.quantize(again, plan=Plan.from_json(report.plan.to_json()))
        np.testing.assert_array_equal(circlekit.run(again, given[0])[0], found)
        if is_available() and SCHEMES[scheme].activations is not None and not is_mixed:
            np.testing.assert_array_equal(run_litert(tflite_of(model), given[0])[0], found)


@pytest.mark.parametrize(("default", "other"), [(u8, i16), (i16, u8), (i16, i16), (u8, u8)])
@pytest.mark.parametrize("granularity", [LAYER, CHANNEL])
def test_the_quantizer_of_one_keeps_the_numbers_near(default: DType, other: DType, granularity: str) -> None:
    """Some operators have the dtype ``other``; inputs and outputs have any dtype."""
    for seed in range(12):
        rng = random.Random(seed)
        model, given = chain(seed), samples(seed)
        if any(op.code in WRONG_WITH_ONE for op in model.main):
            continue
        expected = circlekit.run(model, given[0])[0]
        record_ranges(model, circlekit.calibrate(model, given))
        layers = {op.results[0].name: LayerSetting(other, CHANNEL) for op in model.main if rng.random() < 0.4}
        ports = [rng.choice([None, [u8], [i16], [f32]]) for _ in range(2)]
        setting = LayerSetting(default, CHANNEL if default is i16 else granularity)
        quantize_with_minmax(model, Settings(setting, [layers], ports[0], ports[1]))
        check(model)
        for value, port in zip((*model.main.inputs, *model.main.outputs), ports, strict=True):
            assert value.dtype is (port[0] if port else default)
        is_wide = default is other is i16 and [u8] not in ports
        assert sqnr(expected, on_floats(model, given[0][0])[0]) > (75 if is_wide else 30), seed
