# SPDX-License-Identifier: Apache-2.0
"""Hostile recipes (``.ck``, ``test.recipe``) and pipeline files raise a CirclekitError.

For recipes, this takes little time and memory.
"""

from __future__ import annotations

import resource
import time
from contextlib import suppress
from pathlib import Path

import pytest

from circlekit.errors import CirclekitError, ParseError
from circlekit.ir.resources.resource_limits import limited
from circlekit.passes.engine.pipeline_file import parse_pipeline
from circlekit.recipes.load import load_recipe, read_recipe

MAX_SECONDS, MAX_GROWTH_KIB = 5.0, 256 << 10  # 256 MiB more memory than before


def graph(line: str) -> str:
    return f"graph main(%x: f32[4]) -> %y {{\n  {line}\n}}\n"


def operand(more: str, shape: str = "shape { dim: 1 }") -> str:
    return f'operand {{ name: "x" type: FLOAT32 {shape} {more} }}\n'


REFUSED = {
    "number beyond floats": graph("%y = const f32[1] [1e999999999]"),
    "digits of a dimension": graph("%y = const f32[" + "9" * 5000 + "] zeros"),
    "digits of a number": graph("%y = const i64[1] [" + "9" * 5000 + "]"),
    "digits of an exponent": graph("%y = const f32[1] [1e" + "9" * 5000 + "]"),
    "hexadecimal digits": graph("%y = const i64[1] [0x" + "f" * 100_000 + "]"),
    "elements": graph("%y = const f32[99999999999] zeros"),
    "elements of many": graph("%y = const f32[2147483647,2147483647] gaussian(0, 1)"),
    "no elements of a huge shape": graph("%y = const f32[0,2147483647,2147483647,2147483647] zeros"),
    "rank of a constant": graph("%y = const f32[" + "1," * 99_999 + "1] zeros"),
    "rank of a result": graph("%y = Neg(%x) : f32[" + "1," * 40 + "1]"),
    "rank of a reshape": graph("%y = Reshape(%x, [" + "1," * 50_000 + "2])"),
    "lists in lists": graph("%y = const f32[1] " + "[" * 100_000),
    "trees in trees": graph("%y = Neg(%x) {a: " + "{a: " * 100_000),
    "calls in calls": graph("%y = const f32[1] " + "a(" * 100_000),
    "a string without end": graph('%y = Neg(%x) {a: "' + "\\" * 1_000_001),
    "a range without end": graph("%y = Range(0.0, 1e30, 1e-30)"),
    "a range of nothing": graph("%y = Range(nan, 1.0, 1.0)"),
    "parts without end": graph("%y = Unpack([1, 2]) {num: 99999999999999, axis: 0}"),
    "a file elsewhere": graph('%y = const f32[1] file("/etc/passwd", 0, 4)'),
    "a file above": graph('%y = const f32[1] file("../secret", 0, 4)'),
    "a null character": graph("%y = Neg(%x)\0"),
    "only a comment": "#" * 5_000_000,
    "an output that nothing produces": graph("%z = Call(%x) {subgraph: @main} : f32[4]"),
    "messages in messages": "operand { shape " * 10_000,
    "a message without end": "operand { shape { " * 10_000,
    "elements of a filler": operand(
        'filler { tag: "gaussian" arg: "0" arg: "1" }', "shape { dim: 2147483647 dim: 2147483647 }"
    ),
    "elements of a constant": operand(
        'filler { tag: "constant" arg: "0" }', "shape { dim: 2147483647 dim: 9 }"
    ),
    "strings": operand('filler { tag: "explicit" }', "shape { dim: 2147483647 dim: 9 }").replace(
        "FLOAT32", "STRING"
    ),
    "elements to be made sparse": operand(
        'make_sparse: true filler { tag: "constant" arg: "0" }', "shape { dim: 1 dim: 2147483647 }"
    ),
    "digits of a field": operand("", "shape { dim: " + "9" * 5000 + " }"),
    "an npy file above": operand('filler { tag: "file" arg: "../../etc/passwd" }'),
    "an npy file of a strange name": operand('filler { tag: "file" arg: "a\\000b" }'),
    "a minus and spaces without a number": operand("", "shape { dim: -" + " " * 2_000_000 + "}"),
}


@pytest.mark.parametrize("name", list(REFUSED))
def test_hostile_text_is_refused_in_little_time(name: str, tmp_path: Path) -> None:
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # Linux then forgets the peak of earlier tests
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    with limited("64M"), pytest.raises(CirclekitError):
        read_recipe(REFUSED[name], "bad", folder=tmp_path)
    assert time.process_time() - start < MAX_SECONDS
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MAX_GROWTH_KIB


ALLOWED = {
    "small numbers": graph("%y = const f32[2] [1e-999999999, -1e-999999999]"),
    "spaces": graph("%y = const f32[4] [1, 2, 3, 4]" + " " * 1_000_000),
    "operands": graph("%y = AddN(" + ", ".join(["%x"] * 5000) + ")"),
    "no elements": graph("%y = const f32[0,2147483647] zeros"),
}


@pytest.mark.parametrize("name", list(ALLOWED))
def test_unusual_text_is_accepted(name: str) -> None:
    with limited("64M"):
        assert read_recipe(ALLOWED[name], "odd").main.outputs


@pytest.mark.parametrize(
    "text",
    ["a = " + "[" * 100_000, "a = " + "[" * 2000 + "]" * 2000, "passes = " + "9" * 5000, "passes = \0"],
    ids=["open", "deep", "digits", "null character"],
)
def test_hostile_pipeline_files_are_refused(text: str) -> None:
    with pytest.raises(ParseError, match=r"^bad\.toml: "):
        parse_pipeline(text, "bad.toml")


def test_recipe_reads_only_files_in_its_folder(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(bytes(64))
    folder = tmp_path / "recipes"
    folder.mkdir()
    for name in ("../secret", str(tmp_path / "secret"), "..", "recipes/../../secret"):
        (folder / "net.ck").write_text(graph(f'%y = const f32[1] file("{name}", 0, 4)'))
        with pytest.raises(
            ParseError, match=r"net\.ck:\d+:\d+: expected the name of a file beside the recipe"
        ):
            load_recipe(folder / "net.ck")
