# SPDX-License-Identifier: Apache-2.0
"""Tables of origins say from which operators of the original each operator comes.

Here they are read word by word, as ONE's profiler does.
"""

from __future__ import annotations

import struct

import pytest

import circlekit.ops  # noqa: F401  # declares the operators
from circlekit.ir.graph import Model
from circlekit.ir.text import parse_model
from circlekit.passes.engine.origin_tables import MAX_ORIGINS, ORIGINS, SOURCES, add_profile

ORIGINAL = """
graph main(%x: f32[2,3]) -> %y {
  %a = Neg(%x)
  %b = Exp(%a)
  %c = Abs(%b)
  %y = Add(%c, %b)
}
"""


def sources_of(model: Model) -> dict[int, str]:
    data = dict(model.metadata)[SOURCES]
    (count,), at, found = struct.unpack_from("<I", data), 4, {}
    for _ in range(count):
        number, length = struct.unpack_from("<II", data, at)
        text = data[at + 8 : at + 8 + length]
        assert text.endswith(b"\0")
        found[number] = text[:-1].decode()
        at += 8 + length
    assert at == len(data)
    return found


def origins_of(model: Model) -> list[list[int]]:
    data = dict(model.metadata)[ORIGINS]
    (count,), at, found = struct.unpack_from("<I", data), 4, []
    for index in range(count):
        number, length = struct.unpack_from("<II", data, at)
        assert number == index
        found.append(list(struct.unpack_from(f"<{length}I", data, at + 8)))
        at += 8 + 4 * length
    assert at == len(data)
    return found


@pytest.mark.parametrize(
    ("body", "origins"),
    [
        ("%a = Neg(%x) %b = Exp(%a) %c = Abs(%b) %y = Add(%c, %b)", [[0], [1], [2], [3]]),
        ("%b = Tanh(%x) %y = Sub(%b, %x)", [[0, 1], [2, 3]]),
        ("%y = Tanh(%x)", [[0, 1, 2, 3]]),
        ("%n = Sin(%x) %y = Tanh(%n)", [[0, 1, 2, 3], [0, 1, 2, 3]]),
        ("%n = FullyConnected(%x, [[1.0, 2.0, 3.0]], none) %a = Sin(%x) %y = Tanh(%a)", [[], [0], [1, 2, 3]]),
    ],
)
def test_origins_lie_between_operands_and_results(body: str, origins: list[list[int]]) -> None:
    """``origins``: for each operator of ``body``, operators of ORIGINAL by number: %a has 0, %y has 3."""
    model = parse_model(f"graph main(%x: f32[2,3]) -> %y {{ {body} }}")
    model.metadata = [("other", b"kept"), (SOURCES, b"old"), (ORIGINS, b"old")]
    add_profile(parse_model(ORIGINAL), model)
    assert [name for name, _ in model.metadata] == ["other", SOURCES, ORIGINS]
    assert sources_of(model) == {0: "a", 1: "b", 2: "c", 3: "y"}
    assert origins_of(model) == origins


def test_a_graph_that_the_original_lacks_has_no_origins() -> None:
    model = parse_model("graph other(%x: f32[2,3]) -> %y { %y = Neg(%x) }")
    add_profile(parse_model(ORIGINAL), model)
    assert origins_of(model) == [[]]


def test_number_of_origins_is_limited() -> None:
    names = [f"v{index}" for index in range(MAX_ORIGINS + 2)]
    lines = [f"%{b} = Neg(%{a})" for a, b in zip(["x", *names], names, strict=False)]
    text = "graph main(%x: f32[2]) -> %{} {{ {} }}"
    original = parse_model(text.format(names[-1], " ".join(lines)))
    model = parse_model(text.format(names[-1], f"%{names[-1]} = Tanh(%x)"))
    add_profile(original, model)
    assert [len(found) for found in origins_of(model)] == [MAX_ORIGINS]


@pytest.mark.parametrize("is_damaged", [False, True])
def test_tables_lead_through_all_steps_to_the_first_model(is_damaged: bool) -> None:
    """Damaged tables of the middle model are ignored, so the origins are operators of the middle model."""
    middle = parse_model("graph main(%x: f32[2,3]) -> %y { %b = Tanh(%x) %y = Sub(%b, %x) }")
    add_profile(parse_model(ORIGINAL), middle)
    if is_damaged:
        middle.metadata = [(name, bytes(data)[:-1]) for name, data in middle.metadata]
    last = parse_model("graph main(%x: f32[2,3]) -> %y { %y = Sin(%x) }")
    add_profile(middle, last)
    assert sources_of(last) == ({0: "b", 1: "y"} if is_damaged else {0: "a", 1: "b", 2: "c", 3: "y"})
    assert origins_of(last) == ([[0, 1]] if is_damaged else [[0, 1, 2, 3]])
