# SPDX-License-Identifier: Apache-2.0
"""Results as tables, for the terminal and for docs/measured/benchmarks.md."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.table import Table

from tools.bench.files import Row
from tools.bench.startup import Start

MIB = 1 << 20

INTRODUCTION = """# Benchmarks

Written by `{command}`
on {processor}, {cores} cores, {memory:.0f} GiB, {system}, Python {python}.

Ratios within one run are the figures to look at.  *anonymous* is the memory that a process allocated, at its
peak; the pages of a mapped file, which the system can take back at any time, are not in it.

## Files

A model of fully connected layers, of which O1 changes one.  Time in parts of what `cp` of the same file
takes in the same rounds; neither waits for the disk ([files](files.md) says when circle2circle does).
`circlekit.load` and `.save` are measured inside of a process; its memory is that of both.
"""

GROWTH = """
## Growth

`python -m tools.bench.growth` measures chains, trees and wide graphs of 1,000 to 100,000 operators: `--plot`
draws it, `--page` writes it down: [growth.md](growth.md).
"""


def page(machine: Mapping[str, Any], command: str, rows: Sequence[Row], starts: Sequence[Start]) -> str:
    """docs/measured/benchmarks.md."""
    facts = {**machine, "memory": machine["memory"] / (1 << 30)}
    parts = [INTRODUCTION.format(command=command, **facts)]
    parts.append(_markdown(FILE_HEADS, map(_file_cells, rows)))
    parts.append("\n## Start\n")
    parts.append(_markdown(START_HEADS, map(_start_cells, starts)))
    parts.append(GROWTH.lstrip())
    return "\n".join(parts)


FILE_HEADS = ("file", "what", "seconds", "times cp", "resident", "anonymous")
START_HEADS = ("command", "seconds", "times the first", "anonymous")


def _file_cells(row: Row) -> tuple[str, ...]:
    memory = (f"{row.resident / MIB:,.0f} MiB", f"{row.anonymous / MIB:,.0f} MiB")
    return (f"{row.size / MIB:,.0f} MiB", row.what, f"{row.seconds:.2f}", f"{row.ratio:.2f}", *memory)


def _start_cells(start: Start) -> tuple[str, ...]:
    return (start.what, f"{start.seconds:.2f}", f"{start.ratio:.2f}", f"{start.anonymous / MIB:,.0f} MiB")


def tables(rows: Iterable[Row], starts: Iterable[Start]) -> list[Table]:
    """The same for a terminal."""
    return [_table(FILE_HEADS, map(_file_cells, rows)), _table(START_HEADS, map(_start_cells, starts))]


def _table(heads: Sequence[str], lines: Iterable[Sequence[str]]) -> Table:
    table = Table(*heads)
    for cells in lines:
        table.add_row(*cells)
    return table


def _markdown(heads: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    texts = [heads, ["---" if head in ("file", "what", "command") else "---:" for head in heads], *lines]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in texts) + "\n"
