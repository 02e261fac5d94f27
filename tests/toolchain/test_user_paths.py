# SPDX-License-Identifier: Apache-2.0
"""Paths that begin with a home directory, or with that of a user who does not exist."""

from __future__ import annotations

from pathlib import Path

import pytest

from circlekit.toolchain.drivers import all_drivers

UNKNOWN = "~no-such-user/x"


def test_an_unknown_user_is_a_missing_file(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each driver names the file; none raises the RuntimeError of ``Path.expanduser``."""
    for name, extension in {"pack": "circle", "optimize": "circle", "import-tflite": "tflite"}.items():
        assert all_drivers()[f"one-{name}"](["-i", f"{UNKNOWN}.{extension}", "-o", "out"])
        assert f"{UNKNOWN}.{extension}" in capsys.readouterr().err


def test_a_home_directory_may_be_in_both_paths(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(work))
    assert all_drivers()["one-pack"](["-i", "~/net.tflite", "-o", "~/pack"]) == 0
    assert (work / "pack/net/net.tflite").is_file()
    assert all_drivers()["one-import-tflite"](["-i", "~/net.tflite", "-o", "~/net.circle"]) == 0
    assert (work / "net.circle").is_file()
    assert (work / "net.circle.log").is_file()
