# SPDX-License-Identifier: Apache-2.0
"""Declarations: each is unique; mistakes in them; operator versions and permuted parameters by traits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from circlekit.errors import ModelError, UnsupportedError
from circlekit.ir.dtypes import f32, i8, i16, i32
from circlekit.ir.op import REGISTRY, Op, attribute, operand, variadic_operand
from circlekit.ir.value import TensorType, Value
from circlekit.ops.arithmetic.binary import Add


class Rolled(
    Op,
    versions={i8: 2, i16: 4},
    rank_versions={3: 3, 5: 5},
    layout_operands=("input",),
    per_axis_operands={"shifts": 0, "limits": 9},
    axis_numbers=("axes", "last"),
):
    """An invented operator: a number per axis in ``shifts`` and ``limits``, axes in ``axes`` and ``last``."""

    input = operand()
    shifts = operand()
    limits = operand()
    axes = operand()

    last: int = attribute(0)

    def infer(self) -> TensorType:
        return self.input.type


def ints(numbers: Any) -> Value:
    return Value.constant("", np.array(numbers, np.int32))


def rolled(**changes: Any) -> Rolled:
    """Return a Rolled on an input of rank 3; ``changes`` replace its operands, or ``last``."""
    names = {"input": Value("x", f32, (2, 3, 4)), "shifts": ints([5, 6, 7]), "limits": ints([[1], [2], [3]])}
    values = {**names, "axes": ints([[0, -1]]), **changes}
    last = values.pop("last", -2)
    return Rolled(*values.values(), last=last)


def test_parameters_follow_a_permutation() -> None:
    changes = rolled().permuted((2, 0, 1))  # axis 0 becomes axis 1, 1 becomes 2, 2 becomes 0
    assert changes is not None
    last = changes.pop("last")
    assert (last, type(last)) == (2, int)
    found = {name: array.tolist() for name, array in changes.items()}
    assert found == {"shifts": [7, 5, 6], "limits": [[3], [1], [2]], "axes": [[1, 0]]}
    assert {array.dtype for array in changes.values()} == {np.dtype(np.int32)}


@pytest.mark.parametrize(
    "changes",
    [
        {"shifts": Value("", i32, (3,))},  # not constant
        {"axes": Value("", i32, (1,))},
        {"shifts": ints([5, 6])},  # not one number per axis
        {"limits": ints(1)},
        {"axes": ints([3])},  # axes are -3 to 2
        {"axes": ints([-4])},
        {"last": 3},
        {"last": -4},
    ],
)
def test_parameters_that_cannot_follow(changes: dict[str, Any]) -> None:
    assert rolled(**changes).permuted((2, 0, 1)) is None


def test_the_largest_and_the_smallest_axis_number_follow() -> None:
    changes = rolled(axes=ints([2, -3])).permuted((2, 0, 1))
    assert changes is not None
    assert changes["axes"].tolist() == [0, 1]


class Plain(Op, results=()):
    """An operator that has no results, no operand with a layout and no kernel."""


def test_defaults() -> None:
    assert Plain().permuted((1, 0)) is None
    assert Plain().inferred() == ()
    assert Plain().required_version() == 1
    with pytest.raises(UnsupportedError, match="has no kernel"):
        Plain().kernel()


def test_versions_by_dtype_and_rank() -> None:
    """The larger of the versions by dtype and by rank counts: i16 gives 4, rank 4 gives 3, both give 4."""
    for dtype, rank, version in (
        (f32, 2, 1),
        (i8, 2, 2),
        (f32, 3, 3),
        (i8, 4, 3),
        (i16, 4, 4),
        (i16, 5, 5),
        (f32, 6, 5),
    ):
        assert rolled(input=Value("x", dtype, (1,) * rank)).required_version() == version
    assert rolled(input=Value("x", i8, None)).required_version() == 2


def declare(module: str, name: str, code: str) -> type[Op]:
    return type(name, (Op,), {"__module__": module, "__qualname__": name}, code=code, options=None)


def test_an_operator_is_declared_once() -> None:
    """Its code and the name of its class are unique; but a notebook may define the class again."""
    before = dict(REGISTRY)
    try:
        declare("here", "Made", "MADE")
        again = declare("here", "Made", "MADE")
        assert {code: REGISTRY[code] for code in REGISTRY if code not in before} == {"MADE": again}
        for name, code, shared in (("Other", "MADE", "MADE"), ("Made", "OTHER", "Made")):
            message = rf"the operator {shared} is declared twice: by here\.Made and by there\.{name}"
            with pytest.raises(ModelError, match=message):
                declare("there", name, code)
        with pytest.raises(ModelError, match=f"Add is declared twice: by {Add.__module__}.Add and by here"):
            declare("here", "Add", "MINE")
        assert {"MADE": again} | before == REGISTRY
        recoded = declare("here", "Made", "NEW")
        assert {"NEW": recoded} | before == REGISTRY
    finally:
        for code in REGISTRY.keys() - before:
            del REGISTRY[code]


@pytest.mark.parametrize("name", ["inputs", "output", "version", "kernel", "macs", "previous"])
@pytest.mark.parametrize("member", [operand, lambda: attribute(1)])
def test_members_cannot_hide_what_every_operator_has(name: str, member: Callable[[], object]) -> None:
    with pytest.raises(ModelError, match=f"Made: {name} is a name in every operator; choose another name"):
        type("Made", (Op,), {name: member()})


def test_a_variadic_operand_is_the_last() -> None:
    with pytest.raises(ModelError, match="Made: the variadic operand values must be the last"):
        type("Made", (Op,), {"values": variadic_operand(), "axis": operand()})


class Mistaken(Op):
    """An invented operator with a shape rule that is wrong in one of several ways."""

    input = operand()

    mistake: str = attribute("")

    def infer(self) -> Any:
        if self.mistake == "no type":
            return self.input.shape
        if self.mistake == "nothing":
            return None
        return self.input.dim  # type: ignore[attr-defined]  # the mistake


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        ("no type", "Mistaken.infer: expected a TensorType or a tuple of them, got 2"),
        ("nothing", "Mistaken.infer: expected a TensorType or a tuple of them, got None"),
        ("error", "Mistaken.infer failed: AttributeError: 'Value' object has no attribute 'dim'"),
    ],
)
def test_an_error_in_a_shape_rule_names_the_operator(mistake: str, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        Mistaken(Value("x", f32, (2, 3)), mistake=mistake)
