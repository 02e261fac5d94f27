# SPDX-License-Identifier: Apache-2.0
"""Kill processes that save a model, at random moments, and check what they leave.

    python -m tools.kills 500 [--megabytes N] [--folder DIR]

Each process saves one of two models over the same output again and again until it is killed.  Then the output
must be one of the two files, byte for byte; and the next save must remove whatever temporary file was left.
"""

from __future__ import annotations

import argparse
import hashlib
import multiprocessing
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

import circlekit
from tools.bench.large_model import make_model


def save_in_turns(source: Path, output: Path, digests: set[bytes] | None = None) -> None:
    """Save two versions of a model over ``output`` in turn: for ever, or until ``digests`` has both."""
    models = [circlekit.load(source), circlekit.load(source)]
    value = next(v for v in models[1].main.values() if v.is_const)
    value.data = np.asarray(value.array()) + 1
    while digests is None or len(digests) < len(models):
        for model in models:
            circlekit.save(model, output)
            if digests is not None:
                digests.add(digest(output))


def digest(path: Path) -> bytes:
    return hashlib.sha256(path.read_bytes()).digest()


def kill_many(count: int, size: int, folder: Path) -> Counter[str]:
    """Kill ``count`` processes that save a model of ``size`` bytes in ``folder``; count what they leave."""
    source, output = folder / "source.circle", folder / "output.circle"
    make_model(source, size)
    complete: set[bytes] = set()
    start = time.perf_counter()
    save_in_turns(source, output, complete)
    longest = 4 * (time.perf_counter() - start)
    found: Counter[str] = Counter()
    for number in range(count):
        process = multiprocessing.get_context("fork").Process(target=save_in_turns, args=(source, output))
        process.start()
        time.sleep(random.Random(number).uniform(0, longest))
        process.kill()
        process.join()
        if process.exitcode is None or process.exitcode >= 0:
            raise SystemExit(f"the process ended by itself, with exit code {process.exitcode}")
        found["broken"] += digest(output) not in complete
        found["left a temporary file"] += len(list(folder.iterdir())) > 2
        circlekit.save(circlekit.load(source), output)
        found["left over after the next save"] += len(list(folder.iterdir())) > 2
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.kills", description="kill processes that save")
    parser.add_argument("count", type=int)
    parser.add_argument("--megabytes", type=int, default=16)
    parser.add_argument("--folder", type=Path, help="a folder on the file system to test")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=asked.folder, prefix="kills-") as folder:
        found = kill_many(asked.count, asked.megabytes << 20, Path(folder))
    print(f"{asked.count} kills: " + ", ".join(f"{number} {what}" for what, number in found.items()))
    return int(bool(found["broken"] or found["left over after the next save"]))


if __name__ == "__main__":
    sys.exit(main())
