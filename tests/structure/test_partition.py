# SPDX-License-Identifier: Apache-2.0
"""Partition: numbers of parts as in ONE's tests, equal values, files, and what is refused."""

from __future__ import annotations

import errno
import json
import os
import random
from pathlib import Path

import numpy as np
import pytest

import circlekit
from circlekit.api.structure import load_parts, partition_file, save_parts
from circlekit.cli.structure.partition import circle_part_driver, circle_partitioner, partition_command
from circlekit.equivalence.seeded_inputs import InputSet, make_inputs
from circlekit.errors import CirclekitError, FormatError, FormatWarning, ModelError, UnsupportedError
from circlekit.interp.interpreter import run, select_kernels
from circlekit.ir.graph import Model
from circlekit.ir.tensor import same_array
from circlekit.ir.verifier import check
from circlekit.structure.connection import ConnectedModel, Connection, read_connection
from circlekit.structure.part_table import PartTable, read_part_file
from circlekit.structure.partition import _unique_names
from circlekit.structure.run_parts import run_parts
from tests.recipes.one_recipes import one_recipe

MEAN, ADD = "Mean_as_variance", "Add_as_variance"
ONE_ROWS = [
    ("Net_InstanceNorm_003", {"DIV": "npu"}, 3),
    ("Net_InstanceNorm_003", {"ADD": "npu"}, 5),
    ("Net_InstanceNorm_003", {MEAN: "npu", ADD: "npu", "Pow": "npu"}, 3),
    ("Net_UnpackAdd_001", {"UNPACK": "npu"}, 2),
    ("Part_Sqrt_Rsqrt_000", {"RSQRT": "npu"}, 2),
    ("Part_Sqrt_Rsqrt_Add_000", {"RSQRT": "npu"}, 3),
    ("Part_Sqrt_Rsqrt_Add_001", {"RSQRT": "npu"}, 3),
    ("Part_Sqrt_Rsqrt_Add_002", {"RSQRT": "npu"}, 4),
    ("Part_Add_Sqrt_000", {"SQRT": "npu"}, 3),
    ("Part_Add_Sqrt_Rsqrt_000", {"RSQRT": "npu"}, 3),
    ("Part_If_Add_Sub_000", {"IF": "npu"}, 3),
    ("Part_If_Add_Sub_001", {"IF": "npu"}, 3),
    ("Part_While_001", {"MAXIMUM": "npu"}, 3),
    ("Part_Split_Add_000", {"SPLIT": "npu"}, 2),
    ("Part_Tanh_FC_nobias", {}, 1),
    ("Part_Tanh_FC_nobias", {"FULLY_CONNECTED": "npu"}, 2),
]
"""Recipe, backends by opcode or name, number of parts: from the list of ONE's circle-part-value-test."""

SHARED_CONSTANT = """
graph main(%x: f32[2,3], %unread: f32[1]) -> %y, %x, %w {
  %w = const f32[3] [1.0, 2.0, 3.0]
  %a = Add(%x, %w)    : f32[2,3]
  %b = Relu(%a)       : f32[2,3]
  %c = Mul(%b, %w)    : f32[2,3]
  %idle = Neg(%a)     : f32[2,3]
  %y = Sub(%c, %a)    : f32[2,3]
}
"""


def table_of(backends: dict[str, str]) -> PartTable:
    """Return a table with the default cpu.

    The keys of ``backends`` are opcodes if all are in capitals, else names.
    """
    by_name = any(not name.isupper() for name in backends)
    return PartTable(
        ["cpu", "npu"],
        "cpu",
        {} if by_name else backends,
        backends if by_name else {},
        "opname" if by_name else "opcode",
    )


def expect_equal_parts(model: Model, table: PartTable, fewest: bool = False) -> int:
    """Check that the parts compute the bits of the whole; return their number."""
    divided = circlekit.partition(model, table, fewest)
    for part in divided.parts:
        check(part.model)
    inputs = make_inputs(model.main, InputSet("normal"))
    given = dict(zip(divided.inputs, inputs, strict=True))
    values = run_parts([part.model for part in divided.parts], given, select_kernels(model))
    for name, expected in zip(divided.outputs, run(model, inputs), strict=True):
        assert same_array(values[name], expected), name
    return len(divided.parts)


@pytest.mark.parametrize(("recipe", "backends", "count"), ONE_ROWS)
def test_rows_of_one(recipe: str, backends: dict[str, str], count: int, shared: Path) -> None:
    model = one_recipe(shared, recipe)
    assert expect_equal_parts(model, table_of(backends)) == count
    assert expect_equal_parts(model, table_of(backends), fewest=True) <= count


@pytest.mark.parametrize(
    "name", ["mlperf_tiny/ad01_int8.tflite", "tensorflow/lstm.f32.tflite", "tico/cbr.circle"]
)
def test_real_models_at_random(name: str, shared: Path) -> None:
    model = circlekit.load(shared / "models" / name)
    rng = random.Random(7)
    by_name = {op.output.name: rng.choice(["cpu", "npu"]) for op in model.main}
    table = PartTable(["cpu", "npu"], "cpu", opnames=by_name, comply="opname")
    assert expect_equal_parts(model, table) >= expect_equal_parts(model, table, fewest=True) > 1


def test_fewest_parts_may_begin_with_the_smaller_group() -> None:
    """The parts are npu, then cpu.  A greedy choice would begin with the two operators that cpu can run."""
    model = circlekit.parse("""
        graph main(%x: f32[2]) -> %a, %b, %d {
          %a = Relu(%x) : f32[2]
          %b = Relu6(%x) : f32[2]
          %c = Neg(%x) : f32[2]
          %d = Relu(%c) : f32[2]
        }""")
    assert expect_equal_parts(model, table_of({"NEG": "npu"}), fewest=True) == 2


def test_parts_that_run_alone_round_like_the_whole_model(shared: Path) -> None:
    """LiteRT's reference kernels lack DEPTH_TO_SPACE of int8: the whole model runs on optimized kernels.

    The parts without this operator must use optimized kernels, too, when each is run alone.
    """
    model = circlekit.load(shared / "models/tensorflow/espcn.int8.tflite")
    divided = circlekit.partition(model, table_of({"DEPTH_TO_SPACE": "npu"}))
    assert len(divided.parts) > 1
    values = dict(zip(divided.inputs, make_inputs(model.main, InputSet("normal")), strict=True))
    expected = run(model, list(values.values()))
    for part in divided.parts:
        outputs = run(part.model, [values[v.name] for v in part.model.main.inputs])
        values.update(zip((v.name for v in part.model.main.outputs), outputs, strict=True))
    assert same_array(values[divided.outputs[0]], expected[0])


@pytest.mark.parametrize("fewest", [False, True])
def test_shared_constants_and_odd_interfaces(fewest: bool) -> None:
    """Outputs that are inputs or constants, unread inputs and results, constants of several parts."""
    model = circlekit.parse(SHARED_CONSTANT)
    expect_equal_parts(model, table_of({"MUL": "npu", "NEG": "npu"}), fewest)
    divided = circlekit.partition(model, table_of({"MUL": "npu"}))
    left, right = (part.model.main for part in divided.parts[:2])
    assert next(iter(left)).inputs[1].data is next(iter(right)).inputs[1].data  # type: ignore[union-attr]


def test_equal_names_are_told_apart() -> None:
    model = circlekit.parse(SHARED_CONSTANT)
    model.main.ops[1].output.name = model.main.ops[0].output.name = model.main.inputs[0].name
    expect_equal_parts(model, table_of({"RELU": "npu", "SUB": "npu"}))


def test_state_stays_in_one_part() -> None:
    model = circlekit.parse("""
        graph main(%x: f32[2]) -> %y {
          %v = VarHandle() {shared_name: "v"} : resource[]
          AssignVariable(%v, %x)
          %r = ReadVariable(%v) : f32[2]
          %y = Relu(%r)         : f32[2]
        }""")
    expect_equal_parts(model, table_of({"RELU": "npu"}))
    with pytest.raises(UnsupportedError, match="%v is a resource"):
        circlekit.partition(model, table_of({"READ_VARIABLE": "npu"}))


def test_state_in_several_parts_is_refused() -> None:
    """Three parts refer to the state; the message names the handles in the first two."""
    lines = [
        f'%{v} = VarHandle() {{shared_name: "same"}} : resource[] %{r} = ReadVariable(%{v}) : f32[2]'
        for v, r in ("ab", "cd", "ef")
    ]
    model = circlekit.parse("graph main() -> %b, %d, %f {" + " ".join(lines) + "}")
    table = PartTable(
        ["p", "q", "r"], "p", opnames=dict(zip("abcdef", "ppqqrr", strict=True)), comply="opname"
    )
    with pytest.raises(UnsupportedError, match="%a and %c refer to state"):
        circlekit.partition(model, table)
    one_backend = PartTable(["p"], "p")
    with pytest.raises(UnsupportedError, match="use `fewest` if they are not connected"):
        circlekit.partition(model, one_backend)
    assert len(circlekit.partition(model, one_backend, fewest=True).parts) == 1


@pytest.mark.parametrize("called", ["inner", "outer"])
def test_state_of_called_graphs_is_refused(called: str) -> None:
    """The part with CALL assigns the variable that the other part reads.

    CALL runs the graph that assigns, directly or through another graph.
    """
    model = circlekit.parse(f"""
        graph main(%x: f32[2]) -> %y, %r {{
          %y = Call(%x) {{subgraph: @{called}}}
          %v = VarHandle() {{shared_name: "v"}} : resource[]
          %r = ReadVariable(%v) : f32[2]
        }}
        graph outer(%x: f32[2]) -> %y {{ %y = Call(%x) {{subgraph: @inner}} }}
        graph inner(%x: f32[2]) -> %y {{
          %w = VarHandle() {{shared_name: "v"}} : resource[]
          AssignVariable(%w, %x)
          %y = Relu(%x)
        }}""")
    with pytest.raises(UnsupportedError, match="%w and %v refer to state"):
        circlekit.partition(model, table_of({"CALL": "npu"}))


def test_a_missing_input_of_a_part_is_named() -> None:
    model = circlekit.parse(SHARED_CONSTANT)
    parts = [part.model for part in circlekit.partition(model, table_of({"MUL": "npu"})).parts]
    with pytest.raises(ModelError, match="a part reads %x: expected it among the inputs"):
        run_parts(parts, {"unread": np.zeros(1, np.float32)})


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (PartTable([], "cpu"), "There is no 'backends' information"),
        (PartTable(["cpu"], ""), "There is no 'default' backend information"),
        (PartTable(["cpu"], "npu"), "'default' backend is not one of"),
        (PartTable(["cpu"], "cpu", {"ADD": "npu"}), "OPCODE ADD is not assigned to one of"),
        (PartTable(["cpu"], "cpu", comply="OPCODE"), "expected comply opcode or opname, got 'OPCODE'"),
        (PartTable("cpu,npu", "cpu"), "expected a list of backends, got 'cpu,npu'"),
        (PartTable(3, "cpu"), "expected a list of backends, got 3"),  # type: ignore[arg-type]
        (PartTable([1], 1), r"expected names of backends, got \[1\]"),  # type: ignore[list-item, arg-type]
        (PartTable(["cpu"], "cpu", ["ADD"]), "expected a dict of names and backends for OPCODE"),  # type: ignore[arg-type]
    ],
)
def test_wrong_tables_are_refused(table: PartTable, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        circlekit.partition(circlekit.parse(SHARED_CONSTANT), table)


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
        ["--opcode", "MUL=", "--default", "cpu"],
        ["--opcode", "=npu", "--default", "cpu"],
    ):
        assert partition_command([*words, *flags]) == 2, flags
    assert not (tmp_path / "parts").exists()
    files = []
    for flags in ([], ["--default", "npu"]):
        capsys.readouterr()
        assert partition_command([*words, "--part", part, *flags]) == 0
        files.append(capsys.readouterr().out)
    assert files[0].count("cpu") > files[1].count("cpu")


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
    assert circle_partitioner(["--part_file", "net.part"]) == 1


@pytest.mark.parametrize(("backend", "count"), [("npu", 2), ("cpu", 1)])
def test_an_operator_that_reads_an_input_begins_a_part_of_another_backend(backend: str, count: int) -> None:
    """By ONE's rule, %b does not join the part of %a, because %b reads the input %x.

    It joins if the backend is the default, cpu.
    """
    text = "graph main(%x: f32[2]) -> %y {\n%a = Relu(%x)\n%b = Add(%a, %x)\n%y = Neg(%b)\n}"
    table = table_of(dict.fromkeys(("RELU", "ADD", "NEG"), backend))
    divided = circlekit.partition(circlekit.parse(text), table)
    assert [len(part.model.main) for part in divided.parts] == ([1, 2] if count == 2 else [3])


@pytest.mark.parametrize("fewest", [False, True])
def test_an_operator_joins_the_parts_that_it_reads(fewest: bool) -> None:
    """The recipe Part_Sqrt_Rsqrt_Add_003 of ONE; its circle-part-value-test expects one part."""
    model = circlekit.parse("""
        graph main(%x: f32[2], %y: f32[2]) -> %z {
          %r = Exp(%x)      : f32[2]
          %s = Tanh(%y)     : f32[2]
          %z = Add(%r, %s)  : f32[2]
        }""")
    assert expect_equal_parts(model, table_of({}), fewest) == 1


def test_parts_do_not_become_one_around_another_part() -> None:
    """%a is computed before %b, on npu, and %c after it: %z joins neither.  %d comes after %e, on npu.

    The part of %d and %w has the first operator %w reads, %v, but runs after the part of %e.
    """
    model = circlekit.parse("""
        graph main(%x: f32[2], %y: f32[2]) -> %z, %w {
          %a = Exp(%x)      : f32[2]
          %b = Neg(%a)      : f32[2]
          %c = Tanh(%b)     : f32[2]
          %z = Add(%a, %c)  : f32[2]
          %v = Exp(%y)      : f32[2]
          %u = Exp(%y)      : f32[2]
          %e = Neg(%u)      : f32[2]
          %d = Tanh(%e)     : f32[2]
          %w = Sub(%v, %d)  : f32[2]
        }""")
    parts = circlekit.partition(model, table_of({"NEG": "npu"})).parts
    assert expect_equal_parts(model, table_of({"NEG": "npu"})) == len(parts) == 7
    ops = [[op.output.name for op in part.model.main] for part in parts]
    assert ops == [["a"], ["b"], ["c"], ["z"], ["u"], ["e"], ["v", "d", "w"]]


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


@pytest.mark.parametrize("fewest", [False, True])
def test_operators_in_a_wrong_order_are_refused(fewest: bool) -> None:
    model = circlekit.parse("graph main(%x: f32[2]) -> %y { %a = Neg(%x)  %y = Abs(%a) }")
    first = model.main.ops[0]
    model.main.unlink(first)
    model.main.append(first)
    with pytest.raises(ModelError, match="op 0 Abs: %a is used before operator 1 produces it"):
        circlekit.partition(model, table_of({"ABS": "npu"}), fewest)


def test_values_between_parts_have_names_of_their_own() -> None:
    """The second %a becomes %a_2, because %a_1 is the name of another value.  An empty name is replaced."""
    graph = circlekit.parse("graph main(%x: f32[2], %u: f32[2], %v: f32[2], %w: f32[2]) -> %x {\n}").main
    for value, name in zip(graph.inputs, ("a", "a", "", "a_1"), strict=True):
        value.name = name
    assert list(_unique_names(graph, []).values()) == ["a", "a_2", "value_1", "a_1"]
