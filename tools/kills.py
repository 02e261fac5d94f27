# SPDX-License-Identifier: Apache-2.0
"""Kill processes that save a model, at random moments, and check what they leave.

    python -m tools.kills 500 [--seed N] [--megabytes N] [--folder DIR]

Each process saves one of two models over the same output again and again until it is killed.  Then the output
must be one of the two files, byte for byte; and the next save must remove whatever temporary file was left.
"""

from __future__ import annotations

import argparse
import hashlib
import multiprocessing
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

import circlekit
from circlekit.ir.graph import Model
from tools.bench.large_model import make_model


def load_two(source: Path) -> list[Model]:
    """Return the model, and the model with one constant changed."""
    models = [circlekit.load(source), circlekit.load(source)]
    value = next(v for v in models[1].main.values() if v.is_const)
    value.data = np.asarray(value.array()) + 1
    return models


def save_until_killed(source: Path, output: Path) -> None:
    """Save both models in turn, without end."""
    models = load_two(source)
    while True:
        for model in models:
            circlekit.save(model, output)


def kill_one(source: Path, output: Path, delay: float) -> None:
    """Start a process that saves, and kill it ``delay`` seconds later."""
    process = multiprocessing.get_context("fork").Process(target=save_until_killed, args=(source, output))
    process.start()
    time.sleep(delay)
    process.kill()
    process.join()
    if process.exitcode is None or process.exitcode >= 0:
        raise SystemExit(f"the process ended by itself, with exit code {process.exitcode}")


def digest(path: Path) -> bytes:
    return hashlib.sha256(path.read_bytes()).digest()


def kill_many(count: int, seed: int, size: int, folder: Path) -> Counter[str]:
    """Kill ``count`` processes that save a model of ``size`` bytes in ``folder``; count what they leave."""
    source, output = folder / "source.circle", folder / "output.circle"
    make_model(source, size)
    complete = set()
    start = time.perf_counter()
    for model in load_two(source):
        circlekit.save(model, output)
        complete.add(digest(output))
    longest = 4 * (time.perf_counter() - start)
    random = np.random.default_rng(seed)
    found: Counter[str] = Counter()
    for _ in range(count):
        kill_one(source, output, random.uniform(0, longest))
        found["broken"] += digest(output) not in complete
        found["left a temporary file"] += len(list(folder.iterdir())) > 2
        circlekit.save(circlekit.load(source), output)
        found["left over after the next save"] += len(list(folder.iterdir())) > 2
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.kills", description="kill processes that save")
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--megabytes", type=int, default=16)
    parser.add_argument("--folder", type=Path, help="a folder on the file system to test")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=asked.folder, prefix="kills-") as folder:
        found = kill_many(asked.count, asked.seed, asked.megabytes << 20, Path(folder))
    print(f"{asked.count} kills: " + ", ".join(f"{number} {what}" for what, number in found.items()))
    return int(bool(found["broken"] or found["left over after the next save"]))


if __name__ == "__main__":
    sys.exit(main())
