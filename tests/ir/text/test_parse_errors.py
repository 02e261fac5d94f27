# SPDX-License-Identifier: Apache-2.0
"""A wrong text gives a ParseError: line, column, the line itself, a caret, and a similar name if any."""

from __future__ import annotations

import string
import subprocess
import sys
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from circlekit.errors import CirclekitError, ParseError
from circlekit.ir.op import REGISTRY
from circlekit.ir.text import parse_model
from circlekit.ir.text.fillers import FILLERS
from circlekit.ir.text.lexer import Source, error_at
from circlekit.ir.text.syntax import parse_call
from tests.ir.recipes import EVERYTHING, graph_text


def line(statement: str) -> str:
    """A graph whose third line is ``statement``."""
    return graph_text("%a = Relu(%x)", statement, "%y = Relu(%a)")


CASES = [
    ("alternatives", line("%b = Add(%a, %a) {act: RELU|RELU6}"), "3:21", "are allowed in pictures only"),
    (
        "name of an attribute",
        line("%b = Add(%a, %a) {act: RELU = act}"),
        "3:21",
        "are allowed in pictures only",
    ),
    ("operator", line("%b = Rellu(%a)"), "3:8", "no operator is named Rellu; did you mean Relu?"),
    *(
        (
            f"{name} of {text}",
            line(f"%b = const i4[2] {name}({text})"),
            "3:20",
            f"{name} takes one base64 string",
        )
        for name in ("raw", "base64")
        for text in ("", '"AA==", "AA=="', '"AA==", size: 1')
    ),
    ("custom", line('%b = Custom("Erf", %a)'), "3:8", "a custom operator is Opaque(...)"),
    (
        "undefined",
        line("%b = Relu(%aa)"),
        "3:13",
        "%aa is not defined before this place",
    ),
    ("later", line("%b = Relu(%y)"), "3:13", "%y is not defined before this place"),
    *(
        (f"picture of {text}", line(f"%b = {text}"), place, "are allowed in pictures only")
        for text, place in (
            ("Add|Sub(%a, %a)", "3:12"),
            ("Add(%a, %a) {like y}", "3:8"),
            ("Add(%a?, %a)", "3:12"),
            ("Add(%a: f32, %a)", "3:12"),
            ("Add(%a: const f32[1,4], %a)", "3:12"),
        )
    ),
    ("constant of two names", line("%b, %c = const f32[1] zeros"), "3:7", "a constant has one name"),
    ("twice", line("%a = Relu(%x)"), "3:3", "%a is defined twice"),
    ("bare", line("%b = Relu(a)"), "3:13", "a value of a graph is written %a"),
    ("bare result", line("b = Relu(%a)"), "3:3", "a value of a graph is written %b"),
    (
        "attribute",
        line("%b = Add(%a, %a) {akt: RELU}"),
        "3:21",
        "no attribute akt; did you mean act?",
    ),
    (
        "entry of an opaque operator",
        line('%b = Opaque(%a) {code: "X", y: 1} : f32[1]'),
        "3:31",
        "Opaque has no attribute y; it has version, extra, code, custom_code, options",
    ),
    ("version", line("%b = Relu(%a) {version: 1.5}"), "3:18", "version must be an integer"),
    ("member", line("%b = Add(%a, %a) {act: RELU7}"), "3:21", "act cannot be RELU7; did you mean RELU"),
    ("no member", line("%b = Add(%a, %a) {act: 3}"), "3:21", "act cannot be 3; expected one of NONE, RELU"),
    (
        "attribute twice",
        line("%b = Add(%a, %a) {act: RELU, act: RELU}"),
        "3:32",
        "attribute act is given twice",
    ),
    (
        "integer",
        line("%b = Concatenation(%a, %a) {axis: 1.5}"),
        "3:31",
        "axis is 1.5, expected an integer",
    ),
    ("number", line("%b = Softmax(%a) {beta: true}"), "3:21", "beta is True, expected a number"),
    ("flag", line("%b = Mean(%a, [0]) {keep_dims: 1}"), "3:23", "keep_dims is 1, expected true or false"),
    ("graph name", line("%b = While(%a) {cond: main}"), "3:19", "cond must be a graph, written @name"),
    ("graph", line("%b = While(%a) {cond: @man}"), "3:19", "no graph is named @man; did you mean main?"),
    ("few operands", line("%b = Add(%a)"), "3:8", "Add: the operand rhs is missing"),
    ("many operands", line("%b = Relu(%a, %a)"), "3:8", "Relu: expected at most 1 operand (input), got 2"),
    ("no operands", line("%b = VarHandle(%a)"), "3:8", "VarHandle: expected at most 0 operands, got 1"),
    ("results", line("%b, %c = Relu(%a)"), "3:12", "Relu: expected 1 result (output), got 2"),
    (
        "typed results",
        line("%b, %c = Relu(%a) : f32[1], f32[1]"),
        "3:12",
        "Relu: expected 1 result (output), got 2",
    ),
    ("types", line("%b = Relu(%a) : f32[1], f32[1]"), "3:19", "expected 1 type, one for each result, got 2"),
    ("dtype", line("%b: f33[1]"), "3:7", "no dtype is named f33; did you mean f32?"),
    ("dtype of a variable", line("%b: f33[1] variable"), "3:7", "no dtype is named f33; did you mean f32?"),
    ("no shape", line("%b: f32"), "3:7", "expected a dtype and a shape"),
    ("dimension", line("%b: f32[1,n]"), "3:7", "expected a number or ? as dimension of a model, got n"),
    ("negative", line("%b: f32[-1]"), "3:11", "expected an integer as dimension, got -1"),
    (
        "large",
        line("%b: f32[2147483648]"),
        "3:7",
        "expected a dimension from 0 to 2147483647, got 2147483648",
    ),
    ("float dimension", line("%b: f32[1.5]"), "3:11", "expected an integer as dimension, got 1.5"),
    ("infinite", line("%b = Add(%a, 1e999)"), "3:16", "1e999 does not fit f64"),
    ("infinite attribute", line("%b = Softmax(%a) {beta: -1e999}"), "3:27", "-1e999 does not fit f64"),
    ("quant", line("%b: i8[1] quant(scales: 1)"), "3:13", "quant has no scales; did you mean scale?"),
    *(
        (f"suffix {suffix} of {statement}", line(statement.replace("SUFFIX", suffix)), place, message)
        for statement, place in (
            ("%b = Relu(%a) : i8[1] SUFFIX", "3:25"),
            ("%b: i8[1] SUFFIX", "3:13"),
            ("%b = const i8[1] SUFFIX [1]", "3:20"),
            ('%b = Relu(%a) : i8[1] named("b") SUFFIX', "3:36"),
        )
        for suffix, message in (
            ("quent(scale: 0.5)", "no suffix of a type is named quent; did you mean quant?"),
            ("Quant(scale: 0.5)", "no suffix of a type is named Quant; did you mean quant?"),
            ("extar(a: 1)", "no suffix of a type is named extar; did you mean extra?"),
            ('name("c")', "no suffix of a type is named name; did you mean named?"),
            ("varible", "no suffix of a type is named varible; did you mean variable?"),
            ("quantt", "no suffix of a type is named quantt; did you mean quant?"),
        )
    ),
    ("suffix of an input", "graph g(%x: f32[1] quan(scale: 1)) -> %x {}", "1:20", "did you mean quant?"),
    (
        "bare value after a type",
        line("%b: f32[1]\n  var: f32[1]"),
        "4:3",
        "a value of a graph is written %var",
    ),
    (
        "quant without names",
        line("%b: i8[1] quant(1)"),
        "3:13",
        "every argument of quant needs a name: scale, zero_point, axis, min, max, details",
    ),
    ("quant dtype", line("%b: i8[1] quant(scale: array(f64, [1]))"), "3:13", "expected a list of f32"),
    ("quant rank", line("%b: i8[1] quant(scale: array(f32, [[1]]))"), "3:13", "expected a list of f32"),
    (
        "shape of a list",
        line("%b: i8[1] extra(a: array(f32, [1], [1]))"),
        "3:13",
        "nested lists give the shape",
    ),
    ("quant bytes", line('%b: i8[1] quant(scale: base64("AA=="))'), "3:13", "expected a list of f32"),
    *(
        (f"shape {shape[:40]} of {place}", line(text.format(f'array(f32, "", [{shape}])')), place, message)
        for shape, message in (
            ("0, 99999999999999999999", "an array of shape [0, 99999999999999999999] is too large"),
            ("0, 4611686018427387904", "an array of shape [0, 4611686018427387904] is too large"),
            (",".join("0" * 33), "expected at most 32 dimensions, got 33"),
        )
        for text, place in (
            ("%b: f32[1] extra(a: {})", "3:14"),
            ("%b: i8[1] quant(scale: {})", "3:13"),
        )
    ),
    *(
        (f"{suffix} twice", line(f"%b: i8[1] {suffix} {suffix}"), place, "is given twice")
        for suffix, place in (
            ("quant(axis: 0)", "3:28"),
            ("extra(a: 1)", "3:25"),
            ('named("b")', "3:24"),
            ("variable", "3:22"),
        )
    ),
    *(
        (f"no dtype of {data}", line(f"%b = const [2] {data}"), "3:18", "the type needs a dtype here")
        for data in ("zeros", "gaussian(0, 1)", 'raw("AA==")')
    ),
    ("extra", "graph main() { extra {a: %q} }", "1:7", "%q is not known here"),
    ("quant axis", line("%b: i8[1] quant(axis: true)"), "3:13", "axis must be an integer"),
    ("quant large axis", line("%b: i8[1] quant(axis: 2147483648)"), "3:13", "axis must be an integer"),
    ("quant low axis", line("%b: i8[1] quant(axis: -2147483649)"), "3:13", "axis must be an integer"),
    ("constants", line("%b, %c, %d = const f32[1] zeros"), "3:7", "a constant has one name"),
    (
        "suffix",
        line("%b: i8[1] extra(1)"),
        "3:13",
        "every argument of extra needs a name",
    ),
    (
        "too few elements",
        line("%b = const f32[3] [1, 2]"),
        "3:21",
        "expected shape [3], got a literal of 2 elements",
    ),
    (
        "shape",
        line("%b = const f32[3,2] [[1, 2, 3], [1, 2, 3]]"),
        "3:23",
        "expected shape [3, 2], got a literal of shape [2, 3]",
    ),
    ("ragged", line("%b = const f32[3] [[1], [1, 2]]"), "3:21", "the inner lists differ in length or depth"),
    ("no payload", line("%b = const f32 [3]"), "4:3", "expected the data of the constant after its type"),
    ("unknown size", line("%b = const f32[?] zeros"), "3:21", "a constant needs a static shape, got [?]"),
    ("range", line("%b = const i8[1] [128]"), "3:20", "128 does not fit i8"),
    ("unsigned", line("%b = const u8[1] [-1]"), "3:20", "-1 does not fit u8"),
    ("float range", line("%b = const f32[1] [1e39]"), "3:21", "1e+39 does not fit f32"),
    ("float in int", line("%b = const i8[1] [1.5]"), "3:20", "expected an integer for i8, got 1.5"),
    ("bool", line("%b = const bool[1] [2]"), "3:22", "expected true or false for a bool"),
    ("text", line('%b = const f32[1] ["a"]'), "3:21", "expected a number, got a"),
    ("packed", line("%b = const i4[1] [1]"), "3:20", "elements of i4 cannot be written as numbers"),
    (
        "filler",
        line("%b = const f32[1] gausian(0)"),
        "3:21",
        "no filler is named gausian; did you mean gaussian?",
    ),
    (
        "filler argument",
        line("%b = const f32[1] gaussian(sd: 1)"),
        "3:21",
        "expected gaussian(mean, std, seed): got an unexpected keyword argument 'sd'",
    ),
    (
        "filler arguments",
        line("%b = const f32[1] zeros(1)"),
        "3:21",
        "expected zeros(): too many positional arguments",
    ),
    (
        "filler number",
        line("%b = const f32[1] constant()"),
        "3:21",
        "expected constant(value): missing a required argument: 'value'",
    ),
    ("huge", line("%b = const f32[2147483647,2147483647] zeros"), "3:41", "is too large"),
    (
        "elements",
        line("%b = const f32[2147483647,9999] zeros"),
        "3:35",
        "21472688986353 elements of zeros would take",
    ),
    ("base64", line('%b = const f32[1] base64("?")'), "3:21", "the string is not valid base64"),
    ("bytes", line('%b = const f32[1] base64("AA==")'), "3:21", "expected 4 bytes for f32[1], got 1"),
    (
        "file",
        line('%b = const f32[1] file("/etc/passwd", 0, 4)'),
        "3:21",
        "refers to a file, which is not allowed here",
    ),
    ("literal dtype", line("%b = Reshape(%a, [1.5])"), "3:20", "expected an integer for i32, got 1.5"),
    ("opaque", line("%b = Opaque(%a) : f32[1]"), "3:8", 'Opaque needs {code: "NAME"}'),
    ("opaque type", line('%b = Opaque(%a) {code: "A"}'), "3:8", "the results of Opaque need types"),
    ("picture", line("%b = Relu|Relu6(%a)"), "3:13", "alternatives and `like` are allowed in pictures"),
    (
        "picture operand",
        line("%b = Relu(%a?)"),
        "3:13",
        "types and ? after an operand are allowed in pictures",
    ),
    ("comma", line("%b = Add(%a %a)"), "3:15", "expected ',', got 'a'"),
    ("character", line("%b = Relu(%a) &"), "3:17", "unexpected character '&'"),
    ("escape", line('%"\\d" = Relu(%a)'), "3:3", "the string has an invalid escape"),
    ("short escape", line('%"\\x1" = Relu(%a)'), "3:3", "the string has an invalid escape"),
    ("open", "graph main() {\n%c = const f32[1] zeros\n", "1:14", "this graph has no closing '}'"),
    ("empty", "", "1:1", "the text has no graph"),
    ("statement", "grph main() {}", "1:1", "expected one of model, metadata, signature, extra, graph"),
    ("format", "model onnx\ngraph main() {}", "1:7", "expected the format circle or tflite, got onnx"),
    (
        "option",
        "model circle {versoin: 3}\ngraph main() {}",
        "1:7",
        "a model has no versoin; did you mean version?",
    ),
    (
        "metadata",
        'metadata "a" base64("AA==", size: 1)\ngraph main() {}',
        "1:10",
        "expected a string or base64",
    ),
    ("graph twice", "graph a() {}\ngraph a() {}", "2:7", "graph a is defined twice"),
    ("input twice", "graph a(%x: f32[1], %x: f32[1]) {}", "1:21", "%x is defined twice"),
    (
        "signature graph",
        'signature "s" @man ()\ngraph main() {}',
        "1:15",
        "no graph is named @man; did you mean main?",
    ),
    ("signature value", 'signature "s" @main (a: %q)\ngraph main() {}', "1:25", "@main has no %q"),
    ("output", "graph main() -> %q {}", "1:17", "%q is not defined before this place"),
]


@pytest.mark.parametrize(("text", "place", "message"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_mistakes(text: str, place: str, message: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_model(text, "net.ck")
    first, shown, caret = str(caught.value).split("\n")
    assert first.startswith(f"net.ck:{place}: ")
    assert message in first
    row, column = map(int, place.split(":"))
    assert shown[2:] == text.split("\n")[row - 1]
    assert caret == " " * (column + 1) + "^"


@pytest.mark.parametrize(("opened", "closed"), [("[", "]"), ("a(", ")"), ("{a: ", "}")])
def test_nesting_is_limited(opened: str, closed: str) -> None:
    """The braces of the graph count, too: with 63 brackets inside, all 64 allowed levels are in use."""
    with pytest.raises(ParseError) as deepest:
        parse_model(line("%b = const f32[1] " + opened * 63 + "1" + closed * 63))
    assert "nested" not in str(deepest.value)
    with pytest.raises(ParseError, match="brackets are nested more than 64 levels deep"):
        parse_model(line("%b = const f32[1] " + opened * 64))


def test_a_number_of_many_digits_is_refused() -> None:
    with pytest.raises(ParseError, match="at most 1000 characters"):
        parse_model(line("%b = const f32[1] " + "1" * 5000))


def test_a_dimension_of_many_digits_is_refused() -> None:
    with pytest.raises(ParseError, match="at most 1000 characters"):
        parse_model(line("%b = const f32[" + "1" * 5000 + "] 1"))


def test_a_long_line_is_shown_in_part() -> None:
    with pytest.raises(ParseError) as caught:
        parse_model(line("%b = const f32[1] [" + "1," * 5000 + "&]"))
    _, shown, caret = str(caught.value).split("\n")
    assert len(shown) < 250
    assert shown[caret.index("^")] == "&"


def test_the_error_says_which_import_declares_the_operators() -> None:
    code = """
from circlekit.ir.text import parse_model
parse_model("graph main(%x: f32[2]) -> %y { %y = Abs(%x) }")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (
        "no operator is named Abs; none is declared yet, `import circlekit.ops` declares them" in done.stderr
    )


PIECES = st.sampled_from([*EVERYTHING.split(), *graph_text("%y = Add(%x, [1, 2.5])").split(), "(", "]", "{"])
TEXTS = st.lists(PIECES, max_size=30).map(" ".join) | st.text(string.printable, max_size=60)


@settings(derandomize=True, max_examples=100, deadline=None)
@given(TEXTS)
def test_any_text_gives_a_model_or_an_error_of_ours(text: str) -> None:
    with suppress(CirclekitError):
        parse_model(text)


@settings(derandomize=True, max_examples=100, deadline=None)
@given(st.integers(0, len(EVERYTHING)), st.integers(0, 40), PIECES)
def test_a_damaged_text_gives_a_model_or_an_error_of_ours(at: int, cut: int, piece: str) -> None:
    with suppress(CirclekitError):
        parse_model(EVERYTHING[:at] + piece + EVERYTHING[at + cut :])


@pytest.mark.parametrize("length", [199, 200, 201, 202])
def test_a_line_is_shown_whole_up_to_a_length(length: int) -> None:
    """Of a line of more than 200 characters, up to 100 before and 100 from the mistake on are shown.

    The mistake is in the first column, then in column 150, counted from 0.
    """
    text = "&" + "x" * (length - 1)
    _, shown, caret = str(error_at("net", text, 0, "wrong")).split("\n")
    assert (shown.strip(), caret.strip()) == (text if length <= 200 else text[:100], "^")
    _, shown, caret = str(error_at("net", text, 150, "wrong")).split("\n")
    assert shown.strip() == (text if length <= 200 else text[50:])
    assert shown[: caret.index("^")].strip() == (text[:150] if length <= 200 else text[50:150])


def test_an_attribute_may_be_named_like() -> None:
    """The word is special only before a name."""
    call = parse_call(Source("Op(a) {like: 3, other: 1}"), [])
    assert {name: node.choices for name, node in call.attributes.items()} == {"like": [3], "other": [1]}
    assert call.like is None
    call = parse_call(Source("Op(a) {like b, other: 1}"), [])
    assert call.like is not None
    assert [*call.attributes] == ["other"]


FILLED = [f"%b = const f32[1] {name}" for name in (*FILLERS, "raw", "base64", "file")]
CALLED = [f"%b: f32[1] {cls.__name__}(%a)" for cls in REGISTRY.values()]


@pytest.mark.parametrize("statement", [*FILLED, *CALLED, "%b: f32[1] table"])
def test_what_may_follow_a_type_is_not_taken_for_a_misspelled_suffix(statement: str) -> None:
    message = ""
    try:
        parse_model(line(statement))
    except CirclekitError as error:
        message = error.message
    assert "suffix" not in message
