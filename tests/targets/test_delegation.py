# SPDX-License-Identifier: Apache-2.0
"""What a delegate takes: partitions, rewrites that are refused for the delegate, and legalization for it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import circlekit
from circlekit.cli.check import main
from circlekit.ir.graph import Model
from circlekit.passes.engine.legalize import legalize
from circlekit.targets.delegation import find_delegation, partitions
from circlekit.targets.target import Target, find_target
from tests.targets.test_obeying_passes import NEGATED, codes
from tests.targets.toy import ANY, toy


def delegating(runs: str, takes: str) -> Target:
    """Return a target that runs the operators ``runs`` and ``takes``; its delegate runs only ``takes``."""
    delegated = dict.fromkeys(takes.split(), ANY)
    return replace(toy(*runs.split(), *takes.split()), delegated=delegated)


BRANCHES = circlekit.parse("""
graph main(%x: f32[4]) -> %y {
  %a = Relu(%x)
  %s = Sign(%x)
  %n = Neg(%s)
  %b = Add(%a, %n)
  %c = Sign(%b)
  %y = Neg(%c)
}
""")


def test_a_partition_reads_only_results_of_itself_and_of_earlier_parts() -> None:
    """The runtime itself runs both SIGNs."""
    signs = {op for op in BRANCHES.main if op.code == "SIGN"}
    found = [[op.code for op in part] for part in partitions(BRANCHES.main, signs)]
    assert found == [["RELU"], ["NEG", "ADD"], ["NEG"]]
    assert partitions(BRANCHES.main, set(BRANCHES.main.ops)) == []


def test_operators_that_read_each_others_results_are_in_no_partition() -> None:
    model = circlekit.parse("graph main(%x: f32[4]) -> %c { %a = Neg(%x) %b = Neg(%a) %c = Neg(%b) }")
    first, second, third = model.main
    second.set_input(0, third.output)  # as in a damaged file
    assert partitions(model.main, set()) == [[first]]


def test_delegation_counts_operators_and_partitions() -> None:
    target = delegating("SIGN", "RELU NEG ADD")
    found = find_delegation(BRANCHES.main, target)
    assert str(found) == "4 of 6 operators in 3 partitions, not 2 SIGN"
    assert find_delegation(BRANCHES.main, toy("SIGN")) is None


def test_what_the_delegate_takes_needs_no_kernel_of_the_runtime() -> None:
    target = delegating("SIGN", "RELU ADD")
    target = replace(target, operators=dict.fromkeys(("SIGN", "ADD"), ANY))
    relu, sign, neg, add, *_ = BRANCHES.main
    assert [target.refusal(op) for op in (relu, sign, add)] == [None, None, None]
    assert target.refusal(neg) == "Toy has no NEG"
    assert [target.delegate_refusal(op) is None for op in (relu, sign, neg, add)] == [
        True,
        False,
        False,
        True,
    ]
    assert toy("SIGN").delegate_refusal(relu) is None


def test_a_rewrite_to_what_the_delegate_refuses_is_refused() -> None:
    model = circlekit.parse(NEGATED)
    report = circlekit.optimize(model, explain="fuse_neg", target=delegating("SUB", "NEG ADD"))
    assert codes(model) == ["NEG", "ADD"]
    assert [refusal.sentence for refusal in report.refusals] == ["%y: the delegate of Toy has no SUB"]


@pytest.mark.parametrize("dtype", ["f32", "i8", "u8"])
def test_xnnpack_ignores_the_activation_of_a_concatenation(dtype: str) -> None:
    quantization = "" if dtype == "f32" else " quant(scale: 0.5)"
    for act, runs in (("NONE", True), ("RELU", False)):
        text = f"%y = Concatenation(%x, %x) {{act: {act}}} : {dtype}[1,8]{quantization}"
        model = circlekit.parse(f"graph main(%x: {dtype}[1,4]{quantization}) -> %y {{\n  {text}\n}}")
        assert (find_target("litert-xnnpack").delegate_refusal(model.main.ops[0]) is None) == runs


@pytest.mark.parametrize(
    ("operand", "act", "runs"),
    [
        ("const i8[1,1] quant(scale: 0.5) 3", "RELU", False),  # LiteRT returns i8[4]
        ("const i8[1,1] quant(scale: 0.5) 3", "NONE", True),
        ("const i8[1] quant(scale: 0.5) 3", "RELU", True),
        ("const i8[1,4] quant(scale: 0.5) [1, 2, 3, 4]", "RELU", True),
    ],
)
def test_xnnpack_loses_the_rank_of_a_quantized_scalar(operand: str, act: str, runs: bool) -> None:
    shape = "[1,4]" if "[1," in operand else "[4]"
    model = circlekit.parse(f"""
    graph main(%x: i8[4] quant(scale: 0.5)) -> %y {{
      %c = {operand}
      %y = Add(%x, %c) {{act: {act}}} : i8{shape} quant(scale: 0.5)
    }}
    """)
    assert (find_target("litert-xnnpack").delegate_refusal(model.main.ops[0]) is None) == runs


def test_an_operand_that_will_be_folded_counts_as_constant() -> None:
    text = """
    graph main(%x: f32[1,2]) -> %y {
      %a = Add(%x, [1.0, 2.0])
      %y = FullyConnected(%a, [[1.0, 2.0], [3.0, 4.0]], [5.0, 6.0])
    }"""
    forms = {"f32,f32,f32:f32": {"constant": ["bias"]}}
    delegated = {"FULLY_CONNECTED": {"version": 99, "forms": forms}, "ADD": ANY}
    model = circlekit.parse(text)
    circlekit.optimize(model, target=replace(toy(*delegated), delegated=delegated))
    assert codes(model) == ["FULLY_CONNECTED"]


def test_a_rewrite_of_what_the_delegate_refuses_is_applied() -> None:
    model = circlekit.parse(NEGATED)
    circlekit.optimize(model, target=delegating("SUB NEG", "ADD"))
    assert codes(model) == ["SUB"]


def test_a_pass_that_is_code_is_undone_for_the_delegate() -> None:
    text = "graph main(%x: f32[1,6]) -> %a, %b { %a, %b = SplitV(%x, [3, 3], 1) {num_splits: 2} }"
    model = circlekit.parse(text)
    circlekit.optimize(model, target=delegating("SPLIT", "SPLIT_V"))
    assert codes(model) == ["SPLIT_V"]
    circlekit.optimize(model, target=delegating("SPLIT_V", "SPLIT"))
    assert codes(model) == ["SPLIT"]


def test_the_report_says_what_is_delegated_before_and_after() -> None:
    body = "%a = Neg(%x) %b = Sign(%a) %c = Abs(%b) %d = Neg(%c) %y = Add(%d, %x)"
    model = circlekit.parse(f"graph main(%x: f32[1,4]) -> %y {{ {body} }}")
    report = circlekit.optimize(model, target=delegating("SIGN", "ABS NEG ADD SUB"))
    (found,) = report.targets
    assert str(found) == (
        "the delegate of Toy runs 3 of 4 operators in 2 partitions, not 1 SIGN "
        "(before: 4 of 5 operators in 2 partitions, not 1 SIGN)"
    )
    assert found.document()["delegated"]["after"]["refused"] == {"SIGN": 1}


def test_check_says_what_is_delegated_now_and_after_o1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "net.tflite"
    text = "graph main(%x: f32[1,4]) -> %y { %a = Abs(%x) %b = Pow(%a, 2.0) %c = Neg(%b) %y = Sub(%c, %x) }"
    circlekit.save(circlekit.parse(text), path)
    assert main([str(path), "--target", "litert-xnnpack"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "its delegate runs 3 of 4 operators in 2 partitions, not 1 POW" in printed
    assert "after --O1 --target litert-xnnpack 4 of 4 operators in 1 partition" in printed


PRELU = "graph main(%x: f32[1,4]) -> %y {{ %a = {before}(%x) %p = PRelu(%a, [0.5]) %y = {after}(%p) }}"
# the operators to which PRELU is legalized
LOWERED = "RELU MINIMUM MUL ADD"


def legalized(before: str, after: str, runs: str) -> Model:
    """Return a model, legalized: a PRELU between operators of the classes ``before`` and ``after``.

    The delegate takes ABS and LOWERED; the target itself runs PRELU and ``runs``.
    """
    model = circlekit.parse(PRELU.format(before=before, after=after))
    return legalize(model, "circle", targets=[delegating(f"{runs} PRELU", f"ABS {LOWERED}")])


def test_an_operator_beside_a_delegated_one_is_replaced() -> None:
    assert codes(legalized("Abs", "Abs", "")) == ["ABS", *LOWERED.split(), "ABS"]
    assert codes(legalized("Sign", "Abs", "SIGN")) == ["SIGN", *LOWERED.split(), "ABS"]


def test_no_operator_becomes_a_partition_of_its_own() -> None:
    body = "%a = Abs(%x) %s = Sign(%a) %p = PRelu(%s, [0.5]) %y = Sign(%p)"
    model = circlekit.parse(f"graph main(%x: f32[1,4]) -> %y {{ {body} }}")
    target = delegating("SIGN PRELU", f"ABS {LOWERED}")
    assert codes(legalize(model, "circle", targets=[target])) == ["ABS", "SIGN", "PRELU", "SIGN"]


def test_a_model_without_delegated_operators_stays() -> None:
    model = circlekit.parse("graph main(%x: f32[1,4]) -> %y { %y = PRelu(%x, [0.5]) }")
    assert codes(legalize(model, "circle", targets=[delegating("PRELU", LOWERED)])) == ["PRELU"]


def test_what_the_delegate_refuses_too_is_not_made() -> None:
    model = circlekit.parse(PRELU.format(before="Abs", after="Abs"))
    target = delegating("PRELU RELU MINIMUM MUL", "ABS ADD")
    assert codes(legalize(model, "circle", targets=[target])) == ["ABS", "PRELU", "ABS"]
