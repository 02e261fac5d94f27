# SPDX-License-Identifier: Apache-2.0
"""The programs of a backend that one-codegen runs, by its configuration file and command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from circlekit.toolchain.drivers import all_drivers
from circlekit.toolchain.drivers.backends import plan
from circlekit.toolchain.option import UsageFault
from circlekit.toolchain.session import Session


def planned(
    work: Path, words: list[str], section: str | None = None, before: str = ""
) -> list[tuple[str, list[str]]]:
    """Return the programs that one-codegen would run with ``words``.

    ``section``: the lines of section one-codegen in a configuration file; None: there is no file.
    ``before``: the lines before that section.  The target rose, known to all calls, has the backend npu.
    """
    if section is not None:
        (work / "c.cfg").write_text(f"{before}[one-codegen]\n{section}")
        words = ["-C", "c.cfg", *words]
    (work / "../target/rose.ini").write_text("TARGET=rose\nBACKEND=npu\n")
    session = Session()
    return plan("compile", all_drivers()["one-codegen"].resolve(words, session), session)


TARGET = "[backend]\ntarget=rose\n"
FRONT = ["--target", "rose"]


@pytest.mark.parametrize(
    ("words", "section", "before", "programs"),
    [
        ("-b npu -- -o a", None, "", [("npu-compile", ["-o", "a"])]),
        ("-T rose -- -o a", None, "", [("npu-compile", [*FRONT, "-o", "a"])]),
        ("", "backend=npu\ncommand=x y\n", "", [("npu-compile", ["x", "y"])]),
        ("-b npu", "backend=npu\ncommand=x\n", "", [("npu-compile", ["x"])]),
        ("-b npu -- z", "backend=npu\ncommand=x\n", "", [("npu-compile", ["z"])]),
        ("-- z", "backend=npu\ncommand=x\n", "", [("npu-compile", ["x"])]),
        ("", "backends=npu,cpu\nnpu=x\ncpu=y z\n", "", [("npu-compile", ["x"]), ("cpu-compile", ["y", "z"])]),
        ("-b cpu", "backends=npu,cpu\nnpu=x\ncpu=y z\n", "", [("cpu-compile", ["y", "z"])]),
        ("-b cpu", "command=y\n", "", [("cpu-compile", ["y"])]),
        ("", "command=x\n", TARGET, [("npu-compile", [*FRONT, "x"])]),
        ("-T rose", "command=x\n", "", [("npu-compile", [*FRONT, "x"])]),
        ("-b cpu", "command=x\n", TARGET, [("cpu-compile", ["x"])]),
        ("", "backend=cpu\ncommand=x\n", TARGET, [("cpu-compile", [*FRONT, "x"])]),
    ],
)
def test_programs_of_a_backend(
    work: Path, words: str, section: str | None, before: str, programs: list[tuple[str, list[str]]]
) -> None:
    assert planned(work, words.split(), section, before) == programs


def test_the_option_section_names_another_section(work: Path) -> None:
    assert planned(work, ["-S", "other"], "command=x\n", "[other]\nbackend=npu\ncommand=y\n") == [
        ("npu-compile", ["y"])
    ]


@pytest.mark.parametrize(
    ("words", "section", "message"),
    [
        ("", None, "required: [-b/--backend | -T/--target]"),
        ("-b npu -T rose", None, "cannot be used simultaneously"),
        ("-b npu", None, "commands for the backend is missing"),
        ("-T rose", None, "commands for the backend is missing"),
        ("", "command=x\n", "required: [-b/--backend | -T/--target]"),
        ("", "backend=npu\nbackends=npu\ncommand=x\n", "cannot be used simultaneously"),
        ("-b cpu", "backend=npu\ncommand=x\n", "Not found the command of given backend: cpu"),
        ("-b gpu", "backends=npu,cpu\nnpu=x\ncpu=y\n", "Not found the command of given backend: gpu"),
        ("", "backends=npu,cpu\nnpu=x\n", "Not found the command for cpu"),
        ("", "backend=npu\n", "'command' key is missing"),
        ("-b cpu", "other=x\n", "'command' key is missing in the configuration file. (c.cfg)"),
        ("-T rose", "other=x\n", "'command' key is missing in the configuration file. (c.cfg)"),
    ],
)
def test_wrong_choices_of_a_backend(work: Path, words: str, section: str | None, message: str) -> None:
    with pytest.raises(UsageFault) as caught:
        planned(work, words.split(), section)
    assert message in str(caught.value)
