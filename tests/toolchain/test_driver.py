# SPDX-License-Identifier: Apache-2.0
"""A driver from its command line to its exit code."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import circlekit
from circlekit.cli.inspection import circle_inspect
from circlekit.errors import ModelError
from circlekit.toolchain.driver import Driver, Invocation, guarded
from circlekit.toolchain.option import DriverError, Kind, Option, StepFailed, UsageFault
from circlekit.toolchain.session import Session
from tests.closed_pipe import run_with_closed_pipe

pytestmark = pytest.mark.usefixtures("work")  # each test runs in a folder of its own

OPTIONS = (
    Option("name", "", "-n", required=True),
    Option("size", default="3"),
    Option("left", kind=Kind.SWITCH, exclusive="side"),
    Option("right", kind=Kind.SWITCH, exclusive="side"),
    Option("other-name", "", "-o"),
)


def driver(
    run: Callable[[Invocation, Session], None] = lambda invocation, session: None, **more: Any
) -> Driver:
    return Driver("one-x", "test", lambda: OPTIONS, run, **more)


def resolved(words: str, **more: Any) -> Invocation:
    return driver(**more).resolve(words.split(), Session())


@pytest.mark.parametrize(
    ("foreign_words", "words", "names", "rest"),
    [
        ("no", "-n a", {"name": "a"}, []),
        ("after_dashes", "-n a", {"name": "a"}, []),
        ("after_dashes", "-n a --", {"name": "a"}, []),
        ("after_dashes", "-n a -- -n b -- c", {"name": "a"}, ["-n", "b", "--", "c"]),
        ("any", "-n a --odd b", {"name": "a"}, ["--odd", "b"]),
        ("any", "-n a -- -n b", {"name": "a"}, ["-n", "b"]),
        ("any", "--size 4 -n a", {"name": "a", "size": "4"}, []),
    ],
)
def test_words_for_another_program(
    foreign_words: str, words: str, names: dict[str, str], rest: list[str]
) -> None:
    invocation = resolved(words, foreign_words=foreign_words)
    assert (invocation.command, invocation.backend_words) == (names, rest)
    assert invocation.values == {"size": "3", **names}


@pytest.mark.parametrize(
    ("foreign_words", "words"),
    [("no", "-n a b"), ("no", "-n a -- b"), ("after_dashes", "-n a --odd"), ("any", "-n a --odd -- b"),
     ("no", "-n a --left --right"), ("no", "-n")],
)  # fmt: skip
def test_wrong_words(foreign_words: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert driver(foreign_words=foreign_words)(words.split()) == 2
    assert "usage: one-x " in capsys.readouterr().err


def test_a_required_option_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    assert driver()([]) == 2
    error = capsys.readouterr().err
    assert error.startswith("usage: one-x ")
    assert error.endswith("one-x: error: the following arguments are required: -n/--name\n")
    assert resolved("-n a --left").values == {"name": "a", "size": "3", "left": True}


def test_standard_options_are_those_that_a_driver_wants(capsys: pytest.CaptureFixture[str]) -> None:
    assert driver()(["--version"]) == 0
    assert capsys.readouterr().out.startswith("one-x version ")
    for word in ("--version", "--verbose"):
        assert driver(standard=("config",))(["-n", "a", word]) == 2
        assert f"unrecognized arguments: {word}" in capsys.readouterr().err
    for words, before, after in (([], False, False), (["-V"], False, True), ([], True, True)):
        session = Session(verbose=before)
        driver().resolve(["-n", "a", *words], session)
        assert session.verbose is after


def test_values_come_from_the_command_line_then_the_file_then_the_group() -> None:
    Path("c.cfg").write_text(
        "[one-x]\nname=file\nother-name=file\n[other]\nsize=5\nodd=1\n[Environment]\nV=1\n"
    )

    def group(values: dict[str, Any], session: Session) -> dict[str, str]:
        assert values["name"] in ("file", "word")
        return {"size": "9", "name": "group", "other_name": "group"}

    one, session = driver(group=group), Session()
    invocation = one.resolve(["-C", "c.cfg"], session)
    assert invocation.values == {"name": "file", "size": "9", "other_name": "file"}
    assert invocation.command == {}
    assert invocation.configuration is not None
    assert session.environment["V"] == "1"
    assert one.resolve(["-C", "c.cfg", "-n", "word"], session).values["name"] == "word"
    words = ["-C", "c.cfg", "-S", "other", "-n", "word"]
    assert driver(has_open_section=True).resolve(words, session).values == {"name": "word", "size": "5"}
    with pytest.raises(DriverError, match=r"unrecognized: odd \(in section \[other\] of c.cfg"):
        driver().resolve(words, session)
    assert resolved("-n a").configuration is None


def test_faults_name_the_section_of_the_file(capsys: pytest.CaptureFixture[str]) -> None:
    Path("c.cfg").write_text("[one-x]\nsize=1\n")
    assert driver()(["-C", "c.cfg"]) == 2
    assert capsys.readouterr().err.endswith("required: -n/--name (in section [one-x] of c.cfg)\n")


@pytest.mark.parametrize("log", ["name", "size", "other_name", ""])
def test_the_log_of_a_driver(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    """``log`` names an option.  Its value plus ``.log`` is the path of the log; without a value, no log."""

    def run(invocation: Invocation, session: Session) -> None:
        session.say(f"said {invocation.values['name']}")

    assert driver(run, log=log)(["-n", "a"]) == 0
    assert capsys.readouterr().out == "said a\n"
    expected = {"name": {"a.log": "said a\n"}, "size": {"3.log": "said a\n"}}.get(log, {})
    assert {path.name: path.read_text() for path in Path().glob("*.log")} == expected


def test_the_help_page_has_details(capsys: pytest.CaptureFixture[str]) -> None:
    one = driver(details=lambda session: f"programs in {session.installation.bin.name}", usage="one-x ...")
    assert one(["-h"]) == 0
    page = capsys.readouterr().out
    assert page.startswith("usage: one-x ...")
    assert page.endswith("programs in bin\n")


def test_the_arguments_of_the_process(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    names: list[str] = []
    monkeypatch.setattr(sys, "argv", ["one-x", "-n", "a"])
    one = driver(lambda invocation, session: names.append(invocation.values["name"]))
    assert one() == 0
    assert one(["-n", "b"]) == 0
    assert one([]) == 2
    assert names == ["a", "b"]


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (None, 0, ""),
        (StepFailed("tool", 7), 7, ""),
        (UsageFault("odd"), 2, "usage\none-x: error: odd\n"),
        (DriverError("ValueError", "odd"), 255, "one-x: ValueError: odd\n"),
        (DriverError("", "odd"), 2, "one-x: error: odd\n"),
        (ModelError("odd", "at a"), 255, "one-x: ModelError: odd (at a)\n"),
        (SystemExit(), 0, ""),
        (SystemExit(0), 0, ""),
        (SystemExit(5), 5, ""),
        (SystemExit("text"), 255, ""),
        (KeyboardInterrupt(), 130, "one-x: interrupted\n"),
        (ZeroDivisionError("odd"), 255, "one-x: ZeroDivisionError: odd\n"),
    ],
)
def test_every_error_has_an_exit_code_and_a_line(
    error: BaseException | None, code: int, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def work() -> None:
        if error is not None:
            raise error

    assert guarded("one-x", lambda: print("usage", file=sys.stderr), work) == code
    assert capsys.readouterr().err == line


def test_a_closed_pipe_ends_the_driver_without_a_line() -> None:
    code = "from circlekit.toolchain.driver import guarded\n"
    code += "raise SystemExit(guarded('one-x', print, lambda: print('line', flush=True)))\n"
    assert run_with_closed_pipe(code) == (141, b"")


@pytest.mark.parametrize("words", ["['--help']", "['-v']"])
def test_a_closed_pipe_ends_the_help_page_and_the_version(words: str) -> None:
    code = "from circlekit.toolchain.drivers import all_drivers\n"
    code += f"raise SystemExit(all_drivers()['one-pack']({words}))\n"
    assert run_with_closed_pipe(code) == (141, b"")


def test_characters_that_the_standard_output_lacks_are_escaped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The names are latin-1, the encoding is ASCII; as usual, standard error escapes such characters."""
    path = tmp_path / "net.circle"
    circlekit.save(circlekit.parse("graph main(%x: f32[2]) -> %\u00e9 { %\u00e9 = Neg(%x) }"), path)
    works: list[Callable[[], int]] = [
        lambda: guarded("one-x", print, lambda: Session().say("%\u00e9")),
        lambda: circle_inspect(["--tensor_dtype", str(path)]),
    ]
    for work in works:
        stream = io.TextIOWrapper(io.BytesIO(), "ascii")
        monkeypatch.setattr("sys.stdout", stream)
        assert work() == 0
        stream.flush()
        assert b"\\xe9" in stream.buffer.getvalue()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("words", [["-v"], ["--help"], ["import", "-v"], ["import", "--help"]])
def test_a_full_disk_is_an_error_that_names_the_standard_output(words: list[str]) -> None:
    code = "from circlekit.toolchain.onecc import onecc; raise SystemExit(onecc())"
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-c", code, *words],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    name = "one-import" if "import" in words else "onecc"
    message = f"{name}: OSError: cannot write to the standard output: No space left on device\n"
    assert (done.returncode, done.stderr) == (255, message)
