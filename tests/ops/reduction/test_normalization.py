# SPDX-License-Identifier: Apache-2.0
"""Normalizations against LiteRT; those that only circle has, against their definition in float64."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from circlekit.errors import ShapeError, UnsupportedError
from circlekit.io.read.load import load
from circlekit.ir.dtypes import f16, f32, i8, i16, u8
from circlekit.ir.enums import Activation, RoPEMode
from circlekit.ir.op import Op
from circlekit.ir.value import Array, Value
from circlekit.ops.reduction.normalization import (
    InstanceNorm,
    L2Normalization,
    LocalResponseNormalization,
    LogSoftmax,
    RmsNorm,
    RoPE,
    Softmax,
)
from tests.ops.litert import assert_close, check, check_shapes, const, kernel_results, var

SHAPES = [(7,), (3, 7), (2, 3, 7), (2, 3, 4, 7), (2, 1), (3, 0)]


def normal(seed: int, *shape: int, scale: float = 1.0) -> Array:
    return (np.random.default_rng(seed).normal(size=shape) * scale).astype(np.float32)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("scale", [1.0, 100.0])
def test_normalizations_over_the_last_axis(shape: tuple[int, ...], scale: float) -> None:
    x = normal(0, *shape, scale=scale)
    for beta in (1.0, 0.5, 0.0):
        check(Softmax(var(x), beta=beta), x)
    check(LogSoftmax(var(x)), x)
    check(L2Normalization(var(x)), x)


@pytest.mark.parametrize("beta", [1.0, 0.3])
def test_softmax_of_float16(beta: float) -> None:
    for spread in (0.1, 3, 40):
        x = np.random.default_rng(3).normal(0, spread, (7, 33)).astype(np.float16)
        check(Softmax(var(x), beta=beta), x, tolerance=2.0**-11, optimized=True)


def test_l2_normalization_of_zeros_and_of_tiny_numbers() -> None:
    x = np.zeros((2, 4), np.float32)
    x[1] = 1e-7
    check(L2Normalization(var(x)), x)


def test_l2_normalization_takes_no_activation() -> None:
    x = normal(0, 2, 4)
    op = L2Normalization(var(x), act=Activation.RELU)
    with pytest.raises(UnsupportedError, match="L2_NORMALIZATION with the fused activation RELU"):
        kernel_results(op, [x])


@pytest.mark.parametrize("radius", [0, 1, 2, 5, 20])
@pytest.mark.parametrize(("bias", "alpha", "beta"), [(1.0, 0.5, 0.75), (0.1, 2.0, 1.5)])
def test_local_response_normalization(radius: int, bias: float, alpha: float, beta: float) -> None:
    x = normal(0, 2, 3, 2, 9)
    op = LocalResponseNormalization(var(x), radius=radius, bias=bias, alpha=alpha, beta=beta)
    check(op, x, optimized=True)


def check_definition(op: Op, inputs: list[Array], wanted: Array) -> None:
    results = kernel_results(op, inputs)
    check_shapes(op, results)
    assert_close(results[0], wanted.astype(np.float32))


@pytest.mark.parametrize("shape", [(2, 5, 8), (2, 3, 4, 8), (6, 8), (8,)])
@pytest.mark.parametrize("channels", [1, 8])
@pytest.mark.parametrize("epsilon", [0.0, 1e-5, 0.25])
def test_rms_norm(shape: tuple[int, ...], channels: int, epsilon: float) -> None:
    x, gamma = normal(0, *shape, scale=3.0), normal(1, channels)
    wide = x.astype(np.float64)
    wanted = gamma * wide / np.sqrt((wide**2).mean(-1, keepdims=True) + epsilon)
    check_definition(RmsNorm(var(x), const(gamma), epsilon=epsilon), [x], wanted)


@pytest.mark.parametrize("act", [Activation.NONE, Activation.RELU])
@pytest.mark.parametrize("channels", [1, 6])
@pytest.mark.parametrize("epsilon", [1e-5, 0.25])
def test_instance_norm(channels: int, epsilon: float, act: Activation) -> None:
    x = normal(0, 2, 5, 4, 6) * 3 + 10
    gamma, beta = normal(1, channels), normal(2, channels)
    wide = x.astype(np.float64)
    mean, variance = wide.mean((1, 2), keepdims=True), wide.var((1, 2), keepdims=True)
    wanted = gamma * (wide - mean) / np.sqrt(variance + epsilon) + beta
    if act is Activation.RELU:
        wanted = np.maximum(wanted, 0)
    op = InstanceNorm(var(x), const(gamma), const(beta), epsilon=epsilon, act=act)
    check_definition(op, [x], wanted)


def test_instance_norm_of_rank_3_has_its_channels_second() -> None:
    x, gamma, beta = normal(0, 2, 3, 7), normal(1, 3), normal(2, 3)
    wide = x.astype(np.float64)
    scaled = (wide - wide.mean(2, keepdims=True)) / np.sqrt(wide.var(2, keepdims=True) + 1e-3)
    wanted = gamma[:, None] * scaled + beta[:, None]
    check_definition(InstanceNorm(var(x), const(gamma), const(beta), epsilon=1e-3), [x], wanted)


def rotation(size: int, position: float) -> tuple[Array, Array]:
    """Return (sin, cos) of ``size`` angles, as models have them: the second half repeats the first."""
    angle = position / 100 ** (np.arange(size // 2) / (size // 2))
    both = np.concatenate([angle, angle])
    return np.sin(both).astype(np.float32), np.cos(both).astype(np.float32)


def test_rope_rotates_the_halves_as_complex_numbers() -> None:
    size = 8
    x = normal(0, 2, 3, 4, size)
    sin, cos = rotation(size, 3.0)
    turned = (x[..., : size // 2] + 1j * x[..., size // 2 :]).astype(np.complex128)
    turned *= (cos + 1j * sin.astype(np.float64))[: size // 2]
    wanted = np.concatenate([turned.real, turned.imag], -1)
    tables = [const(t.reshape(1, 1, 1, size)) for t in (sin, cos)]
    check_definition(RoPE(var(x), *tables), [x], wanted)


def test_rope_of_mode_gpt_j_rotates_neighbours() -> None:
    size = 8
    x = normal(0, 2, 3, 4, size)
    angle = np.repeat(np.linspace(0.3, 2, size // 2), 2)
    turned = (x[..., ::2] + 1j * x[..., 1::2]) * np.exp(1j * angle[::2])
    wanted = np.stack([turned.real, turned.imag], -1).reshape(x.shape)
    tables = [const(t(angle).reshape(1, 1, 1, size), np.float32) for t in (np.sin, np.cos)]
    check_definition(RoPE(var(x), *tables, mode=RoPEMode.GPT_J), [x], wanted)


def test_rope_each_element_has_its_own_table_entry() -> None:
    x, sin, cos = normal(0, 1, 2, 3, 6), normal(1, 6), normal(2, 6)
    wide, half = x.astype(np.float64), np.concatenate([-x[..., 3:], x[..., :3]], -1)
    op = RoPE(var(x), const(sin.reshape(1, 1, 1, 6)), const(cos.reshape(1, 1, 1, 6)))
    check_definition(op, [x], wide * cos + half * sin)


def test_rope_reads_the_first_row_for_every_position() -> None:
    """ONE's runtimes do so, too.  So a pass that creates this operator must refuse tables of several rows."""
    x, sin, cos = normal(0, 1, 2, 3, 6), normal(1, 1, 1, 3, 6), normal(2, 1, 1, 3, 6)
    (many,) = kernel_results(RoPE(var(x), const(sin), const(cos)), [x])
    (one,) = kernel_results(RoPE(var(x), const(sin[:, :, :1]), const(cos[:, :, :1])), [x])
    np.testing.assert_array_equal(many, one)


def test_rope_needs_a_row_in_its_tables() -> None:
    x, table, none = Value("x", f32, (1, 2, 3, 6)), const(normal(1, 6)), const(np.zeros((0, 6), np.float32))
    with pytest.raises(ShapeError, match=r"expected sin_table with a row or more, got shape \[0,6\]"):
        RoPE(x, none, table)
    with pytest.raises(ShapeError, match=r"expected cos_table with a row or more, got shape \[0,6\]"):
        RoPE(x, table, none)


def recorded(shared: Path, case: str, *names: str) -> tuple[Array, Array, list[Array]]:
    """Return an input of a model of plain operators, LiteRT's output, and the model's constants ``names``."""
    folder = shared / "peer" / "traps" / case
    constants = {v.name: v for v in load(folder / "model.tflite").main.values()}
    with np.load(folder / "io.npz") as data:
        return data["in0"], data["out0"], [constants[n].array() for n in names]


def test_rope_computes_what_a_model_of_plain_operators_does(shared: Path) -> None:
    x, wanted, tables = recorded(shared, "b8_rope_plain", "sin", "cos")
    check_definition(RoPE(var(x), *(const(t) for t in tables)), [x], wanted)


def test_instance_norm_computes_what_a_model_of_plain_operators_does(shared: Path) -> None:
    x, wanted, (gamma, beta, epsilon) = recorded(shared, "b10_instnorm_v1_plain", "gam", "bet", "eps")
    op = InstanceNorm(var(x), const(gamma.reshape(-1)), const(beta.reshape(-1)), epsilon=float(epsilon))
    check_definition(op, [x], wanted)


def test_permutations_must_keep_the_normalized_axes() -> None:
    x = Value("", f32, (1, 2, 3, 4))
    for op in (Softmax(x), L2Normalization(x), RmsNorm(x, Value("", f32, (4,)))):
        assert op.permuted((2, 0, 1, 3)) == {}
        assert op.permuted((0, 3, 1, 2)) is None
    instance = InstanceNorm(x, Value("", f32, (4,)), Value("", f32, (4,)))
    assert instance.permuted((0, 2, 1, 3)) == {}
    assert instance.permuted((1, 0, 2, 3)) is None


def test_wrong_shapes_are_errors() -> None:
    x = Value("", f32, (1, 2, 3, 4))
    with pytest.raises(ShapeError, match="expected 1 or 4 elements in gamma, got 3"):
        RmsNorm(x, Value("", f32, (3,)))
    with pytest.raises(ShapeError, match=r"expected gamma of rank 1, got shape \[1,4\]"):
        InstanceNorm(x, Value("", f32, (1, 4)), Value("", f32, (4,)))
    with pytest.raises(ShapeError, match="expected 1 or 4 elements in beta, got 3"):
        InstanceNorm(x, Value("", f32, (4,)), Value("", f32, (3,)))
    with pytest.raises(
        ShapeError, match=r"expected cos_table with a last dimension of 4, got shape \[1,1,1,2\]"
    ):
        RoPE(x, Value("", f32, (1, 1, 1, 4)), Value("", f32, (1, 1, 1, 2)))
    with pytest.raises(ShapeError, match="even last dimension"):
        RoPE(Value("", f32, (1, 2, 3, 5)), Value("", f32, (5,)), Value("", f32, (5,)))
    with pytest.raises(ShapeError, match="expected input of rank 4"):
        LocalResponseNormalization(Value("", f32, (3, 4)))
    with pytest.raises(ShapeError, match="expected input of rank 1 or more, got a scalar"):
        Softmax(Value("", f32, ()))


def test_versions_and_formats() -> None:
    assert [Softmax(Value("", t, (2, 4))).required_version() for t in (f32, i8, i16, f16)] == [1, 2, 3, 4]
    for kind in (LogSoftmax, L2Normalization):
        assert [kind(Value("", t, (2, 4))).required_version() for t in (f32, i8)] == [1, 2]
    assert {k.formats for k in (RmsNorm, InstanceNorm, RoPE)} == {frozenset({"circle"})}


def test_unknown_shapes() -> None:
    anything, vector = Value("", f32, None), Value("", f32, (4,))
    assert Softmax(anything).output.shape is None
    assert RmsNorm(anything, vector).output.shape is None
    assert InstanceNorm(anything, vector, vector).output.shape is None
    assert RoPE(anything, vector, vector).output.shape == (None,) * 4
    assert RoPE(Value("", f32, (1, 2, 3, None)), vector, anything).output.shape == (1, 2, 3, None)
    one = Value("", f32, (1,))
    assert RmsNorm(Value("", f32, (2, 4)), one).output.shape == (2, 4)
    assert InstanceNorm(Value("", f32, (2, 4, 5)), vector, one).output.shape == (2, 4, 5)
    with pytest.raises(ShapeError, match="expected 1 or 5 elements in gamma, got 4"):
        InstanceNorm(Value("", f32, (2, 3, 4, 5)), vector, one)


def test_a_softmax_of_8_bits_may_declare_an_int16_result() -> None:
    for dtype, declared, wanted in ((i8, i16, i16), (u8, i16, i16), (i8, i8, i8), (f32, i16, f32)):
        op = Softmax(Value("", dtype, (2, 4)), results=[Value("", declared, (2, 4))])
        assert op.inferred()[0].dtype is wanted


def test_local_response_at_the_edges() -> None:
    x = np.array([1, 2, 3, 4], np.float32).reshape(1, 1, 1, 4)
    op = LocalResponseNormalization(var(x), radius=1, bias=1.0, alpha=1.0, beta=-1.0)
    (out,) = kernel_results(op, [x])
    # x[c] * (1 + sum of the squares of x[c - 1] to x[c + 1]): 1 * (1 + 1 + 4), 2 * (1 + 1 + 4 + 9), ...
    assert out.reshape(-1).tolist() == [6, 30, 90, 104]


def test_norms_of_empty_inputs_give_no_warning() -> None:
    x, one = np.zeros((1, 0, 2, 3), np.float32), np.ones(3, np.float32)
    assert kernel_results(InstanceNorm(var(x), const(one), const(one)), [x])[0].shape == x.shape
    empty = np.zeros((2, 0), np.float32)
    assert kernel_results(RmsNorm(var(empty), const(one[:1])), [empty])[0].shape == (2, 0)
