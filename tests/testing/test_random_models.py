# SPDX-License-Identifier: Apache-2.0
"""Random models are valid, run, and cover the operators and the pictures of passes."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import circlekit
from circlekit.ir.dtypes import f32, i32
from circlekit.ir.op import REGISTRY
from circlekit.ir.text import print_model
from circlekit.ir.value import Value
from circlekit.ir.verifier import check
from circlekit.passes.engine.registry import all_passes
from circlekit.rewrite.base import Context
from circlekit.rewrite.picture import OperandPattern, parse_picture
from circlekit.testing import random_model, random_models
from circlekit.testing.model_builder import MAX_MAGNITUDE, ModelBuilder, Rejected, example
from circlekit.testing.random_constants import broadcast_shape
from circlekit.testing.random_models import OTHER_DTYPES, add_instance
from circlekit.testing.random_operators import random_operator


@pytest.mark.parametrize("seed", range(8))
def test_models_are_valid_and_run(seed: int) -> None:
    model, inputs = random_model(seed)
    check(model)
    outputs = circlekit.run(model, inputs)
    assert len(outputs) == len(model.main.outputs)
    again, same = random_model(seed)
    assert print_model(again) == print_model(model)
    for a, b in zip(inputs, same, strict=True):
        np.testing.assert_array_equal(a, b)


def test_passes_fire_on_models_made_for_them() -> None:
    kind = all_passes()["fuse_mul_with_conv"]
    fired = [kind().run(random_model(seed, [kind])[0], Context()) for seed in range(12)]
    assert sum(map(bool, fired)) >= 4


def test_most_operators_can_be_made() -> None:
    """Operators are made from their declarations; those with unusual operands may need other inputs."""
    known = [kind for code, kind in sorted(REGISTRY.items()) if kind.operands and kind.pure]

    def can_make(kind: type[circlekit.Op]) -> bool:
        for seed in range(3):
            try:
                random_operator(ModelBuilder.of_seed(seed), kind)
            except Rejected:
                continue
            return True
        return False

    assert sum(map(can_make, known)) > 0.6 * len(known)


def test_large_results_are_rejected() -> None:
    builder = ModelBuilder.of_seed(1)
    x = builder.constant(np.full((2, 2), 30.0))
    assert builder.add(REGISTRY["ADD"](x, builder.constant(10.0))).shape == (2, 2)
    with pytest.raises(Rejected):
        builder.add(REGISTRY["ADD"](x, builder.constant(MAX_MAGNITUDE - 29.0)))


def test_random_broadcast_shapes_broadcast_with_the_given_one() -> None:
    builder = ModelBuilder.of_seed(2)
    for _ in range(50):
        shape = broadcast_shape(builder, (2, 1, 3))
        assert np.broadcast_shapes(shape, (2, 1, 3))[-3] == 2  # ValueError if they do not broadcast


def test_examples_have_the_type_of_the_value() -> None:
    random = np.random.default_rng(0)
    array = example((None, 4), f32, random)
    assert array.shape == (3, 4)  # 3: UNKNOWN_SIZE
    assert array.dtype == np.float32


# -- instances of pictures ---------------------------------------------------------------------


def instances(
    monkeypatch: pytest.MonkeyPatch, picture: str, *probabilities: float, count: int = 12
) -> list[list[Any]]:
    """Make ``count`` instances of ``picture``; return the operators of each that is not rejected.

    Exactly the events of ``probabilities`` happen:

    - 0.9: an operand is from the pool; with 0.6, the newest that fits; with 0.5, one with the shape of the
      first operand
    - 0.5: an optional operand is left out
    - 0.29: one operator differs from the picture
    - 0.3: the operands of this operator are swapped if it is commutative; a number has a shape such as [1,1]
    - 0.15: the dtype is not f32
    - 0.1: a constant is filled with one number
    """
    parsed = parse_picture(picture, "test")
    monkeypatch.setattr(random_models, "MUTATION_PROBABILITY", 0.29)  # 0.3 decides other events, too
    monkeypatch.setattr(ModelBuilder, "chance", lambda m, probability: probability in probabilities)
    made = []
    for seed in range(count):
        builder = ModelBuilder.of_seed(1)
        builder.random = np.random.default_rng(seed)
        for shape in ((2, 3), (4, 3), (1, 4, 4, 3)):
            builder.pool.append(builder.new_input(Value("", f32, shape), np.ones(shape, np.float32)))
        with suppress(Rejected):
            add_instance(builder, parsed)
            made.append(list(builder.graph))
    assert made
    return made


def test_an_instance_differs_in_at_most_one_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    picture = "y = Add(x, a: const)\nz = Sub(y, b: const)\n"
    for pair in instances(monkeypatch, picture, 0.9):
        assert [op.act.name for op in pair] == ["NONE", "NONE"]
        assert [op.inputs[1].is_const for op in pair] == [True, True]
    found = set()
    for swap in (False, True):
        for pair in instances(monkeypatch, picture, 0.9, 0.29, *[0.3] * swap, count=30):
            changed = [op.code for op in pair if op.act.name != "NONE"]
            assert len(changed) == 1
            swapped = [op.code for op in pair if op.inputs[0].is_const]
            assert swapped == (["ADD"] if swap and changed == ["ADD"] else [])
            found |= {(op.code, op.act.name) for op in pair}
    assert found == {(code, act) for code in ("ADD", "SUB") for act in ("NONE", "RELU", "RELU6")}


def test_parameters_of_an_instance_follow_from_its_data(monkeypatch: pytest.MonkeyPatch) -> None:
    for (op,) in instances(monkeypatch, "y = Add(w: const, x)", 0.9, 0.6):
        assert op.inputs[1].shape == (1, 4, 4, 3)
        assert set(op.inputs[0].shape[-2:]) <= {1, 3, 4}
    found = set()
    for (op,) in instances(monkeypatch, "y = TransposeConv(s: const, w: const, x)", 0.9, 0.6, count=60):
        assert op.inputs[0].array()[3] == op.inputs[1].shape[0]
        assert op.inputs[1].shape[3] == op.inputs[2].shape[3]
        found.add(op.inputs[1].shape[0])
    assert found == {1, 2, 3, 4}


def test_data_of_an_instance_come_from_the_pool_or_are_constants(monkeypatch: pytest.MonkeyPatch) -> None:
    pooled = instances(monkeypatch, "y = Add(a, b)", 0.9, 0.5)
    assert len(pooled) == 12
    assert all(op.inputs[0].shape == op.inputs[1].shape for (op,) in pooled)
    assert not any(v.is_const for (op,) in pooled for v in op.inputs)
    assert all(v.is_const for (op,) in instances(monkeypatch, "y = Add(a, b)") for v in op.inputs)
    for first, second in instances(monkeypatch, "y = Neg(x)\nz = Add(k, y)", 0.9, 0.5):
        assert second.inputs[0].shape == first.output.shape
    for (op,) in instances(monkeypatch, "y = Mul(x, x)", 0.9):
        assert op.inputs[0] is op.inputs[1]
    for (op,) in instances(monkeypatch, "y = Concatenation(a, b, c)", 0.9, 0.5):
        assert len({v.shape for v in op.inputs}) == 1
    for (op,) in instances(monkeypatch, "y = Add(a: f32[_, C], b: f32[_, _, _, C])", 0.9):
        assert [v.shape for v in op.inputs] == [(4, 3), (1, 4, 4, 3)]


def test_literals_and_sizes_of_an_instance_have_the_declared_dtype(monkeypatch: pytest.MonkeyPatch) -> None:
    for picture in ("y = Transpose(x, [0, 2, 3, 1])", "y = Transpose(x, p: const)", "y = Transpose(x, p)"):
        found = instances(monkeypatch, picture, 0.9)
        assert found
        assert {op.inputs[1].dtype for (op,) in found} == {i32}
        assert all(op.inputs[1].is_const for (op,) in found)
    plain = instances(monkeypatch, "y = Add(x, 0.5)", 0.9)
    assert {(op.inputs[1].dtype, op.inputs[1].shape) for (op,) in plain} == {(f32, ())}
    reshaped = instances(monkeypatch, "y = Add(x, 0.5)", 0.9, 0.3, count=30)
    assert {op.inputs[1].shape for (op,) in reshaped} == {(1,), (1, 1), (1, 1, 1)}
    listed = instances(monkeypatch, "y = Add(x, [0.5, 1.0, 2.0])", 0.9, 0.3)
    assert {op.inputs[1].shape for (op,) in listed} == {(3,)}


def test_optional_operands_of_an_instance_may_be_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    picture = "y = FullyConnected(x, w: const, b?: const)"
    for absent in (False, True):
        found = instances(monkeypatch, picture, 0.9, 0.6, *[0.5] * absent)
        assert {len(op.inputs) for (op,) in found} == {2 if absent else 3}


def test_custom_operators_of_an_instance(monkeypatch: pytest.MonkeyPatch) -> None:
    """The operator itself is made; its instance would be rejected, because it has no kernel."""
    picture = parse_picture('y = Custom("Erf|Moon", x)', "test")
    instance = random_models._Instance(ModelBuilder.of_seed(1), picture)
    op: Any = instance.operator(picture.root, False)
    assert op.code == "CUSTOM"
    assert (op.custom_code, op.output.shape) == ("Erf", op.inputs[0].shape)


def test_operands_of_another_dtype_are_cast_unless_the_pool_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    found = instances(monkeypatch, "y = Add(a, b)", 0.9, 0.15, 0.5, count=30)
    assert {ops[-1].output.dtype for ops in found} == set(OTHER_DTYPES)
    for ops in found:  # the pool has an i32 input already
        assert [op.code for op in ops] == ["ADD"] if ops[-1].output.dtype is i32 else ["CAST", "ADD"]


def test_constants_of_an_instance_have_allowed_shapes_and_varied_contents(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = instances(monkeypatch, "y = Add(x: f32[_, C], w: const f32[*, C])", 0.9, 0.6, count=30)
    assert {op.inputs[1].shape for (op,) in found} == {(3,), (1, 3), (1, 1, 3)}
    uniform = instances(monkeypatch, "y = Add(x, w: const)", 0.9, 0.1)
    assert all(len({*op.inputs[1].array().flat}) == 1 for (op,) in uniform)
    monkeypatch.setattr(ModelBuilder, "chance", lambda m, probability: False)
    instance = random_models._Instance(ModelBuilder.of_seed(1), parse_picture("y = Neg(x)", "test"))
    instance.dims["A"] = 4000
    pattern = OperandPattern("w", const=True, dims=("A",))
    floats = instance.constant(REGISTRY["ADD"], "w", pattern, f32, None).array()
    assert abs(floats.mean()) < 0.1
    assert abs(floats.std() - 1) < 0.1
    assert {*instance.constant(REGISTRY["ADD"], "w", pattern, i32, None).array().tolist()} == {0, 1, 2}


@pytest.mark.parametrize(
    ("dims", "near", "alternative", "shape"),
    [
        (("A", "B"), (2, 5, 6), False, (5, 6)),
        (("A", "B"), (5, 6), False, (5, 6)),
        (("A", "B"), (6,), False, (1, 1)),
        (("A", 3, "_"), (5, 6, 7), False, (5, 3, 7)),
        (("A|1", "A"), (5, 6), False, (5, 5)),
        (("A|1", "A"), (5, 6), True, (1, 6)),
        (("_", "_"), (5, 6), True, (5, 6)),
        (("K", "K|9"), (5, 6), False, (8, 8)),
    ],
)
def test_shapes_that_dimensions_of_a_picture_allow(
    dims: tuple[int | str, ...],
    near: tuple[int, ...],
    alternative: bool,
    shape: tuple[int, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    instance = random_models._Instance(ModelBuilder.of_seed(1), parse_picture("y = Neg(x)", "test"))
    monkeypatch.setattr(instance.m, "chance", lambda probability: alternative)
    instance.dims["K"] = 8
    assert instance.shape_of(dims, near) == shape


def test_attributes_of_an_instance_are_those_that_the_picture_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    choice = instances(monkeypatch, "y = Add(x, w: const) {act: RELU|RELU6}", 0.9, count=30)
    assert {op.act.name for (op,) in choice} == {"RELU", "RELU6"}
    picture = "y = Add(x, w: const) {act: any = a}\nz = Sub(y, v: const) {act: any = a}"
    bound = [
        tuple(op.act.name for op in pair) for pair in instances(monkeypatch, picture, 0.9, 0.5, count=40)
    ]
    assert {a for a, _ in bound} == {"RELU", "RELU6", "RELU_N1_TO_1"}
    assert all(a == b for a, b in bound)
