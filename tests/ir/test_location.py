# SPDX-License-Identifier: Apache-2.0
"""The place of an error: the operator, and the lines around it."""

from __future__ import annotations

import pytest

from circlekit.errors import ModelError
from circlekit.ir.location import MAX_LINE_CHARACTERS, kind_of, place, working_on
from circlekit.ir.text import parse_model
from tests.ir.recipes import graph_text

LINES = ("%a = Neg(%x)", "%b = Add(%a, %x)", "%c = Abs(%b)", "%y = Sin(%c)")


def test_the_lines_around_an_operator() -> None:
    model = parse_model(graph_text(*LINES), "net.ck")
    assert place(model.main.ops[1], model).split("\n  ") == [
        "at net.ck > main > op 1 Add",
        "   0  %a = Neg(%x)      : f32[1,4]",
        ">  1  %b = Add(%a, %x)  : f32[1,4]",
        "   2  %c = Abs(%b)      : f32[1,4]",
    ]


@pytest.mark.parametrize(
    ("graphs", "places", "expected"),
    [
        (("main", "other"), [], ["at net.ck > other"]),
        (("other",), [], []),  # the only graph
        (("main", "other"), ["at a better place"], ["at a better place"]),
    ],
)
def test_the_graph_of_an_error(graphs: tuple[str, ...], places: list[str], expected: list[str]) -> None:
    texts = (graph_text(*LINES).replace("main", name) for name in graphs)
    model = parse_model("\n".join(texts), "net.ck")
    with pytest.raises(ModelError) as raised, working_on(model.graphs[-1], model):
        raise ModelError("expected 1 scale, got 2", *places)
    assert raised.value.where == expected


def test_the_ends_of_a_graph() -> None:
    model = parse_model(graph_text(*LINES))
    first, last = model.main.ops[0], model.main.ops[-1]
    assert [line[0] for line in place(first).split("\n  ")] == ["a", ">", " "]
    assert [line[0] for line in place(last).split("\n  ")] == ["a", " ", ">"]
    assert place(first).startswith("at main > op 0 Neg\n")
    assert place(last).startswith("at main > op 3 Sin\n")


def test_an_operator_outside_of_a_graph() -> None:
    model = parse_model(graph_text("%y = Relu(%x)"))
    op = model.main.ops[0]
    assert place(op) == "at main > op 0 Relu\n  >  0  %y = Relu(%x)  : f32[1,4]"
    model.main.unlink(op)
    assert place(op) == "at op 0 Relu\n  >  0  %y = Relu(%x)  : f32[1,4]"


def test_long_lines_are_cut_and_do_not_widen_the_others() -> None:
    long = "n" * 200
    model = parse_model(graph_text("%a = Neg(%x)", f"%{long} = Abs(%a)", f"%y = Sin(%{long})"))
    block = place(model.main.ops[0]).split("\n  ")
    assert block[1] == ">  0  %a = Neg(%x)  : f32[1,4]"
    assert block[2] == "   1  " + f"%{long}"[: MAX_LINE_CHARACTERS - 3] + "..."


def test_a_line_of_the_largest_width_is_not_cut() -> None:
    spare = MAX_LINE_CHARACTERS - len("% = Relu(%x)  : f32[1]")
    for name, is_cut in (("n" * spare, False), ("n" * (spare + 1), True)):
        model = parse_model(f"graph main(%x: f32[1]) -> %{name} {{\n  %{name} = Relu(%x) : f32[1]\n}}\n")
        assert place(model.main.ops[0]).endswith("...") is is_cut


def test_the_number_column_has_the_width_of_the_largest() -> None:
    lines = ["%v0 = Neg(%x)", *(f"%v{i} = Neg(%v{i - 1})" for i in range(1, 12))]
    model = parse_model(graph_text(*lines, outputs="%v11"))
    assert [line[:6] for line in place(model.main.ops[9]).split("\n  ")[1:]] == ["    8 ", ">   9 ", "   10 "]


def test_names_of_operators() -> None:
    text = graph_text(
        '%a = Opaque(%x) {code: "CUSTOM", custom_code: "Flex"} : f32[1,4]',
        '%b = Opaque(%a) {code: "UNKNOWN_310"} : f32[1,4]',
        "%y = Neg(%b)",
    )
    assert [kind_of(op) for op in parse_model(text).main] == ["CUSTOM Flex", "UNKNOWN_310", "Neg"]


@pytest.mark.parametrize(
    ("data", "weights", "is_shown"),
    [("f32", "f32", False), ("f32", "i8", True), ("i8", "i8", True)],
)
def test_attributes_of_quantized_operators_are_not_shown_for_float_operators(
    data: str, weights: str, is_shown: bool
) -> None:
    quant = {"f32": "", "i8": "quant(scale: 0.5)"}
    text = f"""graph main(%x: {data}[1,3] {quant[data]}) -> %y {{
      %w = const {weights}[2,3] {quant[weights]} constant(1)
      %y = FullyConnected(%x, %w) {{asymmetric_quantize_inputs: true, keep_num_dims: true}}
        : {data}[1,2] {quant[data]}
    }}"""
    op = parse_model(text).main.ops[0]
    assert "keep_num_dims: true" in place(op)
    assert ("asymmetric_quantize_inputs: true" in place(op)) == is_shown
