# SPDX-License-Identifier: Apache-2.0
"""circlekit calibrate and record-minmax: every format of samples; wrong arguments end in a message."""

from __future__ import annotations

import operator
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest

import circlekit as ck
from circlekit.cli.quant.calibrate import calibrate_command
from circlekit.cli.quant.record_minmax import record_minmax
from circlekit.errors import FileError
from circlekit.ir.dtypes import DType
from circlekit.quant.calibration.calibration import observed_values
from circlekit.quant.calibration.ranges import ESTIMATORS, FROM_NUMBERS
from circlekit.quant.calibration.recorded_ranges import record_ranges
from circlekit.quant.calibration.sample_files import RandomSamples, SampleFile, open_samples
from circlekit.quant.calibration.statistics import TensorStatistics
from tests.quant.calibration.test_calibration_runs import interrupt

MODEL = """graph main(%x: f32[1,3], %n: i32[2]) -> %y {
  %a = Mul(%x, [2.0, -1.0, 0.5]) : f32[1,3]
  %y = Gather(%a, %n) {axis: 1} : f32[1,2]
}"""
X = np.array([[[1, 2, 3]], [[-4, 5, 6]], [[7, 8, -9]], [[0.5, 0, 1]]], np.float32)
N = np.array([[0, 1], [1, 2], [2, 2], [0, 0]], np.int32)


def hdf5(path: Path) -> None:
    with h5py.File(path, "w") as file:
        for record, pair in enumerate(zip(X, N, strict=True)):
            for index, array in enumerate(pair):
                file[f"value/{record}/{index}"] = array


def raw_hdf5(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file.create_group("value").attrs["rawData"] = "1"
        for record, pair in enumerate(zip(X, N, strict=True)):
            for index, array in enumerate(pair):
                file[f"value/{record}/{index}"] = np.frombuffer(array.tobytes(), np.int8)


def folder(path: Path) -> None:
    path.mkdir()
    for number, (x, n) in enumerate(zip(X, N, strict=True)):
        (path / f"{number}.bin").write_bytes(x.tobytes() + n.tobytes())


def whole_files(path: Path) -> None:
    folder(path.with_suffix(""))
    names = [str(path.with_suffix("") / f"{number}.bin") for number in range(len(X))]
    path.write_text("\n".join(names) + "\n\n")


def files_of_inputs(path: Path) -> None:
    for number, (x, n) in enumerate(zip(X, N, strict=True)):
        (path.parent / f"x{number}").write_bytes(x.tobytes())
        (path.parent / f"n{number}").write_bytes(n.tobytes())
    path.write_text("\n".join(f"x{number} n{number}" for number in range(len(X))))


FORMATS: dict[str, Callable[[Path], object]] = {
    "a.h5": hdf5,
    "raw.h5": raw_hdf5,
    "a.npz": lambda path: np.savez(path, x=X, n=N),
    "compressed.npz": lambda path: np.savez_compressed(path, x=X, n=N),
    "folder": folder,
    "whole.txt": whole_files,
    "inputs.txt": files_of_inputs,
}


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ck.Model:
    model = ck.parse(MODEL)
    ck.save(model, tmp_path / "in.circle")
    monkeypatch.chdir(tmp_path)
    return model


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_gives_the_same_samples(name: str, model: ck.Model, tmp_path: Path) -> None:
    """The length hint counts the files of a folder and the lines of a list; it is 1 for other files."""
    FORMATS[name](tmp_path / name)
    samples = list(open_samples(tmp_path / name, model))
    np.testing.assert_array_equal([x for x, _ in samples], X)
    np.testing.assert_array_equal([n for _, n in samples], N)
    is_counted = (tmp_path / name).is_dir() or name.endswith(".txt")
    assert operator.length_hint(open_samples(tmp_path / name, model)) == (len(X) if is_counted else 1)


def test_a_line_of_a_list_may_be_longer_than_the_name_of_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line is longer than 255 characters, the longest name of a file."""
    names = [f"input_of_the_model_{index}" for index in range(20)]
    inputs = ", ".join(f"%{name}: f32[1]" for name in names)
    model = ck.parse(f"graph main({inputs}) -> %y {{ %y = Add(%{names[0]}, %{names[19]}) }}")
    monkeypatch.chdir(tmp_path)
    for index, name in enumerate(names):
        Path(f"{name}.raw").write_bytes(np.float32(index).tobytes())
    Path("samples.txt").write_text(" ".join(f"{name}.raw" for name in names))
    (sample,) = open_samples("samples.txt", model)
    np.testing.assert_array_equal(np.concatenate(sample), np.arange(20))


@pytest.mark.parametrize("path", ["", "x" * 300, "x" * 300 + ".txt"])
def test_samples_without_a_valid_name_are_refused(path: str) -> None:
    model = ck.parse("graph main(%x: f32[3]) -> %x { }")
    with pytest.raises(FileError, match="cannot be read"):
        list(open_samples(path, model))


def test_random_samples_have_the_seed_0_if_none_is_given() -> None:
    model = ck.parse("graph main(%x: f32[3]) -> %x { }")
    (plain,), (same,), (other,) = (list(RandomSamples(model, 1, *seed)) for seed in ((), (0,), (1,)))
    np.testing.assert_array_equal(plain, same)
    assert not np.array_equal(plain, other)


@pytest.mark.parametrize(("least", "size"), [(1, 1), (6, 6), (7, 32), (100, 128)])
def test_random_samples_are_large_enough_for_the_model(least: int, size: int) -> None:
    model = ck.parse(f"graph main(%x: f32[?,?]) -> %y {{ %y = Slice(%x, [0, 0], [-1, {least}]) }}")
    (first,), (second,) = RandomSamples(model, 2)
    assert first.shape[1] == second.shape[1] == size
    assert not np.array_equal(first, second)


def recorded_ranges(model: ck.Model) -> ck.Calibration:
    """Return the ranges that are recorded in ``model``."""
    found = ck.Calibration([{} for _ in model.graphs])
    for index, _, value in observed_values(model):
        q = value.quantization
        if q is not None and q.min is not None and q.max is not None and q.min.size:
            found.graphs[index][value.name] = TensorStatistics(float(q.min.min()), float(q.max.max()))
    return found


@pytest.mark.parametrize("name", FORMATS)
def test_record_minmax_takes_every_format(name: str, model: ck.Model, tmp_path: Path) -> None:
    FORMATS[name](tmp_path / name)
    words = ["--input_model", "in.circle", "--output_model", "out.circle", "--input_data", name]
    kind = "list" if name.endswith(".txt") else "directory" if name == "folder" else "h5"
    assert record_minmax([*words, "--input_data_format", kind, "--num_threads", "2"]) == 0
    recorded = recorded_ranges(ck.load(tmp_path / "out.circle"))
    assert list(recorded.main) == ["x", "a", "y"]
    lows, highs = X.reshape(4, 3).min(1), X.reshape(4, 3).max(1)
    expected = (np.percentile(lows, 1), np.percentile(highs, 99))
    assert (recorded["x"].min, recorded["x"].max) == pytest.approx(expected, rel=1e-6)


def test_record_minmax_averages(model: ck.Model, tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=X, n=N)
    words = "--input_model in.circle --output_model out.circle --input_data a.npz --mode moving_average"
    assert record_minmax([*words.split(), "--moving_avg_batch", "2", "--moving_avg_const", "0.25"]) == 0
    recorded = recorded_ranges(ck.load(tmp_path / "out.circle"))["x"]
    # batches of 2 samples: the first has -4 to 6, the second -9 to 8
    assert (recorded.min, recorded.max) == (-4 * 0.75 - 9 * 0.25, 6 * 0.75 + 8 * 0.25)


def test_tensors_that_no_run_computed_get_no_range(model: ck.Model) -> None:
    seen = ck.calibrate(model, [[X[0], N[0]]])
    del seen.main["a"]
    assert record_ranges(model, seen) == ["a"]
    assert list(recorded_ranges(model).main) == ["x", "y"]


def test_record_minmax_without_data_says_so(
    model: ck.Model, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("one.circle", "two.circle"):
        assert record_minmax(["--input_model", "in.circle", "--output_model", name]) == 0
    assert "recorded data: 3 (seeded random data: ranges of real data differ)" in capsys.readouterr().out
    assert (tmp_path / "one.circle").read_bytes() == (tmp_path / "two.circle").read_bytes()
    recorded = recorded_ranges(ck.load(tmp_path / "one.circle"))["x"]
    assert -5 <= (recorded.min or 0) < 0 < (recorded.max or 0) <= 5


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--input_data nope.h5", "nope.h5: no such file"),
        ("--input_data in.circle", "in.circle"),
        ("--mode median", "Unsupported mode 'median'"),
        ("--input_data_format csv", "Unsupported input data format 'csv'"),
        ("--input_data in.circle --input_data_format dir", "expected a folder of raw files"),
        ("--min_percentile 101", "from 0 to 100, got 101"),
        ("--min_percentile 90 --max_percentile 10", "min_percentile <= max_percentile, got 90 and 10"),
        ("--mode moving_average --moving_avg_const 2", "from 0 to 1, got 2"),
    ],
)
def test_record_minmax_refuses(
    words: str, message: str, model: ck.Model, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--input_model", "in.circle", "--output_model", "out.circle", *words.split()]
    assert record_minmax(given) in (1, 255)
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out.circle").exists()


def test_files_that_one_recorded_have_ranges_for_the_values_that_we_observe(shared: Path) -> None:
    paths = sorted((shared / "peer/one/quant").glob("*.recorded.circle"))
    assert paths
    for path in paths:
        model = ck.load(path)
        names = {value.name for _, _, value in observed_values(model)}
        assert set(recorded_ranges(model).main) == names, path.name
        given = {
            value.name
            for value in model.main.values()
            if value.data is None and value.quantization is not None and value.quantization.min is not None
        }
        assert given == names, path.name


@pytest.mark.parametrize("output", ["out.json", "out.npz", "out.circle", "out.tflite"])
def test_calibrate_writes_by_extension(output: str, model: ck.Model, tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=X, n=N)
    assert calibrate_command(["in.circle", output, "--inputs", "a.npz"]) == 0
    is_model = output.endswith(("circle", "tflite"))
    path = tmp_path / output
    found = recorded_ranges(ck.load(path)) if is_model else ck.Calibration.load(path)
    assert (found["a"].min, found["a"].max) == (-8.0, 14.0)  # 2 * -4 and 2 * 7


def test_calibrate_resumes(model: ck.Model, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez(tmp_path / "a.npz", x=X, n=N)
    state = interrupt(ck.load("in.circle"), zip(X[:2], N[:2], strict=True), Path("out.json"), source="a.npz")
    assert state.samples == 2
    words = ["in.circle", "out.json", "--inputs", "a.npz", "--resume"]
    assert calibrate_command(words) == 0
    assert calibrate_command(["in.circle", "whole.json", "--inputs", "a.npz"]) == 0
    assert (tmp_path / "out.json").read_bytes() == (tmp_path / "whole.json").read_bytes()
    assert calibrate_command(words) == 1
    assert "is complete: there is nothing to resume" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ("in.circle out.json", 2, "expected either --inputs DATA or --random N"),
        ("in.circle out.json --random 1 --inputs a.npz", 2, "expected either"),
        ("in.circle out.json --inputs a.npz --seed 1", 2, "--seed needs --random"),
        ("in.circle out.circle --random 1 --resume", 2, "--resume needs"),
        ("in.circle out.txt --random 1", 2, "expected the extension .json, .npz, .circle or .tflite"),
        ("in.circle in.circle --random 1", 1, "is an input"),
        ("in.circle no/out.json --random 1", 1, "does not exist"),
        ("in.circle out.json --inputs empty.txt", 1, "a line for each sample, got none"),
        ("in.circle out.json --inputs three.txt", 1, "one for each of 2 inputs, got 3"),
        ("in.circle out.json --inputs short.txt", 1, "in line 1 of short.txt"),
        ("in.circle out.json --inputs nan.npz", 1, "%x has NaN in 1 of 3 elements"),
        ("int.circle out.json --random 1", 1, "no float tensor"),
        ("in.circle out.json --random 1 --scheduler nowhere", 1, "Dask"),
        ("in.circle out.json --random 1 --dask nowhere", 1, "Dask"),
    ],
)
def test_calibrate_refuses(
    words: str,
    code: int,
    message: str,
    model: ck.Model,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "empty.txt").write_text("\n")
    (tmp_path / "three.txt").write_text("a b c\n")
    (tmp_path / "short.txt").write_text("empty.txt\n")
    np.savez(tmp_path / "nan.npz", x=np.array([[1, np.nan, 2]], np.float32), n=N[0])
    ck.save(ck.parse("graph main(%x: i32[2]) -> %y { %y = Neg(%x) : i32[2] }"), tmp_path / "int.circle")
    assert calibrate_command(words.split()) == code
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out.json").exists()


def test_a_list_names_files_beside_it(model: ck.Model, tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "with space.bin").write_bytes(X[0].tobytes() + N[0].tobytes())
    (inside / "all.lst").write_text("with space.bin\n")
    ((x, n),) = SampleFile(inside / "all.lst", model, is_list=True)
    assert (x.tolist(), n.tolist()) == (X[0].tolist(), N[0].tolist())
    (inside / "all.lst").write_text("with space.bin\n", encoding="utf-8-sig")  # as editors of Windows do
    assert len(list(SampleFile(inside / "all.lst", model, is_list=True))) == 1
    (inside / "all.lst").write_text("missing.bin\n")
    with pytest.raises(FileError, match=r"missing\.bin"):
        list(SampleFile(inside / "all.lst", model, is_list=True))


def test_random_samples_are_said_to_be_random(model: ck.Model, capsys: pytest.CaptureFixture[str]) -> None:
    assert calibrate_command(["in.circle", "out.json", "--random", "2", "--seed", "5"]) == 0
    assert "the samples are random; ranges of real data differ" in capsys.readouterr().out
    assert ck.Calibration.load("out.json").source == "2 random samples, seed 5"


@pytest.mark.parametrize(
    ("count", "words"), [("1", "1 sample (1 random sample,"), ("2", "2 samples (2 random samples,")]
)
def test_the_output_has_the_number_of_samples_in_singular_or_plural(
    count: str, words: str, model: ck.Model, capsys: pytest.CaptureFixture[str]
) -> None:
    assert calibrate_command(["in.circle", "out.json", "--random", count]) == 0
    assert capsys.readouterr().out.startswith(words)


def test_quantize_takes_a_file_too(model: ck.Model, tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=X, n=N)
    ck.quantize(model, "int8", samples=tmp_path / "a.npz", auto=False, passes=[])
    assert any(value.dtype is DType.INT8 for value in model.main.values())


def test_histograms_are_counted_if_asked_or_needed(model: ck.Model, tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=X, n=N)
    for flags, has_histogram in (
        ([], False),
        (["--histograms"], True),
        *((["--estimator", name], name in FROM_NUMBERS) for name in ESTIMATORS),
    ):
        assert calibrate_command(["in.circle", "out.json", "--inputs", "a.npz", *flags]) == 0
        assert (ck.Calibration.load("out.json")["a"].histogram is not None) is has_histogram, flags
