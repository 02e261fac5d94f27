# SPDX-License-Identifier: Apache-2.0
"""circlekit SUBCOMMAND: help, near names, standard streams and terminals."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

import circlekit
from circlekit.cli import front_door
from circlekit.io.write.save import to_bytes
from tests.cli.call_command import call_command

PAGE_LINES, PAGE_COLUMNS = 48, 80

RECIPE = """
graph main(%x: f32[2,3]) -> %y {
  %z = Add(%x, [0.0, 0.0, 0.0]) : f32[2,3]
  %y = Relu(%z)                 : f32[2,3]
}
"""


def test_help_is_one_screen() -> None:
    done = call_command("circlekit", "--help")
    lines = done.stdout.splitlines()
    assert (done.returncode, done.stderr) == (0, "")
    assert len(lines) <= PAGE_LINES
    assert max(map(len, lines)) <= PAGE_COLUMNS
    for name, summary in front_door.SUMMARIES.items():
        assert any(line.split(maxsplit=1) == [name, summary] for line in lines), name


def test_an_interrupt_during_imports_prints_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(name: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(front_door, "find", interrupt)
    done = call_command("circlekit", "optimize")
    assert (done.returncode, done.stderr) == (130, "interrupted\n")


@pytest.mark.parametrize("name", front_door.SUMMARIES)
def test_help_of_a_subcommand(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The help begins with the line about the sub-command in ``circlekit --help``, and fits on a screen."""
    monkeypatch.setenv("COLUMNS", str(PAGE_COLUMNS))
    assert front_door.main([name, "--help"]) == 0
    text = capsys.readouterr().out
    usage, first = text.split("\n\n")[:2]
    assert usage.startswith(f"usage: circlekit {name} ")
    assert " ".join(first.split()).startswith(front_door.SUMMARIES[name])
    assert max(map(len, text.splitlines())) <= PAGE_COLUMNS
    assert len(text.splitlines()) <= PAGE_LINES


def test_misspelt_subcommand_is_wrong_usage() -> None:
    done = call_command("circlekit", "optimse", "a", "b")
    assert (done.returncode, done.stdout) == (2, "")
    assert "there is no sub-command 'optimse'; did you mean optimize?" in done.stderr


def test_verbose_may_stand_before_the_subcommand(tmp_path: Path) -> None:
    done = call_command("circlekit", "-V", "inspect", "none.circle", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("Traceback ")
    assert done.stderr.endswith("\nerror: none.circle: cannot be read: No such file or directory\n")
    done = call_command("circlekit", "--verbose", "verify")
    assert done.returncode == 2
    assert done.stderr.endswith("(circlekit verify --help lists the flags)\n")


def test_two_dashes_may_stand_before_the_subcommand(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["--", "verify", "--help"], ["-V", "--", "help", "verify"]):
        assert front_door.main(words) == 0
        assert capsys.readouterr().out.startswith("usage: circlekit verify ")
    assert front_door.main(["--"]) == 2
    assert capsys.readouterr().err.startswith("usage: circlekit ")
    assert front_door.main(["--", "verfy"]) == 2
    assert "there is no sub-command 'verfy'; did you mean verify?" in capsys.readouterr().err


def test_closed_standard_streams(tmp_path: Path) -> None:
    (tmp_path / "net.ck").write_text(RECIPE)
    for words, message in {
        "run - <&-": "expected a model on the standard input, which is closed",
        "convert net.ck - >&-": "cannot write to the standard output: it is closed",
    }.items():
        command = ["bash", "-c", f"$0 -m circlekit {words}", sys.executable]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
        assert (done.returncode, done.stdout, done.stderr) == (1, "", f"error: {message}\n")
    # with a closed stderr, the text about the model on the standard output is dropped
    command = ["bash", "-c", "$0 -m circlekit convert net.ck - 2>&-", sys.executable]
    written = subprocess.run(command, capture_output=True, check=False, cwd=tmp_path)
    assert (written.returncode, written.stdout) == (0, to_bytes(circlekit.parse(RECIPE)))


def test_file_in_place_of_a_subcommand(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "net.ck"
    path.write_text(RECIPE)
    assert front_door.main([str(path)]) == 2
    assert f"did you mean circlekit inspect {path}?" in capsys.readouterr().err


def test_help_and_an_empty_command_line_print_the_usage(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["help", "verify"], ["-V", "help", "verify"], ["help", "-V", "verify"]):
        assert front_door.main(words) == 0
        assert capsys.readouterr().out.startswith("usage: circlekit verify ")
    for words in ([], ["-V"], ["--verbose"]):
        assert front_door.main(words) == 2
        assert capsys.readouterr().err.startswith("usage: circlekit ")
    assert front_door.main(["help"]) == 0
    assert capsys.readouterr().out.startswith("usage: circlekit ")
    assert front_door.main(["help", "verify", "inspect"]) == 0
    assert capsys.readouterr().out.startswith("usage: circlekit verify ")


@pytest.mark.parametrize("words", [["{}.ck", "{}.tflite"], ["-o", "{}.tflite", "{}.ck"]])
def test_convert_takes_the_output_as_argument_or_flag(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    net = tmp_path / "net"
    net.with_suffix(".ck").write_text(RECIPE)
    assert front_door.main(["convert", *(word.format(net) for word in words)]) == 0
    assert net.with_suffix(".tflite").read_bytes()[4:8] == b"TFL3"
    assert front_door.main(["convert", str(net.with_suffix(".ck"))]) == 2
    assert "expected one or more models, and -o PATH for the result" in capsys.readouterr().err


def test_recipe_becomes_a_model_and_back(tmp_path: Path) -> None:
    (tmp_path / "net.ck").write_text(RECIPE)
    assert front_door.main(["recipe", str(tmp_path / "net.ck"), str(tmp_path / "net.circle")]) == 0
    assert (
        front_door.main(["recipe", "--reverse", str(tmp_path / "net.circle"), str(tmp_path / "back.ck")]) == 0
    )
    assert circlekit.compare(circlekit.load(tmp_path / "net.ck"), circlekit.load(tmp_path / "back.ck"))
    assert front_door.main(["recipe", "--gaussian", "a.ck", "b.circle"]) == 2


def test_recipe_on_standard_streams(tmp_path: Path) -> None:
    (tmp_path / "net.ck").write_text(RECIPE)
    script = "cat net.ck | $0 -m circlekit recipe - - --format circle"
    script += " | $0 -m circlekit recipe - back.ck --reverse"
    command = ["bash", "-o", "pipefail", "-c", script, sys.executable]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert circlekit.compare(circlekit.load(tmp_path / "net.ck"), circlekit.load(tmp_path / "back.ck"))
    assert call_command("circlekit", "recipe", "net.ck", "-", "--reverse", cwd=tmp_path).returncode == 2
    assert not (tmp_path / "-").exists()


def test_passes_are_in_groups() -> None:
    done = call_command("circlekit", "passes")
    headings = [line for line in done.stdout.splitlines() if line and not line.startswith(" ")]
    starts = [heading.partition(",")[0].partition(" (")[0] for heading in headings]
    assert {"in O1", "opt-in", "approximate"} <= set(starts)
    assert max(map(len, done.stdout.splitlines())) <= PAGE_COLUMNS


def test_one_pass_is_described(capsys: pytest.CaptureFixture[str]) -> None:
    """``circlekit passes NAME`` and ``circle2circle --list-passes NAME`` print the same text."""
    from circlekit.cli.circle2circle import main as circle2circle

    assert front_door.main(["passes", "remove-unnecessary-slice"]) == 0
    text = capsys.readouterr().out
    assert "    y = Slice(x, begin: const, size: const)\n" in text
    assert "Conditions: The slice takes all elements of ``x``." in text
    assert circle2circle(["--list-passes", "remove_unnecessary_slice"]) == 0
    assert capsys.readouterr().out == text
    assert front_door.main(["passes", "remove_deed"]) == 2
    assert "there is no pass 'remove_deed'; did you mean remove_dead" in capsys.readouterr().err


# -- terminals ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words", [["passes"], ["inspect", "{}"], *([name, "--help"] for name in front_door.SUMMARIES)]
)
def test_lines_are_broken_between_words(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The words are the same at every width."""
    path = tmp_path / "net.ck"
    path.write_text(RECIPE)
    seen = set()
    for columns in (40, PAGE_COLUMNS, 200):
        monkeypatch.setenv("COLUMNS", str(columns))
        assert front_door.main([word.format(path) for word in words]) == 0
        seen.add(tuple(capsys.readouterr().out.split()))
    assert len(seen) == 1


COLORS = re.compile(r"\x1b\[(?:\d+;)*(?:3\d|4\d|9\d|10\d)[;m]")

IN_TWO_TERMINALS = """
import os, sys
from circlekit.cli import front_door
from circlekit.cli.output import progress_line
progress_line.DELAY_SECONDS = 0
words = ["optimize", "net.ck", "-o", "net.circle", "--O1", "--verify"]
os.environ |= {"TERM": "dumb", "COLUMNS": "80"}
code = front_door.main(words)
print("----", flush=True)
os.environ |= {"TERM": "xterm-256color", "NO_COLOR": "1"}
sys.exit(code or front_door.main(words))
"""


def test_terminals_without_colors(tmp_path: Path) -> None:
    """A dumb terminal gets plain text only; with NO_COLOR, a terminal gets no colors.

    Progress is shown from the start, because DELAY_SECONDS is 0.
    """
    (tmp_path / "net.ck").write_text(RECIPE)
    source, target = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", IN_TWO_TERMINALS], cwd=tmp_path, stdout=target, stderr=target
    )
    os.close(target)
    data = b""
    with contextlib.suppress(OSError):  # on Linux, the error means that the process closed the terminal
        while part := os.read(source, 1 << 12):
            data += part
    os.close(source)
    dumb, _, uncolored = data.decode().partition("----")
    assert process.wait() == 0, data
    assert "RELU" in dumb
    assert "\x1b" not in dumb
    assert "RELU" in uncolored
    assert COLORS.search(uncolored) is None


def test_several_files_of_both_formats(tmp_path: Path) -> None:
    (tmp_path / "net.ck").write_text(RECIPE)
    for format in ("circle", "tflite"):
        circlekit.save(circlekit.load(tmp_path / "net.ck"), tmp_path / f"net.{format}")
    files = ["net.circle", "missing.circle", "net.tflite"]
    done = call_command("circlekit", "inspect", *files, cwd=tmp_path)
    assert done.returncode == 1
    assert [line for line in done.stdout.splitlines() if line and line[0] != " "] == [
        "net.circle", "net.tflite", "3 files: 2 read, 1 not"
    ]  # fmt: skip
    done = call_command("circlekit", "verify", *files, cwd=tmp_path)
    assert (done.returncode, done.stdout.count("PASS"), done.stdout.splitlines()[-1]) == (
        1, 2, "3 files: 2 valid, 1 not"
    )  # fmt: skip
    assert done.stderr == "error: missing.circle: cannot be read: No such file or directory\n"


@pytest.mark.parametrize("words", [["inspect"], ["inspect", "--operators"], ["verify"], ["dump", "--text"]])
def test_standard_input(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "net.ck").write_text(RECIPE)
    path = tmp_path / "net.circle"
    circlekit.save(circlekit.load(tmp_path / "net.ck"), path)
    assert front_door.main([*words, str(path)]) == 0
    named = capfd.readouterr().out
    stdin = os.dup(0)
    try:
        with path.open() as file:
            os.dup2(file.fileno(), 0)
        assert front_door.main([*words, "-"]) == 0
    finally:
        os.dup2(stdin, 0)
        os.close(stdin)
    assert capfd.readouterr().out == named.replace(str(path), "/dev/stdin")
