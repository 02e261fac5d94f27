# SPDX-License-Identifier: Apache-2.0
"""Forms of constant weights: what they save in the file."""

from __future__ import annotations

import pytest

import circlekit
from circlekit.errors import UnsupportedError
from circlekit.quant.scheme import SCHEMES
from circlekit.quant.weights import (
    BYTES_OF_DEQUANTIZE,
    block_form,
    saved_bytes,
    stored_constants,
    weight_form,
)


def savings(scheme: str, units: int) -> tuple[int, int]:
    """Return by how many bytes the weights, and the file, shrink in ``scheme``."""
    weights = f"%w = const f32[{units},128] gaussian(0, 1)"
    model = circlekit.parse(
        f"graph main(%x: f32[1,128]) -> %y {{ {weights}\n  %y = FullyConnected(%x, %w) }}"
    )
    value, form = model.main.ops[0].inputs[1], SCHEMES[scheme]
    assert value is not None
    plan = block_form(value, form) if form.block else weight_form(value, form, 0)
    expected = saved_bytes(value, plan, form)
    report = circlekit.quantize(model, scheme)
    before, after = report.before.file_size, report.after.file_size
    assert before is not None
    assert after is not None
    return expected, before - after


@pytest.mark.parametrize("shape", ["32", "2,48", "2,32,32"])
def test_blocks_divide_the_rows_of_a_matrix(shape: str) -> None:
    model = circlekit.parse(f"graph main() -> %w {{ %w = const f32[{shape}] gaussian(0, 1) }}")
    with pytest.raises(UnsupportedError, match="expected rows of whole blocks of 32, got"):
        block_form(model.main.outputs[0], SCHEMES["weight_int4_block32"])


@pytest.mark.parametrize("scheme", ["dynamic_int8", "weight_int4", "weight_int4_block32"])
def test_the_bytes_that_a_form_saves_are_those_of_the_file(scheme: str) -> None:
    """Exact for each unit; what a quantized operator adds to the file is estimated."""
    (less, in_small_file), (more, in_large_file) = savings(scheme, 32), savings(scheme, 64)
    assert more - less == in_large_file - in_small_file
    assert abs(less - in_small_file) < 200


@pytest.mark.parametrize("more", [-2, -1, 0, 1, 2])
def test_float16_stores_the_constants_of_other_operators_that_save_bytes(more: int) -> None:
    count = BYTES_OF_DEQUANTIZE // 2 + more
    constant = f"%c = const f32[{count}] gaussian(0, 1)"
    (op,) = circlekit.parse(f"graph main(%x: f32[{count}]) -> %y {{ {constant}\n %y = Add(%x, %c) }}").main
    value, scheme = op.inputs[1], SCHEMES["float16"]
    assert value is not None
    saves = saved_bytes(value, weight_form(value, scheme, None), scheme) > 0
    assert saves == (more > 0)
    assert stored_constants(op, scheme) == ({1: None} if saves else {})
    assert stored_constants(op, SCHEMES["weight_int8"]) == {}
