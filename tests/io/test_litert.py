# SPDX-License-Identifier: Apache-2.0
"""LiteRT loads the files we write and computes equal values."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import circlekit.ops  # noqa: F401  # operators are declared by being imported
from circlekit.equivalence.litert import run_litert
from circlekit.io.read.load import load, load_bytes
from circlekit.io.write.save import encoded, to_bytes
from circlekit.ir.op import OpaqueOp
from circlekit.ops.numerics.output_stage import Kernels
from tests.io.models import File
from tests.io.oracles import LITERT
from tests.passes.kit import assert_close
from tests.recorded_values import recorded


def test_values_stay_equal_after_saving(model_path: Path) -> None:
    """The model is saved as .tflite in three ways.

    They are: as usual; with its constants behind the flatbuffer, as in files of more than 2 GiB; after a
    round trip through .circle.
    """
    model = load(model_path)
    far = b"".join(encoded(model, "tflite", 0).pieces())
    back = to_bytes(load_bytes(to_bytes(model, "circle")), "tflite")
    inputs, expected = recorded(model_path.with_suffix(".npz"))
    tolerance = 1e-4  # LiteRT cannot read a circle file: compare with PyTorch
    if model.format == "tflite":
        expected, tolerance = run_litert(model_path.read_bytes(), inputs, Kernels.OPTIMIZED), 0.0
    for saved in (to_bytes(model, "tflite"), far, back):
        assert_close(run_litert(saved, inputs, Kernels.OPTIMIZED), expected, tolerance=tolerance)


def test_custom_options_after_the_flatbuffer_stay_there() -> None:
    f = File(LITERT)
    f.op("CUSTOM", [0], [1], custom="Mine", customOptions=np.arange(5, dtype=np.uint8))
    model = load_bytes(f.pack())
    op = model.main.ops[0]
    op.extra["far_options"] = True
    data = to_bytes(model)
    again = load_bytes(data).main.ops[0]
    assert isinstance(again, OpaqueOp)
    assert again.extra["custom_options"].tobytes() == bytes(range(5))
    operator = LITERT.read(data)["Subgraphs"][0]["Operators"][0]
    assert operator["CustomOptions"] is None
    place = operator["LargeCustomOptionsOffset"]
    assert place % 16 == 0
    assert data[place : place + 5] == bytes(range(5))
    assert to_bytes(load_bytes(data)) == data
