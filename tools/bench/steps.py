# SPDX-License-Identifier: Apache-2.0
"""One model through one program's steps, as a process of its own: prints the seconds of each step as JSON.

    python -m tools.bench.steps circlekit IN OUT [--passes O1]
    python -m tools.bench.steps objects IN OUT

``objects`` is the object API of flatbuffers (the generated schema of ai-edge-litert), which is what a script
without circlekit would use.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


def circlekit_steps(source: Path, target: Path, passes: str) -> dict[str, float]:
    import circlekit.api  # its import is no step, and the other program is not to pay for it

    steps = Steps()
    model = steps.time("load", lambda: circlekit.load(source))
    if passes:
        steps.time("passes", lambda: circlekit.optimize(model, passes))
    steps.time("save", lambda: circlekit.save(model, target))
    return steps.seconds


def object_steps(source: Path, target: Path) -> dict[str, float]:
    import flatbuffers
    from ai_edge_litert.schema_py_generated import Model, ModelT

    steps = Steps()
    model = steps.time("load", lambda: ModelT.InitFromObj(Model.GetRootAsModel(source.read_bytes(), 0)))

    def save() -> None:
        builder = flatbuffers.Builder(source.stat().st_size)
        builder.Finish(model.Pack(builder), b"TFL3")
        target.write_bytes(builder.Output())

    steps.time("save", save)
    return steps.seconds


class Steps:
    """Seconds by the name of the step."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def time(self, name: str, call: Callable[[], T]) -> T:
        start = time.perf_counter()
        result = call()
        self.seconds[name] = time.perf_counter() - start
        return result


def main() -> None:
    parser = argparse.ArgumentParser(description="Time the steps of one program on one model.")
    parser.add_argument("program", choices=("circlekit", "objects"))
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--passes", default="", help="pipeline or passes to run between load and save")
    arguments = parser.parse_args()
    if arguments.program == "objects":
        seconds = object_steps(arguments.source, arguments.target)
    else:
        seconds = circlekit_steps(arguments.source, arguments.target, arguments.passes)
    print(json.dumps(seconds))


if __name__ == "__main__":
    main()
