# SPDX-License-Identifier: Apache-2.0
"""All benchmarks but that of the interpreter: a table, a JSON file, a page.

    python -m tools.bench [--sizes 8M 100M 1G 3G] [--rounds 5] [--json FILE] [--page PAGE.md]

Files against ``cp`` and against the object API of flatbuffers, the start of the commands, and the growth with
the number of operators.  Ratios within one run are the figures to look at: seconds are those of a machine.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console

from tools.bench.files import SIZES, Row, measure_size
from tools.bench.measure import machine
from tools.bench.page import page, tables
from tools.bench.startup import Start, measure_starts

UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


class Results(NamedTuple):
    """All that was measured, and on what."""

    machine: dict[str, Any]
    command: str
    files: list[Row]
    starts: list[Start]

    def as_json(self) -> str:
        parts = {
            "machine": self.machine,
            "command": self.command,
            "files": [row._asdict() for row in self.files],
            "starts": [start._asdict() for start in self.starts],
        }
        return json.dumps(parts, indent=2) + "\n"


def _bytes(text: str) -> int:
    """``100M`` as a number of bytes."""
    unit = UNITS.get(text[-1:].upper(), 1)
    return int(float(text.rstrip("kKmMgG")) * unit)


def main(argv: Sequence[str] | None = None) -> None:
    arguments = _parser().parse_args(argv)
    console = Console(stderr=True)
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        folder = Path(name)
        starts = measure_starts(folder, 2 * arguments.rounds)
        for size in arguments.sizes:
            console.print(f"a file of {size / UNITS['M']:,.0f} MiB ...")
            rows += measure_size(size, folder, arguments.rounds)
    sizes = " ".join(f"{size // UNITS['M']}M" for size in arguments.sizes)
    command = f"python -m tools.bench --sizes {sizes} --rounds {arguments.rounds}"
    results = Results(machine(), command, rows, starts)
    Console().print(*tables(rows, starts))
    if arguments.json:
        arguments.json.write_text(results.as_json())
    if arguments.page:
        arguments.page.write_text(page(results.machine, results.command, rows, starts))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tools.bench",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--sizes", type=_bytes, nargs="+", default=SIZES, help="bytes of the files (100M, 1G)"
    )
    parser.add_argument("--rounds", type=int, default=5, help="runs of each command; the median counts")
    parser.add_argument("--folder", type=Path, help="where the files are made, by default the system's own")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--page", type=Path, metavar="FILE.md")
    return parser


if __name__ == "__main__":
    main()
