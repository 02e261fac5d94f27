# SPDX-License-Identifier: Apache-2.0
"""Files of all sizes: what reading, writing and optimizing them costs beside a copy by ``cp``."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tools.bench.large import make_model
from tools.bench.measure import Run, by_turns, command

MIB = 1 << 20
SIZES = (MIB, 100 * MIB, 1024 * MIB, 3072 * MIB)
"""Bytes of the models; the last has its constants by position, for offsets end at 2 GiB."""

OBJECTS_LIMIT = 1100 * MIB
"""The object API of flatbuffers needs four times the file in memory, and has no constants by position."""


class Row(NamedTuple):
    """One program on one file.  ``ratio``: its time in parts of what ``cp`` takes, in the same rounds."""

    size: int
    what: str
    seconds: float
    ratio: float
    resident: int
    anonymous: int


def measure_size(size: int, folder: Path, rounds: int) -> list[Row]:
    """The rows of one size; files are made in ``folder``, which needs twice their room."""
    source, target = folder / "in.tflite", folder / "out.tflite"
    bytes_made = make_model(source, size)
    runs = by_turns(_commands(source, target), rounds, [target])
    if bytes_made <= OBJECTS_LIMIT:
        runs |= by_turns({"objects": _steps("objects", source, target)}, 1, [target])
    rows = [row for name, run in runs.items() for row in _rows(bytes_made, name, run, runs["cp"].seconds)]
    source.unlink()
    target.unlink(missing_ok=True)
    return rows


def _commands(source: Path, target: Path) -> dict[str, Sequence[str]]:
    tool = [command("circle2circle"), str(source), str(target)]
    return {
        "cp": ["cp", str(source), str(target)],
        "circle2circle": tool,
        "circle2circle --O1": [*tool, "--O1"],
        "circle2circle --O1 --verify": [*tool, "--O1", "--verify"],
        "tfl-verify": [command("tfl-verify"), str(source)],
        "circlekit": _steps("circlekit", source, target),
    }


def _steps(program: str, source: Path, target: Path) -> Sequence[str]:
    return [sys.executable, "-m", "tools.bench.steps", program, str(source), str(target)]


LABELS = {"circlekit": "circlekit.{}", "objects": "flatbuffers object API, {}"}


def _rows(size: int, name: str, run: Run, copy: float) -> list[Row]:
    """One row, or one for each step of a program that tells them."""
    if name not in LABELS:
        return [Row(size, name, run.seconds, run.seconds / copy, run.resident, run.anonymous)]
    steps: Mapping[str, float] = json.loads(run.output)
    return [
        Row(size, LABELS[name].format(step), seconds, seconds / copy, run.resident, run.anonymous)
        for step, seconds in steps.items()
    ]
