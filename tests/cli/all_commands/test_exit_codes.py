# SPDX-License-Identifier: Apache-2.0
"""The exit codes of ONE's commands, which scripts test."""

from __future__ import annotations

from importlib import import_module

import pytest

from circlekit.cli.command import Command
from circlekit.errors import FileError, FormatError, ModelError
from tests.cli.scripts import SCRIPTS

CODES = {
    "circle2circle circle-quantizer record-minmax circle-tensordump circle-input-names": (255, 1, 255),
    "tflite2circle circledump tfldump circle-inspect tfl-inspect circle-operator circle-eval-diff": (
        255,
        255,
        255,
    ),
    "circlechef circlechef-file circlechef-reverse tflchef tflchef-file tflchef-reverse": (255, 255, 255),
    "circle-interpreter circle-partitioner circle-part-driver circle-opselector": (255, 1, 1),
    "fme-detect fme-apply q-implant dalgona": (255, 1, 1),
    "circle-verify tfl-verify circle-execution-plan": (1, 1, 255),
    "circle-resizer circle-mpqsolver minmax-embedder": (1, 1, 1),
    "fm-equalize": (1, 1, 2),
    "visq": (255, 255, 2),
}
"""The codes of ONE's programs for failed work, for a model that cannot be read, and for wrong usage."""

EXPECTED = {name: codes for names, codes in CODES.items() for name in names.split()}


def one_commands() -> dict[str, Command]:
    """Return the installed commands that are ONE's, by name."""
    found = {}
    for name, place in SCRIPTS.items():
        module, function = place.split(":")
        command = getattr(import_module(module), function) if module.startswith("circlekit.cli") else None
        if isinstance(command, Command) and command.one is not None:
            found[name] = command
    return found


def test_every_command_of_one_has_its_codes() -> None:
    assert {*one_commands()} == {*EXPECTED}


@pytest.mark.parametrize("name", EXPECTED)
def test_exit_codes_of_one(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    failed, unread, usage = EXPECTED[name]
    command = one_commands()[name]
    assert command(["--no-such-flag"]) == usage
    assert command._report(ModelError("odd"), False) == failed
    for error in (FileError("none"), FormatError("none"), OSError(2, "none", "none")):
        assert command._report(error, False) == unread
    assert len(capsys.readouterr().err.splitlines()) == 5  # one for each error above
