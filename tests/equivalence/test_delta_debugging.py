# SPDX-License-Identifier: Apache-2.0
"""Reducing a model: the number of tests is limited, and the result is as small as possible."""

from __future__ import annotations

import numpy as np
import pytest

import circlekit.ops  # noqa: F401  # declares the operators of the texts
from circlekit.equivalence import delta_debugging
from circlekit.equivalence.delta_debugging import reduce_model
from circlekit.errors import FileError, ModelError
from circlekit.ir.graph import Model
from circlekit.ir.text import parse_model
from circlekit.ir.value import Array
from circlekit.ir.verifier import verify

CHAIN = """
graph main(%x: f32[2,9]) -> %k, %m {
  %a = Tanh(%x)
  %b = Relu(%a)
  %c = Mul(%b, [3.25, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0])
  %d = Exp(%c)
  %e = Neg(%d)
  %f = Abs(%e)
  %g = Sin(%f)
  %h = LeakyRelu(%g) {alpha: 0.25}
  %i = Sqrt(%h)
  %j = Cos(%i)
  %k = Reshape(%j, [18])
  %m = Mean(%b, [1])
}
"""


def codes(model: Model) -> list[str]:
    return [op.code for op in model.main]


@pytest.mark.parametrize("tries", [0, 1, 2, 5])
def test_a_reduction_tests_no_more_than_it_may(tries: int) -> None:
    asked: list[Model] = []

    def shows(model: Model) -> bool:
        asked.append(model)
        return "TANH" in codes(model)

    reduce_model(parse_model(CHAIN), shows, tries=tries)
    assert len(asked) == tries


def test_no_choices_are_made_when_the_tries_are_used_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A list of all choices of n operators would hold n^2 numbers, too many for 10^5 operators."""
    made: list[int] = []

    def choices(items: list[int], parts: int) -> list[tuple[list[int], int]]:
        made.append(parts)
        return [(items[:1], 2), (items[1:], 2)]

    monkeypatch.setattr(delta_debugging, "_choices", choices)
    reduce_model(parse_model(CHAIN), lambda model: False, tries=4)
    assert made == [2, 4], "the tries: ``bare``, the two choices of 2 parts, the first choice of 4 parts"


def test_every_candidate_is_valid_and_the_result_is_minimal() -> None:
    def shows(model: Model) -> bool:
        assert not verify(model)
        return {"TANH", "MEAN"} <= {*codes(model)}

    model = parse_model(CHAIN)
    small = reduce_model(model, shows)
    assert sorted(codes(small)) == ["MEAN", "TANH"]
    assert max(v.numel for v in small.main.inputs) == 1
    assert len(model.main) == 12, "the model itself stays as it is"


def test_operators_far_apart_are_found() -> None:
    small = reduce_model(parse_model(CHAIN), lambda m: {"RELU", "SIN", "COS"} <= {*codes(m)})
    assert codes(small) == ["RELU", "SIN", "COS"]


def test_attributes_and_constants_become_simple() -> None:
    def shows(model: Model) -> bool:
        return {"MUL", "LEAKY_RELU"} <= {*codes(model)}

    small = reduce_model(parse_model(CHAIN), shows)
    by_code = {op.code: op for op in small.main}
    assert by_code["LEAKY_RELU"].attribute_values.get("alpha", 0.0) == 0.0
    factor = by_code["MUL"].inputs[1]
    assert factor is not None
    assert factor.array().tolist() == [0.0]


def test_a_constant_that_matters_becomes_its_first_number_rounded() -> None:
    def shows(model: Model) -> bool:
        factors = [op.inputs[1] for op in model.main if op.code == "MUL"]
        return any(v is not None and v.array().max() >= 2.5 for v in factors)

    small = reduce_model(parse_model(CHAIN), shows)
    (op,) = small.main.ops
    factor = op.inputs[1]
    assert factor is not None
    assert factor.array().tolist() == [3.0], "3.25, rounded"


def test_a_file_error_ends_the_reduction_and_any_other_error_rejects_the_candidate() -> None:
    def invalid(model: Model) -> bool:
        raise ModelError("not that one")

    def missing(model: Model) -> bool:
        raise FileError("no such command")

    model = parse_model(CHAIN)
    assert reduce_model(model, invalid) is model
    with pytest.raises(FileError):
        reduce_model(model, missing)


def test_the_search_ends_when_nothing_more_can_go() -> None:
    """The shape operand always has four numbers.  A candidate that equals the model is no progress."""
    model = parse_model("""
    graph main(%x: f32[1,2,2,1]) -> %z {
      %w = const f32[3,3,3,1] gaussian(0, 0.1)
      %y = TransposeConv([1,4,4,3], %w, %x) {padding: VALID}
      %z = Relu(%y)
    }
    """)
    asked: list[Model] = []

    def shows(candidate: Model) -> bool:
        asked.append(candidate)
        return True

    smallest = reduce_model(model, shows)
    assert [type(op).__name__ for op in smallest.main] == ["TransposeConv"]
    assert len(asked) < 50


@pytest.mark.parametrize(
    ("data", "simpler"),
    [
        ([2.26, 5.54], [[0, 0], [1, 1], [2, 2], [2, 6], [2.3, 5.5]]),
        ([2.3, 5.5], [[0, 0], [1, 1], [2, 2], [2, 6]]),
        ([0.34, 7.0], [[0, 0], [1, 1], [0, 7], [0.3, 7]]),
        ([1.0, 1.0], [[0, 0]]),
        ([0.0, 0.0], []),
        ([np.nan, 2.2], [[0, 0], [1, 1]]),
    ],
)
def test_the_simplest_constants_are_tried_first(data: list[float], simpler: list[list[float]]) -> None:
    """Zeros; ones; the first number, rounded, everywhere; all numbers rounded; all with one decimal.

    The list ends before the first candidate that equals ``data``.  Candidates with NaN, and
    those that equal an earlier one, are left out.
    """
    found: list[Array] = list(delta_debugging._simpler_constants(np.array(data, np.float64)))
    assert [array.tolist() for array in found] == simpler


def kept_operators(needed: set[int]) -> list[list[int]]:
    """Return the selections of seven operators that are tried if the fault needs the operators ``needed``."""
    tried: list[list[int]] = []

    class Reducer(delta_debugging._Reducer):
        def attempt(self, make: object, *args: object, **keywords: object) -> bool:
            kept = args[1]
            assert isinstance(kept, list)
            tried.append(kept)
            return needed <= set(kept)

    reducer = Reducer(parse_model(CHAIN), lambda model: True, 1000)
    assert reducer.select(lambda model, kept: model, 7) is (len(needed) < 7)
    return tried


def test_parts_and_then_all_but_a_part_are_tried() -> None:
    assert kept_operators({5})[:3] == [[0, 1, 2], [3, 4, 5, 6], [3, 4]]
    assert kept_operators({5})[-1] == [5]
    found = kept_operators({0, 6})
    assert found[:6] == [[0, 1, 2], [3, 4, 5, 6], [0], [1, 2], [3, 4], [5, 6]]
    assert found[6:8] == [[1, 2, 3, 4, 5, 6], [0, 3, 4, 5, 6]]
    assert found[8:11] == [[0], [3, 4], [5, 6]], "three parts remain"
    assert [0, 6] in found
    every = kept_operators(set(range(7)))  # 2, 4 and 7 parts; after 4 and 7, all but one of them
    assert all(len(kept) < 7 for kept in every)
    assert [len(kept) for kept in every[2:]] == [1, 2, 2, 2, 6, 5, 5, 5, *[1] * 7, *[6] * 7]


def test_operators_of_every_called_graph_are_removed() -> None:
    text = """
        graph main(%c: bool[], %x: f32[2,3]) -> %y { %y = If(%c, %x) {then_graph: @a, else_graph: @b} }
        graph a(%x: f32[2,3]) -> %y { %s = Abs(%x) %t = Neg(%s) %y = Sqrt(%t) }
        graph b(%x: f32[2,3]) -> %y { %s = Sin(%x) %t = Cos(%s) %y = Exp(%t) }
        """
    small = reduce_model(parse_model(text), lambda m: "IF" in codes(m))
    assert [len(graph) for graph in small.graphs[1:]] == [1, 1]


def test_sizes_are_halved_as_often_as_the_fault_shows() -> None:
    small = reduce_model(
        parse_model("graph main(%x: f32[40]) -> %y { %y = Exp(%x) }"), lambda m: m.main.inputs[0].numel > 4
    )
    assert small.main.inputs[0].shape == (5,)


@pytest.mark.parametrize(("size", "needed"), [(8, 3), (3, 2), (2, 1), (7, 3), (9, 4)])
def test_the_least_of_1_2_3_and_the_half_is_found(size: int, needed: int) -> None:
    model = parse_model(f"graph main(%x: f32[{size}]) -> %y {{ %y = Exp(%x) }}")
    small = reduce_model(model, lambda m: m.main.inputs[0].numel >= needed)
    assert small.main.inputs[0].shape == (needed,)


def test_integers_are_not_simplified() -> None:
    model = parse_model("graph main(%x: i32[2]) -> %y { %y = Add(%x, [5, 6]) }")
    small = reduce_model(model, lambda m: "ADD" in codes(m) and m.main.inputs[0].numel == 2)
    factor = small.main.ops[0].inputs[1]
    assert factor is not None
    assert factor.array().tolist() == [5, 6]
