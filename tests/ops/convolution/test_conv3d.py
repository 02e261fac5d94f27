# SPDX-License-Identifier: Apache-2.0
"""Convolutions over volumes against LiteRT's reference kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from circlekit.errors import ShapeError, UnsupportedError
from circlekit.ir.dtypes import f32
from circlekit.ir.enums import Activation, Padding
from circlekit.ir.value import Array, Value
from circlekit.ops.convolution.conv import Conv3D, Conv3DTranspose
from tests.ops.litert import check, const, var


def normal(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def attributes(seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    drawn = {f"stride_{a}": int(rng.integers(1, 3)) for a in "dhw"}
    return {**drawn, "padding": (Padding.SAME, Padding.VALID)[seed % 2]}


@pytest.mark.parametrize("seed", range(8))
def test_conv_3d(seed: int) -> None:
    rng = np.random.default_rng(seed)
    taps = [int(t) for t in rng.integers(1, 4, 3)]
    dilations: dict[str, Any] = {f"dilation_{a}": int(rng.integers(1, 3)) for a in "dhw"}
    x = normal(seed, 2, 6, 7, 8, 3)
    bias = const(normal(seed + 2, 4)) if seed % 3 else None
    op = Conv3D(
        var(x),
        const(normal(seed + 1, *taps, 3, 4)),
        bias,
        act=Activation.RELU,
        **attributes(seed),
        **dilations,
    )
    check(op, x)


@pytest.mark.parametrize("seed", range(8))
def test_conv_3d_transpose(seed: int) -> None:
    taps = [int(t) for t in np.random.default_rng(seed).integers(1, 4, 3)]
    x, given = normal(seed, 1, 3, 2, 4, 3), attributes(seed)
    same = given["padding"] is Padding.SAME
    size = [
        n * given[f"stride_{a}"] if same else (n - 1) * given[f"stride_{a}"] + t
        for n, a, t in zip((3, 2, 4), "dhw", taps, strict=True)
    ]
    shape = const([1, *size, 5], np.int32)
    bias = const(normal(seed + 2, 5)) if seed % 3 else None
    check(Conv3DTranspose(shape, const(normal(seed + 1, *taps, 5, 3)), var(x), bias, **given), x)


def test_refusals() -> None:
    x = Value("", f32, (1, 4, 4, 4, 3))
    with pytest.raises(ShapeError, match="input has 3 channels, expected 2, as the filter has"):
        Conv3D(x, Value("", f32, (1, 1, 1, 2, 4)))
    with pytest.raises(ShapeError, match="input has 3 channels, expected 2, as the filter has"):
        Conv3DTranspose(const([1, 4, 4, 4, 4], np.int32), Value("", f32, (1, 1, 1, 4, 2)), x)
    with pytest.raises(ShapeError, match=r"expected strides of at least 1, got \(1, 0, 1\)"):
        Conv3DTranspose(const([1, 4, 4, 4, 4], np.int32), Value("", f32, (1, 1, 1, 4, 3)), x, stride_h=0)
    with pytest.raises(ShapeError, match=r"expected dilations of at least 1, got \(0, 1, 1\)"):
        Conv3DTranspose(const([1, 4, 4, 4, 4], np.int32), Value("", f32, (1, 1, 1, 4, 3)), x, dilation_d=0)
    op = Conv3D(x, Value("", f32, (1, 1, 1, 3, 4)))
    with pytest.raises(UnsupportedError, match="CONV_3D on float32, int8 has no kernel"):
        op.kernel(np.ones((1, 4, 4, 4, 3), np.float32), np.ones((1, 1, 1, 3, 4), np.int8))


def test_macs() -> None:
    """CONV_3D has result elements * taps * input channels.

    CONV_3D_TRANSPOSE has input elements * taps * output channels.
    """
    x = Value("", f32, (1, 4, 4, 4, 3))
    assert Conv3D(x, Value("", f32, (2, 2, 2, 3, 5)), padding=Padding.VALID).macs() == 27 * 5 * 8 * 3
    shape = const([1, 5, 5, 5, 7], np.int32)
    op = Conv3DTranspose(shape, Value("", f32, (2, 2, 2, 7, 3)), x, padding=Padding.VALID)
    assert op.macs() == 64 * 3 * 8 * 7
    assert op.output.shape == (1, 5, 5, 5, 7)
    assert Conv3D(x, Value("", f32, None)).macs() == 0
