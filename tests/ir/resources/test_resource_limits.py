# SPDX-License-Identifier: Apache-2.0
"""Limits: blocks in which they apply, counted memory, messages."""

from __future__ import annotations

import contextvars
from pathlib import Path

import pytest

import circlekit
from circlekit.errors import LimitError, ParseError
from circlekit.ir.resources import resource_limits
from circlekit.ir.resources.resource_limits import (
    count_memory,
    counted_memory,
    limited,
    limits,
    machine_memory,
    need_memory,
)
from circlekit.ir.text import parse_model
from circlekit.ir.text.fillers import FILLERS


def test_the_default_is_half_of_the_machine() -> None:
    assert limits().memory == machine_memory() // 2 > 1 << 20


def test_limits_hold_only_inside_the_block() -> None:
    before = limits()
    with circlekit.limited("1M") as inner:
        assert limits() is inner
        with limited(calls=7):
            assert (limits().memory, limits().calls) == (1 << 20, 7)
        assert contextvars.Context().run(limits) is before  # another task has its own
    assert limits() is before


def test_exactly_the_limit_is_allowed() -> None:
    with limited(1000):
        need_memory(1000, "this")
        with pytest.raises(LimitError, match="this would take 1001 bytes, the limit is 1000 bytes"):
            need_memory(1001, "this")


def test_counted_memory_counts_towards_the_limit() -> None:
    with limited(1000):
        count_memory(900)  # has no effect outside of a counted_memory block
        with counted_memory():
            count_memory(600)
            need_memory(400, "this")
            with pytest.raises(LimitError, match="401 bytes in addition to the 600 bytes in use"):
                need_memory(401, "this")
        need_memory(1000, "this")


@pytest.mark.parametrize("name", sorted(FILLERS))
def test_fillers_check_the_limit_first(name: str) -> None:
    arguments = "(1)" if name == "constant" else ""
    text = f"graph main() -> %y {{\n  %y = const f32[1024,1024] {name}{arguments}\n}}\n"
    with limited("128M"):
        assert parse_model(text).main.outputs[0].numel == 1 << 20
    with (
        limited("16M"),
        pytest.raises(ParseError, match=f"1048576 elements of {name} would take .* is 16.0 MiB"),
    ):
        parse_model(text)


def test_many_constants_count_together() -> None:
    lines = "".join(f"  %w{i} = const f32[65536] zeros\n" for i in range(100))
    text = f"graph main(%x: f32[1]) -> %x {{\n{lines}}}\n"
    with limited("40M"):
        parse_model(text)
    # a constant takes 256 KiB, and needs 1.75 MiB while it is made: 26 constants, in lines 2 to 27, fit
    with (
        limited("8M"),
        pytest.raises(ParseError, match=r"text:2[0-9]:.* in use, the limit is 8.0 MiB"),
    ):
        parse_model(text)


def test_memory_of_an_unknown_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the memory cannot be found out, the default limit is DEFAULT_MEMORY_BYTES."""
    monkeypatch.delattr("os.sysconf")
    assert (
        machine_memory() // resource_limits.MEMORY_DIVISOR == resource_limits.DEFAULT_MEMORY_BYTES > 1 << 20
    )


@pytest.mark.parametrize(("text", "size"), [("4096", 4096), ("max", 1 << 30), (str(1 << 60), 1 << 30)])
def test_memory_of_a_container(text: str, size: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "max").write_text(text)
    monkeypatch.setattr(resource_limits, "_CGROUP", tmp_path / "max")
    monkeypatch.setattr("os.sysconf", {"SC_PAGE_SIZE": 1 << 12, "SC_PHYS_PAGES": 1 << 18}.__getitem__)
    assert machine_memory() == size
    (tmp_path / "max").unlink()
    assert machine_memory() == 1 << 30
