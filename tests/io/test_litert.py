# SPDX-License-Identifier: Apache-2.0
"""LiteRT loads the files we write and computes equal values."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType

import circlekit.ops  # noqa: F401  # operators are declared by being imported
from circlekit.io.read.load import load, load_bytes
from circlekit.io.write.save import encoded, to_bytes
from circlekit.ir.op import OpaqueOp
from circlekit.ir.value import Array
from tests.io.models import File
from tests.io.oracles import LITERT


def outputs(data: bytes, path: Path) -> list[Array]:
    """Return LiteRT's results for the recorded inputs ``in0``, ``in1``... next to the model."""
    given = np.load(path.with_suffix(".npz"))
    kind = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    interpreter = Interpreter(model_content=data, experimental_op_resolver_type=kind)
    interpreter.allocate_tensors()
    for index, detail in enumerate(interpreter.get_input_details()):
        interpreter.set_tensor(detail["index"], given[f"in{index}"])
    interpreter.invoke()
    return [interpreter.get_tensor(d["index"]).copy() for d in interpreter.get_output_details()]


def test_values_stay_equal_after_saving(model_path: Path) -> None:
    """The model is saved as .tflite in three ways.

    They are: as usual; with its constants behind the flatbuffer, as in files of more than 2 GiB; after a
    round trip through .circle.
    """
    model = load(model_path)
    far = b"".join(encoded(model, "tflite", 0).pieces())
    back = to_bytes(load_bytes(to_bytes(model, "circle")), "tflite")
    if model.format == "tflite":
        expected, tolerance = outputs(model_path.read_bytes(), model_path), 0.0
    else:  # LiteRT cannot read the original: compare with PyTorch
        given = np.load(model_path.with_suffix(".npz"))
        expected, tolerance = [given[n] for n in sorted(given.files) if n.startswith("out")], 1e-4
    for saved in (to_bytes(model, "tflite"), far, back):
        for a, b in zip(outputs(saved, model_path), expected, strict=True):
            assert (a.dtype, a.shape) == (b.dtype, b.shape)
            assert np.abs(a - b).max() <= tolerance * np.abs(b).max()


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
