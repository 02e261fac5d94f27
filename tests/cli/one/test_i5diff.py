# SPDX-License-Identifier: Apache-2.0
"""i5diff: exit codes, output and tolerance."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from circlekit.cli.one.tensor_commands import i5diff as main
from circlekit.equivalence.data_files import hdf5


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Return the paths of two files: ``x`` differs by 0.25 in its second element, ``y`` is the same."""
    x, y = np.array([1, 2], np.float32), np.array([[3]], np.int32)
    paths = [tmp_path / "left.h5", tmp_path / "right.h5"]
    for path, step in zip(paths, (0, 0.25), strict=True):
        path.write_bytes(hdf5.encode([("x", x + np.array([0, step], np.float32)), ("y", y)]))
    return [str(path) for path in paths]


def test_equal_files(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([files[0], files[0]]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["equal", "equal"]


def test_different_files(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(files) == 1
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("DIFFERENT  x: [1]: 2.0 and 2.25 differ by 0.25 ")
    assert first.endswith("0.001 is allowed")
    assert second == "equal      y: all elements are equal"


@pytest.mark.parametrize(("tolerance", "code"), [("0.25", 0), ("0.001", 1), ("0", 1)])
def test_tolerance(files: list[str], tolerance: str, code: int) -> None:
    assert main(["-d", tolerance, *files]) == code


@pytest.mark.parametrize("tolerance", ["x", "-1", "nan", "inf"])
def test_bad_tolerance_is_wrong_usage(
    files: list[str], tolerance: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([f"-d{tolerance}", *files]) == 2
    assert f"expected a finite number that is not negative, got '{tolerance}'" in capsys.readouterr().err


def test_invalid_file_gives_one_line_and_an_exit_code(
    files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "bad.h5"
    bad.write_bytes(b"\0" * 64)
    for path in (str(bad), "missing.h5", str(tmp_path)):
        assert main([files[0], path]) == 1
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith(f"error: {path}")
        assert len(err.splitlines()) == 1


def test_missing_argument_is_wrong_usage(files: list[str]) -> None:
    assert main(files[:1]) == 2
