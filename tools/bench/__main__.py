# SPDX-License-Identifier: Apache-2.0
"""Benchmark of files and start-up, as Markdown tables on standard output.

    python -m tools.bench [--sizes 1M 100M 1G 3G] [--rounds 5] [--folder DIR]

Commands on files are compared with ``cp`` of the same file in the same rounds, the start-up of commands with
the import of numpy.  Look at the ratios: seconds depend on the machine.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from circlekit.ir.resources.byte_sizes import parse_size
from circlekit.ir.text.columns import format_markdown
from tools.bench.large_model import make_model
from tools.bench.processes import Run, command_path, machine, run_in_turns
from tools.sweep import tool_parser

MIB = 1 << 20
SMALL_MODEL = Path(__file__).parents[2] / "recipes" / "nets" / "tconv_bn.ck"


def table(runs: Mapping[str, Run], ratio_to: str) -> str:
    """Return a Markdown table of runs, with ratios to the first run; ``ratio_to``: its name in the head."""
    reference = next(iter(runs.values())).seconds
    rows: list[tuple[str, ...]] = [("command", "seconds", f"times {ratio_to}", "resident", "anonymous")]
    for name, run in runs.items():
        memory = (f"{size / MIB:,.0f} MiB" for size in (run.resident_bytes, run.anonymous_bytes))
        rows.append((name, f"{run.seconds:.2f}", f"{run.seconds / reference:.2f}", *memory))
    return format_markdown(rows)


def measure_starts(folder: Path, rounds: int) -> str:
    """Return a table of the start-up of commands, on a model of three operators or on what O1 makes of it."""
    target, again = str(folder / "out.circle"), str(folder / "again.circle")
    tool = command_path("circle2circle")
    commands = {
        "python -c 'import numpy'": [sys.executable, "-c", "import numpy"],
        "circle2circle --help": [tool, "--help"],
        "circle2circle --O1": [tool, str(SMALL_MODEL), target, "--O1"],
        "circle2circle": [tool, target, again],
        "circle-inspect --operators": [command_path("circle-inspect"), "--operators", target],
        "circle-verify": [command_path("circle-verify"), target],
    }
    return "## Start-up\n\n" + table(run_in_turns(commands, rounds), "the first")


def measure_size(size: int, folder: Path, rounds: int) -> str:
    """Return a table of commands on a model file of about ``size`` bytes; O1 changes one of its layers."""
    source, target = folder / "in.tflite", folder / "out.tflite"
    made = make_model(source, size)
    tool = [command_path("circle2circle"), str(source), str(target)]
    commands = {
        "cp": ["cp", str(source), str(target)],
        "circle2circle": tool,
        "circle2circle --O1": [*tool, "--O1"],
        "circle2circle --O1 --verify": [*tool, "--O1", "--verify"],
        "tfl-verify": [command_path("tfl-verify"), str(source)],
    }
    runs = run_in_turns(commands, rounds, [target])
    source.unlink()
    target.unlink(missing_ok=True)
    return f"## A file of {made / MIB:,.0f} MiB\n\n" + table(runs, "cp")


def main(argv: Sequence[str] | None = None) -> None:
    parser = tool_parser("bench", __doc__)
    default = [MIB, 100 * MIB, 1024 * MIB, 3072 * MIB]
    parser.add_argument("--sizes", type=parse_size, nargs="+", default=default, help="of files, as 100M, 1G")
    parser.add_argument("--rounds", type=int, default=5, help="runs (start-up: twice as many) for a median")
    parser.add_argument(
        "--folder", type=Path, help="where the files are made; default: the system's temporary folder"
    )
    asked = parser.parse_args(argv)
    print(f"On {machine()}.\n")
    with tempfile.TemporaryDirectory(dir=asked.folder) as name:
        print(measure_starts(Path(name), 2 * asked.rounds), flush=True)
        for size in asked.sizes:
            print(measure_size(size, Path(name), asked.rounds), flush=True)


if __name__ == "__main__":
    main()
