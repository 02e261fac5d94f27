# SPDX-License-Identifier: Apache-2.0
"""The files around the commands: programs, optimization groups, targets, schema files."""

from __future__ import annotations

from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import pytest

from circlekit.toolchain.installation import ENTRY_POINTS, Installation, find_installation
from circlekit.toolchain.option import DriverError


@pytest.fixture
def installation(work: Path) -> Installation:
    return find_installation()


def put(path: Path, mode: int = 0o755) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(mode)
    return path


def test_programs_are_executable_files_beside_the_commands_or_below_backends(
    installation: Installation,
) -> None:
    beside = put(installation.bin / "npu-compile")
    put(installation.root / "backends/deep/down/npu-compile")
    below = put(installation.root / "backends/deep/down/cpu-compile")
    put(installation.bin / "text-compile", 0o644)
    put(installation.bin / "npu-profile")
    (installation.bin / "folder-compile").mkdir()
    assert installation.programs("*-compile") == {"npu-compile": beside, "cpu-compile": below}
    assert installation.backends("-compile") == ["cpu-compile", "npu-compile"]
    assert installation.find_program("cpu-compile") == below


def test_programs_are_searched_in_order(installation: Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    mains: dict[str, Callable[[list[str]], int | None]] = {n: lambda words: 5 for n in ("npu-x", "cpu-x")}
    points = [SimpleNamespace(name=name, load=lambda name=name: mains[name]) for name in mains]
    monkeypatch.setattr(metadata, "entry_points", lambda group: points if group == ENTRY_POINTS else [])
    assert installation.find_program("cpu-x") is mains["cpu-x"]
    assert installation.backends("-x") == ["cpu-x", "npu-x"]
    assert installation.backends("-y") == []
    on_path = put(installation.root / "path/cpu-x")
    monkeypatch.setenv("PATH", str(on_path.parent))
    assert installation.find_program("cpu-x") == on_path
    beside = put(installation.bin / "cpu-x")
    assert installation.find_program("cpu-x") == beside
    with pytest.raises(DriverError, match="gpu-x not found: expected it in ") as caught:
        installation.find_program("gpu-x")
    assert caught.value.kind == "FileNotFoundError"


@pytest.mark.parametrize("name", ["", ".", "*-compile", "["])
def test_the_name_of_a_program_is_no_pattern(
    name: str, installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    put(installation.bin / "npu-compile")
    with pytest.raises(DriverError, match="not found: expected it in"):
        installation.find_program(name)
    strange = put(installation.bin / "npu[1]-compile")
    assert installation.find_program("npu[1]-compile") == strange


def test_the_python_of_one(installation: Installation) -> None:
    assert installation.venv_python is None
    python = put(installation.bin / "venv/bin/python")
    assert installation.venv_python == python


def test_groups_are_built_in_or_files(installation: Installation) -> None:
    folder = installation.root / "optimization"
    built_in = installation.group("O1")
    assert built_in["fuse_gelu"] == "True"
    (folder / "OLATE.cfg").write_text("[one-optimize]\nfuse_gelu=False\n")
    (folder / "O BAD.cfg").write_text("[one-optimize]\n")
    (folder / "PLAIN.cfg").write_text("[one-optimize]\n")
    (folder / "OFOLDER.cfg").mkdir()
    assert list(installation.groups()) == ["O1", "OLATE"]
    assert installation.group("OLATE") == {"fuse_gelu": "False"}
    (folder / "O1.cfg").write_text("[one-optimize]\nfold_cast=True\n")
    assert installation.group("O1") == {"fold_cast": "True"}
    with pytest.raises(DriverError, match=r"configuration file: O2 \(known groups: O1, OLATE\)"):
        installation.group("O2")
    (folder / "O3.cfg").write_bytes(b"\xff")
    assert list(installation.groups()) == ["O1", "O3", "OLATE"]
    assert installation.group("OLATE") == {"fuse_gelu": "False"}
    with pytest.raises(DriverError, match=r"O3.cfg: expected text in UTF-8"):
        installation.group("O3")
    for text in ("", "[one-optimize]\n[other]\n", "[other]\n"):
        (folder / "OLATE.cfg").write_text(text)
        with pytest.raises(DriverError, match="only allowed to have a 'one-optimize' section: OLATE"):
            installation.group("OLATE")


def test_targets_name_their_backends(installation: Installation) -> None:
    folder = installation.root / "target"
    with pytest.raises(
        DriverError, match=r"target configuration: rose \(expected .*/target/rose.ini; known targets: none\)"
    ):
        installation.backend_of("rose")
    (folder / "rose.ini").write_text("TARGET=rose\nBACKEND=npu\n")
    (folder / "lily.ini").write_text("TARGET=rose\nBACKEND=npu\n")
    (folder / "iris.ini").write_text("TARGET=iris\n")
    (folder / "folder.ini").mkdir()
    assert installation.targets() == ["iris", "lily", "rose"]
    assert installation.backend_of("rose") == "npu"
    for name, message in (
        ("lily", "Invalid target file: .*/lily.ini: expected TARGET=lily"),
        ("iris", "Not found 'BACKEND' key in target configuration: .*/iris.ini"),
        ("folder", "Not found given target configuration: folder .*known targets: iris, lily, rose"),
    ):
        with pytest.raises(DriverError, match=message):
            installation.backend_of(name)


def test_schema_files_are_of_a_backend_and_a_command(installation: Installation) -> None:
    assert installation.schema_file("npu", "codegen") is None
    path = put(installation.root / "backends/command/npu/codegen.py", 0o644)
    assert installation.schema_file("npu", "codegen") == path
    assert installation.schema_file("npu", "profile") is None
    assert installation.schema_file("cpu", "codegen") is None
