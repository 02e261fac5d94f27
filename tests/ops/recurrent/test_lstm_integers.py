# SPDX-License-Identifier: Apache-2.0
"""LSTM on int8, against LiteRT.

Intermediates are tensors whose scales say how inner values are rounded.  Their number selects the kernel:
with 5, the gates have 16 bits; with 12, each matrix product is rounded to 8 bits ("rounded integers").
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from circlekit.errors import ModelError, UnsupportedError
from circlekit.interp.interpreter import Interpreter
from circlekit.ir.dtypes import i8, i16
from circlekit.ir.enums import Activation
from circlekit.ir.graph import Model
from circlekit.ir.op import Op
from circlekit.ir.value import Array, Value
from circlekit.ops.recurrent.lstm import Lstm, UnidirectionalSequenceLstm
from circlekit.ops.recurrent.lstm_integer import _normalized
from circlekit.ops.recurrent.sequence import Weight
from tests.ops.litert import const, graph_of, run_steps
from tests.ops.quantized import per_tensor
from tests.ops.recurrent.test_lstm import FORMS, GATES
from tests.ops.stateful import check_runs, state


def integer_lstm(seed: int, form: frozenset[str], batch: int, kind: type[Op], **attributes: Any) -> Op:
    """Return an LSTM on int8 with random scales and 5 intermediates; ``form``: optional parts, see FORMS."""
    rng = np.random.default_rng(seed)
    inputs, cells = 5, 6
    outputs = 4 if "projection" in form else cells
    gates = GATES[1:] if "cifg" in form else GATES

    def weights(*shape: int, dtype: Any = np.int8, limit: int = 127, scale: float = 0.01) -> Value:
        value = const(rng.integers(-limit, limit + 1, shape), dtype)
        value.quantization = per_tensor(float(rng.uniform(0.3, 1.5)) * scale)
        return value

    x = Value("x", i8, (batch, 4, inputs), None, per_tensor(0.02, 7))
    if attributes.get("time_major"):
        x.shape = (4, batch, inputs)
    if kind is Lstm:
        x.shape = (batch, inputs)
    ins = [weights(cells, inputs) if g in gates else None for g in GATES]
    recurrent = [weights(cells, outputs) if g in gates else None for g in GATES]
    has_peephole = "peephole" in form
    peephole = [
        weights(cells, dtype=np.int16, limit=32767, scale=3e-5) if has_peephole and g in gates else None
        for g in ("input", "forget", "output")
    ]
    bias = [weights(cells, dtype=np.int32, limit=4000) if g in gates else None for g in GATES]
    projection = [weights(outputs, cells), weights(outputs, dtype=np.int32, limit=2000)]
    states = [
        state(i8, (batch, outputs), per_tensor(0.008, -11)),
        state(i16, (batch, cells), per_tensor(2.0**-11)),
    ]
    rest = [*ins, *recurrent, *peephole, *bias]
    rest += [*(projection if "projection" in form else [None, None]), *states]
    if "norm" in form:
        rest += [
            weights(cells, dtype=np.int16, limit=3000, scale=1e-3) if g in gates else None for g in GATES
        ]
    op = kind(x, *rest, act=Activation.TANH, **attributes)
    scales = [float(s) for s in rng.uniform(0.001, 0.004, 4)] + [0.007]
    zeros = [0, 0, 0, 0, 5 if "projection" in form else -3]
    op.extra["intermediates"] = [
        Value(f"mid{i}", i8 if i == 4 else i16, (1,), None, per_tensor(s, z))
        for i, (s, z) in enumerate(zip(scales, zeros, strict=True))
    ]
    return op


@pytest.mark.parametrize("form", FORMS, ids=lambda f: "+".join(sorted(f)) or "plain")
@pytest.mark.parametrize(("time_major", "clip"), list(product([False, True], [0.0, 2.0**-11, 0.3])))
def test_sequences_of_integers(form: frozenset[str], time_major: bool, clip: float) -> None:
    op = integer_lstm(
        1, form, 3, UnidirectionalSequenceLstm, time_major=time_major, cell_clip=clip, proj_clip=clip / 2
    )
    shape = op.inputs[0].static_shape if op.inputs[0] else ()
    rng = np.random.default_rng(12)
    check_runs(op, [[rng.integers(-128, 128, shape).astype(np.int8)] for _ in range(3)])


@pytest.mark.parametrize("form", FORMS, ids=lambda f: "+".join(sorted(f)) or "plain")
def test_steps_of_integers(form: frozenset[str]) -> None:
    op = integer_lstm(2, form, 2, Lstm)
    rng = np.random.default_rng(13)
    check_runs(op, [[rng.integers(-128, 128, (2, 5)).astype(np.int8)] for _ in range(4)])


FULL = frozenset(("norm", "projection"))


def run_ours(op: Op, inputs: list[Array]) -> list[Array]:
    return Interpreter(Model([op.graph or graph_of(op)])).run(inputs)


def rounded_lstm(seed: int, form: frozenset[str], **attributes: Any) -> Op:
    """Return an LSTM whose products are rounded to 8 bits: it has 12 intermediates."""
    op = integer_lstm(seed, form, 3, Lstm, **attributes)
    rng = np.random.default_rng(seed)
    named = dict(op.operand_items())
    named["cell_state"].quantization = per_tensor(2.0**-15)
    named["output_state"].quantization = per_tensor(0.004, -11)
    if "projection_bias" in named:
        bias = named["projection_bias"]
        bias.data = rng.integers(-(10**5), 10**5, bias.static_shape).astype(np.int32)
    scales = [float(s) * (0.001 if i % 3 == 0 else 0.02) for i, s in enumerate(rng.uniform(0.3, 3, 12))]
    zeros = [0 if i % 3 == 0 else int(z) for i, z in enumerate(rng.integers(-100, 100, 12))]
    op.extra["intermediates"] = [
        Value(f"mid{i}", i8 if i % 3 else i16, (1,), None, per_tensor(s, z))
        for i, (s, z) in enumerate(zip(scales, zeros, strict=True))
    ]
    return op


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(
    "form", [FULL, FULL | {"cifg"}, FULL | {"peephole"}], ids=lambda f: "+".join(sorted(f))
)
@pytest.mark.parametrize("clip", [0.0, 0.3, 1.5])
def test_rounded_integers(seed: int, form: frozenset[str], clip: float) -> None:
    op = rounded_lstm(seed, form, cell_clip=clip, proj_clip=clip / 2)
    rng = np.random.default_rng(14)
    got = check_runs(op, [[rng.integers(-128, 128, (3, 5)).astype(np.int8)] for _ in range(4)])
    # with the clip 0.3, few different numbers are left
    assert clip == 0.3 or len(np.unique(got[-1][0])) > 2


def test_rounded_integers_of_saturated_sums() -> None:
    """Equal weights give equal sums; their variance is 0 or, by rounding, negative."""
    steps = [[np.full((3, 5), x, np.int8)] for x in (127, -128, 90, 5)]
    for seed in range(12):
        op = rounded_lstm(seed, FULL)
        for value in op.inputs[1:9]:
            if value is not None:
                value.data = np.full(value.static_shape, 127 if seed % 2 else -127, np.int8)
        check_runs(op, steps)


# LiteRT reads null pointers if one of these is missing, and the process ends; so LiteRT does not run here
@pytest.mark.parametrize(
    ("form", "missing"), [({"projection"}, "forget_layer_norm"), ({"norm"}, "projection_w")]
)
def test_rounded_integers_need_norm_and_projection(form: set[str], missing: str) -> None:
    with pytest.raises(
        UnsupportedError, match=f"12 intermediates has no kernel, nor has LiteRT, without {missing}"
    ):
        run_ours(rounded_lstm(0, frozenset(form)), [np.zeros((3, 5), np.int8)])


@pytest.mark.parametrize("name", ["forget_gate_bias", "recurrent_to_cell_weights"])
def test_rounded_integers_need_the_weights_and_biases_of_the_gates(name: str) -> None:
    op = rounded_lstm(0, FULL)
    setattr(op, name, None)
    with pytest.raises(ModelError, match=f"expected an operand {name}, got none"):
        run_ours(op, [np.zeros((3, 5), np.int8)])


def test_rounded_integers_need_the_scale_2_to_minus_15_of_the_cell_state() -> None:
    op = rounded_lstm(0, FULL)
    dict(op.operand_items())["cell_state"].quantization = per_tensor(2.0**-14)
    with pytest.raises(ModelError, match=r"cell_state: expected a scale of 2\^-15, got 6\.10"):
        run_ours(op, [np.zeros((3, 5), np.int8)])


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan"), 2.0**-16, 0.003, 2.0**-8, 4.0])
def test_the_cell_state_needs_a_scale_for_which_litert_has_a_tanh(scale: float) -> None:
    op = integer_lstm(1, FULL, 3, UnidirectionalSequenceLstm)
    dict(op.operand_items())["cell_state"].quantization = per_tensor(scale)
    with pytest.raises(ModelError, match=r"cell_state: expected a scale 2\^n with n from -15 to -9, got"):
        run_ours(op, [np.zeros((3, 4, 5), np.int8)])


@pytest.mark.parametrize("scale", [2.0**-15, 2.0**-9 * 1.0005])
def test_the_cell_state_may_have_the_least_and_the_greatest_scale(scale: float) -> None:
    op = integer_lstm(1, FULL, 3, UnidirectionalSequenceLstm)
    dict(op.operand_items())["cell_state"].quantization = per_tensor(scale)
    check_runs(op, [[np.random.default_rng(15).integers(-128, 128, (3, 4, 5)).astype(np.int8)]])


def test_sequences_do_not_round_products() -> None:
    """UNIDIRECTIONAL_SEQUENCE_LSTM takes only 5 intermediates."""
    op = integer_lstm(1, FULL, 3, UnidirectionalSequenceLstm)
    op.extra["intermediates"] = rounded_lstm(1, FULL).extra["intermediates"]
    with pytest.raises(UnsupportedError, match="expected 5 intermediates, got 12"):
        run_ours(op, [np.zeros((3, 4, 5), np.int8)])
    with pytest.raises(RuntimeError, match="num_intermediate_tensors == 5"):
        run_steps([op.graph or graph_of(op)], [[np.zeros((3, 4, 5), np.int8)]])


def test_a_row_of_variance_1_is_divided_by_1() -> None:
    """The row [1, -1] has mean 0 and variance 1.  Times the weights [100 * 0.01, 50 * 0.01] it is [1, -0.5].

    The row [3, 3] has variance 0, for which LiteRT takes a positive number.
    """
    scale = 0.01
    weight = Weight(Value("w", i16, (2,), None, per_tensor(scale)), np.array([100, 50], np.int16))
    sums = np.array([[1, -1], [3, 3]])
    found = _normalized(sums, weight, np.zeros(2, np.int64)) / 2**12
    np.testing.assert_allclose(found, [[1.0, -0.5], [0.0, 0.0]], atol=2e-3)
