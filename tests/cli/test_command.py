# SPDX-License-Identifier: Apache-2.0
"""Exit codes, error messages, and output on a terminal."""

from __future__ import annotations

import argparse
import errno
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from circlekit.cli import arguments, command
from circlekit.cli.arguments import Parser
from circlekit.cli.command import Command
from circlekit.cli.one import tensor_commands
from circlekit.cli.optimize import optimize as main
from circlekit.cli.output import progress_line, terminal
from circlekit.cli.recipes import dredd
from circlekit.errors import ShapeError
from circlekit.toolchain.process_exit import INTERRUPTED

RECIPE = """
graph main(%x: f32[2,3]) -> %y {
  %z = Add(%x, [0.0, 0.0, 0.0]) : f32[2,3]
  %y = Relu(%z)                 : f32[2,3]
}
"""


def failing(error: BaseException) -> int:
    def command(arguments: argparse.Namespace) -> int:
        raise error

    return Command("demo", "A command for tests.", "nothing", lambda parser: None, command)([])


def test_interrupt_prints_no_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    assert failing(KeyboardInterrupt()) == INTERRUPTED
    assert capsys.readouterr() == ("", "interrupted\n")


def test_error_prints_its_message_and_positions(capsys: pytest.CaptureFixture[str]) -> None:
    assert failing(ShapeError("4 was found, 8 wanted", "at net > op 12")) == 1
    assert capsys.readouterr().err == "error: 4 was found, 8 wanted\n  at net > op 12\n"


def test_an_os_error_does_not_blame_the_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    assert failing(OSError(errno.EMFILE, "Too many open files")) == 1
    assert capsys.readouterr().err == "error: Too many open files\n"


@pytest.mark.parametrize(
    ("error", "cause"), [(MemoryError(), "an allocation failed"), (MemoryError("9 GiB"), "9 GiB")]
)
def test_out_of_memory_names_the_limit(
    error: MemoryError, cause: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert failing(error) == 1
    assert capsys.readouterr().err == f"error: out of memory ({cause}); --max-memory sets a limit\n"


def test_internal_error_is_reported_as_such(capsys: pytest.CaptureFixture[str]) -> None:
    assert failing(KeyError("x")) == 1
    assert capsys.readouterr().err == "error: internal error, please report: KeyError: 'x'\n"


TOO_LONG = "n" * 300


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (main, ["net.ck", f"{TOO_LONG}.circle"]),
        (main, [f"{TOO_LONG}.circle", "out.circle"]),
        (main, ["net.ck", "out.circle", "--record", TOO_LONG]),
        (dredd.main, [TOO_LONG]),
        (dredd.main, ["net.ck", "--keep", TOO_LONG]),
        (tensor_commands.i5diff, [TOO_LONG, "other.h5"]),
    ],
)
def test_invalid_file_name_is_refused(
    command: Callable[[list[str]], int],
    words: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("net.ck").write_text(RECIPE)
    assert command(words) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"error: {TOO_LONG}")
    assert "File name too long" in said
    assert [path.name for path in tmp_path.iterdir()] == ["net.ck"]


def test_deleted_working_folder_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "net.ck").write_text(RECIPE)
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert main([str(tmp_path / "net.ck"), "out.circle"]) == 1
    assert capsys.readouterr().err == "error: out.circle: cannot be written: No such file or directory\n"


def test_empty_path_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert dredd.main([""]) == 1
    assert "a file without a name cannot be read" in capsys.readouterr().err


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("circlekit optimize of circlekit ")


def test_a_terminal_gets_a_result_and_a_progress_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in.ck").write_text(RECIPE)
    monkeypatch.setattr(progress_line, "DELAY_SECONDS", 0)
    monkeypatch.setenv("TERM", "xterm")
    for stream in (sys.stdout, sys.stderr):
        monkeypatch.setattr(stream, "isatty", lambda: True)
    assert main([str(tmp_path / "in.ck"), str(tmp_path / "out.circle"), "--O1", "--verify"]) == 0
    out, err = capsys.readouterr()
    assert "RELU" in out
    assert " writing out.circle" in err, "expected the last step; the number of other steps depends on timing"


def test_short_work_shows_no_progress(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in.ck").write_text(RECIPE)
    monkeypatch.setattr(progress_line, "DELAY_SECONDS", 1000)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert main([str(tmp_path / "in.ck"), str(tmp_path / "out.circle"), "--O1"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("columns", "wide"), [("40", False), ("200", True), ("0", False), ("many", False)])
def test_help_is_as_wide_as_the_terminal(
    columns: str, wide: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", columns)

    def declare(parser: Parser) -> None:
        parser.add_argument("--flag", help="word " * 30)

    assert Command("demo", "", "", declare, lambda arguments: 0)(["--help"]) == 0
    longest = max(map(len, capsys.readouterr().out.splitlines()))
    assert (longest > 100) is wide
    assert longest < (40 if columns == "40" else 200)


@pytest.mark.parametrize(
    ("parse", "good", "bad"),
    [
        (arguments.count, {"0": 0, "17": 17}, ["-1", "1.5", "x", "", "nan"]),
        (arguments.integer, {"-1": -1, "0": 0, "9" * 400: 10**400 - 1}, ["1.5", "x", "", "nan", "inf"]),
        (arguments.finite_number, {"-1": -1.0, "0": 0.0, "1e-3": 0.001}, ["nan", "inf", "-inf", "x", ""]),
        (arguments.positive_count, {"1": 1}, ["0", "-2", "inf"]),
        (arguments.non_negative_number, {"0": 0.0, "1e-3": 0.001}, ["-1", "nan", "inf", "1e999", "x"]),
        (arguments.positive_number, {"0.5": 0.5}, ["0", "-0.0", "-1", "nan", "inf"]),
    ],
)
def test_numbers(parse: Callable[[str], float], good: dict[str, float], bad: list[str]) -> None:
    for text, number in good.items():
        assert parse(text) == number
    for text in bad:
        expected = f"^expected an? .*(integer|number).*, got '{text}'"
        with pytest.raises(argparse.ArgumentTypeError, match=expected):
            parse(text)


def test_words_between_commas() -> None:
    assert arguments.comma_separated(" a, b c,,d ,") == ["a", "b c", "d"]
    assert arguments.comma_separated(None) == arguments.comma_separated(" , ") == []


def test_numbers_are_formatted_as_in_cpp() -> None:
    assert [terminal.number_text(x) for x in (0.1, 1 / 3, 2.0, 1e10, 7, True)] == [
        "0.1", "0.333333", "2", "1e+10", "7", "True"
    ]  # fmt: skip


def test_lines_are_shortened_one_by_one() -> None:
    text = "a" * 5 + "\n" + "b" * 6
    assert terminal.shortened(text, 5) == "aaaaa\nbbbbb... (6 characters)"
    assert terminal.shortened(text, 6) == text


def test_flags_are_loaded_for_help_and_unknown_flags_only(capsys: pytest.CaptureFixture[str]) -> None:
    loaded: list[str] = []

    def declare(parser: Parser) -> None:
        parser.add_switch("--known_flag", help="")

        def load() -> None:
            loaded.append("late")
            parser.add_switch("--late_flag", help="")

        parser.load_flags = load

    def run(arguments: argparse.Namespace) -> int:
        return 3 if getattr(arguments, "late_flag", False) else 0

    demo = Command("demo", "", "", declare, run)
    assert demo(["--known-flag", "--max_memory=1G"]) == 0
    assert not loaded
    assert demo(["--late-flag"]) == 3
    assert demo(["--help"]) == 0
    assert "--late_flag" in capsys.readouterr().out
    assert demo(["--nothing-like-it"]) == 2
    assert demo(["word"]) == 2
    assert loaded == ["late"] * 3
    assert capsys.readouterr().err.endswith("error: too many arguments: word (demo --help lists the flags)\n")


def test_words_of_another_command_stay_as_they_are() -> None:
    seen: list[str] = []

    def run(arguments: argparse.Namespace) -> int:
        seen.extend(arguments.words)
        return 0

    def declare(parser: Parser) -> None:
        parser.add_argument("words", nargs="+")

    words = ["./fails", "--max_memory=1G", "--unknown", "-V"]
    demo = Command("demo", "", "", declare, run)
    assert demo(["-V", "--", *words]) == 0
    assert seen == words


def test_a_command_can_refuse_its_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    demo = Command("demo", "", "", lambda parser: None, lambda arguments: arguments.refuse("no"), "circle")
    assert demo([]) == 2
    assert capsys.readouterr().err == "error: no (demo --help lists the flags)\n"
    assert demo.parser().parse_args([]).format == "circle"


@pytest.mark.parametrize("is_quiet", [False, True])
@pytest.mark.parametrize("is_shown", [False, True])
def test_progress_is_shown_on_a_terminal_unless_quiet(
    is_shown: bool, is_quiet: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines: list[progress_line.ProgressLine] = []

    class Line(progress_line.ProgressLine):
        def __enter__(self) -> progress_line.ProgressLine:
            lines.append(self)
            return super().__enter__()

    monkeypatch.setattr(command, "ProgressLine", Line)
    monkeypatch.setattr(command, "is_terminal", lambda stream: is_shown)
    demo = Command("demo", "A command for tests.", "nothing", declare_quiet, lambda arguments: 0)
    assert demo(["--quiet"] * is_quiet) == 0
    assert [line.is_shown for line in lines] == [is_shown and not is_quiet]


def declare_quiet(parser: Parser) -> None:
    parser.add_argument("--quiet", action="store_true")
