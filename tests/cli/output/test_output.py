# SPDX-License-Identifier: Apache-2.0
"""What commands print and do not print: warnings and notes, documents, paragraphs."""

from __future__ import annotations

import argparse
import io
import json
import sys
import warnings
from pathlib import Path

import pytest

import circlekit
from circlekit.cli.output.terminal import escaped_stdout, is_terminal, paragraph
from circlekit.cli.result import run_quietly
from circlekit.passes.engine.optimization_report import Report
from tests.cli.call_command import call_command


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_only_a_stream_that_says_so_is_a_terminal() -> None:
    assert [is_terminal(stream) for stream in (None, io.StringIO(), Terminal())] == [False, False, True]


@pytest.mark.parametrize("quiet", [False, True])
@pytest.mark.parametrize("mute", [False, True])
def test_quiet_and_muted_commands_say_no_notes_and_no_warnings(quiet: bool, mute: bool) -> None:
    report = Report.__new__(Report)
    report.notes = ["a note"]

    def work() -> Report:
        warnings.warn("odd", UserWarning, stacklevel=1)
        return report

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = run_quietly(argparse.Namespace(quiet=quiet, mute_warnings=mute), work)
    assert found is report
    assert (report.notes, len(caught)) == (([], 0) if quiet or mute else (["a note"], 1))


def test_control_characters_are_escaped_even_if_stdout_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    for stdout in (stream, None):
        monkeypatch.setattr(sys, "stdout", stdout)
        with escaped_stdout(lambda: None):
            print("a\x1bb")
            if sys.stdout is not None:
                sys.stdout.writelines(["\x07", "c\n"])
            assert (sys.stdout is None) is (stdout is None)
        assert sys.stdout is stdout
    assert stream.getvalue() == "a\\x1bb\n\\x07c\n"


@pytest.mark.parametrize(
    "words",
    [
        "run {}",
        "compare {} {}",
        "check {} --target litert",
        "verify {}",
        "inspect {}",
        "optimize {} {}.opt.circle --O1",
    ],
)
def test_documents_have_a_version_and_are_not_printed_if_quiet(words: str, tmp_path: Path) -> None:
    path = tmp_path / "net.circle"
    circlekit.save(circlekit.parse("graph main(%x: f32[2]) -> %y { %y = Neg(%x) }"), path)
    command = ["circlekit", *words.replace("{}", str(path)).split(), "--json"]
    assert json.loads(call_command(*command).stdout)["schema"] == 1
    if not words.startswith(("verify", "inspect")):  # they have no --quiet that means "only errors"
        assert call_command(*command, "--quiet").stdout == ""


@pytest.mark.parametrize("columns", [20, 33, 80])
@pytest.mark.parametrize("margin", ["", "    "])
def test_paragraphs_fill_the_terminal(columns: int, margin: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No line is too long, and the first word of the next line would not fit."""
    monkeypatch.setenv("COLUMNS", str(columns))
    words = [f"{'word' * (n % 4)}{n}" for n in range(60)]
    lines = paragraph(" ".join(words), margin)
    assert " ".join(line.removeprefix(margin) for line in lines).split() == words
    assert all(line.startswith(f"{margin}w") or line[len(margin)].isdigit() for line in lines)
    assert max(map(len, lines)) <= columns
    following = [line.split()[0] for line in lines[1:]]
    assert all(len(f"{line} {word}") > columns for line, word in zip(lines, following, strict=False))
