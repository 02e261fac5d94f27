# SPDX-License-Identifier: Apache-2.0
"""What commands print and do not print: warnings and notes, terminals, completion."""

from __future__ import annotations

import argparse
import io
import warnings

import pytest

from circlekit.cli.output.terminal import is_terminal
from circlekit.cli.result import run_quietly
from circlekit.passes.engine.optimization_report import Report


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_what_is_a_terminal() -> None:
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
