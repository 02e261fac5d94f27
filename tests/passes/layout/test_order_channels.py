# SPDX-License-Identifier: Apache-2.0
"""Parts of contiguous channels, the operators that cut them out, and the costs of these operators."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from circlekit.index_maps.chains import present_cost
from circlekit.index_maps.steps import RUN_BYTES, MovementCost
from circlekit.ir.dtypes import f32, i8
from circlekit.ir.text import parse_model
from circlekit.ir.value import Value
from circlekit.passes.layout.channel_moves import Channel
from circlekit.passes.layout.order_channels import (
    Part,
    _cost_of_cut,
    _cost_of_join,
    _cost_of_old,
    _cuts,
    _longest_parts,
)
from tests.passes.kit import check_pass

A, B = Value("a", f32, (2, 3, 6)), Value("b", f32, (2, 3, 4))


@pytest.mark.parametrize("seed", range(20))
def test_parts_are_the_channels_in_their_order_and_cannot_be_longer(seed: int) -> None:
    random = np.random.default_rng(seed)
    runs = [(value, int(random.integers(3)), int(random.integers(1, 4))) for value in (A, B, A, A, B)]
    channels = [Channel(value, k) for value, first, count in runs for k in range(first, first + count)]
    parts = _longest_parts(channels)
    assert [Channel(p.value, k) for p in parts for k in range(p.start, p.stop)] == channels
    assert not any(a.value is b.value and a.stop == b.start for a, b in pairwise(parts))


@pytest.mark.parametrize(
    ("bounds", "is_one"),
    [
        ([0, 2, 6], True),
        ([0, 6], True),
        ([0, 2, 5], False),
        ([1, 2, 6], False),
    ],
)
def test_one_operator_cuts_out_parts_that_make_up_the_whole(bounds: list[int], is_one: bool) -> None:
    parts = [Part(A, start, stop) for start, stop in pairwise(bounds)]
    assert _cuts(A, parts) == ([parts] if is_one else [[part] for part in parts])
    gap, overlap = [Part(A, 0, 2), Part(A, 3, 6)], [Part(A, 0, 4), Part(A, 3, 6)]
    assert [len(_cuts(A, some)) for some in (gap, overlap)] == [2, 2]
    assert [part.is_whole for part in (Part(A, 0, 6), Part(A, 0, 5), Part(A, 1, 6))] == [True, False, False]


@pytest.mark.parametrize("kind", ["f32", "i8"])
@pytest.mark.parametrize("axis", [2, -1])
@pytest.mark.parametrize("sizes", [[2, 2, 2], [1, 5]])
def test_a_split_costs_as_much_now_as_it_would_if_it_were_new(sizes: list[int], axis: int, kind: str) -> None:
    count = len(sizes)
    results = ", ".join(f"%y{k}" for k in range(count))
    split = f"SplitV(%x, {sizes}, {axis})" if len({*sizes}) > 1 else f"Split({axis}, %x)"
    text = f"graph main(%x: {kind}[2,3,6]) -> {results} {{ {results} = {split} {{num_splits: {count}}} }}"
    (op,) = parse_model(text).main
    ends = np.cumsum([0, *sizes]).tolist()
    whole = Value("x", f32 if kind == "f32" else i8, (2, 3, 6))
    parts = [Part(whole, start, stop) for start, stop in pairwise(ends)]
    expected = MovementCost(36 * (4 if kind == "f32" else 1) + count * 6 * RUN_BYTES, 1)
    assert _cost_of_old(op) == _cost_of_cut(parts) == expected


@pytest.mark.parametrize(
    ("call", "elements", "runs"),
    [
        ("Slice(%x, [0,0,2], [2,3,4])", 24, 6),
        ("Slice(%x, [0,1,0], [2,2,6])", 24, 2),
        ("Slice(%x, [0,0,0], [2,3,6])", 36, 0),
        ("StridedSlice(%x, [0,0,0], [2,3,6], [1,1,2])", 18, 18),
        ("Gather(%x, [0,2,5]) {axis: -1}", 18, 18),
        ("Gather(%x, [0,2]) {axis: 1}", 24, 4),
        ("Gather(%x, 2) {axis: 2}", 6, 6),
        ("Reshape(%x, [6,6])", 0, 0),
        ("Transpose(%x, [0,2,1])", 36, 0),
    ],
)
def test_the_present_cost_of_an_operator_that_takes_channels_has_its_runs(
    call: str, elements: int, runs: int
) -> None:
    (op,) = parse_model(f"graph main(%x: f32[2,3,6]) -> %y {{ %y = {call} }}").main
    assert _cost_of_old(op) == MovementCost(elements * 4 + runs * RUN_BYTES, 1)


@pytest.mark.parametrize(("axis", "runs"), [(2, 12), (-1, 12), (1, 4)])
def test_the_present_cost_of_unpack_has_its_runs(axis: int, runs: int) -> None:
    shape = "2,2,3" if axis == 1 else "2,3,2"
    text = f"graph main(%x: f32[{shape}]) -> %a, %b {{ %a, %b = Unpack(%x) {{num: 2, axis: {axis}}} }}"
    (op,) = parse_model(text).main
    assert _cost_of_old(op) == MovementCost(12 * 4 + runs * RUN_BYTES, 1)


EVEN_AND_ODD = {
    "strided": "%a = StridedSlice(%c, [0,0], [3,6], [1,2]) %b = StridedSlice(%c, [0,1], [3,6], [1,2])",
    "gathered": "%a = Gather(%c, [0,2,4]) {axis: 1} %b = Gather(%c, [1,3,5]) {axis: 1}",
    "unpacked": "%r = Reshape(%c, [3,3,2]) %a, %b = Unpack(%r) {num: 2, axis: 2}",
}


@pytest.mark.parametrize("cut", EVEN_AND_ODD.values(), ids=EVEN_AND_ODD)
def test_even_and_odd_channels_become_the_halves_of_a_split(cut: str) -> None:
    """The split costs runs, as new operators do; the present operators copy element by element."""
    text = f"""graph main(%x: f32[3,2]) -> %p, %q {{
      %w = const f32[6,2] gaussian(0, 1)
      %u = const f32[5,3] gaussian(0, 1)
      %c = FullyConnected(%x, %w, none)
      {cut}
      %p = FullyConnected(%a, %u, none)
      %q = FullyConnected(%b, %u, none)
    }}"""
    layer = "FullyConnected"
    check_pass(text, "order_channels", [layer, "Split", layer, layer])


def test_the_cost_of_a_join_is_that_of_its_operator() -> None:
    text = "graph main(%a: f32[2,3,6], %b: f32[2,3,4]) -> %y { %y = Concatenation(%a, %b) {axis: 2} }"
    (op,) = parse_model(text).main
    assert _cost_of_join(op.output, [Part(A, 0, 6), Part(B, 0, 4)]) == present_cost(op) == _cost_of_old(op)


def test_a_single_part_costs_its_channels_and_runs() -> None:
    # 2 channels of 2 * 3 rows, 4 bytes each; a run for each row
    assert _cost_of_cut([Part(A, 1, 3)]) == MovementCost(2 * 6 * 4 + 6 * RUN_BYTES, 1)
    unknown = Value("k", f32, (None, 3, 6))  # the unknown dimension counts as 1
    assert _cost_of_cut([Part(unknown, 1, 3)]) == MovementCost(2 * 3 * 4 + 3 * RUN_BYTES, 1)


UNREAD_LAYER = """graph main(%x: f32[3,2]) -> %y {
  %w = const f32[4,2] gaussian(0, 1)
  %v = const f32[5,4] gaussian(0, 1)
  %a = FullyConnected(%x, %w, none)
  %d = FullyConnected(%a, %v, none)
  %g = Slice(%d, [0, 1], [3, 3])
  %b = Concatenation(%g, %a) {axis: 1}
  %y = Slice(%b, [0, 4], [3, 2])
}"""

UNREAD_REGION = """graph main(%x: f32[3,2]) -> %y {
  %w = const f32[4,2] gaussian(0, 1)
  %v = const f32[6,4] gaussian(0, 1)
  %u = const f32[6,6] gaussian(0, 1)
  %o = const f32[3,4] gaussian(0, 1)
  %a = FullyConnected(%x, %w, none)
  %a1, %a2 = Split(1, %a) {num_splits: 2}
  %s = Concatenation(%a2, %a1) {axis: 1}
  %r = FullyConnected(%s, %o, none)
  %d = FullyConnected(%s, %v, none)
  %d1, %d2 = Split(1, %d) {num_splits: 2}
  %e = Concatenation(%d2, %d1) {axis: 1}
  %h = FullyConnected(%e, %u, none)
  %h1, %h2 = Split(1, %h) {num_splits: 2}
  %b = Concatenation(%h2, %h1, %a) {axis: 1}
  %c = Slice(%b, [0, 6], [3, 4])
  %z = Relu(%c)
  %y = Concatenation(%z, %r) {axis: 1}
}"""


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        (UNREAD_LAYER, ["FullyConnected", "Slice"]),
        (UNREAD_REGION, ["FullyConnected", "FullyConnected", "Relu", "Concatenation"]),
    ],
)
def test_operators_whose_channels_nothing_takes_disappear(text: str, kinds: list[str]) -> None:
    """They were in a group, or in another region, when the pass began."""
    check_pass(text, "order_channels", kinds)


def test_an_unread_operator_keeps_the_split_that_it_reads() -> None:
    """A slice beside the split would be one operator more."""
    text = """graph main(%x: f32[2,3,2]) -> %y {
      %a, %b = Split(2, %x) {num_splits: 2}
      %w = const f32[8,1] gaussian(0, 1)
      %y = FullyConnected(%a, %w, none) {keep_num_dims: true}
      %c = Concatenation(%b, %x) {axis: 2}
    }"""
    check_pass(text, "order_channels", ["Split", "FullyConnected", "Concatenation"])
