# SPDX-License-Identifier: Apache-2.0
"""circle-execution-plan: its flags, and the metadata that ONE's runtimes read."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

import circlekit
from circlekit.cli.one.circle_execution_plan import main
from circlekit.targets.one_plan_table import METADATA

NET = """
graph main(%x: f32[1,4,4,2]) -> %y {
  %w = const f32[2,3,3,2] gaussian(0, 1)
  %c = Conv2D(%x, %w, none)            : f32[1,4,4,2]
  %a, %b = Split(3, %c) {num_splits: 2} : f32[1,4,4,1], f32[1,4,4,1]
  %y = Maximum(%a, %b)                 : f32[1,4,4,1]
}
"""


@pytest.fixture
def net(tmp_path: Path) -> Path:
    path = tmp_path / "net.ck"
    path.write_text(NET)
    return path


def table_of(path: Path) -> dict[int, tuple[int, ...]]:
    """Decode the metadata, word by word as ``CircleImportMetadata.cpp`` of ONE does."""
    data = dict(circlekit.load(path).metadata)[METADATA]
    words = struct.unpack(f"<{len(data) // 4}I", data)
    found, at = {}, 1
    for _ in range(words[0]):
        number, count = words[at : at + 2]
        found[number] = words[at + 2 : at + 2 + count]
        at += 2 + count
    assert at == len(words)
    return found


@pytest.mark.parametrize(("flags", "scratch"), [([], 1), (["--platform", "mcu"], 0)])
def test_the_table(net: Path, flags: list[str], scratch: int, capsys: pytest.CaptureFixture[str]) -> None:
    out, trace = net.with_suffix(".circle"), net.with_name("net.tracealloc.json")
    assert main([str(net), str(out), "--save_allocations", str(trace), *flags]) == 0
    assert "bytes" in capsys.readouterr().out
    table = table_of(out)
    assert list(table) == list(range(10))
    assert all(row[0] == number for number, row in table.items())
    assert len(table[4]) == 2 + scratch  # CONV_2D: position, offset of the result, offset of a scratch buffer
    rows = json.loads(trace.read_text())["segments"][0]["allocations"]
    for index, a in enumerate(rows):
        for b in rows[:index]:
            together = a["alive_from"] <= b["alive_till"] and b["alive_from"] <= a["alive_till"]
            apart = a["offset"] + a["size"] <= b["offset"] or b["offset"] + b["size"] <= a["offset"]
            assert apart or not together
    assert {row["origin"] for row in rows} >= {"%x", "%c", "%a", "%b", "%y"}
    assert "%w" not in {row["origin"] for row in rows}
    assert circlekit.compare(circlekit.load(net), circlekit.load(out)).equal


def test_onert_micro_has_inputs_and_producers_of_outputs_first(net: Path) -> None:
    out = net.with_suffix(".circle")
    assert main([str(net), str(out), "--runtime", "onert-micro"]) == 0
    order = {number: row[0] for number, row in table_of(out).items()}
    names = {
        0: "SPLIT_DIM",
        1: "x",
        2: "w",
        3: "-",
        4: "CONV_2D",
        5: "SPLIT",
        6: "a",
        7: "b",
        8: "MAXIMUM",
        9: "y",
    }
    assert {names[number]: place for number, place in order.items()} == {
        "x": 0, "MAXIMUM": 1, "CONV_2D": 2, "SPLIT": 3, "a": 4, "b": 5, "y": 6,
    }  # fmt: skip


def test_constants_can_be_planned_and_inputs_left_out(net: Path) -> None:
    out, trace = net.with_suffix(".circle"), net.with_name("trace.json")
    assert main([str(net), str(out), "--allocate_const", "true", "--save_allocations", str(trace)]) == 0
    rows = json.loads(trace.read_text())["segments"][0]["allocations"]
    assert {"%x", "%w"} <= {row["origin"] for row in rows}
    flags = ["--allocate_const", "false", "--allocate_input", "false", "--save_allocations", str(trace)]
    assert main([str(net), str(out), *flags]) == 0
    rows = json.loads(trace.read_text())["segments"][0]["allocations"]
    assert not {"%x", "%w"} & {row["origin"] for row in rows}


@pytest.mark.parametrize(
    ("flags", "code", "message"),
    [
        (["--use_dsp", "true"], 255, "needs --platform cmsisnn"),
        (["--platform", "cmsisnn"], 1, "expected the platform linux or mcu"),
        (["--allocating_mode", "split"], 1, "expected the allocating mode common"),
    ],
)
def test_wrong_flags_are_refused(
    net: Path, flags: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out = net.with_suffix(".circle")
    assert main([str(net), str(out), *flags]) == code
    assert message in capsys.readouterr().err
    assert not out.exists()


def test_plan_and_allocations_are_different_files(net: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = net.with_suffix(".circle")
    assert main([str(net), str(out), "--save_allocations", f"{out.parent}/./{out.name}"]) == 1
    assert "expected different files to write" in capsys.readouterr().err
    assert not out.exists()
    assert main([str(net), str(out), "--save_allocations", f"{out}.json"]) == 0


def test_offsets_of_4_gib_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The input and the result of NEG have 4 GiB each; the node of the graph output comes after them."""
    (tmp_path / "net.ck").write_text("graph main(%x: f32[1024,1024,1024]) -> %y { %y = Neg(%x) }")
    assert main([str(tmp_path / "net.ck"), str(tmp_path / "out.circle")]) == 1
    assert "expected offsets below 4 GiB, got 8,589,934,592" in capsys.readouterr().err
    assert not (tmp_path / "out.circle").exists()


def test_other_metadata_is_kept_and_an_old_plan_replaced(tmp_path: Path) -> None:
    model = circlekit.parse(NET)
    model.metadata = [("other", b"text"), (METADATA, b"old")]
    circlekit.save(model, tmp_path / "net.circle")
    assert main([str(tmp_path / "net.circle"), str(tmp_path / "out.circle")]) == 0
    (other, (name, table)) = circlekit.load(tmp_path / "out.circle").metadata
    assert other == ("other", b"text")
    assert name == METADATA
    assert len(table) > 20
