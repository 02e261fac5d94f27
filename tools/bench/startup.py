# SPDX-License-Identifier: Apache-2.0
"""How long commands take when there is next to nothing to do."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

from tools.bench.measure import by_turns, command

SMALL = Path(__file__).parents[2] / "recipes" / "nets" / "tconv_bn.ck"


class Start(NamedTuple):
    """One command.  ``ratio``: its time in parts of what Python and the import of numpy alone take."""

    what: str
    seconds: float
    ratio: float
    anonymous: int


def measure_starts(folder: Path, rounds: int) -> list[Start]:
    target, again = str(folder / "out.circle"), str(folder / "again.circle")
    commands = {
        "python -c 'import numpy'": [sys.executable, "-c", "import numpy"],
        "circle2circle --help": [command("circle2circle"), "--help"],
        "circle2circle, a model of 3 operators, --O1": [command("circle2circle"), str(SMALL), target, "--O1"],
        "circle2circle, its result, no pass": [command("circle2circle"), target, again],
        "circle-inspect --operators": [command("circle-inspect"), "--operators", target],
        "circle-verify": [command("circle-verify"), target],
    }
    runs = by_turns(commands, rounds)
    alone = next(iter(runs.values())).seconds
    return [Start(name, run.seconds, run.seconds / alone, run.anonymous) for name, run in runs.items()]
