# SPDX-License-Identifier: Apache-2.0
"""Operands of recurrent layers that do not fit together are errors, as in LiteRT.

Each test makes one constant of a layer longer by one index along one axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from circlekit.errors import ShapeError
from circlekit.ir.dtypes import f32
from circlekit.ir.op import Op
from circlekit.ir.value import Value
from circlekit.ops.recurrent.lstm import UnidirectionalSequenceLstm
from circlekit.ops.recurrent.rnn import BidirectionalSequenceRnn, Rnn
from circlekit.ops.recurrent.svdf import Svdf
from tests.ops.litert import const, graph_of, run_litert, var
from tests.ops.recurrent.test_lstm import Maker, operands
from tests.ops.stateful import state


def rnn_operands() -> list[Value | None]:
    make = Maker(1)
    return [make.matrix(4, 3), make.matrix(4, 4), make.vector(4), state(f32, (2, 4))]


LAYERS: dict[str, tuple[type[Op], tuple[int, ...], list[Value | None], dict[str, Any]]] = {
    "rnn": (Rnn, (2, 3), rnn_operands(), {}),
    "both directions": (
        BidirectionalSequenceRnn,
        (5, 2, 3),
        [*rnn_operands(), *rnn_operands(), None, None, None],
        {"time_major": True},
    ),
    "svdf": (
        Svdf,
        (2, 3),
        [*(const(np.zeros(shape), np.float32) for shape in ((6, 3), (6, 5), (3,))), state(f32, (2, 30))],
        {"rank": 2},
    ),
    "lstm": (
        UnidirectionalSequenceLstm,
        (5, 2, 3),
        operands(Maker(1), frozenset(("peephole", "projection")), 3, 4, 2),
        {"time_major": True},
    ),
}

CASES = [
    (layer, index, axis)
    for layer, (_, _, rest, _) in LAYERS.items()
    for index, value in enumerate(rest)
    if value is not None and value.is_const
    for axis in range(value.rank or 0)
]


UNCHECKED = {("lstm", 5, 0), ("lstm", 6, 0), ("both directions", 1, 1), ("both directions", 5, 0)}
"""LiteRT does not check these axes of recurrent weights."""


def layer(name: str, rest: Sequence[Value | None]) -> Op:
    cls, shape, _, attributes = LAYERS[name]
    return cls(var(np.zeros(shape, np.float32)), *rest, **attributes)


@pytest.mark.parametrize("name", LAYERS)
def test_operands_that_fit(name: str) -> None:
    shape, rest = LAYERS[name][1:3]
    run_litert(graph_of(layer(name, rest)), [np.zeros(shape, np.float32)])


@pytest.mark.parametrize(("name", "index", "axis"), CASES)
def test_one_index_more_along_an_axis(name: str, index: int, axis: int) -> None:
    """The error names an operand and its expected shape, or the attribute rank of an SVDF.

    The first weights give the number of units.  If they have one unit more, the error names another operand.
    """
    shape, rest = LAYERS[name][1:3]
    old = rest[index]
    assert old is not None
    padded = np.pad(old.array(), [(0, int(a == axis)) for a in range(old.array().ndim)])
    wrong = [*rest[:index], const(padded, np.float32), *rest[index + 1 :]]
    with pytest.raises(
        ShapeError, match=r"expected \w+ of shape \[.*\], got \[|rank: expected a divisor of 7 filters"
    ):
        layer(name, wrong)
    good = layer(name, rest)
    good.set_input(index + 1, wrong[index])
    if (name, index, axis) in UNCHECKED:
        return
    with pytest.raises(RuntimeError):
        run_litert(graph_of(good), [np.zeros(shape, np.float32)])
