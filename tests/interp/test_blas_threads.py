# SPDX-License-Identifier: Apache-2.0
"""Number of threads of numpy's BLAS: one while a model with medium products runs, then as before the run."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import numpy as np
import pytest

import circlekit
from circlekit.interp import blas_threads as blas_threads_module
from circlekit.interp.blas_threads import blas_libraries, limited_blas_threads
from circlekit.ir.dtypes import f32
from circlekit.ir.graph import Graph, Model
from circlekit.ir.value import Value
from circlekit.ops.matmul.dense import FullyConnected


def blas_threads() -> int:
    """Return the largest number of threads of a BLAS library, 1 if there is none."""
    return max((library["num_threads"] for library in blas_libraries().info()), default=1)


needs_threads = pytest.mark.skipif(blas_threads() < 2, reason="numpy has no BLAS with threads here")


@pytest.mark.parametrize(
    ("macs", "one"),
    [(1 << 18, False), ((1 << 18) + 1, True), ((1 << 26) - 1, True), (1 << 26, False)],
)
def test_medium_products_ask_for_one_thread(macs: int, one: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    class Libraries:
        def limit(self, limits: int) -> AbstractContextManager[None]:
            asked.append(limits)
            return nullcontext()

    monkeypatch.setattr(blas_threads_module, "blas_libraries", Libraries)
    with limited_blas_threads(macs):
        assert asked == [1] * one


@needs_threads
@pytest.mark.parametrize(
    ("macs", "one"),
    [(1 << 18, False), ((1 << 18) + 1, True), ((1 << 26) - 1, True), (1 << 26, False)],
)
def test_medium_products_use_one_thread(macs: int, one: bool) -> None:
    before = blas_threads()
    with limited_blas_threads(macs):
        assert blas_threads() == (1 if one else before)
    assert blas_threads() == before


@needs_threads
def test_the_number_is_restored_after_an_error() -> None:
    before = blas_threads()
    with pytest.raises(ValueError, match="within"), limited_blas_threads(1 << 20):
        raise ValueError("within")
    assert blas_threads() == before


@needs_threads
def test_a_model_runs_in_one_thread() -> None:
    x = Value("x", f32, (64, 128))
    graph = Graph("main", [x])
    y = graph.append(FullyConnected(x, Value.constant("w", np.ones((64, 128), np.float32)))).output
    graph.outputs = (y,)
    before, seen = blas_threads(), []
    data = np.ones((64, 128), np.float32)
    # 64 * 128 * 64 = 1 << 19 multiply-accumulates
    interpreter = circlekit.Interpreter(Model([graph], format="tflite"))
    interpreter.run([data], on_value=lambda name, array: seen.append(blas_threads()))
    assert set(seen) == {1}
    assert blas_threads() == before
    np.testing.assert_array_equal(interpreter.run([data])[0], np.full((64, 64), 128, np.float32))
    assert blas_threads() == before
