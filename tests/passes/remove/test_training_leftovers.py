# SPDX-License-Identifier: Apache-2.0
"""Leftovers of training: dropout, identity operators, operators that the user names."""

from __future__ import annotations

import pytest

import circlekit
from circlekit.errors import RewriteError
from circlekit.ir.text import parse_model
from circlekit.ir.verifier import verify
from circlekit.ops.program.custom import IDENTITIES
from circlekit.passes.engine.registry import all_passes
from circlekit.rewrite.base import Context
from tests.passes.kit import check_pass, check_refusal


@pytest.mark.parametrize("code", IDENTITIES)
def test_identity_operators_are_removed(code: str) -> None:
    text = f"""graph main(%x: f32[2]) -> %y {{
      %a = Neg(%x)
      %b = Opaque(%a) {{code: "CUSTOM", custom_code: "{code}"}} : f32[2]
      %y = Tanh(%b)
    }}"""
    check_pass(text, "remove_identity", ["Neg", "Tanh"])
    check_refusal(
        text.replace(": f32[2]\n", ": f32[1,2]\n"), "remove_identity", "%b: is f32[1,2], %a is f32[2]"
    )


@pytest.mark.parametrize(("condition", "left"), [("true", ["Neg", "Tanh"]), ("false", ["Exp", "Tanh"])])
@pytest.mark.parametrize("kind", ["Select", "SelectV2"])
def test_selections_of_all(kind: str, condition: str, left: list[str]) -> None:
    text = f"""graph main(%x: f32[2,2]) -> %y {{
      %a = Neg(%x)
      %b = Exp(%x)
      %c = {kind}([[{condition}, {condition}], [{condition}, {condition}]], %a, %b)
      %y = Tanh(%c)
    }}"""
    check_pass(text, ["remove_identity", "remove_dead"], left)
    mixed = text.replace(f"[[{condition}", "[[true", 1).replace(f"{condition}]]", "false]]", 1)
    check_refusal(mixed, "remove_identity", "%c: not every element of the condition is")


@pytest.mark.parametrize(
    ("other", "left"),
    [("[]", 1), ("[1,2]", 1), ("[3,2]", 2), ("[?,2]", 2), ("[?,1]", 2), ("[1,3,2]", 2)],
)
@pytest.mark.parametrize("choice", ["true", "false"])
def test_a_selected_value_of_unknown_size(choice: str, other: str, left: int) -> None:
    operands = "%x, %o" if choice == "true" else "%o, %x"
    text = f"""graph main(%x: f32[?,2], %o: f32{other}) -> %y {{
      %c = SelectV2([{choice}], {operands})
      %y = Tanh(%c)
    }}"""
    check_pass(text, "remove_identity", ["SelectV2", "Tanh"][-left:])


@pytest.mark.parametrize(("chosen", "other"), [("[?,2]", "[*]"), ("[*]", "[3,2]"), ("[*]", "[1,1]")])
def test_a_selected_value_stays_if_a_rank_is_unknown(chosen: str, other: str) -> None:
    text = f"""graph main(%x: f32{chosen}, %o: f32{other}) -> %y {{
      %c = SelectV2(true, %x, %o) : f32{chosen}
      %y = Tanh(%c)
    }}"""
    check_refusal(text, "remove_identity", "%x: may be broadcast, because a rank is unknown")


def random(*calls: str) -> str:
    """Return a graph in which ``calls`` make %z of the data %n and the random numbers %r."""
    body = "\n".join(calls)
    head = "graph main(%x: f32[2,4]) -> %y {\n%n = Neg(%x)\n%r = RandomUniform([2, 4])"
    return f"{head}\n{body}\n%y = Neg(%z)\n}}"


@pytest.mark.parametrize(
    "calls",
    [
        ("%a = Add(%r, 0.8)", "%m = Floor(%a)", "%s = Div(%n, 0.8)", "%z = Mul(%s, %m)"),
        ("%a = Add(0.8, %r)", "%m = Floor(%a)", "%s = Mul(%n, 1.25)", "%z = Mul(%m, %s)"),
        ("%g = GreaterEqual(%r, 0.5)", "%m = Cast(%g) : f32[2,4]", "%s = Mul(%n, %m)", "%z = Mul(%s, 2.0)"),
        ("%g = Greater(%r, 0.5)", "%m = Cast(%g) : f32[2,4]", "%s = Mul(%n, 2.0)", "%z = Mul(%s, %m)"),
    ],
)
def test_dropout_in_other_forms(calls: tuple[str, ...]) -> None:
    model = parse_model(random(*calls))
    assert all_passes()["remove_dropout"]().run(model, Context()) == 1
    assert [type(op).__name__ for op in model.main] == ["Neg", "Neg"]
    wrong = random(*calls).replace("Div(%n, 0.8)", "Div(%n, 0.3)").replace(", 1.25)", ", 1.5)")
    check_refusal(wrong.replace(", 2.0)", ", 3.0)"), "remove_dropout", "expected a factor of")


def test_removable_operators_are_reported() -> None:
    """O1 keeps operators that have an effect; the report names the pass that removes them."""
    text = random("%g = GreaterEqual(%r, 0.5)", "%z = SelectV2(%g, %n, 0.0)").replace(
        "%y = Neg", 'Opaque(%g) {code: "CUSTOM", custom_code: "FlexAssert"}\n%y = Neg'
    )
    report = circlekit.optimize(parse_model(text))
    notes = "\n".join(report.notes)
    assert "RANDOM_UNIFORM %r gives other numbers in every run" in notes
    assert "--remove_dropout" in notes
    assert "the custom operator FlexAssert" in notes
    assert "--remove_nodes_of FlexAssert" in notes


NAMED = """
graph main(%x: f32[2]) -> %y {
  %a = Neg(%x)
  %q = FakeQuant(%a) {min: -1.0, max: 1.0, num_bits: 8}
  Opaque(%q) {code: "CUSTOM", custom_code: "FlexAssert"}
  %y = Tanh(%q)
}
"""


@pytest.mark.parametrize(
    ("names", "kinds"),
    [
        ("FAKE_QUANT", ["Neg", "OpaqueOp", "Tanh"]),
        ("FlexAssert", ["Neg", "FakeQuant", "Tanh"]),
        ("%q,FlexAssert", ["Neg", "Tanh"]),
    ],
)
def test_named_operators_are_removed(names: str, kinds: list[str]) -> None:
    model = parse_model(NAMED)
    parse = all_passes()["remove_nodes_of"].options[0].parse
    circlekit.optimize(model, ["remove_nodes_of"], settings={"remove_nodes_of": parse(names)})
    assert [type(op).__name__ for op in model.main] == kinds
    assert not verify(model)


def test_name_without_an_operator_is_refused() -> None:
    with pytest.raises(RewriteError, match="no operator has the kind, code or result name FlexPrint"):
        circlekit.optimize(
            parse_model(NAMED), ["remove_nodes_of"], settings={"remove_nodes_of": ["FlexPrint"]}
        )
