# SPDX-License-Identifier: Apache-2.0
"""Why a file grew: the growth of the parts adds up to that of the file, and each change is in its part."""

from __future__ import annotations

import io
import re
import zipfile
from pathlib import Path

import numpy as np
import pytest

import circlekit
from circlekit.io.write.file_growth import explain_growth
from circlekit.io.write.save import encoded, to_bytes
from circlekit.ir.graph import Model

NET = """graph main(%x: f32[1,64]) -> %y {
  %w = const f32[1,64] gaussian(0, 1)
  %y = Add(%x, %w)
}"""


@pytest.fixture
def model(tmp_path: Path) -> Model:
    circlekit.save(circlekit.parse(NET), tmp_path / "net.circle")
    return circlekit.load(tmp_path / "net.circle")


def growth(model: Model, old_size: int) -> tuple[int, dict[str, int]]:
    """Return the growth of the file in bytes, and {part: its growth}, as ``explain_growth`` states them.

    Return 0 and {} if the file did not grow.
    """
    sentence = explain_growth(model.extra["origin"], old_size, encoded(model, "circle"))
    if not sentence:
        return 0, {}
    total, parts = sentence.removeprefix("grew by ").split(" bytes: ")
    found = re.findall(r"(constants|tables)[^,]*? ([+-][\d,]*\d)", parts)
    return int(total.replace(",", "")), {name: int(change.replace(",", "")) for name, change in found}


@pytest.mark.parametrize("count", [64, 65, 2000])
def test_a_larger_constant_is_the_growth_of_constants(model: Model, count: int) -> None:
    before = len(to_bytes(model, "circle"))
    (old,) = (v for v in model.main.ops[0].inputs if v is not None and v.is_const)
    model.main.ops[0].set_input(1, circlekit.Value.constant(old.name, np.ones((1, count), np.float32)))
    total, parts = growth(model, before)
    assert total == max(len(to_bytes(model, "circle")) - before, 0)
    assert sum(parts.values()) == total
    assert parts.get("constants", 0) == 4 * (count - 64)


def test_other_names_are_the_growth_of_tables(model: Model) -> None:
    before = len(to_bytes(model, "circle"))
    model.main.ops[0].output.name = "y" * 500
    total, parts = growth(model, before)
    assert total == len(to_bytes(model, "circle")) - before >= 480
    assert sum(parts.values()) == total
    assert parts["tables"] >= 450
    assert "constants" not in parts
    assert growth(model, before + total) == (0, {})
    assert growth(model, before + total - 1)[0] == 1


@pytest.mark.parametrize("count", [200, 260])
def test_external_custom_options_count_as_constants(count: int) -> None:
    """A longer name is the growth of tables; only the growth of the options is that of constants."""
    net = circlekit.parse("""graph main(%x: f32[2]) -> %y {
      %y = Opaque(%x) {code: "CUSTOM", custom_code: "mine", extra: {far_options: true}} : f32[2]
    }""")
    net.main.ops[0].extra["custom_options"] = np.arange(200, dtype=np.uint8)
    old = to_bytes(net, "circle")
    model = circlekit.load(old)
    model.main.ops[0].extra["custom_options"] = np.resize(model.main.ops[0].extra["custom_options"], count)
    model.main.ops[0].results[0].name = "y" * 500
    total, parts = growth(model, len(old))
    assert total == len(to_bytes(model, "circle")) - len(old) >= 480
    assert parts.get("constants", 0) == count - 200
    assert parts["tables"] == total - (count - 200)


def test_an_archive_is_no_growth(tmp_path: Path) -> None:
    """The old file and the new file both end with the archive; only the longer name adds bytes."""
    stream = io.BytesIO(to_bytes(circlekit.parse(NET), "tflite"))
    with zipfile.ZipFile(stream, "a") as archive:
        archive.writestr("labels.txt", "a label\n" * 50)
    (tmp_path / "net.tflite").write_bytes(stream.getvalue())
    model = circlekit.load(tmp_path / "net.tflite")
    model.main.ops[0].output.name = "y" * 500
    sentence = explain_growth(model.extra["origin"], len(stream.getvalue()), encoded(model, "tflite"))
    assert 450 <= int(sentence.split()[2]) == len(to_bytes(model, "tflite")) - len(stream.getvalue()) < 600
    assert re.search(r"tables and alignment \+(4[5-9]\d|5\d\d)\b", sentence)
