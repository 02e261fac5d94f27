# SPDX-License-Identifier: Apache-2.0
"""What ``circlekit run`` prints: min, mean and max of arrays; only the first of many elements or records."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from circlekit.cli.output.run_results import (
    FIRST_ELEMENTS,
    MAX_PRINTED_OPERATORS,
    MAX_PRINTED_RECORDS,
    WHOLE_ELEMENTS,
    _facts,
    _json_value,
)
from circlekit.cli.run_model import run_command

Output = pytest.CaptureFixture[str]


@pytest.mark.parametrize("count", [1, MAX_PRINTED_RECORDS, MAX_PRINTED_RECORDS + 1, MAX_PRINTED_RECORDS + 3])
def test_many_records_are_printed_in_part(count: int, tmp_path: Path, capsys: Output) -> None:
    (tmp_path / "net.ck").write_text("graph main(%x: f32[2]) -> %y { %y = Neg(%x) }")
    np.save(tmp_path / "x.npy", np.ones((count, 2), np.float32))
    assert run_command([str(tmp_path / "net.ck"), "--inputs", str(tmp_path / "x.npy")]) == 0
    lines = capsys.readouterr().out.splitlines()
    heads = [line for line in lines if line.startswith("outputs")]
    numbered = [f"outputs of record_{n}:" for n in range(min(count, MAX_PRINTED_RECORDS))]
    assert heads == (["outputs:"] if count == 1 else numbered)
    more = [line for line in lines if "more record" in line]
    rest = count - MAX_PRINTED_RECORDS
    noun = "more record" if rest == 1 else "more records"
    line = f"... and {rest} {noun}; -o saves all outputs, --json prints all records"
    assert more == ([line] if rest > 0 else [])
    assert f"{count} record" in lines[1]


@pytest.mark.parametrize("more", [0, 1, 3])
def test_many_operators_are_timed_in_part(more: int, tmp_path: Path, capsys: Output) -> None:
    size = MAX_PRINTED_OPERATORS + more
    body = "\n".join(f"%v{n + 1} = Neg(%v{n})" for n in range(size))
    (tmp_path / "net.ck").write_text(f"graph main(%v0: f32[2]) -> %v{size} {{\n{body}\n}}")
    assert run_command([str(tmp_path / "net.ck"), "--per-op"]) == 0
    lines = capsys.readouterr().out.splitlines()
    shown = [line.split() for line in lines if " NEG  %v" in line]
    assert len(shown) == MAX_PRINTED_OPERATORS
    rest = [line.split() for line in lines if " more operator" in line]
    noun = "operator" if more == 1 else "operators"
    assert [line[:6] for line in rest] == [["...", "and", str(more), "more", noun, "with"]] * (more > 0)
    total = sum(float(columns[1]) for columns in shown) + sum(float(line[6]) for line in rest)
    assert abs(total - 100) < 0.06 * (len(shown) + 1)  # each number is rounded to 0.1


@pytest.mark.parametrize("array", [np.zeros((0, 2)), np.array([1j]), np.array([b"a"], object)])
def test_some_arrays_have_no_mean(array: np.ndarray) -> None:
    assert _facts(array) == {}


def test_elements_that_are_not_finite_are_counted() -> None:
    facts = _facts(np.array([np.nan, 1, 3, np.inf, -np.inf], np.float32))
    assert facts == {"min": 1, "mean": 2, "max": 3, "NaN": 1, "infinite": 2}
    assert _facts(np.array([np.nan])) == {"NaN": 1}
    large = np.finfo(np.float64).max  # the sum of two is infinite
    for number in (1.7e308, -1.7e308, large):
        assert _facts(np.full(3, number)) == pytest.approx({"min": number, "mean": number, "max": number})
    both = np.zeros(16)
    both[[0, 8]], both[[1, 9]] = large, -large  # numpy sums every eighth element: one sum is inf, one -inf
    assert _facts(both) == {"min": -large, "mean": 0, "max": large}
    assert _facts(np.array([True, False])) == {"min": False, "mean": 0.5, "max": True}


@pytest.mark.parametrize("size", [WHOLE_ELEMENTS, WHOLE_ELEMENTS + 1])
def test_the_first_elements_of_large_outputs_are_shown(size: int, tmp_path: Path, capsys: Output) -> None:
    (tmp_path / "net.ck").write_text(f"graph main(%x: f32[{size}]) -> %y {{ %y = Neg(%x) }}")
    values = np.arange(size, dtype=np.float32) / 3
    np.save(tmp_path / "x.npy", values)
    words = [str(tmp_path / "net.ck"), "--inputs", str(tmp_path / "x.npy")]
    assert run_command([*words, "--json"]) == 0
    (record,) = json.loads(capsys.readouterr().out)["records"]
    (output,) = record["outputs"]
    first = [-float(x) for x in values[:FIRST_ELEMENTS]]
    if size > WHOLE_ELEMENTS:
        assert (output["first_elements"], "elements" in output) == (first, False)
    else:
        assert (output["elements"], "first_elements" in output) == ((-values).tolist(), False)
    assert run_command(words) == 0
    text = capsys.readouterr().out
    shown = f"first elements -0, {', '.join(f'{x:.6g}' for x in first[1:])}, ..."
    assert (shown in text) is (size > WHOLE_ELEMENTS)
    assert ("-0.333333 " in text) is (size == WHOLE_ELEMENTS)  # six digits


def keys_of(document: object) -> set[str]:
    """Return the keys of all objects in a JSON document."""
    if isinstance(document, dict):
        return set(document).union(*map(keys_of, document.values()))
    return set().union(*map(keys_of, document)) if isinstance(document, list) else set()


def test_the_guide_names_all_keys(tmp_path: Path, capsys: Output) -> None:
    path = tmp_path / "net.ck"
    path.write_text(
        "graph main(%x: f32[100]) -> %y, %z, %u {\n"
        "%y = Log(%x)\n%u = Slice(%x, [0], [3])\n%v = Mul(%x, 1000.0)\n%z = Exp(%v)\n}"
    )
    assert run_command([str(path), "--json", "--per-op"]) == 0
    text = capsys.readouterr().out
    page = (Path(__file__).parents[3] / "docs" / "guide" / "data.md").read_text()
    section = page.partition("## circlekit run")[2].partition("## circlekit compare")[0]
    keys = keys_of(json.loads(text))
    assert {"NaN", "infinite", "elements", "first_elements", "macs"} <= keys
    assert keys <= set(re.findall(r"`(\w+)`", section))


@pytest.mark.parametrize("columns", [50, 90])
def test_elements_fill_the_terminal(
    columns: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    (tmp_path / "net.ck").write_text(f"graph main(%x: i32[{WHOLE_ELEMENTS}]) -> %y {{ %y = Neg(%x) }}")
    np.save(tmp_path / "x.npy", np.full(WHOLE_ELEMENTS, -7, np.int32))
    assert run_command([str(tmp_path / "net.ck"), "--inputs", str(tmp_path / "x.npy")]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if "7 7" in line]
    assert columns - 3 <= max(map(len, lines)) <= columns
    assert all(line.startswith(("    [7", "     7")) for line in lines)


def test_values_of_json() -> None:
    values = [1, -2.5, True, "a", 1j, float("nan"), float("-inf"), b"b\xff", [float("inf"), [2]]]
    expected = [1, -2.5, True, "a", "1j", "nan", "-inf", "b\\xff", ["inf", [2]]]
    assert _json_value(values) == expected
