# SPDX-License-Identifier: Apache-2.0
"""Random models are valid, run, and cover the operators and the pictures of passes."""

from __future__ import annotations

import numpy as np
import pytest

import circlekit
from circlekit.ir.dtypes import f32
from circlekit.ir.op import REGISTRY
from circlekit.ir.text import print_model
from circlekit.ir.verifier import check
from circlekit.passes.engine.registry import all_passes
from circlekit.rewrite.base import Context
from circlekit.testing import format_columns, random_model
from circlekit.testing.model_builder import MAX_MAGNITUDE, ModelBuilder, Rejected, example
from circlekit.testing.random_operators import broadcast_shape, random_operator


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


def test_broadcast_shapes_broadcast() -> None:
    builder = ModelBuilder.of_seed(2)
    for _ in range(50):
        shape = broadcast_shape(builder, (2, 1, 3))
        assert np.broadcast_shapes(shape, (2, 1, 3))[-3:][0] == 2


def test_examples_have_the_type_of_the_value() -> None:
    random = np.random.default_rng(0)
    array = example((None, 4), f32, random)
    assert array.shape == (3, 4)
    assert array.dtype == np.float32


def test_tables_are_aligned() -> None:
    text = format_columns([("name", "count"), ("a", 10), ("longer", 7)])
    assert text.splitlines() == ["name    count", "a          10", "longer      7"]
