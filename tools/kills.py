# SPDX-License-Identifier: Apache-2.0
"""Kill processes that save a model, at random moments, and check what they leave.

    python -m tools.kills 500 [--seed N] [--megabytes N] [--folder DIR]

Each process saves one of two models over the same output again and again until it is killed.  Then the
output must be one of the two files, byte for byte; and the next save must remove whatever temporary file
was left.
"""

from __future__ import annotations

import argparse
import hashlib
import multiprocessing
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

from circlekit.io.file_map import map_file
from circlekit.io.read.load import load
from circlekit.io.write.save import save
from circlekit.ir.graph import Model
from tools.bench.large_model import make_model

MEGABYTE = 1 << 20


class Tally(NamedTuple):
    """``hit``: kills that left a temporary file; ``broken``: outputs that are neither of the two files;
    ``left``: temporary files that remain after the next save.
    """

    kills: int = 0
    hit: int = 0
    broken: int = 0
    left: int = 0

    def __str__(self) -> str:
        hit = f"{self.hit} left a temporary file"
        return f"{self.kills} kills: {hit}, {self.broken} broken, {self.left} left over"


def changed(model: Model) -> Model:
    """Return ``model`` with one constant changed."""
    value = next(v for v in model.main.values() if v.is_const)
    value.data = np.asarray(value.array()) + 1
    return model


def save_until_killed(source: Path, output: Path) -> None:
    """Save two models in turn until killed."""
    models = [load(source), changed(load(source))]
    while True:
        for model in models:
            save(model, output)


def kill_one(source: Path, output: Path, delay: float) -> None:
    """Start a process that saves, and kill it ``delay`` seconds later."""
    process = multiprocessing.get_context("fork").Process(target=save_until_killed, args=(source, output))
    process.start()
    time.sleep(delay)
    process.kill()
    process.join()
    if process.exitcode != -signal.SIGKILL:
        raise SystemExit(f"the process ended by itself, with exit code {process.exitcode}")


def digest(path: Path) -> bytes:
    return hashlib.sha256(map_file(path)).digest()


def kill_many(count: int, seed: int, size: int, folder: Path) -> Tally:
    """Kill ``count`` processes that save a model of ``size`` bytes in ``folder``."""
    source, output = folder / "source.circle", folder / "output.circle"
    make_model(source, size)
    whole = []
    start = time.perf_counter()
    for model in (changed(load(source)), load(source)):
        save(model, output)
        whole.append(digest(output))
    longest = 4 * (time.perf_counter() - start)
    random = np.random.default_rng(seed)
    tally = Tally()
    for _ in range(count):
        kill_one(source, output, random.uniform(0, longest))
        broken = digest(output) not in whole
        hit = len(list(folder.iterdir())) > 2
        save(load(source), output)
        left = len(list(folder.iterdir())) > 2
        tally = Tally(tally.kills + 1, tally.hit + hit, tally.broken + broken, tally.left + left)
    return tally


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--megabytes", type=int, default=16)
    parser.add_argument("--folder", type=Path, help="folder on the file system to test")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder, prefix="kills-") as folder:
        size = arguments.megabytes * MEGABYTE
        tally = kill_many(arguments.count, arguments.seed, size, Path(folder))
    print(tally)
    return int(tally.broken or tally.left)


if __name__ == "__main__":
    sys.exit(main())
