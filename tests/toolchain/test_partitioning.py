# SPDX-License-Identifier: Apache-2.0
"""one-partition: which backends run the parts of a model."""

from __future__ import annotations

from pathlib import Path

import pytest

import circlekit
from circlekit.toolchain.drivers.partitioning import one_partition


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        ([], "00001_cpu 00002_npu 00003_cpu"),
        (["--backends", "cpu, npu,"], "00001_cpu 00002_npu 00003_cpu"),
        (["--backends", ""], "00001_cpu 00002_npu 00003_cpu"),
        (["--backends", " npu", "--default", "npu"], "00001_npu"),
    ],
)
def test_a_model_is_divided_for_backends(work: Path, words: list[str], parts: str) -> None:
    circlekit.save(
        circlekit.parse("graph main(%x: f32[2]) -> %y { %a = Neg(%x) %b = Abs(%a) %y = Neg(%b) }"), "a.circle"
    )
    Path("a.part").write_text("[partition]\nbackends=cpu,npu\ndefault=cpu\n[OPCODE]\nABS=npu\n")
    words = ["--part_file", "a.part", "--input_file", "a.circle", *words]
    assert one_partition(words) == 0
    assert sorted(path.name[2:-7] for path in work.glob("a.0*")) == parts.split()
