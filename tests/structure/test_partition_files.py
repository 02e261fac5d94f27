# SPDX-License-Identifier: Apache-2.0
"""Partition: the commands, and the files that they read and write."""

from __future__ import annotations

import errno
import json
import os
import re
from pathlib import Path

import numpy as np
import pytest

import circlekit
from circlekit.api.structure import load_parts, partition_file, save_parts
from circlekit.cli.structure.partition import circle_part_driver, circle_partitioner, partition_command
from circlekit.errors import CirclekitError, FormatError, FormatWarning, ModelError, UnsupportedError
from circlekit.structure.connection import ConnectedModel, Connection, read_connection
from circlekit.structure.part_table import read_part_file
from tests.structure.partition_cases import SHARED_CONSTANT, table_of


def write_example(folder: Path, part: str) -> None:
    circlekit.save(circlekit.parse(SHARED_CONSTANT), folder / "net.circle")
    (folder / "net.part").write_text(part)


PART = "# comment\n[partition]\nbackends=cpu, npu\ndefault=npu\n\n[OPCODE]\n_=cpu\nMUL=npu\n"


def test_files_of_the_partitioner_and_the_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_example(tmp_path, PART)
    monkeypatch.chdir(tmp_path)
    assert circle_partitioner(["--part_file", "net.part", "--input_file", "net.circle"]) == 0
    assert capsys.readouterr().out == ""
    names = ["net.00001_cpu.circle", "net.00002_npu.circle", "net.00003_cpu.circle", "net.conn.ini"]
    written = sorted(path.name for path in tmp_path.iterdir() if path.name not in ("net.part", "net.circle"))
    assert written == [*names, "net.conn.json"]
    document = json.loads(Path("net.conn.json").read_text())
    assert document["source"] == {
        "file": "net.circle", "inputs": ["x", "unread"], "outputs": ["y", "x", "w"],
    }  # fmt: skip
    assert document["parts"][1] == {"file": names[1], "inputs": ["b"], "outputs": ["c"]}
    divided = load_parts("net.conn.ini")
    assert divided.connection == load_parts("net.conn.json").connection
    arrays = {"x": np.arange(6, dtype=np.float32).reshape(2, 3), "unread": np.zeros(1, np.float32)}
    # with a = x + w = [[1, 3, 5], [4, 6, 8]], all positive: y = a * [1, 2, 3] - a
    for inputs in (list(arrays.values()), arrays, {**arrays, "other": np.zeros(1, np.float32)}):
        assert divided.run(inputs)[0].tolist() == [[0, 3, 10], [0, 6, 16]]
    for fewer in ([arrays["x"]], {"x": arrays["x"]}):
        with pytest.raises(ModelError, match=r"net\.circle: expected 2 inputs, got 1"):
            divided.run(fewer)
    assert divided.run(tuple(arrays.values()))[0].tolist() == [[0, 3, 10], [0, 6, 16]]
    with pytest.raises(ModelError, match="expected a list of arrays, or a dict by input name, got NoneType"):
        divided.run(None)  # type: ignore[arg-type]
    np.arange(6, dtype=np.float32).tofile("in0")
    np.zeros(1, np.float32).tofile("in1")
    assert circle_part_driver(["net.conn.ini", "2", "in", "out", "--compare"]) == 0
    assert np.fromfile("out0", np.float32).tolist() == [0, 3, 10, 0, 6, 16]
    assert Path("out0.shape").read_text() == "2,3"


def test_the_partition_command_prints_a_row_for_each_part(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_example(tmp_path, PART)
    words = [
        str(tmp_path / "net.circle"),
        "-o",
        str(tmp_path / "parts"),
        "--opcode",
        "MUL=npu",
        "--default",
        "cpu",
    ]
    assert partition_command(words) == 0
    heading, *rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert heading == ["file", "operators", "inputs", "outputs"]
    for file, *sizes in rows:
        graph = circlekit.load(tmp_path / "parts" / file).main
        assert sizes == [str(len(each)) for each in (graph, graph.inputs, graph.outputs)]
    assert rows[-1][0] == "net.00003_cpu.circle"


def test_the_folder_of_parts_that_cannot_be_written_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_example(tmp_path, PART)

    def full(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "open", full)
    words = ["-o", str(tmp_path / "parts"), "--opcode", "MUL=npu", "--default", "cpu"]
    assert partition_command([str(tmp_path / "net.circle"), *words]) == 1
    assert not (tmp_path / "parts").exists()


def test_the_backends_come_from_one_flag_or_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With a part file, --default replaces the default of the file."""
    write_example(tmp_path, PART)
    words = [str(tmp_path / "net.circle"), "-o", str(tmp_path / "parts")]
    part = str(tmp_path / "net.part")
    for flags in (
        [],
        ["--part", part, "--opcode", "MUL=npu"],
        ["--opcode", "MUL=npu", "--opname", "y=npu", "--default", "cpu"],
        ["--opcode", "MUL=npu"],
    ):
        assert partition_command([*words, *flags]) == 2, flags
    assert not (tmp_path / "parts").exists()
    backends = []
    for flags in ([], ["--default", "npu"]):
        capsys.readouterr()
        assert partition_command([*words, "--part", part, *flags]) == 0
        backends.append(re.findall(r"_(\w+)\.circle", capsys.readouterr().out))
    assert backends == [["cpu", "npu", "cpu"], ["npu"]]


def test_parts_of_a_recipe_are_files_of_its_format(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "net.ck").write_text(
        "model tflite\ngraph main(%x: f32[2]) -> %z { %y = Neg(%x)  %z = Abs(%y) }"
    )
    words = [str(tmp_path / "net.ck"), "--opcode", "NEG=npu", "--default", "cpu", "-o", str(tmp_path)]
    assert partition_command(words) == 0
    assert "net.00001_npu.tflite" in capsys.readouterr().out
    divided = load_parts(tmp_path / "net.conn.json")
    assert [part.format for part in divided.parts] == ["tflite", "tflite"]
    assert divided.source.source == str(tmp_path / "net.ck")
    (tmp_path / "net.ck").write_text("graph main(%x: f32[2]) -> %x { }")
    assert partition_command(words) == 0
    assert load_parts(tmp_path / "net.conn.json").parts == []


@pytest.mark.parametrize(("section", "default"), [("OPNAME", "npu"), ("OPCODE", "cpu")])
def test_the_default_of_the_other_section_is_ignored(section: str, default: str, tmp_path: Path) -> None:
    text = f"[partition]\nbackends=cpu,npu\ndefault=cpu\ncomply=opname\n[{section}]\n_=npu\n"
    (tmp_path / "net.part").write_text(text)
    assert read_part_file(tmp_path / "net.part").default == default


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ("[partition]\nbackends=cpu\n", "'default' is required"),
        ("[partition]\nbackends=cpu\ndefault=cpu\ncomply=color\n", "expected comply=opcode or comply=opname"),
        ("backends=cpu\n", "line 1: expected a section"),
        ("[partition]\nbackends=cpu\ndefault=cpu\n[OPCODE]\nADD=npu\n", "OPCODE ADD is not assigned"),
    ],
)
def test_wrong_part_files(
    part: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_example(tmp_path, part)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(CirclekitError, match=message):
        partition_file("net.part", "net.circle", tmp_path)
    words = ["--part_file", "net.part", "--input_file", "net.circle", "--work_path", str(tmp_path)]
    assert circle_partitioner(words) == 1
    assert capsys.readouterr().err.startswith("ERROR: ")
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("change", [{"file": 1}, {"inputs": "x"}, {"outputs": [["y"]]}, {"size": 1}])
def test_a_connection_file_has_names(change: dict[str, object], tmp_path: Path) -> None:
    part = {"file": "net.circle", "inputs": ["x"], "outputs": ["y"], **change}
    (tmp_path / "net.conn.json").write_text(json.dumps({"source": part, "parts": [part]}))
    with pytest.raises(FormatError, match="expected a connection file, in which source and each"):
        load_parts(tmp_path / "net.conn.json")


@pytest.mark.parametrize("name", ["x", "a b", "a=b", "a;b", "#a", "[x]", "", "é"])
def test_both_connection_files_keep_names(name: str, tmp_path: Path) -> None:
    """File names may contain brackets, too."""
    parts = [ConnectedModel(f"n[{number}].circle", [name], ["y"]) for number in (1, 2)]
    connected = Connection(ConnectedModel("n[0].circle", [name], ["y"]), parts)
    for text, file in ((connected.to_json(), "a.conn.json"), (connected.to_ini(), "a.conn.ini")):
        (tmp_path / file).write_text(text, encoding="utf-8")
        assert read_connection(tmp_path / file) == connected


@pytest.mark.parametrize("name", ["a\nb", " a", "a ", "a\t", "a\n", "a\udcff"])
def test_names_that_the_ini_file_cannot_express_are_only_in_the_json_file(name: str, tmp_path: Path) -> None:
    model = circlekit.parse("graph main(%x: f32[2]) -> %y { %y = Neg(%x) }")
    model.main.inputs[0].name = name
    divided = circlekit.partition(model, table_of({"NEG": "cpu"}))
    with pytest.warns(
        FormatWarning,
        match=r"net\.conn\.ini is not written: .* cannot express the name .*: it has a line break",
    ):
        connected = save_parts(divided, tmp_path, "net.circle")
    assert read_connection(tmp_path / "net.conn.json") == connected
    assert not (tmp_path / "net.conn.ini").exists()


def test_no_part_is_written_if_another_one_cannot_be(tmp_path: Path) -> None:
    model = circlekit.parse("""
        graph main(%x: f32[1]) -> %y, %z {
          %y = Neg(%x)
          %z = Opaque(%x) {code: "BCQ_GATHER", extra: {misfit: "no weights"}} : f32[1]
        }""")
    divided = circlekit.partition(model, table_of({"BCQ_GATHER": "npu"}))
    with pytest.raises(UnsupportedError, match=r"\.tflite has no .*BCQ_GATHER"):
        save_parts(divided, tmp_path, "net.tflite")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("files", [["source"], ["p", "p"]])
def test_sections_of_the_ini_file_have_distinct_names(files: list[str]) -> None:
    connected = Connection(ConnectedModel("net", [], []), [ConnectedModel(file, [], []) for file in files])
    with pytest.raises(UnsupportedError, match=f"expected different names, got '{files[0]}' twice"):
        connected.to_ini()


def test_the_files_of_parts_are_beside_the_connection_or_in_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file beside the connection file comes first; if both places lack it, the error names the first."""
    for place, kind in (("parts", "Neg"), ("work", "Abs")):
        (tmp_path / place).mkdir()
        monkeypatch.chdir(tmp_path / place)
        Path("net.ck").write_text(f"graph main(%x: f32[2]) -> %y {{ %y = {kind}(%x) }}")
        circlekit.convert("net.ck", "net.circle")
        Path("net.part").write_text("[partition]\nbackends=cpu\ndefault=cpu\n[OPCODE]\n")
        assert circle_partitioner(["--part_file", "net.part", "--input_file", "net.circle"]) == 0
    connection = tmp_path / "parts" / "net.conn.json"

    def code() -> str:
        (op,) = load_parts(connection).source.main
        return op.code

    assert code() == "NEG"
    (tmp_path / "parts" / "net.circle").unlink()
    assert code() == "ABS"
    (tmp_path / "work" / "net.circle").unlink()
    with pytest.raises(CirclekitError, match=r"parts/net\.circle"):
        load_parts(connection)


@pytest.mark.parametrize("pair", ["=npu", "MUL=", "MUL"])
def test_a_backend_needs_a_name_and_a_name_a_backend(
    pair: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_example(tmp_path, PART)
    words = [str(tmp_path / "net.circle"), "-o", str(tmp_path / "parts"), "--default", "cpu"]
    assert partition_command([*words, "--opcode", pair]) == 2
    assert "--opcode: expected NAME=BACKEND" in capsys.readouterr().err
