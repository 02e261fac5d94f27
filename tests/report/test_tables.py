# SPDX-License-Identifier: Apache-2.0
"""The figures of the page's tables and charts, against figures computed by hand from the shapes."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any, cast

import pytest

import circlekit
from circlekit.equivalence.array_comparison import Difference, Outcome, Similarity
from circlekit.report import page_tables
from circlekit.report.arena_chart import arena_chart
from circlekit.report.content import Content, Source, collect
from circlekit.report.model_changes import compare_structure, op_name, trace_passes
from circlekit.report.node_data import cost_data, error_data
from circlekit.report.operator_texts import MAX_TEXT_CHARACTERS, shortened
from circlekit.report.page import visible
from circlekit.report.script_data import LARGEST_ERROR, script_data
from circlekit.report.value_comparison import ValueComparison, compare_values

NET = """
graph main(%x: f32[1,2,2,3]) -> %y {
  %w = const f32[4,1,1,3] gaussian(0, 1)
  %conv = Conv2D(%x, %w, [0.0, 0.0, 0.0, 0.0]) : f32[1,2,2,4]
  %scaled = Mul(%conv, [2.0, 1.5, 0.5, 3.0])
  %v = const f32[1,1,1,4] gaussian(0, 1)
  %sum = Conv2D(%scaled, %v, [0.0]) : f32[1,2,2,1]
  %y = Relu(%sum)
}
"""
"""The convolutions have 48 and 16 MACs.  %x has 48 bytes, %conv and %scaled 64 each, %sum and %y 16 each."""


@pytest.fixture(scope="module")
def content() -> Content:
    return collect(Source("net.ck", circlekit.parse(NET)), passes=["O1"], with_values=False)


def test_kinds_have_bars_relative_to_the_most_frequent(content: Content) -> None:
    assert page_tables.kind_rows(content) == [
        {"kind": "CONV_2D", "counts": [2, 2], "widths": [100, 100]},
        {"kind": "MUL", "counts": [1, 0], "widths": [50, 0]},
        {"kind": "RELU", "counts": [1, 0], "widths": [50, 0]},
    ]


def test_costs_of_operators(content: Content) -> None:
    before, after = page_tables.cost_tables(content)
    figures = ["index", "macs", "share", "activations", "constants", "written"]
    assert [[row[name] for name in figures] for row in before["rows"]] == [
        [0, 48, 75, 48, 12 * 4 + 16, 64],
        [1, 0, 0, 64, 16, 64],
        [2, 16, 25, 64, 16 + 4, 16],
        [3, 0, 0, 16, 0, 16],
    ]
    assert [table["total"] for table in (before, after)] == [4, 2]


def test_operators_without_macs_have_no_share() -> None:
    content = collect(Source("a", circlekit.parse("graph main(%x: f32[2]) -> %y { %y = Neg(%x) }")))
    (table,) = page_tables.cost_tables(content)
    assert [row["share"] for row in table["rows"]] == [0]


def test_long_tables_have_the_most_expensive_operators_in_order(
    content: Content, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_tables, "MAX_ROWS", 3)
    rows = page_tables.cost_tables(content)[0]["rows"]
    assert [row["name"] for row in rows] == ["%conv", "%scaled", "%sum"]


def test_tensors_at_the_peak_of_the_arena(content: Content) -> None:
    table = page_tables.arena_tables(content)[0]
    assert (table["peak"], table["index"]) == (48 + 64 + 64, 1)  # ONE's plan keeps the input
    held = {life["name"]: (life["size"], life["first"], life["last"]) for life in table["held"]}
    assert held == {"%x": (48, 0, 3), "%conv": (64, 0, 1), "%scaled": (64, 1, 2)}
    assert table["operator"].startswith("%scaled = Mul(")


def test_lists_end_with_the_number_of_what_is_left_out() -> None:
    lines = [str(number) for number in range(page_tables.MAX_LISTED + 2)]
    assert page_tables.listed(lines[:-2]) == lines[:-2]
    assert page_tables.listed(lines)[-2:] == [lines[-3], "... and 2 more"]
    assert shortened("a" * MAX_TEXT_CHARACTERS) == "a" * MAX_TEXT_CHARACTERS
    assert shortened("a" * MAX_TEXT_CHARACTERS + "b") == "a" * MAX_TEXT_CHARACTERS + "..."


def test_changes_have_the_pass_that_made_or_first_removed_an_operator() -> None:
    trace = trace_passes(circlekit.parse(NET), ["O1"])
    assert [(each.name, len(each.removed), len(each.added)) for each in trace.passes] == [
        ("fuse_mul_with_conv", 2, 1),
        ("fuse_activation_function", 2, 1),
    ]
    removers = {name: by for (_, name), by in trace.removers.items()}
    assert removers == {
        "conv": "fuse_mul_with_conv",
        "scaled": "fuse_mul_with_conv",
        "sum": "fuse_activation_function",
        "y": "fuse_activation_function",
    }
    assert trace.makers["main", "scaled"] == "fuse_mul_with_conv"
    assert trace.makers["main", "y"] == "fuse_activation_function"


def test_values_are_described() -> None:
    graph = circlekit.parse("graph main(%x: f32[2], %u: i8[1,?]) -> %y { %y = Neg(%x) }").main
    assert page_tables.described(graph.inputs) == ["%x: f32[2]", "%u: i8[1,?]"]
    assert page_tables.described([]) == ["none"]


def test_operators_of_equal_names_are_compared_in_order() -> None:
    """Names from a file need not differ; each operator has a partner of its own."""
    models = [circlekit.parse(NET), circlekit.parse(NET.replace("Relu(", "Relu6("))]
    for model in models:
        for op in model.ops():
            op.results[0].name = "same"
    found = compare_structure(*models)
    assert [len(x) for x in (found.kept, found.changed, found.removed, found.added)] == [3, 1, 0, 0]
    assert sorted(found.state.values()) == ["changed"] * 2 + ["kept"] * 6


def test_chart_has_a_step_for_each_operator() -> None:
    chart = arena_chart([[1024, 4096, 2048], [2048], []])
    width, height = chart["width"], chart["height"]
    thirds = f"H{width / 3:.1f}", f"H{2 * width / 3:.1f}", f"H{width:.1f}"
    levels = f"V{0.75 * height:.1f}", "V0.0", f"V{height / 2:.1f}"
    steps = "".join(v + h for v, h in zip(levels, thirds, strict=True))
    assert chart["paths"] == [
        f"M0 {height}{steps}V{height}Z",
        f"M0 {height}{levels[2]}{thirds[2]}V{height}Z",
        "",
    ]
    assert [(line["y"] / height, line["text"]) for line in chart["grid"]] == [
        (1, "0 bytes"), (0.75, "1.0 KiB"), (0.5, "2.0 KiB"), (0.25, "3.0 KiB"), (0, "4.0 KiB"),
    ]  # fmt: skip
    assert chart["peaks"] == [{"x": 50, "y": 0}, {"x": 50, "y": 50}, {"x": 50, "y": 100}]


def test_the_top_of_a_chart_is_its_largest_size() -> None:
    for size in (1, 2, 3):
        (peak,) = arena_chart([[0, size]])["peaks"]
        assert (peak["x"], peak["y"]) == (75, 0)
    assert arena_chart([[0]])["peaks"][0]["y"] == 100


def test_chart_of_nothing_has_no_steps() -> None:
    assert arena_chart([[0, 0]])["peaks"] == [{"x": 25, "y": 100}]


def test_data_of_the_script(content: Content) -> None:
    half, one = (Difference((0,), 0.0, amount, amount, math.inf, 0.0) for amount in (0.5, 1.0))
    layers = [
        Outcome("conv", half, similarity=Similarity(None, None, 2.0)),
        Outcome("sum", one, similarity=Similarity(None, None, 0.0)),
    ]
    shown = Content(
        content.sides, content.trace, content.structure, ValueComparison("different", layers=layers)
    )
    before, after = (side["graphs"][0]["ops"] for side in script_data(shown)["sides"])
    assert [op["class"] for op in before] == ["compute", "elementwise", "compute", "elementwise"]
    assert [op["error"] for op in before] == [0.25, None, LARGEST_ERROR, None]
    assert [op["state"] for op in before] == ["removed", "changed", "removed", "changed"]
    assert [op["author"] for op in before] == [
        *["fuse_mul_with_conv"] * 2, *["fuse_activation_function"] * 2
    ]  # fmt: skip
    assert [op["author"] for op in after] == ["fuse_mul_with_conv", "fuse_activation_function"]
    assert [op["read"] for op in before] == [48, 64, 64, 16]


def test_node_data_by_position() -> None:
    model = circlekit.parse(NET)

    def values(data: dict[str, Any]) -> dict[str, float]:
        return {index: result["value"] for index, result in data["main"]["results"].items()}

    assert values(cost_data(model, "macs")) == {"0": 48, "1": 0, "2": 16, "3": 0}
    assert values(cost_data(model, "bytes"))["1"] == 64 + 16 + 64
    assert values(error_data(model, {"conv": 0.5, "y": math.inf})) == {"0": 0.5}


def test_errors_of_the_main_graph_are_not_shown_in_other_graphs() -> None:
    text = "graph main(%x: f32[4]) -> %y { %y = Relu(%x) }\n"
    data = error_data(circlekit.parse(text + text.replace("main", "other")), {"y": 0.5})
    assert {name: graph["results"] for name, graph in data.items()} == {
        "main": {"0": {"value": 0.5}},
        "other": {},
    }


@pytest.mark.parametrize(
    ("names", "key"), [(("", ""), "main"), (("net", "net"), "net"), (("", "main"), "main")]
)
def test_node_data_of_the_main_graph_is_not_replaced_by_a_graph_of_the_same_name(
    names: tuple[str, str], key: str
) -> None:
    text = "graph main(%x: f32[4]) -> %y { %y = Relu(%x) }\n"
    model = circlekit.parse(text + text.replace("main", "other"))
    for graph, name in zip(model.graphs, names, strict=True):
        graph.name = name
    data = error_data(model, {"y": 0.5})
    assert {name: graph["results"] for name, graph in data.items()} == {key: {"0": {"value": 0.5}}}


def test_control_characters_are_shown_as_escapes() -> None:
    assert visible("a\nb\u202ec\x00") == "a\nb\\u202ec\\x00"


@pytest.mark.parametrize(("scale", "is_good"), [(0.05, True), (1.0, False)])
def test_a_quantized_form_with_20_decibels_is_good(scale: float, is_good: bool) -> None:
    """Rounding has the mean squared error scale**2 / 12; the numbers have the mean square 0.76.

    The ratio is 10 * log10(12 * 0.76 / 0.05**2) = 35.6 dB for the scale 0.05, and 9.6 dB for the scale 1.
    """
    form = f"i8[64] quant(scale: {scale}, zero_point: 0)"
    body = f"%r = Dequantize(%x) : f32[64]\n%n = Neg(%r)\n%y = Quantize(%n) : {form}"
    quantized = circlekit.parse(f"graph main(%x: {form}) -> %y {{\n{body}\n}}")
    found = compare_values(circlekit.parse("graph main(%x: f32[64]) -> %y { %y = Neg(%x) }"), quantized)
    assert found.is_equal is is_good
    titles = [title for title, _ in page_tables.quantization_tables(cast(Any, SimpleNamespace(values=found)))]
    assert titles == [
        "Quantization error of the outputs",
        "Operators, by the error that each adds to its result",
    ]
    equal = ValueComparison("equal", True)
    assert page_tables.quantization_tables(cast(Any, SimpleNamespace(values=equal))) == []


def test_node_data_names_each_graph_and_has_a_whole_gradient() -> None:
    """Model Explorer takes stops from 0 to 1."""
    model = circlekit.parse(NET)
    for name in ("main", "other", ""):
        model.main.name = name
        ((key, data),) = cost_data(model, "macs").items()
        assert key == (name or "main")
        assert [stop["stop"] for stop in data["gradient"]] == [0, 1]


def test_matched_operators_have_their_own_texts() -> None:
    text = """graph main(%x: f32[4]) -> %d {
      %a = Abs(%x)
      %b = Neg(%a)
      %c = Exp(%b)
      %d = Add(%c, %a)
    }"""
    found = compare_structure(
        circlekit.parse(text), circlekit.parse(text.replace("Exp", "Sin").replace("%b", "%e"))
    )
    form = " : f32[4]"
    assert found.kept == [f"%a = Abs(%x){form}", f"%d = Add(%c, %a){form}"]
    assert found.changed == [(f"%c = Exp(%b){form}", f"%c = Sin(%e){form}")]
    assert (found.removed, found.added) == ([f"%b = Neg(%a){form}"], [f"%e = Neg(%a){form}"])


def test_the_first_pass_that_changes_an_operator_removes_it() -> None:
    """``removers`` has only operators of the model, not those that one pass made and another one removed."""
    model = circlekit.parse("""graph main(%x: f32[4]) -> %y {
      %a = Mul(%x, 2.0)
      %b = Mul(%a, 3.0)
      %y = Mul(%b, 0.5)
    }""")
    before = {op_name(op) for op in model.ops()}
    trace = trace_passes(model, ["O1"])
    assert trace.removers.keys() <= before
    assert before - {op_name(op) for op in model.ops()} <= trace.removers.keys()


@pytest.mark.parametrize(
    ("shape", "verdict"),
    [("0,3", "equal: there are no elements to compare"), ("2,3", "exactly equal")],
)
def test_the_verdict_on_equal_models(shape: str, verdict: str) -> None:
    model = circlekit.parse(f"graph main(%x: f32[{shape}]) -> %y {{ %y = Neg(%x) }}")
    found = compare_values(model, model)
    assert found.is_equal
    assert found.verdict.startswith(verdict)
    assert bool(found.outputs) == (shape == "2,3")


def test_the_verdict_on_models_that_only_differ_in_their_interfaces() -> None:
    text = "graph main(%x: f32[2]) -> {} {{ %y = Neg(%x)\n %z = Exp(%x) }}"
    found = compare_values(circlekit.parse(text.format("%y, %z")), circlekit.parse(text.format("%y")))
    assert found.verdict == "different: output 1 was %z: f32[2], is missing"
    assert not found.is_equal


def test_outputs_of_other_shapes_have_no_differences() -> None:
    text = "graph main(%x: f32[2,3]) -> %y, %z {{ %y = Neg(%x)\n %z = Reshape(%x, [{}]) }}"
    found = compare_values(circlekit.parse(text.format("6")), circlekit.parse(text.format("3,2")))
    assert not found.is_equal
    assert {difference.name for difference in found.outputs} == {"y"}


def test_outputs_that_are_no_real_numbers_have_no_differences() -> None:
    text = "graph main(%x: f32[2,3]) -> %y, %z { %y = Neg(%x)\n %z = Cast(%x) : c64[2,3] }"
    found = compare_values(circlekit.parse(text), circlekit.parse(text))
    assert found.is_equal
    assert {difference.name for difference in found.outputs} == {"y"}
