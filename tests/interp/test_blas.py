# SPDX-License-Identifier: Apache-2.0
"""Threads of numpy's OpenBLAS: one while a model of middling products runs, as before afterwards."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import circlekit
from circlekit.interp.blas import LARGE, TINY, blas_threads, few_threads
from circlekit.ir.dtypes import f32
from circlekit.ir.graph import Graph, Model
from circlekit.ir.value import Value
from circlekit.ops.matmul.dense import FullyConnected

threads = pytest.mark.skipif((blas_threads() or 1) < 2, reason="numpy has no OpenBLAS with threads here")


def test_threads_are_those_that_the_environment_asks_for() -> None:
    """It is OpenBLAS's own number that is read: told by another process with another number."""
    if blas_threads() is None:
        pytest.skip("numpy has another library than OpenBLAS")
    code = "from circlekit.interp.blas import blas_threads; print(blas_threads())"
    for count in ("1", "2"):
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": count}
        told = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
        )
        assert told.stdout.strip() == count


@threads
@pytest.mark.parametrize(
    ("macs", "one"), [(TINY, False), (TINY + 1, True), (LARGE - 1, True), (LARGE, False)]
)
def test_middling_products_take_one_thread(macs: int, one: bool) -> None:
    before = blas_threads()
    with few_threads(macs):
        assert blas_threads() == (1 if one else before)
    assert blas_threads() == before


@threads
def test_threads_come_back_after_an_error() -> None:
    before = blas_threads()
    with pytest.raises(ValueError, match="within"), few_threads(TINY + 1):
        raise ValueError("within")
    assert blas_threads() == before


@threads
def test_models_run_in_one_thread() -> None:
    x = Value("x", f32, (64, 128))
    graph = Graph("main", [x])
    y = graph.append(FullyConnected(x, Value.constant("w", np.ones((64, 128), np.float32)))).output
    graph.outputs = (y,)
    before, seen = blas_threads(), []
    data = np.ones((64, 128), np.float32)
    interpreter = circlekit.Interpreter(Model([graph], format="tflite"))
    interpreter.run([data], on_value=lambda name, array: seen.append(blas_threads()))
    assert set(seen) == {1}
    assert blas_threads() == before
    np.testing.assert_array_equal(interpreter.run([data])[0], np.full((64, 64), 128, np.float32))
    assert blas_threads() == before
