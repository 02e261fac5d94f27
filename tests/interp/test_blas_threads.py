# SPDX-License-Identifier: Apache-2.0
"""Number of threads of numpy's OpenBLAS: one while a model of medium products runs, as before afterwards."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import circlekit
from circlekit.interp.blas_threads import blas_threads, limited_blas_threads
from circlekit.ir.dtypes import f32
from circlekit.ir.graph import Graph, Model
from circlekit.ir.value import Value
from circlekit.ops.matmul.dense import FullyConnected

threads = pytest.mark.skipif((blas_threads() or 1) < 2, reason="numpy has no OpenBLAS with threads here")


def test_the_number_that_is_read_is_the_one_of_openblas() -> None:
    """Another process starts with the number that its environment asks for."""
    if blas_threads() is None:
        pytest.skip("numpy has another library than OpenBLAS")
    code = "from circlekit.interp.blas_threads import blas_threads; print(blas_threads())"
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert (done.stdout.strip(), done.stderr) == ("1", "")


@threads
@pytest.mark.parametrize(
    ("macs", "one"),
    [(1 << 18, False), ((1 << 18) + 1, True), ((1 << 26) - 1, True), (1 << 26, False)],
)
def test_medium_products_use_one_thread(macs: int, one: bool) -> None:
    before = blas_threads()
    with limited_blas_threads(macs):
        assert blas_threads() == (1 if one else before)
    assert blas_threads() == before


@threads
def test_the_number_is_restored_after_an_error() -> None:
    before = blas_threads()
    with pytest.raises(ValueError, match="within"), limited_blas_threads(1 << 20):
        raise ValueError("within")
    assert blas_threads() == before


@threads
def test_a_model_runs_in_one_thread() -> None:
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
