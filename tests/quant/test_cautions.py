# SPDX-License-Identifier: Apache-2.0
"""Operators whose integer kernels are far off for some operands are quantized, and the report says so."""

from __future__ import annotations

import numpy as np
import pytest

import circlekit
from circlekit.quant.quantization_report import QuantizationReport

CAUTION = "RSQRT of int16 is far off in LiteRT where operands are below 1/256 of their range"
NUMBERS = np.linspace(0, 1, 4096, dtype=np.float32).reshape(1, -1)[:, 1:]


TEXT = "graph main(%x: f32[1,4095], %w: f32[1,4095]) -> %y, %z { %y = Rsqrt(%x)\n %z = Rsqrt(%w) }"


def quantized(
    scheme: str, operators: dict[str, str] | None = None
) -> tuple[QuantizationReport, circlekit.Model]:
    model = circlekit.parse(TEXT)
    return circlekit.quantize(model, scheme, [[NUMBERS, NUMBERS]], operators=operators, auto=False), model


@pytest.mark.parametrize("scheme", ["int16x8", "one_int16"])
def test_rsqrt_of_int16_is_reported_also_from_a_plan(scheme: str) -> None:
    """A plan of ONE's scheme one_int16 cannot be applied."""
    report, _ = quantized(scheme)
    assert any(note.endswith(f" and 1 more: {CAUTION}") for note in report.notes)
    if scheme == "int16x8":
        again = circlekit.quantize(circlekit.parse(TEXT), plan=report.plan)
        assert any(note.endswith(f" and 1 more: {CAUTION}") for note in again.notes)


@pytest.mark.parametrize(
    ("scheme", "operators"), [("int8", None), ("int16x8", {"RSQRT": "float"}), ("weight_int8", None)]
)
def test_other_rsqrt_is_not_reported(scheme: str, operators: dict[str, str] | None) -> None:
    assert not any(CAUTION in note for note in quantized(scheme, operators)[0].notes)


def test_only_operands_below_a_256th_are_far_off() -> None:
    _, model = quantized("int16x8", {"z": "float"})
    found, exact = circlekit.run(model, [NUMBERS, NUMBERS])
    error = np.abs(found / exact - 1)[0]
    small = NUMBERS[0] < 1 / 256
    assert error[~small].max() < 0.05
    assert error[small].max() > 0.2
