# SPDX-License-Identifier: Apache-2.0
"""LiteRT with its XNNPACK delegate: partitions, delegated operators and latency before and after O1.

    python -m tools.bench.delegate [MODEL ...] [--only NAME] [--passes O1] [--target litert-xnnpack]

Without MODEL: the models of the shared folder.  "Before" is the model written to TFLite without passes,
"after" is with them.  The two files run on one thread, in turns, in one process.  A latency is the median of
all rounds; the ratio is the median of the ratios after / before of single rounds.  Latencies are processor
time of the thread, so other work on the machine hardly matters.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ai_edge_litert.interpreter import Interpreter as LiteRt

import circlekit
from circlekit.api.options import Options
from circlekit.equivalence.seeded_inputs import InputSet, make_inputs
from circlekit.ir.graph import Model
from tools.bench.interpreter import models, parser_of

ROUND_SECONDS = 1e-3
"""A round invokes each file equally often: once, or so often that the first file takes about this long."""

INSTANCES = 10
"""How often the interpreters are made anew: the place of their memory can double the latency of a file."""


class Delegation(NamedTuple):
    """What a delegate runs of the main graph.

    ``partitions``: the number of DELEGATE nodes; each runs a group of operators.  ``delegated``: how many
    operators are in partitions.  ``all``: how many there are.  ``others``: codes of those in no partition.
    """

    partitions: int
    delegated: int
    all: int
    others: tuple[str, ...]

    @property
    def share(self) -> float:
        return self.delegated / max(1, self.all)

    def __str__(self) -> str:
        return f"{self.partitions} | {self.delegated}/{self.all}"


def delegation(content: bytes) -> Delegation:
    """Return what the delegate runs of the main graph of a TFLite file.

    An operator is delegated if it lies between the inputs and the outputs of a DELEGATE node.
    """
    nodes = start(content)._get_ops_details()
    parts = [node for node in nodes if node["op_name"] == "DELEGATE"]
    ops = [node for node in nodes if node["op_name"] != "DELEGATE"]
    producers = {tensor: node for node in ops for tensor in node["outputs"].tolist() if tensor >= 0}
    delegated: set[int] = set()
    for part in parts:
        inputs = set(part["inputs"].tolist())
        reached = part["outputs"].tolist()
        while reached:
            tensor = reached.pop()
            node = producers.get(tensor)
            if tensor not in inputs and node is not None and node["index"] not in delegated:
                delegated.add(node["index"])
                reached += node["inputs"].tolist()
    others = tuple(node["op_name"] for node in ops if node["index"] not in delegated)
    return Delegation(len(parts), len(delegated), len(ops), others)


def start(content: bytes) -> Any:
    """Return LiteRT's interpreter of a TFLite file, with one thread and its default delegate."""
    interpreter = LiteRt(model_content=content, num_threads=1)
    interpreter.allocate_tensors()
    return interpreter


def written(model: Model, passes: Sequence[str] = (), target: str | None = None) -> bytes:
    """Return the TFLite file of ``model`` after ``passes`` for ``target``."""
    with tempfile.TemporaryDirectory() as folder:
        source, result = Path(folder, f"source.{model.format}"), Path(folder, "result.tflite")
        circlekit.save(model, source)
        circlekit.convert(source, result, Options(passes=passes, target=target))
        return result.read_bytes()


def latencies(model: Model, files: Sequence[bytes], seconds: float) -> list[list[float]]:
    """Return, for each of ``files``, the seconds of one invocation in each round.

    ``files``: TFLite files of ``model``.  ``seconds``: how long to measure all of them together.
    """
    rounds: list[list[float]] = [[] for _ in files]
    arrays = make_inputs(model.main, InputSet("normal"))
    order = list(range(len(files)))
    for _ in range(INSTANCES):
        order.reverse()
        interpreters = {index: start(files[index]) for index in order}
        for interpreter in interpreters.values():
            for detail, array in zip(interpreter.get_input_details(), arrays, strict=True):
                interpreter.set_tensor(detail["index"], array)
            interpreter.invoke()
        count = max(1, round(ROUND_SECONDS / _seconds(interpreters[0], 3)))
        started = time.perf_counter()
        while time.perf_counter() - started < seconds / INSTANCES:
            order.reverse()
            for index in order:
                rounds[index].append(_seconds(interpreters[index], count))
    return rounds


def _seconds(interpreter: Any, count: int) -> float:
    """Invoke the interpreter ``count`` times; return the mean processor time of an invocation, in seconds."""
    before = time.thread_time()
    for _ in range(count):
        interpreter.invoke()
    return (time.thread_time() - before) / count


def main(argv: Sequence[str] | None = None) -> int:
    """Print a row for each model.

    Return 1 if some model has more partitions, or fewer delegated operators in proportion, after the passes.
    """
    parser = parser_of("delegate", "partitions and latency in LiteRT with XNNPACK")
    parser.add_argument("--passes", nargs="+", default=["O1"])
    parser.add_argument("--target", default="litert-xnnpack")
    asked = parser.parse_args(argv)
    print("| model | partitions | delegated | after | delegated | ms | after | ratio | not delegated |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |")
    is_worse = False
    for name, model in models(asked):
        files = [written(model), written(model, asked.passes, asked.target)]
        before, after = map(delegation, files)
        rounds = latencies(model, files, asked.seconds)
        ms = [f"{1e3 * statistics.median(found):.4f}" for found in rounds]
        ratio = statistics.median(b / a for a, b in zip(*rounds, strict=True))
        is_worse |= after.partitions > before.partitions or after.share < before.share
        others = ", ".join(dict.fromkeys(after.others))
        print(f"| {name} | {before} | {after} | {' | '.join(ms)} | {ratio:.2f} | {others} |", flush=True)
    return int(is_worse)


if __name__ == "__main__":
    sys.exit(main())
