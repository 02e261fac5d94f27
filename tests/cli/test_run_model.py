# SPDX-License-Identifier: Apache-2.0
"""circlekit run: outputs are those of PyTorch and numpy; input and output files, random inputs, times."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest

from circlekit.cli.run_model import run_command
from tests.cli.call_command import call_command

TEXT = """
signature "total" @main (left: %x, right: %n) -> (sum: %y, negative: %kept)
signature "half" @other (in: %p) -> (out: %q)
graph main(%x: f32[?,3], %n: i32[3]) -> %y, %kept {
  %f = Cast(%n) {in_data_type: i32, out_data_type: f32} : f32[3]
  %y = Add(%x, %f) : f32[?,3]
  %kept = Neg(%n) : i32[3]
}
graph other(%p: f32[2]) -> %q { %q = Mul(%p, [0.5, 0.5]) }
"""
X, N = np.arange(12, dtype=np.float32).reshape(2, 2, 3), np.array([[1, -2, 3], [0, 5, 6]], np.int32)
Y, KEPT = X + N[:, None], -N

Output = pytest.CaptureFixture[str]


@pytest.fixture
def net(tmp_path: Path) -> str:
    (tmp_path / "net.ck").write_text(TEXT)
    return str(tmp_path / "net.ck")


def test_outputs_are_those_of_pytorch(shared: Path, tmp_path: Path) -> None:
    model = shared / "models" / "tico" / "llm_block.circle"
    data, target = model.with_suffix(".npz"), tmp_path / "out.npz"
    done = call_command("circlekit", "run", str(model), "--inputs", str(data), "-o", str(target))
    assert (done.returncode, done.stderr) == (0, "")
    assert f"{data}, 1 record" in done.stdout
    with np.load(data) as expected, np.load(target) as found:
        (name,) = found
        np.testing.assert_allclose(found[name], expected["out0"], atol=1e-5)
        assert f"%{name}: float32[1,8,64]" in done.stdout
        assert f"max {expected['out0'].max():.6g}"[:-3] in done.stdout  # the beginning of the number


def test_all_records_run_and_are_saved(net: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", x=X, n=N)
    for target in ("out.npz", "out.h5", "out/"):
        words = [net, "--inputs", str(tmp_path / "in.npz"), "-q", "-o", str(tmp_path / target)]
        assert run_command(words) == 0
    with np.load(tmp_path / "out.npz") as found:
        assert {name: found[name].tolist() for name in found} == {"y": Y.tolist(), "kept": KEPT.tolist()}
    with h5py.File(tmp_path / "out.h5") as file:
        for record in range(2):
            assert file[f"value/{record}/0"][()].tolist() == Y[record].tolist()
            assert file[f"value/{record}/1"][()].tolist() == KEPT[record].tolist()
    for record in range(2):
        folder = tmp_path / "out" / f"record_{record}"
        assert np.fromfile(folder / "output0", "<f4").tolist() == Y[record].reshape(-1).tolist()
        assert np.fromfile(folder / "output1", "<i4").tolist() == KEPT[record].tolist()


def test_names_of_a_signature(net: str, tmp_path: Path, capsys: Output) -> None:
    np.savez(tmp_path / "in.npz", left=X[0], right=N[0])
    words = [net, "--inputs", str(tmp_path / "in.npz"), "--signature", "total", "--json"]
    assert run_command(words) == 0
    (record,) = json.loads(capsys.readouterr().out)["records"]
    assert {o["name"]: o["elements"] for o in record["outputs"]} == {
        "sum": Y[0].tolist(), "negative": KEPT[0].tolist()
    }  # fmt: skip
    np.save(tmp_path / "in.npy", np.array([3, -4], np.float32))
    for flag in ("--signature=half", "--graph=other"):
        assert run_command([net, "--inputs", str(tmp_path / "in.npy"), flag, "--json"]) == 0
        (record,) = json.loads(capsys.readouterr().out)["records"]
        assert record["outputs"][0]["elements"] == [1.5, -2.0]
    assert run_command([net, "--signature", "hal"]) == 1
    assert "there is no signature 'hal'; did you mean half?" in capsys.readouterr().err


def test_the_first_of_two_signatures_with_one_key_runs(net: str, capsys: Output) -> None:
    """LiteRT runs the first one, too."""
    Path(net).write_text(TEXT.replace('"total"', '"half"'))
    assert run_command([net, "--signature", "half", "--json"]) == 0
    (record,) = json.loads(capsys.readouterr().out)["records"]
    assert [output["name"] for output in record["outputs"]] == ["sum", "negative"]
    assert run_command([net, "--signature", "x"]) == 1
    assert run_command([net, "--graph", "x"]) == 1
    assert "the model has main, other\n" in capsys.readouterr().err


def test_random_inputs_are_seeded(net: str, capsys: Output) -> None:
    documents = []
    for words in ((), ("--random", "--seed=0"), ("--seed=1",)):
        assert run_command([net, "--json", *words]) == 0
        documents.append(json.loads(capsys.readouterr().out))
    default, same, other = documents
    assert default == same
    assert [document["inputs"]["seed"] for document in documents] == [0, 0, 1]
    assert default["records"][0]["inputs"][0]["elements"] != other["records"][0]["inputs"][0]["elements"]


def test_random_inputs_are_announced(net: str, capsys: Output) -> None:
    assert run_command([net]) == 0
    sentence = "random, seed 0, unknown dimensions are 1 (--inputs DATA runs on your own inputs)"
    assert sentence in capsys.readouterr().out


def test_a_model_from_the_standard_input(tmp_path: Path) -> None:
    np.save(tmp_path / "in.npy", np.array([3, -4], np.float32))
    words = ["run", "-", "--graph=other", "--inputs", str(tmp_path / "in.npy")]
    command = [sys.executable, "-m", "circlekit", *words]
    done = subprocess.run(command, input=TEXT, capture_output=True, text=True, check=True)
    assert "min -2, mean -0.25, max 1.5" in done.stdout
    assert "[ 1.5 -2. ]" in done.stdout


def test_times(net: str) -> None:
    done = call_command("circlekit", "run", net, "--repeat", "5", "--per-op", "--json")
    document = json.loads(done.stdout)
    times, ops = document["milliseconds"], document["operators"]
    assert times["runs"] == 5
    assert 0 < times["min"] <= times["median"] <= times["max"]
    assert sorted(op["name"] for op in ops) == ["f", "kept", "y"]
    assert {op["kind"] for op in ops} == {"CAST", "NEG", "ADD"}
    durations = [op["milliseconds"] for op in ops]
    assert durations == sorted(durations, reverse=True)
    assert 0 < sum(durations) <= times["max"]


def test_times_as_text(capsys: Output, tmp_path: Path) -> None:
    weights = "%w = const f32[4,8] gaussian(0, 1)"
    text = f"graph g(%x: f32[1,8]) -> %y {{\n{weights}\n%y = FullyConnected(%x, %w, none)\n}}"
    (tmp_path / "fc.ck").write_text(text)
    assert run_command([str(tmp_path / "fc.ck"), "--per-op"]) == 0
    *_, time, _, head, line = capsys.readouterr().out.splitlines()
    assert time.startswith("time: median ")
    assert head.split() == ["ms", "%", "MACs", "operator"]
    assert line.split()[1:] == ["100.0", "32", "FULLY_CONNECTED", "%y"]  # MACs: 4 outputs of 8 products


WRONG = {
    "missing.npz": "missing.npz: no such file or folder",
    "wrong.npz": "wrong.npz: input %x: expected f32[?,3], got f64[2,3]",
    "cut.npz": "cut.npz is not a readable npz file",
}


@pytest.mark.parametrize("name", WRONG)
def test_unusable_inputs(name: str, net: str, tmp_path: Path, capsys: Output) -> None:
    np.savez(tmp_path / "wrong.npz", x=X[0].astype(float), n=N[0])
    (tmp_path / "cut.npz").write_bytes((tmp_path / "wrong.npz").read_bytes()[:-40])
    target = tmp_path / "out.npz"
    assert run_command([net, "--inputs", str(tmp_path / name), "-o", str(target)]) == 1
    assert WRONG[name] in capsys.readouterr().err
    assert not target.exists()


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["-o", "out.txt"], 2, "out.txt: expected one of .npz, .npy, .h5"),
        (["-o", "-"], 2, "expected a file or a folder, got -"),
        (["-o", "no/out.npz"], 1, "does not exist"),
        (["-o", "out.npy"], 1, "an npy file holds one output, got 2"),
        (["--inputs", "x.npz", "--seed", "1"], 2, "exclude each other"),
        (["--repeat", "0"], 2, "expected an integer above 0"),
        (["--graph", "mian"], 1, "there is no graph 'mian'; did you mean main?"),
    ],
)
def test_wrong_usage(words: list[str], code: int, sentence: str, net: str, capsys: Output) -> None:
    assert run_command([net, *words]) == code
    assert sentence in capsys.readouterr().err


def test_optimize_records_values_of_all_given_records(net: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", x=X, n=N)
    words = ["--O1", "--record", str(tmp_path / "record"), "--inputs", str(tmp_path / "in.npz")]
    done = call_command("circlekit", "optimize", net, str(tmp_path / "out.circle"), *words)
    assert done.returncode == 0, done.stderr
    for record, folder in enumerate(("", "record_1")):
        with h5py.File(tmp_path / "record" / folder / "input.h5") as file:
            assert file["value/0"][()].tolist() == X[record].tolist()
        with h5py.File(tmp_path / "record" / folder / "opt.expected.h5") as file:
            assert file["value/0"][()].tolist() == Y[record].tolist()


@pytest.mark.parametrize(("words", "sentence"), [([], "(1 run of"), (["--repeat", "2"], "(2 runs of")])
def test_the_number_of_measured_runs(words: list[str], sentence: str, net: str, capsys: Output) -> None:
    assert run_command([net, "--per-op", *words]) == 0
    assert sentence in capsys.readouterr().out


def test_unknown_dimensions_are_mentioned(net: str, capsys: Output) -> None:
    for words, expected in (([], True), (["--graph", "other"], False)):
        assert run_command([net, *words]) == 0
        assert ("unknown dimensions are 1" in capsys.readouterr().out) is expected


def test_random_inputs_are_large_enough_for_the_model(capsys: Output, tmp_path: Path) -> None:
    (tmp_path / "net.ck").write_text(
        "graph main(%x: f32[?,?,2]) -> %y { %y = Slice(%x, [0, 0, 0], [-1, 99, -1]) }"
    )
    assert run_command([str(tmp_path / "net.ck")]) == 0
    out = capsys.readouterr().out
    assert "unknown dimensions are 1 or 128 (" in out
    assert "%y: float32[1,99,2]" in out


@pytest.mark.parametrize(("type_", "is_possible"), [("f32[*]", True), ("bf16[2]", False)])
def test_own_inputs_are_suggested_where_they_can_be_given(
    type_: str, is_possible: bool, capsys: Output, tmp_path: Path
) -> None:
    (tmp_path / "net.ck").write_text(f"graph main(%x: {type_}) -> %y {{ %y = Neg(%x) : {type_} }}")
    assert run_command([str(tmp_path / "net.ck")]) == 1
    error = capsys.readouterr().err
    assert "cannot make inputs for %x" in error
    assert ("--inputs DATA" in error) is is_possible


def test_times_are_aligned_to_the_right(net: str, capsys: Output) -> None:
    assert run_command([net, "--per-op"]) == 0
    lines = capsys.readouterr().out.splitlines()
    head, *rows = lines[lines.index("operators, longest first:") + 1 :]
    assert len(rows) == 3
    assert {line.index(".") + len(".000") for line in rows} == {head.index("ms") + len("ms")}


def test_flags_that_exclude_each_other(net: str, capsys: Output) -> None:
    for words in (
        ["--inputs", "x.npz", "--random"],
        ["--inputs", "x.npz", "--seed", "0"],
        ["--signature", "total", "--graph", "main"],
    ):
        assert run_command([net, *words]) == 2
        assert "exclude each other" in capsys.readouterr().err
