# SPDX-License-Identifier: Apache-2.0
"""The page: what it shows, that it is the same for the same input, and that no name can break out of it."""

from __future__ import annotations

import hashlib
import io
import json
import re
import zipfile
from base64 import b64encode
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import circlekit
from circlekit.io.write.save import to_bytes
from circlekit.report.content import Content, Source, collect
from circlekit.report.model_changes import compare_structure, op_name, trace_passes
from circlekit.report.page import difference, render
from circlekit.report.value_comparison import compare_values

HOSTILE = "</script><script>alert(1)<!--\u202e&'\"`{{ 7*7 }}"

NET = """
graph main(%x: f32[1,2,2,3]) -> %y {
  %w = const f32[4,1,1,3] gaussian(0, 1)
  %conv = Conv2D(%x, %w, [0.0, 0.0, 0.0, 0.0]) : f32[1,2,2,4]
  %scaled = Mul(%conv, [2.0, 1.5, 0.5, 3.0])
  %y = Relu(%scaled)
}
"""


def content_of(text: str, passes: tuple[str, ...] = ("O1",)) -> Content:
    return collect(Source("net.ck", circlekit.parse(text)), passes=passes)


class Elements(HTMLParser):
    """The elements of a page with their attributes, and the text of each script."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1][0] == "script" and not self.scripts[-1]:
            self.scripts[-1] = data


def test_the_size_after_passes_is_that_of_the_file() -> None:
    """An archive after the model, as MediaPipe has it, belongs to the file."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("labels.txt", "a\nb\n")
    before = circlekit.load(to_bytes(circlekit.parse(NET), "tflite") + archive.getvalue())
    after = collect(Source("net.tflite", before), passes=("O1",)).sides[1]
    assert after.summary.file_size == len(to_bytes(after.source.model, "tflite"))
    assert to_bytes(after.source.model, "tflite").endswith(archive.getvalue())


def test_the_page_shows_the_model_before_and_after_the_passes() -> None:
    page = render(content_of(NET)).decode()
    assert "fuse_mul_with_conv" in page
    elements = Elements(page)
    data = json.loads(elements.scripts[0])
    before, after = data["sides"]
    assert [op["kind"] for op in before["graphs"][0]["ops"]] == ["CONV_2D", "MUL", "RELU"]
    assert [op["state"] for op in after["graphs"][0]["ops"]] == ["changed"]
    assert after["graphs"][0]["ops"][0]["author"]
    assert before["live"] == [48 + 64, 48 + 64 + 64, 48 + 64 + 64]  # ONE's plan keeps the input


def test_one_model_has_no_changes_and_no_values() -> None:
    page = render(content_of(NET, ())).decode()
    assert 'id="changes"' not in page
    assert 'id="values"' not in page
    assert 'id="target"' not in page


def test_target_findings_have_a_place() -> None:
    content = content_of(NET, ())
    content.findings = ["CONV_2D: no kernel"]
    assert "<li>CONV_2D: no kernel</li>" in render(content).decode()


def test_findings_and_the_delegate_are_about_the_same_model() -> None:
    """Legalization would replace INSTANCE_NORM by operators that the delegate runs."""
    text = "graph main(%x: f32[1,2,2,1]) -> %y {\n  %a = InstanceNorm(%x, [1.0], [0.0])\n  %y = Relu(%a)\n}"
    found = collect(Source("net.ck", circlekit.parse(text)), target="litert-xnnpack").findings
    assert len(found) == 2
    assert found[0].endswith("has no INSTANCE_NORM")
    assert found[1].endswith("runs 1 of 2 operators in 1 partition, not 1 INSTANCE_NORM")


def test_page_is_deterministic_and_loads_nothing() -> None:
    page = render(content_of(NET))
    assert page == render(content_of(NET))
    for _, attributes in Elements(page.decode()).tags:
        assert not attributes.keys() & {"src", "srcset", "action", "background"}
        assert (attributes.get("href") or "#").startswith("#")
    assert not re.search(rb"url\(|@import|fetch\(|XMLHttpRequest", page)


def test_hostile_names_are_text() -> None:
    model = circlekit.parse(NET)
    model.main.name = HOSTILE
    for value in model.main.values():
        value.name = HOSTILE + value.name
    page = render(collect(Source(HOSTILE, model), passes=["O1"])).decode()
    plain = render(content_of(NET)).decode()
    names = [tag for tag, _ in Elements(page).tags]
    assert names.count("script") == [tag for tag, _ in Elements(plain).tags].count("script") == 2
    assert "<!--" not in page
    assert "\u202e" not in page
    assert ">49" not in page
    assert json.loads(Elements(page).scripts[0])["sides"][0]["graphs"][0]["ops"]


def test_policy_allows_the_script_of_the_page_only() -> None:
    elements = Elements(render(content_of(NET)).decode())
    policy = next(a["content"] for tag, a in elements.tags if a.get("http-equiv")) or ""
    assert policy.startswith("default-src 'none'")
    _, script = elements.scripts  # the first holds data
    digest = b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert re.findall(r"script-src ([^;]*)", policy) == [f"'sha256-{digest}'"]


def test_file_size_after_passes_is_that_of_the_written_file(tmp_path: Path) -> None:
    content = content_of(NET)
    model = circlekit.parse(NET)
    circlekit.optimize(model)
    circlekit.save(model, tmp_path / "net.circle")
    assert content.sides[1].summary.file_size == (tmp_path / "net.circle").stat().st_size


def test_structure_by_name() -> None:
    other = NET.replace("Relu(", "Relu6(").replace("%scaled", "%other")
    found = compare_structure(circlekit.parse(NET), circlekit.parse(other))
    assert [len(x) for x in (found.kept, found.changed, found.removed, found.added)] == [1, 1, 1, 1]
    assert "Mul" in found.removed[0]
    assert "Relu6" in found.changed[0][1]


def test_trace_counts_as_optimize_does() -> None:
    trace = trace_passes(circlekit.parse(NET), ["O1"])
    report = circlekit.optimize(circlekit.parse(NET))
    assert {each.name: each.rewrites for each in trace.passes} == report.changes


def test_operators_of_all_graphs_have_names_of_their_own() -> None:
    model = circlekit.parse("""
        graph main(%c: bool[1], %x: f32[4]) -> %y {
          %y = If(%c, %x) {then_graph: @left, else_graph: @right}
        }
        graph left(%x: f32[4]) -> %y { %y = Relu(%x) }
        graph right(%x: f32[4]) -> %y { %y = Neg(%x) }
        """)
    assert [op_name(op) for op in model.ops()] == [("main", "y"), ("left", "y"), ("right", "y")]


def test_differences_have_three_digits() -> None:
    assert [difference(amount) for amount in (0.0, 0.12345)] == ["0", "0.123"]


def test_values_of_outputs_and_layers() -> None:
    changed = circlekit.parse(NET.replace("[2.0,", "[2.5,"))
    x = np.ones((1, 2, 2, 3), np.float32)
    found = compare_values(circlekit.parse(NET), changed, {"given": [x]})
    reference = circlekit.run(circlekit.parse(NET), [x])[0]
    other = circlekit.run(changed, [x])[0]
    (output,) = found.outputs
    assert found.is_equal is False
    assert found.verdict.startswith("different: ")
    assert not output.equal
    assert output.worst is not None
    assert output.worst.absolute == np.abs(reference.astype(float) - other).max()
    assert output.relative_to_largest == pytest.approx(output.worst.absolute / np.abs(reference).max())
    assert [layer.name for layer in found.layers] == ["conv", "scaled", "y"]
    assert list(map(bool, found.layer_errors.values()))[:2] == [False, True]


def test_a_quantized_model_is_compared_as_real_numbers() -> None:
    """The largest difference is at most half a step of the input plus half a step of the result."""
    plain = "graph main(%x: f32[64]) -> %y { %y = Neg(%x) }"
    form = "i8[64] quant(scale: 0.05, zero_point: 3)"
    body = f"%r = Dequantize(%x) : f32[64]\n%n = Neg(%r)\n%y = Quantize(%n) : {form}"
    quantized = f"graph main(%x: {form}) -> %y {{\n{body}\n}}"
    found = compare_values(circlekit.parse(plain), circlekit.parse(quantized))
    (output,) = found.outputs
    assert found.is_equal is True
    assert found.verdict.startswith("a quantized form: signal to noise ratio of 3")
    assert output.worst is not None
    assert output.similarity is not None
    assert 0 < output.worst.absolute <= 0.05
    assert output.similarity.cosine is not None
    assert output.similarity.cosine > 0.999


def test_infinite_differences_are_valid_json() -> None:
    """Two models may pad the operand of a max-pooling with -inf and with 0.  The difference is infinite."""
    before = circlekit.parse(
        "graph main(%x: f32[2]) -> %y {\n%p = PadV2(%x, [[1, 1]], -inf)\n%y = Abs(%p)\n}"
    )
    after = circlekit.parse("graph main(%x: f32[2]) -> %y {\n%p = PadV2(%x, [[1, 1]], 0.0)\n%y = Abs(%p)\n}")
    content = collect(Source("a", before), Source("b", after))
    assert content.values is not None
    assert np.isinf(next(iter(content.values.layer_errors.values())))
    data = json.loads(Elements(render(content).decode()).scripts[0], parse_constant=pytest.fail)
    assert data["sides"][0]["graphs"][0]["ops"][0]["error"] > 1e299


def test_models_that_cannot_run_are_still_shown() -> None:
    text = 'graph main(%x: f32[2]) -> %y { %y = Opaque(%x) {code: "CUSTOM", custom_code: "mine"} : f32[2] }'
    content = collect(Source("a", circlekit.parse(text)), Source("b", circlekit.parse(text)))
    assert content.values is not None
    assert content.values.verdict.startswith("not compared: custom operator mine has no kernel")
    assert b"CUSTOM" in render(content)


def test_without_records_nothing_is_compared() -> None:
    found = compare_values(circlekit.parse(NET), circlekit.parse(NET), {})
    assert (found.is_equal, found.verdict) == (
        None,
        "not compared: expected at least one record of inputs, got none",
    )


def test_size_of_a_page(model_path: Path) -> None:
    model = circlekit.load(model_path)
    assert len(render(collect(Source(str(model_path), model)))) < 500_000
