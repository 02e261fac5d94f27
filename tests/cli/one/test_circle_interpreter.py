# SPDX-License-Identifier: Apache-2.0
"""circle-interpreter: raw and HDF5 input and output files, and errors for mismatched files."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest

from circlekit.cli.one.tensor_commands import circle_interpreter as main

TEXT = """
graph main(%x: f32[?,3], %n: i32[3]) -> %sum, %kept {
  %f = Cast(%n) {in_data_type: i32, out_data_type: f32} : f32[3]
  %sum = Add(%x, %f) : f32[?,3]
  %kept = Neg(%n) : i32[3]
}
"""
X, N = np.arange(6, dtype=np.float32), np.array([1, -2, 3], np.int32)
SUM = X.reshape(2, 3) + N


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "net.ck"
    path.write_text(TEXT)
    return path


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    (tmp_path / "in0").write_bytes(X.tobytes())
    (tmp_path / "in1").write_bytes(N.tobytes())
    return tmp_path / "in"


def test_raw_files_in_and_out(model: Path, prefix: Path) -> None:
    out = model.parent / "out"
    assert main([str(model), str(prefix), str(out)]) == 0
    np.testing.assert_array_equal(np.fromfile(f"{out}0", "<f4").reshape(2, 3), SUM)
    np.testing.assert_array_equal(np.fromfile(f"{out}1", "<i4"), -N)


@pytest.mark.parametrize("named", [True, False])
def test_hdf5_files_in_and_out(model: Path, named: bool) -> None:
    source, target = model.parent / "in.h5", model.parent / "out.h5"
    arrays = {"n": N, "x": X.reshape(2, 3)} if named else {"a": X.reshape(2, 3), "b": N}
    with h5py.File(source, "w") as file:
        for index, (name, array) in enumerate(arrays.items()):
            file[f"value/{index}"] = array
            file.require_group("name").attrs[str(index)] = name
    assert main([str(model), str(source), str(target), "--h5"]) == 0
    with h5py.File(target, "r") as file:
        assert [file["name"].attrs[str(i)] for i in range(2)] == [b"sum", b"kept"]
        np.testing.assert_array_equal(file["value/0"], SUM)
        np.testing.assert_array_equal(file["value/1"], -N)


def test_inputs_are_not_overwritten(model: Path, prefix: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The second output has the path of the second input, or the first output that of the model."""
    (model.parent / "net0").symlink_to(model)
    for output, found in ((prefix, "in0"), (model.parent / "net", "net0")):
        assert main([str(model), str(prefix), str(output)]) in (1, 255)
        assert f"{found} is an input; choose another file to write" in capsys.readouterr().err
    assert Path(f"{prefix}1").read_bytes() == N.tobytes()
    assert model.read_text() == TEXT


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"1234567", "in0 has 7 bytes, expected a multiple of 4 for %x"),
        (b"12345678", r"in0 holds 2 elements, input %x is f32[?,3]"),
        (None, 'in0": No such file or directory; expected the elements of input %x'),
    ],
)
def test_mismatched_files_are_refused(
    model: Path, prefix: Path, content: bytes | None, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    first = Path(f"{prefix}0")
    first.unlink()
    if content is not None:
        first.write_bytes(content)
    assert main([str(model), str(prefix), str(model.parent / "out")]) in (1, 255)
    assert sentence in capsys.readouterr().err
    assert not list(model.parent.glob("out*"))


@pytest.mark.parametrize("content", [None, b"no model"])
def test_a_model_that_cannot_be_loaded(
    content: bytes | None, prefix: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """ONE's circle-interpreter-test searches for the words "Failed to load" and "Cannot open file"."""
    path = prefix.with_name("none.circle")
    if content is not None:
        path.write_bytes(content)
    assert main([str(path), str(prefix), str(prefix)]) == 1
    assert capsys.readouterr().err.startswith(f"ERROR: Failed to load '{path}': ")


def test_real_model_gives_the_recorded_values(shared: Path, tmp_path: Path) -> None:
    """Values recorded from LiteRT, with raw files in and out."""
    source = shared / "models" / "mlperf_tiny" / "ad01_int8.tflite"
    with np.load(source.with_suffix(".npz")) as recorded:
        (tmp_path / "in0").write_bytes(recorded["in0"].tobytes())
        wanted = recorded["out0"].tobytes()
    assert main([str(source), str(tmp_path / "in"), str(tmp_path / "out")]) == 0
    assert (tmp_path / "out0").read_bytes() == wanted
