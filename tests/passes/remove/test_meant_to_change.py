# SPDX-License-Identifier: Apache-2.0
"""Passes that are documented to change values: results and near misses."""

from __future__ import annotations

import pytest

from circlekit.ir.clone import clone
from circlekit.ir.text import parse_model, print_model
from circlekit.passes.engine.registry import all_passes
from circlekit.rewrite.base import Context
from tests.passes.kit import check_refusal, interface_of, verify

GRID = "quant(scale: 0.5, zero_point: 3)"
FINE = "quant(scale: 0.1, zero_point: -3)"


def guarded(addend: str = "5", modulus: str = "5", gather: str = "{axis: 0}") -> str:
    """Return a model with indices that wrap around: -1 becomes (-1 + 5) mod 5 = 4."""
    return f"""graph main(%p: f32[5,4], %i: i32[3]) -> %z {{
      %a = Add(%i, {addend})
      %m = FloorMod(%a, {modulus})
      %z = Gather(%p, %m) {gather}
    }}"""


def twice(kind: str = "FullyConnected(%x, %w)", outputs: str = "%z") -> str:
    """Return a model that quantizes the result of ``kind`` twice, to u8 and then to i16."""
    return f"""graph main(%x: f32[2,4], %w: f32[4,4]) -> {outputs} {{
      %f = {kind}
      %a = Quantize(%f) : u8[2,4] {GRID}
      %b = Dequantize(%a)
      %c = Quantize(%b) : i16[2,4] quant(scale: 0.25, zero_point: 0)
      %z = Dequantize(%c)
    }}"""


def dropout(last: str = "%z = Mul(%s, %m)", factor: str = "2.0") -> str:
    """Return a dropout of %n: ``factor`` scales it to %s, and ``last`` masks %s with %m (or %g)."""
    return f"""graph main(%x: f32[2,4]) -> %y {{
      %r = RandomUniform([2, 4]) {{seed: 1, seed2: 2}}
      %g = GreaterEqual(%r, 0.5)
      %m = Cast(%g) : f32[2,4]
      %n = Neg(%x)
      %s = Mul(%n, {factor})
      {last}
      %y = Neg(%z)
    }}"""


REMAINING = {
    "remove_fakequant": (
        "graph main(%x: f32[4]) -> %y { %a = Neg(%x) %y = FakeQuant(%a) {min: -1.0, max: 1.0, num_bits: 8} }",
        ["Neg"],
    ),
    "remove_quantdequant": (
        f"graph main(%x: f32[4]) -> %y {{ %a = Neg(%x) %q = Quantize(%a): u8[4] {GRID} %y = Dequantize(%q)}}",
        ["Neg"],
    ),
    "remove_gather_guard": (guarded(), ["Gather"]),
    "remove_qdq_for_mpo": (twice(), ["FullyConnected", "Quantize", "Dequantize"]),
    "remove_dropout": (dropout(), ["Neg", "Neg"]),
}


def kinds_after(text: str, name: str) -> list[str]:
    """Return the classes of the operators after the pass; check one change, the interface and idempotence."""
    model = parse_model(text)
    before = interface_of(model)
    assert all_passes()[name]().run(model, Context()) == 1
    verify(model)
    assert interface_of(model) == before
    once = print_model(model)
    assert all_passes()[name]().run(model, Context()) == 0
    assert print_model(model) == once
    return [type(op).__name__ for op in clone(model).main]


@pytest.mark.parametrize("name", REMAINING)
def test_operator_is_removed(name: str) -> None:
    text, kinds = REMAINING[name]
    assert kinds_after(text, name) == kinds
    assert all_passes()[name].changes_values


def test_other_forms_are_removed() -> None:
    selected = dropout("%z = SelectV2(%g, %s, 0.0)").replace("%m = Cast(%g) : f32[2,4]", "")
    assert kinds_after(selected, "remove_dropout") == ["Neg", "Neg"]
    assert kinds_after(twice("BatchMatMul(%x, %w)"), "remove_qdq_for_mpo") == [
        "BatchMatMul",
        "Quantize",
        "Dequantize",
    ]
    kept = twice(outputs="%z, %b")  # the output %b keeps the first pair; %c no longer reads %b
    both = ["FullyConnected", "Quantize", "Dequantize", "Quantize", "Dequantize"]
    assert kinds_after(kept, "remove_qdq_for_mpo") == both
    other_axis = guarded("4", "4", "{axis: -1}")
    assert kinds_after(other_axis, "remove_gather_guard") == ["Gather"]


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        (
            "remove_fakequant",
            "graph main(%x: f32[4]) -> %y { %y = FakeQuant(%x) {num_bits: 8} }",
            "is an output",
        ),
        (
            "remove_quantdequant",
            f"graph main(%x: f32[4]) -> %y {{ %q = Quantize(%x) : u8[4] {GRID} %y = Dequantize(%q) }}",
            "%y: is an output of the graph, and %x is an input or an output, too",
        ),
        (
            "remove_gather_guard",
            guarded(addend="4"),
            "%p: expected 5, its rows, as addend and as modulus, got 4 and 5",
        ),
        (
            "remove_gather_guard",
            guarded(modulus="4"),
            "%p: expected 5, its rows, as addend and as modulus, got 5 and 4",
        ),
        (
            "remove_gather_guard",
            guarded(gather="{axis: 1}"),
            "%p: expected 4, its rows, as addend and as modulus, got 5 and 5",
        ),
        (
            "remove_gather_guard",
            guarded().replace("f32[5,4]", "f32[?,4]"),
            "%p: expected a known number of rows, got shape [?,4]",
        ),
        ("remove_gather_guard", guarded().replace("Add", "Sub"), "comes from Sub, expected Add"),
        (
            "remove_qdq_for_mpo",
            twice("Add(%x, 1.0)"),
            "%f: comes from Add, expected FullyConnected or BatchMatMul",
        ),
        ("remove_qdq_for_mpo", twice("const f32[2,4] zeros"), "%f: comes from a constant, expected"),
        (
            "remove_qdq_for_mpo",
            twice(outputs="%z, %d").replace(
                "%z = Dequantize(%c)", f"%z = Dequantize(%c)\n%d = Quantize(%c) : i8[2,4] {FINE}"
            ),
            "%c: has users other than Dequantize",
        ),
        (
            "remove_dropout",
            dropout(factor="3.0"),
            "expected a factor of 2 for the kept part of 0.5, got 3",
        ),
        ("remove_dropout", dropout("%z = Mul(%s, %m) {act: RELU}"), "%z: act is RELU"),
    ],
)
def test_near_misses(name: str, text: str, sentence: str) -> None:
    check_refusal(text, name, sentence)
