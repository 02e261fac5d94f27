# SPDX-License-Identifier: Apache-2.0
"""circlekit optimize on real models: in circlekit and in LiteRT, the results have the values of PyTorch."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

import circlekit
from circlekit.cli.optimize import optimize as main
from circlekit.equivalence.litert import run_litert
from circlekit.io.write.save import save as to_file
from circlekit.ir.text import parse_model
from circlekit.ops.convolution.conv import TransposeConv
from tests.passes.kit import assert_close
from tests.recorded_values import recorded

AT_MOST = {"cbr": 10, "dcgan": 10, "unet": 18, "resnet": 20, "mbv2": 22, "llm_block": 40}
"""The largest number of operators that the optimized circle file may have."""

TCONVS = {"cbr": 0, "dcgan": 4, "unet": 3, "resnet": 0, "mbv2": 0, "llm_block": 0}
"""The number of transposed convolutions of the PyTorch network, and so of the optimized circle file."""

AS_TFLITE = {"dcgan": 7, "unet": 16}
"""The number of operators of the optimized TFLite file, in which transposed convolutions fuse activations."""

TOLERANCE = 1e-4
"""The allowed difference from PyTorch, as a fraction of the largest magnitude."""


@pytest.mark.parametrize("name", AT_MOST)
def test_circle_values_stay_equal_after_o1(shared: Path, tmp_path: Path, name: str) -> None:
    source, target = shared / "models" / "tico" / f"{name}.circle", tmp_path / "out.circle"
    assert main(["--O1", "--verify", str(source), str(target)]) == 0
    assert target.stat().st_size <= source.stat().st_size
    before, after = circlekit.load(source), circlekit.load(target)
    kinds = Counter(op.code for op in after.graphs[0].ops)
    assert len(after.graphs[0].ops) <= AT_MOST[name]
    assert kinds["TRANSPOSE_CONV"] == TCONVS[name]
    for op in after.graphs[0].ops:
        if isinstance(op, TransposeConv):
            assert op.bias is not None
            assert op.version == 3
            assert op.act.name == "NONE"
    for old, new in (
        (before.main.inputs, after.main.inputs),
        (before.main.outputs, after.main.outputs),
    ):
        assert [(v.name, v.type) for v in old] == [(v.name, v.type) for v in new]
    inputs, outputs = recorded(source.with_suffix(".npz"))
    assert_close(circlekit.run(before, inputs), outputs, tolerance=TOLERANCE)
    assert_close(circlekit.run(after, inputs), outputs, tolerance=TOLERANCE)


@pytest.mark.parametrize("name", AT_MOST)
def test_tflite_values_stay_equal_after_o1(shared: Path, tmp_path: Path, name: str) -> None:
    source, target = shared / "models" / "tico" / f"{name}.circle", tmp_path / "out.tflite"
    assert main(["--O1", str(source), str(target)]) == 0
    ops = circlekit.load(target).main.ops
    if name in AS_TFLITE:
        assert len(ops) == AS_TFLITE[name]
    inputs, outputs = recorded(source.with_suffix(".npz"))
    assert_close(run_litert(target.read_bytes(), inputs), outputs, tolerance=TOLERANCE)


@pytest.mark.parametrize("name", AT_MOST)
def test_optimizing_twice_changes_nothing(shared: Path, tmp_path: Path, name: str) -> None:
    source = shared / "models" / "tico" / f"{name}.circle"
    paths = [tmp_path / f"{i}.circle" for i in range(3)]
    assert main(["--O1", str(source), str(paths[0])]) == 0
    assert main(["--O1", str(source), str(paths[1])]) == 0
    assert main(["--O1", str(paths[0]), str(paths[2])]) == 0
    assert paths[0].read_bytes() == paths[1].read_bytes()
    once, twice = (
        [line for line in str(circlekit.load(path)).splitlines() if not line.startswith("  table [")]
        for path in (paths[0], paths[2])
    )
    # without the lines "  table [": the order of tensors changes where an activation is fused and split again
    assert once == twice


def test_model_with_operators_out_of_order_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file can be read, but an operator reads the result of a later one."""
    model = parse_model("graph main(%x: f32[2]) -> %z {\n%y = Relu(%x)\n%z = Neg(%y)\n}")
    first, second = model.main.ops
    model.main.unlink(first)
    model.main.insert_after(second, first)
    source, target = tmp_path / "in.circle", tmp_path / "out.circle"
    to_file(model, source)
    assert main(["--O1", str(source), str(target)]) == 1
    assert not target.exists()
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"error: {source}: ")
    assert "%y" in line
