# SPDX-License-Identifier: Apache-2.0
"""``tools.bench.delegate``: the operators that LiteRT's delegate runs, and latencies."""

from __future__ import annotations

import pytest

pytest.importorskip("ai_edge_litert")

import circlekit
from tools.bench.delegate import delegation, latencies, written

SIGN_IN_THE_MIDDLE = """graph main(%x: f32[2,3]) -> %y {
    %a = Relu(%x)
    %b = Sign(%a)
    %y = Ceil(%b)
}"""


def test_parts_around_an_operator_that_is_not_delegated() -> None:
    found = delegation(written(circlekit.parse(SIGN_IN_THE_MIDDLE)))
    assert (found.partitions, found.delegated, found.all, found.others) == (2, 2, 3, ("SIGN",))


def test_latencies_of_files_in_turns() -> None:
    model = circlekit.parse(SIGN_IN_THE_MIDDLE)
    first, second = latencies(model, [written(model)] * 2, 0.01)
    assert len(first) == len(second) > 0
    assert min(*first, *second) > 0
