# SPDX-License-Identifier: Apache-2.0
"""onecc: what a configuration, a workflow and a command line run, write and refuse."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import circlekit
import circlekit.api.models
from circlekit.toolchain.drivers import all_drivers
from circlekit.toolchain.onecc import SUBCOMMANDS

Run = Callable[..., tuple[int, str, str]]

PIPELINE = """
[onecc]
one-import-tflite=True
one-optimize=True
one-quantize=True
one-partition=True
one-pack=True
include=O1

[one-import-tflite]
input_path=net.tflite # a comment
output_path=net.circle

[one-optimize]
input_path=net.circle
output_path=net.opt.circle

[one-quantize]
input_path=net.opt.circle
output_path=net.q.circle
granularity=channel

[one-partition]
part_file=net.part
input_file=net.opt.circle

[one-pack]
input_path=net.q.circle
output_path=pack
"""


def test_a_configuration_gives_what_its_drivers_give_one_by_one(
    run: Run, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[str] = []
    original = circlekit.api.models.load

    def load(path: str) -> circlekit.Model:
        loaded.append(path)
        return original(path)

    monkeypatch.setattr("circlekit.api.models.load", load)
    (work / "net.part").write_text("[partition]\nbackends=cpu,npu\ndefault=cpu\ncomply=opcode\n")
    code, _, errors = run([], PIPELINE)
    assert (code, errors) == (0, "")
    assert loaded == ["net.tflite"]  # later steps get the models of earlier ones
    written = {path.name: path.read_bytes() for path in work.glob("net.*circle")}
    assert {"net.circle", "net.opt.circle", "net.q.circle", "net.opt.00001_cpu.circle"} <= written.keys()
    drivers = all_drivers()
    assert not drivers["one-import-tflite"](["-i", "net.tflite", "-o", "net.circle"])
    assert not drivers["one-optimize"](["-i", "net.circle", "-o", "net.opt.circle", "-O", "1"])
    assert not drivers["one-quantize"](
        ["-i", "net.opt.circle", "-o", "net.q.circle", "--granularity", "channel"]
    )
    for name, content in written.items():
        assert (work / name).read_bytes() == content, name
    optimized = circlekit.load("net.opt.circle")
    assert [type(op).__name__ for op in optimized.main] == ["Conv2D"]
    assert circlekit.compare(circlekit.load("net.tflite"), optimized)
    assert circlekit.load("net.q.circle").main.inputs[0].dtype.short == "u8"
    manifest = json.loads((work / "pack/net.q/metadata/MANIFEST").read_text())
    assert (manifest["models"], manifest["model-types"]) == (["net.q.circle"], ["circle"])
    assert "--fold_add_v2" in (work / "net.opt.circle.log").read_text()
    assert "record-minmax --input_model" in (work / "net.q.circle.log").read_text()


def test_toml_is_as_good_as_ini(run: Run, work: Path) -> None:
    text = """
    [onecc]
    one-optimize = true
    [one-optimize]
    input_path = "net.tflite"
    output_path = "net.opt.circle"
    fuse_mul_with_conv = true
    """
    assert run([], text, "test.toml")[0] == 0
    names = [type(op).__name__ for op in circlekit.load("net.opt.circle").main]
    assert names == ["Conv2D", "Add"]


def test_the_command_line_wins_over_the_file_and_the_file_over_a_group(run: Run, work: Path) -> None:
    (work / "../optimization/OFUSE.cfg").write_text(
        "[one-optimize]\nfuse_mul_with_conv=True\nfuse_add_with_conv=True\n"
    )
    text = "[onecc]\none-optimize=True\n[one-optimize]\ninput_path=net.tflite\noutput_path=a.circle\n"
    assert run(["-OFUSE"], text)[0] == 0
    assert len(circlekit.load("a.circle").main) == 1
    assert run(["-OFUSE"], f"{text}fuse_mul_with_conv=False\n")[0] == 0
    assert len(circlekit.load("a.circle").main) == 3
    (work / "test.cfg").write_text(f"{text}fuse_mul_with_conv=False\n")
    assert not all_drivers()["one-optimize"](["-C", "test.cfg", "-o", "b.circle", "--fuse_mul_with_conv"])
    assert len(circlekit.load("b.circle").main) == 2


BEGIN = "[onecc]\none-import-tflite=True\n"
IMPORT = "[one-import-tflite]\ninput_path=net.tflite\noutput_path=net.circle\n"
OPTIMIZE = "one-optimize=True\n[one-optimize]\ninput_path=net.circle\noutput_path=opt.circle\n"

FAULTS = {
    "section": (
        f"{BEGIN}{IMPORT}[one-optimise]\n",
        "onecc: ValueError: test.cfg: unknown section [one-optimise]; did you mean one-optimize",
    ),
    "driver": (
        f"{BEGIN}one-optimise=True\n{IMPORT}",
        "onecc: ValueError: test.cfg: [onecc] unknown key one-optimise; did you mean one-optimize",
    ),
    "missing section": (
        f"{BEGIN}one-pack=True\n{IMPORT}",
        "one-pack: AssertionError: configuration file must have 'one-pack' section: test.cfg",
    ),
    "no onecc": (IMPORT, "onecc: ImportError: [onecc] section is required in configuration file: test.cfg"),
    "twice": (f"{BEGIN}{IMPORT}{IMPORT}", "onecc: DuplicateSectionError: While reading from 'test.cfg'"),
    "key": (
        f"{BEGIN}{OPTIMIZE}fuse_gelo=True\n{IMPORT}",
        "one-optimize: error: the following arguments are unrecognized: fuse_gelo "
        "(in section [one-optimize] of test.cfg; did you mean fuse_gelu",
    ),
    "switch": (
        f"{BEGIN}{OPTIMIZE}fuse_gelu=maybe\n{IMPORT}",
        "one-optimize: ValueError: test.cfg: [one-optimize] fuse_gelu: expected True or False, got 'maybe'",
    ),
    "required": (
        f"{BEGIN}one-pack=True\n{IMPORT}[one-pack]\ninput_path=net.circle\n",
        "one-pack: error: the following arguments are required: -o/--output_path "
        "(in section [one-pack] of test.cfg)",
    ),
    "empty switch": (
        f"{BEGIN}one-optimize=\n{IMPORT}",
        "onecc: ValueError: test.cfg: [onecc] one-optimize: Not a boolean: ",
    ),
    "unknown group": (
        f"{BEGIN}include=O9\n{IMPORT}",
        "onecc: FileNotFoundError: Not found given optimization configuration file: O9 (known groups: O1) "
        "(test.cfg: [onecc] include)",
    ),
    "group": (
        f"{BEGIN}include=1\n{IMPORT}",
        "onecc: ValueError: Invalid group option: 1 (test.cfg: [onecc] include)",
    ),
    "backend": (
        f"{BEGIN}one-codegen=True\n{IMPORT}[one-codegen]\nbackend=npu\ncommand=net.circle\n",
        "one-codegen: FileNotFoundError: npu-compile not found",
    ),
    "target": (
        f"{BEGIN}one-codegen=True\n{IMPORT}[backend]\ntarget=rose\n[one-codegen]\n",
        "one-codegen: FileNotFoundError: Not found given target configuration: rose",
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_wrong_configuration_is_one_line_and_nothing_runs(run: Run, work: Path, fault: str) -> None:
    text, expected = FAULTS[fault]
    code, out, errors = run([], text)
    assert code
    assert out == ""
    assert errors.startswith(expected)
    assert errors.count("\n") == 1
    assert {path.name for path in work.iterdir()} == {"net.tflite", "test.cfg"}


def test_a_step_that_fails_ends_the_run(run: Run, work: Path) -> None:
    text = f"{BEGIN}{OPTIMIZE}{IMPORT}".replace("net.tflite", "none.tflite")
    code, _, errors = run([], text)
    assert code == 255
    assert errors.startswith("tflite2circle: Failed to open file: none.tflite: ")
    assert errors.count("\n") == 1
    assert errors in (work / "net.circle.log").read_text()
    assert not [*work.glob("*.circle")]
    code, _, errors = run([], f"{BEGIN}{IMPORT}".replace("net.circle", "."))
    assert code == 255
    assert errors.startswith("tflite2circle: ERROR: Failed to write circle '.': ")


def test_environment_and_backends(run: Run, work: Path, program: Callable[[str], None]) -> None:
    program("npu-compile")
    text = "[onecc]\none-codegen=True\n[Environment]\nVARIABLE=set\n[one-codegen]\n"
    assert run([], f"{text}backend=npu\ncommand=-o a b\n") == (0, "npu-compile -o a b\n", "")
    assert (work / "called.txt").read_text() == "npu-compile -o a b set\n"
    assert run([], f"{text}backend=npu\ncommand=fail\n") == (7, "", "npu-compile: broken\n")
    (work / "../target/rose.ini").write_text("TARGET=rose\nBACKEND=npu\n")
    assert run(["-T", "rose"], f"{text}command=x\n")[0] == 0
    assert (work / "called.txt").read_text() == "npu-compile --target rose x set\n"
    assert run(["codegen", "-b", "npu", "--", "-o", "c"])[0] == 0
    assert (work / "called.txt").read_text() == "npu-compile -o c \n"
    schema = work / "../backends/command/npu"
    schema.mkdir(parents=True)
    (schema / "codegen.py").write_text(
        "from onelib import argumentparse\n"
        "from onelib.argumentparse import DriverName, NormalOption, TargetOption\n"
        "def command_schema():\n"
        "    parser = argumentparse.ArgumentParser()\n"
        "    parser.add_argument('npu-compile', action=DriverName)\n"
        "    parser.add_argument('--target', action=TargetOption)\n"
        "    parser.add_argument('--fast', '-f', action=NormalOption, dtype=bool)\n"
        "    parser.add_argument('input', action=NormalOption)\n"
        "    return parser\n"
    )
    assert run(["-T", "rose"], f"{text}input=a.circle\nf=True\n")[0] == 0
    assert (work / "called.txt").read_text() == "npu-compile --target rose --fast a.circle set\n"
    # a key of [DEFAULT] that the schema file does not know is ignored
    default = f"[DEFAULT]\nname=a\n{text}input=%(name)s.circle\n"
    command = "npu-compile --target rose a.circle"
    assert run(["-T", "rose"], default) == (0, f"{command}\n", "")
    code, out, _ = run(["-T", "rose"], f"{text}input=a.circle\nodd=True\n")
    assert code == 0
    assert out.splitlines() == [  # ONE prints the help of the program
        "WARNING: there are invalid options ['odd']", "npu-compile -h", "npu-compile --target rose a.circle",
    ]  # fmt: skip


def test_wrong_usage_of_onecc(run: Run, work: Path) -> None:
    for words, expected in (
        (["-V"], "error: -C/--config or -W/--workflow argument is required"),
        (["-C", "a.cfg", "-O", "1 2"], "error: Not allowed to have space in the optimization name"),
        (["-C", "a.cfg", "-O9"], "error: Invalid optimization option: -O9 (there are -O1)"),
        (["optimise"], "unrecognized arguments: optimise"),
        ([], "error: -C/--config or -W/--workflow argument is required"),
        (["-W", "a.json", "-b", "npu"], "error: 'backend' option can be used only with 'config' option"),
        (["-C", "a.cfg", "-b", "npu", "-T", "rose"], "error: 'backend' and 'target' are mutually exclusive"),
    ):
        code, _, errors = run(words)
        assert code == 2
        assert expected in errors
    assert run(["-C", "none.cfg"])[2].startswith(
        "onecc: FileNotFoundError: Not found given configuration file"
    )


@pytest.mark.parametrize(
    ("words", "begin"),
    [
        ("-h", "usage: onecc [-h] "),
        ("-v", "onecc version "),
        ("--version -C none.cfg", "onecc version "),
        ("import -h", "usage: one-import "),
        ("import tflite -h", "usage: one-import-tflite "),
        *((f"{name} -h", f"usage: one-{name} ") for names in SUBCOMMANDS.values() for name in names),
    ],
)
def test_commands_after_onecc(run: Run, work: Path, words: str, begin: str) -> None:
    code, out, errors = run(words.split())
    assert (code, errors) == (0, "")
    assert out.startswith(begin)


def test_the_help_page_lists_groups_and_targets(run: Run, work: Path) -> None:
    page = run(["-h"])[1]
    assert "options: -O1)" in " ".join(page.split())
    assert "(No available target)" in " ".join(page.split())
    (work / "../target/rose.ini").write_text("TARGET=rose\n")
    assert "(Available target: rose)" in " ".join(run(["-h"])[1].split())


def test_import_drivers_of_the_user_run_first(run: Run, work: Path, program: Callable[[str], None]) -> None:
    text = (
        "[onecc]\none-pack=True\none-import-zz=1\none-import-aa=on\none-import-tflite=False\n"
        "[one-import-zz]\n[one-import-aa]\n[one-pack]\ninput_path=net.tflite\noutput_path=out\n"
    )
    program("one-import-zz")
    program("one-import-aa")
    code, out, errors = run([], text)
    assert (code, errors) == (0, "")
    assert out.splitlines() == [
        *(f"{name} --config test.cfg --section {name}" for name in ("one-import-aa", "one-import-zz")),
        "model2nnpkg: Generating nnpkg net in out",
    ]
    for end, expected in (("exit 4", 4), ("kill -9 $$", 137)):  # 137: 128 plus the signal, as in a shell
        (work.parent / "bin/one-import-zz").write_text(f"#!/bin/sh\n{end}\n")
        code, out, errors = run([], text)
        assert (code, errors) == (expected, "")
        assert "nnpkg" not in out


@pytest.mark.parametrize("name", ["one-create-quant-dataset", "one-init"])
def test_a_driver_that_onecc_does_not_run_is_left_out_with_a_warning(run: Run, work: Path, name: str) -> None:
    code, out, errors = run([], f"{BEGIN}{name}=True\n{IMPORT}[{name}]\n")
    assert (code, out) == (0, "")
    assert errors == f"onecc: WARNING: test.cfg: [onecc] {name} is left out; call the command {name}\n"
    assert (work / "net.circle").exists()


def test_keys_of_default_may_be_used_in_other_texts(run: Run, work: Path) -> None:
    begin = "[DEFAULT]\nname=net\n[onecc]\none-pack=True\n"
    code, _, errors = run([], f"{begin}[one-pack]\ninput_path=%(name)s.tflite\noutput_path=%(name)s_pack\n")
    assert (code, errors) == (0, "")
    assert (work / "net_pack/net/metadata/MANIFEST").is_file()


def test_options_without_effect_are_named(run: Run, work: Path) -> None:
    begin = "onecc: WARNING: "
    text = "[onecc]\none-pack=True\n[one-pack]\ninput_path=net.tflite\noutput_path=a\n"
    code, _, errors = run(["-W", "flow.json"], text)
    assert (code, errors) == (0, f"{begin}-W flow.json has no effect beside -C\n")
    step = {"one-cmd": "one-pack", "commands": {"input_path": "net.tflite", "output_path": "b"}}
    flow = {"workflows": ["A"], "A": {"steps": ["S"], "S": step}}
    (work / "flow.json").write_text(json.dumps(flow))
    code, _, errors = run(["-W", "flow.json", "-O1", "-T", "npu"])
    warnings = [f"{begin}{option} has no effect beside -W" for option in ("-O 1", "-T npu")]
    assert (code, errors.splitlines()) == (0, warnings)


def test_groups_of_the_file_come_before_those_of_the_command_line(run: Run, work: Path) -> None:
    for name, keys in (("A", "fuse_mul_with_conv=True\n"), ("B", "fuse_mul_with_conv=False\n")):
        (work / f"../optimization/O{name}.cfg").write_text(f"[one-optimize]\n{keys}")
    section = "[one-optimize]\ninput_path=net.tflite\noutput_path=a.circle\n"
    for include, words, count in (
        ("", [], 3), ("OA", [], 2), ("OA OB", [], 3), ("OB,OA", [], 2),
        ("OB", ["-OA"], 2), ("OA", ["-OB"], 3), ("", ["-OA"], 2),
    ):  # fmt: skip
        assert run(words, f"[onecc]\none-optimize=True\ninclude={include}\n{section}")[0] == 0
        assert len(circlekit.load("a.circle").main) == count
    code, _, errors = run([], f"[onecc]\none-optimize=True\ninclude=O\n{section}")
    assert (code, errors.startswith("onecc: ValueError: Invalid group option: O (")) == (255, True)


def test_backends_and_targets_of_the_command_line_are_for_programs_of_backends(
    run: Run, work: Path, program: Callable[[str], None]
) -> None:
    for name in ("npu-compile", "npu-profile"):
        program(name)
    (work / "../target/rose.ini").write_text("TARGET=rose\nBACKEND=npu\n")
    text = "[onecc]\none-pack=1\none-profile=1\none-codegen=1\n[one-codegen]\ncommand=a\n"
    text += "[one-profile]\ncommand=b\n[one-pack]\ninput_path=net.tflite\noutput_path=out\n"
    assert run([], text)[0] == 2
    for words, front in ((["-b", "npu"], ""), (["-T", "rose"], "--target rose ")):
        code, out, errors = run(words, text)
        assert (code, errors) == (0, "")
        assert out.splitlines()[1:] == [f"npu-compile {front}a", f"npu-profile {front}b"]


def test_verbose_steps_log_their_passes(run: Run, work: Path) -> None:
    section = "[one-optimize]\ninput_path=net.tflite\noutput_path=a.circle\nfuse_mul_with_conv=True\n"
    for words, is_printed in (([], False), (["-V"], True)):
        out = run(words, f"[onecc]\none-optimize=True\n{section}")[1]
        assert ("After FuseMulWithConvPass" in out) == is_printed
