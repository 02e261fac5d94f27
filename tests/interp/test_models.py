# SPDX-License-Identifier: Apache-2.0
"""Whole models against what other programs computed: PyTorch and LiteRT."""

from __future__ import annotations

from pathlib import Path

import flatbuffers
import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema

from circlekit.equivalence.litert import run_litert
from circlekit.interp import run
from circlekit.io.read.load import load
from circlekit.ops.numerics.output_stage import Kernels
from tests.conftest import SHARED, without
from tests.ops.litert import assert_close
from tests.recorded_values import recorded

TOLERANCE = {"tico": 1e-4}
"""{folder: allowed difference, as a fraction of the largest magnitude}.

PyTorch, which recorded the folder ``tico``, rounds differently from LiteRT's reference kernels.
"""

LITERT_TOLERANCE = 1e-5
"""The allowed difference for all other models."""

TRAPS = SHARED / "peer" / "traps"
"""Tiny models on which passes of ONE were tried, with recorded inputs and outputs."""


def check_recorded(model_path: Path, npz: Path, tolerance: float) -> None:
    inputs, wanted = recorded(npz)
    outputs = run(load(model_path), inputs)
    for got, expected in zip(outputs, wanted, strict=True):
        assert_close(got, expected, tolerance)


BEYOND_REFERENCE = "espcn.int8.tflite"
"""A model recorded with LiteRT's optimized kernels: the reference kernels lack DEPTH_TO_SPACE version 2."""


def test_model(model_path: Path) -> None:
    tolerance = TOLERANCE.get(model_path.parent.name, LITERT_TOLERANCE)
    check_recorded(model_path, model_path.with_suffix(".npz"), tolerance)


def test_model_with_a_version_that_reference_kernels_lack(shared: Path) -> None:
    """LiteRT's reference kernels give our reference values if the file asks for DEPTH_TO_SPACE version 1."""
    path = shared / "models" / "tensorflow" / BEYOND_REFERENCE
    inputs, wanted = recorded(path.with_suffix(".npz"))
    (got,) = run(load(path), inputs, kernels=Kernels.REFERENCE)
    model = schema.ModelT.InitFromPackedBuf(path.read_bytes())
    for code in model.operatorCodes:
        if code.builtinCode == schema.BuiltinOperator.DEPTH_TO_SPACE:
            code.version = 1
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    np.testing.assert_array_equal(got, run_litert(bytes(builder.Output()), inputs)[0])
    assert np.count_nonzero(got != wanted[0])


CASES = sorted(TRAPS.glob("*/model.tflite"))


@pytest.mark.skipif(not CASES, reason=without("peer/traps"))
@pytest.mark.parametrize("path", CASES, ids=lambda p: p.parent.name)
def test_trap(path: Path) -> None:
    """The models as they are, without any pass."""
    check_recorded(path, path.with_name("io.npz"), LITERT_TOLERANCE)
