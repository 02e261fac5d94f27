# SPDX-License-Identifier: Apache-2.0
"""dalgona as a command: ONE's lines around the run of an analysis."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import circlekit
from circlekit.cli.quant.dalgona import dalgona

ANALYSIS = """
class Watch:
    def StartAnalysis(self, args):
        print("start", args)
"""


@pytest.mark.parametrize(
    ("words", "before", "after"),
    [
        ([], ["--input_data was not specified. Run with a random input."], "a random input"),
        (["--input_data", "x.npz"], [], "3'th data"),
    ],
)
def test_the_lines_before_and_after_an_analysis(
    words: list[str],
    before: list[str],
    after: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("Watch.py").write_text(ANALYSIS)
    np.savez("x.npz", x=np.ones((3, 2), np.float32))
    circlekit.save(circlekit.parse("graph main(%x: f32[2]) -> %y { %y = Neg(%x) }"), "net.circle")
    flags = ["--input_model", "net.circle", "--analysis", "Watch.py", "--analysis_args", "text"]
    assert dalgona([*flags, *words]) == 0
    assert capsys.readouterr().out.splitlines() == [*before, "start text", f"Finished executing {after}"]
