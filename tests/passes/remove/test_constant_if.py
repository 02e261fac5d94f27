# SPDX-License-Identifier: Apache-2.0
"""IFs with a constant condition become the branch that they run; branches that cannot be copied stay."""

from __future__ import annotations

import pytest

import circlekit
from circlekit.ir.graph import Model
from circlekit.ir.text import parse_model
from circlekit.ir.verifier import verify
from circlekit.passes.engine.pass_manager import run_passes
from circlekit.passes.engine.registry import all_passes
from circlekit.rewrite.base import Context
from tests.passes.kit import check_pass, check_refusal, interface_of, refusals

BRANCHES = """
graph main(%x: f32[2,3]) -> {outputs} {{
  %a = Neg(%x)
  %u, %v = If({condition}, %a, %x) {{then_graph: @first, else_graph: @second}}
  {more}
}}
graph first(%p: f32[2,3], %q: f32[2,3]) -> %r, %s {{
  %r = Add(%p, %q)
  %s = Mul(%r, [1.0, 2.0, 3.0])
}}
graph second(%p: f32[2,3], %q: f32[2,3]) -> %p, %s {{
  %s = If(false, %p) {{then_graph: @inner, else_graph: @other}}
}}
graph inner(%p: f32[2,3]) -> %r {{ %r = Exp(%p) }}
graph other(%p: f32[2,3]) -> %r {{ %r = Tanh(%p) }}
"""
READ = "%y = Sub(%u, %v)"
SECOND = "graph second(%p: f32[2,3], %q: f32[2,3]) -> %r, %q { %r = Neg(%p) }"


def without_branches(text: str, kinds: list[str]) -> Model:
    """Run the pass and check the operators of the main graph, the values and idempotence."""
    model, before = parse_model(text), parse_model(text)
    records = run_passes(model, ["remove_constant_if"], Context())
    assert records[0].changes
    assert not verify(model)
    assert [type(op).__name__ for op in model.main] == kinds
    assert interface_of(model)[0] == interface_of(before)[0]
    found = circlekit.compare(before, model)
    assert found.equal, str(found)
    assert all_passes()["remove_constant_if"]().run(model, Context()) == 0
    return model


def test_branch_is_inlined() -> None:
    model = without_branches(
        BRANCHES.format(condition="true", more=READ, outputs="%y"),
        ["Neg", "Add", "Mul", "Sub"],
    )
    assert [g.name for g in model.graphs] == ["main"]


def test_nested_branches_are_inlined() -> None:
    text = BRANCHES.format(condition="false", more=READ, outputs="%y")
    model = without_branches(text, ["Neg", "Tanh", "Sub"])
    assert [g.name for g in model.graphs] == ["main"]


def test_outputs_keep_their_names() -> None:
    text = BRANCHES.format(condition="true", more="", outputs="%u, %v")
    model = without_branches(text, ["Neg", "Add", "Mul"])
    assert [v.name for v in model.main.outputs] == ["u", "v"]


def test_a_branch_that_another_if_may_run_stays_in_the_model() -> None:
    again = "%k, %l = If(%c, %a, %x) {then_graph: @first, else_graph: @second}\n%y = Sub(%u, %l)"
    text = BRANCHES.format(condition="true", more=again, outputs="%y").replace(
        "%x: f32[2,3]) -> %y", "%x: f32[2,3], %c: bool[]) -> %y"
    )
    model = without_branches(text, ["Neg", "Add", "Mul", "If", "Sub"])
    assert "first" in [g.name for g in model.graphs]


def test_branches_that_cannot_be_inlined() -> None:
    returns_its_input = BRANCHES.format(condition="false", more="", outputs="%u")
    model = parse_model(returns_its_input)
    context = Context(refusals=[])
    all_passes()["remove_constant_if"]().run(model, context)
    assert model.main.ops[1].code == "IF", "%u would be %a, which has another name"
    has_a_variable = BRANCHES.format(condition="true", more="", outputs="%u").replace(
        "%r = Add(%p, %q)", "%k: f32[2,3] variable\n %r = Add(%p, %k)"
    )
    text = has_a_variable[: has_a_variable.index("graph second")] + SECOND
    check_refusal(text, "remove_constant_if", "%k: is a variable of first")


@pytest.mark.parametrize(
    ("condition", "operands"), [("[]", "%x"), ("[true, true]", "%x"), ("true", "%x, %x"), ("true", "")]
)
def test_an_if_with_a_wrong_condition_or_number_of_operands_stays(condition: str, operands: str) -> None:
    text = f"""
    graph main(%x: f32[2]) -> %y {{
      %c = const bool[{condition.count("true")}] {condition}
      %y = If(%c{operands and ", "}{operands}) {{then_graph: @first, else_graph: @first}} : f32[2]
    }}
    graph first(%p: f32[2]) -> %q {{ %q = Relu(%p) }}
    """
    text = text.replace("bool[1] true", "bool[] true")
    model = parse_model(text)
    report = circlekit.optimize(model, "O1")
    assert "remove_constant_if" not in report.changes
    assert len(model.graphs) == 2


def branches(graph: str, count: int) -> str:
    """Return the lines of a chain: NEG, ``count`` IFs that run ``graph``, and NEG."""
    lines = [f"%y{i + 1} = If(true, %y{i}) {{then_graph: @{graph}, else_graph: @no}}" for i in range(count)]
    return "\n".join(["%y0 = Neg(%x)", *lines, f"%z = Neg(%y{count})"])


def test_a_branch_of_another_type_stays() -> None:
    text = """
        graph main(%x: f32[4]) -> %z {
          %y = If(true, %x) {then_graph: @g, else_graph: @g} : f32[?]
          %z = Neg(%y) : f32[?]
        }
        graph g(%x: f32[4]) -> %z { %z = Neg(%x) }
    """
    check_pass(text, "remove_constant_if", refused="%y: is f32[?], %z of g is f32[4]")


@pytest.mark.parametrize(("shape", "inner"), [("0", "4"), ("?", "4"), ("1,4", "4")])
def test_a_branch_with_an_input_of_another_shape_stays(shape: str, inner: str) -> None:
    """The values in the branch have the shapes that follow from the input of the branch."""
    text = f"""
        graph main(%x: f32[{shape}]) -> %z {{
          %y = If(true, %x) {{then_graph: @g, else_graph: @g}}
          %z = Neg(%y)
        }}
        graph g(%u: f32[{inner}]) -> %r {{ %r = Neg(%u) }}
    """
    check_refusal(text, "remove_constant_if", f"%x: is f32[{shape}], %u of g is f32[{inner}]")


@pytest.mark.parametrize(("outputs", "refused"), [("%a", "%a"), ("%a, %b", "%a"), ("%n, %b", "%b")])
def test_a_value_that_a_branch_returns_twice(outputs: str, refused: str) -> None:
    """One value cannot be two outputs of the graph."""
    text = f"""
        graph main(%x: f32[4]) -> {outputs} {{
          %a, %b = If(true, %x) {{then_graph: @g, else_graph: @g}}
          %n = Neg(%a)
        }}
        graph g(%x: f32[4]) -> %z, %z {{ %z = Exp(%x) }}
    """
    sentence = f"{refused}: is an output of the graph, and %z of g cannot take its name"
    check_pass(text, "remove_constant_if", refused=sentence)


def test_number_of_inlined_copies_is_limited() -> None:
    """A graph that is run 32 times runs another one 32 times: 1024 copies."""
    text = f"""
        graph main(%x: f32[4]) -> %z {{ {branches("g", 32)} }}
        graph g(%x: f32[4]) -> %z {{ {branches("h", 32)} }}
        graph h(%x: f32[4]) -> %z {{ %z = Neg(%x) }}
        graph no(%x: f32[4]) -> %z {{ %z = Relu(%x) }}
    """
    check_pass(
        text,
        "remove_constant_if",
        refused="g has 34 operators and is called in 32 places; expected at most 1000 operators in all",
    )


def test_copies_that_double_with_each_branch() -> None:
    """Each of 42 graphs runs the next one twice; copies are counted up to a limit."""
    graphs = "".join(f"graph g{i}(%x: f32[4]) -> %z {{ {branches(f'g{i + 1}', 2)} }}\n" for i in range(41))
    text = f"""
        graph main(%x: f32[4]) -> %z {{ {branches("g0", 2)} }}
        {graphs}
        graph g41(%x: f32[4]) -> %z {{ %z = Neg(%x) }}
        graph no(%x: f32[4]) -> %z {{ %z = Relu(%x) }}
    """
    context = Context(refusals=[])
    all_passes()["remove_constant_if"]().run(parse_model(text), context)
    sentences = [refusal.sentence for refusal in context.refusals or ()]
    assert any("g41 has 1 operator and is called in very many places" in s for s in sentences)
    assert any(f"is called in {2**11} places" in s for s in sentences)


@pytest.mark.parametrize(
    ("size", "count", "signature", "is_inlined"),
    [(1001, 1, False, True), (500, 2, False, True), (501, 2, False, False), (501, 1, True, False)],
)
def test_largest_inlined_branch(size: int, count: int, signature: bool, is_inlined: bool) -> None:
    """Only a branch with one caller may have any size; a signature is a caller too."""
    operators = "\n".join(f"%y{i + 1} = Neg(%y{i})" for i in range(size))
    text = f"""
        graph main(%x: f32[4]) -> %z {{ {branches("g", count)} }}
        graph g(%y0: f32[4]) -> %y{size} {{ {operators} }}
        graph no(%x: f32[4]) -> %z {{ %z = Relu(%x) }}
    """
    model = parse_model(f'signature "s" @g (x: %y0) -> (y: %y{size})\n' * signature + text)
    changes = all_passes()["remove_constant_if"]().run(model, Context())
    assert changes == (count if is_inlined else 0)
    assert len(model.main) == 2 + count * (size if is_inlined else 1)
    assert len(model.graphs) == (1 if is_inlined else 3)


def test_a_large_branch_without_results_is_not_copied() -> None:
    operators = " ".join(f"%y{i + 1} = Neg(%y{i})" for i in range(501))
    branch = "If([true], %x) {then_graph: @g, else_graph: @g}"
    text = f"""
        graph main(%x: f32[4]) -> %z {{ {branch} {branch} %z = Neg(%x) }}
        graph g(%y0: f32[4]) {{ {operators} }}
    """
    sentence = "g has 501 operators and is called in 2 places; expected at most 1000 operators in all"
    assert refusals(text, "remove_constant_if") == [sentence, sentence]
