# SPDX-License-Identifier: Apache-2.0
"""Rules in text recipes: each one holds, fails with the found value, or is refused as invalid."""

from __future__ import annotations

import pytest

from circlekit.errors import ParseError
from circlekit.ir.model_equality import difference
from circlekit.ir.text import parse_model
from circlekit.recipes.rules.rule import Subject
from circlekit.recipes.rules.text_rules import MAX_SIMILAR, parse_text_rules

TEXT = """
graph main(%x: f32[1,4]) -> %y {
  %q = const i8[2,4] quant(scale: [0.5, 0.25], zero_point: [0, 3], axis: 0) zeros
  %d = Dequantize(%q)              : f32[2,4]
  %1 = Add(%x, [1.0]) {act: RELU}  : f32[1,4]
  %2 = Relu(%1)                    : f32[?,4]
  %z = Opaque(%2) {code: "CUSTOM", custom_code: "Erf"} : f32[1,4]
  %y = Relu(%z)                    : f32[1,4]
}
"""


def check(rule: str, changes: int = 0, refusals: tuple[str, ...] = ()) -> str:
    model = parse_model(TEXT)
    (block,) = parse_text_rules(f"{TEXT}rules {{ {rule} }}", "r.ck")
    (read,) = block.rules
    return read.failure(Subject("", model, changes, lambda: list(refusals)))


HOLDING = [
    "ops(Relu: 2, ADD: 1, Mul: 0, Add: at_most(1), RELU: at_least(2))",
    "custom(Erf: 1, AddV2: 0)",
    "total(5)",
    "total(at_most(5))",
    "total(at_least(5))",
    "custom(Abs: 0)",
    "order(Dequantize, Add, Relu, CUSTOM, Relu)",
    "value(%2, dtype: f32, shape: [-1,4], const: false, op: Relu)",
    "value(%q, const: true, dtype: i8)",
    "quant(%q, scale: [0.5, 0.25], zero_point: [0, 3], axis: 0)",
    "quant(%y, none)",
    "attributes(%1, act: RELU)",
    "absent(%w, %v)",
    "unchanged()",
]


@pytest.mark.parametrize("rule", HOLDING)
def test_true_rules_hold(rule: str) -> None:
    assert check(rule) == ""


@pytest.mark.parametrize(
    ("rule", "found"),
    [
        ("ops(Relu: 1, Mul: at_least(1))", "expected 1 Relu, got 2; expected at least 1 Mul, got 0"),
        ("custom(Erf: at_most(0))", "expected at most 0 custom Erf, got 1"),
        ("total(3)", "expected 3 operators, got 5"),
        ("order(Add, Relu)", "the operators are Dequantize, Add, Relu, CUSTOM Erf, Relu"),
        ("value(%2, dtype: i8, shape: [1,4])", "its dtype is f32; its shape is [?,4]"),
        ("value(%x, const: true, op: Add)", "it is not a constant; its producer is none"),
        ("value(%y, op: Add)", "its producer is Relu"),
        ("value(%zz, dtype: f32)", "no value is named %zz"),
        ("quant(%q, scale: [0.5, 0.5])", "its scale is 0.5, 0.25"),
        ("quant(%q, none)", "it is quantized"),
        ("quant(%y, axis: 0)", "it is not quantized"),
        ("attributes(%1, act: RELU6)", "act is RELU"),
        ("attributes(%1, atc: RELU6)", "Add has no attribute atc; did you mean act?"),
        ("attributes(%x, act: RELU6)", "it has no producer"),
        ("absent(%y)", "%y exists"),
    ],
)
def test_false_rules_report_the_found_value(rule: str, found: str) -> None:
    assert check(rule) == f"r.ck:10:9: {rule}: {found}"


def test_rules_on_changes_and_refusals() -> None:
    assert check("unchanged()", changes=2).endswith(": expected no changes, got 2")
    assert check('refused("act is RELU")', refusals=("%1: act is RELU, NONE is wanted",)) == ""
    assert check('refused("act")', refusals=("a", "b")).endswith(
        "the most similar of the 2 refusals are:\n  a\n  b"
    )
    assert check('refused("act")').endswith(": no operator was refused")


def test_rule_blocks_and_settings() -> None:
    settings = "passes(O1, fold_mul) passes(remove_dead) format(tflite) tolerance(1e-3)"
    text = f"{TEXT}rules {{ {settings} }}\nrules {{ total(5) }}"
    first, second = parse_text_rules(text, "r.ck")
    assert (first.passes, first.format, first.tolerance) == (
        ("O1", "fold_mul", "remove_dead"),
        "tflite",
        1e-3,
    )
    assert (second.passes, second.format, second.tolerance, len(second.rules)) == ((), None, None, 1)


def test_settings_are_spelled_as_on_the_command_line() -> None:
    text = TEXT + 'rules { settings(change_outputs: "a, %b", sparsify_block_size: "2,4") }'
    (block,) = parse_text_rules(text, "r.ck")
    assert block.settings == {"change_outputs": ["a", "b"], "sparsify_block_size": [2, 4]}


def test_rules_do_not_change_the_model() -> None:
    with_rules = parse_model(TEXT + "rules { total(0) }")
    assert difference(with_rules, parse_model(TEXT)) is None


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("opps(Relu: 1)", "no rule is named opps; did you mean ops?"),
        ("ops(Rellu: 1)", "no operator is named Rellu; did you mean Relu?"),
        ("ops(Relu: -1)", r"expected a number such as 0, at_most\(3\)"),
        ("ops(Relu: true)", r"expected a number such as 0, at_most\(3\)"),
        ("ops(Relu: at_mst(1))", r"expected a number such as 0, at_most\(3\)"),
        ("ops(1)", "expected 0 arguments without a name, got 1"),
        ("total(1, 2)", "expected 1 argument, got 2"),
        ("value(x)", r"value: expected a value \(%name\), got x"),
        ("value(%x, dtyp: f32)", "value has no argument dtyp; did you mean dtype?"),
        ("value(%x, dtype: f31)", "no dtype is named f31; did you mean f32?"),
        ('value(%x, dtype: "")', "no dtype is named ''"),
        ('value(%x, op: "")', "no operator is named ''"),
        ("value(%x, dtype: [f32])", r"no dtype is named \[f32\]"),
        ("quant(%x, zero_point: 1" + "0" * 400 + ")", "expected numbers that float64 can hold"),
        ("value(%x, shape: 3)", "expected a list of integers as shape"),
        ("value(%x, shape: [-2])", "expected a list of integers as shape"),
        ("value(%x, const: 1)", "true or false"),
        ("quant(%x, none, none)", "quant: expected 1 to 2 arguments, got 3"),
        ("ops(Relu: at_most(1, 2))", r"got at_most\(...\)"),
        ("ops(Relu: at_most(1, x: 2))", r"got at_most\(...\)"),
        ("unchanged(x: 1)", "unchanged has no argument x"),
        ('refused("a", count: 1)', "refused has no argument count"),
        ("absent(%x, axis: 1)", "absent has no argument axis"),
        ("total(1, Relu: 1)", "total has no argument Relu"),
        ("tolerance(true)", "expected a tolerance from 0 to below 1, got true"),
        ("quant(%x, one)", r"expected quant\(%x, none\)"),
        ('quant(%x, scale: "a")', "a number or a list of numbers"),
        ("absent()", "expected 1 or more arguments"),
        ("ops()", "ops: expected 1 or more named arguments, got 0"),
        ("custom()", "custom: expected 1 or more named arguments, got 0"),
        ("attributes(%x)", "attributes: expected 1 or more named arguments, got 0"),
        ('refused("")', "refused: expected a text, got an empty one"),
        ("order(Relu, Rellu)", "no operator is named Rellu"),
        ("refused(a)", "a string in quotes"),
        ('passes("a")', "passes: expected a name"),
        ("settings(change_outputs: b)", "settings: expected strings in quotes, got b"),
        ('settings(change_output: "b")', "settings has no argument change_output"),
        ('settings(change_outputs: "b,")', "change_outputs: expected names separated by commas"),
        ("format(onnx)", "expected format circle or tflite, got onnx"),
        ('format("")', "expected format circle or tflite, got ''"),
        ("tolerance(1)", "expected a tolerance from 0 to below 1"),
        ("tolerance(-0.1)", "expected a tolerance from 0 to below 1"),
        ("tolerance(0.1, 0.2)", "tolerance: expected 1 argument, got 2"),
        ("format(circle, tflite)", "format: expected 1 argument, got 2"),
        ("quant(%x, none, axis: 0)", r"expected quant\(%x, none\)"),
        ("quant(%x, scale: [0.5, true])", "a number or a list of numbers"),
        ("value(%x, shape: [true, a])", r"expected a list of integers as shape, .*, got \[true, a\]"),
        ("value(%x, %y)", "value: expected 1 argument, got 2"),
        ("value()", "value: expected 1 argument, got 0"),
        ("total()", "total: expected 1 argument, got 0"),
        ("total(at_most())", r"got at_most\(...\)"),
        ("unchanged(1)", "unchanged: expected 0 arguments without a name, got 1"),
        ('refused("a", "b")', "refused: expected 1 argument, got 2"),
        ("total(1", "expected ','"),
        ("total", "expected '\\('"),
    ],
)
def test_invalid_rules_are_refused_with_their_position(rule: str, message: str) -> None:
    with pytest.raises(ParseError, match=message) as raised:
        parse_text_rules(f"{TEXT}rules {{ {rule} }}", "r.ck")
    assert raised.value.message.startswith("r.ck:10:")


def test_unterminated_rules_are_refused() -> None:
    with pytest.raises(ParseError, match="no closing"):
        parse_text_rules(TEXT + "rules { total(5)", "r.ck")


def test_tolerance_0_and_format_circle_are_valid() -> None:
    (block,) = parse_text_rules(f"{TEXT}rules {{ tolerance(0) format(circle) }}", "r.ck")
    assert (block.tolerance, block.format) == (0.0, "circle")


def test_rules_apply_to_called_graphs() -> None:
    text = """
    graph main(%c: bool[], %x: f32[2]) -> %y { %y = If(%c, %x) {then_graph: @a, else_graph: @b} : f32[2] }
    graph a(%p: f32[2]) -> %q { %q = Neg(%p) }
    graph b(%r: f32[2]) -> %s { %s = Neg(%r) }
    graph other(%t: f32[2]) -> %u { %u = Abs(%t) }
    """
    rules = [
        "attributes(%y, then_graph: @a, else_graph: @b)",
        "ops(Neg: 2, If: 1)",
        "total(4)",
        "order(If)",
        "value(%q, op: Neg)",
        "attributes(%y, then_graph: @b)",
        "attributes(%y, then_graph: @other)",
    ]
    (block,) = parse_text_rules(f"{text}rules {{ {' '.join(rules)} }}", "r.ck")
    *holding, called, not_called = [rule.failure(Subject("", parse_model(text))) for rule in block.rules]
    assert holding == [""] * 5
    assert called.endswith("then_graph is @a")
    assert not_called.endswith("then_graph is @a")
    (block,) = parse_text_rules(f"{text}rules {{ attributes(%y, then_graph: @othre) }}", "r.ck")
    with pytest.raises(ParseError, match="no graph is named @othre; did you mean other"):
        block.rules[0].failure(Subject("", parse_model(text)))


def test_only_custom_operators_have_a_custom_code() -> None:
    text = """
    graph main(%x: f32[2]) -> %y {
      %z = Opaque(%x) {code: "STABLEHLO_CBRT"} : f32[2]
      %y = Opaque(%z) {code: "CUSTOM", custom_code: "None"} : f32[2]
    }
    """
    (block,) = parse_text_rules(f"{text}rules {{ custom(None: 1) }}", "r.ck")
    assert block.rules[0].failure(Subject("", parse_model(text))) == ""


@pytest.mark.parametrize("count", [1, MAX_SIMILAR, MAX_SIMILAR + 1])
def test_at_most_max_similar_refusals_are_shown(count: int) -> None:
    _, *shown = check('refused("no")', refusals=tuple(f"refusal {n}" for n in range(count))).splitlines()
    assert len(shown) == min(count, MAX_SIMILAR)
