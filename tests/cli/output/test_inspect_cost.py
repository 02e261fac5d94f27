# SPDX-License-Identifier: Apache-2.0
"""circlekit inspect --cost: tables of the operators and of the buffers at the peak, as text and as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from circlekit.cli import inspection
from circlekit.cli.output.cost_table import MAX_BUFFERS

NET = """
graph main(%x: f32[1,4]) -> %y {
  %w = const f32[8,4] gaussian(0, 1)
  %wide = FullyConnected(%x, %w, none)  : f32[1,8]
  %twice = Neg(%wide)                   : f32[1,8]
  %y = Maximum(%twice, %wide)           : f32[1,8]
}
"""


@pytest.fixture
def net(tmp_path: Path) -> str:
    path = tmp_path / "net.ck"
    path.write_text(NET)
    return str(path)


def test_tables(net: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert inspection.circle_inspect(["--cost", "--target", "tflm", net]) == 0
    assert (
        capsys.readouterr().out
        == f"""\
{net}: memory as planned by TFLM, greedy planner

operator  kind             result  MACs  read  constants  written  live
0         FULLY_CONNECTED  %wide     32    16        128       32    48
1         NEG              %twice     0    32          0       32    64
2         MAXIMUM          %y *       0    64          0       32    96

arena: 96 bytes; most live bytes (*): 96
live at the peak  bytes  from operator  to operator
%wide                32              0            2
%twice               32              1            2
%y                   32              2            2
"""
    )


def test_json(net: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert inspection.circle_inspect(["--cost", "--json", net]) == 0
    tree = json.loads(capsys.readouterr().out)
    assert tree["target"] == "luci"
    (graph,) = tree["graphs"]
    assert graph["arena_bytes"] == 16 + 3 * 32
    assert graph["peak_operator"] == 2
    assert [op["macs"] for op in graph["operators"]] == [32, 0, 0]
    assert {b["name"] for b in graph["peak_buffers"]} == {"%x", "%wide", "%twice", "%y"}


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--target", "tflm"], "--target needs --cost"),
        (["--cost", "--operators"], "got both"),
        (["--cost", "--target", "tflmm"], "tflmm"),
    ],
)
def test_wrong_usage(flags: list[str], message: str, net: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert inspection.circle_inspect([*flags, net]) == 255
    assert message in capsys.readouterr().err


def test_an_invalid_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "m.ck"
    path.write_text("graph main(%x: f32[2,3], %k: f32[2,4]) -> %y { %y = Add(%x, %k) : f32[2,3] }")
    assert inspection.circle_inspect(["--cost", str(path)]) == 255
    assert "Add" in capsys.readouterr().err


@pytest.mark.parametrize("more", [-1, 0, 1, 2])
def test_many_buffers_are_listed_in_part(
    more: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All inputs are live at the peak, and so is one result."""
    count = MAX_BUFFERS + more - 1
    names = [f"%x{n}" for n in range(count)]
    inputs = ", ".join(f"{name}: f32[4]" for name in names)
    text = f"graph main({inputs}) -> %y {{ %y = Concatenation({', '.join(names)}) {{axis: 0}} }}"
    (tmp_path / "net.ck").write_text(text)
    assert inspection.circle_inspect(["--cost", str(tmp_path / "net.ck")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert not [line for line in lines if line.startswith("graph ")]
    start = next(n for n, line in enumerate(lines) if line.startswith("live at the peak"))
    listed = [line for line in lines[start + 1 :] if line.startswith("%")]
    assert len(listed) == min(MAX_BUFFERS, count + 1)
    assert lines[start + 1 + len(listed) :] == [f"... and {more} more"] * (more > 0)


def test_graphs_are_named_if_there_are_several(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = "graph main(%x: f32[2]) -> %y { %y = Abs(%x) }\n"
    (tmp_path / "net.ck").write_text(one + one.replace("main", "other"))
    assert inspection.circle_inspect(["--cost", str(tmp_path / "net.ck")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("graph ")] == ["graph main", "graph other"]


def test_an_operator_without_results_has_no_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "net.ck").write_text("""
        graph main(%x: f32[4]) -> %y {
          %h = VarHandle() {shared_name: "v"} : resource[1]
          AssignVariable(%h, %x)
          %y = Abs(%x)
        }""")
    assert inspection.circle_inspect(["--cost", str(tmp_path / "net.ck")]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["1", "ASSIGN_VARIABLE", "0", "16", "0", "0", "16"] in rows
