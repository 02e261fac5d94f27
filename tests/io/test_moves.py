# SPDX-License-Identifier: Apache-2.0
"""Fixed places for the large data of large files."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import circlekit.ops  # noqa: F401  # operators are declared by being imported
from circlekit.io import moves as module
from circlekit.io.moves import ALIGNMENT, LENGTH, PAGE, Move, find_moves
from circlekit.io.read.load import load_bytes
from circlekit.io.uninterpreted import Origin
from circlekit.io.write.save import encoded, to_bytes
from circlekit.ir.graph import Model
from circlekit.ir.value import Value
from tests.io.oracles import CIRCLE, LITERT, Oracle
from tests.io.test_layout import constants

LARGE = 5000
FILE = 40_000
SIZE = 8000


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits that small files meet."""
    monkeypatch.setattr(module, "LARGE", LARGE)
    monkeypatch.setattr(module, "LARGE_FILE", FILE)
    monkeypatch.setattr(module, "MAX_WASTE", 2)  # pages weigh more among small constants


def moves_of(model: Model) -> list[Move]:
    origin = model.extra["origin"]
    assert isinstance(origin, Origin)
    assert origin.source is not None
    return origin.source.moves


def named(model: Model, name: str) -> Value:
    return next(v for v in model.main.values() if v.name == name)


def positions(model: Model) -> list[int]:
    """Where the constants of SIZE bytes of the model go."""
    return [p.position for p in encoded(model, model.format).payloads if len(p.data) == SIZE]


@given(
    st.integers(0, 5000),
    st.integers(0, 5000),
    st.lists(st.tuples(st.integers(0, 6000), st.integers(LARGE, 20_000)), min_size=1, max_size=12),
    st.integers(0, 9000),
)
@settings(deadline=None)
def test_places_of_any_layout(used: int, zeros: int, parts: list[tuple[int, int]], behind: int) -> None:
    """In order, aligned, apart, with room before them; and again the same in a file that was made so."""
    spans = []
    at = used + zeros
    for gap, size in parts:
        spans.append((at + LENGTH + gap, size))
        at += LENGTH + gap + size
    source = bytes([7]) * used + bytes(zeros) + bytes([7]) * (at - used - zeros + behind)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "LARGE", LARGE)
        patch.setattr(module, "LARGE_FILE", LARGE)
        found = find_moves(memoryview(source), [*spans, *spans[::-1], (5, LARGE - 1)])
        assert [(move.start, move.size) for move in found] == spans
        end = used + used // 8 + module.LEAST_ROOM
        for move in found:
            assert move.position >= end + LENGTH
            assert move.position % ALIGNMENT == 0
            if move.start % ALIGNMENT == 0:
                assert move.position % PAGE == move.start % PAGE
            end = move.position + move.size
        made = bytes([7]) * used + bytes(end - used)
        again = find_moves(memoryview(made), [(move.position, move.size) for move in found])
        assert [(move.start, move.position) for move in again] == [(m.position, m.position) for m in found]


def test_small_files_and_overlaps_have_none(small: None) -> None:
    data = memoryview(bytes(3 * FILE))
    assert find_moves(data, [(1000, FILE)])
    assert not find_moves(data, [(1000, FILE - 1)])
    assert not find_moves(data, [(1000, FILE), (FILE + 999, FILE)])
    assert find_moves(data, [(1000, FILE), (FILE + 1000, FILE)])
    assert not find_moves(data, [(1000 * i, LARGE - 1) for i in range(50)])


@pytest.mark.parametrize("far", [(), range(8)])
@pytest.mark.parametrize("oracle", [CIRCLE, LITERT])
def test_what_is_made_takes_the_place_of_what_went(small: None, oracle: Oracle, far: range) -> None:
    """The rest stays; and a model that did not change makes the same file again."""
    data = constants([SIZE] * 8, oracle, far)
    saved = to_bytes(load_bytes(data))
    model = load_bytes(saved)
    before = positions(model)
    assert before == [move.start for move in moves_of(model)] == [m.position for m in moves_of(model)]
    assert to_bytes(model) == saved
    value = named(model, "c3")
    value.data = ~value.array()
    assert sorted(positions(model)) == before
    changed = to_bytes(model)
    assert len(changed) == len(saved)
    again = load_bytes(changed)
    for number in range(8):
        assert bytes(named(again, f"c{number}").array()) == bytes(named(model, f"c{number}").array())


def halve(model: Model, *numbers: int) -> None:
    """Of these constants keep every second byte: they have no place of their length."""
    for number in numbers:
        value = named(model, f"c{number}")
        value.data = value.array()[::2].copy()
        value.shape = value.data.shape


def test_too_much_is_not_left_empty(small: None) -> None:
    """All move up."""
    model = load_bytes(to_bytes(load_bytes(constants([SIZE] * 8))))
    halve(model, *range(6))
    assert len(to_bytes(model)) < 5 * SIZE + 5000


def test_little_is_left_empty(small: None) -> None:
    """Zeros are where data was; and in the next round again."""
    model = load_bytes(to_bytes(load_bytes(constants([SIZE] * 8))))
    before = positions(model)
    halve(model, 3)
    assert set(positions(model)) < set(before)
    (at,) = set(before) - set(positions(model))
    saved = to_bytes(model)
    assert saved[at - LENGTH : at + SIZE] == bytes(LENGTH + SIZE)
    again = load_bytes(saved)
    assert to_bytes(again) == saved
    assert bytes(named(again, "c3").array()) == bytes(named(model, "c3").array())


def test_a_skeleton_that_needs_the_room_gets_it(small: None) -> None:
    model = load_bytes(to_bytes(load_bytes(constants([SIZE] * 8))))
    first = moves_of(model)[0].position
    model.description = "x" * first
    saved = to_bytes(model)
    assert saved[8:].find(b"x" * first) > 0
    again = load_bytes(saved)
    for number in range(8):
        assert bytes(named(again, f"c{number}").array()) == bytes(named(model, f"c{number}").array())


def test_foreign_bytes_between_are_not_copied_along(small: None) -> None:
    """What the generated code puts between its constants, which are not those of ours."""
    data = constants([SIZE] * 8)
    payloads = encoded(load_bytes(data), "tflite").payloads
    saved = to_bytes(load_bytes(data))
    between = [saved[a.end : b.position - LENGTH] for a, b in pairwise(payloads)]
    assert not any(map(any, between))
    assert any(between)
