# SPDX-License-Identifier: Apache-2.0
"""Techniques that change the float model keep its outputs, with every operator of one or two float operands.

The operator is between two layers; its operands are results of layers, and constants.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import circlekit
from circlekit.api.one_tools import equalize_feature_maps
from circlekit.errors import CirclekitError
from circlekit.ir.clone import clone
from circlekit.ir.dtypes import f32
from circlekit.ir.graph import Model
from circlekit.ir.op import REGISTRY, Op
from circlekit.ir.value import Array
from circlekit.quant.calibration import collect
from circlekit.quant.techniques.equalization import channel_magnitudes, equalize
from circlekit.quant.techniques.rotation import find_rotations, rotate

NET = """
graph main(%x: f32[1,3,3,4]) -> %y, %z {{
  %va = const f32[8,1,1,4] gaussian(0, 1)
  %vb = const f32[8,1,1,4] gaussian(0, 1)
  %wy = const f32[8,1,1,8] gaussian(0, 1)
  %wz = const f32[8,1,1,8] gaussian(0, 1)
  %bias = const f32[8] gaussian(2, 0.5)
  %c = const f32[8] gaussian(2, 0.5)
  %k = const f32[1,3,3,8] gaussian(2, 0.5)
  %a = Conv2D(%x, %va) {{act: {act}}}
  %b = Conv2D(%x, %vb, %bias) {{act: RELU}}
  %m = {line}
  %y = Conv2D(%m, %wy)
  %z = Conv2D(%b, %wz)
}}
"""
OPERANDS = ("%a", "%a, %b", "%b, %a", "%a, %a", "%a, %c", "%c, %a", "%a, %k", "%k, %a")
SCALES = 2.0 ** np.arange(8).reshape(8, 1, 1, 1)
"""The weights of the first layers are divided by these; the magnitudes of channels then differ."""

KINDS = [
    kind
    for kind in REGISTRY.values()
    if 1 <= len(kind.operands) <= 2 and all(f32 in operand.dtypes for operand in kind.operands)
]


def nets(kind: type[Op]) -> Iterator[tuple[Model, list[Array], list[Array]]]:
    """Yield the nets that have an operator of ``kind`` between the layers, their inputs and outputs."""
    inputs = [np.random.default_rng(1).normal(0, 1, (1, 3, 3, 4)).astype(np.float32)]
    for operands in OPERANDS:
        for act in ("NONE", "RELU"):
            try:
                model = circlekit.parse(NET.format(line=f"{kind.__name__}({operands})", act=act))
                values = {value.name: value for value in model.main.values()}
                if values["m"].dtype is not f32:
                    continue
                for name in ("va", "vb"):
                    values[name].data = np.asarray(values[name].array() / SCALES, np.float32)
                outputs = circlekit.run(model, inputs)
            except CirclekitError:
                continue
            if all((np.abs(output) < 1e6).all() for output in outputs):
                yield model, inputs, outputs


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_equalized_and_rotated_models_compute_the_same(kind: type[Op]) -> None:
    were_equalized = []
    for model, inputs, outputs in nets(kind):
        magnitudes = channel_magnitudes(collect(model, [inputs], channels=True))
        for change in ("channels", "feature maps", "rotation"):
            changed = clone(model)
            if change == "channels":
                were_equalized.append(bool(equalize(changed, magnitudes)))
            elif change == "feature maps":
                equalize_feature_maps(changed)
            else:
                rotate(changed, find_rotations(changed, inputs))
            for wanted, got in zip(outputs, circlekit.run(changed, inputs), strict=True):
                np.testing.assert_allclose(got, wanted, rtol=1e-3, atol=1e-3 * np.abs(wanted).max())
    # at least one net was equalized, or there is no net with this operator
    assert any(were_equalized) or not were_equalized
